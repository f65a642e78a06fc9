"""Faults planted in one agent or tool of a system, and whom a replayed proof names, next to what the record alone says.

    python -m tests.eval.analysis.attribution.planted_proofs gaia bos      # lines of docs/how-to/attribution.md

A proof as `eval/attribute.py RUN` makes it: its own choice of suspects, each corrected in an arm of its own next to a
control, over the simulated model. The faulty agent stays faulty in all arms.
"""

from collections import Counter
from collections.abc import Iterator, Sequence

from eval.analysis.attribution.broken_link import PAIR, find_broken_link
from eval.analysis.statistics.intervals import compute_share_interval
from eval.runs.record import Record
from eval.scorers.labels import LabelSet
from eval.workflows.replayed_proof.plan import find_suspects
from eval.workflows.replayed_proof.proof import Scores, judge_corrections, name_responsible
from tests.eval.analysis.attribution.planted_faults import BENCHES, Bench, Fault


class ProofBench(Bench):
    """A system whose faults are named with a replayed proof."""

    def __init__(self, system: str, data: str, *splits: str) -> None:
        super().__init__(system, data, *splits)
        self.by_record: list[Fault] = []

    def measure(self, place: str, planted: str, faulty: str | None = None) -> Fault:
        """Count the links that a proof names; `by_record` gains what the record alone names."""
        wrong: dict[str, Record] = {}
        blamed: dict[str, str] = {}
        suspects = Counter[str]()
        for record in self.run(faulty):
            if link := find_broken_link(record):
                wrong[record.sample_id], blamed[record.sample_id] = record, link.name
                suspects.update(link.name.split(PAIR))
        self.by_record.append(Fault(self.name, place, len(wrong), Counter(blamed.values()), planted))
        named = self._prove(faulty, list(wrong.values()), blamed, suspects) if wrong else {}
        return Fault(self.name, place, len(wrong), Counter(named.values()), planted)

    def _prove(
        self, faulty: str | None, wrong: Sequence[Record], blamed: dict[str, str], suspects: Counter[str]
    ) -> dict[str, str]:
        names = [name for name, _ in suspects.most_common() if name in self.agents]
        corrections, _ = find_suspects(self.config, wrong, LabelSet(()), names)
        control = _read_scores(self.run(faulty, only=blamed))
        corrected = [_read_scores(self.run(faulty, each, only=blamed)) for each in corrections]
        agents = judge_corrections(corrections, control, corrected)
        return name_responsible(blamed, control, zip(agents, corrected, strict=True))


def _read_scores(records: Sequence[Record]) -> Scores:
    return {each.sample_id: [float(each.correct)] for each in records}


def add_up(faults: Sequence[Fault], title: str) -> Fault:
    """Return several faults as one, in which `title` is the right name."""
    named = Counter({title: sum(each.n_found for each in faults)})
    return Fault(faults[0].system, title, sum(each.n for each in faults), named, title)


def format_share(fault: Fault) -> str:
    low, high = compute_share_interval(fault.n_found / fault.n, fault.n, fault.n) if fault.n else (0.0, 1.0)
    return f"{fault.n_found / fault.n:.0%} ({low:.0%} to {high:.0%})" if fault.n else "n/a"


def print_line(record: Fault, proof: Fault) -> None:
    others = ", ".join(f"{name} {n}" for name, n in proof.named.most_common() if name != proof.place)
    line = f"| {proof.system} | {proof.planted} | {proof.n} | {format_share(record)} | {format_share(proof)} |"
    print(line, others or "none", "|", flush=True)


def measure_all(bench: ProofBench) -> Iterator[Fault]:
    yield from bench.plant_in_agents()
    yield from bench.plant_in_tools()


if __name__ == "__main__":
    import sys

    for name in sys.argv[1:] or BENCHES:
        bench = ProofBench(name, *BENCHES[name])
        proofs = list[Fault]()
        for proof in measure_all(bench):
            proofs.append(proof)
            print_line(bench.by_record[-1], proof)
        n = len(proofs)
        for proof in bench.plant_wrong_values():
            proofs.append(proof)
            print_line(bench.by_record[-1], proof)
        for title, upto in (("all", n), ("all, with wrong values", len(proofs))):
            print_line(add_up(bench.by_record[:upto], title), add_up(proofs[:upto], title))
