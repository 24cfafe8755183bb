"""The search corpus: documents for pages, definitions, values and passages, grouped into units for indexing."""

from __future__ import annotations

import functools
import hashlib
import json
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Protocol

from ktx_cli.core import KtxError, Recent, ResultWarning, escaped, is_utf8, one_line, plural, without_tables
from ktx_cli.project import SEMANTIC_NAME, Layout, Tree, WorkingTree, hash_of, signatures_below
from ktx_cli.scan import SearchTexts, read_search_texts, search_texts_path, snapshot_path
from ktx_cli.search.explanations import mention
from ktx_cli.semantic import Column, Model, is_stray, is_yaml, stray_paths
from ktx_cli.wiki import FOLDER, GLOBAL, Page, parse, place_of

if TYPE_CHECKING:
    from ktx_cli.protection import Relations
    from ktx_cli.semantic import ColumnValues, Measure, Segment, Source, VisibleModel
    from ktx_cli.wiki import Reference


KINDS: Final = ("source", "measure", "segment", "page", "column", "passage", "value")
"""The kinds of documents. For equal scores, earlier kinds, which people govern, come first."""

GOVERNED: Final = frozenset({"source", "measure", "segment", "page"})
"""The governed kinds, which always come before values."""

WORTH: Final = {"column": 0.8, "passage": 0.8, "value": 0.8}
"""The weights of other kinds relative to governed kinds (1)."""

BESIDE: Final = 0.25
"""The weight of a text that only adds to the score of other matches."""


@dataclass(frozen=True, slots=True)
class Field:
    """A text in a document. `weight` is relative to the weight of a description (1)."""

    name: str
    text: str
    weight: float = 1.0


@dataclass(frozen=True, slots=True)
class Document:
    """A searchable document with an `id` and a one-sentence `summary`.

    `order` breaks ties of the score. `owner` is the user that it belongs to, or empty for shared documents. `internal`
    documents are only found on request. `tags` and `mentions` (names of semantic layers) belong to pages.
    """

    kind: str
    id: str
    connection: str
    summary: str
    fields: tuple[Field, ...]
    order: int = 0
    owner: str = ""
    internal: bool = False
    tags: tuple[str, ...] = ()
    mentions: tuple[str, ...] = ()
    worth: float = 1.0


@dataclass(frozen=True, slots=True)
class Scope:
    """The scope of a search: kinds and a connection (all if empty), and documents that are shared or belong to `user`.

    A page without a connection is in the scope of every connection. A page of the user replaces the shared page with
    that name. `internal` includes internal documents. `tag` only includes pages with the tag.
    """

    kinds: Collection[str] = ()
    connection: str | None = None
    user: str | None = None
    internal: bool = False
    tag: str | None = None


