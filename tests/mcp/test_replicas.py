"""Replicas of a server: they serve the published snapshot without a clone and without sessions, behind nginx."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from pathlib import Path

import psycopg
import pytest

from ktx_cli.jobs.serve.audit import audit_lines
from ktx_cli.project.layout import Layout
from ktx_cli.testing.servers import PostgresServer, free_port
from tests.docs.blocks import ROOT, blocks_of
from tests.mcp.wire import Got, Wire, ktx, made, started
from tests.telemetry.collector import collecting
from tests.worlds.shared_schema import SharedSchema

pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")

NGINX = shutil.which("nginx") or ("/usr/sbin/nginx" if Path("/usr/sbin/nginx").exists() else None)
USER = ("-c", "user.name=u", "-c", "user.email=u@example.com")


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", *USER, *words], cwd=folder, check=True, capture_output=True, text=True).stdout.strip()


@pytest.fixture
def clone(tmp_path: Path, shared_schema: SharedSchema) -> Path:
    """The company in git, with its state in Postgres."""
    folder = tmp_path / "clone"
    made(folder)
    config = folder / "ktx.yaml"
    config.write_text(config.read_text() + shared_schema.storage())
    (folder / ".gitignore").write_text("*.sqlite\n.ktx\n")
    for words in (("init", "-q", "-b", "main"), ("add", "-A"), ("commit", "-qm", "the context")):
        git(folder, *words)
    return folder


@pytest.fixture
def replica_folder(clone: Path, tmp_path: Path) -> Callable[[str], Path]:
    """Make the folder of a replica: the settings and the database, and no context."""

    def folder(name: str) -> Path:
        place = tmp_path / name
        place.mkdir()
        shutil.copy(clone / "ktx.yaml", place)
        for path in clone.glob("*.sqlite"):
            shutil.copy(path, place)
        return place

    return folder


REVENUE = {"measures": ["orders.revenue"]}


def revenue(wire: Wire) -> Got:
    return wire.ask("tools/call", {"name": "sl_query", "arguments": REVENUE})


def facts(got: Got) -> object:
    """Return an answer without the times at which it was computed."""
    found = json.loads(got.message["result"]["content"][0]["text"])
    receipt = {name: value for name, value in found["receipt"].items() if name not in ("timing_ms", "answered")}
    return [found["columns"], found["rows"], receipt]


def status(folder: Path, command: str = "status", *words: str) -> str:
    return ktx("mcp", command, *words, folder=folder).stdout


def served_commit(folder: Path) -> object:
    return json.loads(status(folder, "status", "--json"))["data"]["snapshot"]["commit"]


def measures(wire: Wire) -> str:
    _, _, text = wire.call("sl_list", {})
    return text


def test_a_replica_serves_the_published_commit_and_then_the_next(
    clone: Path, replica_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    place = replica_folder("one")
    missing = ktx("mcp", "start", "--replica", "--port", "0", "--json", folder=place)
    assert missing.returncode == 3 and "no snapshot" in json.loads(missing.stdout)["error"]["message"]
    assert json.loads(missing.stdout)["error"]["hint"] == "in a clone of the project: ktx mcp publish"
    here = json.loads(ktx("mcp", "publish", "--json", folder=place).stdout)["error"]
    assert "not in a git repository" in here["message"] and here["hint"].startswith("run ktx mcp publish in a clone")
    orders = clone / "semantic-layer" / "shop" / "orders.yaml"
    (clone / "wiki" / "global").mkdir(parents=True, exist_ok=True)
    orders.write_text(orders.read_text() + "  # an edit that nobody committed\n")
    done = json.loads(ktx("mcp", "publish", "--json", folder=clone).stdout)
    assert done["data"]["commit"] == git(clone, "rev-parse", "HEAD")
    with started(place, "--replica") as wire:
        answer = revenue(wire)
        assert answer.status == 200 and "mcp-session-id" not in answer.headers
        for method in ("GET", "DELETE"):
            refused = wire.send(method, headers={"Origin": "http://localhost"})
            assert (refused.status, refused.headers["allow"]) == (405, "POST"), "a stream would never end"
        assert json.loads(answer.message["result"]["content"][0]["text"])["rows"]
        assert not (place / "semantic-layer").exists()
        assert {each["name"] for each in wire.tools()}.isdisjoint({"memory_ingest", "ingest_start"})
        assert "turnover" not in measures(wire)
        assert served_commit(place) == done["data"]["commit"] and f"commit: {served_commit(place)}" in status(place)
        assert "with: replica, read only" in status(place).splitlines()
        orders.write_text(orders.read_text().replace("measures:", "measures:\n  - {name: turnover, expr: sum(amount)}"))
        git(clone, "commit", "-qam", "add a measure")
        quiet = ktx("mcp", "publish", "--quiet", folder=clone)
        assert (quiet.returncode, quiet.stdout, quiet.stderr) == (0, "", ""), "cron would send it by mail"
        deadline = time.monotonic() + 30
        while "turnover" not in measures(wire):
            assert time.monotonic() < deadline
            time.sleep(0.3)
        second = git(clone, "rev-parse", "HEAD")
        while served_commit(place) != second:
            assert time.monotonic() < deadline
            time.sleep(0.3)
        logged = [line.split()[5] for line in status(place, "logs").splitlines() if "serving commit" in line]
        assert logged == [f"{each}," for each in (done["data"]["commit"], second)]
        for path in ("/health", "/healthz", "/readyz"):
            assert second[:12] not in wire.send("GET", path).body.decode()
        orders.write_text("name: [")
        git(clone, "commit", "-qam", "break it")
        assert ktx("mcp", "publish", folder=clone).returncode == 0
        assert wire.send("GET", "/readyz").status == 200
        broken = git(clone, "rev-parse", "HEAD")
        git(clone, "checkout", "-q", "HEAD~1")
        refused = ktx("mcp", "publish", "--json", folder=clone)
        assert refused.returncode == 1 and "is older than" in json.loads(refused.stdout)["error"]["message"]
        back = json.loads(ktx("mcp", "publish", "--force", "--json", folder=clone).stdout)["data"]
        assert (back["commit"], back["replaced"]) == (git(clone, "rev-parse", "HEAD"), broken)


WAITING = """\
CREATE FUNCTION {0}.released() RETURNS int LANGUAGE plpgsql AS $$ BEGIN
  WHILE NOT pg_try_advisory_xact_lock_shared({1}) LOOP PERFORM pg_sleep(0.05); END LOOP;
  RETURN 1;
