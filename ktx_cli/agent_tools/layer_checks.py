"""Whether a write of the semantic layer may be saved: everything that speaks against it, in one answer."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ktx_cli.agent_tools.accepted import changed_source, refusal_of_changes
from ktx_cli.agent_tools.fence import Parts, joined, unfit_lines
from ktx_cli.agent_tools.layer_files import OwnFile, manifest_names
from ktx_cli.agent_tools.layer_names import source_needs
from ktx_cli.agent_tools.layer_protection import rewritten, weakened
from ktx_cli.agent_tools.layers import new_problems
from ktx_cli.agent_tools.ledger import refusal_of
from ktx_cli.agent_tools.session import ToolSession
from ktx_cli.core import Diagnostic, did_you_mean, listing, one_line
from ktx_cli.project import SOURCES, Workspace
from ktx_cli.protection import Refused
from ktx_cli.semantic import PRIORITY


def check_name(session: ToolSession, connection: str, name: str, document: Mapping[str, Any]) -> None:
    """Refuse a definition under another name, an overlay of nothing, a source that hides a generated one."""
    stated = document.get("name")
    if stated != name:
        raise Refused(f"`name` in the YAML is `{stated}`, but `source` is `{name}`: they must be the same")
    generated = manifest_names(session.workspace, connection)
    alike = next((each for each in generated if each.casefold() == name.casefold()), None)
    if "table" in document or "sql" in document:
        if alike is not None:
            raise Refused(
                f"`{alike}` is a generated source, which no source of its own may hide: leave out `table` and `sql` to "
                f"change it as an overlay, or choose another name"
            )
        return
    if name not in generated:
        near = alike or did_you_mean(name, generated)
        advice = f"did you mean `{near}`?" if near else f"generated are: {listing(sorted(generated), 20) or 'none'}"
        raise Refused(f"an overlay changes a generated source, and none is called `{name}`; {advice}")


def check_text(text: str, old: OwnFile | None) -> None:
    """Refuse a definition with characters people do not see or with what looks like a secret."""
    unfit = unfit_lines(text, None if old is None else old.content)
    if unfit:
        raise Refused("This may not be in a definition, so nothing was saved:\n" + "\n".join(unfit))


def check_descriptions(new: Mapping[str, Any], old: OwnFile | None) -> None:
    """Refuse descriptions that YAML understood as something else: keys without a text, and keys nobody has.

    What the file had before is not held against it.
    """
    known = set() if old is None else set(_misread(old.document, ""))
    misread = [each for each in _misread(new, "") if each not in known]
    if misread:
        raise Refused(
            "These descriptions are not what you meant, so nothing was saved. Put each text into double quotes: an "
            'unquoted comma ends it, as in `descriptions: {user: "Gross, without refunds."}`\n' + "\n".join(misread)
        )


def _misread(value: Any, where: str) -> Iterator[str]:
    """Yield a line for each description that is no text, or of somebody unknown, in a definition and below it."""
    if isinstance(value, Mapping):
        here = f"{where} `{value['name']}`".strip() if isinstance(value.get("name"), str) else where
        texts = value.get("descriptions")
        for who, text in texts.items() if isinstance(texts, Mapping) else ():
            if text is None:
                yield f"- {here}: `{one_line(str(who), 80)}` has no text"
            elif who not in PRIORITY and who not in SOURCES:
                yield f"- {here}: `{one_line(str(who), 80)}` is no author of descriptions; write `user`"
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
    """Return the warnings a write brings; `Refused` with everything that speaks against it.

    `trial`: the overlay with the write. `old`, `new`: the file about the source before and after, None where there is
    none. Only what the write makes wrong counts.
    """
    found = new_problems(session.problems(session.workspace, connection), session.problems(trial, connection))
    errors = [each for each in found if each.severity == "error"]
    before, after = session.model(connection), session.layers.model(trial, connection)
    lost = [] if new is None or name in after.sources else _about(session.problems(trial, connection), name)
    known = source_needs(before, name, None if old is None else old.document)
    needs = [need for shown, need in source_needs(after, name, new).items() if shown not in known]
    reasons = joined(
        problems_text("It would make these errors, so nothing was saved:", errors),
        problems_text("It is not usable for these, so nothing was saved:", lost if not errors else []),
        _protected(
            [*weakened(before, after, name), *rewritten(before, name, None if old is None else old.document, new)]
        ),
        refusal_of(session.ledger.missing(needs)),
        refusal_of_changes(changed_source(session, connection, name, trial, old, new), f"sl:{connection}/{name}"),
    )
    if reasons:
        raise Refused(reasons)
    return found


def _about(problems: tuple[Diagnostic, ...], name: str) -> list[Diagnostic]:
    return [each for each in problems if each.location.object == name and each.severity == "error"]


def problems_text(heading: str, problems: list[Diagnostic]) -> str:
    """Return problems as lines under a heading; empty for none."""
    if not problems:
        return ""
    parts = Parts(6_000)
    for each in problems:
        source = f"`{each.location.object}`"
        about = f"{source}: " if each.location.object and source not in each.message else ""
        hint = f" ({each.hint})" if each.hint else ""
        parts.add(one_line(f"- {each.location}: {about}{each.message}{hint}", 600))
    more = parts.more("problems", "correct these first")
    return f"{heading}\n{parts.text()}" + (f"\n{more}" if more else "")


def _protected(reasons: list[str]) -> str:
    return "Not allowed, so nothing was saved:\n" + "\n".join(f"- {each}" for each in reasons) if reasons else ""
