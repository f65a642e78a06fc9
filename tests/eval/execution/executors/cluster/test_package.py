"""Files that go to the nodes of a cluster: what a run needs, and nothing that must stay."""

from pathlib import Path
from typing import cast

import pytest
from omegaconf import OmegaConf

from eval.benchmarks.dataset import Sample
from eval.cli.hydra_compat import compose_config
from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from eval.config.evaluation import EvalConfig, read_config
from eval.execution.executors.cluster.package import Package, is_private, open_package
from mas.runtime.errors import UserError

OPTIONS = ["system=toy", "data=toy", "model=offline"]


def read(*more: str) -> tuple[EvalConfig, dict[str, object]]:
    composed = compose_config([*OPTIONS, *more])
    resolved = cast(dict[str, object], OmegaConf.to_container(composed, resolve=True))
    return read_config(composed), resolved


def listed(package: Package) -> set[str]:
    return {path.relative_to(package.folder).parts[0] for path in package.folder.rglob("*") if path.is_file()}


def test_a_package_has_the_harness_the_attachments_and_the_named_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "table.csv").write_text("a,b")
    (tmp_path / "rates").mkdir()
    (tmp_path / "rates" / "usd.csv").write_text("1")
    (tmp_path / ".env").write_text("KEY=k")
    sample = Sample("q1", "?", tmp_path / "table.csv")
    config, resolved = read()
    resolved["system"] = {"state": str(tmp_path / "table.csv"), "folder": str(PROJECT_ROOT / "eval" / "benchmarks")}
    with open_package(config, resolved, [sample], ["rates"]) as package:
        assert listed(package) == {"eval", "mas", "files", "rates"}
        assert not (package.folder / "eval" / "benchmarks" / "sample").exists(), "questions with their targets"
        moved = package.move(sample).file
        assert moved is not None and (package.folder / moved).read_text() == "a,b" and moved.name == "table.csv"
        assert package.config["tracking"] == {"_target_": "eval.config.tracking.NoTracking"}
        assert package.config["system"] == {"state": f"${{project:{moved}}}", "folder": "${project:eval/benchmarks}"}
        folder = package.folder
    assert not folder.exists()


def test_what_must_stay_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for each in (".env", "keys/server.pem", "mas/x.py"):
        (tmp_path / each).parent.mkdir(exist_ok=True)
        (tmp_path / each).write_text("x")
    config, resolved = read()
    for name, words in (
        (".env", ".env would be sent to all nodes, and looks like a key"),
        ("keys", "keys/server.pem would be sent to all nodes"),
        ("mas", "mas/x.py would be sent to all nodes"),
        ("missing", "missing is no file or folder inside of the current folder"),
        ("..", ".. is no file or folder inside of the current folder"),
    ):
        with pytest.raises(UserError) as refused, open_package(config, resolved, [], [name]):
            pass
        assert words in str(refused.value)
    assert is_private(OUTPUTS / "eval" / "run" / "run.db")
    resolved["model"] = {"base_url": "http://ann:secret4711@server/v1"}
    words = "the part model of the configuration has a password or a key"
    with pytest.raises(UserError, match=words), open_package(config, resolved, [], []):
        pass
