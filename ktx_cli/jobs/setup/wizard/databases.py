"""The wizard steps for databases and sources: each is connected and read, then its tables are chosen."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import KtxError, listing, plural
from ktx_cli.jobs.connections import config_with_connection
from ktx_cli.jobs.health.connection_checks import UNREADABLE
from ktx_cli.jobs.setup.answers import DATABASE_WORDS, SOURCE_WORDS, Answers, ConnectionAnswer, questions_of, words_of
from ktx_cli.jobs.setup.detect.databases import database_offers, free_id, source_offers
from ktx_cli.jobs.setup.detect.marts import marts_of
from ktx_cli.jobs.setup.plan import fields_of
from ktx_cli.jobs.setup.wizard.dialog import Check, LeftOutError, MenuItem, WizardRun, anything, capital, something
from ktx_cli.project import (
    SOURCES,
    WAREHOUSES,
    Database,
    Question,
    check_connection,
    find_model,
    is_reference,
    load_config,
    read_bytes,
)
from ktx_cli.sources import missing_source_package
from ktx_cli.warehouses import access_gap, dialect_named, missing_package, open_database, warehouse_of

if TYPE_CHECKING:
    from ktx_cli.jobs.setup.answers import Word

MANY_TABLES: Final = 50
"""Minimum number of tables for which the wizard asks which ones to read, even if all are in one schema."""
MOST_OFFERS: Final = 12
"""Maximum number of databases to offer, so that a menu fits on a screen."""


def databases_step(work: WizardRun) -> None:
    """Connect databases, one after another, until no more are wanted; raises `AgainError` or `LeftOutError`."""
    answer = ask_connection(work, DATABASE)
    facts = work.attempt(lambda: _look(work, answer))
    work.prompter.say(facts.summary, "good")
    for warning in facts.warnings:
        work.prompter.say(warning, "hint")
    answer = _with_history(work, _with_scope(work, answer, facts))
    done = work.save(Answers(databases=(answer,)))
    for each in (each for each in done.warnings if each.code == UNREADABLE):
        work.prompter.say(each.message, "bad")
        if each.hint:
            work.prompter.say(each.hint, "hint")
    work.prompter.say(f"{answer.id}: saved", "good")
    work.begin_again(propose=False)


def sources_step(work: WizardRun) -> None:
    """Connect context sources, one after another, until no more are wanted; raises `AgainError` or `LeftOutError`."""
    answer = ask_connection(work, SOURCE)
    done = work.save(Answers(sources=(answer,)))
    for test in done.tests.values():
        work.prompter.say(f"{answer.id}: {getattr(test, 'origin', 'saved')}", "good")
    work.begin_again(propose=False)


@dataclass(frozen=True, slots=True)
class _Facts:
    """The results of a connection test and an introspection. `schemas`: the number of tables in each."""

    summary: str
    warnings: list[str]
    schemas: dict[str, int]
    tables: int


def _look(work: WizardRun, answer: ConnectionAnswer) -> _Facts:
    """Connect as a run does, and read the structure; raises the error with which a run would end."""
    connection = str(answer.id)
    text = config_with_connection(read_bytes(work.layout.config) or b"", connection, answer.fields)
    entry = load_config(work.layout.config, data=text).config.connections[connection]
    assert isinstance(entry, Database)
    connector, scope = open_database(connection, entry, project_dir=work.root, environ=work.request.environ)
    with connector:
        test = connector.test(scope)
        tables = connector.introspect(scope).tables
    schemas = Counter(table.ref.schema or "" for table in tables)
    columns = sum(len(table.columns) for table in tables)
    summary = [test.server_version, plural(len(tables), "table or view", "tables and views"), plural(columns, "column")]
    estimates = [table.row_estimate for table in tables if table.row_estimate is not None]
    if estimates:
        summary.append(f"about {plural(sum(estimates), 'row')}")
    gap = access_gap(connection, entry, test)
    warnings = [] if gap is None else [f"{gap.message}; {gap.hint}"]
    if test.closed and gap is None:
        warnings.append(f"no SELECT on {listing(map(str, test.closed))}")
    if test.can_write:
        warnings.append("the role has write access; ktx only reads, but a role that may only SELECT is safer")
    return _Facts(f"{connection}: {', '.join(summary)}", warnings, schemas, len(tables))


def _with_scope(work: WizardRun, answer: ConnectionAnswer, facts: _Facts) -> ConnectionAnswer:
    """Ask which tables to read if there are many; returns patterns, which include future tables."""
    if len(facts.schemas) < 2 and facts.tables < MANY_TABLES:
        return answer
    choices = [MenuItem("all", f"All {facts.tables:,} tables, including future ones")]
    where = (work.root, work.request.environ, work.config)
    marts = marts_of(*where, sorted(facts.schemas)) if len(facts.schemas) > 1 else []
    if marts:
        count = plural(sum(facts.schemas[name] for name in marts), "table")
        choices.insert(0, MenuItem("marts", f"The marts of the dbt project: {', '.join(marts)} ({count})"))
    if len(facts.schemas) > 1:
        choices.append(MenuItem("schemas", f"Some of the {len(facts.schemas)} schemas"))
    choices.append(MenuItem("patterns", "Tables that match patterns, such as mart.*"))
    chosen = work.dialog.select("scope", "Which tables?", choices, choices[0].value)
    patterns = [f"{name}.*" for name in marts] if chosen == "marts" else []
    if chosen == "schemas":
        named = [MenuItem(name, name, plural(count, "table")) for name, count in sorted(facts.schemas.items())]
        patterns = [f"{name}.*" for name in work.dialog.several("schemas", "Which schemas?", named)]
    elif chosen == "patterns":
        text = work.dialog.text("include", "Patterns of the tables, separated by commas", "", something)
        patterns = [part.strip() for part in text.split(",") if part.strip()]
    return replace(answer, fields={**answer.fields, "include": patterns}) if patterns else answer


def _with_history(work: WizardRun, answer: ConnectionAnswer) -> ConnectionAnswer:
    """Ask about the query history of a database that has one."""
    warehouse = warehouse_of(answer.driver)
    if warehouse is None or not dialect_named(warehouse.dialect).history:
        return answer
    if not work.dialog.confirm("history", "Also read the query history of this database?", False):
        return answer
    return replace(answer, fields={**answer.fields, "context": {"queryHistory": {"enabled": True}}})


OTHER, NONE = "other", "none"


@dataclass(frozen=True, slots=True)
class ConnectionGroup:
    """A group of connections to ask about: databases or context sources."""

    noun: str
    question: str
    drivers: Callable[[], tuple[str, ...]]
    words: tuple[Word, ...]
    flag: str
    first_id: str = ""


DATABASE: Final = ConnectionGroup(
    "database", "Which database?", WAREHOUSES.names, DATABASE_WORDS, "--database-", first_id="warehouse"
)
_WHICH_SOURCE: Final = "Which context source: dbt, BI, documents?"
SOURCE: Final = ConnectionGroup("context source", _WHICH_SOURCE, SOURCES.names, SOURCE_WORDS, "--source-")


def ask_connection(work: WizardRun, kind: ConnectionGroup) -> ConnectionAnswer:
    """Ask for a connection, the first or a further one; raises `LeftOutError` if none is wanted."""
    config, where = work.config, (work.root, work.request.environ)
    known = bool(config.databases() if kind is DATABASE else config.sources())
    if known and not work.revisited and not work.dialog.begun():
        raise LeftOutError  # nobody is in the middle of connecting, or came back to it, so the existing ones suffice
    offers = database_offers(*where, config)[:MOST_OFFERS] if kind is DATABASE else source_offers(*where, config)
    choices = [MenuItem(f"{offer.driver} {offer.id}", capital(offer.label)) for offer in offers]
    none = f"No other {kind.noun.split()[-1]}" if known else f"No {kind.noun} for now"
    choices += [MenuItem(OTHER, f"Another {kind.noun}"), MenuItem(NONE, none)]
    default = NONE if known or (kind is SOURCE and not offers) else choices[0].value
    chosen = work.dialog.select("which", f"Another {kind.noun}?" if known else kind.question, choices, default)
    if chosen == NONE:
        raise LeftOutError
    offer = next((each for each in offers if chosen == f"{each.driver} {each.id}"), None)
    if offer is not None:
        _require_package(work, offer.driver)
        return ConnectionAnswer({"driver": offer.driver, **offer.fields}, _ask_id(work, kind, offer.id))
    driver = _ask_driver(work, kind)
    connection = _ask_id(work, kind, kind.first_id or driver)
    given = _ask_words(work, kind, driver, connection)
    return ConnectionAnswer(fields_of(driver, given, words_of(driver, kind.words), flag=kind.flag), connection)


def _ask_driver(work: WizardRun, kind: ConnectionGroup) -> str:
    choices = []
    for driver in kind.drivers():
        model = find_model(driver)
        if model is None:
            continue
        label = (model.__doc__ or driver).rstrip(".")
        warehouse = warehouse_of(driver)
        notes = ["tested on no real server yet"] if warehouse is not None and warehouse.verified == "scripted" else []
        notes += ["needs a package"] if missing_package(driver) or missing_source_package(driver) else []
        choices.append(MenuItem(driver, f"{driver}: {label}", ", ".join(notes)))
    driver = work.dialog.select("driver", f"Which kind of {kind.noun}?", choices)
    _require_package(work, driver)
    return driver


def _require_package(work: WizardRun, driver: str) -> None:
    """Return if the driver's package is installed; raises to choose again, or to skip it."""
    install = missing_package(driver) or missing_source_package(driver)
    if install is not None:
        problem = f"the driver `{driver}` requires a package that is not installed"
        work.wait_for(problem, install, "Choose another", "Skip this for now")


