"""`ktx lint`: the rules, the project they examine, and the report; uses no database and no model."""

from __future__ import annotations

import functools
import json
import pkgutil
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import (
    Command,
    Diagnostic,
    Hint,
    KtxError,
    Location,
    Record,
    ResultWarning,
    Severity,
    UsageError,
    did_you_mean,
    plain,
    plural,
    severity_counts,
    yaml,
)
from ktx_cli.jobs.check.lint.staleness import ChangedTarget, changed_targets
from ktx_cli.jobs.semantic.validate import validate_layers
from ktx_cli.jobs.wiki import lint_wiki
from ktx_cli.project import SEMANTIC_NAME, KtxConfig, Layout, StateDatabase, WorkingTree, connection_of, read_state
from ktx_cli.semantic import Column, Measure, Visibility, layer_ids, load_layers, load_manifest, quoted
from ktx_cli.wiki import Graph, Page, load_wiki

if TYPE_CHECKING:
    from ktx_cli.semantic import Entry, Model, Segment, Source

Files = Mapping[str, str | None]
"""Path -> text for the files of a project; None if the file does not exist."""

Check = Callable[["LintedProject"], Iterable[Diagnostic]]


def example_project() -> Files:
    """Return the project that the rules' examples change; no rule reports anything in the project itself."""
    path = Path(__file__).with_name("example_project.yaml")
    return dict(yaml.load(path.read_bytes(), where=path.name))


@dataclass(frozen=True, slots=True)
class Rule:
    """A rule of `ktx lint`: a module in `rules/`, or an entry of a YAML file there with the rules of one checker."""

    code: str
    """For example `KTX101`. A code keeps its meaning; a new rule gets a new code."""
    name: str
    """For example `undescribed-table`."""
    severity: Severity
    """The default severity of the rule's diagnostics."""
    summary: str
    """The summary of the rule, in one sentence."""
    explanation: str
    """Why the rule matters, and how to fix its diagnostics."""
    check: Check
    """Return the diagnostics for a project."""
    bad: Files
    """Changes to the example project for which the rule reports something."""
    good: Files
    """Changes to the example project for which the rule reports nothing; they are committed before those in `bad`."""
    alias: str | None = None
    """The code under which `ktx wiki lint` or `ktx sl validate` reports the same diagnostic."""
    on_demand: bool = False
    """Whether a command option turns the rule on, regardless of `--select` and `--ignore`."""

    @property
    def group(self) -> str:
        """The code prefix of rules about the same subject: `KTX1`."""
        return self.code[:4]

    def diagnostic(self, message: str, location: Location, hint: str, severity: Severity | None = None) -> Diagnostic:
        """Return a diagnostic of this rule; `severity` overrides the default."""
        return Diagnostic(self.code, severity or self.severity, message, location, hint)


COVERAGE: Final = "KTX1"
WIKI: Final = "KTX2"
LAYER: Final = "KTX3"
GROUPS: Final[Mapping[str, str]] = {COVERAGE: "Coverage of descriptions", WIKI: "The wiki", LAYER: "The semantic layer"}
"""The code prefix of a group -> the subject of its rules."""


@functools.cache
def all_rules() -> Mapping[str, Rule]:
    """Return every rule by its code, in code order."""
    return {rule.code: rule for rule in sorted(defined_rules(), key=lambda rule: rule.code)}


def defined_rules() -> list[Rule]:
    """Return the rules in `rules/`: one from each module, and the rules that share a checker from the YAML files."""
    from ktx_cli.jobs.check.lint import rules

    modules = (import_module(f"{rules.__name__}.{module.name}") for module in pkgutil.iter_modules(rules.__path__))
    files = sorted(path for folder in rules.__path__ for path in Path(folder).glob("*.yaml"))
    shared = (fields for path in files for fields in yaml.load(path.read_bytes(), where=path.name))
    return [*(module.RULE for module in modules), *(shared_rule(**fields) for fields in shared)]


