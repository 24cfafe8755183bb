"""`ktx-claude-launcher`: becomes the real `claude` with exactly the environment ktx built.

The SDK starts what `cli_path` names with its parent's environment plus ours. This program, named there, keeps the
listed variables and a few of the SDK's own, says on stderr which names it dropped, and replaces itself by the binary.
It imports nothing of ktx but the list of denied names, so that it starts in a few milliseconds.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
from collections.abc import Mapping
from typing import Any, Final, NoReturn

from ktx_cli.llm.backends.claude.environment import SWITCHED_OFF, is_denied

REAL_CLI: Final = "KTX_CLAUDE_CLI"
KEYS: Final = "KTX_CLAUDE_ENV_KEYS"
REPORT_PREFIX: Final = "ktx-claude-launcher dropped: "

SDK_OWN: Final = frozenset(
    {
        "CLAUDE_CODE_ENTRYPOINT",
        "CLAUDE_AGENT_SDK_VERSION",
        "CLAUDE_AGENT_SDK_CLIENT_APP",
        "CLAUDE_CODE_SDK_READS_SESSION_STATE",
        "PWD",
        "TRACEPARENT",
        "TRACESTATE",
    }
)
"""What the SDK sets for its child."""

OURS: Final = frozenset(
    {*SWITCHED_OFF, "CLAUDE_CODE_MAX_RETRIES", "CLAUDE_CODE_PROMPT_CACHE_TTL", "DISABLE_PROMPT_CACHING"}
)
"""Names with a denied prefix that ktx itself sets."""


PR_SET_PDEATHSIG: Final = 1
"""From `linux/prctl.h`."""


class LauncherError(Exception):
    """The launcher was not told what to start, or was told to pass on a denied variable."""


def child_environment(environ: Mapping[str, str]) -> tuple[str, dict[str, str], list[str]]:
    """Return the binary, its environment, and the names left out; raises `LauncherError`."""
    try:
        real = environ[REAL_CLI]
        keys = frozenset(_names(json.loads(environ[KEYS])))
    except (KeyError, ValueError) as error:
        raise LauncherError(f"{REAL_CLI} and {KEYS} say what to start; one is missing or broken") from error
    denied = sorted(name for name in keys if name not in OURS and is_denied(name))
    if denied:
        raise LauncherError(f"asked to pass on {', '.join(denied)}")
    wanted = (keys | SDK_OWN) - {REAL_CLI, KEYS}
    kept = {name: value for name, value in environ.items() if name in wanted}
    dropped = sorted(name for name in environ if name not in wanted and name not in (REAL_CLI, KEYS))
    return real, kept, dropped


def _names(value: Any) -> list[str]:
    if not (isinstance(value, list) and all(isinstance(name, str) for name in value)):
        raise ValueError("a list of names is needed")
    return value


def _end_with_parent() -> None:
    """Have the system end this process when ktx is killed, where it can: on Linux. It holds after `execve`."""
    if sys.platform != "linux":
        return
    import ctypes
    import signal

    ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal.SIGTERM))


def main() -> NoReturn:
    """Replace this process by the real binary; exit 127 when that cannot be done."""
    try:
        real, environment, dropped = child_environment(os.environ)
        sys.stderr.write(f"{REPORT_PREFIX}{json.dumps(dropped)}\n")
        sys.stderr.flush()
        if os.name == "nt":
            sys.exit(subprocess.run([real, *sys.argv[1:]], env=environment, check=False).returncode)
        with contextlib.suppress(PermissionError):  # it leads a process group already
            os.setsid()
        _end_with_parent()
        os.execve(real, [real, *sys.argv[1:]], environment)
    except (LauncherError, OSError) as error:
        sys.stderr.write(f"ktx-claude-launcher: {error}\n")
        sys.exit(127)
