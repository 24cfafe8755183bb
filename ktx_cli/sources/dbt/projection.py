"""Write a dbt project's content without a model: texts and tests in the manifest, joins, semantic models, SQL facts."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import PurePosixPath
from typing import Any, Final

from ktx_cli.core import Command, Hint, ResultWarning, listing, one_line, plural
from ktx_cli.documents import Snapshot
from ktx_cli.privacy import personal_data, secrets
from ktx_cli.semantic import NO_ONE_TABLE, STEERS, Fidelity, Kind, Place, Relation, Report, relation_of
from ktx_cli.sources.conventions import StatedConvention, convention_warnings, record_conventions, stated_variables
from ktx_cli.sources.dbt import project as dbt
from ktx_cli.sources.dbt.facts import KNOWN_TYPES, TOOL, Facts, Reference, add_joins, want_semantics
from ktx_cli.sources.dbt.models import PASSED_ON, SqlModel, read_models
from ktx_cli.sources.dbt.query_sources import is_candidate, want_sources
from ktx_cli.sources.dbt.sql import FILTERS, ModelFacts, Rule
from ktx_cli.sources.dbt.statements import statements_of_models
from ktx_cli.sources.port import ProjectContext, Projection
from ktx_cli.sources.statements import record_statements
from ktx_cli.sources.table_texts import LayerTable, Name, Tables, Wanted, manifest_models, write

_MOST_WARNINGS: Final = 20
_Missed = tuple[Place, str, str]
"""An object without a table: its location, its kind, and the reason."""


def projected(entry: Any, snapshot: Snapshot, context: ProjectContext) -> Projection:
    """Write descriptions, tests, tags and freshness to the manifest, and semantic models to their own files."""
    report = Report()
    name, target = getattr(entry, "project_name", None), getattr(entry, "target", None)
    project = dbt.read_project(snapshot, report, name=name, target=target)
    found, missed = _tables(project, Tables(manifest_models(context)), report)
    wanted = Wanted()
    references: list[Reference] = []
    facts = Facts(project, context, report, wanted, references)
    for node in project.nodes:
        if node.relation in found:
            facts.add(node, found[node.relation])
    add_joins(references, found, context.owned, wanted, report)
    broken: list[ResultWarning] = []
    semantics = want_semantics(project.semantic_files, found, context, wanted, broken)
    for exposure in project.exposures:
        report.dropped(f"exposure `{exposure.text('name') or '?'}`", dbt.EXPOSURE, exposure.place)
    models = read_models(project, found, context.models)
    record_statements(
        context.workspace, context.connection, context.models,
        lambda connection, _: statements_of_models(models, found, connection),
    )  # fmt: skip
    conventions = tuple(_conventions(project, snapshot))
    record_conventions(context.workspace, context.connection, TOOL, snapshot, conventions)
    want_lineage(models, wanted, report, TOOL)
    unreadable = want_sources(project, models, found, context, wanted, report)
    written = write(wanted, context, TOOL)
    report.items += semantics
    items = report.sorted()
    notes = {model.path: sql_note(model.facts) for model in models.values() if model.facts.says_something}
    return Projection(
        written.artifacts, written.owned, items, handled(snapshot, items, notes),
        tuple(_left(project, snapshot, items, models.values())),
        (
            *_unread_warnings(project.unread), *_warnings(missed, semantics), *(broken or unreadable),
            *written.warnings, *convention_warnings(context.connection, conventions, context.models),
        ), notes, {path: tuple(sorted(pointers)) for path, pointers in sorted(wanted.declared.items())},
    )  # fmt: skip


def _conventions(project: dbt.Project, snapshot: Snapshot) -> Iterator[StatedConvention]:
    """Yield a project's conventions on time zone and fiscal year, as stated by its variables."""
    paths = [path for path in snapshot.files if PurePosixPath(path).name in dbt.PROJECT_FILES]
    if paths:
        path = min(paths, key=lambda each: (each.count("/"), each))
        yield from stated_variables(project.texts.variables, path)


