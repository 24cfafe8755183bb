"""The JUnit report: what is written is read back by an XML parser, whatever the texts hold."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ktx_cli.cli.findings import JunitCase, junit_xml

CASES = (
    JunitCase("revenue", "evals.sales", 0.25),
    JunitCase("orders", "evals.sales", 1.5, "fail", "1 row differs", "- 41\n+ 42"),
    JunitCase("users", "evals.people", 0.0, "error", "no such table"),
    JunitCase("asked", "evals.people", 0.0, "skip", "no backend"),
)


def test_every_status_is_counted_and_has_its_element() -> None:
    root = ElementTree.fromstring(junit_xml("ktx eval", CASES))
    (suite,) = root
    counts = {"name": "ktx eval", "tests": "4", "failures": "1", "errors": "1", "skipped": "1", "time": "1.750"}
    assert root.attrib == suite.attrib == counts
    children = [[(child.tag, child.get("message"), child.text) for child in case] for case in suite]
    assert children == [
        [],
        [("failure", "1 row differs", "- 41\n+ 42")],
        [("error", "no such table", None)],
        [("skipped", "no backend", None)],
    ]
    assert [(case.get("classname"), case.get("name"), case.get("time")) for case in suite][1] == (
        "evals.sales",
        "orders",
        "1.500",
    )


@pytest.mark.parametrize(
    ("text", "read"),
    [
        ('<b> & "quoted" ]]>', '<b> & "quoted" ]]>'),
        ("\x00\x1b[31m\x0b", "\ufffd\ufffd[31m\ufffd"),
        ("\ud800 \uffff", "\ufffd \ufffd"),
        ("Zoë 🦊 ", "Zoë 🦊 "),
    ],
)
def test_texts_of_any_kind_come_back(text: str, read: str) -> None:
    case = JunitCase(text, text, 0.0, "fail", text, text)
    ((found,),) = ElementTree.fromstring(junit_xml(text, [case]))
    assert (found.get("name"), found.get("classname")) == (read, read)
    assert (found[0].get("message"), found[0].text) == (read, read)


def test_no_case_is_a_report_too_and_the_same_cases_the_same_bytes() -> None:
    assert ElementTree.fromstring(junit_xml("empty", ()))[0].get("tests") == "0"
    assert junit_xml("again", CASES) == junit_xml("again", CASES)


@pytest.mark.parametrize("words", [("doctor", "--only", "git"), ("eval",)], ids=lambda words: words[0])
def test_a_report_takes_the_place_of_no_other_file(
    ktx: Callable[..., Any], project: Path, words: tuple[str, ...]
) -> None:
    """Of a pipe or a device neither: in a container ktx may well be root."""
    (project / "link").symlink_to("ktx.yaml")
    os.mkfifo(project / "pipe")
    before = (project / "ktx.yaml").read_bytes()
    for name in ("ktx.yaml", "link", "pipe"):
        answer = ktx(*words, "--junit", name, "--json")
        assert (answer.code, answer.envelope["error"]["code"]) == (2, "usage"), name
    assert (project / "ktx.yaml").read_bytes() == before
    assert (project / "pipe").is_fifo() and (project / "link").is_symlink()
    (project / "empty.xml").touch()
    for name in ("empty.xml", "new/report.xml", "new/report.xml"):
        assert ktx(*words, "--junit", name).code == 0
        assert ElementTree.parse(project / name).getroot().tag == "testsuites"
