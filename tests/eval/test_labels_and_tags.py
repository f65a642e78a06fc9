"""A classifier's run: numbers of its labels and of its data's tags, wherever results are shown."""

from pathlib import Path

import pytest

from eval.analysis.summary.summarise import summarise_store
from eval.mlflow_export.run_export import collect_metrics
from eval.runs.store import RunStore
from tests.eval.command_line import EvalCommand

NAMES = ("billing", "login", "refund")
CLASSIFIER = """
def classify(question: str) -> str:
    number = int(question.split()[1])
    if number % 10 == 9:
        raise ValueError("no")
    if number % 10 == 8:
        return "something else"
    return ("billing", "login", "refund")[(number + (number % 7 == 0)) % 3].upper()
"""


@pytest.fixture
def base(tmp_path: Path) -> list[str]:
    rows = [f"ticket {n} for class {n},{NAMES[n % 3]},{'mail' if n < 30 else 'web'},t{n}" for n in range(60)]
    (tmp_path / "tickets.csv").write_text("\n".join(["text,label,source,title", *rows]))
    Path("ticket_classifier.py").write_text(CLASSIFIER)
    given = ["system=callable", "system.target=ticket_classifier:classify", "scorer=exact", "scorer.ignore_case=true"]
    columns = ["data.columns.question=text", "data.target_column=label"]
    return [*given, "data=csv", f"data.path={tmp_path / 'tickets.csv'}", *columns]


def test_they_are_in_the_table_the_summary_the_report_and_mlflow(eval_command: EvalCommand, base: list[str]) -> None:
    finished = eval_command(*base, "data.tags=[source,title]", "run.max_same_errors=null")
    labels, tags = finished.summary["labels"], finished.summary["by_tag"]
    assert list(labels["by_label"]) == list(labels["confusion"]) == list(NAMES)
    for kind in ("(no answer)", "(another answer)"):
        assert sum(row.get(kind, 0) for row in labels["confusion"].values()) == 6
    assert sum(each["recall"]["n"] for each in labels["by_label"].values()) == 60, "failures stay in the denominator"
    macro_f1 = labels["macro_f1"]
    assert {value: counts["n"] for value, counts in tags["source"].items()} == {"mail": 30, "web": 30}
    assert tags["source"]["web"]["score_ci95"] and list(tags) == ["source", "title"]
    out = " ".join(finished.out.split())
    assert f"labels: macro F1 {macro_f1:.1%} over" in out
    assert "source mail" in out and "source web" in out
    page = finished.write_report().read_text("utf-8")
    titles = ("Precision, recall and F1 of each label", "Confusion matrix", "source web")
    assert all(title in page for title in titles)
    with RunStore(finished.folder / "run.db", read_only=True) as store:
        metrics = collect_metrics(summarise_store(store))
    assert metrics["labels/macro_f1"] == pytest.approx(macro_f1, abs=1e-6)
    assert {"labels/by_label/refund/recall", "by_tag/source/web/score_ci95_high"} <= metrics.keys()


def test_a_column_that_is_not_there_is_one_sentence(eval_command: EvalCommand, base: list[str]) -> None:
    for given, sentence in (
        ("data.tags=[origin]", "has no column 'origin', which data.tags names; its columns are: text, label, source"),
        ("data.tags=['']", "has no column '', which data.tags names"),
    ):
        finished = eval_command(*base, given)
        assert finished.code == 1
        assert sentence in finished.err and len(finished.err.strip().splitlines()) == 1
