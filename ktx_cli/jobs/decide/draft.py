"""Turns the answer to a decision point into file changes: definitions, a page, tests and `decisions.yaml`."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from ktx_cli.agent_tools import Layers
from ktx_cli.core import Command, ConfigError, Diagnostic, ResultWarning, Severity, yaml
from ktx_cli.jobs.decide.handover import Handover, handover_of, without_changes
from ktx_cli.jobs.decide.metric_tests import fiscal_test, is_test_of, tests_of
from ktx_cli.jobs.decide.points import LoadedDecisions, load_decisions
from ktx_cli.project import CONFIG_NAME, DECISIONS_NAME, SCHEMA_NAME, Workspace, append_value, delete_value, set_value
from ktx_cli.scan import AuthoredSources, empty_overlay
from ktx_cli.semantic import (
    PROPOSED_MEASURES,
    SUFFIXES,
    Alternative,
    DecisionAnswer,
    DecisionKind,
    DecisionPoint,
    Graph,
    Model,
    Source,
    Status,
    TouchedMeasure,
    VisibleModel,
    condition_in,
    is_additive,
    is_named_for,
    is_shown,
    load_answers,
    names_hidden,
    parse_shard,
    touched_measures,
    with_answer,
    without_answer,
)
from ktx_cli.wiki import GLOBAL, Revision, page_path, problems_of, refused, render, revised, suggested_key

_LONGEST_NAME: Final = 48
_FISCAL_START: Final = ("semantic", "fiscal_year_start")
"""The setting in `ktx.yaml` for an answer about the fiscal year."""


_Tests: TypeAlias = dict[tuple[str, str], dict[str, Any]]
"""Tests by source and name."""


@dataclass(frozen=True, slots=True)
class GivenAnswer:
    """A person's answer: the point, the reading, the reason, the name and the day (YYYY-MM-DD)."""

    connection: str
    point: str
    alternative: str
    decided_by: str
    decided_on: str
    reason: str | None = None


@dataclass(slots=True)
class Drafted:
    """The changes made by an answer. `left` maps measures that do not follow it to the reason. `page`: its page key."""

    answer: DecisionAnswer
    point: DecisionPoint
    left: dict[str, str] = field(default_factory=dict)
    page: str | None = None
    tests: tuple[str, ...] = ()
    warnings: list[ResultWarning] = field(default_factory=list)


