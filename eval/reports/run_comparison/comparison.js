"use strict";
// Rows of the comparison page: the answers of all runs to a question next to each other; and prompts word by word.
(() => {
  const { make, mark } = RowTables;
  const FIELDS = ["key", "epoch", "mark", "line", "why", "cause", "approved", "seconds", "tokens", "cost"]; // _build_answer
  const WITH_TEXTS = 3; // MAX_WITH_TEXTS
  const SHORT = 300; // characters of answers whose words are compared

  const read = (answers) => answers.map((values) => Object.fromEntries(FIELDS.map((name, place) => [name, values[place]])));

  function drawQuestion(row) {
    const file = row.file.startsWith(row.id) ? row.file.slice(row.id.length) : row.file;
    const facts = [row.id, row.level && `level ${row.level}`, file].filter(Boolean).join(" · ");
    return [make("span", "clip asked", row.question || "–"), make("span", "id small", facts)];
  }

  // Equal answers of several epochs are one line.
  function drawAnswers(answers) {
    const groups = new Map();
    for (const each of answers) groups.set(`${each.mark}\n${each.line}`, [...(groups.get(`${each.mark}\n${each.line}`) ?? []), each]);
    return [...groups.values()].map((same) => {
      const box = make("div", "answer", mark(same[0].mark));
      if (same.length > 1) box.append(" ", make("span", "small", `×${same.length}`));
      if (same[0].line) box.append(" ", make("span", "said clip", same[0].line));
      else if (same[0].mark !== "right" && same[0].why) box.append(make("span", "clip small", same[0].why));
      return box;
    });
  }

  // One sign for all answers of a run; where they differ, the share that is right.
  function drawSign(answers) {
    const marks = new Set(answers.map((each) => each.mark));
    if (!answers.length) return [make("span", "small", "–")];
    if (marks.size === 1) return [mark([...marks][0])];
    const right = answers.filter((each) => each.mark === "right").length;
    return [mark("partial"), make("span", "share", ` ${right} of ${answers.length}`)];
  }

  function cell(row, column) {
    if (column.key === "question") return drawQuestion(row);
    if (column.key === "target") return row.target === null ? [] : [make("span", "clip said", row.target)];
    if (!column.key.startsWith("run ")) return undefined;
    const answers = read(row.answers[row.labels.indexOf(column.key.slice(4))]);
    return row.labels.length <= WITH_TEXTS ? drawAnswers(answers) : drawSign(answers);
  }

  // Mark the first step that is not as in the first run.
  function markChange(list, before, steps) {
    const read = (step) => step && JSON.stringify([step.title, step.decision, step.said, step.error, step.inner?.map((each) => [each.title, each.said])]);
    const place = steps.findIndex((step, each) => read(step) !== read(before[each]));
    const note = place < 0 ? "All steps are those of the first run." : "From here on it differs from the first run:";
    list.insertBefore(make("li", "change small", note), place < 0 ? null : list.children[place]);
  }

  async function drawAnswer(answer, other) {
    const box = make("div");
    const details = await Blocks.get("steps", answer.key);
    const text = details?.answer ?? answer.line;
    const compared = other && text && other.line && text !== other.line && text.length <= SHORT && other.line.length <= SHORT;
    const said = compared ? Words.compare(other.line, text)[1] : [text || "–"];
    box.append(make("div", "said", mark(answer.mark), " ", ...said));
    const facts = make("dl", "facts");
    const add = (name, value) => { if (value) facts.append(make("dt", "", name), make("dd", "said", value)); };
    add("why", details?.scorer || details?.error || answer.why);
    add("lost at", answer.cause);
    add("evidence", details?.evidence);
    add("spent", details?.spent);
    box.append(facts);
    if (answer.approved) box.append(make("span", "badge", `${answer.approved} approved a wrong answer`));
    if (details?.steps?.length) {
      const prompts = () => Blocks.get("prompts", answer.key);
      const missing = "There was no room on this page for the prompts of this answer; they are in the run's records.jsonl.";
      const steps = Steps.draw(details.steps, { prompts, missing, wrong: answer.mark === "wrong" || answer.mark === "partial" });
      const before = other && (await Blocks.get("steps", other.key))?.steps;
      if (before?.length) markChange(steps, before, details.steps);
      box.append(make("h4", "", "Steps"), steps);
    } else box.append(make("p", "small", "There was no room on this page for the steps of this answer; they are in the run's records.jsonl."));
    return box;
  }

  async function drawRun(label, answers, first) {
    const side = make("div", "side", make("h3", "", `Run ${label}`));
    if (!answers.length) side.append(make("p", "small", "Not answered."));
    else if (answers.length === 1) side.append(await drawAnswer(answers[0], first?.[0]));
    else {
      const shown = Math.max(answers.findIndex((each) => each.mark !== "right"), 0);
      answers.forEach((answer, place) => {
        const title = make("span", "", `epoch ${answer.epoch}: `, mark(answer.mark), " ", answer.line.slice(0, 60));
        const epoch = Steps.fold(title, () => drawAnswer(answer, first?.[place]), "epoch");
        side.append(epoch);
        epoch.open = place === shown;
      });
    }
    return side;
  }

  async function open(row, box) {
    const runs = row.answers.map(read);
    const any = runs.flat()[0];
    const details = any && (await Blocks.get("steps", any.key));
    const facts = make("dl", "facts", make("dt", "", "question"), make("dd", "said", details?.question ?? row.question));
    if (row.target !== null) facts.append(make("dt", "", "gold answer"), make("dd", "said", details?.target ?? row.target));
    if (row.file) facts.append(make("dt", "", "attachment"), make("dd", "said", row.file));
    facts.append(make("dt", "", "outcome"), make("dd", "said", row.outcome));
    const sides = make("div", "sides");
    box.append(facts, sides);
    for (const [place, answers] of runs.entries()) sides.append(await drawRun(row.labels[place], answers, place ? runs[0] : undefined));
  }

  const exportRows = (row) =>
    row === null ? ["id", "run", "epoch", "question", "gold answer", "answer", "verdict", "lost at", "outcome", "level", "attachment", "seconds", "tokens", "cost"]
      : row.answers.flatMap((answers, place) => read(answers).map((each) => [
        row.id, row.labels[place], each.epoch, row.question, row.target, each.line, each.mark, each.cause, row.outcome, row.level, row.kind, each.seconds, each.tokens, each.cost,
      ]));

  RowTables.mount("questions", { cell, open, export: exportRows });

  const prompts = JSON.parse(document.getElementById("prompts").textContent);
  for (const place of document.querySelectorAll(".prompts-compared")) {
    for (const { agent, runs, texts } of prompts) {
      place.append(Steps.fold(`${agent}: ${runs[0]} and ${runs[1]}`, () => {
        const [before, now] = Words.compare(...texts);
        return make("div", "pair-of-texts", make("div", "", ...before), make("div", "", ...now));
      }));
    }
  }
})();
