"""Agents at a root: they find, read and ask what its mounts have, under its names, by the policies of each mount."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.mcp.conftest import CONFIG, Company, made

REVENUE = {"measures": ["orders.revenue"]}
NOTES = {"measures": ["staff.people"], "dimensions": ["staff.note"], "connection": "people/shop"}
ROOT = "mounts: {sales: domains/sales, finance: domains/finance, people: ../people}\n"


@pytest.fixture
def root(tmp_path: Path) -> Iterator[Company]:
    """A server of a root whose three mounts have the connection `shop`; orders are of two, staff of one of them."""
    folder = tmp_path / "root"
    sales, finance, people = (
        made(folder / "domains/sales"),
        made(folder / "domains/finance"),
        made(tmp_path / "people"),
    )
    finance.run("UPDATE orders SET amount = amount * 2")
    for company in (sales, finance):
        (company.folder / "semantic-layer/shop/staff.yaml").unlink()
    for name in ("orders", "customers", "facts"):
        (people.folder / f"semantic-layer/shop/{name}.yaml").unlink()
    shutil.rmtree(people.folder / "wiki")
    company = Company(folder)
    company.write("ktx.yaml", ROOT)
    yield company
    company.close()


def data(company: Company, name: str, arguments: dict[str, Any] | None = None, **options: Any) -> dict[str, Any]:
    reply = company.call(name, arguments, **options)
    assert reply.error is None, reply.error
    return reply.data


def test_a_question_names_the_project_and_is_answered_by_it(root: Company) -> None:
    for mount, total in (("sales", 30), ("finance", 60)):
        answer = data(root, "sl_query", {**REVENUE, "connection": f"{mount}/shop"})
        assert (answer["rows"], answer["connection"]) == ([[total]], f"{mount}/shop")
        statement = {"sql": "SELECT sum(amount) FROM orders WHERE status = 'paid'", "connection": f"{mount}/shop"}
        sql = data(root, "sql_execution", statement)
        assert (sql["rows"], sql["connection"]) == ([[total]], f"{mount}/shop")
        explained = data(root, "sl_query", {**REVENUE, "connection": mount, "explain": True})
        assert explained["connection"] == f"{mount}/shop"
    refused = root.call("sl_query", REVENUE).error
    assert refused is not None and refused["details"]["candidates"] == ["sales/shop", "finance/shop", "people/shop"]


def test_policies_and_attributes_are_those_of_the_mount(root: Company) -> None:
    root.write("ktx.yaml", f"{ROOT}mcp: {{user_attributes: {{region: US}}}}\n")
    refused = root.call("sl_query", NOTES).error
    assert refused is not None and refused["code"] != "internal"
    hidden = root.call("sql_execution", {"sql": "SELECT note FROM staff", "connection": "people/shop"}).error
    assert hidden is not None and hidden["code"] == "hidden"
    Company(root.folder.parent / "people").write("ktx.yaml", f"{CONFIG}mcp: {{user_attributes: {{region: EU}}}}\n")
    assert data(root, "sl_query", NOTES)["rows"] == [["quiet", 1]]
    assert data(root, "sl_query", NOTES, attributes={"region": "US"})["rows"] == [["loud", 1]]


def test_a_mount_that_asks_for_one_user_names_no_other(root: Company) -> None:
    assert root.call("discover_data", {"query": "refund", "user": "bo"}).error is None
    root.write("domains/sales/ktx.yaml", f"{CONFIG}mcp: {{user_attributes: {{id: ada}}}}\n")
    for tool, arguments in (
        ("discover_data", {"query": "refund"}),
        ("wiki_search", {"query": "refund"}),
        ("context_pack", {"question": "What is a refund?"}),
        ("context_read", {"id": "sales/refunds"}),
    ):
        refused = root.call(tool, {**arguments, "user": "bo"}).error
        assert refused is not None and refused["code"] == "usage", tool
        assert root.call(tool, {**arguments, "user": "ada"}).error is None, tool


def test_what_is_found_says_how_to_go_on(root: Company) -> None:
    hits = data(root, "discover_data", {"query": "revenue", "kinds": ["measure"]})["hits"]
    assert [(each["connection"], each["id"]) for each in hits] == [
        ("sales/shop", "orders.revenue"),
        ("finance/shop", "orders.revenue"),
    ]
    assert [each["pages"] for each in hits] == [["sales/refunds"], ["finance/refunds"]]
    assert data(root, "sl_query", hits[1]["next"]["sl_query"])["rows"] == [[60]]
    for arguments in ({"query": "refund", "kinds": ["page"]}, {"query": "staff"}):
        (first, *_) = data(root, "discover_data", arguments)["hits"]
        for tool, following in first["next"].items():
            assert root.call(tool, following, attributes={"region": "EU"}).error is None
    alone = data(root, "discover_data", {"query": "revenue", "kinds": ["measure"], "connection": "finance"})["hits"]
    assert [each["next"]["sl_query"]["connection"] for each in alone] == ["finance/shop"]
    assert root.call("discover_data", {"query": "ada@example.com"}).data["hits"] == []


def test_pages_and_definitions_are_read_by_the_names_of_the_root(root: Company) -> None:
    page = data(root, "context_read", {"id": "finance/refunds"})
    assert page["kind"] == "page" and page["id"] == "finance/refunds"
    assert {"finance/late-orders", "shop/orders.revenue"} <= set(page["refs"])
    assert page["backlinks"] == ["finance/late-orders"]
    staff = data(root, "context_read", {"id": "staff"})
    assert staff["connection"] == "people/shop" and "connection: people/shop" in staff["content"]
    several = root.call("context_read", {"id": "orders"}).error
    assert several is not None and "sales/shop, finance/shop" in several["message"]
    chosen = data(root, "context_read", {"id": "orders", "connection": "finance/shop"})
    assert "explained_by:\n  - finance/refunds" in chosen["content"]
    read = data(root, "wiki_read", {"key": "sales/refunds"})
    assert (read["key"], read["path"]) == ("sales/refunds", "domains/sales/wiki/global/refunds.md")
    found = data(root, "wiki_search", {"query": "refund"})["pages"]
    assert {each["path"] for each in found} >= {
        f"domains/{each}/wiki/global/refunds.md" for each in ("sales", "finance")
    }
    source = data(root, "sl_read_source", {"source": "staff"})
    assert source["connection"] == "people/shop"


def test_lists_have_what_every_project_has(root: Company) -> None:
    sources = data(root, "sl_list", {"limit": 4})
    assert sources["total"] == 7 and sources["next_offset"] == 4
    whole, _ = root.whole("sl_list", "sources", {"limit": 4})
    assert [each["connection"] for each in whole] == ["sales/shop"] * 3 + ["finance/shop"] * 3 + ["people/shop"]
    ids = ["sales/shop", "finance/shop", "people/shop"]
    assert [each["id"] for each in data(root, "connection_list")["connections"]] == ids
    status = data(root, "context_status")
    assert [each["id"] for each in status["connections"]] == ids
    assert [each["check"] for each in status["checks"]].count("mounts") == 3
    values = data(root, "dictionary_search", {"values": ["paid"]})["values"]
    assert [each["connection"] for each in values[0]["misses"]] == ids


def test_a_pack_is_of_the_project_that_fits_best_and_names_the_others(root: Company) -> None:
    pack = data(root, "context_pack", {"question": "How many people are on the staff by region?"})
    assert pack["sources"][0] == "people/shop/staff"
    assert "[1] ../people/semantic-layer/shop/staff.yaml" in pack["context"]
    pack = data(root, "context_pack", {"question": "What revenue did orders bring in?"})
    assert pack["sources"][0] == "sales/shop/orders" and '"connection": "sales/shop"' in pack["context"]
    assert "finance/shop/orders: One row per order." in pack["context"]
    named = data(root, "context_pack", {"question": "What revenue did orders bring in?", "connection": "finance"})
    assert named["sources"][0] == "finance/shop/orders" and '"connection": "finance/shop"' in named["context"]


def test_edits_are_seen_by_the_next_question(root: Company) -> None:
    assert data(root, "sl_query", {**REVENUE, "connection": "sales/shop"})["rows"] == [[30]]
    orders = root.folder / "domains/sales/semantic-layer/shop/orders.yaml"
    orders.write_text(orders.read_text().replace("expr: sum(amount)", "expr: max(amount)"))
    assert data(root, "sl_query", {**REVENUE, "connection": "sales/shop"})["rows"] == [[20]]
    assert data(root, "sl_query", {**REVENUE, "connection": "finance/shop"})["rows"] == [[60]]
    root.write("ktx.yaml", "mounts: {other: domains/finance}\n")
    assert data(root, "sl_query", REVENUE)["connection"] == "other/shop"


def test_a_broken_mount_is_told_with_every_answer_of_the_others(root: Company) -> None:
    root.write("domains/finance/ktx.yaml", "connections: [\n")
    answer = data(root, "sl_query", {**REVENUE, "connection": "sales/shop"})
    assert answer["rows"] == [[30]]
    assert any(each.startswith("mount `finance`: ") for each in answer["warnings"])
    refused = root.call("sl_query", {**REVENUE, "connection": "finance/shop"}).error
    assert refused is not None and refused["message"].startswith("mount `finance`: ")
    root.write("domains/finance/ktx.yaml", CONFIG)
    assert data(root, "sl_query", {**REVENUE, "connection": "finance/shop"})["rows"] == [[60]]


@pytest.mark.table(
    ("tool", "arguments"),
    [
        ("memory_ingest", {"content": "A refund is money.", "connection": "finance/shop"}),
        ("ingest_start", {"connections": ["finance/shop"]}),
    ],
)
def test_nothing_is_written_into_a_mount(root: Company, tool: str, arguments: dict[str, Any]) -> None:
    refused = root.call(tool, arguments).error
    assert refused is not None and "belongs to the mount `finance`" in refused["message"]
    assert not (root.folder / "domains/finance/.ktx/runs").exists()


def test_what_a_mount_hides_is_in_no_suggestion_and_in_no_list_of_names(root: Company) -> None:
    people = Company(root.folder.parent / "people")
    for broken in (False, True):
        head = "name: layoffs\ntable: staff\ngrain: [id]\nvisibility: hidden\ncolumns: [{name: id, type: number}]\n"
        people.source("layoffs", head + "measures: [{name: many}]\n" * broken)
        for tool, arguments in (
            ("sl_read_source", {"source": "layofs"}),
            ("context_read", {"id": "layofs"}),
            ("entity_details", {"targets": ["layofs"], "connection": "people"}),
            ("sl_query", {"measures": ["layofs.people"], "connection": "people"}),
            ("sl_list", {}),
            ("sl_validate", {"connection": "people"}),
            ("context_pack", {"question": "How many layofs were there?"}),
        ):
            reply = root.call(tool, arguments)
            assert "layoffs" not in json.dumps(reply.error) + json.dumps(reply.data), tool
    sales = Company(root.folder / "domains/sales")
    sales.source("layoffs", "name: layoffs\ntable: orders\ngrain: [id]\ncolumns: [{name: id, type: number}]\n")
    assert data(root, "sl_read_source", {"source": "layoffs"})["connection"] == "sales/shop"


def test_the_user_of_a_root_is_the_only_one_that_a_call_names_in_a_mount(root: Company) -> None:
    asked = {"key": "sales/secret", "user": "bo"}
    assert root.call("wiki_read", asked).error is None
    root.write("ktx.yaml", f"{ROOT}mcp: {{user_attributes: {{id: ada}}}}\n")
    for tool, arguments in (
        ("wiki_read", asked),
        ("context_read", {"id": "sales/secret", "user": "bo"}),
        ("discover_data", {"query": "refund", "connection": "sales", "user": "bo"}),
        ("context_pack", {"question": "What is a refund?", "connection": "sales", "user": "bo"}),
    ):
        refused = root.call(tool, arguments).error
        assert refused is not None and "pages of its own user" in refused["message"], tool


def test_files_are_named_from_the_root_and_a_page_of_a_mount_is_suggested(root: Company) -> None:
    for form in ("composed", "files"):
        source = data(root, "sl_read_source", {"source": "orders", "connection": "finance", "form": form})
        assert source["paths"] == ["domains/finance/semantic-layer/shop/orders.yaml"]
    assert source["yaml"].startswith("# domains/finance/semantic-layer/shop/orders.yaml\n")
    for tool, arguments in (("wiki_read", {"key": "late-orders"}), ("context_read", {"id": "late-orders"})):
        missing = root.call(tool, arguments).error
        assert missing is not None and missing["hint"] == "did you mean `sales/late-orders`?", tool
    secret = root.call("wiki_read", {"key": "secret"}).error
    assert secret is not None and "sales/secret" not in str(secret)  # it is Bo's


def test_a_mount_that_goes_away_while_it_is_served_is_not_read_any_more(root: Company, tmp_path: Path) -> None:
    asked = {**REVENUE, "connection": "finance/shop"}
    assert data(root, "sl_query", asked)["rows"] == [[60]]
    finance = root.folder / "domains/finance"
    finance.rename(tmp_path / "away")
    gone = root.call("sl_query", asked).error
    assert gone is not None and "does not exist" in gone["message"]
    (root.folder / ".git").mkdir()
    finance.symlink_to(tmp_path / "away")
    linked = root.call("sl_query", asked).error
    assert linked is not None and "a link that points outside the project" in linked["message"]
    finance.unlink()
    (tmp_path / "away").rename(finance)
    assert data(root, "sl_query", asked)["rows"] == [[60]]
    root.write("ktx.yaml", "mounts: {sales: domains/sales}\n")
    unmounted = root.call("sl_query", asked).error
    assert unmounted is not None and "there is no connection `finance/shop`" in unmounted["message"]
