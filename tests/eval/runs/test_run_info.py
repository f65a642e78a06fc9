import json
from collections.abc import Sequence
from dataclasses import asdict
from hashlib import sha256
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from eval.benchmarks.dataset import Sample
from eval.benchmarks.fingerprint import compute_fingerprint
from eval.config.measured import MAX_EPOCHS
from eval.runs.record import PlannedQuestion
from eval.runs.run_info import (
    RunInfo,
    RunState,
    SessionInfo,
    SweepJob,
    TaskInfo,
    TuningInfo,
    TuningState,
    TuningUse,
    describe_task,
    digest_questions,
    digest_task,
    dump_config,
    find_tuning_use,
    list_offered_tools,
    select_run_overrides,
)
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.prompt_sets.tuned_on import TunedOn
from mas.runtime.errors import UserError
from mas.system import Program


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


def test_what_nobody_has_said_of_a_run_is_unknown() -> None:
    unknown: dict[str, Any] = {
        "version": 4,
        **dict.fromkeys(("run_id", "started_at", "system", "model", "prompts_sha256", "program_sha256"), ""),
        **dict.fromkeys(("rescored_from", "gold_informed"), ""),
        "config": {}, "prompts": {}, "origin": {}, "bad_rows": [], "prompts_edited": [], "rescored_by": [],
        **dict.fromkeys(("command", "tuning_use", "tools", "critics", "sweep"), None),
        "simulated": False, "epochs": 1,
        "task": {"dataset_sha256": "", "task_version": "", "data_revision": "", "file_sha256": {}, "labels": []},
    }  # fmt: skip
    assert asdict(RunInfo()) == unknown
    assert asdict(RunState()) == {
        "version": 4, "sessions": [], "wall_seconds": 0.0, "finished": None, "pace_history": [], "unfinished": None
    }  # fmt: skip
    assert asdict(SessionInfo("t")) == {
        "started_at": "t", "ended_at": None, "stopped": None, "pid": 0, "host": "", "changes": {},
        "peak_memory_mb": None,
    }  # fmt: skip
    tuning = asdict(TuningInfo())
    assert tuning.pop("state") == asdict(TuningState()) == {
        "phase": "preflight", "session_started_at": "", "session_seconds_before": 0.0, "ended_at": None,
        "stopped": None, "spend": {}, "spend_by_phase": {}, "sealed_opened_at": None, "sealed_opened_before": None,
        "sealed_questions_opened_before": None, "sealed_level": None, "sealed_level_left": None,
    }  # fmt: skip
    assert {name: value for name, value in tuning.items() if value != ""} == {
        "version": 4, "simulated": False, "seed": None, "config": {}, "command": [], "origin": {},
        "parent_gated": False,
    }  # fmt: skip


SESSION = SessionInfo("t0", "t1", "enough", 7, "here", {"limit": "1 → 2"}, 99.5)
WHOLE = RunInfo(
    run_id="r", epochs=2, config={"a": {"b": "é"}}, task=TaskInfo("d", "t", "rev", {"q1": "f"}, ["yes", "no"]),
    tuning_use=TuningUse("mine", ["q1"], ["q2"], {"d": "mine"}), tools={"a": ["search"]}, critics=[],
    sweep=SweepJob("s", "sweep", "t", "here", 7, 0, ["model=a"]),
)  # fmt: skip


def test_a_run_and_its_course_come_back_as_they_were_written() -> None:
    assert RunInfo.from_json(WHOLE.to_json()) == WHOLE
    state = RunState(4, [SESSION, SessionInfo("t2")], 1.5, True, [{"limit": 3}], {"lm_calls": 1})
    assert RunState.from_json(state.to_json()) == state
    assert json.loads(RunInfo(config={"path": Path("a/b")}).to_json())["config"] == {"path": "a/b"}


