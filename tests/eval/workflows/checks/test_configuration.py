"""The doctor's findings about keys, models and data, of parts that stand in for the real ones."""

from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from eval.benchmarks.dataset import Sample, Split
from eval.cli.hydra_compat import compose_config
from eval.config.evaluation import PARTS, EvalConfig, read_config
from eval.workflows.checks import configuration as check
from eval.workflows.checks.configuration import check_configuration
from eval.workflows.checks.installation import MISSING, OK, WARNING, Finding
from mas.llm.profiles.openai_chat import OpenAIChatModel
from mas.runtime.errors import UserError
from tests.eval.stored_run import answered, stored_run
from tests.servers.one_answer import server_that_answers

OFFLINE = ["experiment=offline", "tools.browser.url=null", "tools.web.wikipedia_url=http://127.0.0.1:9/w/api.php"]


def refuse() -> None:
    raise UserError("it is wrong.")


@pytest.fixture(scope="module")
def config() -> EvalConfig:
    return read_config(compose_config(OFFLINE))


def offers(*names: str) -> AbstractContextManager[str]:
    return server_that_answers(200, {"object": "list", "data": [{"id": each, "object": "model"} for each in names]})


def ask(base_url: str, *wanted: str) -> Finding:
    return Finding("model", *check._ask_endpoint(base_url, "none", list(wanted), lambda text: text))


def test_an_endpoint_has_all_models_or_names_some_of_those_that_it_has() -> None:
    with offers(*(f"m{number}" for number in range(8))) as url:
        assert ask(url, "m1", "m7") == Finding("model", OK, f"{url} has m1, m7")
        listed = "m0, m1, m2, m3, m4, m5, m6, m7"
        remedy = "give one of those as model.name=…, unless the server takes any name"
        absent = f"{url} does not list a, b; it has {listed}"
        assert ask(url, "a", "m1", "b") == Finding("model", WARNING, absent, remedy)
    with offers(*(f"m{number}" for number in range(10))) as url:
        assert ask(url, "a").what == f"{url} does not list a; it has {listed} and 2 more"
    with offers() as url:
        assert ask(url, "a").what == f"{url} does not list a; it has none"


@pytest.mark.parametrize(
    ("status", "state", "what", "remedy"),
    [
        (401, MISSING, "refuses the key (HTTP 401)", "check the key"),
        (403, MISSING, "refuses the key (HTTP 403)", "check the key"),
        (404, WARNING, "answers, but does not list its models (HTTP 404)", ""),
        (500, WARNING, "answers, but does not list its models (HTTP 500)", ""),
    ],
)
def test_an_endpoint_that_refuses_is_told_without_its_password(status: int, state: str, what: str, remedy: str) -> None:
    with server_that_answers(status, {"error": {"message": "no"}}) as url:
        found = ask(url.replace("http://", "http://me:pass@"), "m")
    assert found == Finding("model", state, f"{url} {what}", remedy)


def test_an_endpoint_that_is_not_there_is_missing() -> None:
    found = Finding("model", *check._ask_endpoint("http://127.0.0.1:9/v1", "none", ["m"], lambda text: "***"))
    wanted = "http://127.0.0.1:9/v1 does not answer: ***"
    assert found == Finding("model", MISSING, wanted, "start it, be online, or correct the address")


def model(**fields: Any) -> Any:
    return SimpleNamespace(**{"name": "m", "simulated": False, **fields})


def check_model(checked: Any, others: list[str], run: Callable[[], object] = lambda: None) -> Finding:
    return check._check_model("judge", checked, others, run, lambda text: text)  # type: ignore[arg-type]


def test_a_model_is_asked_for_unless_it_is_wrong_simulated_or_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = list[tuple[object, ...]]()

    def ask_endpoint(url: str, key: str, wanted: list[str], redact: object) -> tuple[str, str]:
        asked.append((url, key, wanted))
        return OK, "fine"

    monkeypatch.setattr(check, "_ask_endpoint", ask_endpoint)
    assert check_model(model(base_url="x"), [], refuse) == Finding("judge", MISSING, "it is wrong.")
    assert check_model(model(simulated=True), []) == Finding("judge", OK, "m: simulated, part of the package")
    assert check_model(model(base_url=None), []) == Finding(
        "judge", OK, "m: settings fine; its endpoint is not known here, so not asked"
    )
    assert asked == []
    monkeypatch.setenv("MY_KEY", "sk-1")
    monkeypatch.delenv("OTHER_KEY", raising=False)
    fine = Finding("judge", OK, "fine")
    assert check_model(model(base_url="u", api_key_env="MY_KEY"), ["z", "a", "m"]) == fine
    assert check_model(model(base_url="u", api_key_env="OTHER_KEY", local_names=["n", "b"]), ["c"]) == fine
    assert check_model(model(base_url="u", api_key_env=None), []) == fine
    assert check_model(OpenAIChatModel("gpt-4o"), []) == fine
    assert asked == [
        ("u", "sk-1", ["a", "m", "z"]),
        ("u", "none", ["b", "c", "n"]),
        ("u", "none", ["m"]),
        ("https://api.openai.com/v1", "none", ["gpt-4o"]),
    ]


