"""How much of a semantic layer is described, and what is not: the KTX1 rules.

A description counts whoever wrote it, but for those `ktx scan` makes by rules: they say what the structure says. What
is hidden counts for nothing, nor does a table nobody may ask for.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from ktx_cli.core import KtxError, ResultWarning, listing, plural, shell_words
from ktx_cli.jobs.check.lint.registry import (
    LAYER,
    LOW_COVERAGE,
    NO_COLUMN_TEXT,
    NO_CONNECTION,
    NO_CONTEXT,
    NO_MEASURE,
    NO_MEASURE_TEXT,
    NO_TABLE_TEXT,
    TO_REVIEW,
    Coverage,
    Finding,
    Level,
    Share,
    rule_of,
)
from ktx_cli.jobs.review.relationships import WorkingFiles
from ktx_cli.jobs.semantic.validate import validate_layers
from ktx_cli.project import DATABASE_SOURCE, SEMANTIC_NAME, Database, KtxConfig, Layout
from ktx_cli.scan import RELATIONSHIPS, TEXT_KEYS, Standing, counted, read_review
from ktx_cli.semantic import Column, Entry, Measure, Model, ParsedCopies, Problem, Source, Visibility, quoted
from ktx_cli.sources import TIER

_TIERS: Final = ("high", "mid", "low")
"""How often a table is queried, the most first; what is not known comes behind them, `unused` last."""

_UNUSED: Final = "unused"
_BY_RULES: Final = TEXT_KEYS["rules"]


@dataclass(frozen=True, slots=True)
class Described:
    """A semantic layer with what tells its descriptions apart.

    `entries`: of the manifest. `rows`: physical name -> how many rows the last scan on this machine saw. `by_model`:
    whether a model is configured to write descriptions.
    """

    model: Model
    entries: Mapping[str, Entry]
    rows: Mapping[str, int]
    by_model: bool = False
    _columns: dict[str, dict[object, Any]] = field(default_factory=dict)

    def sources(self) -> list[Source]:
        """Return the sources that count, by name."""
        return [each for each in self.model.sources.values() if each.visibility is not Visibility.HIDDEN]

    def has_text(self, source: Source, part: Source | Column | Measure) -> bool:
        """Whether a source, or a column or measure of it, has a description that rules did not make."""
        if not part.description:
            return False
        return part.description != self._made_by_rules(source, part)

    def _made_by_rules(self, source: Source, part: Source | Column | Measure) -> str | None:
        entry: Any = self.entries.get(source.name) if source.generated else None
        if entry is not None and isinstance(part, Column):
            entry = self._columns_of(source.name).get(part.name)
        texts = None if entry is None or isinstance(part, Measure) else entry.get("descriptions")
        text = texts.get(_BY_RULES) if isinstance(texts, dict) else None
        return text.strip() if isinstance(text, str) else None

    def _columns_of(self, name: str) -> dict[object, Any]:
        """Return the columns of an entry by name; a table may have tens of thousands."""
        if name not in self._columns:
            columns = self.entries[name].get("columns") or ()
            self._columns[name] = {each.get("name"): each for each in reversed(columns)}
        return self._columns[name]

    def use(self, source: Source) -> str | None:
        """Return how often queries read the source's table, as the query history says; None: not known."""
        usage = self.entries.get(source.name, {}).get("usage")
        tier = usage.get(TIER) if isinstance(usage, dict) else None
        return tier if isinstance(tier, str) else None

    def rows_of(self, source: Source) -> int | None:
        """Return how many rows the source's table had."""
        return None if source.table is None else self.rows.get(".".join(map(quoted, source.table)))

    def rank(self, source: Source) -> tuple[object, ...]:
        """Return where a source stands among those that lack something: often queried, many joins, many rows first."""
        tier = self.use(source)
        place = _TIERS.index(tier) if tier in _TIERS else len(_TIERS) + (tier == _UNUSED)
        return (place, -len(source.joins), -(self.rows_of(source) or 0), source.name)


def coverage_of(layer: Described) -> Coverage:
    """Return how many tables, columns and measures have a description."""
    sources = layer.sources()
    tables = Share(sum(layer.has_text(each, each) for each in sources), len(sources))
    columns = measures = Share()
    for source in sources:
        seen = columns_of(source)
        columns += Share(sum(layer.has_text(source, each) for each in seen), len(seen))
        public = measures_of(source)
        measures += Share(sum(layer.has_text(source, each) for each in public), len(public))
    return Coverage(tables, columns, measures)


def columns_of(source: Source) -> list[Column]:
    """Return the columns that count."""
    return [each for each in source.columns.values() if each.visibility is not Visibility.HIDDEN]


def measures_of(source: Source) -> list[Measure]:
    """Return the measures that count."""
    return [each for each in source.measures.values() if each.visibility is not Visibility.HIDDEN]


def undescribed(layer: Described) -> Iterator[Finding]:
    """Yield what has no description, and tables without a measure; worst first."""
    sources = sorted(layer.sources(), key=layer.rank)
    for source in sources:
        if not layer.has_text(source, source):
            yield _finding(layer, NO_TABLE_TEXT, source, source, f"table `{source.name}` has no description")
    for source in sources:
        yield from _columns(layer, source)
    for source in sources:
        for measure in measures_of(source):
            if not layer.has_text(source, measure):
                said = f"measure `{source.name}.{measure.name}` has no description"
                yield _finding(layer, NO_MEASURE_TEXT, source, measure, said, "add `description:` there")
    for source in sources:
        if not source.measures:
            fix = f"add `measures:` in {own_file(layer.model.connection, source)}"
            yield _finding(layer, NO_MEASURE, source, source, f"table `{source.name}` has no measure", fix)


