"""Prompts with their arguments, and the instructions of the server."""

from __future__ import annotations

import re
from importlib.resources import files
from string import Template
from typing import Any

import pytest
from mcp.shared.exceptions import MCPError

from ktx_cli.jobs.clients.targets import Profile
from ktx_cli.mcp.prompts import PROMPTS, instructions
from ktx_cli.mcp.server import listed, offered
from ktx_cli.mcp.tool import Options
from ktx_cli.mcp.tools import PROFILES, TOOLS
from tests.mcp.conftest import Company

FOLDER = files("ktx_cli").joinpath("prompts", "mcp")


def text_of(company: Company, name: str, arguments: dict[str, str]) -> str:
    async def work(client: Any) -> str:
        (message,) = (await client.get_prompt(name, arguments)).messages
        return str(message.content.text)

    found: str = company.client(work)
    return found


def refused(company: Company, name: str, arguments: dict[str, str]) -> Any:
    async def work(client: Any) -> Any:
        with pytest.raises(MCPError) as caught:
            await client.get_prompt(name, arguments)
        return caught.value

    return company.client(work)


def test_every_prompt_is_listed_and_filled(company: Company) -> None:
    async def work(client: Any) -> list[Any]:
        return list((await client.list_prompts()).prompts)

    listed = company.client(work)
    assert [each.name for each in listed] == [each.name for each in PROMPTS]
    for prompt in listed:
        given = {each.name: f"<{each.name} $x {{y}}>" for each in prompt.arguments}
        text = text_of(company, prompt.name, given)
        assert all(value in text for value in given.values())


def test_a_prompt_asks_for_no_other_arguments_than_its_text_has() -> None:
    for prompt in PROMPTS:
        text = FOLDER.joinpath(f"{prompt.name}.md").read_text("utf-8")
        assert set(Template(text).get_identifiers()) == {each.name for each in prompt.arguments}


def test_an_argument_that_may_be_left_out_has_a_default(company: Company) -> None:
    assert "appears: not stated" in text_of(company, "trace_number", {"number": "42"})


def test_wrong_names_and_arguments_say_what_there_is(company: Company) -> None:
    assert refused(company, "explain_metrik", {}).data["hint"] == "did you mean `explain_metric`?"
    assert "requires the argument `metric`" in refused(company, "explain_metric", {}).message
    assert "requires the argument `metric`" in refused(company, "explain_metric", {"metric": "  "}).message
    assert refused(company, "explain_metric", {"metric": "a", "b": "c"}).data["hint"] == "arguments: metric"
    assert "characters" in refused(company, "explain_metric", {"metric": "a" * 20_000}).message


def test_the_client_is_told_how_to_work_and_how_the_server_was_started(company: Company) -> None:
    async def work(client: Any) -> str:
        return str(client.instructions)

    plain = company.client(work)
    assert plain == instructions(Options()) and "--privacy" not in plain and "--read-only" not in plain
    limited = company.client(work, privacy=True, read_only=True)
    assert "--privacy" in limited and "--read-only" in limited
    assert len(limited) < 3_000


def tools_named(text: str) -> set[str]:
    """Return the names of tools in a text; each that is no tool is one of a few words of answers."""
    named = set(re.findall(r"`([a-z_]+)`", text)) - {"truncated", "next_offset", "offset", "receipt", "next"}
    assert named <= {each.name for each in TOOLS}, named
    return named


@pytest.mark.parametrize("profile", Profile)
@pytest.mark.parametrize("read_only", [False, True])
@pytest.mark.parametrize("privacy", [False, True])
def test_instructions_name_the_tools_of_the_profile_and_no_others(
    profile: Profile, read_only: bool, privacy: bool
) -> None:
    options = Options(read_only=read_only, privacy=privacy, profile=profile)
    named, shown = tools_named(instructions(options)), set(listed(options, offered(options)))
    assert named <= shown
    assert set(PROFILES[Profile.DEFAULT]) & shown <= named


def test_prompts_name_tools_that_every_server_lists() -> None:
    elsewhere = {"sl_validate"}  # with the command that does the same
    for prompt in PROMPTS:
        text = FOLDER.joinpath(f"{prompt.name}.md").read_text("utf-8")
        assert tools_named(text) - elsewhere <= set(PROFILES[Profile.DEFAULT]), prompt.name
