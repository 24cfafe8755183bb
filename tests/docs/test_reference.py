"""Whatever the program has stands in the reference: the walks are over the live objects."""

from __future__ import annotations

import ast
import dataclasses
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import typer.main
from markdown_it import MarkdownIt

from docs.settings import driver_entries, root_entries
from ktx_cli.cli.app import app
from ktx_cli.cli.settings import COMMON_OPTIONS
from ktx_cli.core import errors, events
from ktx_cli.jobs.check.lint.lint import all_rules
from ktx_cli.jobs.health.doctor import CHECKS
from ktx_cli.mcp.prompts import PROMPTS, TEMPLATES
from ktx_cli.mcp.tools import TOOLS
from ktx_cli.project.config.connections import drivers
from tests.docs.blocks import ROOT, pages

REFERENCE = ROOT / "docs" / "reference"
ROOT_COMMAND: Any = typer.main.get_command(app)


def page(name: str) -> str:
    return (REFERENCE / name).read_text("utf-8")


def section(text: str, heading: str) -> str | None:
    """Return what stands below a heading, to the next of its level or above."""
    level = heading.partition(" ")[0]
    found = re.search(rf"^{re.escape(heading)}\n(.*?)(?=^#{{1,{len(level)}}} |\Z)", text, re.M | re.S)
    return found[1] if found else None


def commands(node: Any = ROOT_COMMAND, path: tuple[str, ...] = ("ktx",)) -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield the path of every command a person may type and the object that runs it; a group's own command too."""
    for name, child in getattr(node, "commands", {}).items():
        if child.hidden:
            continue
        if getattr(child, "commands", None):
            if getattr(child, "own", None):
                yield (*path, name), child.own
            yield from commands(child, (*path, name))
        else:
            yield (*path, name), child


def names_of(node: Any) -> set[str]:
    """Return every option of a command as it is typed."""
    options = (each for each in node.params if each.param_type_name == "option" and not each.hidden)
    return {name for each in options for name in (*each.opts, *each.secondary_opts)}


def missing_in_cli(text: str) -> list[str]:
    common = {name for each in ROOT_COMMAND.params if each.name in COMMON_OPTIONS for name in each.opts}
    head = text.partition("\n## ")[0]
    wrong = [name for name in sorted(common) if f"`{name}`" not in head]
    for path, node in commands():
        own = section(text, f"## `{' '.join(path)}`")
        if own is None:
            wrong.append(" ".join(path))
            continue
        arguments = [each.metavar or each.name.upper() for each in node.params if each.param_type_name == "argument"]
        wanted = [*sorted(names_of(node) - common - {"--help", "-h"}), *arguments]
        wrong += [f"{' '.join(path)} {name}" for name in wanted if name not in own]
    return wrong


def test_every_command_and_every_flag() -> None:
    assert len(list(commands())) > 50
    assert missing_in_cli(page("cli.md")) == []


def test_a_command_or_a_flag_that_is_missing_is_found() -> None:
    text = page("cli.md")
    assert missing_in_cli(text.replace("\n## `ktx status`\n", "\n## `ktx stats`\n")) == ["ktx status"]
    one = "ktx scan relationships --accept-all-above"
    assert missing_in_cli(text.replace("`--accept-all-above`", "")) == [one]


def missing_settings(text: str) -> list[str]:
    rows = set(re.findall(r"^\| `([^`]+)` \|", text, re.M))
    wrong = [each.path for each in root_entries() if each.path not in rows]
    for driver in drivers():
        own = section(text, f"### `{driver}`") or ""
        shared = section(text, "### Every database") or ""
        wrong += [f"{driver} {e.path}" for e in driver_entries(driver) if f"| `{e.path}` |" not in own + shared]
    return wrong


def test_every_setting() -> None:
    text = page("configuration.md")
    assert missing_settings(text) == []
    assert missing_settings(text.replace("| `scan.privacy` |", "| `scan.secrecy` |")) == ["scan.privacy"]


def every_event(base: type = events.Event) -> Iterator[type]:
    for each in base.__subclasses__():
        yield each
        yield from every_event(each)


def missing_events(text: str) -> list[str]:
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", text, re.M))
    wrong = set()
    for each in every_event():
        name, fields = events.event_name(each), {f"`{field.name}`" for field in dataclasses.fields(each)}
        if each.__module__ == events.__name__ and fields != set(rows.get(name, "missing").split(", ")):
            wrong.add(name)
    return sorted(wrong)


def test_every_event_and_its_fields() -> None:
    text = page("events.md")
    assert missing_events(text) == []
    assert missing_events(text.replace("| `notice` |", "| `note` |")) == ["notice"]
    assert missing_events(text.replace("`reason`, `seconds`", "`reason`")) == ["waiting"]


@cache
def codes_in_source() -> dict[str, str]:
    """Return the code of every error the package raises -> where: `code=` of a call, `code = ` of a class."""
    found: dict[str, str] = {}
    for path in sorted((ROOT / "ktx_cli").rglob("*.py")):
        text = path.read_text("utf-8")
        for node in ast.walk(ast.parse(text)) if "Error" in text and re.search(r"\bcode ?=", text) else ():
            for value in _codes(node):
                found.setdefault(value, path.relative_to(ROOT).as_posix())
    return found