@dataclass(frozen=True, slots=True)
class Hit:
    """A matching document. Higher scores are better and only comparable within one search.

    `snippet` is the part of its text with the words. `matched_on` are the fields with the words, and `meaning` if its
    vector is near the query. `pages` are the keys of wiki pages that mention it.
    """

    kind: str
    id: str
    connection: str
    score: float
    summary: str
    snippet: str
    matched_on: tuple[str, ...]
    pages: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the hit as JSON for the envelope."""
        lists = {"matched_on": list(self.matched_on), "pages": list(self.pages)}
        return {**asdict(self), "score": round(self.score, 4), **lists}


@dataclass(frozen=True, slots=True)
class Found:
    """The hits of a search, best first. `corrected` maps unknown words to the words that were searched instead.

    `total` counts all matches, including those beyond the limit. `suggested` maps unknown words to possible words that
    were not searched.
    """

    hits: tuple[Hit, ...]
    total: int = 0
    corrected: Mapping[str, str] = field(default_factory=dict)
    suggested: Mapping[str, str] = field(default_factory=dict)


PAGE_NAME, PAGE_TITLE, PAGE_BODY, REFERENCE = 4.0, 2.0, 1.0, 0.5
"""The weights of a word in the key, in the title, summary and tags, in the body, and in a reference."""
PHRASE: Final = 3.0
"""The weight of questions and synonyms, which are compared as a whole."""
PROPOSED: Final = 0.85
"""The weight of a proposed definition relative to others."""

LISTED = 0.5
"""The weight of a word on a page that lists documents, relative to other pages (1)."""

_HEADING: Final = re.compile(r"^#[ \t]+(.+?)[ \t#]*$", re.MULTILINE)
_SUMMARY: Final = 200


def page_document(path: str, content: bytes) -> Document | None:
    """Return the document for a page file, or None for a path that is not a page.

    A page with invalid front matter is indexed as plain text.
    """
    place = place_of(path)
    if place is None:
        return None
    scope, key = place
    page = parse(scope, key, content)
    if not isinstance(page, Page):
        page = Page(key, scope, {}, content.decode("utf-8", "replace"))
    heading = _HEADING.search(page.body)
    title = heading[1] if heading else ""
    fields = (
        Field("key", key, PAGE_NAME),
        Field("title", title, PAGE_TITLE),
        Field("summary", page.summary, PAGE_TITLE),
        *_found_by(page),
        Field("tags", " ".join(page.tags), PAGE_TITLE),
        Field("refs", " ".join((*page.refs, *page.sl_refs, *page.texts("tables"))), REFERENCE),
        Field("body", page.body, PAGE_BODY),
    )
    summary = one_line(page.summary or title or page.body, _SUMMARY)
    owner = "" if scope == GLOBAL else scope.partition("/")[2]
    filled = tuple(each for each in fields if each.text)
    named = (mention(each.connection, each.name) for each in _named_in(page))
    mentions = tuple(dict.fromkeys(named))
    tags = tuple(page.tags)
    found = Document("page", key, "", summary, filled, KINDS.index("page"), owner, tags=tags, mentions=mentions)
    return _catalog(found, str(page.fields.get("connection") or "")) if page.is_catalog else found


def _catalog(found: Document, connection: str) -> Document:
    """Return the document for a page that lists a connection's documents, with a lower weight."""
    fields = tuple(replace(each, weight=each.weight * LISTED) for each in found.fields)
    return replace(found, connection=connection, fields=fields, order=KINDS.index("passage"))


def _named_in(page: Page) -> Iterator[Reference]:
    """Yield the references that name a source explicitly. `measure:revenue` alone is not about the source `revenue`."""
    from ktx_cli.wiki import MEMBERS, Kind, references

    for each in references(page):
        if each.kind is not Kind.PAGE and (each.kind not in MEMBERS or "." in each.name):
            yield each


def _found_by(
    entity: Page | Passage | Source | Measure | Segment | Column, written: SearchTexts | None = None
) -> tuple[Field, ...]:
    """Return the fields for questions and synonyms. `written` are those that a model wrote."""
    more = written or SearchTexts()
    questions = dict.fromkeys((*(() if isinstance(entity, Column) else entity.questions), *more.questions))
    synonyms = dict.fromkeys((*entity.synonyms, *more.synonyms))
    label = "" if isinstance(entity, Page | Passage) else entity.label or ""
    texts = {"label": label, "questions": "\n".join(questions), "synonyms": "\n".join(synonyms)}
    return tuple(Field(name, text, PHRASE) for name, text in texts.items())


Written = Mapping[str, Mapping[tuple[str, str], SearchTexts]]
"""The questions and synonyms that a model wrote, by source, and by kind and name of the definition."""


PASSAGE_TITLE, HEADING, PASSAGE_BODY = 2.0, 2.0, 1.0
_PASSAGES_SUMMARY = 200


@dataclass(frozen=True, slots=True)
class Passage:
    """A part of a document with an `id` and the headings above it.

    `questions` and `synonyms` were written by a model.
    """

    id: str
    connection: str
    title: str
    text: str
    heading: str = ""
    questions: tuple[str, ...] = ()
    synonyms: tuple[str, ...] = ()


def passage_documents(passages: Iterable[Passage]) -> Iterator[Document]:
    """Yield a document for every passage."""
    for each in passages:
        named = (Field("title", each.title, PASSAGE_TITLE), Field("heading", each.heading, HEADING))
        fields = (*named, *_found_by(each), Field("text", each.text, PASSAGE_BODY))
        filled = tuple(field for field in fields if field.text)
        summary = one_line(f"{each.title}: {each.heading}" if each.heading else each.title, _PASSAGES_SUMMARY)
        yield Document("passage", each.id, each.connection, summary, filled, KINDS.index("passage"))


VALUE: Final = "value"
VALUE_TEXT = 4.0
"""The weight of a word in a value. Words of its column only add to the score."""


