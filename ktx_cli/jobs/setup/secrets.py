"""Keeping secrets that were given in clear: in `.ktx/secrets`, or in the keyring; `ktx.yaml` gets a reference."""

from __future__ import annotations

import hashlib
import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Command, NotReadyError, StorageError
from ktx_cli.jobs.setup.answers import Keeping
from ktx_cli.project import (
    Block,
    Layout,
    Setting,
    has_password,
    is_literal_secret,
    prepare_private_folder,
    read_bytes,
    remember,
    settings_of,
    storage_error,
    write_atomic,
)

_MOST_NUMBERS: Final = 1000


def keep_secret(layout: Layout, name: str, secret: str, keeping: Keeping) -> str:
    """Keep a secret under a name of its own and return the reference to it; the same secret again, the same reference.

    The end of its last line is no part of it: a key in PEM comes with one.
    Raises `NotReadyError` where there is no keyring, `StorageError` where nothing can be written.
    """
    remember(secret)
    name, secret = _safe(name), secret.rstrip("\r\n")
    if keeping is Keeping.KEYRING:
        return _in_keyring(layout.root, name, secret)
    prepare_private_folder(layout)
    try:
        layout.secrets.mkdir(mode=0o700, exist_ok=True)
    except OSError as error:
        raise storage_error(layout.secrets, error, "create") from error
    path = _free(layout.secrets / name, secret)
    write_atomic(path, secret.encode() + b"\n", mode=0o600)
    return _to_file(layout, path)


def reference_to(layout: Layout, name: str, secret: str, keeping: Keeping) -> str:
    """Return the reference that `keep_secret` would return, and write nothing; a keyring is not asked what is in it."""
    remember(secret)
    name = _safe(name)
    if keeping is Keeping.KEYRING:
        return f"keyring:{_service(layout.root)}/{name}"
    return _to_file(layout, _free(layout.secrets / name, secret.rstrip("\r\n")))


def _to_file(layout: Layout, path: Path) -> str:
    return f"file:{path.relative_to(layout.root).as_posix()}"


def _service(root: Path) -> str:
    return f"ktx-{hashlib.sha256(os.fsencode(root)).hexdigest()[:12]}"


def _safe(name: str) -> str:
    """Return a name of one file: a key that nobody knows may hold anything."""
    return re.sub(r"[^A-Za-z0-9_-]+", "-", name)[:100]


def _free(path: Path, secret: str) -> Path:
    """Return the path, or one beside it where another secret is kept there already: nothing is lost.

    A link is left alone: one that came with a repository is tracked, and what took its place would be committed.
    """
    for name in _names(path.name):
        candidate = path.with_name(name)
        if candidate.is_symlink():
            continue
        kept = read_bytes(candidate)
        if kept is None or kept.rstrip(b"\r\n") == secret.encode():
            return candidate
    raise StorageError(f"there are too many secrets named {path}", hint=f"take away those in {path.parent} not in use")


def _names(name: str) -> Iterator[str]:
    """Yield the name, then others beside it."""
    yield name
    yield from (f"{name}-{number}" for number in range(2, _MOST_NUMBERS))


def _in_keyring(root: Path, name: str, secret: str) -> str:
    try:
        import keyring
        import keyring.errors
    except ImportError as error:
        raise NotReadyError(
            "there is no package keyring", hint=Command("install", "ktx-cli[keyring]", program="pip")
        ) from error
    service = _service(root)
    try:
        name = next(each for each in _names(name) if keyring.get_password(service, each) in (None, secret))
        keyring.set_password(service, name, secret)
    except Exception as error:  # a backend raises whatever its system gives it
        raise NotReadyError(
            f"the keyring did not take the secret: {type(error).__name__}",
            hint="leave the keyring out: --keep-secrets file",
        ) from error
    return f"keyring:{service}/{name}"


def usable_keyring() -> bool:
    """Say whether there is a keyring that keeps something; opens no window."""
    try:
        import keyring
        import keyring.backends.fail
    except ImportError:
        return False
    return not isinstance(keyring.get_keyring(), keyring.backends.fail.Keyring)


def literal_places(block: type[Block] | None, fields: Any, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the keys in a connection's fields under which a secret stands in clear; of an unknown key by its name."""
    known, found = {} if block is None else settings_of(block), []
    for key, value in fields.items():
        setting = known.get(key)
        below = None if setting is None else setting.block
        if isinstance(value, dict) and (setting is None or below is not None):
            found += literal_places(below, value, (*above, key))
        elif isinstance(value, str) and _is_literal(setting, key, value):
            found.append((*above, key))
    return found


def _is_literal(setting: Setting | None, key: str, value: str) -> bool:
    return is_literal_secret(setting, key, value) or has_password(value)
