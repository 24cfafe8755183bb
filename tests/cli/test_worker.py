"""Units on workers: the same tree as in one process, whatever dies, and errors that say what to do."""

from __future__ import annotations

import os
import shutil
import signal
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.project import Layout, open_for_writing
from tests.cli.agents import LONG
from tests.telemetry.collector import collecting
from tests.worlds.forks import Forks, Started
from tests.worlds.shared_company import TOPICS, Model
from tests.worlds.shared_schema import SharedSchema

Run = Callable[..., Any]
Git = Callable[..., str]
pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")


@pytest.fixture
def share(company: Path, shared_schema: SharedSchema) -> Run:
    """Let the company's state and units be in Postgres."""

    def shared(*, coordinator: bool = False, executor: str = "postgres") -> None:
        path = company / "ktx.yaml"
        workers = f"executor: {executor}\n  workers: {{coordinator: {str(coordinator).lower()}}}"
        text = path.read_text().replace("ingest:\n", f"ingest:\n  {workers}\n")
        path.write_text(shared_schema.storage() + text)

    return shared


@pytest.fixture
def start(forks: Forks, tmp_path: Path) -> Iterator[Callable[..., Started]]:
    """Start `ktx` in a folder; what still runs at the end is killed."""
    running: list[Started] = []

    def started(folder: Path, *arguments: str) -> Started:
        said = tmp_path / f"said-{len(running)}"
        process = forks(arguments, folder=folder, environ=dict(os.environ), said=said)
        running.append(process)
        return process

    yield started
    for each in running:
        try:
            os.kill(each.pid, signal.SIGKILL)
        except ProcessLookupError:
            continue


def pages(folder: Path, git: Git) -> str:
    return git(folder, "rev-parse", "HEAD:wiki", "HEAD:semantic-layer", "HEAD:raw-sources")


def local_pages(company: Path, start: Callable[..., Started], git: Git, tmp_path: Path) -> str:
    """Return what one process makes of a copy."""
    copy = tmp_path / "local"
    shutil.copytree(company, copy)
    assert start(copy, "ingest").wait() == 0
    return pages(copy, git)


def said(tmp_path: Path) -> str:
    return "\n".join(path.read_text() for path in sorted(tmp_path.glob("said-*")))


def test_the_run_itself_works_if_there_are_no_workers(
    company: Path, configure: Run, share: Run, model: Model, start: Run, git: Git, tmp_path: Path
) -> None:
    configure(*TOPICS, at_once=2)
    expected = local_pages(company, start, git, tmp_path)
    model.asked.clear()
    share(coordinator=True)
    assert start(company, "ingest").wait() == 0, said(tmp_path)
    assert pages(company, git) == expected
    assert set(model.asked.values()) == {1} and len(model.asked) == 4 * len(TOPICS)


@pytest.mark.timeout(120)
def test_workers_of_other_clones_make_the_same_tree(
    company: Path, configure: Run, share: Run, model: Model, start: Run, git: Git, tmp_path: Path
) -> None:
    """One worker is in the run's folder; the clone of the other is at an older commit, without the run's changes."""
    configure(*TOPICS[:2], at_once=2)
    share()
    start(company, "worker")
    assert start(company, "ingest").wait() == 0, said(tmp_path)
    clone = tmp_path / "clone"
    shutil.copytree(company, clone, ignore=shutil.ignore_patterns(".ktx", "docs"))
    for topic in TOPICS[2:]:
        (company / "docs" / f"{topic}.md").write_text(f"# {topic}\n\n{LONG}")
    (company / "wiki" / "global" / "fees.md").write_text(
        (company / "wiki" / "global" / "fees.md").read_text() + "\nChanged since.\n"
    )
    git(company, "commit", "-qam", "change a page")
    expected = pages_of_copy(company, start, git, tmp_path)
    model.asked.clear()
    start(clone, "worker", "--concurrency", "2")
    seen: set[str] = set()
    model.on_request = lambda topic, step: (seen.add(topic), time.sleep(0.1))[0]  # type: ignore[func-returns-value]
    assert start(company, "ingest").wait() == 0, said(tmp_path)
    assert pages(company, git) == expected
    assert set(model.asked.values()) == {1} and seen == set(TOPICS[2:])
    assert list((clone / ".ktx" / "worker").glob("*/wiki/global/fees.md")), "it worked with the run's context files"


