"""The tools that find and read: connections, search, values, pages, entities, definitions, status."""

from __future__ import annotations

import json

import pytest

from ktx_cli.core import yaml
from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.mcp.tools import TOOLS
from ktx_cli.semantic.manifest import ColumnValues
from ktx_cli.warehouses.port import TableRef
from tests.mcp.conftest import Company

READING = (
    ("connection_list", {}),
    ("context_pack", {"question": "revenue by country"}),
    ("discover_data", {"query": "refund"}),
    ("dictionary_search", {"values": ["NO"]}),
    ("wiki_search", {"query": "refund"}),
    ("wiki_read", {"key": "refunds"}),
    ("context_read", {"id": "refunds"}),
    ("context_read", {"id": "orders.revenue"}),
    ("entity_details", {"targets": ["orders"]}),
    ("sl_list", {}),
    ("sl_read_source", {"source": "orders"}),
    ("sl_query", {"measures": ["orders.revenue"]}),
    ("sl_query", {"measures": ["orders.revenue"], "explain": True}),
    ("sl_explain", {"measures": ["orders.revenue"]}),
    ("sl_validate", {}),
    ("sql_execution", {"sql": "SELECT count(*) FROM orders"}),
    ("context_status", {}),
)


@pytest.mark.table(("name", "arguments"), READING)
def test_an_argument_no_tool_has_is_an_error_that_names_it(company: Company, name: str, arguments: dict) -> None:
    error = company.call(name, {**arguments, "colour": "red"}).error
    assert error is not None and error["code"] == "usage"
    assert "colour" in error["message"] and error["hint"]


@pytest.mark.parametrize(
    ("arguments", "hint"),
    [
        ({"time_range": {"from": "2024-01-01", "to": "2025-01-01"}}, "`time_range` takes: start, end, last, field"),
        ({"order_by": [{"by": "revenue"}]}, "`order_by.0` takes: field, direction"),
        ({"mesures": ["orders.revenue"]}, "instead of `mesures`, did you mean `measures`?"),
    ],
)
def test_an_unknown_key_of_an_object_lists_its_keys(company: Company, arguments: dict, hint: str) -> None:
    error = company.call("sl_query", {"measures": ["orders.revenue"], **arguments}).error
    assert error is not None and error["hint"] == hint


@pytest.mark.parametrize(
    ("arguments", "message", "hint"),
    [
        ({"measures": "orders.revenue"}, "measures: Input should be a valid list", "`measures`: Measures: `orders."),
        ({"limit": "ten"}, "limit: Input should be a valid integer", "`limit`: Maximum number of rows."),
        ({"time_range": "2025"}, "time_range: Input should be a valid dictionary", "`time_range`: Time range: `start`"),
        (
            {"order_by": [{"field": "x", "direction": "up"}]},
            "order_by.0.direction: Input should be",
            "`order_by`: `ord",
        ),
        (
            {"via": {"regions": 3}},
            "via.regions: Input should be a valid",
            '`via`: Joins to use to reach a source: {"re',
        ),
    ],
)
def test_an_argument_of_another_type_is_answered_with_what_it_takes(
    company: Company, arguments: dict, message: str, hint: str
) -> None:
    error = company.call("sl_query", {"measures": ["orders.revenue"], **arguments}).error
    assert error is not None and message in error["message"] and error["hint"].startswith(hint), error
    assert not any(word in error["message"] for word in ("Asked", "constrained", "instance"))


@pytest.mark.table(("name", "arguments"), READING)
def test_every_tool_answers_within_its_schema_also_read_only_and_private(
    company: Company, name: str, arguments: dict
) -> None:
    assert company.call(name, arguments).error is None
    assert company.call(name, arguments, read_only=True, privacy=True).error is None


