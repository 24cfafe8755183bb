"""What a model that is asked a golden question may use."""

from __future__ import annotations

import re
from pathlib import Path

from ktx_cli.jobs.check.eval.cases import load_evals
from ktx_cli.jobs.check.eval.results import CaseAnswer
from ktx_cli.jobs.check.eval.run import EvalRequest, Interview
from ktx_cli.project.config.file import load_config
from ktx_cli.project.layout import Layout
from ktx_cli.prompts.prompts import text_of


def test_its_tools_only_read_and_are_those_its_prompt_names(shop_project: Path) -> None:
    layout = Layout(shop_project)
    layout.evals.mkdir()
    (layout.evals / "a.yaml").write_text("cases: [{id: a, ask: true, question: How many?}]")
    (case,) = load_evals(layout).cases
    request = EvalRequest(layout, load_config(layout.config).config, {})
    interview = Interview(request, case, lambda query, connection: CaseAnswer((), ()))
    tools = interview._tools()
    assert all(tool.read_only for tool in tools)
    names = {tool.name for tool in tools}
    text, _ = text_of("prompts", "eval_question")
    named = set(re.findall(r"`(\w+)`", text))
    assert named <= names, "a prompt names no tool that is not there"
    assert names - named == {"sl_read_source", "wiki_search"}
