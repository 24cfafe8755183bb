"""Runs git, and finds programs on PATH, but never a program that came with the project."""

from __future__ import annotations

import collections
import dataclasses
import errno
import functools
import os
import re
import shutil
import subprocess
import threading
import weakref
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, TYPE_CHECKING, Final

from ktx_cli.core import BusyError, Command, GitError, GitMissingError, Hint, Placeholder, one_line, shell_words
from ktx_cli.project.files import is_full, storage_error
from ktx_cli.project.layout import boundary

if TYPE_CHECKING:
    from ktx_cli.core import KtxError

_PROJECTS: Final[collections.deque[Path]] = collections.deque(maxlen=64)
"""The projects for which this process last looked for a program; files in any of them are ignored for all."""


def is_in_project(program: Path, project_dir: Path) -> bool:
    """Whether a program, or the link that names it, is inside the project or the repository around it."""
    within = boundary(project_dir)
    link = Path(os.path.realpath(program.parent)) / program.name
    return link.is_relative_to(within) or Path(os.path.realpath(program)).is_relative_to(within)


def find_program(
    name: str, *, project_dir: Path | None = None, search_path: str | None = None
) -> tuple[Path | None, Path | None]:
    """Return the program on `search_path` (default: `PATH`), and the first program that was ignored.

    Programs in the project (default: the projects asked for before, else the one around the current folder) are
    ignored: `.`, an empty entry and a folder of the project itself, which `direnv` may add, all lead there.
    """
    if project_dir is not None and project_dir not in _PROJECTS:
        _PROJECTS.append(project_dir)
    projects = list(_PROJECTS) or [Path.cwd()]
    passed = None
    given = os.environ.get("PATH", os.defpath) if search_path is None else search_path
    for entry in given.split(os.pathsep):
        found = shutil.which(name, path=str(Path.cwd() / entry))
        if found is None:
            continue
        if not any(is_in_project(Path(found), project) for project in projects):
            return Path(found), passed
        passed = passed or Path(found)
    return None, passed


MINIMUM: Final = (2, 31)
"""The oldest supported git, which has everything that ktx uses (`rev-parse --path-format`)."""

_INSTALL: Final = "install git 2.31 or newer: `apt install git`, `brew install git`, or https://git-scm.com/downloads"
_SETTINGS: Final = (
    f"core.hooksPath={os.devnull}", "core.fsmonitor=false", "core.quotePath=false", "core.safecrlf=false",
    "core.filesRefLockTimeout=3000", "i18n.commitEncoding=UTF-8", "advice.updateSparsePath=false", "gc.auto=0",
    "maintenance.auto=false", "log.showSignature=false",
)  # fmt: skip
_OPTIONS: Final = ("--no-pager", *(part for setting in _SETTINGS for part in ("-c", setting)))
_TRANSPORTS: Final = {
    "GIT_ALLOW_PROTOCOL": "http:https:ssh", "GIT_ASKPASS": "", "GIT_CONFIG_COUNT": "2",
    "GIT_CONFIG_KEY_0": "credential.helper", "GIT_CONFIG_VALUE_0": "",
    "GIT_CONFIG_KEY_1": "core.sshCommand", "GIT_CONFIG_VALUE_1": "ssh -o BatchMode=yes",
}  # fmt: skip
"""Variables for reading objects that a partial clone lacks, which git then fetches: the repository could otherwise
name the program that fetches them, for a protocol, a helper, ssh or askpass."""

_STRIPPED: Final = frozenset({
    "GIT_ALTERNATE_OBJECT_DIRECTORIES", "GIT_COMMON_DIR", "GIT_CONFIG", "GIT_CONFIG_COUNT", "GIT_CONFIG_PARAMETERS",
    "GIT_DIR", "GIT_GLOB_PATHSPECS", "GIT_ICASE_PATHSPECS", "GIT_INDEX_FILE", "GIT_NAMESPACE",
    "GIT_NOGLOB_PATHSPECS", "GIT_OBJECT_DIRECTORY", "GIT_PREFIX", "GIT_WORK_TREE",
})  # fmt: skip
"""Variables that are never passed on, whatever git counts among its local ones; pathspec variables contradict ktx's."""


