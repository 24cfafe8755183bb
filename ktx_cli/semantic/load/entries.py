"""Checked access to one mapping in a file. A value of the wrong shape becomes a diagnostic with its line."""

from __future__ import annotations

import datetime as dt
import difflib
import functools
import re
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Final, Protocol, TypeVar

from ktx_cli.core import ConfigError, Diagnostic, Severity, did_you_mean, listing, one_line, yaml
from ktx_cli.semantic.model import Place, Status, layer_diagnostic


class Named(Protocol):
    """A definition with a name and a location."""

    @property
    def name(self) -> str:
        """Its name."""
        ...

    @property
    def place(self) -> Place | None:
        """The location of the definition."""
        ...


_Named = TypeVar("_Named", bound=Named)


class Entry:
    """One mapping with its location.

    `what` names it in messages. `failed` means that it has an error, so that its definition must not be used. For the
    mapping of a whole source, `trouble` is the first error anywhere in it.
    """

    __slots__ = (
        *("_parent", "_protects", "_whole", "failed", "file", "problems", "source", "steps", "trouble", "values"),
        "what",
    )

    def __init__(
        self,
        values: dict[Any, Any],
        file: SourceFile,
        steps: tuple[Step, ...],
        problems: list[Diagnostic],
        what: str,
        source: str | None = None,
        parent: Entry | None = None,
        whole: Entry | None = None,
    ) -> None:
        self.values, self.file, self.steps, self.problems = values, file, steps, problems
        self.what, self.source, self._parent, self.failed = what, source, parent, False
        self.trouble: Diagnostic | None = None
        self._whole: Entry = self if whole is None else whole
        self._protects: bool | None = None

    def begin(self, source: str) -> Entry:
        """Mark this as the mapping for a whole source."""
        self.source, self._whole = source, self
        return self

    @property
    def protects(self) -> bool:
        """Whether the whole source restricts visibility, or has a key that may be intended to."""
        whole = self._whole
        if whole._protects is None:
            whole._protects = may_protect(whole.values)
        return whole._protects

    @property
    def place(self) -> Place:
        """The location of the mapping."""
        return self.file.place(*self.steps)

    def at(self, *steps: Step) -> Place:
        """Return the location of a part within the mapping."""
        return self.file.place(*self.steps, *steps)

    def error(
        self, code: str, message: str, *steps: Step, hint: str | None = None, shows_nothing: bool = False
    ) -> None:
        """Add an error at a part in the mapping. Its definition is skipped.

        `shows_nothing` means that the caller applies the strictest meaning, so that the error reveals nothing.
        """
        entry: Entry | None = self
        while entry is not None:
            entry.failed, entry = True, entry._parent
        problem = layer_diagnostic(Severity.ERROR, code, message, self.at(*steps), hint, self.source)
        self.problems.append(problem)
        if self._whole.trouble is None and not shows_nothing:
            self._whole.trouble = problem

    def warn(self, code: str, message: str, *steps: Step, hint: str | None = None) -> None:
        """Add a warning at a part in the mapping."""
        self.problems.append(layer_diagnostic(Severity.WARNING, code, message, self.at(*steps), hint, self.source))

    def check_keys(self, known: Collection[str]) -> None:
        """Warn about unknown keys. They are errors if the source restricts visibility."""
        if self.values.keys() <= set(known):
            return
        for key, value in self.values.items():
            if key not in known:
                near = did_you_mean(str(key), known)
                hint = f"did you mean `{near}`?" if near else f"remove it, or use one of: {listing(sorted(known), 30)}"
                what = f"`{key}` is not a key of {self.what} and is ignored"
                if may_protect({key: value}):
                    self.error("unknown_key", f"{what}; it may be meant to restrict access", str(key), hint=hint)
                elif self.protects:
                    self.error("unknown_key", f"{what}; the file restricts access", str(key), hint=hint)
                else:
                    self.warn("unknown_key", what, str(key), hint=hint)

    def check_free_keys(self) -> None:
        """Report `visibility`, `policies` and `mask` without effect because they are among other programs' keys."""
        for key in misplaced(self.values):
            hint = "indent it to the level of the keys of its source or column"
            self.error("forbidden_key", f"`{key}` has no effect in {self.what}", key, hint=hint)

    def text(self, key: str) -> str | None:
        """Return a text, or None if it is missing or empty."""
        value = self.values.get(key)
        if value is None or (isinstance(value, str) and value.strip()):
            return value
        if not isinstance(value, str):
            self._wrong(key, "a string", f'put it in quotes: {key}: "{shown}"' if (shown := _plain(value)) else None)
        return None

    def required(self, key: str) -> str:
        """Return a required text, or an empty text after an error."""
        value = self.text(key)
        if value is None and not self._is_wrong_text(key):
            self.error("missing", f"{self.what} has no `{key}`", hint=f"add `{key}:` to it")
        return value or ""

    def _is_wrong_text(self, key: str) -> bool:
        return self.values.get(key) is not None and not isinstance(self.values[key], str)

    def word(self, key: str, allowed: Collection[str], *, shows_nothing: bool = False) -> str | None:
        """Return a text that is one of `allowed`. See `error` for `shows_nothing`."""
        value = self.text(key)
        if value is None or value in allowed:
            return value
        near = did_you_mean(value, allowed)
        hint = f"did you mean `{near}`?" if near else f"write {key}: {next(iter(allowed))}"
        what = f"`{key}` of {self.what} is `{value}`, not one of {listing(allowed, 12)}"
        self.error("value", what, key, hint=hint, shows_nothing=shows_nothing)
        return None

    def flag(self, key: str) -> bool | None:
        """Return true, false or None."""
        value = self.values.get(key)
        if value is None or isinstance(value, bool):
            return value
        self._wrong(key, "true or false", f"write {key}: true")
        return None

    def names(self, key: str) -> tuple[str, ...] | None:
        """Return a list of texts, or None."""
        value = self.values.get(key)
        if value is None:
            return None
        if isinstance(value, list) and all(isinstance(each, str) and each.strip() for each in value):
            return tuple(value)
        self._wrong(key, "a list of names", f"write {key}: [{shown}]" if (shown := _plain(value)) else None)
        return None

    def mapping(self, key: str, what: str | None = None) -> Entry | None:
        """Return a nested mapping. An error in it is also an error of this mapping."""
        value = self.values.get(key)
        if isinstance(value, dict):
            what = what or f"`{key}` of {self.what}"
            return Entry(value, self.file, (*self.steps, key), self.problems, what, self.source, self, self._whole)
        if value is not None:
            self._wrong(key, "a mapping", f"write the keys below `{key}:`, indented")
        return None

    def items(self, key: str, noun: str) -> list[Entry]:
        """Return the mappings in a list, without other items."""
        value = self.values.get(key)
        if value is None:
            return []
        if not isinstance(value, list):
            self._wrong(key, "a list of mappings", f"write one `- name: ...` entry below `{key}:` for each of them")
            return []
        return [entry for index, item in enumerate(value) if (entry := self._item(key, noun, index, item)) is not None]

    def _item(self, key: str, noun: str, index: int, item: Any) -> Entry | None:
        if not isinstance(item, dict):
            self.error(
                "shape", f"a {noun} of {self.what} must be a mapping", key, index, hint="write it as - name: ..."
            )
            return None
        name = item.get("name")
        what = f"{noun} `{name}`" if isinstance(name, str) else f"{noun} {index + 1}"
        return Entry(item, self.file, (*self.steps, key, index), self.problems, what, self.source, whole=self._whole)

    def read_all(self, key: str, noun: str, read: Callable[[Entry], _Named | None]) -> dict[str, _Named]:
        """Return the results of `read` for a list's items by name. Of duplicates, the first one counts."""
        result: dict[str, _Named] = {}
        for entry in self.items(key, noun):
            made = read(entry)
            if made is None:
                continue
            if made.name in result:
                entry.error(
                    "duplicate",
                    f"`{key}` of {self.what} has two named `{made.name}`: the other is at {result[made.name].place}",
                    hint="rename or remove one of them",
                )
            else:
                result[made.name] = made
        return result

    def _wrong(self, key: str, wanted: str, hint: str | None) -> None:
        self.error("shape", f"`{key}` of {self.what} must be {wanted}", key, hint=hint or f"fix `{key}:`")