def shared_rule(
    code: str,
    summary: str,
    explanation: str,
    alias: str | None = None,
    name: str | None = None,
    severity: str = "error",
    bad: Files | None = None,
) -> Rule:
    """Return a rule that reports its group's checker diagnostics with the code `alias`; None: any other code."""

    def wants(other: str) -> bool:
        if alias is not None:
            return other == alias
        return all(rule.alias != other for rule in all_rules().values() if rule.group == code[:4])

    def of_pages(project: LintedProject) -> Iterator[Diagnostic]:
        for problem in project.page_problems:
            if wants(problem.code):
                yield replace(problem, code=code, hint=problem.hint or Hint(f"correct {problem.path}"))

    def of_layers(project: LintedProject) -> Iterator[Diagnostic]:
        for connection, problem in project.layer_problems:
            if wants(problem.code):
                known = problem.location if problem.path else Location()
                location = known.within(object=problem.location.object, connection=connection)
                hint = problem.hint or Hint(f"correct {problem.path}")
                yield replace(problem, code=code, location=location, hint=hint)

    check = of_pages if code.startswith(WIKI) else of_layers
    name = name or str(alias).replace("_", "-")
    return Rule(code, name, Severity(severity), summary, explanation, check, bad=bad or {}, good={}, alias=alias)


@dataclass(frozen=True, slots=True)
class Selection:
    """The rules selected by code, or by code prefix (`KTX2`); nothing selected means all."""

    select: tuple[str, ...] = ()
    ignore: tuple[str, ...] = ()

    @classmethod
    def of(cls, select: Sequence[str], ignore: Sequence[str]) -> Selection:
        """Return the selected codes, possibly separated by commas; raises `UsageError` for an unknown code prefix."""
        return cls(tuple(_codes(select, "--select")), tuple(_codes(ignore, "--ignore")))

    def __contains__(self, code: object) -> bool:
        if not isinstance(code, str):
            return False
        return (not self.select or code.startswith(self.select)) and not (self.ignore and code.startswith(self.ignore))

    def rules(self) -> list[Rule]:
        """Return the selected rules by code, and the rules that an option turns on."""
        return [rule for rule in all_rules().values() if rule.on_demand or rule.code in self]


def _codes(values: Sequence[str], option: str) -> list[str]:
    codes = [code.strip().upper() for value in values for code in value.split(",") if code.strip()]
    known = all_rules()
    for code in codes:
        if not any(other.startswith(code) for other in known):
            near = did_you_mean(code, known)
            hint = Command("lint", option, near) if near else Command("lint", option, "KTX2")
            raise UsageError(f"{option}: no rule has the code `{code}`", hint=hint, details={"codes": list(known)})
    return codes


_TIERS: Final = ("high", "mid", "low")
"""Classes of how often a table is queried, in descending order; unknown comes last, after `unused`."""

_UNUSED: Final = "unused"


@dataclass(frozen=True, slots=True)
class Share(Record):
    """The number of parts with a description, and of all parts."""

    described: int = 0
    total: int = 0

    def __add__(self, other: Share) -> Share:
        return Share(self.described + other.described, self.total + other.total)

    @property
    def percent(self) -> float | None:
        """The percentage to one decimal, rounded down so that 100 means all; None if there are no parts."""
        return self.described * 1000 // self.total / 10 if self.total else None

    @property
    def text(self) -> str:
        """`61.9% (13 of 21)`."""
        return "none" if self.percent is None else f"{self.percent:.1f}% ({self.described:,} of {self.total:,})"

    json_keys = ("described", "total", "percent")


@dataclass(frozen=True, slots=True)
class Coverage(Record):
    """The share of a connection's parts (or of all parts) that have a description."""

    tables: Share = Share()
    columns: Share = Share()
    measures: Share = Share()
    json_keys = ("tables", "columns", "measures", "all")

    def __add__(self, other: Coverage) -> Coverage:
        return Coverage(self.tables + other.tables, self.columns + other.columns, self.measures + other.measures)

    @property
    def all(self) -> Share:
        """Tables, columns and measures together."""
        return self.tables + self.columns + self.measures