def test_read_only_servers_have_no_tool_that_writes(company: Company) -> None:
    async def names(client):
        return [each.name for each in (await client.list_tools()).tools]

    writing = {each.name for each in TOOLS if each.writes}
    admin = {"profile": Profile.ADMIN}
    here = {each.name for each in TOOLS} - {"mongo_query"}  # There is no connection to MongoDB.
    assert set(company.client(names, **admin)) == here
    assert set(company.client(names, **admin, read_only=True)) == here - writing
    assert set(company.client(names)) - set(company.client(names, read_only=True)) == {"memory_ingest"}
    for name in writing:
        error = company.call(name, read_only=True).error
        assert error is not None and f"no tool `{name}`" in error["message"]


def test_an_unknown_tool_names_the_nearest(company: Company) -> None:
    error = company.call("sl_querry").error
    assert error == {
        "code": "usage", "message": "there is no tool `sl_querry`", "hint": "did you mean `sl_query`?", "details": {}
    }  # fmt: skip


def test_connections_are_told_by_id_with_their_sql(company: Company) -> None:
    found = company.call("connection_list").data["connections"]
    assert found == [
        {"id": "shop", "driver": "sqlite", "kind": "database", "dialect": "sqlite", "semantic_layer": True}
    ]


def test_search_gives_what_people_govern_first_and_pages_to_the_end(scanned: Company) -> None:
    hits, pages = scanned.whole("discover_data", "hits", {"query": "refund orders revenue NO", "limit": 2})
    kinds = [each["kind"] for each in hits]
    assert pages > 2
    assert len({(each["kind"], each["id"]) for each in hits}) == len(hits)
    assert {"page", "measure", "value"} <= set(kinds)
    assert kinds[0] in ("source", "measure", "page")
    assert scanned.call("discover_data", {"query": "refund orders revenue NO"}).data["total"] == len(hits)


def test_search_narrows_by_kind_and_says_what_it_corrected(company: Company) -> None:
    reply = company.call("discover_data", {"query": "revenu", "kinds": ["measure"]})
    assert [each["id"] for each in reply.data["hits"]] == ["orders.revenue"]
    reply = company.call("discover_data", {"query": "xyzzy"})
    assert reply.data["hits"] == [] and reply.data["total"] == 0


def test_search_suggests_what_an_ordinary_word_is_near_and_mixes_nothing_in(company: Company) -> None:
    company.page("global/marlin", "summary: About the marlin", "A fish.")
    data = company.call("discover_data", {"query": "margin"}).data
    assert (data["hits"], data["corrected"], data["suggested"]) == ([], {}, {"margin": "marlin"})
    data = company.call("discover_data", {"query": "revnue"}).data
    assert (data["corrected"], data["suggested"]) == ({"revnue": "revenue"}, {})
    assert "orders.revenue" in [each["id"] for each in data["hits"]]


def test_values_of_a_column_are_one_hit(company: Company) -> None:
    values = tuple((f"Norway {number}", 20 - number) for number in range(15))
    company.lists(ColumnValues(TableRef(None, "customers"), "country", values, True))
    data = company.call("discover_data", {"query": "norway"}).data
    (hit,) = data["hits"]
    assert (hit["kind"], hit["id"], data["total"]) == ("value", "customers.country = 'Norway 0'", 1)
    assert len(hit["values"]) == 12 and set(hit["values"]) < {f"'{each}'" for each, _ in values}
    assert hit["values"][0] == "'Norway 0'" and hit["more_values"] == 3
    assert hit["next"] == {"sl_query": {"filters": ["customers.country = 'Norway 0'"]}}


def test_search_of_an_unknown_connection_names_it(company: Company) -> None:
    error = company.call("discover_data", {"query": "refund", "connection": "shpo"}).error
    assert error is not None and error["hint"] == "did you mean `shop`?"


def test_search_finds_nothing_hidden(scanned: Company) -> None:
    reply = scanned.call("discover_data", {"query": "email ada example com"})
    assert "email" not in reply.text and "ada@example.com" not in reply.text


