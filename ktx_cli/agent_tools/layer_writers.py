"""Tools that write the semantic layer: checked against the whole connection before anything is saved."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import Field, model_validator

from ktx_cli.agent_tools.accepted import changed_source, refusal_of_changes
from ktx_cli.agent_tools.fence import Parts, cut_lines, joined, unfit_lines, visible, wrapped
from ktx_cli.agent_tools.layers import OwnFile, manifest_names, new_problems, own_file, path_of, put_into, read_document
from ktx_cli.agent_tools.ledger import ids_of, refusal_of, source_needs
from ktx_cli.agent_tools.session import Action, ActionKind, Input, ToolSession, tool
from ktx_cli.core import Diagnostic, did_you_mean, listing, one_line, yaml
from ktx_cli.faces import exp
from ktx_cli.llm import ToolOutput
from ktx_cli.project import SOURCES, Workspace
from ktx_cli.protection import Refused, Table, reads_table, sources_of, tables_read
from ktx_cli.semantic import (
    APPROVALS,
    NOT_AUTHORS,
    PRIORITY,
    TEMPLATE,
    Model,
    SemanticError,
    Source,
    Visibility,
    VisibleModel,
    is_imported,
)


def check_name(session: ToolSession, connection: str, name: str, document: Mapping[str, Any]) -> None:
    """Refuse a definition with a different name, an overlay of a missing source, or a source that hides a generated
    one.
    """
    stated = document.get("name")
    if stated != name:
        raise Refused(f"`name` in the YAML is `{stated}`, but `source` is `{name}`: they must be the same")
    generated = manifest_names(session.workspace, connection)
    alike = next((each for each in generated if each.casefold() == name.casefold()), None)
    if "table" in document or "sql" in document:
        if alike is not None:
            raise Refused(
                f"`{alike}` is a generated source, which a new source must not replace: omit `table` and `sql` for "
                f"an overlay, or choose another name"
            )
        return
    if name not in generated:
        near = alike or did_you_mean(name, generated)
        advice = f"did you mean `{near}`?" if near else f"generated sources: {listing(sorted(generated), 20) or 'none'}"
        raise Refused(f"an overlay changes a generated source, and there is no generated source `{name}`; {advice}")


def check_text(text: str, old: OwnFile | None) -> None:
    """Refuse a definition with hidden characters, likely secrets, or personal contact data."""
    unfit = unfit_lines(text, None if old is None else old.content)
    if unfit:
        raise Refused("Nothing was saved, because a definition must not contain this:\n" + "\n".join(unfit))


def check_descriptions(new: Mapping[str, Any], old: OwnFile | None) -> None:
    """Refuse descriptions that YAML parsed differently from what was meant: keys without text, and unknown keys.

    What the file had before is not held against it.
    """
    known = set() if old is None else set(_misread(old.document, ""))
    misread = [each for each in _misread(new, "") if each not in known]
    if misread:
        raise Refused(
            "Nothing was saved, because these descriptions do not parse as intended. Put each description into double "
            'quotes, because an unquoted comma ends it: `descriptions: {user: "Gross, without refunds."}`\n'
            + "\n".join(misread)
        )


def check_approvals(new: Mapping[str, Any], old: OwnFile | None) -> None:
    """Refuse a definition that claims to be accepted, or written by a tool.

    What the file had before may stay as it is.
    """
    before = {} if old is None else dict(_items(old.document))
    refused = []
    for place, item in _items(new):
        had = before.get(place, {})
        claims = [key for key in APPROVALS if key in item and item[key] != had.get(key) and item[key] != "proposed"]
        refused += [f"- {place}: omit `{key}`; only people accept definitions" for key in claims]
        texts = item.get("descriptions")
        authors = set(texts) if isinstance(texts, Mapping) else set()
        is_found = place.startswith(("measure", "segment"))
        if (
            is_found
            and item != had
            and authors
            and is_imported(authors)
            and authors - set(had.get("descriptions") or ())
        ):
            refused.append(f"- {place}: write the description as `ai`, because no other tool defines it")
    if refused:
        raise Refused("Nothing was saved, because you can only propose definitions:\n" + "\n".join(refused))


def _items(document: Mapping[str, Any]) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Yield a file and its measures, segments, columns and joins, each with its name."""
    yield "the source", document
    for key in ("measures", "segments", "columns", "joins"):
        items = document.get(key)
        for item in items if isinstance(items, list) else ():
            name = item.get("name", item.get("alias", item.get("to"))) if isinstance(item, Mapping) else None
            if isinstance(name, str):
                yield f"{key.removesuffix('s')} `{name}`", item


