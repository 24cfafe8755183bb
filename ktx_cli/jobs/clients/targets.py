"""The agent clients as data: which file of theirs names MCP servers, how, and where their skills lie."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

from ktx_cli.core import Command, Hint, NotReadyError


class Target(StrEnum):
    """An agent client. `universal` is every other one: skills, and an entry to paste."""

    CLAUDE_CODE = "claude-code"
    CLAUDE_DESKTOP = "claude-desktop"
    CODEX = "codex"
    CURSOR = "cursor"
    OPENCODE = "opencode"
    VSCODE = "vscode"
    UNIVERSAL = "universal"


class Scope(StrEnum):
    """For whom: everybody who works on the project (files beside `ktx.yaml`), or this user in all folders."""

    PROJECT = "project"
    USER = "user"


class Profile(StrEnum):
    """Which tools a server lists: those that answering needs, or all. Every tool can be called in each."""

    DEFAULT = "default"
    ADMIN = "admin"


Form = Literal["plain", "typed", "cursor", "opencode", "codex"]
Folder = Literal["project", "home", "claude", "claude_skills", "codex", "xdg", "application"]


@dataclass(frozen=True, slots=True)
class ClientPlace:
    """The files that a client reads, in one scope.

    `files`: its configuration, the first that is there, else the first (() for none). `container`: the key its servers
    are under. `skills`: the folder of skills, None where it takes none from files. `rules`: they are Cursor's rules.
    """

    base: Folder
    files: tuple[str, ...]
    container: tuple[str, ...] = ("mcpServers",)
    skills: tuple[Folder, str] | None = None
    rules: bool = False


@dataclass(frozen=True, slots=True)
class Client:
    """A client: how it writes an entry, and its places.

    `title`, `programs`: what it is called, and started by.

    `workspace`: what it replaces by the project's folder in arguments; where it has nothing of the kind, it starts
    servers in the folder it was started in, and ktx finds the project around that. `reference`: how it writes the value
    of a variable. `toml`: its file is TOML. `http`: it can reach a server that is running. `filters`: it hands servers
    no variables of its own but a few.
    """

    title: str
    form: Form
    places: Mapping[Scope, ClientPlace]
    programs: tuple[str, ...] = ()
    workspace: str | None = None
    reference: str = "${{{name}}}"
    toml: bool = False
    http: bool = True
    filters: bool = False


_AGENTS: Final = ".agents/skills"

CLIENTS: Final[Mapping[Target, Client]] = {
    Target.CLAUDE_CODE: Client(
        "Claude Code",
        "typed",
        {
            Scope.PROJECT: ClientPlace("project", (".mcp.json",), skills=("project", ".claude/skills")),
            Scope.USER: ClientPlace("claude", (".claude.json",), skills=("claude_skills", "skills")),
        },
        programs=("claude",),
    ),
    Target.CLAUDE_DESKTOP: Client(
        "Claude Desktop",
        "plain",
        {Scope.USER: ClientPlace("application", ("Claude/claude_desktop_config.json",))},
        http=False,
        filters=True,
    ),
    Target.CODEX: Client(
        "Codex",
        "codex",
        {
            Scope.PROJECT: ClientPlace("project", (".codex/config.toml",), ("mcp_servers",), ("project", _AGENTS)),
            Scope.USER: ClientPlace("codex", ("config.toml",), ("mcp_servers",), ("home", _AGENTS)),
        },
        programs=("codex",),
        toml=True,
        filters=True,
    ),
    Target.CURSOR: Client(
        "Cursor",
        "cursor",
        {
            Scope.PROJECT: ClientPlace(
                "project", (".cursor/mcp.json",), skills=("project", ".cursor/rules"), rules=True
            ),
            Scope.USER: ClientPlace("home", (".cursor/mcp.json",), skills=("home", ".cursor/skills")),
        },
        programs=("cursor", "cursor-agent"),
        workspace="${workspaceFolder}",
        reference="${{env:{name}}}",
    ),
    Target.OPENCODE: Client(
        "opencode",
        "opencode",
        {
            Scope.PROJECT: ClientPlace("project", ("opencode.json", "opencode.jsonc"), ("mcp",), ("project", _AGENTS)),
            Scope.USER: ClientPlace(
                "xdg", ("opencode/opencode.json", "opencode/opencode.jsonc"), ("mcp",), ("home", _AGENTS)
            ),
        },
        programs=("opencode",),
        reference="{{env:{name}}}",
    ),
    Target.VSCODE: Client(
        "VS Code",
        "typed",
        {
            Scope.PROJECT: ClientPlace("project", (".vscode/mcp.json",), ("servers",), ("project", _AGENTS)),
            Scope.USER: ClientPlace("application", ("Code/User/mcp.json",), ("servers",), ("home", _AGENTS)),
        },
        programs=("code",),
        workspace="${workspaceFolder}",
        reference="${{env:{name}}}",
    ),
    Target.UNIVERSAL: Client(
        "any other client: skills for it, and an entry to paste",
        "plain",
        {
            Scope.PROJECT: ClientPlace("project", (), skills=("project", _AGENTS)),
            Scope.USER: ClientPlace("project", (), skills=("home", _AGENTS)),
        },
    ),
}
"""Every client, in the order they are listed."""


@dataclass(frozen=True, slots=True)
class Where:
    """This project, and the folders of this user: nothing else of the machine is looked at."""

    project: Path
    environ: Mapping[str, str]
    platform: str = sys.platform

    def folder(self, base: Folder) -> Path:
        """Return the folder that places of a kind lie in."""
        if base == "project":
            return self.project
        if base == "claude":
            return self._named("CLAUDE_CONFIG_DIR") or self.home
        if base == "claude_skills":
            return self._named("CLAUDE_CONFIG_DIR") or self.home / ".claude"
        if base == "codex":
            return self._named("CODEX_HOME") or self.home / ".codex"
        if base == "xdg" or (base == "application" and self.platform not in ("darwin", "win32")):
            return self._named("XDG_CONFIG_HOME") or self.home / ".config"
        if base == "application" and self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if base == "application":
            return self._named("APPDATA") or self.home / "AppData" / "Roaming"
        return self.home

    @property
    def home(self) -> Path:
        """The user's home folder; `NotReadyError` where there is none."""
        home = self._named("HOME") or (self._named("USERPROFILE") if self.platform == "win32" else None)
        if home is None:
            raise NotReadyError("HOME names no folder, so this user's files cannot be found", hint="export HOME=~")
        return home

    def _named(self, variable: str) -> Path | None:
        value = self.environ.get(variable, "")
        return Path(value) if Path(value).is_absolute() else None

    def config(self, place: ClientPlace) -> Path | None:
        """Return a client's configuration file: the first that is there, else the first; None where it has none."""
        paths = self.configs(place)
        return next((path for path in paths if os.path.lexists(path)), paths[0] if paths else None)

    def configs(self, place: ClientPlace) -> list[Path]:
        """Return the files a client's configuration may be in."""
        return [self.folder(place.base) / name for name in place.files]

    def skills(self, place: ClientPlace) -> Path | None:
        """Return the folder of a client's skills, None where it has none."""
        return None if place.skills is None else self.folder(place.skills[0]) / place.skills[1]