def test_search_with_privacy_finds_no_values(scanned: Company) -> None:
    query = {"query": "paid", "kinds": ["value"]}
    assert scanned.call("discover_data", query).data["hits"]
    private = scanned.call("discover_data", query, privacy=True)
    assert private.data["hits"] == [] and "--privacy" in private.data["warnings"][0]
    assert "value" not in {
        each["kind"] for each in scanned.call("discover_data", {"query": "paid"}, privacy=True).data["hits"]
    }


def test_a_value_is_found_where_it_stands_as_it_is_spelled(scanned: Company) -> None:
    reply = scanned.call("dictionary_search", {"values": ["no", "nowhere"]})
    found, missed = reply.data["values"]
    assert found["matches"] == [
        {"connection": "shop", "source": "customers", "column": "country", "value": "NO", "count": 1, "match": "case"}
    ]
    assert missed["matches"] == []
    assert missed["misses"][0]["reason"] == "not_listed" and "2 of them" not in missed["misses"][0]["message"]
    assert "1 of them in part" in missed["misses"][0]["message"]
    assert "may still exist" in reply.data["note"]


def test_a_value_of_a_hidden_column_is_not_found(scanned: Company) -> None:
    reply = scanned.call("dictionary_search", {"values": ["ada"]})
    assert reply.data["values"][0]["matches"] == [] and "ada@example.com" not in reply.text


def test_a_miss_says_why(company: Company) -> None:
    def reason(**options: bool) -> str:
        return company.call("dictionary_search", {"values": ["NO"]}, **options).data["values"][0]["misses"][0]["reason"]

    assert reason() == "no_scan"
    assert reason(privacy=True) == "withheld"
    company.lists(privacy="strict")
    assert reason() == "strict"
    company.lists()
    company.write("ktx.yaml", (company.folder / "ktx.yaml").read_text() + "scan:\n  privacy: strict\n")
    assert reason() == "strict"


def test_values_come_in_pages_where_they_are_many(scanned: Company) -> None:
    wanted = [f"{'x' * 150}{number}" for number in range(20)]
    found, _ = scanned.whole("dictionary_search", "values", {"values": wanted})
    assert [each["value"] for each in found] == wanted


def test_pages_are_found_by_words_and_by_user(company: Company) -> None:
    def keys(**arguments: str) -> list[tuple[str, str]]:
        found = company.call("wiki_search", {"query": "refund", **arguments}).data["pages"]
        return [(each["key"], each["scope"]) for each in found]

    assert ("refunds", "global") in keys() and ("secret", "user/bo") not in keys()
    assert ("refunds", "user/ada") in keys(user="ada") and ("refunds", "global") not in keys(user="ada")
    assert keys(tag="money") == [("refunds", "global")]
    assert keys(tag="nothing") == []


def test_a_page_is_read_with_what_it_is_connected_with(company: Company) -> None:
    page = company.call("wiki_read", {"key": "refunds"}).data
    assert page["summary"] == "What a refund is" and page["tags"] == ["money"]
    assert page["refs"] == ["late-orders"] and page["sl_refs"] == ["shop/orders.revenue", "orders"]
    assert page["backlinks"] == ["late-orders"]  # Bo's page is Bo's alone
    assert page["content"].startswith("A refund is money")
    assert company.call("wiki_read", {"key": "refunds", "user": "ada"}).data["content"] == "My own rule.\n"


def test_hidden_characters_of_a_page_are_shown(company: Company) -> None:
    assert "days⟨U+200B⟩" in company.call("wiki_read", {"key": "late-orders"}).data["content"]


@pytest.mark.table("key", ["refund", "Refunds.md", "../ktx", "..%2f..%2fktx.yaml", "/etc/passwd", "a/b"])
def test_a_key_no_page_has_leads_nowhere(company: Company, key: str) -> None:
    error = company.call("wiki_read", {"key": key}).error
    assert error is not None and error["code"] == "usage" and error["hint"]


