"""What agents may not change: who sees what. Policies stay as people wrote them, nothing hidden becomes visible."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

from ktx_cli.protection import Table, is_protected, reads_table, sources_of, tables_read
from ktx_cli.search import Shown
from ktx_cli.semantic import TEMPLATE, Model, SemanticError, Source, Visibility

_STRICTNESS: Final = {Visibility.PUBLIC: 0, Visibility.INTERNAL: 1, Visibility.HIDDEN: 2}


def weakened(before: Model, after: Model, name: str) -> list[str]:
    """Return what a write of a source would make visible that is not, one sentence each."""
    old, new = before.sources.get(name), after.sources.get(name)
    found: list[str] = list(_unknown(before, name))
    if old is not None:
        found += _policies(old, new)
        found += _visibility(old, new)
    if new is not None:
        found += _around(before, after, old, new)
        found += _hidden_read(after, old, new)
    return found


def _unknown(before: Model, name: str) -> Iterator[str]:
    """Yield why nobody can tell what a write would show: a file that may say who sees what has an error."""
    problem = before.sealed if name not in before.barred else before.barred[name].problem
    if problem is not None:
        yield f"{problem.location} has an error, so that nobody can tell who sees what of `{name}`: people correct it"


def rewritten(before: Model, name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> list[str]:
    """Return why a file that says who sees what may not be written over while it has errors.

    The model does not have its source then, so that nothing else could tell what is lost.
    """
    if old is None or name in before.sources or not _limits(old):
        return []
    if new is not None and _limits(new) == _limits(old):
        return []
    return [f"the file about `{name}` has errors, and says who sees what: people correct it"]


def _limits(value: Any) -> list[Any]:
    """Return everything a document says about policies and visibility, in its order."""
    if isinstance(value, list):
        return [each for item in value for each in _limits(item)]
    if not isinstance(value, Mapping):
        return []
    own = [value[key] for key in ("policies", "visibility") if key in value]
    return [*own, *(each for key, item in value.items() if key != "policies" for each in _limits(item))]


def _policies(old: Source, new: Source | None) -> Iterator[str]:
    kept = {} if new is None else {each.name: each.filter for each in new.policies}
    if {each.name: each.filter for each in old.policies} != kept:
        yield f"the policies of `{old.name}` are people's: leave them as they are"


def _visibility(old: Source, new: Source | None) -> Iterator[str]:
    """Yield what is less strict than before; what is gone is seen by nobody."""
    if new is None:
        return
    pairs: list[tuple[str, Visibility, Visibility]] = [(f"`{old.name}`", old.visibility, new.visibility)]
    for column in old.columns.values():
        other = new.columns.get(column.name)
        if other is not None:
            public = Visibility.PUBLIC
            pairs.append((f"`{old.name}.{column.name}`", column.visibility or public, other.visibility or public))
    for measure in old.measures.values():
        if measure.name in new.measures:
            pairs.append((f"`{old.name}.{measure.name}`", measure.visibility, new.measures[measure.name].visibility))
    for what, was, now in pairs:
        if _STRICTNESS[now] < _STRICTNESS[was]:
            yield f"{what} is {was.value}: people decide who sees it, leave its visibility as it is"


def _around(before: Model, after: Model, old: Source | None, new: Source) -> Iterator[str]:
    """Yield the protected sources whose table a source of its own would read past them."""
    if new.generated or (old is not None and (old.table, old.sql) == (new.table, new.sql)):
        return
    for table in sorted(_tables(new, after.dialect)):
        for name, each in before.barred.items():
            if name != new.name and reads_table(each, table):
                yield f"`{'.'.join(table)}` is read by `{name}`, whose files have errors: people correct them first"
        for source in sources_of(before, table):
            if source.name != new.name and is_protected(source):
                yield (
                    f"`{'.'.join(table)}` is read by `{source.name}`, which has policies or hidden columns: "
                    f"define it as an overlay of `{source.name}`"
                )


def _tables(source: Source, dialect: str) -> set[Table]:
    if source.table is not None:
        return {source.table}
    return set(tables_read(TEMPLATE.sub("NULL", source.sql or ""), dialect) or ())


def _hidden_read(model: Model, old: Source | None, new: Source) -> Iterator[str]:
    """Yield new definitions that read a hidden column, of whatever source, otherwise than to count it.

    A column without a visibility of its own is hidden where one is that it reads.
    """
    own = _hidden(model, new)
    others = {name for source in model.sources.values() if source.name != new.name for name in _hidden(model, source)}
    if not own and not others:
        return
    known = set() if old is None else set(_expressions(old))
    for what, text in _expressions(new):
        if (what, text) in known:
            continue
        for name, table in _read_by(text, model.dialect):
            if name in own or (table not in ("", new.name.casefold()) and name in others):
                yield f"{what} of `{new.name}` reads a hidden column: people decide what is told of it"
                break


def _hidden(model: Model, source: Source) -> set[str]:
    shown = Shown(model, internal=True)
    found = source.columns.values()
    return {each.name.casefold() for each in found if shown.visibility(source, each) is Visibility.HIDDEN}


def _expressions(source: Source) -> Iterator[tuple[str, str]]:
    for measure in source.measures.values():
        yield f"measure `{measure.name}`", measure.expr
        if measure.filter:
            yield f"measure `{measure.name}`", measure.filter
    for segment in source.segments.values():
        yield f"segment `{segment.name}`", segment.expr
    for column in source.columns.values():
        if column.expr is not None and column.visibility in (Visibility.PUBLIC, Visibility.INTERNAL):
            yield f"column `{column.name}`", column.expr


def _read_by(text: str, dialect: str) -> set[tuple[str, str]]:
    """Return the columns an expression does more with than to count them: name, and what stands in front of it."""
    from sqlglot import exp

    from ktx_cli.semantic import parse

    class _Any(dict[str, Any]):
        def __contains__(self, key: object) -> bool:
            return True

        def __missing__(self, key: str) -> int:
            return 1

    try:
        tree = parse(text, dialect, what="it", values=_Any())
    except SemanticError:  # the check of the connection reports it
        return set()
    columns = (each for each in tree.find_all(exp.Column) if not _is_counted(each))
    return {(each.name.casefold(), each.table.casefold()) for each in columns}


def _is_counted(column: Any) -> bool:
    """Whether a column is counted as it is: what is counted under a condition tells of values."""
    from sqlglot import exp

    outer = column.parent
    return isinstance(outer.parent if isinstance(outer, exp.Distinct) else outer, exp.Count)