@dataclass(frozen=True, slots=True)
class ListedColumn:
    """A visible column, as `source.column`, with its description and its values with their row counts."""

    name: str
    description: str | None
    values: Sequence[tuple[Any, int | None]]


def listed_values(
    shown: VisibleModel, lists: Iterable[ColumnValues], relations: Callable[[], Relations]
) -> dict[str, list[ListedColumn]]:
    """Return source -> its visible columns with a list.

    Lists of tables outside the semantic layer and of hidden columns are skipped. `relations` come from the last scan.
    """
    relations = functools.cache(relations)
    by_name = _by_name(shown.sources())
    visible = {source.name: listed_columns(shown, source, relations) for source in shown.sources()}
    found: dict[str, list[ListedColumn]] = {}
    for listed in lists:
        for source in by_name.get(listed.ref.name.casefold(), ()):
            column = source.column(listed.column) if source.is_of(listed.ref) else None
            if column is not None and column.expr is None and column.name.casefold() in visible[source.name]:
                named = ListedColumn(f"{source.name}.{column.name}", column.description, listed.values)
                found.setdefault(source.name, []).append(named)
    return found


def value_documents(connection: str, columns: Iterable[ListedColumn]) -> Iterator[Document]:
    """Yield a document for every value of the columns. Its id is the condition that selects its rows."""
    for each in columns:
        for value, count in each.values:
            yield _value(connection, each, value, count)


def listed_columns(shown: VisibleModel, source: Source, relations: Callable[[], Relations]) -> frozenset[str]:
    """Return the lower-case names of a source's columns whose values may be listed. See `values_shown`."""
    from ktx_cli.protection import values_shown

    may = values_shown(shown.model, source, relations)
    return frozenset(each.name.casefold() for each in shown.columns(source) if may(each))


def _value(connection: str, column: ListedColumn, value: Any, count: int | None) -> Document:
    text = value if isinstance(value, str) else json.dumps(value)
    fields = [Field("value", text, VALUE_TEXT), Field("column", column.name, BESIDE)]
    fields += [Field("description", column.description, BESIDE)] if column.description else []
    rows = "" if count is None else f" in {plural(count, 'row')}"
    id = f"{column.name} = {_literal(value, text)}"
    summary = one_line(f"a value of {column.name}{rows}")
    return Document(VALUE, id, connection, summary, tuple(fields), KINDS.index(VALUE))


def _literal(value: Any, text: str) -> str:
    return "'" + text.replace("'", "''") + "'" if isinstance(value, str) else text


def _by_name(sources: Iterable[Source]) -> dict[str, list[Source]]:
    found: dict[str, list[Source]] = {}
    for source in sources:
        if source.table:
            found.setdefault(source.table[-1].casefold(), []).append(source)
    return found


SOURCE_NAME, MEASURE, COLUMN, DESCRIPTION = 4.0, 2.0, 0.5, 1.0
"""The weights of a word in a name, in a source's measure or column name, and in a description."""


_NONE: Final[Written] = {}


def documents(shown: VisibleModel, written: Written = _NONE) -> Iterator[Document]:
    """Yield the documents for a model: all sources with their measures, segments and columns."""
    for source in shown.sources():
        yield from _of_source(shown, source, written.get(source.name, {}))


def _of_source(shown: VisibleModel, source: Source, texts: Mapping[tuple[str, str], SearchTexts]) -> Iterator[Document]:
    measures, columns = shown.measures(source), shown.columns(source)
    yield _source(shown, source, measures, columns, texts.get(("source", source.name)))
    for kind, members in (("measure", measures), ("segment", source.segments.values())):
        yield from (_entity(shown, source, each, kind, MEASURE, texts=texts) for each in members)
    for each in columns:
        yield _entity(shown, source, each, "column", COLUMN, Field("values", " ".join(each.values), COLUMN))


def documents_by_source(
    model: Model, names: Iterable[str], written: Written = _NONE
) -> Iterator[tuple[str, list[Document]]]:
    """Yield the sources of a model with the documents for their visible parts. Internal parts are marked."""
    from ktx_cli.semantic import VisibleModel

    public, internal = VisibleModel(model), VisibleModel(model, internal=True)
    for name in names:
        source, texts = model.sources[name], written.get(name, {})
        found = list(_of_source(public, source, texts)) if public.has(source) else []
        shown = {(each.kind, each.id) for each in found}
        more = _of_source(internal, source, texts) if internal.has(source) else ()
        found += [replace(each, internal=True) for each in more if (each.kind, each.id) not in shown]
        yield name, found


