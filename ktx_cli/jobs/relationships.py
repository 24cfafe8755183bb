"""The joins that scans found and nobody declared: listing them from the project's files, finding one by its name."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from ktx_cli.context.scan.catalog import ParsedCopies, shard_files
from ktx_cli.context.scan.review import Review, ReviewedEdge, Standing, edges_named, read_review
from ktx_cli.core.errors import KtxError, NotReadyError, ResultWarning, UsageError
from ktx_cli.core.text import did_you_mean, listing, one_line, shell_words
from ktx_cli.project.files import read_bytes
from ktx_cli.project.layout import Layout

COMMAND = "ktx scan relationships"
SHOWN = frozenset({Standing.ACCEPTED, Standing.MANUAL, Standing.REVIEW})
"""What is listed unless something else is asked for."""

Typed = Callable[[ReviewedEdge], str]
"""Makes the command that names an edge, for hints."""


class WorkingFiles:
    """The project's files as they are on disk, in the shape a scan reads a commit in."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return path -> content of those that exist."""
        contents = ((path, read_bytes(self._root / path)) for path in paths)
        return {path: content for path, content in contents if content is not None}

    def blobs(self, prefix: str) -> Mapping[str, str]:
        """Return the paths of everything below a folder; nobody asks for the ids."""
        folder = self._root / prefix
        found = folder.rglob("*") if folder.is_dir() else ()
        return {path.relative_to(self._root).as_posix(): "" for path in found if path.is_file()}


@dataclass(frozen=True, slots=True)
class Listed:
    """The edges that were asked for, and how many joins foreign keys declare."""

    edges: list[ReviewedEdge]
    declared: int
    warnings: list[ResultWarning]


def list_relationships(
    layout: Layout,
    connections: Sequence[str] = (),
    *,
    statuses: Collection[Standing] = SHOWN,
    table: str | None = None,
) -> Listed:
    """Return the edges of connections (none: of all), from the working tree; nothing is written, git does not run.

    Raises `UsageError` for an unknown connection or table, `NotReadyError` where no scan has looked at rows.
    """
    from ktx_cli.jobs.ingest.targets import choose_targets
    from ktx_cli.project.config import load_config

    loaded = load_config(layout.config)
    ids = [target.connection for target in choose_targets(layout, loaded.config, connections, databases_only=True)]
    reviews = read_reviews(layout, ids, connections)
    edges = [edge for review in reviews for edge in (*review.edges, *review.declared)]
    if table is not None:
        edges = _of_table(edges, table)
    warnings = [*loaded.notices(), *(warning for review in reviews for warning in review.warnings)]
    declared = sum(edge.standing is Standing.DECLARED for edge in edges)
    return Listed([edge for edge in edges if edge.standing in statuses], declared, warnings)


def read_reviews(layout: Layout, connections: Sequence[str], typed: Sequence[str]) -> list[Review]:
    """Return what is found and decided, from the working tree; errors as `require_some`."""
    files = WorkingFiles(layout.root)
    reviews = [read_review(files, each, ParsedCopies(layout, each)) for each in connections]
    return require_some(layout, reviews, connections, typed)


def require_some(
    layout: Layout, reviews: Sequence[Review | None], connections: Sequence[str], typed: Sequence[str]
) -> list[Review]:
    """Return those that there are; `NotReadyError` when there is none, with what to do first.

    `connections`: those that were looked at; `typed`: the same where they were asked for by name.
    """
    found = [review for review in reviews if review is not None]
    if found:
        return found
    what = listing((f"connection `{each}`" for each in typed), 3) or "no database"
    if any(shard_files(layout, each) for each in connections):
        yet = "has not been profiled" if typed else "has been profiled yet"
        raise NotReadyError(f"{what} {yet}", hint=shell_words("ktx", "scan", *typed, "--depth", "profile"))
    said = "has not been scanned" if typed else "has been scanned yet"
    raise NotReadyError(f"{what} {said}", hint=shell_words("ktx", "scan", *typed))


def edge_names(root: Path, connections: Sequence[str]) -> list[str]:
    """Return the names of all edges, for a shell to complete; a connection that cannot be read has none."""
    names = []
    for connection in connections:
        try:
            review = read_review(WorkingFiles(root), connection, ParsedCopies(Layout(root), connection))
        except KtxError:  # a shell cannot show an error in the middle of a line; the command itself will
            continue
        names += [edge.name for edge in review.edges] if review is not None else []
    return list(dict.fromkeys(names))


def find_edge(word: str, edges: Sequence[ReviewedEdge], typed: Typed) -> ReviewedEdge:
    """Return the one edge a word names; `UsageError` for none (with the nearest) or several (with all)."""
    found = edges_named(word, edges)
    if len(found) == 1:
        return found[0]
    shown = one_line(word, 120)
    if not found:
        raise UsageError(f"no scan found a relationship `{shown}`", hint=_nearest(word, edges, typed))
    connections = list(dict.fromkeys(each.connection for each in found))
    if len(connections) > 1:
        raise UsageError(f"`{shown}` is in several connections: {listing(connections)}", hint=typed(found[0]))
    raise UsageError(f"`{shown}` could be {listing(each.name for each in found)}", hint=typed(found[0]))


def _nearest(word: str, edges: Sequence[ReviewedEdge], typed: Typed) -> str:
    """Return the command with the edge that is meant, most likely; a shell cuts an unquoted name at its `>`."""
    names = {each.name: each for each in edges}
    begun = [name for name in names if word.endswith("-") and name.startswith(word)]
    near = begun[0] if begun else did_you_mean(word, names)
    return f"{COMMAND} --status all" if near is None else typed(names[near])


def _of_table(edges: Sequence[ReviewedEdge], table: str) -> list[ReviewedEdge]:
    found = [edge for edge in edges if table in edge.tables]
    if not found:
        near = did_you_mean(table, sorted({name for edge in edges for name in edge.tables}))
        hint = f"{COMMAND} --status all" if near is None else shell_words(*COMMAND.split(), "--table", near)
        raise UsageError(f"no relationship of a table `{one_line(table, 120)}` was found", hint=hint)
    return found
