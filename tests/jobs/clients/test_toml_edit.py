"""TOML: a table at the end, taken out to the byte, or alone where others edited meanwhile."""

from __future__ import annotations

import tomllib
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.errors import ConfigError
from ktx_cli.jobs.clients import toml_edit
from ktx_cli.jobs.clients.json_edit import taken_back

ENTRY = {"command": '/opt/k t"x', "args": ["--project-dir", "/a\\b", "mcp", "stdio"]}
SERVERS = ("mcp_servers",)
PIECES = (
    'model = "o" # the model\n',
    "\n",
    "# a note\n",
    '[profiles.deep]\neffort = "high"\n',
    '[mcp_servers.docs]\ncommand = "npx"\nargs = [\n  "-y", # yes\n  "docs",\n]\n',
    '[mcp_servers.docs2.env]\nTOKEN = "secret"\n',
    'text = """\n[mcp_servers.ktx]\nnot = "a table"\n"""\n',
    "[[notes]]\nx = nan\n",
    "[[notes2]]\nwhen = 2026-01-02T03:04:05Z\n",
)


def added(text: str, name: str = "ktx", entry: dict[str, Any] = ENTRY) -> Any:
    return toml_edit.add(text, SERVERS, name, entry, "file")


@st.composite
def documents(draw: st.DrawFn) -> str:
    pieces = draw(st.lists(st.sampled_from(PIECES), unique=True, max_size=6))
    order = [each for each in pieces if not each.startswith("[")] + [each for each in pieces if each.startswith("[")]
    text = "".join(order)
    text = text.removesuffix("\n") if draw(st.booleans()) else text
    return draw(st.sampled_from(["", "\ufeff"])) + text.replace("\n", draw(st.sampled_from(["\n", "\r\n"])))


@given(documents())
def test_what_is_put_in_is_taken_back_to_the_byte(text: str) -> None:
    edited = added(text)
    after = tomllib.loads(edited.text.removeprefix("\ufeff"))
    assert after["mcp_servers"].pop("ktx") == ENTRY
    before = tomllib.loads(text.removeprefix("\ufeff"))
    assert repr(after["mcp_servers"]) == repr(before.get("mcp_servers", {}))
    assert edited.text.startswith(text)
    assert taken_back(edited.text, edited.insertions) == text


@given(documents())
def test_the_table_alone_goes_when_others_edited_meanwhile(text: str) -> None:
    edited = added(text).text + "[mcp_servers.ktx.env]\nA = 1\n\n# about later\n[later]\nx = 1\n"
    removed = toml_edit.remove(edited, SERVERS, "ktx", 0, "file")
    assert removed.startswith(text)
    assert removed.endswith("# about later\n[later]\nx = 1\n")
    rest = removed[len(text) : -len("# about later\n[later]\nx = 1\n")]
    assert not rest.strip()


def test_the_last_table_goes_with_the_blank_line_before_it() -> None:
    text = 'model = "o"\n'
    assert toml_edit.remove(added(text).text, SERVERS, "ktx", 0, "file") == text


def test_a_name_that_is_no_bare_key_is_quoted() -> None:
    edited = added("", "k.x\x7f")
    assert toml_edit.entries(edited.text, SERVERS, "file") == {"k.x\x7f": ENTRY}
    assert toml_edit.remove(edited.text, SERVERS, "k.x\x7f", 0, "file") == ""


@pytest.mark.table(
    ("text", "problem"),
    [
        ('model = "o\n', "line 1"),
        ("a = 1\na = 2\n", "line 2"),
        ("mcp_servers = 1\n", "is not a table"),
        ("mcp_servers = {docs = {}}\n", "no table can follow"),
        ("[mcp_servers]\nktx = {command = 'x'}\n", "it already exists"),
    ],
)
def test_what_cannot_be_edited_safely_is_refused(text: str, problem: str) -> None:
    with pytest.raises(ConfigError) as caught:
        added(text)
    assert problem in caught.value.message
    assert caught.value.hint


def test_a_table_written_inline_is_left_to_its_author() -> None:
    text = "[mcp_servers]\nktx = {command = 'x'}\n"
    with pytest.raises(ConfigError, match="not a separate table"):
        toml_edit.remove(text, SERVERS, "ktx", 0, "file")


def test_servers_written_with_dotted_keys_take_a_table() -> None:
    text = "mcp_servers.docs.command = 'x'\n"
    assert toml_edit.entries(added(text).text, SERVERS, "file") == {"docs": {"command": "x"}, "ktx": ENTRY}