def _source(
    shown: VisibleModel, source: Source, measures: list[Measure], columns: list[Column], texts: SearchTexts | None
) -> Document:
    fields = (
        Field("name", source.name, SOURCE_NAME),
        Field("measures", " ".join(each.name for each in measures), MEASURE),
        Field("columns", " ".join(each.name for each in columns), COLUMN),
        Field("search", " ".join(source.search), COLUMN),
        *_found_by(source, texts),
        Field("lineage", " ".join(shown.lineage(source)), COLUMN),
        Field("description", source.description or "", DESCRIPTION),
    )
    counts = f"{plural(len(measures), 'measure')}, {plural(len(columns), 'column')}"
    found = _document(shown, "source", source.name, _labelled(source, source.description or counts), fields)
    return replace(found, worth=_USED.get(source.usage_tier or "", 1.0))


_USED: Final = {"high": 1.2, "mid": 1.1, "unused": 0.9}
"""Weight of a source by how often queries read it. It decides between sources that fit a question equally well."""


def _entity(
    shown: VisibleModel,
    source: Source,
    entity: Measure | Segment | Column,
    kind: str,
    weight: float,
    *fields: Field,
    texts: Mapping[tuple[str, str], SearchTexts] = MappingProxyType({}),
) -> Document:
    """Return the document for a part of a source. `weight` applies to the source's name in it."""
    named = (Field("name", entity.name, SOURCE_NAME), Field("source", source.name, weight))
    described = Field("description", entity.description or "", DESCRIPTION)
    if isinstance(entity, Column):
        summary = entity.description or entity.type.value
    else:
        summary = entity.description or _expression_text(shown, source, entity.expr)
        summary = f"proposed by ktx, not reviewed: {summary}" if entity.is_proposed else summary
    summary = _labelled(entity, summary)
    fields = (*named, *fields, *_found_by(entity, texts.get((kind, entity.name))), described)
    found = _document(shown, kind, f"{source.name}.{entity.name}", summary, fields)
    return found if isinstance(entity, Column) or not entity.is_proposed else replace(found, worth=PROPOSED)


def _labelled(entity: Source | Measure | Segment | Column, summary: str) -> str:
    """Return a summary that begins with the label, unless it already contains the label."""
    label = entity.label
    return f"{label}: {summary}" if label and label.casefold() not in summary.casefold() else summary


def _expression_text(shown: VisibleModel, source: Source, expr: str) -> str:
    """Return an expression as a summary, unless it refers to hidden definitions."""
    return expr if shown.can_show(source, expr) else f"of {source.name}"


def _document(shown: VisibleModel, kind: str, id: str, summary: str, fields: tuple[Field, ...]) -> Document:
    filled = tuple(each for each in fields if each.text)
    short = one_line(without_tables(summary), _SUMMARY)
    return Document(kind, id, shown.model.connection, short, filled, KINDS.index(kind))


def digest_of(document: Document) -> bytes:
    """Return a digest of a document's content."""
    return hashlib.blake2b(_written(document).encode("utf-8", "surrogatepass"), digest_size=16).digest()


def _written(document: Document) -> str:
    fields = [(each.name, each.weight, each.text) for each in document.fields]
    facts = (document.kind, document.id, document.connection, document.summary, document.order, document.owner)
    more = (document.internal, document.tags, document.mentions, document.worth)
    return json.dumps([facts, fields, *more], ensure_ascii=False)


LoadModel = Callable[[Tree], Model]

Documents = Mapping[bytes, Document]
"""Documents by digest."""

DOCUMENT: Final = "document "
"""The prefix of the ids of passage units. Each unit is one document of a source."""

_KEPT: Final = 8
"""Number of cached semantic layer states, enough for a few parallel agent loops."""


