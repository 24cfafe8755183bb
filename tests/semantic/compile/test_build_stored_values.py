"""Which uses of a stored column are converted, and which read the value as the database stores it."""

from __future__ import annotations

import pytest
import sqlglot
from sqlglot import exp

from ktx_cli.semantic.compile.build import with_typed_values
from ktx_cli.semantic.expressions.names import placeholder
from ktx_cli.semantic.model import Column
from ktx_cli.warehouses.dialect import dialect_named
from ktx_cli.warehouses.port import SemanticType, StoredAs

NAMES = {
    "day": StoredAs.ISO_DATE,
    "at": StoredAs.ISO_TIMESTAMP,
    "created": StoredAs.EPOCH_SECONDS,
    "changed": StoredAs.EPOCH_MILLISECONDS,
    "fee": StoredAs.NUMBER_TEXT,
    "paid": StoredAs.BOOLEAN_TEXT,
    "payload": StoredAs.JSON_TEXT,
    "plain": None,
}
COLUMNS = [
    Column(name, SemanticType.STRING if form is None else form.type, stored_as=form) for name, form in NAMES.items()
]


def converted(sql: str, dialect: str = "duckdb") -> tuple[set[str], set[str]]:
    """Return the columns of an expression that are converted, and the others."""
    tree = sqlglot.parse_one(sql, read=dialect)
    numbers = list(NAMES)
    for node in list(tree.find_all(exp.Column)):
        place = placeholder(numbers.index(node.name))
        if node is tree:
            tree = place
        else:
            node.replace(place)
    used: list[Column] = []
    result = with_typed_values(tree, lambda number: COLUMNS[number], dialect_named(dialect), used.append)
    names = {COLUMNS[int(node.name)].name for node in result.find_all(exp.Placeholder)}
    return {each.name for each in used}, names


@pytest.mark.table(
    "sql",
    [
        "day", "at >= '2024-01-31'", "at between '2024-01-01' and '2024-02-01 10:00'", "day in ('2024-01-01')",
        "date_trunc('month', at)", "extract(year from day)", "cast(at as date)", "sum(fee)", "fee > 3", "fee * 2",
        "paid", "not paid", "paid = true", "case when paid then 1 end", "coalesce(fee, 0)", "max(day)", "day = at",
        "created", "created >= '2024-01-01'", "created + interval 1 day", "max(changed)", "nullif(fee, 0)",
        "count(distinct day)", "case when at > '2024-01-01' then fee end",
    ],
)  # fmt: skip
def test_typed_uses_are_converted(sql: str) -> None:
    used, names = converted(sql)
    assert used == names


@pytest.mark.table(
    "sql",
    [
        "at like '2024-01%'", "lower(paid) = 'y'", "substr(day, 1, 7)", "day || '!'", "concat(day, 'x')", "paid = 'Y'",
        "paid in ('Y', 'y')", "paid <> 'N'", "fee = '12'", "coalesce(paid, 'N') = 'Y'", "case paid when 'Y' then 1 end",
        "at <> ''", "day = 'unknown'", "strptime(at, '%Y')", "created > 1700000000", "created / 1000",
        "changed - created", "length(fee)", "payload", "payload = '{}'", "plain", "trim(fee)", "nullif(paid, '')",
        "regexp_matches(at, '^2024')", "(paid) = 'Y'",
    ],
)  # fmt: skip
def test_stored_uses_are_not(sql: str) -> None:
    used, names = converted(sql)
    assert (used, bool(names)) == (set(), True)


def test_a_test_for_a_value_only_leaves_out_blanks() -> None:
    tree = exp.Is(this=placeholder(0), expression=exp.null())
    result = with_typed_values(tree, lambda _: COLUMNS[0], dialect_named("postgres"), lambda _: pytest.fail("used"))
    assert result.sql("postgres") == "NULLIF(TRIM(%(0)s), '') IS NULL"


@pytest.mark.table(("sql", "expected"), [("max(at)", "MAX(NULLIF(TRIM(:1), ''))"), ("at", ":1"), ("created", ":2")])
def test_sqlite_reads_its_times_as_they_are(sql: str, expected: str) -> None:
    tree = sqlglot.parse_one(sql, read="sqlite").transform(
        lambda node: placeholder(list(NAMES).index(node.name)) if isinstance(node, exp.Column) else node
    )
    result = with_typed_values(tree, lambda number: COLUMNS[number], dialect_named("sqlite"), lambda _: None)
    assert result.sql("sqlite") == expected


def test_a_tree_without_stored_columns_is_the_same_tree() -> None:
    tree = sqlglot.parse_one("x + 1").transform(lambda node: placeholder(7) if isinstance(node, exp.Column) else node)
    assert with_typed_values(tree, lambda number: COLUMNS[number], dialect_named("duckdb"), lambda _: None) is tree
