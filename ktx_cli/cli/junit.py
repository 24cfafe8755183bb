"""Findings as a JUnit XML report: what CI systems draw in their list of tests."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Literal
from xml.etree import ElementTree

from ktx_cli.core import UsageError
from ktx_cli.project import storage_error

_NO_XML: Final = re.compile(r"[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufdcf\ufdf0-\ufffd\U00010000-\U0010ffff]")
"""What a document of XML 1.0 cannot hold, or is asked not to: control characters, lone surrogates, no characters."""

_HEAD: Final = 1_000
"""Bytes of a file that are looked at."""

_ELEMENTS: Final = {"fail": "failure", "error": "error", "skip": "skipped"}


@dataclass(frozen=True, slots=True)
class JunitCase:
    """One finding as a test: `fail` is a wrong answer, `error` one that could not be had.

    `message` is one line about it, `detail` the text behind it; both are shown of a case that is not `ok`.
    """

    name: str
    classname: str
    seconds: float = 0.0
    status: Literal["ok", "fail", "error", "skip"] = "ok"
    message: str = ""
    detail: str = ""


def junit_xml(suite: str, cases: Sequence[JunitCase]) -> bytes:
    """Return the report of one suite as UTF-8: the same cases give the same bytes."""
    seconds = f"{sum(case.seconds for case in cases):.3f}"
    counts = {"tests": str(len(cases)), **{key: _count(cases, status) for key, status in _COUNTED}}
    root = ElementTree.Element("testsuites", {"name": _clean(suite), **counts, "time": seconds})
    written = ElementTree.SubElement(root, "testsuite", dict(root.attrib))
    for case in cases:
        _write(written, case)
    ElementTree.indent(root)
    return bytes(ElementTree.tostring(root, encoding="utf-8", xml_declaration=True)) + b"\n"


def require_report(path: Path) -> None:
    """Raise `UsageError` where something is at a path that no report of JUnit was: nothing of anybody's is replaced."""
    try:
        if not path.exists() or path.is_dir():  # that nothing can be written there is told when it is tried
            return
        if path.is_file():
            with path.open("rb") as stream:
                head = stream.read(_HEAD)
            if not head.strip() or b"<testsuite" in head:
                return
    except OSError as error:
        raise storage_error(path, error, "read") from error
    raise UsageError(f"{path} is there and is no report of JUnit", hint="choose another file: --junit ktx-junit.xml")


_COUNTED: Final = (("failures", "fail"), ("errors", "error"), ("skipped", "skip"))


def _count(cases: Sequence[JunitCase], status: str) -> str:
    return str(sum(case.status == status for case in cases))


def _write(suite: ElementTree.Element, case: JunitCase) -> None:
    about = {"name": _clean(case.name), "classname": _clean(case.classname), "time": f"{case.seconds:.3f}"}
    element = ElementTree.SubElement(suite, "testcase", about)
    if case.status != "ok":
        found = ElementTree.SubElement(element, _ELEMENTS[case.status], {"message": _clean(case.message)})
        found.text = _clean(case.detail) or None


def _clean(text: str) -> str:
    """Return the text with what XML cannot hold as U+FFFD, so that a reader sees that something was there."""
    return _NO_XML.sub("\ufffd", text)
