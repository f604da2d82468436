// Runs the browser's verifier without a browser, to be compared with the one
// that is built for this machine. Reads lines {files: {path: base64}, options}
// on standard input, prints the verifier's answer to each on a line.
import { readFileSync } from "node:fs";
import { gunzipSync } from "node:zlib";
import { join } from "node:path";
import { runInThisContext } from "node:vm";

const folder = process.argv[2];
runInThisContext(readFileSync(join(folder, "wasm_exec.js"), "utf8"));
const go = new globalThis.Go();
const { instance } = await WebAssembly.instantiate(gunzipSync(readFileSync(join(folder, "wallproof-verify.wasm.gz"))), go.importObject);
go.run(instance);
for (const line of readFileSync(0, "utf8").split("\n").filter(Boolean)) {
  const { files, options } = JSON.parse(line);
  const content = Object.fromEntries(Object.entries(files).map(([name, b64]) => [name, new Uint8Array(Buffer.from(b64, "base64"))]));
  console.log(globalThis.wallproof.verify(content, options));
}
process.exit(0);
