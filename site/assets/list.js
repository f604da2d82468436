"use strict";
// A list of attestations ages as the claims in it do: a row whose claim is over, or
// that the publisher's files no longer support, loses it.
(() => {
  const { texts, hour, expired, fetchJSON, older, liveOf, flat } = globalThis.wallproofSite;
  const watch = document.documentElement.dataset;
  const chip = document.getElementById("stale-chip");
  const link = (row) => row.querySelector("a");

  // Rows with a claim.
  const claims = () => [...document.querySelectorAll("[data-row-expires]")];

  function age(rows, code) {
    if (!rows.length) return;
    for (const row of rows) {
      const why = Object.assign(document.createElement("span"), { className: "soft small", textContent: code });
      row.querySelector(".chip").replaceWith(chip.content.cloneNode(true), " ", why);
      row.querySelector("[data-row-claim]").replaceWith("not shown");
      delete row.dataset.rowExpires;
    }
    uncount();
    const notice = document.querySelector("[data-list-notice]");
    notice.hidden = false;
    notice.textContent = texts[code];
    watch.stale = code;
  }
  // uncount takes the totals away, which count what is no longer so.
  function uncount() {
    for (const sum of document.querySelectorAll("[data-row-totals]")) sum.remove();
  }

  let timer;
  function tick() {
    age(claims().filter((row) => expired(row.dataset.rowExpires)), "expired");
    const ends = claims().map((row) => Date.parse(row.dataset.rowExpires) - Date.now());
    clearTimeout(timer);
    if (ends.length) timer = setTimeout(tick, Math.min(hour, Math.max(Math.min(...ends), 0) + 50));
  }

  // The list is not what it was: rows that are as they were keep their claims.
  async function changed(fleet) {
    const now = await fetchJSON("fleet.json", "wallproof.fleet/v1");
    const known = now && now.fleet === fleet && Array.isArray(now.attestations) ? now.attestations : [];
    const shown = new Set(known.filter((a) => a.claim).map((a) => a.page));
    uncount();
    age(claims().filter((row) => !shown.has(link(row).getAttribute("href"))), "page-outdated");
    watch.fleet = fleet;
  }

  // The status file names the state of the whole list. live.json is about the image
  // that the status file is about.
  async function compare() {
    tick();
    if (!claims().length || location.protocol === "file:") return;
    const status = await fetchJSON(watch.list, "wallproof.status/v1");
    if (!status) return;
    if (!status.schema) return age(claims(), "status-missing");
    if (older(status.checked, watch.checked)) return age(claims(), "status-outdated");
    if (status.fleet !== watch.fleet) await changed(status.fleet);
    tick();
    const live = watch.live && await fetchJSON(watch.live, "wallproof.live/v1");
    const code = live && liveOf(live, status.subject, status.policy, flat(status.fabric || {}));
    if (!code) return;
    watch.drifted = status.name;
    age(claims().filter((row) => link(row).textContent === status.name), code);
  }

  compare();
  setInterval(compare, 5 * 60e3);
  document.addEventListener("visibilitychange", () => { if (!document.hidden) compare(); });
})();
