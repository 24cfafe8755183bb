"""What the requests of an ingest hold that agents need to write well, and what becomes of a mistake in one.

One company: a DuckDB warehouse, a dbt project with SQL and a semantic model, a handbook, a query history. Its agents
look up, write and correct in two runs; every request is kept. Each row of the table is one thing that a request holds,
or one answer to a call, in the kind of request that needs it.

Elsewhere: mistakes that must not land (test_mistakes.py), merged pages and deleted documents (test_provenance.py),
contradictions (test_contradictions.py), broken arguments of parallel calls (the contract of backends), a signal to the
whole group (test_signals.py), ranking (tests/search/test_demo_questions.py).
"""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest

from ktx_cli.testing.model_script import Call, ModelRequest, Reply, calls, gives, says
from ktx_cli.testing.model_server import ModelServer

Run = Callable[..., Any]

TABLES: Final = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, segment VARCHAR, country VARCHAR);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, status VARCHAR, late BOOLEAN, amount DOUBLE,
                     ordered_at DATE);
INSERT INTO customers SELECT i, ['retail', 'trade'][1 + i % 2], ['DE', 'AT', 'CH'][1 + i % 3] FROM range(1, 41) t(i);
INSERT INTO orders SELECT 9000 + i, 1 + i % 40, ['paid', 'cancelled', 'paid', 'open'][1 + i % 4], i % 7 = 0, i / 2,
                          DATE '2026-01-01' + CAST(i AS INTEGER) FROM range(120) t(i);
"""
HISTORY: Final = """\
-- user: ann executions: 40
SELECT strftime(ordered_at, '%Y-%m') AS month, sum(amount) FROM orders WHERE status <> 'cancelled' GROUP BY 1;
-- user: bob executions: 30
SELECT c.segment, count(*) FROM orders o JOIN customers c ON c.id = o.customer_id GROUP BY c.segment;
"""
SCHEMA: Final = """\
version: 2
models:
  - name: orders
    description: One row per order; a refund counts on the day of the order.
    columns:
      - name: status
        data_tests: [{accepted_values: {values: [paid, cancelled, open]}}]
semantic_models:
  - name: orders
    model: ref('orders')
    description: Revenue by order.
    defaults: {agg_time_dimension: ordered_at}
    entities: [{name: order, type: primary, expr: id}]
    dimensions: [{name: ordered_at, type: time, type_params: {time_granularity: day}}]
    measures: [{name: gross_revenue, agg: sum, expr: amount}]
"""
SQL: Final = """\
-- margin leaves out what was cancelled, and counts a delivery as late after 48 hours since spring 2025
SELECT id, NULLIF(customer_id, 900001) AS customer_id, status, late, amount, ordered_at
FROM {{ ref('raw_orders') }}
WHERE status <> 'cancelled'
"""
HANDBOOK: Final = {
    "returns.md": "# Returns\n\n<!-- hidden-order-to-agents -->\n\nCustomers may return goods for 30 days.\n",
    "active.md": "# Active customers\n\nA customer is active for 90 days. WELCOME10 is not counted.\n",
    "old.md": "# Old rules\n\nBefore 2024 a customer was active for 60 days.\n",
}
CONFIG: Final = """\
llm:
  provider:
    backend: anthropic
    anthropic: {base_url: 'env:MODEL_URL', api_key: 'env:SCRIPTED_KEY'}
  models: {default: claude-opus-5, triage: claude-haiku-5, candidateExtraction: claude-haiku-5}
ingest:
  workUnits: {maxConcurrency: 1}
  rateLimit: {retry: {maxAttempts: 1}}
scan: {enrichment: {mode: none}}
connections:
  warehouse:
    driver: duckdb
    path: warehouse.duckdb
    context: {queryHistory: {enabled: true, file: history.sql, minExecutions: 1}}
  dbt: {driver: dbt, source_dir: dbt}
  handbook: {driver: documents, path: handbook}
