"""What the rest of ktx calls: operations (a span and its duration), counts and measured values.

Nothing here imports OpenTelemetry, and everything does nothing until `start` has set up an export. The current
operation is in a variable of ktx, not in OpenTelemetry's own context: no library continues a trace of ktx in its
requests or child processes, and no span of a library becomes part of one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, Final, Literal, ParamSpec, Protocol, TypeVar

from ktx_cli.core import KtxError, monotonic

Parameters = ParamSpec("Parameters")
Result = TypeVar("Result")

Value = str | int | float | bool

Measured = int | list[tuple[int, Mapping[str, Value]]] | None
"""What a gauge reads: a value, or several with their attributes; None if there is none."""

Kind = Literal["internal", "client", "server"]

CURRENT: Final = "current"
"""The parent of an operation that belongs to what is in progress."""

_ENDPOINTS: Final = (
    "OTEL_EXPORTER_OTLP_ENDPOINT", "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_METRICS_ENDPOINT",
)  # fmt: skip


def is_requested(environ: Mapping[str, str]) -> bool:
    """Return whether the environment names a collector, and does not disable OpenTelemetry as a whole."""
    if not any(environ.get(name, "").strip() for name in _ENDPOINTS):
        return False
    return environ.get("OTEL_SDK_DISABLED", "").strip().lower() != "true"


class Export(Protocol):
    """Where operations and values go. No method raises."""

    def begin(self, name: str, kind: Kind, parent: Any) -> Any:
        """Return a new span. `parent`: a span, a `traceparent`, or None for a new trace."""
        ...

    def end(self, span: Any, attributes: Mapping[str, Value]) -> None:
        """End a span."""
        ...

    def record(self, metric: str, value: float, attributes: Mapping[str, Value]) -> None:
        """Add a value to a metric."""
        ...

    def know(self, key: str, values: Iterable[str]) -> None:
        """Accept these values of an attribute."""
        ...

    def observe(self, metric: str, read: Callable[[], Measured]) -> None:
        """Ask for the values of a gauge whenever metrics are sent."""
        ...

    def close(self) -> str | None:
        """Send what is left, within a bound, and return why the collector did not accept everything."""
        ...


_SERVING: Final = frozenset({"mcp-server", "mcp-start", "mcp-stdio", "worker"})
"""Commands that serve others: each request or work unit is a trace of its own."""

_export: Export | None = None
_command: Operation | None = None
_current: ContextVar[Operation | None] = ContextVar("ktx_operation", default=None)


class Operation:
    """Work that is timed: it becomes a span and, with `metric`, a value of that metric.

    Only the attributes of the allow-list leave the process (`ktx_cli/telemetry/attributes.py`).
    """

    __slots__ = ("_around", "_export", "_metric", "_started", "attributes", "span")

    def __init__(
        self,
        export: Export | None = None,
        name: str = "",
        kind: Kind = "internal",
        metric: str | None = None,
        attributes: Mapping[str, Value] | None = None,
        parent: Any = CURRENT,
    ) -> None:
        self.attributes: dict[str, Value] = dict(attributes or {})
        self._export, self._metric = export, metric
        self._started = monotonic()
        self._around = _current.get()
        if parent is CURRENT:
            parent = None if self._around is None else self._around.span
        self.span: Any = None if export is None else export.begin(name, kind, parent)

    def set(self, key: str, value: Value) -> None:
        """Set an attribute."""
        self.attributes[key] = value

    def fail(self, error: BaseException | str) -> None:
        """Mark the operation as failed, with the code of an error or the name of an exception; never its message."""
        self.attributes["error.type"] = error if isinstance(error, str) else error_type(error)

    def enter(self) -> None:
        """Make this the operation that later ones in this context belong to."""
        _current.set(self)

    def leave(self) -> None:
        """Let later operations in this context belong to what this one belongs to."""
        _current.set(self._around)

    def is_within(self, other: Operation) -> bool:
        """Return whether this operation began in another one."""
        around = self._around
        while around is not None and around is not other:
            around = around._around
        return around is other

    def end(self) -> None:
        """End the operation; ending it twice is harmless."""
        export, self._export = self._export, None
        if export is not None:
            export.end(self.span, self.attributes)
            if self._metric is not None:
                export.record(self._metric, monotonic() - self._started, self.attributes)


def error_type(error: BaseException) -> str:
    """Return the code of an error, or the name of its class."""
    return error.code if isinstance(error, KtxError) else type(error).__name__


@contextmanager
def operation(
    name: str,
    *,
    kind: Kind = "internal",
    metric: str | None = None,
    attributes: Mapping[str, Value] | None = None,
    parent: Any = CURRENT,
) -> Iterator[Operation]:
    """Run a block as an operation. `parent`: `CURRENT`, a `traceparent`, or None for a new trace."""
    if _export is None:
        yield Operation()
        return
    found = Operation(_export, name, kind, metric, attributes, parent)
    found.enter()
    try:
        yield found
    except BaseException as error:
        found.fail(error)
        raise
    finally:
        found.leave()
        found.end()


def in_this_operation(function: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
    """Return a function whose operations belong to the one in progress now, in whatever thread it is called."""
    if _export is None:
        return function
    around = _current.get()

    def run(*args: Parameters.args, **kwargs: Parameters.kwargs) -> Result:
        token = _current.set(around)
        try:
            return function(*args, **kwargs)
        finally:
            _current.reset(token)

    return run


def is_exporting() -> bool:
    """Return whether operations and values are sent to a collector."""
    return _export is not None


def begin(name: str, attributes: Mapping[str, Value]) -> Operation:
    """Return an operation that the caller ends; see `operation`."""
    return Operation(_export, name, attributes=attributes)


def record(metric: str, value: float, attributes: Mapping[str, Value]) -> None:
    """Add a value to a counter or a histogram."""
    if _export is not None:
        _export.record(metric, value, attributes)


def know(key: str, values: Iterable[str]) -> None:
    """Accept values of an attribute: names that the owner of the project or ktx itself chose, never a client."""
    if _export is not None:
        _export.know(key, values)


def observe(metric: str, read: Callable[[], Measured]) -> None:
    """Ask for the values of a gauge whenever metrics are sent."""
    if _export is not None:
        _export.observe(metric, read)


def export_to(export: Export | None) -> None:
    """Send operations and values to an export from now on."""
    global _export
    _export = export


def begin_command(name: str) -> None:
    """Begin the span of the command of this process."""
    global _command
    if _export is not None:
        _export.know("ktx.command", [name])
        _command = Operation(_export, "ktx", "internal", "ktx.command.duration", {"ktx.command": name}, None)
        if name not in _SERVING:
            _command.enter()


def set_run(run_id: str) -> None:
    """Set the id of the run that the command started."""
    if _command is not None:
        _command.set("ktx.run.id", run_id)


def end_command(exit_code: int, error: str | None = None) -> str | None:
    """End the span of the command, and send everything; returns why the collector did not accept it.

    Takes two seconds at most. Calling it twice is harmless.
    """
    global _export, _command
    command, _command = _command, None
    if command is not None:
        command.set("process.exit.code", exit_code)
        if error is not None:
            command.fail(error)
        command.leave()
        command.end()
    export, _export = _export, None
    return None if export is None else export.close()
