"""A scripted collector for OTLP over HTTP, on 127.0.0.1."""

from __future__ import annotations

import gzip
import http.server
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.proto.collector.metrics.v1.metrics_service_pb2 import ExportMetricsServiceRequest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


@dataclass(frozen=True)
class Span:
    """A received span."""

    name: str
    attributes: dict[str, Any]
    span_id: str
    parent_id: str
    trace_id: str
    kind: int
    status: int
    message: str
    events: int


@dataclass
class Collector:
    """What was received. `delay`: the seconds before each answer. `status`: the answer."""

    url: str = ""
    delay: float = 0.0
    status: int = 200
    bodies: list[tuple[str, bytes]] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """The variables that name this collector."""
        return {"OTEL_EXPORTER_OTLP_ENDPOINT": self.url}

    def received(self) -> bytes:
        """Everything that was received, as bytes."""
        return b"\n".join(path.encode() + body for path, body in self.bodies)

    def spans(self) -> list[Span]:
        """The received spans."""
        found = []
        for path, body in list(self.bodies):
            if path == "/v1/traces":
                for resource in ExportTraceServiceRequest.FromString(body).resource_spans:
                    for scope in resource.scope_spans:
                        found += [_span(each) for each in scope.spans]
        return found

    def named(self, name: str) -> list[Span]:
        """The received spans with a name."""
        return [span for span in self.spans() if span.name == name]

    def resources(self) -> list[dict[str, Any]]:
        """The resources of all requests."""
        kinds = {"/v1/traces": ExportTraceServiceRequest, "/v1/metrics": ExportMetricsServiceRequest}
        found = []
        for path, body in list(self.bodies):
            request = kinds[path].FromString(body)
            parts = request.resource_spans if path == "/v1/traces" else request.resource_metrics
            found += [_values(each.resource.attributes) for each in parts]
        return found

    def metrics(self) -> dict[str, list[tuple[dict[str, Any], float]]]:
        """The last values of each metric: attributes and the sum, or the value of a gauge."""
        found: dict[str, list[tuple[dict[str, Any], float]]] = {}
        for path, body in list(self.bodies):
            if path == "/v1/metrics":
                for resource in ExportMetricsServiceRequest.FromString(body).resource_metrics:
                    for scope in resource.scope_metrics:
                        for metric in scope.metrics:
                            found[metric.name] = [*_points(metric)]
        return found

    def wait(self, name: str, seconds: float = 10.0) -> Span:
        """Wait for a span."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if found := self.named(name):
                return found[0]
            time.sleep(0.05)
        raise AssertionError(f"no span {name}: {sorted({span.name for span in self.spans()})}")


def _span(span: Any) -> Span:
    ids = span.span_id.hex(), span.parent_span_id.hex(), span.trace_id.hex()
    rest = span.kind, span.status.code, span.status.message, len(span.events) + len(span.links)
    return Span(span.name, _values(span.attributes), *ids, *rest)


def _points(metric: Any) -> Iterator[tuple[dict[str, Any], float]]:
    data = getattr(metric, metric.WhichOneof("data"))
    for point in data.data_points:
        value = point.sum if hasattr(point, "sum") else point.as_int or point.as_double
        yield _values(point.attributes), value


def _values(attributes: Any) -> dict[str, Any]:
    return {each.key: getattr(each.value, each.value.WhichOneof("value")) for each in attributes}


@contextmanager
def collecting() -> Iterator[Collector]:
    """Run a collector for a block."""
    collector = Collector()

    class Handler(http.server.BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            if self.headers.get("Content-Encoding") == "gzip":
                body = gzip.decompress(body)
            collector.bodies.append((self.path, body))
            time.sleep(collector.delay)
            try:
                self.send_response(collector.status)
                self.send_header("Content-Length", "0")
                self.end_headers()
            except OSError:
                pass

        def log_message(self, format: str, *args: Any) -> None:
            pass

    class Server(http.server.ThreadingHTTPServer):
        daemon_threads = True

        def handle_error(self, request: Any, client_address: Any) -> None:
            pass

    server = Server(("127.0.0.1", 0), Handler)
    server.block_on_close = False
    collector.url = f"http://127.0.0.1:{server.server_port}"
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield collector
    finally:
        server.shutdown()
        server.server_close()
        thread.join()
