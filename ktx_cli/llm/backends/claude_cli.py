"""The backend `claude-cli`: each turn is one `claude --print`; ktx provides the loop, the tools and
the text protocol.
"""

from __future__ import annotations

import asyncio
import json
import logging
import math
import re
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, ResultWarning
from ktx_cli.llm.agent_loop import ModelTurn, ToolCall, run_own_loop
from ktx_cli.llm.backends.claude.binary import (
    ClaudeBinary,
    CliAnswer,
    Host,
    child_environment,
    claude_host,
    private_folder,
    run,
)
from ktx_cli.llm.backends.claude.session import (
    allowing_policy,
    check_managed,
    check_sources,
    forbids_own_servers,
    managed_servers_error,
    once,
    session_account,
    settings_in_force,
)
from ktx_cli.llm.backends.claude_code.backend import REFUSED_SCHEMA, refused_schema, too_deep
from ktx_cli.llm.backends.claude_code.isolation import (
    LOCKDOWN_SETTINGS,
    OBJECT_TURNS,
    STRUCTURED_OUTPUT,
    argument,
    binary_schema,
    check_init,
    check_result_route,
    init_facts,
    needs_file,
)
from ktx_cli.llm.backends.claude_code.reader import Ending, ending_error, stop_reason, usage_of
from ktx_cli.llm.errors import CallNames, LlmError, llm_error
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.llm.types import Cost, Usage
from ktx_cli.project import EffortLevel

if TYPE_CHECKING:
    from ktx_cli.llm.agent_loop import (
        Backend,
        CallRecord,
        CallSpec,
        Conversation,
        Entry,
        Outcome,
        Repair,
        Retried,
        Shared,
    )

OPEN: Final = "<use_tools>"
CLOSE: Final = "</use_tools>"
ID_PREFIX: Final = "toolu_claude_cli_"

_START: Final = re.compile(re.escape(OPEN) + r"\s*(?:```\w*\s*)?(?=\[)")
_END: Final = re.compile(r"\s*(?:```)?\s*" + re.escape(CLOSE))
_DECODER: Final = json.JSONDecoder(strict=False)
"""Accepts line breaks inside strings, because models write statements on several lines."""

_RULES: Final = """\
You have tools. You call them by writing, as a part of your answer, exactly one block of this form:

<use_tools>
[{"name": "TOOL", "input": {"ARGUMENT": "VALUE"}}]
</use_tools>

The block holds a JSON array with one entry for each call; write all calls that do not depend on one another into the
same array. Their results come with the next message. Give no ids. An answer without such a block is your final answer.
There are no other tools than these:
"""


@dataclass(frozen=True, slots=True)
class ParsedAnswer:
    """A parsed answer: prose before and after the block, its calls, and whether calls were lost."""

    text: str
    calls: tuple[ToolCall, ...]
    lost: bool = False


def system_prompt(system: str, tools: Mapping[str, RuntimeTool]) -> str:
    """Return the system prompt, with the rules of the protocol if there are tools."""
    if not tools:
        return system
    described = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.input_schema()}
        for tool in tools.values()
    ]
    rules = _RULES + json.dumps(described, sort_keys=True, ensure_ascii=False)
    return f"{system}\n\n{rules}" if system else rules


def schema_rules(schema: str) -> str:
    """Return the system prompt's text about a schema that is too long for the command line."""
    return f"Answer with one JSON object and nothing else. It fits this JSON Schema:\n{schema}"


def render(history: Sequence[Entry]) -> str:
    """Return a conversation as one text; it begins with `User:`, so that nothing in it can be read as a command."""
    return "\n\n".join(_render(entry) for entry in history)


def _render(entry: Entry) -> str:
    if entry.kind == "turn" and entry.turn is not None:
        calls = [f"[tool_use {call.name}({_json(call.arguments)})]" for call in entry.turn.calls]
        return "\n".join(["Assistant: " + entry.turn.text, *calls])
    if entry.kind == "results":
        parts = [
            f"[tool_result {one.name}{' failed' if one.is_error else ''}]\n{one.text}\n[/tool_result]"
            for one in entry.results
        ]
        return "\n".join(["User: The results of your calls, in order:", *parts])
    return f"User: {entry.text}"


def _json(arguments: Mapping[str, Any] | str) -> str:
    return arguments if isinstance(arguments, str) else json.dumps(dict(arguments), ensure_ascii=False)


