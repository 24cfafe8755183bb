"""Agent clients that seem to be on this machine: by their files and by their programs, none of which is started."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import IntEnum
from pathlib import Path
from typing import Final

from ktx_cli.core.errors import KtxError
from ktx_cli.jobs.agents.listing import INSTALLED, list_clients
from ktx_cli.jobs.agents.program import found_program
from ktx_cli.jobs.agents.targets import CLIENTS, Scope, Target, Where

_CLIENTS: Final[Mapping[Target, tuple[str, tuple[str, ...]]]] = {
    Target.CLAUDE_CODE: ("Claude Code", ("claude",)),
    Target.CLAUDE_DESKTOP: ("Claude Desktop", ()),
    Target.CODEX: ("Codex", ("codex",)),
    Target.CURSOR: ("Cursor", ("cursor", "cursor-agent")),
    Target.OPENCODE: ("opencode", ("opencode",)),
    Target.VSCODE: ("VS Code", ("code",)),
    Target.UNIVERSAL: ("any other client: skills for it, and an entry to paste", ()),
}
"""What each client is called, and its programs."""


class _Sign(IntEnum):
    """Why a client seems to be here, the strongest first."""

    INSTALLED = 0
    IN_PROJECT = 1
    PROGRAM = 2
    OF_USER = 3


@dataclass(frozen=True, slots=True)
class AgentOffer:
    """A client that could get the project. `installed`: it has it, and nothing of that is changed or stale."""

    target: Target
    label: str
    installed: bool


def agent_offers(project_dir: Path, environ: Mapping[str, str]) -> list[AgentOffer]:
    """Return the clients that seem to be on this machine, the likeliest first; `universal` is always the last."""
    where = Where(project_dir, environ)
    installed = _installed(where)
    found: list[tuple[_Sign, AgentOffer]] = []
    for target in CLIENTS:
        has = target in installed
        sign = (_Sign.INSTALLED, "has this project") if has else next(_signs(target, where), None)
        if sign is not None and target is not Target.UNIVERSAL:
            found.append((sign[0], AgentOffer(target, f"{_CLIENTS[target][0]} ({sign[1]})", has)))
    universal = AgentOffer(Target.UNIVERSAL, _CLIENTS[Target.UNIVERSAL][0], Target.UNIVERSAL in installed)
    return [*(offer for _, offer in sorted(found, key=lambda each: each[0])), universal]


def _installed(where: Where) -> set[Target]:
    try:
        return {state.target for state in list_clients(where) if state.state == INSTALLED}
    except KtxError:  # `ktx agents list` and `install` say what is wrong
        return set()


def _signs(target: Target, where: Where) -> Iterator[tuple[_Sign, str]]:
    """Yield why a client seems to be here, the strongest first."""
    if _has_files(target, Scope.PROJECT, where):
        yield _Sign.IN_PROJECT, "used in this folder"
    for program in _CLIENTS[target][1]:
        if found_program(where.environ, program) is not None:
            yield _Sign.PROGRAM, f"`{program}` is on PATH"
    if _has_files(target, Scope.USER, where):
        yield _Sign.OF_USER, "has settings of this user"


def _has_files(target: Target, scope: Scope, where: Where) -> bool:
    """Whether a client's configuration file is there, or the folder that is the client's own."""
    place = CLIENTS[target].places.get(scope)
    if place is None:
        return False
    try:
        paths = where.configs(place)
    except KtxError:  # no home folder
        return False
    shared = (where.project, _home(where))
    return any(os.path.lexists(path) or (path.parent not in shared and path.parent.is_dir()) for path in paths)


def _home(where: Where) -> Path | None:
    try:
        return where.home
    except KtxError:
        return None
