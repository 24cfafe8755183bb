"""Workers that are stopped, paused, of another version, without secrets, or given packages that no run has stored."""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

import pytest

from ktx_cli.testing.model_script import TOO_LONG, ModelRequest, Reply
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.servers import PostgresServer
from tests.cli.agents import entered
from tests.cli.setup_terminal import KTX
from tests.worlds.forks import Started
from tests.worlds.shared_company import TOPICS, Model, SharedCompany

Run = Callable[..., Any]
Git = Callable[..., str]

pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")

INGEST: Final = ("ingest", "--json")


def stored(content: bytes) -> tuple[str, str]:
    """Return the sha256 of a content, and the statement that stores it."""
    name = hashlib.sha256(content).hexdigest()
    value = f"'\\x{content.hex()}'::bytea"
    return name, f"INSERT INTO shared_files VALUES ('{name}', {value}, '2999-01-01T00:00:00Z')"


def packages(shared: SharedCompany, package: dict[str, Any]) -> dict[str, tuple[Any, str]]:
    """Return packages that no run of this project has stored -> what a worker says about each."""
    row = shared.rows(f"SELECT content FROM shared_files WHERE sha256 = '{package['files']}'")
    tree = json.loads(row[0][0])
    settings = (shared.folder / "ktx.yaml").read_bytes()

    def with_files(**changes: str | None) -> dict[str, Any]:
        name, statement = stored(json.dumps({**tree, **changes}).encode())
        shared.rows(statement)
        return {**package, "files": name}

    elsewhere, statement = stored(settings.replace(b"http://127.0.0.1", b"http://elsewhere.example"))
    shared.rows(statement)
    works = [{**each, "connection": "other"} for each in package["works"]]
    some = next(iter(tree.values()))
    return {
        "another version": ({**package, "version": "0.0.1"}, "was started by ktx 0.0.1"),
        "an unknown connection": ({**package, "works": works}, "has no source of the kind"),
        "no tree": ({**package, "files": "../../../../evil"}, "is damaged"),
        "no package": ([], "is damaged"),
        "too much": ({**package, "more": 1}, "is damaged"),
        "no works": ({name: value for name, value in package.items() if name != "works"}, "is damaged"),
        "a path upwards": (with_files(**{"wiki/../../evil.md": some}), "leads out of the project"),
        "an absolute path": (with_files(**{"/tmp/ktx-evil.md": some}), "is absolute"),
        "a private path": (with_files(**{".ktx/evil.md": some}), "which ktx does not store there"),
        "a path beside": (with_files(**{"evil.py": some}), "which ktx does not store there"),
        "git's own path": (with_files(**{"wiki/.git/hooks/x": some}), "leads into .git"),
        "other settings": (with_files(**{"ktx.yaml": elsewhere}), "differs from the run"),
        "no settings": (with_files(**{"ktx.yaml": None}), "is not the name of a file"),
    }


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_a_worker_refuses_what_it_cannot_do_and_leaves_it_to_others(
    company: Path, configure: Run, shared: SharedCompany, model: Model
) -> None:
    configure(TOPICS[0])
    shared.configure()
    ingest = shared.start(*INGEST)
    ((text,),) = shared.wait_for("SELECT package FROM run_packages")
    shared.wait_for("SELECT id FROM QUEUE.procrastinate_jobs WHERE status = 'todo'")
    before = {path for path in company.rglob("*") if ".ktx" not in path.parts}
    for what, (package, message) in packages(shared, json.loads(text)).items():
        shared.rows(f"UPDATE run_packages SET package = $json${json.dumps(package)}$json$")
        worker = shared.start("worker")
        assert worker.wait() not in (0, -9), what
        said = " ".join(shared.said(worker).split())
        assert message in said and "Traceback" not in said, f"{what}: {said}"
        shared.wait_for("SELECT id FROM QUEUE.procrastinate_jobs WHERE status = 'todo'")
    shared.rows(f"UPDATE run_packages SET package = $json${text}$json$")
    worker = shared.start("worker", SCRIPTED_KEY="")
    assert worker.wait() not in (0, -9)
    assert "SCRIPTED_KEY" in shared.said(worker) and "Traceback" not in shared.said(worker)
    assert {path for path in company.rglob("*") if ".ktx" not in path.parts} == before
    assert not Path("/tmp/ktx-evil.md").exists() and not list((company / ".ktx").rglob("evil*"))
    assert sum(model.asked.values()) == 0, "none of them has asked a model"
    shared.start("worker")
    assert ingest.wait() == 0, shared.said(ingest)
    assert set(model.asked.values()) == {1} and len(model.asked) == 4