class DecisionDraft:
    """Applies answers to decision points to a workspace, without writing to disk."""

    def __init__(self, workspace: Workspace, layers: Layers) -> None:
        self.workspace, self._layers = workspace, layers

    def decide(self, given: GivenAnswer) -> Drafted:
        """Apply an answer to the workspace, replacing an earlier answer about the same point.

        Raises `ConfigError` for a file that cannot be edited, or if the definitions would have errors.
        """
        self.take_back(given.connection, given.point)
        loaded = self._load(given.connection)
        point, chosen = _chosen(loaded, given)
        before = self._errors(given.connection)
        others = self._tests_of_answers(loaded)
        answer = DecisionAnswer(
            given.connection, point.id, chosen.id, chosen.label, given.decided_by, given.decided_on, given.reason
        )
        drafted = Drafted(answer, point)
        if chosen.changes:
            self._change_measures(loaded.model, drafted, chosen)
        if point.kind is DecisionKind.FISCAL_START:
            self._set_fiscal_year(drafted, chosen)
        self._check(given.connection, before)
        self._renew_tests(given.connection, others)
        self._add_tests(drafted, chosen)
        self._write_page(drafted, chosen)
        content = self.workspace.read(DECISIONS_NAME)
        self.workspace.write(DECISIONS_NAME, with_answer(content, drafted.answer))
        return drafted

    def take_back(self, connection: str, point: str) -> DecisionAnswer | None:
        """Remove an answer and its changes from the workspace. Returns None if there is no answer.

        Changes that other answers also need (measures, formulas and dates) stay and are handed over to them.
        """
        loaded = self._load(connection)
        answer = next((each for each in loaded.decisions.answers if each.point == point), None)
        if answer is None:
            return None
        others = self._tests_of_answers(loaded, leave_out=point)
        handover = handover_of(loaded.decisions, load_answers(self.workspace), answer)
        for file in self._authored(connection).files.values():
            for each in file:
                self._put(each.path, without_changes(each.content, each.document, answer, handover, each.path))
        for key in (page_key(point), hidden_name(point)):
            if self.workspace.exists(page := page_path(GLOBAL, key)):
                self.workspace.delete(page)
        self._restore_settings(answer, handover)
        content = self.workspace.read(DECISIONS_NAME)
        if content is not None:
            for heir in handover.answers:
                content = with_answer(content, heir)
            self._put(DECISIONS_NAME, without_answer(content, connection, point))
        self._renew_tests(connection, others)
        return answer

    def _set_fiscal_year(self, drafted: Drafted, chosen: Alternative) -> None:
        """Set the fiscal year in `ktx.yaml` according to an answer."""
        content = self.workspace.read(CONFIG_NAME) or b""
        semantic = (yaml.load(content, where=CONFIG_NAME) or {}).get(_FISCAL_START[0]) or {}
        before = semantic.get(_FISCAL_START[1])
        self.workspace.write(CONFIG_NAME, set_value(content, _FISCAL_START, int(chosen.id), where=CONFIG_NAME))
        kept = {".".join(_FISCAL_START): None if before is None else str(before)}
        drafted.answer = replace(drafted.answer, replaced={CONFIG_NAME: kept})

    def _restore_settings(self, answer: DecisionAnswer, handover: Handover) -> None:
        """Restore the settings that an answer changed in `ktx.yaml`."""
        content = self.workspace.read(CONFIG_NAME)
        for setting, before in answer.replaced.get(CONFIG_NAME, {}).items() if content is not None else ():
            if (CONFIG_NAME, setting) in handover.values or setting != ".".join(_FISCAL_START):
                continue
            if before is not None and not before.isdecimal():
                message = f"{DECISIONS_NAME}: the previous `{setting}` of `{answer.point}` is not a month"
                raise ConfigError(
                    message, hint=f"correct the entry, or restore {DECISIONS_NAME} from an earlier commit"
                )
            keys = tuple(setting.split("."))
            if before is not None:
                content = set_value(content or b"", keys, int(before), where=CONFIG_NAME)
            else:
                content = delete_value(content or b"", keys, where=CONFIG_NAME)
                if yaml.load(content, where=CONFIG_NAME).get(keys[0]) == {}:
                    content = delete_value(content, keys[:1], where=CONFIG_NAME)
            self.workspace.write(CONFIG_NAME, content)

    def _put(self, path: str, content: bytes | None) -> None:
        if content is None:
            self.workspace.delete(path)
        else:
            self.workspace.write(path, content)

    def _load(self, connection: str) -> LoadedDecisions:
        return load_decisions(self.workspace, self._layers.model(self.workspace, connection))

    def _authored(self, connection: str) -> AuthoredSources:
        return AuthoredSources.read(_Files(self.workspace), connection)

    def _errors(self, connection: str) -> list[Diagnostic]:
        return [each for each in self._layers.problems(self.workspace, connection) if each.severity is Severity.ERROR]

    def _check(self, connection: str, before: Sequence[Diagnostic]) -> None:
        """Raise `ConfigError` if the definitions have new errors."""
        known = {(each.path, each.code, each.message) for each in before}
        new = [each for each in self._errors(connection) if (each.path, each.code, each.message) not in known]
        if new:
            message = f"the answer would break the definitions: {new[0].location}: {new[0].message}"
            raise ConfigError(message, hint="ktx changed nothing; fix the definition, or edit the files by hand")

    def _change_measures(self, model: Model, drafted: Drafted, chosen: Alternative) -> None:
        """Change the measures that a point affects according to an answer, one source after another."""
        point = drafted.point
        by_source: dict[str, list[TouchedMeasure]] = {}
        for touched in touched_measures(model, Graph(model), point, askable=False):
            by_source.setdefault(touched.source.name, []).append(touched)
        is_hidden = names_hidden(VisibleModel(model), point)
        label = hidden_name(point.id).replace("-", "_") if is_hidden else chosen.label
        name = _segment_name(point, label, chosen.id, [model.sources[each] for each in by_source])
        decision = "A decision about hidden data" if is_hidden else drafted.answer.decision
        followed: list[str] = []
        copied: list[str] = []
        replaced: dict[str, Mapping[str, str | None]] = {}
        for source_name, measures in by_source.items():
            source = model.sources[source_name]
            reasons = ((each.ref, _owner(source, each) or _own_word(point, each)) for each in measures)
            owners = {ref: reason for ref, reason in reasons if reason is not None}
            drafted.left |= owners
            free = [each for each in measures if each.ref not in owners]
            if not free:
                continue
            editor = _SourceEditor(self.workspace, self._authored(model.connection), source, point)
            if chosen.filter is not None:
                condition = condition_in(model, point, chosen.filter, source.name)
                editor.add_segment(name, condition, f"{decision.rstrip('.')}. Decided {drafted.answer.signature}.")
            for each in free:
                if each.measure.is_proposed and _is_generated(each.measure.place):
                    accepted = each.ref in point.spreads or each.ref in point.measures
                    editor.copy(self._proposal(model.connection, each), accepted=accepted)
                    copied.append(each.ref)
                if not chosen.filter or chosen.expr or chosen.time:
                    replaced[each.ref] = {"expr": each.measure.expr, "time": each.measure.time}
                editor.change(each, chosen, name)
                followed.append(each.ref)
            editor.save()
        drafted.answer = replace(
            drafted.answer,
            segment=name if chosen.filter is not None and followed else None,
            measures=tuple(followed),
            copied=tuple(copied),
            replaced=replaced,
        )

    def _proposal(self, connection: str, touched: TouchedMeasure) -> Mapping[str, Any]:
        """Return the manifest entry of a proposed measure."""
        place = touched.measure.place
        path = "" if place is None else place.path
        content = self.workspace.read(path) if path.endswith(SUFFIXES) else None
        tables = {} if content is None else parse_shard(content, path).tables
        for entry in tables.get(touched.source.name, {}).get(PROPOSED_MEASURES) or ():
            if entry.get("name") == touched.measure.name:
                return dict(entry)
        raise ConfigError(f"`{touched.ref}` is not in the manifest of `{connection}`", hint=Command("scan", connection))

    def _add_tests(self, drafted: Drafted, chosen: Alternative) -> None:
        """Add tests to the sources whose measures follow the answer. They fail if a measure stops following it."""
        model = self._layers.model(self.workspace, drafted.answer.connection)
        tests = self._tests(model, drafted.point, chosen, drafted.answer)
        for (source, _), test in tests.items():
            path, content = self._file(model.connection, model.sources[source])
            self.workspace.write(path, append_value(content, ("tests",), test, where=path))
        drafted.tests = tuple(f"{source}.{name}" for source, name in tests)
        if drafted.answer.measures and not tests:
            message = f"ktx wrote no test for `{drafted.point.id}`, because its measures cannot be queried"
            drafted.warnings.append(ResultWarning("decision_without_test", message))

    def _tests(self, model: Model, point: DecisionPoint, chosen: Alternative, answer: DecisionAnswer) -> _Tests:
        """Return the tests for an answer.

        If the answer does not change measures, the tests cover the measures that people define.
        """
        by_source: dict[str, list[str]] = {}
        for ref in answer.measures if chosen.changes else self._kept_measures(model, point):
            source, _, measure = ref.partition(".")
            if source in model.sources and measure in model.sources[source].measures:
                by_source.setdefault(source, []).append(measure)
        found: _Tests = {}
        for name, measures in by_source.items():
            if point.kind is DecisionKind.FISCAL_START:
                tests = fiscal_test(model, point, int(chosen.id), name, measures) if not found else []
            else:
                tests = tests_of(model, point, chosen, name, measures)
            found |= {(name, test["name"]): test for test in tests}
        return found

    def _tests_of_answers(self, loaded: LoadedDecisions, *, leave_out: str = "") -> _Tests:
        """Return the tests for all other answers of a connection, based on the current definitions."""
        found: _Tests = {}
        for point, chosen, answer in loaded.decisions.decided():
            if point.id != leave_out:
                found |= self._tests(loaded.model, point, chosen, answer)
        return found

    def _renew_tests(self, connection: str, before: _Tests) -> None:
        """Update the tests of other answers for changed definitions, except tests that somebody edited.

        `before` are the tests of these answers for the previous definitions.
        """
        if not before:
            return
        loaded = self._load(connection)
        points = {point.id for point, _, _ in loaded.decisions.decided()}
        after = self._tests_of_answers(loaded)
        for place in (*before, *(each for each in after if each not in before)):
            old, new, (source, name) = before.get(place), after.get(place), place
            if old == new or source not in loaded.model.sources or not any(is_test_of(each, name) for each in points):
                continue
            path, content = self._file(connection, loaded.model.sources[source])
            entries = yaml.load(content, where=path).get("tests") or []
            number = next((number for number, each in enumerate(entries) if each.get("name") == name), None)
            if old is None and number is None:
                content = append_value(content, ("tests",), new, where=path)
            elif number is not None and entries[number] == old:
                keys = ("tests", number) if new is not None or len(entries) > 1 else ("tests",)
                content = (
                    delete_value(content, keys, where=path)
                    if new is None
                    else set_value(content, keys, new, where=path)
                )
            self._put(path, None if yaml.load(content, where=path) == {"name": source} else content)

    def _kept_measures(self, model: Model, point: DecisionPoint) -> list[str]:
        """Return the sums and counts that people defined and an answer does not change."""
        touched = touched_measures(model, Graph(model), point)
        return [
            each.ref
            for each in touched
            if not each.measure.is_proposed and _owner(each.source, each) is None and is_additive(model, each)
        ]

    def _file(self, connection: str, source: Source) -> tuple[str, bytes]:
        return _file_of(self.workspace, self._authored(connection), source)

    def _write_page(self, drafted: Drafted, chosen: Alternative) -> None:
        """Write the page of a decision: the decision, its reason, author and day, and the measures that follow it.

        Agents read pages, so a page about hidden data contains neither columns nor conditions.
        """
        model = self._layers.model(self.workspace, drafted.answer.connection)
        visible = VisibleModel(model)
        is_hidden = names_hidden(visible, drafted.point)
        key = hidden_name(drafted.point.id) if is_hidden else page_key(drafted.point.id)
        text = _hidden_page_text(drafted, visible) if is_hidden else _page_text(drafted, chosen)
        fields = _page_fields(drafted, visible, is_hidden=is_hidden)
        page = revised(self.workspace, key, Revision(fields, text))
        broken = [
            each
            for each in problems_of(page, self.workspace, {model.connection: model})
            if each.severity is Severity.ERROR
        ]
        if broken:
            raise refused(page, broken)
        self.workspace.write(page.path, render(page))
        drafted.page = key


