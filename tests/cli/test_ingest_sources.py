"""`ktx ingest` of every source against its own server or repository: what is fetched, made, fetched again, missed."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.project.plugins import SOURCES
from ktx_cli.sources.deliveries import FileState, parse_delivery
from ktx_cli.sources.http import RetryPolicy
from ktx_cli.testing.model_server import ModelServer
from tests.cli.source_row import Row, World
from tests.cli.source_rows import ROW_TYPES, TOKEN, GoogleDrive, Jira, TableauSite
from tests.cli.source_worker import Worker
from tests.cli.test_ingest_poison import ORDER, outside_fences, texts
from tests.sources.looker.scripted import SECRET
from tests.sources.metabase.scripted import KEY
from tests.sources.scripted_google import service_key
from tests.sources.scripted_sigma import SECRET as SIGMA_SECRET
from tests.sources.scripted_tableau import SECRET as TABLEAU
from tests.sources.web_site import Asked, Reply, WebSite, serve_site

Run = Callable[..., Any]
FULL = bool(os.environ.get("KTX_TEST_FULL"))
KTX = Path(sys.executable).with_name("ktx")

SHOP = """
CREATE TABLE customers (id INTEGER PRIMARY KEY, name TEXT, country TEXT);
CREATE TABLE regions (region_id INTEGER PRIMARY KEY, label TEXT);
CREATE TABLE orders (id INTEGER PRIMARY KEY, customer_id INTEGER, amount REAL, status TEXT);
INSERT INTO customers VALUES (1, 'a', 'DE'), (2, 'b', 'SE');
INSERT INTO regions VALUES (1, 'n');
INSERT INTO orders VALUES (1, 1, 10.0, 'open'), (2, 2, 5.0, 'paid');
"""
NEIGHBOUR = "models: [{{name: regions, description: Where people are in edition {}.}}]\n"
"""A source beside the one of the row: a dbt project that needs no model."""

SECRETS = {
    "METABASE_KEY": KEY, "LOOKER_SECRET": SECRET, "NOTION_TOKEN": TOKEN, "CONFLUENCE_TOKEN": TOKEN,
    "JIRA_TOKEN": TOKEN, "GOOGLE_KEY": service_key(), "TABLEAU_SECRET": TABLEAU,
    "SIGMA_SECRET": SIGMA_SECRET, "SCRIPTED_KEY": "made-up",
}  # fmt: skip
COLUMNS = (
    "source", "files", "units", "artifacts, none", "artifacts, scripted", "requests: first", "nothing changed",
    "one changed", "landed at 500", "at a cut", "then",
)  # fmt: skip


@dataclass(frozen=True)
class Outcome:
    """A run as it ended. `source`: its report of the row's source, `requests`: those at the row's server."""

    answer: Any
    source: dict[str, Any]
    worker: Worker
    requests: Counter[str]
    has_committed: bool
    model_calls: int

    @property
    def units(self) -> list[tuple[str, str]]:
        return [(each["unit"], each["status"]) for each in self.source["units"]]

    @property
    def worked(self) -> set[str]:
        """The raw files of its units."""
        return {path for each in self.source["units"] for path in each["files"]}


@dataclass
class Bench:
    """A project over a database with the source of a row and a neighbour."""

    row: Row
    ktx: Run
    model: ModelServer
    edition: int = 0
    source_kind: str = ""

    def configure(self, *, model: bool) -> None:
        provider: dict[str, Any] = {"backend": "none"}
        if model:
            anthropic = {"base_url": self.model.url, "api_key": "env:SCRIPTED_KEY"}
            provider = {"backend": "anthropic", "anthropic": anthropic}
        settings = {
            "llm": {"provider": provider, "models": {"default": "claude-sonnet-5-5"} if model else {}},
            "scan": {"enrichment": {"mode": "none"}},
            "connections": {
                "shop": {"driver": "sqlite", "path": "shop.sqlite"},
                "neighbour": {"driver": "dbt", "source_dir": "neighbour"},
                **self.row.connections(),
            },
        }
        (self.row.folder / "ktx.yaml").write_text(json.dumps(settings))

    def change_neighbour(self) -> None:
        self.edition += 1
        folder = self.row.folder / "neighbour"
        folder.mkdir(exist_ok=True)
        (folder / "schema.yml").write_text(NEIGHBOUR.format(self.edition))

    def neighbour_landed(self) -> bool:
        found = _git(self.row.folder, "grep", "-l", f"Where people are in edition {self.edition}", "HEAD")
        return "/_schema/" in found

    def run(self) -> Outcome:
        self.row.requests()
        worker = Worker()
        self.model.play(worker)
        head = _git(self.row.folder, "rev-parse", "HEAD")
        answer = self.ktx("ingest", "--json")
        (source,) = [each for each in answer.data["sources"] if each["connection"] != "neighbour"]
        self.source_kind = source["kind"]
        asked = sum(each.is_model_call for each in self.model.requests)
        moved = _git(self.row.folder, "rev-parse", "HEAD") != head
        return Outcome(answer, source, worker, self.row.requests(), moved, asked)

    def states(self, kind: str) -> dict[str, FileState]:
        """Return the raw files as they are committed."""
        path = f"raw-sources/{self.row.connection}/{kind}/manifest.yaml"
        return dict(parse_delivery(_git(self.row.folder, "show", f"HEAD:{path}").encode(), path).files)

    def cursor(self) -> tuple[Any, ...]:
        """Return what the last fetch of the source left."""
        with sqlite3.connect(self.row.folder / ".ktx/state.sqlite") as database:
            found = database.execute(
                "SELECT cursor FROM fetches WHERE connection = ? AND kind <> 'live-database'", (self.row.connection,)
            ).fetchall()
        database.close()
        return tuple(found)


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(["git", *arguments], cwd=folder, capture_output=True, text=True, check=False).stdout


@dataclass
class Table:
    """What the rows of this process showed."""

    lines: list[Sequence[str]] = field(default_factory=list)

    def __str__(self) -> str:
        lines = [COLUMNS, *self.lines]
        widths = [max(len(line[place]) for line in lines) for place in range(len(COLUMNS))]
        shown = ([text.ljust(width) for text, width in zip(line, widths, strict=True)] for line in lines)
        return "\n".join("  ".join(line) for line in shown)


@pytest.fixture(scope="module")
def table() -> Iterator[Table]:
    made = Table()
    yield made
    print(f"\n{made}")


@pytest.fixture(scope="module")
def one_site() -> Iterator[WebSite]:
    with serve_site() as site:
        yield site


@pytest.fixture
def bench(
    request: pytest.FixtureRequest,
    ktx: Run,
    work: Path,
    model_server: ModelServer,
    one_site: WebSite,
    monkeypatch: pytest.MonkeyPatch,
) -> Iterator[Bench]:
    monkeypatch.setattr(RetryPolicy, "delay", lambda *_: 0.0)
    for name, value in SECRETS.items():
        monkeypatch.setenv(name, value)
    database = sqlite3.connect(work / "shop.sqlite")
    database.executescript(SHOP)
    database.close()
    with ExitStack() as stack:
        world = World(work, one_site, lambda: request.getfixturevalue("recording_postgres"), stack, monkeypatch.setenv)
        made = Bench(request.param(world), ktx, model_server)
        made.change_neighbour()
        yield made


ROWS = [
    pytest.param(
        each,
        id=each.name,
        marks=[
            *([pytest.mark.postgres] if "postgres" in each.name else ()),
            *(() if number % 2 else [pytest.mark.slow]),
        ],
    )
    for number, each in enumerate(ROW_TYPES)
]
"""The sources; every second one is left to the sweeps."""


def test_every_source_of_the_registry_has_a_row() -> None:
    assert {each.kind for each in ROW_TYPES} == {*SOURCES.built_in, "query-history"}
    assert len({each.name for each in ROW_TYPES}) == len(ROW_TYPES)


@pytest.mark.one_in(3)
@pytest.mark.parametrize("bench", ROWS, indirect=True)
def test_a_source(bench: Bench, table: Table) -> None:
    bench.configure(model=False)
    first = _first_without_a_model(bench)
    again = _nothing_changed(bench)
    bench.configure(model=True)
    scripted = _first_with_a_model(bench)
    if FULL:
        _nothing_changed(bench)
    one = _one_thing_changed(bench)
    failed = _in_trouble(bench)
    made = {artifact for state in scripted.values() for artifact in state.artifacts}
    requests = (str(each.requests.total()) for each in (first, again, one))
    counts = (first.source["files"], bench.row.units, len(first.source["artifacts"]), len(made))
    table.lines.append((bench.row.name, *map(str, counts), *requests, *failed))


def _first_without_a_model(bench: Bench) -> Outcome:
    row, found = bench.row, bench.run()
    assert (found.answer.code, found.has_committed, found.model_calls) == (0, True, 0), found.answer
    source = found.source
    assert (source["files"], source["complete"], source["units"]) == (row.files, row.is_complete, [])
    assert source["fetched"] == (row.files if row.fetched is None else row.fetched)
    assert source["changes"]["added"] == row.files
    assert source["left_for_a_model"], "what a model would add is said"
    assert bool(source["artifacts"]) == row.projects
    assert {state.status.value for state in bench.states(source["kind"]).values()} <= {"done", "waiting"}
    return found


def _nothing_changed(bench: Bench) -> Outcome:
    row, found = bench.row, bench.run()
    assert (found.answer.code, found.has_committed, found.model_calls) == (0, False, 0), found.answer
    assert (found.requests, found.source["fetched"], found.units) == (row.expected(0), row.always, [])
    assert {name: count for name, count in found.source["changes"].items() if count} == {"unchanged": row.files}
    return found


def _first_with_a_model(bench: Bench) -> dict[str, FileState]:
    """What waited is worked through, and nothing is fetched for it."""
    row, found = bench.row, bench.run()
    assert (found.answer.code, found.has_committed) == (0, True), found.answer
    assert (found.requests, found.source["fetched"]) == (row.expected(0), row.always)
    assert len(found.units) == row.units
    assert {status for _, status in found.units} == {"done"}
    states = bench.states(found.source["kind"])
    assert {state.status.value for state in states.values()} == {"done"}
    narrated = {path for path in found.worked if path.startswith("tables/")}
    assert len(_git(row.folder, "grep", "-h", "narrative: People look", "HEAD").splitlines()) == len(narrated)
    assert all(states[path].artifacts for path in found.worked - narrated), "each file of a unit became something"
    return states


def _one_thing_changed(bench: Bench) -> Outcome:
    row = bench.row
    changed = row.change()
    found = bench.run()
    assert (found.answer.code, found.has_committed) == (0, True), found.answer
    assert (found.requests, found.source["fetched"]) == (row.expected(1), row.always + 1)
    assert {"modified": 1, "deleted": 0, "added": 0}.items() <= found.source["changes"].items()
    assert (found.worked, len(found.units)) == (changed, 1)
    assert [set(files) for files in found.worker.seen] == [changed], "no unit of anything else"
    return found


def _in_trouble(bench: Bench) -> tuple[str, str, str]:
    """Let fetches fail in the middle of several changes, then be well: what was missed comes, and once."""
    row, kind = bench.row, bench.source_kind
    before = bench.states(kind)
    changed = row.change_more()
    failed = [_failing(bench, how) for how in _troubles(row)]
    landed = set().union(*(each.worked for each in failed))
    row.trouble(None)
    mended = bench.run()
    assert (mended.answer.code, mended.has_committed) == (0, True), mended.answer
    assert mended.requests == row.expected(len(changed))
    assert mended.worked <= changed - landed, "what landed is not worked through again"
    after = bench.states(kind)
    assert {path for path in after if after[path].sha256 != before[path].sha256} == changed
    assert {state.status.value for state in after.values()} == {"done"}
    landings = [len(each.worked) for each in (failed[0], failed[-1])] + [len(changed - landed)]
    return tuple(f"{count} of {len(changed)}" for count in landings)  # type: ignore[return-value]


def _troubles(row: Row) -> tuple[str, ...]:
    """Return how the fetch of a row can fail, all ways with KTX_TEST_FULL; by default the rows take them in turns."""
    at = ROW_TYPES.index(type(row)) % len(row.troubles)
    return row.troubles if FULL else row.troubles[at : at + 1]


def _failing(bench: Bench, how: str) -> Outcome:
    """Return a run whose fetch fails: the neighbour lands, the cursor stays, nothing counts as deleted."""
    known, cursor = bench.states(bench.source_kind).keys(), bench.cursor()
    bench.change_neighbour()
    bench.row.trouble(how)
    found = bench.run()
    error = found.answer.envelope["error"]
    assert (found.answer.code, error["code"]) == (7, "partial"), found.answer
    assert error["hint"] and error["details"]["left_out"]
    assert bench.neighbour_landed()
    assert bench.cursor() == cursor
    assert bench.states(bench.source_kind).keys() == known
    return found


def test_an_interrupt_does_not_wait_for_a_site_that_never_answers(one_site: WebSite, work: Path) -> None:
    asked, over = threading.Event(), threading.Event()

    def answers(_: Asked) -> Reply:
        asked.set()
        over.wait(60)
        return Reply({}, 503)

    one_site.forget()
    one_site.answers = answers
    entry = {"driver": "confluence", "base_url": f"{one_site.url}/wiki", "api_token": "env:CONFLUENCE_TOKEN"}
    (work / "ktx.yaml").write_text(json.dumps({"connections": {"src": entry}}))
    environ = {**os.environ, "CONFLUENCE_TOKEN": TOKEN}
    process = subprocess.Popen([KTX, "ingest"], cwd=work, env=environ, stderr=subprocess.PIPE, text=True)
    try:
        assert asked.wait(30)
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=30)
    finally:
        process.kill()
        over.set()
    assert process.returncode == 130, err
    assert _git(work, "rev-parse", "HEAD") == "HEAD\n", "there is no commit"


@pytest.mark.parametrize("bench", [GoogleDrive, Jira, TableauSite], indirect=True)
def test_what_a_service_says_is_data_and_no_order(bench: Bench) -> None:
    bench.row.poison(ORDER)  # type: ignore[attr-defined]
    bench.configure(model=True)
    found = bench.run()
    assert (found.answer.code, found.has_committed) == (0, True), found.answer
    said = [text for each in bench.model.model_calls for text in texts(each)]
    assert any(ORDER in text for text in said)
    assert [text for text in said if ORDER in outside_fences(text)] == []
