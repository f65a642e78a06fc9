"""Tests of one run compared with another, from answers alone."""

from collections.abc import Mapping, Sequence
from dataclasses import replace

import pytest

from eval.analysis.comparison.answers import Answers, GivenAnswer
from eval.analysis.comparison.comparison import Comparison, compare_answers, compare_held_out
from eval.analysis.statistics.metric_interval import compute_metric_interval
from eval.analysis.tuned_on import UsedToTune
from eval.runs.record import NOT_RUN, PlannedQuestion

RIGHT = GivenAnswer(1, 1.0, "17", None, False, False, seconds=2.0, tokens=100, cost_usd=0.02, cached_calls=0)
WRONG = replace(RIGHT, value=0.0, text="18", seconds=4.0, tokens=300, cost_usd=0.04)
HALF = replace(RIGHT, value=0.5, text="17 or 18")
BROKEN = replace(WRONG, text="", error_class="malformed", unreadable=True, format_lost=True)
FORMAT = replace(WRONG, text="seventeen", format_lost=True)
FREE = replace(RIGHT, cost_usd=None)
EXACT = {"_target_": "eval.scorers.exact.ExactScorer"}


def run(*by_question: Sequence[GivenAnswer | None], **facts: object) -> Answers:
    """A run with the answers to q0, q1, …, by epoch."""
    ids = [f"q{n}" for n in range(len(by_question))]
    questions = {each: PlannedQuestion(each, f"{each}?", None, "17", "1") for each in ids}
    given = {
        each: {epoch: answer for epoch, answer in enumerate(answers, 1) if answer is not None}
        for each, answers in zip(ids, by_question, strict=True)
    }
    return Answers(questions, given, max(map(len, by_question)), **facts)  # type: ignore[arg-type]


def flipped(compared: Comparison) -> Mapping[str, float]:
    return {each.id: each.difference for each in compared.flips}


def test_differences_are_the_seconds_minus_the_firsts() -> None:
    compared = compare_answers(run([WRONG], [WRONG], [RIGHT], [RIGHT]), run([RIGHT], [RIGHT], [RIGHT], [WRONG]))
    assert (compared.first.accuracy, compared.second.accuracy, compared.score.difference) == (0.5, 0.75, 0.25)
    assert (compared.score.wins, compared.score.losses, compared.score.ties) == (2, 1, 1)
    for each, difference in ((compared.seconds, -0.5), (compared.tokens, -50.0), (compared.cost_usd, -0.005)):
        assert each is not None and each.difference == pytest.approx(difference) and each.n_questions == 4
    assert flipped(compared) == {"q0": 1.0, "q1": 1.0, "q3": -1.0}
    assert (compared.flips[0].first, compared.flips[0].second) == ((WRONG,), (RIGHT,))
    assert (compared.flips[0].question, compared.flips[0].target, compared.flips[0].level) == ("q0?", "17", "1")


def test_each_side_is_counted() -> None:
    cached = replace(RIGHT, cached_calls=2, cached_tool_calls=3)
    compared = compare_answers(run([RIGHT, HALF], [BROKEN, None]), run([cached, cached], [FREE, WRONG]))
    first, second = compared.first, compared.second
    assert (first.n_answers, first.n_correct, first.accuracy, first.score) == (4, 1, 0.25, 0.375)
    assert first.errors_by_class == {"malformed": 1, NOT_RUN: 1}
    assert (first.tokens, first.cost_usd) == (500, pytest.approx(0.08))
    assert (first.cached_calls, first.cached_tool_calls) == (0, 0)
    assert (second.n_answers, second.n_correct, second.accuracy) == (4, 3, 0.75)
    assert (second.tokens, second.cost_usd, second.errors_by_class) == (600, None, {})
    assert (second.cached_calls, second.cached_tool_calls) == (4, 6)


def test_amounts_are_compared_where_all_of_both_sides_are_known() -> None:
    compared = compare_answers(run([RIGHT, RIGHT], [RIGHT, RIGHT]), run([RIGHT, FREE], [WRONG, None]))
    assert compared.cost_usd is not None and compared.tokens is not None
    assert (compared.cost_usd.n_questions, compared.cost_usd.difference) == (1, pytest.approx(0.02))
    assert (compared.tokens.n_questions, compared.tokens.difference) == (2, 100.0)
    assert compare_answers(run([FREE]), run([RIGHT])).cost_usd is None


