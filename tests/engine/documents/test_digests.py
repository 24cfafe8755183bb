"""Digests of tables: one call for twenty tables, nothing paid for twice, and what has no text is left to an agent."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ktx_cli.documents.raw import Changes, Snapshot, WorkUnit
from ktx_cli.engine.digests import Digests, write_digests
from ktx_cli.engine.documents.triage import QuestionRunner
from ktx_cli.engine.task import Cancellation
from ktx_cli.engine.work import SourceWork, evidence_of
from ktx_cli.llm.routing import RoutedRuntime
from ktx_cli.sources.query_history.source import QueryHistorySource
from ktx_cli.testing.model_script import NO_CREDIT, ModelRequest, Reply, gives, says
from ktx_cli.testing.model_server import ModelServer
from tests.engine.documents.conftest import raw_file


def history(count: int, **more: str) -> SourceWork:
    """A history of tables `t0`, `t1`, ..., and one file of patterns."""
    tables = {
        f"tables/t{number}.json": json.dumps(
            {"table": f"t{number}", "source": f"t{number}", "frequency": "high", "filters": [["a <> 'b'", "high"]],
             "statements": [{"id": "x", "sql": "SELECT a FROM t " + more.get(f"t{number}", "")}]}
        )
        for number in range(count)
    }  # fmt: skip
    files = {path: raw_file(path, text) for path, text in {**tables, "patterns/0000.json": "{}"}.items()}
    units = tuple(WorkUnit(Path(path).stem, path, (path,)) for path in sorted(files))
    return SourceWork(
        "shop",
        SimpleNamespace(),
        QueryHistorySource(),
        snapshot=Snapshot(files),
        changes=Changes(tuple(files)),
        units=units,
    )


def narrate(request: ModelRequest) -> Reply:
    text = str(request.body["messages"][0]["content"][0]["text"])
    names = re.findall(r'"table": "(t\d+)"', text)
    said = {"t1": "", "t2": "The password is hunter2hunter2: password=Xk29fj2kLm3Qz8"}
    tables = [{"table": name, "narrative": said.get(name, f"People count {name}.")} for name in names if name != "t3"]
    return gives({"tables": tables})


def run(runtime: RoutedRuntime, store: Any, work: SourceWork, **options: Any) -> Digests:
    async def ask() -> Digests:
        async with runtime:
            return await write_digests([work], QuestionRunner(runtime, store, **options))

    return asyncio.run(ask())


def test_twenty_tables_are_one_call(runtime: RoutedRuntime, model_server: ModelServer, store: Any) -> None:
    model_server.play(narrate)
    work = history(20)
    found = run(runtime, store, work)
    assert len(model_server.requests) == 1
    assert "a <> 'b'" in json.dumps(model_server.requests[0].body), "the rule is in the request"
    done = {unit.unit.key: evidence_of(unit) for unit in found.outcomes.values()}
    assert done["t0"][0].evidence == {"kind": "table_usage", "table": "t0", "narrative": "People count t0."}
    assert done["t0"][0].raw_path == "tables/t0.json"
    assert done["t1"] == [], "the queries say nothing about it"
    assert [unit.key for unit in found.narrowed(work).units] == ["0000", "t2", "t3"], "a secret, and no answer"


def test_what_was_answered_is_not_asked_again(runtime: RoutedRuntime, model_server: ModelServer, store: Any) -> None:
    model_server.play(narrate)
    first = run(runtime, store, history(5))
    count = len(model_server.requests)
    again = run(runtime, store, history(6, t0="-- changed"))
    asked = str(model_server.requests[-1].body["messages"][0]["content"][0]["text"])
    assert len(model_server.requests) == count + 1
    assert [f'"table": "{name}"' in asked for name in ("t0", "t4", "t5")] == [True, False, True]
    assert again.tally.kept == 2 and first.tally.kept == 0
    assert set(again.outcomes) >= set(first.outcomes)


def test_many_tables_are_several_calls(runtime: RoutedRuntime, model_server: ModelServer, store: Any) -> None:
    model_server.play(narrate)
    assert len(run(runtime, store, history(45)).outcomes) == 43
    assert len(model_server.requests) == 3


@pytest.mark.table(("reply", "failures", "ends"), [(says("", stop_reason="refusal"), 1, False), (NO_CREDIT, 0, True)])
def test_a_call_that_fails_leaves_its_tables_to_agents(
    reply: Reply, failures: int, ends: bool, runtime: RoutedRuntime, model_server: ModelServer, store: Any
) -> None:
    model_server.play(lambda request: reply)
    cancellation, work = Cancellation(), history(3)
    found = run(runtime, store, work, cancellation=cancellation)
    assert (found.outcomes, found.tally.failures, cancellation.is_set) == ({}, failures, ends)
    assert found.narrowed(work).units == work.units
    assert len(list(found.warnings())) == failures
