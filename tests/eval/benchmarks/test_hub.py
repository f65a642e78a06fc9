"""The hub without a network, in processes of their own: huggingface_hub reads its settings while it is imported."""

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval.benchmarks import hub as hubs
from eval.benchmarks.hub import (
    HubRepository,
    extract_available,
    find_link_limit,
    find_token_file,
    flatten_message,
    list_data_files,
    skip_retries_when_offline,
)
from mas.runtime.errors import UserError
from tests.servers.hub import serving

COMMIT = "0123456789abcdef0123456789abcdef01234567"
README = "---\nconfigs:\n- config_name: main\n  data_files: [{split: test, path: data/test.csv}]\n---\n"
LOAD = """
import time

def waited(seconds):
    raise SystemExit(f"waited {seconds} s")

time.sleep = waited
from eval.benchmarks.hub import HubRepository
from mas.runtime.errors import UserError

hub = HubRepository("owner/name", "REVISION", "MY_TOKEN", UserError)
try:
    print(hub.read_table("main", "test")[0]["prompt"], (hub.fetch_files("", ["a.txt"]) / "a.txt").read_text(), end="")
except UserError as error:
    print("refused:", error, end="")
"""


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "repo" / "data").mkdir(parents=True)
    (tmp_path / "repo" / "README.md").write_text(README)
    (tmp_path / "repo" / "a.txt").write_text("attached")
    (tmp_path / "repo" / "data" / "test.csv").write_text("prompt\nWho?\n")
    return tmp_path / "repo"


def load_from(hub: str, home: Path, revision: str = COMMIT) -> str:
    others = {name: value for name, value in os.environ.items() if not name.lower().startswith(("hf_", "http"))}
    others = {name: value for name, value in others.items() if not name.lower().endswith("_proxy")}
    settings = {"HF_ENDPOINT": hub, "HF_HOME": str(home)}
    run = [sys.executable, "-c", LOAD.replace("REVISION", revision)]
    done = subprocess.run(run, env=others | settings, capture_output=True, text=True, timeout=120)
    return done.stdout if done.returncode == 0 else done.stderr


@pytest.mark.slow
def test_without_a_network_what_was_fetched_before_is_used_and_nothing_waited_for(root: Path, tmp_path: Path) -> None:
    with serving(root, COMMIT) as (hub, _):
        assert load_from(hub, tmp_path / "home") == "Who? attached"
    assert load_from(hub, tmp_path / "home") == "Who? attached"
    assert load_from(hub, tmp_path / "home", "f" * 40) == (
        "refused: the hub cannot be reached, and what was fetched before is another revision"
    )
    assert load_from(hub, tmp_path / "other home") == "refused: ConnectionError"


class Reached:
    """A network: the addresses that were asked for, and whether they answer."""

    def __init__(self, answers: bool) -> None:
        self.answers, self.asked, self.n_closed = answers, list[tuple[tuple[str, int], float]](), 0

    def create_connection(self, address: tuple[str, int], timeout: float) -> "Reached":
        self.asked.append((address, timeout))
        if not self.answers:
            raise OSError("unreachable")
        return self

    def close(self) -> None:
        self.n_closed += 1


@pytest.fixture
def network(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Reached]:
    def reach(answers: bool, endpoint: str | None = None, proxies: object = None) -> Reached:
        reached = Reached(answers)
        monkeypatch.setattr(hubs, "socket", reached)
        monkeypatch.setattr(hubs, "getproxies", lambda: proxies or {})
        monkeypatch.setenv("HF_HUB_OFFLINE", "is put back after the test")
        monkeypatch.delenv("HF_HUB_OFFLINE")
        monkeypatch.delenv("HF_ENDPOINT", raising=False)
        if endpoint is not None:
            monkeypatch.setenv("HF_ENDPOINT", endpoint)
        return reached

    return reach


@pytest.mark.parametrize(
    ("endpoint", "address"),
    [
        (None, ("huggingface.co", 443)),
        ("http://mirror.example", ("mirror.example", 80)),
        ("https://mirror.example/x", ("mirror.example", 443)),
        ("http://mirror.example:8080", ("mirror.example", 8080)),
    ],
)
@pytest.mark.parametrize("answers", [True, False])
def test_the_cache_is_used_alone_where_no_hub_answers(
    network: Callable[..., Reached], answers: bool, endpoint: str | None, address: tuple[str, int]
) -> None:
    reached = network(answers, endpoint)
    skip_retries_when_offline()
    assert [each for each, _ in reached.asked] == [address]
    assert os.environ.get("HF_HUB_OFFLINE") == (None if answers else "1")
    assert reached.n_closed == answers


