"""Spans: which, with what in them, and what never."""

from __future__ import annotations

import asyncio
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest
from opentelemetry import trace

from ktx_cli.llm.agent_loop import CallRecord, CallSpec, Outcome
from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.llm.executor import span
from ktx_cli.llm.types import Cost, Usage
from ktx_cli.project.config.blocks import SUPPORTED_BACKENDS


class Span:
    def __init__(self, name: str, options: dict[str, Any]) -> None:
        self.name = name
        self.options = options
        self.attributes: dict[str, Any] = {}
        self.status: Any = None
        self.ended = False

    def set_attribute(self, name: str, value: Any) -> None:
        self.attributes[name] = value

    def set_status(self, status: Any, description: str) -> None:
        self.status = (status, description)


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> list[Span]:
    """A tracer of this test's own: the spans it was asked for."""
    made: list[Span] = []

    @contextmanager
    def start(name: str, **options: Any) -> Iterator[Span]:
        made.append(Span(name, options))
        try:
            yield made[-1]
        finally:
            made[-1].ended = True

    monkeypatch.setattr(trace, "get_tracer", lambda name: SimpleNamespace(start_as_current_span=start))
    return made


@pytest.mark.parametrize(
    ("kind", "name", "operation"),
    [("text", "chat m", "chat"), ("object", "chat m", "chat"), ("loop", "invoke_agent m", "invoke_agent")],
)
def test_a_call_is_one_span(spans: list[Span], noted: Callable[..., Any], kind: str, name: str, operation: str) -> None:
    record = noted(kind=kind, backend="vertex", role="triage", trace_id="t-1").record
    with span(record.spec, record):
        record.resolved_model = "m-1"
        record.unit("u", Usage(10, 2, 3, 4), Cost())
        asyncio.run(record.step_finished())
    (one,) = spans
    assert (one.name, one.ended, one.status) == (name, True, None)
    assert one.attributes == {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": "gcp.vertex_ai",
        "gen_ai.request.model": "m",
        "gen_ai.response.model": "m-1",
        "gen_ai.usage.input_tokens": 10,
        "gen_ai.usage.output_tokens": 2,
        "ktx.backend": "vertex",
        "ktx.role": "triage",
        "ktx.steps": 1,
        "ktx.tool_failures": 0,
        "ktx.trace_id": "t-1",
    }


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (llm_error("rate_limit", backend="x", detail="secret words"), "rate_limit"),
        (ZeroDivisionError("secret words"), "ZeroDivisionError"),
        (asyncio.CancelledError(), "CancelledError"),
    ],
)
def test_a_failure_is_its_code_alone(
    spans: list[Span], noted: Callable[..., Any], error: BaseException, code: str
) -> None:
    record = noted(prompt="secret prompt", system="secret system").record
    with pytest.raises(type(error)), span(record.spec, record):
        raise error
    (one,) = spans
    assert one.attributes["error.type"] == code
    assert one.status == (trace.StatusCode.ERROR, code)
    assert one.options["record_exception"] is False
    assert one.options["set_status_on_exception"] is False
    assert "secret" not in str(one.attributes) + str(one.options) + str(one.status)


@pytest.mark.parametrize("backend", SUPPORTED_BACKENDS)
def test_every_backend_has_spans(spans: list[Span], bench: Callable[..., Any], backend: str) -> None:
    async def work(spec: CallSpec, record: CallRecord) -> Outcome:
        raise llm_error("overloaded", backend=backend, retry_after=0.0)

    one = bench({"provider": {"backend": backend}, "models": {"default": "m"}}, work)
    with pytest.raises(LlmError):
        asyncio.run(one.runtime.generate_text("hi"))
    (made,) = spans
    assert (made.attributes["ktx.backend"], made.attributes["error.type"]) == (backend, "overloaded")


def test_without_a_tracer_provider_nothing_is_recorded(noted: Callable[..., Any]) -> None:
    record = noted().record
    with span(record.spec, record):
        assert not trace.get_current_span().is_recording()


def test_a_process_without_opentelemetry_does_not_load_it() -> None:
    program = """
import sys
from ktx_cli.llm.agent_loop import CallRecord, CallSpec
from ktx_cli.llm.executor import span
spec = CallSpec("text", "anthropic", "default", "m", "p")
record = CallRecord(spec, run_id="r", command="", emit=print, usage_sink=print)
with span(spec, record):
    pass
assert not any(name.startswith("opentelemetry") for name in sys.modules), "loaded"
"""
    subprocess.run([sys.executable, "-c", program], check=True, timeout=60)
