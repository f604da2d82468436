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
    "clock-behind": "This device's clock is set to a time before this page was made, so the page cannot tell whether the attestation has expired.",
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

  // The time now: by the reader's clock; or by a time that is known to have been, the
  // page's own or one that the host gave, and what has passed since, where that is
  // ahead. A clock that is set back, before or while the page is open, revives nothing.
  let latest = -Infinity;
  let noted = 0;
  function now(known) {
    const passed = performance.now();
    latest = Math.max(Date.now(), latest + passed - noted, known || 0);
    noted = passed;
    return latest;
  }
  const made = Date.parse(watch.checked || watch.known);
  now(made);
  const expired = (time) => !(now() < Date.parse(time));
  // A clock that is behind says nothing of an expiry, unless the host says what time it is.
  let told = false;
  const behind = () => !told && Date.now() < made - 24 * hour;
  // wait is how long until something is looked at again: a device that slept, or whose
  // clock was set, is noticed soon.
  const wait = (time) => Math.min(15e3, Math.max(time - now(), 0) + 50);

  // An answer that is longer than any file of a site is none.
  const longest = 16e6;
  async function textOf(answer) {
    const decoder = new TextDecoder();
    let text = "";
    for (const reader = answer.body.getReader(); text.length < longest;) {
      const { done, value } = await reader.read();
      if (done) return text;
      text += decoder.decode(value, { stream: true });
    }
    return "";
  }

  // A host that cannot be reached, or fails for the moment, gives null: the
  // expiry still counts. One that answers without the file, or leads elsewhere,
  // gives an object without a schema.
  async function fetchJSON(path, schema) {
    const ask = (redirect) => fetch(path, { cache: "no-store", credentials: "omit", redirect, signal: AbortSignal.timeout(60e3) });
    let text;
    try {
      let answer = await ask("manual");
      if (answer.type === "opaqueredirect") answer = await ask("follow").catch(() => Response.error());
      const date = Date.parse(answer.headers.get("date"));
      if (date) told = true;
      now(date);
      if (answer.status > 499 || [408, 425, 429].includes(answer.status)) return null;
      text = answer.ok ? await textOf(answer) : "";
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
    const odd = [live.image, live.policy].some((v) => typeof (v ?? "") !== "string") || typeof (live.fabric ?? {}) !== "object" || Array.isArray(live.fabric);
    if (!live.schema || odd) return "status-missing";
    return older(live.generated, watch.generated) ? "status-outdated" : driftOf(live, image, policy, fabric);
  }

  // sure judges a file; what makes no sense is as good as missing.
  function sure(judge, ...what) {
    try { return judge(...what); } catch { return "status-missing"; }
  }

  async function compare() {
    if (stale || location.protocol === "file:") return;
    const status = await fetchJSON(watch.status, "wallproof.status/v1");
    const code = status && sure(statusOf, status) || expired(watch.expires) && "expired" || behind() && "clock-behind";
    if (code) withdraw(code);
    if (!watch.live || stale) return;
    const live = await fetchJSON(watch.live, "wallproof.live/v1");
    const attested = Object.fromEntries(watch.fabric.split(" ").map((pair) => (pair.includes("=") ? pair : pair + "=yes").split("=").map(decodeURIComponent)));
    const drift = live && sure(liveOf, live, watch.image, watch.policy, attested);
    if (drift) withdraw(drift);
  }

  let timer;
  function tick() {
    if (stale) return;
    if (expired(watch.expires)) return withdraw("expired");
    if (location.protocol === "file:" && behind()) return withdraw("clock-behind");
    clearTimeout(timer);
    timer = setTimeout(tick, wait(Date.parse(watch.expires)));
  }

  // keep calls look at once, and each time after which a page may have been away:
  // hidden, asleep, kept for the way back, without a network. What is printed is
  // looked at before.
  function keep(look, ask) {
    const both = () => { look(); ask(); };
    both();
    setInterval(ask, 5 * 60e3);
    document.addEventListener("visibilitychange", () => { if (!document.hidden) both(); });
    addEventListener("pageshow", (e) => { if (e.persisted) both(); });
    addEventListener("online", both);
    for (const now of ["focus", "beforeprint"]) addEventListener(now, look);
  }
  if ("watch" in watch) keep(tick, compare);
  // What stands in the text for a reader whose browser does not run this.
  for (const item of all("[data-unscripted]")) item.remove();
  // For the scripts of other pages.
  globalThis.wallproofSite = { texts, expired, behind, wait, keep, fetchJSON, older, sure, liveOf, flat };

  // A printed page has everything open.
  addEventListener("beforeprint", () => { for (const item of all("details")) item.open = true; });
})();
