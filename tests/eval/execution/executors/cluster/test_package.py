"""Files that go to the nodes of a cluster: what a run needs, and nothing that must stay."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import pytest
from omegaconf import OmegaConf

from eval.benchmarks.dataset import Sample
from eval.cli.hydra_compat import compose_config
from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from eval.config.evaluation import EvalConfig, read_config
from eval.execution.executors.cluster import package as packages
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


@pytest.fixture
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A small harness; the current folder is another one, `here`."""
    root = tmp_path / "project"
    monkeypatch.setattr(packages, "PROJECT_ROOT", root)
    monkeypatch.setattr(packages, "OUTPUTS", root / "outputs")
    (tmp_path / "here").mkdir()
    monkeypatch.chdir(tmp_path / "here")
    files = (
        "mas/a.py",
        "mas/__pycache__/a.pyc",
        "eval/data.csv",
        "eval/sample/q.csv",
        "eval/odd name.csv",
        "rest/b.py",
    )
    write(root, *files)
    return root


def write(folder: Path, *names: str) -> None:
    """Write files that have their own name as content."""
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(name)


def pack(
    resolved: Mapping[str, object], samples: Sequence[Sample] = (), files: Sequence[str] = ()
) -> tuple[dict[str, str], dict[str, object], dict[Path, str]]:
    """The content of the files in a package, its configuration, and the places of files."""
    config = cast(EvalConfig, SimpleNamespace(redact_tree=lambda tree: tree))
    with open_package(config, resolved, samples, files) as package:
        found = {path.relative_to(package.folder).as_posix(): path for path in package.folder.rglob("*")}
        texts = {name: path.read_text() for name, path in sorted(found.items()) if path.is_file()}
        return texts, package.config, package.places


HARNESS = {"eval/data.csv": "eval/data.csv", "eval/odd name.csv": "eval/odd name.csv", "mas/a.py": "mas/a.py"}


def place_of(content: str, name: str) -> str:
    return f"files/{hashlib.sha256(content.encode()).hexdigest()[:16]}/{name}"


def test_a_file_has_one_place_by_its_content_and_name(project: Path, tmp_path: Path) -> None:
    write(tmp_path, "one/a.csv", "two/a.csv")
    (tmp_path / "one" / "b.csv").write_text("one/a.csv")
    files = [tmp_path / each for each in ("one/a.csv", "two/a.csv", "one/b.csv", "one/a.csv")]
    texts, config, places = pack({}, [*(Sample(each.name, "?", each) for each in files), Sample("none", "?", None)])
    expected = [place_of("one/a.csv", "a.csv"), place_of("two/a.csv", "a.csv"), place_of("one/a.csv", "b.csv")]
    assert places == dict(zip(files, expected, strict=False))
    assert texts == HARNESS | dict(zip(expected, ["one/a.csv", "two/a.csv", "one/a.csv"], strict=True))
    assert config == {"tracking": {"_target_": "eval.config.tracking.NoTracking"}}
    package = Package(tmp_path, places=places)
    none, moved = Sample("none", "?", None), package.move(Sample("a", "?", files[1], "7", "2"))
    assert package.move(none) is none
    assert moved == Sample("a", "?", Path(expected[1]), "7", "2")


def test_named_files_and_folders_keep_their_places_and_samples_use_them(project: Path) -> None:
    here = Path.cwd()
    write(here, "rates/usd.csv", "rates/more/eur.csv", "own.py", "other.csv", "rates.csv")
    texts, _, places = pack({}, [Sample("q", "?", here / "rates" / "usd.csv")], ["rates", "own.py"])
    named = {name: name for name in ("own.py", "rates/more/eur.csv", "rates/usd.csv")}
    assert texts == HARNESS | named
    assert places == {here / name: name for name in named}