def test_format_losses_include_replies_that_could_not_be_read() -> None:
    compared = compare_answers(run([BROKEN], [FORMAT], [RIGHT], [None]), run([RIGHT], [RIGHT], [WRONG], [BROKEN]))
    losses, unreadable = compared.format_losses, compared.unreadable
    assert (losses.first, losses.second, losses.difference, losses.n_questions) == (0.5, 0.25, -0.25, 4)
    assert (unreadable.first, unreadable.second, unreadable.difference) == (0.25, 0.25, 0.0)


def test_the_largest_difference_of_either_sign_is_first() -> None:
    compared = compare_answers(run([HALF], [RIGHT], [RIGHT]), run([RIGHT], [WRONG], [RIGHT]))
    assert list(flipped(compared).items()) == [("q1", -1.0), ("q0", 0.5)]


def test_chosen_samples_are_compared_without_missing_answers_and_all_with_them() -> None:
    first, second = run([RIGHT, None], [WRONG, WRONG]), run([RIGHT, RIGHT], [RIGHT, RIGHT])
    whole, chosen = compare_answers(first, second), compare_answers(first, second, ["q0"])
    assert (whole.first.accuracy, whole.first.errors_by_class) == (0.25, {NOT_RUN: 1})
    assert (chosen.first.accuracy, chosen.first.errors_by_class, chosen.score.n_questions) == (1.0, {}, 1)
    assert flipped(whole) == {"q0": 0.5, "q1": 1.0} and flipped(chosen) == {}
    with pytest.raises(ValueError):
        compare_answers(first, second, [])


def test_extra_scorers_are_compared_where_both_have_the_same() -> None:
    def scored(short: float, other: float) -> GivenAnswer:
        return replace(RIGHT, extra=(("short", short), ("other", other)))

    short, other, changed = {"name": "short"}, {"name": "other"}, {"name": "other", "limit": 2}
    first = run([scored(0.0, 1.0)], [scored(0.5, 0.0)], extra_scorers={"short": short, "other": other})
    second = run([scored(1.0, 1.0)], [scored(1.0, 1.0)], extra_scorers={"short": short, "other": changed})
    (extra,) = compare_answers(first, second).extra.items()
    assert extra[0] == "short"
    assert (extra[1].first, extra[1].second, extra[1].result.difference) == (0.25, 1.0, 0.75)
    assert extra[1].to_dict()["difference"] == 0.75


def test_only_samples_that_no_prompt_was_tuned_on_are_held_out() -> None:
    first, second = run([RIGHT], [WRONG], [HALF]), run([RIGHT], [RIGHT], [RIGHT])
    ids = ["q0", "q1", "q2"]
    used = UsedToTune("tuned", learnt_from=frozenset({"q0", "q9"}), picked_by=frozenset())
    held_out = compare_held_out(first, second, ids, {"A": None, "B": used})
    assert held_out is not None and set(held_out.sets) == {"B"}
    assert (held_out.n_questions, held_out.n_without) == (1, 2)
    assert (held_out.accuracies, held_out.scores) == ((0.0, 1.0), (0.25, 1.0))
    assert held_out.without is not None and held_out.without.difference == 0.75
    nothing = compare_held_out(first, second, ["q0"], {"B": used})
    assert nothing is not None and nothing.n_without == 0
    assert nothing.accuracies is nothing.scores is nothing.without is None
    assert compare_held_out(first, second, ["q1"], {"A": None, "B": used}) is None