def _plain(value: Any) -> str:
    """Return a scalar for a hint, or an empty text."""
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, str) or (isinstance(value, int | float) and abs(value) < 1e15):
        return one_line(str(value), 60)
    return ""


Step = str | int
"""One step into a document: a key, or an index in a list."""


class SourceFile:
    """A semantic layer file: its path in the repository, its bytes and the parsed document."""

    __slots__ = ("_lines", "_root", "content", "document", "path")

    def __init__(self, path: str, content: bytes, document: Any) -> None:
        self.path, self.content, self.document = path, content, document
        self._root: yaml.Node | None = None
        self._lines: yaml.Lines | None = None

    def place(self, *steps: Step) -> Place:
        """Return the location of the part at `steps` in the document."""
        return DeferredPlace(self, steps)

    def line(self, steps: tuple[Step, ...]) -> int:
        """Return the line, from 1, of the deepest existing part along `steps`."""
        if self._lines is None:
            self._lines = self._read_lines()
        line, within = 1, self._lines
        for step in steps:
            found = within.get(step)
            if found is None:
                break
            line, within = found if isinstance(found, tuple) else (found, {})
        return line

    def part(self, *steps: Step) -> tuple[yaml.Node, yaml.Node] | None:
        """Return the nodes of key and value (for a list item, its node twice), or None if the part does not exist."""
        key = node = self.compose()
        for step in steps:
            found = next((pair for pair in _children(node) if pair[0] == step), None)
            if found is None:
                return None
            _, key, node = found
        return None if key is None or node is None else (key, node)

    def compose(self) -> yaml.Node | None:
        """Return the node of the whole document, or None if it is invalid."""
        if self._root is None:
            try:
                self._root = yaml.compose(self.content, where=self.path)
            except ConfigError:  # reported when the file was read; all there is to point at is its first line
                return None
        return self._root

    def _read_lines(self) -> yaml.Lines:
        try:
            return yaml.lines_of(self.content, where=self.path)
        except ConfigError:  # reported when the file was read; all there is to point at is its first line
            return {}


