"""Findings about the context: failed questions, refused queries, searches without results, broken definitions.

Findings do not require a model. Texts from agents and people are screened for secrets and personal data.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any, Final

from ktx_cli.agent_tools import Layers
from ktx_cli.core import ConfigError, Diagnostic, KtxError, Record, Severity, one_line, yaml
from ktx_cli.faces import exp
from ktx_cli.jobs.evolve.trial import Results, TrialQuestion, TrialResult
from ktx_cli.project import Tree
from ktx_cli.scan import source_of_tables
from ktx_cli.semantic import NO_CONNECTION, Model, compile_query, own_files
from ktx_cli.warehouses import TableRef, silence_parser
from ktx_cli.wiki import GLOBAL, check_pages, load_wiki, screened

LONGEST: Final = 200
"""Maximum number of characters of a text in a finding."""

_REFERENCE: Final = re.compile(r"\b([A-Za-z_]\w*)\.([A-Za-z_]\w*)\b")


class FindingKind(StrEnum):
    """The kind of a finding."""

    BROKEN_DEFINITION = "broken definition"
    """A semantic layer definition is invalid."""
    BROKEN_REFERENCE = "broken reference"
    """A page refers to something that does not exist."""
    FAILED_QUESTION = "failed question"
    """A question in `evals/` has no answer."""
    WRONG_ANSWER = "wrong answer"
    """A question in `evals/` has a wrong answer."""
    REFUSED_QUERY = "refused query"
    """An agent's query is invalid, then and now."""
    CORRECTED_ANSWER = "corrected answer"
    """An agent's query was refused, and the agent continued with its own SQL."""
    MISSED_SEARCH = "missed search"
    """A search has no results, then and now."""


@dataclass(frozen=True, slots=True)
class Finding(Record):
    """One finding.

    `about` is its subject: a measure, source, page or words. `names` are the references that it needs
    (`orders.revenue`, `orders`), and `missing` those that do not exist. `text` is the request, and `question` the id of
    a trial question. `means` is the definition that the words turned out to mean. `count` is the number of occurrences,
    and `last` the time of the last one, if known. `places` are files with lines, runs and sessions.
    """

    kind: FindingKind
    connection: str
    about: str
    reason: str = ""
    names: tuple[str, ...] = ()
    missing: tuple[str, ...] = ()
    text: str = ""
    question: str = ""
    means: str = ""
    count: int = 1
    last: str = ""
    places: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class KnownContext:
    """The context of the findings, read from a tree."""

    tree: Tree
    layers: Layers

    def model(self, connection: str) -> Model:
        """Return the semantic layer of a connection."""
        return self.layers.model(self.tree, connection)

    def connection_of(self, given: str | None, names: Iterable[str] = ()) -> str:
        """Return the given connection, the only one, or the first one that has one of the names."""
        known = sorted(self.layers.dialects)
        if given is not None and given in known:
            return given
        if len(known) == 1:
            return known[0]
        for each in known:
            if any(name.partition(".")[0] in self.model(each).sources for name in names):
                return each
        return given or (known[0] if known else "")

    def missing(self, connection: str, names: Iterable[str]) -> tuple[str, ...]:
        """Return the names that do not exist in a connection's semantic layer."""
        sources = self.model(connection).sources if connection in self.layers.dialects else {}
        found = []
        for name in names:
            source, dot, member = name.partition(".")
            known = sources.get(source)
            aliases = {each.alias for one in sources.values() for each in one.joins if each.alias}
            if known is None and source not in aliases:
                found.append(source if not dot else name)
            elif known is not None and dot and not _has(known, member):
                found.append(name)
        written = self._written(connection) if found else frozenset()
        return tuple(each for each in dict.fromkeys(found) if each not in written)

    def _written(self, connection: str) -> frozenset[str]:
        """Return the names that a connection's files define (`orders`, `orders.revenue`), even with errors."""
        found: set[str] = set()
        for path in own_files(self.tree, connection):
            document = document_of(self.tree.read(path), path)
            name = document.get("name")
            if isinstance(name, str):
                members = (item for key in ("measures", "segments") for item in document.get(key) or ())
                found.add(name)
                found.update(f"{name}.{item.get('name')}" for item in members if isinstance(item, Mapping))
        return frozenset(found)

    def sources_in(self, connection: str, sql: str) -> tuple[str, ...]:
        """Return the sources whose tables a statement reads, starting with its first table.

        A table without a source keeps its name. Invalid SQL has no sources.
        """
        import sqlglot
        from sqlglot.errors import SqlglotError

        silence_parser()
        dialect = self.layers.dialects.get(connection, "")
        try:
            tree = sqlglot.parse_one(sql, read=dialect or None)
        except (SqlglotError, RecursionError, ValueError):  # agents can write anything
            return ()
        queries = {each.alias for each in tree.find_all(exp.CTE)}
        known = source_of_tables(self.model(connection)) if connection in self.layers.dialects else {}
        first = tree.find(exp.From)
        ordered = [*(first.find_all(exp.Table) if first is not None else ()), *tree.find_all(exp.Table)]
        named = [each for each in ordered if each.name not in queries]
        return tuple(
            dict.fromkeys(
                known.get(TableRef(each.db or None, each.name)) or known.get(TableRef(None, each.name)) or each.name
                for each in named
            )
        )

    def names_of(self, connection: str, statement: Any) -> tuple[str, ...]:
        """Return the names that a statement needs: the references of a semantic layer query, or the sources of SQL."""
        if isinstance(statement, str):
            return self.sources_in(connection, statement)
        return references_of(statement) if isinstance(statement, Mapping) else ()

    def refusal(self, connection: str, query: Mapping[str, Any]) -> KtxError | None:
        """Return the compile error of a semantic layer query, or None."""
        try:
            compile_query(self.model(connection), query)
        except KtxError as error:
            return error
        return None


