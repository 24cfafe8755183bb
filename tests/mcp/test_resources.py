"""Resources: pages and sources by address, listed by cursor, cut at the budget, nothing outside them."""

from __future__ import annotations

from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from ktx_cli.mcp.prompts import AT_ONCE
from ktx_cli.mcp.tool import LONGEST
from tests.mcp.conftest import Company


def read(company: Company, uri: str, **options: bool) -> Any:
    async def work(client: Any) -> Any:
        (content,) = (await client.read_resource(uri)).contents
        return content

    return company.client(work, **options)


def refused(company: Company, uri: str, **options: bool) -> Any:
    async def work(client: Any) -> Any:
        with pytest.raises(MCPError) as caught:
            await client.read_resource(uri)
        return caught.value

    return company.client(work, **options)


async def _all(client: Any) -> list[list[str]]:
    pages, cursor = [], None
    while True:
        found = await client.list_resources(cursor=cursor)
        pages.append([each.uri for each in found.resources])
        cursor = found.next_cursor
        if cursor is None:
            return pages


def test_everybodys_pages_and_shown_sources_are_listed(company: Company) -> None:
    (found,) = company.client(_all)
    assert found == [
        "ktx://semantic-layer/shop/customers",
        "ktx://semantic-layer/shop/facts",
        "ktx://semantic-layer/shop/orders",
        "ktx://semantic-layer/shop/staff",
        "ktx://wiki/late-orders",
        "ktx://wiki/refunds",
    ]


def test_an_empty_project_lists_none(company: Company) -> None:
    for path in [*company.folder.glob("wiki/**/*.md"), *company.folder.glob("semantic-layer/**/*.yaml")]:
        path.unlink()
    assert company.client(_all) == [[]]


def test_a_long_list_comes_in_pages_that_have_each_once(company: Company) -> None:
    for number in range(2 * AT_ONCE):
        company.page(f"global/page-{number:03}", "summary: One of many", "Text.")
    pages = company.client(_all)
    found = [uri for page in pages for uri in page]
    assert [len(page) for page in pages] == [AT_ONCE, AT_ONCE, 6]
    assert len(set(found)) == len(found) == 2 * AT_ONCE + 6


def test_a_cursor_of_somebody_else_is_refused(company: Company) -> None:
    async def work(client: Any) -> Any:
        with pytest.raises(MCPError) as caught:
            await client.list_resources(cursor="nonsense!")
        return caught.value

    assert "cursor" in company.client(work).message


def test_a_page_and_a_source_are_read_with_their_kinds(company: Company) -> None:
    page = read(company, "ktx://wiki/refunds")
    assert page.mime_type == "text/markdown" and page.text.startswith("---\nsummary: What a refund is")
    assert "days⟨U+200B⟩" in read(company, "ktx://wiki/late-orders").text
    source = read(company, "ktx://semantic-layer/shop/orders")
    assert source.mime_type == "application/yaml" and "expr: sum(amount)" in source.text


def test_nothing_hidden_stands_in_a_resource(company: Company) -> None:
    assert "email" not in read(company, "ktx://semantic-layer/shop/customers").text
    company.source("inner", "name: inner\ntable: facts\nvisibility: hidden\ncolumns:\n  - {name: id, type: number}\n")
    assert refused(company, "ktx://semantic-layer/shop/inner").data["code"] == "hidden"
    assert "ktx://semantic-layer/shop/inner" not in company.client(_all)[0]


def test_with_privacy_a_source_has_no_values(company: Company) -> None:
    path = company.folder / "semantic-layer" / "shop" / "orders.yaml"
    old, new = "type: string}", "type: string, enum_values: {dbt: [zzpaid]}}"
    path.write_text(path.read_text().replace(old, new))
    shown = read(company, "ktx://semantic-layer/shop/orders").text
    private = read(company, "ktx://semantic-layer/shop/orders", privacy=True).text
    assert "zzpaid" in shown
    assert "name: status" in private and "zzpaid" not in private


def test_a_long_page_is_cut_and_says_where_the_rest_is(company: Company) -> None:
    company.page("global/long", "summary: Long", "words " * 10_000)
    text = read(company, "ktx://wiki/long").text
    assert len(text) < LONGEST + 200 and "the tool context_read returns the full text" in text


@pytest.mark.table(
    "uri",
    [
        "ktx://wiki/nothing",
        "ktx://wiki/../../ktx.yaml",
        "ktx://wiki/..%2F..%2Fktx",
        "ktx://wiki/%2Fetc%2Fpasswd",
        "ktx://wiki/user%2Fbo%2Fsecret",
        "ktx://semantic-layer/shop/../../ktx",
        "ktx://semantic-layer/..%2F../x",
        "ktx://semantic-layer/shop/nothing",
        "ktx://semantic-layer/nowhere/orders",
        "ktx://semantic-layer/shop",
        "ktx://other/refunds",
        "ktx://wiki/refunds?user=bo",
        "file:///etc/passwd",
        "ktx://[",
    ],
)
def test_an_address_that_leads_nowhere_is_refused_with_a_hint(company: Company, uri: str) -> None:
    error = refused(company, uri)
    assert error.code == -32602 and error.data["hint"], error
    assert "root:" not in str(error.data)


def test_templates_say_how_addresses_are_made(company: Company) -> None:
    async def work(client: Any) -> list[str]:
        return [each.uri_template for each in (await client.list_resource_templates()).resource_templates]

    assert company.client(work) == ["ktx://wiki/{key}", "ktx://semantic-layer/{connection}/{source}"]