@pytest.mark.parametrize("given", [".", "..", "missing", "../here/../out.csv", "link"])
def test_what_is_not_inside_of_the_current_folder_is_not_sent(given: str, project: Path, tmp_path: Path) -> None:
    write(tmp_path, "out.csv")
    (tmp_path / "here" / "link").symlink_to(tmp_path / "out.csv")
    with pytest.raises(UserError) as refused:
        pack({}, [], [given])
    assert str(refused.value) == (
        f"executor.files: {given} is no file or folder inside of the current folder {tmp_path / 'here'}; correct it, "
        "or start the command in the folder that has it."
    )


def test_a_private_file_in_a_folder_is_named_with_its_place(project: Path) -> None:
    write(Path.cwd(), "more/a.csv", "more/deep/.netrc", "eval.csv")
    with pytest.raises(UserError) as refused:
        pack({}, [], ["eval.csv", "more"])
    assert str(refused.value) == (
        "executor.files: more/deep/.netrc would be sent to all nodes, and looks like a key, a run or a part of the "
        "harness; leave it out, or name the files that the program needs."
    )


@pytest.mark.parametrize(
    "name",
    [
        *("/.env", "/a/.env.local", "/a/server.pem", "/a/server.KEY", "/a/x.p12", "/a/x.pfx", "/a/id_rsa"),
        *("/a/.ssh/config", "/a/.aws/b/c", "/.git/config", "/a/.netrc", "/a/My-Credentials.json"),
    ],
)
def test_keys_and_the_like_are_private(name: str) -> None:
    assert is_private(Path(name))


@pytest.mark.parametrize(
    "name", ["/a/env", "/a/keys.csv", "/a/pem", "/a/my_id_rsa", "/a/ssh/b", "/a/.gitignore", "/a/credit.csv"]
)
def test_other_names_are_not(name: str) -> None:
    assert not is_private(Path(name))


def test_a_run_is_private_however_it_is_named(project: Path, tmp_path: Path) -> None:
    write(project, "outputs/eval/run/summary.json")
    (tmp_path / "link").symlink_to(project / "outputs" / "eval" / "run")
    assert is_private(tmp_path / "link" / "summary.json")
    assert not is_private(project / "eval" / "data.csv")


def test_files_that_the_configuration_names_are_found_by_workers(project: Path, tmp_path: Path) -> None:
    write(tmp_path, "state one.json", "here/rel.json", "here/.env", "here/plain", "here/sent.csv", "here/sub/plain")
    whole, long = str(tmp_path / "state one.json"), "/" + "x" * 1000
    moved = f"${{project:{place_of('state one.json', 'state_one.json')}}}"
    kept: dict[str, object] = {
        "number": 5, "nothing": None, "empty": "", "lines": f"{whole}\n", "long": long, "word": "plain",
        "missing": "a/b.csv", "folder": str(tmp_path), "private": str(tmp_path / "here" / ".env"), "sent": "sent.csv",
        "project's": "../project/rest/b", "not copied": str(project / "eval" / "sample"),
        "odd": str(project / "eval" / "odd name.csv"),
    }  # fmt: skip
    changed: dict[str, object] = {
        "whole": whole, "relative": "rel.json", "in a folder": "sub/plain", "nested": [{"of": (whole, 7)}],
        "of the harness": str(project / "eval" / "data.csv"), "harness": str(project / "mas"),
        "sent by its whole path": str(tmp_path / "here" / "sent.csv"),
    }  # fmt: skip
    not_for_workers = {name: {"path": whole} for name in ("data", "run", "executor", "selection", "ids")}
    resolved = {"system": {**kept, **changed}, "tracking": {"path": whole}, "name": whole, **not_for_workers}
    texts, config, _ = pack(resolved, [], ["sent.csv"])
    expected = {
        "whole": moved,
        "relative": f"${{project:{place_of('here/rel.json', 'rel.json')}}}",
        "in a folder": f"${{project:{place_of('here/sub/plain', 'plain')}}}",
        "nested": [{"of": [moved, 7]}],
        "of the harness": "${project:eval/data.csv}",
        "harness": "${project:mas}",
        "sent by its whole path": f"${{project:{place_of('here/sent.csv', 'sent.csv')}}}",
    }
    assert config == {
        "system": {**kept, **expected},
        "name": moved,
        **not_for_workers,
        "tracking": {"_target_": "eval.config.tracking.NoTracking"},
    }
    added = {place_of(name, Path(name).name.replace(" ", "_")): name for name in texts.values() if name not in HARNESS}
    assert texts == HARNESS | added | {"sent.csv": "here/sent.csv"}