class Part(Protocol):
    """The units of one kind. A removed unit has no signature."""

    def signatures(self) -> Mapping[str, str]:
        """Return the signatures of all units on disk, from file sizes and times only."""

    def units(self, tree: Tree) -> Iterable[str]:
        """Return all units in a tree."""

    def owns(self, unit: str) -> bool:
        """Return whether a unit belongs to this part, even if it was removed."""

    def units_of(self, path: str) -> Sequence[str]:
        """Return the units that a project file belongs to."""

    def digest(self, unit: str, tree: Tree) -> str:
        """Return a digest of a unit's content. Reads its files."""

    def parts(self, unit: str, tree: Tree) -> Mapping[str, str]:
        """Return the digests of a unit's parts by name."""

    def documents(self, unit: str, tree: Tree, names: Collection[str]) -> Iterator[tuple[str, Documents]]:
        """Yield the named parts with their documents."""

    def release(self) -> None:
        """Release cached data about files on disk."""


class WholeUnits:
    """Units with a single, unnamed part."""

    def parts(self, unit: str, tree: Tree) -> Mapping[str, str]:
        """Return the only part."""
        digest = self.digest(unit, tree)
        return {"": digest} if digest else {}

    def documents(self, unit: str, tree: Tree, names: Collection[str]) -> Iterator[tuple[str, Documents]]:
        """Yield the part with all documents of the unit."""
        if "" in names:
            yield "", _by_digest(self.all_documents(unit, tree))

    def release(self) -> None:
        """Do nothing, because nothing is cached."""

    def digest(self, unit: str, tree: Tree) -> str:
        """Return a digest of the content of a unit. Reads its files."""
        raise NotImplementedError

    def all_documents(self, unit: str, tree: Tree) -> Iterable[Document]:
        """Return the documents in a unit, or none if it was removed."""
        raise NotImplementedError


class Pages(WholeUnits):
    """The wiki. Every page is a unit, identified by its path. Without a `root`, only trees are searched.

    `shows`: takes a path and its signature, and returns whether the page exists for the reader; all do by default.
    Pages that do not exist, as of the last call of `signatures`, are read as if they had been removed.
    """

    def __init__(self, root: Path | None = None, shows: Callable[[str, str], bool] | None = None) -> None:
        self._root = root
        self._shows = shows
        self._hidden: frozenset[str] = frozenset()

    def signatures(self) -> dict[str, str]:
        """Return each page's size and time."""
        found = signatures_below(self._root, FOLDER.rstrip("/"), (".md",))
        if self._shows is not None:
            self._hidden = frozenset(path for path, signature in found.items() if not self._shows(path, signature))
        return {path: signature for path, signature in found.items() if path not in self._hidden}

    def units(self, tree: Tree) -> Iterable[str]:
        """Return the pages."""
        return (path for path in tree.paths(FOLDER) if path.endswith(".md") and is_utf8(path))

    def owns(self, unit: str) -> bool:
        """Return whether the unit is a page."""
        return unit.startswith(FOLDER) and unit.endswith(".md") and is_utf8(unit)

    def units_of(self, path: str) -> Sequence[str]:
        """Return the page."""
        return (path,) if self.owns(path) else ()

    def digest(self, unit: str, tree: Tree) -> str:
        """Return the hash of the page's content, or an empty text if the page does not exist for the reader."""
        return "" if unit in self._hidden else hashlib.sha256(tree.read(unit) or b"").hexdigest()

    def all_documents(self, unit: str, tree: Tree) -> Iterable[Document]:
        """Return the document for the page, or none for a file that is not a page."""
        content = None if unit in self._hidden else tree.read(unit)
        found = None if content is None else page_document(unit, content)
        return () if found is None else (found,)