def _codes(node: ast.AST) -> Iterator[str]:
    if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2].endswith("Error"):
        yield from (each.value.value for each in node.keywords if each.arg == "code" and _is_text(each.value))  # type: ignore[attr-defined]
    if isinstance(node, ast.ClassDef) and node.name.endswith("Error"):
        for each in node.body:
            if isinstance(each, ast.Assign) and ast.unparse(each.targets[0]) == "code" and _is_text(each.value):
                yield each.value.value  # type: ignore[attr-defined]


def _is_text(node: ast.AST) -> bool:
    return isinstance(node, ast.Constant) and isinstance(node.value, str)


def missing_codes(text: str) -> list[str]:
    rows = dict(re.findall(r"^\| `(\w+)` \| (\d+) \| \S", text, re.M))
    known = {code: str(number) for code, (number, _) in errors.ERROR_CODES.items()}
    return sorted(
        {code for code, number in known.items() if rows.get(code) != number} | (set(codes_in_source()) - rows.keys())
    )


@pytest.mark.house
def test_every_error_code_and_its_exit_code() -> None:
    assert len(codes_in_source()) > 15
    text = page("errors.md")
    assert missing_codes(text) == []
    assert missing_codes(text.replace("| `busy` | 6 |", "| `busy` | 1 |")) == ["busy"]
    numbers = {value for name, value in vars(errors).items() if name.startswith("EXIT_")}
    assert numbers == {int(number) for number in re.findall(r"^\| (\d+) \|", text, re.M)}


def missing_tools(text: str) -> list[str]:
    wrong = []
    for tool in TOOLS:
        own = section(text, f"### `{tool.name}`")
        fields = [*(tool.input_schema().get("properties") or {}), *(tool.output_schema().get("properties") or {})]
        wrong += [tool.name] if own is None else [f"{tool.name} {f}" for f in fields if f"| `{f}` |" not in own]
    wrong += [each.name for each in PROMPTS if f"| `{each.name}` |" not in text]
    return wrong + [each.uri_template for each in TEMPLATES if f"| `{each.uri_template}` |" not in text]


def test_every_tool_resource_and_prompt_of_the_server() -> None:
    text = page("mcp-tools.md")
    assert missing_tools(text) == []
    assert missing_tools(text.replace("### `sl_query`", "### `sl_ask`")) == ["sl_query"]


def variables() -> set[str]:
    """Return the variables of ktx's own that the package names."""
    found = set()
    for path in (ROOT / "ktx_cli").rglob("*.py"):
        if "testing" not in path.parts:
            found |= set(re.findall(r'"(_?KTX_[A-Z_]+)"', path.read_text("utf-8")))
    return found - {"KTX_READER"}  # a role in examples


def test_every_variable_of_the_environment() -> None:
    text = page("cli-contract.md")
    assert {"KTX_PROJECT_DIR", "KTX_MCP_TOKEN"} < variables()
    assert {name for name in variables() if f"`{name}`" not in text} == set()


def missing_rows(text: str, names: list[str]) -> list[str]:
    return [name for name in names if f"| `{name}` |" not in text]


def test_every_check_of_doctor_and_every_code_of_lint() -> None:
    doctor, lint = page("doctor.md"), page("lint.md")
    assert missing_rows(doctor, [check.id for check in CHECKS]) == []
    assert missing_rows(lint, list(all_rules())) == []
    assert missing_rows(doctor.replace("| `lock` |", "| `leash` |"), ["git", "lock"]) == ["lock"]


def wrong_words(text: str) -> list[str]:
    """Return what stands as `ktx ...` within sentences and is no command, or has an option the command lacks."""
    spans = [
        child.content
        for token in MarkdownIt("commonmark").enable("table").parse(text)
        for child in token.children or ()
        if child.type == "code_inline" and child.content.startswith("ktx ")
    ]
    return [span for span in spans if not _is_command(span.split()[1:])]


def _is_command(words: list[str]) -> bool:
    node, options = ROOT_COMMAND, names_of(ROOT_COMMAND) | {"--help", "-h"}
    for word in words:
        word = re.sub(r"[\[=].*", "", word.strip("'\""))
        below = getattr(node, "commands", {})
        if word in below:
            node = below[word]
            own = getattr(node, "own", None)
            options |= names_of(node) | (names_of(own) if own else set())
            continue
        unknown_command = node is ROOT_COMMAND and re.fullmatch(r"[a-z]+", word)
        if unknown_command or (re.fullmatch(r"--[a-z-]+|-[a-z]", word) and word not in options):
            return False
    return True


@pytest.mark.table("path", pages())
def test_every_command_in_a_sentence(path: Path) -> None:
    assert wrong_words(path.read_text("utf-8")) == []


def test_a_wrong_command_in_a_sentence_is_found() -> None:
    assert wrong_words("`ktx sl query -m x` and `ktx stats`, `ktx status --fst`, `ktx doctor --strict`") == [
        "ktx stats",
        "ktx status --fst",
    ]
