"""The result of an import or export: the files, and a report on every part of the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ktx_cli.core import KtxError, Record
from ktx_cli.semantic.model import Place


class Kind(StrEnum):
    """How faithfully a part of the input was converted."""

    KEPT = "kept"
    APPROXIMATED = "approximated"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Fidelity(Record):
    """The outcome for one part of the input.

    `what` names the part and `place` locates it. `why` explains the difference or why the part was dropped; it is empty
    if the part was kept. `target` is the resulting definition, such as `orders.revenue`, or None.
    """

    kind: Kind
    what: str
    why: str
    place: Place
    target: str | None = None

    json_keys = ("kind", "what", "why", "path=place.path", "line=place.line", "target")


@dataclass(frozen=True, slots=True)
class Imported:
    """The result of an import.

    `files` maps paths below `semantic-layer/<connection>/` to texts. `report` is sorted by the location in the input.
    """

    files: Mapping[str, str]
    report: tuple[Fidelity, ...]


class UnresolvedError(KtxError):
    """ktx cannot represent a part of the input. The report lists the part as dropped, with this message."""

    code = "config"


@dataclass(slots=True)
class Report:
    """Collects the items in the report."""

    items: list[Fidelity] = field(default_factory=list)

    def kept(self, what: str, place: Place, target: str, why: str = "") -> None:
        """Add a part that was kept, or approximated if `why` describes a difference."""
        self.items.append(Fidelity(Kind.APPROXIMATED if why else Kind.KEPT, what, why, place, target))

    def approximated(self, what: str, why: str, place: Place, target: str) -> None:
        """Add a part that was converted with a difference."""
        self.items.append(Fidelity(Kind.APPROXIMATED, what, why, place, target))

    def dropped(self, what: str, why: str, place: Place) -> None:
        """Add a part that was dropped."""
        self.items.append(Fidelity(Kind.DROPPED, what, why, place))

    @contextmanager
    def dropping(self, what: str, place: Place) -> Iterator[None]:
        """Report a part as dropped if the block raises a `KtxError`, with its message as the reason."""
        try:
            yield
        except KtxError as error:
            self.dropped(what, error.message, place)

    def sorted(self) -> tuple[Fidelity, ...]:
        """Return the distinct items by path and line. A part that is approximated or dropped is not listed as kept."""
        changed = {(item.what, item.place) for item in self.items if item.kind is not Kind.KEPT}
        items = (item for item in self.items if item.kind is not Kind.KEPT or (item.what, item.place) not in changed)
        unique = dict.fromkeys(items)
        return tuple(sorted(unique, key=lambda each: (each.place.path, each.place.line, each.what, each.why)))


NO_COUNTERPART = "not supported by ktx"


class Item:
    """One mapping in the input.

    A value of the wrong shape counts as unread, so that `report_rest` reports it.
    """

    __slots__ = ("_locate", "_read", "values")

    def __init__(self, values: Mapping[Any, Any], locate: Callable[..., Place]) -> None:
        self.values, self._locate = values, locate
        self._read: set[Any] = set()

    @property
    def place(self) -> Place:
        """The location of the item."""
        return self._locate()

    def at(self, *steps: str | int) -> Place:
        """Return the location of a part within the item."""
        return self._locate(*steps)

    def text(self, key: str) -> str | None:
        """Return a text, number or boolean as text, or None if it is missing or empty."""
        value = self.values.get(key)
        if isinstance(value, bool):
            value = str(value).lower()
        elif isinstance(value, int | float):
            value = str(value)
        if value is None or isinstance(value, str):
            self._read.add(key)
            return value.strip() or None if value else None
        return None

    def flag(self, key: str) -> bool:
        """Return whether the value is true or `yes`."""
        return (self.text(key) or "").lower() in ("true", "yes")

    def number(self, key: str) -> float | None:
        """Return a number, which may be quoted."""
        try:
            return float(self.text(key) or "")
        except ValueError:
            return None

    def words(self, key: str) -> list[str]:
        """Return the texts in a list, or a single text as a list."""
        value = self.values.get(key)
        if isinstance(value, str):
            value = [value]
        if isinstance(value, list) and all(isinstance(each, str | int | float) for each in value):
            self._read.add(key)
            return [str(each) for each in value]
        return []

    def value(self, key: str) -> Any:
        """Return the value unchanged."""
        self._read.add(key)
        return self.values.get(key)

    def listed(self, key: str) -> list[Any]:
        """Return a list unchanged, or an empty list."""
        value = self.value(key)
        return value if isinstance(value, list) else []

    def item(self, key: str) -> Item | None:
        """Return a nested mapping."""
        value = self.values.get(key)
        if not isinstance(value, Mapping):
            return None
        self._read.add(key)
        return Item(value, lambda *steps: self._locate(key, *steps))

    def items(self, key: str) -> list[Item]:
        """Return the mappings in a list. A list with other values counts as unread."""
        value = self.values.get(key)
        if not isinstance(value, list):
            return []
        if all(isinstance(each, Mapping) for each in value):
            self._read.add(key)
        return [self._below(key, index, each) for index, each in enumerate(value) if isinstance(each, Mapping)]

    def _below(self, key: str, index: int, value: Mapping[Any, Any]) -> Item:
        return Item(value, lambda *steps: self._locate(key, index, *steps))

    def has(self, key: str) -> bool:
        """Return whether the key has a value other than null."""
        return self.values.get(key) is not None

    def skip(self, *keys: str) -> None:
        """Count keys as read."""
        self._read.update(keys)

    def report_rest(self, report: Report, owner: str, reasons: Mapping[str, str] | None = None) -> None:
        """Report every unread key as dropped. `reasons` maps keys to the reason to report."""
        for key, value in self.values.items():
            if key not in self._read and value is not None and value != [] and value != {}:
                why = (reasons or {}).get(str(key), NO_COUNTERPART)
                report.dropped(f"`{key}` of {owner}", why, self._locate(str(key)))
