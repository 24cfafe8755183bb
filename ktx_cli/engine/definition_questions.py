"""Generates synonyms of semantic layer definitions and questions that they answer, for many sources per model call.

They are written at the end of a run, once all definitions of databases, sources and agents are complete. Only sources
with changed definitions are sent to the model. Answers are kept in the state database until a run commits them.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pydantic import BaseModel, Field, TypeAdapter, ValidationError

from ktx_cli.agent_tools import wrapped
from ktx_cli.core import Emit, ResultWarning, StepFinished, StepProgress, StepStarted, monotonic, one_line, plural
from ktx_cli.engine.digests import Kept, batches
from ktx_cli.engine.documents.questions import MOST_QUESTIONS, MOST_SYNONYMS, QuestionDemand, kept_lines
from ktx_cli.engine.documents.triage import Question, QuestionRunner, Tally, content_hash, load_prompt
from ktx_cli.engine.models import Models
from ktx_cli.engine.plan import RunPlan
from ktx_cli.engine.task import Cancellation
from ktx_cli.llm import LlmRuntime
from ktx_cli.privacy import personal_data, secrets
from ktx_cli.project import AnswerStore, Workspace
from ktx_cli.scan import (
    SearchTexts,
    SourceTexts,
    read_search_texts,
    search_texts_bytes,
    search_texts_path,
    search_texts_problem,
    side_by_side,
)
from ktx_cli.semantic import Measure, Model, Segment, Source, VisibleModel

KIND: Final = "definition_questions"
"""The kind under which the answers are stored, and the prompt name."""

ROLE: Final = "candidateExtraction"
"""The role whose model writes the questions, the same as for table descriptions."""

ROOM: Final = 30_000
"""Maximum number of characters for the sources in one call."""

_COLUMNS: Final = 60
_TEXT: Final = 300
"""Limits per source: number of columns, and characters in a description or expression."""

_Name = tuple[str, str]


class DefinitionQuestions(BaseModel):
    """The search terms for one definition."""

    name: str = Field(description="The definition's kind and name, such as `measure net_revenue`.")
    questions: list[str] = Field(description="Three to five questions that the definition answers.")
    synonyms: list[str] = Field(description="Up to six other names for the definition.")


_KEPT: Final = TypeAdapter(list[DefinitionQuestions])


class SourceQuestions(BaseModel):
    """The search terms for the definitions of one source."""

    source: str = Field(description="The label of the source, such as `s1`.")
    definitions: list[DefinitionQuestions]


class QuestionsAnswer(BaseModel):
    """The search terms for the sources in a message."""

    sources: list[SourceQuestions]


@dataclass(frozen=True, slots=True)
class _Item:
    """A source to send to the model. `names`: its definitions."""

    source: str
    key: str
    text: str
    """The text that the model sees."""
    names: tuple[_Name, ...]


@dataclass(slots=True)
class _Layer:
    """One semantic layer: its current texts, and the sources that need new texts."""

    connection: str
    texts: dict[str, SourceTexts]
    waiting: list[_Item] = field(default_factory=list)


def definition_demand(plan: RunPlan, workspace: Workspace, connections: Collection[str], kept: Kept) -> QuestionDemand:
    """Return the calls that `write_definition_questions` would make for the current overlay, without making them."""
    version = load_prompt(KIND, plan.layout.root).version
    layers = [_layer(plan, workspace, connection, version) for connection in sorted(connections)]
    known = kept(KIND, [item.key for layer in layers for item in layer.waiting])
    waiting = [[item for item in layer.waiting if item.key not in known] for layer in layers]
    return QuestionDemand(sum(map(len, waiting)), sum(1 for items in waiting for _ in batches(items, ROOM)))


def write_definition_questions(
    plan: RunPlan, workspace: Workspace, connections: Collection[str], models: Models, store: AnswerStore
) -> None:
    """Write the search terms for the definitions of some connections to the overlay of a run; failures are warnings."""
    prompt = load_prompt(KIND, plan.layout.root)
    layers = [_layer(plan, workspace, connection, prompt.version) for connection in sorted(connections)]
    waiting = [layer for layer in layers if layer.waiting]
    cancellation = Cancellation()
    models.cancels(cancellation)
    if not waiting or cancellation.is_set:
        return
    question = Question(KIND, prompt, QuestionsAnswer, ROLE)

    async def ask(runtime: LlmRuntime) -> None:
        runner = QuestionRunner(runtime, _Forgetful(), cancellation, plan.config.ingest.work_units.max_concurrency)
        for layer in waiting:
            await _ask_about(layer, question, runner, store, plan.emit)

    for layer in waiting:
        if (damage := search_texts_problem(workspace, layer.connection)) is not None:
            plan.warn(ResultWarning("questions_unreadable", f"{damage.message}; ktx writes its questions again"))
    models.ask(ask)
    for layer in waiting:
        workspace.write(search_texts_path(layer.connection), search_texts_bytes(layer.texts))
    missing = sum(len(layer.waiting) for layer in waiting)
    if missing and question.tally.problem:
        what = f"questions for {plural(missing, 'source')} of the semantic layer"
        message = f"could not write {what}; a later run retries: {question.tally.problem}"
        plan.warn(ResultWarning("questions_failed", message))


def _layer(plan: RunPlan, workspace: Workspace, connection: str, version: str) -> _Layer:
    """Return a layer with its texts that are still valid; texts of changed definitions stay until they are replaced."""
    items = list(_items(plan.layers.model(workspace, connection), version))
    known = read_search_texts(workspace, connection)
    texts = {item.source: _restricted(known[item.source], item) for item in items if item.source in known}
    waiting = [item for item in items if item.source not in known or known[item.source].hash != item.key]
    return _Layer(connection, texts, waiting)


def _restricted(own: SourceTexts, item: _Item) -> SourceTexts:
    return SourceTexts(own.hash, {name: texts for name, texts in own.texts.items() if name in item.names})


def _items(model: Model, version: str) -> Iterator[_Item]:
    """Yield the sources that can be searched."""
    shown = VisibleModel(model, internal=True)
    for source in shown.sources():
        measures = shown.measures(source)
        lines = [_line("source", source.name, source.description or "")]
        columns = [each.name for each in shown.columns(source)][:_COLUMNS]
        lines += [f"columns: {', '.join(columns)}"] if columns else []
        lines += [_member_line(shown, source, "measure", each) for each in measures]
        lines += [_member_line(shown, source, "segment", each) for each in source.segments.values()]
        text = "\n".join(lines)
        names = [("source", source.name), *(("measure", each.name) for each in measures)]
        names += [("segment", name) for name in source.segments]
        yield _Item(source.name, content_hash(KIND, version, text), text, tuple(names))


def _member_line(shown: VisibleModel, source: Source, kind: str, member: Measure | Segment) -> str:
    expr = f"`{one_line(member.expr, _TEXT)}`" if shown.can_show(source, member.expr) else ""
    return _line(kind, member.name, " ".join(filter(None, (expr, member.description))))


def _line(kind: str, name: str, text: str) -> str:
    """Return a definition as one line, without texts that contain a secret or personal data."""
    is_private = any(secrets(text)) or any(personal_data(text))
    return f"{kind} {one_line(name)}: {'' if is_private else one_line(text, 2 * _TEXT)}".rstrip()


class _Forgetful:
    """Does not store answers to a whole message: an answer that omits a source would prevent a retry."""

    def get(self, kind: str, key: str) -> None:
        """Return nothing."""

    def get_many(self, kind: str, keys: Iterable[str]) -> dict[str, Any]:
        """Return nothing."""
        return {}

    def put(self, kind: str, key: str, value: Any) -> None:
        """Keep nothing."""


async def _ask_about(
    layer: _Layer, question: Question[QuestionsAnswer], runner: QuestionRunner, store: AnswerStore, emit: Emit
) -> None:
    """Send the sources of a layer that need texts to the model, and apply the answers, if they have arrived."""
    emit(StepStarted("questions", layer.connection))
    started, total = monotonic(), len(layer.waiting)

    def take(item: _Item, texts: SourceTexts) -> None:
        layer.texts[item.source] = texts
        layer.waiting.remove(item)

    stored = store.get_many(KIND, (item.key for item in layer.waiting))
    for item in list(layer.waiting):  # an earlier run that was not committed may have the answer
        if (kept := _parsed(item, stored.get(item.key))) is not None:
            take(item, kept)

    async def ask(batch: Sequence[_Item]) -> None:
        for item, definitions in await _answered(batch, question, runner):
            store.put(KIND, item.key, [each.model_dump(mode="json") for each in definitions])
            take(item, _fit(item, definitions))
        emit(StepProgress("questions", total - len(layer.waiting), total, layer.connection))

    await side_by_side(list(batches(layer.waiting, ROOM)), ask, runner.at_once)
    summary = f"questions for {total - len(layer.waiting)} of {plural(total, 'source')}"
    emit(StepFinished("questions", summary, monotonic() - started, layer.connection))


async def _answered(
    batch: Sequence[_Item], question: Question[QuestionsAnswer], runner: QuestionRunner
) -> list[tuple[_Item, list[DefinitionQuestions]]]:
    """Return the answer of a call for each source; sources missing from it are sent again in a later run."""
    labelled = {f"s{number}": item for number, item in enumerate(batch, 1)}
    sources = (f"{label}:\n{wrapped(item.text, 'a source')}" for label, item in labelled.items())
    answer = await runner.ask(question, "\n\n".join(("The sources:", *sources)))
    if answer is None:
        return []
    given = {each.source.strip().lower(): each.definitions for each in reversed(answer.sources)}
    found = [(item, given[label]) for label, item in labelled.items() if label in given]
    _count_left_out(question.tally, len(batch) - len(found))
    return found


def _parsed(item: _Item, kept: Any) -> SourceTexts | None:
    """Return the texts of a stored answer, or None if the answer does not have the current format."""
    try:
        return _fit(item, _KEPT.validate_python(kept)) if kept is not None else None
    except ValidationError:
        return None


def _count_left_out(tally: Tally, left_out: int) -> None:
    if left_out:
        tally.failures += 1
        tally.problem = tally.problem or f"the answer omitted {plural(left_out, 'source')}"


def _fit(item: _Item, given: Iterable[DefinitionQuestions]) -> SourceTexts:
    """Return the parts of an answer that may be stored; names that are not definitions of the source are dropped."""
    names: Mapping[str, _Name] = {f"{kind} {one_line(name)}": (kind, name) for kind, name in item.names}
    texts: dict[_Name, SearchTexts] = {}
    for each in given:
        name = names.get(one_line(each.name).strip("`"))
        found = SearchTexts(kept_lines(each.questions, MOST_QUESTIONS), kept_lines(each.synonyms, MOST_SYNONYMS))
        if name is not None and (found.questions or found.synonyms):
            texts.setdefault(name, found)
    return SourceTexts(item.key, texts)
