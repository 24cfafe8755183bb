"""The record of what ktx added to client files, sufficient to remove it again without copies of earlier contents."""

from __future__ import annotations

import hashlib
import ipaddress
import itertools
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path, PurePath
from typing import Any, Final, Literal, Self
from urllib.parse import urlsplit

from pydantic import BaseModel, ConfigDict, ValidationError, model_validator

from ktx_cli.core import Command, ConfigError, Hint, KtxError, StorageError, UsageError
from ktx_cli.jobs.clients import json_edit, toml_edit
from ktx_cli.jobs.clients.json_edit import Editor, Insertion, taken_back
from ktx_cli.jobs.clients.staging import Staging, remove_empty
from ktx_cli.jobs.clients.targets import CLIENTS, Client, Scope, Target, Where
from ktx_cli.project import Layout, prepare_private_folder, read_bytes, storage_error, write_atomic


class _Record(BaseModel):
    model_config = ConfigDict(extra="forbid")


class Entry(_Record):
    """Our entry in a configuration file.

    `there`: how many of the keys in `container` existed before. `created`: ktx created the file. `before`, `after`:
    sha256 of the file without and with the entry; while it has the latter, removing `placed` restores it.
    """

    path: str
    container: list[str]
    name: str
    value: dict[str, Any]
    there: int
    created: bool
    before: str | None = None
    after: str | None = None
    placed: list[Insertion] = []


class Install(_Record):
    """A client, in one scope. `skills`: the files of its skills, with the sha256 of what was written.

    `install_dir`: the folder with its project files, None if that is the project.
    """

    target: Target
    scope: Scope
    install_dir: str | None = None
    entry: Entry | None = None
    skills: dict[str, str] = {}

    @model_validator(mode="after")
    def _is_of_ktx(self) -> Self:
        """Reject an entry that ktx never writes: a planted entry could make ktx remove other people's entries."""
        if self.install_dir is not None and not (self.scope is Scope.PROJECT and Path(self.install_dir).is_absolute()):
            raise ValueError("the folder was not written by ktx")
        place = CLIENTS[self.target].places.get(self.scope)
        if self.entry is None or place is None:
            return self
        own = self.entry.container[: len(place.container)] == list(place.container)
        if not own or not (is_ktx(self.entry.value) or is_address(self.entry.value)):
            raise ValueError("the entry was not written by ktx")
        return self

    @property
    def key(self) -> tuple[Target, Scope, str | None]:
        """What no other installation of the project shares."""
        return self.target, self.scope, self.install_dir


class Manifest(_Record):
    """Everything installed from a project. `folders` were created for it, and are removed when they are empty."""

    version: Literal[1] = 1
    installs: list[Install] = []
    folders: list[str] = []

    def of(self, target: Target, scope: Scope, install_dir: Path | str | None) -> Install | None:
        """Return what is installed in a client, a scope and a folder (None: the project)."""
        key = (target, scope, None if install_dir is None else str(install_dir))
        return next((each for each in self.installs if each.key == key), None)

    def put(self, install: Install) -> None:
        """Record the current installation in place of the earlier record."""
        for index, each in enumerate(self.installs):
            if each.key == install.key:
                self.installs[index] = install
                return
        self.installs.append(install)

    def drop(self, install: Install) -> None:
        """Remove a client, in a scope and a folder, from the record."""
        self.installs = [each for each in self.installs if each.key != install.key]

    @property
    def install_dirs(self) -> list[str]:
        """The folders of `--install-dir`."""
        return list(dict.fromkeys(each.install_dir for each in self.installs if each.install_dir is not None))

    def skill_files(self) -> Iterator[str]:
        """Yield the skill files in use."""
        for install in self.installs:
            yield from install.skills

    def project_files(self) -> Iterator[str]:
        """Yield the files in the project that ktx has written to, which may be committed."""
        for install in self.installs:
            files = ([] if install.entry is None else [install.entry.path]) + list(install.skills)
            yield from (path for path in files if not Path(path).is_absolute())


