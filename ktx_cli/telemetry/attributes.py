"""What may leave the process: the names of spans and metrics, and the attributes with the values that each may have.

Everything else is dropped before it is sent, whoever set it: texts of errors, statements and their values, names of
tables, columns, pages and users, and whatever a client chose.
"""

from __future__ import annotations

import builtins
import math
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Literal

from ktx_cli.core import ERROR_CODES, RUN_ID
from ktx_cli.telemetry.operations import Value

OTHER: Final = "_OTHER"
"""OpenTelemetry's value for one that is not in a closed set."""

SPANS: Final[Mapping[str, str | None]] = {
    "ktx": "ktx.command",
    "step": "ktx.step",
    "work_unit": None,
    "compile": None,
    "query": "db.system.name",
    "aggregate": "db.system.name",
    "introspect": "db.system.name",
    "mcp": "mcp.method.name",
    "chat": "gen_ai.request.model",
    "invoke_agent": "gen_ai.request.model",
}
"""The spans of ktx by name, each with the attribute that completes its name."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A metric. `keys`: the attributes of its values. `buckets`: the boundaries of a histogram."""

    kind: Literal["histogram", "counter", "gauge"]
    unit: str
    description: str
    keys: tuple[str, ...]
    buckets: tuple[float, ...] = ()


_SECONDS: Final = (0.001, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0, 10.0)
_LONGER: Final = (0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 30.0, 60.0, 120.0, 300.0)
_LONGEST: Final = (0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 900.0, 1800.0, 3600.0, 7200.0, 14400.0)
_TOKENS: Final = tuple(float(4**power) for power in range(14))
_MODEL: Final = ("gen_ai.operation.name", "gen_ai.provider.name", "gen_ai.request.model", "ktx.backend", "ktx.role")

METRICS: Final[Mapping[str, Metric]] = {
    "mcp.server.operation.duration": Metric(
        "histogram", "s", "Duration of requests to the MCP server.",
        ("mcp.method.name", "gen_ai.tool.name", "error.type"), _LONGER,
    ),
    "db.client.operation.duration": Metric(
        "histogram", "s", "Duration of statements sent to databases.", ("db.system.name", "error.type"), _SECONDS
    ),
    "gen_ai.client.operation.duration": Metric(
        "histogram", "s", "Duration of model calls.", (*_MODEL, "error.type"), _LONGER
    ),
    "gen_ai.client.token.usage": Metric(
        "histogram", "{token}", "Tokens of model calls.", (*_MODEL, "gen_ai.token.type"), _TOKENS
    ),
    "ktx.model.cost": Metric(
        "counter", "USD", "Cost of model calls at list prices.", ("gen_ai.request.model", "ktx.backend", "ktx.role")
    ),
    "ktx.command.duration": Metric(
        "histogram", "s", "Duration of commands.", ("ktx.command", "process.exit.code", "error.type"), _LONGEST
    ),
    "ktx.run.duration": Metric("histogram", "s", "Duration of runs.", ("ktx.command", "ktx.run.status"), _LONGEST),
    "ktx.work_unit.duration": Metric(
        "histogram", "s", "Duration of work units.", ("ktx.work_unit.status", "error.type"), _LONGEST
    ),
    "ktx.work_units.waiting": Metric("gauge", "{work_unit}", "Work units that wait in the queue of the project.", ()),
    "ktx.snapshot.published": Metric(
        "gauge", "s", "When the snapshot that a replica serves was published, as Unix time.", ("ktx.snapshot.commit",)
    ),
}  # fmt: skip
"""The metrics of ktx by name."""


def _number(value: Any) -> Any:
    return value if isinstance(value, int | float) and math.isfinite(value) else None


def _one_of(*values: str, otherwise: str | None = OTHER) -> Callable[[Any], Any]:
    """Accept these values; others become `otherwise`, or are dropped."""
    return lambda value: value if value in values else otherwise


def _matching(pattern: re.Pattern[str]) -> Callable[[Any], Any]:
    return lambda value: value if isinstance(value, str) and pattern.fullmatch(value) else None


_EXCEPTIONS: Final = frozenset(
    {"CancelledError"}
    | {name for name, kind in vars(builtins).items() if isinstance(kind, type) and issubclass(kind, BaseException)}
)


def _error(value: Any) -> Any:
    return value if isinstance(value, str) and (value in ERROR_CODES or value in _EXCEPTIONS) else OTHER