def parse(answer: str) -> ParsedAnswer:
    """Parse an answer.

    The block is the first opening tag followed by a JSON array and a closing tag: prose may mention the tags, and a
    string inside the JSON may contain them. Tags without such a content leave the answer as text; `lost` then says that
    the model probably meant to call something.
    """
    for opened in _START.finditer(answer):
        found = _array(answer, opened.end())
        if found is None:
            continue
        entries, end = found
        calls = tuple(call for entry in entries if (call := _call(entry)) is not None)
        before, after = answer[: opened.start()].strip(), answer[end:].strip()
        text = "\n\n".join(part for part in (before, after) if part)
        return ParsedAnswer(text, calls, lost=len(calls) < len(entries) or _has_tags(after if calls else text))
    return ParsedAnswer(answer, (), lost=_has_tags(answer))


def _array(answer: str, start: int) -> tuple[list[Any], int] | None:
    """Return the array that begins at `start` and the end of its closing tag, None if there is no such array."""
    try:
        value, end = _DECODER.raw_decode(answer, start)
    except (ValueError, RecursionError):
        return None
    closed = _END.match(answer, end)
    return (value, closed.end()) if isinstance(value, list) and closed else None


def _has_tags(text: str) -> bool:
    """Return whether a closing tag follows an opening one."""
    start = text.find(OPEN)
    return start >= 0 and text.find(CLOSE, start) >= 0


def _call(entry: Any) -> ToolCall | None:
    """Return a call with a new id, because the ids that a model writes repeat from turn to turn."""
    if not isinstance(entry, dict) or not isinstance(entry.get("name"), str):
        return None
    if "input" in entry:
        arguments = entry["input"]
    else:
        arguments = {key: value for key, value in entry.items() if not _is_reserved(key, value)}
    if arguments is not None and not isinstance(arguments, dict | str):
        arguments = json.dumps(arguments)
    return ToolCall(f"{ID_PREFIX}{uuid.uuid4().hex}", entry["name"], {} if arguments is None else arguments)


def _is_reserved(key: str, value: Any) -> bool:
    return (
        key == "name"
        or (key == "type" and value == "tool_use")
        or (key == "id" and isinstance(value, str) and value.startswith("toolu_"))
    )


NAME: Final = "claude-cli"
EXCERPT: Final = 500
"""Maximum number of characters of a process's output in an error's `detail`."""

RAW_MARK: Final = "--- raw ---"
"""Marks the beginning of the program's own text in a `detail`; that text is never searched for error signs."""


def read_envelope(answer: CliAnswer, *, model: str, role: str) -> Mapping[str, Any]:
    """Return a process's result envelope, even for a failed call; raises `LlmError` if there is none.

    In the array that `--verbose` prints, it is the last frame, with the text of the whole answer, and `init` the first.
    """
    try:
        envelope = _parse(answer.out)
    except RecursionError as error:
        raise too_deep(backend=NAME, model=model, role=role) from error
    if envelope is None and forbids_own_servers(answer.err):
        raise managed_servers_error(NAME)
    if envelope is None and REFUSED_SCHEMA in answer.err:
        raise refused_schema(backend=NAME, model=model, role=role, detail=answer.err.strip()[:EXCERPT])
    if answer.code != 0 and (envelope is None or not envelope.get("is_error")):
        raise _broken(f"`claude` ended with exit code {answer.code}", answer.err or answer.out, model, role)
    if envelope is None:
        raise _broken("`claude` did not answer in JSON", answer.out or answer.err, model, role)
    return envelope


def check_ending(envelope: Mapping[str, Any], *, model: str, role: str) -> None:
    """Raise `LlmError` unless the call ended naturally: an API failure has `success` together with `is_error`."""
    ending = _ending(envelope)
    if stop_reason(ending) != "natural":
        raise ending_error(ending, backend=NAME, model=model, role=role)


def _parse(text: str) -> dict[str, Any] | None:
    try:
        value = json.loads(text)
    except ValueError:
        return None
    if isinstance(value, list):
        frames = [one for one in value if isinstance(one, dict)]
        results = [one for one in frames if one.get("type") == "result"]
        started = [one for one in frames if one.get("subtype") == "init"]
        facts = {"init": started[0] if started else {}, "result": _last_text(frames, results[-1])} if results else {}
        value = {**results[-1], **facts} if results else None
    return value if isinstance(value, dict) else None


