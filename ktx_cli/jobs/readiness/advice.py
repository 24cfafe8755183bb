"""Makes of the advice of an error what can be typed as it stands: a command; the rest of it joins the message."""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path, PurePath
from typing import Any, Final

from ktx_cli.core.text import shell_words
from ktx_cli.jobs.readiness.model import Finding, Level
from ktx_cli.project.secrets import SecretRef, is_variable, secret_path

PROGRAMS: Final = frozenset(
    {
        *("chmod", "claude", "df", "export", "gcloud", "git", "hf", "keyring", "ktx", "mkdir", "mv", "pip", "printf"),
        *("rm", "unset", "uv"),
    }
)
"""What a command of a fix begins with; else it is a program by its whole path."""

_PARTS: Final = re.compile(r"[:;,] +(?:or:? +|then:? +(?:run:? +)?|for example:? +)?")
_QUOTED: Final = re.compile(r"`([^`]+)`")
_NEXT: Final = re.compile(r"; then:? (?:run:? )?")
_SETTING: Final = re.compile(r"\b(?:connections\.[\w-]+|llm|ingest|scan)\.[\w.-]*\w")
_SECRET: Final = re.compile(r"secret reference `[^`]*` of ([\w.-]*\w)")
_STATEMENT: Final = re.compile(r"(?:^|: )(?:ALTER|CREATE|GRANT|REVOKE) ")
_VARIABLE: Final = re.compile(r"correct ([A-Z][A-Z0-9_]+), or remove it")


def typed(finding: Finding, settings: Mapping[str, Any], project_dir: Path) -> Finding:
    """Return a finding whose hint is a command, where its hint holds one or names a setting; `settings`: of `ktx.yaml`.

    A hint that is neither stays: an edit, or a statement for a database. So does every hint about a line of a file: it
    may quote a name out of it, or out of a database, and a table can be called as a command is.
    """
    hint = finding.hint
    if hint is None or finding.level in (Level.OK, Level.SKIP) or finding.line is not None:
        return finding
    if is_command(hint) or _STATEMENT.search(hint):
        return finding
    for_secret = _SECRET.search(finding.message)  # its hint may have a path out of ktx.yaml
    found = None if for_secret else chained(hint) or command_in(hint)
    command = found or _command_for(finding.message, hint, settings, project_dir)
    if command is None:
        return finding
    told = finding.message if chained(hint) else f"{finding.message} ({hint})"
    return replace(finding, message=told, hint=command)


def is_command(text: str) -> bool:
    """Whether a shell could run a text: it begins with a program, and no word of it ends as one of a sentence does."""
    try:
        words = shlex.split(text)
    except ValueError:
        return False
    if not words or not (words[0] in PROGRAMS or PurePath(words[0]).is_absolute()):
        return False
    return not any(word.endswith((",", ";", ":")) for word in words)


def chained(hint: str) -> str | None:
    """Return commands that are to be typed one after the other as one line; None where not all of them are."""
    parts = _NEXT.split(hint)
    return " && ".join(parts) if len(parts) > 1 and all(map(is_command, parts)) else None


def command_in(hint: str) -> str | None:
    """Return the first command that stands in a sentence, None where there is none."""
    quoted = (part for part in _QUOTED.findall(hint) if " " in part)
    return next((part for part in (*_PARTS.split(hint), *quoted) if is_command(part)), None)


def command_to_set(key: str, settings: Mapping[str, Any], project_dir: Path) -> str:
    """Return what gives a setting of `ktx.yaml` another value, or the secret it refers to; a person fills it in."""
    value: Any = settings
    for name in key.split("."):
        value = value.get(name, {}) if isinstance(value, Mapping) else {}
    reference = SecretRef.parse(value) if isinstance(value, str) else None
    if reference is None:
        return shell_words("ktx", "config", "set", key, key.rpartition(".")[2].upper())
    if reference.kind == "env" and is_variable(reference.name):
        return f"export {reference.name}=..."
    if reference.kind == "env":
        return shell_words("ktx", "config", "set", key, "env:NAME")
    if reference.kind == "file":
        return _command_to_write(secret_path(reference, project_dir))
    service, _, name = reference.name.rpartition("/")
    return shell_words("keyring", "set", service, name)


def _command_to_write(path: Path) -> str:
    folder = "" if path.parent.is_dir() else f"{shell_words('mkdir', '-p', path.parent)} && "
    return f"{folder}printf %s '...' > {shell_words(path)} && {shell_words('chmod', '600', path)}"


def _command_for(message: str, hint: str, settings: Mapping[str, Any], project_dir: Path) -> str | None:
    """Return what changes the first setting a hint names, or the secret a message is about."""
    variable = _VARIABLE.fullmatch(hint)
    if variable is not None:
        return f"unset {variable[1]}"
    named, about = _SETTING.search(hint), _SECRET.search(message)
    key = named[0] if named else about[1] if about else None
    return None if key is None else command_to_set(key, settings, project_dir)
