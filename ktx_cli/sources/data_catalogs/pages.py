"""Wiki pages of a data catalog, written without a model: one for each glossary term and each domain."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core import ResultWarning, one_line
from ktx_cli.semantic import Place, Report
from ktx_cli.sources.catalog import safe_text
from ktx_cli.sources.data_catalogs.entities import TERM, Concept
from ktx_cli.sources.port import ProjectContext
from ktx_cli.wiki import (
    FOLDER,
    GLOBAL,
    LONGEST_SUMMARY,
    LONGEST_TEXT,
    MOST_TEXTS,
    Page,
    lint_page,
    new_page,
    page_path,
    place_of,
    render,
    suggested_key,
)

MOST_PAGES: Final = 3_000
"""The maximum number of pages of one catalog."""

_PAGE: Final = "page"
"""The part of a page that a catalog owns: the whole page."""
_LONGEST_KEY: Final = 100
_LONGEST_DEFINITION: Final = 2_400
_LONGEST_PARAGRAPH: Final = 800
_MOST_REFERENCES: Final = 20
_LONGEST_NAME: Final = 120


@dataclass(frozen=True, slots=True)
class Pages:
    """The pages of a catalog as written. `raw`: the raw files with a page; the rest is as in `Projection`."""

    raw: frozenset[str]
    artifacts: Mapping[str, tuple[str, ...]]
    owned: Mapping[str, Mapping[str, str]]
    warnings: tuple[ResultWarning, ...]


def write_pages(
    noun: str,
    context: ProjectContext,
    concepts: Mapping[str, Concept],
    used: Mapping[str, Sequence[str]],
    report: Report,
) -> Pages:
    """Update the pages of a catalog's terms and domains, and delete those that it no longer has.

    A page that people edited stays unchanged. `concepts`: raw file -> term or domain. `used`: ID of a concept -> the
    tables and columns of the semantic layer that have it.
    """
    recorded = {path: items[_PAGE] for path, items in context.owned.items() if _PAGE in items}
    keys = _keys(context, concepts, recorded, report)
    artifacts: dict[str, tuple[str, ...]] = {}
    owned: dict[str, Mapping[str, str]] = {}
    warnings: list[ResultWarning] = []
    by_id = {concepts[raw].id: key for raw, key in keys.items()}
    for raw, key in keys.items():
        concept, path = concepts[raw], page_path(GLOBAL, key)
        page = _page(noun, context.connection, key, concept, by_id, used.get(concept.id, ()))
        if page is None:
            report.dropped(f"{concept.kind} `{concept.full_name}`", "its text cannot be on a wiki page", Place(raw))
            continue
        content, present = render(page), context.workspace.read(path)
        if present is not None and path in recorded and _sha256(present) != recorded[path] and present != content:
            owned[path] = {_PAGE: recorded[path]}
            warnings.append(_edited(path, noun, concept))
            continue
        if present is None and path in recorded:  # People deleted it.
            owned[path] = {_PAGE: recorded[path]}
            continue
        if present != content:
            context.workspace.write(path, content)
        artifacts[path] = (raw,)
        owned[path] = {_PAGE: _sha256(content)}
        report.kept(f"{concept.kind} `{concept.full_name}`", Place(raw), f"wiki:{key}")
    for path in sorted(recorded.keys() - owned.keys()):
        present = context.workspace.read(path)
        if present is not None and _sha256(present) == recorded[path]:
            context.workspace.delete(path)
    return Pages(frozenset(raw for raws in artifacts.values() for raw in raws), artifacts, owned, tuple(warnings))


def _keys(
    context: ProjectContext, concepts: Mapping[str, Concept], recorded: Mapping[str, str], report: Report
) -> dict[str, str]:
    """Return raw file -> key of its page, which no other page of the project has."""
    paths = (path for path in context.workspace.paths(f"{FOLDER}{GLOBAL}/") if path not in recorded)
    taken = {place[1].casefold() for path in paths if (place := place_of(path)) is not None}
    keys: dict[str, str] = {}
    for raw, concept in concepts.items():
        if len(keys) >= MOST_PAGES:
            why = f"the wiki has at most {MOST_PAGES:,} pages of a catalog"
            report.dropped(f"{concept.kind} `{concept.full_name}`", why, Place(raw))
            continue
        key = suggested_key(f"{context.connection}-{concept.name}".lower())[:_LONGEST_KEY].rstrip("-_")
        found, number = key, 2
        while found.casefold() in taken:
            found, number = f"{key}-{number}", number + 1
        taken.add(found.casefold())
        keys[raw] = found
    return keys


def _page(
    noun: str, connection: str, key: str, concept: Concept, keys: Mapping[str, str], used: Sequence[str]
) -> Page | None:
    """Return the page of a term or domain, or None if its text cannot be on a page."""
    name = safe_text(concept.name, _LONGEST_NAME, "name")
    paragraphs = list(_paragraphs(concept.definition))
    what = "Glossary term" if concept.kind == TERM else "Domain"
    summary = one_line(paragraphs[0] if paragraphs else f"{what} of {noun}.", LONGEST_SUMMARY)
    related = [keys[each] for each in concept.related if each in keys and keys[each] != key][:_MOST_REFERENCES]
    references = list(dict.fromkeys(used))[:_MOST_REFERENCES]
    synonyms = [safe_text(each, LONGEST_TEXT, "synonym") for each in concept.synonyms[:MOST_TEXTS]]
    fields: dict[str, Any] = {
        "summary": summary,
        "synonyms": synonyms,
        "tags": ["glossary" if concept.kind == TERM else "domain"],
        "refs": related,
        "sl_refs": references,
        "source": connection,
    }
    body = [f"# {name}", "", *_separated(paragraphs or ["The catalog has no definition of it."])]
    body += ["", *_facts(concept, noun, related, references, len(used))]
    page = new_page(key, {name: value for name, value in fields.items() if value}, "\n".join(body))
    return None if any(lint_page(page, ())) else page


def _facts(concept: Concept, noun: str, related: Iterable[str], references: Sequence[str], count: int) -> Iterator[str]:
    """Yield the lines below a definition."""
    what = "Glossary term" if concept.kind == TERM else "Domain"
    path = safe_text(" / ".join(concept.path), _LONGEST_NAME, "path") if concept.path else ""
    inside = f", under {path}" if path else ""
    yield f"- {what} from {noun}{inside}. ktx updates this page unless you edit it."
    if concept.deprecated:
        note = "" if concept.deprecated == "yes" else f": {safe_text(concept.deprecated, _LONGEST_NAME)}"
        yield f"- Deprecated{note}"
    if concept.status:
        yield f"- Status: {safe_text(concept.status, _LONGEST_NAME)}"
    if concept.owners:
        yield f"- Owners: {safe_text(', '.join(concept.owners), 2 * _LONGEST_NAME, 'owners')}"
    if concept.synonyms:
        yield f"- Also called: {safe_text('; '.join(concept.synonyms), 2 * _LONGEST_NAME, 'synonyms')}"
    for key in related:
        yield f"- Related: [[{key}]]"
    for each in references:
        yield f"- In the data: `{each}`" if "." in each else f"- In the data: `source:{each}`"
    if count > len(references):
        yield f"- and {count - len(references)} more tables and columns"


def _paragraphs(definition: str) -> Iterator[str]:
    """Yield the lines of a definition in a form that pages may show, up to a limit."""
    length = 0
    for line in definition.splitlines():
        text = safe_text(line.strip().lstrip("#>-* ").strip(), _LONGEST_PARAGRAPH)
        if not text:
            continue
        length += len(text)
        if length > _LONGEST_DEFINITION:
            yield "The definition goes on in the catalog."
            return
        yield text


def _separated(paragraphs: Sequence[str]) -> Iterator[str]:
    for number, each in enumerate(paragraphs):
        if number:
            yield ""
        yield each


def _edited(path: str, noun: str, concept: Concept) -> ResultWarning:
    what = f"{path}: kept the edited page of `{one_line(concept.name, 80)}`, which {noun} defines differently"
    return ResultWarning("kept", what, hint="undo the edits of the page to let ktx update it", path=path)


def _sha256(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
