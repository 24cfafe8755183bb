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
    """Put a call in a span; without an application that loaded OpenTelemetry's SDK, nothing happens."""
    if "opentelemetry.sdk" not in sys.modules:
        yield
        return
    from opentelemetry import trace

    operation = "invoke_agent" if spec.kind == "loop" else "chat"
    with trace.get_tracer("ktx").start_as_current_span(f"{operation} {spec.model}") as current:
        try:
            yield
        except LlmError as error:
            current.set_attribute("error.type", error.code)
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
    }
