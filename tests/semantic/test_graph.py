"""Paths between sources: the shortest over joins to one row, never a guess between equals."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pytest

from ktx_cli.semantic.graph import MOST_CHOICES, Graph, Path
from ktx_cli.semantic.model import Column, Condition, Join, Measure, Model, Relationship, SemanticError, Source
from ktx_cli.warehouses.port import SemanticType

KINDS = {">": Relationship.MANY_TO_ONE, "<": Relationship.ONE_TO_MANY, "-": Relationship.ONE_TO_ONE}


def graph(*joins: str) -> Graph:
    """Return the graph of joins, see `graph_model`."""
    return Graph(graph_model(*joins))


def graph_model(*joins: str) -> Model:
    """Return a model with joins such as `orders > customers` or `orders.billed_id > regions as billed`."""
    found: dict[str, list[Join]] = {}
    for text in joins:
        near, kind, far, *alias = text.split()
        source, _, column = near.partition(".")
        column = column or f"{far}_id"
        pairs = ((column, "id"),) if KINDS[kind] is not Relationship.ONE_TO_MANY else (("id", column),)
        found.setdefault(far, [])
        named = alias[1] if alias else None
        found.setdefault(source, []).append(Join(far, f"{column} = {far}.id", pairs, KINDS[kind], named))
    return _model(found.items())


def _model(sources: Iterable[tuple[str, list[Join]]]) -> Model:
    columns = {"id": Column("id", SemanticType.NUMBER)}
    return Model("c", "duckdb", {n: Source(n, columns, ("id",), (n,), joins=tuple(j)) for n, j in sources})


def shown(path: Path | None) -> str | None:
    return None if path is None else str(path)


CHAIN = ("lines > orders", "orders > customers", "customers > regions")
STAR = (*CHAIN, "lines > products", "tickets > customers")
ROLES = ("orders.billed_id > regions as billed", "orders.sent_id > regions as sent", "regions > countries")
DIAMOND = ("orders > customers", "orders > shops", "customers > regions", "shops > regions")
DAYS = ("orders.placed > days", "orders.due > days", "orders.placed > days as ordered")
ENDS = ("orders.origin > ports as origin", "orders.goal > ports as goal", "ports > countries", "orders > countries")


@pytest.mark.table(
    ("joins", "start", "hops", "via", "wanted"),
    [
        (CHAIN, "orders", (), (), "orders"),
        (CHAIN, "orders", ("orders",), (), "orders"),
        (CHAIN, "orders", ("orders",), ("customers_id",), "orders"),
        (CHAIN, "lines", ("regions",), (), "lines -> orders -> customers -> regions"),
        (CHAIN, "lines", ("orders", "regions"), (), "lines -> orders -> customers -> regions"),
        (CHAIN, "lines", ("lines", "regions"), (), "lines -> orders -> customers -> regions"),
        (CHAIN, "regions", ("customers",), (), "regions -> customers"),
        (CHAIN, "regions", ("nothing",), (), None),
        (STAR, "tickets", ("regions",), (), "tickets -> customers -> regions"),
        (STAR, "orders", ("products",), (), "orders -> lines -> products"),
        (STAR, "tickets", ("orders",), (), "tickets -> customers -> orders"),
        (ROLES, "orders", ("billed",), (), "orders -> regions (billed)"),
        (ROLES, "orders", ("sent", "countries"), (), "orders -> regions (sent) -> countries"),
        (ROLES, "orders", ("regions",), ("sent",), "orders -> regions (sent)"),
        (ROLES, "orders", ("regions",), ("billed_id",), "orders -> regions (billed)"),
        (ROLES, "orders", ("countries",), ("billed",), "orders -> regions (billed) -> countries"),
        (DIAMOND, "orders", ("regions",), ("shops",), "orders -> shops -> regions"),
        (DIAMOND, "orders", ("shops", "regions"), (), "orders -> shops -> regions"),
        (ENDS, "orders", ("countries",), (), "orders -> countries"),
        (ENDS, "orders", ("countries",), ("origin",), "orders -> ports (origin) -> countries"),
        (DAYS, "orders", ("days",), ("placed",), "orders -> days"),
        (DAYS, "orders", ("days",), ("ordered",), "orders -> days (ordered)"),
        (("a - b", "b > c"), "a", ("c",), (), "a -> b -> c"),
        (("a - b", "b > c"), "b", ("a",), (), "b -> a"),
        (("customers < orders",), "orders", ("customers",), (), "orders -> customers"),
        (("staff.boss_id > staff as boss",), "staff", ("boss",), (), "staff -> staff (boss)"),
        (("staff.boss_id > staff as boss",), "staff", ("boss", "boss"), (), "staff -> staff (boss) -> staff (boss)"),
    ],
)
def test_the_path_that_is_taken(
    joins: tuple[str, ...], start: str, hops: tuple[str, ...], via: tuple[str, ...], wanted: str | None
) -> None:
    assert shown(graph(*joins).path(start, hops, via)) == wanted


@pytest.mark.table(
    ("joins", "start", "hops", "choices"),
    [
        (DIAMOND, "orders", ("regions",), ["customers_id", "shops_id"]),
        (ROLES, "orders", ("regions",), ["billed", "sent"]),
        (DAYS, "orders", ("days",), ["due", "placed"]),
        (ROLES, "orders", ("countries",), ["billed", "sent"]),
        ((*DIAMOND, "regions > countries"), "orders", ("countries",), ["customers_id", "shops_id"]),
        (("a.x > b as one", "a.y > b as two", "b.z > c as far"), "a", ("far",), ["one", "two"]),
    ],
)
def test_equals_are_refused_with_the_choices(
    joins: tuple[str, ...], start: str, hops: tuple[str, ...], choices: list[str]
) -> None:
    paths = graph(*joins)
    for _ in range(2):  # the second time from memory
        with pytest.raises(SemanticError) as caught:
            paths.path(start, hops)
        assert caught.value.code == "ambiguous_path"
        offered = caught.value.details["choices"]
        assert sorted(each["via"] for each in offered) == choices
        taken = [paths.path(start, hops, tuple(each["via"].split("."))) for each in offered]
        assert len(set(taken)) == len(offered)
        assert len({each["path"] for each in offered}) == len(offered)


@pytest.mark.table(
    ("joins", "start", "hops", "offered"),
    [
        (DIAMOND, "orders", ("regions",), ["customers.regions", "shops.regions"]),
        (ROLES, "orders", ("regions",), ["billed", "sent"]),
        (ROLES, "orders", ("countries",), ["billed.countries", "sent.countries"]),
        (
            (*DIAMOND, "regions > countries"),
            "orders",
            ("countries",),
            ["customers.regions.countries", "shops.regions.countries"],
        ),
        (("a.x > b", "a.y > b"), "a", ("b",), []),
    ],
)
def test_a_definition_is_offered_hops_instead_of_via(
    joins: tuple[str, ...], start: str, hops: tuple[str, ...], offered: list[str]
) -> None:
    paths = graph(*joins)
    with pytest.raises(SemanticError) as caught:
        paths.defined_path(start, hops, " (for the measure `m`)")
    error = caught.value
    assert (
        error.code == "ambiguous_path" and "(for the measure `m`)" in error.message and "choices" not in error.details
    )
    assert sorted(error.details["candidates"]) == offered
    assert len({paths.defined_path(start, each.split(".")) for each in offered}) == len(offered)
    assert ("alias" in str(error.hint)) == (not offered) and "via" not in str(error.hint)


def test_there_are_no_more_choices_than_can_be_read() -> None:
    with pytest.raises(SemanticError) as caught:
        graph(*(f"a.c{n} > b as r{n}" for n in range(3 * MOST_CHOICES))).path("a", ("b",))
    assert len(caught.value.details["choices"]) == MOST_CHOICES


def test_a_join_both_sides_declare_is_one() -> None:
    paths = graph("orders.customers_id > customers", "customers.customers_id < orders")
    (edge,) = paths.edges("orders")
    (back,) = paths.edges("customers")
    assert (edge.to_one, back.to_one) == (True, False)


def test_what_both_sides_disagree_about_is_not_to_one() -> None:
    near = Join("b", "k = b.k", (("k", "k"),), Relationship.MANY_TO_ONE)
    far = Join("a", "k = a.k", (("k", "k"),), Relationship.MANY_TO_ONE)
    paths = Graph(_model([("a", [near]), ("b", [far])]))
    assert [edge.to_one for edge in paths] == [False, False]


def test_a_join_goes_back_with_its_sides_turned() -> None:
    join = Join(
        "b",
        "x = b.y and kind = 'b'",
        (("x", "y"), ("v", "w")),
        Relationship.MANY_TO_ONE,
        conditions=(Condition(True, "kind", "b"), Condition(False, "z", 1)),
    )
    paths = Graph(_model([("a", [join]), ("b", [])]))
    (edge,), (back,) = paths.edges("a"), paths.edges("b")
    assert (back.pairs, back.conditions) == ((("y", "x"), ("w", "v")), ((False, "kind", "b"), (True, "z", 1)))
    assert edge.same_link(back)
    assert back.same_link(edge)


def test_a_join_to_nothing_is_left_out() -> None:
    join = Join("gone", "x = gone.id", (("x", "id"),), Relationship.MANY_TO_ONE)
    assert list(Graph(_model([("a", [join])]))) == []


@pytest.mark.table(
    ("joins", "start", "target", "wanted"),
    [
        (STAR, "lines", "regions", True),
        (STAR, "regions", "lines", False),
        (STAR, "lines", "lines", True),
        (ROLES, "orders", "countries", True),
        (STAR, "tickets", "orders", False),
    ],
)
def test_what_is_reached_over_joins_to_one_row(joins: tuple[str, ...], start: str, target: str, wanted: bool) -> None:
    assert graph(*joins).reaches(start, target) is wanted


TAGGED = (*STAR, "product_tags > products", "product_tags > tags")


@pytest.mark.table(
    ("joins", "start", "target", "down"),
    [
        (STAR, "tickets", "regions", None),
        (STAR, "customers", "lines", None),
        (STAR, "orders", "products", None),
        (STAR, "tickets", "orders", "orders"),
        (STAR, "tickets", "products", "orders"),
        ((*STAR, "reviews > products"), "customers", "reviews", "reviews"),
        (("bills - orders", "lines > orders"), "bills", "lines", None),
        (("bills > orders", "lines > orders"), "bills", "lines", "lines"),
        (("bills > orders", "orders.orders_id < bills", "lines > orders"), "bills", "lines", "lines"),
        (("staff.boss_id > staff as boss", "sales > staff"), "staff", "sales", None),
        (TAGGED, "lines", "tags", "product_tags"),
    ],
)
def test_the_join_that_leads_down_from_a_shared_parent(
    joins: tuple[str, ...], start: str, target: str, down: str | None
) -> None:
    paths = graph(*joins)
    path = paths.path(start, (target,))
    assert path is not None
    edge = paths.fan_out(path)
    assert (None if edge is None else edge.target) == down


@pytest.mark.table(
    ("grain", "keyed", "measures", "down"),
    [
        (("products_id", "tags_id"), True, (), None),
        (("products_id", "tags_id"), False, (), "product_tags"),
        (("products_id", "tags_id"), True, ("taggings",), "product_tags"),
        (("products_id", "tags_id", "day"), True, (), "product_tags"),
        (("id",), True, (), "product_tags"),
    ],
)
def test_a_bridge_has_a_key_of_two_joins_and_no_measures(
    grain: tuple[str, ...], keyed: bool, measures: tuple[str, ...], down: str | None
) -> None:
    model = graph_model(*TAGGED)
    named = {name: Measure(name, "count(*)") for name in measures}
    bridge = replace(model.sources["product_tags"], grain=grain, keyed=keyed, measures=named)
    paths = Graph(replace(model, sources={**model.sources, "product_tags": bridge}))
    path = paths.path("lines", ("tags",))
    assert path is not None
    edge = paths.fan_out(path)
    assert (None if edge is None else edge.target) == down


@pytest.mark.table(
    ("joins", "start", "target", "via"),
    [
        (STAR, "tickets", "orders", "customers"),
        (STAR, "tickets", "products", "lines"),
        (("a.k > b as near", "b.m > c as far", "d > c"), "a", "d", "far"),
    ],
)
def test_what_via_says_to_take_a_path(joins: tuple[str, ...], start: str, target: str, via: str) -> None:
    paths = graph(*joins)
    path = paths.path(start, (target,))
    assert path is not None
    assert paths.via_of(path, (target,)) == via
    assert paths.path(start, (target,), tuple(via.split("."))) == path


def test_longer_paths_are_told() -> None:
    paths = graph(*ENDS)
    short = paths.path("orders", ("countries",))
    assert short is not None
    longer = {str(each) for each in paths.longer(short, ("countries",))}
    assert longer == {"orders -> ports (origin) -> countries", "orders -> ports (goal) -> countries"}
    assert paths.longer(Path("orders"), ("orders",)) == []
