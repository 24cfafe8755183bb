"""The artifacts that an arm can leave out (pages, measures, sources and decisions), and their removal."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from typing import Any, Final

from ktx_cli.core import Command, ConfigError, Record, UsageError, did_you_mean, listing, yaml
from ktx_cli.project import SEMANTIC_NAME, Edit, Tree, WorkingTree, Workspace, apply, lookup
from ktx_cli.semantic import Model
from ktx_cli.wiki import GLOBAL, load_wiki


class ArtifactKind(StrEnum):
    """The kind of an artifact."""

    PAGE = "page"
    MEASURE = "measure"
    SOURCE = "source"
    DECISION = "decision"


@dataclass(frozen=True, slots=True, order=True)
class Artifact(Record):
    """A part of the context that an arm leaves out.

    `name` is a page key, `source.measure`, a source, or a decision point. `touches` are the names of a decision's page
    and of the measures that follow it.
    """

    kind: ArtifactKind
    name: str
    connection: str = ""
    touches: tuple[str, ...] = field(default=(), compare=False)

    @property
    def id(self) -> str:
        """The name in reports, such as `page:revenue`."""
        return f"{self.kind.value}:{self.name}"

    @property
    def words(self) -> tuple[str, ...]:
        """The names by which tool results show the artifact."""
        return (self.name.rpartition(".")[2] if self.kind is ArtifactKind.MEASURE else self.name, *self.touches)

    json_keys = ("id", "kind", "name", "connection")


def list_artifacts(tree: WorkingTree, models: Mapping[str, Model]) -> list[Artifact]:
    """Return all artifacts that can be left out: shared pages, measures and sources."""
    pages = (page for page in load_wiki(tree).pages.values() if page.scope == GLOBAL)
    found = [Artifact(ArtifactKind.PAGE, page.key) for page in pages]
    for connection, model in models.items():
        for source in model.sources.values():
            found.append(Artifact(ArtifactKind.SOURCE, source.name, connection))
            found += [
                Artifact(ArtifactKind.MEASURE, f"{source.name}.{measure}", connection) for measure in source.measures
            ]
    return sorted(set(found))


_GROUPS: Final = {
    "pages": (ArtifactKind.PAGE,),
    "measures": (ArtifactKind.MEASURE,),
    "decisions": (ArtifactKind.DECISION,),
    "all": (ArtifactKind.PAGE, ArtifactKind.MEASURE, ArtifactKind.DECISION),
}
"""The keywords of `--ablate`. Sources are only ablated by name, because most questions need most of them."""


def choose_artifacts(known: Sequence[Artifact], wanted: Sequence[str]) -> list[Artifact]:
    """Return the artifacts for the values of `--ablate`. Raises `UsageError` for an unknown value."""
    chosen: set[Artifact] = set()
    for word in wanted:
        kinds = _GROUPS.get(word)
        named = [each for each in known if (each.kind in kinds if kinds else word in (each.id, each.name))]
        if not named and kinds is None:
            names = [*_GROUPS, *(each.id for each in known), *(each.name for each in known)]
            near = did_you_mean(word, names)
            hint = Command("proof", "--ablate", near) if near else f"for example: {listing(names, 8)}"
            raise UsageError(f"the context has no page, measure, source or decision `{word}`", hint=hint)
        if kinds is None and len({each.kind for each in named}) > 1:
            hint = Command("proof", "--ablate", named[0].id)
            raise UsageError(f"`{word}` is ambiguous: {listing(each.id for each in named)}", hint=hint)
        chosen.update(named)
    return sorted(chosen)


_Place = tuple[str | int, ...]
"""The path of a value in a document: keys and indices."""

_WORDS: Final = re.compile(r"\w+")


class LayerFiles:
    """The parsed files of a connection's semantic layer, for removing artifacts from them."""

    def __init__(self, tree: Tree, connection: str) -> None:
        self._documents: dict[str, Any] = {}
        for path in tree.paths(f"{SEMANTIC_NAME}/{connection}/"):
            if path.endswith((".yaml", ".yml")):
                try:
                    self._documents[path] = yaml.load(tree.read(path) or b"", where=path)
                except ConfigError:  # it defines nothing; `Model.problems` lists the error
                    continue
        self._words = sum(map(_words_of, self._documents.values()), Counter[str]())

    def leave_out(self, tree: Workspace, artifact: Artifact) -> None:
        """Remove a measure or a source, in an overlay on top of these files."""
        for path, edits in self._edits(artifact).items():
            if edits is None:
                tree.delete(path)
            elif edits:
                tree.write(path, apply(tree.read(path) or b"", edits, where=path))

    def names_elsewhere(self, measure: Artifact) -> bool:
        """Whether the name of a measure occurs outside its own definition, so that something may use it.

        Words in descriptions count too, so that only False is certain.
        """
        name = measure.name.rpartition(".")[2].casefold()
        if _WORDS.fullmatch(name) is None:
            return True
        own = 0
        for path, edits in self._edits(measure).items():
            own += sum(_words_of(lookup(self._documents[path], edit.path)[1])[name] for edit in edits or ())
        return self._words[name] != own

    def _edits(self, artifact: Artifact) -> dict[str, list[Edit] | None]:
        """Return path -> the edits that remove an artifact, or None to delete the file."""
        found: dict[str, list[Edit] | None] = {}
        source, _, measure = artifact.name.rpartition(".")
        for path, document in self._documents.items():
            if artifact.kind is ArtifactKind.MEASURE:
                places = _entries(document, source) if _defines(document, source) else ()
                found[path] = [edit for place, entry in places for edit in _measure_edits(place, entry, measure)]
                continue
            own = [place for place, _ in _entries(document, artifact.name)]
            joins = reversed(list(_joins(document, artifact.name)))
            found[path] = None if () in own else [Edit("delete", place) for place in (*reversed(own), *joins)]
        return found


