"""`ktx sl query --save`: keeps a question as a measure of a source, or as a golden question in `evals/`.

Nothing is written before the question has an answer, no existing name is replaced, and a measure is saved only if it
compiles, adds no problem to the layer, and has the value of the question.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final

from sqlglot import exp

from ktx_cli.core import Command, KtxError, Record, UsageError, file_stem, listing, one_line, yaml
from ktx_cli.jobs.check.eval.cases import CASE_ID, EvalFile, load_evals
from ktx_cli.jobs.semantic.layers import choose_layer
from ktx_cli.jobs.semantic.question import LayerAnswer, Question, ask_layer, complete_query
from ktx_cli.project import (
    EVALS_NAME,
    KtxConfig,
    Layout,
    WorkingTree,
    Workspace,
    append_value,
    read_bytes,
    write_atomic,
)
from ktx_cli.semantic import (
    Measures,
    Model,
    QueryServices,
    SemanticError,
    Source,
    calendar_of,
    check_model,
    column_parts,
    compile_query,
    load_layer,
    load_tree,
    parse_query,
    read_files,
    spelled,
)

if TYPE_CHECKING:
    from ktx_cli.core import Diagnostic
    from ktx_cli.semantic import CompiledQuery, Names, Query


class SavedKind(StrEnum):
    """What a question is saved as."""

    MEASURE = "measure"
    QUESTION = "question"


@dataclass(frozen=True, slots=True)
class SavedQuestion(Record):
    """A saved question. `name`: `orders.revenue`, or the name of the case; `why`: why it is not a measure.

    `has_sql`: whether a golden question has SQL to compare with.
    """

    kind: SavedKind
    name: str
    path: str
    why: str | None = None
    has_sql: bool = False

    json_keys = ("kind", "name", "path", "why")

    def __str__(self) -> str:
        """A line that reports what was saved."""
        what = "measure" if self.kind is SavedKind.MEASURE else "golden question"
        why = "" if self.why is None else f" (not a measure: {self.why})"
        moves = self.kind is SavedKind.QUESTION and not self.has_sql
        sql = ", without SQL to compare with, because its period changes every day" if moves else ""
        return f"saved as the {what} `{self.name}` in {self.path}{sql}{why}"

    @property
    def next_step(self) -> Command:
        """The command that asks the question again."""
        if self.kind is SavedKind.MEASURE:
            return Command("sl", "query", "-m", self.name)
        return Command("eval", self.name)


@dataclass(frozen=True, slots=True)
class SavePlan:
    """A question that is about to be saved.

    `before`: the current file, None if there is none. `trial`: the layer with the new measure. `question`, `wanted`
    and `description` are what was asked for.
    """

    saved: SavedQuestion
    content: bytes
    before: bytes | None
    question: Question
    wanted: SavedKind | None
    trial: Model | None = None
    description: str | None = None


def plan_save(
    layout: Layout,
    config: KtxConfig,
    question: Question,
    name: str,
    wanted: SavedKind | None = None,
    description: str | None = None,
) -> SavePlan:
    """Return how a question would be saved, without writing anything.

    `description`: what a measure means, or a golden question in words.

    `wanted` None: as a measure, if it is a single expression without dimensions that a source can define, else as a
    golden question. Raises `UsageError` for a name that is taken or invalid, and for a question that cannot be saved as
    the requested measure; `SemanticError` as asking it does.
    """
    connection = choose_layer(layout, config, question.connection)
    question = replace(question, connection=connection)
    model = load_layer(layout, config, connection)
    query = {key: value for key, value in complete_query(question, model).items() if key != "connection"}
    asked = compile_query(model, query, caller=question.caller)
    parsed = parse_query(query)
    why = None
    if wanted is not SavedKind.QUESTION:
        why = _no_measure(parsed, asked)
        if why is None:
            _require_measure_name(name)
            try:
                definition = _Definition(model, parsed, asked)
                return _planned_measure(layout, config, question, name, wanted, definition, description)
            except _NotAMeasure as error:
                why = error.message
        if wanted is SavedKind.MEASURE:
            hint = "omit --save-as to save it as a golden question"
            raise UsageError(f"the query cannot be saved as a measure: {why}", hint=hint)
    return _planned_case(layout, question, query, parsed, asked, name, wanted, why, description)


def save(
    layout: Layout, config: KtxConfig, plan: SavePlan, answer: LayerAnswer, environ: Mapping[str, str]
) -> SavePlan:
    """Write the plan for a question with this answer, and return the plan that was carried out.

    A measure that has another value than the question is not saved; the question becomes a golden one instead, unless
    a measure was wanted. Raises `UsageError` for that, and for a file that somebody changed meanwhile; `StorageError`.
    """
    if plan.trial is not None and (other := _other_value(layout, config, plan, answer, environ)) is not None:
        why = f"as a measure it would be {other}"
        if plan.wanted is SavedKind.MEASURE:
            hint = "omit --save-as to save it as a golden question"
            raise UsageError(f"the query cannot be saved as a measure: {why}", hint=hint)
        name = plan.saved.name.rpartition(".")[2]
        plan = plan_save(layout, config, plan.question, name, SavedKind.QUESTION, plan.description)
        plan = replace(plan, saved=replace(plan.saved, why=why))
    path = layout.root / plan.saved.path
    if path.is_symlink() or path.parent.is_symlink():
        raise UsageError(
            f"{plan.saved.path} is behind a link, which ktx does not write through", hint="remove the link"
        )
    if read_bytes(path) != plan.before:
        hint = "run the same command again"
        raise UsageError(f"{plan.saved.path} was changed while the query ran; nothing was saved", hint=hint)
    path.parent.mkdir(parents=True, exist_ok=True)
    write_atomic(path, plan.content)
    return plan


def _other_value(
    layout: Layout, config: KtxConfig, plan: SavePlan, answer: LayerAnswer, environ: Mapping[str, str]
) -> str | None:
    """Return the value of the planned measure if it differs from that of the question."""
    trial = plan.trial
    services = QueryServices(load=lambda *_: trial) if trial is not None else QueryServices()
    question = Question({"measures": [plan.saved.name]}, plan.question.connection, caller=plan.question.caller)
    value = ask_layer(layout, config, question, environ=environ, services=services).rows[0][0]
    asked = answer.rows[0][0]
    return None if _is_same(asked, value) else "NULL" if value is None else one_line(str(value), 80)


def _is_same(one: Any, other: Any) -> bool:
    """Return whether two values are the same; float sums may differ depending on the order of addition."""
    try:
        return one == other or math.isclose(float(one), float(other), rel_tol=1e-9)
    except (TypeError, ValueError):
        return False


class _NotAMeasure(KtxError):
    """A question that is not a measure of its source; the message gives the reason."""


_WORD: Final = re.compile(r"[^\W\d]\w{0,99}")
_NOT_IN_MEASURES: Final = {
    "dimensions": "dimensions", "having": "a filter on aggregated results", "time_range": "a period",
    "comparison": "a comparison", "totals": "totals", "fill": "`fill`", "offset": "an offset",
    "parameters": "parameters", "timezone": "a time zone", "via": "`via`",
}  # fmt: skip
"""Question key -> its meaning, for keys that a measure does not support."""


def _require_measure_name(name: str) -> None:
    if _WORD.fullmatch(name) is None:
        plain = re.sub(r"\W+", "_", name).strip("_")
        example = plain if _WORD.fullmatch(plain) else "net_revenue"
        hint = f"use letters, digits and `_`: --save {example}; --save-as question takes the name as it is"
        raise UsageError(f"`{one_line(name, 60)}` cannot be a measure name", hint=hint)


def _no_measure(parsed: Query, asked: CompiledQuery) -> str | None:
    """Return why a query's question is not a measure, or None if it can be one."""
    if len(parsed.measures) != 1:
        return f"it has {len(parsed.measures) or 'no'} measures"
    found = [what for key, what in _NOT_IN_MEASURES.items() if getattr(parsed, key)]
    if found:
        return f"it has {listing(found)}"
    if asked.plan.having:
        return "it filters on aggregated results"
    if any(each.via or each.facts is not None for each in parsed.filters):
        return "one of its filters has `via` or `facts`"
    output = asked.plan.outputs[0]
    if output.ref is not None and not parsed.filters and not parsed.segments:
        return f"`{output.ref}` is already a measure"
    return None


