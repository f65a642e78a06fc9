"""Looks at a sealed test: a small part of the table in docs/explanation/sequential-test.md, and what it shows."""

import re

from eval.analysis.statistics.paired_tests import plan_looks
from optimize.gate.gate import compute_smallest_gain
from optimize.gate.sealed_log import FIRST_LEVEL
from optimize.gate.sequential import MIN_PREDICTED
from scripts.sequential_gate import BEGIN, END, GATES, LOOKS, PAGE, PARTS_OF_GAIN, SIZES, Situation, simulate


def read_table(text: str) -> list[list[str]]:
    return [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]


def test_looks_save_answers_where_there_is_no_gain_and_little_power_where_there_is() -> None:
    planned = compute_smallest_gain(53, 5)
    assert planned
    null, real = simulate(Situation(53, 5, 0.0), 150), simulate(Situation(53, 5, 1.5 * planned), 150)
    assert null.passed_with_looks <= 6, "of 150 at a level of 0.015 on this side"
    assert null.share_used < 0.62  # 0.53 with 10,000 gates
    assert real.passed_with_looks >= 140 and real.share_used < 0.85
    assert simulate(Situation(53, 5, planned, looks=1), 20).share_used == 1.0


def test_the_page_shows_the_plan_and_what_was_measured_with_it() -> None:
    plan, text = plan_looks(LOOKS, FIRST_LEVEL), PAGE.read_text("utf-8")
    shown = [float(row[2]) for row in read_table(text.partition(BEGIN)[0]) if row[0].isdigit()]
    assert shown == [round(level, 6 if level < 1e-4 else 4) for level in plan.levels]
    assert f"below {100 * MIN_PREDICTED:g} %" in text and f"{GATES:,} simulated gates" in text
    rows = [row for row in read_table(text.partition(BEGIN)[2].partition(END)[0]) if row[0].isdigit()]
    assert len(rows) == len(SIZES) * len(PARTS_OF_GAIN)
    for _, _, gain, *cells in rows:
        at_end, with_looks, used = (float(cell.removesuffix(" %")) for cell in cells)
        if gain == "none":
            assert with_looks <= 100 * FIRST_LEVEL / 2 and used <= 55
        if re.search("as planned", gain):
            assert at_end - with_looks <= 3
