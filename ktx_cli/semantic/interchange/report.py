"""The result of an import or export: texts of files, and what became of each part of the input."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any

from ktx_cli.core import KtxError, Record
from ktx_cli.semantic.model import Place


class Kind(StrEnum):
    """The outcome for a part of the input."""

    KEPT = "kept"
    APPROXIMATED = "approximated"
    DROPPED = "dropped"


@dataclass(frozen=True, slots=True)
class Fidelity(Record):
    """The outcome for one part of the input.

    `what` names it, `why` says what differs or why it is gone (empty where it is kept as it is), `place` is where it
    stands in the input, `target` what it became, such as `orders.revenue`; None where it became nothing.
    """

    kind: Kind
    what: str
    why: str
    place: Place
    target: str | None = None

    json_keys = ("kind", "what", "why", "path=place.path", "line=place.line", "target")


@dataclass(frozen=True, slots=True)
class Imported:
    """`files`: path below `semantic-layer/<connection>/` -> text. `report`: by place in the input."""

    files: Mapping[str, str]
    report: tuple[Fidelity, ...]


class UnresolvedError(KtxError):
    """A part of the input that has no meaning here: the report says that it is dropped, and why."""

    code = "config"


@dataclass(slots=True)
class Report:
    """Collects the items."""

    items: list[Fidelity] = field(default_factory=list)

    def kept(self, what: str, place: Place, target: str, why: str = "") -> None:
        """Note what means the same as before; `why`: nearly the same, and the difference."""
        self.items.append(Fidelity(Kind.APPROXIMATED if why else Kind.KEPT, what, why, place, target))

    def approximated(self, what: str, why: str, place: Place, target: str) -> None:
        """Note what means nearly the same, and the difference."""
        self.items.append(Fidelity(Kind.APPROXIMATED, what, why, place, target))

    def dropped(self, what: str, why: str, place: Place) -> None:
        """Note what is gone, and why."""
        self.items.append(Fidelity(Kind.DROPPED, what, why, place))

    @contextmanager
    def dropping(self, what: str, place: Place) -> Iterator[None]:
        """Note a part as dropped where an error in it says why."""
        try:
            yield
        except KtxError as error:
            self.dropped(what, error.message, place)

    def sorted(self) -> tuple[Fidelity, ...]:
        """Return the items by path and line, each once; what is not kept as it is does not count as kept too."""
        changed = {(item.what, item.place) for item in self.items if item.kind is not Kind.KEPT}
        items = (item for item in self.items if item.kind is not Kind.KEPT or (item.what, item.place) not in changed)
        unique = dict.fromkeys(items)
        return tuple(sorted(unique, key=lambda each: (each.place.path, each.place.line, each.what, each.why)))


NO_COUNTERPART = "ktx has nothing like it"


class Item:
    """One mapping. A value of the wrong shape counts as not read, so `report_rest` names it."""

    __slots__ = ("_locate", "_read", "values")

    def __init__(self, values: Mapping[Any, Any], locate: Callable[..., Place]) -> None:
        self.values, self._locate = values, locate
        self._read: set[Any] = set()

    @property
    def place(self) -> Place:
        """The location of the item."""
        return self._locate()

    def at(self, *steps: str | int) -> Place:
        """Return where a part of it stands."""
        return self._locate(*steps)

    def text(self, key: str) -> str | None:
        """Return a text, a number or a boolean as text; None where there is none of them, or nothing in it."""
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
        """Return whether it is true; `yes` is."""
        return (self.text(key) or "").lower() in ("true", "yes")

    def number(self, key: str) -> float | None:
        """Return a number, also one in quotes."""
        try:
            return float(self.text(key) or "")
        except ValueError:
            return None

    def words(self, key: str) -> list[str]:
        """Return the texts of a list, or a single one."""
        value = self.values.get(key)
        if isinstance(value, str):
            value = [value]
        if isinstance(value, list) and all(isinstance(each, str | int | float) for each in value):
            self._read.add(key)
            return [str(each) for each in value]
        return []

    def value(self, key: str) -> Any:
        """Return a value as it is."""
        self._read.add(key)
        return self.values.get(key)

    def listed(self, key: str) -> list[Any]:
        """Return a list as it is; an empty one where there is none."""
        value = self.value(key)
        return value if isinstance(value, list) else []

    def item(self, key: str) -> Item | None:
        """Return a mapping in it."""
        value = self.values.get(key)
        if not isinstance(value, Mapping):
            return None
        self._read.add(key)
        return Item(value, lambda *steps: self._locate(key, *steps))

    def items(self, key: str) -> list[Item]:
        """Return the mappings of a list in it; a list with anything else in it counts as not read."""
        value = self.values.get(key)
        if not isinstance(value, list):
            return []
        if all(isinstance(each, Mapping) for each in value):
            self._read.add(key)
        return [self._below(key, index, each) for index, each in enumerate(value) if isinstance(each, Mapping)]

    def _below(self, key: str, index: int, value: Mapping[Any, Any]) -> Item:
        return Item(value, lambda *steps: self._locate(key, index, *steps))

    def has(self, key: str) -> bool:
        """Say whether there is a value that is not null."""
        return self.values.get(key) is not None

    def skip(self, *keys: str) -> None:
        """Count keys as read."""
        self._read.update(keys)

    def report_rest(self, report: Report, owner: str, reasons: Mapping[str, str] | None = None) -> None:
        """Report every key that was not read as dropped; `reasons`: key -> why."""
        for key, value in self.values.items():
            if key not in self._read and value is not None and value != [] and value != {}:
                why = (reasons or {}).get(str(key), NO_COUNTERPART)
                report.dropped(f"`{key}` of {owner}", why, self._locate(str(key)))
