"""Operations: what belongs to what, how they fail, and that they cost nothing without an export."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pytest

from ktx_cli.core import KtxError, RunFinished, RunStarted, StepFinished, StepStarted, UsageError
from ktx_cli.telemetry import (
    Measured,
    StepSpans,
    begin_command,
    end_command,
    in_this_operation,
    is_requested,
    know,
    observe,
    operation,
    record,
)
from ktx_cli.telemetry.operations import export_to


@dataclass
class Ended:
    name: str
    parent: Any
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass
class Kept:
    """An export that keeps everything."""

    spans: list[Ended] = field(default_factory=list)
    values: list[tuple[str, float, dict[str, Any]]] = field(default_factory=list)
    closed: int = 0

    def begin(self, name: str, kind: str, parent: Any) -> Ended:
        return Ended(name, parent)

    def end(self, span: Ended, attributes: Mapping[str, Any]) -> None:
        span.attributes = dict(attributes)
        self.spans.append(span)

    def record(self, metric: str, value: float, attributes: Mapping[str, Any]) -> None:
        self.values.append((metric, value, dict(attributes)))

    def know(self, key: str, values: Iterable[str]) -> None: ...

    def observe(self, metric: str, read: Callable[[], Measured]) -> None: ...

    def close(self) -> str | None:
        self.closed += 1
        return "not sent"

    def parent_of(self, name: str) -> str | None:
        (span,) = [each for each in self.spans if each.name == name]
        return getattr(span.parent, "name", span.parent)


@pytest.fixture
def kept() -> Iterator[Kept]:
    found = Kept()
    export_to(found)
    yield found
    end_command(0)


@pytest.mark.parametrize(
    ("environ", "requested"),
    [
        ({}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": " "}, False),
        ({"OTEL_TRACES_EXPORTER": "otlp"}, False),
        ({"OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": "http://h"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h"}, True),
        ({"OTEL_EXPORTER_OTLP_METRICS_ENDPOINT": "http://h"}, True),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_SDK_DISABLED": "True"}, False),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://h", "OTEL_SDK_DISABLED": "no"}, True),
    ],
)
def test_an_export_is_requested_by_an_endpoint(environ: dict[str, str], requested: bool) -> None:
    assert is_requested(environ) is requested


def test_operations_nest_in_tasks_and_threads(kept: Kept) -> None:
    begin_command("scan")

    async def inner() -> None:
        with operation("task"):
            await asyncio.to_thread(lambda: operation("thread").__enter__().end())

    with operation("outer"):
        asyncio.run(inner())
        bound = in_this_operation(lambda: operation("pool").__enter__().end())
        thread = threading.Thread(target=bound)
        thread.start()
        thread.join()
        with operation("remote", parent="00-1-2-01"), operation("below"):
            pass
    with operation("after"):
        pass
    assert end_command(3) == "not sent"
    parents = {name: kept.parent_of(name) for name in ("outer", "task", "thread", "pool", "remote", "below", "after")}
    assert parents == {
        "outer": "ktx", "task": "outer", "thread": "task", "pool": "outer", "remote": "00-1-2-01", "below": "remote",
        "after": "ktx",
    }  # fmt: skip
    assert kept.spans[-1].attributes == {"ktx.command": "scan", "process.exit.code": 3}
    assert kept.values[-1][0] == "ktx.command.duration" and kept.closed == 1
    assert end_command(4) is None and kept.closed == 1


@pytest.mark.parametrize("name", ["worker", "mcp-start", "mcp-stdio", "mcp-server"])
def test_what_a_server_does_is_no_part_of_its_command(kept: Kept, name: str) -> None:
    begin_command(name)
    with operation("unit"):
        pass
    assert kept.parent_of("unit") is None


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (UsageError("secret"), "usage"),
        (KtxError("secret", code="query"), "query"),
        (ValueError("secret"), "ValueError"),
        (asyncio.CancelledError("secret"), "CancelledError"),
    ],
)
def test_a_failure_is_its_code_and_still_raised(kept: Kept, error: BaseException, code: str) -> None:
    with pytest.raises(type(error)), operation("query", metric="m", attributes={"a": 1}):
        raise error
    assert kept.spans[-1].attributes == {"a": 1, "error.type": code}
    assert kept.values[-1][2] == {"a": 1, "error.type": code}


def test_steps_become_spans_and_an_unfinished_one_ends_as_failed(kept: Kept) -> None:
    begin_command("ingest")
    steps = StepSpans()
    steps(RunStarted("20260131T093000-5f3a9c", "ktx ingest"))
    for event in (
        StepStarted("scan", "a"),
        StepStarted("profile", "a"),
        StepFinished("profile", "", 1.0, "a"),
        StepStarted("values", "a"),
        StepFinished("scan", "", 1.0, "a"),
        StepStarted("fetch dbt", "d"),
        StepFinished("never started", "", 1.0),
        RunFinished("20260131T093000-5f3a9c", "partial", 2.5),
    ):
        steps(event)
    with operation("query"):
        pass
    steps.close()
    end_command(0)
    found = [(span.attributes.get("ktx.step"), span.attributes.get("error.type")) for span in kept.spans[:3]]
    assert found == [("profile", None), ("values", "_OTHER"), ("scan", None)]
    profile, values, scan, query, fetch, command = kept.spans
    assert (profile.parent, values.parent, scan.parent) == (scan, scan, command)
    assert query.parent is fetch and fetch.attributes == {
        "ktx.step": "fetch",
        "ktx.connection": "d",
        "error.type": "_OTHER",
    }
    assert command.attributes["ktx.run.id"] == "20260131T093000-5f3a9c"
    assert ("ktx.run.duration", 2.5, {"ktx.command": "ingest", "ktx.run.status": "partial"}) in kept.values


def test_without_an_export_everything_does_nothing() -> None:
    with operation("query", metric="m") as current:
        current.set("a", 1)
        current.fail("usage")
    record("m", 1, {})
    know("k", ["v"])
    observe("m", lambda: 1)
    begin_command("scan")
    assert end_command(0) is None

    def function() -> None: ...

    assert in_this_operation(function) is function


def test_the_interface_imports_no_opentelemetry() -> None:
    program = (
        "import sys\nfrom ktx_cli.telemetry import operation, start, StepSpans\nstart({})\n"
        "with operation('query'):\n    pass\n"
        "assert not [name for name in sys.modules if name.startswith('opentelemetry')]"
    )
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
