"use strict";
(() => {
  const site = globalThis.wallproofSite;
  const watch = document.documentElement.dataset;
  const most = 100; // rows that a filter over several pages shows

  // Filter of a list: hides rows without the words, says how many are left. A list
  // of several pages is searched as a whole, by the file that holds all of it.
  for (const filter of document.querySelectorAll("[data-filter]")) {
    const table = document.getElementById(filter.dataset.filter);
    const rows = [...table.querySelectorAll("[data-text]")];
    const count = document.querySelector("[data-filter-count]");
    const input = filter.querySelector("input");
    const pick = filter.querySelector("select");
    const words = () => input.value.toLowerCase().split(/\s+/).filter(Boolean);
    const say = (left, all) => { if (count) count.textContent = left + " of " + all + " shown"; };

    function here() {
      const asked = words();
      let left = 0;
      for (const row of rows) {
        const fits = asked.every((word) => row.dataset.text.includes(word)) && (!pick || !pick.value || row.dataset.kind === pick.value);
        row.hidden = !fits;
        if (fits) left++;
      }
      say(left, rows.length);
    }

    // The file has to be of the state that the status file names, as last compared.
    let list;
    async function everywhere() {
      if (!words().length && !(pick && pick.value)) {
        for (const row of table.querySelectorAll("[data-found]")) row.remove();
        return here();
      }
      if (!list || list.of !== watch.fleet) list = { of: watch.fleet, file: site.fetchJSON(filter.dataset.all, "wallproof.fleet/v1") };
      const mine = list;
      const { attestations: all, fleet } = await mine.file || {};
      if (mine !== list) return; // asked for again meanwhile
      if (!Array.isArray(all)) { list = undefined; return here(); }
      const asked = words();
      const found = all.filter((a) => (!pick.value || a.state === pick.value) && asked.every((word) => textOf(a).includes(word)));
      for (const row of table.querySelectorAll("[data-found]")) row.remove();
      for (const row of rows) row.hidden = true;
      for (const a of found.slice(0, most)) table.tBodies[0].append(rowOf(a, fleet === watch.fleet && !watch.withdrawn));
      say(Math.min(found.length, most) + (found.length > most ? " of the " + found.length + " found" : ""), all.length);
    }

    const apply = filter.dataset.all && location.protocol !== "file:" ? everywhere : here;
    filter.hidden = false;
    filter.addEventListener("submit", (e) => e.preventDefault());
    input.addEventListener("input", apply);
    if (pick) pick.addEventListener("change", apply);
  }

  const textOf = (a) => (a.text ||= [a.name, a.subject, a.attestation, a.word, ...(a.codes || [])].join(" ").toLowerCase());

  function element(name, text, label) {
    const e = document.createElement(name);
    e.textContent = text || "";
    if (label) e.dataset.label = label;
    return e;
  }

  // rowOf is a row of the list. One with a claim ages as those of the page do.
  function rowOf(a, sound) {
    const stale = a.claim && (!sound || site.expired(a.expires) || watch.drifted === a.name);
    const claim = element("td", a.claim && !stale ? "" : "not shown", "Critical escapes");
    const row = element("tr");
    row.dataset.found = "";
    if (a.claim && !stale) {
      row.dataset.rowExpires = a.expires;
      claim.append(element("span", a.claim.split(" ")[0]));
      claim.firstChild.dataset.rowClaim = "";
    }
    const name = element("th");
    name.scope = "row";
    const link = element("a");
    for (const part of (a.name || "Evidence that does not verify").split(/(?<=[/.:_@])/)) link.append(part, element("wbr"));
    if (/^\.\.\/attestations\/[0-9a-f/]+\.html$/.test(a.page)) link.href = a.page;
    const digest = element("span", (a.subject || a.attestation).slice(0, 19) + "\u2026");
    digest.className = "soft digest";
    name.append(link, digest);
    const state = element("td", "", "State");
    state.append(stale ? document.getElementById("stale-chip").content.cloneNode(true) : chip(a));
    if (a.codes) {
      const codes = element("span", " ");
      codes.className = "soft small";
      a.codes.forEach((code, i) => {
        const unit = element("span", code + (i + 1 < a.codes.length ? "," : ""));
        unit.className = "unit";
        codes.append(unit, " ");
      });
      state.append(codes);
    }
    row.append(name, state, claim,
      element("td", (a.collected || "").slice(0, 10), "Collected"), element("td", (a.expires || "").slice(0, 10), "Valid until"));
    return row;
  }

  function chip(a) {
    const space = "http://www.w3.org/2000/svg";
    const glyph = document.createElementNS(space, "svg");
    glyph.setAttribute("class", "glyph");
    glyph.setAttribute("aria-hidden", "true");
    const use = document.createElementNS(space, "use");
    use.setAttribute("href", "#g-" + a.glyph);
    glyph.append(use);
    const c = element("span");
    c.className = "chip " + a.class;
    c.append(glyph, a.word);
    return c;
  }
})();
