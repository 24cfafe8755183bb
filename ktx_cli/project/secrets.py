"""Secret references (`env:`, `file:`, `keyring:`), which only this module resolves, and the redaction of secrets."""

from __future__ import annotations

import functools
import json
import re
import stat
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final
from urllib.parse import quote, quote_plus, unquote

from ktx_cli.core import Command, ResultWarning, SecretError

KINDS: Final = ("env", "file", "keyring")
MAX_FILE_BYTES: Final = 1_000_000
MASK: Final = "***"
SHORTEST_MASKED: Final = 6
"""Minimum length of a secret to be masked in `--debug` output; shorter secrets occur in many words."""

_KNOWN: Final[set[str]] = set()
"""The secrets that this process has resolved."""

_VARIABLE = re.compile(r"\$(?:\{(?P<braced>[A-Za-z_][A-Za-z0-9_]*)\}|(?P<bare>[A-Za-z_][A-Za-z0-9_]*))")
_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_BRACED = re.compile(r"\$\{(?P<name>[A-Za-z_][A-Za-z0-9_]*)\}")
_SECRET_PARAMETER = re.compile(
    r"(?P<key>(?:^|[?&;\s])(?:ssl|api|access|auth|client|private)?[_-]?(?:password|passwd|pwd|passphrase|token|secret|key)=)"
    r"(?P<value>[^&#;\s]+)",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class SecretRef:
    """A reference to a secret. `kind` is `env`, `file` or `keyring`; `name` is what it refers to,
    stripped of blanks.
    """

    kind: str
    name: str

    @classmethod
    def parse(cls, text: str) -> SecretRef | None:
        """Return the reference in `text`, or None for a literal value."""
        kind, colon, name = text.strip().partition(":")
        return cls(kind, name.strip()) if colon and kind in KINDS else None

    def __str__(self) -> str:
        return f"{self.kind}:{self.name}"


def is_reference(value: object) -> bool:
    """Return whether a value is a secret reference."""
    return isinstance(value, str) and SecretRef.parse(value) is not None


def resolve(value: str, *, project_dir: Path, environ: Mapping[str, str], where: str) -> str:
    """Return the secret behind a reference; a literal is returned unchanged.

    `where` names the setting in errors. Both are remembered for `mask`. Raises `SecretError` if the reference is
    missing, unreadable or empty.
    """
    secret = resolve_plain(value, project_dir=project_dir, environ=environ, where=where)
    remember(secret)
    return secret


def resolve_plain(value: str, *, project_dir: Path, environ: Mapping[str, str], where: str) -> str:
    """Return the value behind a reference in a setting that is not secret; only a password in it is masked."""
    reference = SecretRef.parse(value)
    found = value if reference is None else _referred(reference, project_dir, environ, where)
    if has_password(found):
        remember(found)
    return found


def remember(secret: str) -> None:
    """Remember a secret for `mask`, and the password of a URL."""
    password = _password_span(secret)
    inside = [] if password is None else [secret[password[0] : password[1]]]
    for text in (secret.strip(), *inside, *map(unquote, inside)):
        if len(text) >= SHORTEST_MASKED:
            _KNOWN.add(text)


def mask(text: str) -> str:
    """Return text with every resolved secret masked, including its Python, JSON and URL-encoded forms."""
    found = {form for secret in list(_KNOWN) for form in _written(secret) if form in text}
    return redact(text, found) if found else text


@functools.lru_cache(maxsize=256)
def _written(secret: str) -> frozenset[str]:
    """Return the forms that a secret can take in a text: plain, as Python and JSON write it, and URL-encoded."""
    as_bytes = repr(secret.encode("utf-8", "surrogateescape"))[2:-1]
    forms = (secret, repr(secret)[1:-1], as_bytes, json.dumps(secret)[1:-1])
    return frozenset(encoded for form in forms if form.strip() for encoded in _in_urls(form))


def _referred(reference: SecretRef, project_dir: Path, environ: Mapping[str, str], where: str) -> str:
    if not reference.name:
        raise _error(reference, where, "has no name", f"write `{_EXAMPLES[reference.kind]}`")
    if reference.kind == "env":
        return _from_environment(reference, environ, where)
    if reference.kind == "file":
        return _from_file(reference, project_dir, where)
    return _from_keyring(reference, where)


def check(value: str, *, project_dir: Path, where: str) -> ResultWarning | None:
    """Return a warning if other users can read a reference's file; None for any other value."""
    reference = SecretRef.parse(value)
    if reference is None or reference.kind != "file" or not reference.name:
        return None
    path = secret_path(reference, project_dir)
    try:
        mode = stat.S_IMODE(path.stat().st_mode)
    except OSError:
        return None  # `resolve` reports the error
    if not mode & 0o077:
        return None
    message = f"other users can read {path}, which contains the secret of {where} (mode {mode:04o})"
    return ResultWarning("secret_permissions", message, hint=Command("600", path, program="chmod"))


def secret_path(reference: SecretRef, project_dir: Path) -> Path:
    """Return the file for a `file:` reference: `~` is the home folder, relative paths start at the project.

    In the copy of a project they start at the project itself, which keeps its secrets.
    """
    from ktx_cli.project.layout import origin_of

    origin = origin_of(project_dir)
    try:
        return origin / Path(reference.name).expanduser()
    except RuntimeError:  # no home folder for this user
        return origin / reference.name


def is_variable(name: str) -> bool:
    """Return whether a shell variable can have this name: no other text after `env:` may go into a command."""
    return _NAME.fullmatch(name) is not None


def variable_named(value: str) -> str | None:
    """Return NAME if a value is `$NAME` or `${NAME}`, or contains `${NAME}`: ktx expands none of them."""
    whole = _VARIABLE.fullmatch(value.strip())
    if whole is not None:
        return whole["braced"] or whole["bare"]
    inside = _BRACED.search(value)
    return inside["name"] if inside else None


def redact(text: str, secrets: Iterable[str]) -> str:
    """Return `text` with every occurrence of a secret masked, including its URL-encoded form."""
    spans: list[tuple[int, int]] = []
    for secret in secrets:
        for form in _in_urls(secret) if secret.strip() else ():
            start = text.find(form)
            while start >= 0:
                spans.append((start, start + len(form)))
                start = text.find(form, start + 1)
    pieces, position = [], 0
    for start, end in _merged(spans):
        pieces += [text[position:start], MASK]
        position = end
    return "".join([*pieces, text[position:]])


def _in_urls(secret: str) -> set[str]:
    return {secret, quote(secret, safe=""), quote(secret), quote_plus(secret)}


def redact_url(url: str) -> str:
    """Return a URL with its password masked, both before the host and among the parameters."""
    found = _password_span(url)
    if found is not None:
        url = url[: found[0]] + MASK + url[found[1] :]
    return _SECRET_PARAMETER.sub(lambda match: match["key"] + MASK, url)


def has_password(url: str) -> bool:
    """Return whether a URL contains a password."""
    return redact_url(url) != url


_EXAMPLES: Final = {"env": "env:NAME", "file": "file:PATH", "keyring": "keyring:SERVICE/NAME"}


def _error(reference: SecretRef, where: str, problem: str, hint: str) -> SecretError:
    message = f"the secret reference `{reference}` of {where} {problem}"
    return SecretError(message, hint=hint, details={"reference": str(reference), "setting": where})


def _from_environment(reference: SecretRef, environ: Mapping[str, str], where: str) -> str:
    value = environ.get(reference.name)
    hint = (
        Command(f"{reference.name}=...", program="export")
        if is_variable(reference.name)
        else f"write `{_EXAMPLES['env']}`"
    )
    if value is None:
        raise _error(reference, where, "refers to a variable that is not set", hint)
    if not value.strip():
        raise _error(reference, where, "refers to a variable that is empty", hint)
    return value


def _from_file(reference: SecretRef, project_dir: Path, where: str) -> str:
    path = secret_path(reference, project_dir)
    try:
        if path.exists() and not path.is_file():
            message = f"refers to {path}, which is not a regular file"
            raise _error(reference, where, message, "use a file that contains the secret")
        with path.open("rb") as stream:
            data = stream.read(MAX_FILE_BYTES + 1)
    except FileNotFoundError as error:
        raise _error(
            reference, where, f"refers to {path}, which does not exist", f"write the secret to {path}"
        ) from error
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or str(error)
        message = f"refers to {path}, which cannot be read: {reason}"
        raise _error(reference, where, message, Command("u+r", path, program="chmod")) from error
    if len(data) > MAX_FILE_BYTES:
        raise _error(
            reference, where, f"refers to {path}, which is larger than 1 MB", "use a file that contains only the secret"
        )
    try:
        value = data.decode("utf-8-sig").rstrip("\r\n")
    except UnicodeDecodeError:
        raise _error(reference, where, f"refers to {path}, which is not UTF-8", f"save {path} as UTF-8") from None
    if not value.strip():
        raise _error(reference, where, f"refers to {path}, which is empty", f"write the secret to {path}")
    return value


def _from_keyring(reference: SecretRef, where: str) -> str:
    service, slash, name = reference.name.rpartition("/")
    if not slash or not service or not name:
        raise _error(reference, where, "does not have the form keyring:SERVICE/NAME", "write `keyring:SERVICE/NAME`")
    try:
        import keyring
        import keyring.errors
    except ImportError as error:
        message = "requires the package keyring"
        raise _error(reference, where, message, Command("install", "ktx-cli[keyring]", program="pip")) from error
    try:
        value = keyring.get_password(service, name)
    except keyring.errors.NoKeyringError as error:
        message = "cannot be resolved: this machine has no keyring"
        raise _error(reference, where, message, "use env:NAME or file:PATH") from error
    except Exception as error:  # a backend raises any exception that its system produces
        message = f"cannot be resolved: {type(error).__name__}"
        raise _error(reference, where, message, "unlock the keyring, then try again") from error
    if value is None or not value.strip():
        raise _error(
            reference,
            where,
            "refers to an entry that is not in the keyring",
            Command("set", service, name, program="keyring"),
        )
    return value


def _merged(spans: list[tuple[int, int]]) -> list[tuple[int, int]]:
    merged: list[tuple[int, int]] = []
    for start, end in sorted(spans):
        if merged and start <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(end, merged[-1][1]))
        else:
            merged.append((start, end))
    return merged


def _password_span(url: str) -> tuple[int, int] | None:
    """Return the span of the password in `scheme://user:password@host`.

    A password may contain unencoded `/`, `?`, `#` or `@`; it then ends at the last `@`. Digits up to the next delimiter
    are a port, not a password.
    """
    scheme = re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", url)
    if scheme is None:
        return None
    rest = url[scheme.end() :]
    authority = re.split(r"[/?#]", rest, maxsplit=1)[0]
    at = authority.rfind("@")
    if at < 0:
        if re.fullmatch(r"(?:[^:]*|\[[^]]*\])(?::[0-9]*)?", authority):
            return None
        at = rest.rfind("@")
    colon = rest.find(":")
    if at < 0 or not 0 <= colon < at or colon + 1 == at:
        return None
    return scheme.end() + colon + 1, scheme.end() + at
