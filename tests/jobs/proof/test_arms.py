"""What an arm can reach: nothing of what it does without, by whichever tool; and the project stays as it is."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import KtxError, UsageError
from ktx_cli.jobs.check.eval.cases import Expectation
from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.jobs.decide.decide import layers_of
from ktx_cli.jobs.decide.draft import DecisionDraft, GivenAnswer, page_key
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.jobs.proof.agent import AnswerState, tools_of
from ktx_cli.jobs.proof.arms import CONTEXT, SCHEMA, Arm, Arms, usable
from ktx_cli.jobs.proof.artifacts import Artifact, ArtifactKind, LayerFiles, choose_artifacts
from ktx_cli.jobs.proof.company.company import write_company
from ktx_cli.jobs.proof.questions import Question
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.mcp.loop import ServerToolbox
from ktx_cli.project.config.file import load_config
from ktx_cli.project.layout import Layout, WorkingTree
from ktx_cli.project.workspace import Workspace
from tests.subscription_project import POINT, make

QUESTION = Question("q", "What is the zebra revenue?", Expectation(value=15))
WORDS = ("zebra", "zebra rule", "revenue", "orders.revenue", "zebra-rule", "refunds", "what counts twice")

ATTACKS: dict[str, list[dict[str, Any]]] = {
    "discover_data": [{"query": each, "limit": 50} for each in WORDS],
    "wiki_search": [{"query": each} for each in WORDS],
    "wiki_read": [{"key": "zebra-rule"}, {"key": "refunds"}],
    "context_read": [{"id": each} for each in ("zebra-rule", "refunds", "orders", "orders.revenue", "orders.status")],
    "sl_list": [{}],
    "sl_read_source": [{"source": "orders"}, {"source": "orders", "form": "files"}],
    "entity_details": [{"targets": ["orders", "orders.revenue", "orders.order_count", "orders.status"]}],
    "sl_query": [
        {"measures": ["orders.revenue"]},
        {"measures": ["orders.order_count"]},
        {"measures": ["orders.average"]},
    ],
    "sl_explain": [{"measures": ["orders.revenue"]}, {"measures": ["orders.order_count"]}],
    "sl_validate": [{}],
    "dictionary_search": [{"values": ["paid", "zebra"]}],
    "sql_execution": [{"sql": "SELECT zebra FROM orders"}, {"sql": "SELECT count(*) FROM orders"}],
    "context_status": [{}],
    "connection_list": [{}],
    "database_schema": [{}, {"tables": ["orders", "zebra", "customers"]}],
}
"""The calls of an agent that looks for everything it could be shown."""


@pytest.fixture
def arms(project: Layout) -> Iterator[Arms]:
    with Arms(project, load_config(project.config).config, dict(os.environ)) as opened:
        yield opened


def heard(arms: Arms, arm: Arm, *, privacy: bool = False) -> str:
    """Return everything that the tools of an arm say when they are attacked, errors too."""
    state, said = AnswerState(QUESTION, arms.artifacts), []
    with arms.project_of(arm) as project:
        tools = tools_of(arms, arm, project, state, ServerToolbox(Profile.ADMIN), privacy=privacy)
        for tool in tools:
            said += [_call(tool, arguments) for arguments in ATTACKS.get(tool.name, ())]
    return "\n".join(said)


def _call(tool: RuntimeTool, arguments: dict[str, Any]) -> str:
    try:
        output = tool.handler(tool.input_model.model_validate(arguments))
    except KtxError as error:
        return f"{tool.name}: {error.message} {error.hint}"
    return f"{tool.name}: {output if isinstance(output, str) else output.markdown}"


def artifact(arms: Arms, name: str) -> Artifact:
    (found,) = choose_artifacts(arms.artifacts, [name])
    return found


def test_the_arm_with_all_context_is_shown_all_of_it(arms: Arms) -> None:
    said = heard(arms, Arm(CONTEXT))
    for expected in ("Zebra orders count twice", "Zebra revenue counts paid orders", "Zebra statuses", "zebra-rule"):
        assert expected in said
    assert '"pages":["zebra-rule"]' in said, "a measure names the page that explains it"
    assert "4111" not in said and "failed unexpectedly" not in said


def test_a_page_that_is_left_out_cannot_be_found_read_or_named(arms: Arms) -> None:
    arm = Arm.without(artifact(arms, "zebra-rule"))
    said = heard(arms, arm).replace('"refs":["zebra-rule"]', "")  # the link of another page
    assert "count twice" not in said
    assert "What the zebra rule says" not in said
    assert '"zebra-rule"' not in said, "neither a hit, nor a page that explains a measure or a receipt"
    assert "search index is behind" not in said
    assert "Zebra revenue counts paid orders" in said, "the rest is there"


def test_a_measure_that_is_left_out_cannot_be_asked_found_or_described(arms: Arms) -> None:
    free = artifact(arms, "orders.average_order")
    said = heard(arms, Arm.without(free))
    assert "average_order" not in said and "Zebra revenue counts paid orders" in said


def test_a_measure_that_another_one_uses_stays(arms: Arms) -> None:
    used = artifact(arms, "orders.revenue")
    with pytest.raises(UsageError, match="cannot be left out on its own"):
        arms.overlay(used)
    warnings: list[Any] = []
    able = usable(arms, choose_artifacts(arms.artifacts, ["measures"]), ["measures"], warnings.append)
    assert [each.id for each in able] == ["measure:orders.average_order"]
    assert [each.code for each in warnings] == ["not_ablated"]
    assert "2 artifacts cannot be left out on their own: measure:orders.order_count" in warnings[0].message
    assert warnings[0].hint.endswith("ktx proof --dry-run --ablate measure:orders.order_count")
    with pytest.raises(UsageError):
        usable(arms, [used], ["orders.revenue"], warnings.append)


def test_a_source_that_hides_something_stays(arms: Arms) -> None:
    with pytest.raises(UsageError, match="hides rows or columns"):
        arms.overlay(artifact(arms, "source:orders"))


def test_the_schema_alone_shows_no_context_and_nothing_hidden(arms: Arms) -> None:
    said = heard(arms, Arm(SCHEMA))
    assert "- amount REAL" in said and "[3]" in said, "it is there to be asked"
    assert "card_number" not in said
    for context in ("Zebra", "zebra-rule", "revenue", "order_count", "sl_query", "wiki"):
        assert context not in said.replace("no table `zebra`", "")
    state = AnswerState(QUESTION)
    tools = {
        each.name: each for each in tools_of(arms, Arm(SCHEMA), arms.protection, state, ServerToolbox(), privacy=False)
    }
    refused = _call(tools["sql_execution"], {"sql": "SELECT card_number FROM orders"})
    assert refused.startswith("sql_execution: the statement reads hidden rows or columns")


@pytest.mark.parametrize("name", [SCHEMA, CONTEXT])
def test_with_privacy_no_value_is_shown_and_results_keep_them(arms: Arms, name: str) -> None:
    state = AnswerState(QUESTION, arms.artifacts)
    with arms.project_of(Arm(name)) as project:
        tools = {each.name: each for each in tools_of(arms, Arm(name), project, state, ServerToolbox(), privacy=True)}
        said = _call(tools["sql_execution"], {"sql": "SELECT status, amount FROM orders WHERE status = 'open'"})
    assert "open" not in said.replace("status = 'open'", "") and "20.0" not in said
    assert state.results["r1"].rows == (("open", 20.0),)


def test_nothing_of_the_project_changes(project: Layout) -> None:
    before = {path: path.read_bytes() for path in sorted(project.root.rglob("*")) if path.is_file()}
    with Arms(project, load_config(project.config).config, dict(os.environ)) as arms:
        for arm in (Arm(SCHEMA), Arm(CONTEXT), Arm.without(artifact(arms, "zebra-rule"))):
            heard(arms, arm)
        scratch = arms._scratch
    assert {path: path.read_bytes() for path in sorted(project.root.rglob("*")) if path.is_file()} == before
    assert not scratch.exists()


def test_a_caller_has_the_attributes_of_the_question(project: Layout) -> None:
    overlay = project.root / "semantic-layer" / "shop" / "orders.yaml"
    policy = 'policies:\n  - {name: own, filter: "status = {{ user.status }}"}\n'
    overlay.write_text(overlay.read_text() + policy)
    with Arms(project, load_config(project.config).config, dict(os.environ)) as arms:
        state = AnswerState(Question("q", "Orders?", Expectation(value=1), attributes={"status": "open"}))
        tools = tools_of(arms, Arm(CONTEXT), arms.context, state, ServerToolbox(), privacy=False)
        said = _call(next(each for each in tools if each.name == "sl_query"), {"measures": ["orders.order_count"]})
        assert state.results["r1"].rows == ((1,),), said
        assert not (arms.context.layout.root / "evals").exists()


def test_folders_outside_of_the_project_are_read_where_they_are(project: Layout, tmp_path: Path) -> None:
    (tmp_path / "handbook").mkdir()
    (tmp_path / "handbook" / "zebra.md").write_text("# Zebra\n\nText.\n")
    with project.config.open("a") as stream:
        stream.write("  handbook: {driver: documents, path: ../handbook}\n")
    with Arms(project, load_config(project.config).config, dict(os.environ)) as arms:
        folder = arms.context.layout.root / "../handbook/zebra.md"
        assert folder.read_text() == "# Zebra\n\nText.\n"


def test_without_a_decision_definitions_and_page_are_as_they_were(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "decided").mkdir()
    layout = Layout(make(tmp_path / "decided"))
    config = load_config(layout.config).config
    tree = Workspace(WorkingTree(layout.root))
    answer = GivenAnswer("wh", POINT, "exclude", "ada@example.com", "2026-01-15", "They are not customers.")
    DecisionDraft(tree, layers_of(config)).decide(answer)
    for path, content in tree.changes().items():
        assert content is not None
        (layout.root / path).parent.mkdir(parents=True, exist_ok=True)
        (layout.root / path).write_bytes(content)
    state = AnswerState(QUESTION)
    with Arms(layout, config, dict(os.environ)) as arms:
        decision = artifact(arms, POINT)
        assert (decision.id, set(decision.touches) >= {"revenue", page_key(POINT)}) == (f"decision:{POINT}", True)
        for arm in (Arm(CONTEXT), Arm.without(decision)):
            with arms.project_of(arm) as project:
                tools = {
                    each.name: each for each in tools_of(arms, arm, project, state, ServerToolbox(), privacy=False)
                }
                _call(tools["sl_query"], {"measures": ["subscriptions.revenue"]})
                page = _call(tools["context_read"], {"id": page_key(POINT)})
                assert ("They are not customers" in page) == (arm.artifact is None)
    assert [float(each.rows[0][0]) for each in state.results.values()] == [400, 500]


def test_open_decisions_are_context(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    (tmp_path / "open").mkdir()
    layout = Layout(make(tmp_path / "open"))
    with layout.config.open("a") as stream:
        stream.write("semantic: {open_decisions: refuse}\n")
    sql = {"sql": "SELECT count(*) FROM accounts"}
    said = {}
    with Arms(layout, load_config(layout.config).config, dict(os.environ)) as arms:
        for name in (SCHEMA, CONTEXT):
            with arms.project_of(Arm(name)) as project:
                tools = tools_of(arms, Arm(name), project, AnswerState(QUESTION), ServerToolbox(), privacy=False)
                said[name] = _call(next(each for each in tools if each.name == "sql_execution"), sql)
    assert "internal accounts" in said[CONTEXT]
    assert "internal accounts" not in said[SCHEMA] and "[4]" in said[SCHEMA]


def test_a_measure_whose_name_stands_elsewhere_may_be_used(project: Layout) -> None:
    overlay = project.root / "semantic-layer" / "shop" / "orders.yaml"
    overlay.write_text(overlay.read_text().replace("revenue / order_count", "Revenue / ORDER_COUNT"))
    (overlay.parent / "broken.yaml.txt").write_text("average_order")
    files = LayerFiles(WorkingTree(project.root), "shop")
    names = ("orders.revenue", "orders.order_count", "orders.average_order")
    found = [files.names_elsewhere(Artifact(ArtifactKind.MEASURE, each, "shop")) for each in names]
    assert found == [True, True, False]


@pytest.mark.slow
def test_measures_that_nothing_names_can_be_left_out_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write_company(tmp_path / "company", 3)
    environ = {"PATH": os.environ["PATH"], "HOME": str(tmp_path)}
    ingest(IngestRequest(tmp_path / "company", environ, no_llm=True))
    layout = Layout(tmp_path / "company")
    with Arms(layout, load_config(layout.config).config, environ) as arms:
        measures = choose_artifacts(arms.artifacts, ["measures"])
        quick = usable(arms, measures, ["measures"], lambda warning: None)
        monkeypatch.setattr(LayerFiles, "names_elsewhere", lambda self, measure: True)
        assert usable(arms, measures, ["measures"], lambda warning: None) == quick
        assert len(quick) > 50
