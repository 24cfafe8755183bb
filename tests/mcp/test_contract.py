"""What clients rely on: every tool, template and prompt as they see it, compared with `contract.json`.

A change that is meant is put on record by `KTX_RENEW_CONTRACT=1 pytest tests/mcp/test_contract.py`, and reviewed as
the diff of that file: a tool or an argument that goes, or an argument that is needed from now on, breaks clients.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from benchmarks.token_bill import tokens
from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.mcp.tools import PROFILES, TOOLS
from tests.mcp.conftest import Company

RECORD = Path(__file__).with_name("contract.json")
OF_THE_TYPESCRIPT_KTX = frozenset(
    (
        *("connection_list", "discover_data", "dictionary_search", "entity_details", "sl_query", "sl_read_source"),
        *("sql_execution", "wiki_search", "wiki_read", "memory_ingest", "memory_ingest_status"),
    )
)

FOR_PIPELINES = frozenset(each.name for each in TOOLS if each.pipelines)
"""The tools that a server lists only if a connection runs aggregation pipelines."""


async def _contract(client: Any) -> dict[str, Any]:
    tools = (await client.list_tools()).tools
    templates = (await client.list_resource_templates()).resource_templates
    prompts = (await client.list_prompts()).prompts
    listed = {"tools": tools, "resource_templates": templates, "prompts": prompts}
    return {
        key: {getattr(each, "name"): each.model_dump(mode="json", by_alias=True, exclude_none=True) for each in found}  # noqa: B009
        for key, found in listed.items()
    }


def test_what_clients_see_is_what_is_on_record(company: Company) -> None:
    found = company.client(_contract, profile=Profile.ADMIN)
    if os.environ.get("KTX_RENEW_CONTRACT"):
        RECORD.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
    assert found == json.loads(RECORD.read_text("utf-8")), (
        "meant? KTX_RENEW_CONTRACT=1 pytest tests/mcp/test_contract.py"
    )


def test_the_default_profile_lists_few_tools_without_the_schemas_of_their_answers(company: Company) -> None:
    whole, short = company.client(_contract, profile=Profile.ADMIN), company.client(_contract)
    assert list(short["tools"]) == [each for each in PROFILES[Profile.DEFAULT] if each not in FOR_PIPELINES]
    for name, each in short["tools"].items():
        assert each == {key: value for key, value in whole["tools"][name].items() if key != "outputSchema"}
    assert {key: each for key, each in short.items() if key != "tools"} == {
        key: each for key, each in whole.items() if key != "tools"
    }


async def _listing(client: Any) -> str:
    return str((await client.list_tools()).model_dump_json(by_alias=True, exclude_none=True))


@pytest.mark.parametrize("read_only", [False, True])
def test_the_default_profile_takes_few_tokens(company: Company, read_only: bool) -> None:
    """`tokens` counts more than `o200k_base` does: it has 4.3 characters in one here, not 3.6."""
    text = company.client(_listing, read_only=read_only)
    assert len(json.loads(text)["tools"]) <= 7
    assert tokens(text) <= 4_000
    assert tokens(text) <= tokens(company.client(_listing, profile=Profile.ADMIN)) / 3


def test_every_tool_can_be_called_whether_it_is_listed_or_not(company: Company) -> None:
    assert {each.name for each in TOOLS} >= OF_THE_TYPESCRIPT_KTX
    for tool in TOOLS:
        if not tool.writes:
            asked = {profile: company.call(tool.name, {"colour": "red"}, profile=profile).error for profile in Profile}
            assert asked[Profile.DEFAULT] == asked[Profile.ADMIN]
            assert f"invalid arguments for {tool.name}" in (asked[Profile.DEFAULT] or {})["message"]


def test_every_tool_says_what_it_is_for_and_documents_what_it_takes() -> None:
    for tool in TOOLS:
        assert tool.title and len(tool.description) > 60, tool.name
        assert tool.takes in {None, *(each.name for each in TOOLS)}, tool.name
        for name, field in tool.input_schema()["properties"].items():
            assert field.get("description"), f"{tool.name}.{name}"


def test_arguments_are_listed_without_references_and_null() -> None:
    for tool in TOOLS:
        text = json.dumps(tool.input_schema())
        assert not any(word in text for word in ("$ref", "$defs", '"null"', "maxLength", '"title"')), tool.name


def test_definitions_fit_into_a_part_of_a_context() -> None:
    sizes = {each.name: len(json.dumps([each.description, each.input_schema()])) for each in TOOLS}
    assert max(sizes.values()) < 6_500 and sum(sizes.values()) < 21_000, sizes
