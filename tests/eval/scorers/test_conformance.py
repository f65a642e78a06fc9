"""Every scorer of `conf/scorer/` keeps the contract `Scorer`."""

import asyncio
import inspect
from pathlib import Path

import pytest
from omegaconf import DictConfig, OmegaConf

from eval.config.evaluation import build_part
from eval.scorers.score import Score, Scorer
from mas.runtime.errors import UserError

CONF = Path(__file__).parents[3] / "conf" / "scorer"
GIVEN = {"function": {"target": f"{__name__}:judge_alike"}}
NAMES = sorted(file.stem for file in CONF.glob("*.yaml"))


def judge_alike(question: str, answer: str | None, target: str) -> bool:
    return answer == target


@pytest.fixture
def scorer(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Scorer:
    if name == "function":
        (tmp_path / "my_rules.py").write_text(inspect.getsource(judge_alike))
        monkeypatch.chdir(tmp_path)
        GIVEN["function"] = {"target": "my_rules:judge_alike"}
    node = OmegaConf.merge(OmegaConf.load(CONF / f"{name}.yaml"), GIVEN.get(name, {}))
    assert isinstance(node, DictConfig)
    node.pop("defaults", None)
    built = build_part(node, "scorer")
    assert isinstance(built, Scorer), "a method of the contract is missing"
    return built


@pytest.mark.parametrize("name", [name for name in NAMES if name != "graded"])  # a judge needs a model
def test_right_and_missing_answers_have_a_score_and_an_explanation_without_the_target(
    scorer: Scorer, name: str
) -> None:
    scorer.check()
    for answer, value in (("1789", 1.0), (None, 0.0)):
        found = scorer("In which year?", answer, "1789")
        score = found if isinstance(found, Score) else asyncio.run(found)  # type: ignore[arg-type]
        assert isinstance(score, Score)
        assert score.value == value
        assert score.explanation and "1789" not in score.explanation
        assert all(isinstance(each, float) for each in score.parts.values())


@pytest.mark.parametrize(
    ("name", "setting", "value"),
    [
        ("numeric", "tolerance", -1.0),
        ("function", "target", "no_such_module:judge"),
        ("graded", "rubric", " "),
        ("expected", "databases", "no_such_folder"),
    ],
)
def test_a_wrong_setting_is_found_before_anything_is_spent(
    scorer: Scorer, name: str, setting: str, value: object
) -> None:
    setattr(scorer, setting, value)
    with pytest.raises(UserError, match=f"scorer.{setting}"):
        scorer.check()
