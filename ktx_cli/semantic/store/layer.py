"""A layer from its store, as its files have it now; where there is no store, from the files."""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Iterable, Sequence
from typing import overload

from ktx_cli.core import Diagnostic, KtxError
from ktx_cli.project import Layout, WorkingTree
from ktx_cli.semantic.lookup import ChangedSources
from ktx_cli.semantic.model import CalendarSettings, Model
from ktx_cli.semantic.store.reader import LayerStore, StoredSources, changed_files, layer_stamps, open_store


def read_model(
    layout: Layout, connection: str, dialect: str, calendar: CalendarSettings, configured: Collection[str] | None
) -> Model:
    """Return the semantic layer of a connection as its files on disk have it now.

    From its store where there is one: of files that changed since then, the sources they are about are read again. The
    result is that of `load_model`.
    """
    found = stored_model(layout, connection, dialect, calendar, configured)
    if found is not None:
        return found
    from ktx_cli.semantic.load.load import load_tree
    from ktx_cli.semantic.store.copies import ParsedCopies

    parse = ParsedCopies(layout, connection).parse
    return load_tree(WorkingTree(layout.root), connection, dialect, calendar, parse=parse, configured=configured)


def stored_model(
    layout: Layout, connection: str, dialect: str, calendar: CalendarSettings, configured: Collection[str] | None
) -> Model | None:
    """Return the layer from its store; None where there is none, or a change that asks for reading all files."""
    store = open_store(layout, connection, dialect, configured)
    if store is None:
        return None
    tree = WorkingTree(layout.root)
    try:
        changed = changed_files(store, layer_stamps(layout.root, connection, configured), tree)
    except KtxError:  # what reads the files says what is wrong with them
        store.close()
        return None
    sources = StoredSources(store)
    problems: Callable[[], Iterable[Diagnostic]] = functools.partial(_stored_problems, store)
    if not changed:
        return Model(connection, dialect, sources, LazyProblems(problems), calendar, store.barred, store.sealed)
    from ktx_cli.semantic.store.changes import changes_of, merged_problems

    changes = changes_of(store, changed, connection, dialect)
    if changes is None:
        store.close()
        return None
    merged = functools.partial(lambda: merged_problems(problems(), changes.subjects, changes.problems))
    return Model(connection, dialect, ChangedSources(sources, changes.sources), LazyProblems(merged), calendar)


def _stored_problems(store: LayerStore) -> Iterable[Diagnostic]:
    rows = store.ask("SELECT problem FROM problems ORDER BY path, number")
    return (store.codec.load_diagnostic(problem) for (problem,) in rows)


class LazyProblems(Sequence[Diagnostic]):
    """The problems of a layer in their order, made when somebody looks at them."""

    def __init__(self, make: Callable[[], Iterable[Diagnostic]]) -> None:
        self._make = make

    @functools.cached_property
    def _all(self) -> tuple[Diagnostic, ...]:
        return tuple(self._make())

    @overload
    def __getitem__(self, index: int) -> Diagnostic: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[Diagnostic]: ...

    def __getitem__(self, index: int | slice) -> Diagnostic | Sequence[Diagnostic]:
        """Return a problem, or some of them."""
        return self._all[index]

    def __len__(self) -> int:
        """Return how many there are."""
        return len(self._all)
