"""The physical model of a generated database: tables, columns with their values, links; names come last."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

from benchmarks.relationship_fixtures.concepts import Form


@dataclass(eq=False, slots=True)
class Column:
    """A column; `words` are the English words its name is made of, `part` says what it is for naming.

    `part`: `key` (a surrogate or code of its own), `reference` (of a link), `number` (the second part of a
    composite key), `attribute`. `target` is the column a reference refers to.
    """

    words: str
    part: str
    kind: str
    optional: bool = False
    target: Column | None = None
    target_table: Table | None = None
    sql_type: str = ""
    name: str = ""
    values: list[Any] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Link:
    """A true reference: the columns of a child and those of its parent, in order.

    `identifying`: part of what identifies the child's row. `role` as in the concept. `shape` is how the references
    are spread over the parents (see `references`). `discriminator`: (column, value) of a polymorphic one. `scored`
    is False for what is true and yet no key: columns of a view or a copy.
    """

    child: Table
    columns: tuple[Column, ...]
    parent: Table
    parent_columns: tuple[Column, ...]
    role: str
    optional: bool = False
    identifying: bool = False
    shape: str = ""
    discriminator: tuple[Column, str | int] | None = None
    scored: bool = True
    rows: list[int | None] = field(default_factory=list)


@dataclass(eq=False, slots=True)
class Table:
    """A table; `key` is its primary key (empty: none), `key_kind` how its own key's values look.

    `alternates` are other unique column sets, `copy_of` the table a staging copy repeats, `prefix_words` the layer
    (`dim`, `stg`) or module it belongs to.
    """

    words: str
    form: Form
    size: int = 0
    columns: list[Column] = field(default_factory=list)
    key: tuple[Column, ...] = ()
    key_kind: str = ""
    alternates: list[tuple[Column, ...]] = field(default_factory=list)
    copy_of: Table | None = None
    prefix_words: str = ""
    name: str = ""


@dataclass(eq=False, slots=True)
class View:
    """A view over one table: some of its columns, by position."""

    words: str
    table: Table
    columns: list[Column]
    name: str = ""


@dataclass(eq=False, slots=True)
class Database:
    """A whole generated database before it is written; `notes` are facts for `describe`."""

    tables: list[Table] = field(default_factory=list)
    links: list[Link] = field(default_factory=list)
    views: list[View] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)

    def links_of(self, table: Table) -> Iterator[Link]:
        """Yield the links whose child is `table`."""
        return (link for link in self.links if link.child is table)
