"""A setting nothing reads is a bug, and so is a reader of a setting that is said to have no effect.

What counts as reading, outside `project/config`:
* a setting of a block: the attribute on its block's attribute, as in `config.storage.git.author`;
* a field of a connection: its key as a text in the code of the connectors (`options.get("host")`), which get fields by
  key; `READERS` says which folders read the fields of which drivers.
A new reader that follows neither way belongs in one of the tables below.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import ktx_cli
from ktx_cli.project.config.base import Block, settings_of
from ktx_cli.project.config.drivers import DRIVERS, SUPPORTED_DRIVERS, model_of
from ktx_cli.project.config.query_history import ConnectionContext
from ktx_cli.project.config.reference import driver_entries
from ktx_cli.project.config.root import KtxConfig

PACKAGE = Path(ktx_cli.__file__).parent
ROOT_NAMES = ("config",)
"""What a configuration is called where it is used."""

OTHER_NAMES = {
    ("context/scan/relationships", "settings"): "relationships",
    ("context/sources/query_history", "settings"): "query_history",
}
"""Folder of the package, and what a block is called in it -> its name in the configuration."""

READERS = dict.fromkeys(SUPPORTED_DRIVERS, ("connectors",))
"""Driver -> folders of the package that read a connection's fields by key."""


@cache
def trees() -> dict[Path, ast.Module]:
    files = [path for path in PACKAGE.rglob("*.py") if PACKAGE / "project" / "config" not in path.parents]
    return {path.relative_to(PACKAGE): ast.parse(path.read_text("utf-8")) for path in files}


@cache
def attribute_pairs() -> frozenset[tuple[str, str]]:
    """Return (name or attribute, attribute) of every `x.y` and `?.x.y`."""
    return frozenset(
        (OTHER_NAMES.get((path.parent.as_posix(), name), name), attribute)
        for path, tree in trees().items()
        for node in ast.walk(tree)
        for name, attribute in _pair(node)
    )


def _pair(node: ast.AST) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Attribute):
        if isinstance(node.value, ast.Name):
            yield node.value.id, node.attr
        elif isinstance(node.value, ast.Attribute):
            yield node.value.attr, node.attr


@cache
def texts(folder: str) -> frozenset[str]:
    """Return the texts in the code of a folder, docstrings left out."""
    return frozenset(
        node.value
        for path, tree in trees().items()
        if path.parts[0] == folder
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str)
    )


@cache
def keys_looked_up() -> frozenset[str]:
    """Return the keys of `x["key"]`, `x.get("key")`, `x.pop("key")` in the folders that read connections."""
    folders = {folder for folders in READERS.values() for folder in folders}
    nodes = (node for path, tree in trees().items() if path.parts[0] in folders for node in ast.walk(tree))
    return frozenset(key for node in nodes for key in _key(node))


def _key(node: ast.AST) -> Iterator[str]:
    candidates: list[ast.expr] = []
    if isinstance(node, ast.Subscript):
        candidates.append(node.slice)
    elif isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute) and node.func.attr in ("get", "pop"):
        candidates += node.args[:1]
    for candidate in candidates:
        if isinstance(candidate, ast.Constant) and isinstance(candidate.value, str):
            yield candidate.value


def declared_pairs(
    model: type[Block], parents: tuple[str, ...], inherited: str = ""
) -> Iterator[tuple[str, str, str, str]]:
    """Yield (parent attribute, attribute, effective status, path) of every block and setting outside connections."""
    for key, declared in settings_of(model).items():
        status = inherited or declared.status
        below = inherited or ("dead" if declared.status == "dead" else "")
        path = ".".join([*parents[1:], key])
        for parent in ROOT_NAMES if model is KtxConfig else parents[-1:]:
            yield parent, declared.attribute, status, path
        if declared.block is not None:
            yield from declared_pairs(declared.block, (*parents, declared.attribute), below)


PAIRS = [row for row in declared_pairs(KtxConfig, ("",)) if row[1] != "connections"]
USED_FIELDS = sorted(
    {(d, e.setting.key) for d in READERS for e in driver_entries(d) if e.status == "used" and e.keys[0] != "context"}
)
HISTORY_PAIRS = sorted(row[:2] for row in declared_pairs(ConnectionContext, ("", "context")))
UNUSED_FIELDS = sorted(
    {(key, e.setting.attribute) for d in READERS for e in driver_entries(d) if e.status != "used" for key in e.keys}
)


@pytest.mark.table(("parent", "attribute"), [row[:2] for row in PAIRS if row[2] == "used"])
def test_a_used_setting_has_a_reader(parent: str, attribute: str) -> None:
    assert (parent, attribute) in attribute_pairs(), f"nothing reads `{parent}.{attribute}`: mark it `later`"


@pytest.mark.table(("parent", "attribute", "path"), [(r[0], r[1], r[3]) for r in PAIRS if r[2] != "used"])
def test_a_setting_without_effect_has_no_reader(parent: str, attribute: str, path: str) -> None:
    assert (parent, attribute) not in attribute_pairs(), f"`{path}` is read: mark it `used`"


@pytest.mark.table(("driver", "key"), USED_FIELDS)
def test_a_used_field_of_a_connection_has_a_reader(driver: str, key: str) -> None:
    if key == "driver":
        assert "driver" in {attribute for _, attribute in attribute_pairs()}
        return
    assert any(key in texts(folder) for folder in READERS[driver]), f"no connector reads `{key}`"


@pytest.mark.table(("parent", "attribute"), HISTORY_PAIRS)
def test_a_setting_of_the_query_history_has_a_reader(parent: str, attribute: str) -> None:
    assert (parent, attribute) in attribute_pairs(), f"nothing reads `{parent}.{attribute}`"


@pytest.mark.table(("key", "attribute"), UNUSED_FIELDS)
def test_a_field_without_effect_has_no_reader(key: str, attribute: str) -> None:
    assert key not in keys_looked_up() - {key for _, key in USED_FIELDS}, f"`{key}` is read: mark it `used`"
    if "_" in attribute:  # other names are also those of other things
        assert attribute not in {name for _, name in attribute_pairs()}, f"`{attribute}` is read: mark it `used`"


def test_the_search_finds_what_is_there() -> None:
    tree = ast.parse("config.storage.git.author\nself.config.scan\noptions.get('host')\noptions['port']")
    assert {pair for node in ast.walk(tree) for pair in _pair(node)} == {
        ("config", "storage"),
        ("storage", "git"),
        ("git", "author"),
        ("self", "config"),
        ("config", "scan"),
        ("options", "get"),
    }
    assert {key for node in ast.walk(tree) for key in _key(node)} == {"host", "port"}
    assert ("storage", "git", "used", "storage.git") in PAIRS
    assert ("run_research", "enabled", "dead", "agent.run_research.enabled") in PAIRS
    assert ("query_policy", "query_policy") not in UNUSED_FIELDS
    assert ("query_history", "window_days") in HISTORY_PAIRS
    assert set(READERS) == set(SUPPORTED_DRIVERS)
    assert all(model_of(driver) for driver in DRIVERS)
