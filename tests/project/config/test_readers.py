"""A setting nothing reads is a bug, and so is a reader of a setting that is said to have no effect.

What counts as reading, outside `project/config`:
* a setting of a block: the attribute on its block's attribute, as in `config.storage.git.author`;
* a field of a database: its key as a text in the code of the connectors (`options.get("host")`), which get fields by
  key; `READERS` says which folders read the fields of which drivers;
* a field of a context source: the attribute on its connection, as in `entry.mappings.sync_mode`, in the modules of its
  own that `SOURCE_READERS` names.
`getattr(x.y, "z")` is the attribute too. A new reader that follows none of these ways belongs in one of the tables
below.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

import ktx_cli
from docs.settings import driver_entries
from ktx_cli.llm.registry import backend_kinds
from ktx_cli.project.config.base import Block, settings_of
from ktx_cli.project.config.blocks import ConnectionContext
from ktx_cli.project.config.connections import drivers, model_of
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.plugins import SOURCES, WAREHOUSES

PACKAGE = Path(ktx_cli.__file__).parent
ROOT_NAMES = ("config",)
"""What a configuration is called where it is used."""

OTHER_NAMES = {
    ("scan", "settings"): "scan",
    ("scan/relationships", "settings"): "relationships",
    ("sources/query_history", "settings"): "query_history",
    ("engine", "settings"): "work_units",
    ("sources/dbt", "repository"): "metricflow",
    ("scan/profile", "settings"): "scan",
    ("scan/profile", "own"): "relationships",
    ("sources/metabase", "chosen"): "selections",
}
"""Folder of the package, and what a block is called in it -> its name in the configuration."""

READERS = dict.fromkeys(WAREHOUSES.built_in, ("warehouses",))
"""Driver of a database -> folders of the package that read a connection's fields by key."""

BACKEND_SECRETS = {(kind.block, key) for kind in backend_kinds() for key in kind.secrets}
"""The credentials of model backends, which `secret_references` reads by the keys of each backend's kind."""

ENTRY_NAMES = ("entry", "_entry")
"""What the connection of a context source is called where it is read."""

SOURCE_READERS = {
    "dbt": ("sources/dbt",),
    "metricflow": ("sources/dbt",),
    "lookml": ("sources/lookml",),
    "powerbi": ("sources/powerbi",),
    "tableau": ("sources/tableau",),
    "odcs": ("sources/odcs",),
    "datahub": ("sources/datahub", "sources/data_catalogs"),
    "openmetadata": ("sources/openmetadata", "sources/data_catalogs"),
    "sigma": ("sources/sigma",),
    "looker": ("sources/looker",),
    "metabase": ("sources/metabase",),
    "notion": ("sources/notion", "engine/documents"),
    "confluence": ("sources/confluence", "engine/documents"),
    "gdrive": ("sources/gdrive", "engine/documents"),
    "jira": ("sources/jira", "engine/documents"),
    "documents": ("sources/documents", "engine/documents"),
}
"""Driver of a context source -> modules and folders of the package that read its connection's fields."""


@cache
def trees() -> dict[Path, ast.Module]:
    declaring = {
        PACKAGE / "project" / "config",
        *PACKAGE.glob("warehouses/*/__init__.py"),
        *PACKAGE.glob("sources/*/__init__.py"),
    }
    files = [path for path in PACKAGE.rglob("*.py") if not declaring & {path, *path.parents}]
    return {path.relative_to(PACKAGE): ast.parse(path.read_text("utf-8")) for path in files}


@cache
def pairs_of(path: Path) -> frozenset[tuple[str, str]]:
    names = (found for node in ast.walk(trees()[path]) for found in _pair(node))
    return frozenset((OTHER_NAMES.get((path.parent.as_posix(), name), name), attribute) for name, attribute in names)


@cache
def attribute_pairs(*places: str) -> frozenset[tuple[str, str]]:
    """Return (name or attribute, attribute) of every `x.y` and `?.x.y` in these modules and folders; in all without."""
    wanted = (path for path in trees() if not places or any(path.is_relative_to(place) for place in places))
    return frozenset().union(*map(pairs_of, wanted))


def _pair(node: ast.AST) -> Iterator[tuple[str, str]]:
    match node:
        case ast.Attribute(value=of, attr=attribute):
            pass
        case ast.Call(func=ast.Name(id="getattr"), args=[of, ast.Constant(value=str(attribute)), *_]):
            pass
        case _:
            return
    if isinstance(of, ast.Name):
        yield of.id, attribute
    elif isinstance(of, ast.Attribute):
        yield of.attr, attribute


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
    """Yield (parent attribute, attribute, effective status, path) of every block and setting in a block."""
    for key, declared in settings_of(model).items():
        status = inherited or declared.status
        below = inherited or ("" if declared.status == "used" else declared.status)
        path = ".".join([*parents[1:], key])
        for parent in ROOT_NAMES if model is KtxConfig else parents[-1:]:
            yield parent, declared.attribute, status, path
        if declared.block is not None:
            yield from declared_pairs(declared.block, (*parents, declared.attribute), below)


PAIRS = [row for row in declared_pairs(KtxConfig, ("",)) if row[1] != "connections"]
USED_PAIRS = sorted({row[:2] for row in PAIRS if row[2] == "used"})
UNUSED_PAIRS = sorted({(r[0], r[1], r[3]) for r in PAIRS if r[2] != "used" and r[:2] not in USED_PAIRS})
"""Without those of a block that is read elsewhere: here, nothing reads the block itself."""