def _tables(project: dbt.Project, tables: Tables, report: Report) -> tuple[dict[Relation, LayerTable], list[_Missed]]:
    """Return relation -> table for relations with exactly one table; the others are reported and returned as well."""
    found: dict[Relation, LayerTable] = {}
    missed: list[_Missed] = []
    for node in project.nodes:
        what = f"{node.kind} `{node.shown}`"
        if node.virtual is not None:
            if not is_candidate(node):
                report.dropped(what, node.virtual, node.item.place)
            continue
        several = tables.find(node.name)
        if len(several) == 1:
            found[node.relation] = several[0]
        else:
            report.dropped(what, SEVERAL_TABLES if list(several) else NO_TABLE, node.item.place)
            if node.is_described:
                missed.append((node.item.place, f"{what} (`{node.name}`)", _detail(several)))
    for relation in _named_by_semantic_models(project) - {node.relation for node in project.nodes}:
        several = tables.find(Name(relation[-1], relation[1] if relation[0] == "source" else ""))
        if len(several) == 1:
            found[relation] = several[0]
    return found, missed


_SEVERAL: Final = "several tables match it"


def _detail(several: list[LayerTable]) -> str:
    names = [f"{each.connection}: {each.text}" for each in several]
    return f"{_SEVERAL}: {listing(names)}" if names else NO_TABLE


def _unread_warnings(unread: Iterable[Fidelity]) -> Iterator[ResultWarning]:
    """Yield a warning for each file that is not valid, except dbt's settings."""
    for each in unread:
        path, line = each.place.path, each.place.line
        if PurePosixPath(path).stem not in dbt.CONFIGURATION:
            why = each.why.removeprefix("it is ")
            message = f"{each.place}: {why}. The descriptions, keys and joins in this file do not count in this run"
            hint = Hint("correct the file, then run `{}` again", Command("ingest"))
            yield ResultWarning("definitions_unreadable", message, hint=hint, path=path, line=line)


def _warnings(missed: list[_Missed], semantics: Iterable[Fidelity]) -> tuple[ResultWarning, ...]:
    missed = missed + [(each.place, each.what, each.why) for each in semantics if each.why == NO_ONE_TABLE]
    hint = "build it with dbt and scan its database, or set its schema and alias in the dbt YAML"
    several = "limit the database to the schemas of one dbt target with `schemas`, or set the schema in the dbt YAML"
    shown = [
        ResultWarning(
            "no_table",
            f"{place}: {what}: {why}",
            hint=several if why.startswith(_SEVERAL) else hint,
            path=place.path,
            line=place.line,
        )
        for place, what, why in missed[:_MOST_WARNINGS]
    ]
    rest = len(missed) - _MOST_WARNINGS
    if rest > 0:
        shown.append(
            ResultWarning("no_table", f"and {plural(rest, 'more')} of the dbt models without a table", hint=hint)
        )
    return tuple(shown)


def _named_by_semantic_models(project: dbt.Project) -> set[Relation]:
    """Return the relation that `model:` in semantic models refers to."""
    from ktx_cli.semantic import read_documents

    documents = read_documents(project.semantic_files, Report(), rest=False)
    named = (item.values.get("model") for item in documents.semantic_models)
    return {relation for text in named if isinstance(text, str) and (relation := relation_of(text)) is not None}


def _left(
    project: dbt.Project, snapshot: Snapshot, report: Iterable[Fidelity], models: Iterable[SqlModel]
) -> Iterable[str]:
    """Yield descriptions of the content that a language model would add."""
    for exposure in project.exposures:
        kind = exposure.text("type") or "exposure"
        label = exposure.text("label") or exposure.text("name") or "?"
        yield f"{exposure.place}: {kind} `{label}`, with the models it uses and its purpose, as a page"
    open_files: Mapping[str, list[Fidelity]] = losses(each for each in report if each.why != dbt.EXPOSURE)
    for path, lost in sorted(open_files.items()):
        yield f"{path}: {plural(len(lost), 'statement')} that rules could not place"
    for path in snapshot.files:
        if path.endswith(".md"):
            yield f"{path}: its explanations, as pages"
    for model in sorted(models, key=lambda each: each.path):
        if model.facts.says_something:
            count = plural(len(model.facts.lines), "rule or comment", "rules and comments")
            yield f"{model.path}: {count} in its SQL, as pages and measures"


NO_TABLE: Final = "no scanned database has its table"
SEVERAL_TABLES: Final = "several scanned tables match it"
INERT: Final = frozenset({STEERS, KNOWN_TYPES, dbt.EPHEMERAL, dbt.DISABLED, NO_ONE_TABLE, NO_TABLE, SEVERAL_TABLES})
"""Reasons for omissions that an agent cannot do anything about."""


