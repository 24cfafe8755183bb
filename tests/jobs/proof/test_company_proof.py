"""The bundled company as the subject of a proof: its truth is right, and its wrong readings are called by name."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import pytest

from ktx_cli.core.errors import UsageError
from ktx_cli.jobs.proof.company.company import write_company
from ktx_cli.jobs.proof.run import ProofRequest, estimate, prove, replay
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.mcp.loop import ServerToolbox
from ktx_cli.project.config.file import load_config
from ktx_cli.project.layout import Layout
from ktx_cli.testing.model_script import Call
from tests.jobs.proof.scripted import LLM, Results, play
from tests.small_project import make_shop_project

SEED = 3


@pytest.mark.slow
def test_truth_is_right_and_wrong_readings_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    company = write_company(tmp_path / "company", SEED)
    asked = {each.text: each for each in company.questions}

    def knower(prompt: str, tools: Mapping[str, RuntimeTool], results: Results) -> Call | None:
        """Answer with the truth where there is context, and else with the first wrong reading, and say so."""
        question = asked[prompt.splitlines()[0].removeprefix("The question: ")]
        has_context = "sl_query" in tools
        if not results:
            return Call("sql_execution", {"sql": question.truth if has_context else question.wrong[0].sql})
        assumptions = [] if has_context else ["I read it in one way."]
        return Call("answer", {"result": "r1", "assumptions": assumptions}) if len(results) == 1 else None

    folder = make_shop_project(tmp_path, monkeypatch)
    (folder / "ktx.yaml").write_text((folder / "ktx.yaml").read_text() + LLM)
    layout = Layout(folder)
    play(monkeypatch, knower)
    environ = {"SCRIPTED_KEY": "made-up", "PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    request = ProofRequest(layout, load_config(layout.config).config, environ, ServerToolbox(), runs=1, company=SEED)
    report, _ = prove(request)
    schema, context = report.arms
    assert context.outcomes == {"right": 60, "wrong": 0, "no_answer": 0, "error": 0}
    assert schema.outcomes["right"] == 0 and sum(schema.readings.values()) == 60, "every wrong reading has its name"
    assert schema.silently_wrong.estimate == 0, "what states an assumption is not silent"
    assert set(context.groups) == {"document", "sql", "data", "nothing"}
    assert report.comparison is not None and report.comparison.lift.estimate == 1
    assert replay(layout, "latest").to_json() == report.to_json()
    with pytest.raises(UsageError, match="has no question"):
        estimate(ProofRequest(layout, request.config, environ, ServerToolbox(), names=["nothing"], company=SEED))
