from __future__ import annotations

import json
import os
import shutil
import sqlite3
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import CONFIG, LONG, SHOP
from tests.worlds.forks import Forks, shared
from tests.worlds.shared_company import Model, SharedCompany
from tests.worlds.shared_schema import SharedSchema
from tests.worlds.workers import fork_workers, start_workers
from tests.worlds.workers import shared as workers

KTX = Path(sys.executable).with_name("ktx")


@dataclass(frozen=True)
class Answer:
    """What a command printed and how it ended."""

    code: int
    out: str
    err: str

    @property
    def envelope(self) -> dict[str, Any]:
        lines = self.out.splitlines()
        assert len(lines) == 1, f"not one line of JSON on stdout: {self.out!r}"
        document = json.loads(lines[0])
        assert isinstance(document, dict)
        return document

    @property
    def data(self) -> Any:
        return self.envelope["data"]


Run = Callable[..., Answer]


@pytest.fixture(autouse=True)
def quiet_environment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No variable of the developer's leaks in: an empty HOME, no git identity, no project."""
    _quiet(monkeypatch, tmp_path / "home")


def _quiet(patch: pytest.MonkeyPatch, home: Path) -> None:
    home.mkdir()
    for name in list(os.environ):
        if name.startswith(("GIT_", "KTX_")):
            patch.delenv(name)
    patch.setenv("HOME", str(home))
    patch.setenv("XDG_CONFIG_HOME", str(home / ".config"))


@pytest.fixture(autouse=True)
def forked_workers() -> Iterator[None]:
    """Have the processes that run statements forked: tests of these and of the guard start them as ktx does."""
    fork_workers(workers())
    yield
    start_workers()


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty folder, the current one."""
    folder = tmp_path / "work"
    folder.mkdir()
    monkeypatch.chdir(folder)
    return folder


@pytest.fixture
def ktx(work: Path) -> Run:
    """Run a command in this process through typer's runner."""
    return _invoked


def _invoked(*args: str, **kwargs: Any) -> Answer:
    from ktx_cli.cli.app import app

    result = CliRunner().invoke(app, list(args), prog_name="ktx", **kwargs)
    assert result.exception is None or isinstance(result.exception, SystemExit), result.exception
    return Answer(result.exit_code, result.stdout, result.stderr)