def _children(node: yaml.Node | None) -> list[tuple[Step, yaml.Node, yaml.Node]]:
    """Return the step, key and value of each direct child of a node."""
    if node is None:
        return []
    pairs: list[tuple[Step, yaml.Node, yaml.Node]] = [(str(key.value), key, value) for key, value in node.pairs]
    return pairs or [(index, item, item) for index, item in enumerate(node.items)]


_assign = object.__setattr__


class DeferredPlace(Place):
    """A location whose line is determined on first use."""

    __slots__ = ("_file", "_steps")
    _file: SourceFile
    _steps: tuple[Step, ...]

    def __init__(
        self, file: SourceFile, steps: tuple[Step, ...], subject: str | None = None, connection: str | None = None
    ) -> None:
        _assign(self, "path", file.path)
        _assign(self, "object", subject)
        _assign(self, "connection", connection)
        _assign(self, "_file", file)
        _assign(self, "_steps", steps)

    @property
    def steps(self) -> tuple[Step, ...]:
        """The path within the document."""
        return self._steps

    @property
    def line(self) -> int:
        """The line, from 1."""
        return self._file.line(self._steps)

    def within(self, *, object: str | None = None, connection: str | None = None) -> DeferredPlace:
        """Return this location with its object or connection."""
        return DeferredPlace(self._file, self._steps, object or self.object, connection or self.connection)

    @property
    def _fields(self) -> tuple[str, int, str | None, str | None]:
        return self.path, self.line, self.object, self.connection

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Place) and self._fields == (other.path, other.line, other.object, other.connection)

    def __hash__(self) -> int:
        return hash(self._fields)

    def __repr__(self) -> str:
        return f"Place({self.path!r}, {self.line})"

    def __reduce__(self) -> tuple[type[Place], tuple[str, int, str | None, str | None]]:
        return Place, self._fields


VISIBILITY: Final = "visibility"
POLICIES: Final = "policies"
MASK: Final = "mask"

