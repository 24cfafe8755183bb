"""What clients rely on: every tool, template and prompt as they see it, compared with `contract.json`.

A change that is meant is put on record by `KTX_RENEW_CONTRACT=1 pytest tests/mcp/test_contract.py`, and reviewed as
the diff of that file: a tool or an argument that goes, or an argument that is needed from now on, breaks clients.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

from ktx_cli.mcp.tools import TOOLS
from tests.mcp.conftest import Company

RECORD = Path(__file__).with_name("contract.json")


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
    found = company.client(_contract)
    if os.environ.get("KTX_RENEW_CONTRACT"):
        RECORD.write_text(json.dumps(found, indent=1, ensure_ascii=False, sort_keys=True) + "\n", "utf-8")
    assert found == json.loads(RECORD.read_text("utf-8")), (
        "meant? KTX_RENEW_CONTRACT=1 pytest tests/mcp/test_contract.py"
    )


def test_every_tool_says_what_it_is_for_and_documents_what_it_takes() -> None:
    for tool in TOOLS:
        assert tool.title and len(tool.description) > 60, tool.name
        for name, field in tool.input_schema()["properties"].items():
            assert field.get("description") or "$ref" in field or "anyOf" in field, f"{tool.name}.{name}"


def test_definitions_fit_into_a_part_of_a_context() -> None:
    sizes = {each.name: len(json.dumps([each.description, each.input_schema()])) for each in TOOLS}
    assert max(sizes.values()) < 9_000 and sum(sizes.values()) < 45_000, sizes