def _words_of(value: Any) -> Counter[str]:
    """Count the words in the keys and values of a document, ignoring case."""
    words: Counter[str] = Counter()
    if isinstance(value, dict):
        for key, item in value.items():
            words += _words_of(key)
            words += _words_of(item)
    elif isinstance(value, list):
        for item in value:
            words += _words_of(item)
    elif isinstance(value, str):
        words.update(_WORDS.findall(value.casefold()))
    return words


def _defines(document: Any, source: str) -> bool:
    """Whether an overlay file or manifest file defines a source."""
    if not isinstance(document, dict):
        return False
    tables = document.get("tables")
    return document.get("name") == source or (isinstance(tables, dict) and source in tables)


def _entries(value: Any, source: str, path: tuple[str | int, ...] = ()) -> Iterator[tuple[tuple[str | int, ...], Any]]:
    """Yield the mappings in a document that define a source, with their paths."""
    if isinstance(value, dict):
        own = value.get("name")
        if (isinstance(own, str) and own == source) or (path and path[-1] == source):
            yield path, value
            return
        for key, item in value.items():
            yield from _entries(item, source, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            yield from _entries(item, source, (*path, index))


def _measure_edits(path: tuple[str | int, ...], entry: Mapping[Any, Any], measure: str) -> list[Edit]:
    """Return the edits that remove a measure from all lists in an entry, last items first."""
    edits = []
    for key, items in entry.items():
        if not (isinstance(key, str) and key.endswith("measures") and isinstance(items, list)):
            continue
        places = [at for at, item in enumerate(items) if isinstance(item, dict) and item.get("name") == measure]
        edits += [Edit("delete", (*path, key, at)) for at in reversed(places)]
    return edits


def _joins(value: Any, source: str, path: tuple[str | int, ...] = ()) -> Iterator[tuple[str | int, ...]]:
    """Yield the paths of joins to a source in document order."""
    if isinstance(value, dict):
        for key, item in value.items():
            if key != source:
                yield from _joins(item, source, (*path, key))
    elif isinstance(value, list):
        for index, item in enumerate(value):
            if path and path[-1] == "joins" and isinstance(item, dict) and item.get("to") == source:
                yield (*path, index)
            else:
                yield from _joins(item, source, (*path, index))
