"use strict";
// The queue: one answer at a time, a key for each verdict. What is decided is saved at once, and u takes it back.
(() => {
  const { make } = RowTables;
  const data = JSON.parse(document.getElementById("page-data").textContent);
  const byId = (id) => document.getElementById(id);
  const items = data.items;
  if (!items) return;
  const NAMES = { right: "right", wrong: "wrong", wrong_gold: "wrong gold", ambiguous: "ambiguous", bad_question: "bad question" };
  const KEYS = { r: "right", w: "wrong", g: "wrong_gold", a: "ambiguous", b: "bad_question" };
  const NEAR = 40; // answers of the list before and after the current one: of ten thousand only these are drawn
  const OF_QUESTION = new Set(["wrong_gold", "ambiguous", "bad_question"]);
  const undone = []; // labels of this visit, the newest last
  let current = null;
  let shown = null; // the answer of `current`, once it is loaded
  let busy = false;

  const list = byId("queue");
  const kinds = byId("kinds");
  const fits = { wrong: (each) => each.mark === "wrong" || each.mark === "partial", error: (each) => each.mark === "error", right: (each) => each.mark === "right", all: () => true };
  const at = (run, ...rest) => ["/runs", ...[run, ...rest].map(encodeURIComponent)].join("/");
  const visible = () => items.filter(fits[kinds.value]);
  const labelled = (item) => item.labels.length > 0;

  // Read or write JSON; the error of a refusal is the server's sentence.
  async function ask(address, body) {
    const answer = await fetch(address, body ? { method: "POST", headers: { "Content-Type": "application/json" }, body: JSON.stringify(body) } : {});
    const text = await answer.text();
    let found = {};
    try { found = JSON.parse(text); } catch { found = { error: text }; }
    if (!answer.ok) throw new Error(found.error || `The server answered ${answer.status}.`);
    return found;
  }

  function say(text, isError = false) {
    byId("saying").textContent = text;
    byId("saying").className = isError ? "error" : "quiet";
  }

  function drawList() {
    const some = visible();
    const from = Math.max(some.indexOf(current) - NEAR, 0);
    const rows = some.slice(from, from + 2 * NEAR).map((item) => {
      const names = item.labels.map((each) => NAMES[each.label] ?? each.label).join(", ");
      const button = make("button", item === current ? "item current" : "item", make("span", "small", `${item.mark}${names ? ` · ${names}` : ""}`), make("span", "clip", item.question));
      button.type = "button";
      if (labelled(item)) button.classList.add("done");
      if (item === current) button.setAttribute("aria-current", "true");
      button.addEventListener("click", () => open(item));
      return button;
    });
    const more = (n, where) => (n > 0 ? [make("p", "small more", `${n.toLocaleString("en")} ${where}`)] : []);
    list.replaceChildren(...more(from, "before"), ...rows, ...more(some.length - from - rows.length, "after"));
    list.querySelector(".current")?.scrollIntoView({ block: "nearest" });
    const done = some.filter(labelled).length;
    byId("count").textContent = `${done} of ${some.length} reviewed`;
  }

  const fact = (name, text, kind = "") => [make("dt", "", name), make("dd", `said ${kind}`.trim(), text)];

  function drawAnswer() {
    const box = byId("answer");
    if (!shown) { box.replaceChildren(make("p", "quiet", current ? "…" : "Nothing is left to review here.")); return; }
    const facts = make("dl", "facts");
    facts.append(...fact("question", shown.question, "big"));
    if (shown.file) facts.append(...fact("attachment", shown.file));
    facts.append(...fact("gold", shown.target ?? "", "gold"));
    facts.append(...fact("answer", shown.error ? `(none) ${shown.error}` : shown.answer ?? "(none)", shown.mark));
    facts.append(...fact("scorer", `${shown.mark}${shown.explanation ? `: ${shown.explanation}` : ""}`));
    if (shown.lost) facts.append(...fact("lost at", shown.lost));
    const labels = shown.labels.map((each) => {
      const target = each.target ? ` → ${each.target}` : "";
      const note = each.note ? `: ${each.note}` : "";
      return make("li", "said", `${NAMES[each.label] ?? each.label}${target}${note} (${each.who}, ${each.when.slice(0, 16).replace("T", " ")} UTC, seen in ${each.run})`);
    });
    if (labels.length) facts.append(make("dt", "", "people"), make("dd", "", make("ul", "plain", ...labels)));
    if (shown.reasoning) facts.append(...fact("reasoning", shown.reasoning));
    const steps = make("details", "fold", make("summary", "", `steps (${shown.steps.length})`));
    steps.id = "steps";
    steps.open = true;
    steps.append(Steps.draw(shown.steps));
    const id = make("p", "small", `id ${shown.id}${shown.epoch > 1 ? `, epoch ${shown.epoch}` : ""}${shown.level ? `, level ${shown.level}` : ""}`);
    box.replaceChildren(facts, id, steps);
    for (const button of document.querySelectorAll("[data-label]")) button.disabled = busy || (button.dataset.label === "right" && shown.answer === null);
  }

  async function open(item) {
    closeTarget();
    current = item;
    shown = null;
    byId("note").value = "";
    drawList();
    drawAnswer();
    if (!item) return;
    try {
      const found = await ask(at(data.id, "answers", String(item.row)));
      if (item === current) shown = found;
    } catch (error) {
      say(error.message, true);
    }
    drawAnswer();
    if (item === current) history.replaceState(null, "", `#${item.row}`);
  }

  const next = (from) => {
    const some = visible();
    const at = some.indexOf(from);
    return [...some.slice(at + 1), ...some.slice(0, Math.max(at, 0))].find((each) => !labelled(each)) ?? null;
  };

  // Nothing else is decided while something is written.
  async function during(write) {
    if (busy) return;
    busy = true;
    try {
      await write();
    } catch (error) {
      say(error.message, true);
    }
    busy = false;
    drawAnswer();
  }

  const save = (label, target = null) => during(async () => {
    if (!current || !shown) return;
    const item = current;
    const found = await ask(at(data.id, "labels"), { row: item.row, label, target, note: byId("note").value });
    // a label on the question holds for all its epochs
    const touched = OF_QUESTION.has(label) ? items.filter((each) => each.id === item.id) : [item];
    const before = touched.map((each) => [each, each.labels]);
    for (const each of touched) each.labels = [...each.labels.filter((one) => OF_QUESTION.has(one.label) !== OF_QUESTION.has(label)), found];
    undone.push({ item, id: found.id, before });
    say(`saved: ${NAMES[label]}${target ? ` → ${target}` : ""}; u takes it back`);
    await open(next(item));
  });

  const undo = () => during(async () => {
    const last = undone.at(-1);
    if (!last) { say("nothing of this visit is left to take back"); return; }
    await ask(at(data.id, "labels"), { row: last.item.row, withdraws: last.id });
    undone.pop();
    for (const [each, labels] of last.before) each.labels = labels;
    say("taken back");
    await open(last.item);
  });

  function openTarget() {
    if (!shown) return;
    byId("target-form").hidden = false;
    byId("target").value = shown.answer ?? shown.target ?? "";
    byId("target").focus();
    byId("target").select();
  }

  function closeTarget() {
    byId("target-form").hidden = true;
    if (document.activeElement === byId("target")) document.activeElement.blur();
  }

  const saveTarget = () => save("wrong_gold", byId("target").value);
  const decide = (label) => (label === "wrong_gold" ? openTarget() : save(label));

  function go(step) {
    const some = visible();
    const place = some.indexOf(current) + step;
    if (some[place]) open(some[place]);
  }

  for (const button of document.querySelectorAll("[data-label]")) button.addEventListener("click", () => decide(button.dataset.label));
  byId("undo").addEventListener("click", undo);
  byId("target-save").addEventListener("click", saveTarget);
  byId("target-cancel").addEventListener("click", closeTarget);
  kinds.addEventListener("input", () => open(visible().find((each) => !labelled(each)) ?? visible()[0] ?? null));

  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const field = event.target.closest?.("input, textarea, select");
    if (field) {
      if (event.key === "Escape") { field.blur(); closeTarget(); } else if (event.key === "Enter" && field.id === "target") saveTarget();
      else if (event.key === "Enter" && field.id === "note") field.blur();
      else return;
    } else if (KEYS[event.key]) decide(KEYS[event.key]);
    else if (event.key === "u") undo();
    else if (event.key === "n") byId("note").focus();
    else if (event.key === "s") byId("steps")?.toggleAttribute("open");
    else if (event.key === "j" || event.key === "ArrowRight") go(1);
    else if (event.key === "k" || event.key === "ArrowLeft") go(-1);
    else return;
    event.preventDefault();
  });

  const linked = items.find((each) => `#${each.row}` === location.hash);
  if (linked && !fits[kinds.value](linked)) kinds.value = "all";
  open(linked ?? visible().find((each) => !labelled(each)) ?? visible()[0] ?? null);
})();
