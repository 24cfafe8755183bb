"""Every place of the product that asks a model, found in its code; one ingest of the demo's company asks from each.

The slow case runs the same ingest on every backend, local sessions included: same bytes, same progress, and on
`claude-code` it is a server that starts it, and takes the text to remember, for an agent. In `make test` one call site
of each method asks there; an ingest on Claude Code is tests/cli/test_ingest_poison.py.
"""

from __future__ import annotations

import ast
import inspect
import json
import os
import shutil
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

import ktx_cli
from ktx_cli.llm.port import LlmRuntime
from ktx_cli.project.layout import Layout
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.runtime_subjects import FAMILIES, subject_model, subject_provider
from tests.cli.agents import LOCAL, entered, git
from tests.cli.company_agents import LIGHT, MARKS, NET_REVENUE, CompanyAgents, write_till
from tests.cli.mcp_agents import stdio

Run = Callable[..., Any]
PACKAGE = Path(ktx_cli.__file__).parent
ASKING = {
    name
    for name, member in vars(LlmRuntime).items()
    if inspect.iscoroutinefunction(member) and not name.startswith("_") and name != "aclose"
}
"""The methods of the port that ask a model."""

FULL = bool(os.environ.get("KTX_TEST_FULL"))
REMOTE = tuple(name for name, family in FAMILIES.items() if family in ("messages", "generate"))
"""The backends whose requests ktx sends itself."""

ASKED = (*REMOTE, *LOCAL)
SAMPLE = ("ktx eval", "probe", "ktx llm ask", "ktx llm ask --schema")
"""A call site of each method."""
PAGES = ("net-revenue.md", "stock.md", "onboarding.md")
"""The pages of the handbook that are there, where not all are."""


@dataclass(frozen=True)
class Site:
    """A call site: where it stands, what it calls, and the mark its requests carry in their system prompt."""

    place: str
    method: str
    mark: str


DOCUMENT = "engine/documents/triage.py QuestionRunner.ask"
TASK = "engine/task.py AgentRunner._loop"
BY_HAND = "jobs/llm.py ask_project.work"

SITES = {
    "page triage": Site(DOCUMENT, "generate_object", "page_triage"),
    "light extraction": Site(DOCUMENT, "generate_object", "light_extraction"),
    "questions of passages": Site(DOCUMENT, "generate_object", "passage_questions"),
    "questions of definitions": Site(DOCUMENT, "generate_object", "definition_questions"),
    "table digest": Site(DOCUMENT, "generate_object", "digest_tables"),
    "curation": Site(TASK, "run_agent_loop", "curate"),
    "work unit": Site(TASK, "run_agent_loop", "work_unit"),
    "memory": Site(TASK, "run_agent_loop", "memory"),
    "reconcile": Site(TASK, "run_agent_loop", "reconcile"),
    "conflict repair": Site(TASK, "run_agent_loop", "conflict_repair"),
    "gate repair": Site(TASK, "run_agent_loop", "gate_repair"),
    "table description": Site(
        "scan/descriptions/model.py _DescriptionRun._ask_once", "generate_object", "describe_tables"
    ),
    "relationship proposal": Site(
        "scan/relationships/proposals.py _ProposalRun._ask", "generate_object", "propose_joins"
    ),
    "ktx eval": Site(TASK, "run_agent_loop", "eval_question"),
    "ktx proof": Site(TASK, "run_agent_loop", "proof_question"),
    "ktx evolve": Site(TASK, "run_agent_loop", "evolve"),
    "probe": Site("llm/probe.py _probe", "probe", "probe"),
    "ktx llm ask": Site(BY_HAND, "generate_text", "ask for words"),
    "ktx llm ask --schema": Site(BY_HAND, "generate_object", "ask for an object"),
}


def calls_in(path: Path) -> Iterator[tuple[str, str]]:
    """Yield (place, method) of every mention of a method that asks, called or passed on."""

    def visit(node: ast.AST, names: tuple[str, ...]) -> Iterator[tuple[str, str]]:
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            names = (*names, node.name)
        if isinstance(node, ast.Attribute) and node.attr in ASKING:
            yield f"{path.relative_to(PACKAGE).as_posix()} {'.'.join(names)}", node.attr
        for child in ast.iter_child_nodes(node):
            yield from visit(child, names)

    yield from visit(ast.parse(path.read_text("utf-8")), ())


