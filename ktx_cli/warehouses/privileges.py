"""Names the tables that a role may not read, and the GRANT that lets it, for both doctor and ingest."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from ktx_cli.core import Hint, SettingPath, listing
from ktx_cli.project import Database
from ktx_cli.warehouses.dialect import Dialect, dialect_named
from ktx_cli.warehouses.port import ConnectionTest, TableRef
from ktx_cli.warehouses.registry import dialect_of

READER = "ktx_reader"
"""What a role is called that is made for ktx."""

NAMED_TABLES = 10
"""A GRANT names the tables up to this number, beyond it their schemas."""


@dataclass(frozen=True, slots=True)
class AccessGap:
    """What cannot be read; `nothing`: not one table can. `hint` has the statement that changes it."""

    message: str
    hint: str
    nothing: bool


def access_gap(connection: str, entry: Database, test: ConnectionTest) -> AccessGap | None:
    """Return what is missing when no table can be read, or one that `enabled_tables` names; None when all is well."""
    if not test.tables:
        return AccessGap("there is no table to read", _hint_for_none(connection, entry, test), nothing=True)
    closed = test.closed
    if not closed or (len(closed) < test.tables and not entry.enabled_tables):
        return None
    role = f"`{test.user}`" if test.user else "the role"
    nothing = len(closed) == test.tables
    what = ("any table in scope: " if nothing else "") + listing(f"`{ref}`" for ref in closed)
    hint = f"as the tables' owner: {_grant(entry, test, closed)}"
    return AccessGap(f"{role} may not SELECT from {what}", hint, nothing)


def reader_role(entry: Database, test: ConnectionTest) -> str | None:
    """Return the statements that make a role that may only SELECT, None for a driver whose words are not known here."""
    return _syntax(entry).reader_role(READER, test.database, getattr(entry, "schemas", None) or ())


def _hint_for_none(connection: str, entry: Database, test: ConnectionTest) -> str:
    scope = [f"`{key}`" for key in ("schemas", "enabled_tables", "include", "exclude") if getattr(entry, key, None)]
    place = SettingPath(f"connections.{connection}")
    check = Hint("check {} of {} in ktx.yaml", listing(scope), place) if scope else Hint()
    syntax = _syntax(entry)
    if syntax.hides_closed_tables and test.database:
        places = syntax.all_tables_form.format(syntax.quote(test.database))
        grant = f"as an administrator: GRANT SELECT ON {places} TO {syntax.role(test.user or '')}"
        return Hint("{}, or {}", check, grant) if check else grant
    return check or Hint("create a table in it, or point {} at another database", place)


def _grant(entry: Database, test: ConnectionTest, closed: Sequence[TableRef]) -> str:
    """Return the statements that let the role SELECT: from the tables when `enabled_tables` names them, else all."""
    syntax = _syntax(entry)
    role = syntax.role(test.user or "")
    schemas = list(dict.fromkeys(syntax.quote(ref.schema) for ref in closed if ref.schema is not None))
    by_name = bool(entry.enabled_tables) and len(closed) <= NAMED_TABLES
    tables = [syntax.path(ref) for ref in closed]
    if not syntax.grants_usage:
        places = tables if by_name else [syntax.all_tables_form.format(schema) for schema in schemas]
        return "; ".join(f"GRANT SELECT ON {place} TO {role}" for place in places)
    within = ", ".join(schemas)
    what = ", ".join(tables) if by_name else syntax.all_tables_form.format(within)
    return f"GRANT USAGE ON SCHEMA {within} TO {role}; GRANT SELECT ON {what} TO {role}"


def _syntax(entry: Database) -> Dialect:
    return dialect_named(dialect_of(entry.driver) or entry.driver)
