"""`report.html`: a run on one page, in the order of a reader's questions."""

from eval.runs.folder import REPORT as REPORT  # part of what this package offers