def _last_text(frames: list[dict[str, Any]], result: dict[str, Any]) -> Any:
    """Return the text of the whole answer: a result contains only the last block; earlier blocks are in messages.

    An answer that the provider stopped as a refusal, which the binary then requests again, is not part of it.
    """
    texts: list[tuple[Any, str]] = []
    for frame in frames if not result.get("is_error") else ():
        message = frame.get("message")
        content = message.get("content") if isinstance(message, dict) else None
        blocks = [block for block in content if isinstance(block, dict)] if isinstance(content, list) else []
        if frame.get("type") == "assistant" and isinstance(message, dict):
            texts += [(message.get("id"), str(block.get("text"))) for block in blocks if block.get("type") == "text"]
        elif frame.get("type") == "user":
            answered = any(block.get("type") == "tool_result" for block in blocks)
            refused = frame.get("refused_message_id")
            texts = [] if answered else [one for one in texts if one[0] != refused]
    return "".join(text for _, text in texts) or result.get("result")


def _ending(envelope: Mapping[str, Any]) -> Ending:
    status = envelope.get("api_error_status")
    return Ending(
        str(envelope.get("subtype", "success")),
        bool(envelope.get("is_error")),
        envelope.get("terminal_reason"),
        envelope.get("stop_reason"),
        status if isinstance(status, int) else None,
        _word(envelope),
        str(envelope.get("result") or ""),
    )


def _word(envelope: Mapping[str, Any]) -> str | None:
    """Return the error word for the binary's own message, because the envelope has no field for it."""
    text = str(envelope.get("result") or "").lower()
    if not envelope.get("is_error"):
        return None
    for sign, word in (
        ("not logged in", "authentication_failed"),
        ("please run /login", "authentication_failed"),
        ("credit balance is too low", "billing_error"),
        ("connection error", "server_error"),
        ("unable to connect", "server_error"),
    ):
        if sign in text:
            return word
    return None


def _broken(message: str, raw: str, model: str, role: str) -> LlmError:
    detail = f"{message}\n{RAW_MARK}\n{raw.strip()[:EXCERPT]}"
    names = CallNames(backend=NAME, model=model, role=role)
    return llm_error("connection", **names, message=message, detail=detail, hint=Command("doctor"))


log = logging.getLogger(__name__)

SETTINGS_KEPT_SECONDS: Final = 300.0
"""How long ktx caches the report of which settings apply."""


class ClaudeCliBackend:
    """Runs turns as processes of the local Claude Code binary."""

    name = NAME

    def __init__(
        self,
        host: Host,
        binary: ClaudeBinary,
        *,
        allow_managed: bool,
        retried: Retried,
        repair: Repair,
        warn: Callable[[ResultWarning], None],
    ) -> None:
        self.binary = binary
        self._host = host
        self._allow_managed = allow_managed
        self._retried = retried
        self._repair = repair
        self._warn = once(warn)
        self._asking = asyncio.Lock()
        self._asked = -math.inf

    async def run(self, spec: CallSpec, record: CallRecord) -> Outcome:
        """Run one call."""
        await self._check_settings()
        repair = self._repair if spec.role != "repair" else None
        return await run_own_loop(self, spec, record, retried=self._retried, repair=repair)

    async def turn(self, spec: CallSpec, conversation: Conversation, record: CallRecord) -> ModelTurn:
        """Ask for the next turn."""
        answer = await self._ask(spec, conversation)
        try:
            envelope = read_envelope(answer, model=spec.model, role=spec.role)
        except LlmError as error:
            if error.code == "execution":  # there was an answer, but its usage is unknown
                record.unit("", Usage(), Cost(), complete=False)
            raise
        turn = _turn(envelope, spec)
        try:
            self._check_managed()
            check_ending(envelope, model=spec.model, role=spec.role)
            self._check_route(envelope, _system_and_schema(spec, conversation)[1], record)
        except LlmError:
            if turn.usage.total:
                record.unit(turn.unit_id, turn.usage, turn.cost)
            raise
        if spec.kind in ("text", "loop"):
            record.text_delta(turn.text)
        return turn

    async def _ask(self, spec: CallSpec, conversation: Conversation) -> CliAnswer:
        """Run the binary once, in a separate folder."""
        system, schema = _system_and_schema(spec, conversation)
        system = argument(system)
        self._check_managed()
        with private_folder() as folder:
            system_file = folder / "system.txt"
            if needs_file(system):
                system_file.touch(0o600)
                system_file.write_text(system, "utf-8", "replace")
            command = command_line(
                self._host,
                model=spec.model,
                system=system,
                system_file=system_file,
                schema=schema,
                max_turns=1 if schema is None else OBJECT_TURNS,
                effort=spec.effort,
            )
            return await run(
                command,
                environment=child_environment(self._host, folder),
                folder=folder,
                prompt=render(conversation.history),
                backend=NAME,
            )

    async def account(self) -> str:
        """Ask the binary who is signed in; it accepts any token, so only the probe's turn is proof."""
        return await session_account(self._host, NAME)

    def versions(self) -> Mapping[str, str]:
        """Return the binary and where it was found."""
        return {"claude": self.binary.version_text, "path": str(self.binary.path), "origin": self.binary.origin}

    async def aclose(self) -> None:
        """Do nothing: every process ended with its turn."""

    def _check_managed(self) -> None:
        check_managed(self._host.environment, backend=NAME, allowed=self._allow_managed, warn=self._warn)

    async def _check_settings(self) -> None:
        """Ask a separate process from time to time which settings apply, because `--print` does not report them."""
        self._check_managed()
        async with self._asking:
            if time.monotonic() - self._asked > SETTINGS_KEPT_SECONDS:
                answer = await settings_in_force(self._host, NAME)
                check_sources(answer, backend=NAME, allowed=self._allow_managed, warn=self._warn)
                self._asked = time.monotonic()

    def _check_route(self, envelope: Mapping[str, Any], schema: str | None, record: CallRecord) -> None:
        """Check and record what the process reported at its start, and check which provider served it."""
        with allowing_policy(self._allow_managed, self._warn):
            if "init" in envelope:
                allowed = frozenset({STRUCTURED_OUTPUT} if schema is not None else ())
                check_init(envelope["init"], allowed, backend=NAME)
                record.isolation.update(init_facts(envelope["init"]))
            check_result_route(envelope.get("modelUsage"), backend=NAME)