class Layer:
    """The semantic layer of one connection: one unit, because its files depend on each other, with a part per source.

    `stamp` covers further inputs of its documents (dialect, calendar). `load` reads it from a tree. `configured` are
    the ids of all connections in `ktx.yaml`, because files outside their folders can hide parts of it. `hashes` are
    known sha256 digests of files on disk.
    """

    def __init__(
        self,
        root: Path | None,
        connection: str,
        stamp: str,
        load: LoadModel,
        configured: Collection[str] | None = None,
        hashes: Callable[[], Mapping[str, str]] = dict,
    ) -> None:
        self._root, self._stamp, self._load, self._configured = root, stamp, load, configured
        self._hashes = hashes
        self.connection = connection
        self.folder = Layout.context_paths(connection)[0]
        self._models: Recent[Model] = Recent(_KEPT)
        self._parts: Recent[Mapping[str, str]] = Recent(_KEPT)
        self._on_disk: Model | None = None

    def signatures(self) -> dict[str, str]:
        """Return the unit with the combined sizes and times of its files, or nothing without files."""
        signature = self.signature()
        return {self.folder: signature} if signature else {}

    def signature(self) -> str:
        """Return the combined sizes and times of all files, or an empty string if there are no files."""
        found = layer_files(self._root, self.folder)
        if found and self._root is not None:
            found |= search_text_signatures(self._root, self.connection)
            found |= {} if self._configured is None else stray_signatures(self._root, self._configured)
        return layer_signature(found, self._stamp)

    def scan_signature(self) -> str:
        """Return the size and time of the last scan's index, or an empty string."""
        return scan_signature(self._root, self.connection)

    def units(self, tree: Tree) -> Sequence[str]:
        """Return the unit if it has files."""
        return (self.folder,) if any(map(is_yaml, tree.paths(f"{self.folder}/"))) else ()

    def owns(self, unit: str) -> bool:
        """Return whether the unit is this one."""
        return unit == self.folder

    def units_of(self, path: str) -> Sequence[str]:
        """Return the unit for each of its files and for files outside all connections."""
        if self._configured is not None and is_stray(path, self._configured):
            return (self.folder,)
        is_own = path.startswith(f"{self.folder}/") and is_yaml(path)
        return (self.folder,) if is_own or path == search_texts_path(self.connection) else ()

    def digest(self, unit: str, tree: Tree) -> str:
        """Return the combined hash of all files."""
        paths = sorted(filter(is_yaml, tree.paths(f"{self.folder}/")))
        paths += () if self._configured is None else stray_paths(tree, self._configured)
        paths.append(search_texts_path(self.connection))
        known = self._hashes() if isinstance(tree, WorkingTree) else {}
        digests = (f"{path} {known.get(path) or _digest_at(tree, path)}" for path in paths)
        return hash_of((RULES, self._stamp, *digests))

    def parts(self, unit: str, tree: Tree) -> Mapping[str, str]:
        """Return the sources of the semantic layer."""
        if not self.units(tree):
            return {}
        if isinstance(tree, WorkingTree):
            return self._digests(tree)
        return self._parts.get(self.digest(unit, tree), lambda: self._digests(tree))

    def _digests(self, tree: Tree) -> Mapping[str, str]:
        from ktx_cli.semantic import source_digests

        texts = self._texts(tree)
        digests = source_digests(self._model(tree)).items()
        return {name: hash_of((RULES, digest, repr(texts.get(name)))) for name, digest in digests}

    def documents(self, unit: str, tree: Tree, names: Collection[str]) -> Iterator[tuple[str, Documents]]:
        """Yield sources with the documents for their visible parts."""
        found = documents_by_source(self._model(tree), sorted(names), self._texts(tree)) if names else ()
        return ((name, _by_digest(documents)) for name, documents in found)

    def shown(self, tree: Tree) -> VisibleModel:
        """Return the public part of the semantic layer in a tree."""
        from ktx_cli.semantic import VisibleModel

        return VisibleModel(self._model(tree))

    def release(self) -> None:
        """Release the model."""
        self._on_disk = None

    def _texts(self, tree: Tree) -> Written:
        return {name: own.texts for name, own in read_search_texts(tree, self.connection).items()}

    def _model(self, tree: Tree) -> Model:
        if not isinstance(tree, WorkingTree):
            return self._models.get(self.digest(self.folder, tree), lambda: self._load(tree))
        if self._on_disk is None:
            self._on_disk = self._load(tree)
        return self._on_disk


