"""Planted pages: those that harm are found, all of them, and the others are not accused."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from ktx_cli.jobs.proof.run import ProofRequest, prove, replay
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.mcp.loop import ServerToolbox
from ktx_cli.project.config.file import load_config
from ktx_cli.project.layout import Layout
from ktx_cli.testing.model_script import Call
from tests.jobs.proof.scripted import LLM, Results, play
from tests.small_project import change, make_shop_project

SMALL, WHOLE = (3, 1, 1), (20, 4, 4)
SIZES = [pytest.param(SMALL, SMALL, id="few"), pytest.param(WHOLE, WHOLE, id="all", marks=pytest.mark.slow)]
"""How many pages harm, help and do nothing."""

RIGHT, WRONG = "amount > 15", "amount > 5"
"""What counts, and a tempting reading of it."""


def topics(sizes: tuple[int, int, int]) -> list[str]:
    """Return the keys of the pages."""
    kinds = zip(("harmful", "helpful", "neutral"), sizes, strict=True)
    return [f"{kind}-{number}" for kind, count in kinds for number in range(count)]


@pytest.fixture
def planted(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Layout:
    """A project with a page and two questions for each topic. Harmful pages state the wrong reading."""
    monkeypatch.setenv("SCRIPTED_KEY", "made-up")
    folder = make_shop_project(tmp_path, monkeypatch)
    change(folder, "DROP TABLE orders", "CREATE TABLE orders (id INTEGER, amount INTEGER)")
    change(folder, "INSERT INTO orders VALUES (1, 10), (2, 20), (3, 30), (4, 1)")
    with (folder / "ktx.yaml").open("a") as stream:
        stream.write(LLM + "scan: {privacy: 'off'}\n")
    pages, evals = folder / "wiki" / "global", folder / "evals"
    pages.mkdir(parents=True)
    evals.mkdir()
    cases = []
    for topic in topics(request.param):
        rule = {"harmful": WRONG, "helpful": RIGHT}.get(topic.partition("-")[0])
        text = "Nothing is known of it." if rule is None else f"An order counts where `{rule}`."
        (pages / f"{topic}.md").write_text(f"---\nsummary: Orders of {topic}\n---\n\n{text}\n")
        for place in (1, 2):
            question = f"How many orders of {topic} are there, {place}?"
            sql = f"SELECT count(*) AS n FROM orders WHERE {RIGHT}"
            cases.append({"id": f"{topic}.{place}", "question": question, "sql": sql})
    (evals / "topics.yaml").write_text(json.dumps({"cases": cases}))
    play(monkeypatch, believer)
    return Layout(folder)


def believer(prompt: str, tools: Mapping[str, RuntimeTool], results: Results) -> Call | None:
    """Read the page of the topic and believe it; without a page read a helpful topic wrongly, and others rightly."""
    topic = re.search(r"orders of ([a-z]+-\d+) are", prompt)
    assert topic is not None
    if not results:
        return Call("context_read", {"id": topic[1]})
    if len(results) == 1:
        text, failed = results[0]
        stated = re.search(r"`(amount > \d+)`", text)
        guessed = WRONG if topic[1].startswith("helpful") else RIGHT
        rule = guessed if stated is None or failed else stated[1]
        return Call("sql_execution", {"sql": f"SELECT count(*) AS n FROM orders WHERE {rule}"})
    return Call("answer", {"result": "r1"}) if len(results) == 2 else None


@pytest.mark.parametrize(("planted", "sizes"), SIZES, indirect=["planted"])
def test_every_planted_page_that_harms_is_found(planted: Layout, sizes: tuple[int, int, int]) -> None:
    config = load_config(planted.config).config
    request = ProofRequest(
        planted, config, {"SCRIPTED_KEY": "made-up"}, ServerToolbox(), runs=4, ablate=["pages"], baseline=False
    )
    report, warnings = prove(request)
    assert (report.status, report.missing, warnings) == ("done", 0, [])
    verdicts = {each.artifact.name: each for each in report.ablations}
    assert set(verdicts) == set(topics(sizes))
    harmful = [name for name, each in verdicts.items() if each.verdict == "harms"]
    assert sorted(harmful) == sorted(name for name in verdicts if name.startswith("harmful")), "all, and no other"
    assert {each.verdict for name, each in verdicts.items() if name.startswith("helpful")} == {"earns"}
    assert {each.verdict for name, each in verdicts.items() if name.startswith("neutral")} == {"no difference shown"}
    assert all(each.questions == 2 for each in report.ablations), "only the questions that were shown the page"
    assert replay(planted, report.plan.run_id).to_json() == report.to_json()
