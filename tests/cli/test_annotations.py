"""Annotations are workflow commands GitHub reads back to the same text."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.cli.findings import annotation
from ktx_cli.core.diagnostics import Diagnostic, Location, Severity
from ktx_cli.jobs.health.model import CheckResult, Level


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("error", "KTX201", "gone"), "::error title=KTX201::gone"),
        (("warning", "KTX201", "gone", "wiki/a.md", 3), "::warning file=wiki/a.md,line=3,title=KTX201::gone"),
        (("info", "", "gone", "wiki/a.md"), "::notice file=wiki/a.md::gone"),
        (("error", "", "gone", None, 7), "::error::gone"),
        (("warning", "a: b, c", "100%\r\nof: it, all"), "::warning title=a%3A b%2C c::100%25%0D%0Aof: it, all"),
        (
            ("error", "\x1b[1mt", "a\x1b[31m\x07\u202eb", "wiki/\x9ba.md"),
            "::error file=wiki/ a.md,title= [1mt::a [31m  b",
        ),
        (("error", "t", "x::error::y\n::set-env::z"), "::error title=t::x::error::y%0A::set-env::z"),
    ],
)
def test_a_diagnostic_is_one_command(given: tuple[Any, ...], expected: str) -> None:
    severity, title, message, *place = given
    diagnostic = Diagnostic("code", Severity(severity), message, Location(*place))
    assert annotation(diagnostic, title=title) == expected


def test_files_count_from_the_top_of_the_repository() -> None:
    diagnostic = Diagnostic("KTX201", Severity.ERROR, "gone", Location("wiki/a.md", 3))
    assert annotation(diagnostic, "data/") == "::error file=data/wiki/a.md,line=3,title=KTX201::gone"


@pytest.mark.parametrize(("level", "severity"), list(zip(Level, (None, "warning", "error", None), strict=True)))
def test_the_levels_of_checks_are_severities_of_what_is_wrong(level: Level, severity: str | None) -> None:
    diagnostic = CheckResult("git", level, "x", "git init", location=Location("a", 2)).diagnostic
    assert (None if diagnostic is None else diagnostic.severity) == severity
    if diagnostic is not None:
        assert (diagnostic.code, str(diagnostic), diagnostic.hint) == ("git", "a:2: x", "git init")
