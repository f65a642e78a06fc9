"use strict";
// What the viewer's pages share: their data, texts, and requests to the server.
const Page = (() => {
  const { make } = RowTables;
  const data = JSON.parse(document.getElementById("page-data")?.textContent ?? "{}");
  const percent = (value) => `${(100 * value).toFixed(1)}%`;
  const usd = (value) => `$${value >= 0.1 || value === 0 ? value.toFixed(2) : value.toFixed(4)}`;
  const at = (run, ...rest) => ["/runs", encodeURIComponent(run), ...rest.map(encodeURIComponent)].join("/");

  function duration(seconds) {
    if (seconds < 90) return `${Math.round(seconds)} s`;
    const minutes = Math.round(seconds / 60);
    return minutes < 60 ? `${minutes} min` : `${Math.floor(minutes / 60)} h ${minutes % 60} min`;
  }

  // Read or write JSON; the error of a refusal is the server's sentence.
  async function ask(address, body) {
    const headers = body ? { "Content-Type": "application/json", [data.header]: data.token } : {};
    const answer = await fetch(address, body ? { method: "POST", headers, body: JSON.stringify(body) } : { headers });
    const text = await answer.text();
    let found = {};
    try { found = JSON.parse(text); } catch { found = { error: text }; }
    if (!answer.ok) throw new Error(found.error || `The server answered ${answer.status}.`);
    return found;
  }

  // A row of a table with the class `lines`; cells: [column, content, classes].
  const row = (...cells) => make("tr", "", ...cells.map(([title, content, kind = ""], place) => {
    const cell = make(title === "candidate" ? "th" : "td", kind, content);
    if (place) cell.dataset.title = title;
    return cell;
  }));

  const link = (text, address) => Object.assign(make("a", "", text), { href: address });
  return { data, make, row, percent, usd, at, duration, ask, link };
})();
