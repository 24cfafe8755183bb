"""Which tables a question needs: by words, by what a source has, and by the joins to what fits."""

from __future__ import annotations

from collections import defaultdict

from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.search.corpus import COLUMN, KINDS, PHRASE, SOURCE_NAME, Document, Field, Scope
from ktx_cli.search.index import Store
from ktx_cli.search.tables import FoundTable, find_tables

TABLES = {
    "ports": ["id", "network_id", "device_id"],
    "portbindings": ["port_id", "host"],
    "networks": ["id", "owner"],
    "tags": ["resource_id", "label"],
    "invoices": ["id", "customer_id", "amount"],
    "customers": ["id", "country"],
    "calendar": ["day"],
}
JOINS = [("ports", "networks"), ("portbindings", "ports"), ("tags", "ports"), ("invoices", "customers")]


def store(tables: dict[str, list[str]] = TABLES, more: list[Document] | None = None) -> Store:
    documents = []
    for name, columns in tables.items():
        fields = (Field("name", name, SOURCE_NAME), Field("columns", " ".join(columns), COLUMN))
        documents.append(Document("source", name, "shop", name, fields))
        for column in columns:
            named = (Field("name", column, SOURCE_NAME), Field("source", name, COLUMN))
            documents.append(Document("column", f"{name}.{column}", "shop", column, named, KINDS.index("column")))
    return Store.of({"": [*documents, *(more or [])]})


def neighbors(connection: str, source: str) -> list[str]:
    assert connection == "shop"
    return [b if a == source else a for a, b in JOINS if source in (a, b)]


def found(query: str, stored: Store | None = None, joins: bool = True) -> list[FoundTable]:
    beside = neighbors if joins else lambda connection, source: []
    return find_tables([stored or store()], query, Scope(), beside, 20)


def names(query: str, stored: Store | None = None, joins: bool = True) -> list[str]:
    return [each.name for each in found(query, stored, joins)]


def test_the_table_with_the_name_comes_first() -> None:
    assert names("show information about the ports")[0] == "ports"
    assert names("which customers are there")[0] == "customers"


def test_of_two_tables_that_fit_equally_the_one_that_queries_read_comes_first() -> None:
    columns = Field("columns", "id amount", COLUMN)
    for used, first in ((1.0, "a.payments"), (1.2, "b.payments")):
        documents = [
            Document("source", name, "shop", name, (Field("name", name, SOURCE_NAME), columns), worth=worth)
            for name, worth in (("a.payments", 1.0), ("b.payments", used))
        ]
        assert names("total of all payments", Store.of({"": documents}), joins=False)[0] == first


def test_a_table_next_to_a_strong_one_rises_though_it_has_no_word() -> None:
    assert "tags" not in names("information about port 1234", joins=False)
    with_joins = found("information about port 1234")
    tags = next(each for each in with_joins if each.name == "tags")
    assert (tags.own, tags.via) == (0.0, "ports")
    assert [each.name for each in with_joins].index("tags") < len(with_joins)


def test_a_word_finds_the_longer_ones_that_begin_or_end_with_it() -> None:
    assert names("port", joins=False) == ["ports", "portbindings"]
    assert "portbindings" in names("bindings of a device", joins=False)


def test_columns_that_fit_are_named_with_their_table() -> None:
    first = found("amount by country", joins=False)
    members = {each.name: set(each.members) for each in first}
    assert "country" in members["customers"]


def test_a_value_names_its_column_and_lifts_the_table() -> None:
    value = Document(
        "value",
        "customers.country = 'Norway'",
        "shop",
        "a value",
        (Field("value", "Norway", SOURCE_NAME),),
        KINDS.index("value"),
    )
    first = found("how many in Norway", store(more=[value]))[0]
    assert (first.name, list(first.values)) == ("customers", ["customers.country = 'Norway'"])


def test_a_page_lifts_the_sources_it_names() -> None:
    page = Document(
        "page",
        "churn",
        "",
        "churn",
        (Field("key", "churn", 4.0), Field("body", "Churn is read from the calendar", 1.0)),
        KINDS.index("page"),
        mentions=("calendar",),
    )
    plain = {each.name: each.own for each in found("churn of the calendar", joins=False)}
    named = {each.name: each.own for each in found("churn of the calendar", store(more=[page]), joins=False)}
    assert named["calendar"] > plain["calendar"]


def test_what_is_near_in_meaning_counts_beside_words_and_finds_what_no_word_has() -> None:
    stored = store()
    numbers = [number for (number,) in stored.database.ask("SELECT id FROM docs")]
    rows = {row.name: row for row in stored.rows(numbers)}

    def own(*meant: str) -> dict[str, float]:
        beside = [rows[each] for each in meant]
        tables = find_tables([stored], "ports", Scope(), lambda *_: [], 20, beside)
        return {each.name: each.own for each in tables}

    plain = own()
    with_meaning = own("calendar.day", "customers", "calendar")
    assert "calendar" not in plain
    assert with_meaning["calendar"] == 0.5 * plain["ports"], "by its nearest document alone"
    assert 0 < with_meaning["customers"] < with_meaning["calendar"] < with_meaning["ports"] == plain["ports"]


def test_numbers_and_ids_are_no_names() -> None:
    assert names("customers 0a1d0a27-cffa-4de3-92c5") == names("customers")


@given(st.lists(st.sampled_from(["port", "network", "country", "amount", "tags", "of", "x9"]), max_size=6))
def test_it_is_deterministic_and_every_source_comes_once(words: list[str]) -> None:
    stored = store()
    first, again = found(" ".join(words), stored), found(" ".join(words), stored)
    assert first == again
    counts: dict[str, int] = defaultdict(int)
    for each in first:
        counts[each.name] += 1
        assert each.score >= each.own >= 0
    assert all(count == 1 for count in counts.values())


def _named(name: str, *phrases: str) -> Document:
    fields = (Field("name", name, SOURCE_NAME), Field("synonyms", "\n".join(phrases), PHRASE))
    return Document("source", name, "shop", name, fields)


def test_a_synonym_of_a_table_is_as_good_as_its_name() -> None:
    described = Field("description", "The chargebacks and other payments of a month.", 1.0)
    mentioned = Document("source", "months", "shop", "months", (Field("name", "months", SOURCE_NAME), described))
    stored = store(more=[mentioned, _named("t_0815", "chargebacks", "disputed card payments")])
    assert names("chargebacks", stored, joins=False)[0] == "t_0815"
    assert names("which card payments were disputed?", stored, joins=False)[0] == "t_0815"
    by_name = found("chargebacks", store(more=[mentioned, _named("chargebacks")]), joins=False)[0]
    by_synonym = found("chargebacks", stored, joins=False)[0]
    assert by_synonym.own >= 0.5 * by_name.own
