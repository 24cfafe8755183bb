"""Masks of columns: who sees a value, which columns are masked with another one, and attempts to recover a value."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import duckdb
import pytest

from ktx_cli.core.errors import KtxError
from ktx_cli.project.layout import Layout
from ktx_cli.semantic.answer import ask, compile_query
from ktx_cli.semantic.caller import NOBODY, Caller
from ktx_cli.semantic.data_checks import Statements
from ktx_cli.semantic.filter_values import comparisons
from ktx_cli.semantic.load.load import load_model
from ktx_cli.semantic.masks import masked_for, same_table
from ktx_cli.semantic.model import Mask, Model, SemanticError, Source
from ktx_cli.semantic.status import claims_in, declared_definitions
from ktx_cli.semantic.store.codec import Codec, Paths
from ktx_cli.semantic.store.reader import check_model
from ktx_cli.semantic.verification import verify
from ktx_cli.semantic.visible import VisibleModel
from ktx_cli.warehouses.port import ConnectionSpec, Connector
from ktx_cli.warehouses.registry import connect

PEOPLE = """
name: people
table: main.people
grain: [id]
columns:
- {name: id, type: number}
- {name: email, type: string, mask: {unless: {role: [support, admin]}, value: "***"}}
- {name: age, type: number, mask: {unless: {role: [admin], level: [3]}}}
- {name: vip, type: boolean, mask: {value: false}}
- {name: born, type: time, natural_granularity: day, mask: {unless: {role: [admin]}}}
- {name: team, type: string}
- {name: copy, type: string, expr: email}
- {name: domain, type: string, expr: "coalesce(lower(email), 'none')"}
- {name: full, type: string, expr: "team || '/' || id", mask: {unless: {role: [admin]}, value: hidden}}
segments:
- {name: adults, expr: age >= 18}
measures:
- {name: people, expr: count(*)}
- {name: oldest, expr: max(age)}
- {name: adults_only, expr: count(*), filter: "age >= 18"}
- {name: ratio, expr: "sum(age) / count(email)"}
"""
TWIN = """
name: persons
table: PEOPLE
grain: [id]
columns: [{name: id, type: number}, {name: EMAIL, type: string}, {name: age, type: number}, {name: team, type: string}]
measures: [{name: persons, expr: count(*)}]
"""
ORDERS = """
name: orders
table: main.orders
grain: [id]
columns:
- {name: id, type: number}
- {name: buyer, type: string}
- {name: contact, type: string, mask: {}}
- {name: contact_key, type: string, expr: lower(contact)}
- {name: buyer_mail, type: string, expr: people.email}
- {name: amount, type: number}
joins:
- {to: people, on: buyer = people.email, relationship: many_to_one}
- {to: letters, on: contact_key = letters.address, relationship: many_to_one}
measures: [{name: orders, expr: count(*)}, {name: latest, expr: max(buyer)}]
"""
LETTERS = """
name: letters
table: main.letters
grain: [id]
columns:
- {name: id, type: number}
- {name: address, type: string}
- {name: kind, type: string}
- {name: mail, type: string, expr: lower(address)}
measures: [{name: letters, expr: count(*)}]
"""
TEAMS = """
name: teams
table: main.teams
grain: [name]
columns: [{name: name, type: string}, {name: boss, type: string}]
joins:
- {to: people, on: "name = people.team AND people.email = 'ada@x'", relationship: one_to_many, alias: ada}
measures: [{name: teams, expr: count(*)}]
"""
FILES = {"people": PEOPLE, "persons": TWIN, "orders": ORDERS, "letters": LETTERS, "teams": TEAMS}
SUPPORT, ADMIN = Caller.of({"role": "support"}), Caller.of({"role": "admin", "level": 3})


@pytest.fixture(scope="module")
def model(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return _model(tmp_path_factory.mktemp("layer"), FILES)


def _model(root: Path, files: dict[str, str]) -> Model:
    root = root / f"layer{len(list(root.iterdir()))}"
    folder = root / "semantic-layer" / "db"
    folder.mkdir(parents=True)
    for name, text in files.items():
        (folder / f"{name}.yaml").write_text(text)
    model = load_model(Layout(root), "db", "duckdb")
    assert not model.problems, model.problems
    return model


@pytest.fixture(scope="module")
def shops(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Connector, Connector]]:
    """Return two databases that only differ in masked values; the keys match the same rows in both."""
    found = []
    for name, (ada, bo, ages, vip, born) in {
        "one": ("ada@x", "Bo@x", (30, 17), "true, false", ("1990-01-01", "2007-05-05")),
        "two": ("zoe@y", "Yan@y", (5, 88), "false, true", ("2019-01-01", "1930-12-31")),
    }.items():
        path = tmp_path_factory.mktemp(name) / "people.duckdb"
        one, two = vip.split(", ")
        with duckdb.connect(str(path)) as session:
            session.execute(
                "CREATE TABLE people (id INTEGER, email TEXT, age INTEGER, vip BOOLEAN, born DATE, team TEXT);"
                f"INSERT INTO people VALUES (1, '{ada}', {ages[0]}, {one}, '{born[0]}', 'red'),"
                f" (2, '{bo}', {ages[1]}, {two}, '{born[1]}', 'blue'), (3, NULL, NULL, NULL, NULL, 'red');"
                "CREATE TABLE orders (id INTEGER, buyer TEXT, contact TEXT, amount INTEGER);"
                f"INSERT INTO orders VALUES (1, '{ada}', '{ada.upper()}', 10), (2, '{ada}', NULL, 20),"
                f" (3, '{bo}', '{bo}', 40), (4, 'none', 'none', 80);"
                "CREATE TABLE letters (id INTEGER, address TEXT, kind TEXT);"
                f"INSERT INTO letters VALUES (1, '{ada.lower()}', 'bill'), (2, '{bo.lower()}', 'note');"
                "CREATE TABLE teams (name TEXT, boss TEXT); INSERT INTO teams VALUES ('red', 'x'), ('blue', 'y');"
            )
        found.append(connect(ConnectionSpec("db", "duckdb", {"path": str(path)})))
    with closing(found[0]), closing(found[1]):
        yield found[0], found[1]


ATTACKS: dict[str, dict[str, Any]] = {
    "the column itself": {"dimensions": ["people.email"], "measures": ["people.people"]},
    "a computed copy": {"dimensions": ["people.copy", "people.domain"]},
    "the same table as another source": {"dimensions": ["persons.email", "persons.age"]},
    "a computed column of another source": {"dimensions": ["orders.buyer_mail"], "measures": ["orders.orders"]},
    "the other side of a join": {"dimensions": ["orders.buyer"], "measures": ["orders.orders"]},
    "both sides": {"dimensions": ["orders.buyer", "people.email", "people.id"], "measures": ["orders.orders"]},
    "a measure over the other side": {"measures": ["orders.latest"], "dimensions": ["people.team"]},
    "minimum and maximum": {"measures": ["min(people.email)", "max(people.email)", "people.oldest"]},
    "a list of values": {"measures": ["string_agg(people.email, ',')", "list(people.age)"]},
    "a value for each key": {"measures": ["any_value(people.email)"], "dimensions": ["people.id"]},
    "a percentile": {"measures": ["median(people.age)"], "dimensions": ["people.id"]},
    "distinct values": {"measures": ["count_distinct(people.email)", "count(people.age)"]},
    "an expression": {"dimensions": ["people.email || people.id", "length(people.email)"]},
    "a time": {"dimensions": [{"field": "people.born", "granularity": "year"}], "measures": ["people.people"]},
    "a boolean": {"dimensions": ["people.vip"], "measures": ["people.people"]},
    "equality": {"measures": ["people.people"], "filters": ["people.email = 'ada@x'"]},
    "a pattern": {"measures": ["people.people"], "filters": ["people.email LIKE 'a%'"]},
    "a comparison": {"measures": ["people.people"], "filters": ["people.age > 20"]},
    "a filter over a join": {"measures": ["orders.orders"], "filters": ["people.email = 'ada@x'"]},
    "a filter over several rows": {"measures": ["people.people"], "filters": ["orders.buyer = 'ada@x'"]},
    "presence": {"measures": ["people.people"], "filters": ["people.email IS NOT NULL"], "dimensions": ["people.id"]},
    "a segment": {"measures": ["people.people"], "segments": ["people.adults"]},
    "the filter of a measure": {"measures": ["people.adults_only"], "dimensions": ["people.id"]},
    "a formula": {"measures": ["people.ratio"], "dimensions": ["people.id"]},
    "having": {"measures": ["people.people"], "dimensions": ["people.id"], "having": ["max(people.email) LIKE 'a%'"]},
    "order": {"measures": ["people.people"], "dimensions": ["people.id"], "order_by": ["people.oldest"], "limit": 1},
    "an error of division": {"dimensions": ["1 / (people.age - 30)"], "filters": ["people.id = 1"]},
    "an error of a cast": {"dimensions": ["CAST(people.email AS INTEGER)"], "filters": ["people.id = 1"]},
    "a time range": {"measures": ["people.people"], "time_range": {"field": "people.born", "start": "1980-01-01"}},
    "totals": {"measures": ["people.oldest"], "dimensions": ["people.team"], "totals": True},
    "empty groups": {"measures": ["orders.orders"], "dimensions": ["people.email"], "include_empty": True},
    "a computed key": {"dimensions": ["orders.contact", "orders.contact_key", "letters.kind"]},
    "what a computed key equals": {"measures": ["orders.orders"], "dimensions": ["letters.address", "letters.mail"]},
    "a masked computed column": {"dimensions": ["people.full"], "measures": ["people.people"]},
    "a pair of columns": {"dimensions": ["people.email = persons.email"], "measures": ["people.people"]},
}  # fmt: skip


@pytest.mark.table("attack", list(ATTACKS))
def test_no_question_recovers_a_value(attack: str, model: Model, shops: tuple[Connector, Connector]) -> None:
    """The answers of both databases are the same; the receipt also counts what joins match."""
    for caller in (NOBODY, Caller.of({"role": "guest"}), Caller.of({"role": "support"}, {"role": "guest"})):
        one, two = (_answer(model, ATTACKS[attack], shop, caller) for shop in shops)
        assert one == two
        assert "@x" not in repr(one[0]).replace(repr(ATTACKS[attack]), "")


def _answer(model: Model, query: dict[str, Any], shop: Connector, caller: Caller) -> Any:
    try:
        answer = ask(model, query, shop, caller=caller)
    except KtxError as error:
        return [error.code, str(error.message).split("(/")[0]]
    assert answer.asked is not None
    assert not verify(answer.asked.compiled.build, answer.rows, shop, seconds=30).mismatches
    facts = [{**fact, "sql": None} for fact in answer.receipt["facts"]]
    return [answer.rows, answer.totals, facts]


@pytest.mark.table(
    ("caller", "email", "age"),
    [
        (NOBODY, "***", None),
        (Caller.of({"role": "guest", "level": 3}), "***", None),
        (Caller.of({"role": ["support"]}), "***", None),
        (Caller.of({"role": "Support"}), "***", None),
        (Caller.of({"role": None}), "***", None),
        (SUPPORT, "ada@x", None),
        (Caller.of({"role": "admin"}), "ada@x", None),
        (Caller.of({"role": "admin", "level": "3"}), "ada@x", None),
        (Caller.of({"role": "admin", "level": True}), "ada@x", None),
        (ADMIN, "ada@x", 30),
        (Caller.of({"role": "admin", "level": 3}, {"role": "support"}), "ada@x", None),
        (Caller.of({"role": "admin", "level": 3}, {}), "***", None),
    ],
)
def test_who_sees_a_value(
    caller: Caller, email: str, age: Any, model: Model, shops: tuple[Connector, Connector]
) -> None:
    """Every principal needs one of the values of every attribute, of the same type."""
    query = {"dimensions": ["people.email", "people.age", "people.vip"], "filters": ["people.id = 1"]}
    if caller.principals[0].get("role") == ["support"]:
        with pytest.raises(SemanticError, match="must be a string"):
            ask(model, query, shops[0], caller=caller)
        return
    assert ask(model, query, shops[0], caller=caller).rows == [(email, age, False)]


def test_joins_use_the_real_values(model: Model, shops: tuple[Connector, Connector]) -> None:
    query = {"measures": ["orders.orders"], "dimensions": ["people.team"]}
    for shop in shops:
        rows = [(None, 1), ("blue", 1), ("red", 2)]
        assert sorted(ask(model, query, shop).rows, key=str) == sorted(rows, key=str)
        kinds = {"measures": ["orders.orders"], "dimensions": ["letters.kind"], "filters": ["letters.id > 0"]}
        assert sorted(ask(model, kinds, shop).rows) == [("bill", 1), ("note", 1)]
        filtered = {"measures": ["people.people"], "filters": ["orders.amount = 40"], "dimensions": ["people.id"]}
        assert ask(model, filtered, shop).rows == [(2, 1)]


def test_a_join_that_compares_a_masked_column_with_a_constant_is_refused(model: Model) -> None:
    query = {"measures": ["teams.teams"], "filters": ["ada.id > 0"]}
    with pytest.raises(SemanticError, match=r"compares `people\.email` with a constant") as caught:
        compile_query(model, query)
    assert caught.value.code == "hidden"
    assert compile_query(model, query, caller=SUPPORT).sql


def test_the_columns_that_have_the_values_of_a_masked_one(model: Model) -> None:
    masked = {name: sorted(masked_for(model, source, NOBODY)) for name, source in model.sources.items()}
    assert masked == {
        "people": ["age", "born", "email", "full", "vip"],
        "persons": ["age", "born", "email", "vip"],
        "orders": ["buyer", "contact", "contact_key"],
        "letters": ["address"],
        "teams": [],
    }
    of_support = {name: sorted(masked_for(model, model.sources[name], SUPPORT)) for name in ("people", "orders")}
    assert of_support == {"people": ["age", "born", "full", "vip"], "orders": ["contact", "contact_key"]}
    assert not masked_for(model, model.sources["people"], ADMIN).keys() - {"vip"}


def test_a_mask_passes_from_a_key_to_what_the_other_side_computes_it_from(tmp_path: Path) -> None:
    orders = ORDERS.replace("{name: contact, type: string, mask: {}}", "{name: contact, type: string}")
    letters = LETTERS.replace("{name: address, type: string}", "{name: address, type: string, mask: {}}")
    model = _model(tmp_path, {**FILES, "orders": orders, "letters": letters})
    assert set(masked_for(model, model.sources["orders"], SUPPORT)) == {"contact", "contact_key"}
    model = _model(tmp_path, {**FILES, "orders": orders})
    assert not masked_for(model, model.sources["letters"], SUPPORT)


def test_a_column_that_contains_a_masked_one_is_masked(tmp_path: Path) -> None:
    text = (
        "name: s\ntable: s\ngrain: [id]\ncolumns: [{name: id, type: number}, {name: address, type: string}, "
        "{name: address.city, type: string, mask: {value: x}}, {name: addressee, type: string}]\n"
    )
    model = _model(tmp_path, {"s": text})
    assert set(masked_for(model, model.sources["s"], NOBODY)) == {"address", "address.city"}


@pytest.mark.table(
    ("column", "why"),
    [
        ("{name: c, type: number, mask: {value: x}}", "the column is a number"),
        ("{name: c, type: number, mask: {value: true}}", "the column is a number"),
        ("{name: c, type: string, mask: {value: 0}}", "the column is a string"),
        ("{name: c, type: boolean, mask: {value: 'no'}}", "the column is a boolean"),
        ("{name: c, type: time, mask: {value: '2020-01-01'}}", "can only be masked with null"),
        ("{name: c, type: time, stored_as: iso_date, mask: {value: '2020-01-01'}}", "can only be masked with null"),
    ],
)
def test_a_value_that_does_not_fit_the_column(column: str, why: str, tmp_path: Path) -> None:
    columns = f"[{{name: id, type: number}}, {column}]"
    model = _model(tmp_path, {"s": f"name: s\ntable: s\ngrain: [id]\ncolumns: {columns}\n"})
    found = [each for each in check_model(model) if each.code == "mask"]
    assert [each.severity for each in found] == ["error"] and why in found[0].message
    with pytest.raises(SemanticError, match=why) as caught:
        compile_query(model, {"dimensions": ["s.c"]})
    assert caught.value.code == "definition"


def test_columns_that_are_masked_as_well_are_reported(model: Model) -> None:
    names = [re.findall(r"`(\w+)`", each.message)[:2] for each in check_model(model) if each.code == "mask"]
    found = {f"{source}.{column}" for column, source in names}
    assert {"persons.EMAIL", "persons.age", "orders.buyer"} <= found


def test_suggestions_leave_masked_columns_alone(model: Model) -> None:
    query = {"measures": ["people.people"], "filters": ["people.email = 'ada@x'", "people.team = 'red'"]}
    for caller, columns in ((NOBODY, ["team"]), (SUPPORT, ["email", "team"])):
        asked = compile_query(model, query, caller=caller)
        assert sorted(each.column.name for each in comparisons(asked)) == columns


def test_nothing_lists_the_values_of_masked_columns(tmp_path: Path) -> None:
    more = "enum_values: {dbt: [ada@x]}, descriptions: {ktx: '1 value: ada@x'}"
    twin = TWIN.replace("{name: EMAIL, type: string}", f"{{name: EMAIL, type: string, {more}}}")
    model = _model(tmp_path, {**FILES, "persons": twin})
    columns = VisibleModel(model, internal=True).columns(model.sources["persons"])
    (email,) = (each for each in columns if each.name == "EMAIL")
    assert (email.values, email.description) == ((), None)


def test_checks_of_the_data_read_real_values(model: Model) -> None:
    assert "masked" not in Statements(model).columns(model.sources["people"])


def test_a_mask_is_part_of_the_status_of_its_source(model: Model) -> None:
    claims = [claims_in(text.encode(), "people.yaml", "duckdb") for text in (PEOPLE, PEOPLE.replace("support, ", ""))]
    (one,), (two,) = ([claim for of, claim in each.items() if of.kind.value == "source"] for each in claims)
    assert one != two
    assert [each.definition.kind.value for each in declared_definitions(model.sources["people"])].count("source") == 1


def test_a_mask_survives_the_store(model: Model) -> None:
    codec = Codec(Paths([]))
    source = model.sources["people"]
    stored: Source = codec.load(codec.dump(source, Source), Source)
    masks = {name: column.mask for name, column in stored.columns.items()}
    assert masks == {name: column.mask for name, column in source.columns.items()}
    assert masks["age"] == Mask((("role", ("admin",)), ("level", (3,))))


def test_names_of_the_same_table() -> None:
    assert same_table(("db", "Main", "people"), ("main", "PEOPLE")) and same_table(("a.b",), ("a", "b"))
    assert not same_table(("main", "people"), ("other", "people"))
