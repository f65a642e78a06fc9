"""The simulated model's replies to 1,500 recorded requests are the same as ever, in all worlds and for all agents.

Other replies would change every sample score, tutorial and tuning run that is documented. After a change that is meant
to do so, `PYTHONPATH=. python tests/mas/simulation/test_recorded_replies.py` records the replies to the same requests.
"""

import json
import lzma
from collections import Counter
from pathlib import Path

import pytest
from dspy._vendor.lm15.serde import request_from_dict, response_to_dict

from mas.runtime.sample_context import SampleContext, SampleKey, use_context
from mas.simulation import answer_request, propose_prompt
from mas.simulation.skills.mistakes import calculate_exactly, calculate_mentally
from mas.simulation.solving.shop import solve_shop_problem

FILE = Path(__file__).with_name("recorded_replies.json.xz")
KINDS = {"task": answer_request, "reflection": propose_prompt}


def read_recorded() -> dict[str, list[list[object]]]:
    """Rows of each kind: `task` and `reflection` (key, request, reply), `toy` (problem, answers)."""
    return json.loads(lzma.decompress(FILE.read_bytes()))  # type: ignore[no-any-return]


RECORDED = read_recorded()


def reply(kind: str, key: list[int], request: object) -> object:
    with use_context(SampleContext(SampleKey("recorded", *key))):
        return json.loads(json.dumps(response_to_dict(KINDS[kind](request_from_dict(request)))))


def answer_toy(problem: str) -> list[str | None]:
    """Careful, with each number misread, and careful but in the head."""
    findings = [solve_shop_problem(problem, misreads) for misreads in (False, True)]
    careful = findings[0]
    return [
        *(finding and calculate_exactly(finding) for finding in findings),
        careful and calculate_mentally(careful),
    ]


@pytest.mark.parametrize("kind", ["task", "reflection"])
def test_a_reply_is_the_one_that_was_recorded(kind: str) -> None:
    others = [(request, now) for key, request, then in RECORDED[kind] if (now := reply(kind, key, request)) != then]
    assert not others, f"{len(others)} of {len(RECORDED[kind])}; the first: {others[0]}"


def test_toy_problems_are_answered_as_they_were_carefully_misread_and_in_the_head() -> None:
    assert [answer_toy(str(problem)) for problem, _ in RECORDED["toy"]] == [answers for _, answers in RECORDED["toy"]]


def test_the_recorded_requests_are_of_all_worlds_and_kinds() -> None:
    models = Counter(row[1]["model"] for kind in KINDS for row in RECORDED[kind])  # type: ignore[call-overload]
    assert min(models[f"offline/{world}"] for world in ("normal-0", "null-3", "leaky-0", "harmful-0")) >= 100
    assert len(RECORDED["reflection"]) >= 90 and len(RECORDED["toy"]) >= 100


if __name__ == "__main__":
    for name in KINDS:
        RECORDED[name] = [[key, request, reply(name, key, request)] for key, request, _ in RECORDED[name]]
    RECORDED["toy"] = [[problem, answer_toy(problem)] for problem, _ in RECORDED["toy"]]
    FILE.write_bytes(lzma.compress(json.dumps(RECORDED, ensure_ascii=False).encode(), preset=9 | lzma.PRESET_EXTREME))
