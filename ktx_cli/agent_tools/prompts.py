"""The prompts of agent loops: the system prompt is the packaged text (or the project's), and the task is composed here.

What many loops have in common comes first, so that a provider's cache serves all of them: the system prompt with the
skills that the task needs, then the index of wiki and semantic layer, then what is the task's own.

Placeholders of `work_unit.md` and `reconcile.md`: `{{skills}}` becomes the list of further skills that may be loaded,
`{{origin}}` what people call the source. A text without one of them does without what it stands for.
"""

from __future__ import annotations

import difflib
import hashlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePosixPath
from typing import Final, Literal

from ktx_cli.agent_tools.discovery import file_lines
from ktx_cli.agent_tools.fence import Parts, cut_lines, joined, shortened, visible, wrapped
from ktx_cli.agent_tools.layer_readers import origin
from ktx_cli.agent_tools.session import ToolSession
from ktx_cli.core import ConfigError, KtxError, listing, one_line, plural
from ktx_cli.documents import RawFile, WorkUnit, dates_of
from ktx_cli.llm import PromptPart, PromptText
from ktx_cli.prompts import Prompt, for_stage, text_of
from ktx_cli.sources import FileState
from ktx_cli.wiki import Contradiction, load_contradictions, load_wiki

PROMPTS: Final = ("work_unit", "reconcile", "gate_repair", "conflict_repair")
"""The prompts of agent loops. The prompts of repairs are used unchanged: their tasks are composed where they run."""

MEMORY_PROMPTS: Final = ("memory", "gate_repair", "conflict_repair")
"""The prompts of a capture."""

EVOLVE_PROMPTS: Final = ("evolve", "gate_repair", "conflict_repair")
"""The prompts of a repair that `ktx evolve` drafts."""

LONGEST_PROMPT: Final = 240_000
"""Maximum number of characters in the system prompt and the task together."""

MOST_PEERS: Final = 100
_LONGEST_INDEX: Final = 60_000
"""Maximum number of characters in the list of pages, and in the list of sources."""
_LONGEST_LINE: Final = 240
_LONGEST_DIFF: Final = 12_000
_LONGEST_DIFFS: Final = 40_000
"""Maximum number of characters in the changes to one file, and to all files of a task."""

_LONGEST_DIFF_LINE: Final = 1_000
_MOST_BYTES: Final = 200_000
"""Maximum size in bytes of a file that is compared with its previous text."""

_MOST_DATED: Final = 100
_DATED: Final = frozenset((".md", ".markdown", ".txt", ".rst", ".sql", ".html", ".htm", ".pdf"))
"""Extensions of files that are searched for the dates they state."""
_LONGEST_CONTRADICTION: Final = 1_000


class PromptTooLongError(KtxError):
    """The prompt of a task is too long for a model, so the work must be split."""

    code = "context"


@dataclass(frozen=True, slots=True)
class TaskPrompt:
    """The prompts that a loop begins with."""

    system: str
    prompt: str
    """The part that is specific to the task."""
    shared: str = ""
    """The text before the prompt, the same in every task of the run: the index of the wiki and the semantic layer."""

    @property
    def parts(self) -> PromptText:
        """The prompt as the runtime takes it."""
        return (PromptPart(self.shared, cached=True), PromptPart(self.prompt)) if self.shared else self.prompt


def load_prompts(root: Path | None = None, names: Sequence[str] = PROMPTS) -> dict[str, Prompt]:
    """Return the prompts of agent loops by name, from the project at `root` if it has its own; raises like `text_of`.

    The version of each is the sha256 of its text.
    """
    texts = {name: text_of("prompts", name, root)[0] for name in names}
    return {name: Prompt(name, text, hashlib.sha256(text.encode()).hexdigest()) for name, text in texts.items()}


