"""The page for people who come from the TypeScript ktx names flags, settings and arguments that exist."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any, Final

import pytest
import typer.main

from docs.settings import driver_entries, root_entries
from ktx_cli.cli.app import app
from ktx_cli.project.config.connections import FOREIGN_DRIVERS, drivers

ROOT: Final = Path(__file__).parents[2]
PAGE: Final = (ROOT / "docs" / "guides" / "from-typescript.md").read_text()

SETUP_FLAGS: Final = frozenset(
    """
    --yes --no-input --project-dir --llm-backend --anthropic-api-key-env --anthropic-api-key-file --vertex-project
    --vertex-location --llm-model --skip-llm --embedding-backend --embedding-api-key-env --embedding-api-key-file
    --skip-embeddings --database --database-connection-id --database-url --database-schema --skip-databases
    --enable-query-history --disable-query-history --query-history-window-days --query-history-min-executions
    --query-history-service-account-pattern --query-history-redaction-pattern --source --source-connection-id
    --source-path --source-git-url --source-branch --source-subpath --source-auth-token-ref --source-url
    --source-api-key-ref --source-client-id --source-client-secret-ref --source-warehouse-connection-id
    --source-project-name --source-profiles-path --source-target --metabase-database-id --notion-crawl-mode
    --notion-root-page-id --skip-sources --agents --target --global --local --install-dir
    """.split()  # noqa: SIM905 - a list of words is read as such
)
"""The flags of the TypeScript ktx's setup."""


def table(heading: str) -> list[tuple[str, str]]:
    """Return the rows of the table below a heading."""
    section = PAGE.split(f"## {heading}\n", 1)[1].split("\n## ", 1)[0]
    rows = [re.split(r"\s*\|\s*", line.strip().strip("|").strip()) for line in section.splitlines() if line[:1] == "|"]
    assert all(len(row) == 2 for row in rows), rows
    return [(row[0], row[1]) for row in rows[2:]]


def flags(text: str) -> list[str]:
    return re.findall(r"(?<![\w-])--[a-z][a-z-]*", text)


def options(*command: str) -> set[str]:
    found: Any = typer.main.get_command(app)
    for word in command:
        found = found.commands[word]
    return {each for param in found.params for each in (*param.opts, *param.secondary_opts)}


def test_every_flag_of_its_setup_is_in_the_table_once() -> None:
    named = [flag for left, _ in table("Flags of `ktx setup`") for flag in flags(left)]
    assert sorted(named) == sorted(SETUP_FLAGS)


def test_every_flag_it_is_mapped_to_exists() -> None:
    known = options("setup")
    for left, right in table("Flags of `ktx setup`"):
        if other := re.fullmatch(r"`ktx ([a-z ]+?) (--.*)`", right):
            assert set(flags(right)) <= options(*other[1].split()), right
            continue
        assert set(flags(right)) <= known, right
        if right.startswith("the same"):
            assert set(flags(left)) <= known, left


@pytest.mark.table("setting", ["connections.ID.", "llm.", "scan.", "ingest."])
def test_settings_that_are_the_same_or_without_effect_are_known(setting: str) -> None:
    known = {entry.path for entry in root_entries()}
    fields = {entry.path for driver in drivers() for entry in driver_entries(driver)}
    rows = [left for left, right in table("Settings of `ktx.yaml`") if right.startswith(("the same", "no effect"))]
    found = [name for left in rows for name in re.findall(r"`([\w.]+)", left) if name.startswith(setting)]
    assert found
    for name in found:
        if setting == "connections.ID.":
            assert name.removeprefix(setting) in fields, name
        else:
            assert name in known or any(each.startswith(f"{name}.") for each in known), name


def test_every_argument_it_is_mapped_to_exists() -> None:
    tools = json.loads((ROOT / "tests" / "mcp" / "contract.json").read_text())["tools"]
    arguments = {name: set(each["inputSchema"]["properties"]) for name, each in tools.items()}
    for left, right in table("Arguments of the MCP tools"):
        tool, _, _ = left.strip("`").partition(".")
        if tool in arguments:
            new = right.split("`")[1] if not right.startswith("the same") else left.strip("`").partition(".")[2]
            assert new in arguments[tool], left
        elif "all tools" in left:
            assert all("connection" in arguments[each] for each in ("sl_query", "sql_execution", "discover_data"))


def test_it_names_every_driver_that_only_the_other_program_has() -> None:
    section = PAGE.split("## Disabled connections", 1)[1].split("\n## ", 1)[0]
    assert set(FOREIGN_DRIVERS) <= set(re.findall(r"`(\w+)`", section))


def test_a_feature_that_is_missing_has_a_reason() -> None:
    rows = table("Features")
    assert len(rows) >= 20
    for feature, here in rows:
        lacks = re.search(r"\bnot here\b|\bno effect\b|\bdownloads no\b|\bnot hosted\b", here)
        assert not lacks or re.search(r"\bbecause\b|as in the TypeScript", here), feature
