"use strict";
// The verify page: loads the verifier on demand, reads files that the reader
// chooses, shows the report. Nothing is sent anywhere.
(() => {
  const box = document.querySelector("[data-verify]");
  if (!box) return;
  const at = (name) => box.querySelector("[data-" + name + "]");
  const set = box.dataset;
  const local = location.protocol === "file:";

  for (const item of box.querySelectorAll("[data-drop], [data-keys]")) item.hidden = false;
  if (local && !set.packetScript) at("own").hidden = true;
  if (!set.packet) at("own").hidden = true;

  const verdict = at("verdict");
  const checks = at("checks");
  const progress = at("progress");

  function element(name, text, className) {
    const e = document.createElement(name);
    if (text) e.textContent = text;
    if (className) e.className = className;
    return e;
  }
  function chip(word, glyph, className) {
    const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
    svg.setAttribute("class", "glyph");
    svg.setAttribute("aria-hidden", "true");
    const use = document.createElementNS("http://www.w3.org/2000/svg", "use");
    use.setAttribute("href", "#g-" + glyph);
    svg.append(use);
    const c = element("span", "", "chip " + className);
    c.append(svg, word);
    return c;
  }
  const painted = () => new Promise((done) => requestAnimationFrame(() => setTimeout(done, 0)));
  function step(text, part) {
    progress.hidden = false;
    at("progress-text").textContent = text;
    const meter = progress.querySelector("progress");
    if (part === undefined) meter.removeAttribute("value");
    else meter.value = part;
  }

  function script(path) {
    return new Promise((done, fail) => {
      const s = document.createElement("script");
      s.src = path;
      s.onload = done;
      s.onerror = () => fail(new Error("cannot load " + path));
      document.head.append(s);
    });
  }
  function fromBase64(text) {
    const raw = atob(text);
    const out = new Uint8Array(raw.length);
    for (let i = 0; i < raw.length; i++) out[i] = raw.charCodeAt(i);
    return out;
  }

  // The compressed module comes by fetch from a server, and by script from a
  // folder, where fetch is not allowed.
  async function compressed() {
    const size = Number(set.size);
    if (!local) {
      const answer = await fetch(set.module, { credentials: "omit" });
      if (!answer.ok) throw new Error("cannot load the verifier: " + answer.status);
      const parts = [];
      let got = 0;
      for (const reader = answer.body.getReader(); ;) {
        const { done, value } = await reader.read();
        if (done) break;
        parts.push(value);
        got += value.length;
        step("Loading the verifier, " + megabytes(got) + " of " + megabytes(size), got / size);
      }
      return new Blob(parts);
    }
    globalThis.wallproofParts = [];
    const count = Number(set.parts);
    for (let i = 0; i < count; i++) {
      step("Loading the verifier", i / count);
      await script(set.fallback + i + ".js");
    }
    return new Blob(globalThis.wallproofParts.splice(0).map(fromBase64));
  }
  const megabytes = (n) => (n / 1e6).toFixed(1) + " MB";

  let loading;
  function verifier() {
    loading ||= (async () => {
      step("Loading the verifier", 0);
      if (!globalThis.Go) await script(set.exec);
      const blob = await compressed();
      step("Starting the verifier");
      await painted();
      const bytes = await new Response(blob.stream().pipeThrough(new DecompressionStream("gzip"))).arrayBuffer();
      const go = new globalThis.Go();
      const { instance } = await WebAssembly.instantiate(bytes, go.importObject);
      go.run(instance);
      return globalThis.wallproof;
    })();
    loading.catch(() => { loading = undefined; });
    return loading;
  }

  const now = () => new Date().toISOString().replace(/\.\d+Z/, "Z");
  function options() {
    const key = at("key").value.trim();
    return { key, identity: key ? "" : at("identity").value.trim(), issuer: key ? "" : at("issuer").value.trim(), at: now() };
  }

  let packet;
  async function run(files, asked, name) {
    const engine = await verifier();
    step("Verifying");
    await painted();
    const answer = JSON.parse(engine.verify(files, JSON.stringify(asked)));
    progress.hidden = true;
    show(answer, name);
    return answer;
  }

  const words = {
    valid: ["Valid", "signed", "good", "Genuine, and everything that it claims still holds."],
    held: ["Held", "held", "hold", "Genuine, but the claim must not be shown."],
    invalid: ["Invalid", "invalid", "alarm", "Forged, damaged, or not verifiable."],
  };
  const results = { pass: ["Pass", "signed", "good"], held: ["Held", "held", "hold"], fail: ["Fail", "invalid", "alarm"], "not-checked": ["Not checked", "none", "plain"] };

  // A message, its digests in the letters of digests.
  function message(text) {
    return text.split(/(sha256:[0-9a-f]{64})/).map((part, i) => i % 2 ? element("code", part, "digest") : part);
  }

  function show(answer, name) {
    verdict.replaceChildren();
    verdict.dataset.verdict = verdict.dataset.codes = "";
    checks.replaceChildren();
    if (answer.error) {
      const n = element("div", "", "notice alarm");
      n.append(element("p", answer.error));
      verdict.append(n);
      return;
    }
    const r = answer.report;
    const [word, glyph, kind, text] = words[r.verdict];
    const n = element("div", "", "notice " + (r.verdict === "invalid" ? "alarm" : r.verdict === "held" ? "" : "fine"));
    const head = element("h3");
    head.append(chip(word, glyph, kind), " ", name);
    n.append(head, element("p", text));
    const why = r.checks.filter((c) => c.status === "fail" || c.status === "held");
    for (const c of why) {
      const p = element("p");
      p.append(element("span", c.code, "code"), " ", ...message(c.message.replace(c.code + ": ", "")));
      n.append(p);
    }
    verdict.append(n);
    verdict.dataset.verdict = r.verdict;
    verdict.dataset.codes = why.map((c) => c.code).join(" ");
    table(r.checks);
  }

  function table(list) {
    const t = element("table", "", "cards");
    const head = element("tr");
    for (const title of ["Check", "Result", "What was found"]) {
      const th = element("th", title);
      th.scope = "col";
      head.append(th);
    }
    const thead = element("thead");
    thead.append(head);
    const body = element("tbody");
    for (const c of list) {
      const row = element("tr");
      const th = element("th", c.name);
      th.scope = "row";
      const result = element("td");
      result.dataset.label = "Result";
      result.append(chip(...results[c.status]));
      const found = element("td");
      found.dataset.label = "Found";
      found.append(...message(c.message), " ", element("span", c.code, "code"));
      row.append(th, result, found);
      body.append(row);
    }
    t.append(thead, body);
    const scroll = element("div", "", "scroll");
    scroll.tabIndex = 0;
    scroll.setAttribute("role", "region");
    scroll.setAttribute("aria-label", "Checks");
    scroll.append(t);
    checks.append(scroll);
  }

  function offerTampers() {
    const list = at("tamper");
    if (list.childElementCount) return;
    for (const t of globalThis.wallproofTampers) {
      if (t.needs && !t.needs(packet)) continue;
      const b = element("button", t.title, "act quiet");
      b.type = "button";
      b.dataset.tamper = t.id;
      b.addEventListener("click", () => guarded(async () => {
        const changed = t.apply({ files: packet, options: options() });
        await run(changed.files, changed.options, "Tampered: " + t.title.toLowerCase());
      }));
      list.append(b);
    }
    at("tamper-note").hidden = false;
    list.hidden = false;
  }

  async function guarded(work) {
    box.setAttribute("aria-busy", "true");
    try { await work(); } catch (e) {
      progress.hidden = true;
      show({ error: e.message });
    } finally { box.removeAttribute("aria-busy"); }
  }

  async function take(files, name) {
    packet = files;
    const answer = await run(files, options(), name);
    if (answer.report && answer.report.verdict !== "invalid") offerTampers();
    return answer;
  }

  const contentOf = async (file) => new Uint8Array(await file.arrayBuffer());

  // One archive, or the files of a packet's folder. Bundles that come with an archive
  // are verified in place of those in it.
  async function chosen(list) {
    const archives = list.filter((f) => /\.tar$/.test(f.name) && !f.packetPath);
    const bundles = list.filter((f) => /\.json$/.test(f.name) && !f.packetPath && !f.webkitRelativePath);
    if (bundles.length === list.length) throw new Error("A bundle alone says nothing: choose its packet (.tar) with it.");
    if (archives.length === 1 && bundles.length + 1 === list.length) {
      const engine = await verifier();
      const files = engine.unpack(await contentOf(archives[0]));
      if (files instanceof Error) throw files;
      const taken = {};
      for (const f of bundles) {
        const path = /verification/.test(f.name) ? "verification.sigstore.json" : "attestation.sigstore.json";
        if (taken[path]) throw new Error(taken[path] + " and " + f.name + " are two bundles of one kind: choose one of them.");
        taken[path] = f.name;
        files[path] = await contentOf(f);
      }
      return take(files, [archives[0].name, ...Object.values(taken)].join(" with "));
    }
    const files = {};
    for (const f of list) {
      const path = f.packetPath || (f.webkitRelativePath ? f.webkitRelativePath.split("/").slice(1).join("/") : f.name);
      files[path] = await contentOf(f);
    }
    return take(files, "packet of " + list.length + " files");
  }

  // A folder that was dropped is walked; names are those below it.
  async function dropped(transfer) {
    const entries = [...transfer.items].map((i) => i.webkitGetAsEntry && i.webkitGetAsEntry());
    const files = [...transfer.files];
    if (entries.length !== 1 || !entries[0] || !entries[0].isDirectory) return files;
    const found = [];
    const walk = async (folder, prefix) => {
      const reader = folder.createReader();
      for (;;) {
        const some = await new Promise((done, fail) => reader.readEntries(done, fail));
        if (!some.length) return;
        for (const e of some) {
          if (e.isDirectory) await walk(e, prefix + e.name + "/");
          else found.push(Object.assign(await new Promise((done, fail) => e.file(done, fail)), { packetPath: prefix + e.name }));
        }
      }
    };
    await walk(entries[0], "");
    return found;
  }

  async function own() {
    const engine = await verifier();
    let tar;
    if (local) {
      globalThis.wallproofTake = (content) => { tar = fromBase64(content); };
      await script(set.packetScript);
    } else {
      const answer = await fetch(set.packet, { credentials: "omit" });
      if (!answer.ok) throw new Error("cannot load the packet: " + answer.status);
      tar = new Uint8Array(await answer.arrayBuffer());
    }
    const files = engine.unpack(tar);
    if (files instanceof Error) throw files;
    const answer = await take(files, "packet of this site");
    const got = answer.report && answer.report.attestation;
    if (got && got !== set.attestation) exchanged(got);
    return answer;
  }

  // Genuine, and not what this page was made with: the file at that address was exchanged.
  function exchanged(got) {
    const n = verdict.querySelector(".notice");
    n.className = "notice alarm";
    const p = element("p");
    p.append(element("span", "packet-exchanged", "code"), " ", ...message("This is not the packet that the site was built from. It holds the attestation " + got + ", and the site is about " + set.attestation + "."));
    n.append(p);
    verdict.dataset.verdict = "exchanged";
    verdict.dataset.codes = (verdict.dataset.codes + " packet-exchanged").trim();
  }

  const input = at("files");
  const folder = at("folder");
  at("pick").addEventListener("click", () => input.click());
  at("pick-folder").addEventListener("click", () => folder.click());
  for (const i of [input, folder]) i.addEventListener("change", () => { if (i.files.length) guarded(() => chosen([...i.files])); });
  at("own").addEventListener("click", () => guarded(own));
  const drop = at("drop");
  drop.addEventListener("dragover", (e) => { e.preventDefault(); drop.classList.add("over"); });
  drop.addEventListener("dragleave", () => drop.classList.remove("over"));
  drop.addEventListener("drop", (e) => {
    e.preventDefault();
    drop.classList.remove("over");
    const list = dropped(e.dataTransfer); // at once: the items are gone after the event
    guarded(async () => { const files = await list; if (files.length) await chosen(files); });
  });
})();
