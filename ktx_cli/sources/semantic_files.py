"""Imported files as items of a connection's files: what people wrote in the same files stays theirs."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import KtxError, ResultWarning, listing, yaml
from ktx_cli.project import SCHEMA_NAME, Layout, Tree, Workspace
from ktx_cli.semantic import IMPORT_HEADER, Fidelity, Kind, Model, load_tree, read_files, text_of
from ktx_cli.sources import ownership
from ktx_cli.sources import ownership as owned
from ktx_cli.sources.ownership import Steps, join_step
from ktx_cli.sources.port import ProjectContext

_NAMED: Final = ("columns", "measures", "segments", "policies", "parameters", "joins")
"""Lists of which every item is owned as a whole."""

_BY_TOOL: Final = ("descriptions", "default_time_dimension", "tags", "freshness", "enum_values", "constraints", "tests")
"""Mappings by who says it, of which each entry is owned."""


@dataclass(slots=True)
class Wanted:
    """What a source wants of project files: path -> item -> value, and path -> the raw files it comes from.

    `soft`: items that may be there already as somebody else has them, which is nothing to speak of. `left`: folders
    whose files stay as they are, but for the manifest's.
    """

    items: dict[str, dict[Steps, Any]] = field(default_factory=dict)
    origins: dict[str, set[str]] = field(default_factory=dict)
    soft: set[tuple[str, str]] = field(default_factory=set)
    left: set[str] = field(default_factory=set)

    def add(self, path: str, steps: Steps, value: Any, raw: str, *, soft: bool = False) -> None:
        """Want an item; the first one that is said of it counts."""
        if soft:
            self.soft.add((path, ownership.text_of(steps)))
        self.items.setdefault(path, {}).setdefault(steps, value)
        self.origins.setdefault(path, set()).add(raw)


@dataclass(frozen=True, slots=True)
class Written:
    """What was written, as in `Projection`."""

    artifacts: Mapping[str, tuple[str, ...]]
    owned: Mapping[str, Mapping[str, str]]
    warnings: tuple[ResultWarning, ...]


def leave_broken(context: ProjectContext, connection: str, wanted: Wanted) -> ResultWarning | None:
    """Leave the files of a connection as they are where one of them cannot be read: it may be about anything.

    Returns the warning that says so, None where all can be read.
    """
    broken = next((each for each in context.models[connection].problems if each.code == "broken_source"), None)
    if broken is None:
        return None
    wanted.left.add(f"{Layout.context_paths(connection)[0]}/")
    what = f"nothing was written to the files of `{connection}`: {broken.message}"
    return ResultWarning("not_written", what, hint=broken.hint, path=broken.path)


def model_without_ours(context: ProjectContext, connection: str) -> Model:
    """Return the semantic layer of a connection as if the source had written none of its files but the manifest.

    What is imported into it then does not depend on the last import.
    """
    before, folder = context.models[connection], f"{Layout.context_paths(connection)[0]}/"
    ours = [path for path in context.owned if path.startswith(folder) and f"/{SCHEMA_NAME}/" not in path]
    if not ours:
        return before
    bare = Workspace(context.workspace)
    for path in ours:
        _take_out(bare, path, context.owned[path])
    return load_tree(bare, connection, before.dialect, before.calendar)


def _take_out(workspace: Workspace, path: str, items: Mapping[str, str]) -> None:
    try:
        text = owned.apply(workspace.read(path), {}, items, where=path).text
    except KtxError:  # a broken file is named when it is to be written
        return
    if text is None:
        workspace.delete(path)
    else:
        workspace.write(path, text)


_ORDER: Final = {Kind.KEPT: 0, Kind.APPROXIMATED: 1, Kind.DROPPED: 2}


def best_of(reports: Iterable[Iterable[Fidelity]]) -> list[Fidelity]:
    """Return the reports of one input for several connections as one: what one of them could place is placed."""
    found: dict[tuple[str, str, int], list[Fidelity]] = {}
    for report in reports:
        for each in report:
            several = found.setdefault((each.what, each.place.path, each.place.line), [])
            if several and _ORDER[each.kind] < _ORDER[several[0].kind]:
                several.clear()
            if not several or each.kind is several[0].kind:
                several.append(each)
    return list(dict.fromkeys(each for several in found.values() for each in several))


def want_files(
    files: Mapping[str, str], report: Iterable[Fidelity], connection: str, tree: Tree, tool: str, wanted: Wanted
) -> None:
    """Want the items of imported files, each in the file that has its source's name, else in the one of that import."""
    folder = Layout.context_paths(connection)[0]
    there = {file.document["name"]: file.path for file in read_files(tree, connection).own}
    raws: dict[str, set[str]] = {}
    for each in report:
        if each.target is not None:
            raws.setdefault(each.target.split(".")[0].split(" -> ")[0], set()).add(each.place.path)
    for below, text in files.items():
        document = yaml.load(text, where=below)
        name = str(document["name"])
        path = there.get(name) or _free_path(f"{folder}/{below}", tree, tool)
        for steps, value in items_of(document).items():
            for raw in sorted(raws.get(name, ())) or [""]:
                wanted.add(path, steps, value, raw)
        wanted.origins[path].discard("")


