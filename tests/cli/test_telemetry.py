"""Telemetry of real commands and servers: what a collector receives and never receives, and what it cannot break."""

from __future__ import annotations

import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import Agents
from tests.cli.conftest import KTX
from tests.mcp.wire import Wire, ktx
from tests.telemetry.collector import Collector, collecting

Run = Callable[..., Any]
QUESTION = ("sl", "query", "-m", "order_revenue.net_revenue", "-d", "customer_value.is_active")
NOBODY = "http://127.0.0.1:9"

pytestmark = pytest.mark.timeout(120)


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Collector]:
    """A collector that the environment names."""
    with collecting() as found:
        for name, value in found.environment.items():
            monkeypatch.setenv(name, value)
        yield found


@pytest.fixture
def demo(demo_project: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / "demo"
    shutil.copytree(demo_project, folder)
    monkeypatch.chdir(folder)
    return folder


def program(*words: str, **environ: str) -> subprocess.CompletedProcess[str]:
    """Run `ktx` as a process."""
    return ktx(*words, folder=Path.cwd(), **environ)


def test_a_query_is_a_trace_with_its_statements(demo: Path, collector: Collector) -> None:
    done = subprocess.run([KTX, *QUESTION], capture_output=True, text=True, timeout=90, check=False)
    assert done.returncode == 0 and "warning" not in done.stderr
    (command,) = collector.named("ktx sl-query")
    assert command.attributes == {"ktx.command": "sl-query", "process.exit.code": 0}
    assert {span.trace_id for span in collector.spans()} == {command.trace_id}
    assert [span.parent_id for span in collector.named("compile")] == [command.span_id]
    statements = collector.named("query duckdb")
    assert statements and all(span.parent_id == command.span_id and span.kind == 3 for span in statements)
    facts = {"db.system.name": "duckdb", "ktx.connection": "warehouse", "db.response.returned_rows": 2}
    assert facts in [span.attributes for span in statements]
    metrics = collector.metrics()
    assert [facts for facts, _ in metrics["db.client.operation.duration"]] == [{"db.system.name": "duckdb"}]
    assert metrics["ktx.command.duration"][0][0] == {"ktx.command": "sl-query", "process.exit.code": 0}
    for resource in collector.resources():
        assert resource.pop("service.instance.id")
        assert set(resource) == {"service.name", "service.version"} and resource["service.name"] == "ktx"


def test_the_resource_has_what_the_user_adds(demo: Path, collector: Collector) -> None:
    program("sl", "list", OTEL_RESOURCE_ATTRIBUTES="deployment.environment.name=prod", OTEL_SERVICE_NAME="ktx-nightly")
    for resource in collector.resources():
        assert resource["deployment.environment.name"] == "prod" and resource["service.name"] == "ktx-nightly"


def test_a_failed_command_has_the_code_of_its_error(demo: Path, collector: Collector) -> None:
    done = program("sl", "query", "-m", "order_revenue.canary")
    (command,) = collector.named("ktx sl-query")
    assert command.attributes["process.exit.code"] == done.returncode != 0
    assert (command.attributes["error.type"], command.status, command.message) == ("unknown_name", 2, "")
    assert b"canary" not in collector.received()


@pytest.mark.parametrize(
    "environ",
    [
        {},
        {"OTEL_SERVICE_NAME": "x", "OTEL_TRACES_EXPORTER": "otlp", "OTEL_METRICS_EXPORTER": "otlp"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "", "OTEL_EXPORTER_OTLP_LOGS_ENDPOINT": NOBODY},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": NOBODY, "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": NOBODY, "OTEL_TRACES_EXPORTER": "none", "OTEL_METRICS_EXPORTER": "none"},
    ],
)
def test_without_a_collector_nothing_is_imported(demo: Path, environ: dict[str, str]) -> None:
    code = (
        "import sys\nfrom ktx_cli.cli.main import command_line\nwords = sys.argv[1:]\n"
        "try:\n    command_line(words)(words, prog_name='ktx')\n"
        "finally:\n    print([name for name in sys.modules if name.startswith('opentelemetry')], file=sys.stderr)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *QUESTION],
        capture_output=True, text=True, check=True, timeout=90, env={**os.environ, **environ},
    )  # fmt: skip
    assert done.stderr.splitlines()[-1] == "[]" and "warning" not in done.stderr


def test_signals_are_chosen_one_by_one(demo: Path, collector: Collector) -> None:
    program("sl", "list", OTEL_TRACES_EXPORTER="none")
    assert {path for path, _ in collector.bodies} == {"/v1/metrics"}
    collector.bodies.clear()
    traces = f"{collector.url}/v1/traces"
    program("sl", "list", OTEL_EXPORTER_OTLP_ENDPOINT="", OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=traces)
    assert {path for path, _ in collector.bodies} == {"/v1/traces"}


@pytest.mark.parametrize(
    ("environ", "hint"),
    [
        ({"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, "set OTEL_EXPORTER_OTLP_PROTOCOL to http/protobuf"),
        ({"OTEL_TRACES_EXPORTER": "console", "OTEL_METRICS_EXPORTER": "none"}, "set OTEL_TRACES_EXPORTER to otlp"),
        ({"OTEL_METRIC_EXPORT_INTERVAL": "-1"}, "check the environment variables whose names begin with OTEL_"),
    ],
)
def test_what_ktx_cannot_follow_is_one_warning(
    demo: Path, collector: Collector, environ: dict[str, str], hint: str
) -> None:
    done = program("sl", "list", **environ)
    assert done.stderr.count("warning:") == 1 and f"hint: {hint}" in done.stderr
    assert collector.bodies == []


def test_a_missing_extra_is_a_warning_with_the_command_that_installs_it(demo: Path) -> None:
    expected = program(*QUESTION, "--json")
    code = (
        "import sys\nsys.modules['opentelemetry.sdk'] = None\n"
        "from ktx_cli.cli.main import main\nsys.argv = ['ktx', *sys.argv[1:]]\nmain()"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, *QUESTION, "--json"],
        capture_output=True, text=True, check=False, timeout=90,
        env={**os.environ, "OTEL_EXPORTER_OTLP_ENDPOINT": NOBODY},
    )  # fmt: skip
    document = json.loads(done.stdout)
    assert (done.returncode, done.stderr) == (0, "")
    (warning,) = [each for each in document["warnings"] if each["code"] == "telemetry_unavailable"]
    assert warning["hint"] == "pip install 'ktx-cli[telemetry]'"
    assert document["data"]["rows"] == json.loads(expected.stdout)["data"]["rows"]


@pytest.mark.parametrize(
    ("how", "form"), [("nobody", ()), ("slow", ()), ("slow", ("--json",)), ("broken", ()), ("nobody", ("--quiet",))]
)
def test_a_collector_that_does_not_answer_changes_nothing_but_a_warning(
    demo: Path, how: str, form: tuple[str, ...]
) -> None:
    expected = program(*QUESTION, *form)
    with collecting() as collector:
        collector.delay, collector.status = (90, 200) if how == "slow" else (0, 503)
        url = NOBODY if how == "nobody" else collector.url
        headers = "authorization=Bearer canary"
        started = time.monotonic()
        done = program(*QUESTION, *form, OTEL_EXPORTER_OTLP_ENDPOINT=url, OTEL_EXPORTER_OTLP_HEADERS=headers)
    assert (done.returncode, _timeless(done.stdout)) == (0, _timeless(expected.stdout))
    rest = done.stderr.removeprefix(expected.stderr).splitlines()
    assert [line.partition(":")[0] for line in rest] == ([] if form else ["warning", "hint"])
    assert "canary" not in done.stderr and "Traceback" not in done.stderr
    assert time.monotonic() - started < 60, "it waits for no answer; tests/telemetry/ has the bound"


def _timeless(text: str) -> Any:
    """Return what a command printed without its durations."""
    if not text.startswith("{"):
        return text
    document = json.loads(text)
    document["data"] = document["data"]["rows"]
    return document


def test_an_interrupted_command_still_sends_its_span(demo: Path, collector: Collector) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        slow = f"slow: {{driver: mysql, url: 'mysql://u:p@127.0.0.1:{silent.getsockname()[1]}/d'}}"
        config = (demo / "ktx.yaml").read_text().replace("connections:", f"connections:\n  {slow}", 1)
        (demo / "ktx.yaml").write_text(config)
        process = subprocess.Popen([KTX, "connection", "test", "slow"], stdout=subprocess.PIPE, stderr=subprocess.PIPE)
        silent.settimeout(30)
        accepted, _ = silent.accept()
        process.send_signal(signal.SIGTERM)
        started = time.monotonic()
        process.communicate(timeout=30)
        accepted.close()
    assert process.returncode == 130 and time.monotonic() - started < 8
    (command,) = collector.named("ktx connection-test")
    assert command.attributes["process.exit.code"] == 130 and command.attributes["error.type"] == "cancelled"


def test_a_run_has_steps_units_and_model_calls(
    company: Path, configure: Run, model_server: ModelServer, collector: Collector
) -> None:
    configure("refunds", "stock", at_once=2)
    model_server.play(Agents())
    done = program("ingest")
    assert done.returncode == 0, done
    (command,) = collector.named("ktx ingest")
    by_id = {span.span_id: span for span in collector.spans()}
    assert {span.trace_id for span in by_id.values()} == {command.trace_id}
    assert all(span.parent_id in by_id for span in by_id.values() if span != command)
    assert set(command.attributes) == {"ktx.command", "ktx.run.id", "process.exit.code"}
    steps = {span.attributes["ktx.step"] for span in by_id.values() if span.name.startswith("step ")}
    assert {"scan", "fetch", "triage", "units", "commit"} <= steps and "_OTHER" not in steps
    units = collector.named("work_unit")
    assert [span.attributes for span in units] == [{"ktx.connection": "docs", "ktx.work_unit.status": "done"}] * 2
    loops = [span for span in collector.spans() if span.parent_id in {unit.span_id for unit in units}]
    assert {span.name for span in loops} >= {"invoke_agent claude-sonnet-5-5"}
    (loop, *_) = [span for span in loops if span.name.startswith("invoke_agent")]
    assert loop.attributes["ktx.backend"] == "anthropic" and loop.attributes["ktx.role"] == "writer"
    assert loop.attributes["gen_ai.usage.input_tokens"] > 0
    metrics = collector.metrics()
    assert [each for each, _ in metrics["ktx.run.duration"]] == [{"ktx.command": "ingest", "ktx.run.status": "done"}]
    assert [each for each, _ in metrics["ktx.work_unit.duration"]] == [{"ktx.work_unit.status": "done"}]
    tokens = {
        (each["ktx.role"], each["gen_ai.token.type"]): total for each, total in metrics["gen_ai.client.token.usage"]
    }
    assert tokens["writer", "input"] > 0 and tokens["writer", "output"] > 0
    assert sum(usd for _, usd in metrics["ktx.model.cost"]) > 0
    for words in (b"refunds", b"handbook", b"orders", b"customers", str(company).encode()):
        assert words not in collector.received()


CANARY = "canary"


@pytest.mark.parametrize("words", [("start", "--port", "0"), ("start", "--port", "0", "--foreground"), ("stdio",)])
def test_a_server_exports_calls_and_nothing_that_clients_chose(
    demo: Path, collector: Collector, words: tuple[str, ...]
) -> None:
    calls: list[tuple[str, dict[str, Any]]] = [
        ("sl_query", {"measures": ["order_revenue.net_revenue"]}),
        ("sl_query", {"measures": ["order_revenue.canary_measure"], "filters": ["name = 'canary_value'"]}),
        ("sql_execution", {"connection": "warehouse", "sql": "select 'canary_value' as canary_column"}),
        ("sql_execution", {"connection": "canary_connection", "sql": "select * from canary_table"}),
        ("sql_execution", {"connection": "warehouse", "sql": "select canary_column from canary_table"}),
        ("wiki_read", {"key": "canary_page", "user": "canary_user"}),
        ("canary_tool", {"canary_argument": 1}),
    ]
    trace = f"00-{'1f' * 16}-{'2e' * 8}-01"
    meta = {"traceparent": trace, "tracestate": "canary=canary", "baggage": "canary=1"}
    messages = [
        {"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": {"name": name, "arguments": given}}
        for number, (name, given) in enumerate(calls, 10)
    ]
    messages[0]["params"]["_meta"] = meta  # type: ignore[index]
    messages += [
        {"jsonrpc": "2.0", "id": 30, "method": "prompts/get", "params": {"name": "canary_prompt"}},
        {"jsonrpc": "2.0", "id": 31, "method": "resources/read", "params": {"uri": "ktx://wiki/canary_page"}},
        {"jsonrpc": "2.0", "id": 32, "method": "canary/method", "params": {}},
    ]
    if words == ("stdio",):
        _over_stdio(messages)
    else:
        _over_http(words, messages)
    assert CANARY.encode() not in collector.received().lower().replace(b"_", b"")
    assert CANARY.encode() not in collector.received()
    assert all(span.events == 0 and span.message == "" for span in collector.spans())
    (known, *_) = [span for span in collector.named("tools/call sl_query") if span.trace_id == "1f" * 16]
    assert (known.parent_id, known.kind, known.status) == ("2e" * 8, 2, 0)
    inside = [span for span in collector.spans() if span.parent_id == known.span_id]
    assert {"query duckdb"} <= {span.name for span in inside}
    failed = [span for span in collector.named("tools/call sl_query") if span != known]
    assert [span.attributes["error.type"] for span in failed] == ["unknown_name"]
    assert len(collector.named("tools/call unknown")) == 1
    methods = {span.attributes.get("mcp.method.name") for span in collector.spans()}
    assert {"prompts/get", "resources/read", "tools/call", "initialize"} <= methods
    durations = collector.metrics()["mcp.server.operation.duration"]
    tools = {each.get("gen_ai.tool.name") for each, _ in durations}
    assert {"sl_query", "sql_execution", "wiki_read", "unknown"} >= tools - {None} >= {"sl_query", "unknown"}


def _over_stdio(messages: list[dict[str, Any]]) -> None:
    process = subprocess.Popen([KTX, "mcp", "stdio"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    assert process.stdin is not None and process.stdout is not None
    params = {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": {"name": "canary", "version": "1"}}
    for message in [{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, *messages]:
        process.stdin.write(json.dumps(message) + "\n")
        process.stdin.flush()
        while json.loads(process.stdout.readline()).get("id") != message["id"]:
            pass
    process.stdin.close()
    assert process.wait(30) == 0
    process.stdout.close()


def _over_http(words: tuple[str, ...], messages: list[dict[str, Any]]) -> None:
    if "--foreground" in words:
        process = subprocess.Popen([KTX, "mcp", *words], stderr=subprocess.PIPE, text=True)
        assert process.stderr is not None
        line = process.stderr.readline()
        port = int(line.split(":")[2].split("/")[0])
        _ask(port, messages)
        process.send_signal(signal.SIGTERM)
        assert process.wait(30) == 0 and "warning" not in process.stderr.read()
        process.stderr.close()
        return
    done = program("mcp", *words, "--json")
    _ask(int(json.loads(done.stdout)["data"]["url"].split(":")[2].split("/")[0]), messages)
    assert program("mcp", "stop").returncode == 0


def _ask(port: int, messages: list[dict[str, Any]]) -> None:
    wire = Wire(port)
    wire.initialize(**{"User-Agent": "canary"})
    for message in messages:
        wire.send(body=message, headers={"tracestate": "canary=canary", "traceparent": f"00-{'aa' * 16}-{'bb' * 8}-01"})


def test_a_server_logs_once_that_the_collector_is_gone(demo: Path) -> None:
    environ = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": NOBODY,
        "OTEL_BSP_SCHEDULE_DELAY": "100",
        "OTEL_EXPORTER_OTLP_TIMEOUT": "0.2",
    }
    done = program("mcp", "start", "--port", "0", "--json", **environ)
    port = int(json.loads(done.stdout)["data"]["url"].split(":")[2].split("/")[0])
    wire = Wire(port)
    wire.initialize()
    for _ in range(5):
        assert wire.call("sl_query", {"measures": ["order_revenue.net_revenue"]})[1] is None
        time.sleep(0.4)
    program("mcp", "stop")
    log = program("mcp", "logs").stdout
    assert log.count("could not send telemetry to the collector in OTEL_EXPORTER_OTLP_ENDPOINT") == 1
    assert "opentelemetry" not in log and "127.0.0.1:9" not in log


SPYING = """connections:
  shop: {driver: sqlite, path: shop.sqlite}
"""


def test_names_in_a_project_are_not_sent(company: Path, collector: Collector) -> None:
    """Tables, columns, pages, paths and texts of errors of a project in which every name is a canary."""
    import sqlite3

    with sqlite3.connect(company / "shop.sqlite") as database:
        database.execute("CREATE TABLE canary_table (canary_column TEXT)")
        database.execute("INSERT INTO canary_table VALUES ('canary value')")
    database.close()
    (company / "ktx.yaml").write_text(SPYING)
    for words in (
        ("ingest", "--no-llm"),
        ("sql", "select canary_column from canary_table"),
        ("sql", "select canary_missing from canary_table where canary_column = 'canary value'"),
        ("wiki", "write", "canary-page", "--summary", "canary", "--content", "canary"),
        ("search", "canary"),
        ("sl", "query", "-m", "canary_table.canary_measure"),
        ("connection", "test", "canary_connection"),
        ("scan", "canary_connection"),
        ("canary-command",),
    ):
        program(*words)
    received = collector.received().lower()
    assert b"canary" not in received and company.name.encode() not in received.replace(b"workflow", b"")
    names = {span.name for span in collector.spans()}
    assert {"ktx ingest", "ktx sql", "ktx search", "query sqlite", "introspect sqlite", "step profile"} <= names
    errors = {span.attributes.get("error.type") for span in collector.spans()}
    assert {"query", "usage"} <= errors and "_OTHER" not in errors
