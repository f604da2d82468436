"use strict";
// Ways to tamper with a packet, each with the reason code that the verifier
// must give. Every one works on a copy: {files, options} in, {files, options} out.
globalThis.wallproofTampers = (() => {
  const text = new TextDecoder();
  const bytes = new TextEncoder();
  const bundle = "attestation.sigstore.json";
  const again = "verification.sigstore.json";
  const manifest = "manifest.jsonl";

  // flip changes one bit of a file, at a place from 0 to 1.
  const flip = (name, place) => ({ files, options }) => {
    const content = files[name].slice();
    content[Math.floor(content.length * place)] ^= 1;
    return { files: { ...files, [name]: content }, options };
  };
  const lines = (change) => ({ files, options }) => {
    const list = text.decode(files[manifest]).split("\n").filter(Boolean);
    return { files: { ...files, [manifest]: bytes.encode(change(list).join("\n") + "\n") }, options };
  };
  const json = (name, change) => ({ files, options }) => {
    const value = JSON.parse(text.decode(files[name]));
    change(value);
    return { files: { ...files, [name]: bytes.encode(JSON.stringify(value)) }, options };
  };
  const add = (name, content) => ({ files, options }) => ({ files: { ...files, [name]: bytes.encode(content) }, options });
  const drop = (name) => ({ files, options }) => {
    const left = { ...files };
    delete left[name];
    return { files: left, options };
  };
  // other changes the first character of a base64 text to another one.
  const other = (b64) => (b64[4] === "A" ? b64.slice(0, 4) + "B" + b64.slice(5) : b64.slice(0, 4) + "A" + b64.slice(5));
  const log = (files) => Object.keys(files).find((name) => name.startsWith("logs/"));
  const threat = (files) => Object.keys(files).find((name) => name.startsWith("threat-model."));

  return [
    { id: "manifest-byte", title: "One bit of the manifest", code: "packet-digest-differs", main: true, apply: flip(manifest, .5) },
    { id: "policy-byte", title: "One bit of the policy", code: "packet-digest-differs", main: true, apply: flip("policy.canonical.json", .5) },
    { id: "attack-byte", title: "One bit of what was seen in the attack", code: "packet-digest-differs", main: true, apply: flip("observations/attack.jsonl", .5) },
    { id: "control-byte", title: "One bit of what was seen in the control", code: "packet-digest-differs", apply: flip("observations/control.jsonl", .5) },
    { id: "redaction-byte", title: "One bit of the redaction proof", code: "packet-digest-differs", apply: flip("redaction.json", .3) },
    { id: "redteam-byte", title: "One bit of the red-team result", code: "packet-digest-differs", needs: () => "redteam.json", apply: flip("redteam.json", .5) },
    { id: "threat-byte", title: "One bit of the threat model", code: "packet-digest-differs", needs: threat, apply: (p) => flip(threat(p.files), .5)(p) },
    { id: "log-byte", title: "One bit of a log", code: "packet-digest-differs", needs: log, apply: (p) => flip(log(p.files), .5)(p) },
    { id: "manifest-cut", title: "The manifest's last line cut off", code: "packet-size-differs", main: true, apply: lines((l) => l.slice(0, -1)) },
    { id: "manifest-swap", title: "Two lines of the manifest swapped", code: "packet-digest-differs", apply: lines((l) => [l[0], l[2], l[1], ...l.slice(3)]) },
    { id: "manifest-double", title: "A line of the manifest twice", code: "packet-size-differs", apply: lines((l) => [...l.slice(0, 2), ...l.slice(1)]) },
    { id: "manifest-drop", title: "A line of the manifest left out", code: "packet-size-differs", apply: lines((l) => [l[0], ...l.slice(2)]) },
    { id: "file-added", title: "A log that nobody signed", code: "packet-unlisted-file", main: true, apply: add("logs/zz-extra.jsonl", "{}\n") },
    { id: "file-dropped", title: "A log taken away", code: "packet-missing-file", needs: log, apply: (p) => drop(log(p.files))(p) },
    { id: "file-strange", title: "A file that has no place in a packet", code: "packet-file-name", apply: add("install.sh", "echo\n") },
    { id: "signature", title: "Another signature", code: "signature-invalid", main: true, apply: json(bundle, (b) => { b.dsseEnvelope.signatures[0].sig = other(b.dsseEnvelope.signatures[0].sig); }) },
    { id: "payload", title: "Another statement under the signature", code: "signature-invalid", apply: json(bundle, (b) => { b.dsseEnvelope.payload = btoa(atob(b.dsseEnvelope.payload).replace("\"criticalEscapes\":0", "\"criticalEscapes\":1")); }) },
    { id: "bundle-empty", title: "An empty bundle", code: "bundle-version", apply: add(bundle, "{}") },
    { id: "bundle-gone", title: "No attestation at all", code: "attestation-missing", apply: drop(bundle) },
    { id: "rerun-gone", title: "No verifier re-run", code: "rerun-missing", main: true, apply: drop(again) },
    { id: "rerun-signature", title: "A re-run with another signature", code: "rerun-invalid", apply: json(again, (b) => { b.dsseEnvelope.signatures[0].sig = other(b.dsseEnvelope.signatures[0].sig); }) },
    { id: "clock", title: "The same packet a year from now", code: "expired", main: true, apply: ({ files, options }) => ({ files, options: { ...options, at: new Date(Date.parse(options.at) + 366 * 86400e3).toISOString().replace(/\.\d+Z/, "Z") } }) },
  ];
})();
