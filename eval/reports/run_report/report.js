"use strict";
// Rows of report.html: the question first, the gold answer next to the answer; what opens is read from the page's blocks.
const Report = (() => {
  const { make, mark, list, format } = RowTables;
  const FIELDS = ["key", "epoch", "attempt", "mark", "line", "why", "cause", "limit", "approved", "seconds", "tokens", "cost", "people"]; // _build_answer
  const SHORT = 300; // characters of texts whose words are compared
  const ONCE = ["question", "target", "steps", "answer", "extra", "broken", "evidence"]; // of the details: drawn apart from the other facts

  const read = (row) => row.answers.map((values) => Object.fromEntries(FIELDS.map((name, place) => [name, values[place]])));

  function drawQuestion(row) {
    const file = row.file.startsWith(row.id) ? row.file.slice(row.id.length) : row.file;
    const facts = [row.id, row.level && `level ${row.level}`, file].filter(Boolean).join(" · ");
    return [make("span", "clip asked", row.question || "–"), make("span", "id small", facts)];
  }

  // Equal answers of several epochs are one line.
  function drawAnswers(row) {
    const groups = new Map();
    for (const each of read(row)) {
      const same = [each.mark, each.line, each.why, each.people].join("\n");
      groups.set(same, [...(groups.get(same) ?? []), each]);
    }
    return [...groups.values()].map((answers) => {
      const [first] = answers;
      const box = make("div", "answer", mark(first.mark));
      if (answers.length > 1) box.append(" ", make("span", "small", `×${answers.length}`));
      if (first.line) box.append(" ", make("span", "said", first.line));
      if (first.mark !== "right" && first.why) box.append(make("span", `clip small${first.mark === "error" ? " error" : ""}`, first.why));
      const notes = [
        answers.some((each) => each.approved) && `${first.approved || answers.find((each) => each.approved).approved} approved a wrong answer`,
        first.people && `people: ${first.people}`,
        first.limit && `ended by ${first.limit}`,
        first.attempt > 1 && `try ${first.attempt}`,
      ].filter(Boolean);
      for (const note of notes) box.append(make("span", note.includes("approved") ? "badge wrong" : "badge", note), " ");
      return box;
    });
  }

  function drawLost(row) {
    const counts = new Map();
    for (const { cause } of read(row)) if (cause) counts.set(cause, (counts.get(cause) ?? 0) + 1);
    return [...counts].map(([cause, n]) => make("div", "", n > 1 ? `${cause} ×${n}` : cause));
  }

  const cell = (row, column) =>
    column.key === "question" ? drawQuestion(row)
      : column.key === "answer" ? drawAnswers(row)
        : column.key === "lost" ? drawLost(row)
          : column.key === "target" ? (row.target === null ? [] : [make("span", "clip said", row.target)])
            : undefined;

  function addFact(facts, name, ...value) {
    facts.append(make("dt", "", name), make("dd", "said", ...value));
  }

  function addAnswer(facts, answer, details) {
    const [gold, given] = [details.target ?? null, details.answer ?? ""];
    const differs = gold !== null && given && answer.mark !== "right" && gold.length <= SHORT && given.length <= SHORT;
    const [right, left] = differs ? Words.compare(given, gold) : [[given || "–"], [gold ?? ""]];
    const pair = make("div", "pair");
    if (gold !== null) pair.append(make("div", "", make("h3", "", "gold answer"), make("div", "said", ...left)));
    pair.append(make("div", "", make("h3", "", "answer"), make("div", "said", ...right)));
    facts.before(pair);
  }

  async function drawAnswer(row, answer) {
    const details = await Blocks.get("steps", answer.key);
    const box = make("div", "details");
    const facts = make("dl", "facts");
    box.append(facts);
    if (!details) {
      addAnswer(facts, answer, { target: row.target, answer: answer.line });
      if (answer.why) addFact(facts, "why", answer.why);
      box.append(make("p", "small", "There was no room on this page for more: whole texts, steps and prompts of this answer are in records.jsonl."));
      return box;
    }
    addAnswer(facts, answer, details);
    if (answer.approved) addFact(facts, "critic", make("span", "wrong", `${answer.approved} approved this wrong answer`));
    if (answer.cause) addFact(facts, "lost at", make("strong", "", answer.cause), details.evidence ? `: ${details.evidence}` : "");
    for (const [name, text] of details.extra ?? []) addFact(facts, name, text);
    for (const [name, text] of Object.entries(details)) if (!ONCE.includes(name)) addFact(facts, name, text);
    if (details.steps?.length) {
      const prompts = () => Blocks.get("prompts", answer.key);
      const missing = "There was no room on this page for the prompts of this answer; they are in records.jsonl.";
      box.append(make("h3", "", "Steps"), Steps.draw(details.steps, { prompts, missing, broken: details.broken, wrong: answer.mark === "wrong" || answer.mark === "partial" }));
    }
    return box;
  }

  async function open(row, box) {
    const answers = read(row);
    const first = await Blocks.get("steps", answers[0].key);
    const facts = make("dl", "facts");
    addFact(facts, "question", first?.question ?? row.question);
    if (row.file) addFact(facts, "attachment", row.file);
    box.append(facts);
    if (answers.length === 1) {
      box.append(await drawAnswer(row, answers[0]));
      return;
    }
    const shown = answers.findIndex((each) => each.mark !== "right");
    answers.forEach((answer, place) => {
      const title = make("span", "", `epoch ${answer.epoch}: `, mark(answer.mark), " ", answer.line.slice(0, 80));
      const epoch = Steps.fold(title, () => drawAnswer(row, answer), "epoch");
      box.append(epoch);
      epoch.open = place === Math.max(shown, 0);
    });
  }

  const TITLES = ["id", "epoch", "question", "gold answer", "answer", "verdict", "why", "lost at", "critic that approved", "level", "attachment", "file", "seconds", "tokens", "cost", "people"];
  const exportRows = (row) =>
    row === null ? TITLES
      : read(row).map((each) => [
        row.id, each.epoch, row.question, row.target, each.line, each.mark, each.why, each.cause, each.approved, row.level, row.kind, row.file,
        each.seconds, each.tokens, each.cost, each.people,
      ]);

  RowTables.mount("questions", { cell, open, export: exportRows });
  return { list, format };
})();