def _system_and_schema(spec: CallSpec, conversation: Conversation) -> tuple[str, str | None]:
    """Return the system prompt, and the schema as an argument if it is short enough."""
    system = system_prompt(conversation.system, spec.tools)
    if spec.schema is None:
        return system, None
    schema = json.dumps(binary_schema(spec.schema), sort_keys=True)
    if needs_file(schema):
        return "\n\n".join(part for part in (system, schema_rules(schema)) if part), None
    return system, schema


def _turn(envelope: Mapping[str, Any], spec: CallSpec) -> ModelTurn:
    text = str(envelope.get("result") or "")
    parsed = parse(text) if spec.tools else None
    if parsed is not None and parsed.lost:
        log.warning("an answer from %s mentioned tool calls that could not be parsed", spec.model)
    calls = parsed.calls if parsed else ()
    by_model = envelope.get("modelUsage") or {}
    usage, cost = usage_of(by_model, envelope.get("usage"), envelope.get("total_cost_usd"))
    given = envelope.get("structured_output")
    return ModelTurn(
        parsed.text if parsed else text,
        calls,
        "tools" if calls else "end",
        usage,
        cost,
        str(envelope.get("session_id") or "unknown"),
        next(iter(by_model)) if len(by_model) == 1 else None,
        value=given,
        answers=1 if given is None else max(1, int(envelope.get("num_turns") or 2) - 1),
    )


def command_line(
    host: Host,
    *,
    model: str,
    system: str,
    system_file: Path,
    schema: str | None,
    max_turns: int,
    effort: EffortLevel | None = None,
) -> list[str]:
    """Return the arguments; a system prompt that is too long for an argument is in `system_file`."""
    command = [str(host.binary), "--print", "--output-format", "json", "--verbose", "--model", model]
    command.append("--disable-slash-commands")
    if needs_file(system):
        command += ["--system-prompt-file", str(system_file)]
    else:
        command += ["--system-prompt", system]
    command += ["--tools", "", "--strict-mcp-config", "--setting-sources=", "--no-session-persistence"]
    command += ["--settings", json.dumps(LOCKDOWN_SETTINGS, sort_keys=True), "--max-turns", str(max_turns)]
    if host.restricted:
        command.append("--restricted")
    if schema is not None:
        command += ["--json-schema", schema]
    return command if effort is None else [*command, "--effort", effort]


def make(name: str, shared: Shared) -> Backend:
    """Return the backend of a project."""
    host, binary = claude_host(name, shared.config, project_dir=shared.project_dir, environ=shared.environ)
    return ClaudeCliBackend(
        host,
        binary,
        allow_managed=shared.config.llm.provider.claude.allow_managed_policy,
        retried=shared.retried,
        repair=shared.repair,
        warn=shared.warn,
    )
