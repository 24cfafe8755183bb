"""Descriptions in a run: one runtime for all connections, what stops it, what the report says."""

from __future__ import annotations

import asyncio
import contextlib
import dataclasses
import json
import re
import sqlite3
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.diagnostics import Command
from ktx_cli.core.errors import ConfigError, KtxError
from ktx_cli.core.events import Event, StepFinished, StepProgress, StepStarted, ignore_events
from ktx_cli.engine.models import Models, Preflight
from ktx_cli.engine.plan import RunPlan, Spending
from ktx_cli.engine.report import ConnectionReport, IngestReport
from ktx_cli.jobs.ingest.plan import IngestRequest
from ktx_cli.jobs.ingest.run import ingest
from ktx_cli.llm import routing
from ktx_cli.llm.port import LlmRuntime
from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.project import state
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.layout import Layout
from ktx_cli.project.state import open_for_writing
from ktx_cli.runs.events import Recorder
from ktx_cli.scan.descriptions.describers import RuleDescriber
from ktx_cli.scan.descriptions.facts import Described, DescriptionInput, DescriptionReport, Estimate
from ktx_cli.scan.profile.profiler import TableProfile
from ktx_cli.scan.relationships.record import RelationshipRecord
from ktx_cli.scan.stages import Depth, choose_depth, needs_model
from ktx_cli.testing.model_script import NO_CREDIT, Failure, ModelRequest, Reply, Turn, gives, says
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.runtime_subjects import subject_config
from ktx_cli.warehouses.port import Column, SemanticType, Table, TableKind, TableRef
from ktx_cli.warehouses.sampling import SampleMethod
from tests.cli.company_agents import definition_questions

Change = Callable[..., None]
TWO = """\
llm:
  provider: {{backend: anthropic, anthropic: {{api_key: 'env:KEY', base_url: '{url}'}}}}
  models: {{default: sonnet}}
ingest: {{rateLimit: {{retry: {{maxAttempts: 1}}}}}}
scan: {{enrichment: {{mode: llm}}}}
connections:
  atelier: {{driver: sqlite, path: shop.sqlite}}
  shop: {{driver: sqlite, path: shop.sqlite}}
"""


def shown(request: ModelRequest) -> list[str]:
    """Return the names of the tables a request wants described."""
    text = request.body["messages"][-1]["content"][-1]["text"]
    return re.findall(r'^{"table": "(\w+)".*"describe_table"', text, re.MULTILINE)


def answer(request: ModelRequest) -> Reply:
    names = shown(request)
    if "The sources:" in request.words:
        return gives(definition_questions(request.words))
    if not names:
        return gives({"columns": []}) if "<tables>" in request.words else says("ok")
    return gives({"tables": [{"table": name, "description": f"Rows of {name}.", "columns": []} for name in names]})


@pytest.fixture
def two(shop_project: Path, model_server: ModelServer, change: Change) -> Path:
    """A project with two connections over the same database with an undecided column, and a model."""
    (shop_project / "ktx.yaml").write_text(TWO.format(url=model_server.url))
    change(
        shop_project,
        "ALTER TABLE orders ADD COLUMN hand INTEGER",
        "INSERT INTO customers VALUES (11), (12), (13)",
        "INSERT INTO orders VALUES (1, 11), (2, 13), (3, 12), (4, 11), (5, 13), (6, 12)",
    )
    model_server.play(answer)
    return shop_project


def request(project: Path, **more: Any) -> IngestRequest:
    return IngestRequest(project, {"KEY": "made-up"}, **more)


def texts(project: Path, connection: str) -> dict[str, str]:
    path = project / "raw-sources" / connection / "live-database" / "descriptions.json"
    return {each["table"]: each["text"] for each in json.loads(path.read_text())["tables"]}


