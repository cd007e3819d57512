// wasm-size.mjs FILE [functions]: bytes of a WebAssembly module by section, crate and module, from its function names; with
// "functions" also by function.
//
// A function counts for the first crate its name mentions that is not the standard library, so that what a crate makes of
// `Vec`, `fmt` or `drop` counts for that crate. Functions without a name are reported as such.

import { readFileSync } from "node:fs";

const STANDARD = new Set(["core", "alloc", "std", "hashbrown", "compiler_builtins", "rustc_demangle", "gimli", "addr2line", "miniz_oxide",
  "memchr", "dlmalloc", "wasi", "libc", "object", "adler2", "panic_abort", "panic_unwind"]);
const SECTIONS = ["custom", "type", "import", "function", "table", "memory", "global", "export", "start", "element", "code", "data",
  "data count", "tag"];

const file = process.argv[2];
const bytes = readFileSync(file);
let at = 8;

function leb() {
  let value = 0;
  for (let shift = 0; ; shift += 7) {
    const byte = bytes[at++];
    value += (byte & 0x7f) * 2 ** shift;
    if (byte < 0x80) return value;
  }
}

function text() {
  const length = leb();
  at += length;
  return bytes.toString("utf8", at - length, at);
}

const sections = new Map();
const bodies = [];
const names = new Map();
let imported = 0;
while (at < bytes.length) {
  const id = bytes[at++];
  const size = leb();
  const end = at + size;
  let label = SECTIONS[id] ?? `section ${id}`;
  if (id === 0) {
    label = `custom ${text()}`;
    if (label === "custom name") readNames(end);
  } else if (id === 2) {
    readImports();
  } else if (id === 10) {
    for (let left = leb(); left > 0; left--) {
      const body = leb();
      bodies.push(body);
      at += body;
    }
  }
  sections.set(label, (sections.get(label) ?? 0) + size);
  at = end;
}

function readNames(end) {
  while (at < end) {
    const kind = bytes[at++];
    const size = leb();
    const next = at + size;
    if (kind === 1) {
      for (let left = leb(); left > 0; left--) {
        const index = leb();
        names.set(index, text());
      }
    }
    at = next;
  }
}

function readImports() {
  for (let left = leb(); left > 0; left--) {
    text();
    text();
    if (bytes[at++] !== 0) throw new Error("only functions are expected to be imported");
    leb();
    imported++;
  }
}

// Paths of a mangled name, roughly: `_ZN4core3ptr...E` is spelled out, of a `_R...` name only the crates are.
function plain(name) {
  if (name.startsWith("_R")) {
    return [...name.matchAll(/C(?:s[0-9a-zA-Z]*_)?([0-9]+)([a-z_].*)/g)].map(([, length, rest]) => `${rest.slice(0, length)}::`).join(" ");
  }
  if (!name.startsWith("_ZN")) return name;
  const parts = [];
  for (let rest = name.slice(3), length; (length = parseInt(rest, 10)) > 0; rest = rest.slice(String(length).length + length)) {
    parts.push(rest.slice(String(length).length, String(length).length + length));
  }
  return parts.slice(0, -1).join("::").replace(/\$LT\$/g, "<").replace(/\$GT\$/g, ">").replace(/\$u20\$/g, " ")
    .replace(/\$[A-Za-z0-9]+\$/g, " ").replace(/\.\./g, "::");
}

function crateOf(name) {
  const roots = plain(name).matchAll(/(?<![A-Za-z0-9_:.])_?([a-z][a-z0-9_]*)::/g);
  let standard = false;
  for (const [, root] of roots) {
    if (!STANDARD.has(root)) return root;
    standard = true;
  }
  return standard ? "standard library" : "runtime";
}

const crates = new Map();
const modules = new Map();
const sized = [];
const add = (map, key, size) => map.set(key, (map.get(key) ?? 0) + size);
bodies.forEach((size, index) => {
  const name = names.get(index + imported);
  const crate = name === undefined ? "unnamed" : crateOf(name);
  add(crates, crate, size);
  const path = name && plain(name).match(new RegExp(`(?<![A-Za-z0-9_])${crate}::[a-z0-9_]+(?:::[a-z0-9_]+(?=::))?`));
  add(modules, path ? path[0] : crate, size);
  sized.push([size, name && plain(name)]);
});

function print(title, map, most) {
  console.log(`\n${title}`);
  const sorted = [...map].sort((a, b) => b[1] - a[1]).slice(0, most);
  for (const [label, size] of sorted) console.log(`${String(size).padStart(10)}  ${label}`);
}

const named = sections.get("custom name") ?? 0;
console.log(`${file}: ${bytes.length - named} bytes without names`);
print("by section", new Map([...sections].filter(([label]) => label !== "custom name")), 20);
print("code by crate", crates, 20);
print("code by module", modules, 40);
if (process.argv[3] === "functions") print("functions", new Map(sized.map(([size, name], at) => [`${at} ${name}`, size])), Infinity);