def _ask_id(work: WizardRun, kind: ConnectionGroup, wanted: str) -> str:
    taken = work.config.connections

    def check(text: str) -> str | None:
        if text.strip().lower() in {each.lower() for each in taken}:
            return f"the connection `{text.strip()}` already exists"
        try:
            check_connection(text.strip(), {"driver": "sqlite", "path": "x"})
        except KtxError as error:
            return error.hint or error.message
        return None

    return work.dialog.text(f"id {wanted}", f"What is the id of the {kind.noun} in ktx?", free_id(wanted, taken), check)


def _ask_words(work: WizardRun, kind: ConnectionGroup, driver: str, connection: str) -> dict[str, Any]:
    """Ask for the fields of a driver, by word."""
    words = {word.name: word for word in words_of(driver, kind.words)}
    warehouse = warehouse_of(driver)
    if warehouse is not None and warehouse.takes_url:
        parts = MenuItem("parts", "Host, database, user and password")
        choices = [parts, MenuItem("url", "One URL with all of them")]
        if work.dialog.select("address", "How do you want to enter its address?", choices, "parts") == "url":
            return {"url": _ask_word(work, words["url"], Question("url", required=True), connection, driver)}
    given: dict[str, Any] = {}
    for question in questions_of(driver):
        if question.word == ("password" if given.get("auth-method") == "rsa" else "private-key"):
            continue  # a user has a password or a key, not both
        if given.get(question.unless):
            continue
        value = _ask_word(work, words[question.word], question, connection, driver)
        if value:
            given[question.word] = value
    return given


