"""`ktx connection`: list, test, add and remove the connections in ktx.yaml."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any

from typer import Argument, Option

from ktx_cli.cli.attempts import Attempt
from ktx_cli.cli.blocks import Fields, Table
from ktx_cli.cli.commands.completion import connection_ids
from ktx_cli.cli.contract import Result, Session, combined, command
from ktx_cli.cli.help import group
from ktx_cli.cli.reports import IDS
from ktx_cli.core import Command, KtxError, UsageError, picked, plural

if TYPE_CHECKING:
    from ktx_cli.jobs.connections import SourceCheck
    from ktx_cli.jobs.health.facts import ConnectionStatus
    from ktx_cli.jobs.setup.answers import Word
    from ktx_cli.warehouses import ConnectionTest

commands = group("List, test, add and remove connections.")


@command(commands, "list", schema="connection-list")
def list_connections(session: Session) -> Result:
    """List the connections of this project.

    For a database, the list also says on what this version's driver has been tested: the real database, an emulator
    that runs its statements, or no real server yet.

    Examples:
        ktx connection list
        ktx connection list --json
    """
    results = [result for _, result in session.run_all(None, lambda session, _: _listed(session))]
    found = [each for result in results for each in result.data]
    rows = tuple((each["id"], each["driver"], each["kind"], _tested_on(each), last_read) for each, last_read in found)
    table = Table(("id", "driver", "kind", "tested on", "last read"), rows)
    steps = [] if rows else results[0].next_steps
    return Result({"connections": [each for each, _ in found]}, [table], next_steps=steps)


def _listed(session: Session) -> Result:
    """Return the connections of one project, each with the time it was last read."""
    from ktx_cli.jobs.health.facts import connection_statuses
    from ktx_cli.jobs.health.model import CheckContext
    from ktx_cli.jobs.setup.request import first_step
    from ktx_cli.project import Layout, load_config

    layout = Layout(session.require_project())
    loaded = load_config(layout.config)
    connections, warnings = connection_statuses(CheckContext(layout, loaded, os.environ))
    session.warn(*loaded.notices(), *warnings)
    found = [
        ({**c.to_json(), "id": session.qualified(c.id), "verified": _verified(c)}, _last_read(c)) for c in connections
    ]
    return Result(found, next_steps=[] if found else [first_step(layout.root, loaded.config)])


def _verified(connection: ConnectionStatus) -> str | None:
    from ktx_cli.warehouses import warehouse_of

    warehouse = warehouse_of(connection.driver) if connection.is_database else None
    return None if warehouse is None else warehouse.verified


def _tested_on(connection: Mapping[str, Any]) -> str:
    from ktx_cli.warehouses import VERIFIED_TEXTS

    return "" if connection["verified"] is None else VERIFIED_TEXTS[connection["verified"]]


def _last_read(connection: ConnectionStatus) -> str:
    """Return when a database was last scanned, or a source last fetched."""
    last = connection.last_scan if connection.is_database else connection.last_fetch
    if last is None:
        return "unknown" if connection.is_unread else "never"
    return last.finished


@command(commands, "test", schema="connection-test")
def test(session: Session, ids: IDS = None) -> Result:
    """Test connections to databases and context sources.

    Connects as `ktx ingest` does and prints the latency, the server version and the privileges. Exits 4 if a
    connection fails.

    Examples:
        ktx connection test
        ktx connection test warehouse --json
    """
    from ktx_cli.jobs.connections import check_connection_of
    from ktx_cli.project import connection_of

    layout, config = session.load_project()
    answers: list[dict[str, Any]] = []
    errors: list[KtxError] = []
    for connection in ids or ():
        connection_of(config, connection)
    for connection in ids or sorted(config.usable()):
        try:
            found = check_connection_of(config, connection, project_dir=layout.root, environ=os.environ)
        except KtxError as error:
            errors.append(error)
            answers.append({"id": connection, "ok": False, "error": error.to_json()})
            continue
        answers.append({"id": connection, "ok": True, "latency_ms": round(found.latency_ms, 2), **_found(found)})
    table = Table(("id", "result"), tuple((a["id"], _verdict(a)) for a in answers))
    return Result({"connections": answers}, [table], combined(errors), is_report=True)


def _found(found: ConnectionTest | SourceCheck) -> dict[str, Any]:
    from ktx_cli.jobs.connections import SourceCheck

    if isinstance(found, SourceCheck):
        return {"origin": found.origin}
    return picked(found, ("server_version", "tables", "user", "can_write", "privileges"))


def _verdict(answer: dict[str, Any]) -> str:
    if not answer["ok"]:
        return f"failed: {answer['error']['message']}"
    if "origin" in answer:
        return f"{answer['origin']}, {answer['latency_ms']} ms"
    facts = [answer["server_version"], plural(answer["tables"], "table"), f"{answer['latency_ms']} ms"]
    return ", ".join([*facts, *_role_facts(answer["can_write"], answer["privileges"])])


def _role_facts(can_write: bool | None, privileges: Iterable[str]) -> list[str]:
    writes = {True: "role can write", False: "read-only role", None: ""}[can_write]
    return [each for each in (writes, *privileges) if each]


def _server_facts(found: ConnectionTest) -> list[str]:
    return [found.server_version, *_role_facts(found.can_write, found.privileges)]


@command(commands, "add", schema="connection-add")
def add(
    session: Session,
    id: Annotated[str, Argument(metavar="ID", help="ID of the new connection.")],
    driver: Annotated[str, Option("--driver", help="Driver, for example sqlite, duckdb, files, postgres or mysql.")],
    url: Annotated[
        str | None, Option("--url", help="URL of the database. Prefer env:NAME or file:PATH to plaintext.")
    ] = None,
    path: Annotated[str | None, Option("--path", help="File or folder, relative to the project.")] = None,
    host: Annotated[str | None, Option("--host", help="Host.")] = None,
    port: Annotated[str | None, Option("--port", help="Port.")] = None,
    database: Annotated[str | None, Option("--database", help="Name of the database.")] = None,
    user: Annotated[str | None, Option("--user", help="User.")] = None,
    password: Annotated[
        str | None,
        Option("--password", help="Password. Prefer env:NAME; ktx stores plaintext in .ktx/secrets, not in ktx.yaml."),
    ] = None,
    include: Annotated[
        list[str] | None,
        Option(
            "--include",
            metavar="PATTERN",
            help="Include only tables that match, for example 'mart.*'. Can be repeated.",
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None,
        Option("--exclude", metavar="PATTERN", help="Exclude tables that match, for example '*_tmp'. Can be repeated."),
    ] = None,
    field: Annotated[
        list[str] | None, Option("--set", metavar="KEY=VALUE", help="Set any other field. Can be repeated.")
    ] = None,
    no_test: Annotated[bool, Option("--no-test", help="Save without connecting.")] = False,
) -> Result:
    """Test a connection and add it to ktx.yaml.

    ktx.yaml is not committed. A plaintext password is stored in .ktx/secrets, which git ignores.

    Drivers of databases: sqlite, duckdb, files, postgres, mysql, sqlserver, clickhouse, snowflake, bigquery, redshift,
    databricks, trino, hologres, iceberg, delta, mongodb, spark, athena.

    Drivers of context sources: dbt, metricflow, lookml, powerbi, tableau, odcs, looker, metabase, notion, confluence,
    gdrive, jira, documents, datahub, openmetadata, sigma. `ktx config schema` describes the fields of each driver.

    Examples:
        ktx connection add exports --driver files --path exports
        ktx connection add crm --driver postgres --url env:CRM_URL --no-test
        ktx connection add pg --driver postgres --host db1 --user me --no-test
    """
    from ktx_cli.jobs.connections import add_connection
    from ktx_cli.jobs.setup.plan import fields_of, key_of
    from ktx_cli.jobs.setup.setup import keep_secrets
    from ktx_cli.project import Layout

    words = _server_words()
    given = {"host": host, "port": port, "database": database, "user": user, "password": password}
    fields: dict[str, Any] = {"driver": driver, "url": url, "path": path}
    fields |= {**fields_of(driver, given, words, flag="--"), "include": include, "exclude": exclude}
    fields = {key: value for key, value in fields.items() if value}
    _set_fields(fields, driver, field or ())
    layout = Layout(session.require_project())
    begins = Command("connection", "add", *session.settings.project_words)
    flags = {key: f"--{key}" for key in ("driver", "url", "path", "include", "exclude")}
    flags |= {each: f"--{word.name}" for word in words if (each := key_of(word, driver)) is not None}
    stored: list[str] = []

    def keep(fields: Mapping[str, Any]) -> Mapping[str, Any]:
        kept, references = keep_secrets(layout, id, fields)
        stored.extend(references)
        return kept

    with Attempt(begins, id, fields, flags, other_flag="--set").hinting():
        found, warnings = add_connection(layout, id, fields, environ=os.environ, test=not no_test, keep=keep)
    session.warn(*warnings)
    rows = [("connection", id), ("ktx.yaml", "saved, not committed")]
    rows += [("secret", f"stored in {reference.removeprefix('file:')}, which git ignores") for reference in stored]
    return Result(
        {"id": id, "tested": found is not None, "tables": getattr(found, "tables", None)},
        [Fields((*rows, *_test_facts(found, driver)))],
        next_steps=[Command("ingest", id)],
    )


def _set_fields(fields: dict[str, Any], driver: str, pairs: Sequence[str]) -> None:
    """Set the fields in `--set KEY=VALUE`; raises `UsageError`."""
    from ktx_cli.jobs.setup.plan import put, read_value

    for pair in pairs:
        key, equals, value = pair.partition("=")
        if not equals or not key:
            raise UsageError(f"--set {pair} is not KEY=VALUE", hint="for example --set host=localhost")
        put(fields, key, read_value(driver, key, value, where=f"--set {key}"))


def _test_facts(found: ConnectionTest | SourceCheck | None, driver: str | None) -> list[tuple[str, str]]:
    """Return the results of testing a new connection, or that it was not tested."""
    from ktx_cli.jobs.connections import SourceCheck
    from ktx_cli.warehouses import warehouse_of

    if found is None:
        return [("tables" if driver and warehouse_of(driver) else "content", "not tested")]
    if isinstance(found, SourceCheck):
        return [("found", found.origin)]
    return [("tables", str(found.tables)), ("server", ", ".join(_server_facts(found)))]


def _server_words() -> tuple[Word, ...]:
    """Return what `add` has flags of its own for, of what setup asks about a database."""
    from ktx_cli.jobs.setup.answers import DATABASE_WORDS

    words = {word.name: word for word in DATABASE_WORDS}
    return (words["host"], words["port"], replace(words["name"], name="database"), words["user"], words["password"])


@command(commands, "remove", schema="connection-remove")
def remove(
    session: Session,
    id: Annotated[str, Argument(metavar="ID", help="ID of the connection.", autocompletion=connection_ids)],
) -> Result:
    """Remove a connection from ktx.yaml.

    The connection's context is kept: its semantic layer, snapshot, pages and proposals; so are its secrets in
    `.ktx/secrets`. The report lists these files, and `ktx lint` reports the context until you delete it.

    Examples:
        ktx connection remove handbook --yes
        ktx connection remove dbt --yes --json
    """
    from ktx_cli.core import Command, ResultWarning
    from ktx_cli.jobs.connections import remove_connection
    from ktx_cli.project import Layout, known_connection, load_config
    from ktx_cli.semantic import stray_problems

    layout = Layout(session.require_project())
    known_connection(load_config(layout.config).config, id)
    session.confirm(f"Remove connection `{id}` from ktx.yaml?")
    kept = remove_connection(layout, id)
    for each in stray_problems(layout, load_config(layout.config).config):
        message = f"{each.location}: {each.message}, so agents cannot run SQL on any database"
        session.warn(ResultWarning.of(each, each.code, message, path=each.path))
    rows = [("removed", id), *(("kept", path) for path in kept)]
    context = [path for path in kept if not path.startswith(".ktx/")]
    steps = [Command("lint", "--select", "KTX341,KTX345")] if context else []
    return Result({"id": id, "kept": kept}, [Fields(tuple(rows))], next_steps=steps)
