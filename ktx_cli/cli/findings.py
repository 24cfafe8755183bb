"""The findings of `ktx doctor` for people, GitHub and JUnit: each with what helps."""

from __future__ import annotations

import textwrap
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Final, Literal

from ktx_cli.cli.blocks import terminal_width
from ktx_cli.cli.hints import runnable
from ktx_cli.cli.junit import JunitCase
from ktx_cli.cli.unattended import annotation, repository_prefix
from ktx_cli.core import Hint, one_line, one_line_typed

if TYPE_CHECKING:
    from ktx_cli.cli.contract import Session
    from ktx_cli.cli.hints import Place
    from ktx_cli.jobs.health.doctor import Diagnosis
    from ktx_cli.jobs.health.model import CheckResult


WIDEST_NAME: Final = 22
"""Letters of a check's name that get a column of their own; what is longer pushes its message to the right."""
_LEVEL: Final = 4
_BARELY: Final = 30
"""Columns a message needs to be broken at all."""


def lines_of(found: Diagnosis, session: Session, *, quiet: bool = False) -> list[str]:
    """Return the lines of all findings, or of those that are well (`quiet`: the others are told in another way)."""
    findings = found.findings
    width = min(WIDEST_NAME, max((len(each.check) for each in findings), default=0))
    columns = terminal_width() if session.settings.pretty else None
    lines = [
        _line("left" if each.error else "done", each.check, each.message, width, columns) for each in found.repaired
    ]
    for finding in findings:
        if quiet and finding.level in ("warn", "fail"):
            continue
        lines.append(_line(finding.level.value, finding.check, finding.message, width, columns))
        if finding.level != "ok":
            lines += [f"{' ' * (_LEVEL + 2)}{runnable(fix)}" for fix in _fix(finding, session.place)]
    totals = ", ".join(f"{count} {level}" for level, count in found.counts().items() if count)
    return [*(line for each in lines for line in each.split("\n")), totals]


def _line(level: str, check: str, message: str, width: int, columns: int | None) -> str:
    """Return a finding, broken into several lines where a terminal is narrower; they begin below the message."""
    head, text = f"{level:<{_LEVEL}}  {check:<{width}}  ", one_line(message, 2000)
    below = " " * (_LEVEL + width + 4)
    if columns is None or columns - len(head) < _BARELY:
        return head + text
    lines = textwrap.wrap(
        head + text,
        columns,
        subsequent_indent=below,
        drop_whitespace=True,
        break_long_words=False,
        break_on_hyphens=False,
    )
    return "\n".join(lines)


def annotations_of(found: Diagnosis, place: Place) -> list[str]:
    """Return a workflow command for each finding that is not well."""
    prefix = "" if found.project_dir is None else repository_prefix(found.project_dir)
    return list(_annotations(found, place, prefix))


def _annotations(found: Diagnosis, place: Place, prefix: str) -> Iterator[str]:
    for result in found.findings:
        if (diagnostic := result.diagnostic) is not None:
            message = "\n".join([one_line(result.message, 2000), *map(one_line_typed, _fix(result, place))])
            yield annotation(replace(diagnostic, message=message), prefix, title=f"ktx doctor: {result.check}")


def cases_of(found: Diagnosis, place: Place, *, strict: bool) -> list[JunitCase]:
    """Return each finding as a test; a warning that does not count as a failure is one that was skipped."""
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


def _fix(finding: CheckResult, place: Place) -> list[Hint]:
    return [Hint("fix: {}", place.command(finding.hint))] if finding.hint else []