END $$;
CREATE VIEW {0}.waiting AS SELECT {0}.released() AS id
"""
"""A view whose only row comes when nobody holds the lock any more."""


def test_a_call_in_progress_ends_with_the_snapshot_it_began_with(
    clone: Path, replica_folder: Callable[[str], Path], shared_schema: SharedSchema
) -> None:
    schema, number, server = f"{shared_schema.name}_data", os.getpid(), shared_schema.server
    server.execute(f"CREATE SCHEMA {schema}", WAITING.format(schema, number))
    config = clone / "ktx.yaml"
    connection = f"  waits: {{driver: postgres, url: 'env:KTX_STATE_URL', schemas: [{schema}]}}\n"
    config.write_text(config.read_text().replace("connections:\n", f"connections:\n{connection}"))
    source = clone / "semantic-layer" / "waits" / "waiting.yaml"
    source.parent.mkdir()
    text = f"name: waiting\ntable: {schema}.waiting\ngrain: [id]\ncolumns: [{{name: id, type: number}}]\n"
    source.write_text(f"{text}measures: [{{name: old, expr: count(*)}}]\n")
    git(clone, "add", "-A")
    git(clone, "commit", "-qm", "a source that waits")
    assert ktx("mcp", "publish", folder=clone).returncode == 0
    place = replica_folder("one")
    with started(place, "--replica") as wire, ThreadPoolExecutor() as pool:
        query = {"connection": "waits", "measures": ["waiting.old"]}
        with psycopg.connect(server.url(), autocommit=True) as session:
            session.execute("SELECT pg_advisory_lock(%s)", (number,))
            begun = pool.submit(wire.call, "sl_query", query)
            for step in ("second", "third"):
                source.write_text(f"{text}measures: [{{name: {step}, expr: count(*)}}]\n")
                git(clone, "commit", "-qam", step)
                assert ktx("mcp", "publish", folder=clone).returncode == 0
                deadline = time.monotonic() + 30
                while step not in measures(wire):
                    assert time.monotonic() < deadline
                    time.sleep(0.3)
            assert not begun.done()
        status, error, answer = begun.result(30)
        assert (status, error) == (200, None) and json.loads(answer)["rows"] == [[1]]
        assert wire.call("sl_query", query)[1] is not None  # the measure is not in the snapshot that is served now
        assert len(list((place / ".ktx" / "snapshots").iterdir())) == 3
    server.execute(f"DROP SCHEMA {schema} CASCADE")


def test_the_calls_of_a_replica_are_traced_and_measured(
    clone: Path, replica_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    """With the snapshot that it began with and with the next one; nothing says which project it is."""
    assert ktx("mcp", "publish", folder=clone).returncode == 0
    place, orders = replica_folder("one"), clone / "semantic-layer" / "shop" / "orders.yaml"
    trace = f"00-{'1f' * 16}-{'2e' * 8}-01"
    with collecting() as collector:
        for name, value in collector.environment.items():
            monkeypatch.setenv(name, value)
        with started(place, "--replica") as wire:
            assert facts(revenue(wire))
            traced = {"name": "sl_query", "arguments": REVENUE, "_meta": {"traceparent": trace}}
            assert wire.ask("tools/call", traced).status == 200
            orders.write_text(
                orders.read_text().replace("measures:", "measures:\n  - {name: turnover, expr: sum(amount)}")
            )
            git(clone, "commit", "-qam", "add a measure")
            commit = git(clone, "rev-parse", "HEAD")
            with monkeypatch.context() as patch:
                patch.setenv("OTEL_SDK_DISABLED", "true")
                done = json.loads(ktx("mcp", "publish", "--json", folder=clone).stdout)["data"]
                published = int(datetime.fromisoformat(done["published"]).timestamp())
            turnover = {"measures": ["orders.turnover"]}
            deadline = time.monotonic() + 30
            while wire.call("sl_query", turnover)[1] is not None:
                assert time.monotonic() < deadline
                time.sleep(0.3)
            assert wire.call("canary_tool", {})[1] is not None
            assert wire.ask("resources/read", {"uri": "ktx://wiki/refunds"}).status == 200
    calls = collector.named("tools/call sl_query")
    answered = [each for each in calls if "error.type" not in each.attributes]
    assert len(answered) == 3 and all(each.kind == 2 for each in calls)
    assert [(each.trace_id, each.parent_id) for each in answered if each.parent_id] == [("1f" * 16, "2e" * 8)]
    assert len({each.trace_id for each in calls}) == len(calls), "each request is a trace of its own"
    assert {each.attributes["error.type"] for each in calls if each not in answered} <= {"unknown_name"}
    for each in answered:
        statements = [span for span in collector.named("query sqlite") if span.parent_id == each.span_id]
        assert {span.attributes["ktx.connection"] for span in statements} == {"shop"}
    assert len(collector.named("tools/call unknown")) == len(collector.named("resources/read")) == 1
    (server,) = collector.named("ktx mcp-server")
    assert server.attributes["process.exit.code"] == 0
    metrics = collector.metrics()
    durations = [each for each, _ in metrics["mcp.server.operation.duration"]]
    assert {"mcp.method.name": "tools/call", "gen_ai.tool.name": "sl_query"} in durations
    assert {"db.system.name": "sqlite"} in [each for each, _ in metrics["db.client.operation.duration"]]
    assert ({"ktx.snapshot.commit": commit}, published) in metrics["ktx.snapshot.published"]
    received = collector.received()
    assert not any(word.encode() in received for word in ("turnover", "canary", str(place), "refunds"))


@contextlib.contextmanager
def nginx(folder: Path, ports: list[int]) -> Iterator[int]:
    """Run nginx in front of servers; yields its port."""
    assert NGINX is not None
    port = free_port()
    folder.mkdir()
    servers = " ".join(f"server 127.0.0.1:{each} max_fails=1 fail_timeout=1s;" for each in ports)
    settings = f"""
