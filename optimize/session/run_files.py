"""Files of a tuning run in its folder, `outputs/optimize/<time>_<name>/`, and the resuming of a run from them.

    tuning.json        the run (`TuningInfo`): command, configuration, phase, spend; rewritten after each phase
    config.yaml        its configuration, without secrets, to read
    headroom.json      what the headroom preflight found, if it was asked for
    splits.json        ids of the questions of each split, and the record for a set that is tuned on them
    baseline.json  search.json  shortlist.json  leaks.json  verdict.json       result of each phase; written at its end
    proposals.jsonl    one line per proposal, in order; after a resume those of the earlier session, until repeated;
                       with the SHA-256 of its prompts, with which they are compared whenever they are read again
    candidates/<id>/   their prompts, each a prompt set; `parent` is the set that the search started from
    calls.db           every paid reply and its cost
    trials.db          every answer of the search with its score
    sealed/<arm>/      answers of the sealed test, each a run that eval's commands can read
    sealed/draw.json   their id in the log of sealed tests
    sealed/judged.json the gate has judged these answers: they are final
    rejected/          the candidate that was tested and not published

Each file is complete: it is written under another name and then renamed.

    python optimize/run.py resume=latest                    # as it was started
    python optimize/run.py resume=latest budget.usd=10      # with more money

Finished phases are skipped. An interrupted search is repeated: it is reproducible, and the run's call log replays its
replies up to where it stopped.
"""

import json
import shlex
import shutil
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

from eval.cli.paths import OUTPUTS, PROJECT_ROOT
from eval.config.evaluation import EvalConfig
from eval.config.measured import find_changes
from eval.config.tracking import remove_passwords
from eval.runs.folder import find_run, format_path
from eval.runs.foreign_run import TRUST, check_command
from eval.runs.own_runs import read_command
from eval.runs.run_info import TUNING_FILE, TuningInfo, read_tuning_info
from eval.scorers.score import read_scorer_digest
from mas.agents.in_memory import list_in_memory
from mas.prompt_sets.prompt_set import SET_FILE, PromptSet, digest, read_prompt_set, read_set_folder, write_prompt_set
from mas.prompt_sets.provenance import TunedOn
from mas.runtime.errors import UserError
from mas.runtime.security.private_file import write_atomically
from mas.system import read_program_digest
from optimize.search.candidate import PARENT, Candidate, Proposal

CANDIDATES, PROPOSALS = "candidates", "proposals.jsonl"
ProposalLine = dict[str, Any]  # a `Proposal` in proposals.jsonl, with the SHA-256 of its prompts in their place
RESUME = "resume"
# Options, or whole branches of them, that may change between the sessions of a run.
# What evaluation does not measure, such as the executor, is not compared either.
OF_THE_SESSION = (RESUME, "yes", "name", "run", "budget", "headroom", "reflection_api_key_env")


def find_tuning_run(run: str) -> Path:
    """Return the folder of a tuning run.

    Raises:
        UserError: no run, or more than one, has that name.
    """
    return find_run(run, OUTPUTS / "optimize", TUNING_FILE, "python optimize/run.py")


def find_set(name: str, root: Path = PROJECT_ROOT) -> PromptSet:
    """Read a prompt set of any system.

    Args:
        name: of a set under `prompts/`, path of its folder, or RUN:ID for a candidate of a tuning run.
        root: the folder that contains `prompts/`.

    Raises:
        UserError: there is no such set, or it cannot be read.
    """
    run, colon, candidate_id = name.rpartition(":")
    if colon and run and candidate_id and not Path(name).exists():
        return read_candidate_set(find_tuning_run(run), candidate_id)
    path = Path(name).expanduser()
    places = [path, root / path] if "/" in name or path.is_absolute() else [root / "prompts" / name]
    folder = next((each for each in places if name and each.is_dir()), None)
    if folder is None:
        return read_prompt_set(name, [], "", root)  # raises the error that lists the sets
    return read_set_folder(folder)


def read_candidate_set(run: Path, candidate_id: str) -> PromptSet:
    """Read the prompts of a candidate in a run's folder.

    Raises:
        UserError: the run has no such candidate.
    """
    known = sorted(each.parent.name for each in (run / CANDIDATES).glob(f"*/{SET_FILE}"))
    if candidate_id not in known:
        choice = f"choose one of: {', '.join(known)}" if known else "it has none yet"
        raise UserError(f"{run.name} has no candidate {candidate_id}; {choice}.")
    return replace(read_set_folder(run / CANDIDATES / candidate_id), name=candidate_id)


