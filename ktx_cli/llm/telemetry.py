"""OpenTelemetry spans of model calls, by the GenAI conventions, where the process has a tracer provider.

Spans name the operation, the system, the models, the tokens and the error code; never a prompt, an answer or a tool's
text.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Iterator
from typing import Any, Final

from ktx_cli.llm.backend import CallRecord, CallSpec
from ktx_cli.llm.errors import LlmError

SYSTEMS: Final = {"vertex": "gcp.vertex_ai", "gateway": "gateway"}


@contextlib.contextmanager
def span(spec: CallSpec, record: CallRecord) -> Iterator[None]:
    """Put a call in a span; in a process that did not load OpenTelemetry, nothing happens.

    An error is its code alone: OpenTelemetry's own record of an exception holds the words of the provider.
    """
    if "opentelemetry.trace" not in sys.modules:
        yield
        return
    from opentelemetry import trace

    operation = "invoke_agent" if spec.kind == "loop" else "chat"
    with trace.get_tracer("ktx").start_as_current_span(
        f"{operation} {spec.model}", kind=trace.SpanKind.CLIENT, record_exception=False, set_status_on_exception=False
    ) as current:
        try:
            yield
        except BaseException as error:
            code = error.code if isinstance(error, LlmError) else type(error).__name__
            current.set_attribute("error.type", code)
            current.set_status(trace.StatusCode.ERROR, code)
            raise
        finally:
            for name, value in _attributes(spec, record, operation).items():
                current.set_attribute(name, value)


def _attributes(spec: CallSpec, record: CallRecord, operation: str) -> dict[str, Any]:
    return {
        "gen_ai.operation.name": operation,
        "gen_ai.provider.name": SYSTEMS.get(spec.backend, "anthropic"),
        "gen_ai.request.model": spec.model,
        "gen_ai.response.model": record.resolved_model or spec.model,
        "gen_ai.usage.input_tokens": record.usage.input_tokens,
        "gen_ai.usage.output_tokens": record.usage.output_tokens,
        "ktx.backend": spec.backend,
        "ktx.role": spec.role,
        "ktx.steps": record.steps,
        "ktx.tool_failures": record.tool_failures,
        **({"ktx.trace_id": spec.trace_id} if spec.trace_id else {}),
    }
