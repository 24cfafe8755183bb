"""Pictures of what commands show in a terminal of 80 and of 120 columns, with and without colour.

They are in `docs/recordings`, and hold what a terminal shows today: `KTX_RENEW_RECORDINGS=1 pytest
tests/cli/test_recordings.py -k shows` draws them again, to be reviewed as a diff.
"""

from __future__ import annotations

import re
import shlex
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import duckdb
import pytest
from pyte.screens import Char

from ktx_cli.testing.servers import PostgresServer
from ktx_cli.warehouses.base import file_evidence
from tests.cli.setup_terminal import ENTER, RENEWS, STANDS_FOR, Answers, Person, World
from tests.cli.setup_terminal import SHOP as SHOP_TABLES
from tests.cli.test_setup_terminal import FIRST_RUN
from tests.worlds.forks import Forks
from tests.worlds.svg import draw

FOLDER: Final = Path(__file__).resolve().parents[2] / "docs" / "recordings"
WIDE: Final = 400
"""Columns in which nothing is wrapped."""
VARIANTS: Final = [(80, True), (120, True), (80, False), (120, False)]


@dataclass
class Session:
    """A person who types commands into one terminal, and what they see; `columns` wide."""

    world: World
    forks: Forks
    columns: int
    colours: bool
    server: PostgresServer | None = None
    rows: list[list[Char]] = field(default_factory=list)
    words: set[str] = field(default_factory=set)

    def run(self, *words: str, code: int = 0, answers: Answers | None = None) -> None:
        """Type a command, answer what it asks, and keep what the terminal shows."""
        shown = " ".join(_typed(word) if re.search(r"[ ()*;]", word) else word for word in ("ktx", *words))
        environ = {"NO_COLOR": "1"} if not self.colours else {}
        prompt = [Char(letter, bold=self.colours) for letter in f"$ {shown}"]
        self.rows += [prompt[at : at + self.columns] for at in range(0, len(prompt), self.columns)]
        how: dict[str, Any] = {"columns": self.columns, "rows": 60, "forks": self.forks}
        self.world.environ.update(environ)
        with self.world.start(*words, **how) as terminal:
            status = Person(terminal, answers).ended() if answers else terminal.wait(60)
            assert status == code, terminal.transcript()
            assert self.colours or not re.search(r"\x1b\[[0-9;]*3[0-9]m", terminal.output)
            shown_rows = list(self._renamed(terminal.rows()))
            self.words.update(words_of("\n".join(map(_text, shown_rows))))
            self.rows += shown_rows
        self.rows.append([])

    def _renamed(self, rows: list[list[Char]]) -> Iterator[list[Char]]:
        """Yield lines in which what differs from machine to machine has the name that recordings give it."""
        names = {str(self.world.folder): STANDS_FOR}
        if self.server is not None:
            names[str(self.server.port)] = PORT
        for row in rows:
            renamed = text = "".join(character.data for character in row)
            for name, stands_for in names.items():
                renamed = renamed.replace(name, stands_for)
            assert len(renamed) == len(text)
            yield (
                [
                    character._replace(data=letter)
                    if letter != character.data and len(character.data) == 1
                    else character
                    for character, letter in zip(row, renamed, strict=False)
                ]
                if renamed != text
                else row
            )

    def text(self) -> str:
        """Return what can be read."""
        return "\n".join(map(_text, self.rows))


def _typed(word: str) -> str:
    """Return a word as a person types it into a shell."""
    return f'"{word}"' if "'" in word and not re.search(r'["$`\\!]', word) else shlex.quote(word)


def _text(row: Sequence[Char]) -> str:
    return "".join(character.data for character in row).rstrip()


Scenario = Callable[[Session], None]


def help_(session: Session) -> None:
    session.run("--help")


def demo(session: Session) -> None:
    shutil.rmtree(session.world.folder)
    session.world.folder.mkdir()
    session.run("demo")


def setup(session: Session) -> None:
    session.run("setup", answers=FIRST_RUN)