class RunFiles:
    """The files of one run."""

    def __init__(self, folder: Path, redact: Callable[[str], str] = str) -> None:
        """`redact`: removes secrets from a text before it is written."""
        self.folder, self._redact = folder, redact
        self._lines: list[ProposalLine] = []  # of this session's search
        self._earlier: list[ProposalLine] = []  # of earlier sessions

    def read(self, name: str) -> Any:
        """Return the content of `<name>.json`; None if it does not exist.

        Raises:
            UserError: it is damaged.
        """
        path = self.folder / f"{name}.json"
        return _parse(path.read_text("utf-8"), path) if path.is_file() else None

    def write(self, name: str, content: object) -> None:
        self.write_text(f"{name}.json", json.dumps(content, indent=2, ensure_ascii=False) + "\n")

    def write_text(self, name: str, text: str) -> None:
        with write_atomically(self.folder / name) as file:
            file.write(self._redact(text))

    def remove(self, name: str) -> None:
        (self.folder / f"{name}.json").unlink(missing_ok=True)

    def read_info(self) -> TuningInfo:
        """Return what is known of the run; the empty info before it began.

        Raises:
            UserError: tuning.json cannot be read.
        """
        return read_tuning_info(self.folder) or TuningInfo()

    def write_info(self, info: TuningInfo) -> None:
        self.write_text(TUNING_FILE, info.to_json())

    def update_state(self, **changes: object) -> None:
        """Change fields of the run's `TuningState`."""
        info = self.read_info()
        self.write_info(replace(info, state=replace(info.state, **changes)))  # type: ignore[arg-type]

    def save_candidate(self, candidate: Candidate) -> None:
        """Write a candidate's prompts; replace others under the same id.

        A resumed search finds other prompts under an id if the model's server failed answers that it now gives.
        """
        folder, prompts = self.folder / CANDIDATES / candidate.id, self._without_secrets(candidate.prompts)
        with suppress(UserError):  # it is not there, or not whole
            if digest(read_set_folder(folder)) == digest(prompts):
                return
        if candidate.id != PARENT:  # a tuned set records this run's questions
            marks = TunedOn.from_dict(self.read("splits")["tuned_on"])
            prompts = replace(prompts, tuned_on=marks | prompts.tuned_on)
        unfinished, replaced = self.folder / ".candidate.part", self.folder / ".candidate.replaced"
        for leftover in (unfinished, replaced):
            shutil.rmtree(leftover, ignore_errors=True)
        folder.parent.mkdir(exist_ok=True)
        write_prompt_set(unfinished, prompts)
        if folder.exists():  # renamed first: a kill must not leave a part of it
            folder.rename(replaced)
        unfinished.rename(folder)
        shutil.rmtree(replaced, ignore_errors=True)

    def read_candidate(self, candidate_id: str, agents: Sequence[str], system: str) -> PromptSet:
        """Return a candidate's prompts.

        Raises:
            UserError: they cannot be read, or somebody has changed them since the run wrote them.
        """
        prompts = read_prompt_set(self.folder / CANDIDATES / candidate_id, agents, system, self.folder)
        self.check_prompts(candidate_id, prompts)
        return prompts

    def check_prompts(self, candidate_id: str, prompts: PromptSet) -> None:
        """Compare prompts with the SHA-256 that the run kept of a candidate, or of its parent.

        Raises:
            UserError: somebody has changed them since the run wrote them.
        """
        kept = {line["candidate_id"]: line.get("prompts_sha256") for line in self.read_proposals()}
        expected = self.read_info().parent_sha256 if candidate_id == PARENT else kept.get(candidate_id)
        if expected and digest(prompts) != expected:
            raise UserError(
                f"{format_path(self.folder)}/{CANDIDATES}/{candidate_id} was changed since the run wrote it: restore "
                "it, or start a new tuning run."
            )

    def clear_proposals(self) -> None:
        """Start a search. The lines of an earlier session stay until the resumed search repeats them."""
        self._lines, self._earlier = [], self.read_proposals()

    def add_proposal(self, proposal: Proposal) -> None:
        """Write a proposal with its prompts; one that was cut off replaces none that an earlier session scored."""
        candidate = proposal.candidate
        if proposal.decision == "cut_off" and candidate.id in _select_scores(self._earlier):
            return
        self.save_candidate(candidate)
        facts = {**vars(candidate), **vars(proposal), "spend": proposal.spend.to_dict()}
        line = {name: value for name, value in facts.items() if name not in ("id", "prompts", "candidate")}
        line |= {"candidate_id": candidate.id, "prompts_sha256": digest(self._without_secrets(candidate.prompts))}
        self._lines.append(line)
        self._earlier = [each for each in self._earlier if each["candidate_id"] != candidate.id]
        self._write_proposals([*self._lines, *self._earlier])

    def finish_proposals(self, with_earlier: bool) -> None:
        """Keep only the lines of this session's search, which is complete.

        Args:
            with_earlier: a budget ended it, perhaps before it had repeated what earlier sessions scored: keep the rest
                of that.
        """
        scores = _select_scores(self._earlier) if with_earlier else {}
        self._write_proposals([*self._lines, *(each for each in self._earlier if each["candidate_id"] in scores)])

    def read_scores(self) -> dict[str, float]:
        """Return candidate → score of those that were scored on all validation questions."""
        return _select_scores(self.read_proposals())

    def read_proposals(self) -> list[ProposalLine]:
        """Return the complete lines; a full disk may have cut off the last one."""
        path = self.folder / PROPOSALS
        *lines, _ = path.read_text("utf-8").split("\n") if path.is_file() else [""]
        return [_parse(line, path) for line in lines]

    def _write_proposals(self, lines: Sequence[ProposalLine]) -> None:
        self.write_text(PROPOSALS, "".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines))

    def _without_secrets(self, prompts: PromptSet) -> PromptSet:
        """Remove secrets that a server may have repeated to the reflection."""
        demos = json.dumps(prompts.demos, ensure_ascii=False)
        if self._redact(demos) != demos:
            prompts = replace(prompts, demos=json.loads(self._redact(demos)))
        return replace(prompts, texts={agent: self._redact(text) for agent, text in prompts.texts.items()})


