"""The project that a worker works in: the run's context files, its own settings, nothing outside its folder."""

from __future__ import annotations

import asyncio
import errno
import os
import signal
from collections.abc import Iterator
from contextlib import AsyncExitStack, ExitStack
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from ktx_cli import __version__
from ktx_cli.core import CancelledError, ConfigError, KtxError, SecretError, StorageError
from ktx_cli.engine import RunPackage, WorkerCancellation
from ktx_cli.jobs import worker
from ktx_cli.jobs.worker import _Run, project_for, settings_for
from ktx_cli.project import Layout, SharedFiles, StateDatabase, open_for_writing, resolve
from ktx_cli.sources import RawStore

SETTINGS = """\
connections:
  shop: {driver: sqlite, path: shop.sqlite}
ingest:
  workUnits: {stepBudget: 10, maxConcurrency: 2}
"""


@pytest.fixture
def own(tmp_path: Path) -> Layout:
    layout = Layout(tmp_path / "clone")
    (layout.root / "wiki" / "global").mkdir(parents=True)
    layout.config.write_text(SETTINGS)
    (layout.root / "wiki" / "global" / "fees.md").write_text("mine")
    (layout.root / "data").mkdir()
    return layout


@pytest.fixture
def files(own: Layout) -> Iterator[SharedFiles]:
    with open_for_writing(own) as database:
        yield SharedFiles(database)


@pytest.fixture
def stack() -> Iterator[ExitStack]:
    """What keeps copies for the runs that use them."""
    with ExitStack() as opened:
        yield opened


def package(files: SharedFiles, **contents: str) -> RunPackage:
    """Return the package of a run with some files."""
    tree = files.put_tree({path: text.encode() for path, text in contents.items()})
    return RunPackage("20260101T000000-abcdef", ("ingest",), __version__, tree, tree, {}, (), {})


@pytest.mark.parametrize("once", [False, True])
@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP, signal.SIGINT])
def test_how_a_worker_ends_when_it_is_stopped(
    own: Layout, monkeypatch: pytest.MonkeyPatch, number: signal.Signals, once: bool
) -> None:
    """SIGTERM is the regular end of a service; a worker that was to end by itself was interrupted."""
    cleaned: list[bool] = []

    async def serve(self: worker._Worker) -> None:
        os.kill(os.getpid(), number)
        try:
            await asyncio.sleep(30)
        finally:
            await asyncio.sleep(0)
            cleaned.append(True)

    monkeypatch.setattr(worker._Worker, "serve", serve)
    monkeypatch.setattr(worker, "shared_state_of", lambda layout: SimpleNamespace())
    own.config.write_text(f"{SETTINGS}  executor: postgres\n")
    numbers = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
    handlers = [signal.getsignal(each) for each in numbers]
    request = worker.WorkerRequest(own.root, {}, once=once)
    if once or number is signal.SIGINT:
        with pytest.raises(CancelledError) as stopped:
            worker.work(request)
        assert stopped.value.exit_code == 130
    else:
        assert worker.work(request).to_json() == {"units": 0, "runs": []}
    assert cleaned == [True]
    assert [signal.getsignal(each) for each in numbers] == handlers


@pytest.mark.parametrize("text", ["{", "[]", '"x"', f'{{"format": 1, "version": "{__version__}"}}'])
def test_a_damaged_package_is_named(own: Layout, text: str) -> None:
    with open_for_writing(own) as database:
        database.execute("INSERT INTO run_packages VALUES ('20260101T000000-abcdef', ?, NULL)", (text,))
        with pytest.raises(StorageError, match="the package of the run '20260101T000000-abcdef' is damaged") as damaged:
            RunPackage.read(database, "20260101T000000-abcdef")
    assert damaged.value.hint


def test_a_copy_has_the_files_of_the_run_and_the_settings_of_this_clone(
    own: Layout, files: SharedFiles, stack: ExitStack
) -> None:
    theirs = f"# another comment\n{SETTINGS}"
    run = package(files, **{"ktx.yaml": theirs, "wiki/global/fees.md": "theirs"})
    layout = project_for(own, run, files, stack)
    assert layout.root.parent == own.private / "worker"
    assert (layout.root / "wiki/global/fees.md").read_text() == "theirs"
    assert layout.config.read_text() == SETTINGS
    assert (layout.root / "data").resolve() == own.root / "data"
    own.config.write_text(f"{SETTINGS}# changed\n")
    assert project_for(own, run, files, stack).config.read_text() == f"{SETTINGS}# changed\n"
    same = package(files, **{"ktx.yaml": own.config.read_text(), "wiki/global/fees.md": "mine"})
    assert project_for(own, same, files, stack) == own


def test_a_copy_reads_the_secrets_of_this_clone(own: Layout, files: SharedFiles, stack: ExitStack) -> None:
    own.secrets.mkdir()
    (own.secrets / "key").write_text("first")
    run = package(files, **{"ktx.yaml": SETTINGS, "wiki/global/fees.md": "theirs"})
    layout = project_for(own, run, files, stack)

    def key() -> str:
        return resolve("file:.ktx/secrets/key", project_dir=layout.root, environ={}, where="a setting")

    assert key() == "first"
    (own.secrets / "key").write_text("changed")
    assert project_for(own, run, files, stack) == layout and key() == "changed"
    (own.secrets / "key").unlink()
    with pytest.raises(SecretError, match="does not exist"):
        key()
    assert not [path for path in layout.private.rglob("key") if path.is_file()]


