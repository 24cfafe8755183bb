"""A dbt project's tests, constraints and lineage as declarations, which scans read before they infer keys and joins."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import PurePosixPath
from typing import Any, Final

from ktx_cli.documents import Snapshot
from ktx_cli.scan import Declarations, DeclaredJoin, DeclaredTable, Layer
from ktx_cli.semantic import Item, Relation, Report, relation_of
from ktx_cli.sources.dbt.facts import TOOL, limits_of, test_parts, unique_columns
from ktx_cli.sources.dbt.models import references_of
from ktx_cli.sources.dbt.project import DISABLED, Node, read_project

_ROW_OF_SNAPSHOT: Final = "dbt_scd_id"
"""The column in which dbt numbers the rows of a snapshot."""

_COMBINATION: Final = re.compile(r"(^|\.)unique_combination_of_columns$")
_FOLDERS: Final = (
    (Layer.STAGING, re.compile(r"stag(e|ing)|stg|base", re.IGNORECASE)),
    (Layer.INTERMEDIATE, re.compile(r"intermediates?|int|prep(aration)?", re.IGNORECASE)),
    (Layer.MARTS, re.compile(r"marts?|core|reporting|gold", re.IGNORECASE)),
)
"""Layer -> the names of its folders."""

_PREFIXES: Final = {"stg_": Layer.STAGING, "base_": Layer.STAGING, "src_": Layer.STAGING, "int_": Layer.INTERMEDIATE}
"""The prefix of a model's name -> its layer."""


def declarations_of(entry: Any, snapshot: Snapshot) -> Declarations:
    """Return what a project declares about its tables. The IDs of the tables are those of `ref` and `source`."""
    name, target = getattr(entry, "project_name", None), getattr(entry, "target", None)
    project = read_project(snapshot, Report(), name=name, target=target)
    tables: dict[str, DeclaredTable] = {}
    joins: list[DeclaredJoin] = []
    for node in project.nodes:
        if node.virtual != DISABLED:
            tables[_id(node.relation)] = _table(node)
            joins += _joins(node)
    for node in project.nodes:
        if node.virtual is None:
            tables = {**dict(_older_versions(node)), **tables}
    # A seed without an entry in YAML is only a CSV file, which ktx does not read.
    seeds = {id: id.partition(".")[2] for table in list(tables.values()) for id in table.built_from if _is_ref(id)}
    tables |= {id: DeclaredTable(name, layer=Layer.RAW) for id, name in seeds.items() if id not in tables}
    return Declarations(TOOL, tables, tuple(joins))


def _is_ref(id: str) -> bool:
    return id.startswith("ref.")


def _id(relation: Relation) -> str:
    return ".".join(relation)


def _table(node: Node) -> DeclaredTable:
    keys = [(name,) for name in unique_columns(node.item)]
    keys += [(_ROW_OF_SNAPSHOT,)] if node.kind == "snapshot" else []
    reads = references_of(node) or (node.known.reads if node.known is not None else ())
    return DeclaredTable(
        node.name.name,
        node.name.schema,
        node.name.schema_end,
        _layer(node),
        tuple(dict.fromkeys((*keys, *_combinations(node.item)))),
        tuple(_filled_columns(node.item)),
        tuple(dict.fromkeys(map(_id, reads))),
        virtual=node.virtual is not None,
    )


def _older_versions(node: Node) -> Iterator[tuple[str, DeclaredTable]]:
    """Yield the ID and the table of each older version of a model, which is in the same layer.

    The tests of the model's columns apply to it, unless it has columns of its own.
    """
    latest = _table(node)
    for version in node.older:
        reads = tuple(dict.fromkeys(map(_id, references_of(version)))) or latest.built_from
        table = replace(latest, name=version.table, built_from=reads)
        table = replace(table, keys=(), filled=()) if version.has_own_columns else table
        yield _id(("ref", version.table)), table


def _layer(node: Node) -> Layer:
    """Return the layer of a table by its kind, its outermost telling folder, or else the prefix of its name."""
    if node.kind in ("source", "seed"):
        return Layer.RAW
    if node.kind == "snapshot":
        return Layer.SNAPSHOTS
    path = node.query.path if node.query is not None else node.known.file if node.known is not None else ""
    folders = PurePosixPath(path).parts[:-1]
    folders = folders[folders.index("models") :] if "models" in folders else folders
    named = (layer for folder in folders for layer, pattern in _FOLDERS if pattern.fullmatch(folder))
    name = node.relation[-1].lower()
    prefixed = (layer for prefix, layer in _PREFIXES.items() if name.startswith(prefix))
    return next(named, None) or next(prefixed, Layer.MARTS)


def _filled_columns(item: Item) -> Iterator[str]:
    """Yield the columns that a test or a constraint declares to have no NULL."""
    for column in item.items("columns"):
        constraints = (each for each in column.listed("constraints") if isinstance(each, Mapping))
        is_filled = any(str(each.get("type")) in ("not_null", "primary_key") for each in constraints)
        if (name := column.text("name")) and (is_filled or next(_tests(column, "not_null"), None) is not None):
            yield name


def _tests(item: Item, name: str) -> Iterator[Mapping[str, Any]]:
    """Yield the arguments of the tests with a name that check all rows."""
    for test in (*item.listed("tests"), *item.listed("data_tests")):
        found, arguments = test_parts(test)
        if found == name and limits_of(test, arguments) is None:
            yield arguments


def _combinations(item: Item) -> Iterator[tuple[str, ...]]:
    """Yield the sets of columns that a test or a constraint of the whole table declares to be unique."""
    for test in (*item.listed("tests"), *item.listed("data_tests")):
        name, arguments = test_parts(test)
        if _COMBINATION.search(name) and limits_of(test, arguments) is None:
            yield from _columns(arguments.get("combination_of_columns"))
    for constraint in item.listed("constraints"):
        if isinstance(constraint, Mapping) and constraint.get("type") in ("primary_key", "unique"):
            yield from _columns(constraint.get("columns"))


def _columns(value: Any) -> Iterator[tuple[str, ...]]:
    if isinstance(value, list) and value and all(isinstance(each, str) for each in value):
        yield tuple(value)


def _joins(node: Node) -> Iterator[DeclaredJoin]:
    """Yield the joins that `relationships` tests and foreign keys of a table declare."""
    for column in node.item.items("columns"):
        name = column.text("name")
        if not name:
            continue
        ends = [(each.get("to"), each.get("field")) for each in _tests(column, "relationships")]
        for constraint in column.listed("constraints"):
            if isinstance(constraint, Mapping) and constraint.get("type") == "foreign_key":
                listed = constraint.get("to_columns")
                ends.append(
                    (constraint.get("to"), listed[0] if isinstance(listed, list) and len(listed) == 1 else None)
                )
        for to, field in ends:
            relation = relation_of(to) if isinstance(to, str) else None
            if relation is not None and isinstance(field, str):
                yield DeclaredJoin(_id(node.relation), (name,), _id(relation), (field,))