def test_one_runtime_serves_all_connections(two: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []
    make = routing.make_backend

    def counted(name: str, shared: Any) -> Any:
        made.append(shared.run_id)
        return make(name, shared)

    monkeypatch.setattr(routing, "make_backend", counted)
    events: list[Event] = []
    report, warnings = ingest(request(two, emit=events.append))
    assert (report.error(), warnings) == (None, [])
    assert made.count(report.run_id) == 2, "one is asked whether it is usable, one serves both connections"
    assert texts(two, "shop") == texts(two, "atelier") == {n: f"Rows of {n}." for n in ("customers", "orders")}
    steps = [event for event in events if getattr(event, "step", "") == "describe"]
    assert {type(event) for event in steps} == {StepStarted, StepProgress, StepFinished}
    assert [e.connection for e in steps if isinstance(e, StepStarted)] == ["atelier"], "the answers serve the other"


def test_what_stops_the_questions_stops_them_for_the_run(two: Path, model_server: ModelServer) -> None:
    def broke(request: ModelRequest) -> Reply:
        return NO_CREDIT if "<tables>" in request.words else says("ok")

    model_server.play(broke)
    report, warnings = ingest(request(two))
    error = report.error()
    assert error is not None and (error.code, error.exit_code) == ("billing", 3)
    assert (report.status, report.commit is None) == ("partial", False)
    assert len([call for call in model_server.model_calls if "<tables>" in call.words]) == 1
    assert sorted(w.details["connection"] for w in warnings if w.code == "not_described") == ["atelier", "shop"]
    assert [c.descriptions.left_out() for c in report.connections if c.descriptions] == [
        ["descriptions of customers, orders", "join proposals"]
    ] * 2
    assert (two / "semantic-layer" / "shop" / "_schema" / "main.yaml").exists()
    assert not (two / "raw-sources" / "shop" / "live-database" / "descriptions.json").exists()
    model_server.play(answer)
    again, _ = ingest(request(two))
    assert again.error() is None
    assert texts(two, "shop")["orders"] == "Rows of orders."


def test_a_connection_that_fails_beside_unasked_tables_is_partial(two: Path, model_server: ModelServer) -> None:
    (two / "ktx.yaml").write_text(
        (two / "ktx.yaml").read_text().replace("path: shop.sqlite}\n  shop", "path: no}\n  shop")
    )
    model_server.play(lambda request: NO_CREDIT if "<tables>" in request.words else says("ok"))
    error = ingest(request(two))[0].error()
    assert error is not None and error.exit_code == 7
    assert "atelier" in error.details["left_out"][0]
    assert error.details["left_out"][1:] == ["descriptions of customers, orders (shop)", "join proposals (shop)"]


def test_an_unusable_prompt_stops_before_anything_is_written(two: Path, model_server: ModelServer) -> None:
    (two / "prompts").mkdir()
    (two / "prompts" / "propose_joins.md").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match=r"propose_joins\.md"):
        ingest(request(two))
    assert model_server.requests == []
    assert not (two / ".ktx").exists()
    assert ingest(request(two, no_llm=True))[0].error() is None


def test_a_dry_run_counts_and_asks_nobody(two: Path, model_server: ModelServer) -> None:
    report, _ = ingest(request(two, dry_run=True))
    assert model_server.requests == []
    asks = [c.descriptions.to_ask for c in report.connections if c.descriptions and c.descriptions.to_ask]
    assert [(ask.tables, ask.calls) for ask in asks] == [(2, 2), (2, 2)]
    ingest(request(two))
    report, _ = ingest(request(two, dry_run=True))
    assert report.status == "unchanged"
    assert [c.descriptions.to_ask for c in report.connections if c.descriptions] == [Estimate(), Estimate()]


@pytest.mark.table(
    ("descriptions", "summary", "left"),
    [
        (DescriptionReport("deterministic", 3), "3 described", []),
        (DescriptionReport("llm", 3, 1), "3 described, 1 sent to the model", []),
        (DescriptionReport("llm", 3, to_ask=Estimate()), "3 described, 0 sent to the model", []),
        (
            DescriptionReport("llm", 3, to_ask=Estimate(2, 4, 12_345)),
            "estimated model use: 2 tables to describe, 4 calls, about 12,345 tokens",
            [],
        ),
        (
            DescriptionReport("llm", 1, 2, failed={"t": "no"}),
            "1 described, 2 sent to the model, 1 failed",
            ["descriptions of t"],
        ),
        (DescriptionReport("llm", 1, unproposed=("no",)), "1 described, 0 sent to the model", ["join proposals"]),
    ],
)
def test_what_is_said_of_it(descriptions: DescriptionReport, summary: str, left: list[str]) -> None:
    assert (descriptions.summary, descriptions.left_out()) == (summary, left)
    assert [warning.code for warning in descriptions.warnings("c")] == [
        {"descriptions": "not_described", "join": "not_proposed"}[each.split()[0]] for each in left
    ]
    assert all(warning.hint == "ktx scan c --depth enriched" for warning in descriptions.warnings("c"))


LIMIT = KtxError("wait", code="rate_limit")


