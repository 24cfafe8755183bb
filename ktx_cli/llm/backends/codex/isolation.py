"""Checks that a Codex process is isolated: what it loaded, what it adds to a request, and what it does.

A process reports its features, the layers of its settings, its hooks, skills, MCP servers and instruction files; none
may be other than ktx's. During a call it reports every item that it adds to a request, and every action. Anything that
is neither the conversation nor a call of one of ktx's tools ends the call with an `isolation` error.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Command, listing
from ktx_cli.llm.backends.codex.binary import NAME
from ktx_cli.llm.backends.codex.home import PROVIDER
from ktx_cli.llm.backends.codex.server import AppServer, Message, RequestFailed
from ktx_cli.llm.errors import LlmError, llm_error

log = logging.getLogger(__name__)

WITHOUT_SHELL: Final = "unified_exec"
"""A feature that cannot be switched off; it runs commands only if the shell tool, which is off, is on."""

ROUTES: Final = ("apiKey", "chatgpt")
"""The kinds of logins that lead to OpenAI; others would send prompts to another company's service."""

CONVERSATION: Final = ("userMessage", "agentMessage", "reasoning", "dynamicToolCall")
"""The items of a conversation that consists of ktx's prompts, the model's answers and calls of ktx's tools."""

SPOKEN: Final = ("message", "reasoning", "function_call", "function_call_output")
"""The items of a request to the model that such a conversation consists of."""

FOREIGN: Final = (
    "hook/", "mcpServer/", "command/", "process/", "skills/", "thread/environment/", "thread/compacted",
    "item/commandExecution/", "item/fileChange/", "item/mcpToolCall/", "item/autoApprovalReview/", "thread/realtime/",
)  # fmt: skip
"""The beginnings of notifications about something that ktx switched off."""

MACHINE_FILES: Final = tuple(
    Path("/etc/codex") / name for name in ("config.toml", "managed_config.toml", "requirements.toml")
)
"""The files that apply to every user of a machine."""

_UPDATE: Final = Command("install", "-g", "@openai/codex", program="npm")
_OTHER: Final = Command("setup", "--llm-backend", "anthropic")


def isolation_error(message: str, *, origin: object = None) -> LlmError:
    """Return the error for a process that is not isolated as required; `origin`: what it loaded or did."""
    facts: dict[str, Any] = {} if origin is None else {"origin": origin}
    return llm_error("isolation", backend=NAME, message=message, hint=_OTHER, **facts)


def machine_settings() -> list[Path]:
    """Return the files with settings for every user of this machine that exist; a process with one is refused."""
    return [path for path in MACHINE_FILES if path.exists()]


async def check_process(server: AppServer, folder: Path) -> dict[str, Any]:
    """Check what a process loaded, before the first prompt, and return it; `folder`: its private home.

    Raises `LlmError` (`isolation`) for anything that is not ktx's, and for a process that does not report it.
    """
    try:
        features = (await server.request("experimentalFeature/list", {"limit": 1000})).get("data")
        layers = (await server.request("config/read", {"includeLayers": True})).get("layers")
        policy = await server.request("configRequirements/read", {})
        hooks = (await server.request("hooks/list", {})).get("data")
        skills = (await server.request("skills/list", {})).get("data")
        servers = (await server.request("mcpServerStatus/list", {})).get("data")
    except RequestFailed as error:
        message = "this version of Codex does not report what it loaded, so ktx cannot check its isolation"
        raise llm_error("isolation", backend=NAME, message=message, hint=_UPDATE, detail=str(error)) from error
    reports = (features, layers, hooks, skills, servers)
    if not all(isinstance(one, list) for one in reports) or "requirements" not in policy:
        raise isolation_error("Codex did not report what it loaded")
    check_features(features or [])
    check_layers(layers or [], folder)
    if policy["requirements"] is not None:
        names = sorted(name for name, value in policy["requirements"].items() if value is not None)
        raise isolation_error(f"your organization's policy applies inside Codex ({listing(names)})", origin=names)
    loaded = {
        "hooks": [
            str(hook.get("command") or hook.get("key") or "hook") for one in hooks or [] for hook in one["hooks"]
        ],
        "skills": [str(skill.get("name")) for one in skills or [] for skill in one["skills"]],
        "MCP servers": [str(one.get("name")) for one in servers or []],
    }
    for kind, names in loaded.items():
        if names:
            raise isolation_error(f"Codex loaded {kind} that are not ktx's: {listing(sorted(names))}", origin=names)
    return {"mcp_servers": [], "plugins": [], "foreign_hooks": []}


