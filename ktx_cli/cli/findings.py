"""Diagnostics for CI systems (GitHub Actions annotations, JUnit XML) and human-readable `ktx doctor` results."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Final, Literal

from ktx_cli.cli.blocks import Line, Styled, terminal_width, wrapped
from ktx_cli.cli.contract import Session
from ktx_cli.cli.help import runnable
from ktx_cli.core import Command, Diagnostic, Hint, KtxError, Severity, UsageError, one_line, one_line_typed
from ktx_cli.project import storage_error

if TYPE_CHECKING:
    from xml.etree import ElementTree

    from ktx_cli.cli.help import ProjectPlace
    from ktx_cli.jobs.health.doctor import Diagnosis
    from ktx_cli.jobs.health.model import CheckResult


LEVELS: Final = {Severity.ERROR: "error", Severity.WARNING: "warning", Severity.INFO: "notice"}
"""GitHub's name for a severity. It only shows the first ten annotations of each from one step."""


def annotation(diagnostic: Diagnostic, prefix: str = "", *, title: str | None = None) -> str:
    """Return the line for a diagnostic, without its line break; its code is the title unless one is given.

    `prefix`: the path from the top of the repository to the project.
    """
    file, line = diagnostic.location.path, diagnostic.location.line
    properties = {
        "file": f"{prefix}{file}" if file else None,
        "line": line if file else None,
        "title": diagnostic.code if title is None else title,
    }
    given = ",".join(f"{name}={_property(str(value))}" for name, value in properties.items() if value not in (None, ""))
    command = f"::{LEVELS[diagnostic.severity]}"
    return f"{command} {given}::{_data(diagnostic.message)}" if given else f"{command}::{_data(diagnostic.message)}"


def repository_prefix(project: Path) -> str:
    """Return the path from the repository root to the project, with a trailing `/`; empty outside a repository."""
    from ktx_cli.project import discover_layout

    try:
        found = discover_layout(project)
    except KtxError:  # annotations then have paths relative to the project
        return ""
    return "" if found is None else found[1].prefix


def _data(text: str) -> str:
    """Return a message escaped to stay one command; GitHub decodes exactly these three escapes. Invisible characters
    are blanked.
    """
    encoded = text.replace("%", "%25").replace("\r", "%0D").replace("\n", "%0A")
    return "".join(character if character.isprintable() else " " for character in encoded)


def _property(text: str) -> str:
    return _data(text).replace(":", "%3A").replace(",", "%2C")


WIDEST_NAME: Final = 22
"""Maximum width of the check name column; longer ones push their message to the right."""
_LEVEL: Final = 4
_BARELY: Final = 30
"""Minimum number of columns at which messages are wrapped."""


def lines_of(found: Diagnosis, session: Session, *, quiet: bool = False) -> list[Line]:
    """Return the lines of all results, or only of passed ones (`quiet`: the others are reported elsewhere)."""
    findings = found.findings
    width = min(WIDEST_NAME, max((len(each.check) for each in findings), default=0))
    columns = terminal_width() if session.settings.pretty else None
    lines: list[Line] = []
    for each in found.repaired:
        lines += _line("left" if each.error else "done", each.check, each.message, width, columns)
    for finding in findings:
        if quiet and finding.level in ("warn", "fail"):
            continue
        lines += _line(finding.level.value, finding.check, _with_place(finding, session), width, columns)
        if finding.level != "ok":
            lines += [line for fix in _fix(finding, session.place) for line in _fix_lines(fix, columns)]
    totals = ", ".join(f"{count} {level}" for level, count in found.counts().items() if count)
    return [*lines, totals]


def _with_place(finding: CheckResult, session: Session) -> str:
    """Return the message of a result, with the line that it is about in front, as `ktx lint` prints it."""
    location, message = finding.location, finding.message
    if location.line is None or message.startswith(str(location)):
        return message
    return f"{session.shown_path(str(location))}: {message}"


def _line(level: str, check: str, message: str, width: int, columns: int | None) -> list[Line]:
    """Return a result, wrapped in a narrow terminal so that continuation lines align with the message."""
    head, text = f"  {check:<{width}}  ", one_line(message, 2000)
    shown = Styled(f"{level:<{_LEVEL}}", _LEVEL_STYLES.get(level, "ok"))
    below = " " * (_LEVEL + width + 4)
    if columns is None or columns - _LEVEL - len(head) < _BARELY:
        return [(shown, head + text)]
    first, *more = wrapped(text, columns - len(below)) or [""]
    return [(shown, head + first), *(below + line for line in more)]


