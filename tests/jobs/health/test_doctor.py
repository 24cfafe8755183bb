"""What single checks of `ktx doctor` find, and that none of them stops the others."""

from __future__ import annotations

import dataclasses
import os
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from importlib import metadata
from pathlib import Path
from types import SimpleNamespace

import pytest

from ktx_cli.core.diagnostics import Command
from ktx_cli.core.errors import KtxError, SecretError
from ktx_cli.jobs import connections
from ktx_cli.jobs.connections import probe_connection
from ktx_cli.jobs.health import connection_checks, doctor, machine_checks, model_checks, project_checks
from ktx_cli.jobs.health.doctor import CHECKS, diagnose, examine
from ktx_cli.jobs.health.model import CheckContext, CheckResult, Concern, Level, Task, side_by_side
from ktx_cli.jobs.serve.daemon import ServerStatus
from ktx_cli.jobs.serve.state import ServedFolder, ServerSettings, ServerState, write_server_state
from ktx_cli.llm.errors import llm_error
from ktx_cli.llm.probe import ProbeResult
from ktx_cli.llm.settings import ModelRef
from ktx_cli.project.config.file import load_config
from ktx_cli.project.layout import Layout
from ktx_cli.project.lock import process_start
from ktx_cli.telemetry import export
from ktx_cli.testing.servers import MariaDBServer, free_port
from ktx_cli.warehouses import registry
from ktx_cli.warehouses.dialect import reader_role
from ktx_cli.warehouses.port import ConnectionTest
from tests.llm.test_embeddings import Server, small_model
from tests.telemetry.collector import collecting

SET = "ktx config set ingest.embeddings"
CANARY = "a-secret-header"

CONFIG = "connections:\n  shop:\n    driver: sqlite\n    path: shop.sqlite\n"


# -- side by side ----------------------------------------------------------------------------------------------


@pytest.fixture
def gate() -> Iterator[threading.Event]:
    """What work waits for that never ends; it is let go after the test."""
    event = threading.Event()
    yield event
    event.set()


def test_work_that_hangs_or_breaks_is_a_finding_and_stops_nothing_else(gate: threading.Event) -> None:
    def hang() -> list[CheckResult]:
        gate.wait()
        return []

    def refuse() -> list[CheckResult]:
        raise SecretError("no secret", hint="export A=...")

    def fail() -> list[CheckResult]:
        raise KtxError("no", hint="ktx index")

    def bug() -> list[CheckResult]:
        raise ZeroDivisionError("oh")

    well = CheckResult("well", Level.OK, "fine")
    pieces = [("hang", hang), ("refuse", refuse), ("fail", fail), ("bug", bug), ("well", lambda: [well, well])]
    found = side_by_side(Task(name, run, 0.02 if run is hang else 60.0, Command("again")) for name, run in pieces)
    assert found == [
        [CheckResult("hang", Level.FAIL, "no answer within 0.02 s", "ktx again")],
        [CheckResult("refuse", Level.FAIL, "no secret", "export A=...", Concern.SETUP)],
        [CheckResult("fail", Level.FAIL, "no", "ktx index")],
        [CheckResult("bug", Level.FAIL, "the check itself failed: ZeroDivisionError: oh", "ktx again --debug")],
        [well, well],
    ]


def test_the_work_runs_at_the_same_time() -> None:
    meeting = threading.Barrier(3)

    def meet() -> list[CheckResult]:
        meeting.wait(30)
        return [CheckResult("a", Level.OK, "met")]

    assert side_by_side(Task("a", meet, 60.0) for _ in range(3)) == [[CheckResult("a", Level.OK, "met")]] * 3


def test_a_connection_that_hangs_keeps_no_other_from_its_answer(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, gate: threading.Event
) -> None:
    (tmp_path / "ktx.yaml").write_text(CONFIG + CONFIG.partition("\n")[2].replace("shop:", "slow:"))
    (tmp_path / "shop.sqlite").touch()

    def probe(config: object, connection: str, **given: object) -> ConnectionTest:
        if connection == "slow":
            gate.wait()
        return ConnectionTest(1.0, "SQLite 3", 2, can_write=False)

    monkeypatch.setattr(connections, "probe_connection", probe)
    monkeypatch.setattr(connection_checks, "CONNECTION_SECONDS", 0.05)
    found = {each.check: each.level for each in diagnose(tmp_path, {}, only=["connections"])}
    assert found == {"connection:shop": Level.OK, "connection:slow": Level.FAIL}


