"""`ktx agents list`: of each client whether this project is installed, and whether what was written still holds."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ktx_cli.core.errors import KtxError
from ktx_cli.jobs.agents.configuration import read_configuration
from ktx_cli.jobs.agents.entries import folder_of, is_ktx, is_of, words_of
from ktx_cli.jobs.agents.manifest import Entry, Install, digest, load_manifest, written
from ktx_cli.jobs.agents.program import found_program
from ktx_cli.jobs.agents.skills import skill_files
from ktx_cli.jobs.agents.staging import Staging
from ktx_cli.jobs.agents.targets import CLIENTS, Scope, Target, Where
from ktx_cli.project.layout import Layout

NOT_INSTALLED, INSTALLED, CHANGED, STALE, UNREADABLE = "not_installed", "installed", "changed", "stale", "unreadable"


@dataclass(slots=True)
class State:
    """One client in one scope. `reasons`: what is changed, stale or unreadable, one sentence each."""

    target: Target
    scope: Scope
    state: str = NOT_INSTALLED
    name: str | None = None
    path: Path | None = None
    reasons: list[str] = field(default_factory=list)

    def to_json(self) -> dict[str, Any]:
        """Return it as it stands in the answer."""
        return {
            "target": self.target.value,
            "scope": self.scope.value,
            "state": self.state,
            "name": self.name,
            "path": None if self.path is None else str(self.path),
            "reasons": self.reasons,
        }

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
