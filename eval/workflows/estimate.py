"""Estimate of the cost of a paid run: from an earlier run of the same program and model, else its first sample.

format_estimate(config, n_answers=53)
# "estimate: 53 answers ≈ 848 LM calls, 1,060,000 tokens in, 127,000 out, ≈ $0.24 (from 2026-11-21_09-12-01_gaia_…)"
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from eval.analysis.summary.summary import read_summary
from eval.cli.paths import OUTPUTS
from eval.config.evaluation import EvalConfig
from eval.runs.record import Usage
from eval.runs.store import read_run_info
from mas.agents.in_memory import is_in_memory
from mas.llm.prices import Price
from mas.runtime.errors import UserError
from mas.runtime.text import format_count
from mas.system import read_program_digest

_NEWEST = 20  # runs that are looked at
_PROGRAM = ("name", "target", "state", "url")  # keys of a system's configuration that say which program runs


@dataclass(frozen=True)
class Typical:
    """Usage of one answer, on average."""

    lm_calls: float
    input_tokens: float
    output_tokens: float
    source: str


_GUESS = "a guess: measured offline on the sample questions"
GUESSES = {
    "gaia": Typical(9.4, 9_000, 450, _GUESS),
    "single_agent": Typical(2.0, 3_700, 50, _GUESS),
    "toy": Typical(3.0, 1_150, 125, _GUESS),
}


def format_estimate(config: EvalConfig, n_answers: int, runs_folder: Path | None = None) -> str:
    """Return one line for the terminal; `runs_folder`: of earlier runs, None: outputs/eval."""
    typical = find_typical_answer(config, runs_folder)
    if typical is None:
        return f"estimate: {n_answers} answers; what each takes is not known of system={config.system.name} yet"
    return _format(config, typical, format_count(n_answers, "answer"), n_answers)


def format_measured(config: EvalConfig, first: Usage, n_answers: int) -> str:
    """Return the line once the first sample has been answered, and `n_answers` remain."""
    typical = Typical(first.lm_calls, first.input_tokens, first.output_tokens, "measured: the first question alone")
    return _format(config, typical, f"{n_answers} more answers", n_answers)


def _format(config: EvalConfig, typical: Typical, answers: str, n_answers: int) -> str:
    tokens_in, tokens_out = typical.input_tokens * n_answers, typical.output_tokens * n_answers
    return (
        f"estimate: {answers} ≈ {typical.lm_calls * n_answers:,.0f} LM calls, {tokens_in:,.0f} tokens in, "
        f"{tokens_out:,.0f} out, {_money(config, tokens_in, tokens_out)} ({typical.source})"
    )


def find_typical_answer(config: EvalConfig, runs_folder: Path | None = None) -> Typical | None:
    """Return the usage of the newest complete run of this program and model, else a guess; None: nothing is known."""
    return next(_list_earlier(config, runs_folder), None) or GUESSES.get(config.system.name)


def is_measured(config: EvalConfig, runs_folder: Path | None = None) -> bool:
    return next(_list_earlier(config, runs_folder), None) is not None


def list_prices(config: EvalConfig) -> list[Price | None]:
    agents = getattr(config.system, "agents", {}).values()
    own = {each.model for each in agents if getattr(each, "model", None)}
    names = {*getattr(config.model, "names", [config.model.name]), *own}
    return [find_price(config, name) for name in sorted(names)]


def find_price(config: EvalConfig, name: str) -> Price | None:
    find = getattr(config.model, "find_price", None)
    return find(name) if find else None


def compute_highest_cost(prices: Sequence[Price | None], input_tokens: float, output_tokens: float) -> float | None:
    """Return the cost of the tokens at the highest price; None: a price is unknown, or there is none."""
    if not prices or None in prices:
        return None
    return max(price.cost_usd(round(input_tokens), 0, round(output_tokens)) for price in prices if price)


def _money(config: EvalConfig, tokens_in: float, tokens_out: float) -> str:
    """Return the cost at the highest price of the models; a judge is not included."""
    prices = list_prices(config)
    dearest = compute_highest_cost(prices, tokens_in, tokens_out)
    if dearest is None:
        return "cost n/a: no price is known"
    judged = " and the judge's calls" if config.judges else ""
    return f"{'at most' if len(prices) > 1 else '≈'} ${dearest:,.2f}{judged}"


def _list_earlier(config: EvalConfig, runs_folder: Path | None) -> Iterator[Typical]:
    """Yield the complete runs of this program with this model, if it is a real one, the newest first.

    The user's own program is the same while its source is; of one that only memory holds nobody can say so.
    """
    program = {key: getattr(config.system, key, None) for key in _PROGRAM}
    if config.simulated or (program["target"] and is_in_memory(program["target"])):
        return
    # A change to one of ours hardly changes its cost.
    digest = read_program_digest(config.system) if hasattr(config.system, "target") else None
    summaries = sorted((runs_folder or OUTPUTS / "eval").glob("*/summary.json"), key=lambda path: path.parent.name)
    for path in summaries[: -_NEWEST - 1 : -1]:
        try:
            summary = read_summary(path)
            if summary.stopped is not None or summary.simulated or summary.model != config.model_name or not summary.n:
                continue
            info = read_run_info(path.parent)
        except (OSError, UserError, ValueError, LookupError, TypeError, AttributeError):
            continue  # another program's folder, or one that was cut short
        saved = info.part("system")
        if {key: saved.get(key) for key in _PROGRAM} == program and (not digest or info.program_sha256 == digest):
            usage, n = summary.usage, summary.n
            source = f"from {path.parent.name}"
            yield Typical(usage.lm_calls / n, usage.input_tokens / n, usage.output_tokens / n, source)