def test_ids_are_unique_and_status_asks_for_some_of_them() -> None:
    ids = [check.id for check in CHECKS]
    assert len(set(ids)) == len(ids)
    assert {"secrets", "embeddings"} <= set(ids), "what the hints of `ktx status` name"


# -- the machine -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("needed", "level", "says"),
    [
        (["rich>=1", "mcp>=99; extra == 'x'"], Level.OK, "with all packages"),
        (["rich>=1", "no-such-package>=3"], Level.FAIL, "no-such-package"),
        (["rich>=99"], Level.FAIL, "rich>=99 (installed: "),
        (None, Level.OK, "with all packages"),
    ],
)
def test_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, needed: list[str] | None, level: Level, says: str
) -> None:
    (tmp_path / "ktx.yaml").write_text("")
    monkeypatch.setattr(machine_checks.metadata, "requires", lambda name: needed)
    (finding,) = diagnose(tmp_path, {}, only=["python"])
    assert (finding.level, says in finding.message) == (level, True)
    assert (finding.hint is None) is (level is Level.OK)


def test_packages_of_a_tree_that_was_never_installed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(name: str) -> None:
        raise metadata.PackageNotFoundError(name)

    monkeypatch.setattr(machine_checks.metadata, "requires", unknown)
    assert machine_checks.check_python(SimpleNamespace())[0].level is Level.OK  # type: ignore[arg-type]