class Values:
    """The column values of one connection: one unit with a part per source, because most stay the same between scans.

    `stamp` identifies when and under which rules they were read. `load` returns the value lists.
    """

    def __init__(self, layer: Layer, stamp: str, load: Callable[[], Iterable[ColumnValues]]) -> None:
        self._layer, self._stamp, self._load = layer, stamp, load
        self._unit = values_unit(layer.folder)
        self._last: tuple[Tree, Mapping[str, Sequence[ListedColumn]]] | None = None

    def signatures(self) -> dict[str, str]:
        """Return the unit with its stamp and the signatures of the layer and last scan, which determine visibility."""
        signature = self._layer.signature()
        scan = self._layer.scan_signature()
        return {self._unit: values_signature(self._stamp, signature, scan)} if signature else {}

    def units(self, tree: Tree) -> Sequence[str]:
        """Return the unit if the connection has a semantic layer."""
        return (self._unit,) if self._layer.units(tree) else ()

    def owns(self, unit: str) -> bool:
        """Return whether it is this unit."""
        return unit == self._unit

    def units_of(self, path: str) -> Sequence[str]:
        """Return the unit for each file of the semantic layer."""
        return (self._unit,) if self._layer.units_of(path) else ()

    def digest(self, unit: str, tree: Tree) -> str:
        """Return the hash of the stamp, the semantic layer and the last scan, which has the tables behind views."""
        scan = _digest_at(tree, snapshot_path(self._layer.connection))
        return hash_of((self._stamp, self._layer.digest(self._layer.folder, tree), scan))

    def parts(self, unit: str, tree: Tree) -> Mapping[str, str]:
        """Return the sources that have visible columns with values."""
        return {name: hash_of((RULES, *map(repr, columns))) for name, columns in self._listed(tree).items()}

    def documents(self, unit: str, tree: Tree, names: Collection[str]) -> Iterator[tuple[str, Documents]]:
        """Yield sources with the values of their visible columns."""
        listed = self._listed(tree) if names else {}
        wanted = sorted(listed.keys() & set(names))
        return ((name, _by_digest(value_documents(self._layer.connection, listed[name]))) for name in wanted)

    def release(self) -> None:
        """Release the lists and the model."""
        self._last = None
        self._layer.release()

    def _listed(self, tree: Tree) -> Mapping[str, Sequence[ListedColumn]]:
        """Return the lists in a tree, which stay the same until they are released."""
        if not self._layer.units(tree):
            return {}
        if self._last is None or self._last[0] is not tree:

            def relations() -> Relations:
                from ktx_cli.protection import read_relations

                return read_relations(tree, self._layer.connection)

            self._last = (tree, listed_values(self._layer.shown(tree), self._load(), relations))
        return self._last[1]


NOT_HERE: Final = "not here"
"""The digest of a part whose content is not on this machine, and of a unit with such a part in an index."""


class Passages(WholeUnits):
    """The passages of one document source. Every document is a unit.

    `documents` maps paths to content digests. `load` returns the passages of a path, or None if the document is not on
    this machine, which has the part `NOT_HERE` then.
    """

    def __init__(
        self, source: str, documents: Mapping[str, str], load: Callable[[str], Iterable[Passage] | None]
    ) -> None:
        self.source = source
        self._mark = f"{DOCUMENT}{source}:"
        self._digests = {f"{self._mark}{path}": digest for path, digest in documents.items()}
        self._load = load

    def signatures(self) -> Mapping[str, str]:
        """Return the documents."""
        return self._digests

    def units(self, tree: Tree) -> Iterable[str]:
        """Return the documents, which are the same in every tree because they are not project files."""
        return self._digests

    def owns(self, unit: str) -> bool:
        """Return whether the unit is a document of this source."""
        return unit.startswith(self._mark)

    def units_of(self, path: str) -> Sequence[str]:
        """Return nothing."""
        return ()

    def digest(self, unit: str, tree: Tree) -> str:
        """Return a digest of the content of a document."""
        return self._digests.get(unit, "")

    def parts(self, unit: str, tree: Tree) -> Mapping[str, str]:
        """Return the only part."""
        found = super().parts(unit, tree)
        return dict.fromkeys(found, NOT_HERE) if found and self._load(unit.removeprefix(self._mark)) is None else found

    def all_documents(self, unit: str, tree: Tree) -> Iterable[Document]:
        """Return the passages of a document."""
        return passage_documents(self.passages(unit.removeprefix(self._mark))) if unit in self._digests else ()

    def passages(self, path: str) -> Iterable[Passage]:
        """Return the passages of the document at a path, or none if it is not on this machine."""
        return self._load(path) or ()


