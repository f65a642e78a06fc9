import json
from dataclasses import asdict

import pytest

from eval.config.measured import MAX_EPOCHS
from eval.runs.run_info import RunInfo, dump_config


def test_a_configuration_is_written_in_its_own_order_and_letters() -> None:
    assert dump_config({"b": "é", "a": {"y": 1, "x": None}}) == "b: é\na:\n  y: 1\n  x: null\n"


@pytest.mark.parametrize("labels", [5, "yes", [1, 2], {"yes": "no"}])
def test_labels_that_are_no_texts_are_refused(labels: object) -> None:
    data = asdict(RunInfo(run_id="r"))
    with pytest.raises(ValueError, match="labels are no texts"):
        RunInfo.from_json(json.dumps({**data, "task": {**data["task"], "labels": labels}}))


@pytest.mark.parametrize(("epochs", "accepted"), [(0, False), (1, True), (MAX_EPOCHS, True), (MAX_EPOCHS + 1, False)])
def test_a_number_of_epochs_that_no_run_has_is_refused(epochs: int, accepted: bool) -> None:
    text = json.dumps({**asdict(RunInfo(run_id="r")), "epochs": epochs})
    if accepted:
        assert RunInfo.from_json(text) == RunInfo(run_id="r", epochs=epochs)
    else:
        with pytest.raises(ValueError, match=f"with {epochs} epochs"):
            RunInfo.from_json(text)
