"""The agent clients as data: the files that configure MCP servers, their format, and the location of skills."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from pathlib import Path
from typing import Final, Literal

from ktx_cli.core import Command, Hint, NotReadyError


class Target(StrEnum):
    """An agent client. `universal` stands for every other one: skills, and an entry to paste."""

    CLAUDE_CODE = "claude-code"
    CLAUDE_DESKTOP = "claude-desktop"
    CODEX = "codex"
    CURSOR = "cursor"
    OPENCODE = "opencode"
    VSCODE = "vscode"
    GEMINI_CLI = "gemini-cli"
    COPILOT_CLI = "copilot-cli"
    COPILOT_JETBRAINS = "copilot-jetbrains"
    JUNIE = "junie"
    WINDSURF = "windsurf"
    ZED = "zed"
    UNIVERSAL = "universal"


class Scope(StrEnum):
    """For whom ktx is installed: everybody on the project (files next to `ktx.yaml`, or in the folder of
    `--install-dir`), or this user in all folders.
    """

    PROJECT = "project"
    USER = "user"


class Profile(StrEnum):
    """Which tools a server lists: those for answering questions, or all. Every tool can be called in each."""

    DEFAULT = "default"
    ADMIN = "admin"


Form = Literal["plain", "typed", "cursor", "opencode", "codex", "gemini", "copilot", "untyped", "windsurf"]
Folder = Literal[
    "project",
    "home",
    "claude",
    "claude_skills",
    "codex",
    "xdg",
    "application",
    "gemini",
    "copilot",
    "local_application",
    "zed",
]


@dataclass(frozen=True, slots=True)
class ClientPlace:
    """The files that a client reads in one scope.

    `files`: its configuration, the first that exists, else the first (() for none). `container`: the key of its
    servers. `skills`: the folder of skills, None if it reads none from files. `rules`: they are Cursor's rules.
    `signs`: files and folders that only this client uses; () is the folder of its configuration.
    """

    base: Folder
    files: tuple[str, ...]
    container: tuple[str, ...] = ("mcpServers",)
    skills: tuple[Folder, str] | None = None
    rules: bool = False
    signs: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Client:
    """A client: the format of its entries, and its files.

    `title`, `programs`: its display name, and its programs.

    `workspace`: the placeholder for the project folder in arguments; without one, the client starts servers in its own
    working folder, and ktx finds the project from there. `reference`: how it refers to the value of a variable, None
    if it cannot. `toml`: its file is TOML. `http`: it supports running servers. `filters`: it only passes a few of its
    own variables to servers, and `names_variables`: those that its entry names.
    """

    title: str
    form: Form
    places: Mapping[Scope, ClientPlace]
    programs: tuple[str, ...] = ()
    workspace: str | None = None
    reference: str | None = "${{{name}}}"
    toml: bool = False
    http: bool = True
    filters: bool = False
    names_variables: bool = False


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
        names_variables=True,
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
    Target.GEMINI_CLI: Client(
        "Gemini CLI",
        "gemini",
        {
            Scope.PROJECT: ClientPlace("project", (".gemini/settings.json",), skills=("project", _AGENTS)),
            Scope.USER: ClientPlace("gemini", (".gemini/settings.json",), skills=("home", _AGENTS)),
        },
        programs=("gemini",),
        filters=True,  # it hides variables whose names or values look like secrets
        names_variables=True,
    ),
    Target.COPILOT_CLI: Client(
        "GitHub Copilot CLI",
        "copilot",
        {
            # It also reads `.mcp.json`, but there, the entry would collide with that of Claude Code.
            Scope.PROJECT: ClientPlace(
                "project",
                (".github/mcp.json",),
                skills=("project", _AGENTS),
                signs=(".github/copilot-instructions.md", ".github/copilot"),
            ),
            Scope.USER: ClientPlace("copilot", ("mcp-config.json",), skills=("home", _AGENTS)),
        },
        programs=("copilot",),
        filters=True,
        names_variables=True,
    ),
    Target.COPILOT_JETBRAINS: Client(
        "GitHub Copilot for JetBrains IDEs",
        "untyped",
        {
            Scope.USER: ClientPlace(
                "local_application", ("github-copilot/intellij/mcp.json",), ("servers",), ("home", _AGENTS)
            )
        },
        reference=None,
    ),
    Target.JUNIE: Client(
        "Junie",
        "untyped",
        {
            Scope.PROJECT: ClientPlace(
                "project", (".junie/mcp/mcp.json",), skills=("project", ".junie/skills"), signs=(".junie",)
            ),
            Scope.USER: ClientPlace(
                "home", (".junie/mcp/mcp.json",), skills=("home", ".junie/skills"), signs=(".junie",)
            ),
        },
        programs=("junie",),
        reference=None,
    ),
    Target.WINDSURF: Client(
        "Windsurf",
        "windsurf",
        {
            Scope.USER: ClientPlace(
                "home", (".codeium/windsurf/mcp_config.json",), skills=("home", ".codeium/windsurf/skills")
            )
        },
        programs=("windsurf",),
        reference="${{env:{name}}}",
    ),
    Target.ZED: Client(
        "Zed",
        "untyped",
        {
            Scope.PROJECT: ClientPlace(
                "project", (".zed/settings.json",), ("context_servers",), skills=("project", _AGENTS)
            ),
            Scope.USER: ClientPlace("zed", ("settings.json",), ("context_servers",), skills=("home", _AGENTS)),
        },
        programs=("zed", "zeditor"),
        reference=None,
    ),
    Target.UNIVERSAL: Client(
        "any other client: skills, and an entry to paste",
        "plain",
        {
            Scope.PROJECT: ClientPlace("project", (), skills=("project", _AGENTS)),
            Scope.USER: ClientPlace("project", (), skills=("home", _AGENTS)),
        },
    ),
}
"""Every client, in the order in which they are listed."""


@dataclass(frozen=True, slots=True)
class Where:
    """This project, and this user's folders; nothing else on the machine is inspected.

    `install_dir`: the absolute folder with the client's project files, such as the application that the agent works on;
    None if that is the project itself.
    """

    project: Path
    environ: Mapping[str, str]
    platform: str = sys.platform
    install_dir: Path | None = None

    @property
    def root(self) -> Path:
        """The folder with the client's project files."""
        return self.install_dir or self.project

    def at(self, install_dir: str | None) -> Where:
        """Return the same project with its files in another folder, as in the manifest."""
        return replace(self, install_dir=None if install_dir is None else Path(install_dir))

    def folder(self, base: Folder) -> Path:
        """Return the base folder for a kind of file."""
        if base == "project":
            return self.root
        if base == "claude":
            return self._named("CLAUDE_CONFIG_DIR") or self.home
        if base == "claude_skills":
            return self._named("CLAUDE_CONFIG_DIR") or self.home / ".claude"
        if base == "codex":
            return self._named("CODEX_HOME") or self.home / ".codex"
        if base == "copilot":
            return self._named("COPILOT_HOME") or self.home / ".copilot"
        if base == "gemini":
            return self._named("GEMINI_CLI_HOME") or self.home
        if base in ("zed", "local_application"):
            return self._outside_of_application_support(base)
        if base == "xdg" or (base == "application" and self.platform not in ("darwin", "win32")):
            return self._named("XDG_CONFIG_HOME") or self.home / ".config"
        if base == "application" and self.platform == "darwin":
            return self.home / "Library" / "Application Support"
        if base == "application":
            return self._named("APPDATA") or self.home / "AppData" / "Roaming"
        return self.home

    def _outside_of_application_support(self, base: Folder) -> Path:
        """Return the base folder of a client that uses `~/.config` on macOS as well."""
        if self.platform == "win32" and base == "local_application":
            return self._named("LOCALAPPDATA") or self.home / "AppData" / "Local"
        if self.platform == "win32":
            return self.folder("application") / "Zed"
        config = self.home / ".config" if self.platform == "darwin" else self.folder("xdg")
        return config / "zed" if base == "zed" else config

    @property
    def home(self) -> Path:
        """The user's home folder; raises `NotReadyError` if there is none."""
        home = self._named("HOME") or (self._named("USERPROFILE") if self.platform == "win32" else None)
        if home is None:
            raise NotReadyError("HOME is not a folder, so ktx cannot find this user's files", hint="export HOME=~")
        return home

    def _named(self, variable: str) -> Path | None:
        value = self.environ.get(variable, "")
        return Path(value) if Path(value).is_absolute() else None

    def config(self, place: ClientPlace) -> Path | None:
        """Return a client's configuration file: the first that exists, else the first; None if it has none."""
        paths = self.configs(place)
        return next((path for path in paths if os.path.lexists(path)), paths[0] if paths else None)

    def configs(self, place: ClientPlace) -> list[Path]:
        """Return the possible configuration files of a client."""
        return [self.folder(place.base) / name for name in place.files]

    def skills(self, place: ClientPlace) -> Path | None:
        """Return the folder of a client's skills, or None if it has none."""
        return None if place.skills is None else self.folder(place.skills[0]) / place.skills[1]