NAME = "ktx"


def installed_program(environ: Mapping[str, str]) -> Path:
    """Return the absolute path of this `ktx`: as PATH has it where that is the same file, else where it is installed.

    Links stay links: an upgrade changes what they lead to. Raises `NotReadyError` where it is not installed.
    """
    from ktx_cli.project import found_program

    beside, found = Path(sys.executable).with_name(NAME), found_program(environ)
    is_there = beside.is_file() and os.access(beside, os.X_OK)
    if found is not None and (not is_there or found.samefile(beside)):
        return found
    if not is_there:
        message = f"there is no `{NAME}` beside {sys.executable} or on PATH, so clients could not start it"
        raise NotReadyError(message, hint=Hint("install ktx: {}", Command("install", "ktx-cli", program="pip")))
    return beside


PREFIX: Final = "ktx-"
"""The prefix of the names of all skills, also of other versions."""

NAMES: Final = (f"{PREFIX}analytics", f"{PREFIX}admin")


def skill_files(place: ClientPlace, where: Where) -> Mapping[Path, bytes]:
    """Return the files of a client's skills with their contents, {} for one that takes none from files."""
    folder = where.skills(place)
    if folder is None:
        return {}
    paths = {name: folder / (f"{name}.mdc" if place.rules else f"{name}/SKILL.md") for name in NAMES}
    return {path: _content(name, place.rules) for name, path in paths.items()}


def _content(name: str, rules: bool) -> bytes:
    from importlib.resources import files

    text = files("ktx_cli").joinpath("agent_skills", f"{name}.md").read_text("utf-8")
    if rules:  # Cursor's front matter has no name, and says whether the rule is always in force
        text = text.replace(f"name: {name}\n", "", 1).replace("\n---\n", "\nalwaysApply: false\n---\n", 1)
    return text.encode()
