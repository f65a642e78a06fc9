"""Estimate of the cost of a paid run: from an earlier run of the same program and model, else its first sample.

format_estimate(config, n_answers=53)
# "estimate: 53 answers ≈ 848 LM calls, 1,060,000 tokens in, 127,000 out, ≈ $0.24 (from 2026-11-21_09-12-01_gaia_…)"
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean

from eval.analysis.summary.summary import read_summary
from eval.cli.paths import OUTPUTS
from eval.config.evaluation import EvalConfig
from eval.execution.budget import Spend
from eval.runs.record import Record, Usage
from eval.runs.store import read_run_info
from mas.agents.targets import is_in_memory
from mas.llm.prices import Price
from mas.runtime.errors import UserError
from mas.runtime.text import format_count
from mas.system import read_program_digest

_NEWEST = 20  # runs that are looked at
_PROGRAM = ("name", "target", "url")  # keys of a system's configuration that say which program runs


@dataclass(frozen=True, kw_only=True)
class AnswerMeans:
    """Mean usage of one answer."""

    lm_calls: float = 0.0
    input_tokens: float = 0.0
    output_tokens: float = 0.0
    cost_usd: float | None = 0.0  # None: unknown
    seconds: float = 0.0

    @classmethod
    def of(cls, records: Sequence[Record]) -> "AnswerMeans":
        costs = [record.usage.cost_usd for record in records]
        names = ("lm_calls", "input_tokens", "output_tokens")
        return AnswerMeans(
            **{name: fmean(getattr(record.usage, name) for record in records) for name in names},
            cost_usd=None if None in costs else fmean(cost or 0.0 for cost in costs),
            seconds=fmean(record.wall_seconds for record in records),
        )

    def estimate_spend(self, n_answers: int, concurrency: int = 1) -> Spend:
        """Return the expected spend of so many answers."""
        lm_calls = round(n_answers * self.lm_calls)
        return Spend(
            lm_calls=lm_calls,
            input_tokens=round(n_answers * self.input_tokens),
            output_tokens=round(n_answers * self.output_tokens),
            cost_usd=n_answers * (self.cost_usd or 0.0),
            unknown_cost_calls=lm_calls if self.cost_usd is None else 0,
            seconds=n_answers * self.seconds / concurrency,
        )


GUESS = "a guess: measured offline on the sample questions"
GUESSES = {"gaia": (9.4, 9_000, 450), "single_agent": (2.0, 3_700, 50), "toy": (3.0, 1_150, 125)}  # calls, tokens


def format_estimate(
    config: EvalConfig, n_answers: int, runs_folder: Path | None = None, first: Usage | None = None
) -> str:
    """Return one line for the terminal.

    `runs_folder`: of earlier runs; None: outputs/eval. `first`: what the run's first answer used, once it is there.
    """
    answers = format_count(n_answers, "more answer" if first else "answer")
    if first:
        answer: AnswerMeans | None = _price_answer(config, first.lm_calls, first.input_tokens, first.output_tokens)
        source = "measured: the first question alone"
    else:
        answer, source = find_typical_answer(config, runs_folder)
    if answer is None:
        return f"estimate: {answers}; {source}"
    usage = answer.estimate_spend(n_answers)
    judged = " and the judge's calls" if config.judges and not usage.unknown_cost_calls else ""
    about = "at most " if len(_list_prices(config)) > 1 else "≈ "
    return f"estimate: {answers} ≈ {format_usage(usage, about)}{judged} ({source})"


def format_usage(usage: Spend, about: str = "") -> str:
    """Return calls, tokens and cost; `about`: before a known cost."""
    cost = "cost n/a: no price is known" if usage.unknown_cost_calls else f"{about}${usage.cost_usd:,.2f}"
    tokens = f"{usage.input_tokens:,} tokens in, {usage.output_tokens:,} out"
    return f"{usage.lm_calls:,} LM calls, {tokens}, {cost}"


def find_typical_answer(config: EvalConfig, runs_folder: Path | None = None) -> tuple[AnswerMeans | None, str]:
    """Return the usage of the newest complete run of this program and model, else a guess, and where it is from."""
    used, source = _find_earlier(config, runs_folder) or (GUESSES.get(config.system.name), GUESS)
    if used is None:
        return None, f"what an answer takes is not known of system={config.system.name} yet"
    return _price_answer(config, *used), source


def is_measured(config: EvalConfig, runs_folder: Path | None = None) -> bool:
    return _find_earlier(config, runs_folder) is not None


def _list_prices(config: EvalConfig) -> list[Price | None]:
    agents = getattr(config.system, "agents", {}).values()
    own = {each.model for each in agents if getattr(each, "model", None)}
    names = {*getattr(config.model, "names", [config.model.name]), *own}
    return [find_price(config, name) for name in sorted(names)]


def find_price(config: EvalConfig, name: str) -> Price | None:
    find = getattr(config.model, "find_price", None)
    return find(name) if find else None


def _price_answer(config: EvalConfig, lm_calls: float, input_tokens: float, output_tokens: float) -> AnswerMeans:
    """Return the means with the cost at the highest price of the models; a judge is not included."""
    usd, prices = 0.0 if config.model.simulated else None, _list_prices(config)
    if known := [price for price in prices if price and None not in prices]:
        tokens_in, tokens_out = round(input_tokens * 1000), round(output_tokens * 1000)
        usd = max(price.cost_usd(tokens_in, 0, tokens_out) for price in known) / 1000
    return AnswerMeans(lm_calls=lm_calls, input_tokens=input_tokens, output_tokens=output_tokens, cost_usd=usd)


def _find_earlier(config: EvalConfig, runs_folder: Path | None) -> tuple[tuple[float, float, float], str] | None:
    """Return calls and tokens of an answer in the newest complete run of this program with this model.

    The user's own program is the same while its source is; of one that only memory holds nobody can say so.
    """
    program = {key: getattr(config.system, key, None) for key in _PROGRAM}
    if config.simulated or is_in_memory(program["target"] or ""):
        return None
    # A change to one of ours hardly changes its cost.
    digest = read_program_digest(config.system) if program["target"] else None
    for path in sorted((runs_folder or OUTPUTS / "eval").glob("*/summary.json"), reverse=True)[:_NEWEST]:
        with suppress(OSError, UserError, ValueError, LookupError, TypeError, AttributeError):  # another program's file
            summary, info = read_summary(path), read_run_info(path.parent)
            is_same = {key: info.part("system").get(key) for key in _PROGRAM} == program
            is_same = is_same and summary.model == config.model_name and digest in (None, info.program_sha256)
            if is_same and summary.n and not summary.stopped and not summary.simulated:
                usage, n = summary.usage, summary.n
                return (usage.lm_calls / n, usage.input_tokens / n, usage.output_tokens / n), f"from {path.parent.name}"
    return None