@dataclass(frozen=True, slots=True)
class _Definition:
    """A question with one measure, as its source would define it."""

    model: Model
    parsed: Query
    asked: CompiledQuery

    @property
    def _names(self) -> Names:
        return self.asked.compiled.build.names

    def home(self) -> Source:
        """Return the source for the definition: the one that declares the measures used, else the one aggregated."""
        leaves = self.asked.plan.leaves
        homes = {leaf.home or leaf.fact for leaf in leaves}
        if len(homes) != 1:
            raise _NotAMeasure(f"it aggregates rows of several sources: {listing(sorted(homes))}")
        return self.model.sources[homes.pop()]

    def entry(self, name: str, source: Source) -> dict[str, Any]:
        """Return the entry of the measure."""
        ref = self.asked.plan.outputs[0].ref
        expr = self._text(self.parsed.measures[0].expr, source) if ref is None else self._measure_text(ref, source)
        filters = [self._text(each.expr, source) for each in self.parsed.filters]
        combined = filters[0] if len(filters) == 1 else " AND ".join(f"({each})" for each in filters)
        found = {"name": name, "expr": expr, "filter": combined, "segments": list(self._segments(source))}
        return {key: value for key, value in found.items() if value}

    def _measure_text(self, ref: str, source: Source) -> str:
        """Return a source's name for one of its measures, quoted if SQL requires it."""
        owner, _, name = ref.rpartition(".")
        parts = (name,) if owner == source.name else (owner, name)
        return str(_column(parts).sql(self.model.dialect))

    def _segments(self, source: Source) -> Iterator[str]:
        for ref in self.parsed.segments:
            owner, _, name = ref.rpartition(".")
            if name not in source.segments or owner not in ("", source.name):
                raise _NotAMeasure(f"the segment `{ref}` is not one of {source.name}")
            yield name

    def _text(self, text: str, source: Source) -> str:
        """Return an expression from a question, with names relative to a source.

        The text is unchanged if all names in it belong to the source itself.
        """
        tree = self._names.parse(text, f"`{text}`").copy()
        measures, is_changed = Measures(self._names), False
        for column in list(tree.find_all(exp.Column)):
            counted = measures.counted(column)
            if counted is not None:
                column.replace(exp.Star())
                is_changed = True
                continue
            parts = column_parts(column)
            wanted = self._reference(column, measures, source)
            if parts not in (wanted, (source.name, *wanted)):
                is_changed = True
            if column is tree:
                tree = _column(wanted)
            else:
                column.replace(_column(wanted))
        return str(tree.sql(self.model.dialect, normalize_functions="lower")) if is_changed else text

    def _reference(self, column: exp.Column, measures: Measures, source: Source) -> tuple[str, ...]:
        parts = column_parts(column)
        found = None if measures.is_column(parts) else measures.find(parts)
        if found is not None:
            return (found[1].name,) if found[0].name == source.name else (found[0].name, found[1].name)
        name = self._names.asked_name(parts)
        if name.is_metric_time:
            raise _NotAMeasure("it uses `metric_time`")
        return (name.column,) if name.hops in ((), (source.name,)) else (*name.hops, name.column)


