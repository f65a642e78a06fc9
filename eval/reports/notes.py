"""A run's summary in sentences: what stands below the numbers in the terminal and in the report.

dict(notes(summary))["errors"]      # "limit 2, infrastructure 1"
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from eval.analysis.tuned_on import describe_unknown, format_questions
from eval.cli.terminal_text import shorten_line
from eval.runs.record import NOT_RUN

NOT_AVAILABLE = "n/a"
RATE_LIMIT = "rate limit"  # a reason in the gate's history
MAX_LINES_OF_K = 6
MAX_SOURCE_CHARS = 120
MAX_SHOWN = 3  # sources or hosts in one line


def format_percent(share: float | None) -> str:
    return NOT_AVAILABLE if share is None else f"{share:.1%}"


def format_floor(share: float | None, incomplete: bool) -> str:
    """A share of right answers; while answers are to come, the least that it can become."""
    return f"at least {format_percent(share)}" if incomplete and share is not None else format_percent(share)


def is_incomplete(summary: Mapping[str, Any]) -> bool:
    """A summary that is older than this says nothing of it."""
    return bool(summary.get("incomplete"))


def format_interval(bounds: Sequence[float] | None) -> str:
    return f"{format_percent(bounds[0])} to {format_percent(bounds[1])}" if bounds else NOT_AVAILABLE


def format_changes(session: Mapping[str, Any]) -> str:
    """In which its configuration differs from that of the session before."""
    return "; ".join(f"{key}: {change}" for key, change in (session["changes"] or {}).items())


def select_ks(by_epochs: Mapping[str, Any]) -> list[str]:
    """The k whose pass@k is shown: all of a few, else the powers of two and the last."""
    ks = list(by_epochs["pass_at"])
    if len(ks) <= MAX_LINES_OF_K:
        return ks
    return [k for k in ks if int(k).bit_count() == 1 or k == ks[-1]]


def list_notes(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Names and what is to be said; a line that would only say "none" is left out, except errors."""
    yield from _tuned_on(summary)
    yield from _failures(summary)
    yield from _answers(summary)
    yield from _giveaways(summary)
    yield from _epochs(summary)
    yield from _spending(summary)
    yield from _course(summary)


def describe_tuned_on(told: Mapping[str, Any], incomplete: bool = False) -> str:
    """`told`: what `eval.analysis.summary.subsets.tuned_on_of` gave."""
    unknown = describe_unknown(told.get("edited", ()))  # a summary that is older than this has none
    if unknown and not told["n_questions"]:
        return unknown
    return f"{_known(told, incomplete)}; {unknown}" if unknown else _known(told, incomplete)


def _known(told: Mapping[str, Any], incomplete: bool) -> str:
    n, n_all, prompts = told["n_questions"], told["n_all"], told["prompts"]
    these = format_questions(n_all, told.get("n_unscored", 0))
    roles = f"{told['n_learnt_from']} learnt from, {told['n_picked_by']} picked by"
    if not n:
        none = f"the one {these} was not" if n_all == 1 else f"none of these {these} was"
        return f"{none} used to tune {prompts}"
    if n == n_all:
        every = f"the one {these} was" if n == 1 else f"all {these} were"
        return f"{every} used to tune {prompts} ({roles}): the accuracy flatters"
    bounds = f" ({format_interval(told['accuracy_without_ci95'])})" if told["accuracy_without_ci95"] else ""
    without = f"accuracy without {'it' if n == 1 else 'them'}: {format_floor(told['accuracy_without'], incomplete)}"
    used = f"{n} of these {these} {'was' if n == 1 else 'were'} used to tune {prompts} ({roles})"
    return f"{used}: the accuracy flatters; {without} of {told['n_without']}{bounds}"


