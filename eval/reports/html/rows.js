"use strict";
// Rows of a page (page.py): find, filter, sort, page, open, next and previous, deep links. Only one page of rows is
// in the document, so that 10,000 rows are filtered at once. A page's own script, after this one, says how a row looks and opens:
//
//   RowTables.mount({ cell(row, column) → Node | string | undefined (as any other), open(row, box) (may be async) });
//
// With `href(row) → address` in place of `open` a row is a link.
//
// Links: `#ID` opens a row, `#?KEY=VALUE&…` filters. Keys: j or ↓, k or ↑, Enter, Esc, /.
const RowTables = (() => {
  const SIZE = 50;
  const SIGNS = { right: "✓", partial: "◐", wrong: "✗", error: "!", "not run": "–", unscored: "·" };
  const collator = new Intl.Collator("en", { numeric: true });
  let table = null; // the only one of a page

  const make = (tag, className = "", ...content) => {
    const element = document.createElement(tag);
    if (className) element.className = className;
    element.append(...content);
    return element;
  };
  const list = (value) => (value === null || value === undefined || value === "" ? [] : Array.isArray(value) ? value : [value]);
  const mark = (value) => make("span", `mark ${value.replace(" ", "-")}`, `${SIGNS[value] ?? "·"} ${value}`);
  const FORMATS = {
    usd: (value) => `$${value.toFixed(value && Math.abs(value) < 1 ? 4 : 2)}`,
    seconds: (value) => `${value.toFixed(1)} s`,
  };

  class RowTable {
    constructor(box, options, data) {
      Object.assign(this, { box, options, noun: data.noun, columns: data.columns, rows: data.rows, at: 0, chosen: -1, order: null, menus: new Map() });
      this.drawn = this.columns.filter((each) => each.kind !== "hidden");
      this.shown = this.rows;
      this.build();
      this.filter();
    }

    build() {
      this.text = Object.assign(make("input"), { type: "search", placeholder: `find in ${this.noun}s` });
      this.text.setAttribute("aria-label", `find in ${this.noun}s`);
      this.text.addEventListener("input", () => this.filter());
      const tools = make("div", "tools", this.text);
      for (const column of this.columns.filter((each) => each.menu)) {
        const counts = new Map();
        for (const row of this.rows) for (const value of new Set(list(row[column.key]))) counts.set(value, (counts.get(value) ?? 0) + 1);
        if (!counts.size || (counts.size < 2 && this.rows.every((row) => list(row[column.key]).length))) continue;
        const menu = make("select", "", new Option(`${column.title}: all`, ""));
        menu.setAttribute("aria-label", column.title);
        for (const value of [...counts.keys()].sort(collator.compare)) menu.append(new Option(`${value} (${counts.get(value)})`, `=${value}`));
        menu.addEventListener("input", () => this.filter());
        this.menus.set(column.key, menu);
        tools.append(menu);
      }
      this.found = make("span", "found small");
      this.found.setAttribute("role", "status");
      tools.append(this.found);

      this.heads = new Map();
      const cells = make("div", "cells");
      for (const column of this.drawn) {
        const button = make("button", "", column.title);
        button.type = "button";
        button.title = "sort";
        button.addEventListener("click", () => this.sort(column.key, button.dataset.order === "up" ? "down" : "up"));
        this.heads.set(column.key, button);
        cells.append(make("div", FORMATS[column.kind] ? "number" : "", button));
      }
      this.list = make("div", "list");
      this.pager = make("div", "pager");
      const keys = make("p", "small keys", "Keys: j and k or the arrows go to the next and previous row, Enter opens, Esc closes, / finds.");
      this.box.style.setProperty("--columns", this.drawn.map((each) => `minmax(0, ${each.width})`).join(" "));
      this.box.append(tools, make("div", "box", make("div", "head", cells), this.list), this.pager, keys);
    }

    words(row) {
      row._words ??= [row.id, ...this.columns.filter((each) => !each.menu || this.drawn.includes(each)).flatMap((each) => list(row[each.key]))].join("\n").toLowerCase();
      return row._words;
    }

    filter() {
      const wanted = this.text.value.toLowerCase().split(/\s+/).filter(Boolean);
      const picked = [...this.menus].filter(([, menu]) => menu.value).map(([key, menu]) => [key, menu.value.slice(1)]);
      const fits = (row) =>
        picked.every(([key, value]) => list(row[key]).some((each) => String(each) === value))
        && wanted.every((word) => this.words(row).includes(word));
      this.shown = this.rows.filter(fits);
      this.found.textContent = `${this.shown.length.toLocaleString("en")} of ${this.rows.length.toLocaleString("en")} shown`;
      this.arrange();
    }

    sort(key, direction) {
      this.order = { key, direction };
      for (const [each, button] of this.heads) {
        if (each === key) button.dataset.order = direction;
        else delete button.dataset.order;
      }
      this.arrange();
    }

    arrange() {
      if (this.order) {
        const { key, direction } = this.order;
        const sign = direction === "down" ? -1 : 1;
        const value = (row) => { const found = list(row[key]); return typeof found[0] === "number" ? found[0] : found.join(" "); };
        const compare = (a, b) => (typeof a === "number" && typeof b === "number" ? a - b : collator.compare(String(a), String(b)));
        const keyed = this.shown.map((row) => [value(row), row]);
        // what has no value comes last in both orders
        keyed.sort(([a], [b]) => (a === "" ? 1 : 0) - (b === "" ? 1 : 0) || sign * compare(a, b));
        this.shown = keyed.map(([, row]) => row);
      }
      this.chosen = -1;
      this.show(0);
    }

    show(at) {
      this.at = Math.max(0, Math.min(at, this.shown.length - 1));
      this.at -= this.at % SIZE;
      const visible = this.shown.slice(this.at, this.at + SIZE);
      this.list.replaceChildren(...(visible.length ? visible.map((row) => this.draw(row)) : [make("p", "none", `No ${this.noun} fits.`)]));
      this.pager.replaceChildren();
      if (this.shown.length > SIZE) {
        const go = (name, to) => {
          const button = make("button", "", name);
          button.type = "button";
          button.disabled = to < 0 || to >= this.shown.length;
          button.addEventListener("click", () => { this.show(to); this.box.scrollIntoView(); });
          return button;
        };
        const last = Math.min(this.at + SIZE, this.shown.length);
        this.pager.append(go("previous", this.at - SIZE), `${(this.at + 1).toLocaleString("en")} to ${last.toLocaleString("en")} of ${this.shown.length.toLocaleString("en")}`, go("next", this.at + SIZE));
      }
    }

    draw(row) {
      const cells = make("span", "cells");
      for (const column of this.drawn) {
        const content = this.options.cell?.(row, column) ?? this.cell(row, column);
        const cell = make("span", FORMATS[column.kind] ? "number" : "wide", ...list(content));
        if (column !== this.drawn[0]) cell.dataset.title = column.title;
        cells.append(cell);
      }
      if (this.options.href) {
        const link = make("a", "row", cells);
        link.href = this.options.href(row);
        link.dataset.id = row.id;
        return link;
      }
      const details = make("details", "row", make("summary", "", cells));
      details.dataset.id = row.id;
      details.addEventListener("toggle", () => {
        if (!details.open) return;
        this.choose(row);
        try { history.replaceState(null, "", `#${encodeURIComponent(row.id)}`); } catch { /* a page in a frame has no address */ }
        if (details.querySelector(":scope > .opened")) return;
        const opened = make("div", "opened");
        details.append(opened);
        Promise.resolve(this.options.open(row, opened)).catch((error) => {
          opened.append(make("p", "error", `This cannot be shown: ${error.message}`));
        });
      });
      return details;
    }

    cell(row, { key, kind }) {
      return list(row[key]).map((each) => (FORMATS[kind] ? make("div", "", FORMATS[kind](each)) : make("span", "clip", String(each))));
    }

    choose(row) {
      this.chosen = this.shown.indexOf(row);
    }

    element(row) {
      return [...this.list.children].find((each) => each.dataset.id === String(row.id));
    }

    // Go to a row of those that fit the filters; one that is open before is closed, and the next is open too.
    go(place, open) {
      const row = this.shown[place];
      if (!row) return;
      const before = this.shown[this.chosen] && this.element(this.shown[this.chosen]);
      const reading = open ?? Boolean(before?.open);
      if (before && reading) before.open = false;
      this.choose(row);
      if (place < this.at || place >= this.at + SIZE) this.show(place);
      const element = this.element(row);
      if (reading) element.open = true;
      (element.querySelector("summary") ?? element).focus({ preventScroll: true });
      element.scrollIntoView({ block: reading ? "start" : "nearest" });
    }

    // Open a row by its id, whatever the filters hide.
    reveal(id) {
      if (!this.rows.some((row) => String(row.id) === id)) return;
      if (!this.shown.some((row) => String(row.id) === id)) this.clear();
      this.go(this.shown.findIndex((row) => String(row.id) === id), true);
    }

    clear() {
      this.text.value = "";
      for (const menu of this.menus.values()) menu.value = "";
      this.filter();
    }

    choosing(parameters) {
      const known = [...parameters].filter(([key]) => this.menus.has(key));
      if (!known.length) return;
      this.clear();
      for (const [key, value] of known) this.menus.get(key).value = `=${value}`;
      this.filter();
      this.box.scrollIntoView();
    }
  }

  // Builds the table a moment later: its data is compressed.
  async function mount(options = {}) {
    const box = document.querySelector(".rows");
    if (!box) return;
    table = new RowTable(box, options, await Blocks.read(box.querySelector("script.data")));
    follow();
  }

  // Go where a link of this page leads; a page in a frame, as in MLflow, has no address that could change.
  function visit(href) {
    try { history.pushState(null, "", href); } catch { /* as said */ }
    follow(href);
  }

  function follow(href = location.hash) {
    const hash = href.slice(1);
    if (!hash || !table) return;
    if (hash.startsWith("?")) {
      table.choosing(new URLSearchParams(hash.slice(1)));
      return;
    }
    let id = hash;
    try { id = decodeURIComponent(hash); } catch { /* as it is */ }
    table.reveal(id);
  }

  document.addEventListener("keydown", (event) => {
    const writing = event.target.closest?.("input, select, textarea, [contenteditable]");
    if (event.ctrlKey || event.metaKey || event.altKey || !table) return;
    if (writing) {
      if (event.key === "Escape") event.target.blur();
      return;
    }
    const inside = event.target.closest?.("details.row");
    const step = event.key === "j" || (event.key === "ArrowDown" && inside) ? 1 : event.key === "k" || (event.key === "ArrowUp" && inside) ? -1 : 0;
    if (step) table.go(Math.max(table.chosen + step, 0));
    else if (event.key === "/") table.text.focus();
    else if (event.key === "Escape" && inside) {
      inside.open = false;
      inside.querySelector("summary").focus();
    } else return;
    event.preventDefault();
  });
  document.addEventListener("focusin", (event) => {
    const row = event.target.closest?.(".row");
    if (row && table) table.chosen = table.shown.findIndex((each) => String(each.id) === row.dataset.id);
  });
  document.addEventListener("click", (event) => {
    const href = event.target.closest?.("a[href^='#']")?.getAttribute("href");
    if (!href || document.getElementById(href.slice(1))) return;
    event.preventDefault();
    visit(href);
  });
  window.addEventListener("hashchange", () => follow());
  return { mount, visit, make, mark, list };
})();
