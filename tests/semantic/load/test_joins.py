"""The `on` of a join."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.errors import ConfigError
from ktx_cli.semantic.load.joins import OnParts, Sides, parse_on
from ktx_cli.semantic.model import Condition


def sides(dialect: str = "duckdb", own: str = "orders", to: str = "customers", alias: str | None = None) -> Sides:
    return Sides(own, to, alias, dialect, ("id", "customer_id", "odd name"))


def own(column: str, value: object) -> Condition:
    return Condition(True, column, value)


def other(column: str, value: object) -> Condition:
    return Condition(False, column, value)


ONE = (("customer_id", "id"),)
ACCEPTED = [
    ("customer_id = customers.id", sides(), ONE, ()),
    ("customers.id = customer_id", sides(), ONE, ()),
    ("orders.customer_id = customers.id", sides(), ONE, ()),
    ("customers.id=orders.customer_id", sides(), ONE, ()),
    ("ORDERS.customer_id = Customers.id", sides(), ONE, ()),
    ("(customer_id = customers.id)", sides(), ONE, ()),
    ("customer_id = buyer.id", sides(alias="buyer"), ONE, ()),
    ("customer_id = customers.id", sides(alias="buyer"), ONE, ()),
    ("a = customers.b AND c = customers.d", sides(), (("a", "b"), ("c", "d")), ()),
    ("(a = customers.b) and\n ((customers.d = c))", sides(), (("a", "b"), ("c", "d")), ()),
    ('"Odd ""Name" = "cust.omers"."The Id"', sides(to="cust.omers"), (('Odd "Name', "The Id"),), ()),
    ("`odd name` = `customers`.`id`", sides("mysql"), (("odd name", "id"),), ()),
    ('"odd name" = customers."id"', sides("mysql"), (("odd name", "id"),), ()),
    ("[odd name] = [customers].[i]]d]", sides("tsql"), (("odd name", "i]d"),), ()),
    ("x$y = customers.a#b", sides(), (("x$y", "a#b"),), ()),
    ("owner_id = posts.id AND type = 'posts'", sides(to="posts"), (("owner_id", "id"),), (own("type", "posts"),)),
    ("id = notes.owner AND notes.type = 'it''s'", sides(to="notes"), (("id", "owner"),), (other("type", "it's"),)),
    ("'x' = kind AND customer_id = customers.id", sides(), ONE, (own("kind", "x"),)),
    ("customer_id = customers.id AND customers.deleted = FALSE AND level = -1 AND rate = 2.5", sides(), ONE,
     (other("deleted", False), own("level", -1), own("rate", 2.5))),
    ('customer_id = customers.id AND kind = "b2b"', sides("bigquery"), ONE, (own("kind", "b2b"),)),
    ("customer_id = customers.id AND kind = 'a\\'b'", sides("mysql"), ONE, (own("kind", "a'b"),)),
    ("customer_id = customers.id AND kind = 'a\\'", sides("postgres"), ONE, (own("kind", "a\\"),)),
    ("parent_id = orders.id", sides(to="orders"), (("parent_id", "id"),), ()),
    ("orders.id = parent_id", sides(to="orders"), (("parent_id", "id"),), ()),
    ("orders.parent_id = orders.id", sides(to="orders"), (("parent_id", "id"),), ()),
    ("orders.parent_id = parent.id", sides(to="orders", alias="parent"), (("parent_id", "id"),), ()),
    ("parent.id = orders.parent_id", sides(to="orders", alias="parent"), (("parent_id", "id"),), ()),
    ("customer_id = customers.id AND customer_id = customers.id", sides(), ONE, ()),
    ("true = customers.id AND customers.true = TRUE", Sides("orders", "customers", None, "duckdb", ("true",)),
     (("true", "id"),), (other("true", True),)),
    ('customer_id = customers."true"', sides(), (("customer_id", "true"),), ()),
]  # fmt: skip


@pytest.mark.table(("on", "between", "pairs", "conditions"), ACCEPTED)
def test_accepted(on: str, between: Sides, pairs: object, conditions: object) -> None:
    assert parse_on(on, between) == OnParts(pairs, conditions)  # type: ignore[arg-type]


REFUSED = [
    ("customer_id > customers.id", "equalities"),
    ("customer_id = customers.id OR a = customers.b", "combined with AND"),
    ("cast(customer_id as int) = customers.id", "equalities"),
    ("lower(a) = customers.b", "(`=`)"),
    ("customer_id = customers.id AND a IN (1, 2)", "equalities"),
    ("customer_id = customers.id AND a = NULL", "with NULL"),
    ("customer_id = id", "both columns of `orders`"),
    ("customers.a = customers.b", "both columns of `customers`"),
    ("customer_id = people.id", "`people` is not one of"),
    ("a = 1", "not compare columns of the two sides"),
    ("1 = 1 AND customer_id = customers.id", "two constants"),
    ("customer_id = customers.", "incomplete"),
    ("customer_id =", "incomplete"),
    ("= customers.id", "before `=`"),
    ("customer_id = customers.id AND", "incomplete"),
    ("(customer_id = customers.id", "not closed"),
    ("customer_id = customers.id)", "unmatched closing parenthesis"),
    ("customer_id = customers.1", "missing after a dot"),
    ("customer_id == customers.id", "before `=`"),
    ("customer_id = customers.id -- x", "are supported"),
    ("customer_id = customers.id; drop table x", "are supported"),
    ("", "are supported"),
    ("   ", "are supported"),
]


@pytest.mark.table(("on", "why"), REFUSED)
def test_refused(on: str, why: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_on(on, sides())
    assert why in caught.value.message
    assert "its_column = customers.column" in (caught.value.hint or "")


@pytest.mark.table(
    "on",
    ["parent_id = orders.id", "orders.id = parent_id", "orders.parent_id = orders.id", "orders.parent_id = parent.id"],
)
def test_the_bare_side_or_the_first_is_own_where_a_source_is_joined_to_itself(on: str) -> None:
    assert parse_on(on, sides(to="orders", alias="parent")).pairs == (("parent_id", "id"),)


WORDS = st.sampled_from(
    ["a", "customers", "orders", ".", "=", "AND", "(", ")", "'x'", "1", '"q q"', "`b`", "NULL", "\\", "é"]
)


@given(st.lists(WORDS).map(" ".join) | st.text())
def test_any_text_is_parsed_or_refused(text: str) -> None:
    for dialect in ("duckdb", "mysql"):
        try:
            parts = parse_on(text, sides(dialect))
        except ConfigError:
            continue
        assert parts.pairs


NAMES = st.text(min_size=1).filter(lambda name: "\x00" not in name)


@given(NAMES, NAMES, NAMES)
def test_names_in_quotes_are_read_back(mine: str, to: str, theirs: str) -> None:
    def quoted(name: str) -> str:
        return '"' + name.replace('"', '""') + '"'

    between = Sides("the declaring source", to, None, "duckdb")
    if between.side_of(to) == "other":
        assert parse_on(f"{quoted(mine)} = {quoted(to)}.{quoted(theirs)}", between).pairs == ((mine, theirs),)