@pytest.mark.requirement("R1", "R11")
def test_the_call_sites_are_those_of_the_code() -> None:
    assert {"generate_text", "generate_object", "run_agent_loop", "probe"} == ASKING, "the port asks in another way"
    modules = [path for path in PACKAGE.rglob("*.py") if path.relative_to(PACKAGE).parts[0] not in ("llm", "testing")]
    modules.append(PACKAGE / "llm" / "probe.py")
    asking = (path for path in modules if any(name in path.read_text("utf-8") for name in ASKING))
    found = {call for path in asking for call in calls_in(path)}
    known = {(site.place, site.method) for site in SITES.values()}
    assert found - known == set(), "call sites nobody knows: give each a row, and a run that asks from it"
    assert known - found == set(), "call sites that are gone"
    prompts = {site.mark for site in SITES.values() if site.mark in MARKS}
    assert prompts == set(MARKS), "a packaged prompt is that of a call site"


class Counted(CompanyAgents):
    """The company's agents, who count the requests of other call sites too."""

    def other(self, system: str, said: str) -> str:
        """Return the mark of a request without a packaged prompt."""
        marks = (site.mark for site in SITES.values() if site.mark not in MARKS and site.mark != "probe")
        return next((mark for mark in marks if mark in system), "probe" if "Reply with" in said else "none")


CONFIG = """\
llm:
  provider: {provider}
  models: {{default: {model}}}
ingest:
  workUnits: {{maxConcurrency: 2}}
  rateLimit: {{retry: {{maxAttempts: 1}}}}
scan:
  enrichment: {{mode: llm}}
connections:
  warehouse: {{driver: duckdb, path: warehouse.duckdb}}
  dbt: {{driver: dbt, source_dir: dbt}}
  handbook: {{driver: documents, path: handbook}}
  till:
    driver: sqlite
    path: till.sqlite
    context: {{queryHistory: {{enabled: true, file: asked.sql, minExecutions: 1}}}}
"""

ASKED_TILL = "-- user: ann executions: 30\nSELECT badge, name FROM staff ORDER BY 2;\n"

RETURNS = "Customers may send things back for 30 days, and net revenue counts it then."

INGESTED = ("till", "dbt", "handbook")

PROGRESS = ("work_unit_started", "work_unit_step", "work_unit_finished", "reconcile_step")


@dataclass(frozen=True)
class Ran:
    """An ingest of the company on one backend: what is committed, what was told of each loop, who asked how often."""

    tree: str
    progress: dict[str, list[dict[str, Any]]]
    asked: Counter[str]
    data: Any


def told(lines: str) -> dict[str, list[dict[str, Any]]]:
    """Return what was told of each loop, in order: loops that run side by side are told of in turns."""
    found: dict[str, list[dict[str, Any]]] = {}
    for line in lines.splitlines():
        event = json.loads(line) if line.startswith("{") else {}
        if event.get("event") in PROGRESS:
            found.setdefault(event.get("unit", "reconcile"), []).append({**event, "at": None})
    return found


@pytest.fixture
def ingested(
    ktx: Run, work: Path, demo_project: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], Ran]:
    """Run the second half of the demo with agents, on a copy of what `ktx demo` built, on a backend."""

    def run(backend: str) -> Ran:
        folder = company(work / backend, demo_project, backend, model_server)
        agents = Counted()
        model_server.play(agents)
        with entered(backend, model_server, monkeypatch):
            place = ("--project-dir", str(folder))
            data, lines = over_mcp(folder) if backend == "claude-code" else by_commands(ktx, place)
            ask_by_hand(ktx, work, place)
            ask_golden_question(ktx, folder, place)
            prove(ktx, folder, place)
            evolve(ktx, folder, place)
        tree = git(folder, "ls-tree", "-r", "HEAD") + git(folder, "status", "--porcelain")
        return Ran(tree, told(lines), agents.asked, data)

    return run


def company(folder: Path, demo_project: Path, backend: str, server: ModelServer) -> Path:
    """Make the company in a folder: the demo with a till, and fewer pages."""
    shutil.copytree(demo_project, folder)
    for page in [] if FULL else (folder / "handbook").iterdir():
        if page.name not in PAGES:
            page.unlink()
    write_till(folder / "till.sqlite")
    (folder / "asked.sql").write_text(ASKED_TILL)
    provider = json.dumps(subject_provider(backend, server.url))
    (folder / "ktx.yaml").write_text(CONFIG.format(provider=provider, model=subject_model(backend)))
    return folder


