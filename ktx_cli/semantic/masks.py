"""Column masks: which columns show something else to a caller, and what they show.

A mask belongs to the column of the database, so it also applies to every other source of the same table. A column that
a join equates with a masked one has the same values, so it is masked as well. Both are determined once for a model, for
all callers."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from ktx_cli.faces import exp
from ktx_cli.semantic.lookup import lookup_of
from ktx_cli.semantic.model import Column, SemanticError
from ktx_cli.warehouses import SemanticType

if TYPE_CHECKING:
    from ktx_cli.semantic.caller import Caller
    from ktx_cli.semantic.model import Mask, Model, Source

Key = tuple[str, str]
"""The name of a source, and the folded name of one of its columns."""

_INDEX: Final = "masks"


def same_table(one: tuple[str, ...], other: tuple[str, ...]) -> bool:
    """Return whether two names may refer to the same table, whether or not dots separate the parts of one of them."""
    first, second = (".".join(parts).casefold().split(".") for parts in (one, other))
    count = min(len(first), len(second))
    return first[-count:] == second[-count:]


def has_masks(model: Model) -> bool:
    """Return whether any column of a model has a mask."""
    return bool(_index(model))


def masked_sources(model: Model) -> frozenset[str]:
    """Return the names of the sources with masked columns."""
    return frozenset(_index(model))


def masks_in(model: Model) -> frozenset[Mask]:
    """Return all masks in a model."""
    return frozenset(mask for columns in _index(model).values() for masks in columns.values() for mask in masks)


def unmasked(source: Source) -> Source:
    """Return a copy of a source without masks, for statements whose results are not shown."""
    columns = {name: replace(each, mask=None) for name, each in source.columns.items()}
    return replace(source, columns=columns) if source.has_masks else source


def masks_of(model: Model, source: Source) -> Mapping[str, tuple[Mask, ...]]:
    """Return the masks of a source's columns by folded name. The first one is the column's own, if it has one."""
    return _index(model).get(source.name, {})


def masked_for(model: Model, source: Source, caller: Caller) -> Mapping[str, Mask]:
    """Return the columns of a source that are masked for a caller by folded name, each with its mask."""
    return {
        name: hiding[0]
        for name, masks in masks_of(model, source).items()
        if (hiding := [each for each in masks if not caller.sees(each)])
    }


def mask_misfit(column: Column, mask: Mask) -> str | None:
    """Return why a mask's value cannot stand for values of a column, or None if it can."""
    value = mask.value
    if value is None:
        return None
    if column.stored_as is not None or column.type is SemanticType.TIME:
        return "a time or a converted value can only be masked with null"
    fits = {
        SemanticType.STRING: isinstance(value, str),
        SemanticType.NUMBER: isinstance(value, int | float) and not isinstance(value, bool),
        SemanticType.BOOLEAN: isinstance(value, bool),
    }
    return None if fits[column.type] else f"the column is a {column.type.value}"


def mask_value(source: Source, column: Column, mask: Mask, value: exp.Expr) -> exp.Expr:
    """Return what a masked column shows: the mask's value, or a null of the type of `value`, which is not evaluated."""
    why = mask_misfit(column, mask)
    if why is not None and column.mask == mask:
        raise SemanticError(
            f"the mask of `{source.name}.{column.name}` has the value {mask.value!r}, but {why}",
            hint=f"change `value` of the mask in {column.place}, or remove it to show null",
            code="definition",
        )
    if mask.value is not None and why is None:
        return exp.convert(mask.value)
    never = exp.EQ(this=exp.Literal.number(1), expression=exp.Literal.number(0))
    return exp.Case(ifs=[exp.If(this=never, true=value)])


def _index(model: Model) -> Mapping[str, Mapping[str, tuple[Mask, ...]]]:
    """Return the masks by source and column."""
    found: Mapping[str, Mapping[str, tuple[Mask, ...]]] | None = model.remembered.get(_INDEX)
    if found is None:
        found = model.remembered[_INDEX] = _masks(model) if lookup_of(model).protects else {}
    return found


def _masks(model: Model) -> Mapping[str, Mapping[str, tuple[Mask, ...]]]:
    found: dict[Key, dict[Mask, None]] = defaultdict(dict)
    ahead: list[tuple[Key, Mask]] = []
    for name in lookup_of(model).protected():
        for column in model.sources[name].columns.values():
            if column.mask is not None:
                ahead.append(((name, column.name.casefold()), column.mask))
    while ahead:
        key, mask = ahead.pop(0)
        if mask not in found[key]:
            found[key][mask] = None
            ahead += [(other, mask) for other in _same_values(model, key)]
    result: dict[str, dict[str, tuple[Mask, ...]]] = defaultdict(dict)
    for (source, column_name), masks in found.items():
        result[source][column_name] = tuple(masks)
    return result


def _same_values(model: Model, key: Key) -> Iterator[Key]:
    """Yield the columns with the same values: of the same table, around it in its row, and over joins."""
    source, name = model.sources[key[0]], key[1]
    own = _column(source, name)
    if own is None or own.expr is None:
        yield from _of_table(model, source, name)
    for owner, join in lookup_of(model).joins_of(source.name):
        for near, far in join.pairs:
            if owner == source.name and name in with_inputs(source, near):
                yield from ((join.to, each) for each in _inputs_of(model, join.to, far))
            if join.to == source.name and name in with_inputs(source, far):
                yield from ((owner, each) for each in _inputs_of(model, owner, near))


def _inputs_of(model: Model, source: str, name: str) -> frozenset[str]:
    return with_inputs(model.sources[source], name) if source in model.sources else frozenset()


def with_inputs(source: Source, name: str) -> frozenset[str]:
    """Return the folded name of a column, and those of all own columns that its expression may read."""
    found: set[str] = set()
    ahead = [name.casefold()]
    while ahead:
        each = ahead.pop()
        if each in found:
            continue
        found.add(each)
        column = _column(source, each)
        if column is not None and column.expr is not None:
            text = column.expr.casefold()
            ahead += [other for known in source.columns if _names(text, other := known.casefold())]
    return frozenset(found)


def _names(text: str, name: str) -> bool:
    """Return whether a text may name a column."""
    return re.search(rf"(?<!\w){re.escape(name)}(?!\w)", text) is not None


def _column(source: Source, folded: str) -> Column | None:
    return next((each for each in source.columns.values() if each.name.casefold() == folded), None)


def _of_table(model: Model, source: Source, name: str) -> Iterator[Key]:
    """Yield the column in every source of the table, and the columns that contain it or are a part of it."""
    sources = [source]
    if source.table is not None:
        others = lookup_of(model).of_table(source.table[-1])
        sources += [each for each in others if each.table is not None and same_table(each.table, source.table)]
    for each in sources:
        yield each.name, name
        for other in each.columns.values():
            folded = other.name.casefold()
            if other.expr is None and (folded.startswith(f"{name}.") or name.startswith(f"{folded}.")):
                yield each.name, folded
