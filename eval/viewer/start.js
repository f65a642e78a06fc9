"use strict";
// The list of runs: a row leads to the live page, the run's pages and the queue.
RowTables.mount("runs", {
  cell(row, column) {
    if (column.key === "state") {
      return Page.make("span", row.state === "running" ? "right" : row.state === "finished" ? "" : "error", row.state || row.kind);
    }
    if (column.key === "name") return Page.make("span", "name", row.name);
    return null;
  },
  open(row, box) {
    const links = Page.make("p", "links");
    const add = (text, address) => links.append(Page.link(text, address), " ");
    if (row.kind === "evaluation") {
      if (row.state === "running") add("watch live", Page.at(row.id));
      add("review answers", Page.at(row.id, "review"));
    }
    for (const page of row.links ?? []) add(page, Page.at(row.id, "pages", page));
    box.append(links);
  },
});