def test_the_hint_of_a_missing_page_is_for_agents(company: Company) -> None:
    assert company.call("wiki_read", {"key": "refunds-"}).error["hint"] == "did you mean `refunds`?"  # type: ignore[index]
    hint = company.call("wiki_read", {"key": "nothing-like-it"}).error["hint"]  # type: ignore[index]
    assert "discover_data" in hint


def test_what_was_found_is_read_by_its_id(scanned: Company) -> None:
    scanned.documents("docs", {"shipping.md": "# Shipping\n\nParcels leave at noon.\n"})
    hits = scanned.call("discover_data", {"query": "refund revenue orders parcels country", "limit": 50}).data["hits"]
    kinds = set()
    for hit in hits:
        if hit["kind"] != "value":
            found = scanned.call("context_read", {"id": hit["id"]}).data
            assert found["id"] == hit["id"] and found["content"]
            kinds.add((hit["kind"], found["kind"]))
            assert found["connection"] == (hit["connection"] if found["kind"] == "definition" else "")
    definitions = {(kind, "definition") for kind in ("source", "measure", "column")}
    assert kinds >= {*definitions, ("page", "page"), ("passage", "passage")}


def test_a_hit_names_the_call_that_goes_on_from_it(scanned: Company) -> None:
    found = scanned.call("discover_data", {"query": "refund revenue orders country NO large", "limit": 50}).data["hits"]
    calls = {hit["kind"]: (hit["id"], hit["next"]) for hit in found}
    asked = {"measure": "measures", "segment": "segments", "column": "dimensions", "value": "filters"}
    for kind, part in asked.items():
        id, following = calls[kind]
        assert following == {"sl_query": {part: [id]}}
        arguments = following["sl_query"] | ({"measures": ["orders.revenue"]} if part != "measures" else {})
        assert scanned.call("sl_query", arguments).error is None
    for kind in ("page", "source"):
        id, following = calls[kind]
        assert following == {"context_read": {"id": id}}


def test_a_definition_is_read_with_values_and_the_pages_that_explain_it(scanned: Company) -> None:
    source = scanned.call("context_read", {"id": "customers"}).data["content"]
    assert "name: country" in source and "- SE\n" in source and "email" not in source
    column = scanned.call("context_read", {"id": "customers.country"}).data["content"]
    assert "- SE\n" in column and "name: id" not in column
    private = scanned.call("context_read", {"id": "customers"}, privacy=True)
    assert private.error is None and "SE" not in private.text
    assert "explained_by" in scanned.call("context_read", {"id": "orders.revenue"}).data["content"]


def test_a_name_of_a_page_and_a_source_leads_to_the_source_and_says_so(company: Company) -> None:
    company.page("global/orders", "summary: About orders", "Orders are sold.")
    found = company.call("context_read", {"id": "orders"}).data
    assert found["kind"] == "definition" and found["warnings"] == ["there is also a page `orders`: use kind: page"]
    page = company.call("context_read", {"id": "orders", "kind": "page"}).data
    assert (page["kind"], page["content"], page["warnings"]) == ("page", "Orders are sold.\n", [])
    assert company.call("context_read", {"id": "orders", "kind": "definition"}).data["warnings"] == []


@pytest.mark.table(
    ("arguments", "hint"),
    [
        ({"id": "nothing-like-it"}, "discover_data"),
        ({"id": "refunds-"}, "did you mean `refunds`?"),
        ({"id": "orders.revenu"}, "did you mean `orders.revenue`"),
        ({"id": "orders.revenu", "kind": "definition"}, "discover_data"),
        ({"id": "customers.email"}, "its columns are: id, country"),
        ({"id": "docs:nothing.md:x:0"}, "discover_data"),
        ({"id": "../ktx"}, "discover_data"),
    ],
)
def test_an_id_nothing_has_leads_nowhere_and_says_what_may_be_meant(
    company: Company, arguments: dict, hint: str
) -> None:
    error = company.call("context_read", arguments).error
    assert error is not None and error["code"] == "usage" and hint in error["hint"]


