"""Divide documents into work units: one per document, small neighbours together, and long ones in parts."""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import PurePosixPath
from typing import Any, ClassVar, Final

from ktx_cli import documents
from ktx_cli.core import plural
from ktx_cli.documents import Snapshot
from ktx_cli.project import SEMANTIC_NAME
from ktx_cli.sources.port import ProjectContext, Projection, Source

SPAN_CHARACTERS: Final = 40_000
"""The maximum length of a unit's text. A longer document becomes several units."""

GROUP_CHARACTERS: Final = 20_000
"""The maximum total length of a unit with several documents."""

_CONVERTED: Final = frozenset((".html", ".htm", ".pdf"))
"""Extensions of files for which line numbers refer to the Markdown made from them rather than to the files."""

_EARLIEST_CUT: Final = 0.6
_MOST_PEERS: Final = 100
_SMALLEST_PACKED: Final = 8_000


class DocumentSource(Source):
    """A source of documents, whose formulas become proposed measures."""

    documents: ClassVar[bool] = True

    def project(self, entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
        """Write the catalog and the formulas of the documents."""
        from ktx_cli.sources.formulas import write_formulas

        projection = super().project(entry, snapshot, context)
        definitions = {path: items for path, items in context.owned.items() if path.startswith(f"{SEMANTIC_NAME}/")}
        written, report = write_formulas(snapshot, replace(context, owned=definitions))
        artifacts = {**written.artifacts, **projection.artifacts}
        warnings = (*projection.warnings, *written.warnings)
        return replace(
            projection,
            artifacts=artifacts,
            owned={**projection.owned, **written.owned},
            report=report,
            warnings=warnings,
        )


@dataclass(frozen=True, slots=True)
class Grouping:
    """The rules for sharing a unit: at least `minimum` documents of one group, none longer than `small` characters."""

    minimum: int
    small: int


NEIGHBOURS: Final = Grouping(minimum=2, small=10_000)
"""The files of one folder."""

PAGES: Final = Grouping(minimum=5, small=4_000)
"""The child pages of one page."""


def document_units(
    snapshot: documents.Snapshot,
    changes: documents.Changes,
    grouping: Grouping,
    group_of: Callable[[documents.RawFile], str],
    depends: Callable[[documents.RawFile], Iterable[str]] = lambda raw: (),
) -> tuple[documents.WorkUnit, ...]:
    """Return the units for added and modified documents, sorted by their first file.

    `group_of` returns a document's folder or parent; `depends` returns the files that explain it.
    """
    touched = [snapshot.files[path] for path in sorted(changes.touched) if path in snapshot.files]
    groups: dict[str, list[documents.RawFile]] = {}
    for raw in touched:
        groups.setdefault(group_of(raw), []).append(raw)
    peers = _neighbours(snapshot)
    made = [unit for name, members in groups.items() for unit in _units(name, members, grouping, peers, depends)]
    return tuple(sorted(made, key=lambda unit: unit.files[0]))


def _neighbours(snapshot: documents.Snapshot) -> Callable[[Sequence[str]], tuple[str, ...]]:
    folders: dict[str, list[str]] = {}
    for path in sorted(snapshot.files):
        folders.setdefault(_folder(path), []).append(path)

    def peers(paths: Sequence[str]) -> tuple[str, ...]:
        others = (path for path in folders[_folder(paths[0])] if path not in paths)
        return tuple(itertools.islice(others, _MOST_PEERS))

    return peers


def _folder(path: str) -> str:
    return PurePosixPath(path).parent.as_posix()


def _units(
    name: str,
    members: Sequence[documents.RawFile],
    grouping: Grouping,
    peers: Callable[[Sequence[str]], tuple[str, ...]],
    depends: Callable[[documents.RawFile], Iterable[str]],
) -> Iterator[documents.WorkUnit]:
    small = [raw for raw in members if raw.size <= grouping.small]
    shared = small if len(small) >= grouping.minimum else []
    for group in _packed(shared):
        paths = tuple(raw.path for raw in group)
        needs = sorted({path for raw in group for path in depends(raw)} - set(paths))
        if len(group) == 1:
            yield documents.WorkUnit(paths[0], paths[0], paths, tuple(needs), peers(paths))
        else:
            yield documents.WorkUnit(_key(name, paths), _label(name, paths), paths, tuple(needs), peers(paths))
    for raw in members:
        if raw not in shared:
            yield from _spans(raw, tuple(sorted(depends(raw))), peers((raw.path,)))


def _packed(files: Sequence[documents.RawFile]) -> Iterator[list[documents.RawFile]]:
    group: list[documents.RawFile] = []
    for raw in files:
        if group and sum(each.size for each in group) + raw.size > GROUP_CHARACTERS:
            yield group
            group = []
        group.append(raw)
    if group:
        yield group


def _key(name: str, paths: Sequence[str]) -> str:
    digest = hashlib.sha256("\n".join(paths).encode()).hexdigest()[:8]
    return f"{name or '.'}/{plural(len(paths), 'document').replace(' ', '-')}-{digest}"


def _label(name: str, paths: Sequence[str]) -> str:
    return f"{plural(len(paths), 'document')} of {name}" if name else f"{plural(len(paths), 'document')}"


def _spans(raw: documents.RawFile, needs: tuple[str, ...], peers: tuple[str, ...]) -> Iterator[documents.WorkUnit]:
    spans = _line_spans(_text(raw))
    if len(spans) == 1:
        yield documents.WorkUnit(raw.path, raw.path, (raw.path,), needs, peers)
        return
    for number, (first, last) in enumerate(spans, start=1):
        part = f"part {number} of {len(spans)}"
        notes = (
            f"This is {part} of {raw.path}: work through its lines {first} to {last}, as read_raw_span counts them. "
            f"The other lines are the work of other agents; read them only if a line here needs them."
        )
        yield documents.WorkUnit(
            f"{raw.path}:{number}-of-{len(spans)}", f"{raw.path}, {part}", (raw.path,), needs, peers, notes=notes
        )


def _text(raw: documents.RawFile) -> str:
    """Return a document's text in the form that agents read if it may be too long for a unit; empty if unreadable."""
    suffix = PurePosixPath(raw.path).suffix.lower()
    if raw.size <= (_SMALLEST_PACKED if suffix == ".pdf" else SPAN_CHARACTERS):
        return ""
    if suffix not in _CONVERTED:
        return raw.text()
    try:
        return documents.read_document(raw).markdown
    except documents.UnreadableDocumentError:
        return ""


def _line_spans(text: str) -> list[tuple[int, int]]:
    """Return the first and last line numbers of parts, split at headings, else at blank lines, else anywhere."""
    lines = text.removesuffix("\n").split("\n")
    if len(text) <= SPAN_CHARACTERS:
        return [(1, len(lines))]
    headings = {number for number, line in documents.outside_fences(text) if documents.is_heading(line)}
    spans: list[tuple[int, int]] = []
    first = 0
    while first < len(lines):
        end = _span_end(lines, first, headings)
        spans.append((first + 1, end))
        first = end
    return spans


def _span_end(lines: Sequence[str], first: int, headings: set[int]) -> int:
    """Return the line number after the end of a part that begins at `first`."""
    length = 0
    at_heading = at_blank = 0
    for number in range(first, len(lines)):
        if number > first and length + len(lines[number]) + 1 > SPAN_CHARACTERS:
            return at_heading or at_blank or number
        if number > first and length > _EARLIEST_CUT * SPAN_CHARACTERS:
            at_heading = number if number in headings else at_heading
            at_blank = number + 1 if not lines[number].strip() else at_blank
        length += len(lines[number]) + 1
    return len(lines)
