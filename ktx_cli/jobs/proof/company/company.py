"""Writes the company of a seed into a folder, and returns everything that a test of agents needs to know of it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final

from ktx_cli.jobs.proof.company.catalog import CATALOG
from ktx_cli.jobs.proof.company.check import AnswerKey, tells_apart
from ktx_cli.jobs.proof.company.conventions import Convention, SettledBy, Switched, read, switch
from ktx_cli.jobs.proof.company.core import company_domain, company_name, plan_core
from ktx_cli.jobs.proof.company.questions import Question, candidates
from ktx_cli.jobs.proof.company.warehouse import MadeUpCompany, load_company, resolve

if TYPE_CHECKING:
    import duckdb

WAREHOUSE: Final = "warehouse.duckdb"
CONVENTIONS: Final = 30
QUESTIONS: Final = 60


@dataclass(frozen=True)
class Company:
    """The company of a seed, as it was written. `conventions`: all of the catalog, on or not."""

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
        """The conventions that no document and no model settles."""
        return tuple(each for each in self.switched_on if each.settled_by in (SettledBy.DATA, SettledBy.NOTHING))

    def convention(self, convention: str) -> Convention:
        """Return the convention of an id."""
        return next(each for each in self.conventions if each.id == convention)


def write_company(folder: Path, seed: int, *, conventions: Collection[str] | None = None) -> Company:
    """Write the company of a seed into a new or empty folder.

    `conventions`: the ids of those that are switched on; None: the seed chooses 30 of the catalog. The same seed gives
    the same company on every machine.
    """
    import duckdb

    switched = switch(seed, CATALOG, conventions, CONVENTIONS)
    plan = plan_core(seed, _added(switched), _without(switched))
    read_conventions = tuple(read(plan, each) for each in switched)
    folder.mkdir(parents=True, exist_ok=True)
    with duckdb.connect(folder / WAREHOUSE, config={"threads": 1}) as database:
        database.execute("BEGIN")  # one write to the disk, not one for each table
        load_company(plan, database)
        for each in switched:
            if each.is_on and each.form.rows:
                database.execute(resolve(each.form.rows, plan, plan.of(each.plan.table), salt=each.plan.id))
        database.execute("COMMIT")
        questions = choose_questions(database, plan, read_conventions)
    return Company(folder, seed, company_name(seed), company_domain(seed), plan, read_conventions, questions)


def _added(switched: Sequence[Switched]) -> Mapping[str, list[str]]:
    """Return the columns that conventions add, by the concept of their table."""
    added: dict[str, list[str]] = {}
    for each in switched:
        if each.is_on:
            added.setdefault(each.plan.table, []).extend(each.form.columns)
    return added


def _without(switched: Sequence[Switched]) -> Iterator[str]:
    """Yield the tables that are there only for conventions that are switched off."""
    needed = {each.plan.needs for each in switched if each.is_on}
    yield from {each.plan.needs for each in switched} - needed - {""}


def choose_questions(
    database: duckdb.DuckDBPyConnection, plan: MadeUpCompany, conventions: Sequence[Convention]
) -> tuple[Question, ...]:
    """Return questions whose readings all differ, so that each convention is in about as many."""
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
