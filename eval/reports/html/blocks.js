"use strict";
// Compressed blocks of data in the page (page.py): `await Blocks.get("prompts", 17)` is the value, or undefined.
const Blocks = (() => {
  const TEXT = "\u0000";
  const opened = new Map();
  let places = null; // name and key → element

  // The value in an element that holds the base64 of a gzip of JSON.
  async function read(element) {
    const written = atob(element.textContent.trim());
    const bytes = new Uint8Array(written.length);
    for (let place = 0; place < written.length; place += 1) bytes[place] = written.charCodeAt(place);
    const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
    return JSON.parse(await new Response(stream).text());
  }

  function find(name, key) {
    const list = (block) => block.dataset.keys.split(",").map((one) => [`${block.dataset.name} ${one}`, block]);
    places ??= new Map([...document.querySelectorAll("script.block")].flatMap(list));
    return places.get(`${name} ${key}`);
  }

  function resolve(value, texts) {
    if (Array.isArray(value)) return value.map((each) => resolve(each, texts));
    if (value === null || typeof value !== "object") return value;
    if (TEXT in value) return texts[value[TEXT]];
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, resolve(each, texts)]));
  }

  async function get(name, key) {
    const element = find(name, key);
    if (!element) return undefined;
    if (!opened.has(element)) opened.set(element, read(element));
    const { texts, values } = await opened.get(element);
    return resolve(values[key], texts);
  }

  return { get, read };
})();
