"""What a run met of the benchmark on the web: results that hold a question's gold answer beside its words, and blocks.

leaks_of(final)["accuracy_without"]      # 0.3611: over the questions that met no such result
blocked_of(attempts)["hosts"]            # {"huggingface.co": 3}
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from typing import Any

from eval.reporting.leaving_out import accuracy_without
from eval.reporting.row import Row


def leaks_of(final: Sequence[Row]) -> dict[str, Any]:
    """`results` in the order of the answers; a question that met one in any epoch is left out of `accuracy_without`.

    Args:
        final: the last attempt at each (question, epoch).
    """
    met = [each for each in final if each.leaks]
    questions = {each.example_id for each in met}
    return {
        "n_questions": len(questions),
        "results": [
            {"example_id": each.example_id, "epoch": each.epoch, "tool": tool, "source": source}
            for each in met
            for tool, source in each.leaks
        ],
        **accuracy_without(final, questions),
    }


def blocked_of(attempts: Iterable[Row]) -> dict[str, Any]:
    """Of all attempts: each block counts."""
    hosts: Counter[str] = Counter()
    for each in attempts:
        hosts.update(dict(each.blocked_pages))
    return {"n": hosts.total(), "hosts": dict(hosts.most_common())}
