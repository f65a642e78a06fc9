"use strict";
// A row is a link to the run's page.
RowTables.mount({
  href: (row) => row.href,
  cell(row, column) {
    const { make } = RowTables;
    if (column.key === "state") return make("span", `state ${row.state}`, row.state);
    const written = { score: row.result, cost_usd: row.cost }[column.key];
    if (written !== undefined) return make("span", "", written);
    if (column.key !== "name") return undefined;
    const box = make("span", "", make("span", "name", row.name));
    if (row.remark) box.append(make("span", "small clip", row.remark));
    return box;
  },
});
