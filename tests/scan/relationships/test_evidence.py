"""What decides where rows are few or say nothing: names in context, blanks, one or two values, keys of their own."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from ktx_cli.scan.relationships.candidates import can_refer
from ktx_cli.scan.relationships.columns import Candidate, DatabaseFacts, NameIndex, NameMatch, Overlap
from ktx_cli.scan.relationships.discovery import is_own_number, resolve, says_nothing
from ktx_cli.scan.relationships.keys import find_unique_columns, key_score, own_name
from ktx_cli.scan.relationships.ranker import FEATURES, summarize
from tests.scan.relationships.conftest import Shop

Gathered = Callable[..., DatabaseFacts]
TEN = list(range(1, 11))


def index(facts: DatabaseFacts) -> NameIndex:
    uniques = find_unique_columns(facts.tables, lambda table, columns: True)
    return NameIndex(facts.tables, uniques.keys)


def insert(table: str, rows: Sequence[tuple[Any, ...]]) -> str:
    return f"INSERT INTO {table} VALUES " + ", ".join("(" + ", ".join(map(repr, row)) + ")" for row in rows)


def test_a_blank_text_is_no_value(gathered: Gathered) -> None:
    column = gathered({"notes": {"tag": ["", "  ", "a", "b", None]}}).columns[0]
    assert (set(column.counts), column.blanks, column.nulls, column.filled) == ({"a", "b"}, 2, 3, 2)
    assert column.without_repeats and not column.unique


def test_blanks_are_compared_with_no_key(shop: Shop) -> None:
    answer = shop.search(
        [
            "CREATE TABLE setting (code TEXT, label TEXT)",
            "INSERT INTO setting VALUES ('', 'none')",
            "CREATE TABLE page (id INTEGER, code TEXT, theme TEXT)",
            insert("page", [(n, "", "") for n in TEN]),
        ]
    )
    assert not [each for each in answer.found.relationships if "setting" in (each.child.name, each.parent.name)]


def test_blank_rows_are_no_orphans(shop: Shop) -> None:
    shops = [(f"S{n}", f"shop {n}") for n in range(40)]
    sales = [(n, f"S{n % 40}" if n % 2 else "") for n in range(400)]
    answer = shop.search(
        [
            "CREATE TABLE shop (shop_code TEXT, name TEXT)",
            insert("shop", shops),
            "CREATE TABLE sale (id INTEGER, shop_code TEXT)",
            insert("sale", sales),
        ]
    )
    found = answer.inferred("sale(shop_code) -> shop(shop_code)")
    assert found.status == "accepted"
    assert found.check is not None
    assert (found.check.rows, found.check.missing) == (200, 0)


@pytest.mark.table(
    ("table", "column", "parent"),
    [
        ("area", "type", "area_type"),
        ("areas", "type_id", "area_types"),
        ("concept_attribute", "attribute_type_id", "concept_attribute_type"),
        ("sales_area", "type", "area_type"),
    ],
)
def test_a_column_is_read_with_the_words_of_its_table(gathered: Gathered, table: str, column: str, parent: str) -> None:
    others = {name: {"id": TEN} for name in ("sales_type", "visit_type", "place_attribute_type")}
    facts = gathered({table: {"id": TEN, column: [1, 2] * 5}, parent: {"id": TEN}, **others})
    matches = index(facts).tables_of(facts.tables[0].column(column))
    best = max(matches, key=lambda number: matches[number])
    assert facts.tables[best].table.ref.name == parent
    assert matches[best] >= 0.9 > sorted(matches.values())[-2] if len(matches) > 1 else True


@pytest.mark.table(
    ("words", "distinct", "sources", "nothing"),
    [
        (0.2, 2, {"values"}, True),
        (0.2, 3, {"values"}, False),
        (0.8, 1, {"names", "values"}, False),
        (0.2, 1, {"values", "dbt"}, False),
    ],
)
def test_one_or_two_values_say_nothing_without_a_name(
    gathered: Gathered, words: float, distinct: int, sources: set[str], nothing: bool
) -> None:
    facts = gathered({"a": {"mark": [n % distinct + 1 for n in range(30)]}, "b": {"id": TEN}})
    candidate = Candidate(facts.columns[0], facts.columns[1], NameMatch(words, 0.0), set(sources))
    assert says_nothing(candidate) is nothing


def test_two_values_that_fit_several_keys_need_review(shop: Shop) -> None:
    tables = [f"CREATE TABLE {name} ({name}_id INTEGER, label TEXT)" for name in ("crate", "wagon", "yard")]
    rows = [insert(name, [(n, f"{name} {n}") for n in TEN]) for name in ("crate", "wagon", "yard")]
    answer = shop.search(
        [*tables, *rows, "CREATE TABLE log (at TEXT, code INTEGER)", insert("log", [("x", n % 2 + 1) for n in TEN])]
    )
    assert not [name for name in answer.accepted if name.startswith("log(")]


def fitting(facts: DatabaseFacts, child: str, key: str, probability: float, match: float = 1.0) -> Candidate:
    columns = {str(column): column for column in facts.columns}
    rows = columns[child].distinct
    overlap = Overlap(rows, 0, rows, rows, exact=True)
    return Candidate(columns[child], columns[key], NameMatch(match, 1.0), {"names"}, overlap, probability=probability)


def test_an_extension_refers_to_the_table_it_extends(gathered: Gathered) -> None:
    keys = {"pub_id": TEN}
    facts = gathered({"pub_info": {**keys, "logo": ["x"] * 10}, "publishers": keys, "titles": {"pub_id": TEN[:4]}})
    there = fitting(facts, "publishers.pub_id", "pub_info.pub_id", 0.99)
    back = fitting(facts, "pub_info.pub_id", "publishers.pub_id", 0.9)
    titles = [fitting(facts, "titles.pub_id", f"{name}.pub_id", 0.7) for name in ("pub_info", "publishers")]
    titles[0].probability = 0.8
    resolution = resolve([there, back, *titles], 0.6)
    winners = {f"{each.child} -> {each.key}" for each in resolution.winners}
    assert winners == {"pub_info.pub_id -> publishers.pub_id", "titles.pub_id -> publishers.pub_id"}
    assert "extends" in resolution.losers[there]


def test_a_child_that_names_the_extension_refers_to_it(gathered: Gathered) -> None:
    facts = gathered(
        {"party": {"party_id": TEN}, "vendor": {"party_id": TEN[:6]}, "vendor_product": {"party_id": [1, 1, 2, 3]}}
    )
    up = fitting(facts, "vendor.party_id", "party.party_id", 0.95)
    products = [fitting(facts, "vendor_product.party_id", f"{name}.party_id", 0.8) for name in ("vendor", "party")]
    winners = {f"{each.child} -> {each.key}" for each in resolve([up, *products], 0.6).winners}
    assert "vendor_product.party_id -> vendor.party_id" in winners


@pytest.mark.table(
    ("child", "key", "match", "own"),
    [
        ("allele_code.allele_code_id", "allele.allele_id", 0.8, True),
        ("film_category.film_id", "film.film_id", 1.0, False),
        ("pub_info.pub_id", "publishers.pub_id", 0.9, False),
    ],
)
def test_the_number_of_a_table_is_no_reference(
    gathered: Gathered, child: str, key: str, match: float, own: bool
) -> None:
    ends = [end.split(".") for end in (child, key)]
    facts = gathered({ends[0][0]: {ends[0][1]: TEN}, ends[1][0]: {ends[1][1]: list(range(1, 60))}})
    assert is_own_number(fitting(facts, child, key, 0.9, match)) is own


def test_a_subtype_with_gaps_may_have_a_number_of_its_own_name(gathered: Gathered) -> None:
    facts = gathered({"staff": {"staff_id": list(range(3, 400, 7))}, "person": {"person_id": list(range(1, 400))}})
    assert not is_own_number(fitting(facts, "staff.staff_id", "person.person_id", 0.9, 0.0))


def test_a_name_of_many_tables_is_the_key_of_none(gathered: Gathered) -> None:
    facts = gathered({f"t{n}": {"created_by": [n], "label": ["x"]} for n in range(5)})
    alone = gathered({"t": {"created_by": [1], "label": ["x"]}})
    assert key_score(facts.columns[0]) <= key_score(alone.columns[0]) - 1


@pytest.mark.table(
    ("table", "columns", "key"),
    [
        ("circle", ("circle_id", "author_id"), ("circle_id",)),
        ("app_circle", ("circle_id", "author_id"), ("circle_id",)),
        ("user_role", ("user_id", "role_id", "added_on"), ("user_id", "role_id")),
        ("phone", ("user_id", "line_no", "label", "author_id"), ("user_id", "line_no")),
        ("user_line", ("user_id", "number", "label", "other_1", "other_2"), ("user_id", "number")),
        ("user_nts", ("user_id", "label", "author_id", "itm_nmbr"), ("user_id", "itm_nmbr")),
        ("user_details", ("weight", "user_id"), ("user_id",)),
        ("circle_headers", ("label", "circle_id", "parent_circle_id"), ("circle_id",)),
        ("inv_circle", ("fk_circle", "pk_circle"), ("pk_circle",)),
        ("user_setting", ("user_id", "setting_key", "value", "line_no"), ("user_id", "line_no")),
        ("tax_rate", ("tax_rate_name", "percentage"), ("tax_rate_name",)),
    ],
)
def test_the_key_of_a_table_without_rows_is_guessed_by_names(
    gathered: Gathered, table: str, columns: tuple[str, ...], key: tuple[str, ...]
) -> None:
    from tests.scan.relationships.test_columns_choice import keys_of

    others = {name: {f"{name}_id": TEN} for name in ("user", "role", "author")}
    choice = keys_of(gathered({table: {name: [] for name in columns}, **others}))[table]
    assert (choice.primary, choice.confirmed) == (key, False)


def test_the_first_words_of_a_name_are_no_abbreviation_of_it(gathered: Gathered) -> None:
    facts = gathered({"film_actor": {"film_id": TEN, "film_actor_id": TEN}})
    assert [own_name(column) < 0.6 for column in facts.columns] == [True, False]


@pytest.mark.table(
    ("column", "table", "own"),
    [
        ("circle_id", "circle_headers", 0.9),
        ("link_set_id", "link_set", 1.0),
        ("fk_circle", "inv_circle", 0.4),
        ("pk_circle", "inv_circle", 0.95),
        ("sequenceregionid", "erpsequenceregions", 0.9),
        ("regionid", "erpsequenceregions", 0.4),
    ],
)
def test_how_clearly_a_name_is_that_of_its_own_table(gathered: Gathered, column: str, table: str, own: float) -> None:
    facts = gathered({table: {column: TEN, "label": ["x"] * 10}, "link_kind": {"id": TEN}, "link_note": {"id": TEN}})
    assert own_name(facts.tables[0].column(column)) == pytest.approx(own)


def test_a_second_surrogate_of_many_tables_is_the_key_of_none(gathered: Gathered) -> None:
    from tests.scan.relationships.test_columns_choice import keys_of

    guids = [f"{n:032x}" for n in TEN]
    tables = {name: {"id": TEN, "row_guid": guids} for name in ("user", "role", "item", "place", "tag")}
    line = {"user_id": [1] * 5 + [2] * 5, "position": [1, 2, 3, 4, 5] * 2, "row_guid": guids}
    choices = keys_of(gathered({**tables, "user_line": line}))
    assert choices["user"].primary == ("id",)
    assert choices["user_line"].primary == ("user_id", "position")


def test_integers_that_many_tables_have_are_no_keys(gathered: Gathered) -> None:
    from tests.scan.relationships.test_columns_choice import keys_of

    facts = gathered({f"kind_{n}": {"active": [n], "id": [n], "label": ["x"]} for n in range(5)})
    assert {choice.primary for choice in keys_of(facts).values()} == {("id",)}


def test_a_name_of_several_words_may_be_the_id_of_a_database(gathered: Gathered) -> None:
    tables = {name: {"rec_id": TEN, "label": ["x"] * 10} for name in ("athlete", "club", "agent", "season")}
    facts = gathered({**tables, "spell": {"rec_id": TEN, "club_rec_id": [1, 2] * 5}})
    column = facts.tables[-1].column("club_rec_id")
    assert (column.base, column.keyed, facts.columns[0].base) == (("club",), True, ())
    assert [str(key) for key in index(facts).parents(column)] == ["club.rec_id"]


def test_a_name_with_the_letters_of_its_table_is_the_same_elsewhere(gathered: Gathered) -> None:
    prefixed = {"prf_id": TEN, "prf_label": ["x"] * 10, "prf_rank": TEN}
    facts = gathered({"prefix": prefixed, "contact": {"cnt_id": TEN, "cnt_name": ["x"] * 10, "prf_id": [1, 2] * 5}})
    match = index(facts).parents(facts.tables[1].column("prf_id"))[facts.columns[0]]
    assert (facts.columns[0].base, match.key) == ((), 1.0)


@pytest.mark.table(
    ("table", "column", "parents"),
    [
        ("link_artist_work", "entity0", ["artist"]),
        ("link_artist_work", "entity1_id", ["work"]),
        ("link_artist_artist", "entity1", ["artist"]),
        ("artist_work", "entity1", ["work"]),
        ("note", "entity1", []),
    ],
)
def test_numbered_columns_refer_to_the_tables_that_their_table_names(
    gathered: Gathered, table: str, column: str, parents: list[str]
) -> None:
    other = column.replace("1", "2").replace("0", "1").replace("2", "0")
    facts = gathered({"artist": {"id": TEN}, "work": {"id": TEN}, table: {"id": TEN, column: TEN, other: TEN}})
    found = index(facts).tables_of(facts.tables[-1].column(column))
    assert [facts.tables[number].table.ref.name for number in found] == parents


@pytest.mark.table(
    ("column", "itself"),
    [("parent_id", True), ("par_id", True), ("prnt_no", True), ("pare_code", True), ("part_id", False)],
)
def test_an_abbreviated_parent_is_another_row_of_its_table(gathered: Gathered, column: str, itself: bool) -> None:
    facts = gathered({"kind": {"id": TEN, column: [1, 2] * 5}})
    assert facts.columns[1].names_self is itself


def test_a_deleted_by_with_one_value_may_refer(gathered: Gathered) -> None:
    facts = gathered({"item": {"deleted_by": [1], "deleted": [1]}})
    assert [can_refer(column) for column in facts.columns] == [True, False]


def test_an_extension_without_a_column_for_it_may_share_the_number_of_its_table(gathered: Gathered) -> None:
    facts = gathered({"exon_extension": {"id": TEN[:4]}, "exon": {"id": TEN}, "intron": {"id": TEN}})
    assert not is_own_number(fitting(facts, "exon_extension.id", "exon.id", 0.9, 0.0))
    assert is_own_number(fitting(facts, "exon_extension.id", "intron.id", 0.9, 0.0))


def test_a_sequence_that_numbers_the_rows_of_most_tables_is_their_key(gathered: Gathered) -> None:
    from tests.scan.relationships.test_columns_choice import keys_of

    tables = {name: {"seq": [], f"{name}_of_seq": [], "label": []} for name in ("user", "role", "item", "place")}
    choices = keys_of(gathered({**tables, "user_line": {"user_seq": [], "seq": [], "label": []}}))
    assert {choice.primary for choice in choices.values()} == {("seq",)}
    few = gathered({"user": {"user_id": []}, "user_line": {"user_id": [], "seq": [], "label": []}})
    assert keys_of(few)["user_line"].primary == ("user_id", "seq")


@pytest.mark.table(
    ("column", "tables", "parents"),
    [
        ("created_by", "user employee customer", ["user"]),
        ("author_id", "app_user user_role role group_user group", ["app_user"]),
        ("changed_by", "site_user admin_user usergroup", ["site_user", "admin_user"]),
        ("modifier", "utilisateur_app role_app_utilisateur", ["utilisateur_app"]),
        ("created_by", "employee employee_skill", ["employee"]),
        ("poster_id", "post user member", ["user"]),
        ("assigned_to", "place employee", ["employee"]),
        ("tutor", "profesores materias", ["profesores"]),
        ("customer_id", "person place", ["person"]),
        ("customer_id", "person client", ["client"]),
        ("changed_on_id", "calendar_date employee", ["calendar_date"]),
        ("members", "employee contact", []),
    ],
)
def test_a_name_means_tables_in_other_words(gathered: Gathered, column: str, tables: str, parents: list[str]) -> None:
    facts = gathered({name: {"id": TEN} for name in tables.split()} | {"note": {"id": TEN, column: [1, 2] * 5}})
    found = index(facts).parents(facts.tables[-1].column(column))
    assert [key.table.table.ref.name for key, match in found.items() if match.meaning] == parents


@pytest.mark.table(
    ("table", "column", "least", "most"),
    [("label", "type", 0, 0.6), ("link", "type", 0.9, 1), ("link_note", "type", 0.7, 1), ("label", "link_type", 1, 1)],
)
def test_the_kind_of_another_table_is_not_meant(
    gathered: Gathered, table: str, column: str, least: float, most: float
) -> None:
    facts = gathered({"link_type": {"id": TEN}, "link": {"id": TEN}, table: {"id": TEN, column: [1, 2] * 5}})
    matches = index(facts).tables_of(facts.tables[-1].column(column))
    assert least <= matches.get(0, 0.0) <= most


def test_kinds_that_are_read_in_context_have_no_namesakes(gathered: Gathered) -> None:
    kinds = {f"{name}_type": {"id": TEN} for name in ("area", "label")}
    children = {name: {"id": TEN, "type": [1, 2] * 5} for name in ("area", "label", "work")}
    facts = gathered(kinds | children)
    names = index(facts)
    columns = [column for column in facts.columns if column.name == "type"]
    candidates = [
        Candidate(column, key, match, {"names"}, features=[0.0] * len(FEATURES))
        for column in columns
        for key, match in names.parents(column).items()
    ]
    summary = summarize(facts.columns, candidates)
    found = {str(column): summary.columns[facts.columns.index(column)].name for column in columns}
    assert found == {"area.type": "areatype", "label.type": "labeltype", "work.type": "type"}


@pytest.mark.table(
    ("column", "values", "refers"),
    [
        ("approved", [0, 1], False),
        ("is_approved", [1, 1], False),
        ("approved", [1, 2], True),
        ("approved_by", [0, 1], True),
        ("user_created", [1, 1], True),
    ],
)
def test_what_happened_is_a_flag_by_its_values(
    gathered: Gathered, column: str, values: list[int], refers: bool
) -> None:
    assert can_refer(gathered({"post": {"id": TEN, column: values * 5}}).tables[0].column(column)) is refers


def test_the_root_of_a_hierarchy_may_have_the_parent_0(gathered: Gathered, shop: Shop) -> None:
    rows = [(n, 0 if n < 9 else 3, f"forum {n}") for n in TEN]
    answer = shop.search(["CREATE TABLE forum (forum_id INTEGER, parent_id INTEGER, name TEXT)", insert("forum", rows)])
    found = answer.inferred("forum(parent_id) -> forum(forum_id)")
    assert found.check is not None
    assert (found.check.rows, found.check.missing) == (2, 0)