@dataclass(frozen=True, slots=True)
class DescribedLayer:
    """A semantic layer, with the data needed to judge its descriptions."""

    model: Model
    entries: Mapping[str, Entry]
    """The manifest entries by source."""
    rows: Mapping[str, int]
    """Physical table name -> number of rows at the last scan on this machine."""
    by_model: bool = False
    """Whether a model is configured to write descriptions."""
    _columns: dict[str, dict[object, Any]] = field(default_factory=dict)

    def sources(self) -> list[Source]:
        """Return the sources that count: often queried ones first, then those with many joins, then with many rows."""
        return sorted((source for source in self.model.sources.values() if _counts(source)), key=self._rank)

    def is_described(self, source: Source, part: Source | Column | Measure) -> bool:
        """Whether a source, or one of its columns or measures, has a description that was not generated by rules."""
        return bool(part.description) and part.description != self._made_by_rules(source, part)

    def coverage(self) -> Coverage:
        """Return how many tables, columns and measures have a description."""
        sources = self.sources()
        return Coverage(
            Share(sum(self.is_described(source, source) for source in sources), len(sources)),
            self._share(sources, columns_of),
            self._share(sources, measures_of),
        )

    def _share(self, sources: list[Source], parts_of: Callable[[Source], list[Any]]) -> Share:
        parts = [(source, part) for source in sources for part in parts_of(source)]
        return Share(sum(self.is_described(*pair) for pair in parts), len(parts))

    def location(self, source: Source, part: Source | Column | Measure | Segment) -> Location:
        """Return the location where a part of a source is defined."""
        place = part.place or source.place
        path, line = (None, None) if place is None else (place.path, place.line)
        return Location(path, line, connection=self.model.connection)

    def facts(self, source: Source) -> str:
        """Return the reason for a source's rank in parentheses after a blank; empty if unknown."""
        tier, rows = self._tier(source), self._rows(source)
        facts = [f"queried: {tier}" if tier else "", plural(len(source.joins), "join") if source.joins else ""]
        facts += [plural(rows, "row") if rows is not None else ""]
        text = ", ".join(filter(None, facts))
        return f" ({text})" if text else ""

    def way_to_describe(self, source: Source) -> str:
        """Return the hint for a source, or for columns of it, without a description."""
        if not (source.generated and self.by_model):
            return "add `description:` there"
        return Hint("add `description:` there, or let the model: {}", Command("ingest", self.model.connection))

    def own_file(self, source: Source) -> str:
        """Return the file in which people describe a source: its own file, or the overlay for a manifest source."""
        if not source.generated and source.place is not None:
            return source.place.path
        return f"{SEMANTIC_NAME}/{self.model.connection}/{source.name}.yaml"

    def _made_by_rules(self, source: Source, part: Source | Column | Measure) -> str | None:
        entry: Any = self.entries.get(source.name) if source.generated else None
        if entry is not None and isinstance(part, Column):
            entry = self._columns_of(source.name).get(part.name)
        texts = None if entry is None or isinstance(part, Measure) else entry.get("descriptions")
        if not isinstance(texts, dict):
            return None
        text = texts.get(_rules_key())
        return text.strip() if isinstance(text, str) else None

    def _columns_of(self, name: str) -> dict[object, Any]:
        """Return the columns of an entry by name; a table may have tens of thousands."""
        if name not in self._columns:
            columns = self.entries[name].get("columns") or ()
            self._columns[name] = {column.get("name"): column for column in reversed(columns)}
        return self._columns[name]

    def _tier(self, source: Source) -> str | None:
        """Return how often queries read the source's table, according to the query history; None: unknown."""
        usage = self.entries.get(source.name, {}).get("usage")
        if not isinstance(usage, dict):
            return None
        from ktx_cli.sources import TIER

        tier = usage.get(TIER)
        return tier if isinstance(tier, str) else None

    def _rows(self, source: Source) -> int | None:
        return None if source.table is None else self.rows.get(".".join(map(quoted, source.table)))

    def _rank(self, source: Source) -> tuple[object, ...]:
        tier = self._tier(source)
        place = _TIERS.index(tier) if tier in _TIERS else len(_TIERS) + (tier == _UNUSED)
        return (place, -len(source.joins), -(self._rows(source) or 0), source.name)


