"""Tools that read the raw files of a task: whole, or lines of one."""

from __future__ import annotations

from typing import Final

from pydantic import Field

from ktx_cli.context.sources.model import RawFile
from ktx_cli.context.tools.calling import Input, Tool
from ktx_cli.context.tools.failures import Refused
from ktx_cli.context.tools.limits import LONGEST_RAW, RESERVE, cut_lines
from ktx_cli.context.tools.session import ToolSession
from ktx_cli.context.tools.untrusted import visible, wrapped
from ktx_cli.core.errors import UsageError
from ktx_cli.core.text import did_you_mean, listing
from ktx_cli.llm.tools import ToolOutput
from ktx_cli.project.workspace import checked_path

_ROOM: Final = LONGEST_RAW - RESERVE
_TEXTLESS: Final = "is no text: it cannot be read here"


class ReadFile(Input):
    """Which raw file to read."""

    path: str = Field(description="Path of a raw file of this task, as it was listed.")


class ReadSpan(Input):
    """Which lines of a raw file to read."""

    path: str = Field(description="Path of a raw file, as it was listed.")
    start_line: int = Field(ge=1, description="First line, from 1.")
    end_line: int = Field(ge=1, description="Last line, included.")


def _read_file(session: ToolSession, value: ReadFile) -> ToolOutput:
    file = _file(session, value.path)
    text = _text(file)
    count = _lines(text)
    kept, shown = cut_lines(text, _ROOM)
    if len(kept) == len(text):
        return _output(session, file, text, 1, count, count, "")
    rest = f"read on with read_raw_span from line {shown + 1}" if shown < count else "its last line is too long"
    return _output(session, file, kept, 1, shown, count, f"(cut: lines 1 to {shown} of {count}; {rest})")


def _read_span(session: ToolSession, value: ReadSpan) -> ToolOutput:
    file = _file(session, value.path)
    lines = _text(file).split("\n")
    if value.start_line > len(lines) or value.end_line < value.start_line:
        raise Refused(f"{file.path} has the lines 1 to {len(lines)}: ask for lines among them, the first first")
    end = min(value.end_line, len(lines))
    kept, shown = cut_lines("\n".join(lines[value.start_line - 1 : end]), _ROOM)
    last = value.start_line + shown - 1
    note = ""
    if last < end:
        note = f"(cut: lines {value.start_line} to {last}; read on with read_raw_span from line {last + 1})"
    elif len(kept) < len("\n".join(lines[value.start_line - 1 : end])):
        note = f"(cut: line {last} is too long to be shown whole)"
    return _output(session, file, kept, value.start_line, last, len(lines), note)


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


def _text(file: RawFile) -> str:
    content = file.read()
    if b"\0" in content[:8_000] and not content.startswith((b"\xff\xfe", b"\xfe\xff")):
        raise Refused(f"{file.path} {_TEXTLESS}")
    return visible(file.text())


def _lines(text: str) -> int:
    return text.count("\n") + (0 if text.endswith("\n") else 1)


def _output(
    session: ToolSession, file: RawFile, text: str, first: int, last: int, count: int, note: str
) -> ToolOutput:
    heading = f"{file.path}, lines {first} to {last} of {count}:"
    body = wrapped(text, f"{file.path} of {session.origin}")
    markdown = f"{heading}\n\n{body}" + (f"\n\n{note}" if note else "")
    return ToolOutput(markdown, {"success": True, "path": file.path, "lines": [first, last, count], "cut": bool(note)})


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
