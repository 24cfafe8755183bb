"""What a metric is computed from, in both forms of dbt's YAML."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from ktx_cli.context.semantic.interchange.items import Item
from ktx_cli.context.semantic.loading.columns import NATURAL
from ktx_cli.context.semantic.loading.measures import TO_DATE
from ktx_cli.context.semantic.model import Place

_WINDOW: Final = re.compile(rf"(\d{{1,6}})\s*_?({'|'.join(NATURAL)})s?", re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Input:
    """One input of a metric. `fill`: it asked dbt to join the time spine or to fill empty values."""

    name: str
    alias: str
    filters: tuple[str, ...] = ()
    offset: str | None = None
    offset_to_grain: str | None = None
    fill: bool = False

    def with_filters(self, more: tuple[str, ...]) -> Input:
        """Return it with more filters."""
        return replace(self, filters=(*self.filters, *more))

    @property
    def is_plain(self) -> bool:
        """Whether it is the metric or measure as it is."""
        return not (self.filters or self.offset or self.offset_to_grain)


def read_input(value: Any, place: Place) -> Input | None:
    """Return the input a name or a mapping says, None where there is none."""
    if isinstance(value, str) and value.strip():
        return Input(value.strip(), value.strip())
    if not isinstance(value, Mapping):
        return None
    item = Item(value, lambda *_: place)
    name = item.text("name")
    if name is None:
        return None
    return Input(
        name, item.text("alias") or name, read_filters(item, "filter"), item.text("offset_window"),
        item.text("offset_to_grain"), item.flag("join_to_timespine") or item.has("fill_nulls_with"),
    )  # fmt: skip


def read_filters(item: Item, key: str) -> tuple[str, ...]:
    """Return the filters of a text, a list of texts, or dbt's compiled form of them."""
    value = item.value(key)
    if isinstance(value, Mapping):
        value = value.get("where_filters")
    several = value if isinstance(value, list) else [value]
    texts = (each.get("where_sql_template") if isinstance(each, Mapping) else each for each in several)
    return tuple(str(text).strip() for text in texts if text is not None and str(text).strip())


def window(text: str | None) -> str | None:
    """Return a length of time as ktx writes it, such as `7 days`; None where it is none."""
    found = _WINDOW.fullmatch(text.strip()) if text else None
    if found is None or not int(found[1]):
        return None
    count, unit = int(found[1]), found[2].lower()
    return f"{count} {unit}{'' if count == 1 else 's'}"


def to_date(text: str | None) -> str | None:
    """Return the unit of a value to date, None where ktx has none of that name."""
    word = (text or "").lower()
    return word if word in TO_DATE else None