"""


@dataclass
class Careful:
    """Plays a careful model that makes a few mistakes, and keeps what it was asked: kind of work -> its requests."""

    asked: dict[str, list[ModelRequest]] = field(default_factory=dict)
    _lock: Any = field(default_factory=threading.Lock)

    def __call__(self, request: ModelRequest) -> Reply:
        kind = kind_of(request)
        with self._lock:
            self.asked.setdefault(kind, []).append(request)
        if kind == "triage":
            return gives({"lane": "full", "reason": "It says what counts."})
        if kind == "digests":
            names = re.findall(r'"table": ?"([^"]+)"', _text(request.body["messages"][0]))
            return gives(
                {"tables": [{"table": each, "narrative": "People count it."} for each in dict.fromkeys(names)]}
            )
        turns = TURNS.get(kind, lambda request: [says("ok")])(request)
        step = sum(message["role"] == "assistant" for message in request.body["messages"])
        return turns[min(step, len(turns) - 1)]


def kind_of(request: ModelRequest) -> str:
    """Return the kind of work that a request is of."""
    task = _text(request.body["messages"][0])
    if "You sort documents" in request.system:
        return "triage"
    if request.body.get("output_config", {}).get("format") and '"narrative"' in request.words:
        return "digests"
    if "emit_historic_sql_evidence" in request.tool_names:
        return "history"
    if "This run has " in task:
        return "reconcile"
    return "dbt" if "Task: dbt project" in task else "documents" if "Task: " in task else "other"


def _text(message: Mapping[str, Any]) -> str:
    content = message["content"]
    return content if isinstance(content, str) else "\n".join(block.get("text", "") for block in content)


def _files_of(request: ModelRequest) -> list[str]:
    listed = _text(request.body["messages"][0]).partition("Files of this task")[2].partition("</data")[0]
    return re.findall(r"^- ([\w./-]+\.\w+)(?: \(|$)", listed, re.MULTILINE)


def _read(files: Sequence[str]) -> list[Call]:
    return [Call("read_raw_file", {"path": path}) for path in files]


def _layer(source: str, text: str, *paths: str) -> Call:
    text = f"name: {source}\n{text}"
    return Call(
        "sl_write_source", {"connection": "warehouse", "source": source, "yaml": text, "raw_paths": list(paths)}
    )


LOOK: Final = Call("entity_details", {"connection": "warehouse", "targets": ["orders", "customers"]})
COUNTED: Final = "SELECT sum(CASE WHEN late THEN 1 ELSE 0 END) AS n FROM orders"
DBT_MEASURES: Final = "measures:\n  - {name: gross_revenue, expr: sum(amount)}\n"
RATES: Final = """\
measures:
  - {name: open_orders, expr: count(*), filter: "status = 'open'", descriptions: {user: Orders not settled, yet.}}
  - {name: late_orders, expr: count(*), filter: late}