def _tuned_on(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """A summary that is older than this has none."""
    if told := summary.get("used_to_tune"):
        yield "tuned on", describe_tuned_on(told, is_incomplete(summary))


def _failures(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if summary["stopped"]:
        yield "stopped", str(summary["stopped"])
    if is_incomplete(summary):
        yield "incomplete", f"{_so_far(summary)}; what has no answer yet counts as wrong, so the accuracy is a floor"
    errors = {name: count for name, count in summary["errors_by_class"].items() if name != NOT_RUN}
    yield "errors", _tally(errors) or "none"
    if n_infrastructure := summary["n_infrastructure"]:
        again = "run again with run.resume=RUN run.retry_errors=true"
        yield "infrastructure errors", f"{n_infrastructure} (of the wrong answers; {again})"
    if summary["limits"]:
        yield "ended by a limit", _tally(summary["limits"])
    if (retried := summary["retried"])["n"]:
        share = format_floor(retried["accuracy_first_tries"], is_incomplete(summary))
        before = f"on first tries the accuracy was {share}"
        yield "tried again", f"{retried['n']} after an error, {retried['recovered']} of them without one now; {before}"


def _so_far(summary: Mapping[str, Any]) -> str:
    n_answered = summary["n"] - summary["n_error"]
    right = f"{summary['n_correct']} right of {summary['n_correct'] + summary['n_wrong']} answered"
    parts = [right if summary["n_scored"] else f"{n_answered} answered"]
    if n_not_run := summary["n_not_run"]:
        parts.append(f"{n_not_run} of {summary['n']} not asked")
    return ", ".join(parts)


def _answers(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if summary["format_loss"]:
        yield "format loss", f"{summary['format_loss']} wrong only in format (counted as wrong)"
    if summary["mean_score"] is not None:
        mean = f"{'at least ' if is_incomplete(summary) else ''}{summary['mean_score']:.3f}"
        yield "mean score", f"{mean} with partial credit; the accuracy counts full credit only"
    if summary["judge_agreement"]:
        rules = (("rule", "the GAIA rule"), ("exact", "exact text"))
        told = (_agreement(name, summary["judge_agreement"][key]) for key, name in rules)
        yield "the judge agrees", f"{'; '.join(told)}, on {summary['judge_agreement']['rule']['n']} answers"
    if summary["n_unscored"]:
        yield "unscored", f"{summary['n_unscored']} without a gold answer, outside the accuracy"
    if summary["n_outside_plan"]:
        why = "of questions or epochs that the run's plan no longer has; only their calls and cost count"
        yield "left out", f"{summary['n_outside_plan']} answers {why}"
    if summary["n_bad_rows"]:
        yield "skipped", f"{summary['n_bad_rows']} unreadable rows of the dataset, outside every number above"


def _giveaways(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    leaks, blocked = summary["leaks"], summary["blocked_pages"]
    if n := leaks["n_questions"]:
        sources = _some(list(dict.fromkeys(each["source"] for each in leaks["results"])), "; ")
        share = format_floor(leaks["accuracy_without"], is_incomplete(summary))
        without = f"accuracy without {'it' if n == 1 else 'them'}: {share}"
        bounds = f" ({format_interval(leaks['accuracy_without_ci95'])})" if leaks["accuracy_without_ci95"] else ""
        met = f"{n} question{'' if n == 1 else 's'} met a page that gives the benchmark away"
        yield "benchmark leaks", f"{met}: {sources}; {without} of {leaks['n_without']}{bounds}"
    if blocked["n"]:
        hosts = [f"{host} {times}" for host, times in blocked["hosts"].items()]
        yield "blocked pages", f"{blocked['n']}: {_some(hosts, ', ')}"


def _some(names: Sequence[str], mark: str) -> str:
    more = [f"{len(names) - MAX_SHOWN} more"] if len(names) > MAX_SHOWN else []
    return mark.join([*(shorten_line(each, MAX_SOURCE_CHARS) for each in names[:MAX_SHOWN]), *more])


def _epochs(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if summary["epochs"] <= 1:
        return
    repeats = f"{summary['epochs']} of each of {summary['n_questions']} questions"
    if (by_epochs := summary["by_epochs"]) is None:
        later = "; pass@k, pass^k and the majority vote need all answers" if is_incomplete(summary) else ""
        yield "epochs", f"{repeats}{later}"
        return
    yield "epochs", f"{repeats}; the interval is clustered by question (ICC {by_epochs['icc']:.2f})"
    vote = by_epochs["majority"]
    yield "majority vote", f"{format_percent(vote['value'])} ({format_interval(vote['ci95'])})"


def _spending(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    usage, judging = summary["usage"], summary["scorer_usage"]
    tools = f"{usage['tool_calls']:,} to tools{_of_which_tools(usage)}"
    yield "calls", f"{usage['lm_calls']:,} to language models{_of_which(usage)}, {tools}"
    if n := usage.get("cached_tool_calls", 0):
        whose = "1 tool result comes" if n == 1 else f"{n:,} tool results come"
        oldest = str(usage["oldest_cached_tool_result"])[:10]
        yield "tool results", f"{whose} from other runs (cache.tools=shared), the oldest of {oldest}"
    if errors := summary.get("tool_errors"):
        calls = summary["calls_by_tool"]
        yield "failed tool calls", ", ".join(f"{name} {n:,} of {calls[name]:,}" for name, n in errors.items())
    yield "tokens", _tokens(usage)
    if judging["lm_calls"]:
        cost = f" and {_money(judging)}" if judging["cost_usd"] is not None or judging["known_cost_usd"] else ""
        yield "judging", f"{judging['lm_calls']:,} calls, tokens {_tokens(judging)}{cost}, outside the numbers beside"
    yield "cost", _cost(summary)
    if unfinished := summary["unfinished"]:
        outside = "outside the numbers above until the run is resumed"
        yield "unfinished questions", f"{unfinished['lm_calls']:,} calls, {_money(unfinished)}; {outside}"


def _course(summary: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    if (waited := summary["waited_seconds"]) >= 0.05:
        yield "waited", f"{waited:,.1f} s for rate limits, free places and retries, of all questions together"
    if cuts := sum(each["reason"] == RATE_LIMIT for each in summary["gate_history"]):
        limits = [each["limit"] for each in summary["gate_history"]]
        times = "once" if cuts == 1 else f"{cuts} times"
        yield "rate", f"limited {times} by the server; {min(limits)} to {max(limits)} requests at once"
    if len(summary["sessions"]) > 1:
        yield "sessions", f"{len(summary['sessions'])}: the run was resumed"
    if changed := [format_changes(session) for session in summary["sessions"] if session["changes"]]:
        yield "configuration changed", "; ".join(changed)
    yield "time", f"{summary['wall_seconds']:,.1f} s"


def _of_which(usage: Mapping[str, Any]) -> str:
    kinds = (
        (usage["retries"], "sent again"),
        (usage["replayed_calls"], "replayed from before an interruption"),
        (usage["cached_calls"], "from the shared cache"),
    )
    return _told(kinds)


def _of_which_tools(usage: Mapping[str, Any]) -> str:
    """A summary that is older than these counts has none."""
    kinds = (
        (usage.get("replayed_tool_calls", 0), "answered before in this run"),
        (usage.get("cached_tool_calls", 0), "from the shared cache"),
    )
    return _told(kinds)


def _told(kinds: Iterable[tuple[int, str]]) -> str:
    told = [f"{count:,} {what}" for count, what in kinds if count]
    return f" (of these {', '.join(told)})" if told else ""


def _tokens(usage: Mapping[str, Any]) -> str:
    cached = f" ({usage['cached_input_tokens']:,} cached by the provider)" if usage["cached_input_tokens"] else ""
    return f"{usage['input_tokens']:,} in{cached}, {usage['output_tokens']:,} out"


def _cost(summary: Mapping[str, Any]) -> str:
    usage = summary["usage"]
    if usage["cost_usd"] is not None:
        return f"${usage['cost_usd']:,.4f}" + (" (simulated)" if summary["simulated"] else "")
    if not usage["lm_calls"]:
        return NOT_AVAILABLE
    if usage["unknown_cost_calls"] and (usage["known_cost_usd"] or not usage["output_tokens"]):
        return _money(usage)
    return f"{NOT_AVAILABLE} (price of {summary['model'] or 'the model'} unknown)"  # answers came, and none has a cost


def _money(usage: Mapping[str, Any]) -> str:
    """A call that was cut off may have been billed: what is known of the cost is then a part of it."""
    if usage["cost_usd"] is not None:
        return f"${usage['cost_usd']:,.4f}"
    calls = "1 call" if usage["unknown_cost_calls"] == 1 else f"{usage['unknown_cost_calls']:,} calls"
    known = f"at least ${usage['known_cost_usd']:,.4f}" if usage["known_cost_usd"] else NOT_AVAILABLE
    return f"{known} ({calls} of unknown cost)"


def _agreement(name: str, numbers: Mapping[str, Any]) -> str:
    kappa = NOT_AVAILABLE if numbers["kappa"] is None else f"{numbers['kappa']:.2f}"
    return f"with {name} in {format_percent(numbers['share'])} (kappa {kappa})"


def _tally(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{name} {count}" for name, count in counts.items())
