"""Tools that read the raw files of a task: whole, or lines of one."""

from __future__ import annotations

from pathlib import PurePosixPath
from typing import Final

from pydantic import Field

from ktx_cli.context.documents.reading import read_document
from ktx_cli.context.sources.model import RawFile
from ktx_cli.context.tools.calling import Input, Tool
from ktx_cli.context.tools.failures import Refused
from ktx_cli.context.tools.limits import LONGEST_RAW, RESERVE, cut_lines, joined
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.tools.untrusted import visible, wrapped
from ktx_cli.core.errors import UsageError
from ktx_cli.core.text import did_you_mean, listing
from ktx_cli.llm.tools import ToolOutput
from ktx_cli.project.workspace import checked_path

_ROOM: Final = LONGEST_RAW - RESERVE
_DOCUMENTS: Final = frozenset({".pdf", ".html", ".htm"})


class ReadFile(Input):
    """Which raw file to read."""

    path: str = Field(description="Path of a raw file of this task, as it was listed.")


class ReadSpan(Input):
    """Which lines of a raw file to read."""

    path: str = Field(description="Path of a raw file, as it was listed.")
    start_line: int = Field(ge=1, description="First line, from 1.")
    end_line: int = Field(ge=1, description="Last line, included.")
    start_character: int = Field(0, ge=0, description="Characters of the first line to leave out, where it was cut.")


def _read_file(session: ToolSession, value: ReadFile) -> ToolOutput:
    file = _file(session, value.path)
    lines = _lines(file)
    return _span(session, file, lines, 1, len(lines), 0)


def _read_span(session: ToolSession, value: ReadSpan) -> ToolOutput:
    file = _file(session, value.path)
    lines = _lines(file)
    if value.start_line > len(lines) or value.end_line < value.start_line:
        raise Refused(f"{file.path} has the lines 1 to {len(lines)}: ask for lines among them, the first first")
    return _span(session, file, lines, value.start_line, min(value.end_line, len(lines)), value.start_character)


def _span(session: ToolSession, file: RawFile, lines: list[str], first: int, end: int, skip: int) -> ToolOutput:
    """Return lines of a file, as many as there is room for."""
    text = "\n".join(lines[first - 1 : end])[skip:]
    kept, count = cut_lines(text, _ROOM)
    last = first + count - 1
    note = ""
    if len(kept) < len(text):
        whole = text[len(kept)] == "\n"
        start = last + 1 if whole else last
        at = "" if whole else f", start_character {len(kept) + (skip if count == 1 else 0)}"
        note = f"(cut: {len(lines)} lines in all; read on with read_raw_span, start_line {start}, end_line {end}{at})"
    body = wrapped(kept, f"{file.path} of {session.origin}")
    told = joined(f"Lines {first} to {last} of {len(lines)}:", body, note)
    return ToolOutput(told, {"success": True, "path": file.path, "lines": [first, last, len(lines)], "cut": bool(note)})


def _file(session: ToolSession, path: str) -> RawFile:
    """Return a file of the task; a path that leads elsewhere is none of them."""
    try:
        found = session.raw.get(path) or session.raw.get(checked_path(path))
    except UsageError:
        found = None
    if found is not None:
        return found
    near = did_you_mean(path, session.raw)
    advice = f"did you mean `{near}`?" if near else f"there are: {listing(sorted(session.raw), 20) or 'none'}"
    raise Refused(f"`{path}` is no raw file of this task; {advice}")


def _lines(file: RawFile) -> list[str]:
    """Return the lines of a file as a model sees them; of HTML and PDF the text people read."""
    suffix = PurePosixPath(file.path).suffix.lower()
    if suffix in _DOCUMENTS:
        text = read_document(file).markdown
    else:
        content = file.read()
        if b"\0" in content[:8_000]:
            raise Refused(f"{file.path} is no text: it cannot be read here")
        text = content.decode("utf-8-sig", "replace")
    return visible(text).removesuffix("\n").split("\n")


TOOLS: Final = (
    Tool(
        "read_raw_file",
        "Read a raw file of this task from its beginning. A long one is cut and says where to read on.",
        ReadFile,
        _read_file,
        longest=LONGEST_RAW,
    ),
    Tool(
        "read_raw_span",
        "Read lines of a raw file: where read_raw_file cut it, or a part you know.",
        ReadSpan,
        _read_span,
        longest=LONGEST_RAW,
    ),
)
"""`read_raw_file` is for tasks with files of their own; a loop over a whole run reads spans."""