def losses(report: Iterable[Fidelity]) -> dict[str, list[Fidelity]]:
    """Return the parts that rules could not use but agents may, by file. For SQL, the facts are enough."""
    found: defaultdict[str, list[Fidelity]] = defaultdict(list)
    for each in report:
        if each.kind is not Kind.KEPT and each.why not in INERT and not each.place.path.endswith(dbt.SQL):
            found[each.place.path].append(each)
    return dict(found)


def handled(snapshot: Snapshot, report: Iterable[Fidelity], notes: Mapping[str, str]) -> frozenset[str]:
    """Return the files that leave nothing for agents to do: settings, fully projected YAML, and SQL without rules."""
    open_files = losses(report)
    return frozenset(
        path
        for path in snapshot.files
        if dbt.is_setting(path)
        or (dbt.is_yaml(path) and path not in open_files)
        or (path.endswith(dbt.SQL) and path not in notes)
    )


_MOST_RULES: Final = 25


def sql_note(facts: ModelFacts) -> str:
    """Return the facts in a model's SQL in as few lines as possible."""
    lines = [f"- {one_line(each, 300)}" for each in facts.lines[:_MOST_RULES]]
    if len(facts.lines) > _MOST_RULES:
        lines.append(f"- and {len(facts.lines) - _MOST_RULES} more: read the file")
    reads = listing([".".join(each[1:]) for each in facts.references], 8)
    built = f", built from {reads}" if reads else ""
    return "\n".join([f"Facts in the SQL of model `{facts.name}` ({facts.path}{built}):", *lines])


_MOST_LINEAGE_RULES: Final = 40
_MOST_COLUMNS: Final = 60
_MOST_UPSTREAM: Final = 200
_LONGEST: Final = 300


def want_lineage(models: Mapping[Relation, SqlModel], wanted: Wanted, report: Report, tool: str) -> None:
    """Add the facts in each model's SQL to its table, with filters from the views and ephemeral models it reads."""
    for relation, model in models.items():
        if model.table is None:
            continue
        target = f"{model.table.connection}/{model.table.source.name}"
        what, place = f"SQL of `{model.node.shown}`", Place(model.path)
        if model.facts.problem is not None:
            report.dropped(what, model.facts.problem, place)
            continue
        steps = ("tables", model.table.source.name, "lineage", tool)
        wanted.add(model.table.shard, steps, lineage_of(relation, models), model.path)
        report.kept(what, place, target)


def lineage_of(relation: Relation, models: Mapping[Relation, SqlModel]) -> dict[str, Any]:
    """Return how a model's rows and columns are computed, as far as known."""
    facts = models[relation].facts
    computed = {column.name for column in facts.columns if column.expression}
    rules = [rule.shown for rule in facts.rules if rule.kind in FILTERS or rule.scope or rule.column not in computed]
    rules += [f"in `{name}`: {rule.shown}" for name, rule in _upstream(relation, models)]
    rules += [f"comment: {each.text}" for each in facts.comments if each.is_telling]
    columns = [f"{each.name}: {each.expression}" for each in facts.columns if each.expression]
    found = {
        "file": models[relation].path,
        "built_from": [".".join(each[1:]) for each in facts.references],
        "rules": _plain(rules, _MOST_LINEAGE_RULES),
        "columns": _plain(columns, _MOST_COLUMNS),
        "unresolved": _plain(list(facts.unresolved), _MOST_LINEAGE_RULES),
    }
    return {key: value for key, value in found.items() if value}


def _upstream(relation: Relation, models: Mapping[Relation, SqlModel]) -> Iterator[tuple[str, Rule]]:
    """Yield (model, rule) for the models without stored rows that a model is built on.

    For models without a table, all rules are included, because nothing else states them; for views, only the filters.
    """
    seen, waiting = {relation}, [*models[relation].facts.references]
    while waiting and len(seen) < _MOST_UPSTREAM:
        each = waiting.pop(0)
        model = models.get(each)
        if each in seen or model is None or model.node.materialized not in PASSED_ON:
            continue
        seen.add(each)
        for rule in model.facts.rules:
            if model.table is None or rule.kind in FILTERS:
                yield model.node.shown, rule
        waiting += model.facts.references


def _plain(texts: list[str], most: int) -> list[str]:
    """Return each text on one line, omitting those that appear to contain a secret or personal data."""
    lines = (one_line(text, _LONGEST) for text in texts)
    return [line for line in dict.fromkeys(lines) if not any((*secrets(line), *personal_data(line)))][:most]
