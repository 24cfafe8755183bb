"""Finds the `codex` binary, asks it which features it has, and prepares the environment of its processes."""

from __future__ import annotations

import functools
import os
import re
import subprocess
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Command, Hint, SettingPath, Variable
from ktx_cli.llm.backends.claude.binary import private_folder
from ktx_cli.llm.errors import LlmError, llm_error
from ktx_cli.project import SecretRef, find_program, is_in_project, resolve_plain

NAME: Final = "codex"
OVERRIDE: Final = "KTX_CODEX_CLI_BIN"
MINIMUM: Final = (0, 169, 0)
"""The first version tested with ktx: tools and empty environments are experimental parts of its protocol."""

FOLDER_PREFIX: Final = "ktx-codex-"
ANSWER_SECONDS: Final = 30.0
_SETTING: Final = "llm.provider.codex.cli_path"
_UPDATE: Final = Command("install", "-g", "@openai/codex", program="npm")

KEPT: Final = frozenset({
    "LANG", "LC_ALL", "LC_CTYPE", "TZ",
    "HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "all_proxy", "no_proxy",
    "SSL_CERT_FILE", "SSL_CERT_DIR", "CODEX_CA_CERTIFICATE",
    "SYSTEMROOT", "WINDIR", "COMSPEC",
})  # fmt: skip
"""The variables that a process keeps: language, transport, and what Windows needs to start a program."""


@dataclass(frozen=True, slots=True)
class CodexBinary:
    """A usable binary. `origin`: a setting, a variable, or PATH. `features`: those that are on unless switched off."""

    path: Path
    origin: str
    version: tuple[int, int, int]
    features: tuple[str, ...]

    @property
    def version_text(self) -> str:
        """`0.169.0`."""
        return ".".join(str(part) for part in self.version)

    def __str__(self) -> str:
        return f"codex {self.version_text} ({self.origin}: {self.path})"


def find_codex(*, cli_path: str | None, project_dir: Path, environ: Mapping[str, str]) -> CodexBinary:
    """Return the binary to run; raises `LlmError` if there is none, or it is too old.

    The order: `llm.provider.codex.cli_path`, `KTX_CODEX_CLI_BIN`, PATH. A configured binary that does not work is an
    error, never a reason to use the next one; so is one inside the project.
    """
    for origin, path in candidates(cli_path=cli_path, project_dir=project_dir, environ=environ):
        if not (path.is_file() and os.access(path, os.X_OK)):
            place = SettingPath(origin) if origin == _SETTING else Variable(origin)
            hint = Hint("correct {}, or remove it", place)
            raise _unusable(f"{origin} is {path}, which is not an executable program", hint)
        if origin == _SETTING and is_in_project(path, project_dir):
            message = f"ktx does not run {path}, set by {origin}: it is inside the project, which may have supplied it"
            raise _unusable(message, Command("config", "set", _SETTING, "~/.local/bin/codex"))
        program = native_program(path)
        modified = program.stat().st_mtime_ns
        version = _version(str(program), modified)
        if version < MINIMUM:
            found, least = (".".join(map(str, one)) for one in (version, MINIMUM))
            raise _unusable(f"{path} is Codex {found}, but ktx requires {least} or later", _UPDATE)
        return CodexBinary(program, origin, version, _features(str(program), modified))
    raise _unusable("there is no `codex` binary", _UPDATE, installed=False)


def candidates(*, cli_path: str | None, project_dir: Path, environ: Mapping[str, str]) -> list[tuple[str, Path]]:
    """Return the candidate binaries, best first, each with its origin."""
    found: list[tuple[str, Path]] = []
    reference = SecretRef.parse(cli_path) if cli_path else None
    if cli_path and reference is not None and reference.kind == "env":
        cli_path = resolve_plain(cli_path, project_dir=project_dir, environ=environ, where=_SETTING)
    if cli_path:
        found.append((_SETTING, project_dir / Path(cli_path).expanduser()))
    if environ.get(OVERRIDE):
        found.append((OVERRIDE, project_dir / Path(environ[OVERRIDE]).expanduser()))
    on_path, _ = find_program("codex", project_dir=project_dir, search_path=environ.get("PATH", os.defpath))
    if on_path:
        found.append(("PATH", on_path))
    return found


def native_program(path: Path) -> Path:
    """Return the native program that npm's `codex` script starts, so that no Node.js process is between; else `path`.

    Raises `LlmError` if the package of npm has none for this machine.
    """
    script = Path(os.path.realpath(path))
    if script.name != "codex.js":
        return path
    package = script.parents[1]
    places = [package.parent, package / "node_modules" / "@openai"]
    programs = [one for place in places for one in sorted(place.glob("codex-*/vendor/*/bin/codex*"))]
    for program in programs:
        if program.name in ("codex", "codex.exe") and os.access(program, os.X_OK):
            return program
    raise _unusable(f"{path} is npm's script without the program for this machine", _UPDATE)


def codex_environment(environ: Mapping[str, str], folder: Path, *, secret_names: Iterable[str] = ()) -> dict[str, str]:
    """Return the whole environment of a process whose home folder is `folder`.

    `secret_names` are the variables in `env:` references of `ktx.yaml`. No variable can carry a key, a model or an
    address: Codex uses the login in its home folder, or none.
    """
    kept = {name: value for name, value in environ.items() if name in KEPT and name not in frozenset(secret_names)}
    own = dict.fromkeys(("HOME", "USERPROFILE", "CODEX_HOME", "TMPDIR", "TEMP", "TMP"), str(folder))
    return {**kept, **own, "PATH": os.defpath}


def dropped_names(environ: Mapping[str, str], *, secret_names: Iterable[str] = ()) -> list[str]:
    """Return the names of the variables that no process receives, sorted."""
    return sorted(name for name in environ if name not in KEPT or name in frozenset(secret_names))


@functools.lru_cache(maxsize=16)
def _version(path: str, modified: int) -> tuple[int, int, int]:
    del modified  # part of the cache's key: an updated binary is asked again
    match = re.search(r"\bcodex\S*\s+(\d+)\.(\d+)\.(\d+)\b", _asked(path, "--version"))
    if match is None:
        message = f"{path} does not print its version, so it is not Codex"
        raise _unusable(message, Command("--version", program=path))
    return int(match[1]), int(match[2]), int(match[3])


@functools.lru_cache(maxsize=16)
def _features(path: str, modified: int) -> tuple[str, ...]:
    """Return the features that are on; those of the stage `removed` do nothing and cannot be set."""
    del modified
    rows = [line.split() for line in _asked(path, "features", "list").splitlines()]
    names = [row[0] for row in rows if len(row) >= 3 and row[-1] == "true" and "removed" not in row]
    if not names:
        raise _unusable(f"{path} does not list its features", _UPDATE)
    return tuple(sorted(names))


def _asked(path: str, *words: str) -> str:
    try:
        with private_folder(FOLDER_PREFIX) as folder:
            return subprocess.run(
                [path, *words],
                env=codex_environment(os.environ, folder),
                cwd=folder,
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=ANSWER_SECONDS,
                check=False,
            ).stdout
    except (OSError, subprocess.TimeoutExpired) as error:
        message = f"`{path} {' '.join(words)}` does not work: {type(error).__name__}"
        raise _unusable(message, _UPDATE) from error


def _unusable(message: str, hint: str, **facts: bool) -> LlmError:
    details: dict[str, Any] = dict(facts)
    return llm_error("connection", backend=NAME, message=message, hint=hint, **details)
