"""The database servers the tests share, how many tests ran on each, tables of cases, the wall around every model."""

from __future__ import annotations

import atexit
import fcntl
import functools
import gc
import importlib
import inspect
import os
import socket
import sys
import tempfile
import uuid
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import trustme
from hypothesis import settings
from hypothesis.internal.conjecture import providers

from ktx_cli.llm.backends.claude.launcher import KEPT, dropped_names
from ktx_cli.project import Layout, git, lock, secrets, shared_state, state
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.servers import (
    MariaDBServer,
    PostgresServer,
    RecordingPostgresServer,
    ServerMissingError,
    TestServer,
    VectorPostgresServer,
)
from ktx_cli.testing.spark_server import SparkServer
from tests.worlds.forks import leave_shared
from tests.worlds.shared_schema import SharedSchema

EXAMPLES = 100 if os.environ.get("KTX_TEST_FULL") else 15
"""Examples of a property whose test does not say how many."""

settings.register_profile("here", deadline=None, max_examples=EXAMPLES)
settings.register_profile("ci", deadline=None, max_examples=EXAMPLES, derandomize=True)
settings.load_profile("ci" if os.environ.get("CI") else "here")
if not os.environ.get("KTX_TEST_FULL"):
    # Else an example depends on which modules its worker has loaded, and each worker reads the whole package for it.
    assert callable(providers.is_local_module_file)
    providers.is_local_module_file = lambda path: False
# How long an example takes is for benchmarks. What a commit's CI says must not hang on chance; runs elsewhere look on.

sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
# Else the tests and, in each of the hundreds of programs they start, the package would be compiled again and again.

gc.disable()
# Until all tests are collected: modules and tests are kept, there is nothing to find.

MEMORY = Path("/dev/shm")
ROOM = 4 << 30
"""Bytes that must be free in memory for the temporary files of a run; it takes less than half of them."""


def keep_temporary_files_in_memory() -> None:
    """Have temporary folders in memory where there is room and programs may run: a disk is what most tests wait for."""
    if "TMPDIR" in os.environ or not os.access(MEMORY, os.W_OK | os.X_OK):
        return
    room = os.statvfs(MEMORY)
    if room.f_bavail * room.f_frsize >= ROOM and not room.f_flag & os.ST_NOEXEC:
        tempfile.tempdir = os.environ["TMPDIR"] = str(MEMORY)


keep_temporary_files_in_memory()


atexit.register(gc.unfreeze)  # the interpreter clears all at its end, or libraries complain; pytest need not look


def pytest_configure(config: pytest.Config) -> None:
    """End a worker without taking apart what it collected: that takes seconds, for which the run would wait."""
    config.addinivalue_line("markers", "spark: needs a Spark server (make spark) and Java")
    if hasattr(config, "workerinput"):
        atexit.register(os._exit, 0)  # registered before all others, it runs after them
        _tell_what_is_read(config.pluginmanager)


def _tell_what_is_read(plugins: pytest.PytestPluginManager) -> None:
    """Have a worker tell no more of a test than the run reads: that costs as much as most tests take.

    A setup or an end that passed changes nothing that is shown, and no plugin in use asks when a test begins.
    """
    (worker,) = (each for each in plugins.get_plugins() if type(each).__name__ == "WorkerInteractor")
    (report,) = (each for each in plugins.hook.pytest_runtest_logreport.get_hookimpls() if each.plugin is worker)
    (start,) = (each for each in plugins.hook.pytest_runtest_logstart.get_hookimpls() if each.plugin is worker)
    tell = report.function
    report.function = lambda report: None if report.passed and report.when != "call" else tell(report)
    start.function = lambda nodeid, location: None


@pytest.hookimpl(optionalhook=True)  # tests of this file run it in a session without that plugin
def pytest_xdist_auto_num_workers() -> int:
    """Begin one worker more than there are processors: each waits a third of its time for programs it started."""
    return (os.cpu_count() or 1) + 1


BuiltOnce = Callable[[str, Callable[[Path], None]], Path]
"""Takes a name and what builds a folder, and returns the folder."""

