"""Masked columns in raw SQL, in pipelines, and in sources that read them with SQL or through views."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from ktx_cli.protection.relations import Refused, Relations
from ktx_cli.protection.statements import (
    check_collections,
    check_protected,
    check_source,
    has_protected,
    source_guard,
    values_shown,
)
from ktx_cli.semantic.caller import NOBODY, Caller
from ktx_cli.semantic.model import Column, Join, Mask, Model, Policy, Relationship, Source, Visibility
from ktx_cli.warehouses.mongodb.pipeline import CollectionPaths
from ktx_cli.warehouses.port import SemanticType, TableKind
from tests.agent_tools.conftest import TABLES, relation

STRING = SemanticType.STRING
SUPPORT = Caller.of({"role": "support"})
MASK = Mask((("role", ("support",)),))


def _columns(*names: str, masked: str = "") -> dict[str, Column]:
    return {name: Column(name, STRING, mask=MASK if name == masked else None) for name in names}


def _source(name: str, columns: dict[str, Column], **more: Any) -> Source:
    more = more if "sql" in more else {"table": ("main", name), **more}
    return Source(name, columns, ("id",), **more)


CUSTOMERS = _source("customers", _columns("id", "email", "region", masked="email"))
TWIN = replace(CUSTOMERS, name="clients", columns=_columns("id", "email", "region"), table=("customers",))
ORDERS = _source(
    "orders",
    _columns("id", "buyer", "status"),
    joins=(Join("customers", "buyer = customers.email", (("buyer", "email"),), Relationship.MANY_TO_ONE),),
)
MAILS = _source("mails", _columns("id", "address"), sql="SELECT id, email AS address FROM customers")
REGIONS = _source("regions", _columns("id", "region"), sql="SELECT id, region FROM customers")
VIEW = _source("mail_view", _columns("id", "m"))
SOURCES = {each.name: each for each in (CUSTOMERS, TWIN, ORDERS, MAILS, REGIONS, VIEW)}
MODEL = Model("shop", "duckdb", SOURCES)
RELATIONS = Relations([
    *TABLES,
    relation("mail_view", TableKind.VIEW, "CREATE VIEW mail_view AS SELECT id, email AS m FROM customers"),
])  # fmt: skip


@pytest.mark.table(
    ("sql", "refused"),
    [
        ("SELECT email FROM customers", True),
        ("SELECT * FROM customers", True),
        ("SELECT count(*) FROM customers WHERE email LIKE 'a%'", True),
        ("SELECT min(EMAIL) FROM main.customers", True),
        ("SELECT buyer FROM orders", True),
        ("SELECT count(*) FROM orders JOIN customers ON buyer = region", True),
        ("SUMMARIZE customers", True),
        ("SELECT m FROM mail_view", True),
        ("SELECT region FROM customers", False),
        ("SELECT status, count(*) FROM orders GROUP BY status", False),
    ],
)
def test_a_masked_column_is_hidden_from_callers_who_do_not_see_it(sql: str, refused: bool) -> None:
    for caller in (NOBODY, Caller.of({"role": "guest"}), Caller.of({"role": "support"}, {})):
        if refused:
            with pytest.raises(Refused):
                check_protected(MODEL, sql, RELATIONS, caller)
        else:
            check_protected(MODEL, sql, RELATIONS, caller)
    check_protected(MODEL, sql, RELATIONS, SUPPORT)


def test_for_a_caller_who_sees_all_values_nothing_is_hidden() -> None:
    assert has_protected(MODEL) and not has_protected(MODEL, SUPPORT)
    hidden = replace(REGIONS, sql=None, table=("r",), visibility=Visibility.HIDDEN)
    for more in (hidden, replace(hidden, visibility=Visibility.PUBLIC, policies=(Policy("p", "id = 1"),))):
        assert has_protected(replace(MODEL, sources={**SOURCES, "regions": more}), SUPPORT)


@pytest.mark.table(
    ("name", "refused"),
    [("mails", True), ("mail_view", True), ("regions", False), ("customers", False), ("orders", False)],
)
def test_a_source_that_reads_a_masked_column_in_sql_or_a_view_is_refused(name: str, refused: bool) -> None:
    """The compiler masks columns of tables itself."""
    for more in ({}, {"policies": (Policy("p", "id = 1"),)}, {"visibility": Visibility.HIDDEN}):
        source = replace(SOURCES[name], **more)
        model = replace(MODEL, sources={**SOURCES, name: source})
        if refused:
            with pytest.raises(Refused, match="reads data that is hidden elsewhere"):
                check_source(model, source, RELATIONS)
        else:
            check_source(model, source, RELATIONS)
        check_source(model, source, RELATIONS, SUPPORT)


def test_a_guard_is_only_needed_for_callers_who_do_not_see_everything() -> None:
    class Nowhere:
        def read(self, path: str) -> None:
            return None

    assert source_guard(MODEL, Nowhere(), SUPPORT) is None  # type: ignore[arg-type]
    guard = source_guard(MODEL, Nowhere())  # type: ignore[arg-type]
    assert guard is not None
    guard(["customers", "orders", "regions"])


@pytest.mark.table(
    ("paths", "refused"), [({"region"}, False), ({"email"}, True), ({"email.domain"}, True), (None, True)]
)
def test_a_pipeline_shows_a_masked_field_only_to_callers_who_see_it(paths: set[str] | None, refused: bool) -> None:
    model = replace(MODEL, sources={"customers": replace(CUSTOMERS, table=("customers",))})
    reads = [CollectionPaths(None, None if paths is None else frozenset(paths))]
    if refused:
        with pytest.raises(Refused, match="is hidden"):
            check_collections(model, "customers", reads)
    else:
        check_collections(model, "customers", reads)
    check_collections(model, "customers", reads, None, SUPPORT)


def test_the_values_of_masked_columns_are_not_listed() -> None:
    for source, hidden in ((CUSTOMERS, {"email"}), (TWIN, {"email"}), (ORDERS, {"buyer"})):
        of_nobody = values_shown(MODEL, source, lambda: RELATIONS)
        of_support = values_shown(MODEL, source, lambda: RELATIONS, SUPPORT)
        assert {name for name, each in source.columns.items() if not of_nobody(each)} == hidden
        assert all(map(of_support, source.columns.values()))