def test_a_run_without_a_task_sweep_or_tuning_has_none() -> None:
    found = RunInfo.from_json(json.dumps({**asdict(WHOLE), "task": None, "sweep": None, "tuning_use": None}))
    assert (found.task, found.sweep, found.tuning_use) == (None, None, None)


@pytest.mark.parametrize(
    ("version", "lacks", "is_read"),
    [
        (4, (), True),
        (4, ("critics",), True),
        (4, ("gold_informed", "critics"), True),
        (4, ("tools",), False),
        (3, ("gold_informed", "critics"), True),
        (3, ("tools", "critics"), False),
        (2, (), False),
        (5, (), False),
        (None, (), False),
    ],
)
def test_a_run_of_this_version_or_the_one_before_is_read(
    version: int | None, lacks: Sequence[str], is_read: bool
) -> None:
    data = {name: value for name, value in asdict(WHOLE).items() if name not in lacks} | {"version": version}
    if is_read:
        found = RunInfo.from_json(json.dumps(data))
        assert (found.version, found.run_id, found.gold_informed) == (version, "r", "")
        return
    with pytest.raises(ValueError) as refused:
        RunInfo.from_json(json.dumps(data))
    assert str(refused.value) == f"RunInfo of version {version}, this program reads version 4"


@pytest.mark.parametrize(
    ("agent", "said"),
    [
        ("", ""),
        ("solver", "it gave solver the right answers, on questions that an earlier run got wrong (eval/attribute.py), "
         "and measures no system"),
        ("control", "it is the control of a proof, on questions that an earlier run got wrong (eval/attribute.py), "
         "and measures no system"),
    ],
)  # fmt: skip
def test_a_run_that_was_given_right_answers_says_why_it_measures_nothing(agent: str, said: str) -> None:
    assert RunInfo(gold_informed=agent).describe_gold() == said


def test_parts_and_names_are_those_that_there_are() -> None:
    info = RunInfo(config={"system": {"name": "toy"}, "limit": 5, "sweep": None}, prompts={"prompts": "a", "x": "b"})
    assert [info.part(name) for name in ("system", "limit", "sweep", "none")] == [{"name": "toy"}, {}, {}, {}]
    assert (info.prompts_name, RunInfo().prompts_name) == ("b", None)
    assert (RunInfo(run_id="r").has_begun, RunInfo().has_begun) == (True, False)


def test_a_tuning_run_is_signed_as_a_whole_but_for_its_course() -> None:
    info = TuningInfo(run_id="r", config={"plän": 1}, scorer_sha256="s").sign()
    assert info.is_signed and not TuningInfo(run_id="r").is_signed
    read = TuningInfo.from_json(info.to_json())
    assert read == info and read.is_signed
    assert '\n  "config": {\n    "plän": 1\n  },\n' in info.to_json() and info.to_json().endswith("}\n")
    for name, value in (("run_id", "x"), ("scorer_sha256", ""), ("parent_gated", True)):
        assert not TuningInfo.from_json(json.dumps({**asdict(info), name: value})).is_signed
    assert TuningInfo.from_json(json.dumps({**asdict(info), "state": {"phase": "gate"}})).is_signed


def test_the_order_of_questions_and_of_settings_makes_no_other_task() -> None:
    one, two = (
        PlannedQuestion("1", "a\ud800?", None, "7"),
        PlannedQuestion("2", "b?", "f.csv", None, "3", {"kind": "x"}),
    )
    lines = ['["1", "a\\ud800?", "7", null]', '["2", "b?", null, "f"]']
    found = digest_questions([two, one], {"2": "f"})
    assert found == digest_questions([one, two], {"2": "f"}) == sha256("\n".join(lines).encode()).hexdigest()
    assert digest_task("q", {"b": Path("x"), "a": 1}) == digest_task("q", {"a": 1, "b": "x"})
    assert digest_task("q", {"a": 1}) == sha256(b'["q", {"a": 1}]').hexdigest()