def check_features(features: Iterable[Message]) -> None:
    """Raise `LlmError` if a feature is on. Those of the stage `removed` stay on and do nothing."""
    on = [str(one.get("name")) for one in features if one.get("enabled") and one.get("stage") != "removed"]
    unknown = sorted(name for name in on if name != WITHOUT_SHELL)
    if unknown:
        message = f"features of Codex cannot be switched off: {listing(unknown)}"
        raise llm_error("isolation", backend=NAME, message=message, hint=_UPDATE, origin=unknown)


def check_layers(layers: Iterable[Message], folder: Path) -> None:
    """Raise `LlmError` if any settings apply other than those in ktx's own file."""
    own = os.path.realpath(folder / "config.toml")
    for layer in layers:
        name = layer.get("name") or {}
        if not layer.get("config") or (name.get("type") == "user" and os.path.realpath(str(name.get("file"))) == own):
            continue
        place = str(name.get("file") or name.get("domain") or name.get("type"))
        message = f"settings other than ktx's apply inside Codex: {place}"
        raise isolation_error(message, origin=place)


def check_account(answer: Message) -> str:
    """Return a short description of the account in an answer to `account/read`; raises `LlmError` for a wrong one."""
    account = answer.get("account")
    if not isinstance(account, Mapping):
        raise llm_error("auth", backend=NAME)
    kind = account.get("type")
    if kind not in ROUTES:
        raise isolation_error(f"Codex would send prompts through {kind}, not through its own login", origin=kind)
    plan = account.get("planType")
    return f"local Codex session ({'API key' if kind == 'apiKey' else 'ChatGPT'}{f', {plan}' if plan else ''})"


def check_thread(started: Message) -> None:
    """Raise `LlmError` unless a conversation has no instructions, folders or environment but ktx's."""
    sources = started.get("instructionSources")
    if sources != []:
        names = [str(one) for one in sources or ["unknown"]]
        raise isolation_error(f"Codex loaded instructions that are not ktx's: {listing(names)}", origin=names)
    thread = started.get("thread") or {}
    if thread.get("environments") != [] or not thread.get("ephemeral"):
        raise isolation_error("Codex gave the model access to this machine's files, or keeps the conversation")
    if started.get("modelProvider") != PROVIDER or started.get("approvalPolicy") != "never":
        raise isolation_error("Codex did not apply ktx's settings")


def check_notification(message: Message, texts: Iterable[str]) -> None:
    """Raise `LlmError` for a message about anything but the conversation; `texts`: ktx's own prompts in it."""
    method, params = str(message.get("method")), message.get("params") or {}
    if method.startswith(FOREIGN):
        raise isolation_error(f"Codex did something that ktx switched off: {method}", origin=method)
    if "id" in message and method != "item/tool/call":
        raise isolation_error(f"Codex asked for something that ktx does not allow: {method}", origin=method)
    item = params.get("item")
    if not isinstance(item, Mapping):
        return
    kind = item.get("type")
    if method in ("item/started", "item/completed") and kind not in CONVERSATION:
        raise isolation_error(f"Codex did something that ktx switched off: {kind}", origin=kind)
    if method == "rawResponseItem/completed":
        if kind not in SPOKEN:
            raise isolation_error(f"the model used something that ktx switched off: {kind}", origin=kind)
        if kind == "message" and item.get("role") != "assistant":
            _check_added(item, texts)


def _check_added(item: Message, texts: Iterable[str]) -> None:
    """Raise `LlmError` if Codex added a text to the request that is not ktx's."""
    added = "".join(str(part.get("text", "")) for part in item.get("content") or ())
    if added not in texts:
        log.debug("Codex added to the request: %s", added)
        message = f"Codex added a text of its own to the request, as a message of the role {item.get('role')}"
        raise isolation_error(message, origin=added[:80])