def setup_wrong_password(session: Session) -> None:
    assert session.server is not None
    answers = {
        **FIRST_RUN,
        "Which database?": ("<down><enter>", ENTER),
        "Which kind of database?": "<down><down><down><enter>",
        "How do you want to enter its address?": ENTER,
        "? Host": "<ctrl-u>127.0.0.1<enter>",
        "? Port": f"<ctrl-u>{session.server.port}<enter>",
        "? Name of the database": "shop<enter>",
        "? User": ("postgres<enter>", ENTER),
        "? Password": ("not-this<enter>", "postgres<enter>"),
        "What do you want to do?": ENTER,
        "Also read the query history": ENTER,
        "Another database?": ENTER,
    }
    session.run("setup", answers=answers)
    asked = re.findall(r"^(\? \w+|  !!)", session.text(), re.MULTILINE)
    refused = asked.index("  !!")
    assert asked[refused - 5 : refused] == ["? Host", "? Port", "? Name", "? User", "? Password"]
    assert asked[refused + 1 : refused + 4] == ["? What", "? User", "? Password"]


def ingest_first(session: Session) -> None:
    session.run("ingest")


def ingest(session: Session) -> None:
    while file_evidence([session.world.folder / "shop.sqlite"]) is None:  # a file that just changed is read again
        time.sleep(0.1)
    session.run("ingest")
    session.run("ingest")


def ingest_failing_source(session: Session) -> None:
    shutil.rmtree(session.world.folder / "handbook")
    session.run("ingest", "handbook", "dbt", code=7)


def relationships(session: Session) -> None:
    session.run("scan", "relationships")


def query_numbers(session: Session) -> None:
    session.run(
        "sl", "query", "-m", "order_lines.net_revenue", "-m", "refunds.refunded", "-d", "ship_to.regions.region_name"
    )


def query_wide(session: Session) -> None:
    measures = ("order_lines.gross_revenue", "order_lines.net_revenue", "refunds.refunded", "orders.order_count")
    dimensions = ("ship_to.regions.region_name", "customers.segment")
    words = [word for name in measures for word in ("-m", name)] + [
        word for name in dimensions for word in ("-d", name)
    ]
    session.run("sl", "query", *words, "--limit", "4")


def query_ambiguous(session: Session) -> None:
    session.run("sl", "query", "-m", "orders.order_count", "-d", "regions.region_name", code=1)


def query_unknown_value(session: Session) -> None:
    session.run("sl", "query", "-m", "orders.order_count", "--filter", "customers.segment = 'bussiness'")


def sql_wide(session: Session) -> None:
    columns = ", ".join(f"{number} * 1.5 AS measurement_{number}" for number in range(1, 31))
    with closing(duckdb.connect(str(session.world.folder / "warehouse.duckdb"))) as database:
        database.execute(f"CREATE TABLE shop.sensors AS SELECT {columns} FROM range(2)")
    session.run("sql", "select * from shop.sensors")


def status(session: Session) -> None:
    session.run("status")


def doctor(session: Session) -> None:
    (session.world.folder / "warehouse.duckdb").rename(session.world.folder / "moved.duckdb")
    session.run("doctor", code=1)


def lint(session: Session) -> None:
    page = sorted((session.world.folder / "wiki").rglob("*.md"))[0]
    page.write_text(page.read_text("utf-8") + "\nSee [[no-such-page]].\n", "utf-8")
    (session.world.folder / "semantic-layer/warehouse/tags.yaml").write_text(
        "name: tags\nmeasures: [{name: weight, expr: sum(weight_in_kg)}]\n", "utf-8"
    )
    session.run("lint", "--ignore", "KTX1", code=1)


def diff(session: Session) -> None:
    with closing(duckdb.connect(str(session.world.folder / "warehouse.duckdb"))) as database:
        database.execute("ALTER TABLE shop.order_lines DROP COLUMN quantity")
        database.execute("CREATE TABLE shop.coupons (code VARCHAR)")
    session.run("diff", code=1)


def evals(session: Session) -> None:
    path = session.world.folder / "evals/company.yaml"
    case = "  - {id: products, sql: SELECT count(*) AS products FROM shop.products, expect: {value: 120}}\n"
    path.write_text(path.read_text("utf-8").rstrip("\n") + "\n" + case, "utf-8")
    session.run("eval", code=1)