def unit_prompt(
    session: ToolSession,
    unit: WorkUnit,
    prompt: Prompt,
    *,
    skills: Sequence[str] = (),
    earlier: Mapping[str, FileState] | None = None,
    before: Mapping[str, RawFile] | None = None,
) -> TaskPrompt:
    """Return the prompts of a work unit.

    `skills`: those of the source. They stand in the system prompt, with those that writing takes where the task writes.
    `earlier`: raw file -> what earlier runs made of it. `before`: the files that changed, as the last run read them.
    Raises `PromptTooLongError`.
    """
    states = earlier or {}
    made = {path: _earlier(states[path].artifacts) for path in unit.files if path in states}
    beside = {path: f"; {listing(pages, 5)} also comes from it" for path, pages in session.beside.items()}
    sections = joined(
        _limits(session),
        _pins(session),
        _paths("Files of this task; work through each of them", unit.files, session, made),
        _changes(session, before or {}),
        _paths("Other files that you can read", unit.dependencies, session, beside),
        _peers(unit.peers),
        _notes(unit),
        f"Task: {one_line(visible(unit.label), _LONGEST_LINE)}",
    )
    named = skills if session.evidence is not None else (*skills, *_writing_skills(session))
    return _checked(TaskPrompt(_system(session, prompt, "unit", named), sections, _index(session)), unit.key)


def reconcile_prompt(
    session: ToolSession,
    prompt: Prompt,
    *,
    stage: Literal["reconcile", "curate"] = "reconcile",
    skills: Sequence[str] = ("ingest_triage",),
    others: Sequence[str] = (),
    notes: str = "",
) -> TaskPrompt:
    """Return the prompts of a loop over a whole run, or over its candidates. Raises `PromptTooLongError`.

    `skills` stand in the system prompt; `others` are listed there, to be loaded where they are needed.
    """
    staged = session.stage
    wrote = sum(len(each.actions) for each in staged.units)
    counts = (
        f"This run has {plural(len(staged.units), 'unit')} that wrote {plural(wrote, 'artifact')}, and "
        f"{plural(len(staged.evictions), 'deleted raw file')}."
    )
    system = _system(session, prompt, stage, skills, others)
    sections = joined(_pins(session), notes, _contradictions(session), counts)
    return _checked(TaskPrompt(system, sections, _index(session)), "reconcile")


def memory_prompt(session: ToolSession, prompt: Prompt, text: str, rules: str) -> TaskPrompt:
    """Return the prompts of a capture. `rules`: what holds for this one. Raises `PromptTooLongError`."""
    sections = joined(rules, f"The text to remember:\n{wrapped(text, session.origin)}", "Task: memory capture")
    system = _system(session, prompt, "memory", ("memory_capture", *_writing_skills(session)))
    return _checked(TaskPrompt(system, sections, _index(session)), "memory capture")


def evolve_prompt(session: ToolSession, prompt: Prompt, findings: str) -> TaskPrompt:
    """Return the prompts of a repair. `findings`: what went wrong, in texts of others. Raises `PromptTooLongError`."""
    sections = joined(f"What went wrong:\n{wrapped(findings, session.origin)}", "Task: repair of the context")
    system = _system(session, prompt, "memory", _writing_skills(session))
    return _checked(TaskPrompt(system, sections, _index(session)), "repair of the context")


def _checked(task: TaskPrompt, key: str) -> TaskPrompt:
    length = len(task.system) + len(task.shared) + len(task.prompt)
    if length > LONGEST_PROMPT:
        message = f"the prompt of `{key}` has {length:,} characters; the limit is {LONGEST_PROMPT:,}"
        hint = "split the source into smaller parts, or shorten the prompts and skills of the project"
        raise PromptTooLongError(message, hint=hint, details={"unit": key, "characters": length})
    return task


GENERAL_SKILLS: Final = ("ingest_triage", "memory_capture", "sl", "sl_capture", "wiki_capture")
"""The skills that tasks for any source may need; the others belong to the sources that name them."""


