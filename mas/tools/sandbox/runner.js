// Python in WebAssembly: the program that mas/tools/sandbox/deno.py starts. A message is four bytes of length and JSON.
//
//   deno run --cached-only --allow-read=… runner.js '{"memory_mb": 1024, "max_chars": 10000, "files": {}}'

import { loadPyodide } from "npm:pyodide@0.29.4";

const probing = Deno.args[0] === "--probe";
const options = probing ? { memory_mb: 256, max_chars: 100, files: {} } : JSON.parse(Deno.args[0]);

// Pyodide may take 4 GB; a memory that cannot grow further makes that a MemoryError of the code.
const Memory = WebAssembly.Memory;
WebAssembly.Memory = function (wanted) {
  return new Memory({ ...wanted, maximum: Math.max(wanted.initial, Math.min(wanted.maximum, options.memory_mb * 16)) });
};
WebAssembly.Memory.prototype = Memory.prototype;

const ended = new TextEncoder(), begun = new TextDecoder();
const input = Deno.stdin, output = Deno.stdout;

async function received(count) {
  const bytes = new Uint8Array(count);
  for (let filled = 0; filled < count;) {
    const read = await input.read(bytes.subarray(filled));
    if (read === null) Deno.exit(0); // the harness has closed its end
    filled += read;
  }
  return bytes;
}

function send(text) {
  const body = ended.encode(text), message = new Uint8Array(4 + body.length);
  new DataView(message.buffer).setUint32(0, body.length);
  message.set(body, 4);
  for (let sent = 0; sent < message.length;) sent += output.writeSync(message.subarray(sent));
}

const silent = () => {};
const pyodide = await loadPyodide({ 
  jsglobals: Object.create(null), stdout: silent, stderr: silent,
  env: { HOME: "/scratch", USER: "sandbox", PATH: "/", LANG: "C.UTF-8", TZ: "UTC", PYTHONHASHSEED: "0", _: "" },
});

const notebook = await Deno.readTextFile(new URL("notebook.py", import.meta.url));
const files = {};
for (const [name, path] of Object.entries(options.files)) files[name] = await Deno.readFile(path);
await Deno.permissions.revoke({ name: "read" });

pyodide.FS.mkdirTree("/data");
pyodide.FS.mkdirTree("/scratch");
for (const [name, content] of Object.entries(files)) {
  pyodide.FS.writeFile(`/data/${name}`, content, { mode: 0o444 });
  pyodide.FS.symlink(`/data/${name}`, `/scratch/${name}`);
}
const run = pyodide.runPython(`
import json, os, sys, types
os.chdir("/scratch")
def _load(source, max_chars):
    module = types.ModuleType("notebook")
    exec(compile(source, "notebook", "exec"), vars(module))
    notebook = module.Notebook(max_chars)
    return lambda name, code: json.dumps({"id": name, **notebook.run(code)})
_load
`)(notebook, options.max_chars);

if (probing) {
  console.log(JSON.parse(run("", "6 * 7")).value);
  Deno.exit(0);
}
send(JSON.stringify({ ready: true }));
while (true) {
  const length = new DataView((await received(4)).buffer).getUint32(0);
  const request = JSON.parse(begun.decode(await received(length)));
  send(run(request.id, request.code));
}
