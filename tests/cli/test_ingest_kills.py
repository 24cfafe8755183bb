"""Killed at any moment, an ingest with agents is finished by the next run, and what was answered is not asked again."""

from __future__ import annotations

import json
import os
import re
import sqlite3
import subprocess
from pathlib import Path
from typing import Any, Final

import pytest

from ktx_cli.testing.forks import Forks, start_installed
from ktx_cli.testing.ingest_kills import Case, Name, Sweep, sweep
from ktx_cli.testing.model_script import Call, ModelRequest, Reply, Turn, calls, gives, says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import CONFIG, LONG, SHOP, measure, page, usual

FULL: Final = bool(os.environ.get("KTX_TEST_FULL"))
AT_ONCE: Final = 4
"""Requests in flight: documents are sorted four at a time, units work two at a time."""

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


def told(found: Sweep) -> str:
    return f"{sum(found.fell.values())} kills, {dict(found.fell)}, in phases {dict(sorted(found.phases.items()))}; \
{found.asked} requests undisturbed, so many more with a kill: {sorted(found.again)}"


@pytest.mark.timeout(1800)
def test_killed_at_any_moment_the_next_run_completes_and_nothing_is_paid_twice(
    template: Path, tmp_path: Path, environ: dict[str, str], model_server: ModelServer
) -> None:
    with Forks() as forks:
        start = start_installed if FULL else forks
        case = Case(template, model_server, model, name_of, start, environ, AT_ONCE)
        found = sweep(case, tmp_path / "scratch", kills=100 if FULL else 10, seed=6)
    print(f"\n{told(found)}")
    print("\n".join(found.violations))
    assert found.violations == []
    assert found.asked == 7 + 2 + sum(map(len, UNITS.values())) + 3 + 3