def _ask_word(work: WizardRun, word: Word, question: Question, connection: str, driver: str) -> Any:
    check: Check = something if question.required else anything
    if word.secret:
        keep = work.keeper(f"{connection}-{word.name}")
        return work.dialog.secret(word.name, word.question, keep, check)
    text = question.text or word.question
    text = text if question.required else f"{text} (may be empty)"
    if word.name in ("path", "dir"):
        of_path = _path_check(work.root, driver)
        check = of_path if question.required else lambda text: of_path(text) if text.strip() else None
    elif word.name == "port":
        check = _port_check
    typed = work.dialog.text(word.name, text, question.default, check)
    return [part.strip() for part in typed.split(",") if part.strip()] if word.several else typed


def _port_check(text: str) -> str | None:
    typed = text.strip()
    right = not typed or is_reference(typed) or (typed.isascii() and typed.isdigit() and 1 <= int(typed) <= 65535)
    return None if right else "a port is a number from 1 to 65535"


def _path_check(root: Path, driver: str) -> Check:
    """Return the error for a missing path, before anything is opened, while it can be corrected."""

    def check(text: str) -> str | None:
        if not text.strip():
            return something(text)
        try:
            path = root / Path(text.strip()).expanduser()
        except RuntimeError:
            return "`~` cannot be resolved: there is no home folder"
        warehouse = warehouse_of(driver)
        wanted = "file" if warehouse is not None and warehouse.location == "file" else "folder"
        if not path.exists():
            return f"the {wanted} {path} does not exist"
        return None if path.is_dir() == (wanted == "folder") else f"{path} is not a {wanted}"

    return check
