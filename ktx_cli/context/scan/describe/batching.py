"""Which tables are shown together when the model looks for joins: none is left out, likely pairs share a batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from ktx_cli.connectors.port import Table, TableRef
from ktx_cli.context.scan.describe.facts import ref_order
from ktx_cli.context.scan.relationships.names import key_base, stem, table_words, tokens

PARENTS_PER_COLUMN: Final = 3
PARENTS_PER_TABLE: Final = 12
"""How many tables the name of one column, and those of all columns of a table, may point to."""

SHARED: Final = 0.5
"""The share of words that the names of a column and a table have in common, from which the one may mean the other."""

COMMON: Final = 100
"""A word in the names of more tables than this says nothing about which of them is meant."""

LOOK_BACK: Final = 50
"""How many batches in the making a group may still join."""

Batch = tuple[TableRef, ...]


def likely_parents(tables: Iterable[Table]) -> dict[TableRef, tuple[TableRef, ...]]:
    """Return table -> the other tables its columns may refer to by their names, the likeliest first.

    A column points to the tables whose names have most words in common with its own (without `id`, `key` ...), at least
    half of them, one that is no key by its name all of them; and to those whose key has a column of its very name.
    """
    ordered = sorted(tables, key=lambda table: ref_order(table.ref))
    spoken = table_words(table.ref.name for table in ordered)
    stems = {table.ref: frozenset(map(stem, spoken[table.ref.name])) for table in ordered}
    by_word: dict[str, list[TableRef]] = defaultdict(list)
    by_key: dict[str, list[TableRef]] = defaultdict(list)
    for table in ordered:
        for word in stems[table.ref]:
            by_word[word].append(table.ref)
        for name in _key_columns(table):
            by_key[name].append(table.ref)
    return {table.ref: _parents(table, stems, by_word, by_key) for table in ordered}


def _key_columns(table: Table) -> set[str]:
    names = {name for key in (table.primary_key, *(key.columns for key in table.unique_keys)) for name in key}
    return {name.casefold() for name in names if key_base(tokens(name))[0]}


def _parents(
    table: Table,
    stems: Mapping[TableRef, frozenset[str]],
    by_word: Mapping[str, Sequence[TableRef]],
    by_key: Mapping[str, Sequence[TableRef]],
) -> tuple[TableRef, ...]:
    best: dict[TableRef, float] = {}
    for column in table.columns:
        base, keyed = key_base(tokens(column.name))
        said, least = frozenset(map(stem, base)), SHARED if keyed else 1.0
        found = dict.fromkeys(_rare(by_key.get(column.name.casefold(), ())), 1.0)
        for ref in {ref for word in said for ref in _rare(by_word.get(word, ()))}:
            found.setdefault(ref, len(said & stems[ref]) / len(said | stems[ref]))
        least = max([least, *(score for ref, score in found.items() if ref != table.ref)])
        likely = {ref: score for ref, score in found.items() if score >= least and ref != table.ref}
        for ref in _ranked(likely, table.ref)[:PARENTS_PER_COLUMN]:
            best[ref] = max(best.get(ref, 0.0), found[ref])
    return tuple(_ranked(best, table.ref)[:PARENTS_PER_TABLE])


def _rare(refs: Sequence[TableRef]) -> Sequence[TableRef]:
    return refs if len(refs) <= COMMON else ()


def _ranked(scores: Mapping[TableRef, float], near: TableRef) -> list[TableRef]:
    return sorted(scores, key=lambda ref: (-scores[ref], ref.schema != near.schema, ref_order(ref)))


def plan_batches(
    sizes: Mapping[TableRef, int],
    parents: Mapping[TableRef, Sequence[TableRef]],
    *,
    tables: int,
    tokens: int,
) -> list[Batch]:
    """Return batches of at most `tables` tables and `tokens` estimated tokens (`sizes`).

    Every table is in a batch, and with each of its `parents` in one, as long as `tables` is 2 or more. Only a table
    alone, or with one parent, may take more than `tokens`.
    """
    batches: list[set[TableRef]] = []
    together: dict[TableRef, set[TableRef]] = {ref: set() for ref in sizes}
    for ref in sorted(sizes, key=ref_order):
        wanted = [parent for parent in parents.get(ref, ()) if parent in sizes and parent not in together[ref]]
        if together[ref] and not wanted:
            continue
        for group in _groups(ref, wanted, sizes, tables=tables, tokens=tokens):
            batch = _placed(group, batches, sizes, tables=tables, tokens=tokens)
            for each in group:
                together[each] |= batch
    return [tuple(sorted(batch, key=ref_order)) for batch in batches]


def _groups(
    ref: TableRef, parents: Sequence[TableRef], sizes: Mapping[TableRef, int], *, tables: int, tokens: int
) -> list[set[TableRef]]:
    """Return a table with its parents, in several groups where they are too many for one."""
    groups: list[set[TableRef]] = [{ref}]
    taken = sizes[ref]
    for parent in parents if tables > 1 else ():
        if len(groups[-1]) > 1 and (len(groups[-1]) >= tables or taken + sizes[parent] > tokens):
            groups.append({ref})
            taken = sizes[ref]
        groups[-1].add(parent)
        taken += sizes[parent]
    return groups


def _placed(
    group: set[TableRef], batches: list[set[TableRef]], sizes: Mapping[TableRef, int], *, tables: int, tokens: int
) -> set[TableRef]:
    """Put a group into the batch that shares most with it and has room, else into a new one; return that batch."""
    fitting = [
        batch
        for batch in batches[-LOOK_BACK:]
        if len(batch | group) <= tables and sum(sizes[ref] for ref in batch | group) <= tokens
    ]
    if not fitting:
        batches.append(set(group))
        return batches[-1]
    best = max(fitting, key=lambda batch: len(batch & group))
    best |= group
    return best