def _misread(value: Any, where: str) -> Iterator[str]:
    """Yield a line for each description in a definition that is not text or has an unknown author.

    A key without a value that reads as a sentence counts as well: an unquoted text ended before it.
    """
    if isinstance(value, Mapping):
        here = f"{where} `{value['name']}`".strip() if isinstance(value.get("name"), str) else where
        for key in value:
            if value[key] is None and " " in str(key):
                yield f"- {here}: `{one_line(str(key), 80)}` has no text"
        texts = value.get("descriptions")
        for who, text in texts.items() if isinstance(texts, Mapping) else ():
            if text is None:
                yield f"- {here}: `{one_line(str(who), 80)}` has no text"
            elif who not in PRIORITY and who not in SOURCES and who not in NOT_AUTHORS:
                yield f"- {here}: `{one_line(str(who), 80)}` is not a valid key of descriptions; use `user`"
        for key, each in value.items():
            yield from _misread(each, str(key).removesuffix("s")) if key != "descriptions" else ()
    elif isinstance(value, list):
        for each in value:
            yield from _misread(each, where)


def check_write(
    session: ToolSession,
    connection: str,
    name: str,
    trial: Workspace,
    old: OwnFile | None,
    new: Mapping[str, Any] | None,
) -> list[Diagnostic]:
    """Return the warnings that a write causes; raises `Refused` with every reason against it.

    `trial`: the overlay with the write. `old`, `new`: the file about the source before and after, None if there is
    none. Only problems that the write causes count.
    """
    found = new_problems(session.problems(session.workspace, connection), session.problems(trial, connection))
    errors = [each for each in found if each.severity == "error"]
    before, after = session.model(connection), session.layers.model(trial, connection)
    lost = [] if new is None or name in after.sources else _about(session.problems(trial, connection), name)
    known = source_needs(before, name, None if old is None else old.document)
    needs = [need for shown, need in source_needs(after, name, new).items() if shown not in known]
    reasons = joined(
        problems_text("Nothing was saved, because it would cause these errors:", errors),
        problems_text("Nothing was saved, because these errors make it unusable:", lost if not errors else []),
        _protected(
            [*weakened(before, after, name), *rewritten(before, name, None if old is None else old.document, new)]
        ),
        refusal_of(session.ledger.missing(needs)),
        refusal_of_changes(changed_source(session, connection, name, trial, old, new), f"sl:{connection}/{name}"),
    )
    if reasons:
        raise Refused(reasons)
    return [*found, *_checked_on_data(session, before, after)] if new is not None else found


def _checked_on_data(session: ToolSession, before: Model, after: Model) -> list[Diagnostic]:
    """Return the database's warnings about the changes of a write; raises `Refused` with its errors."""
    if session.check_data is None:
        return []
    found = session.check_data(before, after)
    errors = [each for each in found if each.severity == "error"]
    if errors:
        raise Refused(problems_text("Nothing was saved, because the database check found these errors:", errors))
    return found


def _about(problems: tuple[Diagnostic, ...], name: str) -> list[Diagnostic]:
    return [each for each in problems if each.location.object == name and each.severity == "error"]


def problems_text(heading: str, problems: list[Diagnostic]) -> str:
    """Return problems as lines under a heading, or an empty string if there are none."""
    if not problems:
        return ""
    parts = Parts(6_000)
    for each in problems:
        source = f"`{each.location.object}`"
        about = f"{source}: " if each.location.object and source not in each.message else ""
        hint = f" ({each.hint})" if each.hint else ""
        parts.add(one_line(f"- {each.location}: {about}{each.message}{hint}", 600))
    more = parts.more("problems", "correct the listed problems first")
    return f"{heading}\n{parts.text()}" + (f"\n{more}" if more else "")


def _protected(reasons: list[str]) -> str:
    return "Not allowed, so nothing was saved:\n" + "\n".join(f"- {each}" for each in reasons) if reasons else ""


_STRICTNESS: Final = {Visibility.PUBLIC: 0, Visibility.INTERNAL: 1, Visibility.HIDDEN: 2}