def by_commands(ktx: Run, place: tuple[str, str]) -> tuple[Any, str]:
    """Ingest and capture; return what the ingest printed, and its events."""
    answer = ktx("ingest", *INGESTED, "--json", "--progress", "jsonl", *place)
    assert answer.code == 0, answer
    captured = ktx("memory", "capture", "--text", RETURNS, "--json", *place)
    assert captured.data["items"][0]["status"] == "done", captured
    return answer.data, answer.err


def over_mcp(folder: Path) -> tuple[Any, str]:
    """Do the same through a server, as an agent does."""
    with stdio(folder) as server:
        run_id = server.call("ingest_start", connections=list(INGESTED))["run_id"]
        assert server.over("ingest_status", run_id)["status"] == "done"
        captured = server.over("memory_ingest_status", server.call("memory_ingest", content=RETURNS)["run_id"])
        assert captured["status"] == "done", captured
    layout = Layout(folder)
    printed = json.loads((layout.launched(run_id) / "result.json").read_text("utf-8"))
    return printed["data"], layout.run_events(run_id).read_text("utf-8")


def ask_by_hand(ktx: Run, work: Path, place: tuple[str, str]) -> None:
    schema = work / "schema.json"
    schema.write_text('{"type": "object", "properties": {"sum": {"type": "integer"}}, "required": ["sum"]}')
    assert ktx("llm", "ask", "1 + 1?", "--system", "ask for words", *place).code == 0
    given = ktx("llm", "ask", "1 + 1?", "--system", "ask for an object", "--schema", str(schema), "--json", *place)
    assert given.data["answer"] == {"sum": 2}


def ask_golden_question(ktx: Run, folder: Path, place: tuple[str, str]) -> None:
    (folder / "evals").mkdir(exist_ok=True)
    case = "{id: channels, ask: true, question: How many orders came by each channel?}"
    (folder / "evals" / "in-words.yaml").write_text(f"connection: warehouse\ncases: [{case}]\n")
    (asked,) = ktx("eval", "in-words", "--json", *place).data["cases"]
    assert (asked["status"], asked["answer"]["columns"]) == ("new", ["channel", "order_count"]), asked


def prove(ktx: Run, folder: Path, place: tuple[str, str]) -> None:
    query = "{measures: [orders.order_count], dimensions: [orders.channel]}"
    case = f"{{id: channels, question: How many orders came by each channel?, query: {query}}}"
    (folder / "evals" / "known.yaml").write_text(f"connection: warehouse\ncases: [{case}]\n")
    proof = ktx("proof", "known", "--runs", "1", "--no-baseline", "--json", *place)
    assert proof.code == 0, proof
    (arm,) = proof.data["arms"]
    assert (arm["arm"], arm["outcomes"]["right"], arm["calls"]) == ("context", 1, 2)


def evolve(ktx: Run, folder: Path, place: tuple[str, str]) -> None:
    asked = "query: {measures: [orders.order_count]}, expect: {value: -1}"
    cases = ", ".join(f"{{id: {name}, {asked}}}" for name in ("orders", "sales"))
    (folder / "evals" / "known.yaml").write_text(f"connection: warehouse\ncases: [{cases}]\n")
    evolved = ktx("evolve", "known", "--json", *place)
    assert evolved.code == 0, evolved
    drafts = [each for group in evolved.data["groups"] for each in group["repairs"] if each["kind"] == "draft"]
    assert drafts and all(each["reason"] == "the model changed nothing" for each in drafts), evolved.data["groups"]