def test_a_definition_comes_in_pages_and_whole(company: Company) -> None:
    columns = "".join(
        f"  - {{name: c{number}, type: string, description: '{'word ' * 60}'}}\n" for number in range(300)
    )
    company.source("wide", f"name: wide\ntable: wide\ngrain: [c0]\ncolumns:\n{columns}")
    content, pages = company.whole("context_read", "content", {"id": "wide"})
    named = [each["name"] for each in yaml.load(content, where="wide")["columns"]]
    assert named == [f"c{number}" for number in range(300)] and pages > 3


def test_a_search_of_pages_without_a_hit_says_where_else_to_look(company: Company) -> None:
    def warnings(query: str) -> list[str]:
        found: list[str] = company.call("wiki_search", {"query": query}).data["warnings"]
        return found

    assert any("discover_data" in each for each in warnings("zebra"))
    assert not any("discover_data" in each for each in warnings("refund"))


def test_a_passage_that_was_found_is_read_whole_by_its_id(company: Company) -> None:
    text = "# Shipping\n\n" + "Parcels leave at noon. " * 40 + "Never on Sundays\u200b.\n"
    company.documents("docs", {"shipping.md": text})
    (hit,) = company.call("discover_data", {"query": "parcels", "kinds": ["passage"]}).data["hits"]
    assert "Sundays" not in hit["snippet"]
    found = company.call("wiki_read", {"key": hit["id"]}).data
    assert (found["scope"], found["path"], found["summary"]) == ("document", "shipping.md", "Shipping: Shipping")
    assert found["content"].endswith("Never on Sundays⟨U+200B⟩.\n")


@pytest.mark.table(
    "key", ["docs:shipping.md:shipping:0", "docs:other.md:x:0", "shop:shipping.md:x:0", "docs:../ktx:x:0"]
)
def test_an_id_no_passage_has_leads_nowhere(company: Company, key: str) -> None:
    company.documents("docs", {"shipping.md": "# Shipping\n\nParcels.\n"})
    error = company.call("wiki_read", {"key": key}).error
    assert error is not None and "no passage" in error["message"] and "discover_data" in error["hint"]


def test_a_user_that_is_a_path_is_refused(company: Company) -> None:
    for name in ("wiki_read", "wiki_search"):
        arguments = {"key": "refunds"} if name == "wiki_read" else {"query": "refund"}
        error = company.call(name, {**arguments, "user": "../../global"}).error
        assert error is not None and "user id" in error["message"]


def test_a_long_page_comes_in_pages_and_whole(company: Company) -> None:
    body = "\n".join(f'line {number} with "quotes" and some more words' for number in range(3000))
    company.page("global/long", "summary: Long", body)
    content, pages = company.whole("wiki_read", "content", {"key": "long"})
    assert content == body + "\n" and pages > 4


def test_entities_are_sources_tables_and_columns(scanned: Company) -> None:
    reply = scanned.call("entity_details", {"targets": ["orders", "customers.country", "orders.amuont", "nothing"]})
    orders, customers = reply.data["entities"]
    assert orders["facts"]["joins"][0]["to"] == "customers"
    assert [each["name"] for each in orders["facts"]["measures"]] == ["revenue", "order_count"]
    assert customers["facts"]["columns"] == [
        {"name": "country", "type": "string", "values": ["NO", "SE"], "more_values": False}
    ]
    assert [each["target"] for each in reply.data["missed"]] == ["orders.amuont", "nothing"]
    assert "did you mean `orders.amount`" in reply.data["missed"][0]["message"]


def test_entities_show_nothing_hidden_and_with_privacy_no_values(scanned: Company) -> None:
    reply = scanned.call("entity_details", {"targets": ["customers"]})
    facts = reply.data["entities"][0]["facts"]
    assert [each["name"] for each in facts["columns"]] == ["id", "country"]
    assert facts["not_shown"] == {"columns": 1}
    assert facts["measures"][0]["expr"] == "(not shown)" and "email" not in reply.text
    private = scanned.call("entity_details", {"targets": ["customers"]}, privacy=True)
    assert "SE" not in private.text
    assert scanned.call("entity_details", {"targets": ["customers.email"]}).data["entities"] == []