def test_a_comparison_is_written_whole() -> None:
    first, second = run([RIGHT], [BROKEN], scorer=EXACT), run([WRONG], [HALF], scorer=EXACT)
    compared = compare_answers(first, second)
    written = compared.to_dict()
    own = {"metric": "mean score", **compared.score.to_dict()}
    assert {name: written[name] for name in own} == own
    assert set(written) - set(own) == {
        "first", "second", "cost_usd", "seconds", "tokens", "format_losses", "unreadable", "extra_scorers", "flips",
    }  # fmt: skip
    assert written["second"] == {
        "accuracy": 0.0, "ci95": compute_metric_interval([(0.0,), (0.0,)]), "n_answers": 2, "n_correct": 0,
        "errors_by_class": {}, "tokens": 400, "cost_usd": pytest.approx(0.06), "cached_calls": 0, "score": 0.25,
        "score_ci95": compute_metric_interval([(0.0,), (0.5,)]), "cached_tool_calls": 0,
    }  # fmt: skip
    assert compared.cost_usd is not None and compared.seconds is not None and compared.tokens is not None
    assert written["cost_usd"] == compared.cost_usd.to_dict() and written["tokens"] == compared.tokens.to_dict()
    assert (compared.seconds.first, compared.seconds.second) == (3.0, 3.0)
    assert (compared.tokens.first, compared.tokens.second, compared.tokens.difference) == (200, 200, 0)
    assert written["unreadable"] == compared.unreadable.to_dict() and written["extra_scorers"] == {}
    flips = written["flips"]
    assert isinstance(flips, list) and [(each["id"], each["difference"]) for each in flips] == [("q0", -1), ("q1", 0.5)]
    assert flips[1]["first"][0]["error_class"] == "malformed" and flips[1]["second"][0]["text"] == "17 or 18"
    unknown = compare_answers(run([FREE]), run([RIGHT])).to_dict()
    assert unknown["cost_usd"] is None and unknown["metric"] == "accuracy"


def test_errors_are_counted_the_most_frequent_first_and_missing_answers_are_errors() -> None:
    tool = replace(BROKEN, error_class="tool")
    compared = compare_answers(run([BROKEN], [tool], [tool], [None]), run([RIGHT], [RIGHT], [RIGHT], [RIGHT]))
    assert list(compared.first.errors_by_class.items()) == [("tool", 2), ("malformed", 1), (NOT_RUN, 1)]
    assert (compared.first.n_answers, compared.first.tokens, compared.first.cost_usd) == (4, 900, pytest.approx(0.12))
    none = compare_answers(run([None]), run([RIGHT]))
    assert (none.first.cost_usd, none.first.tokens, none.tokens, none.seconds) == (0, 0, None, None)


def test_a_target_that_is_not_known_is_empty_in_a_flip() -> None:
    first = run([RIGHT])
    bare = replace(first, questions={"q0": PlannedQuestion("q0", "Which?")})
    (flip,) = compare_answers(bare, run([WRONG])).flips
    assert (flip.target, flip.level, flip.difference) == ("", None, -1.0)


def test_several_answers_to_a_sample_are_its_mean() -> None:
    compared = compare_answers(run([RIGHT, WRONG, HALF], [RIGHT, RIGHT, RIGHT]), run([WRONG] * 3, [RIGHT, WRONG, None]))
    assert (compared.first.accuracy, compared.first.score) == (pytest.approx(2 / 3), 0.75)
    assert compared.first.ci95 == compute_metric_interval([(1, 0, 0), (1, 1, 1)])
    assert compared.first.score_ci95 == compute_metric_interval([(1, 0, 0.5), (1, 1, 1)])
    assert (compared.second.accuracy, compared.second.score) == (pytest.approx(1 / 6), pytest.approx(1 / 6))
    assert compared.seconds is not None
    assert (compared.seconds.first, compared.seconds.second) == (pytest.approx((8 / 3 + 2) / 2), 3.5)
    assert compared.seconds.difference == pytest.approx((4 - 8 / 3 + 3 - 2) / 2)


def test_what_is_held_out_is_written_with_its_result() -> None:
    used = UsedToTune("tuned", learnt_from=frozenset({"q0"}), picked_by=frozenset({"q1"}))
    other = UsedToTune("other", learnt_from=frozenset({"q1"}), picked_by=frozenset({"z"}))
    first, second = run([RIGHT], [WRONG], [HALF], [WRONG]), run([RIGHT], [RIGHT], [RIGHT], [WRONG])
    found = compare_held_out(first, second, ["q0", "q1", "q2", "q3"], {"A": used, "B": other})
    assert found is not None and found.without is not None
    assert found.to_dict() == {
        "sets": {"A": "tuned (1 for training, 1 for validation)", "B": "other (1 for training)"},
        "n_questions": 2, "n_without": 2, "accuracies": (0.0, 0.5), "scores": (0.25, 0.5),
        "without": found.without.to_dict(),
    }  # fmt: skip
    all_used = compare_held_out(first, second, ["q0", "q1"], {"A": used})
    assert all_used is not None and all_used.to_dict()["without"] is None