def test_what_a_run_changed_is_read_with_a_few_statements(
    own: Layout, files: SharedFiles, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    contents = {f"wiki/global/page{number}.md": f"# {number}\n".encode() for number in range(300)}
    names = files.tree(files.put_tree(contents))
    earlier = {path: [name, len(contents[path])] for path, name in names.items()}
    run = replace(package(files, **{"ktx.yaml": SETTINGS}), overlay=names, works=({"earlier": earlier},))
    read, statements = SharedFiles._rows, []

    def rows(*given: Any) -> Any:
        statements.append(given)
        return read(*given)

    monkeypatch.setattr(SharedFiles, "_rows", rows)
    workspace = run.tree(files)
    assert {path: workspace.read(path) for path in names} == contents
    layout = project_for(own, run, files, stack)
    store = RawStore(layout.raw_store)
    assert all(store.find(path, name) for path, name in names.items())
    assert 0 < len(statements) < 15


def test_a_copy_stays_while_a_run_uses_it(own: Layout, files: SharedFiles, stack: ExitStack) -> None:
    first, *others = [package(files, **{"ktx.yaml": SETTINGS, "wiki/global/a.md": f"{n}"}) for n in range(6)]
    layout = project_for(own, first, files, stack)
    for each in others:
        with ExitStack() as ended:
            project_for(own, each, files, ended)
    assert layout.root.is_dir() and len(list(layout.root.parent.iterdir())) == 4


@pytest.mark.parametrize(
    "path",
    ["../evil.md", "wiki/../../evil.md", "/evil.md", "wiki/.git/x", ".ktx/state.sqlite", "evil.py", "wiki//a.md", ""],
)
def test_a_copy_has_no_other_files(own: Layout, files: SharedFiles, stack: ExitStack, path: str) -> None:
    with pytest.raises(KtxError):
        project_for(own, package(files, **{"ktx.yaml": SETTINGS, path: "x"}), files, stack)
    assert [each.name for each in (own.private / "worker").glob("*")] == []
    assert not list(own.root.parent.rglob("evil*"))


def test_a_full_disk_leaves_no_copy(
    own: Layout, files: SharedFiles, stack: ExitStack, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: Path, *content: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    run = package(files, **{"ktx.yaml": SETTINGS, "wiki/global/fees.md": "theirs"})
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StorageError, match="No space left") as caught:
        project_for(own, run, files, stack)
    assert "free some space" in str(caught.value.hint)
    assert [each.name for each in (own.private / "worker").glob("*")] == []


@pytest.mark.parametrize(
    ("old", "new", "different"),
    [
        ("maxConcurrency: 2", "maxConcurrency: 9", None),
        ("ingest:\n", "ingest:\n  executor: postgres\n  workers: {coordinator: false}\n", None),
        ("connections:", "# a comment\nconnections:", None),
        ("stepBudget: 10", "stepBudget: 11", "ingest.workUnits.stepBudget"),
        ("path: shop.sqlite", "path: /elsewhere.sqlite", "connections.shop.path"),
        ("ingest:\n", "llm: {provider: {backend: anthropic}}\ningest:\n", "llm"),
        ("ingest:\n", "scan: {privacy: open}\ningest:\n", "scan"),
    ],
)
def test_the_settings_are_those_of_this_clone(
    own: Layout, files: SharedFiles, old: str, new: str, different: str | None
) -> None:
    run = package(files, **{"ktx.yaml": SETTINGS.replace(old, new)})
    if different is None:
        assert settings_for(own, run, files).ingest.work_units.max_concurrency == 2
    else:
        with pytest.raises(ConfigError, match=f"`{different}`"):
            settings_for(own, run, files)


class OpenRun(_Run):
    """A run of a worker, with models that say when they are closed."""

    async def begin(self, stack: AsyncExitStack, database: StateDatabase) -> None:
        self.runtime = SimpleNamespace(governor=SimpleNamespace(paused_for=0.0), is_open=True)
        self.cancellation = WorkerCancellation()
        stack.callback(setattr, self.runtime, "is_open", False)


ENDS = {
    "DELETE FROM run_packages": None,
    "UPDATE run_packages SET stopped = 'the run was stopped'": "the run was stopped",
}


@pytest.mark.parametrize("end", ENDS)
def test_the_models_of_a_run_are_closed_when_it_is_over(end: str, own: Layout, monkeypatch: pytest.MonkeyPatch) -> None:
    """As soon as no unit of it is in progress: a worker may live for months."""
    plan: Any = SimpleNamespace(run_id="20260101T000000-abcdef")
    nothing: Any = None
    run = OpenRun(plan, nothing, [], nothing)
    monkeypatch.setattr(worker, "STOP_SECONDS", 0.01)
    monkeypatch.setattr(worker, "_opened", lambda *given: run)

    async def live(database: StateDatabase) -> None:
        here = worker._Worker(nothing, own, nothing, nothing, worker.WorkerReport())
        here.database = database
        here._open(plan.run_id)
        assert await here.runs[plan.run_id] is run
        run.active = 1
        database.execute(end)
        await asyncio.sleep(0.2)
        error = run.cancellation.error
        assert (None if error is None else error.message) == ENDS[end]
        assert run.runtime.is_open and here.runs
        run.active = 0
        await asyncio.wait_for(asyncio.gather(*here.living), 5)
        assert not run.runtime.is_open and not here.runs

    with open_for_writing(own) as database:
        stored = package(SharedFiles(database), **{"ktx.yaml": SETTINGS})
        database.execute("INSERT INTO run_packages VALUES (?, ?, NULL)", (stored.run_id, stored.to_json()))
        asyncio.run(live(database))
