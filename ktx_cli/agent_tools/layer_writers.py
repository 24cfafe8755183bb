"""Tools that write the semantic layer: checked against the whole connection before anything is saved."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pydantic import Field, model_validator

from ktx_cli.agent_tools.fence import cut_lines, joined, visible, wrapped
from ktx_cli.agent_tools.layer_checks import check_descriptions, check_name, check_text, check_write, problems_text
from ktx_cli.agent_tools.layer_files import OwnFile, own_file, path_of, put_into, read_document
from ktx_cli.agent_tools.layers import new_problems
from ktx_cli.agent_tools.ledger import ids_of
from ktx_cli.agent_tools.records import Action, ActionKind
from ktx_cli.agent_tools.session import Input, Tool, ToolSession
from ktx_cli.core import Diagnostic, listing, one_line, yaml
from ktx_cli.llm import ToolOutput
from ktx_cli.protection import Refused

LONGEST_FILE: Final = 100_000
LONGEST_SHOWN: Final = 6_000
"""Characters of a definition that the answer to a write shows."""

_SOURCE: Final = Field(min_length=1, max_length=200, description="Name of the source, as `name:` has it.")
_CONNECTION: Final = Field(None, description="The connection; needed where there are several.")
_RAW_PATHS: Final = Field(None, description="The raw files of this task it comes from; without it all of them.")


class WriteSource(Input):
    """A whole definition, or that it goes."""

    connection: str | None = _CONNECTION
    source: str = _SOURCE
    yaml: str | None = Field(
        None,
        max_length=LONGEST_FILE,
        description="The whole file: an overlay (`name`, no `table`, no `sql`) of a generated source, or a source of"
        " its own with `table` or `sql`, `grain` and `columns`.",
    )
    delete: bool = Field(False, description="Delete the file about the source; a generated one stays.")
    raw_paths: list[str] | None = _RAW_PATHS

    @model_validator(mode="after")
    def _one_of_both(self) -> WriteSource:
        if (self.yaml is None) is not self.delete:
            raise ValueError("give `yaml`, or `delete: true`")
        return self


class YamlEdit(Input):
    """One passage and what comes in its place."""

    old_text: str = Field(min_length=1, description="A passage as it stands in the file, there once.")
    new_text: str = Field(description="What comes in its place.")


class EditSource(Input):
    """Changes of the text of a file."""

    connection: str | None = _CONNECTION
    source: str = _SOURCE
    edits: list[YamlEdit] = Field(min_length=1, max_length=50, description="All of them are made, or none.")
    raw_paths: list[str] | None = _RAW_PATHS


class Rollback(Input):
    """What to undo."""

    connection: str | None = _CONNECTION
    source: str = _SOURCE


def _write(session: ToolSession, value: WriteSource) -> ToolOutput:
    connection = session.connection(value.connection)
    raw_paths = session.raw_paths(value.raw_paths)
    old = own_file(session.workspace, connection, value.source)
    if value.yaml is None:
        return _delete(session, connection, value.source, old, raw_paths)
    path = path_of(session.workspace, connection, value.source)
    check_text(value.yaml, old)
    document = read_document(value.yaml, path)
    check_name(session, connection, value.source, document)
    check_descriptions(document, old)
    content = put_into(old, document, value.yaml, path)
    return _save(session, connection, value.source, old, document, path, content, raw_paths)


def _edit(session: ToolSession, value: EditSource) -> ToolOutput:
    connection = session.connection(value.connection)
    raw_paths = session.raw_paths(value.raw_paths)
    old = own_file(session.workspace, connection, value.source)
    if old is None:
        raise Refused(_nothing_to_edit(session, connection, value.source))
    text = edited(old.content.decode("utf-8", "replace"), value.edits)
    check_text(text, old)
    document = read_document(text, old.path)
    check_name(session, connection, value.source, document)
    check_descriptions(document, old)
    return _save(session, connection, value.source, old, document, old.path, text.encode("utf-8"), raw_paths)


def edited(text: str, edits: list[YamlEdit]) -> str:
    """Return a text with all edits made, each in what the one before left; `Refused` with all that do not fit."""
    windows = "\r\n" in text
    problems = []
    for number, each in enumerate(edits, start=1):
        old, new = (part.replace("\n", "\r\n") if windows else part for part in (each.old_text, each.new_text))
        count = text.count(old)
        if count == 1:
            text = text.replace(old, new)
        else:
            stands = "stands nowhere" if count == 0 else f"stands there {count} times"
            problems.append(f"- edit {number}: `{one_line(each.old_text, 80)}` {stands} in the text")
    if problems:
        raise Refused(
            "no edit was made; read the file with sl_read_source and quote it exactly:\n" + "\n".join(problems)
        )
    return text


def _delete(
    session: ToolSession, connection: str, name: str, old: OwnFile | None, raw_paths: tuple[str, ...]
) -> ToolOutput:
    if old is None:
        raise Refused(f"there is no file about `{name}` to delete" + _only_generated(session, connection, name))
    trial = session.workspace.child()
    trial.delete(old.path)
    warnings = check_write(session, connection, name, trial, old, None)
    session.workspace.delete(old.path)
    return _saved(session, Action("sl", "removed", name, connection, raw_paths), old.path, warnings)


def _save(
    session: ToolSession,
    connection: str,
    name: str,
    old: OwnFile | None,
    document: dict[str, Any],
    path: str,
    content: bytes,
    raw_paths: tuple[str, ...],
) -> ToolOutput:
    if old is not None and old.content == content:
        session.confirmed(Action("sl", "confirmed", name, connection, raw_paths))
        return ToolOutput(f"{path} says that already; nothing was changed.", {"success": True, "changed": False})
    trial = session.workspace.child()
    trial.write(path, content)
    warnings = check_write(session, connection, name, trial, old, document)
    session.workspace.write(path, content)
    model = session.model(connection)
    if name in model.sources:
        session.ledger.add(*ids_of(model, model.sources[name]))
    kind: ActionKind = "created" if old is None else "updated"
    gone = [] if old is None else _gone(old.document, document)
    detail = "; ".join(filter(None, (_detail(document), f"without {listing(gone, 10)}" if gone else "")))
    action = Action("sl", kind, name, connection, raw_paths, detail)
    return _saved(session, action, path, warnings, gone, document)


def _saved(
    session: ToolSession,
    action: Action,
    path: str,
    warnings: list[Diagnostic],
    gone: Sequence[str] = (),
    document: Mapping[str, Any] | None = None,
) -> ToolOutput:
    session.acted(action, path)
    notes = problems_text("Warnings:", [each for each in warnings if each.severity != "error"])
    if gone:
        notes = joined(
            notes, f"note: the file had these, and has them no more: {listing(gone, 20)}; put back what is right"
        )
    structured = {"success": True, "changed": True, "target": action.identity, "path": path}
    return ToolOutput(joined(f"{action.kind}: {path}", notes, _as_understood(document, path)), structured)


def _as_understood(document: Mapping[str, Any] | None, path: str) -> str:
    """Return a definition as ktx reads it: YAML that says something else than was meant is seen at once."""
    if document is None:
        return ""
    whole = yaml.dump(dict(document)).rstrip()
    text, _ = cut_lines(whole, LONGEST_SHOWN)
    more = "" if text == whole else "(cut; sl_read_source shows the file)"
    return joined("As it is understood:", wrapped(visible(text), path), more)


def _gone(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return what a file defined by name and defines no more: ``measure `paid` ``."""
    names = ((kind, _named(old, kind), _named(new, kind)) for kind in ("measures", "segments"))
    return [f"{kind.removesuffix('s')} `{name}`" for kind, had, has in names for name in sorted(had - has)]


