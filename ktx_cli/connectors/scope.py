"""Which relations of a connection are wanted: reads the scope keys of `ktx.yaml` and applies them to what exists."""

from __future__ import annotations

import fnmatch
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktx_cli.connectors.port import ObjectProblem, Scope, TableRef
from ktx_cli.core.errors import ConfigError
from ktx_cli.core.text import did_you_mean


@dataclass(frozen=True, slots=True)
class Selection:
    """The refs in scope, sorted, and one problem for every entry that matched nothing."""

    refs: tuple[TableRef, ...]
    problems: tuple[ObjectProblem, ...] = ()


def scope_from_options(options: Mapping[str, Any]) -> Scope:
    """Return the scope that a connection's `schemas` (or `schema`), `enabled_tables`, `include`, `exclude` say.

    An empty list counts as not given. Raises `ConfigError` for a value that is no text or list of texts, and for
    an `enabled_tables` entry with an unfinished quote.
    """
    enabled = _texts(options, "enabled_tables")
    for entry in enabled:
        parse_name(entry)
    return Scope(
        schemas=(_texts(options, "schemas") or _texts(options, "schema")) or None,
        enabled_tables=enabled or None,
        include=_texts(options, "include"),
        exclude=_texts(options, "exclude"),
    )


def parse_name(entry: str) -> tuple[str, ...]:
    """Split `cat.db.name` at its dots; a part in double quotes keeps its dots (`"a.b"`), `""` in it is one quote.

    Raises `ConfigError` when a quote is not closed, text follows a closing one, or a part is empty.
    """
    parts: list[str] = []
    rest = entry.strip()
    while True:
        if rest.startswith('"'):
            part, rest = _quoted_part(rest, entry)
        else:
            end = rest.find(".")
            part, rest = (rest, "") if end < 0 else (rest[:end], rest[end:])
        if not part or (rest and not rest.startswith(".")):
            raise _bad_name(entry)
        parts.append(part)
        if not rest:
            return tuple(parts)
        rest = rest[1:]


def select(refs: Iterable[TableRef], scope: Scope, *, catalog: str | None = None) -> Selection:
    """Apply a scope to the relations that exist; `catalog` is the database's name, for three-part entries.

    Names are compared exactly, case included. An `enabled_tables` entry that leaves out the schema matches in every
    schema; one that gives a schema to an engine without schemas matches by its name. A pattern without a dot is
    compared with the table's name, any other with `schema.table`.
    """
    everything = sorted(refs)
    wanted = set(everything)
    problems: list[ObjectProblem] = []
    if scope.schemas is not None and any(ref.schema is not None for ref in everything):
        wanted = {ref for ref in wanted if ref.schema in scope.schemas}
        present = {ref.schema for ref in everything if ref.schema is not None}
        problems += [_no_schema(name, present) for name in scope.schemas if name not in present]
    elif scope.schemas is not None and not everything:
        problems += [_no_schema(name, ()) for name in scope.schemas]
    if scope.enabled_tables is not None:
        enabled, missing = _enabled(scope.enabled_tables, wanted, catalog)
        wanted &= enabled
        problems += missing
    if scope.include:
        included, missing = _included(scope.include, wanted)
        wanted &= included
        problems += missing
    wanted -= {ref for ref in wanted if excluded(ref, scope)}
    return Selection(tuple(sorted(wanted)), tuple(problems))


def excluded(ref: TableRef, scope: Scope) -> bool:
    """Whether an entry of `exclude` covers a relation."""
    return any(matches(pattern, ref) for pattern in scope.exclude)


def matches(pattern: str, ref: TableRef) -> bool:
    """Whether a pattern (`*`, `?`, `[abc]`; case matters) covers a relation; its own name, as it is, always does."""
    whole = str(ref) if "." in pattern else ref.name
    return pattern in (ref.name, str(ref)) or fnmatch.fnmatchcase(whole, pattern)


def _enabled(
    entries: Sequence[str], refs: set[TableRef], catalog: str | None
) -> tuple[set[TableRef], list[ObjectProblem]]:
    by_name: dict[str, list[TableRef]] = {}
    for ref in refs:
        for name in {ref.name, str(ref)}:
            by_name.setdefault(name, []).append(ref)
    found: set[TableRef] = set()
    problems: list[ObjectProblem] = []
    for entry in entries:
        parts = parse_name(entry)
        # An unquoted dot may also be part of the name itself: `a.b` finds the table `a.b` too.
        candidates = by_name.get(parts[-1], []) + by_name.get(entry, [])
        hits = {ref for ref in candidates if _names(parts, entry, ref, catalog)}
        found |= hits
        if not hits:
            problems.append(_no_match("enabled_tables", entry, refs))
    return found, problems


def _names(parts: tuple[str, ...], entry: str, ref: TableRef, catalog: str | None) -> bool:
    if entry in (ref.name, str(ref)):
        return True
    if len(parts) > 3 or parts[-1] != ref.name:
        return False
    if len(parts) > 1 and ref.schema is not None and parts[-2] != ref.schema:
        return False
    return not (len(parts) == 3 and catalog is not None and parts[0] != catalog)


def _included(patterns: Sequence[str], refs: set[TableRef]) -> tuple[set[TableRef], list[ObjectProblem]]:
    found: set[TableRef] = set()
    problems: list[ObjectProblem] = []
    for pattern in patterns:
        hits = {ref for ref in refs if matches(pattern, ref)}
        found |= hits
        if not hits:
            problems.append(_no_match("include", pattern, refs))
    return found, problems


def _no_match(key: str, entry: str, refs: Iterable[TableRef]) -> ObjectProblem:
    near = did_you_mean(entry, (str(ref) for ref in refs))
    tail = f": did you mean `{near}`?" if near else ""
    return ObjectProblem(None, "scope", f"`{entry}` in `{key}` matches no table in scope{tail}")


def _no_schema(name: str, present: Iterable[str]) -> ObjectProblem:
    near = did_you_mean(name, present)
    tail = f": did you mean `{near}`?" if near else ""
    return ObjectProblem(None, "schema", f"schema `{name}` holds no table this role can see{tail}")


def _texts(options: Mapping[str, Any], key: str) -> tuple[str, ...]:
    value = options.get(key)
    if value is None:
        return ()
    values = [value] if isinstance(value, str) else value
    if not isinstance(values, list | tuple) or not all(isinstance(each, str) and each.strip() for each in values):
        raise ConfigError(f"`{key}` must be a list of names", hint=f"write it as: {key}: [first, second]")
    return tuple(each.strip() for each in values)


def _quoted_part(rest: str, entry: str) -> tuple[str, str]:
    position = 1
    while (end := rest.find('"', position)) >= 0:
        if rest[end + 1 : end + 2] != '"':
            return rest[1:end].replace('""', '"'), rest[end + 1 :]
        position = end + 2
    raise _bad_name(entry)


def _bad_name(entry: str) -> ConfigError:
    return ConfigError(
        f"`{entry}` in `enabled_tables` is not a table name",
        hint='write schema.table, and quote a part that holds a dot or a quote: public."a.b"',
    )