_TRACES: Final = ("GIT_TRACE", "GIT_TR2_")
_PERSONAL: Final = frozenset({
    "GIT_ASKPASS", "GIT_AUTHOR_DATE", "GIT_AUTHOR_EMAIL", "GIT_AUTHOR_NAME", "GIT_CEILING_DIRECTORIES",
    "GIT_COMMITTER_DATE", "GIT_COMMITTER_EMAIL", "GIT_COMMITTER_NAME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_SYSTEM", "GIT_EDITOR", "GIT_EXEC_PATH", "GIT_LITERAL_PATHSPECS", "GIT_OPTIONAL_LOCKS", "GIT_PAGER",
    "GIT_SEQUENCE_EDITOR", "GIT_SSH", "GIT_SSH_COMMAND", "GIT_SSL_CAINFO", "GIT_SSL_NO_VERIFY", "GIT_TERMINAL_PROMPT",
})  # fmt: skip
"""Variables that are local to a repository in every git; git itself is asked for other names."""

_KNOWN: Final = _STRIPPED | _PERSONAL
OVERRIDE: Final = "KTX_GIT_BIN"
"""The variable that sets the path of git."""


@dataclass(frozen=True, slots=True)
class GitBinary:
    """A git that is new enough: its path and its version, such as `2.39.5`."""

    path: Path
    version: str

    @property
    def number(self) -> tuple[int, ...]:
        """The version for comparisons: `(2, 39)`."""
        return tuple(int(part) for part in self.version.split(".")[:2])


@dataclass(frozen=True, slots=True)
class GitResult:
    """The result of a git process: exit code (negative: the signal that ended it), stdout, stderr."""

    code: int
    out: bytes
    err: bytes


def find_git(search_path: str | None = None, *, project_dir: Path | None = None) -> GitBinary:
    """Return the git that `KTX_GIT_BIN` names, else the one on `search_path` (default: `PATH`), outside the project.

    Raises `GitMissingError` if there is none, it does not run, or it is older than `MINIMUM`.
    """
    if named := os.environ.get(OVERRIDE):
        return _checked(Path(named).expanduser())
    found, passed = find_program("git", project_dir=project_dir, search_path=search_path)
    if found is None and passed is not None:
        message = (
            f"ktx does not use {passed}, the only git on the PATH: it is inside the project, so it could have come "
            "with it"
        )
        export = Command(Placeholder(f"{OVERRIDE}={shell_words(passed)}"), program="export")
        raise GitMissingError(message, hint=Hint("if it is yours: {}", export))
    if found is None:
        raise GitMissingError("git is not on the PATH", hint=_INSTALL)
    return _checked(found)


@functools.lru_cache(maxsize=8)
def _checked(path: Path) -> GitBinary:
    try:
        output = _asked(path, "version")
    except OSError as error:
        raise GitMissingError(f"{path} does not run: {error.strerror}", hint=_INSTALL) from error
    match = re.search(rb"(\d+)\.(\d+)(?:\.\d+)*", output.stdout)
    if output.returncode or match is None:
        reason = condensed(output.stderr) or "it does not print its version"
        raise GitMissingError(f"{path} cannot be used: {reason}", hint=_INSTALL)
    binary = GitBinary(path, match.group().decode("ascii"))
    if binary.number < MINIMUM:
        wanted = ".".join(map(str, MINIMUM))
        raise GitMissingError(f"{path} is git {binary.version}, but ktx requires {wanted} or newer", hint=_INSTALL)
    return binary


