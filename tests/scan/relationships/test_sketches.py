"""Sketches: what they say about inclusion, how far off it may be, and what they say of keys."""

from __future__ import annotations

import hashlib
import math
import random
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Any

import duckdb
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchmarks.relationship_fixtures.discovering import discover_database
from ktx_cli.core.errors import SourceError
from ktx_cli.project.config.blocks import Relationships, Scan
from ktx_cli.scan.profile.profiler import Budget, profile_tables
from ktx_cli.scan.relationships import row_checks, sketches
from ktx_cli.scan.relationships.columns import Candidate, NameMatch, Overlap, gather
from ktx_cli.scan.relationships.record import Check, Status
from ktx_cli.scan.relationships.sketches import Containment, Sketch, containment, share_bounds, sketches_of
from ktx_cli.warehouses import sketch as statements
from ktx_cli.warehouses.port import Column, QueryResult, Scope, SemanticType, Table, TableKind, TableRef
from ktx_cli.warehouses.sketch import HASHES, SketchedColumn, sketch_statement

SIZE = 512
"""The size of a sketch in these tests, so that it is a small part of few values."""


@pytest.fixture(scope="module", autouse=True)
def small_sketches() -> Iterable[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(statements, "SKETCH_SIZE", SIZE)
        patch.setattr(sketches, "SKETCH_SIZE", SIZE)
        yield


def hash_of(value: Any) -> int:
    return int(hashlib.md5(str(value).encode(), usedforsecurity=False).hexdigest()[:15], 16)


def sketch(rows: Mapping[Any, int], size: int = SIZE) -> Sketch:
    """Return the sketch of values with their numbers of rows."""
    hashes = {hash_of(value): count for value, count in rows.items()}
    smallest = sorted(hashes)
    threshold = smallest[size] if len(smallest) > size else HASHES
    return Sketch({each: hashes[each] for each in smallest[:size]}, threshold, sum(rows.values()))


def compared(child: Mapping[Any, int], key: Iterable[Any]) -> Containment:
    found = containment(sketch(child), sketch(dict.fromkeys(key, 1)))
    assert found is not None
    return found


NUMBERS = Column("n", "BIGINT", SemanticType.NUMBER)


def in_duckdb(session: duckdb.DuckDBPyConnection, name: str, values: Iterable[int], share: float = 1.0) -> Sketch:
    """Return the sketch that DuckDB computes for a table of numbers."""
    session.execute(f"CREATE OR REPLACE TABLE {name} (n BIGINT)")
    session.execute(f"INSERT INTO {name} SELECT unnest(?)", [list(values)])
    columns = [SketchedColumn(NUMBERS, share)]
    statement = sketch_statement(Table(TableRef(None, name), TableKind.TABLE, (NUMBERS,)), columns, "duckdb")
    return sketches_of(session.execute(statement).fetchall(), columns)[0]


def test_the_database_computes_the_sketch() -> None:
    with duckdb.connect() as session:
        values = [number % 3000 for number in range(9000)]
        found = in_duckdb(session, "t", values)
        part = in_duckdb(session, "t", values, 0.05)
    assert (len(found.hashes), set(found.hashes.values()), found.filled) == (SIZE, {3}, 9000)
    assert max(found.hashes) < found.threshold
    assert found.distinct == pytest.approx(3000, rel=4 * found.error)
    assert (part.threshold, part.filled) == (int(0.05 * HASHES), 9000)
    assert part.hashes == {each: 3 for each in found.hashes if each < part.threshold}


@settings(derandomize=True, max_examples=60)
@given(
    seed=st.integers(0, 2**32),
    values=st.integers(600, 6000),
    kept=st.floats(0, 1),
    others=st.integers(0, 6000),
    rows=st.integers(1, 3),
)
def test_containment_is_within_its_bounds(seed: int, values: int, kept: float, others: int, rows: int) -> None:
    dice = random.Random(seed)
    child = dice.sample(range(10**9), values)
    key = [each for each in child if dice.random() < kept] + [10**9 + each for each in range(others)]
    counts = {each: dice.randint(1, rows) for each in child}
    with duckdb.connect() as session:
        listed = [each for each, count in counts.items() for _ in range(count)]
        found = containment(in_duckdb(session, "child", listed), in_duckdb(session, "parent", key, 0.9))
    if found is None or found.compared < 30:
        return
    present = set(key)
    missing = [count for each, count in counts.items() if each not in present]
    low, high = found.value_bounds()
    assert low <= len(missing) / values <= high
    low, high = found.row_bounds()
    assert low <= sum(missing) / sum(counts.values()) <= high


@pytest.mark.parametrize(("share", "count"), [(0.0, 100), (0.02, 2000), (0.5, 200), (1.0, 500)])
def test_bounds_hold_as_often_as_they_say(share: float, count: int) -> None:
    low, high = share_bounds(share, count)
    assert 0 <= low <= share <= high <= 1
    dice = random.Random(count)
    outside = 0
    for truth in (low, high):
        for _ in range(400):
            drawn = sum(dice.random() < truth for _ in range(count)) / count
            around = share_bounds(drawn, count)
            outside += not around[0] <= truth <= around[1]
    assert outside <= 800 * (1 - sketches.CERTAINTY) * 2


def test_bounds_of_shares_at_the_ends() -> None:
    assert share_bounds(0.0, 1000)[0] == 0.0
    assert share_bounds(0.0, 1000)[1] == pytest.approx(1 - math.exp(-math.log(200) / 1000), rel=1e-6)
    assert share_bounds(1.0, 1000)[1] == 1.0


EVEN = dict.fromkeys(range(5000), 3)


def test_even_rows_are_estimated_from_those_of_the_compared_values() -> None:
    check = compared(EVEN, range(4500)).check(Check(60, 0, exact=False))
    assert check is not None
    assert (check.exact, check.compared, check.rows) == (False, SIZE, 3 * SIZE)
    assert check.violations == pytest.approx(0.1, abs=0.04)
    assert check.at_most is not None
    assert check.violations < check.at_most < 0.2


def test_values_that_are_all_compared_give_an_exact_check() -> None:
    check = compared({1: 10, 2: 90, 3: 5}, [1, 2]).check(None)
    assert check == Check(105, 5, exact=True)


@pytest.mark.parametrize(
    ("sampled", "wanted"),
    [
        pytest.param(Check(60, 20, exact=False), Check(60, 20, exact=False), id="the sample has what hashes lack"),
        pytest.param(Check(60, 0, exact=False), None, id="the hashes have what the sample lacks"),
        pytest.param(None, None, id="no sample"),
    ],
)
def test_a_value_with_most_rows_does_not_hide_the_others(sampled: Check | None, wanted: Check | None) -> None:
    heavy = max(EVEN, key=hash_of)
    found = compared({**EVEN, heavy: 100_000}, range(4500))
    assert not found.is_typical
    check = found.check(sampled)
    assert check is not None
    if wanted is not None:
        assert check == wanted
    else:
        assert (check.rows, check.compared) == (SIZE, SIZE)
        assert check.violations == pytest.approx(0.1, abs=0.04)


def test_a_heavy_value_among_the_hashes_is_noticed_too() -> None:
    assert not compared({**EVEN, min(EVEN, key=hash_of): 100_000}, range(4500)).is_typical
    assert compared(EVEN, range(4500)).is_typical


def test_few_comparable_hashes_say_nothing() -> None:
    found = compared(dict.fromkeys(range(1000), 1), range(20_000))
    assert found.compared < sketches.LEAST_COMPARED
    assert found.check(Check(60, 0, exact=False)) is None
    assert containment(sketch({}), sketch({1: 1})) is None


def test_distinct_values_are_estimated() -> None:
    found = sketch(dict.fromkeys(range(20_000), 2))
    assert found.distinct == pytest.approx(20_000, rel=4 * found.error)
    whole = sketch({1: 5, 2: 5})
    assert (whole.distinct, whole.error, whole.complete) == (2, 0, True)


# -- in a search ------------------------------------------------------------------------------------------------------

LARGE = 4000


@pytest.fixture
def large(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let tables be large that have more rows than a sample."""
    monkeypatch.setattr(row_checks, "EXACT_ROWS", LARGE)


def shop_of(customer: str, *, customers: int = 6000, orders: int = 30_000, more: str = "") -> list[str]:
    return [
        f"CREATE TABLE customers AS SELECT n AS customer_id, 'c' || n AS name FROM range(1, {customers + 1}) AS t(n)",
        f"CREATE TABLE orders AS SELECT n + 500000 AS order_id, {customer} AS customer_id{more} "
        f"FROM range(1, {orders + 1}) AS t(n)",
    ]


ORDER = "main.orders(customer_id) -> main.customers(customer_id)"
SMALL_SAMPLE = {"profileSampleRows": 1000}


@pytest.mark.usefixtures("large")
def test_a_join_of_large_tables_is_checked_by_sketches(shop: Any) -> None:
    found = shop.search(shop_of("1 + n * 7919 % 6000"), "duckdb", **SMALL_SAMPLE)
    relationship = found.inferred(ORDER)
    assert relationship.status is Status.ACCEPTED
    assert (
        relationship.reason == "Column name matches the key; all sketched values exist in `main.customers.customer_id`."
    )
    assert relationship.check is not None
    assert relationship.check.compared > SIZE / 2
    assert found.found.problems == ()


@pytest.mark.usefixtures("large")
def test_a_placeholder_is_no_value_of_a_sketch(shop: Any) -> None:
    customer = "CASE WHEN n % 3 = 0 THEN 0 ELSE 1 + n * 7919 % 6000 END"
    found = shop.search(shop_of(customer), "duckdb", **SMALL_SAMPLE)
    check = found.inferred(ORDER).check
    assert check is not None
    assert (check.missing, check.compared > 0) == (0, True)


@pytest.mark.usefixtures("large")
def test_a_placeholder_of_a_column_is_a_value_of_the_same_column_as_a_key(shop: Any) -> None:
    """A dimension whose row 0 means "unknown" refers to another table, in which it has no row."""
    made = [
        "CREATE TABLE sources AS SELECT n AS id, 's' || n AS name FROM range(1, 6001) AS t(n)",
        "CREATE TABLE dimension AS SELECT n AS id, 'd' || n AS name FROM range(0, 301) AS t(n)",
        "CREATE TABLE facts AS SELECT CASE WHEN n % 4 = 0 THEN 0 ELSE 1 + n * 7919 % 300 END AS id"
        " FROM range(1, 20001) AS t(n)",
    ]
    with shop.open(made, "duckdb") as connector:
        tables = connector.introspect(Scope()).tables
        known = gather(connector.dialect, tables, profile_tables(connector, tables, Budget()).tables)
        source, dimension, fact = (
            next(each for each in known.tables if each.table.ref.name == name).column("id")
            for name in ("sources", "dimension", "facts")
        )
        without = Overlap(300, 0, 300, 300, exact=False, sentinel=0, sentinel_rows=1)
        outer = Candidate(dimension, source, NameMatch(0, 0), overlap=without, probability=1.0)
        inner = Candidate(fact, dimension, NameMatch(0, 0), overlap=replace(without, sentinel=None), probability=1.0)
        checks = row_checks.RowChecks(connector, Relationships(), 5).check_candidates([outer, inner])
    assert checks[inner] == Check(20_000, 0, exact=True)


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize(
    ("key", "child"),
    [
        pytest.param("'K' || (n * 31)", "'K' || (31 * (1 + n * 7919 % 6000))", id="text"),
        pytest.param("(md5(n::VARCHAR))::UUID", "(md5((1 + n * 7919 % 6000)::VARCHAR))::UUID", id="uuid"),
        pytest.param("n::DECIMAL(12, 0)", "1 + n * 7919 % 6000", id="decimal without fraction"),
    ],
)
def test_kinds_of_keys(shop: Any, key: str, child: str) -> None:
    made = [
        f"CREATE TABLE parts AS SELECT {key} AS part_code, 'p' || n AS label FROM range(1, 6001) AS t(n)",
        f"CREATE TABLE stocks AS SELECT n + 500000 AS stock_id, {child} AS part_code FROM range(1, 20001) AS t(n)",
    ]
    check = (
        shop.search(made, "duckdb", **SMALL_SAMPLE).inferred("main.stocks(part_code) -> main.parts(part_code)").check
    )
    assert check is not None
    assert (check.missing, check.exact, check.compared > 100) == (0, False, True)


class Connection:
    """Forwards to a connector, and keeps or fails statements."""

    def __init__(self, inner: Any, failing: Callable[[str], bool] = lambda sql: False) -> None:
        self.inner, self.failing = inner, failing
        self.dialect = inner.dialect
        self.sent: list[str] = []

    def query(self, sql: str, parameters: Any = (), *, max_rows: int = 1000) -> QueryResult:
        self.sent.append(sql)
        if self.failing(sql):
            raise SourceError("shop: no such function", code="query")
        return self.inner.query(sql, parameters, max_rows=max_rows)

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)

    @property
    def sketched(self) -> list[str]:
        return [sql for sql in self.sent if "hash(" in sql]


def searched(shop: Any, made: list[str], failing: Callable[[str], bool] = lambda sql: False) -> tuple[Any, Connection]:
    with shop.open(made, "duckdb") as inner:
        connection = Connection(inner, failing)
        scan = Scan(relationships=Relationships.model_validate(SMALL_SAMPLE))
        found = discover_database(connection, inner.introspect(Scope()), scan)
        return shop.answer(found), connection


@pytest.mark.usefixtures("large")
def test_one_statement_sketches_all_columns_of_a_table(shop: Any) -> None:
    made = shop_of("1 + n * 7919 % 6000", more=", 1 + n * 104729 % 6000 AS product_id")
    made.append("CREATE TABLE products AS SELECT n AS product_id, 'p' || n AS label FROM range(1, 6001) AS t(n)")
    found, connection = searched(shop, made)
    assert {ORDER, "main.orders(product_id) -> main.products(product_id)"} <= found.accepted
    assert len(connection.sketched) == 3
    assert len([sql for sql in connection.sketched if "UNION ALL" in sql and '"orders"' in sql]) == 1
    assert found.found.queries >= 3


@pytest.mark.usefixtures("large")
def test_a_statement_that_fails_leaves_the_sample(shop: Any) -> None:
    found, _ = searched(shop, shop_of("1 + n * 7919 % 6000"), lambda sql: "hash(" in sql and '"orders"' in sql)
    relationship = found.inferred(ORDER)
    assert "all sampled values exist in" in relationship.reason
    assert found.found.problems == ("could not sketch main.orders.customer_id: shop: no such function",)


@pytest.mark.usefixtures("large")
def test_columns_are_sketched_one_by_one_if_all_together_take_too_long(shop: Any) -> None:
    made = shop_of("1 + n * 7919 % 6000", more=", 1 + n * 104729 % 6000 AS product_id")
    made.append("CREATE TABLE products AS SELECT n AS product_id, 'p' || n AS label FROM range(1, 6001) AS t(n)")
    found, connection = searched(shop, made, lambda sql: "hash(" in sql and "UNION ALL" in sql)
    assert len([sql for sql in connection.sketched if '"orders"' in sql]) == 3
    assert found.found.problems == ()
    assert "all sketched values" in found.inferred(ORDER).reason


@pytest.mark.usefixtures("large")
def test_a_database_without_the_hash_is_asked_once(shop: Any) -> None:
    made = shop_of("1 + n * 7919 % 6000", more=", 1 + n * 104729 % 6000 AS product_id")
    made.append("CREATE TABLE products AS SELECT n AS product_id, 'p' || n AS label FROM range(1, 6001) AS t(n)")
    found, connection = searched(shop, made, lambda sql: "hash(" in sql)
    assert len(connection.sketched) <= 2 * Relationships().validation_concurrency
    assert len(found.found.problems) < 4
    assert ORDER in found.accepted


@pytest.mark.usefixtures("large")
@pytest.mark.parametrize("estimates", [True, False])
def test_a_key_that_repeats_is_refuted_without_reading_it_whole(shop: Any, estimates: bool) -> None:
    made = [
        "CREATE TABLE visits AS SELECT n AS visit_id, 1 + n * 7919 % 60000 AS visitor_code, 'x' AS note "
        "FROM range(1, 200001) AS t(n)"
    ]
    found, connection = searched(shop, made, lambda sql: not estimates and "approx_count_distinct" in sql)
    assert {ref.name: choice.primary for ref, choice in found.found.keys.items()} == {"visits": ("visit_id",)}
    repeats = [sql for sql in connection.sent if "HAVING count(*) > 1" in sql]
    assert [('"visit_id"' in sql, '"visitor_code"' in sql) for sql in repeats] == [(True, False)]
    assert bool(connection.sketched) is not estimates
    assert found.found.problems == ()


def test_a_small_table_has_no_sketch(shop: Any) -> None:
    found, connection = searched(shop, shop_of("1 + n * 7919 % 6000"))
    assert connection.sketched == []
    check = found.inferred(ORDER).check
    assert check is not None
    assert check.exact


@pytest.mark.usefixtures("large")
def test_what_is_not_compared_in_time_needs_review(shop: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketches, "may_ask", lambda *arguments, **options: False)
    found, connection = searched(shop, shop_of("1 + n * 7919 % 6000"))
    relationship = found.inferred(ORDER)
    assert (relationship.status, relationship.reason) == (Status.REVIEW, "Not checked within the time budget.")
    assert connection.sketched == []
    assert found.found.problems == ("1 reference not checked within the time budget",)