@pytest.mark.timeout(120)
@pytest.mark.parametrize("number", [pytest.param(signal.SIGINT, marks=pytest.mark.slow), signal.SIGTERM])
def test_a_stopped_worker_gives_its_unit_back_at_once(
    company: Path, configure: Run, shared: SharedCompany, model: Model, number: int
) -> None:
    configure(TOPICS[0])
    shared.configure(heartbeat=30)
    worker = shared.start("worker")
    stopped: list[int] = []

    def stop(topic: str, step: int) -> None:
        if step == 2 and not stopped:
            stopped.append(step)
            os.kill(worker.pid, number)
            time.sleep(1)

    model.on_request = stop
    ingest = shared.start(*INGEST)
    code = worker.wait()
    said = shared.said(worker)
    if number == signal.SIGTERM:  # as an orchestrator ends a service
        assert code == 0 and "work units\t1" in said.replace(": ", "\t") and "interrupted" not in said, said
    else:
        assert code == 130 and "another worker continues" in said, said
    assert "Traceback" not in said
    began = time.monotonic()
    shared.start("worker")
    assert ingest.wait() == 0, shared.said(ingest)
    assert time.monotonic() - began < 20
    assert model.asked.pop((TOPICS[0], 2)) <= 2 and set(model.asked.values()) == {1}


@pytest.mark.slow
@pytest.mark.timeout(120)
@pytest.mark.parametrize("times", [1, 2])
def test_an_interrupted_run_leaves_what_no_worker_has_begun(
    company: Path, configure: Run, shared: SharedCompany, model: Model, times: int
) -> None:
    """After the first Ctrl-C, units in progress may finish; after the second, workers end them too."""
    configure(*TOPICS[:3], at_once=1)
    shared.configure()
    worker = shared.start("worker")
    ingest = shared.start(*INGEST)
    stopped: list[int] = []

    def stop(topic: str, step: int) -> None:
        if step == 1 and not stopped:
            stopped.append(step)
            for _ in range(times):
                os.kill(ingest.pid, signal.SIGINT)
                time.sleep(1)

    model.on_request = stop
    assert ingest.wait() == 130, shared.said(ingest)
    assert "Traceback" not in shared.said(ingest)
    time.sleep(1)
    begun = {topic for topic, _ in model.asked}
    assert len(begun) == 1 and sum(model.asked.values()) == (4 if times == 1 else 2)
    assert shared.rows("SELECT count(*) FROM QUEUE.procrastinate_jobs") == [(0,)]
    model.on_request = lambda topic, step: None
    assert shared.start(*INGEST).wait() == 0
    again = {name for name, count in model.asked.items() if count > 1}
    assert len(again) <= times - 1 and max(model.asked.values()) <= 2, model.asked
    assert len(model.asked) == 12
    os.kill(worker.pid, 0)  # it still runs


def test_once(company: Path, configure: Run, shared: SharedCompany, model: Model) -> None:
    """With `--once`, a worker ends when nothing waits, and finishes what it has begun."""
    unused = company / ".ktx" / "shared" / "00" / ("0" * 64)
    unused.parent.mkdir(parents=True)
    unused.touch()
    os.utime(unused, (0, 0))
    configure(TOPICS[0])
    shared.configure()
    none = shared.start("worker", "--once")
    assert none.wait() == 0 and "no run has queued work units yet" in shared.said(none)
    ingest = shared.start(*INGEST)
    shared.wait_for("SELECT id FROM QUEUE.procrastinate_jobs WHERE status = 'todo'")
    model.on_request = lambda topic, step: time.sleep(0.3)
    worker = shared.start("worker", "--once", "--concurrency", "3", "--json")
    assert worker.wait() == 0, shared.said(worker)
    assert ingest.wait() == 0 and set(model.asked.values()) == {1}
    assert not unused.exists() and list(unused.parent.parent.glob("*/*")), "it keeps what it used"
    model.on_request = lambda topic, step: pytest.fail("a worker without a unit needs no model")
    idle = shared.start("worker", "--once", "--json", SCRIPTED_KEY="")
    assert idle.wait() == 0 and json.loads(shared.said(idle).splitlines()[-1])["data"] == {"units": 0, "runs": []}
    told = shared.start("worker", "--once")
    assert told.wait() == 0 and "nothing to do: no work units are waiting" in shared.said(told)


