"""llama.cpp's server for a model file, with a stand-in for the package that brings it."""

import os
import subprocess
import sys
from pathlib import Path
from urllib.request import urlopen

import pytest

from mas.llm import AUTO
from mas.llm.profiles.gguf_model import GgufModel
from mas.llm.profiles.model import AgentModel
from mas.runtime.errors import UserError
from tests.patience import wait_for

ROOT = Path(__file__).resolve().parents[4]
STAND_IN = ROOT / "tests" / "servers" / "llamacpp"


@pytest.fixture
def model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.syspath_prepend(str(STAND_IN))
    monkeypatch.setenv("PYTHONPATH", os.pathsep.join([str(STAND_IN), str(ROOT)]))
    path = tmp_path / "model.gguf"
    path.write_bytes(b"GGUF and the rest")
    return path


def test_a_server_is_started_for_the_file_and_answers(model: Path) -> None:
    profile = GgufModel("default", path=str(model), slots=3, context_tokens=4096)
    profile.check()
    assert (profile.max_connections, profile.context_tokens) == (3, 4096)
    assert "4" in str(profile.create_lm(AgentModel())("2 + 2?"))
    again = GgufModel("default", path=str(model), slots=3, context_tokens=4096)
    again.check()
    assert again.base_url == profile.base_url


def test_replies_of_another_file_at_the_same_path_are_not_those_of_this_one(model: Path) -> None:
    def name_file() -> str:
        profile = GgufModel("default", path=str(model))
        return profile._name_server(profile.get_server(""))

    first = name_file()
    assert name_file() == first
    os.utime(model, ns=(0, 0))
    assert name_file() != first


def test_a_worker_which_checks_no_profile_has_the_models_server_before_it_asks_about_tools(model: Path) -> None:
    profile = GgufModel("default", path=str(model))
    assert profile.native_tools == AUTO
    for agent in ("planner", "critic"):
        assert "4" in str(profile.create_lm(AgentModel(agent=agent))("2 + 2?"))
    assert len(profile.list_traffic()) == 1, "of one server"


def test_the_server_ends_with_its_run_even_if_that_is_killed(model: Path) -> None:
    code = (
        "import time; from mas.llm.profiles.gguf_model import GgufModel\n"
        f"profile = GgufModel('default', path={str(model)!r}); profile.check(); print(profile.base_url, flush=True)\n"
        "time.sleep(60)"
    )
    with subprocess.Popen([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout is not None
        url = f"{run.stdout.readline().strip()}/models"
        assert urlopen(url).status == 200
        run.kill()
    with pytest.raises(OSError):
        wait_for(lambda: urlopen(url).close())


@pytest.mark.parametrize(
    ("content", "options", "words"),
    [
        (None, {}, "cannot be read .No such file"),
        (b"PK", {}, "is no GGUF file"),
        (b"GGUF", {"hf": "a:b"}, "needs one file"),
        (b"GGUF", {"slots": 0}, "model.slots=0"),
    ],
)
def test_a_file_that_cannot_be_served_is_one_sentence(
    model: Path, content: bytes | None, options: dict[str, object], words: str
) -> None:
    path = model.with_name("given.gguf")
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(UserError, match=words):
        GgufModel("default", path=str(path), **options).check()  # type: ignore[arg-type]


def test_a_server_that_does_not_start_says_why(model: Path) -> None:
    broken = model.rename(model.with_name("broken.gguf"))
    with pytest.raises(UserError, match=r"did not start with .*broken\.gguf \(exit code 1\): .*incomplete$"):
        GgufModel("default", path=str(broken)).check()


def test_without_the_package_the_command_that_gets_it_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "xllamacpp", None)
    with pytest.raises(UserError, match=r"pip install -e '\.\[local\]'"):
        GgufModel("default", path="model.gguf").check()