@pytest.fixture
def installed(work: Path, forks: Forks) -> Run:
    """Run `ktx` as a program, with streams and an end of its own."""

    def run(*args: str, **kwargs: Any) -> Answer:
        done = forks.run(args, folder=work, environ=os.environ, **kwargs)
        return Answer(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def forks() -> Forks:
    """Start `ktx` in a process of its own, without importing anew what takes it a second."""
    return shared()


@pytest.fixture
def shop(work: Path) -> Path:
    """A SQLite database with three tables and two declared foreign keys, in the current folder."""
    return _make_shop(work)


def _make_shop(folder: Path) -> Path:
    path = folder / "shop.sqlite"
    database = sqlite3.connect(path)
    database.executescript(
        """
        CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT NOT NULL, country TEXT);
        CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER REFERENCES customers, placed_on DATE);
        CREATE TABLE "Order Lines" (order_id INTEGER REFERENCES orders(id), line INTEGER, amount REAL,
                                    PRIMARY KEY (order_id, line));
        INSERT INTO customers VALUES (1, 'Ada', 'NO'), (2, 'Grace', 'SE');
        """
    )
    database.close()
    return path


Build = Callable[[Path], None]
SQLITE = ("--no-input", "--database", "sqlite", "--database-path", "shop.sqlite")


@pytest.fixture(scope="session")
def copies(tmp_path_factory: pytest.TempPathFactory) -> Callable[[Build, Path], Path]:
    """Copy into a folder what a function builds in the current one; it is called once in a session."""
    built: dict[Build, Path] = {}

    def copied(build: Build, place: Path) -> Path:
        if build not in built:
            folder = tmp_path_factory.mktemp("built")
            with pytest.MonkeyPatch.context() as patch:
                _quiet(patch, tmp_path_factory.mktemp("home") / "home")
                patch.chdir(folder)
                build(folder)
            built[build] = folder
        shutil.copytree(built[build], place, ignore=shutil.ignore_patterns("*.sample"), dirs_exist_ok=True)
        git(place, "update-index", "-q", "--refresh")
        return place

    return copied


def _set_up(folder: Path) -> None:
    _make_shop(folder)
    set_up_per_schema()


def set_up_per_schema() -> None:
    """Set up a project as those before `semantic.layout`; test_layouts.py has new ones."""
    from ktx_cli.jobs.setup import plan

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(plan, "NEW_CONFIG", b"llm:" + plan.NEW_CONFIG.partition(b"llm:")[2])
        done("setup", *SQLITE)


def ingested_shop(folder: Path) -> None:
    """Build a project over the shop, and its structure."""
    _set_up(folder)
    done("ingest")


def done(*words: str) -> None:
    """Run a command that succeeds."""
    answer = _invoked(*words)
    assert answer.code == 0, answer


@pytest.fixture
def project_set_up(shop: Path, copies: Callable[[Build, Path], Path]) -> Path:
    """A project over the shop, set up but not ingested."""
    return copies(_set_up, shop.parent)


@pytest.fixture
def project(project_set_up: Path) -> Path:
    """A project over the shop, set up but not ingested; a module may have another one."""
    return project_set_up


@pytest.fixture
def ingested(shop: Path, copies: Callable[[Build, Path], Path]) -> Path:
    """The project over the shop after its first ingest."""
    return copies(ingested_shop, shop.parent)


def git(folder: Path, *args: str, **environ: str) -> str:
    """Run git as the user would."""
    identity = ["-c", "user.name=User", "-c", "user.email=user@example.com"]
    done = subprocess.run(
        ["git", *identity, *args], cwd=folder, capture_output=True, text=True, env={**os.environ, **environ}
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(name="git")
def git_fixture() -> Callable[..., str]:
    return git


@pytest.fixture
def company(work: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project over two tables and a folder of documents, in a repository."""
    _make_company(work)
    monkeypatch.setenv("SCRIPTED_KEY", "made-up")
    return work


@pytest.fixture
def configure(company: Path, model_server: ModelServer) -> Callable[..., None]:
    return partial(_configure, company, model_server)


def _make_company(folder: Path) -> None:
    database = sqlite3.connect(folder / "shop.sqlite")
    database.executescript(SHOP)
    database.close()


def _configure(
    company: Path,
    server: ModelServer,
    *topics: str,
    backend: str = "anthropic",
    at_once: int = 1,
    steps: int = 40,
    failure: str = "continue",
) -> None:
    settings = {"backend": backend, "url": server.url, "at_once": at_once, "steps": steps, "failure": failure}
    (company / "ktx.yaml").write_text(CONFIG.format(**settings))
    (company / "docs").mkdir(exist_ok=True)
    for topic in topics:
        (company / "docs" / f"{topic}.md").write_text(f"# {topic}\n\n{LONG}")


@pytest.fixture(scope="session")
def _scanned(_one_model_server: ModelServer) -> Build:
    def build(folder: Path) -> None:
        _make_company(folder)
        _configure(folder, _one_model_server)
        done("ingest", "shop", "--no-llm")

    return build


@pytest.fixture
def scanned(company: Path, _scanned: Build, copies: Callable[[Build, Path], Path]) -> Path:
    """The company after its database was scanned; its documents are not read."""
    return copies(_scanned, company)


Share = Callable[..., tuple[Path, Path]]
"""Takes where the index is, and returns two clones that share their state."""


@pytest.fixture
def share(ingested: Path, git: Callable[..., str], tmp_path: Path, shared_schema: SharedSchema) -> Share:
    """Share the state of the ingested project, commit all of it, and clone it with its databases."""

    def shared(**settings: str) -> tuple[Path, Path]:
        config = ingested / "ktx.yaml"
        config.write_text(config.read_text() + shared_schema.storage(**settings))
        git(ingested, "add", "-A")
        git(ingested, "commit", "-qm", "share the state")
        other = tmp_path / "other"
        git(ingested, "clone", "-q", str(ingested), str(other))
        for path in ingested.glob("*.sqlite"):
            (other / path.name).write_bytes(path.read_bytes())
        return ingested, other

    return shared


@pytest.fixture
def model(model_server: ModelServer) -> Model:
    """The scripted model of the company's documents."""
    found = Model()
    model_server.play(found)
    return found


@pytest.fixture(name="shared")
def shared_company(company: Path, shared_schema: SharedSchema, forks: Forks, tmp_path: Path) -> Iterator[SharedCompany]:
    """The company with a shared state; what still runs at the end is killed."""
    found = SharedCompany(company, shared_schema, forks, tmp_path)
    yield found
    found.close()