class Contents:
    """All parts of a project. `warnings` explain missing parts."""

    def __init__(self, parts: Iterable[Part], warnings: Iterable[ResultWarning] = ()) -> None:
        self._parts = tuple(parts)
        self.warnings = tuple(warnings)

    def signatures(self) -> dict[str, str]:
        """Return the signatures of all units on disk."""
        return {unit: signature for part in self._parts for unit, signature in part.signatures().items()}

    def units(self, tree: Tree) -> set[str]:
        """Return all units in a tree."""
        return {unit for part in self._parts for unit in part.units(tree)}

    def units_of(self, path: str) -> list[str]:
        """Return the units that a file belongs to."""
        return [unit for part in self._parts for unit in part.units_of(path)]

    def digest(self, unit: str, tree: Tree) -> str:
        """Return a unit's digest, or an empty string if no part owns the unit."""
        part = self._part_of(unit)
        return "" if part is None else part.digest(unit, tree)

    def parts(self, unit: str, tree: Tree) -> Mapping[str, str]:
        """Return the digests of a unit's parts by name, or none if no part owns the unit."""
        part = self._part_of(unit)
        return {} if part is None else part.parts(unit, tree)

    def documents(self, unit: str, tree: Tree, names: Collection[str]) -> Iterator[tuple[str, Documents]]:
        """Yield a unit's named parts with their documents. See `parts`."""
        part = self._part_of(unit)
        return iter(()) if part is None else part.documents(unit, tree, names)

    def release(self, unit: str) -> None:
        """Release cached data about a unit."""
        part = self._part_of(unit)
        if part is not None:
            part.release()

    def _part_of(self, unit: str) -> Part | None:
        return next((part for part in self._parts if part.owns(unit)), None)


def files_between(unit: str, was: str, now: str) -> set[str]:
    """Return the files that differ between two signatures of a unit, or none if the signatures list no files."""
    if unit.startswith(FOLDER):
        return {unit}
    if not unit.startswith(f"{SEMANTIC_NAME}/"):
        return set()
    lines = set(was.splitlines()[1:]) ^ set(now.splitlines()[1:])
    return {line.rsplit(" ", 2)[0] for line in lines}


def _digest_at(tree: Tree, path: str) -> str:
    """Return the hash of a file, or a constant for an unreadable one, which the semantic layer reports."""
    try:
        return hashlib.sha256(tree.read(path) or b"").hexdigest()
    except KtxError:
        return "unreadable"


def _by_digest(found: Iterable[Document]) -> Documents:
    return {digest_of(each): each for each in found}


RULES: Final = "4"
"""Version of the visibility rules. It changes if an older index could show more than it should."""


def layer_signature(files: Mapping[str, str], stamp: str) -> str:
    """Return the combined signatures of all files of a semantic layer, or an empty string if there are none."""
    return "\n".join((f"{RULES} {stamp}", *(f"{path} {files[path]}" for path in sorted(files)))) if files else ""


def layer_files(root: Path | None, folder: str) -> dict[str, str]:
    """Return path -> `size mtime_ns` for all semantic layer files in a folder, and for folders named like files."""
    found = signatures_below(root, folder, ("",), irregular=True)
    return {path: signature for path, signature in found.items() if is_yaml(path)}


def values_unit(layer: str) -> str:
    """Return the unit for the values beside the semantic layer in a folder."""
    return f"values of {layer}"


def values_signature(stamp: str, layer: str, scan: str) -> str:
    """Return the signature for values read under a stamp, given the signatures of the semantic layer and scan."""
    return hash_of((stamp, layer, scan))


def scan_signature(root: Path | None, connection: str) -> str:
    """Return the size and time of the index of a connection's last scan, or an empty string if there is none."""
    folder, _, name = snapshot_path(connection).rpartition("/")
    return signatures_below(root, folder, (name,)).get(f"{folder}/{name}", "")


def search_text_signatures(root: Path, connection: str) -> dict[str, str]:
    """Return path -> `size mtime_ns` for the file with a semantic layer's questions, if there is one."""
    path = search_texts_path(connection)
    try:
        stat = (root / path).stat()
    except OSError:
        return {}
    return {path: f"{stat.st_size} {stat.st_mtime_ns}"}


def stray_signatures(root: Path, configured: Collection[str]) -> dict[str, str]:
    """Return path -> `size mtime_ns` for the files in `semantic-layer/` outside the folders of all connections.

    `configured`: the ids of these connections. Raises `StorageError` for a folder that cannot be listed.
    """
    found = {}
    for path in stray_paths(WorkingTree(root), configured):
        try:
            stat = (root / path).stat()
        except OSError:  # a link that leads nowhere
            found[escaped(path)] = "0 0"
        else:
            found[escaped(path)] = f"{stat.st_size} {stat.st_mtime_ns}"
    return found