def test_a_missing_driver_is_named_once_with_its_connections(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = "{driver: mysql, host: localhost, database: x}"
    (tmp_path / "ktx.yaml").write_text(f"connections:\n  a: {entry}\n  b: {entry}\n")
    monkeypatch.setattr(registry, "is_installed", lambda package: False)
    (finding,) = diagnose(tmp_path, {}, only=["extras"])
    assert finding.message.endswith("`mysql` is not installed, so `a`, `b` cannot be read")
    assert (finding.hint, finding.concern) == ("pip install 'ktx-cli[mysql]'", Concern.SETUP)
    assert {each.concern for each in diagnose(tmp_path, {}, only=["connections"])} == {Concern.SETUP}


def test_a_missing_package_of_a_source_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    entry = "{driver: gdrive, folder_ids: [a], credentials_json: env:KEY}"
    (tmp_path / "ktx.yaml").write_text(f"connections:\n  drive: {entry}\n  docs: {{driver: documents, path: docs}}\n")
    monkeypatch.setattr("ktx_cli.warehouses.is_installed", lambda package: False)
    (finding,) = diagnose(tmp_path, {}, only=["extras"])
    assert finding.message.endswith("`gdrive` is not installed, so `drive` cannot be read")
    assert (finding.hint, finding.concern) == ("pip install 'ktx-cli[gdrive]'", Concern.SETUP)


@pytest.mark.parametrize(
    ("free", "level"), [(10 << 30, Level.OK), (100 << 20, Level.WARN), (1 << 20, Level.FAIL), (0, Level.FAIL)]
)
def test_disks(shop_project: Path, monkeypatch: pytest.MonkeyPatch, free: int, level: Level) -> None:
    usage = shutil.disk_usage(shop_project)
    monkeypatch.setattr(machine_checks.shutil, "disk_usage", lambda folder: usage._replace(free=free))
    found = diagnose(shop_project, {}, only=["disk"])
    assert {each.level for each in found} == {level}
    assert all((each.hint is None) is (level is Level.OK) for each in found)
    (shop_project / ".ktx" / "cache").mkdir(parents=True)
    cached = diagnose(shop_project, {}, only=["disk"])
    wanted = None if level is Level.OK else f"rm -r {shop_project / '.ktx' / 'cache'}"
    assert wanted in [each.hint for each in cached]


def test_a_lock_of_git_is_named_when_it_is_old(ingested_project: Path) -> None:
    """Doctor does not take it away: whether that command still runs, a person knows."""
    lock = ingested_project / ".git" / "index.lock"
    lock.touch()
    assert diagnose(ingested_project, {}, only=["repository"])[0].level is Level.OK
    os.utime(lock, (0, 0))
    (finding,) = diagnose(ingested_project, {}, only=["repository"])
    assert (finding.level, finding.hint, finding.repair) == (Level.WARN, f"rm {lock}", None)


# -- what people and agents read -------------------------------------------------------------------------------


def test_of_many_dangling_references_the_first_are_told(shop_project: Path) -> None:
    page = shop_project / "wiki" / "global" / "a.md"
    page.parent.mkdir(parents=True)
    refs = "".join(f"  - gone-{number:02}\n" for number in range(project_checks.MOST + 5))
    page.write_text(f"---\nsummary: A\nrefs:\n{refs}---\n")
    found = diagnose(shop_project, {}, only=["wiki"])
    assert len(found) == project_checks.MOST + 1
    assert (found[0].location.path, found[0].location.line, found[0].level) == ("wiki/global/a.md", 4, Level.WARN)
    assert (found[-1].message, found[-1].hint) == ("5 more: run ktx wiki lint to list them", "ktx wiki lint")


def test_errors_of_definitions_fail_with_their_place(ingested_project: Path) -> None:
    overlay = ingested_project / "semantic-layer" / "shop" / "orders.yaml"
    overlay.write_text("name: orders\nmeasures:\n  - name: total\n    expr: sum(nope)\n")
    (finding,) = diagnose(ingested_project, {}, only=["semantic"])
    assert (finding.level, finding.location.path) == (Level.FAIL, "semantic-layer/shop/orders.yaml")
    assert finding.message.startswith(f"{finding.location.path}:{finding.location.line}: ")
    assert f"{finding.location.path} line {finding.location.line}" in (finding.hint or "")


def test_files_of_no_connection_fail_with_the_way_out(ingested_project: Path) -> None:
    (ingested_project / "semantic-layer" / "Shop").mkdir()
    (ingested_project / "semantic-layer" / "Shop" / "orders.yaml").write_text("name: orders\nvisibility: hidden\n")
    found = [each for each in diagnose(ingested_project, {}, only=["semantic"]) if "may hide" in each.message]
    (finding,) = found
    assert (finding.level, finding.location.path) == (Level.FAIL, "semantic-layer/Shop/orders.yaml")
    assert "is in the folder of `Shop`, which is not a connection in ktx.yaml" in finding.message
    assert (finding.hint or "").endswith("move it to semantic-layer/shop/, or remove it")
    (short,) = project_checks.check_compiled(
        CheckContext(Layout(ingested_project), load_config(Layout(ingested_project).config), {})
    )
    assert (short.level, short.location.path, short.message) == (Level.WARN, finding.location.path, finding.message)
    (ingested_project / "semantic-layer" / "Shop" / "orders.yaml").rename(
        ingested_project / "semantic-layer/shop/orders.yaml"
    )
    assert [each.level for each in diagnose(ingested_project, {}, only=["semantic"])] == [Level.OK]


# -- models and roles ------------------------------------------------------------------------------------------


@pytest.mark.table(
    ("ref", "code", "hint", "expected"),
    [
        (ModelRef("claude-code", "sonet"), "model", None, "ktx config set llm.models.default sonnet"),
        (ModelRef("anthropic", "claude-opus-5-6"), "model", None, "ktx config set llm.models.default claude-opus-5-5"),
        (ModelRef("claude-cli", "haikoo"), "model", None, "ktx config set llm.models.default claude-cli:sonnet"),
        (ModelRef("claude-code", "sonnet"), "model", None, "ktx config set llm.models.default MODEL"),
        (ModelRef("gateway", "qwen3:8b"), "model", None, "ktx config set llm.models.default MODEL"),
        (
            ModelRef("gateway", "x"),
            "connection",
            None,
            "check the network, the proxy and llm.provider.gateway.base_url",
        ),
        (ModelRef("claude-code", "sonnet"), "isolation", None, model_checks._AGAIN),
        (ModelRef("claude-code", "sonnet"), "isolation", "claude update", "claude update"),
    ],
)
def test_what_helps_a_model_that_does_not_answer(ref: ModelRef, code: str, hint: str | None, expected: str) -> None:
    error = llm_error(code, backend=ref.backend, model=ref.model, hint=hint)
    default = "anthropic" if ref.backend == "claude-cli" else ref.backend
    (finding,) = model_checks._backends_probed(ProbeResult(ref, ("default",), error=error), default)
    assert (finding.level, finding.hint) == (Level.FAIL, expected)


@pytest.mark.parametrize(
    ("entry", "statements"),
    [
        ("{driver: postgres, host: x}", "GRANT pg_read_all_data TO ktx_reader"),
        (
            "{driver: postgres, host: x, schemas: [mart, A]}",
            'GRANT SELECT ON ALL TABLES IN SCHEMA "mart", "A" TO ktx_reader',
        ),
        ("{driver: mysql, host: x}", "GRANT SELECT, SHOW VIEW ON `shop`.* TO ktx_reader@'%'"),
        ("{driver: sqlserver, host: x}", None),
    ],
)
def test_a_role_that_may_only_select(tmp_path: Path, entry: str, statements: str | None) -> None:
    (tmp_path / "ktx.yaml").write_text(f"connections:\n  a: {entry}\n")
    database = load_config(tmp_path / "ktx.yaml").config.databases()["a"]
    made = reader_role(database, ConnectionTest(1.0, "x", 1, database="shop"))
    assert (made is None) if statements is None else made is not None and made.endswith(statements)


@pytest.mark.mysql
def test_the_role_it_names_is_one_that_may_only_select(tmp_path: Path, mariadb_server: MariaDBServer) -> None:
    mariadb_server.create_database("doctor_roles", "CREATE TABLE a (id INT)")
    (tmp_path / "ktx.yaml").write_text("connections:\n  my:\n    driver: mysql\n    url: env:MY_URL\n")
    environ = {"MY_URL": mariadb_server.url("doctor_roles")}
    (finding,) = diagnose(tmp_path, environ, only=["connections"])
    assert (finding.level, "has write access" in finding.message) == (Level.WARN, True)
    statements = (finding.hint or "").partition(": ")[2].partition("; then: ")[0].replace("...", "made-up")
    mariadb_server.execute("DROP USER IF EXISTS ktx_reader@'%'", *statements.split("; "))
    reader = {"MY_URL": mariadb_server.url("doctor_roles", user="ktx_reader", password="made-up")}
    config = load_config(tmp_path / "ktx.yaml").config
    test = probe_connection(config, "my", project_dir=tmp_path, environ=reader)
    assert (test.can_write, test.tables) == (False, 1)
    assert dataclasses.replace(test).closed == ()


# -- embeddings and the index ----------------------------------------------------------------------------------


@pytest.fixture
def offline(monkeypatch: pytest.MonkeyPatch) -> None:
    """Put back what keeps the libraries of models off the network; the checks switch it on."""
    for name in ("HF_HUB_OFFLINE", "TRANSFORMERS_OFFLINE", "HF_HUB_DISABLE_PROGRESS_BARS"):
        monkeypatch.setenv(name, "")


@pytest.mark.usefixtures("offline")
def test_a_model_that_makes_vectors_and_an_index_that_lacks_them(ingested_project: Path) -> None:
    assert diagnose(ingested_project, {}, only=["index"])[0].level is Level.OK
    small_model(ingested_project / "model")
    config = ingested_project / "ktx.yaml"
    config.write_text(config.read_text() + "ingest:\n  embeddings: {backend: model2vec, model: model}\n")
    (made,) = diagnose(ingested_project, {}, only=["embeddings"])
    assert (made.level, made.message) == (Level.OK, "model2vec:model computes vectors of 3 numbers")
    (lacks,) = diagnose(ingested_project, {}, only=["index"])
    assert (lacks.level, lacks.message, lacks.hint) == (Level.WARN, "the index has no vectors", "ktx index")
    mended = examine(ingested_project, {}, only=["index"], fix=True)
    assert [each.level for each in mended.findings] == [Level.OK], mended


@pytest.mark.parametrize(
    ("status", "answer", "concern", "hint"),
    [
        (200, {"data": [{"index": 0, "embedding": [1.0, 2.0]}]}, Concern.OTHER, f"{SET}.dimensions 2"),
        (401, {}, Concern.AUTH, "export THE_KEY=..."),
        (404, {}, Concern.OTHER, f"{SET}.model MODEL"),
        (400, {}, Concern.OTHER, f"{SET}.openai.base_url URL"),
    ],
)
def test_a_server_of_embeddings_that_does_not_do(
    tmp_path: Path, status: int, answer: object, concern: Concern, hint: str
) -> None:
    server = Server()
    server.answers = [(status, answer)]
    openai = f"{{base_url: '{server.url}', api_key: 'env:THE_KEY'}}"
    (tmp_path / "ktx.yaml").write_text(
        f"ingest:\n  embeddings: {{backend: openai, dimensions: 3, openai: {openai}}}\n"
        "  rateLimit: {retry: {maxAttempts: 1}}\n"
    )
    try:
        (finding,) = diagnose(tmp_path, {"THE_KEY": "made-up"}, only=["embeddings"])
    finally:
        server.stop()
    assert (finding.level, finding.concern, finding.hint) == (Level.FAIL, concern, hint)


# -- the server for agents, the history of queries -------------------------------------------------------------


@pytest.mark.parametrize(
    ("status", "problem", "alive", "level", "hint"),
    [
        ("stopped", None, False, Level.OK, None),
        ("running", None, True, Level.OK, None),
        ("running", "the audit log fails: disk full", True, Level.WARN, "ktx mcp logs"),
        ("stale", "its process 9 is running, but does not respond", True, Level.WARN, "ktx mcp stop && ktx mcp start"),
        ("stale", "its process 9 is gone", False, Level.WARN, "ktx mcp stop"),
    ],
)
def test_the_server_for_agents(
    shop_project: Path,
    monkeypatch: pytest.MonkeyPatch,
    status: str,
    problem: str | None,
    alive: bool,
    level: Level,
    hint: str | None,
) -> None:
    settings = ServerSettings((ServedFolder("", str(shop_project)),))
    state = ServerState("x", settings, free_port(), token_required=False)
    state = state if alive else dataclasses.replace(state, process_start="another")
    told = ServerStatus(status, None if status == "stopped" else state, problem=problem)
    monkeypatch.setattr(doctor, "server_status", lambda layout: told)
    (finding,) = diagnose(shop_project, {}, only=["mcp"])
    assert (finding.level, finding.hint) == (level, hint)
    assert (finding.repair is None) is alive or status == "stopped"
    assert problem is None or problem in finding.message


@pytest.mark.parametrize("lives", [True, False])
def test_a_server_that_was_started_meanwhile_is_not_ended_by_the_fix(shop_project: Path, lives: bool) -> None:
    """The checks take seconds, and what is mended is what there is then."""
    layout = Layout(shop_project)
    settings = ServerSettings((ServedFolder("", str(shop_project)),))
    state = ServerState("x", settings, free_port(), token_required=False)
    write_server_state(layout, dataclasses.replace(state, process_start="another"))
    (finding,) = diagnose(shop_project, {}, only=["mcp"])
    assert finding.repair is not None
    with subprocess.Popen(["sleep", "600"]) as process:
        started = process_start(process.pid) if lives else "another"
        write_server_state(layout, dataclasses.replace(state, pid=process.pid, process_start=started or ""))
        said = finding.repair()
        assert process.poll() is None
        process.kill()
    assert (layout.mcp_state.exists(), "nothing was changed" in said) == (lives, lives)


def test_the_port_of_a_dead_server_may_be_another_programs(shop_project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.create_server(("127.0.0.1", 0)) as other:
        settings = ServerSettings((ServedFolder("", str(shop_project)),))
        state = ServerState("x", settings, other.getsockname()[1], token_required=False)
        dead = dataclasses.replace(state, process_start="another")
        monkeypatch.setattr(doctor, "server_status", lambda layout: ServerStatus("stale", dead, problem="it is gone"))
        (finding,) = diagnose(shop_project, {}, only=["mcp"])
    assert f"another program uses its port {state.port}" in finding.message
    assert finding.hint == "ktx mcp stop && ktx mcp start --port 0"


def test_a_history_of_queries_is_read_as_a_run_reads_it(shop_project: Path) -> None:
    config = shop_project / "ktx.yaml"
    history = "    context: {queryHistory: {enabled: true, file: queries.sql}}\n"
    config.write_text(config.read_text() + history)
    (missing,) = diagnose(shop_project, {}, only=["history"])
    assert (missing.check, missing.level, missing.concern) == ("history:shop", Level.FAIL, Concern.SETUP)
    assert missing.hint
    (shop_project / "queries.sql").write_text("SELECT id FROM orders;\n")
    (found,) = diagnose(shop_project, {}, only=["history"])
    assert (found.level, found.message) == (Level.OK, "queries.sql is readable")


# -- what servers accept, and where telemetry goes -----------------------------------------------------------------

ISSUER = "serving:\n  identity: {issuer: 'https://id.example.com', resource: 'https://ktx.example.com/mcp'%s}\n"


@pytest.mark.parametrize(
    ("settings", "level", "says"),
    [
        ("", Level.OK, "servers accept no access tokens"),
        (ISSUER % ", scopes: ['ktx:read']", Level.OK, "access tokens need ktx:read"),
        (ISSUER % "", Level.WARN, "grants for https://ktx.example.com/mcp is accepted"),
        (ISSUER % ", audience: ktx", Level.WARN, "grants for ktx is accepted"),
    ],
)
def test_access_tokens_need_a_scope(tmp_path: Path, settings: str, level: Level, says: str) -> None:
    (tmp_path / "ktx.yaml").write_text(CONFIG + settings)
    (found,) = diagnose(tmp_path, {}, only=["identity"])
    assert found.level is level and says in found.message
    hint = "ktx config set serving.identity.scopes '[\"ktx:read\"]'"
    assert (found.hint or "") == ("" if level is Level.OK else hint)


@pytest.mark.parametrize(
    ("collector", "more", "says"),
    [
        (None, {}, []),
        ({}, {}, []),
        ({"status": 400}, {}, []),
        ({"status": 404}, {}, ["responded with status 404, so it does not accept traces", "does not accept metrics"]),
        (
            {"status": 401},
            {"OTEL_METRICS_EXPORTER": "none"},
            ["responded with status 401, so it does not accept traces"],
        ),
        ({"status": 503}, {"OTEL_TRACES_EXPORTER": "none"}, ["did not accept metrics within"]),
        ({"delay": 30.0}, {"OTEL_METRICS_EXPORTER": "none"}, ["did not accept traces within"]),
        ({}, {"OTEL_EXPORTER_OTLP_TRACES_ENDPOINT": "http://127.0.0.1:9/"}, ["OTEL_EXPORTER_OTLP_TRACES_ENDPOINT"]),
        ({}, {"OTEL_EXPORTER_OTLP_PROTOCOL": "grpc"}, ["traces and metrics are not exported"]),
    ],
)
def test_the_collector_of_telemetry_answers(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    collector: dict[str, float] | None,
    more: dict[str, str],
    says: list[str],
) -> None:
    (tmp_path / "ktx.yaml").write_text(CONFIG)
    monkeypatch.setattr(export, "PROBE_SECONDS", 0.5)
    with collecting() as found:
        for name, value in (collector or {}).items():
            setattr(found, name, value)
        environ = {} if collector is None else {**found.environment, **more}
        environ |= {"OTEL_EXPORTER_OTLP_HEADERS": f"authorization={CANARY}"}
        for name, value in environ.items():
            monkeypatch.setenv(name, value)
        answers = diagnose(tmp_path, environ, only=["telemetry"])
        asked = len(found.bodies)
    assert [each.level for each in answers] == ([Level.WARN] * len(says) or [Level.OK])
    assert all(said in each.message for said, each in zip(says, answers, strict=False))
    assert not any(CANARY in f"{each.message} {each.hint}" or "127.0.0.1" in each.message for each in answers)
    assert asked or collector is None or "OTEL_EXPORTER_OTLP_PROTOCOL" in more
