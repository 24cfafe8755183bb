"""The known answer of a fixture: its primary keys and links, read from and written to `expected-links.yaml`.

    expectedPks: [{table, columns}]
    expectedLinks: [{fromTable, fromColumns, toTable, toColumns, relationship, confirmable?}]
    optionalLinks: [...]

`confirmable: false` marks a link its rows cannot show. `optionalLinks` (ours) are true and no keys, as those of a view
or of a staging copy: accepting one is neither right nor wrong.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from ktx_cli.core.errors import ConfigError

TRUTH_FILE = "expected-links.yaml"
DATA_FILE = "data.sqlite"


class PrimaryKey(NamedTuple):
    """A table's key, its columns in order."""

    table: str
    columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.table}({', '.join(self.columns)})"


class Reference(NamedTuple):
    """A link between columns, in order."""

    child: str
    child_columns: tuple[str, ...]
    parent: str
    parent_columns: tuple[str, ...]

    def __str__(self) -> str:
        return f"{self.child}({', '.join(self.child_columns)}) -> {self.parent}({', '.join(self.parent_columns)})"


@dataclass(frozen=True, slots=True)
class Truth:
    """The answer of one fixture; `unconfirmable` is a subset of `links`."""

    primary_keys: tuple[PrimaryKey, ...]
    links: tuple[Reference, ...]
    unconfirmable: frozenset[Reference] = frozenset()
    optional: frozenset[Reference] = frozenset()


def read_truth(folder: Path) -> Truth:
    """Read a fixture's answer; raise `ConfigError` for a folder that is no fixture."""
    from ktx_cli.core.yaml import load

    path = folder / TRUTH_FILE
    if not path.is_file() or not (folder / DATA_FILE).is_file():
        raise ConfigError(
            f"{folder} is no fixture: it has no {TRUTH_FILE} and {DATA_FILE}", hint="name folders that hold both files"
        )
    data: dict[str, Any] = load(path.read_text(encoding="utf-8"), where=str(path))
    links = data.get("expectedLinks") or []
    return Truth(
        tuple(PrimaryKey(key["table"], tuple(key["columns"])) for key in data.get("expectedPks") or []),
        tuple(map(_reference, links)),
        frozenset(_reference(link) for link in links if link.get("confirmable") is False),
        frozenset(map(_reference, data.get("optionalLinks") or [])),
    )


def _reference(link: dict[str, Any]) -> Reference:
    return Reference(link["fromTable"], tuple(link["fromColumns"]), link["toTable"], tuple(link["toColumns"]))


def write_truth(folder: Path, truth: Truth, relationships: dict[Reference, str] | None = None) -> None:
    """Write the answer, sorted; `relationships` names those that are not many_to_one."""
    known = relationships or {}
    lines = ["expectedPks:", *_items(_key_lines(key) for key in sorted(truth.primary_keys))]
    lines += ["expectedLinks:"]
    lines += _items(
        _link_lines(link, known.get(link, "many_to_one"), link not in truth.unconfirmable)
        for link in sorted(truth.links)
    )
    if truth.optional:
        lines += ["optionalLinks:", *_items(_link_lines(link, "many_to_one", True) for link in sorted(truth.optional))]
    (folder / TRUTH_FILE).write_text("\n".join(lines) + "\n", encoding="utf-8")


def _items(groups: Iterable[list[str]]) -> list[str]:
    lines = [("  - " if place == 0 else "    ") + line for group in groups for place, line in enumerate(group)]
    return lines or ["  []"]


def _key_lines(key: PrimaryKey) -> list[str]:
    return [f"table: {_text(key.table)}", f"columns: {_list(key.columns)}"]


def _link_lines(link: Reference, relationship: str, confirmable: bool) -> list[str]:
    lines = [
        f"fromTable: {_text(link.child)}",
        f"fromColumns: {_list(link.child_columns)}",
        f"toTable: {_text(link.parent)}",
        f"toColumns: {_list(link.parent_columns)}",
        f"relationship: {relationship}",
    ]
    return lines if confirmable else [*lines, "confirmable: false"]


def _text(value: str) -> str:
    # A JSON string is a YAML string, whatever the name looks like (`no`, `1e3`).
    return json.dumps(value, ensure_ascii=False)


def _list(values: tuple[str, ...]) -> str:
    return "[" + ", ".join(map(_text, values)) + "]"