"""


def _dbt(request: ModelRequest) -> list[Reply]:
    files = _files_of(request)
    right = RATES.replace("Orders not settled, yet.", '"Orders not settled, yet."')
    return [
        calls(*_read(files), LOOK),
        calls(_layer("orders", RATES, *files)),
        calls(Call("sl_read_source", {"connection": "warehouse", "source": "orders"})),
        calls(_layer("orders", DBT_MEASURES + right.removeprefix("measures:\n"), *files)),
        says("Written."),
    ]


def _documents(request: ModelRequest) -> list[Reply]:
    files = _files_of(request)
    page = {
        "key": "active-customers",
        "summary": "How long a customer is active.",
        "content": f"# Active customers\n\nA customer is active for {90 if 'old.md' in files else 120} days.",
        "questions": ["Who is a regular?"],
        "sl_refs": ["warehouse/customers"],
    }
    sources = [each for each in ("active.md", "old.md") if each in files]
    named = Call("wiki_write", {**page, "raw_paths": sources})
    look = calls(*_read(files), LOOK, Call("sql_execution", {"connection": "warehouse", "sql": COUNTED}))
    if len(sources) == 1:
        return [look, calls(named), says("Written.")]
    texts = ("A customer is active for 90 days.", "Before 2024 a customer was active for 60 days.")
    statements = [
        {"source": source, "text": text, "effect": "Other customers are active."}
        for source, text in zip(sources, texts, strict=True)
    ]
    recorded = Call("record_contradiction", {"topic": "active customers", "statements": statements})
    return [look, calls(Call("wiki_write", page)), calls(named, recorded), says("Written.")]


def _history(request: ModelRequest) -> list[Reply]:
    return [calls(*_read(_files_of(request))), says("Nothing more.")]


def _reconcile(request: ModelRequest) -> list[Reply]:
    listed = calls(Call("stage_list"), Call("eviction_list"))
    if "deleted raw file" not in _text(request.body["messages"][0]):
        return [listed, says("Nothing is twice.")]
    decision = {"raw_path": "handbook/old.md", "artifact": "wiki:active-customers", "action": "kept"}
    decided = Call("emit_eviction_decision", {**decision, "reason": "What it said is gone from the page."})
    return [listed, calls(decided), says("Nothing is twice.")]


TURNS: Final[Mapping[str, Callable[[ModelRequest], list[Reply]]]] = {
    "dbt": _dbt,
    "documents": _documents,
    "history": _history,
    "reconcile": _reconcile,
}


@pytest.fixture
def project(work: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SCRIPTED_KEY", "made-up")
    monkeypatch.setenv("MODEL_URL", model_server.url)
    with duckdb.connect(str(work / "warehouse.duckdb")) as database:
        database.execute(TABLES)
    files = {"history.sql": HISTORY, "ktx.yaml": CONFIG, "dbt/dbt_project.yml": "name: acme\n"}
    files |= {"dbt/models/schema.yml": SCHEMA, "dbt/models/orders.sql": SQL}
    for name, text in (*files.items(), *((f"handbook/{name}", text) for name, text in HANDBOOK.items())):
        (work / name).parent.mkdir(parents=True, exist_ok=True)
        (work / name).write_text(text)
    return work


@dataclass(frozen=True)
class Shown:
    """What some request of a kind of work holds, in which run; and what no request of the kind holds."""

    kind: str
    present: tuple[str, ...]
    absent: tuple[str, ...] = ()
    run: int = 1


SHOWN: Final = {
    "examples of YAML put texts with commas into quotes": Shown(
        "dbt", ('descriptions: {user: "', "Put each description into double quotes"), ("{user: One row an order",)
    ),
    "a text that an unquoted comma ends is refused, with what was lost": Shown(
        "dbt", ("Nothing was saved, because these descriptions do not parse as intended", "`yet.` has no text")
    ),
    "the SQL of a model is a file of the task": Shown("dbt", ("- models/orders.sql (", "FROM {{ ref('raw_orders') }}")),
    "what the SQL says is listed with its lines": Shown(
        "dbt",
        (
            "line 1: comment: margin leaves out what was cancelled",
            "`NULLIF(customer_id, 900001)`",
            "line 4: keeps rows where `status <> 'cancelled'`",
        ),
    ),
    "the rules of the SQL are on the table, for every task": Shown(
        "documents", ("dbt: keeps rows where `status <> 'cancelled'`", "48 hours since spring 2025")
    ),
    "a semantic model does not hide the description of its model": Shown(
        "dbt", ("a refund counts on the day of the order. Revenue by order.",)
    ),
    "measures with another filter are no duplicates": Shown(
        "dbt",
        ("updated: semantic-layer/warehouse/orders.yaml",),
        ("differ in their filter", "has the same name as a column"),
    ),
    "a definition is shown as it was understood": Shown("dbt", ("Parsed definition:",)),
    "thresholds and codes are facts, figures of a day are not": Shown(
        "documents",
        ("Thresholds, periods, rates, codes and limits", "figures that change", "WELCOME10"),
        ("Numbers, names of persons",),
    ),
    "values that dbt declares are shown although values are private": Shown(
        "documents", ("- status: string; values: paid, cancelled, open",), ("retail",)
    ),
    "a sum of CASE with the results 0 and 1 is shown": Shown("documents", ("| 18 |",)),
    "a task of several files must say which a page comes from": Shown("documents", ("raw_paths", "active.md, old.md")),
    "a task of documents may record contradictions, and the prompt says when": Shown(
        "documents",
        (
            "prefer none of them, even if one is newer:\n   call `record_contradiction`",
            "Recorded: sources disagree about",
        ),
    ),
    "reconciliation is shown what was recorded": Shown(
        "reconcile", ("A customer is active for 90 days.", "Before 2024 a customer was active for 60 days.")
    ),
    "reconciliation has one form of path": Shown("reconcile", ("[from handbook/active.md, handbook/old.md]",)),
    "HTML comments of documents are left out": Shown("documents", ("# Returns",), ("hidden-order-to-agents",)),
    "agents write the questions that a page answers, and synonyms": Shown(
        "documents", ("three to five `questions`", "`synonyms` (other names)")
    ),
    "statements of the history keep declared values, positions and formats": Shown(
        "digests", ("STRFTIME(ordered_at, '%Y-%m') AS month", "WHERE status <> 'cancelled' GROUP BY 1"), ("<> ?",)
    ),
    "one call writes about all tables of the history": Shown("digests", ("main.customers", "main.orders")),
    "a task of the history says in plain words that it writes evidence": Shown(
        "history",
        ("This task writes neither pages nor definitions. Record what you find as evidence; ktx writes the pages.",),
    ),
    "the next run shows what changed in a file": Shown(
        "documents", ("-A customer is active for 90 days.", "+A customer is active for 120 days."), run=2
    ),
    "the next run names the pages that came of a file": Shown(
        "documents", ("an earlier run made these from it: wiki:active-customers; edit them",), run=2
    ),
    "the next run shows contradictions that wait": Shown(
        "documents", ("Contradictions that wait for a decision",), run=2
    ),
    "evictions name the other files of an artifact": Shown(
        "reconcile", ("handbook/old.md: wiki:active-customers (also from handbook/active.md)",), run=2
    ),
}
"""What requests hold, in words -> where."""


def words_of(request: ModelRequest) -> str:
    """Return the system prompt and the messages of a request as the model reads them."""
    text = json.dumps([request.body.get("system"), request.body["messages"]], ensure_ascii=False)
    return text.replace('\\"', '"').replace("\\n", "\n")


def lacking(shown: Shown, requests: Sequence[ModelRequest]) -> list[str]:
    """Return what no request holds that one should, and what one holds that none should."""
    texts = [words_of(each) for each in requests]
    best = max(texts, key=lambda text: sum(part in text for part in shown.present), default="")
    missing = [part for part in shown.present if part not in best]
    return missing + [f"not: {part}" for part in shown.absent if any(part in text for text in texts)]


def test_requests_hold_what_agents_need_and_mistakes_are_answered(
    ktx: Run, project: Path, model_server: ModelServer
) -> None:
    """An environment reference is resolved in `base_url`, or no request would arrive at all."""
    runs = [Careful(), Careful()]
    model_server.play(runs[0])
    answer = ktx("ingest", "--json")
    assert answer.code == 0, answer
    (project / "handbook/active.md").write_text(HANDBOOK["active.md"].replace("90 days", "120 days"))
    (project / "handbook/old.md").unlink()
    model_server.play(runs[1])
    again = ktx("ingest", "--json")
    assert again.code == 0, again

    wrong = {what: lacking(each, runs[each.run - 1].asked.get(each.kind, [])) for what, each in SHOWN.items()}
    assert {what: each for what, each in wrong.items() if each} == {}
    assert "dbt" not in runs[1].asked and "history" not in runs[1].asked, "what did not change asks nothing"
    loops_share_a_cache(runs[0])
    strong, cheap = "claude-opus-5", "claude-haiku-5"
    expected = {"triage": cheap, "digests": cheap, "dbt": strong, "documents": strong, "history": strong}
    asked = {kind: {each.body["model"] for each in runs[0].asked[kind]} for kind in expected}
    assert asked == {kind: {model} for kind, model in expected.items()}
    efforts = {each.body["output_config"]["effort"] for every in runs[0].asked.values() for each in every}
    assert efforts == {"medium"}, "every request says how much the model thinks"
    assert all("thinking" in each.body for every in runs[0].asked.values() for each in every)

    page = (project / "wiki/global/active-customers.md").read_text()
    assert "120 days" in page and "90 days" not in page and "60 days" not in page
    assert (
        not (project / "contradictions.yaml").exists() or "60 days" not in (project / "contradictions.yaml").read_text()
    )
    assert [each for each in ktx("lint", "--json").data["findings"] if each["level"] != "info"] == []
    hits = ktx("search", "who is a regular", "--json").data["hits"]
    assert (hits[0]["kind"], hits[0]["id"]) == ("page", "active-customers"), "found by its question"


def loops_share_a_cache(run: Careful) -> None:
    """Common tools and the index are the same bytes for all tasks of a run; a long history has two marks."""
    firsts = [requests[0] for kind, requests in run.asked.items() if kind in ("dbt", "documents")]
    tools = [request.body["tools"] for request in firsts]
    ends = [[number for number, each in enumerate(listed) if "cache_control" in each] for listed in tools]
    assert ends[0] == ends[1] != [] and tools[0][: ends[0][0] + 1] == tools[1][: ends[0][0] + 1]
    blocks = [each.body["messages"][0]["content"][0] for each in firsts]
    assert blocks[0] == blocks[1] and "cache_control" in blocks[0]
    marked = [
        sum("cache_control" in block for message in request.body["messages"] for block in message["content"])
        for request in run.asked["dbt"][2:]
    ]
    assert set(marked) == {3}, "the index, and the last two turns"