def test_a_wide_source_comes_in_pieces_that_are_all_of_it(company: Company) -> None:
    columns = "".join(
        f"  - {{name: c{number}, type: string, description: '{'words ' * 60}'}}\n" for number in range(500)
    )
    company.source("wide", f"name: wide\ntable: wide\ngrain: [c0]\ncolumns:\n{columns}")
    pieces, pages = company.whole("entity_details", "entities", {"targets": ["wide"]})
    names = [column["name"] for piece in pieces for column in piece["facts"]["columns"]]
    assert names == [f"c{number}" for number in range(500)] and pages > 3
    assert [each["continues"] for each in pieces] == [True] * (len(pieces) - 1) + [False]


def test_sources_are_listed_in_pages(company: Company) -> None:
    found, pages = company.whole("sl_list", "sources", {"limit": 1})
    assert [each["name"] for each in found] == ["customers", "facts", "orders", "staff"] and pages == 4
    orders = company.call("sl_list").data["sources"][2]
    assert orders["measures"] == ["revenue", "order_count"] and orders["segments"] == ["large"]


@pytest.mark.table(
    ("columns", "time"),
    [
        ("{name: seen, type: time}", "seen"),
        ("{name: seen, type: time}, {name: left, type: time}", None),
        ("{name: seen, type: time, visibility: hidden}", None),
    ],
)
def test_the_only_time_of_a_source_is_its_time(columns: str, time: str | None, company: Company) -> None:
    """A question may call it metric_time, so whoever looks at the list must see that there is one."""
    company.source(
        "visits", f"name: visits\ntable: facts\ngrain: [id]\ncolumns: [{{name: id, type: number}}, {columns}]"
    )
    listed = company.call("sl_list").data["sources"]
    assert [each["time"] for each in listed if each["name"] == "visits"] == [time]


def test_a_list_of_many_sources_keeps_to_its_budget(company: Company) -> None:
    for number in range(150):
        described = f"description: {'described at length ' * 12}\ngrain: [id]"
        columns = "columns:\n  - {name: id, type: number}\n"
        company.source(f"s{number:03}", f"name: s{number:03}\ntable: facts\n{described}\n{columns}")
    found, pages = company.whole("sl_list", "sources", {"limit": 200})
    assert len({each["name"] for each in found}) == len(found) == 154 and pages > 1


def test_a_source_is_read_composed_and_as_its_files(company: Company) -> None:
    composed = company.call("sl_read_source", {"source": "Orders"}).data
    assert composed["source"] == "orders" and composed["paths"] == ["semantic-layer/shop/orders.yaml"]
    assert "expr: sum(amount)" in composed["yaml"]
    files = company.call("sl_read_source", {"source": "orders", "form": "files"}).data
    assert ORDERS_LINE in files["yaml"]


ORDERS_LINE = "  - {name: amount, type: number, unit: EUR}"


def test_files_that_hold_something_hidden_are_not_shown(company: Company) -> None:
    for name in ("customers", "staff"):
        error = company.call("sl_read_source", {"source": name, "form": "files"}).error
        assert error is not None and error["code"] == "hidden" and error["hint"] == "use form: composed"
        assert "email" not in company.call("sl_read_source", {"source": name}).data["yaml"]
    assert "user.region" not in company.call("sl_read_source", {"source": "staff"}).data["yaml"]
    error = company.call("sl_read_source", {"source": "orders", "form": "files"}, privacy=True).error
    assert error is not None and error["code"] == "hidden"


