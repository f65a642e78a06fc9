"use strict";
RowTables.mount({ open: (row, box) => box.append(row.question, row.note) });
