"""The private home folder of a Codex process: the user's login, and the settings with which ktx starts it.

Only `auth.json` of the user's `CODEX_HOME` is carried over. What Codex refreshes there is written back, so that the
user's own Codex stays signed in. Everything else that Codex would load (settings, MCP servers, hooks, rules, skills,
`AGENTS.md`, history) is not in the private folder, and `isolation.py` checks that Codex found none elsewhere.
"""

from __future__ import annotations

import base64
import json
import logging
import os
import time
import tomllib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Command, Hint, KtxError
from ktx_cli.llm.backends.codex.binary import NAME
from ktx_cli.llm.errors import llm_error
from ktx_cli.project import write_atomic

log = logging.getLogger(__name__)

AUTH_FILE: Final = "auth.json"
MODELS_FILE: Final = "models.json"
WORK_FOLDER: Final = "work"
PROVIDER: Final = "ktx"
"""The name of ktx's own entry for OpenAI's service: the built-in one has retries and a second transport."""

REFRESHED: Final = ("tokens", "last_refresh")
"""The entries of a login that Codex renews."""

EXPIRY_SECONDS: Final = 600.0
REFRESH_DAYS: Final = 7.0
"""A login this close to its expiry, or this old, is renewed by one process before others use it."""

KEYRINGS: Final = ("keyring", "auto")


@dataclass(frozen=True, slots=True)
class Login:
    """The content of a login file, at the time when it was read."""

    path: Path
    data: bytes = field(repr=False)
    value: Mapping[str, Any] = field(repr=False)

    @property
    def is_api_key(self) -> bool:
        """Whether the login is an API key, so that an account pays for each token."""
        return not self.value.get("tokens") and bool(self.value.get("OPENAI_API_KEY"))

    def needs_refresh(self) -> bool:
        """Return whether Codex may renew the login before its first request."""
        tokens = self.value.get("tokens")
        if not isinstance(tokens, Mapping):
            return False
        expires = _expiry(str(tokens.get("access_token", "")))
        if expires is not None and expires - time.time() < EXPIRY_SECONDS:
            return True
        try:
            refreshed = datetime.fromisoformat(str(self.value.get("last_refresh")))
        except ValueError:
            return True
        return time.time() - refreshed.timestamp() > REFRESH_DAYS * 86_400


def user_home(environ: Mapping[str, str]) -> Path:
    """Return the folder of the user's own Codex."""
    named = environ.get("CODEX_HOME")
    return Path(named) if named else Path(environ.get("HOME") or Path.home()) / ".codex"


def read_login(environ: Mapping[str, str]) -> Login:
    """Return the user's login; raises `LlmError` (`auth`) if there is none, or it is not in a file."""
    folder = user_home(environ)
    path = folder / AUTH_FILE
    try:
        data = path.read_bytes()
    except FileNotFoundError:
        if _keeps_in_keyring(folder):
            message = "Codex keeps its login in the system's keyring, from which ktx cannot carry it over"
            setting = 'cli_auth_credentials_store = "file"'
            hint = Hint.steps(f"set `{setting}` in {folder / 'config.toml'}", Command("login", program="codex"))
            raise llm_error("auth", backend=NAME, message=message, hint=hint) from None
        raise llm_error("auth", backend=NAME) from None
    except OSError as error:
        message = f"the login of Codex, {path}, cannot be read: {error.strerror or error}"
        raise llm_error("auth", backend=NAME, message=message) from error
    value = _parsed(data)
    if value is None or not (value.get("tokens") or value.get("OPENAI_API_KEY")):
        raise llm_error("auth", backend=NAME)
    return Login(path, data, value)


def prepare_home(
    folder: Path, login: Login, *, model: str, features: Iterable[str], base_url: str | None = None
) -> Path:
    """Fill a private folder and return its empty working folder; only this user can read any file in it.

    `base_url`: an address in place of the service to which the login belongs.
    """
    _write_private(folder / AUTH_FILE, login.data)
    _write_private(folder / MODELS_FILE, json.dumps({"models": [_model_entry(model)]}).encode())
    _write_private(folder / "config.toml", settings(folder, features, base_url).encode())
    work = folder / WORK_FOLDER
    work.mkdir(mode=0o700)
    return work


