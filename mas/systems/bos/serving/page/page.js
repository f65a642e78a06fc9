// Asks the service and shows plan, agents, queries, table and answer as they come.
// Whatever the stream holds is inserted as text, never as HTML.
"use strict";

const MAX_ROWS = 200;
const byId = (id) => document.getElementById(id);
let running = null;

function add(parent, tag, text, className) {
  const element = document.createElement(tag);
  if (text !== undefined) element.textContent = text;
  if (className) element.className = className;
  parent.append(element);
  return element;
}

function addTable(parent, table) {
  if (!table) return;
  const element = add(parent, "table");
  const head = add(element, "tr");
  for (const name of table.columns) add(head, "th", name);
  for (const row of table.rows.slice(0, MAX_ROWS)) {
    const line = add(element, "tr");
    for (const name of table.columns) {
      const value = row[name];
      add(line, "td", value !== null && typeof value === "object" ? JSON.stringify(value) : String(value ?? ""));
    }
  }
  if (table.truncated || table.rows.length > MAX_ROWS) add(parent, "p", "Some rows are not shown.");
}

const SHOW = {
  plan(card, data) {
    add(card, "h2", "Plan: " + (data.agents.join(", then ") || "no agent"));
    add(card, "p", data.rationale);
  },
  agent(card, data) {
    card.classList.add(data.status);
    add(card, "h2", `Agent ${data.agent}: ${data.status}`);
    for (const query of data.queries) add(card, "pre", query);
    addTable(card, data.tabular);
    if (data.answer) add(card, "p", data.answer);
    if (data.error) add(card, "p", data.error.message);
  },
  answer(card, data) {
    add(card, "h2", "Answer");
    add(card, "p", data.answer);
  },
  error(card, data) {
    add(card, "h2", "The request failed");
    add(card, "p", data.message);
  },
};

function show(name, data) {
  if (!Object.hasOwn(SHOW, name)) return;
  SHOW[name](add(byId("steps"), "article", undefined, name), data);
}

async function readStream(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  let last = "";
  for (;;) {
    const { value, done } = await reader.read();
    if (done) return last;
    text += value;
    const blocks = text.split("\n\n");
    text = blocks.pop();
    for (const block of blocks) {
      const found = /^event: (\w+)\ndata: (.*)$/.exec(block);
      if (!found) continue; // a comment that keeps the connection open
      last = found[1];
      show(last, JSON.parse(found[2]));
    }
  }
}

async function ask(event) {
  event.preventDefault();
  byId("steps").replaceChildren();
  byId("status").textContent = "Working …";
  byId("send").disabled = true;
  byId("stop").disabled = false;
  running = new AbortController();
  const headers = { "Content-Type": "application/json" };
  if (byId("token").value) headers.Authorization = "Bearer " + byId("token").value;
  try {
    const body = JSON.stringify({ question: byId("question").value });
    const response = await fetch("/stream", { method: "POST", headers, body, signal: running.signal });
    if (response.ok) {
      const last = await readStream(response);
      const isComplete = last === "answer" || last === "error";
      byId("status").textContent = isComplete ? "" : "The connection ended before the answer; ask again.";
    } else {
      byId("status").textContent = (await response.json()).error.message;
    }
  } catch (error) {
    const isStopped = error.name === "AbortError";
    byId("status").textContent = isStopped ? "Stopped." : "The service cannot be reached; ask again later.";
  } finally {
    byId("send").disabled = false;
    byId("stop").disabled = true;
  }
}

byId("form").addEventListener("submit", ask);
byId("stop").addEventListener("click", () => running && running.abort());