def _free_path(path: str, tree: Tree, tool: str) -> str:
    """Return the path, or one beside it where a file about another source has it."""
    content = tree.read(path)
    if content is None or text_of(content).startswith(IMPORT_HEADER.format(tool=tool)):
        return path
    try:
        document = yaml.load(content, where=path)
    except KtxError:
        return path  # it cannot be told what it is about; writing it says what is wrong
    named = document.get("name") if isinstance(document, dict) else None
    return path if named is None else f"{path.removesuffix('.yaml')}_{tool}.yaml"


def items_of(document: Mapping[str, Any]) -> dict[Steps, Any]:
    """Return the items of a source's file by pointer."""
    found: dict[Steps, Any] = {}
    for key, value in document.items():
        if key in _NAMED:
            for item in value:
                found[key, join_step(item) if key == "joins" else str(item["name"])] = item
        elif key == "column_overrides":
            for item in value:
                for steps, below in _parts({k: v for k, v in item.items() if k != "name"}).items():
                    found[(key, str(item["name"]), *steps)] = below
        else:
            found |= _parts({key: value})
    return found


def _parts(entry: Mapping[str, Any]) -> dict[Steps, Any]:
    found: dict[Steps, Any] = {}
    for key, value in entry.items():
        if key in _BY_TOOL and isinstance(value, dict):
            found |= {(key, str(tool)): below for tool, below in value.items()}
        else:
            found[(key,)] = value
    return found


def write(wanted: Wanted, context: ProjectContext, tool: str) -> Written:
    """Write what is wanted into the overlay, and take out what the source wants no more.

    A file that cannot be changed in place is left as it is, and named.
    """
    artifacts: dict[str, tuple[str, ...]] = {}
    now: dict[str, Mapping[str, str]] = {}
    warnings: list[ResultWarning] = []
    for path in sorted({*wanted.items, *context.owned}):
        before = context.owned.get(path, {})
        if f"/{SCHEMA_NAME}/" not in path and path.startswith(tuple(wanted.left)):
            now[path] = before
            continue
        try:
            applied = _apply(context.workspace, path, wanted.items.get(path, {}), before, tool)
        except KtxError as error:
            warnings.append(ResultWarning("not_written", error.message, hint=error.hint, path=path))
            now[path] = before
            continue
        if applied.owned:
            now[path] = applied.owned
            artifacts[path] = tuple(sorted(wanted.origins.get(path, ())))
        kept = [pointer for pointer in applied.kept if (path, pointer) not in wanted.soft or pointer in before]
        if kept:
            warnings.append(_kept(path, kept, tool))
    return Written(artifacts, {path: items for path, items in now.items() if items}, tuple(warnings))


def _apply(
    workspace: Workspace, path: str, items: Mapping[Steps, Any], before: Mapping[str, str], tool: str
) -> owned.Applied:
    present = workspace.read(path)
    text = present
    if present is not None and not before and text_of(present).startswith(IMPORT_HEADER.format(tool=tool)):
        text = None  # an import by hand, which says of itself that the next one replaces it
    applied = owned.apply(text, dict(items.items()), before, where=path)
    if applied.text is None and present is not None:
        workspace.delete(path)
    elif applied.text is not None and applied.text != present:
        workspace.write(path, applied.text)
    return applied


def _kept(path: str, items: list[str], tool: str) -> ResultWarning:
    what = f"{path}: {listing(items)} stay as somebody wrote them, and {tool} has them otherwise"
    hint = f"to take what {tool} says, delete them from {path} and from the `owned` of the source's manifest"
    return ResultWarning("kept", what, hint=hint, path=path, items=items)