def load_manifest(layout: Layout) -> Manifest:
    """Return what a project has installed; raises `StorageError` for a file that ktx did not write."""
    path = layout.agents_manifest
    for each in (layout.private, path.parent, path):
        if each.is_symlink():
            message = f"{each} is a symbolic link"
            raise StorageError(message, hint=Command(each, program="rm"), details={"path": str(each)})
    content = read_bytes(path)
    if content is None:
        return Manifest()
    try:
        return Manifest.model_validate_json(content)
    except ValidationError as error:
        message = f"cannot read {path}: it was written by a newer ktx, or edited"
        hint = Hint("upgrade ktx, or move the file away: {}", Command(path, path.with_suffix(".old"), program="mv"))
        raise StorageError(message, hint=hint, details={"path": str(path)}) from error


def save_manifest(layout: Layout, manifest: Manifest) -> None:
    """Write what is installed; an empty manifest is removed."""
    if manifest.installs or manifest.folders:
        prepare_private_folder(layout)
        write_atomic(
            layout.agents_manifest, manifest.model_dump_json(indent=2, exclude_none=True).encode() + b"\n", mode=0o600
        )
    elif layout.agents_manifest.exists():
        try:
            layout.agents_manifest.unlink()
        except OSError as error:
            raise storage_error(layout.agents_manifest, error, "remove") from error
        remove_empty([layout.agents_manifest.parent])


def written(path: Path, project: Path) -> str:
    """Return a path as in the manifest: relative within the project, which may be moved, and absolute elsewhere."""
    return path.relative_to(project).as_posix() if path.is_relative_to(project) else str(path)


def digest(content: bytes | str) -> str:
    """Return the sha256 of a file's contents."""
    return hashlib.sha256(content.encode() if isinstance(content, str) else content).hexdigest()


TOKEN: Final = "KTX_MCP_TOKEN"
"""The variable with the token for a server on another machine."""

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_SERVE: Final = ("mcp", "stdio")
_ATTRIBUTE: Final = "--user-attribute"
_PROFILE: Final = "--profile"
_AGENT: Final = "--agent"
_NO_PROFILE: Final = "default"
_NAMES: Final = ("ktx", "ktx.exe")


@dataclass(frozen=True, slots=True)
class Address:
    """A running server. `token`: the variable with its token, None if it requires none."""

    url: str
    token: str | None

    @classmethod
    def parse(cls, url: str, token: str | None) -> Address:
        """Return a checked URL; a remote server requires a token, in `KTX_MCP_TOKEN` unless another variable is given.

        Raises `UsageError` for an invalid URL, or one that contains a secret.
        """
        host = _checked(url)
        if token is not None and not _VARIABLE.fullmatch(token):
            message = "--token-env takes the name of a variable, not a token"
            raise UsageError(message, hint=f"for example: --token-env {TOKEN}")
        return cls(url, token or (None if _is_local(host) else TOKEN))


def _checked(url: str) -> str:
    example = "for example: --http http://127.0.0.1:7878/mcp"
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        raise UsageError("--http is not a valid URL", hint=example) from None
    if parts.scheme not in ("http", "https") or not host or not url.isprintable() or " " in url:
        raise UsageError("--http must be the URL of a server, http:// or https://", hint=example)
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        message = "--http must not contain a user, password or query: they could be secret, and client files are shared"
        raise UsageError(message, hint=f"put the token in a variable, and pass its name: --token-env {TOKEN}")
    return host


def _is_local(host: str) -> bool:
    try:
        return host == "localhost" or ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def stdio_entry(
    client: Client, scope: Scope, program: str, project: Path, variables: Sequence[str], options: Sequence[str] = ()
) -> dict[str, Any]:
    """Return the entry with which a client starts the server itself.

    `variables`: names of the variables of the project's secrets, for a client that only passes on listed ones.
    `options`: of the server, from `server_options`.
    """
    if scope is Scope.USER:
        at: list[str] = ["--project-dir", str(project)]
    else:
        at = ["--project-dir", client.workspace] if client.workspace else []
    args = [*at, *_SERVE, *options]
    if client.form == "opencode":
        return {"type": "local", "command": [program, *args]}
    started: dict[str, Any] = {"command": program, "args": args}
    if client.form == "codex":
        return {**started, **({"env_vars": sorted(variables)} if variables else {})}
    if client.names_variables and client.reference and variables:
        started["env"] = {name: client.reference.format(name=name) for name in sorted(variables)}
    if client.form == "copilot":
        return {"type": "stdio", **started, "tools": ["*"]}
    return {"type": "stdio", **started} if client.form in ("typed", "cursor") else started