def check(session: Session) -> None:
    session.run("check")


SHOP: Final[dict[str, Scenario]] = {"help": help_, "demo": demo, "setup": setup}
"""What is recorded in a folder with a SQLite database and nothing else."""
COMPANY: Final[dict[str, Scenario]] = {
    "ingest-failing-source": ingest_failing_source,
    "scan-relationships": relationships,
    "sl-query-numbers": query_numbers,
    "sl-query-wide": query_wide,
    "sl-query-ambiguous": query_ambiguous,
    "sl-query-unknown-value": query_unknown_value,
    "sql-wide": sql_wide,
    "status": status,
    "doctor": doctor,
    "lint": lint,
    "diff": diff,
    "eval": evals,
    "check": check,
}
"""What is recorded in the demo."""
SET_UP: Final[dict[str, Scenario]] = {"ingest": ingest}
"""What is recorded in a project over the SQLite database that was set up and not ingested."""
WITH_SOURCES: Final[dict[str, Scenario]] = {"ingest-first": ingest_first}
"""What is recorded in a project with a warehouse, a dbt project and documents, none of which was ingested."""
ON_A_SERVER: Final[dict[str, Scenario]] = {"setup-wrong-password": setup_wrong_password}
"""What is recorded next to a database server."""
SCENARIOS: Final = {**SHOP, **ON_A_SERVER, **SET_UP, **WITH_SOURCES, **COMPANY}
CASES: Final = [pytest.param(name, marks=pytest.mark.postgres if name in ON_A_SERVER else ()) for name in SCENARIOS]
PORT: Final = "54329"
"""What recordings call the port of the server; ports that systems hand out have as many digits."""


@contextmanager
def made_for(name: str, demo_project: Path, forks: Forks) -> Iterator[World]:
    """Yield the machine that a scenario is recorded on."""
    with World() as made:
        if name in COMPANY:
            shutil.rmtree(made.folder)
            shutil.copytree(demo_project, made.folder, symlinks=True)
        elif name in SET_UP:
            set_up(made, forks, "--database", "sqlite", "--database-path", "shop.sqlite")
        elif name in WITH_SOURCES:
            (made.folder / "shop.sqlite").unlink()
            shutil.copy(demo_project / "warehouse.duckdb", made.folder)
            for folder in ("dbt", "handbook"):
                shutil.copytree(demo_project / folder, made.folder / folder)
            set_up(made, forks, "--database", "duckdb", "--database-path", "warehouse.duckdb")
            set_up(made, forks, "--source", "dbt", "--source-dir", "dbt")
            handbook = ("--source", "documents", "--source-connection-id", "handbook", "--source-set", "path=handbook")
            set_up(made, forks, *handbook)
        yield made


def set_up(world: World, forks: Forks, *flags: str) -> None:
    """Set a project up, without a model and without reading anything."""
    done = world.ktx(forks, "setup", "--llm-backend", "none", "--embeddings", "none", "--no-input", *flags)
    assert done.returncode == 0, done.stderr


@pytest.fixture
def world(name: str, demo_project: Path, forks: Forks) -> Iterator[World]:
    with made_for(name, demo_project, forks) as made:
        yield made


@pytest.fixture
def server(request: pytest.FixtureRequest, name: str) -> PostgresServer | None:
    """The server that a scenario needs, with a database of a shop."""
    if name not in ON_A_SERVER:
        return None
    server: PostgresServer = request.getfixturevalue("postgres_server")
    statements = [each for each in SHOP_TABLES.split(";") if each.strip()]
    server.create_database("shop", *statements)
    return server