_KNOWN: Final = frozenset((
    "name", "table", "sql", "source_type", "description", "descriptions", "grain", "columns", "joins", "measures",
    "segments", "default_time_dimension", "tags", "freshness", "usage", "lineage", "parameters", "tests",
    "exclude_columns", "column_overrides", "disable_joins", "inherits_columns_from", "type", "expr", "role",
    "natural_granularity", "constraints", "enum_values", "nullable", "timezone", "unit", "pk", "filter", "to", "on",
    "relationship", "alias", "source", "user", "ai", "dbt", "db", "ktx", "questions", "synonyms", "label",
))  # fmt: skip
"""Common keys that are recognized without a fuzzy comparison."""

_FREE: Final = frozenset(
    ("description", "descriptions", "usage", "lineage", "tags", "freshness", "tests", "enum_values", "constraints")
)
"""Keys below which other programs choose the names, so that only exact names count."""

_RESEMBLES: Final = re.compile(
    r"polic|visib|hidd?en|\bhide|overrid|access_filter|row_(filter|level|access|security)|\brls\b|\bprivate\b|\bmask"
)
_MEANT: Final = (VISIBILITY, POLICIES, "policy", "column_overrides", "exclude_columns", "hidden")
_ALIKE: Final = 0.75
_KEY: Final = re.compile(r"([A-Za-z][\w -]{0,60})[\"']?\s{0,20}:(?=[ \t]*([^\r\n]{0,80}))")
"""A key and the rest of its line, which may contain further keys: `{name: salary, visibility: hidden`."""
_STRICT: Final = frozenset(("hidden", "internal"))


def may_protect(document: Any) -> bool:
    """Return whether a part of a file restricts visibility, or has an unknown key that may be intended to."""
    stack = [(document, False)]
    while stack:
        value, free = stack.pop()
        if isinstance(value, list):
            stack += [(each, free) for each in value]
        elif isinstance(value, dict):
            for key, below in value.items():
                if _limits(str(key), below, free):
                    return True
                stack.append((below, free or key in _FREE))
    return False


def text_may_protect(text: str) -> bool:
    """Return `may_protect` for an unparsable text, based on everything that looks like a key."""
    if "\0" in text or "\ufffd" in text:
        return True
    return any(_limits(found[1], found[2].strip(" \t\"',}]") or "?", False) for found in _KEY.finditer(text))


def misplaced(values: dict[Any, Any]) -> list[str]:
    """Return the visibility keys that have no effect because their mapping has free keys."""
    return [str(key) for key, below in values.items() if _is_exact(str(key), below)]


def _limits(key: str, value: Any, free: bool) -> bool:
    if key in _KNOWN:
        return False
    if _is_exact(key, value):
        return True
    folded = key.casefold()
    if free or folded in (VISIBILITY, POLICIES):
        return False
    return _resembles(folded) or (isinstance(value, str) and value.casefold() in _STRICT)


def _is_exact(key: str, value: Any) -> bool:
    folded = key.strip().casefold()
    if folded == MASK:
        return isinstance(value, dict)
    return (folded == VISIBILITY and value != "public") or (folded == POLICIES and value != [])


@functools.lru_cache(maxsize=1_024)
def _resembles(folded: str) -> bool:
    plain = re.sub(r"[\s-]+", "_", folded.strip())
    if _RESEMBLES.search(plain):
        return True
    return any(difflib.SequenceMatcher(None, plain, each).ratio() >= _ALIKE for each in _MEANT)


APPROVALS: Final = ("status", "owner", "review_by")
"""The keys for a definition's status, owner and review date."""

_STATUSES: Final = tuple(each.value for each in Status)


@dataclass(frozen=True, slots=True)
class Approval:
    """The values of `APPROVALS` in a definition, or None."""

    status: Status | None
    owner: str | None
    review_by: dt.date | None


def read_approval(entry: Entry) -> Approval:
    """Return a definition's approval. Invalid statuses and dates are errors."""
    word = entry.word("status", _STATUSES)
    return Approval(Status(word) if word else None, entry.text("owner"), _read_day(entry, "review_by"))


def _read_day(entry: Entry, key: str) -> dt.date | None:
    value = entry.values.get(key)
    if value is None or (isinstance(value, dt.date) and not isinstance(value, dt.datetime)):
        return value
    try:
        return dt.date.fromisoformat(value)
    except (TypeError, ValueError):
        entry.error("value", f"`{key}` of {entry.what} is not a date", key, hint=f"write {key}: 2027-01-31")
        return None
