"""Sends spans and metrics to the user's collector with OpenTelemetry's SDK, which is imported only then.

The providers are ktx's own and not those of the process, so that no library can send anything with them. Everything
passes the allow-list once more on its way out.
"""

from __future__ import annotations

import contextlib
import dataclasses
import logging
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

from ktx_cli import __version__
from ktx_cli.core import Command, ResultWarning, listing, monotonic
from ktx_cli.telemetry.attributes import METRICS, AllowList
from ktx_cli.telemetry.operations import Export, Kind, Measured, Value, export_to, is_exporting, is_requested

if TYPE_CHECKING:
    from opentelemetry.sdk.metrics.export import MetricsData
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import ReadableSpan

CLOSE_SECONDS: Final = 2.0
"""The time that the last spans and metrics have to reach the collector when the process ends."""

PROBE_SECONDS: Final = 2.0
"""The time that a collector has to answer when `ktx doctor` asks it."""

_BAD_REQUEST: Final = 400
_SCOPE: Final = "ktx"
_PROTOCOL: Final = "http/protobuf"

log = logging.getLogger("ktx_cli.telemetry")


def start(environ: Mapping[str, str]) -> list[ResultWarning]:
    """Set up the export that the environment asks for; returns what the user should know about it.

    Without a collector in the environment, nothing is imported or set up.
    """
    if is_exporting() or not is_requested(environ):
        return []
    export, warnings = _set_up(environ)
    export_to(export)
    return warnings


def _set_up(environ: Mapping[str, str]) -> tuple[Export | None, list[ResultWarning]]:
    """Return the export that the environment asks for, and what the user should know about it."""
    signals, warnings = _signals(environ)
    if not signals:
        return None, warnings
    _silence()
    try:
        return OpenTelemetryExport(signals), warnings
    except Exception as error:  # noqa: BLE001 - no value of a variable may stop a command
        return None, [_not_set_up(signals[0], error)]


def _silence() -> logging.Logger:
    """Keep what OpenTelemetry logs out of every log: it may contain addresses and headers."""
    logger = logging.getLogger("opentelemetry")
    if not any(isinstance(handler, logging.NullHandler) for handler in logger.handlers):
        logger.addHandler(logging.NullHandler())
    logger.propagate = False
    return logger


def _not_set_up(signal: Signal, error: Exception) -> ResultWarning:
    if isinstance(error, ImportError):
        install = Command("install", "ktx-cli[telemetry]", program="pip")
        message = f"{signal.variable} is set, but the packages that export telemetry are not installed"
        return ResultWarning("telemetry_unavailable", message, hint=install)
    message = f"telemetry is not exported, because OpenTelemetry rejects its variables ({type(error).__name__})"
    hint = "check the environment variables whose names begin with OTEL_"
    return ResultWarning("telemetry_unavailable", message, hint=hint)


def collector_warnings(environ: Mapping[str, str]) -> list[ResultWarning]:
    """Return why the collector that the environment names would not receive everything; sends it empty requests.

    Takes at most `PROBE_SECONDS` for each of traces and metrics.
    """
    signals, warnings = _signals(environ)
    for signal in signals:
        try:
            warning = _probed(signal)
        except Exception as error:  # noqa: BLE001 - no value of a variable may stop a command
            return [*warnings, _not_set_up(signal, error)]
        warnings += [] if warning is None else [warning]
    return warnings


def _probed(signal: Signal) -> ResultWarning | None:
    """Send an empty request, and return why the collector does not accept it."""
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk.metrics.export import MetricsData

    statuses = _Statuses()
    logger = _silence()
    logger.addHandler(statuses)
    try:
        if signal.name == "traces":
            spans: Any = OTLPSpanExporter(timeout=PROBE_SECONDS)
            accepted = spans.export(()).name == "SUCCESS"
            spans.shutdown()
        else:
            metrics: Any = OTLPMetricExporter(timeout=PROBE_SECONDS)
            accepted = metrics.export(MetricsData(resource_metrics=[])).name == "SUCCESS"
            metrics.shutdown()
    finally:
        logger.removeHandler(statuses)
    status = next(iter(statuses.found), None)
    if accepted or status == _BAD_REQUEST:  # it answers, and may rightly object to an empty request
        return None
    does = f"did not accept {signal.name} within {PROBE_SECONDS:g} seconds"
    if status is not None:
        does = f"responded with status {status}, so it does not accept {signal.name}"
    message = f"the collector in {signal.variable} {does}"
    hint = "check that it runs and accepts OTLP over HTTP at this address; for headers, see OTEL_EXPORTER_OTLP_HEADERS"
    return ResultWarning("telemetry_unavailable", message, hint=hint)