def document_of(content: bytes | None, path: str) -> Mapping[str, Any]:
    """Return the mapping in a YAML file, or an empty one for a missing or invalid file."""
    try:
        found = None if content is None else yaml.load(content, where=path)
    except ConfigError:  # the semantic layer reports the file
        return {}
    return found if isinstance(found, dict) else {}


def _has(source: Any, member: str) -> bool:
    return any(member in each for each in (source.columns, source.measures, source.segments))


def references_of(query: Mapping[str, Any]) -> tuple[str, ...]:
    """Return the references in a semantic layer query, measures first: `orders.revenue`, `customers.country`.

    Queries from agents can have any shape; invalid parts are ignored.
    """
    found: dict[str, None] = {}
    for key in ("measures", "dimensions", "segments", "filters"):
        items = query.get(key)
        for item in items if isinstance(items, list | tuple) else ():
            words = [item.get("expr"), item.get("field")] if isinstance(item, Mapping) else [item]
            text = " ".join(each for each in words if isinstance(each, str))
            plain = re.sub(r"'[^']*'", "''", text)
            found.update(dict.fromkeys(f"{source}.{member}" for source, member in _REFERENCE.findall(plain)))
    return tuple(found)


def shown_text(text: str) -> str:
    """Return a text from people or agents on one line, screened like documents."""
    return one_line(screened(text), LONGEST)


def findings_of_questions(
    known: KnownContext, questions: Sequence[TrialQuestion], results: Results
) -> Iterator[Finding]:
    """Yield the questions that were not right in every run."""
    for question in questions:
        result = results.get(question.id)
        if result is None or not result.runs or result.is_right:
            continue
        yield _of_question(known, question, result)


def _of_question(known: KnownContext, question: TrialQuestion, result: TrialResult) -> Finding:
    case = question.case
    statements = [each for each in (case.asked.query, *result.statements) if each is not None]
    given = case.connection
    mapped = (each for each in statements if isinstance(each, Mapping))
    names = tuple(name for each in mapped for name in references_of(each))
    connection = known.connection_of(given, names)
    names = tuple(dict.fromkeys(name for each in statements for name in known.names_of(connection, each)))
    return Finding(
        FindingKind.FAILED_QUESTION if result.failed else FindingKind.WRONG_ANSWER,
        connection,
        names[0] if names else case.name,
        one_line(result.reason, LONGEST),
        names,
        known.missing(connection, names) if case.asked.query is not None else (),
        shown_text(question.text),
        question.id,
        count=result.runs - result.right,
        places=(f"{case.path}:{case.line}",),
    )


def broken_findings(known: KnownContext) -> Iterator[Finding]:
    """Yield the invalid definitions in the semantic layers, and the broken references in pages."""
    for connection in sorted(known.layers.dialects):
        problems = known.layers.problems(known.tree, connection)
        errors = [each for each in problems if each.severity is Severity.ERROR and each.code != NO_CONNECTION]
        by_source: dict[str, list[Diagnostic]] = {}
        for each in errors:
            by_source.setdefault(each.location.object or each.path, []).append(each)
        for source, found in sorted(by_source.items()):
            yield Finding(
                FindingKind.BROKEN_DEFINITION,
                connection,
                source,
                one_line(found[0].message, LONGEST),
                (source,),
                count=len(found),
                places=tuple(dict.fromkeys(f"{each.path}:{each.line}" for each in found)),
            )
    yield from _broken_pages(known)


def _broken_pages(known: KnownContext) -> Iterator[Finding]:
    models = known.layers.models(known.tree)
    pages = [page.path for page in load_wiki(known.tree).pages.values() if page.scope == GLOBAL]
    for each in check_pages(known.tree, models, pages):
        if each.severity is not Severity.ERROR:
            continue
        reference = str(each.location.object or "")
        yield Finding(
            FindingKind.BROKEN_REFERENCE,
            "",
            reference or each.path,
            one_line(each.message, LONGEST),
            places=(f"{each.path}:{each.line}",),
        )


def counted(findings: Iterable[Finding]) -> list[Finding]:
    """Merge equal findings, and return them in a fixed order."""
    found: dict[tuple[str, ...], Finding] = {}
    for each in findings:
        key = (each.kind.value, each.connection, each.about, each.text, each.question, each.means, *each.missing)
        known = found.get(key)
        if known is None:
            found[key] = each
            continue
        places = tuple(dict.fromkeys((*known.places, *each.places)))
        found[key] = replace(
            known, count=known.count + each.count, last=max(known.last, each.last), places=places[:_MOST_PLACES]
        )
    order = list(FindingKind)
    return sorted(found.values(), key=lambda each: (order.index(each.kind), -each.count, each.about, each.text))


_MOST_PLACES: Final = 20
