"use strict";
// Rows of the comparison page: the answers of all runs to a question next to each other.
(() => {
  const { make, mark, list } = RowTables;
  const WITH_TEXTS = 3; // MAX_WITH_TEXTS

  // One sign for all answers of a run; where they differ, the share that is right.
  function drawSign(answers) {
    const marks = new Set(answers.map((each) => each.mark));
    if (!answers.length) return [make("span", "small", "–")];
    if (marks.size === 1) return [mark([...marks][0])];
    const right = answers.filter((each) => each.mark === "right").length;
    return [mark("partial"), make("span", "share", ` ${right} of ${answers.length}`)];
  }

  function cell(row, column) {
    if (column.key === "question") return Answers.drawQuestion(row);
    if (column.key === "target") return Answers.drawTarget(row);
    if (!column.key.startsWith("run ")) return undefined;
    const run = row.labels.indexOf(column.key.slice(4));
    return row.labels.length <= WITH_TEXTS ? Answers.drawAll(row.answers[run], "said clip") : drawSign(row.answers[run]);
  }

  // Side by side: both answers, what is known of them, and their steps. `sides` are [label, answer, details] each.
  function drawSides(sides) {
    const side = (...content) => make("div", "", ...content);
    const box = make("div", "pair answers", ...sides.map(([name, answer, details]) => side(make("h3", "", `${name}: `, mark(answer.mark)),
      make("div", "said", (details?.answer ?? answer.line) || "–"), ...Answers.drawFacts(answer, details))));
    if (!sides.some(([, , details]) => details?.steps?.length)) return [box];
    const steps = sides.map(([name, answer, details]) => side(make("h3", "", `Steps of ${name}`), Answers.drawSteps(details?.steps ?? [], answer, details)));
    return [box, make("div", "pair", ...steps)];
  }

  async function drawEpoch(names, answers) {
    const there = names.map((name, place) => [name, answers[place]]).filter(([, answer]) => answer);
    const details = await Promise.all(there.map(([, answer]) => Blocks.get("steps", answer.key)));
    return drawSides(there.map(([name, answer], place) => [name, answer, details[place]]));
  }

  // The answers of one or two runs, epoch by epoch; the first that differs is open.
  async function drawRuns(names, runs) {
    const epochs = [...new Set(runs.flat().map((each) => each.epoch))].sort((a, b) => a - b);
    const at = (epoch) => runs.map((answers) => answers.find((each) => each.epoch === epoch));
    if (!epochs.length) return [make("p", "small", "Not answered.")];
    if (epochs.length === 1) return drawEpoch(names, at(epochs[0]));
    const differs = epochs.find((epoch) => new Set(at(epoch).map((each) => each?.mark)).size > 1) ?? epochs[0];
    return epochs.map((epoch) => {
      const title = make("span", "", `epoch ${epoch}: `);
      at(epoch).forEach((each, place) => title.append(` ${names[place]} `, each ? mark(each.mark) : "– not answered"));
      const fold = Steps.fold(title, () => drawEpoch(names, at(epoch)), "epoch");
      fold.open = epoch === differs;
      return fold;
    });
  }

  async function open(row, box) {
    const runs = row.answers;
    const any = runs.flat()[0];
    const details = any && (await Blocks.get("steps", any.key));
    const facts = make("dl", "facts");
    Answers.addFact(facts, "question", details?.question ?? row.question);
    if (row.target !== null) Answers.addFact(facts, "gold answer", details?.target ?? row.target);
    if (row.file) Answers.addFact(facts, "attachment", row.file);
    Answers.addFact(facts, "outcome", list(row.outcome)[0]);
    box.append(facts);
    if (runs.length === 2) {
      box.append(...await drawRuns(row.labels, runs));
      return;
    }
    const shown = Math.max(runs.findIndex((answers) => answers.some((each) => each.mark !== "right")), 0);
    runs.forEach((answers, run) => {
      const marks = answers.length ? answers.flatMap((each) => [mark(each.mark), " "]) : ["– not answered "];
      const title = make("span", "", `${row.labels[run]}: `, ...marks, answers[0]?.line.slice(0, 80) ?? "");
      if (run) title.append(make("span", "small", ` next to ${row.labels[0]}`));
      const both = run ? [[row.labels[0], row.labels[run]], [runs[0], answers]] : [[row.labels[0]], [answers]];
      const fold = Steps.fold(title, () => drawRuns(...both), "epoch");
      box.append(fold);
      fold.open = run === shown;
    });
  }

  RowTables.mount({ cell, open });
})();