@functools.cache
def _rules_key() -> str:
    from ktx_cli.scan import TEXT_KEYS

    return TEXT_KEYS["rules"]


def columns_of(source: Source) -> list[Column]:
    """Return the columns that count."""
    return [column for column in source.columns.values() if _counts(column)]


def measures_of(source: Source) -> list[Measure]:
    """Return the measures that count."""
    return [measure for measure in source.measures.values() if _counts(measure)]


def _counts(part: Source | Column | Measure) -> bool:
    return part.visibility is not Visibility.HIDDEN


@dataclass(frozen=True)
class LintedProject:
    """The files of a project, and data derived from them when a rule first needs it; uses no database and no model."""

    layout: Layout
    config: KtxConfig
    warn: Callable[[ResultWarning], None]
    """Receives warnings about what could not be examined."""
    connection: str | None = None
    """Examine only this connection and the pages that may refer to it; None: everything."""
    min_coverage: float | None = None
    """Percentage of tables, columns and measures that must have a description."""

    @functools.cached_property
    def layers(self) -> Mapping[str, Model]:
        """The semantic layer of every connection; `UsageError` if the requested connection does not exist."""
        known = layer_ids(self.layout)
        if self.connection is not None and self.connection not in known:
            connection_of(self.config, self.connection)
        return dict(zip(known, load_layers(self.layout, self.config, known), strict=True))

    @functools.cached_property
    def linted_layers(self) -> list[str]:
        """The connections whose semantic layers are examined."""
        return [name for name in self.layers if self.connection in (None, name)]

    @functools.cached_property
    def described_layers(self) -> list[DescribedLayer]:
        """The examined semantic layers, with the data needed to judge their descriptions."""
        from ktx_cli.llm import bindings

        try:
            rows = read_state(self.layout, _row_counts) or {}
        except KtxError as error:
            rows = {}
            self.warn(ResultWarning("state_unreadable", error.message, hint=error.hint))
        by_model = self.config.scan.enrichment.mode == "llm" and bool(bindings(self.config))
        return [
            DescribedLayer(self.layers[name], load_manifest(self.layout, name).tables, rows.get(name, {}), by_model)
            for name in self.linted_layers
        ]

    @functools.cached_property
    def coverage(self) -> Mapping[str, Coverage]:
        """The described share of each examined semantic layer."""
        return {layer.model.connection: layer.coverage() for layer in self.described_layers}

    @functools.cached_property
    def layer_problems(self) -> list[tuple[str, Diagnostic]]:
        """The diagnostics of `ktx sl validate --no-data`, by connection."""
        return [
            problem
            for name in self.linted_layers
            for problem in validate_layers(
                self.layout,
                self.config,
                environ={},
                connection=name,
                data=False,
                load=lambda layout, config, connection: self.layers[connection],
            ).problems
        ]

    @functools.cached_property
    def graph(self) -> Graph:
        """All pages of the wiki with their references."""
        return Graph(load_wiki(WorkingTree(self.layout.root)))

    @functools.cached_property
    def pages(self) -> list[Page]:
        """The examined pages, by path."""
        pages = self.graph.wiki.pages
        if self.connection is None:
            return [page for _, page in sorted(pages.items())]
        paths = {page.path for page in self.graph.layer_readers(self.connection)}
        return [page for path, page in sorted(pages.items()) if path in paths]

    @functools.cached_property
    def page_problems(self) -> list[Diagnostic]:
        """The `ktx wiki lint` diagnostics for the examined pages, and for files without a page if all are examined."""
        paths = None if self.connection is None else {page.path for page in self.pages}
        linted = lint_wiki(self.layout, self.config, wiki=self.graph.wiki, models=self.layers)
        return [diagnostic for diagnostic in linted.findings if paths is None or diagnostic.location.path in paths]

    @functools.cached_property
    def changed_targets(self) -> list[ChangedTarget]:
        """The examined pages' references to definitions that changed or were removed since the pages were committed."""
        changed, warnings = changed_targets(self.layout, self.config, self.graph, self.layers, self.pages)
        for warning in warnings:
            self.warn(warning)
        return [change for change in changed if self.connection in (None, change.target.connection)]