def test_a_path_within_the_project_stays_where_the_command_runs_there(
    project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(project)
    assert pack({"system": {"state": "eval/data.csv"}})[1]["system"] == {"state": "eval/data.csv"}


def test_a_path_of_more_than_a_thousand_characters_is_none(project: Path) -> None:
    folder = Path.cwd()
    while len(str(folder)) < 850:
        folder /= "x" * 100
    for length, is_found in ((1000, True), (1001, False)):
        file = folder / ("y" * (length - len(str(folder)) - 1))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text("1")
        assert len(str(file)) == length
        assert (pack({"system": str(file)})[1]["system"] != str(file)) is is_found


def test_modules_of_the_program_lie_where_they_are_imported_from(
    project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sources = tmp_path / "sources"
    inits = ("pack_of_test/__init__.py", "pack_of_test/deep/__init__.py", "pack_of_test/deep/er/__init__.py")
    modules = ("pack_of_test/deep/agent.py", "loose_of_test.py", "apart_of_test/plain.py", "mas/x.py", "unused.py")
    write(sources, *inits, *modules)
    listed = {
        "first:make": {"pack_of_test.deep.agent": modules[0], "": modules[4]},
        "second.part:make": {"pack_of_test.deep.er": inits[2], "loose_of_test": modules[1]},
        "third:": {"apart_of_test.plain": modules[2], "mas.x": modules[3]},
    }
    asked = {
        name.partition(":")[0]: {each: sources / path for each, path in found.items()} for name, found in listed.items()
    }
    monkeypatch.setattr(packages, "list_modules", lambda module: asked.pop(module))
    first, second, third = listed
    texts, _, _ = pack(
        {
            "system": {"target": first, "more": [{"target": second}, ({"scorer": {"target": third}},)]},
            "scorer": {"target": "no.module", "other": {"target": 7}, "name": "fourth:make"},
        }
    )
    assert asked == {}
    assert texts == HARNESS | {name: name for name in (*inits, *modules[:3])}


def test_a_package_may_be_as_large_as_a_cluster_takes_it(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (Path.cwd() / "large.bin").write_bytes(bytes(3 * 2**20))
    size = 3 * 2**20 + sum(map(len, HARNESS.values()))
    monkeypatch.setattr(packages, "MAX_BYTES", size)
    pack({}, [], ["large.bin"])
    monkeypatch.setattr(packages, "MAX_BYTES", size - 1)
    with pytest.raises(UserError) as refused:
        pack({}, [], ["large.bin"])
    assert str(refused.value) == (
        "the attachments and files of this run have 3 MB, and a cluster takes at most 3 MB; answer fewer questions at "
        "a time (limit, ids), or use executor=processes."
    )


def test_only_tracking_may_have_a_secret(project: Path) -> None:
    config = cast(EvalConfig, SimpleNamespace(redact_tree=lambda tree: dict.fromkeys(tree, "***")))
    with open_package(config, {"tracking": {"uri": "http://ann:pw@server"}}, [], []) as package:
        assert list(package.config) == ["tracking"]
    with pytest.raises(UserError) as refused, open_package(config, {"tracking": {}, "model": {"key": "k"}}, [], []):
        pass
    assert str(refused.value) == (
        "the part model of the configuration has a password or a key, which would be sent through the cluster; name an "
        "environment variable instead, and set it on every node."
    )