def test_an_address_that_cannot_be_asked_is_left_to_the_library(
    network: Callable[..., Reached], monkeypatch: pytest.MonkeyPatch
) -> None:
    for reached in (network(False, "mirror"), network(False, None, {"https": "http://proxy"})):
        skip_retries_when_offline()
        assert reached.asked == [] and "HF_HUB_OFFLINE" not in os.environ
    network(True, "http://mirror.example:port")
    skip_retries_when_offline()
    assert os.environ["HF_HUB_OFFLINE"] == "1"
    network(False)
    monkeypatch.setenv("HF_HUB_OFFLINE", "0")
    skip_retries_when_offline()
    assert os.environ["HF_HUB_OFFLINE"] == "0", "what the user has set stays"


class Table(list[dict[str, Any]]):
    """Rows as `datasets` returns them."""

    def __init__(self, *rows: dict[str, Any], names: list[str] | None = None, folder: str = "") -> None:
        super().__init__(rows)
        self.column_names = names
        self.cache_files = [{"filename": f"/cache/{folder}/rows.arrow"}] if folder else []

    def select_columns(self, names: list[str]) -> list[dict[str, Any]]:
        return [{name: row[name] for name in names} for row in self]


ROWS = ({"a": 1, "b": 2}, {"a": 3, "b": 4})


def repository(revision: str | None = None, token_env: str = "TOKEN_OF_THE_TEST") -> HubRepository:
    return HubRepository("owner/name", revision, token_env, lambda cause: UserError(f"not fetched ({cause})."))


@pytest.fixture
def loaded(network: Callable[..., Reached], monkeypatch: pytest.MonkeyPatch) -> Callable[[object], list[Any]]:
    """Let the library return something; the result is what it is asked for."""
    network(True)

    def let(returned: object) -> list[Any]:
        asked: list[Any] = []

        def load(*given: object, **options: object) -> object:
            asked.append((given, options))
            if isinstance(returned, BaseException):
                raise returned
            return returned

        for name in ("datasets.load_dataset", "datasets.load_dataset_builder", "huggingface_hub.snapshot_download"):
            monkeypatch.setattr(name, load)
        return asked

    return let


