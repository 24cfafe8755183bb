"""Writes the company for a seed to a folder, and returns everything that a test of agents needs to know about it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.jobs.connections import config_with_connection
from ktx_cli.jobs.proof.company.catalog import CATALOG
from ktx_cli.jobs.proof.company.check import AnswerKey, tells_apart
from ktx_cli.jobs.proof.company.conventions import Convention, SettledBy, Switched, read, switch
from ktx_cli.jobs.proof.company.core import company_domain, company_name, plan_core
from ktx_cli.jobs.proof.company.dbt import FOLDER as DBT_PROJECT
from ktx_cli.jobs.proof.company.dbt import VIEWS, write_dbt
from ktx_cli.jobs.proof.company.documents import FOLDER as HANDBOOK
from ktx_cli.jobs.proof.company.documents import write_handbook
from ktx_cli.jobs.proof.company.history import FILE as HISTORY
from ktx_cli.jobs.proof.company.history import write_history
from ktx_cli.jobs.proof.company.questions import Question, candidates
from ktx_cli.jobs.proof.company.warehouse import MadeUpCompany, load_company, resolve
from ktx_cli.jobs.setup.plan import NEW_CONFIG
from ktx_cli.project import CONFIG_NAME, storage_error, write_atomic

if TYPE_CHECKING:
    import duckdb

WAREHOUSE: Final = "warehouse.duckdb"
WAREHOUSE_ID: Final = "warehouse"
"""The id of the connection to the warehouse."""

CONNECTIONS: Final[Mapping[str, Mapping[str, Any]]] = {
    WAREHOUSE_ID: {
        "driver": "duckdb",
        "path": WAREHOUSE,
        "context": {"queryHistory": {"enabled": True, "file": HISTORY, "minExecutions": 1}},
    },
    "dbt": {"driver": "dbt", "source_dir": DBT_PROJECT},
    "handbook": {"driver": "documents", "path": HANDBOOK},
}
"""The company's connections, as named in `ktx.yaml`."""

CONVENTIONS: Final = 30
QUESTIONS: Final = 60


@dataclass(frozen=True)
class Company:
    """The company for a seed. `conventions`: all of the catalog, on or not."""

    folder: Path
    seed: int
    name: str
    domain: str
    plan: MadeUpCompany
    conventions: tuple[Convention, ...]
    questions: tuple[Question, ...]

    @property
    def warehouse(self) -> Path:
        """The DuckDB file."""
        return self.folder / WAREHOUSE

    @property
    def switched_on(self) -> tuple[Convention, ...]:
        """The conventions that the company has."""
        return tuple(each for each in self.conventions if each.is_on)

    @property
    def unsettled(self) -> tuple[Convention, ...]:
        """The conventions that neither a document nor a model settles."""
        return tuple(each for each in self.switched_on if each.settled_by in (SettledBy.DATA, SettledBy.NOTHING))

    def convention(self, convention: str) -> Convention:
        """Return the convention with an id."""
        return next(each for each in self.conventions if each.id == convention)


def write_company(
    folder: Path,
    seed: int,
    *,
    conventions: Collection[str] | None = None,
    truths: Mapping[str, str] = MappingProxyType({}),
) -> Company:
    """Write the company for a seed to a new or empty folder.

    `conventions`: the ids of the conventions that are switched on; None: the seed chooses 30 from the catalog.
    `truths`: correct readings in place of those that the seed draws, by convention: a company that changed its mind.
    The same seed
    gives the same company on every machine. Raises `StorageError` if a file cannot be written, and `ValueError` if a
    convention or a reading is not known.
    """
    import duckdb

    switched = switch(seed, CATALOG, conventions, CONVENTIONS, truths)
    plan = plan_core(seed, _added(switched), _without(switched))
    drawn = tuple(read(plan, each) for each in switched)
    project = write_dbt(plan, drawn)
    handbook = write_handbook(seed, drawn)
    places = {**project.places, **handbook.places}
    read_conventions = tuple(replace(each, place=places.get(each.id, "")) for each in drawn)
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(folder, error, "create") from error
    with duckdb.connect(folder / WAREHOUSE, config={"threads": 1}) as database:
        database.execute("BEGIN")  # one write to the disk, not one for each table
        load_company(plan, database)
        for each in switched:
            if each.is_on and each.form.rows:
                database.execute(resolve(each.form.rows, plan, plan.of(each.plan.table), salt=each.plan.id))
        database.execute(f"CREATE SCHEMA {VIEWS}")
        for name, sql in project.views.items():
            database.execute(f"CREATE VIEW {VIEWS}.{name} AS {sql}")
        database.execute("COMMIT")
        questions = choose_questions(database, plan, read_conventions)
    texts = {
        **{f"{DBT_PROJECT}/{path}": text for path, text in project.files.items()},
        **{f"{HANDBOOK}/{name}": text for name, text in handbook.files.items()},
        HISTORY: write_history(plan, read_conventions, questions),
    }
    for path, text in texts.items():
        write_atomic(folder / path, text.encode())
    write_atomic(folder / CONFIG_NAME, _config())
    return Company(folder, seed, company_name(seed), company_domain(seed), plan, read_conventions, questions)


def _config() -> bytes:
    """Return the `ktx.yaml` with which `ktx ingest --no-llm` builds a company's context."""
    text = NEW_CONFIG
    for connection, fields in CONNECTIONS.items():
        text = config_with_connection(text, connection, fields)
    return text


def _added(switched: Sequence[Switched]) -> Mapping[str, list[str]]:
    """Return the columns that conventions add, by their table's concept."""
    added: dict[str, list[str]] = {}
    for each in switched:
        if each.is_on:
            added.setdefault(each.plan.table, []).extend(each.form.columns)
    return added


def _without(switched: Sequence[Switched]) -> Iterator[str]:
    """Yield the tables that exist only for conventions that are switched off."""
    needed = {each.plan.needs for each in switched if each.is_on}
    yield from {each.plan.needs for each in switched} - needed - {""}


def choose_questions(
    database: duckdb.DuckDBPyConnection, plan: MadeUpCompany, conventions: Sequence[Convention]
) -> tuple[Question, ...]:
    """Return questions whose readings all differ, with each convention in about the same number of questions."""
    key = AnswerKey(database)
    waiting = {each.id: each for each in candidates(plan, conventions)}
    reached = {each.id: 0 for each in conventions if each.is_on}
    chosen: list[Question] = []
    while waiting and len(chosen) < QUESTIONS:
        question = min(waiting.values(), key=lambda each: sorted(reached[one] for one in each.conventions))
        del waiting[question.id]
        if tells_apart(key, question):
            chosen.append(question)
            for convention in question.conventions:
                reached[convention] += 1
    return tuple(sorted(chosen, key=lambda each: each.id))