def write_back(login: Login, folder: Path) -> bool:
    """Write a login that Codex renewed to the user's file, and return whether that was necessary and possible.

    A file that has changed since it was read stays as it is: another process has renewed the login, or the user has
    signed in again. Entries that Codex does not renew are kept.
    """
    try:
        renewed = _parsed((folder / AUTH_FILE).read_bytes())
        if renewed is None or not renewed.get("tokens") or renewed.get("tokens") == login.value.get("tokens"):
            return False
        if login.path.read_bytes() != login.data:
            return False
        merged = dict(login.value)
        merged.update((name, renewed[name]) for name in REFRESHED if name in renewed)
        place = Path(os.path.realpath(login.path))  # the link, if it is one, stays
        write_atomic(place, json.dumps(merged, indent=2).encode())
    except (OSError, KtxError) as error:
        log.warning("the renewed login of Codex could not be written to %s: %s", login.path, error)
        return False
    return True


def settings(folder: Path, features: Iterable[str], base_url: str | None = None) -> str:
    """Return the `config.toml` of a process: one provider, no retries of its own, every feature off."""
    switched_off = "".join(f"{json.dumps(name)} = false\n" for name in features)
    place = f"base_url = {json.dumps(base_url)}\n" if base_url else ""
    models = json.dumps(str(folder / MODELS_FILE))
    return _SETTINGS.format(provider=PROVIDER, models=models, place=place, features=switched_off)


_SETTINGS: Final = """\
model_provider = "{provider}"
model_catalog_json = {models}
approval_policy = "never"
sandbox_mode = "read-only"
web_search = "disabled"
project_doc_max_bytes = 0
check_for_update_on_startup = false
cli_auth_credentials_store = "file"
include_permissions_instructions = false
include_apps_instructions = false
include_environment_context = false
hide_agent_reasoning = true

[model_providers.{provider}]
name = "OpenAI"
wire_api = "responses"
requires_openai_auth = true
supports_websockets = false
request_max_retries = 0
stream_max_retries = 0
{place}
[history]
persistence = "none"

[analytics]
enabled = false

[feedback]
enabled = false

[skills]
include_instructions = false

[skills.bundled]
enabled = false

[agents]
enabled = false

[tools]
experimental_request_user_input = {{ enabled = false }}

[features]
{features}"""


def _model_entry(model: str) -> dict[str, Any]:
    """Return what Codex needs to know of a model: with this entry, none of its tools belongs to the model.

    Codex's own catalog gives each model a shell, patches, sub-agents and instructions. Results are not shortened, and
    a conversation is never summarized.
    """
    levels = [{"effort": effort, "description": ""} for effort in ("low", "medium", "high", "xhigh", "max")]
    return {
        "slug": model, "display_name": model, "description": "", "base_instructions": "", "visibility": "list",
        "supported_in_api": True, "priority": 1, "availability_nux": None, "upgrade": None,
        "default_reasoning_level": "medium", "supported_reasoning_levels": levels, "default_reasoning_summary": "none",
        "support_verbosity": False, "default_verbosity": None, "shell_type": "disabled", "apply_patch_tool_type": None,
        "truncation_policy": {"mode": "bytes", "limit": 100_000_000}, "supports_parallel_tool_calls": True,
        "context_window": None, "experimental_supported_tools": [], "input_modalities": ["text"],
    }  # fmt: skip


def _write_private(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
    with os.fdopen(descriptor, "wb") as stream:
        stream.write(data)


def _parsed(data: bytes) -> dict[str, Any] | None:
    try:
        value = json.loads(data)
    except ValueError:
        return None
    return value if isinstance(value, dict) else None


def _expiry(token: str) -> float | None:
    """Return the Unix time at which a token expires, None if it does not say."""
    try:
        middle = token.split(".")[1]
        claims = json.loads(base64.urlsafe_b64decode(middle + "=" * (-len(middle) % 4)))
        return float(claims["exp"])
    except (IndexError, KeyError, TypeError, ValueError):
        return None


def _keeps_in_keyring(folder: Path) -> bool:
    """Return whether the user's own settings store the login in a keyring."""
    try:
        config = tomllib.loads((folder / "config.toml").read_text("utf-8"))
    except (OSError, ValueError):
        return False
    return config.get("cli_auth_credentials_store") in KEYRINGS