def test_secrets_are_not_in_the_shared_tables(
    company: Path, configure: Run, shared: SharedCompany, model: Model, postgres_server: PostgresServer
) -> None:
    configure(*TOPICS[:2])
    shared.configure(coordinator=True)
    key = "sk-ant-secret-of-this-machine"
    taken: list[str] = []
    model.on_request = lambda topic, step: taken.extend(everything(shared)) if step == 3 else None
    ingest = shared.start(*INGEST, SCRIPTED_KEY=key)
    assert ingest.wait() == 0, shared.said(ingest)
    rows = [*taken, *everything(shared)]
    assert len(rows) > 20
    assert [each for each in rows if key in each or postgres_server.url() in each or "postgres:postgres" in each] == []


def everything(shared: SharedCompany) -> list[str]:
    """Return all rows of the state and the queue as text."""
    found = []
    for schema in (shared.schema.name, shared.schema.queue):
        names = shared.rows(f"SELECT tablename FROM pg_tables WHERE schemaname = '{schema}'")
        for (name,) in names:
            found += [f"{name}: {row}" for row in shared.rows(f'SELECT * FROM "{schema}"."{name}"')]
    return found


def elsewhere(arguments: Sequence[str], *, folder: Path, environ: Mapping[str, str], said: Path) -> Started:
    """Start the installed ktx as on another host: one of another name."""
    inner = ["sh", "-c", 'hostname elsewhere && exec "$@"', "sh", KTX, *arguments]
    with said.open("wb") as file:
        return subprocess.Popen(
            [*UNSHARE, *inner],
            cwd=folder,
            env=dict(environ),
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )


UNSHARE: Final = ("unshare", "--uts", "--map-root-user")


@pytest.mark.slow
@pytest.mark.timeout(180)
@pytest.mark.parametrize("is_elsewhere", [False, True])
def test_a_paused_worker_stores_nothing_when_it_goes_on(
    company: Path, configure: Run, shared: SharedCompany, model: Model, git: Git, is_elsewhere: bool
) -> None:
    """Paused for longer than its heartbeats, with a request in flight; others continue its unit from its journal."""
    if is_elsewhere and subprocess.run([*UNSHARE, "true"], capture_output=True, check=False).returncode:
        pytest.skip("this machine gives no namespace for a host name")
    configure(TOPICS[0])
    shared.configure(heartbeat=0.8 if is_elsewhere else 0.2)
    worker = shared.start("worker", starter=elsewhere if is_elsewhere else None)
    paused: list[int] = []

    def pause(topic: str, step: int) -> None:
        if step == 2 and not paused:
            paused.append(step)
            os.killpg(worker.pid, signal.SIGSTOP)

    model.on_request = pause
    ingest = shared.start(*INGEST)
    while not paused:
        time.sleep(0.05)
    other = shared.start("worker")
    assert ingest.wait() == 0, shared.said(ingest)
    assert model.asked.pop((TOPICS[0], 2)) == 2 and set(model.asked.values()) == {1}
    tip = git(company, "rev-parse", "HEAD")
    os.killpg(worker.pid, signal.SIGCONT)
    time.sleep(2)
    os.kill(worker.pid, 0)
    os.kill(other.pid, 0)
    for table in ("unit_steps", "unit_outcomes", "QUEUE.procrastinate_jobs"):
        assert shared.rows(f"SELECT count(*) FROM {table}") == [(0,)], table
    assert "Traceback" not in shared.said(worker)
    assert model.asked.total() == 3 and git(company, "rev-parse", "HEAD") == tip
    assert shared.start(*INGEST).wait() == 0 and model.asked.total() == 3


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_of_two_runs_at_once_one_is_told_who_runs(
    company: Path, configure: Run, shared: SharedCompany, model: Model
) -> None:
    configure(*TOPICS[:2])
    shared.configure()
    shared.start("worker")
    runs = [shared.start(*INGEST) for _ in range(2)]
    assert sorted(each.wait() for each in runs) == [0, 6]
    assert set(model.asked.values()) == {1} and len(model.asked) == 8


