"""Signatures of the sealed test's answers: one line per answer in `signatures.jsonl`, next to the arm's `run.db`.

An interrupted answer goes on from its replies and tool results, so these are signed as well (`eval.runs.call_log`).

    with SignedStore(folder / "run.db") as store:      # signs each answer, then writes it
        …
    check_answers(folder, prompts)      # UserError: an answer was added, changed or removed since

A kill between signature and answer leaves one signature too many, which must be the last one.
"""

import json
import os
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import ClassVar

from eval.runs.call_log import CALL_LOG, CallLog, Signer, remove_tool_results
from eval.runs.folder import DATABASE, format_path
from eval.runs.record import Record
from eval.runs.store import AttemptKey, RunStore, StoreError
from mas.prompt_sets.prompt_set import PromptSet, digest
from mas.runtime.errors import UserError
from mas.runtime.installation_key import compute_mac
from mas.runtime.security.private_file import write_atomically

SIGNATURES = "signatures.jsonl"
_PURPOSE = "answer of a sealed test"


class SignedStore(RunStore):
    """A run's store that signs each record before it writes it."""

    signs_answers: ClassVar[bool] = True

    def write(self, record: Record) -> None:
        try:
            with (self.path.parent / SIGNATURES).open("a", encoding="ascii") as file:
                file.write(_format_line(record))
                file.flush()
                os.fsync(file.fileno())
        except OSError as error:
            raise StoreError(f"{self.path.parent / SIGNATURES} cannot be written ({error})") from error
        super().write(record)


def check_answers(folder: Path, prompts: PromptSet) -> None:
    """Check that an arm's answers are those that were written, and were given with these prompts.

    Args:
        folder: of the arm; it need not exist.
        prompts: of the arm.

    Raises:
        UserError: they are not.
    """
    place, lines = f"{format_path(folder)}/{DATABASE}", list(_read_lines(folder))
    signed = set(lines)
    found: set[AttemptKey] = set()
    try:
        with RunStore(folder / DATABASE, read_only=True) as store:
            info, has_own_info = store.read_info(), store.is_signed()
            for record in store.records(without_trajectory=True):
                key = _get_key(record)
                found.add(key)
                if (key, _compute_mac(record)) not in signed or record.run_id != info.run_id:
                    raise _changed(place, f"the answer to {record.sample_id}")
    except StoreError:  # it does not exist, or is empty
        info = None
    if info and info.has_begun and (not has_own_info or info.prompts_sha256 != digest(prompts)):
        raise _changed(place, f"its prompts are {info.prompts_sha256[:12]}, not {digest(prompts)[:12]}")
    missing = {key for key, _ in lines} - found
    if missing - {key for key, _ in lines[-1:]}:
        raise _changed(place, f"the answer to {min(missing)[0]}")
    if lines:  # without what a kill has left
        _write_lines(folder, [f"{json.dumps([key, mac])}\n" for key, mac in lines if key in found])


def sign_answers(folder: Path) -> None:
    """Sign an arm's answers and replies as they are now; calls of tools are made again."""
    try:
        with RunStore(folder / DATABASE) as store:
            info = store.read_info()
            store.write_info(info)
            _write_lines(folder, [_format_line(record) for record in store.records(without_trajectory=True)])
    except StoreError:  # it is empty
        return
    sign_replies(folder, info.run_id)
    remove_tool_results(folder)


def sign_replies(folder: Path, run_id: str) -> None:
    """Sign the replies in a folder's call log as they are now."""
    if (folder / CALL_LOG).is_file():
        with closing(CallLog(folder / CALL_LOG, signer=Signer(run_id))) as call_log:
            call_log.sign_all()


def _changed(place: str, what: str) -> UserError:
    return UserError(f"{place} was changed since the run wrote it ({what}): restore it, or start a new tuning run.")


def _get_key(record: Record) -> AttemptKey:
    return record.sample_id, record.epoch, record.attempt


def _format_line(record: Record) -> str:
    return f"{json.dumps([_get_key(record), _compute_mac(record)])}\n"


def _compute_mac(record: Record) -> str:
    """Return the authentication code of what the gate reads of an answer; empty if there is no key."""
    usage = [record.usage.lm_calls, record.usage.input_tokens, record.usage.output_tokens, record.usage.cost_usd]
    verdict = [record.target, record.answer, record.score, record.parts, record.error_class, record.limit]
    content = [record.run_id, _get_key(record), verdict, usage, record.wall_seconds]
    try:
        return compute_mac(_PURPOSE, json.dumps(content, sort_keys=True))
    except UserError:  # then nothing of the run is signed, and resuming it needs trust
        return ""


def _read_lines(folder: Path) -> Iterator[tuple[AttemptKey, str]]:
    try:
        text = (folder / SIGNATURES).read_text("ascii", errors="replace")
    except FileNotFoundError:
        return
    except OSError as error:
        raise UserError(
            f"{format_path(folder)}/{SIGNATURES} cannot be read ({error}); check its permissions."
        ) from error
    for line in text.splitlines():
        try:
            (sample_id, epoch, attempt), mac = json.loads(line)
        except (ValueError, TypeError):  # cut off by a crash, before its answer was written
            continue
        yield (str(sample_id), int(epoch), int(attempt)), str(mac)


def _write_lines(folder: Path, lines: list[str]) -> None:
    with write_atomically(folder / SIGNATURES, encoding="ascii") as file:
        file.writelines(lines)