@pytest.mark.one_in(8)
@pytest.mark.parametrize(("columns", "colours"), VARIANTS)
@pytest.mark.parametrize("name", CASES)
def test_the_recording_is_what_a_terminal_shows(
    world: World, forks: Forks, server: PostgresServer | None, name: str, columns: int, colours: bool
) -> None:
    if not world.is_recordable:
        pytest.skip(f"lines break elsewhere: {world.folder} is longer than {STANDS_FOR}")
    if server is not None and len(str(server.port)) != len(PORT):
        pytest.skip(f"lines break elsewhere: port {server.port} is shorter than {PORT}")
    session = Session(world, forks, columns, colours, server)
    SCENARIOS[name](session)
    while session.rows and not session.rows[-1]:
        session.rows.pop()
    path = FOLDER / f"{name}-{columns}{'' if colours else '-no-color'}.svg"
    picture = draw(session.rows, columns, session.text().partition("\n")[0])
    if RENEWS:
        path.write_text(picture, "utf-8")
    assert comparable(name, picture) == comparable(name, path.read_text("utf-8"))
    assert all(len(row) <= columns for row in session.rows[1:] if row)


_VARYING: Final = (
    (re.compile(r'(?: x| textLength)="[\d.]+"'), ""),
    (re.compile(r"\b[\d,.]+ ?(?:s|ms|min|MB)\b|(?<=\()\d+\.\d(?=</text>)|(?<=, )\d+(?=</text>)"), "N s"),
    (re.compile(r"\b\d+\.\d+\.\d+\b|(?<=PostgreSQL )[\w.]+"), "N.N.N"),
    (re.compile(r"\S*/bin/git\b"), "GIT"),
    (re.compile(r"\b[0-9a-f]{10}\b"), "COMMIT"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ][\d:.]+(?:Z|\+[\d:]+)?"), "TIME"),
    (re.compile(r"\b\d{8}T?\d{6}-\w+\b"), "RUN"),
)
"""What differs from run to run, and where other text then begins."""


UNORDERED: Final = ("demo", "ingest-first", "ingest-failing-source")
"""Recordings of runs that fetch several sources side by side, which end in any order."""


AS_WIDE_AS_TIMES: Final = ("eval", "status")
"""Recordings of tables with columns as wide as the times in them."""


def comparable(name: str, picture: str) -> list[str]:
    """Return the lines of a picture without what differs from run to run."""
    for pattern, word in _VARYING:
        picture = pattern.sub(word, picture)
    if name == "eval":
        picture = re.sub(r">[\d,]+</text>", ">N</text>", picture)
    if name in AS_WIDE_AS_TIMES:
        picture = re.sub(r"─+", "─", picture)
    lines = picture.splitlines()
    return sorted(re.sub(r' y="[\d.]+"', "", line) for line in lines) if name in UNORDERED else lines


BROKEN_ELSEWHERE: Final = ("sql-wide", "sl-query-wide")
"""What shows other words in a wide terminal: wide rows are drawn as a table there."""


@pytest.mark.one_in(3)
@pytest.mark.parametrize("name", [case for case in CASES if case.values[0] not in BROKEN_ELSEWHERE])
def test_no_word_is_broken(
    world: World, forks: Forks, server: PostgresServer | None, name: str, demo_project: Path
) -> None:
    narrow = Session(world, forks, 80, True, server)
    SCENARIOS[name](narrow)
    with made_for(name, demo_project, forks) as other:
        wide = Session(other, forks, WIDE, True, server)
        SCENARIOS[name](wide)
    assert narrow.words - wide.words == set()


def words_of(text: str) -> Iterator[str]:
    """Yield the words that are the same in every run, without what surrounds them."""
    for word in text.split():
        if not re.search(r"\d|─|^/dev/shm/", word):
            yield word.strip(".,;:()'\"`")


def right_edges(lines: Sequence[str], heading: str) -> set[int]:
    """Return where the heading of a column of numbers and its values end; the first line has the headings."""
    end = lines[0].index(heading) + len(heading)
    return {end, *(len(line[:end].rstrip()) for line in lines[1:8])}


def test_numbers_are_aligned(forks: Forks, demo_project: Path) -> None:
    with made_for("sl-query-numbers", demo_project, forks) as world:
        session = Session(world, forks, 80, True)
        query_numbers(session)
    headings = ["region_name", "net_revenue", "refunded"]
    lines = session.text().splitlines()
    table = lines[next(at for at, line in enumerate(lines) if line.split() == headings) :]
    assert len(right_edges(table, "net_revenue")) == len(right_edges(table, "refunded")) == 1
