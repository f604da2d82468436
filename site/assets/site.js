"use strict";
// Everything here takes claims away or helps with reading. Nothing is shown by
// script that the page does not already say without it.
(() => {
  const root = document.documentElement;
  const watch = root.dataset;
  const all = (s) => document.querySelectorAll(s);

  // Colour scheme.
  const toggle = document.querySelector("[data-scheme-toggle]");
  if (toggle) {
    toggle.hidden = false;
    toggle.addEventListener("click", () => {
      const dark = watch.scheme ? watch.scheme === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
      watch.scheme = dark ? "light" : "dark";
      try { localStorage.setItem("scheme", watch.scheme); } catch { /* lasts for this page only */ }
    });
  }

  const hour = 3600e3;

  // A static page ages. These texts go with the reason codes of the verifier.
  const drift = (what) => `The ${what} now is not the one that was attested.`;
  const texts = {
    "expired": "The attestation has expired since this page was built.",
    "image-drift": drift("image that is deployed"),
    "policy-drift": drift("egress policy that is in force"),
    "fabric-drift": drift("sandbox fabric that is in use"),
    "status-missing": "The publisher's host lacks the files that this page is compared with.",
    "status-outdated": "The publisher's host gives a state that is older than this page.",
    "page-outdated": "The claim has changed since this page was built. Reload it.",
  };

  let stale = false;
  function withdraw(code) {
    if (stale) return;
    stale = true;
    const notice = document.getElementById("stale");
    const record = document.querySelector("[data-claim] .record");
    for (const claim of all("[data-claim]")) claim.remove();
    if (notice) {
      const shown = notice.content.cloneNode(true);
      shown.querySelector("[data-stale-text]").textContent = texts[code] || "The publisher's status file no longer supports this claim.";
      shown.querySelector("[data-stale-code]").textContent = code;
      if (record) {
        record.classList.add("held");
        record.querySelector("h2").textContent = "On record";
        shown.querySelector(".wrap").append(record);
      }
      document.getElementById("main").prepend(shown);
    }
    document.title = "Stale, not shown \u00b7 " + watch.title;
    document.querySelector("meta[name=description]").content = texts[code] || "";
    root.dataset.stale = code;
  }

  // By the reader's clock, or by the host's where that is ahead.
  let ahead = 0;
  const expired = (time) => !(Date.now() + ahead < Date.parse(time));

  // Rows of lists that carry an expiry of their own.
  function ageRows() {
    const chip = document.getElementById("stale-chip");
    for (const row of all("[data-row-expires]")) {
      if (!expired(row.dataset.rowExpires)) continue;
      const old = row.querySelector(".chip");
      if (chip && old) old.replaceWith(chip.content.cloneNode(true));
      const claim = row.querySelector("[data-row-claim]");
      if (claim) claim.replaceWith("not shown");
      delete row.dataset.rowExpires;
    }
  }

  // A host that cannot be reached, or fails for the moment, gives null: the
  // expiry still counts. One that answers without the file gives an object
  // without a schema.
  async function fetchJSON(path, schema) {
    let text;
    try {
      const answer = await fetch(path, { cache: "no-store", credentials: "omit" });
      ahead = Math.max(ahead, Date.parse(answer.headers.get("date")) - Date.now() || 0);
      if (answer.status === 404 || answer.status === 410) return {};
      if (!answer.ok) return null;
      text = await answer.text();
    } catch {
      return null;
    }
    try {
      const json = JSON.parse(text);
      return json && json.schema === schema ? json : {};
    } catch {
      return {};
    }
  }

  // What a host gives may lag behind a page for a while, but not for a day.
  const older = (time, page) => page && !(Date.parse(page) - Date.parse(time) < 24 * hour);

  // A member that live.json does not have is not compared.
  function drifted(live) {
    const attested = Object.fromEntries(watch.fabric.split(" ").map((pair) => pair.split("=").map(decodeURIComponent)));
    const { isolation, ...rest } = live;
    for (const name in isolation) rest["." + name] = isolation[name];
    if (isolation) for (const name in attested) if (name[0] === "." && !(name in rest)) return true;
    return Object.keys(rest).some((name) => rest[name] !== (attested[name] || ""));
  }

  async function compare() {
    if (stale || location.protocol === "file:") return;
    const status = await fetchJSON(watch.status, "wallproof.status/v1");
    if (status && !status.schema) withdraw("status-missing");
    else if (status && status.attestation !== watch.attestation) withdraw("page-outdated");
    else if (status && (status.state !== watch.state || String(status.codes) !== watch.codes)) withdraw((status.codes || []).find((c) => !watch.codes.split(",").includes(c)) || "page-outdated");
    else if (expired(watch.expires) || status && status.expires && expired(status.expires)) withdraw("expired");
    else if (status && older(status.checked, watch.checked)) withdraw("status-outdated");
    if (!watch.live || stale) return;
    const live = await fetchJSON(watch.live, "wallproof.live/v1");
    if (live && !live.schema) withdraw("status-missing");
    else if (live && older(live.generated, watch.generated)) withdraw("status-outdated");
    else if (live && live.image && live.image !== watch.image) withdraw("image-drift");
    else if (live && live.policy && live.policy !== watch.policy) withdraw("policy-drift");
    else if (live && live.fabric && drifted(live.fabric)) withdraw("fabric-drift");
  }

  function tick() {
    ageRows();
    if ("watch" in watch && !stale && expired(watch.expires)) withdraw("expired");
    let next = hour;
    const ends = [...all("[data-row-expires]")].map((row) => row.dataset.rowExpires);
    if ("watch" in watch && !stale) ends.push(watch.expires);
    for (const end of ends) next = Math.min(next, Math.max(Date.parse(end) - Date.now(), 0) + 50);
    if (ends.length) setTimeout(tick, next);
  }
  tick();
  if ("watch" in watch && !stale) {
    compare();
    setInterval(compare, 5 * 60e3);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) { tick(); compare(); } });
  }

  // A printed page has everything open.
  addEventListener("beforeprint", () => { for (const item of all("details")) item.open = true; });
})();
