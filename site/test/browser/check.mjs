// Runs checks of built sites in a real browser. Reads one JSON object on
// standard input:
//
//   { browser, sites: {name: base URL}, folders: {name: path}, packet: path,
//     fingerprint: of the signer's key, checks: ["kind/argument/…", …],
//     screenshots: path or "", crash: n }
//
// and prints one JSON object a line: {check, ok, detail}, at the end {done: n}.
// Whoever started it counts: a check without a line has failed. Checks run beside
// each other, each in a context of its own, so lines come in no fixed order.
import assert from "node:assert/strict";
import { readFileSync, mkdtempSync, rmSync, mkdirSync } from "node:fs";
import { createRequire } from "node:module";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { pathToFileURL } from "node:url";
import { chromium } from "playwright-core";

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const config = JSON.parse(readFileSync(0, "utf8"));
const browser = await chromium.launch({
  executablePath: config.browser,
  args: ["--no-sandbox", "--disable-gpu", "--disable-quic", "--no-first-run", "--disable-background-networking", "--disable-component-update", "--disable-sync"],
});

// open visits a page in a context of its own and watches what it must not do.
async function open(site, path, options = {}, before) {
  const base = config.sites[site];
  const { file, ...context } = options;
  const c = await browser.newContext({ viewport: { width: 1280, height: 900 }, serviceWorkers: "block", ...context });
  const page = await c.newPage();
  const faults = [];
  page.on("console", (m) => { if (m.type() === "error" || m.type() === "warning") faults.push(`console: ${m.text()}`); });
  page.on("pageerror", (e) => faults.push(`exception: ${e.message}`));
  page.on("request", (r) => {
    const u = r.url();
    if (!u.startsWith(base) && !u.startsWith("data:") && !u.startsWith("blob:") && !(file && u.startsWith("file:"))) faults.push(`request to ${u}`);
    if (r.method() !== "GET") faults.push(`${r.method()} to ${u}`); // an upload, though it be to the site's own host
  });
  if (before) await before(page);
  const url = file ? pathToFileURL(join(config.folders[site], path)).href : base + path;
  await page.goto(url, { waitUntil: "load" });
  // A request that is still being answered when the page is closed is no failure.
  const close = async () => { await page.unrouteAll({ behavior: "ignoreErrors" }); await c.close(); };
  return { page, faults, close, base };
}

const paths = {
  index: "index.html", procurement: "procurement/index.html", fleet: "fleet/index.html", verify: "verify/index.html", history: "history/index.html", missing: "404.html",
};
async function pathOf(site, page) {
  if (page !== "attestation") return paths[page];
  return JSON.parse(readFileSync(join(config.folders[site], "status.json"), "utf8")).page;
}

// withdrawn asserts that no claim is left and that the notice gives the code.
async function withdrawn(page, code) {
  await page.waitForSelector(`html[data-stale="${code}"]`, { state: "attached" });
  assert.equal(await page.locator("[data-claim]").count(), 0, "claims are left");
  const text = await page.locator("main").innerText();
  assert.match(text, /Stale, not shown/);
  assert.ok(text.includes(code), `the notice lacks ${code}`);
  assert.ok(!/\bBlocked\b|\bContained\b|Signed and current/.test(text), "words of a claim are left");
  // Nor may it be left where a search or a bookmark shows it, or be linked to.
  assert.equal(await page.title(), "Stale, not shown \u00b7 " + await page.evaluate(() => document.documentElement.dataset.title));
  const head = await page.evaluate(() => document.title + " " + document.querySelector("meta[name=description]").content);
  assert.ok(!/critical escape|valid until|\b\d+ attack/i.test(head), `the head still says: ${head}`);
  assert.equal(await page.locator('a[href$="summary.txt"], a[href$="answers.json"]').count(), 0, "files that repeat the claim are linked to");
}

const verdict = (page) => page.locator("[data-verdict]").evaluate((e) => ({ verdict: e.dataset.verdict, codes: (e.dataset.codes || "").split(" ") }));
const idle = (page) => page.waitForFunction(() => !document.querySelector("[data-verify]").hasAttribute("aria-busy"), null, { timeout: 120e3 });

// One page with a verified packet serves all tampers.
let ready;
async function verified() {
  ready ||= (async () => {
    const o = await open("current", paths.verify);
    await o.page.click("[data-own]");
    await idle(o.page);
    return o;
  })();
  return ready;
}