def parts(**changes: Any) -> Any:
    fields: dict[str, Any] = {part: SimpleNamespace() for part in PARTS}
    return SimpleNamespace(**{**fields, "needs_model": True, "judges": {}, **changes})


def test_each_variable_of_the_parts_is_looked_up_and_its_value_shown_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("A_KEY", "sk-secret"), ("B_KEY", "  "), ("C_KEY", "")):
        monkeypatch.setenv(name, value)
    monkeypatch.delenv("D_KEY", raising=False)
    config = parts(
        model=SimpleNamespace(api_key_env="A_KEY", name="A_KEY", other_env=None),
        data=SimpleNamespace(token_env="B_KEY"),
        system=SimpleNamespace(token_env="C_KEY", number_env=5),
        judges={"scorer": SimpleNamespace(api_key_env="D_KEY")},
    )
    found = {each.what: each for each in check._check_keys(config)}
    assert found == {
        each.what: each
        for each in (
            Finding("key", OK, "A_KEY is set (model.api_key_env)"),
            Finding("key", WARNING, "B_KEY is not set (data.token_env)", "put B_KEY=… into .env"),
            Finding("key", MISSING, "C_KEY is not set (system.token_env)", "put C_KEY=… into .env"),
            Finding("key", MISSING, "D_KEY is not set (scorer.judge.api_key_env)", "put D_KEY=… into .env"),
        )
    }
    config.needs_model = False
    assert not [each for each in check._check_keys(config) if "A_KEY" in each.what]


def test_the_judges_are_checked_by_their_scorers(monkeypatch: pytest.MonkeyPatch) -> None:
    def scorer(name: str) -> Any:
        def fail() -> None:
            raise UserError(name)

        return SimpleNamespace(check=fail)

    config = parts(
        system=SimpleNamespace(name="toy", model_names=list),
        needs_model=False,
        scorer=scorer("main"),
        extra_scorers={"style": scorer("style")},
        judges={"scorer": model(), "extra_scorers.style": model()},
        redact=str,
    )
    assert list(check._check_models(config)) == [
        Finding("model", OK, "not needed by system=toy"),
        Finding("judge", MISSING, "main"),
        Finding("judge", MISSING, "style"),
    ]
    needing = SimpleNamespace(**{**vars(config), "needs_model": True, "model": model(), "judges": {},
                                 "check_model": refuse})  # fmt: skip
    assert list(check._check_models(needing)) == [Finding("model", MISSING, "it is wrong.")]  # type: ignore[arg-type]


def test_a_system_is_told_with_its_prompts(config: EvalConfig) -> None:
    def finding(check_system: Callable[[], object]) -> Finding:
        return check._check_system(parts(system=SimpleNamespace(name="toy"), check_system=check_system))

    assert finding(lambda: SimpleNamespace(name="base")) == Finding("system", OK, "toy, prompts base")
    assert finding(lambda: None) == Finding("system", OK, "toy, no prompts of ours")
    assert finding(refuse) == Finding("system", MISSING, "it is wrong.")


def dataset(bad_rows: tuple[str, ...] = (), notes: tuple[str, ...] = (), **fields: Any) -> Any:
    samples = tuple(Sample(f"q{number}", "?") for number in range(3))
    return SimpleNamespace(
        **{"name": "mine", "check": lambda: None, "load": lambda split: Split(samples, bad_rows, notes), **fields}
    )


def find_data(config: EvalConfig, data: Any, limit: int | None = 2) -> list[Finding]:
    changed = replace(config, data=data, selection=replace(config.selection, limit=limit), split="test")
    return list(check._check_dataset(changed))


def test_questions_are_counted_and_bad_rows_are_a_warning(config: EvalConfig) -> None:
    counts = "mine, split test: 3 questions, 2 selected"
    assert find_data(config, dataset()) == [Finding("data", OK, counts)]
    assert find_data(config, dataset(), None) == [Finding("data", OK, counts.replace("2", "3"))]
    assert find_data(config, dataset(notes=("a", "b"))) == [Finding("data", OK, f"{counts}; a; b")]
    assert find_data(config, dataset(("row 1", "row 2"), ("a",))) == [
        Finding("data", WARNING, f"{counts}; a, 2 bad rows skipped: row 1")
    ]
    assert find_data(config, dataset(check=refuse)) == [Finding("data", MISSING, "it is wrong.")]