@pytest.mark.table(
    ("descriptions", "held", "code"),
    [
        (DescriptionReport("llm"), False, None),
        (DescriptionReport("llm", failed={"t": "no"}), False, "partial"),
        (
            DescriptionReport("llm", failed={"t": "no"}, stopped=KtxError("wait", code="rate_limit")),
            False,
            "rate_limit",
        ),
        (DescriptionReport("llm", failed={"t": "no"}, stopped=LIMIT), True, "partial"),
    ],
)
def test_what_the_command_ends_with(descriptions: DescriptionReport, held: bool, code: str | None) -> None:
    report = IngestReport("run", "ktx scan", held=(("a.yaml", "modified"),) if held else ())
    report.connections.append(ConnectionReport("c", "sqlite", "done", descriptions=descriptions))
    error = report.error()
    assert (error.code if error else None) == code
    assert (report.status == "partial") is (code is not None)


MODEL = {"provider": {"backend": "claude-code"}}


@pytest.mark.table(
    ("llm", "mode", "wanted", "no_llm", "expected"),
    [
        (MODEL, "llm", None, False, Depth.ENRICHED),
        (MODEL, "llm", None, True, Depth.PROFILE),
        ({}, "llm", None, False, Depth.PROFILE),
        (MODEL, "none", None, False, Depth.PROFILE),
        ({}, "deterministic", None, False, Depth.ENRICHED),
        (MODEL, "deterministic", None, True, Depth.ENRICHED),
        (MODEL, "llm", Depth.STRUCTURAL, False, Depth.STRUCTURAL),
        (MODEL, "none", Depth.ENRICHED, False, "usage"),
        (MODEL, "llm", Depth.ENRICHED, True, "usage"),
        ({}, "llm", Depth.ENRICHED, False, "no_backend"),
        ({}, "deterministic", Depth.ENRICHED, True, Depth.ENRICHED),
    ],
)
def test_how_deep_a_run_looks(
    llm: dict[str, Any], mode: str, wanted: Depth | None, no_llm: bool, expected: Depth | str
) -> None:
    config = KtxConfig.model_validate({"llm": llm, "scan": {"enrichment": {"mode": mode}}})
    if isinstance(expected, Depth):
        depth = choose_depth(config, wanted, no_llm=no_llm)
        assert depth is expected
        assert needs_model(config, depth, no_llm=no_llm) is (depth is Depth.ENRICHED and mode == "llm")
        return
    with pytest.raises(KtxError) as raised:
        choose_depth(config, wanted, no_llm=no_llm)
    assert raised.value.code == expected


def preflight_of(project: Path, config: KtxConfig) -> Preflight:
    layout = Layout(project)
    recorder = Recorder(layout, "run-7", ignore_events)
    plan = RunPlan(Command("ingest"), layout, config, {"KEY": "made-up"}, recorder, depth=Depth.ENRICHED)
    return Preflight(plan, Spending(), needed=False)


def live_threads() -> list[str]:
    return [thread.name for thread in threading.enumerate() if thread.name == "ktx-models"]


def test_no_question_no_runtime(shop_project: Path) -> None:
    with sqlite3.connect(":memory:") as database, Models(preflight_of(shop_project, KtxConfig()), database):
        assert live_threads() == []


def test_usage_is_stored_with_the_run(shop_project: Path, model_server: ModelServer) -> None:
    model_server.play([says("ok", input_tokens=7), says("ok")])
    preflight = preflight_of(shop_project, subject_config("anthropic", model_server.url))
    with open_for_writing(preflight.plan.layout) as database, Models(preflight, database) as models:
        for _ in range(2):
            assert models.ask(lambda runtime: runtime.generate_text("?")).text == "ok"
        rows = database.execute("SELECT run_id, command, input_tokens FROM usage ORDER BY input_tokens").fetchall()
    assert rows == [("run-7", "ktx ingest", 7), ("run-7", "ktx ingest", 100)]
    assert live_threads() == []


def test_a_runtime_that_cannot_be_made_is_the_askers_error(shop_project: Path) -> None:
    preflight = preflight_of(Path("not/absolute"), KtxConfig())
    with sqlite3.connect(":memory:") as database, Models(preflight, database) as models:
        for _ in range(2):
            with pytest.raises(ValueError, match="absolute"):
                models.ask(lambda runtime: runtime.generate_text("?"))
    assert live_threads() == []


