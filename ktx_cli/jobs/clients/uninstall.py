"""`ktx agents uninstall`: what was put in goes; files are again what they were, where nobody else changed them."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktx_cli.core import Command, Hint, KtxError, Record
from ktx_cli.jobs.clients.configuration import Configuration, read_configuration
from ktx_cli.jobs.clients.install import Left, Outcome, Report, finished, scope_of
from ktx_cli.jobs.clients.manifest import (
    Entry,
    Install,
    Manifest,
    digest,
    folder_of,
    is_ktx,
    is_of,
    load_manifest,
    words_of,
    written,
)
from ktx_cli.jobs.clients.staging import Staging
from ktx_cli.jobs.clients.targets import CLIENTS, PREFIX, Scope, Target, Where, found_program, skill_files
from ktx_cli.project import Layout


@dataclass(slots=True)
class _Work:
    """What is taken out, while it is put together."""

    where: Where
    manifest: Manifest
    staging: Staging = field(init=False)

    def __post_init__(self) -> None:
        self.staging = Staging(self.where.project)


def uninstall(where: Where, targets: Sequence[Target], scope: Scope | None, *, dry_run: bool) -> Report:
    """Take this project out of clients (no targets: of all it was installed into).

    Raises `ConfigError` for a configuration that cannot be read, `StorageError` for one that cannot be written.
    """
    work = _Work(where, load_manifest(Layout(where.project)))
    chosen = _chosen(work.manifest, targets, scope)
    outcomes = [_uninstall_one(work, install) for install in chosen]
    return finished(where, work.manifest, work.staging, outcomes, dry_run=dry_run)


def _chosen(manifest: Manifest, targets: Sequence[Target], scope: Scope | None) -> list[Install]:
    """Return what to take out. Of a named client also what nobody recorded here, such as a colleague's entry."""
    found = [
        each
        for each in manifest.installs
        if (not targets or each.target in targets) and (scope is None or each.scope is scope)
    ]
    for target in dict.fromkeys(targets):
        if not any(each.target is target for each in found):
            found.append(Install(target=target, scope=scope_of(target, scope)))
    return found


def _uninstall_one(work: _Work, install: Install) -> Outcome:
    outcome = Outcome(install.target, install.scope, action="absent")
    is_recorded = work.manifest.of(install.target, install.scope) is not None
    work.manifest.drop(install.target, install.scope)
    entry = _uninstall_entry(work, install, outcome)
    skills = _uninstall_skills(work, install, outcome, is_recorded=is_recorded)
    if entry is not None or skills:
        work.manifest.put(Install(target=install.target, scope=install.scope, entry=entry, skills=skills))
    return outcome


def _uninstall_entry(work: _Work, install: Install, outcome: Outcome) -> Entry | None:
    """Take the entry out; return its record where it was left alone."""
    recorded = install.entry
    configuration = read_configuration(install.target, install.scope, work.where, work.staging, recorded)
    if configuration is None:
        if recorded is not None:
            outcome.left.append(_elsewhere(recorded))
        return recorded
    outcome.path = configuration.path
    entry = recorded or _unrecorded(configuration, work.where)
    if entry is None or entry.name not in configuration.entries:
        return None
    outcome.name, current = entry.name, configuration.entries[entry.name]
    if current != entry.value and not is_of(current, install.scope, work.where.project):
        outcome.action = "left"
        outcome.left.append(_replaced(configuration, entry.name))
        return entry
    configuration.take(entry)
    outcome.action = "removed"
    if configuration.text is None:
        work.staging.remove(configuration.path)
    else:
        work.staging.write(configuration.path, configuration.text.encode())
    return None


def _unrecorded(configuration: Configuration, where: Where) -> Entry | None:
    """Return the entry of this project that nobody recorded here."""
    container = list(configuration.container)
    for name, value in configuration.entries.items():
        if is_of(value, configuration.scope, where.project):
            return Entry(
                path=configuration.shown,
                container=container,
                name=name,
                value=value,
                there=len(container),
                created=False,
            )
    return None


def _elsewhere(entry: Entry) -> Left:
    return Left(entry.path, "the client looks elsewhere now", f"take `{entry.name}` out of {entry.path} by hand")


def _replaced(configuration: Configuration, name: str) -> Left:
    return Left(
        str(configuration.path),
        f"the entry `{name}` is not what ktx wrote",
        f"take `{name}` out of {configuration.path} by hand, if nobody needs it",
    )


def _uninstall_skills(work: _Work, install: Install, outcome: Outcome, *, is_recorded: bool) -> dict[str, str]:
    """Remove the skills that nobody else uses; return those that were left alone."""
    left: dict[str, str] = {}
    used = {*work.manifest.skill_files(), *_used_by_others(work, install)}
    for key, wrote in _skills(work, install, is_recorded=is_recorded).items():
        path = work.where.project / key
        reason = _reason_to_leave(work, install, path, wrote)
        if key in used or reason is None:
            continue
        if not reason:
            work.staging.remove(path)
            outcome.action = "removed" if outcome.action == "absent" else outcome.action
        elif is_recorded:
            left[key] = wrote
            outcome.left.append(Left(str(path), reason, Hint("if nobody needs it: {}", Command(path, program="rm"))))
    return left


