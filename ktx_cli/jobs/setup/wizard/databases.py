"""The step of the databases: tried for real, with what can be read of each, then which of its tables are wanted."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Final

from ktx_cli.connectors.opening import open_database
from ktx_cli.core.text import listing, plural
from ktx_cli.jobs.connections import config_with_connection
from ktx_cli.jobs.privileges import access_gap
from ktx_cli.jobs.readiness.checks.history import UNREADABLE
from ktx_cli.jobs.setup.answers import Answers, ConnectionAnswer
from ktx_cli.jobs.setup.detected import database_offers
from ktx_cli.jobs.setup.wizard.asking import Choice
from ktx_cli.jobs.setup.wizard.connecting import DATABASE, ask_connection, ask_for_another, asks_for_more
from ktx_cli.jobs.setup.wizard.dialog import something
from ktx_cli.jobs.setup.wizard.work import Work
from ktx_cli.project.config import Database, load_config
from ktx_cli.project.files import read_bytes

MANY_TABLES: Final = 50
"""From how many tables on a person is asked which are wanted, though they are in one schema."""
MOST_OFFERS: Final = 12
"""How many databases are offered at most: a menu fits a screen."""
_WITH_HISTORY: Final = ("postgres", "snowflake", "bigquery")


def databases_step(work: Work) -> None:
    """Connect databases, one after another, until no other is wanted; raises `AgainError` or `LeftOutError`."""
    known = work.config.databases()
    if known and not asks_for_more(work):
        return
    offers = database_offers(work.root, work.request.environ, work.config)
    question = "Another database?" if known else "Which database?"
    none = "No other database" if known else "No database for now"
    answer = ask_connection(work, DATABASE, offers[:MOST_OFFERS], question=question, none=none, more=bool(known))
    facts = work.attempt(lambda: _look(work, answer))
    work.prompter.say(facts.told, "good")
    for warning in facts.warnings:
        work.prompter.say(warning, "hint")
    answer = _with_history(work, _with_scope(work, answer, facts))
    done = work.save(Answers(databases=(answer,)))
    for each in (each for each in done.warnings if each.code == UNREADABLE):
        work.prompter.say(each.message, "bad")
        if each.hint:
            work.prompter.say(each.hint, "hint")
    work.prompter.say(f"{answer.id}: saved", "good")
    ask_for_another(work)


@dataclass(frozen=True, slots=True)
class _Facts:
    """What a test and a look at the structure found. `schemas`: how many tables each has."""

    told: str
    warnings: list[str]
    schemas: dict[str, int]
    tables: int


def _look(work: Work, answer: ConnectionAnswer) -> _Facts:
    """Connect as a run does, and read the structure; raises the error a run would end with."""
    connection = str(answer.id)
    text = config_with_connection(read_bytes(work.layout.config) or b"", connection, answer.fields)
    entry = load_config(work.layout.config, data=text).config.connections[connection]
    assert isinstance(entry, Database)
    connector, scope = open_database(connection, entry, project_dir=work.root, environ=work.request.environ)
    with connector:
        test = connector.test(scope)
        tables = connector.introspect(scope).tables
    schemas: dict[str, int] = {}
    for table in tables:
        schemas[table.ref.schema or ""] = schemas.get(table.ref.schema or "", 0) + 1
    columns = sum(len(table.columns) for table in tables)
    told = [test.server_version, plural(len(tables), "table or view", "tables and views"), plural(columns, "column")]
    estimates = [table.row_estimate for table in tables if table.row_estimate is not None]
    if estimates:
        told.append(f"about {plural(sum(estimates), 'row')}")
    gap = access_gap(connection, entry, test)
    warnings = [] if gap is None else [f"{gap.message}; {gap.hint}"]
    if test.closed and gap is None:
        warnings.append(f"no SELECT on {listing(map(str, test.closed))}")
    if test.can_write:
        warnings.append("the role could write; ktx only reads, but a role that may only SELECT is better")
    return _Facts(f"{connection}: {', '.join(told)}", warnings, schemas, len(tables))


def _with_scope(work: Work, answer: ConnectionAnswer, facts: _Facts) -> ConnectionAnswer:
    """Ask which tables are wanted where there are many; patterns, so that tables to come are wanted too."""
    if len(facts.schemas) < 2 and facts.tables < MANY_TABLES:
        return answer
    choices = [Choice("all", f"All {facts.tables:,} tables, and those to come")]
    if len(facts.schemas) > 1:
        choices.append(Choice("schemas", f"Some of the {len(facts.schemas)} schemas"))
    choices.append(Choice("patterns", "Those that fit patterns, such as mart.*"))
    chosen = work.dialog.select("scope", "Which tables?", choices, "all")
    if chosen == "all":
        return answer
    if chosen == "schemas":
        named = [Choice(name, name, plural(count, "table")) for name, count in sorted(facts.schemas.items())]
        wanted = work.dialog.several("schemas", "Which schemas?", named)
        patterns = [f"{name}.*" for name in wanted]
    else:
        text = work.dialog.text("include", "Patterns of the tables wanted, with commas between", "", something)
        patterns = [part.strip() for part in text.split(",") if part.strip()]
    return replace(answer, fields={**answer.fields, "include": patterns}) if patterns else answer


def _with_history(work: Work, answer: ConnectionAnswer) -> ConnectionAnswer:
    """Ask for the query history of an engine that keeps one."""
    if answer.driver not in _WITH_HISTORY:
        return answer
    says = "Read what people ask this database, too?"
    if not work.dialog.confirm("history", says, False):
        return answer
    context: dict[str, Any] = {"queryHistory": {"enabled": True}}
    return replace(answer, fields={**answer.fields, "context": context})