def _owner(source: Source, touched: TouchedMeasure) -> str | None:
    """Return the reason why a measure cannot be changed, or None if it can be changed."""
    measure = touched.measure
    if measure.imported and not measure.is_proposed:
        return "another tool defines it"
    generated = [each for each in source.measures.values() if _is_generated(each.place) and not each.is_proposed]
    if measure in generated or (measure.is_proposed and generated):
        return "the manifest defines measures of its source"
    segments = [each for each in source.segments.values() if _is_generated(each.place) and not each.is_proposed]
    return "the manifest defines segments of its source" if segments else None


def _own_word(point: DecisionPoint, touched: TouchedMeasure) -> str | None:
    """Return the reason why a measure keeps its amount or date, or None if it does not."""
    if is_named_for(point, touched.ref):
        return "its name specifies the amount"
    return "it sets its own date" if point.kind is DecisionKind.DATE and touched.measure.time else None


class _Files:
    """Adapts a workspace to the reader interface of `AuthoredSources`."""

    def __init__(self, workspace: Workspace) -> None:
        self._workspace = workspace

    def blobs(self, prefix: str) -> Mapping[str, str]:
        """Return the files below a folder. Their ids are not used."""
        return dict.fromkeys(self._workspace.paths(f"{prefix.rstrip('/')}/"), "")

    def read_many(self, paths: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of existing files by path."""
        contents = ((path, self._workspace.read(path)) for path in paths)
        return {path: content for path, content in contents if content is not None}


def _is_generated(place: Any) -> bool:
    return place is not None and f"/{SCHEMA_NAME}/" in place.path


def _file_of(workspace: Workspace, authored: AuthoredSources, source: Source) -> tuple[str, bytes]:
    """Return the path and content of a source's overlay file, or of a new overlay."""
    own = authored.files.get(source.name, ())
    if len(own) == 1:
        return own[0].path, workspace.read(own[0].path) or b""
    path, content = authored.overlay_file(source.name)
    return path, empty_overlay(source.name) if content is None else content


def own_definition(proposal: Mapping[str, Any], status: Status) -> dict[str, Any]:
    """Return a manifest definition in overlay form."""
    texts = {("user" if who == "ktx" else who): text for who, text in (proposal.get("descriptions") or {}).items()}
    kept = {key: value for key, value in proposal.items() if key != "source"}
    return {**kept, **({"descriptions": texts} if texts else {}), "status": status.value}


class _SourceEditor:
    """Edits the file of one source."""

    def __init__(self, workspace: Workspace, authored: AuthoredSources, source: Source, point: DecisionPoint) -> None:
        self._workspace, self._source, self._point = workspace, source, point
        self.path, self._content = _file_of(workspace, authored, source)

    def add_segment(self, name: str, condition: str, text: str) -> None:
        """Add the segment with the condition of an answer, unless the source already has it."""
        if name in self._source.segments:
            return
        self._append(("segments",), {"name": name, "expr": condition, "descriptions": {"user": text}})

    def copy(self, proposal: Mapping[str, Any], *, accepted: bool) -> None:
        """Copy a proposed measure. `accepted` means that the person saw its values under the readings."""
        status = Status.ACCEPTED if accepted else Status.PROPOSED
        self._append(("measures",), own_definition(proposal, status))

    def change(self, touched: TouchedMeasure, chosen: Alternative, segment: str) -> None:
        """Change a measure according to an answer."""
        entries = self._document().get("measures") or []
        place = next(number for number, each in enumerate(entries) if each.get("name") == touched.measure.name)
        if chosen.filter is not None and segment not in (entries[place].get("segments") or ()):
            self._append(("measures", place, "segments"), segment)
        for key, value in (("expr", chosen.expr), ("time", chosen.time)):
            if value is not None:
                self._content = set_value(self._content, ("measures", place, key), value, where=self.path)

    def save(self) -> None:
        """Write the file to the workspace."""
        self._workspace.write(self.path, self._content)

    def _append(self, path: tuple[str | int, ...], value: Any) -> None:
        self._content = append_value(self._content, path, value, where=self.path)

    def _document(self) -> dict[str, Any]:
        return dict(yaml.load(self._content, where=self.path))


def _chosen(loaded: LoadedDecisions, given: GivenAnswer) -> tuple[DecisionPoint, Alternative]:
    point = next((each for each in loaded.decisions.points if each.id == given.point), None)
    chosen = None if point is None else point.alternative(given.alternative)
    if point is None or chosen is None:
        raise ConfigError(f"`{given.point}` changed in the meantime", hint=Command("decide"))
    return point, chosen


def _segment_name(point: DecisionPoint, label: str, reading: str, sources: Sequence[Source]) -> str:
    """Return a segment name for an answer: the words of its label, unique among all sources."""
    words = re.sub(r"[^a-z0-9]+", "_", label.casefold()).strip("_")
    base = words[:_LONGEST_NAME].strip("_") or f"{point.kind.value}_{reading}"
    base = base if not base[0].isdigit() else f"only_{base}"
    taken = {name.casefold() for source in sources for name in (*source.columns, *source.measures, *source.segments)}
    number, name = 2, base
    while name in taken:
        number, name = number + 1, f"{base}_{number}"
    return name


def page_key(point: str) -> str:
    """Return the key of the page about a decision."""
    return suggested_key(f"decision-{point.replace('.', '-')}".casefold())


def hidden_name(point: str) -> str:
    """Return a neutral name for the page and segment of a decision about hidden data."""
    return f"decision-{hashlib.sha256(point.encode()).hexdigest()[:12]}"


def _page_fields(drafted: Drafted, visible: VisibleModel, *, is_hidden: bool) -> dict[str, Any]:
    answer, point = drafted.answer, drafted.point
    refs = list(answer.measures) or list(drafted.left)
    if is_hidden:
        refs = [each for each in refs if is_shown(visible, each)]
        summary, questions = "A decision about hidden data", []
    else:
        refs = refs or [point.source]
        summary, questions = f"{answer.decision.rstrip('.')} ({point.question})", [point.question]
    return {
        "summary": summary,
        "questions": questions,
        "tags": ["decision"],
        "sl_refs": [f"{answer.connection}/{ref}" for ref in refs],
    }


def _hidden_page_text(drafted: Drafted, visible: VisibleModel) -> str:
    """Return a page text without hidden data: the author and day of the decision, and visible measures."""
    answer = drafted.answer
    lines = ["# A decision about hidden data", "", f"Decided {answer.signature}. See the definitions that follow it."]
    measures = [each for each in answer.measures if is_shown(visible, each)]
    if measures:
        lines += ["", "## Measures that follow it", "", *(f"- `{each}`" for each in measures)]
    return "\n".join(lines) + "\n"


def _page_text(drafted: Drafted, chosen: Alternative) -> str:
    answer, point = drafted.answer, drafted.point
    lines = [f"# {point.question}", "", f"**{answer.decision.rstrip('.')}.** Decided {answer.signature}."]
    if answer.reason:
        lines += ["", f"Reason: {answer.reason}"]
    if point.kind is DecisionKind.FISCAL_START:
        lines += ["", f"`{CONFIG_NAME}` sets `{'.'.join(_FISCAL_START)}` to {chosen.id}."]
    if chosen.filter:
        lines += ["", f"In SQL, rows of `{point.source}` count where `{chosen.filter}`."]
    if chosen.expr:
        lines += ["", f"In SQL: `{chosen.expr}`."]
    if chosen.time:
        lines += ["", f"Rows of `{point.source}` belong to the period of `{chosen.time}`."]
    others = [each.label for each in point.alternatives if each.id != chosen.id]
    lines += ["", f"Not chosen: {'; '.join(others)}."] if others else []
    lines += ["", "## Evidence", "", *(f"- {each}" for each in point.evidence)] if point.evidence else []
    if answer.measures:
        lines += ["", "## Measures that follow it", "", *(f"- `{each}`" for each in answer.measures)]
    if drafted.left:
        lines += ["", "## Measures that do not follow it", ""]
        lines += [f"- `{measure}`: {reason}" for measure, reason in drafted.left.items()]
    return "\n".join(lines) + "\n"
