"""A manifest git ignores: every run would pay for everything again, so it is said before the first unit is."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import MANIFEST, Agents, git

Run = Callable[..., Any]
CODE = "manifest_ignored"


def warned(answer: Any) -> list[dict[str, Any]]:
    return [warning for warning in answer.envelope["warnings"] if warning["code"] == CODE]


@pytest.mark.one_in(4)
@pytest.mark.parametrize("ignored", ["raw-sources/", "*.yaml", "raw-sources/*", "manifest.yaml"])
def test_it_is_told_with_an_edit_that_ends_it(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer, ignored: str
) -> None:
    configure("refunds", "stock")
    git(company, "init", "-q")
    (company / ".gitignore").write_text(f"{ignored}\n")
    planned = ktx("ingest", "--dry-run", "--json")
    assert [each["path"] for each in warned(planned)] == [MANIFEST]

    model_server.play(Agents())
    first = ktx("ingest", "--progress", "jsonl", "--json")
    (warning,) = warned(first)
    assert warning["message"].endswith("so every run processes everything again: now 2 units")
    lines = [json.loads(line) for line in first.err.splitlines()]
    told = next(number for number, each in enumerate(lines) if MANIFEST in each.get("message", ""))
    assert told < [each["event"] for each in lines].index("work_unit_started")

    with (company / ".gitignore").open("a") as stream:
        stream.writelines(f"{line}\n" for line in re.findall(r"`([^`]+)`", warning["hint"]))
    model_server.play(Agents())
    assert warned(ktx("ingest", "--json")) == []
    again = Agents()
    model_server.play(again)
    assert warned(ktx("ingest", "--json")) == []
    assert again.asked == [], "what was read is known"


def test_nothing_is_told_where_git_does_not_ignore_it_or_nothing_would_be_paid(
    ktx: Run, company: Path, configure: Run, model_server: ModelServer
) -> None:
    configure("refunds")
    git(company, "init", "-q")
    assert warned(ktx("ingest", "--dry-run", "--json")) == []
    (company / ".gitignore").write_text("raw-sources/\n")
    assert warned(ktx("ingest", "--no-llm", "--json")) == []
    assert model_server.requests == []