USED_FIELDS = sorted(
    {(d, e.setting.key) for d in READERS for e in driver_entries(d) if e.status == "used" and e.keys[0] != "context"}
)
HISTORY_PAIRS = sorted(row[:2] for row in declared_pairs(ConnectionContext, ("", "context")))
UNUSED_FIELDS = sorted(
    {(key, e.setting.attribute) for d in READERS for e in driver_entries(d) if e.status != "used" for key in e.keys}
)
SOURCE_PAIRS = [(driver, *row) for driver in SOURCE_READERS for row in declared_pairs(model_of(driver), ("", "entry"))]


def is_read_from_source(driver: str, parent: str, attribute: str) -> bool:
    if attribute == "driver":
        return ("entry", attribute) in attribute_pairs()  # what chooses the source, in no module of one
    parents = ENTRY_NAMES if parent == "entry" else (parent,)
    return any((name, attribute) in attribute_pairs(*SOURCE_READERS[driver]) for name in parents)


@pytest.mark.house
@pytest.mark.table(("parent", "attribute"), USED_PAIRS)
def test_a_used_setting_has_a_reader(parent: str, attribute: str) -> None:
    read = attribute_pairs() | BACKEND_SECRETS
    assert (parent, attribute) in read, f"nothing reads `{parent}.{attribute}`: mark it `later`"


@pytest.mark.table(("parent", "attribute", "path"), UNUSED_PAIRS)
def test_a_setting_without_effect_has_no_reader(parent: str, attribute: str, path: str) -> None:
    assert (parent, attribute) not in attribute_pairs(), f"`{path}` is read: mark it `used`"


@pytest.mark.table(("driver", "key"), USED_FIELDS)
def test_a_used_field_of_a_connection_has_a_reader(driver: str, key: str) -> None:
    if key == "driver":
        assert "driver" in {attribute for _, attribute in attribute_pairs()}
        return
    assert any(key in texts(folder) for folder in READERS[driver]), f"no connector reads `{key}`"


@pytest.mark.table(("driver", "parent", "attribute", "path"), [(*r[:3], r[4]) for r in SOURCE_PAIRS if r[3] == "used"])
def test_a_used_field_of_a_source_has_a_reader(driver: str, parent: str, attribute: str, path: str) -> None:
    assert is_read_from_source(driver, parent, attribute), f"`{path}` of {driver} is not read: mark it `later`"


@pytest.mark.table(("driver", "parent", "attribute", "path"), [(*r[:3], r[4]) for r in SOURCE_PAIRS if r[3] != "used"])
def test_a_field_of_a_source_without_effect_has_no_reader(driver: str, parent: str, attribute: str, path: str) -> None:
    assert not is_read_from_source(driver, parent, attribute), f"`{path}` of {driver} is read: mark it `used`"


@pytest.mark.table(("parent", "attribute"), HISTORY_PAIRS)
def test_a_setting_of_the_query_history_has_a_reader(parent: str, attribute: str) -> None:
    assert (parent, attribute) in attribute_pairs(), f"nothing reads `{parent}.{attribute}`"


@pytest.mark.table(("key", "attribute"), UNUSED_FIELDS)
def test_a_field_without_effect_has_no_reader(key: str, attribute: str) -> None:
    assert key not in keys_looked_up() - {key for _, key in USED_FIELDS}, f"`{key}` is read: mark it `used`"
    if "_" in attribute:  # other names are also those of other things
        assert attribute not in {name for _, name in attribute_pairs()}, f"`{attribute}` is read: mark it `used`"


def test_the_search_finds_what_is_there() -> None:
    tree = ast.parse(
        "config.storage.git.author\nself.config.scan\noptions.get('host')\noptions['port']\n"
        "getattr(work.entry, 'path', None)"
    )
    assert {pair for node in ast.walk(tree) for pair in _pair(node)} == {
        ("config", "storage"),
        ("storage", "git"),
        ("git", "author"),
        ("self", "config"),
        ("config", "scan"),
        ("options", "get"),
        ("work", "entry"),
        ("entry", "path"),
    }
    assert {key for node in ast.walk(tree) for key in _key(node)} == {"host", "port"}
    assert ("storage", "git", "used", "storage.git") in PAIRS
    assert ("run_research", "enabled", "dead", "agent.run_research.enabled") in PAIRS
    assert ("embeddings", "backend", "later", "scan.enrichment.embeddings.backend") in PAIRS
    assert ("enrichment", "embeddings", "scan.enrichment.embeddings") in UNUSED_PAIRS
    assert ("metabase", "selections", "collections", "used", "entry.mappings.selections.collections") in SOURCE_PAIRS
    assert ("dbt", "entry", "target", "used", "entry.target") in SOURCE_PAIRS
    assert not is_read_from_source("notion", "entry", "space_keys")
    assert ("query_policy", "query_policy") not in UNUSED_FIELDS
    assert ("query_history", "window_days") in HISTORY_PAIRS
    assert (set(READERS), set(SOURCE_READERS)) == (set(WAREHOUSES.built_in), set(SOURCES.built_in))
    for place in {place for places in SOURCE_READERS.values() for place in places}:
        assert attribute_pairs(place), f"{place} is gone"
    assert all(model_of(driver) for driver in drivers())