def _asked(path: Path, *arguments: str) -> subprocess.CompletedProcess[bytes]:
    """Ask the program itself, outside any repository and with tracing off, because a trace would write a file."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith(_TRACES)}
    return subprocess.run(
        [path, *arguments], capture_output=True, stdin=subprocess.DEVNULL, check=False, env=environment
    )


@functools.lru_cache(maxsize=8)
def _local_variables(path: Path) -> frozenset[str]:
    output = _asked(path, "rev-parse", "--local-env-vars")
    return _STRIPPED | frozenset(output.stdout.decode("ascii", "replace").split())


class ObjectReader:
    """Answers queries about objects, with one process that starts with the first query and ends with this object.

    Each question resolves names again. Safe to use from several threads.
    """

    def __init__(self) -> None:
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = threading.Lock()

    def ask(self, git: Git, name: str) -> tuple[str, str, bytes] | None:
        """Return the id, type and content of an object, or None if it is missing; `GitError` if it is damaged."""
        if "\n" in name:  # no object name can contain a line break
            return None
        with self._turn:
            for _ in range(2):
                try:
                    return self._asked(git, name)
                except BrokenPipeError:  # the process was killed, or git gave up on a badly damaged object
                    self._end()
                except BaseException:  # the pending answer would be taken for the answer to the next question
                    self._end()
                    raise
        raise unreadable(git, name)

    def _asked(self, git: Git, name: str) -> tuple[str, str, bytes] | None:
        """Return the answer of a running process; `BrokenPipeError` if it has ended."""
        if self._process is None:
            self._process = git.start_reader("cat-file", "--batch")
            weakref.finalize(self, _ended, self._process)
        process = self._process
        assert process.stdin is not None and process.stdout is not None
        process.stdin.write(os.fsencode(name) + b"\n")
        process.stdin.flush()
        line = process.stdout.readline()
        words = line.decode("ascii", "replace").split()
        if line and (len(words) != 3 or not words[2].isdigit()):
            return None
        content = process.stdout.read(int(words[2]) + 1) if line else b""
        if not line or len(content) != int(words[2]) + 1:
            raise BrokenPipeError
        return words[0], words[1], content[:-1]

    def _end(self) -> None:
        if self._process is not None:
            _ended(self._process)
            self._process = None


def _ended(process: subprocess.Popen[bytes]) -> None:
    process.kill()
    process.communicate()


def unreadable(git: Git, name: str) -> GitError:
    """Return the error for an object that is missing or damaged."""
    hint = Command("-C", git.folder, "fsck", program="git")
    return GitError(f"cannot read the object {name} in {git.folder}", hint=hint)


@dataclass(frozen=True, slots=True)
class Git:
    """Runs git in one folder, isolated from the user's settings, variables and hooks.

    `guard`: a file descriptor that writing children inherit, so that its lock outlives a killed ktx for as long as one
    of them runs.
    """

    binary: GitBinary
    folder: Path
    guard: int | None = None
    environ: Mapping[str, str] = field(default_factory=lambda: dict(os.environ), repr=False)
    _reader: ObjectReader = field(default_factory=ObjectReader, repr=False, compare=False)

    def guarded(self, descriptor: int) -> Git:
        """Return the same git whose writing children hold `descriptor` open."""
        return dataclasses.replace(self, guard=descriptor)

    def object(self, name: str) -> tuple[str, str, bytes] | None:
        """Return the id, type and content of what a name (`HEAD^{commit}`, an id) refers to now, or None if nothing.

        Raises `GitError` for objects that cannot be read.
        """
        return self._reader.ask(self, name)

    def read(
        self,
        *arguments: str | bytes,
        stdin: bytes = b"",
        ok: Collection[int] = (0,),
        variables: Mapping[str, str] | None = None,
    ) -> GitResult:
        """Run a read-only command; an exit code not in `ok` raises the error of `failure`."""
        return self._run(arguments, stdin, ok, self.environment() | dict(variables or {}), session=False)

    def write(
        self,
        *arguments: str | bytes,
        stdin: bytes | IO[bytes] = b"",
        ok: Collection[int] = (0,),
        index: Path | None = None,
        variables: Mapping[str, str] | None = None,
    ) -> GitResult:
        """Run a command that changes something, in a separate session that signals to our process group do not reach.

        `index` replaces the repository's own. An interrupted call waits for its child before it raises.
        """
        environment = self.environment() | dict(variables or {})
        if index is not None:
            environment["GIT_INDEX_FILE"] = str(index)
        return self._run(arguments, stdin, ok, environment, session=True)

    def start_reader(self, *arguments: str) -> subprocess.Popen[bytes]:
        """Start a command that answers questions on its stdin until that is closed; its stderr is dropped.

        It has a separate session: a signal to our group must not end it while a run is shutting down in order.
        """
        return subprocess.Popen(
            self._command(arguments),
            cwd=self.folder,
            env=self.environment(),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def environment(self) -> dict[str, str]:
        """Return git's environment."""
        unknown = any(name.startswith("GIT_") and name not in _KNOWN for name in self.environ)
        dropped = _local_variables(self.binary.path) if unknown else _STRIPPED
        kept = {
            name: value
            for name, value in self.environ.items()
            if name not in dropped and not name.startswith((*_TRACES, "GIT_CONFIG_KEY_", "GIT_CONFIG_VALUE_"))
        }
        kept = {**_TRANSPORTS, **kept}  # a variable is the user's own
        kept |= {"LC_ALL": "C", "GIT_TERMINAL_PROMPT": "0", "GIT_OPTIONAL_LOCKS": "0", "GIT_LITERAL_PATHSPECS": "1"}
        return kept

    def _command(self, arguments: Collection[str | bytes]) -> list[str | bytes]:
        return [str(self.binary.path), *_OPTIONS, *arguments]

    def _run(
        self,
        arguments: tuple[str | bytes, ...],
        stdin: bytes | IO[bytes],
        ok: Collection[int],
        environment: Mapping[str, str],
        *,
        session: bool,
    ) -> GitResult:
        question = stdin if isinstance(stdin, bytes) else None
        try:
            process = subprocess.Popen(
                self._command(arguments),
                cwd=self.folder,
                env=environment,
                stdin=subprocess.PIPE if isinstance(stdin, bytes) else stdin,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                start_new_session=session,
                pass_fds=(self.guard,) if session and self.guard is not None else (),
            )
        except OSError as error:
            raise storage_error(Path(error.filename or self.folder), error, "use") from error
        with process:
            try:
                out, err = process.communicate(question)
            except BaseException:
                # A child that writes must not be killed half-way: it would leave git's lock files behind.
                if not session:
                    process.kill()
                process.communicate()
                raise
        if process.returncode not in ok:
            refusal = failure(str(arguments[0]), process.returncode, err, self.folder)
            refusal.details["pid"] = process.pid
            raise refusal
        return GitResult(process.returncode, out, err)