_URL_KEYS: Final = {"gemini": "httpUrl", "windsurf": "serverUrl"}
_REMOTE_TYPES: Final = {"plain": "http", "typed": "http", "copilot": "http", "opencode": "remote"}


def http_entry(client: Client, address: Address) -> dict[str, Any]:
    """Return the entry for a running server; it contains only a reference to the token.

    Raises `UsageError` for a server with a token if the client cannot refer to variables.
    """
    reached: dict[str, Any] = {_URL_KEYS.get(client.form, "url"): address.url}
    if client.form in _REMOTE_TYPES:
        reached = {"type": _REMOTE_TYPES[client.form], **reached}
    if address.token is not None and client.form == "codex":
        reached["bearer_token_env_var"] = address.token
    elif address.token is not None:
        if client.reference is None:
            message = (
                f"{client.title} does not read variables in its configuration, so the token would be written there"
            )
            raise UsageError(message, hint="omit --http, so that the client starts the server itself")
        reached["headers"] = {"Authorization": f"Bearer {client.reference.format(name=address.token)}"}
    return {**reached, "tools": ["*"]} if client.form == "copilot" else reached


def words_of(entry: Any) -> list[str]:
    """Return the command line that an entry starts, or [] if it starts none."""
    if not isinstance(entry, Mapping):
        return []
    command, args = entry.get("command"), entry.get("args", [])
    words = [command] if isinstance(command, str) else command
    if not isinstance(words, list) or not isinstance(args, list):
        return []
    return [word for word in (*words, *args) if isinstance(word, str)]


def is_ktx(entry: Any) -> bool:
    """Return whether an entry starts the server of a ktx project."""
    words = words_of(entry)
    if not words or PurePath(words[0]).name.lower() not in _NAMES:
        return False
    end = len(words)
    while end > 1 and words[end - 2] in (_ATTRIBUTE, _PROFILE, _AGENT):
        end -= 2
    return tuple(words[max(end - 2, 0) : end]) == _SERVE


def server_options(profile: str | None, agent: str | None, attributes: Iterable[str]) -> list[str]:
    """Return the arguments that start a server with a profile (None: the default), an agent and caller attributes."""
    chosen = [] if profile in (None, _NO_PROFILE) else [_PROFILE, str(profile)]
    chosen += [] if not agent else [_AGENT, agent]
    return [*chosen, *(word for each in attributes for word in (_ATTRIBUTE, each))]


def attributes_in(entry: Any) -> list[str]:
    """Return the caller attributes with which an entry starts its server, as in `--user-attribute`."""
    return _values_in(entry, _ATTRIBUTE)


def profile_in(entry: Any) -> str | None:
    """Return the profile with which an entry starts its server, or None if it sets none."""
    return next(iter(_values_in(entry, _PROFILE)), None)


def agent_in(entry: Any) -> str | None:
    """Return the agent in `serving.agents` for which an entry starts its server, or None."""
    return next(iter(_values_in(entry, _AGENT)), None)


def _values_in(entry: Any, option: str) -> list[str]:
    words = words_of(entry) if is_ktx(entry) else []
    return [value for word, value in itertools.pairwise(words) if word == option]


def is_address(entry: Any) -> bool:
    """Return whether an entry has the form of an entry for a running server."""
    keys = ("url", *_URL_KEYS.values())
    return isinstance(entry, Mapping) and any(isinstance(entry.get(key), str) for key in keys) and not words_of(entry)


def folder_of(entry: Any) -> Path | None:
    """Return the project folder in an entry, or None if it has none or leaves it to the client."""
    words = words_of(entry)
    after = words[words.index("--project-dir") + 1 :] if "--project-dir" in words else []
    return Path(after[0]) if after and not after[0].startswith("$") else None


def is_of(entry: Any, scope: Scope, where: Where) -> bool:
    """Return whether an entry starts the server of this project: the project it names, or the one that contains it."""
    if not is_ktx(entry):
        return False
    folder = folder_of(entry)
    if folder is None:
        return scope is Scope.PROJECT and where.install_dir is None
    return folder == where.project or folder.resolve() == where.project.resolve()


