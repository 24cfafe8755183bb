"""The work a dbt project leaves to agents: what the rules could not place, of the files that changed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from pathlib import PurePosixPath
from typing import Final

from ktx_cli.context.semantic.interchange.dbt.importing import UNKNOWN_TABLE
from ktx_cli.context.semantic.interchange.result import Fidelity, Kind
from ktx_cli.context.sources.dbt.facts import KNOWN_TYPES
from ktx_cli.context.sources.dbt.manifest import PATH
from ktx_cli.context.sources.dbt.project import CONFIGURATION, DISABLED, EPHEMERAL, STEERS
from ktx_cli.context.sources.model import Changes, Snapshot, WorkUnit
from ktx_cli.core.text import one_line, plural

SMALL: Final = 25
"""Files to read of a project that one agent works through as a whole."""

MOST_PEERS: Final = 200
_MOST_NOTES: Final = 40
NO_TABLE: Final = "no scanned database has its table"
SEVERAL_TABLES: Final = "several scanned tables could be its own"
INERT: Final = frozenset({STEERS, KNOWN_TYPES, EPHEMERAL, DISABLED, UNKNOWN_TABLE, NO_TABLE, SEVERAL_TABLES})
"""Reasons for leaving something out that no agent can do anything about."""


def losses(report: Iterable[Fidelity]) -> dict[str, list[Fidelity]]:
    """Return what the rules could not keep, by file, as far as an agent may do better."""
    found: defaultdict[str, list[Fidelity]] = defaultdict(list)
    for each in report:
        if each.kind is not Kind.KEPT and each.why not in INERT:
            found[each.place.path].append(each)
    return dict(found)


def handled(snapshot: Snapshot, report: Iterable[Fidelity]) -> frozenset[str]:
    """Return the files of which nothing is left: settings, and YAML that was wholly projected."""
    open_files = losses(report)
    return frozenset(path for path in snapshot.files if is_setting(path) or (_is_yaml(path) and path not in open_files))


def is_setting(path: str) -> bool:
    """Say whether a file says how dbt runs, or is the compiled manifest."""
    return path == PATH or (_is_yaml(path) and PurePosixPath(path).stem in CONFIGURATION)


def _is_yaml(path: str) -> bool:
    return path.endswith((".yml", ".yaml"))


def units(
    snapshot: Snapshot, changes: Changes, done: frozenset[str], report: Iterable[Fidelity]
) -> tuple[WorkUnit, ...]:
    """Return the units of what changed: one for a small project, else one a file; a peer that changed starts none."""
    readable = [path for path in snapshot.files if not is_setting(path)]
    touched = [path for path in readable if path in changes.touched and path not in done]
    if not touched:
        return ()
    notes = losses(report)
    settings = tuple(path for path in snapshot.files if is_setting(path) and path != PATH)
    if len(readable) <= SMALL:
        others = tuple(path for path in readable if path not in touched)
        said = "\n".join(filter(None, (note(path, notes.get(path, ())) for path in touched)))
        label = f"dbt project, {plural(len(touched), 'file')}"
        return (WorkUnit("dbt-all", label, tuple(touched), (*settings, *others), notes=said),)
    return tuple(
        WorkUnit(f"dbt-{path}", path, (path,), settings, _peers(path, readable), note(path, notes.get(path, ())))
        for path in touched
    )


def _peers(path: str, readable: Iterable[str]) -> tuple[str, ...]:
    """Return the files nearest to one: those that share most of its folders."""
    own = PurePosixPath(path).parts[:-1]

    def distance(other: str) -> tuple[int, str]:
        shared = 0
        for one, two in zip(own, PurePosixPath(other).parts[:-1], strict=False):
            if one != two:
                break
            shared += 1
        return -shared, other

    return tuple(sorted(sorted((each for each in readable if each != path), key=distance)[:MOST_PEERS]))


def note(path: str, lost: Iterable[Fidelity]) -> str:
    """Return what an agent should know of a file: what of it no rule could place."""
    several = list(lost)
    if not several:
        return ""
    lines = [f"- line {each.place.line}: {each.what}: {one_line(each.why, 160)}" for each in several[:_MOST_NOTES]]
    rest = [f"- and {len(several) - _MOST_NOTES} more"] if len(several) > _MOST_NOTES else []
    return "\n".join([f"Already written by rules: all of {path} but this:", *lines, *rest])