NAME = "ktx"


def installed_program(environ: Mapping[str, str]) -> Path:
    """Return the absolute path of this `ktx`: its path on PATH if that is the same file, else the installed path.

    Links stay links: an upgrade changes their targets. Raises `NotReadyError` if it is not installed.
    """
    from ktx_cli.project import found_program

    beside, found = Path(sys.executable).with_name(NAME), found_program(environ)
    is_there = beside.is_file() and os.access(beside, os.X_OK)
    if found is not None and (not is_there or found.samefile(beside)):
        return found
    if not is_there:
        message = f"there is no `{NAME}` next to {sys.executable} or on PATH, so clients could not start it"
        raise NotReadyError(message, hint=Hint("install ktx: {}", Command("install", "ktx-cli", program="pip")))
    return beside


PREFIX: Final = "ktx-"
"""The name prefix of all skills, including those of other versions."""

NAMES: Final = (f"{PREFIX}analytics", f"{PREFIX}admin")


def skill_files(place: ClientPlace, where: Where) -> Mapping[Path, bytes]:
    """Return the files of a client's skills with their contents; {} for a client that reads none from files."""
    folder = where.skills(place)
    if folder is None:
        return {}
    paths = {name: folder / (f"{name}.mdc" if place.rules else f"{name}/SKILL.md") for name in NAMES}
    return {path: _content(name, place.rules) for name, path in paths.items()}


def _content(name: str, rules: bool) -> bytes:
    from importlib.resources import files

    text = files("ktx_cli").joinpath("agent_skills", f"{name}.md").read_text("utf-8")
    if rules:  # Cursor's front matter has no name, but says whether the rule always applies
        text = text.replace(f"name: {name}\n", "", 1).replace("\n---\n", "\nalwaysApply: false\n---\n", 1)
    return text.encode()
