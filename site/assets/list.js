"use strict";
// A list of attestations ages as the claims in it do: a row whose claim is over, or
// that the publisher's files no longer support, loses it.
(() => {
  const { texts, expired, behind, wait, keep, fetchJSON, older, sure, liveOf, flat } = globalThis.wallproofSite;
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
  // none takes the claims of the whole list away, those that a filter finds later too.
  function none(code) {
    watch.withdrawn = code;
    age(claims(), code);
  }
  // uncount takes the totals away, which count what is no longer so.
  function uncount() {
    for (const sum of document.querySelectorAll("[data-row-totals]")) sum.remove();
  }

  let timer;
  function tick() {
    age(claims().filter((row) => expired(row.dataset.rowExpires)), "expired");
    if (location.protocol === "file:" && behind()) none("clock-behind");
    const ends = claims().map((row) => Date.parse(row.dataset.rowExpires));
    clearTimeout(timer);
    if (ends.length) timer = setTimeout(tick, wait(Math.min(...ends)));
  }

  // The list is not what it was: rows that are as they were keep their claims.
  async function changed(fleet) {
    const now = await fetchJSON("fleet.json", "wallproof.fleet/v1");
    const known = now && fleet && now.fleet === fleet && Array.isArray(now.attestations) ? now.attestations : [];
    const shown = new Set(known.filter((a) => a?.claim).map((a) => a.page));
    uncount();
    age(claims().filter((row) => !shown.has(link(row).getAttribute("href"))), "page-outdated");
    watch.fleet = fleet;
  }

  // The status file names the state of the whole list. live.json is about the image
  // that the status file is about.
  async function compare() {
    if (watch.withdrawn || location.protocol === "file:") return;
    const status = await fetchJSON(watch.list, "wallproof.status/v1");
    if (!status) return behind() && none("clock-behind");
    if (!status.schema) return none("status-missing");
    if (older(status.checked, watch.checked)) return none("status-outdated");
    if (status.fleet !== watch.fleet) await changed(status.fleet);
    tick();
    if (behind()) return none("clock-behind");
    const live = watch.live && await fetchJSON(watch.live, "wallproof.live/v1");
    const code = live && sure(liveOf, live, status.subject, status.policy, flat(status.fabric || {}));
    if (!code) return;
    watch.drifted = status.name;
    age(claims().filter((row) => link(row).textContent === status.name), code);
  }

  keep(tick, compare);
})();
