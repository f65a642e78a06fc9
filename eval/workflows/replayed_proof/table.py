"""Table of a replayed proof for the terminal.

print_proof(proof, Output())
"""

from collections import Counter
from collections.abc import Mapping

from eval.execution.console import Output
from eval.reports.formats import format_percent
from eval.runs.folder import format_path
from eval.runs.run_info import NO_MEASUREMENT
from eval.workflows.replayed_proof.correction import Kind
from eval.workflows.replayed_proof.proof import PROOF_FILE, Proof, ProvenAgent
from mas.runtime.text import format_count

_WHAT: dict[Kind, str] = {
    "answer": "its answer is the right one",
    "review": "it judges the answer rightly",
    "approval": "it approves everything",
    "hint": "it knows the right answer",
}


def print_proof(proof: Proof, output: Output) -> None:
    """Print what each correction changed, whom that names, and where the files are."""
    times = f", {proof.epochs} times each" if proof.epochs > 1 else ""
    control = NO_MEASUREMENT if proof.control is None else f"{format_percent(proof.control)} of the points"
    output.print(
        f"{format_count(proof.n_samples, 'wrong question')} asked again{times}: without a correction {control}"
    )
    for each in proof.agents:
        output.print(f"  {describe_agent(each, proof)}")
    for agent, why in proof.skipped.items():
        output.print(f"  {agent}: not corrected; {why}")
    if proof.stopped:
        output.print(f"stopped: {proof.stopped}; questions without an answer are left out", error=True)
    if proof.named != proof.blamed:
        output.print(f"by the record alone: {_count(proof.blamed)}; with this proof: {_count(proof.named)}")
    output.print("the corrected agent was given the right answers: these runs measure no system")
    output.print(f"results: {format_path(proof.folder)} ({PROOF_FILE}, and a report of each arm)")


def describe_agent(proven: ProvenAgent, proof: Proof) -> str:
    """Return one line: what was corrected, what it gained over the control, and what that says."""
    result = proven.difference
    if result is None or proven.recovered is None:
        return f"{proven.agent}: {NO_MEASUREMENT}; no question was answered both with its correction and without"
    interval = ""
    if result.ci95 is not None:
        low, high = (100 * bound for bound in result.ci95)
        interval = f" ({low:+.1f} to {high:+.1f})"
    over = f" of {format_count(result.n_questions, 'question')}" if result.n_questions < proof.n_samples else ""
    gained = f"{100 * result.difference:+.1f}{interval} points more than without"
    away = f"; in {format_count(proven.n_given_away, 'answer')} it passed the answer on itself"
    return (
        f"{proven.agent}: {format_percent(proven.recovered)}{over} where {_WHAT[proven.kind]}, {gained}"
        f"{away if proven.n_given_away else ''}: {judge(proven)}"
    )


def judge(proven: ProvenAgent) -> str:
    """Return what the difference proves, as one of all tested agents."""
    if not proven.is_proven:
        return "no effect is shown"
    if proven.is_critic:
        return "its reviews cost points"
    return "points are lost here or before"


def _count(names: Mapping[str, str]) -> str:
    return ", ".join(f"{name} {n}" for name, n in Counter(names.values()).most_common())
