"""`ktx doctor` in CI: each situation is found by the right check, in every format, and its printed fix mends it.

Run alone, with `-s`, it prints the matrix.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import pytest

from ktx_cli.jobs.health import doctor
from ktx_cli.llm.backends.claude_code import AUTH_HINT
from tests.cli.conftest import ingested_shop
from tests.cli.doctor_situations import SITUATIONS, Situation, World
from tests.cli.shell import is_command

Run = Callable[..., Any]
REPORT = "report.xml"
DONE_BY_HAND = r"(as an administrator|run as a superuser): [A-Z]{5,} |in \S+ line \d+: |correct line \d+ of /"
HEADER = ("situation", "check", "level", "exit", "text", "json", "junit", "github", "fix", "fix carried out")


@pytest.fixture
def world(
    copies: Callable[..., Path], ktx: Run, work: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> World:
    """An ingested project over the shop: every situation has a copy of it."""
    return World(ktx, copies(ingested_shop, work), monkeypatch, request)


@pytest.fixture(scope="module")
def matrix() -> Iterator[list[tuple[str, ...]]]:
    """The rows of the situations that were shown; printed at the end."""
    rows: list[tuple[str, ...]] = []
    yield rows
    widths = [max(map(len, column)) for column in zip(HEADER, *rows, strict=True)]
    for row in (HEADER, *rows):
        print("\n" + "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip(), end="")
    print()


def remembered(patch: pytest.MonkeyPatch) -> None:
    """Have the checks run once: the formats after the first are drawn from the same findings."""
    kept: list[doctor.Diagnosis] = []
    examine = doctor.examine

    def once(*args: Any, **given: Any) -> doctor.Diagnosis:
        kept[:] = kept or [examine(*args, **given)]
        return kept[0]

    patch.setattr(doctor, "examine", once)


def told_by_json(data: Any, situation: Situation, fix: str) -> None:
    (found, *_) = [each for each in data["findings"] if each["check"] == situation.check and each["level"] != "ok"]
    assert (found["level"], found["hint"]) == (situation.level, fix), found


def told_by_text(out: str, situation: Situation, fix: str) -> None:
    lines = out.splitlines()
    (place, *_) = [n for n, line in enumerate(lines) if line.split()[:2] == [situation.level, situation.check]]
    assert lines[place + 1] == f"      fix: {fix}"


def told_by_junit(path: Path, situation: Situation, fix: str) -> None:
    cases = [case for case in ElementTree.parse(path).iter("testcase") if case.get("name") == situation.check]
    tag = "failure" if situation.level == "fail" else "skipped"
    (found, *_) = [each for case in cases for each in case.iter(tag)]
    assert (found.get("message") or "").startswith(f"{situation.level}: ")
    assert found.text == f"fix: {fix}"


def told_by_github(out: str, situation: Situation, fix: str) -> None:
    level = {"fail": "error", "warn": "warning"}[situation.level]
    title = f"title=ktx doctor%3A {situation.check.replace(':', '%3A')}::"
    (line, *_) = [each for each in out.splitlines() if each.startswith(f"::{level} ") and title in each]
    assert line.endswith(f"%0Afix: {fix.replace('%', '%25')}")


def can_be_done(finding: dict[str, Any]) -> bool:
    """Whether what is not well comes with a command, a statement for a database, or an edit; and no command is lost."""
    hint = finding["hint"] or ""
    if finding["level"] in ("ok", "skip"):
        return True
    return is_command(hint) or hint == AUTH_HINT or re.match(DONE_BY_HAND, hint) is not None


@pytest.mark.one_in(3)
@pytest.mark.parametrize(
    "situation",
    [pytest.param(each, id=each.name, marks=[pytest.mark.postgres] if each.server else []) for each in SITUATIONS],
)
def test_what_ci_sees(situation: Situation, world: World, matrix: list[tuple[str, ...]]) -> None:
    situation.arrange(world)
    fix = situation.fix.format(project=world.project)
    with pytest.MonkeyPatch.context() as patch:
        remembered(patch)
        as_json = world.ktx("doctor", "--json", "--junit", REPORT)
        as_text, as_github = world.ktx("doctor"), world.ktx("doctor", "--github")
    assert [each for each in as_json.data["findings"] if not can_be_done(each)] == []
    assert (as_json.code, as_text.code, as_github.code) == (situation.code,) * 3, as_json
    told_by_json(as_json.data, situation, fix)
    told_by_text(as_text.out, situation, fix)
    told_by_junit(world.project / REPORT, situation, fix)
    told_by_github(as_github.out, situation, fix)
    if not situation.reason:
        world.carry_out(fix)
        after = world.ktx("doctor", "--only", situation.check_id, "--json").data["findings"]
        kind = situation.check.partition(":")[0]
        assert after
        assert [each for each in after if each["check"].partition(":")[0] == kind and each["level"] != "ok"] == []
    how = "edited as it says" if world.edit else "with `...` filled in" if world.fills else "as it stands"
    carried_out = f"no: {situation.reason}" if situation.reason else f"{how}: ok"
    formats = ("yes",) * 4
    matrix.append((situation.name, situation.check, situation.level, str(situation.code), *formats, fix, carried_out))
