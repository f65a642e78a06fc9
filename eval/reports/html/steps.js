"use strict";
// The steps of an answer (eval/reports/step_tree.py) as a tree: `Steps.draw(steps, { prompts })`, where `prompts()` is a promise
// of the calls by the id of their span, read when a reader asks for them. All texts are set as text.
const Steps = (() => {
  const { make, list } = RowTables;

  const isTall = (text) => text.length > 900 || text.split("\n", 13).length > 12;

  // A text; a long one scrolls in a box that the keyboard reaches.
  const speak = (kind, text) => {
    const box = make("div", `said ${kind} ${isTall(text) ? "tall" : ""}`.trim());
    if (isTall(text)) box.tabIndex = 0;
    return box;
  };

  const said = (name, text, kind = "") => {
    const box = speak(kind, text);
    if (name) box.append(make("span", "small", `${name}:`), text.includes("\n") ? "\n" : " ");
    box.append(text);
    return box;
  };

  // A box that is filled when it is opened.
  function fold(title, fill, className = "") {
    const details = make("details", className, make("summary", "", title));
    details.addEventListener("toggle", async () => {
      if (!details.open || details.dataset.filled) return;
      details.dataset.filled = "true";
      try {
        details.append(...list(await fill()));
      } catch (error) {
        details.append(make("p", "error", `This cannot be shown: ${error.message}`));
      }
    });
    return details;
  }

  function drawCall(call) {
    const box = make("div", "call", make("div", "small", call.title));
    const add = (name, text) => {
      const place = speak("code", text);
      place.append(text || "–");
      box.append(make("div", "small", name), place);
    };
    for (const [role, text] of call.messages) add(role, text);
    add("reply", call.reply);
    if (call.error) box.append(make("div", "said wrong", call.error));
    return box;
  }

  function drawPrompts(step, options) {
    const n = step.calls.length;
    return fold(`${n} model call${n === 1 ? "" : "s"}: prompt${n === 1 ? "" : "s"} and repl${n === 1 ? "y" : "ies"}`, async () => {
      const calls = await options.prompts();
      if (!calls) return make("p", "small", options.missing ?? "They are in records.jsonl.");
      return step.calls.map((id) => calls[id]).filter(Boolean).map(drawCall);
    }, "prompts");
  }

  function drawStep(step, options) {
    const item = make("li", step.kind, make("b", "", step.title), " ");
    if (step.decision) {
      item.append(make("span", step.decision === "reject" ? "error" : "", step.decision), " ");
    }
    if (options.broken !== undefined && step.span === options.broken) {
      item.classList.add("broken");
      item.append(make("span", "badge wrong", "points were lost here first"), " ");
    }
    item.append(make("span", "small", step.facts ?? ""));
    if (step.inner?.length) item.append(draw(step.inner, options));
    for (const [name, text] of step.said ?? []) item.append(said(name, text));
    for (const text of step.warnings ?? []) item.append(said("", text, "error"));
    if (step.error) item.append(said("", step.error, "wrong"));
    if (step.calls?.length && options.prompts) item.append(drawPrompts(step, options));
    return item;
  }

  function draw(steps, options = {}) {
    return make("ol", "steps", ...steps.map((step) => drawStep(step, options)));
  }

  return { draw, fold };
})();
