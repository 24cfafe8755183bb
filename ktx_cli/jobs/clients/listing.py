"""The agent clients on this machine: those with the project installed, their state, and those that could have it."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any

from ktx_cli.core import KtxError, Record
from ktx_cli.jobs.clients.manifest import (
    Entry,
    Install,
    digest,
    folder_of,
    is_ktx,
    is_of,
    load_manifest,
    read_configuration,
    words_of,
    written,
)
from ktx_cli.jobs.clients.staging import Staging
from ktx_cli.jobs.clients.targets import CLIENTS, Scope, Target, Where, skill_files
from ktx_cli.project import Layout, found_program

NOT_INSTALLED, INSTALLED, CHANGED, STALE, UNREADABLE = "not_installed", "installed", "changed", "stale", "unreadable"


@dataclass(slots=True)
class ClientState(Record):
    """One client in one scope. `reasons`: what is changed, outdated or unreadable, one sentence each.

    `install_dir`: the folder with its project files, None if that is the project.
    """

    target: Target
    scope: Scope
    install_dir: str | None = None
    state: str = NOT_INSTALLED
    name: str | None = None
    path: Path | None = None
    reasons: list[str] = field(default_factory=list)

    @property
    def place(self) -> str:
        """The scope, or the other folder with the client's project files."""
        return self.install_dir or self.scope.value

    def say(self, state: str, reason: str) -> None:
        """Add a reason; the first state wins."""
        self.state = state if self.state == INSTALLED else self.state
        self.reasons.append(reason)


def list_clients(where: Where) -> list[ClientState]:
    """Return the state of every client in every scope, and in every other folder into which it was installed.

    Starts and writes nothing.
    """
    manifest = load_manifest(Layout(where.project))
    states: list[ClientState] = []
    for target, client in CLIENTS.items():
        for scope in client.places:
            elsewhere = [each.install_dir for each in manifest.installs if (each.target, each.scope) == (target, scope)]
            for folder in dict.fromkeys((None, *elsewhere)):
                states.append(_state(target, scope, manifest.of(target, scope, folder), where.at(folder)))
    return states


def _state(target: Target, scope: Scope, install: Install | None, where: Where) -> ClientState:
    found = INSTALLED if install else NOT_INSTALLED
    state = ClientState(target, scope, None if where.install_dir is None else str(where.install_dir), found)
    staging = Staging((where.project, where.root))
    try:
        _look_at_entry(state, install, where, staging)
        _look_at_skills(state, install, where, staging)
    except KtxError as error:
        state.state, state.reasons = UNREADABLE, [error.message]
    return state


def _look_at_entry(state: ClientState, install: Install | None, where: Where, staging: Staging) -> None:
    recorded = install.entry if install else None
    configuration = read_configuration(state.target, state.scope, where, staging, recorded)
    if configuration is None:
        if recorded is not None:
            state.say(STALE, f"it was written to {recorded.path}, which the client no longer uses")
        return
    state.path, entries = configuration.path, configuration.entries
    ours = [name for name, value in entries.items() if is_of(value, state.scope, where)]
    state.name = recorded.name if recorded else next(iter(ours), None)
    if state.name is None:
        return
    state.state = INSTALLED
    if state.name not in entries:
        state.say(CHANGED, f"`{state.name}` is no longer in the file")
        return
    for kind, reason in _problems(entries[state.name], recorded, state.scope, where):
        state.say(kind, reason)


def _problems(value: Any, recorded: Entry | None, scope: Scope, where: Where) -> Iterator[tuple[str, str]]:
    """Yield the problems with an entry: it does not work, or was changed."""
    if is_ktx(value):
        folder, program = folder_of(value), words_of(value)[0]
        if folder is not None and not is_of(value, scope, where):
            yield STALE, f"it serves {folder}, but this project is {where.project}"
        if os.sep in program and not (Path(program).is_file() and os.access(program, os.X_OK)):
            yield STALE, f"the program `{program}` no longer exists"
        elif os.sep not in program and found_program(where.environ, program) is None:
            yield STALE, f"the program `{program}` is not on PATH"
    if recorded is not None and value != recorded.value:
        yield CHANGED, f"`{recorded.name}` was edited"


def _look_at_skills(state: ClientState, install: Install | None, where: Where, staging: Staging) -> None:
    if install is None:
        return
    for path, content in skill_files(CLIENTS[state.target].places[state.scope], where).items():
        key, current = written(path, where.project), staging.read(path)
        if current is None:
            state.say(CHANGED, f"{path} is missing")
        elif key not in install.skills:
            if current != content:
                state.say(CHANGED, f"{path} does not belong to ktx")
        elif digest(current) != install.skills[key]:
            state.say(CHANGED, f"{path} was edited")
        elif current != content:
            state.say(STALE, f"{path} was written by another version of ktx")


class _Sign(IntEnum):
    """The signs that a client is installed, strongest first."""

    INSTALLED = 0
    IN_PROJECT = 1
    PROGRAM = 2
    OF_USER = 3


@dataclass(frozen=True, slots=True)
class AgentOffer:
    """A client into which the project could be installed. `installed`: it is, and is neither changed nor outdated."""

    target: Target
    label: str
    installed: bool


def agent_offers(project_dir: Path, environ: Mapping[str, str]) -> list[AgentOffer]:
    """Return the clients that seem to be on this machine, most likely first; `universal` always comes last."""
    where = Where(project_dir, environ)
    try:
        installed = {state.target for state in list_clients(where) if state.state == INSTALLED}
    except KtxError:  # `ktx agents list` and `install` report the error
        installed = set()
    found: list[tuple[_Sign, AgentOffer]] = []
    for target, client in CLIENTS.items():
        has = target in installed
        sign = (_Sign.INSTALLED, "this project is installed") if has else next(_signs(target, where), None)
        if sign is not None and target is not Target.UNIVERSAL:
            found.append((sign[0], AgentOffer(target, f"{client.title} ({sign[1]})", has)))
    universal = AgentOffer(Target.UNIVERSAL, CLIENTS[Target.UNIVERSAL].title, Target.UNIVERSAL in installed)
    return [*(offer for _, offer in sorted(found, key=lambda each: each[0])), universal]


def _signs(target: Target, where: Where) -> Iterator[tuple[_Sign, str]]:
    """Yield the signs that a client is installed, strongest first."""
    if _has_files(target, Scope.PROJECT, where):
        yield _Sign.IN_PROJECT, "used in this folder"
    for program in CLIENTS[target].programs:
        if found_program(where.environ, program) is not None:
            yield _Sign.PROGRAM, f"`{program}` is on PATH"
    if _has_files(target, Scope.USER, where):
        yield _Sign.OF_USER, "settings of this user exist"


def _has_files(target: Target, scope: Scope, where: Where) -> bool:
    """Return whether a client's configuration file, or its own folder, exists."""
    place = CLIENTS[target].places.get(scope)
    if place is None:
        return False
    shared = [where.project]
    try:
        paths = where.configs(place)
        if place.signs:
            return any(
                os.path.lexists(path) for path in (*paths, *(where.folder(place.base) / each for each in place.signs))
            )
    except KtxError:  # no home folder
        return False
    with contextlib.suppress(KtxError):
        shared.append(where.home)
    return any(os.path.lexists(path) or (path.parent not in shared and path.parent.is_dir()) for path in paths)
