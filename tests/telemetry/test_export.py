"""The export to a collector: nothing passes it that is not on the allow-list, whoever made it."""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator

import pytest
from opentelemetry import propagate, trace
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.trace import TracerProvider

from ktx_cli.telemetry import begin_command, end_command, know, observe, operation, record, start
from ktx_cli.telemetry import operations as operations_module
from ktx_cli.telemetry.export import CLOSE_SECONDS, OpenTelemetryExport
from tests.telemetry.collector import Collector, collecting

SECRET = "s3cr3t"


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    with collecting() as found:
        for name, value in found.environment.items():
            monkeypatch.setenv(name, value)
        assert start(found.environment) == []
        yield found
        end_command(0)


def exporting() -> OpenTelemetryExport:
    found = operations_module._export
    assert isinstance(found, OpenTelemetryExport)
    return found


def test_spans_and_metrics_arrive(collector: Collector) -> None:
    begin_command("scan")
    know("db.system.name", ["duckdb"])
    facts = {"db.system.name": "duckdb", "db.query.text": SECRET}
    with operation("query", kind="client", metric="db.client.operation.duration", attributes=facts) as current:
        current.set("db.response.returned_rows", 3)
        current.set("db.namespace", SECRET)
    record("ktx.model.cost", 0.25, {"ktx.role": SECRET})
    record(SECRET, 1, {})
    observe("ktx.work_units.waiting", lambda: 4)
    assert end_command(0) is None
    (query,) = collector.named("query duckdb")
    assert query.attributes == {"db.system.name": "duckdb", "db.response.returned_rows": 3}
    metrics = collector.metrics()
    assert metrics["ktx.work_units.waiting"] == [({}, 4)]
    assert metrics["ktx.model.cost"] == [({"ktx.role": "_OTHER"}, 0.25)]
    assert [each for each, _ in metrics["db.client.operation.duration"]] == [{"db.system.name": "duckdb"}]
    assert SECRET.encode() not in collector.received()


def test_a_gauge_has_a_value_for_each_snapshot(collector: Collector) -> None:
    commits = ["0123456789abcdef" * 2 + "01234567", SECRET]
    observe("ktx.snapshot.published", lambda: [(7, {"ktx.snapshot.commit": each, "k": SECRET}) for each in commits])
    assert end_command(0) is None
    found = collector.metrics()["ktx.snapshot.published"]
    assert sorted(found, key=str) == [({"ktx.snapshot.commit": commits[0]}, 7), ({}, 7)]
    assert SECRET.encode() not in collector.received()


def test_a_gauge_that_fails_has_no_value(collector: Collector) -> None:
    def broken() -> int:
        raise ValueError(SECRET)

    observe("ktx.work_units.waiting", broken)
    record("ktx.model.cost", 1, {})
    assert end_command(0) is None
    assert set(collector.metrics()) == {"ktx.model.cost"}


def test_what_a_library_adds_to_the_export_is_dropped(collector: Collector) -> None:
    """As if a library had got hold of the providers: its spans and metrics, and what it adds to spans of ktx."""
    traces, meters = exporting()._providers
    assert isinstance(traces, TracerProvider) and isinstance(meters, MeterProvider)
    with traces.get_tracer("mcp-python-sdk").start_as_current_span(f"tools/call {SECRET}", attributes={SECRET: SECRET}):
        pass
    with traces.get_tracer("mcp-python-sdk").start_as_current_span("compile"):
        pass
    with traces.get_tracer("ktx").start_as_current_span(f"tools/call {SECRET}"):
        pass
    link = trace.Link(trace.INVALID_SPAN_CONTEXT, {SECRET: SECRET})
    with traces.get_tracer("ktx").start_as_current_span("compile", links=[link]) as span:
        span.set_attributes({SECRET: SECRET, "error.type": SECRET, "exception.message": SECRET})
        span.add_event(SECRET, {SECRET: SECRET})
        span.record_exception(ValueError(SECRET))
        span.set_status(trace.StatusCode.ERROR, SECRET)
    meters.get_meter("library").create_counter("ktx.model.cost").add(1)
    meters.get_meter("ktx").create_counter(SECRET).add(1, {SECRET: SECRET})
    meters.get_meter("ktx").create_counter("ktx.model.cost").add(1, {SECRET: SECRET, "ktx.backend": SECRET})
    end_command(0)
    (found,) = collector.spans()
    assert (found.name, found.attributes, found.events, found.message) == ("compile", {"error.type": "_OTHER"}, 0, "")
    assert SECRET.encode() not in collector.received() and b"library" not in collector.received()


def test_libraries_see_neither_providers_nor_spans(collector: Collector) -> None:
    """So that no request and no child process of theirs carries a trace of ktx, and none of their spans is sent."""
    with operation("query"):
        carrier: dict[str, str] = {}
        propagate.inject(carrier)
        assert carrier == {} and not trace.get_current_span().is_recording()
        with trace.get_tracer("library").start_as_current_span(SECRET) as span:
            assert not span.is_recording()
    end_command(0)
    assert [each.name for each in collector.spans()] == ["query"]


@pytest.mark.parametrize(
    ("traceparent", "is_parent"),
    [(f"00-{'1f' * 16}-{'2e' * 8}-01", True), (SECRET, False), (f"00-{'0' * 32}-{'2e' * 8}-01", False), ("", False)],
)
def test_a_valid_traceparent_is_the_parent(collector: Collector, traceparent: str, is_parent: bool) -> None:
    with operation("compile", parent=traceparent):
        pass
    end_command(0)
    (found,) = collector.named("compile")
    assert (found.trace_id == "1f" * 16, found.parent_id) == (is_parent, "2e" * 8 if is_parent else "")


def test_the_end_takes_two_seconds_at_most(collector: Collector) -> None:
    collector.delay = 30
    with operation("query"):
        pass
    started = time.monotonic()
    problem = end_command(0)
    assert time.monotonic() - started < CLOSE_SECONDS + 1
    assert problem == "the collector did not accept all telemetry within 2 seconds"


def test_the_sdk_logs_nothing(collector: Collector, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to the handlers of a server's log nor, where there are none, to stderr."""
    seen: list[logging.LogRecord] = []
    handler = logging.Handler()
    monkeypatch.setattr(handler, "emit", seen.append)
    monkeypatch.setattr(logging.getLogger(), "handlers", [handler])
    monkeypatch.setattr(logging, "lastResort", handler)
    collector.status = 400
    with operation("query"):
        pass
    logging.getLogger("opentelemetry.sdk").error(SECRET)
    assert end_command(0) is None, "the log has it"
    assert [each.name for each in seen] == ["ktx_cli.telemetry"]
