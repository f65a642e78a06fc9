"use strict";
// Opens a flipped question of the tuning page: its target, and the answers of both prompt sets next to each other.
RowTables.mount("flips", {
  async open(row, box) {
    const { make, mark } = RowTables;
    const flip = await Blocks.get("flips", row._place);
    if (!flip) {
      box.append(make("p", "quiet", "The page has no room for these answers: they are in flips.json."));
      return;
    }
    const facts = make("dl", "facts", make("dt", "", "question"), make("dd", "said", flip.question));
    facts.append(make("dt", "", "target"), make("dd", "said", flip.target));
    const sides = make("div", "sides");
    flip.sides.forEach((answers, place) => {
      const list = make("ol");
      for (const answer of answers) {
        list.append(make("li", "", mark(answer.mark), " ", make("span", "said", answer.text), answer.format ? make("span", "small", " (format)") : ""));
      }
      sides.append(make("div", "", make("h3", "", ["with the starting prompts", "with the tested ones"][place]), list));
    });
    box.append(facts, sides);
  },
});
