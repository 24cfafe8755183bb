"""The tools of each stage, and the tools of the loop that reviews a whole run for overlaps and deleted raw files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Final, Literal

from pydantic import Field, create_model

from ktx_cli.agent_tools import contradictions, discovery, layer_readers, layer_writers, sql, wiki
from ktx_cli.agent_tools.fence import Parts, joined, shortened, wrapped
from ktx_cli.agent_tools.session import (
    Action,
    Conflict,
    EvictionDecision,
    Failure,
    Input,
    Resolution,
    SourceEvidence,
    StagedUnit,
    Tool,
    ToolSession,
    tool,
)
from ktx_cli.agent_tools.wiki import missing_references
from ktx_cli.core import did_you_mean, listing, one_line, plural
from ktx_cli.llm import RuntimeTool, ToolInvocation, ToolOutput, check_tools
from ktx_cli.privacy import personal_data, secrets
from ktx_cli.prompts import for_stage
from ktx_cli.protection import Refused
from ktx_cli.sources import EvidenceForm
from ktx_cli.wiki import GLOBAL, page_path

_ARTIFACT: Final = "`wiki:<key>` or `sl:<connection>/<source>`, as stage_list shows it."


class StageList(Input):
    """The units to list."""

    start: int = Field(1, ge=1, description="Number of the first unit to list, if the list was cut.")


class StageDiff(Input):
    """The two units to compare."""

    unit_a: str = Field(description="Key of a unit.")
    unit_b: str = Field(description="Key of another unit.")


class EvictionList(Input):
    """The deleted files to list."""

    start: int = Field(1, ge=1, description="Number of the first file to list, if the list was cut.")


class ConflictResolution(Input):
    """A duplicate or a replaced artifact, and what was done about it."""

    kind: Literal["structural_duplicate", "near_duplicate", "same_name", "re_ingest_change"]
    artifact: str = Field(max_length=300, description=f"The artifact that is kept: {_ARTIFACT}")
    detail: str = Field(min_length=1, max_length=1_000, description="What was done, and why.")
    flagged_for_human: bool = Field(description="Whether a person should review it.")
    contested: str | None = Field(None, max_length=300, description="The contested name, or the removed artifact.")
    unit: str | None = Field(None, max_length=300, description="Key of the unit it came from.")


class EvictionDecided(Input):
    """The decision about an artifact whose raw file was deleted."""

    raw_path: str = Field(description="The deleted raw file, as eviction_list shows it.")
    artifact: str = Field(max_length=300, description=_ARTIFACT)
    action: Literal["removed", "kept"] = Field(description="`kept`: other sources also support it.")
    reason: str = Field(min_length=1, max_length=500)


class ArtifactResolution(Input):
    """An artifact that was combined with another one."""

    raw_path: str = Field(description="The raw file the artifact came from.")
    artifact: str = Field(max_length=300, description=f"The removed artifact: {_ARTIFACT}")
    into: str = Field(max_length=300, description="The artifact that is kept.")
    kind: Literal["merged", "subsumed"] = Field(
        description="`merged`: its text was added to the other; `subsumed`: it was not needed."
    )
    reason: str = Field(min_length=1, max_length=500)


@tool()
def stage_list(session: ToolSession, value: StageList) -> ToolOutput:
    """List the units of this run with their files and what each unit wrote."""
    units = list(session.stage.units)[value.start - 1 :]
    if not units:
        return ToolOutput("No unit wrote anything.", {"success": True, "units": 0})
    parts = Parts()
    for each in units:
        parts.add(_unit_text(each))
    more = parts.more("units", f"continue with start {value.start + parts.shown}")
    return ToolOutput(joined(wrapped(parts.text(), "this run"), more), {"success": True, "units": len(units)})


def _unit_text(unit: StagedUnit) -> str:
    head = f"- {unit.key} ({unit.status}): {one_line(unit.label, 200)}; files: {listing(unit.files, 10)}"
    lines = [f"    - {each.kind} {_action_text(each)}" for each in unit.actions[:40]]
    rest = [f"    - and {len(unit.actions) - 40} more"] if len(unit.actions) > 40 else []
    return "\n".join([head, *lines, *rest])


def _action_text(action: Action) -> str:
    of = f" [from {listing(action.raw_paths, 5)}]" if action.raw_paths else ""
    return f"{action.identity}: {one_line(action.detail, 200)}{of}"


@tool()
def stage_diff(session: ToolSession, value: StageDiff) -> ToolOutput:
    """Show the artifacts that two units both wrote."""
    one, other = _unit(session, value.unit_a), _unit(session, value.unit_b)
    theirs = {each.identity: each for each in other.actions}
    both = [(each, theirs[each.identity]) for each in one.actions if each.identity in theirs]
    if not both:
        return ToolOutput("They wrote nothing in common.", {"success": True, "overlap": []})
    parts = Parts()
    for mine, their in both:
        parts.add(f"- {one.key}: {mine.kind} {_action_text(mine)}\n  {other.key}: {their.kind} {_action_text(their)}")
    more = parts.more("artifacts", "read the others with wiki_read or sl_read_source")
    overlap = [mine.identity for mine, _ in both]
    return ToolOutput(joined(wrapped(parts.text(), "this run"), more), {"success": True, "overlap": overlap})


def _unit(session: ToolSession, key: str) -> StagedUnit:
    found = session.stage.unit(key)
    if found is None:
        near = did_you_mean(key, [each.key for each in session.stage.units])
        raise Refused(f"there is no unit `{key}`; " + (f"did you mean `{near}`?" if near else "stage_list shows them"))
    return found


@tool()
def eviction_list(session: ToolSession, value: EvictionList) -> ToolOutput:
    """List deleted raw files and the artifacts that were made from them."""
    found = sorted(session.stage.evictions.items())[value.start - 1 :]
    if not found:
        return ToolOutput("No raw file was deleted.", {"success": True, "files": 0})
    decided = {(each.raw_path, each.artifact) for each in session.records.evictions}
    parts = Parts()
    for path, artifacts in found:
        marked = (_evicted(session, each, is_decided=(path, each) in decided) for each in artifacts)
        parts.add(f"- {path}: {listing(marked, 30) or 'no artifact was made from it'}")
    more = parts.more("files", f"continue with start {value.start + parts.shown}")
    text = joined(f"{plural(len(found), 'deleted file')}:", wrapped(parts.text(), "deleted raw files"), more)
    return ToolOutput(text, {"success": True, "files": len(found)})


def _evicted(session: ToolSession, artifact: str, *, is_decided: bool) -> str:
    others = session.stage.origins.get(artifact, ())
    notes = [*(["decided"] if is_decided else []), *([f"also from {listing(others, 5)}"] if others else [])]
    return f"{artifact} ({'; '.join(notes)})" if notes else artifact


@tool(reads=False)
def emit_conflict_resolution(session: ToolSession, value: ConflictResolution) -> ToolOutput:
    """Record a duplicate, renamed or rewritten artifact, and what was done about it. For a contradiction, call
    record_contradiction.
    """
    flagged = value.flagged_for_human
    made = Conflict(value.kind, value.artifact, value.detail, flagged, value.contested, value.unit)
    if made not in session.records.conflicts:
        session.records.conflicts.append(made)
    return ToolOutput(
        f"Recorded: {value.artifact}" + (", a person will review it" if flagged else ""), {"success": True}
    )


@tool(reads=False)
def emit_eviction_decision(session: ToolSession, value: EvictionDecided) -> ToolOutput:
    """Record the decision about an artifact whose raw file was deleted. Remove the artifact first."""
    path = session.known_path(value.raw_path, session.stage.evictions)
    if path is None:
        raise Refused(f"`{value.raw_path}` was not deleted; eviction_list shows deleted files")
    artifacts = session.stage.evictions[path]
    if value.artifact not in artifacts:
        raise Refused(f"`{value.artifact}` was not made from `{path}`, but these were: {listing(artifacts, 20)}")
    if value.action == "removed" and _is_there(session, value.artifact):
        raise Refused(f"`{value.artifact}` still exists: remove it first, or record `kept`")
    made = EvictionDecision(path, value.artifact, value.action, value.reason)
    others = [each for each in session.records.evictions if (each.raw_path, each.artifact) != _of(made)]
    session.records.evictions = [*others, made]
    return ToolOutput(f"Recorded: {value.artifact} {value.action}.", {"success": True})


def _of(made: EvictionDecision) -> tuple[str, str]:
    return made.raw_path, made.artifact


def _is_there(session: ToolSession, artifact: str) -> bool:
    """Whether a page or source is in the overlay; parts of a source are not checked."""
    kind, _, name = artifact.partition(":")
    if kind == "wiki":
        return session.workspace.exists(page_path(GLOBAL, name))
    connection, _, source = name.partition("/")
    if "#" in source or connection not in session.connections:
        return False
    found = session.model(connection).sources.get(source)
    return found is not None and not found.generated


@tool(reads=False)
def emit_artifact_resolution(session: ToolSession, value: ArtifactResolution) -> ToolOutput:
    """Record that an artifact was combined with another one."""
    paths = {*(path for unit in session.stage.units for path in unit.files), *session.files, *session.stage.evictions}
    path = session.known_path(value.raw_path, sorted(paths))
    if path is None:
        raise Refused(f"`{value.raw_path}` is not a raw file of this run; stage_list shows the raw files")
    if value.artifact == value.into:
        raise Refused("an artifact cannot be combined with itself")
    if value.into.startswith("wiki:") and not _is_there(session, value.into):
        raise Refused(f"`{value.into}` does not exist: name the page that is kept")
    made = Resolution(path, value.artifact, value.into, value.kind, value.reason)
    if made not in session.records.resolutions:
        session.records.resolutions.append(made)
    return ToolOutput(f"Recorded: {value.artifact} {value.kind} into {value.into}.", {"success": True})


RECONCILING_TOOLS: Final = (
    stage_list,
    stage_diff,
    eviction_list,
    emit_conflict_resolution,
    emit_eviction_decision,
    emit_artifact_resolution,
)


def evidence_tool(form: EvidenceForm) -> Tool:
    """Return the tool with which agents record evidence from the files of a source."""
    arguments = create_model(
        "EmitEvidence",
        __base__=Input,
        __doc__="Evidence from a raw file.",
        raw_path=(str, Field(description="The raw file of this task that contains it.")),
        evidence=(form.shape, Field(description=form.about)),
    )

    def emit(session: ToolSession, value: Any) -> ToolOutput:
        files = session.files
        path = session.known_path(value.raw_path, files)
        if path is None:
            raise Refused(f"`{value.raw_path}` is not a file of this task; files: {listing(files, 20) or 'none'}")
        made = SourceEvidence(path, value.evidence.model_dump(mode="json"))
        wrong = list(form.problems(value.evidence, path, session.raw[path].read()))
        wrong += missing_references(made.evidence.get("sl_refs", ()), session.models())
        known = made.evidence.get("fingerprints", ())
        texts = [each for each in made.evidence.values() if isinstance(each, str)]
        private = (spot for text in texts for spot in (*secrets(text, known), *personal_data(text)))
        wrong += [f"the text contains {spot.message}: {spot.hint}" for spot in private]
        if wrong:
            raise Refused("\n".join(wrong[:20]))
        session.records.evidence = [each for each in session.records.evidence if each.subject != made.subject]
        session.records.evidence.append(made)
        return ToolOutput(f"Recorded: {made.subject}.", {"success": True, "subject": made.subject})

    return Tool(form.tool, form.description, arguments, emit, target=_evidence_target, reads=False)


def _evidence_target(session: ToolSession, value: Any) -> str:
    return f"evidence:{value.raw_path}"


Stage = Literal["unit", "reconcile", "curate", "memory"]

LONGEST_SKILL: Final = 23_000
_NOTES: Final = frozenset(tool.name for tool in discovery.FALLBACK_TOOLS)
_SEMANTIC_WRITERS: Final = frozenset({"sl_write_source", "sl_edit_source", "sl_rollback"})


class LoadSkill(Input):
    """The skill to load."""

    name: str = Field(description="Name of a skill from the list in the task.")


def _skill_tool(stage: Stage) -> Tool:
    def load(session: ToolSession, value: LoadSkill) -> ToolOutput:
        skill = session.skills.get(value.name)
        if skill is None or stage not in skill.stages:
            names = [each.name for each in for_stage(session.skills.values(), stage)]
            raise Refused(f"there is no skill `{value.name}` for this task; skills: {listing(names, 20) or 'none'}")
        return ToolOutput(shortened(skill.text, LONGEST_SKILL), {"success": True, "skill": skill.name})

    return Tool("load_skill", "Load a skill: instructions for a kind of work.", LoadSkill, load)


_SHARED: Final = (
    *discovery.DISCOVERY_TOOLS,
    *sql.TOOLS,
    *wiki.READING_TOOLS,
    *wiki.WRITING_TOOLS,
    *layer_readers.TOOLS,
    *layer_writers.TOOLS,
    *contradictions.TOOLS,
)
_SPAN: Final = tuple(tool for tool in discovery.RAW_TOOLS if tool.name == "read_raw_span")
_WHOLE_RUN: Final = (*_SPAN, *discovery.FALLBACK_TOOLS, *RECONCILING_TOOLS)

READING_TOOLS: Final = tuple(
    tool
    for tool in (*discovery.DISCOVERY_TOOLS, *layer_readers.TOOLS, *wiki.READING_TOOLS)
    if tool.name not in ("sl_validate", "wiki_list_tags")
)
"""The tools of a model that answers a question and writes nothing."""

BY_STAGE: Final[Mapping[Stage, Sequence[Tool]]] = {
    "unit": (*_SHARED, *discovery.RAW_TOOLS, *discovery.FALLBACK_TOOLS),
    "reconcile": (*_SHARED, *_WHOLE_RUN),
    "curate": (*_SHARED, *_WHOLE_RUN),
    "memory": _SHARED,
}
"""The tools of each stage, besides `load_skill` and the session's own (`evidence`, `extra`)."""