@pytest.mark.slow
@pytest.mark.timeout(900)
@pytest.mark.requirement("R1", "R56")
def test_agents_give_the_demo_the_same_second_half_on_every_backend_and_each_call_site_asks(
    ingested: Callable[[str], Ran], ktx: Run, work: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    ran = {backend: ingested(backend) for backend in ASKED}
    first = ran["anthropic"]
    listed = {line.partition("\t")[2] for line in first.tree.splitlines()}
    assert listed >= {"contradictions.yaml", NET_REVENUE, "semantic-layer/till/_schema/main.yaml"}
    assert listed >= {f"raw-sources/{each}/live-database/questions.yaml" for each in ("till", "warehouse")}
    assert [each.tree for each in ran.values()] == [first.tree] * len(ASKED)
    assert [each.progress for each in ran.values()] == [first.progress] * len(ASKED)
    progress_is_told_once_a_step(first)
    made_work(ktx, work / ASKED[-1])
    rows = {name: [ran[backend].asked[site.mark] for backend in ASKED] for name, site in SITES.items()}
    heads = [f"{backend}{' over MCP' if backend == 'claude-code' else ''}" for backend in ASKED]
    with capsys.disabled():
        print(f"\n\n{'requests at a call site':<25}", *(f"{head:>20}" for head in heads))
        print("\n".join(f"{name:<25} {' '.join(f'{each:>20}' for each in counts)}" for name, counts in rows.items()))
    assert all(all(counts) for counts in rows.values()), rows


@pytest.mark.requirement("R1")
@pytest.mark.skipif(FULL, reason="then each call site asks there")
def test_a_call_site_of_each_method_asks_on_claude_code(
    ktx: Run, work: Path, demo_project: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert {SITES[name].method for name in SAMPLE} == ASKING
    folder = company(work / "company", demo_project, "claude-code", model_server)
    agents = Counted()
    model_server.play(agents)
    with entered("claude-code", model_server, monkeypatch):
        place = ("--project-dir", str(folder))
        assert ktx("llm", "probe", *place).code == 0
        ask_by_hand(ktx, work, place)
        ask_golden_question(ktx, folder, place)
    assert {SITES[name].mark for name in SAMPLE} <= agents.asked.keys()


def progress_is_told_once_a_step(ran: Ran) -> None:
    """Each loop tells its steps one by one with the tool calls so far, as many as the report has."""
    units = {each["unit"]: each for source in ran.data["sources"] for each in source["units"]}
    assert {name for name, unit in units.items() if not unit["steps"]} == {"table-staff"}, "it needs no loop"
    assert set(ran.progress) == {*units, "reconcile"} - {"table-staff"}
    for name, events in ran.progress.items():
        steps = [each for each in events if each["event"] in ("work_unit_step", "reconcile_step")]
        counts = [each["tool_calls"] for each in steps]
        assert [each["step"] for each in steps] == list(range(1, len(steps) + 1))
        assert counts == sorted(counts)
        assert len({each["budget"] for each in steps}) == 1 and steps[0]["budget"] >= len(steps)
        if name in units:
            assert (len(steps), counts[-1]) == (units[name]["steps"], units[name]["tool_calls"])
            assert [events[0]["event"], events[-1]["event"]] == ["work_unit_started", "work_unit_finished"]
        else:
            assert len(steps) == ran.data["reconciled"]["steps"]
    assert [each["tool_calls"] for each in ran.progress["dbt-all"][1:-1]] == [2, 4, 4]


def made_work(ktx: Run, folder: Path) -> None:
    """What agents wrote passes every gate, answers a question and is found."""
    place = ("--project-dir", str(folder))
    assert ktx("wiki", "lint", *place).code == 0
    assert ktx("sl", "validate", "-c", "warehouse", *place).code == 0
    tests = ktx("sl", "test", "-c", "warehouse", "--json", *place)
    assert tests.code == 0
    assert [each["passed"] for each in tests.data["tests"]] == [True, True]
    measures = ("-m", "inventory_snapshots.pieces_to_sell", "-m", "inventory_snapshots.pieces_on_hand")
    stock = ktx("sl", "query", "-c", "warehouse", *measures, "-d", "categories.category_name", "--json", *place)
    assert stock.code == 0 and len(stock.data["rows"]) > 1
    assert all(0 < free <= there for _, free, there in stock.data["rows"])
    found = ktx("search", "how many pieces can be sold", "--kind", "page", "--json", *place)
    assert found.data["hits"][0]["id"] == "stock"
    found = ktx("search", "reimbursements", "--kind", "measure", "--json", *place)
    assert "refunds.refunded" in [hit["id"] for hit in found.data["hits"][:3]], "a name that only the model wrote"
    net_revenue = (folder / "wiki/global/net-revenue.md").read_text()
    assert "dbt: " in net_revenue and "The handbook: " in net_revenue, "the conflict was repaired"
    assert "sunday-counts" not in (folder / "wiki/global/stock.md").read_text(), "the dangling reference is gone"
    assert (folder / "wiki/global/where-to-start.md").exists(), "the candidate was curated"
    till = (folder / "semantic-layer/till/_schema/main.yaml").read_text()
    assert "Most queries list who works there." in till
    assert "What the till knows of sales." in till and "hand = staff.badge" in till
    assert set(LIGHT) & set(PAGES)