def _system(session: ToolSession, prompt: Prompt, stage: str, skills: Sequence[str], others: Sequence[str] = ()) -> str:
    """Return the prompt followed by the texts of `skills`, and a list of other skills for the stage and source."""
    given = [session.skills[name] for name in dict.fromkeys(skills) if name in session.skills]
    fitting = {*GENERAL_SKILLS, *others}.difference(each.name for each in given)
    listed = (each for each in for_stage(session.skills.values(), stage) if each.name in fitting)
    lines = "\n".join(f"- `{each.name}`: {each.description}" for each in listed)
    filled = prompt.text.replace("{{skills}}", lines or "- none")
    filled = filled.replace("{{origin}}", one_line(visible(session.origin), _LONGEST_LINE))
    return joined(filled.rstrip("\n"), *(f"Skill `{each.name}`:\n\n{each.text.rstrip()}" for each in given))


def _writing_skills(session: ToolSession) -> tuple[str, ...]:
    """Return the skills for a task that writes pages, and the semantic layer if it may."""
    layer = ("sl_capture", "sl") if session.semantic and session.connections else ()
    return ("wiki_capture", *layer)


def _index(session: ToolSession) -> str:
    """Return the existing context; it depends only on the run and its databases, so tasks share it."""
    return joined(_pages(session), _sources(session), _recorded(session))


def _limits(session: ToolSession) -> str:
    """Return what a task may not write, or nothing if it may write everything."""
    if session.evidence is not None:
        return "This task writes neither pages nor definitions. Record what you find as evidence; ktx writes the pages."
    if session.semantic or not session.connections:
        return ""
    return f"This task writes wiki pages only: {session.why_not or 'its connection has no semantic layer to write'}."


def _pages(session: ToolSession) -> str:
    pages = [page for page in load_wiki(session.workspace).seen_from(session.scope) if not page.is_catalog]
    if not pages:
        return "The wiki has no pages yet."
    lines = (f"- {page.key}: {one_line(page.summary, _LONGEST_LINE)}" for page in pages)
    return _section("Pages of the wiki", lines, "wiki pages", "find the rest with wiki_search")


def _sources(session: ToolSession) -> str:
    if not session.connections:
        return "No semantic layer is available in this task."
    room = _LONGEST_INDEX // len(session.connections)
    return joined(*(_layer(session, connection, room) for connection in sorted(session.connections)))


def _layer(session: ToolSession, connection: str, room: int) -> str:
    shown = session.shown(connection)
    lines = (
        f"- {source.name} ({origin(source)}; {plural(len(shown.columns(source)), 'column')}, "
        f"{plural(len(shown.measures(source)), 'measure')}): {one_line(source.description or '', _LONGEST_LINE)}"
        for source in shown.sources()
    )
    heading = f"Semantic layer of the connection `{connection}` (SQL dialect: {shown.model.dialect or 'unknown'})"
    return _section(heading, lines, f"semantic layer of {connection}", "find the rest with sl_discover", room)


def _pins(session: ToolSession) -> str:
    pins = session.stage.pins
    if not pins:
        return ""
    lines = (f"- `{name}` stays the name of {artifact}" for name, artifact in sorted(pins.items()))
    return "Names that people have pinned:\n" + "\n".join(lines)


def _contradictions(session: ToolSession) -> str:
    found = session.stage.contradictions
    if not found:
        return ""
    return _section(
        "Contradictions recorded by the units",
        map(_contradiction, found),
        "contradictions",
        "the report of the run lists the rest",
    )


def _recorded(session: ToolSession) -> str:
    """Return the contradictions that earlier runs recorded, each with its decision if a person made one."""
    try:
        found = load_contradictions(session.workspace)
    except ConfigError:  # the end of the run reports a file that cannot be read
        return ""
    decided = [each for each in found if each.is_decided]
    waiting = [each for each in found if not each.is_decided]
    decisions = (f"{_contradiction(each)}. Decided: {one_line(each.decision_summary)}" for each in decided)
    more = "contradictions.yaml has the rest"
    return joined(
        _section("Contradictions that a person has decided", decisions, "contradictions", more) if decided else "",
        _section("Contradictions that wait for a decision", map(_contradiction, waiting), "contradictions", more)
        if waiting
        else "",
    )


