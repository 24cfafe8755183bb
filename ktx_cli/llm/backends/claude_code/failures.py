"""What the SDK raises, as errors of ours."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ktx_cli.core.errors import KtxError
from ktx_cli.llm.backends.claude.managed import forbids_own_servers, managed_servers_error
from ktx_cli.llm.errors import llm_error


def translate(error: Exception, *, backend: str, model: str, role: str, stderr: Iterable[str] = ()) -> KtxError:
    """Return the error for what a process or the SDK raised; its words, and the process's on stderr, go into `detail`
    alone."""
    if isinstance(error, KtxError):
        return error
    names: dict[str, Any] = {"backend": backend, "model": model, "role": role}
    words = "; ".join([describe(error), *stderr])
    if forbids_own_servers(words):
        return managed_servers_error(backend)
    if type(error).__name__ == "CLINotFoundError":
        return llm_error("connection", **names, message="the `claude` binary cannot be started", detail=words)
    if "on_failure" in words or "too old" in words:
        message = "this Claude Code is too old to be guarded"
        return llm_error("isolation", **names, message=message, hint="claude update", detail=words)
    return llm_error("connection", **names, message="Claude Code ended unexpectedly", detail=words, hint="ktx doctor")


def describe(error: BaseException) -> str:
    """Return everything an error says, with what caused it."""
    said: list[str] = []
    found: BaseException | None = error
    while found is not None:
        said.append(f"{type(found).__name__}: {found}")
        found = found.__cause__
    return "; ".join(said)
