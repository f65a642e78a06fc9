"""Tool that reads an attached file as text: page by page, or the lines that match a search."""

import asyncio
import re
from dataclasses import replace
from pathlib import Path

from mas.runtime.sample_context import current_context
from mas.runtime.untrusted import mark_untrusted
from mas.tools.attachments import find_attachment, mark_for_attachments
from mas.tools.files.document import Document, Part, clip, lay_out, number_lines
from mas.tools.files.kinds import NO_ARCHIVE, read_document
from mas.tools.read_only import mark_read_only
from mas.tools.results import Excerpt, ToolError, ToolResult
from mas.tools.settings import TranscriptionSettings, get_settings

SOUND_FORMATS = (".mp3", ".wav", ".m4a", ".flac", ".ogg", ".mp4", ".webm")  # that the endpoint takes
MAX_SOUND_BYTES = 25_000_000  # https://platform.openai.com/docs/guides/speech-to-text
MAX_SOUND_SECONDS = 120.0  # for one sound, retries and all
NO_SHEETS = "It has no sheets: `sheet` was left out."


@mark_untrusted
@mark_read_only
@mark_for_attachments
def read_file(
    file: str,
    sheet: str | None = None,
    page: int = 1,
    search: str | None = None,
    member: str | None = None,
) -> ToolResult:
    """Read a file that is attached to the question and return its content as text.

    Reads Excel workbooks (values, formulas, fill colours, comments, hidden and merged cells), Word, PowerPoint (with
    notes), PDF (with tables), e-books, web pages, XML, CSV, TSV, JSON, JSON Lines, any plain text or source code, the
    members of zip archives, and the text in pictures.

    file: the bare name of the attached file, such as "sales.xlsx", never a path.
    sheet: the name of one sheet of a workbook; of a PDF, presentation or e-book the number of a page, slide or chapter,
    or a range such as "3-5"; without it all are shown.
    page: long content comes in pages, counted from 1; the first line of the answer says how many there are.
    search: return only the lines or rows that contain this text (upper or lower case), with two lines around each.
    member: the name of one file in a zip archive, as the archive's own listing shows it; it is read as a file is.
    """
    path, settings, name = find_attachment(file), get_settings(TranscriptionSettings), file
    sheet, search, member = ((given or "").strip() for given in (sheet, search, member))
    if settings.is_on and not member and path.suffix.lower() in SOUND_FORMATS:
        document = _transcribe(path, file, settings)
    else:
        document = read_document(path, member or None)
        name = f"{file}: {member}" if member and NO_ARCHIVE not in document.notes else file
    if sheet and not any(part.name for part in document.parts):
        document = replace(document, notes=[*document.notes, NO_SHEETS])
    elif sheet:
        document = replace(document, parts=_choose_parts(document, name, sheet))
    text, start = lay_out(document, f"{name}: {document.summary}", page, search)
    return ToolResult(text, kind="file", excerpts=[Excerpt(name, document.summary, start, len(text))])


def _choose_parts(document: Document, name: str, sheet: str) -> list[Part]:
    """Return sheets by name; pages, slides or chapters by number: "4", "page 4" or "3-5"."""
    unit, count = document.unit, len(document.parts)
    if unit != "sheet":
        found = re.fullmatch(f"(?:{unit}s? ?)?([0-9]{{1,9}})(?: ?[-\u2013] ?([0-9]{{1,9}}))?", sheet, re.IGNORECASE)
        first, last = (int(found[1]), int(found[2] or found[1])) if found else (1, 0)
        if 1 <= first <= last <= count:
            return document.parts[first - 1 : last]
        raise ToolError(
            f"{name} has the {unit}s 1 to {count}; give `sheet` one of these numbers or a range such as "
            f'"1-{count}", not {clip(repr(sheet), 100)}.'
        )
    chosen = [part for part in document.parts if part.name == sheet]
    chosen = chosen or [part for part in document.parts if part.name.strip().casefold() == sheet.casefold()]
    if not chosen:
        names = repr([part.name for part in document.parts])[1:-1]
        raise ToolError(f"No sheet of {name} is named {sheet!r}; its sheets: {clip(names, 2_000)}.")
    return chosen


def _transcribe(path: Path, file: str, settings: TranscriptionSettings) -> Document:
    """Return what is said in a sound, from a server with OpenAI's transcription endpoint."""
    import openai  # half a second

    data, context = path.read_bytes(), current_context()
    seconds = min(MAX_SOUND_SECONDS, context.seconds_left) if context else MAX_SOUND_SECONDS
    if len(data) > MAX_SOUND_BYTES:
        raise ToolError(f"{file} has {len(data)} bytes, and at most {MAX_SOUND_BYTES} are sent to be transcribed.")

    async def request() -> str:
        address = settings.base_url or "https://api.openai.com/v1"  # never from OPENAI_BASE_URL
        client = openai.AsyncOpenAI(api_key=settings.api_key or "none", base_url=address, max_retries=1)
        async with asyncio.timeout(seconds), client:
            reply = await client.audio.transcriptions.create(model=settings.model or "", file=(file, data))
        return reply.text.strip()

    try:
        # In a loop in the tool's thread: the client's own limits do not end a reply that drips.
        text = asyncio.run(request())
    except (openai.OpenAIError, TimeoutError, ValueError, TypeError, AttributeError) as error:
        status = getattr(error, "status_code", None)  # its words may repeat the key
        why = f"the server refuses it (HTTP {status})" if status else f"no answer of use ({type(error).__name__})"
        raise ToolError(
            f"{file} cannot be transcribed: {why}; check tools.transcription, its model, base_url and the key in "
            f"{settings.api_key_env}."
        ) from error
    note = "What follows is its transcript, generated by speech recognition; words may be misheard."
    sentences = number_lines(re.split(r"(?<=[.!?])\s+|\n+", text))
    notes = [note if text else "No speech was recognised in it."]
    return Document(f"sound, {len(data)} bytes", [Part(sentences)], notes).limit()