class _Statuses(logging.Handler):
    """Collects the HTTP status codes in what OpenTelemetry logs, and nothing else of it."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[int] = []

    def emit(self, record: logging.LogRecord) -> None:
        arguments = record.args if isinstance(record.args, tuple) else ()
        self.found += [each for each in arguments if isinstance(each, int) and 100 <= each < 600]


@dataclasses.dataclass(frozen=True, slots=True)
class Signal:
    """Traces or metrics to send. `variable`: the one that names the collector."""

    name: str
    variable: str


def _signals(environ: Mapping[str, str]) -> tuple[list[Signal], list[ResultWarning]]:
    """Return the signals that the environment asks for, and a warning about variables that ktx cannot follow."""
    found: list[Signal] = []
    refused: dict[tuple[str, str], list[str]] = {}

    def first(*names: str) -> tuple[str, str] | None:
        return next(((name, value) for name in names if (value := environ.get(name, "").strip())), None)

    for name in ("traces", "metrics"):
        upper = name.upper()
        endpoint = first(f"OTEL_EXPORTER_OTLP_{upper}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
        exporter = first(f"OTEL_{upper}_EXPORTER") or ("", "otlp")
        protocol = first(f"OTEL_EXPORTER_OTLP_{upper}_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL") or ("", _PROTOCOL)
        if endpoint is None or exporter[1] == "none":
            continue
        if "otlp" not in [each.strip() for each in exporter[1].split(",")]:
            refused.setdefault((exporter[0], "otlp"), []).append(name)
        elif protocol[1] != _PROTOCOL:
            refused.setdefault((protocol[0], _PROTOCOL), []).append(name)
        else:
            found.append(Signal(name, endpoint[0]))
    if not refused:
        return found, []
    variables = [variable for variable, _ in refused]
    names = [name for each in refused.values() for name in each]
    message = f"{' and '.join(names)} are not exported, because ktx does not support the value of {listing(variables)}"
    hint = "; ".join(f"set {variable} to {value}" for variable, value in refused)
    return found, [ResultWarning("telemetry_unavailable", message, hint=hint)]


class OpenTelemetryExport:
    """An export to a collector, over OTLP/HTTP. Raises `ImportError` without the extra `telemetry`."""

    def __init__(self, signals: Sequence[Signal]) -> None:
        from opentelemetry import trace
        from opentelemetry.context import Context

        self._allowed = AllowList()
        self._trace, self._context = trace, Context
        self._failed: list[str] = []
        self._logged = False
        self._providers: list[Any] = []
        self._tracer: Any = None
        self._instruments: dict[str, Any] = {}
        self._gauges: dict[str, Callable[[], Measured]] = {}
        names = {each.name: each for each in signals}
        resource = _resource()
        if "traces" in names:
            self._set_up_traces(resource, names["traces"].variable)
        if "metrics" in names:
            self._set_up_metrics(resource, names["metrics"].variable)

    def _set_up_traces(self, resource: Resource, variable: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExportResult

        export = self

        class Spans(OTLPSpanExporter):
            def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
                allowed = [each for each in map(export.clean_span, spans) if each is not None]
                result = super().export(allowed) if allowed else SpanExportResult.SUCCESS
                export.note(result is SpanExportResult.SUCCESS, variable)
                return result

        provider = TracerProvider(resource=resource, shutdown_on_exit=False)
        provider.add_span_processor(BatchSpanProcessor(Spans()))
        self._tracer = provider.get_tracer(_SCOPE, __version__)
        self._providers.append(provider)
        self._resource, self._span_class = resource, ReadableSpan

    def _set_up_metrics(self, resource: Resource, variable: str) -> None:
        from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
        from opentelemetry.sdk.metrics import AlwaysOffExemplarFilter, MeterProvider
        from opentelemetry.sdk.metrics.export import MetricExportResult, PeriodicExportingMetricReader

        export = self

        class Metrics(OTLPMetricExporter):
            def export(
                self, metrics_data: MetricsData, timeout_millis: float | None = 10_000, **options: Any
            ) -> MetricExportResult:
                result = super().export(export.clean_metrics(metrics_data), timeout_millis, **options)
                export.note(result is MetricExportResult.SUCCESS, variable)
                return result

        reader = PeriodicExportingMetricReader(Metrics())
        provider = MeterProvider([reader], resource, exemplar_filter=AlwaysOffExemplarFilter(), shutdown_on_exit=False)
        meter = provider.get_meter(_SCOPE, __version__)
        for name, metric in METRICS.items():
            text = {"unit": metric.unit, "description": metric.description}
            if metric.kind == "histogram":
                instrument = meter.create_histogram(name, explicit_bucket_boundaries_advisory=metric.buckets, **text)
                self._instruments[name] = instrument.record
            elif metric.kind == "counter":
                self._instruments[name] = meter.create_counter(name, **text).add
            else:
                meter.create_observable_gauge(name, [self._reader_of(name)], **text)
        self._providers.append(provider)

    def _reader_of(self, name: str) -> Callable[[Any], Iterator[Any]]:
        from opentelemetry.metrics import Observation

        def read(options: Any) -> Iterator[Any]:
            asked = self._gauges.get(name)
            measured: Measured = None
            if asked is not None:
                with contextlib.suppress(Exception):
                    measured = asked()
            values = measured if isinstance(measured, list) else [] if measured is None else [(measured, {})]
            for value, attributes in values:
                yield Observation(value, self._allowed.attributes(attributes, METRICS[name].keys))

        return read

    def begin(self, name: str, kind: Kind, parent: Any) -> Any:
        """See `Export`."""
        if self._tracer is None:
            return None
        with contextlib.suppress(Exception):
            context = self._context()
            if isinstance(parent, str):
                parent = self._remote(parent)
            if parent is not None:
                context = self._trace.set_span_in_context(parent, context)
            kinds = self._trace.SpanKind
            return self._tracer.start_span(name, context, kind=kinds[kind.upper()], record_exception=False)
        return None

    def _remote(self, traceparent: str) -> Any:
        """Return the span of a client, without its `tracestate`, which is text; None for an invalid one."""
        from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

        found = TraceContextTextMapPropagator().extract({"traceparent": traceparent}, self._context())
        span = self._trace.get_current_span(found)
        return span if span.get_span_context().is_valid else None

    def end(self, span: Any, attributes: Mapping[str, Value]) -> None:
        """See `Export`."""
        if span is None:
            return
        with contextlib.suppress(Exception):
            span.set_attributes(self._allowed.attributes(attributes))
            if "error.type" in attributes:
                span.set_status(self._trace.StatusCode.ERROR)
            span.end()

    def record(self, metric: str, value: float, attributes: Mapping[str, Value]) -> None:
        """See `Export`."""
        add = self._instruments.get(metric)
        if add is not None:
            with contextlib.suppress(Exception):
                add(value, self._allowed.attributes(attributes, METRICS[metric].keys))

    def know(self, key: str, values: Iterable[str]) -> None:
        """See `Export`."""
        self._allowed.know(key, values)

    def observe(self, metric: str, read: Callable[[], Measured]) -> None:
        """See `Export`."""
        self._gauges[metric] = read

    def clean_span(self, span: ReadableSpan) -> ReadableSpan | None:
        """Return what may be sent of a span; None: nothing."""
        scope = span.instrumentation_scope
        attributes = self._allowed.attributes(span.attributes)
        name = self._allowed.name(span.name, attributes)
        if name is None or scope is None or scope.name != _SCOPE:
            return None
        code = self._trace.StatusCode.ERROR if "error.type" in attributes else self._trace.StatusCode.UNSET
        return self._span_class(
            name=name,
            context=_without_state(span.context),
            parent=_without_state(span.parent),
            resource=self._resource,
            attributes=attributes,
            kind=span.kind,
            status=self._trace.Status(code),
            start_time=span.start_time,
            end_time=span.end_time,
            instrumentation_scope=scope,
        )

    def clean_metrics(self, data: MetricsData) -> MetricsData:
        """Return what may be sent of metrics."""
        return dataclasses.replace(
            data,
            resource_metrics=[
                dataclasses.replace(
                    each,
                    scope_metrics=[
                        dataclasses.replace(
                            scope, metrics=[self._clean_metric(one) for one in scope.metrics if one.name in METRICS]
                        )
                        for scope in each.scope_metrics
                        if scope.scope.name == _SCOPE
                    ],
                )
                for each in data.resource_metrics
            ],
        )

    def _clean_metric(self, metric: Any) -> Any:
        keys = METRICS[metric.name].keys
        points = [
            dataclasses.replace(point, attributes=self._allowed.attributes(point.attributes, keys), exemplars=[])
            for point in metric.data.data_points
        ]
        return dataclasses.replace(metric, data=dataclasses.replace(metric.data, data_points=points))

    def note(self, is_sent: bool, variable: str) -> None:
        """Note whether the collector accepted something; a server logs the first failure in a row."""
        if is_sent:
            self._failed, self._logged = [], False
            return
        self._failed = [f"could not send telemetry to the collector in {variable}"]
        if not self._logged and log.hasHandlers():
            self._logged = True
            log.warning("%s", self._failed[0])

    def close(self) -> str | None:
        """See `Export`."""
        until = monotonic() + CLOSE_SECONDS
        threads = [threading.Thread(target=_shut_down, args=(each,), daemon=True) for each in self._providers]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join(max(0.0, until - monotonic()))
        if any(thread.is_alive() for thread in threads) and not self._failed:
            self._failed = [f"the collector did not accept all telemetry within {CLOSE_SECONDS:g} seconds"]
        return self._failed[0] if self._failed and not self._logged else None


def _shut_down(provider: Any) -> None:
    with contextlib.suppress(Exception):
        provider.shutdown()


def _without_state(context: Any) -> Any:
    """Return the ids of a span alone: a client can write any text into the state of its trace."""
    if context is None:
        return None
    return type(context)(context.trace_id, context.span_id, context.is_remote, context.trace_flags)


def _resource() -> Resource:
    """Return what describes this process: the name and version of ktx, a random id, and what the user added.

    OpenTelemetry's own detectors would add the command line and the host.
    """
    from opentelemetry.sdk.resources import OTELResourceDetector, Resource

    own = {"service.name": "ktx", "service.version": __version__, "service.instance.id": str(uuid.uuid4())}
    return Resource({**own, **OTELResourceDetector().detect().attributes})