def _parse(text: str, path: Path) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise UserError(f"{format_path(path)} is damaged ({error}): restore it, or start a new tuning run.") from error


def _select_scores(lines: Sequence[ProposalLine]) -> dict[str, float]:
    scored = (each for each in lines if each["val_score"] is not None and each["decision"] != "cut_off")
    return {each["candidate_id"]: each["val_score"] for each in scored}


def read_original_arguments(run: str, arguments: Sequence[str]) -> list[str]:
    """Return the overrides that a run was started with, as far as a later session takes them over.

    Args:
        run: its name.
        arguments: given now.

    Raises:
        UserError: there is no such run, its tuning.json cannot be read, or it was made elsewhere and the user has not
            said that it is trusted.
    """
    folder = find_tuning_run(run)
    info = RunFiles(folder).read_info()
    if parts := list_in_memory(info.config):
        raise UserError(
            f"{RESUME}={run}: that run was started in Python, and only its memory held its {' and '.join(parts)}; "
            "start it again there, or put them into files, so that the next one can be resumed."
        )
    if (own := read_command(info.run_id, folder)) is not None:
        return filter_overrides(own)
    command = filter_overrides(info.command)
    check_command(command, arguments, format_command("run.py"), folder)
    return command


def filter_overrides(overrides: Sequence[str], redact: Callable[[str], str] = str) -> list[str]:
    """Return the overrides that a later session repeats; those that contain a secret are not stored."""
    own = (f"{RESUME}=", "yes=", "run.dir=", f"{TRUST}=", "log.terminal=")
    kept = [remove_passwords(each) for each in overrides if not each.lstrip("+").startswith(own)]
    return [each for each in kept if redact(each) == each]


def find_parent_set(run: str) -> str:
    """Return the folder of the prompts that the run started from: a copy, since the set may have been edited."""
    return str(find_tuning_run(run) / "candidates" / PARENT)


def check_sources(before: TuningInfo, base: EvalConfig) -> None:
    """Check that program and scorer are those that the run was started with.

    Raises:
        UserError: the source of one was changed.
    """
    for what, old, new in (
        ("program", before.program_sha256, read_program_digest(base.system)),
        ("scorer", before.scorer_sha256, read_scorer_digest(base.scorer)),
    ):
        if old != new:
            raise UserError(
                f"the {what}'s source, or that of a module of its project, has changed since the tuning run began "
                f"({old[:12]} → {new[:12]}): restore it, or start a new tuning run."
            )


def check_unchanged(before: TuningInfo, base: EvalConfig, now: Mapping[str, object]) -> None:
    """Check that the configuration, without secrets, program and scorer are those that the run was started with.

    Raises:
        UserError: an option that belongs to the run differs, or the source of program or scorer was changed.
    """
    check_sources(before, base)
    found = {
        key: change
        for key, change in find_changes(before.config, now).items()
        if not any(key == each or key.startswith(f"{each}.") for each in OF_THE_SESSION)
    }
    if found:
        listed = "; ".join(f"{key}: {change}" for key, change in list(found.items())[:10])
        raise UserError(f"the tuning run has other options ({listed}); resume it with its own, or start a new run.")


def describe_resume(folder: Path, *options: str) -> str:
    """Return a sentence with the command that resumes the run."""
    name = folder.name if folder.parent == OUTPUTS / "optimize" else format_path(folder)
    return f"continue with: {format_command('run.py')} {shlex.join([f'resume={name}', *options])}"


def format_command(script: str) -> str:
    """Return a command of `optimize/` as it is typed in the current folder."""
    return f"python {shlex.quote(format_path(PROJECT_ROOT / 'optimize' / script))}"