@pytest.mark.slow
@pytest.mark.timeout(120)
def test_a_failed_unit_ends_the_run_if_the_settings_say_so(
    company: Path, configure: Run, shared: SharedCompany, model_server: ModelServer
) -> None:
    configure(*TOPICS[:3], failure="abort")
    shared.configure()
    model = Model()
    model.on_request = lambda topic, step: time.sleep(0.5)

    def script(request: ModelRequest) -> Reply:
        if f"Task: {TOPICS[0]}.md" in request.words:
            return TOO_LONG
        return model(request)

    model_server.play(script)
    shared.start("worker")
    ingest = shared.start(*INGEST)
    assert ingest.wait() == 1, shared.said(ingest)
    assert f"the work unit `{TOPICS[0]}.md` failed" in shared.said(ingest)
    assert len({topic for topic, _ in model.asked}) <= 1, "the units that had not begun are left"
    assert shared.rows("SELECT count(*) FROM QUEUE.procrastinate_jobs") == [(0,)]


COMMANDS: Final = (
    ("ingest", "--dry-run", "--json"),
    ("ingest", "--no-llm", "--json"),
    ("scan", "--json"),
    ("ingest", "--branch", "review", "--json"),
    ("status", "--json"),
    ("lint", "--json"),
    ("doctor", "--json"),
)


@pytest.mark.slow
@pytest.mark.timeout(180)
def test_other_commands_do_what_they_do_without_workers(
    company: Path, configure: Run, shared: SharedCompany, model: Model, tmp_path: Path
) -> None:
    configure(TOPICS[0])
    shutil.copytree(company, tmp_path / "alone")
    alone = SharedCompany(tmp_path / "alone", shared.schema, shared._forks, tmp_path)
    alone._scratch.joinpath("local").mkdir()
    alone._scratch = tmp_path / "local"
    shared.configure(coordinator=True)
    for words in COMMANDS:
        ends = {}
        for each in (alone, shared):
            process = each.start(*words)
            code = process.wait()
            lines = [line for line in each.said(process).splitlines() if line.startswith("{")]
            data = json.loads(lines[-1])["data"]
            ends[each] = code, data.get("status"), "Traceback" in each.said(process)
        assert ends[shared] == ends[alone], (words, shared.said(shared.started[-1]))


@pytest.mark.slow
@pytest.mark.timeout(240)
@pytest.mark.parametrize("backend", ["claude-code"])
def test_units_of_local_sessions(
    company: Path,
    configure: Run,
    shared: SharedCompany,
    model: Model,
    model_server: ModelServer,
    monkeypatch: pytest.MonkeyPatch,
    backend: str,
) -> None:
    configure(TOPICS[0])
    config = (company / "ktx.yaml").read_text()
    route = f"    writer: {backend}:sonnet\n"
    (company / "ktx.yaml").write_text(config.replace("  models:\n", f"  models:\n{route}"))
    shared.configure()
    with entered(backend, model_server, monkeypatch):
        worker = shared.start("worker")
        ingest = shared.start(*INGEST)
        assert ingest.wait() == 0, shared.said(ingest) + shared.said(worker)
        os.kill(worker.pid, signal.SIGTERM)
        assert worker.wait() == 0 and "Traceback" not in shared.said(worker), shared.said(worker)
    assert set(model.asked.values()) == {1} and len(model.asked) == 4
    assert (company / "wiki" / "global" / f"{TOPICS[0]}.md").exists()