_STEPS: Final = (
    "commit", "company", "decisions", "describe", "digest", "effects", "extract", "fetch", "findings", "joint",
    "profile", "project", "proposals", "questions", "relationships", "repair", "scan", "triage", "units", "values",
)  # fmt: skip
_METHODS: Final = (
    "initialize", "ping", "server/discover", "tools/list", "tools/call", "resources/list", "resources/templates/list",
    "resources/read", "prompts/list", "prompts/get", "completion/complete", "logging/setLevel",
)  # fmt: skip

RULES: Final[Mapping[str, Callable[[Any], Any]]] = {
    "process.exit.code": _number,
    "error.type": _error,
    "ktx.run.id": _matching(RUN_ID),
    "ktx.run.status": _one_of("done", "planned", "unchanged", "partial", "failed", "interrupted"),
    "ktx.step": _one_of(*_STEPS),
    "ktx.work_unit.status": _one_of("done", "failed", "quarantined", "left"),
    "mcp.method.name": _one_of(*_METHODS),
    "db.response.returned_rows": _number,
    "gen_ai.operation.name": _one_of("chat", "invoke_agent", "execute_tool"),
    "gen_ai.token.type": _one_of("input", "output", "cache_read", "cache_write"),
    "gen_ai.usage.input_tokens": _number,
    "gen_ai.usage.output_tokens": _number,
    "ktx.snapshot.commit": _matching(re.compile(r"[0-9a-f]{40}|[0-9a-f]{64}")),
    "ktx.steps": _number,
    "ktx.tool_failures": _number,
}
"""Attribute -> the function that returns the value to send, or None to drop the attribute."""

KNOWN: Final[Mapping[str, str | None]] = {
    "ktx.command": OTHER,
    "ktx.connection": None,
    "ktx.backend": OTHER,
    "ktx.role": OTHER,
    "db.system.name": "other_sql",
    "gen_ai.provider.name": OTHER,
    "gen_ai.request.model": None,
    "gen_ai.response.model": None,
    "gen_ai.tool.name": "unknown",
}
"""Attribute whose values are those that ktx knows -> what any other value becomes; None drops the attribute.

The values are the commands and tools of ktx, the kinds of databases and backends, and the ids of connections and models
in the `ktx.yaml` of the process.
"""

_NAME: Final = re.compile(r"(?!arn:)[A-Za-z0-9][A-Za-z0-9 ._:/@\[\]-]{0,99}")
"""The form of names; the name of a model that contains the number of an account has another one."""

MOST_KNOWN: Final = 1000
"""The maximum number of known values of an attribute, which bounds what a metric can become."""


@dataclass(frozen=True, slots=True)
class AllowList:
    """Decides what is sent; thread-safe."""

    known: dict[str, frozenset[str]] = field(default_factory=dict)

    def know(self, key: str, values: Iterable[str]) -> None:
        """Accept values of an attribute with known values."""
        before = self.known.get(key, frozenset())
        new = {value for value in values if _NAME.fullmatch(value)} - before
        if new and len(before) + len(new) <= MOST_KNOWN:
            self.known[key] = before | new

    def value(self, key: str, value: Any) -> Value | None:
        """Return the value of an attribute to send, or None if it must not be sent."""
        found: Value | None
        if key in KNOWN:
            found = value if isinstance(value, str) and value in self.known.get(key, ()) else KNOWN[key]
        else:
            rule = RULES.get(key)
            found = None if rule is None else rule(value)
        return found

    def attributes(self, given: Mapping[str, Any] | None, keys: Iterable[str] | None = None) -> dict[str, Value]:
        """Return the attributes to send; `keys`: only these."""
        names = given or {} if keys is None else [key for key in keys if key in (given or {})]
        values = ((key, self.value(key, (given or {})[key])) for key in names)
        return {key: value for key, value in values if value is not None}

    def name(self, name: str, attributes: Mapping[str, Value]) -> str | None:
        """Return the name of a span to send, completed from attributes to send; None: not a span of ktx."""
        if name not in SPANS:
            return None
        if name == "mcp":
            parts: list[Any] = [attributes.get("mcp.method.name", OTHER), attributes.get("gen_ai.tool.name")]
        else:
            key = SPANS[name]
            parts = [name, None if key is None else attributes.get(key)]
        return " ".join(str(part) for part in parts if part is not None)
