"""The `usage` of tables in the manifest, written without a model: how often, by what, with what else."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import date
from typing import Any, Final

from ktx_cli.core import ResultWarning
from ktx_cli.project import Workspace
from ktx_cli.semantic import Model, Source, parse_shard, quoted
from ktx_cli.sources import ownership as owned
from ktx_cli.sources.ownership import Pointer, Steps, steps_of, text_of
from ktx_cli.sources.query_history import model as buckets
from ktx_cli.sources.query_history.model import Coverage

MAX_ITEMS: Final = 10
"""Filters, groupings and joins that are told of a table."""

TIER: Final = "frequencyTier"
STALE: Final = "staleSince"
NARRATIVE: Final = "narrative"

Owned = Mapping[str, Mapping[str, str]]
"""File -> what of it is the source's, see `ktx_cli.sources.ownership`."""


@dataclass(frozen=True, slots=True)
class UsageWritten:
    """What became of the manifest's files. `kept`: items that somebody wrote otherwise, as file: pointer."""

    changed: frozenset[str] = frozenset()
    owned: Owned = field(default_factory=dict)
    kept: tuple[str, ...] = ()

    def warnings(self, connection: str) -> tuple[ResultWarning, ...]:
        """Return what a person should know of it."""
        if not self.kept:
            return ()
        return (
            ResultWarning(
                "query_history_kept",
                f"query history of `{connection}`: {len(self.kept)} items of `usage` were changed by hand and stay",
                items=list(self.kept),
            ),
        )


@dataclass(frozen=True, slots=True)
class Absence:
    """What is said of tables that no query reads. `in_scope`: names of the sources whose queries count."""

    coverage: Coverage
    in_scope: frozenset[str]
    today: date


def usage_of(table: Mapping[str, Any]) -> dict[str, Any]:
    """Return the `usage` of a table from its raw file, without what only a model can say."""
    usage: dict[str, Any] = {TIER: table["frequency"]}
    lists = {
        "commonFilters": _often(table.get("filters", ())),
        "commonGroupBys": _often(table.get("group_bys", ())),
        "commonJoins": [_join(join) for join in table.get("joins", ()) if _is_often(join["frequency"])][:MAX_ITEMS],
    }
    return usage | {key: items for key, items in lists.items() if items}


def _often(items: Iterable[tuple[str, str]]) -> list[str]:
    return [text for text, tier in items if _is_often(tier)][:MAX_ITEMS]


def _is_often(tier: str) -> bool:
    return tier in (buckets.HIGH, buckets.MID)


def _join(join: Mapping[str, Any]) -> dict[str, Any]:
    other = join["source"] or join["with"]
    place = quoted(other) if join["source"] else other
    return {"table": other, "on": [f"{quoted(own)} = {place}.{quoted(theirs)}" for own, theirs in join["on"]]}


def write_usage(
    workspace: Workspace, model: Model, tables: Iterable[Mapping[str, Any]], owned_before: Owned, absence: Absence
) -> UsageWritten:
    """Bring the `usage` of every source of the manifest to what the raw files of tables say.

    A table that no query reads is `unused` since the day that was first seen; its narrative stays. Where absence
    proves nothing, what was written of it before stays as it is.
    """
    seen = {str(table["source"]): usage_of(table) for table in tables if table.get("source")}
    by_file: dict[str, list[Source]] = {path: [] for path in owned_before}
    for source in model.sources.values():
        if source.generated and source.place is not None:
            by_file.setdefault(source.place.path, []).append(source)
    writing = _Writing(workspace, seen, absence)
    for path, sources in sorted(by_file.items()):
        writing.write(path, sources, owned_before.get(path, {}))
    return UsageWritten(frozenset(writing.changed), writing.owned, tuple(writing.kept))


def write_narratives(
    workspace: Workspace, model: Model, narratives: Mapping[str, str], owned_before: Owned
) -> UsageWritten:
    """Put the narratives agents wrote (source name -> text) into the manifest, and nothing else."""
    by_file: dict[str, dict[Pointer, Any]] = {}
    for name, text in sorted(narratives.items()):
        source = model.sources.get(name)
        if source is not None and source.generated and source.place is not None:
            by_file.setdefault(source.place.path, {})[("tables", name, "usage", NARRATIVE)] = text
    result: dict[str, Mapping[str, str]] = dict(owned_before)
    changed, kept = set(), []
    for path, wanted in by_file.items():
        before, known = workspace.read(path), owned_before.get(path, {})
        pointers = [text_of(steps_of(pointer)) for pointer in wanted]
        mine = {pointer: known[pointer] for pointer in pointers if pointer in known}
        done = owned.apply(before, wanted, mine, where=path)
        result[path] = {**known, **done.owned}
        kept += [f"{path}: {pointer}" for pointer in done.kept]
        if done.text is not None and done.text != before:
            workspace.write(path, done.text)
            changed.add(path)
    return UsageWritten(frozenset(changed), result, tuple(kept))


class _Writing:
    def __init__(self, workspace: Workspace, seen: Mapping[str, Mapping[str, Any]], absence: Absence) -> None:
        self._workspace = workspace
        self._seen = seen
        self._absence = absence
        self.changed: set[str] = set()
        self.owned: dict[str, Mapping[str, str]] = {}
        self.kept: list[str] = []

    def write(self, path: str, sources: Iterable[Source], known: Mapping[str, str]) -> None:
        before = self._workspace.read(path)
        if before is None:
            return
        entries = parse_shard(before, path).tables
        wanted: dict[Pointer, Any] = {}
        for source in sources:
            present = entries.get(source.name, {}).get("usage")
            wanted |= self._wanted(source.name, present if isinstance(present, dict) else {}, known)
        if not wanted and not known:
            return
        done = owned.apply(before, wanted, known, where=path)
        self.owned[path] = done.owned
        self.kept += [f"{path}: {pointer}" for pointer in done.kept]
        if done.text is not None and done.text != before:
            self._workspace.write(path, done.text)
            self.changed.add(path)

    def _wanted(self, name: str, present: Mapping[str, Any], known: Mapping[str, str]) -> dict[Pointer, Any]:
        base: Steps = ("tables", name, "usage")
        mine = {steps[3] for pointer in known if (steps := steps_of(pointer))[:3] == base and len(steps) == 4}
        usage = self._usage(name, present, mine)
        if NARRATIVE in mine and NARRATIVE in present:
            usage = {NARRATIVE: present[NARRATIVE], **usage}
        return {(*base, key): value for key, value in usage.items()}

    def _usage(self, name: str, present: Mapping[str, Any], mine: set[str]) -> dict[str, Any]:
        if name in self._seen:
            return dict(self._seen[name])
        coverage = self._absence.coverage if self._seen else Coverage.PART
        if coverage is Coverage.PART:
            return {key: present[key] for key in mine if key in present}
        if name not in self._absence.in_scope or (coverage is Coverage.LISTED and TIER not in mine):
            return {}
        since = present.get(STALE)
        return {TIER: buckets.UNUSED, STALE: since if isinstance(since, str) else self._absence.today.isoformat()}