def weakened(before: Model, after: Model, name: str) -> list[str]:
    """Return what a write to a source would newly make visible, one sentence each."""
    old, new = before.sources.get(name), after.sources.get(name)
    found: list[str] = list(_unknown(before, name))
    if old is not None:
        found += _policies(old, new)
        found += _visibility(old, new)
        found += _masks(old, new)
    if new is not None:
        found += _around(before, after, old, new)
        found += _hidden_read(after, old, new)
    return found


def _unknown(before: Model, name: str) -> Iterator[str]:
    """Yield why ktx cannot determine what a write would expose: a file that may contain access rules has an error."""
    problem = before.sealed if name not in before.barred else before.barred[name].problem
    if problem is not None:
        yield f"{problem.location} has an error, so the visibility of `{name}` is unknown: a person must correct it"


def rewritten(before: Model, name: str, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> list[str]:
    """Return why a file that defines access must not be overwritten while it has errors.

    The model does not contain its source in that case, so nothing else could report what would be lost.
    """
    if old is None or name in before.sources or not _limits(old):
        return []
    if new is not None and _limits(new) == _limits(old):
        return []
    return [f"the file about `{name}` has errors and contains policies or visibility: a person must correct it"]


def _limits(value: Any) -> list[Any]:
    """Return everything a document says about policies, visibility and masks, in its order."""
    if isinstance(value, list):
        return [each for item in value for each in _limits(item)]
    if not isinstance(value, Mapping):
        return []
    own = [value[key] for key in ("policies", "visibility", "mask") if key in value]
    return [*own, *(each for key, item in value.items() if key not in ("policies", "mask") for each in _limits(item))]


def _policies(old: Source, new: Source | None) -> Iterator[str]:
    kept = {} if new is None else {each.name: each.filter for each in new.policies}
    if {each.name: each.filter for each in old.policies} != kept:
        yield f"the policies of `{old.name}` can only be changed by people: keep them unchanged"


def _visibility(old: Source, new: Source | None) -> Iterator[str]:
    """Yield visibility that is less strict than before; nobody sees removed parts."""
    if new is None:
        return
    pairs: list[tuple[str, Visibility, Visibility]] = [(f"`{old.name}`", old.visibility, new.visibility)]
    for column in old.columns.values():
        other = new.columns.get(column.name)
        if other is not None:
            public = Visibility.PUBLIC
            pairs.append((f"`{old.name}.{column.name}`", column.visibility or public, other.visibility or public))
    for measure in old.measures.values():
        if measure.name in new.measures:
            pairs.append((f"`{old.name}.{measure.name}`", measure.visibility, new.measures[measure.name].visibility))
    for what, was, now in pairs:
        if _STRICTNESS[now] < _STRICTNESS[was]:
            yield f"{what} is {was.value}: only people change visibility, so keep it unchanged"


def _masks(old: Source, new: Source | None) -> Iterator[str]:
    """Yield the columns with another mask than before; nobody sees removed columns."""
    for column in old.columns.values() if new is not None else ():
        other = None if new is None else new.columns.get(column.name)
        if column.mask is not None and other is not None and other.mask != column.mask:
            yield f"`{old.name}.{column.name}` has a mask: only people change masks, so keep it unchanged"


def _around(before: Model, after: Model, old: Source | None, new: Source) -> Iterator[str]:
    """Yield the protected sources that a new source would bypass by reading their tables."""
    if new.generated or (old is not None and (old.table, old.sql) == (new.table, new.sql)):
        return
    for table in sorted(_tables(new, after.dialect)):
        for name, each in before.barred.items():
            if name != new.name and reads_table(each, table):
                yield f"`{'.'.join(table)}` is read by `{name}`, whose files have errors: a person must fix them first"
        for source in sources_of(before, table):
            if source.name != new.name and source.is_protected:
                yield (
                    f"`{'.'.join(table)}` is read by `{source.name}`, which has policies or hidden columns: "
                    f"define it as an overlay of `{source.name}`"
                )


def _tables(source: Source, dialect: str) -> set[Table]:
    if source.table is not None:
        return {source.table}
    return set(tables_read(TEMPLATE.sub("NULL", source.sql or ""), dialect) or ())


def _hidden_read(model: Model, old: Source | None, new: Source) -> Iterator[str]:
    """Yield new definitions that use a hidden column, from any source, for more than counting.

    A column without its own visibility is hidden if a column it reads is hidden.
    """
    own = _hidden(model, new)
    others = {name for source in model.sources.values() if source.name != new.name for name in _hidden(model, source)}
    if not own and not others:
        return
    known = set() if old is None else set(_expressions(old))
    for what, text in _expressions(new):
        if (what, text) in known:
            continue
        for name, table in _read_by(text, model.dialect):
            if name in own or (table not in ("", new.name.casefold()) and name in others):
                yield f"{what} of `{new.name}` reads a hidden column: only people decide who may see it"
                break


def _hidden(model: Model, source: Source) -> set[str]:
    shown = VisibleModel(model, internal=True)
    found = source.columns.values()
    return {each.name.casefold() for each in found if shown.visibility(source, each) is Visibility.HIDDEN}


def _expressions(source: Source) -> Iterator[tuple[str, str]]:
    for measure in source.measures.values():
        yield f"measure `{measure.name}`", measure.expr
        if measure.filter:
            yield f"measure `{measure.name}`", measure.filter
    for segment in source.segments.values():
        yield f"segment `{segment.name}`", segment.expr
    for column in source.columns.values():
        if column.expr is not None and column.visibility in (Visibility.PUBLIC, Visibility.INTERNAL):
            yield f"column `{column.name}`", column.expr


def _read_by(text: str, dialect: str) -> set[tuple[str, str]]:
    """Return the columns that an expression uses for more than counting: the name, and the qualifier before it."""
    from ktx_cli.semantic import parse

    class _Any(dict[str, Any]):
        def __contains__(self, key: object) -> bool:
            return True

        def __missing__(self, key: str) -> int:
            return 1

    try:
        tree = parse(text, dialect, what="it", values=_Any())
    except SemanticError:  # the check of the connection reports it
        return set()
    columns = (each for each in tree.find_all(exp.Column) if not _is_counted(each))
    return {(each.name.casefold(), each.table.casefold()) for each in columns}


def _is_counted(column: Any) -> bool:
    """Return whether a column is counted unchanged. A count with a condition reveals values."""
    outer = column.parent
    return isinstance(outer.parent if isinstance(outer, exp.Distinct) else outer, exp.Count)


LONGEST_FILE: Final = 100_000
LONGEST_SHOWN: Final = 6_000
"""Maximum number of characters of a definition shown in the answer to a write."""

_SOURCE: Final = Field(min_length=1, max_length=200, description="Name of the source, the same as `name:` in the YAML.")
_CONNECTION: Final = Field(None, description="The connection; required if there are several.")
_RAW_PATHS: Final = Field(
    None, description="The raw files it comes from, from the list of this task. Can be omitted if there is only one."
)


class WriteSource(Input):
    """The full definition of a source, or its deletion."""

    connection: str | None = _CONNECTION
    source: str = _SOURCE
    yaml: str | None = Field(
        None,
        max_length=LONGEST_FILE,
        description="The whole file: an overlay (`name`, no `table`, no `sql`) of a generated source, or a complete"
        " source with `table` or `sql`, `grain` and `columns`.",
    )
    delete: bool = Field(False, description="Delete the file of the source; a generated source remains.")
    raw_paths: list[str] | None = _RAW_PATHS

    @model_validator(mode="after")
    def _one_of_both(self) -> WriteSource:
        if (self.yaml is None) is not self.delete:
            raise ValueError("give `yaml`, or `delete: true`")
        return self


class YamlEdit(Input):
    """A passage and its replacement."""

    old_text: str = Field(min_length=1, description="A passage of the file, copied exactly; it must occur once.")
    new_text: str = Field(description="The replacement.")


class EditSource(Input):
    """Edits of a file."""

    connection: str | None = _CONNECTION
    source: str = _SOURCE
    edits: list[YamlEdit] = Field(min_length=1, max_length=50, description="Either all edits are applied, or none.")
    raw_paths: list[str] | None = _RAW_PATHS


class Rollback(Input):
    """The source to roll back."""

    connection: str | None = _CONNECTION
    source: str = _SOURCE


def _target(session: ToolSession, value: WriteSource | EditSource | Rollback) -> str:
    only = next(iter(session.connections), "") if len(session.connections) == 1 else ""
    return f"sl:{value.connection or only}/{value.source}"


@tool(target=_target, reads=False)
def sl_write_source(session: ToolSession, value: WriteSource) -> ToolOutput:
    """Write the whole definition of a source, or delete it.

    ktx first checks it with the whole connection, and checks new parts against the database; after an error nothing is
    saved. If the file exists, read it first and keep what others defined.
    """
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
    check_approvals(document, old)
    content = put_into(old, document, value.yaml, path)
    return _save(session, connection, value.source, old, document, path, content, raw_paths)


@tool(target=_target, reads=False)
def sl_edit_source(session: ToolSession, value: EditSource) -> ToolOutput:
    """Edit passages of the file of a source. Either all edits are applied or none; checks are as in sl_write_source."""
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
    check_approvals(document, old)
    return _save(session, connection, value.source, old, document, old.path, text.encode("utf-8"), raw_paths)


def edited(text: str, edits: list[YamlEdit]) -> str:
    """Return a text with all edits applied in sequence; raises `Refused` with all edits that do not fit."""
    windows = "\r\n" in text
    problems = []
    for number, each in enumerate(edits, start=1):
        old, new = (part.replace("\n", "\r\n") if windows else part for part in (each.old_text, each.new_text))
        count = text.count(old)
        if count == 1:
            text = text.replace(old, new)
        else:
            occurs = "does not occur" if count == 0 else f"occurs {count} times"
            problems.append(f"- edit {number}: `{one_line(each.old_text, 80)}` {occurs} in the text")
    if problems:
        raise Refused(
            "no edit was applied; read the file with sl_read_source and copy its text exactly:\n" + "\n".join(problems)
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
        return ToolOutput(f"{path} already says this; nothing was changed.", {"success": True, "changed": False})
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
    return _saved(session, Action("sl", kind, name, connection, raw_paths, detail), path, warnings, gone, document)


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
        notes = joined(notes, f"note: the file no longer contains: {listing(gone, 20)}; restore what is correct")
    structured = {"success": True, "changed": True, "target": action.identity, "path": path}
    return ToolOutput(joined(f"{action.kind}: {path}", notes, _as_understood(document, path)), structured)


def _as_understood(document: Mapping[str, Any] | None, path: str) -> str:
    """Return a definition as ktx parses it, so that YAML with an unintended meaning is noticed immediately."""
    if document is None:
        return ""
    whole = yaml.dump(dict(document)).rstrip()
    text, _ = cut_lines(whole, LONGEST_SHOWN)
    more = "" if text == whole else "(cut; sl_read_source shows the file)"
    return joined("Parsed definition:", wrapped(visible(text), path), more)


def _gone(old: Mapping[str, Any], new: Mapping[str, Any]) -> list[str]:
    """Return the names that a file no longer defines, such as ``measure `paid` ``."""
    names = ((kind, _named(old, kind), _named(new, kind)) for kind in ("measures", "segments"))
    return [f"{kind.removesuffix('s')} `{name}`" for kind, had, has in names for name in sorted(had - has)]


def _named(document: Mapping[str, Any], kind: str) -> set[str]:
    items = document.get(kind)
    return {str(each.get("name")) for each in (items if isinstance(items, list) else ()) if isinstance(each, Mapping)}


def _detail(document: dict[str, Any]) -> str:
    """Return which parts of a source a file defines, for a list of actions."""
    counts = {key: len(document[key]) for key in ("measures", "segments", "joins", "columns") if document.get(key)}
    return ", ".join(f"{count} {key}" for key, count in counts.items())


def _nothing_to_edit(session: ToolSession, connection: str, name: str) -> str:
    return f"there is no file about `{name}` to edit" + _only_generated(session, connection, name)


def _only_generated(session: ToolSession, connection: str, name: str) -> str:
    source = session.model(connection).sources.get(name)
    if source is None or not source.generated:
        return "; search for it with sl_discover"
    return f": it is only generated. Write an overlay with sl_write_source that begins with `name: {name}`"


@tool(target=_target, reads=False)
def sl_rollback(session: ToolSession, value: Rollback) -> ToolOutput:
    """Undo everything this session wrote for a source."""
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
    errors = [each for each in found if each.severity == "error"]
    problems = problems_text("The rollback caused these problems; correct them:", errors)
    structured = {"success": True, "target": identity, "paths": paths}
    return ToolOutput(joined(f"{', '.join(paths)}: restored to the state before this session", problems), structured)


TOOLS: Final = (sl_write_source, sl_edit_source, sl_rollback)