def _fix_lines(fix: Hint, columns: int | None) -> list[str]:
    """Return the lines of a fix: one for a command, so that it can be copied, as many as it takes for a sentence."""
    margin, text = " " * (_LEVEL + 2), runnable(fix)
    if columns is None or isinstance(fix.parts[1], Command):
        return [margin + text]
    return [margin + line for line in wrapped(text, columns - len(margin), indent="  ", commands=True)]


_LEVEL_STYLES: Final = {"warn": "warning", "fail": "error", "left": "error"}


def annotations_of(found: Diagnosis, place: ProjectPlace) -> list[str]:
    """Return a workflow command for each result that is not ok."""
    prefix = "" if found.project_dir is None else repository_prefix(found.project_dir)
    lines = []
    for result in found.findings:
        if (diagnostic := result.diagnostic) is not None:
            message = "\n".join([one_line(result.message, 2000), *map(one_line_typed, _fix(result, place))])
            lines.append(annotation(replace(diagnostic, message=message), prefix, title=f"ktx doctor: {result.check}"))
    return lines


def cases_of(found: Diagnosis, place: ProjectPlace, *, strict: bool) -> list[JunitCase]:
    """Return each result as a test; a warning that is not a failure counts as skipped."""
    seen: Counter[str] = Counter()
    cases = []
    for check, findings in found.answers.items():
        for finding in findings:
            seen[finding.check] += 1
            again = f" #{seen[finding.check]}" if seen[finding.check] > 1 else ""
            message = f"{finding.level.value}: {one_line(finding.message, 2000)}"
            cases.append(
                JunitCase(
                    name=finding.check + again,
                    classname=f"doctor.{check}",
                    status=_status(finding, strict=strict),
                    message=message,
                    detail="\n".join(map(one_line_typed, _fix(finding, place))),
                )
            )
    return cases


def _status(finding: CheckResult, *, strict: bool) -> Literal["ok", "fail", "skip"]:
    if finding.level == "ok":
        return "ok"
    return "fail" if finding.level == "fail" or (strict and finding.level == "warn") else "skip"


def _fix(finding: CheckResult, place: ProjectPlace) -> list[Hint]:
    return [Hint("fix: {}", place.command(finding.hint))] if finding.hint else []


_NO_XML: Final = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")
"""Characters that an XML 1.0 document cannot or should not contain: control characters, lone surrogates,
non-characters.
"""

_HEAD: Final = 1_000
"""Number of bytes to inspect at the start of a file."""

_ELEMENTS: Final = {"fail": "failure", "error": "error", "skip": "skipped"}


@dataclass(frozen=True, slots=True)
class JunitCase:
    """One result as a test: `fail` is a wrong answer, `error` one that could not be determined.

    `message` is one line about it, `detail` the text below it; both are shown for a case that is not `ok`.
    """

    name: str
    classname: str
    seconds: float = 0.0
    status: Literal["ok", "fail", "error", "skip"] = "ok"
    message: str = ""
    detail: str = ""


def junit_xml(suite: str, cases: Sequence[JunitCase]) -> bytes:
    """Return the report of one suite as UTF-8: identical cases give identical bytes."""
    from xml.etree import ElementTree

    seconds = f"{sum(case.seconds for case in cases):.3f}"
    counts = {
        "tests": str(len(cases)),
        **{key: str(sum(case.status == status for case in cases)) for key, status in _COUNTED},
    }
    root = ElementTree.Element("testsuites", {"name": _clean(suite), **counts, "time": seconds})
    written = ElementTree.SubElement(root, "testsuite", dict(root.attrib))
    for case in cases:
        _write(written, case)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def require_report(path: Path) -> None:
    """Raise `UsageError` if a file exists that is not a JUnit report: ktx never replaces other files."""
    try:
        if not path.exists() or path.is_dir():  # a missing permission is reported on writing
            return
        if path.is_file():
            with path.open("rb") as stream:
                head = stream.read(_HEAD)
            if not head.strip() or b"<testsuite" in head:
                return
    except OSError as error:
        raise storage_error(path, error, "read") from error
    raise UsageError(f"{path} exists but is not a JUnit report", hint="choose another file: --junit ktx-junit.xml")


_COUNTED: Final = (("failures", "fail"), ("errors", "error"), ("skipped", "skip"))


def _write(suite: ElementTree.Element, case: JunitCase) -> None:
    from xml.etree import ElementTree

    about = {"name": _clean(case.name), "classname": _clean(case.classname), "time": f"{case.seconds:.3f}"}
    element = ElementTree.SubElement(suite, "testcase", about)
    if case.status != "ok":
        found = ElementTree.SubElement(element, _ELEMENTS[case.status], {"message": _clean(case.message)})
        found.text = _clean(case.detail) or None


def _clean(text: str) -> str:
    """Return the text with U+FFFD in place of characters that XML cannot contain, so that the gap is visible."""
    return _NO_XML.sub("\ufffd", text)