def _named(document: Mapping[str, Any], kind: str) -> set[str]:
    items = document.get(kind)
    return {str(each.get("name")) for each in (items if isinstance(items, list) else ()) if isinstance(each, Mapping)}


def _detail(document: dict[str, Any]) -> str:
    """Return what of a source a file defines, for a list of what was done."""
    counts = {key: len(document[key]) for key in ("measures", "segments", "joins", "columns") if document.get(key)}
    return ", ".join(f"{count} {key}" for key, count in counts.items())


def _nothing_to_edit(session: ToolSession, connection: str, name: str) -> str:
    return f"there is no file about `{name}` to edit" + _only_generated(session, connection, name)


def _only_generated(session: ToolSession, connection: str, name: str) -> str:
    source = session.model(connection).sources.get(name)
    if source is None or not source.generated:
        return "; look for it with sl_discover"
    return f": it is generated alone. Write an overlay with sl_write_source, which begins `name: {name}`"


def _rollback(session: ToolSession, value: Rollback) -> ToolOutput:
    connection = session.connection(value.connection)
    before = session.problems(session.workspace, connection)
    identity = f"sl:{connection}/{value.source}"
    paths = [path for path in session.workspace.changes() if session.written.get(path) == identity]
    if not paths:
        raise Refused(f"nothing about `{value.source}` was written in this session")
    for path in paths:
        session.workspace.drop(path)
    session.undone(identity)
    found = new_problems(before, session.problems(session.workspace, connection))
    problems = problems_text("Now these are wrong, correct them:", [each for each in found if each.severity == "error"])
    structured = {"success": True, "target": identity, "paths": paths}
    return ToolOutput(joined(f"{', '.join(paths)} as before this session", problems), structured)


def _target(session: ToolSession, value: WriteSource | EditSource | Rollback) -> str:
    only = next(iter(session.connections), "") if len(session.connections) == 1 else ""
    return f"sl:{value.connection or only}/{value.source}"


TOOLS: Final = (
    Tool(
        "sl_write_source",
        "Write the whole definition of a source, or delete it. It is checked together with the whole connection first;"
        " on any error nothing is saved. Of a file that is there read it first and keep what others defined.",
        WriteSource,
        _write,
        target=_target,
        reads=False,
    ),
    Tool(
        "sl_edit_source",
        "Change passages of the file about a source. All edits are made or none; checked as sl_write_source does.",
        EditSource,
        _edit,
        target=_target,
        reads=False,
    ),
    Tool(
        "sl_rollback",
        "Undo everything this session wrote about a source.",
        Rollback,
        _rollback,
        target=_target,
        reads=False,
    ),
)
