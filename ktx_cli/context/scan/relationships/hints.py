"""Where joins may be known from besides names and values: a port, for views, dbt tests, query history, the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Protocol

from ktx_cli.connectors.port import Table, TableRef


@dataclass(frozen=True, slots=True)
class Hint:
    """Somebody says that these columns refer to those. `source` is a key of `HINT_WEIGHTS` of the ranker."""

    child: TableRef
    child_columns: tuple[str, ...]
    parent: TableRef
    parent_columns: tuple[str, ...]
    source: str
    why: str = ""


class HintSource(Protocol):
    """A source of hints."""

    def hints(self, tables: Sequence[Table]) -> Iterable[Hint]:
        """Return what the source says about these tables."""
        ...
