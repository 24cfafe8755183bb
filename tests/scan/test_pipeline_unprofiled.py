"""The warnings of what has no profile: one for each reason, each with what changes it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest

from ktx_cli.core.errors import ResultWarning, SourceError
from ktx_cli.privacy.columns import ValueKind
from ktx_cli.scan.outcome import MOST_REASONS, unprofiled_warnings
from ktx_cli.scan.profile.profiler import (
    ColumnProfile,
    Profiled,
    SampledTable,
    TableProfile,
    Unsampled,
    unread,
    unsampled,
)
from ktx_cli.warehouses.port import Column, ConnectionTest, SemanticType, Table, TableKind, TableRef
from ktx_cli.warehouses.sampling import SampleMethod


class Server:
    """A connector that only says who asks."""

    def __init__(self, dialect: str = "postgres", user: str | None = "reader") -> None:
        self.dialect = dialect
        self.user = user

    def test(self, scope: object) -> ConnectionTest:
        if self.user is None:
            raise SourceError("gone")
        return ConnectionTest(1.0, "1", 0, user=self.user)


def table(name: str, schema: str | None = "mart") -> Table:
    return Table(TableRef(schema, name), TableKind.VIEW, (Column("x", "int", SemanticType.NUMBER),))


def warnings(problems: Mapping[str, str], server: object = None, **facts: int) -> list[ResultWarning]:
    source: Any = server or Server()
    tables = tuple(
        unsampled(table(name), *((why,) if isinstance(why, Unsampled) else (Unsampled.ERROR, why)))
        for name, why in problems.items()
    )
    return unprofiled_warnings("shop", source, Profiled(tables, 0, 0, **facts))


def test_one_reason_is_one_warning_with_the_count_and_the_first_names() -> None:
    names = [f"t{number}" for number in range(7)]
    (warning,) = warnings({name: f'relation "mart.{name}" is broken at {name}: page {name}' for name in names})
    assert warning.code == "not_profiled"
    assert "could not read rows from 7 tables (mart.t0, mart.t1, mart.t2 and 4 more): " in warning.message
    assert warning.details["objects"] == [f"mart.{name}" for name in names]
    assert warning.hint == (
        "fix or drop them, or add this to `exclude` of connections.shop in ktx.yaml: "
        + ", ".join(f"mart.{name}" for name in names)
    )


GRANTS = {
    "postgres": 'GRANT SELECT ON "mart"."a" TO "reader"; GRANT SELECT ON "mart"."b" TO "reader"',
    "mysql": "GRANT SELECT ON `mart`.`a` TO 'reader'@'%'; GRANT SELECT ON `mart`.`b` TO 'reader'@'%'",
    "tsql": "GRANT SELECT ON [mart].[a] TO [reader]; GRANT SELECT ON [mart].[b] TO [reader]",
}
REFUSALS = {
    "postgres": "permission denied for view {}",
    "mysql": "SELECT command denied to user 'reader'@'%' for table `mart`.`{}`",
    "tsql": "The SELECT permission was denied on the object '{}', database 'shop', schema 'mart'.",
}


@pytest.mark.table("dialect", GRANTS)
def test_a_missing_privilege_has_its_grant(dialect: str) -> None:
    user = "reader@%" if dialect == "mysql" else "reader"
    said = {name: REFUSALS[dialect].format(name) for name in "ab"}
    (warning,) = warnings(said, Server(dialect, user))
    assert warning.hint == f"run as the owner of the tables: {GRANTS[dialect]}"


def test_a_schema_that_is_closed_is_opened_too_and_many_tables_are_granted_at_once() -> None:
    (warning,) = warnings({f"t{number}": "permission denied for schema mart" for number in range(11)})
    assert warning.hint == (
        'run as the owner of the tables: GRANT USAGE ON SCHEMA "mart" TO "reader"; '
        'GRANT SELECT ON ALL TABLES IN SCHEMA "mart" TO "reader"'
    )


@pytest.mark.table("server", [Server("snowflake"), Server("postgres", None)])
def test_where_no_statement_is_sure_the_hint_is_the_command_that_tells_the_role(server: Server) -> None:
    (warning,) = warnings({"a": "permission denied for table a"}, server)
    assert str(warning.hint).endswith("ktx connection test shop")


def test_what_passes_is_tried_again() -> None:
    (warning,) = warnings(
        {"a": "the object that the statement reads has been locked by another session for more than 5 seconds"}
    )
    assert warning.hint == "retry later with ktx scan shop"


def test_reasons_are_apart_the_largest_first_and_the_rest_share_one() -> None:
    said = {f"t{number}": f"reason {'x' * (number // 2 + 1)}" for number in range(2 * MOST_REASONS + 6)}
    said |= {"u1": "permission denied for table u1", "u2": "permission denied", "u3": "Access denied for user"}
    found = warnings(said)
    assert len(found) == MOST_REASONS + 1
    assert "3 tables" in found[0].message
    assert sum(len(each.details["objects"]) for each in found) == len(said)


def test_columns_are_counted_apart() -> None:
    column = ColumnProfile("x", ValueKind.OPAQUE, 0, problem="bad cast of 'secret'")
    ref = TableRef("mart", "a")
    profile = TableProfile(ref, SampleMethod.ALL, 1, 1, True, (column,))
    both = (SampledTable(profile), unsampled(table("b"), Unsampled.ERROR, "bad cast of 'other'"))
    (warning,) = unprofiled_warnings("shop", Server(), Profiled(both, 0, 0))  # type: ignore[arg-type]
    assert "could not read rows from 1 table and 1 column (mart.a.x, mart.b)" in warning.message


def test_views_are_counted_on_one_line_and_are_no_failure() -> None:
    tables = tuple(unread(table(f"v{number}"), Unsampled.NOT_READ) for number in range(12))
    (warning,) = unprofiled_warnings("shop", Server(), Profiled(tables, 0, 0, not_read=12))  # type: ignore[arg-type]
    assert (warning.code, warning.message) == (
        "views_not_read",
        "connection `shop`: 12 views not profiled because of `scan.views`",
    )
    assert warning.hint == "ktx config set scan.views always"


def test_what_exceeds_the_bytes_is_counted() -> None:
    (warning,) = warnings(dict.fromkeys("ab", Unsampled.OVER_BUDGET), over_budget=2)
    assert warning.code == "profile_over_budget"
    assert "2 tables of 2 not profiled because of `scan.budget.gigabytes`" in warning.message
    assert "scan.budget.gigabytes" in (warning.hint or "")


def test_what_the_time_did_not_reach_is_counted() -> None:
    (warning,) = warnings(dict.fromkeys("ab", Unsampled.OUT_OF_TIME), out_of_time=2)
    assert warning.code == "profile_out_of_time"
    assert "2 tables of 2 not profiled within the time limit; the next run starts with them" in warning.message
    assert warning.details["left"] == 2