def _column(parts: Sequence[str]) -> exp.Column:
    fields = [exp.to_identifier(part, quoted=_WORD.fullmatch(part) is None) for part in parts]
    return exp.column(*reversed(fields))


def _planned_measure(
    layout: Layout,
    config: KtxConfig,
    question: Question,
    name: str,
    wanted: SavedKind | None,
    definition: _Definition,
    description: str | None,
) -> SavePlan:
    model = definition.model
    source = definition.home()
    _require_free(source, name)
    entry = definition.entry(name, source)
    if description:
        entry = {"name": name, "description": description, **entry}
    path, before = _file_of(layout, model, source)
    base = yaml.dump({"name": source.name}).encode() if before is None else before
    content = append_value(base, ("measures",), entry, where=path)
    trial_tree = Workspace(WorkingTree(layout.root))
    trial_tree.write(path, content)
    configured = config.connections.keys()
    trial = load_tree(trial_tree, model.connection, model.dialect, calendar_of(config), configured=configured)
    _require_sound(model, trial, source, name)
    saved = SavedQuestion(SavedKind.MEASURE, f"{source.name}.{name}", path)
    try:
        compile_query(trial, {"measures": [saved.name]}, caller=question.caller)
    except SemanticError as error:
        raise _NotAMeasure(error.message) from error
    return SavePlan(saved, content, before, question, wanted, trial, description)


