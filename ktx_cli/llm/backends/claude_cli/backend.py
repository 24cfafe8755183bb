"""The backend `claude-cli`: each turn is one `claude --print`, the loop and the tools are ktx's."""

from __future__ import annotations

import asyncio
import json
import logging
import math
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import ResultWarning
from ktx_cli.llm.agent_loop import CallRecord, CallSpec, Conversation, ModelTurn, Outcome, Repair, Retried, run_own_loop
from ktx_cli.llm.backends.claude.binary import ClaudeBinary, Host
from ktx_cli.llm.backends.claude.processes import CliAnswer, child_environment, private_folder, run
from ktx_cli.llm.backends.claude.session import (
    PolicyError,
    check_managed,
    check_sources,
    once,
    session_account,
    settings_in_force,
)
from ktx_cli.llm.backends.claude_cli.protocol import (
    NAME,
    check_ending,
    parse,
    read_envelope,
    render,
    schema_rules,
    system_prompt,
)
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
from ktx_cli.llm.backends.claude_code.reader import usage_of
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.types import Cost, Usage

log = logging.getLogger(__name__)

SETTINGS_KEPT_SECONDS: Final = 300.0
"""How long the answer to which settings are in force is believed."""


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
        """Carry out one call."""
        await self._check_settings()
        repair = self._repair if spec.role != "repair" else None
        return await run_own_loop(self, spec, record, retried=self._retried, repair=repair)

    async def turn(self, spec: CallSpec, conversation: Conversation, record: CallRecord) -> ModelTurn:
        """Ask for the next turn."""
        answer = await self._ask(spec, conversation)
        try:
            envelope = read_envelope(answer, model=spec.model, role=spec.role)
        except LlmError as error:
            if error.code == "execution":  # there was an answer, and what it took cannot be read
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
        """Run the binary once, in a folder of its own."""
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
            )
            return await run(
                command,
                environment=child_environment(self._host, folder),
                folder=folder,
                prompt=render(conversation.history),
                backend=NAME,
            )

    async def account(self) -> str:
        """Ask the binary who is signed in; it says so for any token, so the probe's turn is the proof."""
        return await session_account(self._host, NAME)

    def versions(self) -> Mapping[str, str]:
        """Return the binary and where it was found."""
        return {"claude": self.binary.version_text, "path": str(self.binary.path), "origin": self.binary.origin}

    async def aclose(self) -> None:
        """Do nothing: every process ended with its turn."""

    def _check_managed(self) -> None:
        check_managed(self._host.environment, backend=NAME, allowed=self._allow_managed, warn=self._warn)

    async def _check_settings(self) -> None:
        """Ask a process of its own which settings are in force, now and then: `--print` does not say it."""
        self._check_managed()
        async with self._asking:
            if time.monotonic() - self._asked > SETTINGS_KEPT_SECONDS:
                answer = await settings_in_force(self._host, NAME)
                check_sources(answer, backend=NAME, allowed=self._allow_managed, warn=self._warn)
                self._asked = time.monotonic()

    def _check_route(self, envelope: Mapping[str, Any], schema: str | None, record: CallRecord) -> None:
        """Check what the process said it was started with, note it, and check who served it."""
        try:
            if "init" in envelope:
                allowed = frozenset({STRUCTURED_OUTPUT} if schema is not None else ())
                check_init(envelope["init"], allowed, backend=NAME)
                record.isolation.update(init_facts(envelope["init"]))
            check_result_route(envelope.get("modelUsage"), backend=NAME)
        except PolicyError as error:
            if not self._allow_managed:
                raise
            self._warn(ResultWarning("managed_policy", error.message, hint=None))


def _system_and_schema(spec: CallSpec, conversation: Conversation) -> tuple[str, str | None]:
    """Return the system prompt, and the schema as an argument where it is short enough for one."""
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
        log.warning("an answer of %s spoke of tool calls that could not be read", spec.model)
    calls = parsed.calls if parsed else ()
    usage, cost = _usage(envelope)
    given = envelope.get("structured_output")
    return ModelTurn(
        parsed.text if parsed else text,
        calls,
        "tools" if calls else "end",
        usage,
        cost,
        str(envelope.get("session_id") or "unknown"),
        _model(envelope),
        value=given,
        answers=1 if given is None else max(1, int(envelope.get("num_turns") or 2) - 1),
    )


def _usage(envelope: Mapping[str, Any]) -> tuple[Usage, Cost]:
    return usage_of(envelope.get("modelUsage"), envelope.get("usage"), envelope.get("total_cost_usd"))


def _model(envelope: Mapping[str, Any]) -> str | None:
    names = list(envelope.get("modelUsage") or {})
    return names[0] if len(names) == 1 else None


def command_line(
    host: Host, *, model: str, system: str, system_file: Path, schema: str | None, max_turns: int
) -> list[str]:
    """Return the arguments; a system prompt that cannot be one of them is in `system_file`."""
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
    return command
