"""Every undecided column is asked about once, columns of one name together, within the limits of a call."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ktx_cli.scan.relationships.proposals import Cluster, ClusterLimits, plan_clusters, tables_of
from ktx_cli.scan.relationships.undecided import Offer, UndecidedColumn
from ktx_cli.warehouses.port import TableRef

UNHURRIED = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow])

REFS = [TableRef(None, f"t{number}") for number in range(9)]
OFFERS = st.lists(st.sampled_from(REFS), min_size=1, max_size=3, unique=True).map(
    lambda refs: tuple(Offer(ref, "id", "") for ref in refs)
)
COLUMNS = st.lists(
    st.builds(UndecidedColumn, st.sampled_from(REFS), st.sampled_from(["owner", "Owner", "home", "kind"]), OFFERS),
    max_size=25,
    unique_by=lambda column: (column.table, column.column),
)


def tokens_of(cluster: Sequence[UndecidedColumn], each: int, table: int) -> int:
    return each * len(cluster) + table * len({ref for column in cluster for ref in tables_of(column)})


@UNHURRIED
@given(COLUMNS, st.integers(1, 9), st.integers(1, 300), st.integers(1, 9))
def test_every_column_is_in_one_cluster_within_the_limits(
    columns: list[UndecidedColumn], tables: int, tokens: int, most: int
) -> None:
    limits = ClusterLimits(tables, tokens, most)
    clusters = plan_clusters(dict.fromkeys(columns, 7), dict.fromkeys(REFS, 20), limits)
    asked = [column for cluster in clusters for column in cluster]
    assert sorted(map(str, asked)) == sorted(map(str, columns))
    for cluster in clusters:
        shown = {ref for column in cluster for ref in tables_of(column)}
        assert len(cluster) == 1 or (
            len(cluster) <= most and len(shown) <= tables and tokens_of(cluster, 7, 20) <= tokens
        )
    assert plan_clusters(dict.fromkeys(reversed(columns), 7), dict.fromkeys(REFS, 20), limits) == clusters


def planned(columns: Sequence[UndecidedColumn], limits: ClusterLimits) -> list[Cluster]:
    return plan_clusters(
        dict.fromkeys(columns, 50), {ref: 100 for column in columns for ref in tables_of(column)}, limits
    )


def test_a_column_that_eighty_tables_have_is_one_call() -> None:
    users = (Offer(TableRef(None, "users"), "id", ""),)
    columns = [UndecidedColumn(TableRef(None, f"t{number:02}"), "created_by", users) for number in range(80)]
    (cluster,) = planned(columns, ClusterLimits(tables=100, tokens=40_000, columns=100))
    assert list(cluster) == columns
    assert [len(cluster) for cluster in planned(columns, ClusterLimits())] == [39, 39, 2], "40 tables with `users`"


def test_columns_join_the_cluster_that_shows_their_tables() -> None:
    orders, shops, users, rooms = (TableRef(None, name) for name in ("orders", "shops", "users", "rooms"))
    by = [UndecidedColumn(ref, "by", (Offer(users, "id", ""),)) for ref in (orders, shops)]
    place = UndecidedColumn(rooms, "place", (Offer(TableRef(None, "places"), "id", ""),))
    seller = UndecidedColumn(orders, "seller", (Offer(users, "id", ""),))
    limits = ClusterLimits(tables=40, tokens=449)
    assert planned([*by, place, seller], limits) == [(*by,), (place,), (seller,)], "three tables and three columns"
    assert planned([*by, place, seller], ClusterLimits(tables=3)) == [(*by, seller), (place,)]
    assert planned([*by, place, seller], ClusterLimits()) == [(*by, place, seller)], "what fits is one call"