def test_only_what_lies_at_the_hub_is_fetched_later(
    config: EvalConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    hub = Finding("network", OK, "the hub answers")
    monkeypatch.setattr(check, "_check_hub", lambda: hub)
    fetched = Finding("data", OK, "a/b, split test: fetched at the first run, access not tried")
    read = Finding("data", OK, "mine, split test: 3 questions, 2 selected")
    assert find_data(config, dataset(repo="a/b")) == [fetched, hub]
    assert find_data(config, dataset(repo="a/b", path="here")) == [read]
    assert find_data(config, dataset(repo=str(tmp_path))) == [read]
    assert find_data(config, dataset(repo=None, path=None)) == [read]


def test_the_hub_answers_whatever_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    with server_that_answers(501, {}) as url:
        monkeypatch.setenv("HF_ENDPOINT", url)
        assert check._check_hub() == Finding("network", OK, f"{url} answers")
    monkeypatch.setenv("HF_ENDPOINT", "http://127.0.0.1:9")
    found = check._check_hub()
    assert found.state == WARNING and found.remedy == ("be online, or have the files: data.path=FOLDER, or data=sample")
    assert found.what.startswith("http://127.0.0.1:9 does not answer ([Errno ")
    assert found.what.endswith("): only what was fetched earlier can be used")
    monkeypatch.setenv("HF_ENDPOINT", "no address")
    assert check._check_hub().what.startswith("no address does not answer (unknown url type: ")


def test_a_configuration_can_run_if_nothing_is_missing_and_its_folder_is_free(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    deep_ones = list[bool]()

    def find(name: str, state: str) -> Callable[[EvalConfig, bool], list[Finding]]:
        def check_parts(config: EvalConfig, deep: bool) -> list[Finding]:
            deep_ones.append(deep)
            return [Finding(name, state, "it"), Finding("last", OK, "it")]

        return check_parts

    chosen = Finding("configuration", OK, "system=gaia, model=offline, data=sample")
    monkeypatch.setattr(check, "_check_parts", find("part", WARNING))
    assert list(check_configuration(OFFLINE)) == [
        chosen, Finding("part", WARNING, "it"), Finding("last", OK, "it"),
        Finding("run", OK, "the configuration can run"),
    ]  # fmt: skip
    used = stored_run(tmp_path / "used", [answered("q1", "17")])
    *_, last = check_configuration([*OFFLINE, f"run.dir={used}"], deep=True)
    assert (last.name, last.state) == ("run", MISSING) and str(used) in last.what
    monkeypatch.setattr(check, "_check_parts", find("part", MISSING))
    assert [each.name for each in check_configuration(OFFLINE)] == ["configuration", "part", "last"]
    assert deep_ones == [False, True, False]
    (mistake,) = check_configuration([*OFFLINE, "run.epochs=x"])
    assert (mistake.name, mistake.state) == ("configuration", MISSING) and "epochs" in mistake.what


def test_each_part_is_looked_at_once_with_its_own_settings(
    config: EvalConfig, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    given: list[tuple[object, ...]] = []

    def look(name: str, several: bool) -> Callable[..., object]:
        def find(*arguments: object) -> object:
            given.append((name, *arguments))
            return [Finding(name, OK, "it")] if several else Finding(name, OK, "it")

        return find

    for name, several in (
        ("_check_system", False), ("_check_keys", True), ("_check_models", True), ("_check_dataset", True),
        ("check_tools", True), ("check_disk", False), ("check_mlflow_store", False),
    ):  # fmt: skip
        monkeypatch.setattr(check, name, look(name, several))
    monkeypatch.setattr(check, "OUTPUTS", tmp_path / "outputs")
    found = [each.name for each in check._check_parts(config, deep=True)]
    assert found == [name for name, *_ in given]
    assert given == [
        ("_check_system", config),
        ("_check_keys", config),
        ("_check_models", config),
        ("_check_dataset", config),
        ("check_tools", config, True),
        ("check_disk", tmp_path / "outputs"),
        ("check_mlflow_store", config.tracking),
    ]
    given.clear()
    elsewhere = replace(config, run=replace(config.run, dir=str(tmp_path / "given")))
    list(check._check_parts(elsewhere, deep=False))
    assert given[-3:-1] == [("check_tools", elsewhere, False), ("check_disk", tmp_path / "given")]


def test_the_folder_of_a_run_that_is_resumed_need_not_be_free(config: EvalConfig, tmp_path: Path) -> None:
    used = stored_run(tmp_path / "used", [answered("q1", "17")])
    named = replace(config, run=replace(config.run, dir=str(used)))
    with pytest.raises(UserError, match="already holds a run"):
        check._check_run(named)
    check._check_run(replace(named, run=replace(named.run, resume="latest")))


def test_an_error_that_is_no_mistake_is_a_defect(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(overrides: list[str]) -> None:
        raise ValueError("a defect")

    monkeypatch.setattr(check, "compose_config", fail)
    with pytest.raises(ValueError, match=r"^a defect$"):
        list(check_configuration([]))