def test_an_interrupt_cancels_the_question_and_waits_for_its_end(
    shop_project: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    model_server.play([Turn(forever=True)])
    preflight = preflight_of(shop_project, subject_config("anthropic", model_server.url))
    ended: list[str] = []
    begun = threading.Event()

    async def question(runtime: LlmRuntime) -> None:
        try:
            begun.set()
            await runtime.generate_text("?")
        finally:
            await asyncio.sleep(0.05)
            ended.append("cleaned up")

    class Interrupted:
        def result(self) -> Any:
            begun.wait(10)
            raise KeyboardInterrupt

        def cancel(self) -> None:
            self.future.cancel()

        def __init__(self, future: Any) -> None:
            self.future = future

    close = RoutedRuntime.aclose

    async def closed(runtime: RoutedRuntime) -> None:
        ended.append("closed")
        await close(runtime)

    monkeypatch.setattr(RoutedRuntime, "aclose", closed)
    start = asyncio.run_coroutine_threadsafe
    monkeypatch.setattr(asyncio, "run_coroutine_threadsafe", lambda work, loop: Interrupted(start(work, loop)))
    with (
        pytest.raises(KeyboardInterrupt),
        open_for_writing(preflight.plan.layout) as database,
        Models(preflight, database) as models,
    ):
        models.ask(question)
    assert ended == ["cleaned up", "closed"]
    assert live_threads() == []


def test_a_table_nobody_answers_about_is_named(two: Path, model_server: ModelServer) -> None:
    def silent(request: ModelRequest) -> Reply:
        if "orders" in shown(request):
            return Failure(400, "invalid_request_error", "not this one")
        return answer(request)

    model_server.play(silent)
    report, warnings = ingest(request(two))
    error = report.error()
    assert error is not None and error.code == "partial"
    assert error.details["left_out"] == ["descriptions of orders (atelier)", "descriptions of orders (shop)"]
    assert error.hint == "run `ktx ingest` again"
    assert [w.details["tables"] for w in warnings if w.code == "not_described"] == [["orders"], ["orders"]]
    assert texts(two, "shop") == {"customers": "Rows of customers."}


def kept(project: Path) -> set[tuple[str, str]]:
    with contextlib.closing(sqlite3.connect(Layout(project).state)) as database:
        others = "'uses', 'look', 'definition_questions'"
        return set(database.execute(f"SELECT kind, key FROM enrichment WHERE kind NOT IN ({others})"))


def test_answers_nobody_uses_any_more_are_dropped_and_those_in_use_stay(
    two: Path, change: Change, monkeypatch: pytest.MonkeyPatch, model_server: ModelServer
) -> None:
    monkeypatch.setattr(state, "KEPT_RUNS", 2)
    ingest(request(two))
    first = kept(two)
    assert [kind for kind, _ in sorted(first)] == ["description"] * 2 + ["parents"]
    ingest(request(two))
    assert kept(two) == first
    change(two, "DROP TABLE orders")
    for _ in range(2):
        ingest(request(two, no_llm=True))
    assert kept(two) == first, "a run that asks no model ages nothing"
    ingest(request(two))
    before = kept(two)
    ingest(request(two))
    assert len(before) > len(kept(two))
    asked = len(model_server.requests)
    ingest(request(two))
    probes = len([call for call in model_server.requests[asked:] if b"<tables>" in str(call).encode()])
    assert probes == 0, "what is in use is not asked for again"


def test_an_error_that_stops_the_questions_ages_nothing(
    two: Path, model_server: ModelServer, change: Change, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(state, "KEPT_RUNS", 2)
    ingest(request(two))
    change(two, "ALTER TABLE orders ADD COLUMN more TEXT")
    first = kept(two)
    model_server.play(lambda request: NO_CREDIT if "<tables>" in request.words else says("ok"))
    for _ in range(state.KEPT_RUNS + 1):
        ingest(request(two))
    assert kept(two) == first


def test_a_table_that_could_not_be_read_keeps_the_text_of_rules() -> None:
    table = Table(
        TableRef(None, "t"), TableKind.TABLE, (Column("id", "int", SemanticType.NUMBER),), primary_key=("id",)
    )
    read = TableProfile(table.ref, SampleMethod.ALL, 7, 7, True, ())
    unread = dataclasses.replace(read, method=SampleMethod.HEAD, row_count=None, problem="out of time")

    def text(profiles: list[TableProfile], recorded: list[Described], of: Table = table) -> Described:
        wanted = DescriptionInput(
            [of], RelationshipRecord({}, ()), profiles, {each.ref: each for each in recorded}, dict
        )
        return RuleDescriber().describe(wanted, RuleDescriber.report)[0][0]

    before = text([read], [])
    assert before.text == "One row for each id; fewer than 10 rows."
    assert text([unread], [before]) == text([], [before]) == before
    assert text([unread], []).text == "One row for each id."
    other = dataclasses.replace(table, comment="changed")
    assert text([unread], [before], other).text == "One row for each id."
