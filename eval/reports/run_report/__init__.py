"""`report.html`: a run on one page, in the order of a reader's questions."""
