"use strict";
// Rows of report.html: the question first, the gold answer next to the answer; what opens is read from the page's blocks.
(() => {
  const { make, mark } = RowTables;

  function drawLost(row) {
    const groups = Answers.group(row.answers.filter((each) => each.lost), (each) => each.lost);
    return [...groups].map(([lost, all]) => make("div", "", all.length > 1 ? `${lost} ×${all.length}` : lost));
  }

  const CELLS = { question: Answers.drawQuestion, target: Answers.drawTarget, answer: (row) => Answers.drawAll(row.answers), lost: drawLost };
  const cell = (row, column) => CELLS[column.key]?.(row);

  function drawPair(gold, given) {
    const side = (title, text) => make("div", "", make("h3", "", title), make("div", "said", text || "–"));
    return make("div", "pair answers", ...(gold === null ? [] : [side("gold answer", gold)]), side("answer", given));
  }

  async function drawAnswer(row, answer) {
    const details = await Blocks.get("steps", answer.key);
    const texts = details ? [details.target ?? null, details.answer ?? ""] : [row.target, answer.line];
    const box = make("div", "details", drawPair(...texts), ...Answers.drawFacts(answer, details));
    if (details?.steps?.length) box.append(make("h3", "", "Steps"), Answers.drawSteps(details.steps, answer, details));
    return box;
  }

  async function open(row, box) {
    const first = await Blocks.get("steps", row.answers[0].key);
    const facts = make("dl", "facts");
    Answers.addFact(facts, "question", first?.question ?? row.question);
    if (row.file) Answers.addFact(facts, "attachment", row.file);
    box.append(facts);
    if (row.answers.length === 1) {
      box.append(await drawAnswer(row, row.answers[0]));
      return;
    }
    const shown = Math.max(row.answers.findIndex((each) => each.mark !== "right"), 0);
    row.answers.forEach((answer, place) => {
      const title = make("span", "", `epoch ${answer.epoch}: `, mark(answer.mark), " ", answer.line.slice(0, 80));
      const epoch = Steps.fold(title, () => drawAnswer(row, answer), "epoch");
      box.append(epoch);
      epoch.open = place === shown;
    });
  }

  RowTables.mount({ cell, open });
})();
