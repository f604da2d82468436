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
        record.querySelector(".life")?.remove();
        shown.querySelector(".wrap").append(record);
      }
      document.getElementById("main").prepend(shown);
    }
    document.title = "Stale, not shown \u00b7 " + watch.title;
    document.querySelector("meta[name=description]").content = texts[code] || "";
    root.dataset.stale = code;
  }

  // By the reader's clock, or by the host's or the page's own where that is ahead.
  let ahead = Math.max(0, Date.parse(watch.checked) - Date.now() || 0);
  const expired = (time) => !(Date.now() + ahead < Date.parse(time));

  // A host that cannot be reached, or fails for the moment, gives null: the
  // expiry still counts. One that answers without the file gives an object
  // without a schema.
  async function fetchJSON(path, schema) {
    let text;
    try {
      const answer = await fetch(path, { cache: "no-store", credentials: "omit" });
      ahead = Math.max(ahead, Date.parse(answer.headers.get("date")) - Date.now() || 0);
      if (answer.status > 499 || [408, 425, 429].includes(answer.status)) return null;
      text = answer.ok ? await answer.text() : "";
    } catch {
      return null;
    }
    try {
      const json = JSON.parse(text);
      return json.schema === schema ? json : {};
    } catch {
      return {};
    }
  }

  // What a host gives may lag behind a page for a while, but not for a day.
  const older = (time, page) => page && !(Date.parse(page) - Date.parse(time) < 24 * hour);

  // What differs between what is deployed and what was attested. A member that
  // live.json does not have is not compared.
  const flat = ({ isolation, ...rest }) => {
    for (const name in isolation) rest["." + name] = isolation[name];
    return rest;
  };
  function driftOf(live, image, policy, fabric) {
    if (live.image && live.image !== image) return "image-drift";
    if (live.policy && live.policy !== policy) return "policy-drift";
    const now = flat(live.fabric || {});
    const lost = (name) => live.fabric && live.fabric.isolation && name[0] === "." && !(name in now);
    return Object.keys(now).some((name) => now[name] !== (fabric[name] || "")) || Object.keys(fabric).some(lost) ? "fabric-drift" : "";
  }

  // statusOf is why a status file does not support the page, or "".
  function statusOf(status) {
    if (!status.schema || !Array.isArray(status.codes)) return "status-missing";
    if (status.attestation !== watch.attestation) return "page-outdated";
    if (status.state !== watch.state || String(status.codes) !== watch.codes) return status.codes.find((c) => !watch.codes.split(",").includes(c)) || "page-outdated";
    if (status.expires && expired(status.expires)) return "expired";
    return older(status.checked, watch.checked) ? "status-outdated" : "";
  }

  // liveOf is why a live.json does not, or "".
  function liveOf(live, image, policy, fabric) {
    if (!live.schema) return "status-missing";
    return older(live.generated, watch.generated) ? "status-outdated" : driftOf(live, image, policy, fabric);
  }

  async function compare() {
    if (stale || location.protocol === "file:") return;
    const status = await fetchJSON(watch.status, "wallproof.status/v1");
    const code = status && statusOf(status) || expired(watch.expires) && "expired";
    if (code) withdraw(code);
    if (!watch.live || stale) return;
    const live = await fetchJSON(watch.live, "wallproof.live/v1");
    const attested = Object.fromEntries(watch.fabric.split(" ").map((pair) => pair.split("=").map(decodeURIComponent)));
    const drift = live && liveOf(live, watch.image, watch.policy, attested);
    if (drift) withdraw(drift);
  }

  let timer;
  function tick() {
    if (stale) return;
    if (expired(watch.expires)) return withdraw("expired");
    clearTimeout(timer);
    timer = setTimeout(tick, Math.min(hour, Math.max(Date.parse(watch.expires) - Date.now(), 0) + 50));
  }
  if ("watch" in watch) {
    tick();
    compare();
    setInterval(compare, 5 * 60e3);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) { tick(); compare(); } });
  }
  // For the scripts of other pages.
  globalThis.wallproofSite = { texts, hour, expired, fetchJSON, older, liveOf, flat };

  // A printed page has everything open.
  addEventListener("beforeprint", () => { for (const item of all("details")) item.open = true; });
})();