def condensed(stderr: bytes) -> str:
    """Return git's reason as one line: the first `fatal:` line, else `error:`, else anything but hints and warnings."""
    lines = [line.strip() for line in stderr.decode("utf-8", "replace").splitlines() if line.strip()]
    for prefix in ("fatal: ", "error: "):
        for line in lines:
            if line.startswith(prefix):
                return one_line(line.removeprefix(prefix)).rstrip(".")
    plain = [line for line in lines if not line.startswith(("hint:", "warning:"))] or lines
    return one_line(plain[0]).rstrip(".") if plain else ""


_STORAGE: Final = (
    ("No space left on device", errno.ENOSPC),
    ("Disk quota exceeded", errno.EDQUOT),
    ("Read-only file system", errno.EROFS),
    ("Permission denied", errno.EACCES),
    ("insufficient permission", errno.EACCES),
)
_LOCKED: Final = re.compile(r"Unable to create '(.+?\.lock)': File exists")
_UNWRITTEN: Final = re.compile(r"unable to (write|create)|failed to write|write error|cannot store|cannot write")


def failure(command: str, code: int, stderr: bytes, folder: Path) -> KtxError:
    """Return the error for a failed git command.

    A held lock is a `BusyError`, a full or write-protected disk a `StorageError`, everything else a `GitError`.
    """
    text = stderr.decode("utf-8", "replace")
    details = {"command": command, "exit": code, "reason": condensed(stderr)}
    if locked := _LOCKED.search(text):
        return lock_error(Path(locked.group(1)), details)
    if number := _storage_errno(text, folder):
        return storage_error(_path_in(text) or folder, OSError(number, os.strerror(number)))
    if "dubious ownership" in text or "unsafe repository" in text:
        quoted = re.search(r"safe\.directory (.+)", text)
        where = quoted.group(1).strip() if quoted else shell_words(folder)
        message = f"git refuses the repository around {folder} because it belongs to another user"
        hint = Command("config", "--global", "--add", "safe.directory", Placeholder(where), program="git")
        return GitError(message, hint=hint, details=details)
    reason = details["reason"] or (f"ended by signal {-code}" if code < 0 else f"exit code {code}")
    return GitError(f"git {command} failed in {folder}: {reason}", details=details)


def lock_error(lock: Path, details: Mapping[str, object] | None = None) -> BusyError:
    """Return the error for a lock file of another git process."""
    message = f"another git command is running: {lock} exists"
    hint = Hint("wait until it has finished; if no git command is running: {}", Command(lock, program="rm"))
    return BusyError(message, hint=hint, details={**(details or {}), "lock": str(lock)})


def _storage_errno(text: str, folder: Path) -> int | None:
    for sign, number in _STORAGE:
        if sign in text:
            return number
    # git often only prints "unable to write new index file"; a full disk is easy to check for
    return errno.ENOSPC if _UNWRITTEN.search(text) and is_full(folder) else None


def _path_in(text: str) -> Path | None:
    quoted = re.search(r"'(/[^'\n]+)'", text) or re.search(r"(?:^|\s)(/[^\s:]+)", text)
    return Path(quoted.group(1)) if quoted else None