def _skills(work: _Work, install: Install, *, is_recorded: bool) -> dict[str, str]:
    """Return the skills that ktx wrote, with the sha256 of each: as recorded, else as they are packaged."""
    if is_recorded:
        return install.skills
    packaged = skill_files(CLIENTS[install.target].places[install.scope], work.where)
    return {written(path, work.where.project): digest(content) for path, content in packaged.items()}


def _reason_to_leave(work: _Work, install: Install, path: Path, wrote: str) -> str | None:
    """Return why a skill is not removed, "" where it can be, None where it is not there."""
    if not path.exists():
        return None
    folder = work.where.skills(CLIENTS[install.target].places[install.scope])
    if folder is None or not path.is_relative_to(folder) or ".." in path.parts:
        return "the client looks elsewhere now"
    if not path.relative_to(folder).parts[0].startswith(PREFIX):
        return "it is no skill of ktx's"
    return "" if digest(work.staging.read(path) or b"") == wrote else "somebody changed it"


def _used_by_others(work: _Work, install: Install) -> set[str]:
    """Return the skills of this user that other projects count on."""
    used: set[str] = set()
    if install.scope is Scope.USER:
        for target, client in CLIENTS.items():
            if client.places[Scope.USER].skills != CLIENTS[install.target].places[Scope.USER].skills:
                continue
            try:
                configuration = read_configuration(target, Scope.USER, work.where, work.staging)
                peers = list(configuration.peers(work.where.project)) if configuration else []
            except KtxError:  # another client's file that cannot be read says nothing about others
                continue
            used.update(path for peer, _ in peers for path in peer.skills)
    return used


NOT_INSTALLED, INSTALLED, CHANGED, STALE, UNREADABLE = "not_installed", "installed", "changed", "stale", "unreadable"


@dataclass(slots=True)
class State(Record):
    """One client in one scope. `reasons`: what is changed, stale or unreadable, one sentence each."""

    target: Target
    scope: Scope
    state: str = NOT_INSTALLED
    name: str | None = None
    path: Path | None = None
    reasons: list[str] = field(default_factory=list)

    def say(self, state: str, reason: str) -> None:
        """Add a reason; of several states the first is the one."""
        self.state = state if self.state == INSTALLED else self.state
        self.reasons.append(reason)


def list_clients(where: Where) -> list[State]:
    """Return the state of every client in every scope; nothing is started or written."""
    manifest = load_manifest(Layout(where.project))
    return [
        _state(target, scope, manifest.of(target, scope), where)
        for target, client in CLIENTS.items()
        for scope in client.places
    ]


def _state(target: Target, scope: Scope, install: Install | None, where: Where) -> State:
    state, staging = State(target, scope), Staging(where.project)
    try:
        _look_at_entry(state, install, where, staging)
        _look_at_skills(state, install, where, staging)
    except KtxError as error:
        state.state, state.reasons = UNREADABLE, [error.message]
    return state


def _look_at_entry(state: State, install: Install | None, where: Where, staging: Staging) -> None:
    recorded = install.entry if install else None
    configuration = read_configuration(state.target, state.scope, where, staging, recorded)
    if configuration is None:
        state.state = INSTALLED if install else NOT_INSTALLED
        if recorded is not None:
            state.say(STALE, f"it was written to {recorded.path}, where the client does not look now")
        return
    state.path, entries = configuration.path, configuration.entries
    ours = [name for name, value in entries.items() if is_of(value, state.scope, where.project)]
    state.name = recorded.name if recorded else next(iter(ours), None)
    if state.name is None:
        state.state = INSTALLED if install else NOT_INSTALLED
        return
    state.state = INSTALLED
    if state.name not in entries:
        state.say(CHANGED, f"`{state.name}` is not in the file any more")
        return
    for kind, reason in _problems(entries[state.name], recorded, state.scope, where):
        state.say(kind, reason)


def _problems(value: Any, recorded: Entry | None, scope: Scope, where: Where) -> Iterator[tuple[str, str]]:
    """Yield what is wrong with an entry: it cannot work, or is not as it was written."""
    if is_ktx(value):
        folder, program = folder_of(value), words_of(value)[0]
        if folder is not None and not is_of(value, scope, where.project):
            yield STALE, f"it serves {folder}, and this project is {where.project}"
        if not _is_there(program, where):
            gone = "is not there any more" if os.sep in program else "is not on PATH"
            yield STALE, f"the program `{program}` {gone}"
    if recorded is not None and value != recorded.value:
        yield CHANGED, f"somebody changed `{recorded.name}`"


def _is_there(program: str, where: Where) -> bool:
    if os.sep in program:
        return Path(program).is_file() and os.access(program, os.X_OK)
    return found_program(where.environ, program) is not None


def _look_at_skills(state: State, install: Install | None, where: Where, staging: Staging) -> None:
    if install is None:
        return
    for path, content in skill_files(CLIENTS[state.target].places[state.scope], where).items():
        key, current = written(path, where.project), staging.read(path)
        if key not in install.skills or current is None:
            state.say(CHANGED, f"{path} is missing" if current is None else f"{path} is not ktx's")
        elif digest(current) != install.skills[key]:
            state.say(CHANGED, f"somebody changed {path}")
        elif current != content:
            state.say(STALE, f"{path} is of another version of ktx")