def _require_free(source: Source, name: str) -> None:
    parts: tuple[tuple[str, Mapping[str, Any]], ...] = (
        *(("measure", source.measures), ("column", source.columns), ("segment", source.segments)),
    )
    for what, known in parts:
        if (found := spelled(known, name)) is not None:
            message = f"`{source.name}` already has a {what} `{found.name}`"
            raise UsageError(message, hint="choose another name; ktx replaces nothing")


def _file_of(layout: Layout, model: Model, source: Source) -> tuple[str, bytes | None]:
    """Return the user-written file about a source, and its content; None if there is none yet."""
    files = read_files(WorkingTree(layout.root), model.connection)
    own = [file for file in files.own if file.document.get("name") == source.name]
    if len(own) > 1:
        raise _NotAMeasure(f"several files are about {source.name}: {listing(file.path for file in own)}")
    if own:
        return own[0].path, own[0].content
    path = f"{Layout.context_paths(model.connection)[0]}/{file_stem(source.name)}.yaml"
    if (layout.root / path).exists():
        raise _NotAMeasure(f"{path} is not about {source.name}, whose file it would be")
    return path, None


def _require_sound(before: Model, after: Model, source: Source, name: str) -> None:
    """Raise `_NotAMeasure` if a layer with the measure has problems that it does not have without the measure."""
    known = {_identity(each) for each in (*before.problems, *check_model(before))}
    found = after.sources.get(source.name)
    for problem in (*after.problems, *check_model(after)):
        if _identity(problem) not in known:
            raise _NotAMeasure(problem.message)
    if found is None or name not in found.measures:
        raise _NotAMeasure(f"{source.name} would not have it")
    lost = {key for key, each in source.measures.items() if not each.is_proposed} - found.measures.keys()
    if lost:
        raise _NotAMeasure(
            f"the `measures` of its file would replace those that the scan knows: {listing(sorted(lost))}"
        )


def _identity(problem: Diagnostic) -> tuple[Any, ...]:
    return problem.severity, problem.code, problem.message, problem.location.object


def _planned_case(
    layout: Layout,
    question: Question,
    query: Mapping[str, Any],
    parsed: Query,
    asked: CompiledQuery,
    name: str,
    wanted: SavedKind | None,
    why: str | None,
    description: str | None,
) -> SavePlan:
    if CASE_ID.fullmatch(name) is None:
        hint = "use letters, digits, `_`, `.` and `-`: --save revenue-by-country"
        raise UsageError(f"`{one_line(name, 60)}` cannot be the name of a golden question", hint=hint)
    path = f"{EVALS_NAME}/{name}.yaml"
    taken = [
        case for case in load_evals(layout).cases if name.casefold() in (case.asked.id.casefold(), case.file.casefold())
    ]
    others = (layout.root / EVALS_NAME / f"{name}{ending}" for ending in (".yaml", ".yml"))
    if taken or any(other.exists() for other in others):
        place = f"{taken[0].path}:{taken[0].line}" if taken else path
        raise UsageError(f"the golden question `{name}` already exists: {place}", hint="choose another name")
    case: dict[str, Any] = {"id": name, **({"question": description} if description else {}), "query": _plain(query)}
    if (sql := _statement(parsed, asked, query.get("limit"))) is not None:
        case["sql"] = sql
    first, *further = question.caller.principals
    if further:
        hint = "ask again as one of them"
        raise UsageError("a golden question has one caller, but this question was asked for several", hint=hint)
    if first:
        case["attributes"] = dict(first)
    document = {"connection": question.connection, "cases": [case]}
    EvalFile.model_validate(document)
    saved = SavedQuestion(SavedKind.QUESTION, name, path, why, sql is not None)
    return SavePlan(saved, yaml.dump(document).encode(), None, question, wanted)


def _plain(value: Any) -> Any:
    """Return a query as plain data, without empty values."""
    if isinstance(value, Mapping):
        return {str(key): _plain(each) for key, each in value.items() if each is not None}
    return [_plain(each) for each in value] if isinstance(value, Sequence) and not isinstance(value, str) else value


def _statement(parsed: Query, asked: CompiledQuery, limit: int | None) -> str | None:
    """Return the SQL that a query compiles to, with only its own limit; None if the SQL changes every day."""
    if parsed.time_range is not None and parsed.time_range.last is not None:
        return None
    tree = asked.compiled.tree.copy()
    tree.set("limit", None if limit is None else exp.Limit(expression=exp.Literal.number(limit)))
    return str(tree.sql(asked.dialect, pretty=True))
