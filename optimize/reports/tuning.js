"use strict";
// The flipped questions of the tuning page; a row opens with its target, and the answers of both prompt sets.
RowTables.mount("flips");