def test_a_task_has_the_digests_of_its_questions_attachments_and_scorer(tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(b"1")
    samples = [Sample("1", "a?", None, "7"), Sample("2", "b?", file, "8")]
    content = sha256(b"1").hexdigest()
    found = describe_task(iter(samples), {"name": "exact"}, "v1", ("yes", "no"))
    lines = [b'["1", "a?", "7", null]\n', f'["2", "b?", "8", "{content}"]\n'.encode()]
    assert found == TaskInfo(
        sha256(b"".join(lines)).hexdigest(),
        digest_task(sha256(b"".join(lines).strip()).hexdigest(), {"name": "exact"}),
        "v1",
        {"2": content},
        ["yes", "no"],
    )
    assert (describe_task(samples, None, None).data_revision, describe_task(samples, None, None).labels) == ("", [])
    file.unlink()
    with pytest.raises(
        UserError, match=r"^an attachment cannot be read \(.*a\.csv'\); check the files of the dataset\.$"
    ):
        describe_task(samples, None, None)


def test_what_a_later_session_takes_over_is_what_belongs_to_the_run() -> None:
    given = [
        "limit=5",
        "run.resume=latest",
        "run.dir=x",
        "+run.name=y",
        "run.epochs=2",
        "log.terminal=true",
        "log.level=x",
    ]
    assert select_run_overrides(given) == ["limit=5", "run.epochs=2", "log.level=x"]


ASKED = [PlannedQuestion(str(number), f"Question {number}?") for number in range(4)]
MARKS = [compute_fingerprint(each.question) for each in ASKED]


def tuned(name: str, learnt: Sequence[int] | None = None, picked: Sequence[int] = (), **more: Any) -> PromptSet:
    marks = [frozenset(MARKS[each] for each in numbers) for numbers in (learnt or (), picked)]
    return PromptSet(
        name, "toy", {"solve": name}, Path(name), tuned_on=None if learnt is None else TunedOn(*marks), **more
    )


def test_questions_that_prompts_were_tuned_on_are_named_once_each() -> None:
    assert find_tuning_use([tuned("plain")], ASKED, {}) is None
    assert find_tuning_use([], ASKED, {}) is None
    found = find_tuning_use([tuned("a", [0], [0, 1]), tuned("plain"), tuned("b", [3], [2]), tuned("a", [])], ASKED, {})
    assert found == TuningUse("a and b", ["0", "3"], ["1", "2"], {})
    assert find_tuning_use([tuned("a", [0, 1])], ASKED, {"1": "of a file"}) == TuningUse("a", ["0"], [], {})


def test_a_set_whose_marks_were_edited_is_remembered_until_they_are_restored() -> None:
    edited = tuned("cut", edited=("tuned_on.json",))
    found = find_tuning_use([edited], ASKED, {})
    assert found == TuningUse("cut", [], [], {digest(edited): "cut"})
    before = RunInfo(tuning_use=found)
    assert find_tuning_use([tuned("plain")], ASKED, {}, before) == found
    assert find_tuning_use([tuned("plain")], ASKED, {}, RunInfo()) is None
    both = find_tuning_use([tuned("a", [1])], ASKED, {}, before)
    assert both == TuningUse("a", ["1"], [], {digest(edited): "cut"})
    restored = tuned("cut", [2], provenance={"checksums": {"tuned_on.json": "x"}})
    assert find_tuning_use([restored], ASKED, {}, before) == TuningUse("cut", ["2"], [], {})
    unsaid = tuned("cut", provenance={"checksums": {"solve.txt": "x"}})
    assert find_tuning_use([unsaid], ASKED, {}, before) == found


def test_the_tools_of_each_agent_are_listed_by_name() -> None:
    boxes = {"b": SimpleNamespace(tools={"z": 1, "a": 2}), "a": SimpleNamespace(tools={})}
    assert list_offered_tools(cast(Program, SimpleNamespace(toolboxes=boxes))) == {"b": ["a", "z"], "a": []}