def test_a_table_is_asked_for_with_its_revision_and_the_token(
    loaded: Callable[[object], list[Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    asked = loaded(Table(*ROWS, names=["a", "b"]))
    monkeypatch.setenv("TOKEN_OF_THE_TEST", " secret\n")
    assert repository("v1").read_table("main", "test") == list(ROWS)
    assert asked == [(("owner/name", "main"), {"split": "test", "revision": "v1", "token": "secret"})]
    monkeypatch.setenv("TOKEN_OF_THE_TEST", " ")
    assert repository().read_token() is None
    monkeypatch.delenv("TOKEN_OF_THE_TEST")
    assert repository().read_token() is None


@pytest.mark.parametrize("names", [["a", "b"], None])
def test_columns_are_chosen_from_those_there_are(
    loaded: Callable[[object], list[Any]], names: list[str] | None
) -> None:
    loaded(Table(*ROWS, names=names))
    offered: list[list[str]] = []

    def choose(there: Any) -> list[str]:
        offered.append(list(there))
        return ["b"]

    assert repository().read_table(None, "test", choose) == [{"b": 2}, {"b": 4}]
    assert offered == [["a", "b"]]
    loaded(Table())
    assert repository().read_table(None, "test", choose) == [] and offered[1] == []


@pytest.mark.parametrize(
    ("revision", "folder", "is_other"),
    [
        (COMMIT, COMMIT, False),
        (COMMIT, "f" * 40, True),
        (COMMIT, "", False),
        (None, "f" * 40, False),
        ("main", "f" * 40, False),
        (COMMIT[:39], "f" * 40, False),
    ],
)
def test_what_was_fetched_at_another_commit_is_refused(
    loaded: Callable[[object], list[Any]], revision: str | None, folder: str, is_other: bool
) -> None:
    loaded(Table(*ROWS, folder=folder))
    if not is_other:
        assert repository(revision).read_table(None, "test") == list(ROWS)
        return
    with pytest.raises(
        UserError, match=r"^not fetched \(the hub cannot be reached, and what was fetched before is another"
    ):
        repository(revision).read_table(None, "test")


def test_a_missing_config_or_split_is_told_with_those_there_are(loaded: Callable[[object], list[Any]]) -> None:
    for message, config, said in (
        ("Unknown split.\n Should be one of ['a'].", None, "default/test: Unknown split. Should be one of ['a']."),
        ("'x' not found. Available: ['a'] Example of usage: y", "x", "x/test: 'x' not found. Available: ['a']."),
    ):
        loaded(ValueError(message))
        with pytest.raises(UserError) as refused:
            repository().read_table(config, "test")
        assert str(refused.value) == f"owner/name has no {said}"


def test_a_failure_is_one_sentence_without_what_the_library_says(loaded: Callable[[object], list[Any]]) -> None:
    from datasets.exceptions import DatasetNotFoundError
    from huggingface_hub.errors import OfflineModeIsEnabled

    for kind in (ValueError, OSError, RuntimeError, DatasetNotFoundError, OfflineModeIsEnabled):
        loaded(kind("hf_secret"))
        for ask in (
            lambda: repository().read_table(None, "test"),
            lambda: repository().fetch_files("", []),
            lambda: repository().list_data_files(None),
        ):
            with pytest.raises(UserError) as refused:
                ask()
            assert str(refused.value) == f"not fetched ({kind.__name__})."


def test_files_are_fetched_by_their_bare_names_alone(loaded: Callable[[object], list[Any]]) -> None:
    asked = loaded("/snapshot")
    assert repository("v1").fetch_files("2023/test", ["a[1].txt", "../b", None, 7, ""]) == Path("/snapshot")
    assert repository().fetch_files("", ["c"]) == Path("/snapshot")
    options = {"repo_type": "dataset", "token": None}
    assert asked == [
        (("owner/name",), {**options, "revision": "v1", "allow_patterns": ["2023/test/a[[]1].txt", "README.md"]}),
        (("owner/name",), {**options, "revision": None, "allow_patterns": ["c", "README.md"]}),
    ]


def test_the_files_that_rows_come_from_are_listed_by_their_names(loaded: Callable[[object], list[Any]]) -> None:
    files = {"train": ["hf://x/data/a.csv"], "test": ["data/b.csv", "b.csv"]}
    asked = loaded(SimpleNamespace(config=SimpleNamespace(data_files=files)))
    assert repository("v1").list_data_files("main") == {"a.csv", "b.csv"}
    assert asked == [(("owner/name", "main"), {"revision": "v1", "token": None})]
    loaded(SimpleNamespace(config=SimpleNamespace(data_files=None)))
    assert list_data_files("folder", None) == frozenset()


@pytest.mark.parametrize(
    ("message", "found"),
    [
        ("No. Available configs: a.", "No. Available configs: a"),
        ("not available\nhere", "not available here"),
        ("Should be one of [a] Example of usage: Available", "Should be one of [a]"),
        ("Something else. Example of usage: Available", None),
        ("", None),
    ],
)
def test_the_library_s_own_list_is_recognized(message: str, found: str | None) -> None:
    assert extract_available(ValueError(message)) == found


def test_a_message_is_one_line_without_its_last_dot() -> None:
    assert flatten_message(ValueError(" a\n b. ")) == "a b"
    assert flatten_message(ValueError(" ")) == "ValueError"


def test_the_token_file_lies_where_the_library_has_it(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_TOKEN_PATH", "HF_HOME", "XDG_CACHE_HOME"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", "/home/me")
    assert find_token_file() == Path("/home/me/.cache/huggingface/token")
    monkeypatch.setenv("XDG_CACHE_HOME", "/cache")
    assert find_token_file() == Path("/cache/huggingface/token")
    monkeypatch.setenv("HF_HOME", "$HOME/hf")
    assert find_token_file() == Path("/home/me/hf/token")
    monkeypatch.setenv("HF_TOKEN_PATH", "~/my-token")
    assert find_token_file() == Path("/home/me/my-token")


def test_links_of_a_snapshot_may_lead_into_its_repository(tmp_path: Path) -> None:
    snapshot = tmp_path / "repo" / "snapshots" / COMMIT
    snapshot.mkdir(parents=True)
    (tmp_path / "link").symlink_to(snapshot)
    assert find_link_limit(snapshot) == find_link_limit(tmp_path / "link") == tmp_path / "repo"
    assert find_link_limit(tmp_path / "repo") == tmp_path / "repo"