@dataclass(slots=True)
class Configuration:
    """A configuration file in its future state. `shown`: the path in the manifest. `text`: None if there is no file."""

    path: Path
    shown: str
    target: Target
    scope: Scope
    container: tuple[str, ...]
    text: str | None

    @property
    def client(self) -> Client:
        """The client to which the file belongs."""
        return CLIENTS[self.target]

    @property
    def editor(self) -> Editor:
        """The editor for the file's format."""
        return toml_edit if self.client.toml else json_edit

    @property
    def entries(self) -> dict[str, Any]:
        """The servers in the file; raises `ConfigError` if it cannot be read."""
        return self.editor.entries(self.text or "", self.container, str(self.path))

    def put(self, name: str, value: dict[str, Any]) -> Entry:
        """Add an entry, and return the data needed to remove it again."""
        before = self.text
        edited = self.editor.add(before or "", self.container, name, value, str(self.path))
        self.text = edited.text
        made = {"there": edited.there, "created": before is None, "placed": list(edited.insertions)}
        digests = {"before": None if before is None else digest(before), "after": digest(edited.text)}
        return self.found(name, value).model_copy(update=made | digests)

    def found(self, name: str, value: dict[str, Any]) -> Entry:
        """Return the record of an existing entry, such as a colleague's in a shared file."""
        keys = list(self.container)
        return Entry(path=self.shown, container=keys, name=name, value=value, there=len(keys), created=False)

    def take(self, entry: Entry) -> None:
        """Remove an entry: restore the file if nothing else has changed since, else remove only the entry."""
        if self.text is None:
            return
        if digest(self.text) == entry.after:
            text = taken_back(self.text, entry.placed)
            if text is not None and (entry.before is None or digest(text) == entry.before):
                self.text = None if entry.created and not self.path.is_symlink() and not text else text
                return
        text = self.editor.remove(self.text, tuple(entry.container), entry.name, entry.there, str(self.path))
        self.text = None if entry.created and not self.path.is_symlink() and self.editor.is_blank(text) else text

    def peers(self, where: Where) -> Iterator[tuple[Install, list[str]]]:
        """Yield what other projects have installed into the same file, with the folders they created.

        All paths are absolute.
        """
        for value in self.entries.values():
            if not is_ktx(value) or is_of(value, self.scope, where):
                continue
            folder = folder_of(value) or (where.root if self.scope is Scope.PROJECT else None)
            manifest = None if folder is None else _manifest_of(folder)
            if folder is None or manifest is None:
                continue
            install_dir = None if self.scope is Scope.USER or folder == where.root else where.root
            install = manifest.of(self.target, self.scope, install_dir)
            if install is not None and install.entry is not None and folder / install.entry.path == self.path:
                skills = {str(folder / path): sha for path, sha in install.skills.items()}
                yield install.model_copy(update={"skills": skills}), [str(folder / each) for each in manifest.folders]


def _manifest_of(project: Path) -> Manifest | None:
    """Return what another project has installed, or None if that is unknown; its files are then not touched."""
    try:
        return load_manifest(Layout(project))
    except KtxError:
        return None


def read_configuration(
    target: Target, scope: Scope, where: Where, staging: Staging, recorded: Entry | None = None
) -> Configuration | None:
    """Return a client's configuration, None if it has no such file; raises `ConfigError` if the file is not UTF-8.

    `recorded`: the file with this entry, among those that the client reads.
    """
    place = CLIENTS[target].places[scope]
    candidates = {written(path, where.project): path for path in where.configs(place)}
    path = where.config(place) if recorded is None else candidates.get(recorded.path)
    if path is None:
        return None
    content = staging.read(path)
    text = None if content is None else _decoded(path, content)
    found = Configuration(path, written(path, where.project), target, scope, place.container, text)
    if recorded is not None:
        found.container = tuple(recorded.container)
        return found
    inner = found.entries.get("servers") if target is Target.OPENCODE else None
    if isinstance(inner, dict) and "type" not in inner and all(isinstance(each, dict) for each in inner.values()):
        found.container = (*place.container, "servers")  # as version 2 of opencode writes them
    return found


def _decoded(path: Path, content: bytes) -> str:
    try:
        return content.decode()
    except UnicodeDecodeError as error:
        hint = f"save {path} as UTF-8, then run the command again; nothing was written"
        raise ConfigError(f"{path} is not UTF-8 text", hint=hint, details={"path": str(path)}) from error
