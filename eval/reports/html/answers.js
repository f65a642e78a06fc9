"use strict";
// Answers to a question, as the report and the comparison of runs show them: a cell in the row, all of it where the row opens.
const Answers = (() => {
  const { make, mark } = RowTables;
  const GONE = "There was no room on this page for it: whole texts, steps and prompts are in the run's records.jsonl.";
  const ONCE = ["question", "target", "steps", "answer", "extra", "broken", "evidence"]; // of the details: drawn apart from the other facts

  function group(values, key) {
    const groups = new Map();
    for (const each of values) groups.set(key(each), [...(groups.get(key(each)) ?? []), each]);
    return groups;
  }

  function drawQuestion(row) {
    const file = row.file.startsWith(row.id) ? row.file.slice(row.id.length) : row.file;
    const facts = [row.id, row.level && `level ${row.level}`, file].filter(Boolean).join(" · ");
    return [make("span", "clip asked", row.question || "–"), make("span", "id small", facts)];
  }

  const drawTarget = (row) => (row.target === null ? [] : [make("span", "clip said", row.target)]);

  // Equal answers of several epochs are one line.
  function drawAll(answers, kind = "said") {
    const groups = group(answers, (each) => [each.mark, each.line, each.why, each.people].join("\n"));
    return [...groups.values()].map((same) => {
      const [first] = same;
      const box = make("div", "answer", mark(first.mark));
      if (same.length > 1) box.append(" ", make("span", "small", `×${same.length}`));
      if (first.line) box.append(" ", make("span", kind, first.line));
      if (first.mark !== "right" && first.why) box.append(make("span", `clip small${first.mark === "error" ? " error" : ""}`, first.why));
      for (const note of [first.people && `people: ${first.people}`, first.limit && `ended by ${first.limit}`, first.attempt > 1 && `try ${first.attempt}`]) {
        if (note) box.append(make("span", "badge", note), " ");
      }
      return box;
    });
  }

  function addFact(facts, name, ...value) {
    facts.append(make("dt", "", name), make("dd", "said", ...value));
  }

  // Everything about an answer but its text and its steps; without details what its row knows.
  function drawFacts(answer, details) {
    const facts = make("dl", "facts");
    if (answer.lost) addFact(facts, "lost at", make("strong", "", answer.lost), details?.evidence ? `: ${details.evidence}` : "");
    if (!details && answer.why) addFact(facts, "why", answer.why);
    for (const [name, text] of details?.extra ?? []) addFact(facts, name, text);
    for (const [name, text] of Object.entries(details ?? {})) if (!ONCE.includes(name)) addFact(facts, name, text);
    return details ? [facts] : [facts, make("p", "small", GONE)];
  }

  const drawSteps = (steps, answer, details) =>
    Steps.draw(steps, { prompts: () => Blocks.get("prompts", answer.key), missing: GONE, broken: details?.broken });

  return { group, drawQuestion, drawTarget, drawAll, addFact, drawFacts, drawSteps };
})();