daemon off; pid {folder}/pid; error_log {folder}/error.log; worker_processes 1;
events {{ worker_connections 256; }}
http {{
  access_log off; client_body_temp_path {folder}/body; proxy_temp_path {folder}/proxy;
  fastcgi_temp_path {folder}/f; uwsgi_temp_path {folder}/u; scgi_temp_path {folder}/s;
  upstream ktx {{ {servers} }}
  server {{
    listen 127.0.0.1:{port};
    location / {{
      proxy_pass http://ktx; proxy_http_version 1.1; proxy_set_header Host localhost; proxy_buffering off;
      proxy_next_upstream error timeout http_503 non_idempotent;
    }}
  }}
}}
"""
    (folder / "nginx.conf").write_text(settings)
    command = [NGINX, "-e", str(folder / "error.log"), "-c", str(folder / "nginx.conf"), "-p", str(folder)]
    with subprocess.Popen(command, stderr=subprocess.DEVNULL) as process:
        try:
            deadline = time.monotonic() + 30
            while True:
                with contextlib.suppress(OSError):
                    Wire(port).send("GET", "/healthz")
                    break
                assert time.monotonic() < deadline, (folder / "error.log").read_text()
                time.sleep(0.05)
            yield port
        finally:
            process.terminate()


@pytest.mark.skipif(NGINX is None and "CI" not in os.environ, reason="nginx is not installed")
def test_two_replicas_behind_nginx_answer_alike_and_one_may_die(
    clone: Path, replica_folder: Callable[[str], Path], tmp_path: Path
) -> None:
    assert ktx("mcp", "publish", folder=clone).returncode == 0
    one, two = replica_folder("one"), replica_folder("two")
    with started(one, "--replica") as first, started(two, "--replica") as second:
        alone = facts(revenue(first))
        with nginx(tmp_path / "nginx", [first.port, second.port]) as port:
            wire = Wire(port)
            wire.initialize()
            assert wire.session is None
            for _ in range(10):
                got = revenue(wire)
                assert got.status == 200 and facts(got) == alone
            seen = Counter(each["server"] for each in audit_lines(Layout(clone)))
            assert len(seen) == 2 and min(seen.values()) >= 3, seen
            failures: list[int] = []
            stop = threading.Event()

            def ask() -> None:
                while not stop.is_set():
                    got = revenue(Wire(port))
                    if got.status != 200 or facts(got) != alone:
                        failures.append(got.status)

            asking = [threading.Thread(target=ask) for _ in range(3)]
            for each in asking:
                each.start()
            time.sleep(0.5)
            os.kill(json.loads((one / ".ktx/mcp.json").read_text())["pid"], signal.SIGKILL)
            time.sleep(2)
            stop.set()
            for each in asking:
                each.join(30)
            assert not failures


def test_probes_need_no_token_and_no_known_host_and_say_nothing_else(
    clone: Path, replica_folder: Callable[[str], Path], postgres_server: PostgresServer
) -> None:
    assert ktx("mcp", "publish", folder=clone).returncode == 0
    place = replica_folder("one")
    with started(place, "--replica", token="a-token-that-is-long-enough-for-it") as wire:
        wire.token = None
        for path in ("/healthz", "/readyz"):
            got = wire.send("GET", path, headers={"Host": "10.1.2.3:7878"})
            assert got.status == 200 and json.loads(got.body) == {"status": "ok"}
            assert wire.send("POST", path, body={}).status in (401, 404, 405)
        assert wire.send("GET", "/health", headers={"Host": "10.1.2.3:7878"}).status == 403
        settings = (place / "ktx.yaml").read_text()
        (place / "ktx.yaml").write_text("storage: [")
        time.sleep(1.2)
        got = wire.send("GET", "/readyz")
        assert got.status == 503 and json.loads(got.body) == {"status": "unavailable"}
        assert wire.send("GET", "/healthz").status == 200
        (place / "ktx.yaml").write_text(settings)


@pytest.mark.skipif(shutil.which("curl") is None and "CI" not in os.environ, reason="curl is not installed")
def test_the_requests_of_the_guide(clone: Path, replica_folder: Callable[[str], Path], tmp_path: Path) -> None:
    page = "docs/guides/shared.md"
    (block,) = [each for each in blocks_of((ROOT / page).read_text(), page) if each.title == "ask.sh"]
    script = tmp_path / "ask.sh"
    script.write_text(block.text.replace("order_revenue.net_revenue", "orders.revenue"))
    assert ktx("mcp", "publish", folder=clone).returncode == 0
    token = "a-token-that-is-long-enough-for-it"
    with started(replica_folder("one"), "--replica", token=token) as wire:
        environ = {**os.environ, "KTX_URL": f"http://127.0.0.1:{wire.port}/mcp", "KTX_MCP_TOKEN": token}
        done = subprocess.run(["sh", str(script)], env=environ, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        first, second = (json.loads(line)["result"] for line in done.stdout.splitlines())
        assert first["serverInfo"]["name"] == "ktx" and second["structuredContent"]["rows"]
        environ["KTX_MCP_TOKEN"] = "another"
        refused = subprocess.run(["sh", str(script)], env=environ, capture_output=True, text=True, check=False)
        assert refused.returncode == 22 and "the token is missing or wrong" in refused.stdout


def test_the_status_of_a_replica_says_why_it_does_not_serve_the_newest(
    clone: Path, replica_folder: Callable[[str], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert ktx("mcp", "publish", folder=clone).returncode == 0
    place = replica_folder("one")
    settings = (place / "ktx.yaml").read_text()

    def warnings() -> list[dict[str, str]]:
        found: list[dict[str, str]] = json.loads(status(place, "status", "--json"))["warnings"]
        return found

    def wait_for(wanted: int) -> list[dict[str, str]]:
        deadline = time.monotonic() + 30
        while len(found := warnings()) != wanted:
            assert time.monotonic() < deadline
            time.sleep(0.3)
        return found

    with started(place, "--replica") as wire:
        assert warnings() == []
        (place / "ktx.yaml").write_text(f"{settings}mounts: {{other: ../other}}\n")
        (warning,) = wait_for(1)
        assert "keeps its snapshot and its settings" in warning["message"] and "mounts others" in warning["message"]
        assert warning["hint"].startswith("remove `mounts`") and warning["message"] in status(place)
        (found,) = json.loads(ktx("doctor", "--only", "mcp", "--json", folder=place).stdout)["data"]["findings"]
        assert found["level"] == "warn" and warning["message"] in found["message"]
        assert wire.send("GET", "/readyz").status == 503 and facts(revenue(wire))
        (place / "ktx.yaml").write_text(settings)
        assert wait_for(0) == []


def test_who_writes_to_the_database_does_not_say_where_secrets_go(
    clone: Path, replica_folder: Callable[[str], Path], postgres_server: PostgresServer
) -> None:
    """The settings of a snapshot have no effect on a replica, which has its own."""
    place = replica_folder("one")
    config = clone / "ktx.yaml"
    config.write_text(config.read_text().replace("shop.sqlite", "elsewhere.sqlite"))
    git(clone, "commit", "-qam", "read another database")
    assert ktx("mcp", "publish", folder=clone).returncode == 0
    with started(place, "--replica") as wire:
        assert facts(revenue(wire))
        (copy,) = (place / ".ktx" / "snapshots").iterdir()
        assert (copy / "ktx.yaml").read_text() == (place / "ktx.yaml").read_text()


def test_the_status_in_the_folder_of_a_replica_says_where_its_context_comes_from(
    clone: Path, replica_folder: Callable[[str], Path]
) -> None:
    place = replica_folder("one")
    new = json.loads(ktx("status", "--json", folder=place).stdout)
    assert new["error"]["hint"] == "ktx ingest shop", "it may be a new project as well"
    assert ktx("mcp", "publish", folder=clone).returncode == 0
    done = ktx("status", "--json", folder=place)
    data = json.loads(done.stdout)["data"]
    checks = {each["check"]: each for each in data["checks"]}
    assert done.returncode == 0 and data["ready"] and data["next"] is None
    assert checks["context"]["level"] == checks["repository"]["level"] == "ok"
    for word in (git(clone, "rev-parse", "HEAD")[:12], "the folder of a replica", "`ktx mcp publish`"):
        assert word in checks["context"]["message"]
    assert ktx("doctor", "--only", "context", folder=place).returncode == 0
    shown = ktx("status", folder=place).stdout.splitlines()
    assert "ready: yes" in shown, "the files of a snapshot are not here, so nothing is known to be wrong with them"
    assert {"layer: in the snapshot", "index: not needed: a replica searches its copy of the snapshot"} <= {*shown}
    assert not (place / ".git").exists() and not (place / "semantic-layer").exists()
    assert data["index"]["state"] == "not_needed" and checks["semantic"]["level"] == "skip"


def test_the_doctor_in_the_folder_of_a_replica_asks_for_nothing_that_only_a_clone_has(
    clone: Path, replica_folder: Callable[[str], Path]
) -> None:
    config = clone / "ktx.yaml"
    source = "connections:\n  handbook: {driver: documents, path: handbook}\n"
    config.write_text(config.read_text().replace("connections:\n", source))
    (clone / "handbook").mkdir()
    (clone / "handbook" / "orders.md").write_text("# Orders\n\nAn order is a purchase.\n")
    git(clone, "add", "-A")
    git(clone, "commit", "-qm", "read the handbook")
    assert ktx("mcp", "publish", folder=clone).returncode == 0
    names = ("wiki", "semantic", "decisions", "conventions", "index", "connections")
    words = [word for name in names for word in ("--only", name)]
    for folder, level in ((clone, {"ok", "warn"}), (replica_folder("one"), {"skip"})):
        done = json.loads(ktx("doctor", *words, "--json", folder=folder).stdout)
        levels = {each["check"]: each["level"] for each in done["data"]["findings"]}
        assert done["ok"] and levels.pop("connection:shop") == "ok", done
        assert set(levels) == {*names[:-1], "connection:handbook"} and set(levels.values()) <= level, levels


def test_the_status_of_a_replica_over_http_names_no_host_and_misses_no_git(
    clone: Path, replica_folder: Callable[[str], Path], shared_schema: SharedSchema, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its container has no git; the host, the user and the schema of the shared database stay in its log."""
    assert ktx("mcp", "publish", folder=clone).returncode == 0
    place = replica_folder("one")
    monkeypatch.setenv("PATH", str(place / "no-programs"))
    with started(place, "--replica") as wire:
        _, error, text = wire.call("context_status", {})
        assert error is None
        levels = {each["check"]: each["level"] for each in json.loads(text)["checks"]}
        assert {levels[each] for each in ("repository", "shared", "shared:snapshot", "state", "lock")} == {"ok"}, text
        with psycopg.connect(shared_schema.server.url()) as session:
            facts = session.info.host, str(session.info.port), session.info.user, shared_schema.name
        for word in (*facts, "git ", str(place)):
            assert word not in text, word
        assert "not needed" in status_of_check(place, "repository")


def status_of_check(folder: Path, name: str) -> str:
    """Return the message of a check as whoever runs the replica sees it."""
    data = json.loads(ktx("status", "--json", folder=folder).stdout)["data"]
    (found,) = (each["message"] for each in data["checks"] if each["check"] == name)
    return str(found)
