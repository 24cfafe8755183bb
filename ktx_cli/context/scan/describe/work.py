"""A table on its way to its texts: what is said of it, what was answered, what is still missing."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.connectors.port import TableRef
from ktx_cli.context.scan.describe.answers import PieceTexts
from ktx_cli.context.scan.describe.facts import Described, TableFacts
from ktx_cli.context.scan.describe.labels import Labels
from ktx_cli.context.scan.describe.packing import Piece, SizedTable
from ktx_cli.context.scan.describe.rendering import (
    column_json,
    column_labels,
    encoded,
    estimated_tokens,
    table_head,
    table_json,
)
from ktx_cli.project.config.scan import Privacy

FRAME_TOKENS: Final = 30
"""What `describe_table`, brackets and line ends of a table take."""


@dataclass(frozen=True, slots=True)
class FailedTable:
    """A table that has no new text, with the code and the words of the `LlmError` behind it.

    `no_answer`: the model answered twice without a word about it.
    """

    ref: TableRef
    code: str
    message: str


@dataclass(slots=True)
class Work:
    """One table. It is open until it is `described` or `failed`."""

    facts: TableFacts
    hash: str
    label: str
    privacy: Privacy
    labels: Labels[str] = field(init=False)
    head: dict[str, Any] = field(init=False)
    shown: dict[str, dict[str, Any]] = field(init=False)
    table_answered: bool = False
    text: str | None = None
    columns: dict[str, str | None] = field(default_factory=dict)
    failed: FailedTable | None = None
    described: Described | None = None

    def __post_init__(self) -> None:
        self.labels = column_labels(self.facts)
        self.head = table_head(self.facts, self.label, self.labels)
        profiles, texts = self.facts.column_profiles(), self.facts.texts.columns
        self.shown = {
            column.name: column_json(
                column,
                self.labels.shown(column.name),
                texts=texts.get(column.name, {}),
                profile=profiles.get(column.name),
                privacy=self.privacy,
            )
            for column in self.facts.table.columns
        }

    @property
    def open(self) -> bool:
        """Whether it is neither described nor given up."""
        return self.described is None and self.failed is None

    @property
    def missing(self) -> list[str]:
        """The columns without an answer, in the table's order."""
        return [name for name in self.shown if name not in self.columns]

    @property
    def complete(self) -> bool:
        """Whether everything was answered."""
        return self.table_answered and not self.missing

    @property
    def begun(self) -> bool:
        """Whether anything was answered."""
        return self.table_answered or bool(self.columns)

    def sized(self) -> SizedTable:
        """Return what is still to be asked, with its size in a message."""
        return SizedTable(
            ref=self.facts.ref,
            head=estimated_tokens(encoded(self.head)) + FRAME_TOKENS,
            columns=tuple((name, estimated_tokens(encoded(self.shown[name]))) for name in self.missing),
            neighbours=frozenset(self.facts.neighbours),
            asks_table=not self.table_answered,
        )

    def json(self, piece: Piece) -> str:
        """Return the table with a piece's columns, as it stands in a message."""
        head = {**self.head, "describe_table": piece.asks_table}
        return table_json(head, [self.shown[name] for name in piece.columns])

    def take(self, texts: PieceTexts) -> None:
        """Keep what was answered of a piece."""
        if texts.table_answered:
            self.table_answered, self.text = True, texts.text
        self.columns.update(texts.columns)

    def finish(self) -> Described:
        """Make the texts as they are the table's."""
        columns = {name: text for name in self.shown if (text := self.columns.get(name))}
        self.described = Described(self.facts.ref, self.hash, "ai", self.text, columns)
        return self.described


def to_json(described: Described) -> dict[str, Any]:
    """Return what the store keeps."""
    return {"text": described.text, "columns": dict(described.columns)}


def from_json(ref: TableRef, digest: str, value: Any) -> Described | None:
    """Return what the store kept, None where it is no such thing."""
    if not isinstance(value, Mapping) or not isinstance(value.get("columns"), Mapping):
        return None
    if not all(isinstance(text, str) for text in value["columns"].values()):
        return None
    text = value.get("text")
    return Described(ref, digest, "ai", text, value["columns"]) if isinstance(text, str | None) else None