DEAD_PROXY = "http://127.0.0.1:9"
"""Where a program goes that was given no scripted model: nothing listens on the discard port."""


@pytest.fixture(autouse=True)
def no_secret_outlives_its_test() -> Iterator[None]:
    """Forget the secrets a test made up: one that is a word would be masked in what the next ones say."""
    secrets._KNOWN.discard("postgres")  # the password of the test server, which fixtures of a module make known
    before = set(secrets._KNOWN)
    yield
    secrets._KNOWN.intersection_update(before)


@pytest.fixture(autouse=True)
def no_project_outlives_its_test() -> None:
    """Forget the projects of other tests: git is looked for outside of each, whose folders are followed every time."""
    git._PROJECTS.clear()


@pytest.fixture(scope="session", autouse=True)
def one_certificate_to_trust(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """Trust one authority that nobody has: a client reads the system's for 40 ms at each of its transports.

    Programs that are started trust it too; a test of certificates names its own.
    """
    path = tmp_path_factory.mktemp("authority") / "authority.pem"
    trustme.CA().cert_pem.write_to_path(path)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SSL_CERT_FILE", str(path))
        yield


@pytest.fixture(scope="session", autouse=True)
def one_tree_of_commands() -> Iterator[None]:
    """Have typer's runner build the commands of an app once, as a process does, and not for every call."""
    import typer.testing

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(typer.testing, "_get_command", functools.cache(typer.main.get_command))
        yield


@pytest.fixture(scope="session", autouse=True)
def no_model_but_scripted_ones() -> Iterator[None]:
    """Make every other model call impossible: no credentials, no way out of this machine.

    Programs that are started get a proxy nobody answers; sockets of this process connect to loopback alone.
    """
    connect = socket.socket.connect

    def connect_here(self: socket.socket, address: Any) -> None:
        if self.family in (socket.AF_INET, socket.AF_INET6) and not _is_loopback(address[0]):
            raise AssertionError(f"a test tried to leave the machine: {address}")
        connect(self, address)

    with pytest.MonkeyPatch.context() as patch:
        for name in (*dropped_names(os.environ), *KEPT, "CLAUDE_CONFIG_DIR", "CODEX_HOME"):
            patch.delenv(name, raising=False)
        for name in ("HTTPS_PROXY", "HTTP_PROXY", "https_proxy", "http_proxy", "ALL_PROXY", "all_proxy"):
            patch.setenv(name, DEAD_PROXY)
        for name in ("NO_PROXY", "no_proxy"):
            patch.setenv(name, "127.0.0.1,localhost")
        patch.setattr(socket.socket, "connect", connect_here)
        yield


def _is_loopback(host: str) -> bool:
    return host in ("localhost", "::1") or host.startswith("127.")


@pytest.fixture(scope="session")
def built_once(tmp_path_factory: pytest.TempPathFactory) -> BuiltOnce:
    """Return a function that has a folder built by the first worker that wants it: to be read, or copied."""
    base = tmp_path_factory.getbasetemp()
    root = base.parent if os.environ.get("PYTEST_XDIST_WORKER") else base

    def built(name: str, build: Callable[[Path], None]) -> Path:
        folder, done = root / name, root / f"{name}.done"
        with (root / f"{name}.lock").open("w") as lock:
            fcntl.flock(lock, fcntl.LOCK_EX)
            if not done.exists():
                build(folder)
                done.touch()
        return folder

    return built


@pytest.fixture(scope="session")
def demo_project(built_once: BuiltOnce) -> Path:
    """What `ktx demo` builds, made once for all workers: to be read, or copied."""
    from typer.testing import CliRunner

    from ktx_cli.cli.app import app

    def build(folder: Path) -> None:
        draft = folder.with_name("demo-company-draft")
        done = CliRunner().invoke(app, ["demo", str(draft)], prog_name="ktx", catch_exceptions=False)
        assert done.exit_code == 0, done.output
        folder.with_suffix(".txt").write_text(done.output.replace(str(draft), "ktx-demo"), "utf-8")
        os.replace(draft, folder)

    return built_once("demo-company", build)


@pytest.fixture(scope="session")
def demo_output(demo_project: Path) -> str:
    """What `ktx demo` printed when it built the demo: all of it, in the order of a terminal."""
    return demo_project.with_suffix(".txt").read_text("utf-8")


SERVERS = {"postgres": "Postgres", "mysql": "MariaDB (for MySQL)", "spark": "Spark"}


def _running(server: TestServer, built_once: BuiltOnce) -> Iterator[Any]:
    """Start a server for the session; a missing one skips, except where `CI` is set."""
    try:
        if server.account:
            server.made = built_once(f"server-of-{server.title or server.account}", server.keep)
        server.start()
    except ServerMissingError as error:
        if os.environ.get("CI"):
            raise
        pytest.skip(str(error))
    try:
        yield server
    finally:
        server.stop()


@pytest.fixture(scope="session")
def postgres_server(built_once: BuiltOnce) -> Iterator[PostgresServer]:
    """A Postgres server on a free loopback port."""
    yield from _running(PostgresServer(), built_once)


@pytest.fixture
def shared_schema(postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[SharedSchema]:
    """A schema for what the hosts of a project share; `KTX_STATE_URL` contains the URL of its server."""
    monkeypatch.setenv("KTX_STATE_URL", postgres_server.url())
    schema = SharedSchema(postgres_server)
    yield schema
    schema.drop()


@pytest.fixture(scope="session")
def vector_postgres(built_once: BuiltOnce) -> Iterator[VectorPostgresServer]:
    """A Postgres server with the extension pgvector, where its package has one for this platform."""
    if VectorPostgresServer.find() is None:
        pytest.skip("no package pgserver")
    yield from _running(VectorPostgresServer(), built_once)


@pytest.fixture(scope="session")
def recording_postgres(built_once: BuiltOnce) -> Iterator[RecordingPostgresServer]:
    """A Postgres server that keeps the statements it was asked."""
    yield from _running(RecordingPostgresServer(), built_once)


@pytest.fixture(scope="session")
def mariadb_server(built_once: BuiltOnce) -> Iterator[MariaDBServer]:
    """A MariaDB server on a free loopback port."""
    yield from _running(MariaDBServer(), built_once)


@pytest.fixture(scope="session")
def spark_server(built_once: BuiltOnce) -> Iterator[SparkServer]:
    """A Spark Connect server on a free loopback port."""
    yield from _running(SparkServer(), built_once)


@pytest.fixture(scope="session")
def _one_model_server() -> Iterator[ModelServer]:
    with ModelServer() as server:
        yield server


@pytest.fixture
def model_server(_one_model_server: ModelServer) -> ModelServer:
    """A scripted model server, its script and its requests forgotten before each test."""
    _one_model_server.play(())
    return _one_model_server


def pytest_collection_finish() -> None:
    """Take all modules and tests out of what the collector of cycles looks through again and again."""
    gc.freeze()
    gc.set_threshold(500_000, 20, 50)  # trees of SQL are most of what is made; seldom looked at, they cost less
    gc.enable()


def pytest_unconfigure() -> None:
    """End what the tests of this process shared."""
    leave_shared()


def pytest_runtest_setup(item: pytest.Item) -> None:
    """Import the client library of a test when it runs: reading all of them takes each worker two seconds."""
    for mark in item.iter_markers("client"):
        pytest.importorskip(mark.args[0])


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Make slow what `in_turns(parameter)` and `one_in(number)` leave to the sweeps.

    Of `in_turns`, tests of up to three cases stay.
    """
    cases: dict[tuple[Path, str], dict[object, list[pytest.Item]]] = defaultdict(lambda: defaultdict(list))
    for item in items:
        mark = item.get_closest_marker("in_turns")
        params = item.callspec.params if isinstance(item, pytest.Function) and hasattr(item, "callspec") else {}
        if mark is not None and mark.args[0] in params:
            cases[item.path, item.originalname][params[mark.args[0]]].append(item)
    for values in cases.values():
        for place, value in enumerate(sorted(values, key=str)):
            for number, each in enumerate(values[value]) if len(values[value]) > 3 else ():
                if number % len(values) != place:
                    each.add_marker(pytest.mark.slow)
    seen: Counter[tuple[Path, str]] = Counter()
    for item in items:
        mark = item.get_closest_marker("one_in")
        if mark is not None and isinstance(item, pytest.Function) and item.get_closest_marker("slow") is None:
            if seen[item.path, item.originalname] % mark.args[0]:
                item.add_marker(pytest.mark.slow)
            seen[item.path, item.originalname] += 1


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Make one test of a function with `@pytest.mark.table(names, rows)`, however many rows there are."""
    for mark in metafunc.definition.iter_markers("table"):
        names = _names(mark)
        metafunc.parametrize(names, [[None] * len(names)], ids=["table"])


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Call the function of a table for every row; the error names all rows that failed, each with its own error."""
    mark = pyfuncitem.get_closest_marker("table")
    if mark is None:
        return None
    names, rows = _names(mark), _rows(mark)
    assert rows, "a table without rows tests nothing; an iterator has them once, a list each time"
    given = {name: pyfuncitem.funcargs[name] for name in inspect.signature(pyfuncitem.obj).parameters}
    errors = []
    for row in rows:
        try:
            pyfuncitem.obj(**{**given, **dict(zip(names, row, strict=True))})
        except (Exception, pytest.fail.Exception) as error:  # noqa: BLE001 - all rows are run, the errors raised below
            error.add_note(f"row: {row!r}")
            errors.append(error)
    if errors:
        raise BaseExceptionGroup(f"{len(errors)} of {len(rows)} rows failed", errors)
    return True


def _names(mark: pytest.Mark) -> tuple[str, ...]:
    return (mark.args[0],) if isinstance(mark.args[0], str) else tuple(mark.args[0])


def _rows(mark: pytest.Mark) -> list[tuple[Any, ...]]:
    """Return the rows: those of a function are made now, those of a list were by every worker that read the module."""
    names, rows = mark.args
    given = rows() if inspect.isfunction(rows) else rows
    return [(row,) if isinstance(names, str) else tuple(row) for row in given]


def pytest_terminal_summary(terminalreporter: Any) -> None:
    """Say how many tests ran on each server, so that a silent skip shows."""
    for mark, name in SERVERS.items():
        passed = [r for r in terminalreporter.getreports("passed") if r.when == "call" and mark in r.keywords]
        skipped = [r for r in terminalreporter.getreports("skipped") if mark in r.keywords]
        terminalreporter.write_line(f"{name}: {len(passed)} tests passed, {len(skipped)} skipped")


@pytest.fixture(autouse=True)
def state_in_postgres(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """With `KTX_TEST_STATE=postgres`, keep the state of each project of a test in a schema of its own in Postgres.

    The audit log stays in files, which tests write and read themselves. Tests about the file of the state database
    itself, and those that set the state of their projects, are skipped.
    """
    if os.environ.get("KTX_TEST_STATE") != "postgres":
        yield
        return
    importlib.import_module("ktx_cli.jobs.serve.audit")  # with the function that is replaced below
    server = request.getfixturevalue("postgres_server")
    made: dict[Path, shared_state.SharedDatabase] = {}

    def shared_state_of(layout: Layout) -> shared_state.SharedDatabase:
        root = layout.root.resolve()
        if root not in made:
            parameters = {"host": server.host, "port": str(server.port), "dbname": "postgres"}
            login = {"user": server.user, "password": server.password}
            made[root] = shared_state.SharedDatabase(parameters | login, f"ktx_{uuid.uuid4().hex[:12]}")
        return made[root]

    for module in (state, lock):
        monkeypatch.setattr(module, "shared_state_of", shared_state_of)
    try:
        yield
    finally:
        for each in made.values():
            reader = shared_state._READERS.pop(each, None)
            if reader is not None:
                reader.close()
            server.execute(f'DROP SCHEMA IF EXISTS "{each.schema}" CASCADE')