def test_no_name_of_a_hidden_column_stands_in_joins_grain_or_time(company: Company) -> None:
    company.source(
        "visits",
        """\
name: visits
table: facts
grain: [id, secret_key]
default_time_dimension: secret_time
columns:
  - {name: id, type: number}
  - {name: secret_key, type: number, visibility: hidden}
  - {name: secret_time, type: time, visibility: hidden}
joins:
  - {to: customers, on: visits.secret_key = customers.id, relationship: many_to_one}
""",
    )
    for name, arguments in (
        ("entity_details", {"targets": ["visits"]}),
        ("sl_read_source", {"source": "visits"}),
        ("sl_list", {}),
    ):
        reply = company.call(name, arguments)
        assert reply.error is None and "visits" in reply.text and "secret" not in reply.text, name


def test_a_hidden_source_is_not_read_and_nobody_is_told_how(company: Company) -> None:
    company.source("inner", "name: inner\ntable: facts\nvisibility: hidden\ncolumns:\n  - {name: id, type: number}\n")
    error = company.call("sl_read_source", {"source": "inner"}).error
    assert error is not None and error["code"] == "hidden" and "--yaml" not in error["hint"]


def test_an_unknown_source_names_the_nearest(company: Company) -> None:
    error = company.call("sl_read_source", {"source": "ordres"}).error
    assert error is not None and error["code"] == "unknown_name" and "orders" in error["hint"]


def test_a_long_definition_comes_whole_in_pages(company: Company) -> None:
    columns = "".join(f"  - {{name: column_number_{number}, type: string}}\n" for number in range(1500))
    company.source("wide", f"name: wide\ntable: wide\ncolumns:\n{columns}")
    text, pages = company.whole("sl_read_source", "yaml", {"source": "wide"})
    assert text.count("name: column_number_") == 1500 and pages > 1


def test_status_is_that_of_the_command_without_values_of_secrets(company: Company) -> None:
    company.write("ktx.yaml", CONFIG_WITH_SECRET)
    data = company.call("context_status", read_only=True).data
    assert data["read_only"] and not data["privacy"]
    assert {each["check"] for each in data["checks"]} >= {"config", "databases", "context"}
    assert [each["id"] for each in data["connections"]] == ["pg", "shop"]
    assert "hunter2" not in json.dumps(data)


CONFIG_WITH_SECRET = """\
connections:
  shop: {driver: sqlite, path: shop.sqlite}
  pg: {driver: postgres, host: localhost, database: x, username: y, password: hunter2}
"""


def test_entities_are_measures_and_segments_too_with_what_explains_them(company: Company) -> None:
    company.page("global/turnover", "sl_refs: [orders.revenue]", "Of `orders.large`, see `shop/orders.revenue`.")
    targets = ["orders.revenue", "orders.large", "orders.revenu", "customers.reachable"]
    reply = company.call("entity_details", {"targets": targets})
    orders, customers = reply.data["entities"]
    assert orders["facts"].keys() == {"kind", "table", "measures", "segments"}
    (measure,), (segment,) = orders["facts"]["measures"], orders["facts"]["segments"]
    assert (measure["name"], measure["expr"]) == ("revenue", "sum(amount)")
    assert measure["explained_by"] == ["refunds", "turnover"]
    assert (segment["name"], segment["explained_by"]) == ("large", ["turnover"])
    assert customers["facts"]["measures"][0]["expr"] == "(not shown)"
    (missed,) = reply.data["missed"]
    assert "did you mean `orders.revenue`" in missed["message"]


def test_a_definition_and_a_hit_name_the_pages_that_explain_a_measure(company: Company) -> None:
    definition = company.call("sl_read_source", {"source": "orders"}).data["yaml"]
    measure = next(each for each in yaml.load(definition, where="")["measures"] if each["name"] == "revenue")
    assert measure["explained_by"] == ["refunds"]
    hits = company.call("discover_data", {"query": "revenue", "kinds": ["measure"]}).data["hits"]
    assert [(each["id"], each["pages"]) for each in hits] == [("orders.revenue", ["refunds"])]