const kinds = {
  async axe([site, name]) {
    const o = await open(site, await pathOf(site, name), { bypassCSP: true });
    await o.page.evaluate(() => { for (const d of document.querySelectorAll("details")) d.open = true; });
    await o.page.evaluate(axe);
    for (const colorScheme of ["light", "dark"]) {
      await o.page.emulateMedia({ colorScheme });
      const result = await o.page.evaluate(() => globalThis.axe.run(document, { runOnly: { type: "tag", values: ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"] } }));
      assert.ok(result.passes.length > 10, "axe ran hardly any rule");
      assert.deepEqual(result.violations.map((v) => `${v.id}: ${v.nodes.map((n) => n.html.slice(0, 120)).slice(0, 3).join(" | ")}`), [], colorScheme);
    }
    await o.close();
  },

  async visit([site, name]) {
    const o = await open(site, await pathOf(site, name), { viewport: { width: 320, height: 900 } });
    await o.page.waitForLoadState("networkidle");
    for (const width of [320, 480, 768, 1024, 1280, 3840]) {
      await o.page.setViewportSize({ width, height: 900 });
      const over = await o.page.evaluate(() => document.documentElement.scrollWidth - innerWidth);
      assert.ok(over <= 0, `at ${width} px the page is ${over} px too wide`);
      const small = await o.page.evaluate(() => [...document.querySelectorAll("a, button, input, select, summary")].filter((e) => e.offsetParent && !e.matches(".skip, [hidden]"))
        .filter((e) => { const r = e.getBoundingClientRect(); return getComputedStyle(e).display !== "inline" && (r.height < 24 || r.width < 24); }).map((e) => e.outerHTML.slice(0, 80)));
      assert.deepEqual(small, [], `targets smaller than 24 px at ${width} px`);
    }
    assert.deepEqual(o.faults, []);
    await o.close();
  },

  async keyboard([name]) {
    const o = await open("current", paths[name]);
    await o.page.keyboard.press("Tab");
    assert.equal(await o.page.evaluate(() => document.activeElement.className), "skip");
    await o.page.keyboard.press("Enter");
    assert.equal(await o.page.evaluate(() => document.activeElement.id), "main");
    const want = await o.page.evaluate(() => [...document.querySelectorAll("main a[href], main button, main input, main select, main textarea, main summary, main [tabindex='0']")].filter((e) => e.checkVisibility({ contentVisibilityAuto: true }) && !e.disabled).length);
    const seen = new Set();
    for (let i = 0; i < want + 5; i++) {
      await o.page.keyboard.press("Tab");
      const at = await o.page.evaluate(() => {
        const e = document.activeElement;
        if (!e || !e.closest("main")) return null;
        const s = getComputedStyle(e);
        const all = [...document.querySelectorAll("*")];
        return { n: all.indexOf(e), ring: s.outlineStyle !== "none" && parseFloat(s.outlineWidth) >= 2, html: e.outerHTML.slice(0, 80) };
      });
      if (!at) break;
      assert.ok(at.ring, `no visible focus on ${at.html}`);
      seen.add(at.n);
    }
    assert.equal(seen.size, want, "elements reached by Tab");
    if (name === "index") {
      const first = o.page.locator("summary").first();
      await first.focus();
      await o.page.keyboard.press("Enter");
      assert.ok(await o.page.locator("details").first().evaluate((d) => d.open), "Enter does not open an answer");
    }
    assert.deepEqual(o.faults, []);
    await o.close();
  },

  async noscript([site, name]) {
    const o = await open(site, await pathOf(site, name), { javaScriptEnabled: false });
    const text = await o.page.locator("main").innerText();
    if (site === "current") {
      assert.match(text, /critical\s+escapes/);
      assert.match(text, /Valid until/);
    } else {
      assert.ok(!/0\s+critical\s+escapes|\bBlocked\b|\bContained\b|Signed and current/.test(text), "a held claim is on the page");
      assert.match(text, /not shown/);
    }
    assert.equal(await o.page.locator("[data-scheme-toggle]").isVisible(), false, "a control that needs a script is shown without one");
    await o.close();
  },

  async print([site]) {
    const o = await open(site, "index.html", { viewport: { width: 794, height: 1123 }, colorScheme: "dark" });
    await o.page.emulateMedia({ media: "print" });
    assert.equal(await o.page.locator(".top nav").isVisible(), false);
    assert.equal(await o.page.evaluate(() => getComputedStyle(document.body).backgroundColor), "rgb(255, 255, 255)");
    if (site === "current") assert.ok(await o.page.locator("details p").first().isVisible(), "answers are not printed");
    const pdf = await o.page.pdf({ format: "A4" });
    assert.ok(pdf.length > 20_000, `the print is ${pdf.length} bytes`);
    await o.close();
  },

  // Of a key without a name the page gives the whole fingerprint.
  async signer([site, name]) {
    const o = await open(site, await pathOf(site, name));
    const line = o.page.locator("main .record .facts > div").filter({ has: o.page.getByText("Signer", { exact: true }) });
    assert.equal((await line.locator("dd").innerText()).replace(/\s+/g, " "), `Key ${config.fingerprint}`);
    if (site === "current" && name === "index") {
      const file = await o.page.request.get(o.base + "summary.txt");
      assert.match(await file.text(), new RegExp(`^Signed by +key ${config.fingerprint}$`, "m"));
    }
    await o.close();
  },

  async scheme() {
    const o = await open("current", "index.html", { colorScheme: "light" });
    const paper = () => o.page.evaluate(() => getComputedStyle(document.body).backgroundColor);
    const light = await paper();
    await o.page.click("[data-scheme-toggle]");
    const dark = await paper();
    assert.notEqual(light, dark);
    await o.page.goto(o.base + paths.fleet);
    assert.equal(await paper(), dark, "the choice is forgotten");
    assert.deepEqual(o.faults, []);
    await o.close();
  },

  async stale([what, name]) {
    const path = await pathOf("live", name || "index");
    const reply = (change) => (page) => page.route(/[/.](status|live)\.json$/, async (route) => {
      const response = await route.fetch();
      const json = await response.json();
      const which = new URL(route.request().url()).pathname.endsWith("live.json") ? "live" : "status";
      change(which, json);
      await route.fulfill({ response, json });
    });
    if (what === "expiry") {
      const o = await open("live", path, {}, (page) => page.clock.install());
      assert.ok(await o.page.locator("[data-claim]").count() > 0, "the claim is not shown while it is current");
      await o.page.clock.fastForward(61 * 86400e3);
      await withdrawn(o.page, "expired");
      assert.deepEqual(o.faults, []);
      return o.close();
    }
    if (what === "already") {
      const o = await open("live", path, {}, (page) => page.clock.install({ time: Date.now() + 61 * 86400e3 }));
      await withdrawn(o.page, "expired");
      return o.close();
    }
    if (what === "rows") {
      const o = await open("current", paths.fleet, {}, (page) => page.clock.install());
      assert.ok(await o.page.getByText("Signed and current").count() > 1);
      await o.page.clock.fastForward(61 * 86400e3);
      assert.equal(await o.page.locator("table .chip.good").count(), 0, "a row of the list is still current");
      assert.equal(await o.page.locator("[data-row-claim]").count(), 0, "a row of the list still claims");
      return o.close();
    }
    // A list whose page is older than the state of what it lists.
    if (what === "list") {
      const o = await open("current", paths.fleet, {}, (page) => page.route(/\/(status|fleet|live)\.json$/, async (route) => {
        const response = await route.fetch();
        const json = await response.json();
        const which = new URL(route.request().url()).pathname.split("/").pop();
        if (name === "unchanged") return route.fulfill({ response, json });
        if (name === "missing") return which === "status.json" ? route.fulfill({ status: 403, body: "" }) : route.fulfill({ response, json });
        if (name === "old") json.checked = "2026-01-01T00:00:00Z";
        if (name === "held" || name === "torn") {
          json.fleet = "sha256:" + (name === "torn" && which === "fleet.json" ? "8" : "9").repeat(64);
          const one = (json.attestations || []).find((a) => a.claim);
          if (one) { delete one.claim; one.state = "held"; one.codes = ["policy-drift"]; }
        }
        await route.fulfill({ response, json });
      }));
      await o.page.waitForLoadState("networkidle");
      const left = await o.page.locator("[data-row-claim]").count();
      const all = JSON.parse(readFileSync(join(config.folders.current, "fleet/fleet.json"), "utf8")).attestations.filter((a) => a.claim).length;
      assert.ok(all > 1, "the list has too few claims");
      assert.equal(left, { unchanged: all, held: all - 1, torn: 0, missing: 0, old: 0 }[name], "rows with a claim");
      assert.equal(await o.page.locator("[data-row-totals]").count(), name === "unchanged" ? 1 : 0, "totals");
      assert.equal(await o.page.locator("[data-list-notice]").isVisible(), name !== "unchanged");
      return o.close();
    }
    if (what === "list-live") {
      const o = await open("live", paths.fleet, {}, reply((which, j) => { if (which === "live") j.policy = "sha256:" + "9".repeat(64); }));
      await o.page.waitForSelector('html[data-stale="policy-drift"]', { state: "attached" });
      assert.equal(await o.page.locator("[data-row-claim]").count(), 0, "a row of the list still claims");
      return o.close();
    }
    // A host that answers without the files withdraws the claim; one that fails for
    // the moment does not.
    const answers = { "status-missing": ["status", 404, ""], "live-missing": ["live", 404, ""], "status-other": ["status", 200, "<!doctype html>"], "live-other": ["live", 200, "null"], "status-forbidden": ["status", 403, ""], "status-garbage": ["status", 200, '{"schema":"wallproof.status/v1","codes":"x"}'], "status-bare": ["status", 200, '{"schema":"wallproof.status/v1"}'],
      "status-huge": ["status", 200, (json) => json + " ".repeat(17e6)], "status-odd": ["status", 200, (json) => JSON.stringify({ ...JSON.parse(json), codes: [{ toString: 1 }] })], "status-elsewhere": ["status", 302, ""],
      "live-fabric": ["live", 200, (json) => JSON.stringify({ ...JSON.parse(json), fabric: 5 })], "live-image": ["live", 200, (json) => JSON.stringify({ ...JSON.parse(json), image: 0 })], "live-odd": ["live", 200, (json) => JSON.stringify({ ...JSON.parse(json), fabric: { toString: 1, isolation: 7 } })] };
    if (what in answers) {
      const [which, status, body] = answers[what];
      const o = await open("live", path, {}, (page) => page.route(new RegExp(`[/.]${which}\\.json$`), async (route) => {
        const headers = status === 302 ? { location: "https://elsewhere.example/status.json" } : {};
        await route.fulfill({ status, headers, body: typeof body === "string" ? body : body(await (await route.fetch()).text()) });
      }));
      await withdrawn(o.page, what === "live-odd" ? "fabric-drift" : "status-missing");
      return o.close();
    }
    if (what === "unreachable") {
      const o = await open("live", path, {}, (page) => page.route(/[/.](status|live)\.json$/, (route) => new URL(route.request().url()).pathname.endsWith("live.json") ? route.abort() : route.fulfill({ status: 503, body: "" })));
      await o.page.waitForLoadState("networkidle");
      assert.ok(await o.page.locator("[data-claim]").count() > 0, "the claim is gone although nothing is known");
      return o.close();
    }
    // A host whose clock is ahead of the reader's, as it is when the reader's was
    // set back.
    if (what === "host-clock") {
      const o = await open("live", path, {}, (page) => page.route(/[/.](status|live)\.json$/, async (route) => {
        const response = await route.fetch();
        await route.fulfill({ response, headers: { ...response.headers(), date: new Date(Date.now() + 61 * 86400e3).toUTCString() } });
      }));
      await withdrawn(o.page, "expired");
      return o.close();
    }
    // A partial claim stays held in its state while it is held for more.
    if (what === "partial") {
      const o = await open("partial", await pathOf("partial", name || "index"), {}, (page) => page.route(/[/.]status\.json$/, async (route) => {
        const response = await route.fetch();
        const json = await response.json();
        assert.equal(json.state, "held");
        json.codes = ["critical-escape", ...json.codes];
        await route.fulfill({ response, json });
      }));
      await withdrawn(o.page, "critical-escape");
      return o.close();
    }
    // The page is opened from a folder, or its host is out of reach, on a device whose
    // clock stands before the page was made: nothing says whether it has expired.
    if (what === "clock-behind") {
      const o = await open("live", path, { file: true }, (page) => page.clock.install({ time: new Date("2001-01-01T00:00:00Z") }));
      await withdrawn(o.page, "clock-behind");
      await o.close();
      const far = await open("live", path, {}, async (page) => {
        await page.clock.install({ time: new Date("2001-01-01T00:00:00Z") });
        await page.route(/[/.](status|live)\.json$/, (route) => route.abort());
      });
      await withdrawn(far.page, "clock-behind");
      await far.close();
      // A host that says what time it is decides.
      const near = await open("live", path, {}, (page) => page.clock.install({ time: new Date("2001-01-01T00:00:00Z") }));
      await near.page.waitForLoadState("networkidle");
      assert.ok(await near.page.locator("[data-claim]").count() > 0, "a current claim is gone although the host tells the time");
      return near.close();
    }
    // The clock is set back while the page is open: what has passed since counts.
    if (what === "set-back") {
      const o = await open("live", path, {}, (page) => page.clock.install());
      await o.page.clock.setSystemTime(Date.now() - 90 * 86400e3);
      await o.page.clock.fastForward(61 * 86400e3);
      await withdrawn(o.page, "expired");
      return o.close();
    }
    // The device slept, or the page was kept for the way back, or is printed after that:
    // the time is another, and no timer has run.
    if (what === "asleep" || what === "kept" || what === "printed" || what === "focused") {
      const o = await open("live", path, {}, (page) => page.clock.install());
      await o.page.waitForLoadState("networkidle");
      await o.page.clock.setSystemTime(Date.now() + 61 * 86400e3);
      assert.ok(await o.page.locator("[data-claim]").count() > 0, "nothing was left to withdraw");
      if (what === "asleep") await o.page.clock.runFor(20e3);
      if (what === "kept") await o.page.evaluate(() => dispatchEvent(new PageTransitionEvent("pageshow", { persisted: true })));
      if (what === "printed") await o.page.evaluate(() => dispatchEvent(new Event("beforeprint")));
      if (what === "focused") await o.page.evaluate(() => dispatchEvent(new Event("focus")));
      assert.equal(await o.page.locator("[data-claim]").count(), 0, "claims are left");
      await withdrawn(o.page, "expired");
      return o.close();
    }
    // Its script did not arrive, as when half of a site was deployed: the text says so.
    if (what === "no-script-file") {
      for (const page of ["index", "attestation", "procurement"]) {
        const o = await open("live", await pathOf("live", page), {}, (p) => p.route(/\/site-[0-9a-f]+\.js$/, (route) => route.fulfill({ status: 404, body: "" })));
        assert.ok(await o.page.getByText("Without a script this page cannot withdraw itself").isVisible(), `${page} does not say that it cannot withdraw itself`);
        await o.close();
        const good = await open("live", await pathOf("live", page));
        assert.equal(await good.page.getByText("Without a script").count(), 0, `${page} says so although its script runs`);
        await good.close();
      }
      return;
    }
    // What a search of the whole list finds is no more current than the list.
    if (what === "found") {
      const fleet = JSON.parse(readFileSync(join(config.folders.fleet, "fleet/fleet.json"), "utf8"));
      const last = fleet.attestations[fleet.attestations.length - 1];
      const search = async (change) => {
        const o = await open("fleet", paths.fleet, {}, async (page) => {
          await page.clock.install();
          await page.route(/\/(status|fleet)\.json$/, async (route) => {
            const response = await route.fetch();
            const json = await response.json();
            change(new URL(route.request().url()).pathname.split("/").pop(), json);
            await route.fulfill({ response, json });
          });
        });
        await o.page.waitForLoadState("networkidle");
        await o.page.locator("[data-filter] input").fill(last.name);
        await o.page.locator("[data-found]").waitFor();
        return o;
      };
      const claims = (o) => o.page.locator("[data-found] [data-row-claim], [data-found] .chip.good").count();
      const good = await search(() => {});
      assert.equal(await claims(good), 2, "a current row has no claim");
      await good.page.clock.fastForward(61 * 86400e3);
      assert.equal(await claims(good), 0, "a row that was found outlives its claim");
      await good.close();
      // The list is of an earlier state than the status file, or the status file withdraws all.
      for (const change of [
        (which, j) => { if (which === "status.json") j.fleet = "sha256:" + "9".repeat(64); },
        (which, j) => { if (which === "status.json") j.checked = "2026-01-01T00:00:00Z"; },
      ]) {
        const o = await search(change);
        assert.equal(await claims(o), 0, "a row that was found claims what the list does not");
        await o.close();
      }
      // The state changes between two searches.
      let now = fleet;
      const o = await search((which, j) => { if (now !== fleet) { j.fleet = "sha256:" + "9".repeat(64); for (const a of j.attestations || []) { delete a.claim; a.state = "held"; a.word = "Held"; a.class = "hold"; a.codes = ["policy-drift"]; } } });
      assert.equal(await claims(o), 2);
      now = null;
      await o.page.clock.fastForward(5 * 60e3 + 1000);
      await o.page.waitForFunction(() => document.documentElement.dataset.fleet.endsWith("9999"));
      await o.page.locator("[data-filter] input").fill("");
      await o.page.locator("[data-filter] input").fill(last.name);
      await o.page.locator("[data-found]").waitFor();
      await o.page.waitForLoadState("networkidle");
      assert.equal(await claims(o), 0, "a row that is found later claims what was withdrawn meanwhile");
      return o.close();
    }
    const ago = (time, days) => new Date(Date.parse(time) - days * 86400e3).toISOString().replace(/\.\d+/, "");
    if (what === "lag") {
      const o = await open("live", path, {}, reply((which, j) => { if (which === "live") j.generated = ago(j.generated, .9); else if (j.checked) j.checked = ago(j.checked, .9); }));
      await o.page.waitForLoadState("networkidle");
      assert.ok(await o.page.locator("[data-claim]").count() > 0, "files that lag behind by less than a day withdraw the claim");
      return o.close();
    }
    if (what === "old-status" || what === "old-live") {
      const o = await open("live", path, {}, reply((which, j) => { if ("old-" + which === what) for (const time of ["checked", "generated"]) if (j[time]) j[time] = ago(j[time], 2); }));
      await withdrawn(o.page, "status-outdated");
      assert.deepEqual(o.faults, []);
      return o.close();
    }
    if (what === "isolation") {
      const o = await open("live", path, {}, reply((which, j) => { if (which === "live") j.fabric = { isolation: {} }; }));
      await withdrawn(o.page, "fabric-drift");
      return o.close();
    }
    const changes = {
      "image-drift": (which, j) => { if (which === "live") j.image = "sha256:" + "9".repeat(64); },
      "policy-drift": (which, j) => { if (which === "live") j.policy = "sha256:" + "9".repeat(64); },
      "fabric-drift": (which, j) => { if (which === "live") j.fabric = { kernel: "0.0.1" }; },
      "critical-escape": (which, j) => { if (which === "status") { j.state = "held"; j.codes = ["critical-escape"]; } },
      "page-outdated": (which, j) => { if (which === "status") j.attestation = "sha256:" + "9".repeat(64); },
    };
    const o = await open("live", path, {}, reply(changes[what]));
    await withdrawn(o.page, what);
    assert.deepEqual(o.faults, []);
    await o.close();
  },

  // What is unchanged stays.
  async fresh([name]) {
    const o = await open("live", await pathOf("live", name));
    await o.page.waitForLoadState("networkidle");
    assert.ok(await o.page.locator("[data-claim]").count() > 0, "a current claim was withdrawn");
    assert.equal(await o.page.locator("html[data-stale]").count(), 0);
    assert.deepEqual(o.faults, []);
    await o.close();
  },

  async filter([name]) {
    const o = await open("current", await pathOf("current", name));
    const rows = o.page.locator("[data-text]");
    const all = await rows.count();
    await o.page.locator("[data-filter] input").fill(name === "fleet" ? "browser" : "imd");
    const left = await rows.evaluateAll((list) => list.filter((r) => r.checkVisibility()).length);
    assert.ok(left > 0 && left < all, `${left} of ${all} rows`);
    assert.match(await o.page.locator("[data-filter-count]").innerText(), new RegExp(`^${left} of ${all} `));
    await o.page.locator("[data-filter] input").fill("no such thing");
    assert.equal(await rows.evaluateAll((list) => list.filter((r) => r.checkVisibility()).length), 0);
    await o.close();
  },

  // A list of several pages is searched as a whole.
  async wide() {
    const o = await open("fleet", paths.fleet);
    const all = JSON.parse(readFileSync(join(config.folders.fleet, "fleet/fleet.json"), "utf8")).attestations;
    assert.ok(all.length > 100, "the fleet fits on one page");
    const last = all[all.length - 1];
    assert.equal(await o.page.getByText(last.name, { exact: true }).count(), 0, "the last one is on the first page");
    await o.page.locator("[data-filter] input").fill(last.name);
    await o.page.getByText(last.name, { exact: true }).waitFor();
    const href = await o.page.getByText(last.name, { exact: true }).getAttribute("href");
    await o.page.locator("[data-filter] input").fill("");
    await o.page.waitForFunction(() => !document.querySelector("[data-found]"));
    await o.page.locator("[rel=next]").click();
    await o.page.getByText(last.name, { exact: true }).waitFor();
    assert.equal(await o.page.getByText(last.name, { exact: true }).getAttribute("href"), href);
    assert.deepEqual(o.faults, []);
    await o.close();
  },

  async wasm([how, id]) {
    if (how === "tamper") {
      const o = await verified();
      const want = await o.page.evaluate((id) => globalThis.wallproofTampers.find((t) => t.id === id).code, id);
      await o.page.click(`button[data-tamper="${id}"]`);
      await idle(o.page);
      const got = await verdict(o.page);
      assert.notEqual(got.verdict, "valid");
      assert.ok(got.codes.includes(want), `codes ${got.codes}, want ${want}`);
      assert.deepEqual(o.faults, []);
      return;
    }
    if (how === "own") {
      const o = await verified();
      assert.deepEqual(await verdict(o.page), { verdict: "valid", codes: [""] });
      assert.deepEqual(o.faults, []);
      return;
    }
    // The packet of a real run, verified by a page that was opened from its folder.
    if (how === "demo") {
      const o = await open("demo", paths.verify, { file: true });
      assert.match(o.page.url(), /^file:/);
      await o.page.click("[data-own]");
      await idle(o.page);
      assert.deepEqual(await verdict(o.page), { verdict: "valid", codes: [""] });
      const rows = await o.page.locator("[data-checks] tbody tr").allInnerTexts();
      assert.ok(rows.some((r) => /^observations/.test(r)) && rows.length > 15, `only ${rows.length} checks`);
      for (const tamper of ["manifest-byte", "attack-byte", "signature", "clock"]) {
        const want = await o.page.evaluate((id) => globalThis.wallproofTampers.find((t) => t.id === id).code, tamper);
        await o.page.click(`button[data-tamper="${tamper}"]`);
        await idle(o.page);
        const got = await verdict(o.page);
        assert.notEqual(got.verdict, "valid", tamper);
        assert.ok(got.codes.includes(want), `${tamper}: codes ${got.codes}, want ${want}`);
      }
      assert.deepEqual(o.faults, []);
      return o.close();
    }
    // Another packet, signed by the same key, at the address of the site's own.
    if (how === "exchanged") {
      const folder = config.folders.current;
      const { attestations } = JSON.parse(readFileSync(join(folder, "fleet", "fleet.json"), "utf8"));
      const mine = JSON.parse(readFileSync(join(folder, "status.json"), "utf8")).attestation;
      const other = attestations.find((a) => a.attestation !== mine && a.state === "current");
      const body = readFileSync(join(folder, "fleet", other.page.replace(/html$/, "tar")));
      const o = await open("current", paths.verify, {}, (page) => page.route(/\.tar$/, (route) => route.fulfill({ body, contentType: "application/x-tar" })));
      await o.page.click("[data-own]");
      await idle(o.page);
      const got = await verdict(o.page);
      assert.notEqual(got.verdict, "valid");
      assert.ok(got.codes.includes("packet-exchanged"), `codes ${got.codes}`);
      assert.ok((await o.page.locator("[data-verdict]").innerText()).includes(other.attestation));
      assert.deepEqual(o.faults, []);
      return o.close();
    }
    const o = await open("current", paths.verify, { file: how === "folder-page" });
    if (how === "folder-page") await o.page.click("[data-own]");
    if (how === "archive") await o.page.setInputFiles("[data-files]", config.packet);
    if (how === "folder") await o.page.setInputFiles("[data-folder]", config.unpacked);
    if (how === "dropped") {
      const data = readFileSync(config.packet).toString("base64");
      const handle = await o.page.evaluateHandle(async (b64) => {
        const bytes = Uint8Array.from(atob(b64), (c) => c.charCodeAt(0));
        const t = new DataTransfer();
        t.items.add(new File([bytes], "packet.tar"));
        return t;
      }, data);
      await o.page.dispatchEvent("[data-drop]", "drop", { dataTransfer: handle });
    }
    // A bundle that comes with the archive is the one that is verified.
    if (how === "bundle" || how === "bundle-other" || how === "bundle-alone") {
      const own = join(config.unpacked, "attestation.sigstore.json");
      const other = join(config.unpacked, "verification.sigstore.json"); // genuine, and of something else
      const name = (path) => ({ name: "received.sigstore.json", mimeType: "application/json", buffer: readFileSync(path) });
      const packet = { name: "packet.tar", mimeType: "application/x-tar", buffer: readFileSync(config.packet) };
      await o.page.setInputFiles("[data-files]", { bundle: [packet, name(own)], "bundle-other": [name(other), packet], "bundle-alone": [name(own)] }[how]);
      if (how !== "bundle") {
        await idle(o.page);
        const got = await verdict(o.page);
        if (how === "bundle-other") assert.equal(got.verdict, "invalid");
        else assert.match(await o.page.locator("[data-verdict]").innerText(), /choose its packet/);
        assert.deepEqual(o.faults, []);
        return o.close();
      }
    }
    if (how === "stranger") {
      await o.page.fill("[data-key]", config.otherKey);
      await o.page.click("[data-own]");
    }
    if (how === "nothing") {
      await o.page.fill("[data-key]", "");
      await o.page.click("[data-own]");
      await idle(o.page);
      assert.match(await o.page.locator("[data-verdict]").innerText(), /public key/);
      assert.deepEqual(o.faults, []);
      return o.close();
    }
    await idle(o.page);
    const got = await verdict(o.page);
    if (how === "stranger") assert.equal(got.verdict, "invalid");
    else assert.deepEqual(got, { verdict: "valid", codes: [""] });
    assert.deepEqual(o.faults, []);
    await o.close();
  },

  // Nothing of the verifier is loaded before it is asked for.
  async lazy() {
    const o = await open("current", paths.verify, {}, async (page) => {
      page.on("request", (r) => { if (/verifier|\/go-/.test(r.url())) page.early = r.url(); });
    });
    await o.page.waitForLoadState("networkidle");
    assert.equal(o.page.early, undefined);
    await o.close();
  },

  async size([limit]) {
    const o = await open("live", "index.html", {}, async (page) => {
      page.bytes = [];
      page.on("response", (r) => page.bytes.push(r.body().then((b) => [r.url(), b.length])));
    });
    await o.page.waitForLoadState("networkidle");
    const all = await Promise.all(o.page.bytes);
    const sum = all.filter(([u]) => !/\/(status|live)\.json$/.test(u)).reduce((n, [, b]) => n + b, 0);
    await o.close();
    assert.ok(sum < Number(limit), `${sum} bytes, more than ${limit}: ${JSON.stringify(all)}`);
    return `${sum} bytes uncompressed in ${all.length} answers`;
  },

  async paint() {
    const o = await open("current", "index.html", { javaScriptEnabled: false });
    const cdp = await o.page.context().newCDPSession(o.page);
    await cdp.send("Performance.enable");
    await o.page.reload({ waitUntil: "load" });
    await o.page.screenshot();
    const m = Object.fromEntries((await cdp.send("Performance.getMetrics")).metrics.map((x) => [x.name, x.value]));
    await o.close();
    assert.ok(m.DomContentLoaded > 0 && m.Nodes > 100, "the page was not drawn");
    const first = m.FirstMeaningfulPaint ? `first meaningful paint ${Math.round((m.FirstMeaningfulPaint - m.NavigationStart) * 1000)} ms, ` : "";
    return `${first}layout ${(m.LayoutDuration * 1000).toFixed(1)} ms, style ${(m.RecalcStyleDuration * 1000).toFixed(1)} ms, script ${(m.ScriptDuration * 1000).toFixed(1)} ms`;
  },

  async deep() {
    const o = await open("current", "no/such/page/at/all");
    assert.match(await o.page.locator("main").innerText(), /There is no page here/);
    assert.equal(await o.page.evaluate(() => document.styleSheets.length > 0 && document.styleSheets[0].cssRules.length > 50), true, "no style sheet at this depth");
    await o.close();
  },

  async picture([site, name, width, scheme]) {
    const o = await open(site, await pathOf(site, name), { viewport: { width: Number(width), height: Math.round(Number(width) * .66) + 300 }, colorScheme: scheme });
    await o.page.waitForLoadState("networkidle");
    if (config.screenshots) {
      mkdirSync(config.screenshots, { recursive: true });
      await o.page.screenshot({ path: join(config.screenshots, `${site}-${name}-${width}-${scheme}.png`) });
    }
    await o.close();
  },
};

let done = 0;
async function make(check) {
  const [kind, ...rest] = check.split("/");
  try {
    if (config.crash && done === config.crash) await (await browser.newBrowserCDPSession()).send("Browser.crash").catch(() => {});
    if (!kinds[kind]) throw new Error("no such check");
    const detail = await kinds[kind](rest);
    console.log(JSON.stringify({ check, ok: true, detail: detail || "" }));
  } catch (e) {
    console.log(JSON.stringify({ check, ok: false, detail: String(e.message).slice(0, 2000) }));
  }
  done++;
}

// What is measured has the browser to itself; tampers share one page, and so a turn.
const measured = config.checks.filter((check) => /^(paint|size)\b/.test(check));
const tampers = config.checks.filter((check) => /^wasm\/(own$|tamper\/)/.test(check)); // own comes first
const others = config.checks.filter((check) => !measured.includes(check) && !tampers.includes(check));
for (const check of measured) await make(check);
const turns = [tampers, ...others.map((check) => [check])];
const beside = config.crash ? 1 : 3;
await Promise.all(Array.from({ length: beside }, async () => {
  for (let turn; (turn = turns.shift());) for (const check of turn) await make(check);
}));
console.log(JSON.stringify({ done }));
await browser.close();