def _row_counts(database: StateDatabase) -> dict[str, dict[str, int]]:
    """Return connection -> physical table name -> row count, from the last scan on this machine."""
    rows = database.execute("SELECT connection, row_estimates FROM scans").fetchall()
    return {connection: json.loads(text) for connection, text in rows}


@dataclass(frozen=True, slots=True)
class LintReport:
    """The result of `ktx lint`."""

    coverage: Mapping[str, Coverage]
    """The described share of each connection."""
    diagnostics: tuple[Diagnostic, ...] = ()
    """The worst first."""
    pages: int = 0
    """The number of examined pages."""

    @property
    def total(self) -> Coverage:
        """The combined coverage of all connections."""
        return sum(self.coverage.values(), Coverage())

    def counts(self) -> dict[str, int]:
        """Return the number of diagnostics of each severity."""
        return severity_counts(self.diagnostics)

    def by_code(self) -> dict[str, int]:
        """Return the number of diagnostics with each code."""
        return dict(sorted(Counter(diagnostic.code for diagnostic in self.diagnostics).items()))

    def to_json(self) -> dict[str, Any]:
        """Return the `data` of the envelope."""
        return {
            "coverage": {"connections": plain(self.coverage), "total": self.total.to_json()},
            "pages": self.pages,
            "findings": [diagnostic.select(_KEYS) for diagnostic in self.diagnostics],
            "counts": self.counts(),
            "codes": self.by_code(),
        }

    def error(self) -> KtxError | None:
        """Return the error with which the command ends if any diagnostic is at least a warning."""
        counts = self.counts()
        bad = [
            plural(counts[severity], severity) for severity in (Severity.ERROR, Severity.WARNING) if counts[severity]
        ]
        if not bad:
            return None
        hint = _hint_of_all(min(self.diagnostics, key=lambda diagnostic: -diagnostic.severity.weight))
        details = {"counts": counts, "codes": self.by_code()}
        return KtxError(f"the context has {' and '.join(bad)}", hint=hint, details=details, code="lint_problems")


_KEYS: Final[Mapping[str, str]] = {
    "code": "code",
    "level": "severity",
    **{name: name for name in ("message", "hint", "path", "line", "connection")},
}
"""The keys of a diagnostic in JSON output."""


def _hint_of_all(diagnostic: Diagnostic) -> Hint | None:
    """Return the command that lists similar diagnostics; a diagnostic about the whole project names its own."""
    if all_rules()[diagnostic.code].on_demand:
        return diagnostic.hint
    return Command("lint", "--select", diagnostic.code, "--limit", "0")


def lint_project(
    layout: Layout,
    config: KtxConfig,
    *,
    connection: str | None = None,
    selection: Selection | None = None,
    min_coverage: float | None = None,
) -> tuple[LintReport, list[ResultWarning]]:
    """Return the report for one connection or for all, and warnings about what could not be examined.

    `min_coverage`: percent of tables, columns and measures that must have a description. Writes nothing; reads the git
    history. Raises `UsageError` for an unknown connection.
    """
    warnings: list[ResultWarning] = []
    project = LintedProject(layout, config, warnings.append, connection, min_coverage)
    rules = (selection or Selection()).rules()
    coverage = project.coverage
    diagnostics = dict.fromkeys(diagnostic for rule in rules for diagnostic in rule.check(project))
    pages = len(project.pages) if any(rule.group == WIKI for rule in rules) else 0
    return LintReport(coverage, tuple(sorted(diagnostics, key=_order)), pages), warnings


def _order(diagnostic: Diagnostic) -> tuple[object, ...]:
    """Return the sort key for diagnostics; coverage diagnostics keep their order, the worst first."""
    location = diagnostic.location
    place = (location.path or "", location.line or 1, diagnostic.message)
    return (-diagnostic.severity.weight, diagnostic.code, () if diagnostic.code.startswith(COVERAGE) else place)