def _columns(layer: Described, source: Source) -> Iterator[Finding]:
    seen = columns_of(source)
    without = [each for each in seen if not layer.has_text(source, each)]
    if without:
        names = listing(each.name for each in without)
        said = (
            f"table `{source.name}`: {len(without):,} of {plural(len(seen), 'column')} without a description: {names}"
        )
        yield _finding(layer, NO_COLUMN_TEXT, source, without[0], said)


def _finding(
    layer: Described, code: str, source: Source, part: Source | Column | Measure, said: str, fix: str | None = None
) -> Finding:
    place = part.place or source.place
    connection = layer.model.connection
    told = f" ({facts})" if code in (NO_TABLE_TEXT, NO_MEASURE) and (facts := _facts(layer, source)) else ""
    path, line = (None, 1) if place is None else (place.path, place.line)
    return Finding(code, Level.INFO, said + told, fix or _describing(layer, source), path, line, connection)


def _facts(layer: Described, source: Source) -> str:
    """Return why a table stands where it stands in the list."""
    tier, rows = layer.use(source), layer.rows_of(source)
    facts = [f"queried: {tier}" if tier else "", plural(len(source.joins), "join") if source.joins else ""]
    facts += [plural(rows, "row") if rows is not None else ""]
    return ", ".join(filter(None, facts))


def _describing(layer: Described, source: Source) -> str:
    if not (source.generated and layer.by_model):
        return "add `description:` there"
    return f"add `description:` there, or let the model: {shell_words('ktx', 'ingest', layer.model.connection)}"


def own_file(connection: str, source: Source) -> str:
    """Return the file where people write about a source: its own, for one of the manifest its overlay."""
    if not source.generated and source.place is not None:
        return source.place.path
    return f"{SEMANTIC_NAME}/{connection}/{source.name}.yaml"


def without_context(connection: str, entry: Database) -> Finding:
    """Return the finding of a database nothing was built of."""
    said = f"connection `{connection}` ({entry.driver}) has no context yet"
    return Finding(
        NO_CONTEXT, Level.WARNING, said, shell_words("ktx", "ingest", connection), "ktx.yaml", connection=connection
    )


def databases(config: KtxConfig, connection: str | None) -> dict[str, Database]:
    """Return the databases that are looked at."""
    return {name: each for name, each in config.databases().items() if connection in (None, name)}


def too_low(share: Share, wanted: float) -> Finding | None:
    """Return the finding of a coverage below what is wanted; None where it is enough, or nothing is to describe."""
    if share.percent is None or share.described * 100 >= wanted * share.total:
        return None
    said = f"{share.shown} of tables, columns and measures have a description, {wanted:g}% are wanted"
    return Finding(LOW_COVERAGE, Level.ERROR, said, "ktx lint --select KTX101,KTX102,KTX103 --limit 0")


def lint_layers(layout: Layout, config: KtxConfig, models: Mapping[str, Model], wanted: Iterable[str]) -> list[Finding]:
    """Return what is wrong with the definitions of the wanted connections; `models`: of all of them."""
    found: list[Finding] = []
    for connection in wanted:
        checked = validate_layers(
            layout, config, environ={}, connection=connection, data=False, load=lambda *asked: models[asked[2]]
        )
        found += [_problem(connection, each) for _, each in checked.problems]
        if connection not in config.connections:
            found.append(_unknown(connection))
    return found


def _problem(connection: str, problem: Problem) -> Finding:
    rule = rule_of(LAYER, problem.code)
    fix = problem.hint or f"correct {problem.place.path}"
    path = problem.place.path or None
    return Finding(
        rule.code, Level(problem.severity), problem.message, fix, path, problem.place.line if path else 1, connection
    )


def _unknown(connection: str) -> Finding:
    said = f"ktx.yaml has no connection `{connection}`, of which there is a semantic layer"
    folder = f"{SEMANTIC_NAME}/{connection}"
    fix = f"add it to ktx.yaml, or remove the folder: {shell_words('git', 'rm', '-r', folder)}"
    return Finding(NO_CONNECTION, Level.WARNING, said, fix, connection=connection)


def lint_joins(layout: Layout, connections: Iterable[str]) -> tuple[list[Finding], list[ResultWarning]]:
    """Return how many found joins of each connection wait for a person; a warning for a record nobody can read."""
    found, warnings = [], []
    for connection in connections:
        try:
            review = read_review(WorkingFiles(layout.root), connection, ParsedCopies(layout, connection))
        except KtxError as error:
            warnings.append(ResultWarning("relationships_unreadable", error.message, hint=error.hint))
            continue
        waiting = 0 if review is None else counted(review.edges).get(Standing.REVIEW, 0)
        if waiting:
            found.append(_waiting(connection, waiting))
    return found, warnings


def _waiting(connection: str, count: int) -> Finding:
    said = f"{plural(count, 'found join')} of `{connection}` {'waits' if count == 1 else 'wait'} for a decision"
    fix = shell_words("ktx", "scan", "relationships", connection, "--review")
    path = Layout.raw_path(connection, DATABASE_SOURCE, RELATIONSHIPS)
    return Finding(TO_REVIEW, Level.INFO, said, fix, path, connection=connection)