def _contradiction(found: Contradiction) -> str:
    return f"- {found.topic}: {one_line(found.summary, _LONGEST_CONTRADICTION)}"


def _paths(heading: str, paths: Sequence[str], session: ToolSession, notes: Mapping[str, str]) -> str:
    if not paths:
        return ""
    dated = frozenset(paths[:_MOST_DATED])
    lines = [
        f"- {path}{_size(session, path)}{_dates(session, path) if path in dated else ''}{notes.get(path, '')}"
        for path in paths
    ]
    return f"{heading}:\n{wrapped(chr(10).join(lines), f'files of {session.origin}')}"


def _size(session: ToolSession, path: str) -> str:
    raw = session.raw.get(path)
    return "" if raw is None else f" ({raw.size:,} bytes)"


def _dates(session: ToolSession, path: str) -> str:
    """Return the date that a file states for itself, to reveal superseded files; empty if it states none."""
    raw = session.raw.get(path)
    if raw is None or PurePosixPath(path).suffix.lower() not in _DATED:
        return ""
    found = dates_of(raw)
    return f"; it states: {listing(found)}" if found else ""


def _changes(session: ToolSession, before: Mapping[str, RawFile]) -> str:
    """Return the changes to files since the last run, as unified diffs; unreadable files are omitted."""
    sections: list[str] = []
    room = _LONGEST_DIFFS
    for path, old in sorted(before.items()):
        diff = _diff(old, session.raw[path]) if path in session.raw else ""
        kept, _ = cut_lines(diff, min(_LONGEST_DIFF, room))
        if diff and room > 0:
            cut = "(cut: read the file for the rest)" if len(kept) < len(diff) else ""
            sections.append(joined(wrapped(kept, f"changes of {path} of {session.origin}"), cut))
            room -= len(kept)
    heading = "Changes in the files of this task since the last run; lines with `-` are the old text:"
    return joined(heading, *sections) if sections else ""


def _diff(old: RawFile, new: RawFile) -> str:
    if max(old.size, new.size) > _MOST_BYTES:
        return ""
    try:
        before, after = file_lines(old), file_lines(new)
    except KtxError:  # no text, or gone meanwhile: the tool that reads it says so
        return ""
    lines = difflib.unified_diff(before, after, f"{new.path} (last run)", f"{new.path} (now)", lineterm="")
    return "\n".join(shortened(line, _LONGEST_DIFF_LINE) for line in lines)


def _earlier(artifacts: Sequence[str]) -> str:
    if not artifacts:
        return ""
    return f"; an earlier run made these from it: {listing(artifacts, 20)}; edit them instead of writing new ones"


def _peers(peers: Sequence[str]) -> str:
    if not peers:
        return ""
    rest = f"\n- and {len(peers) - MOST_PEERS} more" if len(peers) > MOST_PEERS else ""
    lines = "\n".join(f"- {path}" for path in peers[:MOST_PEERS]) + rest
    return (
        f"Files of other tasks, listed for orientation; you cannot read them:\n{wrapped(lines, 'names of other files')}"
    )


def _notes(unit: WorkUnit) -> str:
    return f"Notes on this task:\n{wrapped(unit.notes, 'notes of the source')}" if unit.notes.strip() else ""


def _section(heading: str, lines: Iterable[str], of: str, rest: str, room: int = _LONGEST_INDEX) -> str:
    parts = Parts(room)
    for line in lines:
        parts.add(line)
    return joined(f"{heading}:\n{wrapped(parts.text(), of)}", parts.more("lines", rest))
