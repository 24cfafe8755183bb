"""A Codex session without a network: the real binary with a scripted model, and a home folder with a made-up login.

The binary is made to talk to `chatgpt.com`, `api.openai.com` and `auth.openai.com`, as `ktx_cli.testing.claude_session`
does it for Claude Code: only proxy and certificate variables are set, so production code runs unchanged. The binary is
the one in `KTX_CODEX_CLI_BIN`, the one that `make codex` installs next to Python, or the one on PATH.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from ktx_cli.testing.claude_session import OfflineSession, tls_proxy
from ktx_cli.testing.model_server import ModelServer

HOSTS: Final = ("chatgpt.com", "api.openai.com", "auth.openai.com")
ACCOUNT: Final = "account-made-up"
REFRESH_TOKEN: Final = "rt_made_up"
NEW_REFRESH_TOKEN: Final = "rt_made_up_next"
BINARY: Final = "KTX_CODEX_CLI_BIN"
PINNED: Final = "0.169.0"
"""The version that `make codex` installs, for which the results of tests are recorded."""

NOT_INSTALLED: Final = "Codex is not installed: run `make codex`"
"""Why a test of the real binary is skipped."""

ANSWERS: Final[Mapping[str, Any]] = {
    "/backend-api/wham/accounts/check": {
        "accounts": [
            {
                "id": ACCOUNT, "account_id": ACCOUNT, "name": "Ana", "can_access_with_session": True,
                "sso_connection_name": None, "is_deactivated": False, "is_fedramp_compliant_workspace": False,
                "plan_type": "plus", "workspace_backend_origin": "https://chatgpt.com",
                "account_routing_override": "NO_CONSTRAINT", "profile_picture_url": None, "structure": "personal",
            }
        ],
        "default_account_id": ACCOUNT,
        "account_ordering": [ACCOUNT],
    },
    "/backend-api/wham/settings/user": {},
}  # fmt: skip
"""What the service answers to Codex's questions about an account."""


def codex_binary() -> Path | None:
    """Return the binary for tests, None if there is none."""
    named = os.environ.get(BINARY)
    installed = Path(sys.prefix) / "codex" / "node_modules" / ".bin" / "codex"
    found = named or (str(installed) if installed.exists() else shutil.which("codex"))
    return Path(found) if found else None


def token(expires: float) -> str:
    """Return a token that Codex can read; nobody signed it."""
    account = {"chatgpt_plan_type": "plus", "chatgpt_account_id": ACCOUNT, "chatgpt_user_id": "user-made-up"}
    claims = {"email": "ana@example.com", "exp": int(expires), "https://api.openai.com/auth": account}
    return ".".join(_encoded(part) for part in (b'{"alg":"none","typ":"JWT"}', json.dumps(claims).encode(), b"signed"))


def _encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


def chatgpt_login(*, expires_in: float = 86_400.0) -> dict[str, Any]:
    """Return the content of a login file with a ChatGPT account, whose token expires in so many seconds."""
    access = token(time.time() + expires_in)
    return {
        "auth_mode": "chatgpt",
        "OPENAI_API_KEY": None,
        "tokens": {"id_token": access, "access_token": access, "refresh_token": REFRESH_TOKEN, "account_id": ACCOUNT},
        "last_refresh": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def key_login() -> dict[str, Any]:
    """Return the content of a login file with an API key."""
    return {"auth_mode": "apikey", "OPENAI_API_KEY": "sk-made-up"}


@contextlib.contextmanager
def codex_offline(
    server: ModelServer, *, login: Mapping[str, Any] | None = None, extra: Mapping[str, str] | None = None
) -> Iterator[OfflineSession]:
    """Yield an offline session for the server. `login`: a ChatGPT login by default, {} for none."""
    content = chatgpt_login() if login is None else login
    server.answers.update(ANSWERS)
    renewed = token(time.time() + 86_400.0)
    server.answers["/oauth/token"] = {"id_token": renewed, "access_token": renewed, "refresh_token": NEW_REFRESH_TOKEN}
    with tempfile.TemporaryDirectory(prefix="ktx-codex-test-", ignore_cleanup_errors=True) as folder:
        home = Path(folder) / "home"
        (home / ".codex").mkdir(parents=True)
        if content:
            (home / ".codex" / "auth.json").write_text(json.dumps(content), "utf-8")
        session = OfflineSession(server, home, {}, hosts=HOSTS)
        with tls_proxy(session, Path(folder)) as (port, authority):
            session.environ.update(_environment(home, port, authority), **(extra or {}))
            yield session


def _environment(home: Path, port: int, authority: Path) -> dict[str, str]:
    proxy = f"http://127.0.0.1:{port}"
    environ = {
        "HOME": str(home),
        "CODEX_HOME": str(home / ".codex"),
        "PATH": os.environ.get("PATH", os.defpath),
        "LANG": "C.UTF-8",
        "HTTPS_PROXY": proxy,
        "https_proxy": proxy,
        "SSL_CERT_FILE": str(authority),
    }
    binary = codex_binary()
    return environ if binary is None else {**environ, BINARY: str(binary)}
