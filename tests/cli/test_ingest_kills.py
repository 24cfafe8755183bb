"""Killed at any moment, an ingest with agents is finished by the next run, and what was answered is not asked again."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import pytest

from ktx_cli.testing.model_script import Call, ModelRequest, Reply, Turn, calls, gives, says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import CONFIG, LONG, SHOP, Agents, backends, entered, measure, page, states, usual
from tests.worlds.forks import Forks, start_installed
from tests.worlds.ingest_kills import INGEST, Case, Name, Sweep, sweep

FULL: Final = bool(os.environ.get("KTX_TEST_FULL"))
AT_ONCE: Final = 2
"""Requests in flight: of documents that are sorted, and of units."""

LOOK = calls(Call("entity_details", {"targets": ["orders"]}))
END = says("done")
UNITS: Final[dict[str, list[Turn]]] = {
    "fees": [usual("fees")[0], calls(page("fees", refs=["refunds"])), END],
    "refunds": usual("refunds"),
    "stock": [usual("stock")[0], LOOK, calls(measure("total", "sum(amount)"), page("stock")), END],
    "tax": [usual("tax")[0], LOOK, calls(measure("paid", "sum(paid)")), END],
}
LIGHT: Final = {"holidays": "Branches are closed on holidays.", "hours": "Branches open at nine."}
SKIPPED: Final = {"lunch": "Who brings the cake?"}
RECONCILE: Final = [
    calls(Call("stage_list")),
    calls(Call("wiki_write", {"key": "refunds", "replacements": [{"old_text": "says", "new_text": "holds"}]})),
    END,
]


RESULTS: Final = ("Orders count when they are paid.", "customer_id", "No page has a tag yet.")
"""What stands in the first three results of a unit of six steps."""


def name_of(request: ModelRequest) -> Name | None:
    """Name a request by what it holds alone, so that the same one has the same name in every run."""
    text = json.dumps(request.body.get("messages"))
    step = sum(message["role"] == "assistant" for message in request.body["messages"])
    if "You sort documents" in request.system:
        return Name(0, _first(r"path: ([\w-]+)\.md", text), step)
    if "Task: " in text:
        return Name(2, _first(r"Task: ([\w-]+)\.md", text), step)
    if "candidate `" in text:
        return Name(3, "pass", step)
    if "This run has " in text:
        return Name(4, "reconcile", step)
    return Name(1, _first(r"path: ([\w-]+)\.md", text), step) if "p1:" in text else None


def _first(pattern: str, text: str) -> str:
    found = re.search(pattern, text)
    assert found is not None, text[:500]
    return found[1]


def model(request: ModelRequest) -> Reply:
    """Answer a request by what it holds alone."""
    name = name_of(request)
    if name is None:
        return says("ok")
    if name.phase == 0:
        lane = "light" if name.about in LIGHT else "skip" if name.about in SKIPPED else "full"
        return gives({"lane": lane, "reason": "so it is"})
    if name.phase == 1:
        return gives({"candidates": [fact(name.about)]})
    turns = UNITS[name.about] if name.phase == 2 else RECONCILE if name.phase == 4 else _curated(request)
    return turns[name.step]


def fact(topic: str) -> dict[str, Any]:
    scores = dict.fromkeys(("durability", "authority", "reuse", "novelty", "risk"), 1)
    texts = {"topic": topic, "assertion": LIGHT[topic], "rationale": "", "page": None, "hint": "create"}
    return {**texts, "passages": ["p1"], **scores}


def _curated(request: ModelRequest) -> list[Turn]:
    keys = list(dict.fromkeys(re.findall(r"candidate `([\w-]+)`:", json.dumps(request.body["messages"]))))
    pages = [Call("wiki_write", {"key": f"about-{key}", "summary": f"On {key}.", "content": "So."}) for key in keys]
    marks = [{"key": key, "status": "promoted", "artifact": f"wiki:about-{key}"} for key in keys]
    return [calls(*pages), calls(*(Call("context_candidate_mark", each) for each in marks)), END]


@pytest.fixture
def template(tmp_path: Path, model_server: ModelServer) -> Path:
    """A repository with a database and documents of all lanes, of which nothing was ingested."""
    folder = tmp_path / "template"
    (folder / "docs").mkdir(parents=True)
    database = sqlite3.connect(folder / "shop.sqlite")
    database.executescript(SHOP)
    database.close()
    settings = {"backend": "anthropic", "url": model_server.url, "at_once": 2, "steps": 10, "failure": "continue"}
    (folder / "ktx.yaml").write_text(CONFIG.format(**settings))
    for topic in UNITS:
        (folder / f"docs/{topic}.md").write_text(f"# {topic}\n\n{LONG}")
    for topic, text in (LIGHT | SKIPPED).items():
        (folder / f"docs/{topic}.md").write_text(f"# {topic}\n\n{text}\n")
    subprocess.run(["git", "init", "-q"], cwd=folder, check=True)
    (folder / ".git/info/exclude").write_text("/shop.sqlite*\n/ktx.yaml\n/docs\n")
    return folder


@pytest.fixture
def environ(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, str]:
    return {**os.environ, "SCRIPTED_KEY": "made-up"}


def _line(found: Sweep) -> str:
    again = ", ".join(f"{count} times {more}" for more, count in sorted(Counter(found.again).items()))
    return (
        f"{sum(found.fell.values())} kills {dict(found.fell)}, in phases {dict(sorted(found.phases.items()))}; "
        f"{found.asked} requests where nothing is killed, more than that: {again}"
    )


@pytest.mark.slow
@pytest.mark.timeout(1800)
def test_killed_at_any_moment_the_next_run_completes_and_nothing_is_paid_twice(
    template: Path, tmp_path: Path, environ: dict[str, str], model_server: ModelServer, forks: Forks
) -> None:
    case = Case(template, model_server, model, name_of, start_installed if FULL else forks, environ, AT_ONCE)
    found = sweep(case, tmp_path / "scratch", kills=100 if FULL else 4, seed=6)
    print(f"\n{_line(found)}")
    assert found.violations == []
    assert found.asked == 7 + 2 + sum(map(len, UNITS.values())) + 3 + 3


@pytest.mark.skipif(not FULL, reason="twenty runs of Claude Code take minutes")
@pytest.mark.timeout(1800)
def test_on_claude_code_a_unit_under_way_begins_again_and_no_other(
    template: Path, tmp_path: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = (template / "ktx.yaml").read_text()
    route = "  models:\n    writer: claude-code:sonnet\n"
    (template / "ktx.yaml").write_text(config.replace("  models:\n", route))
    with entered("claude-code", model_server, monkeypatch):
        environ = {**os.environ, "SCRIPTED_KEY": "made-up"}
        case = Case(template, model_server, model, name_of, start_installed, environ, AT_ONCE, whole=True)
        found = sweep(case, tmp_path / "scratch", kills=10, seed=7)
    print(f"\n{_line(found)}")
    assert found.violations == []


SIX_STEPS: Final = [
    usual("refunds")[0],
    LOOK,
    calls(Call("wiki_list_tags")),
    calls(Call("discover_data", {"query": "paid"})),
    calls(page("refunds")),
    END,
]


@pytest.mark.parametrize("backend", backends("anthropic"))
def test_a_unit_killed_after_three_results_goes_on_with_them_but_for_claude_code(
    company: Path,
    configure: Callable[..., None],
    model_server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
    forks: Forks,
) -> None:
    configure("refunds")
    config = (company / "ktx.yaml").read_text()
    route = f"    writer: {backend}:sonnet\n"
    (company / "ktx.yaml").write_text(config.replace("  models:\n", f"  models:\n{route}"))
    asked: list[ModelRequest] = []
    again = 4 if backend == "claude-code" else 1  # so many requests of the killed run are made again

    def script(request: ModelRequest) -> Reply:
        if "Task: refunds.md" not in request.words:
            return gives({"lane": "full", "reason": "so"}) if "You sort" in request.system else END
        asked.append(request)
        if len(asked) == 4:
            os.killpg(started.pid, signal.SIGKILL)
            return replace(END, forever=True)  # nobody lives to read it
        return SIX_STEPS[len(asked) - 1 - (again if len(asked) > 4 else 0)]

    model_server.play(script)
    with entered(backend, model_server, monkeypatch):
        environ, told = dict(os.environ), company.parent / "said"
        started = forks(INGEST, folder=company, environ=environ, said=told)
        assert started.wait() == -signal.SIGKILL
        assert forks(INGEST, folder=company, environ=environ, said=told).wait() == 0, told.read_text()
    first, fourth, next_one = (_said(asked[place]) for place in (0, 3, 4))
    assert (company / "wiki/global/refunds.md").exists()
    assert len(asked) == len(SIX_STEPS) + again
    if backend == "claude-code":  # its sessions are not kept
        assert len(next_one) == len(first) < len(fourth)
    else:
        assert next_one == fourth, "the next run asks what the killed one asked last"
        assert [result for result in RESULTS if result not in json.dumps(next_one)] == []


def _said(request: ModelRequest) -> list[Any]:
    """Return what was said so far, without what Claude Code says of where it runs."""
    return [message for message in request.body["messages"] if message["role"] != "system"]


def test_a_unit_whose_file_was_held_lands_later_without_being_paid_again(
    ktx: Callable[..., Any], company: Path, configure: Callable[..., None], model_server: ModelServer
) -> None:
    configure("refunds", "stock")
    subprocess.run(["git", "init", "-q"], cwd=company, check=True)
    theirs = company / "wiki/global/refunds.md"
    theirs.parent.mkdir(parents=True)
    theirs.write_text("---\nsummary: Mine.\n---\n\nNot committed yet.\n")
    first, second = Agents(), Agents()
    model_server.play(first)
    held = ktx("ingest", "--json")
    assert (held.code, [each["path"] for each in held.data["held"]]) == (7, ["wiki/global/refunds.md"])
    assert states(company) == {"refunds.md": "failed", "stock.md": "done"}
    theirs.unlink()
    model_server.play(second)
    assert ktx("ingest", "--json").code == 0
    assert (first.of("refunds"), second.of("refunds"), second.of("stock")) == (4, 0, 0)
    assert "About refunds" in theirs.read_text()
    with contextlib.closing(sqlite3.connect(company / ".ktx/state.sqlite")) as state:
        left = [state.execute(f"SELECT count(*) FROM {each}").fetchone() for each in ("unit_outcomes", "unit_steps")]
    assert left == [(0,), (0,)]