WRITERS: Final = frozenset(tool.name for tools in BY_STAGE.values() for tool in tools if tool.target is not None)
"""Tools whose failures count until a later success resolves them."""


COMMON: Final = frozenset(tool.name for tool in (*_SHARED, *_SPAN, *discovery.FALLBACK_TOOLS)) | {"load_skill"}
"""The tools shared by units, curator and reconciliation."""


def tools_for(session: ToolSession, stage: Stage) -> list[RuntimeTool]:
    """Return the tools of a session's loop, sorted by name, beginning with those that most loops have.

    A session that may not write the semantic layer has no tools that do; one without databases none that ask them.
    Raises `ValueError` where `extra` has a tool of a name that is taken.
    """
    chosen = [tool for tool in (*BY_STAGE[stage], _skill_tool(stage)) if _is_for(session, tool.name)]
    if stage == "memory" and session.accepted is None:  # the text may change what it contradicts
        chosen = [tool for tool in chosen if tool not in contradictions.TOOLS]
    chosen += [] if session.evidence is None else [evidence_tool(session.evidence)]
    made = (replace(tool.on(session), common=tool.name in COMMON) for tool in chosen)
    return list(check_tools([*made, *session.extra]).values())


def unresolved_failures(session: ToolSession, invocations: Iterable[ToolInvocation] = ()) -> tuple[Failure, ...]:
    """Return the unresolved tool failures; `invocations`: all calls of the loop."""
    writers = {name for name in WRITERS if _is_for(session, name)}
    writers |= set() if session.evidence is None else {session.evidence.tool}
    return session.pending.unresolved(frozenset(writers), invocations)


def _is_for(session: ToolSession, name: str) -> bool:
    if session.evidence is not None and name in WRITERS | _NOTES:
        return False
    if name in _SEMANTIC_WRITERS:
        return session.semantic and bool(session.connections)
    if name.startswith("sl_") or name in ("entity_details", "sql_execution"):
        return bool(session.connections)
    if name == "mongo_query":
        return any(each in session.connections for each in session.pipelines)
    return name != "load_skill" or bool(session.skills)