@pytest.mark.timeout(120)
def test_a_worker_exports_its_units_as_traces_of_their_own(
    company: Path,
    configure: Run,
    share: Run,
    shared_schema: SharedSchema,
    model: Model,
    start: Run,
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    configure(*TOPICS[:2], at_once=1)
    share()
    with collecting() as collector:
        with monkeypatch.context() as patch:
            for name, value in {**collector.environment, "OTEL_METRIC_EXPORT_INTERVAL": "200"}.items():
                patch.setenv(name, value)
            worker = start(company, "worker")
        assert start(company, "ingest").wait() == 0, said(tmp_path)
        os.kill(worker.pid, signal.SIGTERM)
        assert worker.wait() == 0, said(tmp_path)
    assert shared_schema.rows("SELECT DISTINCT command FROM usage") == [("ktx ingest",)], "as without workers"
    (command,) = collector.named("ktx worker")
    assert command.attributes["process.exit.code"] == 0 and "error.type" not in command.attributes
    units = collector.named("work_unit")
    assert [span.attributes["ktx.work_unit.status"] for span in units] == ["done", "done"]
    assert all(span.parent_id == "" for span in units) and len({span.trace_id for span in units}) == 2
    loops = [span for span in collector.spans() if span.name.startswith("invoke_agent")]
    assert {span.parent_id for span in loops} == {span.span_id for span in units}
    metrics = collector.metrics()
    assert [facts for facts, _ in metrics["ktx.work_unit.duration"]] == [{"ktx.work_unit.status": "done"}]
    assert b"ktx.work_units.waiting" in collector.received()
    assert not any(topic.encode() in collector.received() for topic in TOPICS if topic != "tax")


def pages_of_copy(company: Path, start: Run, git: Git, tmp_path: Path) -> str:
    """Return what one process makes of a copy, with the state that the shared project has."""
    copy = tmp_path / "again"
    shutil.copytree(company, copy, ignore=shutil.ignore_patterns(".ktx"))
    text = (copy / "ktx.yaml").read_text()
    (copy / "ktx.yaml").write_text(text.replace("state: postgres", "state: sqlite").replace("executor: postgres", ""))
    assert start(copy, "ingest").wait() == 0
    return pages(copy, git)


@pytest.mark.timeout(120)
@pytest.mark.parametrize("step", [0, 2, 3])
def test_a_killed_workers_unit_goes_on_elsewhere_from_its_journal(
    company: Path, configure: Run, share: Run, model: Model, start: Run, git: Git, tmp_path: Path, step: int
) -> None:
    configure(*TOPICS[:3], at_once=1)
    expected = local_pages(company, start, git, tmp_path)
    model.asked.clear()
    share()
    victim = start(company, "worker")
    killed: list[tuple[str, int]] = []

    def kill(topic: str, at: int) -> None:
        if at == step and not killed:
            killed.append((topic, at))
            os.kill(victim.pid, signal.SIGKILL)
            start(company, "worker")

    model.on_request = kill
    assert start(company, "ingest").wait() == 0, said(tmp_path)
    assert pages(company, git) == expected
    assert model.asked.pop(killed[0]) == 2
    assert set(model.asked.values()) == {1} and len(model.asked) == 4 * 3 - 1


@pytest.mark.timeout(120)
def test_a_killed_coordinators_units_are_collected_by_the_next_run(
    company: Path, configure: Run, share: Run, model: Model, start: Run, git: Git, tmp_path: Path
) -> None:
    configure(*TOPICS[:3], at_once=1)
    expected = local_pages(company, start, git, tmp_path)
    model.asked.clear()
    share()
    start(company, "worker")
    first = start(company, "ingest")
    killed: list[str] = []

    def kill(topic: str, at: int) -> None:
        if at == 2 and not killed:
            killed.append(topic)
            os.kill(first.pid, signal.SIGKILL)

    model.on_request = kill
    assert first.wait() == -signal.SIGKILL
    assert start(company, "ingest").wait() == 0, said(tmp_path)
    assert pages(company, git) == expected
    assert set(model.asked.values()) == {1} and len(model.asked) == 4 * 3, model.asked


def test_the_budget_of_a_run_ends_its_units_on_workers(
    company: Path, configure: Run, share: Run, model: Model, start: Run, ktx: Run, tmp_path: Path
) -> None:
    configure(*TOPICS, at_once=1)
    share()
    start(company, "worker")
    model.on_request = lambda topic, step: time.sleep(0.2)
    done = ktx("ingest", "--max-tokens", "2500", "--json")
    assert done.code in (5, 7), done.out
    assert sum(model.asked.values()) < 4 * len(TOPICS)
    assert "budget" in done.out
    model.on_request = lambda topic, step: None
    assert ktx("ingest", "--json").code == 0
    assert set(model.asked.values()) <= {1, 2}


def test_a_queue_needs_the_shared_state(company: Path, configure: Run, model: Model, ktx: Run) -> None:
    configure("fees")
    path = company / "ktx.yaml"
    path.write_text(path.read_text().replace("ingest:\n", "ingest:\n  executor: postgres\n"))
    found = ktx("ingest", "--json")
    assert found.code == 2 and "needs the shared state" in found.envelope["error"]["message"]
    worker = ktx("worker", "--json")
    assert worker.code == 2 and "has nothing to do" in worker.envelope["error"]["message"]


def test_a_worker_before_the_first_run_says_what_it_waits_for(
    company: Path, configure: Run, share: Run, shared_schema: SharedSchema, ktx: Run, start: Run, tmp_path: Path
) -> None:
    configure("fees")
    share()
    start(company, "worker")
    deadline = time.monotonic() + 30
    while "waiting for a `ktx ingest` with work units" not in said(tmp_path):
        assert time.monotonic() < deadline, said(tmp_path)
        time.sleep(0.1)
    with open_for_writing(Layout(company)):
        pass
    shared_schema.rows("UPDATE ktx_state SET version = 1000")
    newer = ktx("worker", "--once", "--json")
    assert newer.code == 1 and "was created by a newer ktx" in newer.envelope["error"]["message"], newer.out


def test_a_run_asks_no_model_if_the_queue_cannot_be_created(
    company: Path, configure: Run, share: Run, shared_schema: SharedSchema, model: Model, ktx: Run
) -> None:
    configure(*TOPICS[:1])
    share(coordinator=True)
    shared_schema.rows(f'CREATE SCHEMA "{shared_schema.queue}"')
    shared_schema.rows("CREATE TABLE QUEUE.customers (a integer)")
    answer = ktx("ingest", "--json")
    error = answer.envelope["error"]
    assert answer.code == 1 and f"{shared_schema.queue}, which is reserved for the queue" in error["message"], (
        answer.out
    )
    assert not model.asked


def test_nothing_is_left_in_the_queue(
    company: Path, configure: Run, share: Run, model: Model, start: Run, shared_schema: SharedSchema
) -> None:
    configure(*TOPICS[:2])
    share(coordinator=True)
    assert start(company, "ingest").wait() == 0
    for table in ("QUEUE.procrastinate_jobs", "run_packages", "unit_results"):
        assert shared_schema.rows(f"SELECT count(*) FROM {table}") == [(0,)], table
