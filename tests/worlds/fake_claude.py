"""A stand-in for the `claude` binary that plays a scenario, for frames the real one is hard to bring to send.

It speaks the control protocol of `--output-format stream-json` and keeps what it was started with. `FakeClaude(folder)`
writes the program; name its `path` in `llm.provider.claude.cli_path` or `KTX_CLAUDE_CLI_BIN`. For everything else the
real binary is the better witness: see `claude_session.py`.

A scenario is a mapping, each key optional:

| key | meaning |
|---|---|
| `version` | what `--version` says |
| `start` | `{"exit": 1, "stderr": "..."}`: end at once |
| `initialize` | what joins the answer to `initialize`; `{"account": {...}}` replaces the account |
| `settings` | what joins the answer to `get_settings`, such as `{"sources": [...]}` |
| `steps` | what follows the prompt, in order; by default `init`, the text `ok`, and a result |
| `exit` | end with this code after the steps; by default, when stdin ends |

A step is one of `{"frame": {...}}` (a frame as it is), `{"init": {...}}` (the first frame, with these keys changed),
`{"text": "..."}`, `{"result": {...}}`, `{"hook": "Bash", "input": {}}` (asks the guard and the permission callback),
`{"call": "look", "input": {}}` (calls a tool of the program that started it), `{"long": 3000000}` (one frame of that
many bytes), `{"raw": "..."}` (a line that is no frame), `{"sleep": 1.5}`, `{"stderr": "..."}`, `{"exit": 3}`,
`{"hang": true}` (until it is interrupted, or stdin ends).
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final

SESSION: Final = "00000000-0000-4000-8000-000000000001"
SCENARIO: Final = "scenario.json"
PREFIX: Final = "mcp__ktx__"

Step = Mapping[str, Any]
OK: Final[Sequence[Step]] = ({"init": {}}, {"text": "ok"}, {"result": {}})


class FakeClaude:
    """The program in a folder. `play` changes its scenario; `runs` is what each of its runs was started with."""

    def __init__(self, folder: Path, **scenario: Any) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.folder = folder
        self.path = folder / "claude"
        lines = (
            f"#!{sys.executable} -IS",
            "import runpy, sys",
            "from pathlib import Path",
            f"main = runpy.run_path({__file__!r})['main']",
            "sys.exit(main(Path(__file__).parent, sys.argv[1:]))",
        )
        self.path.write_text("\n".join(lines) + "\n", "utf-8")
        self.path.chmod(0o700)
        self.play(**scenario)

    def play(self, **scenario: Any) -> None:
        """Change the scenario."""
        (self.folder / SCENARIO).write_text(json.dumps(scenario), "utf-8")

    @property
    def runs(self) -> list[dict[str, Any]]:
        """Every run so far, oldest first: `argv`, `environ`, `cwd`, and `lines`, the frames on its stdin."""
        found = []
        for start in sorted(self.folder.glob("run-*.json"), key=lambda path: path.stat().st_mtime_ns):
            lines = start.with_suffix(".lines").read_text("utf-8").splitlines()
            found.append({**json.loads(start.read_text("utf-8")), "lines": [json.loads(line) for line in lines]})
        return found


def main(folder: Path, arguments: list[str]) -> int:
    """Be the program: play the scenario of a folder; returns the exit code."""
    scenario = json.loads((folder / SCENARIO).read_text("utf-8"))
    if arguments in (["--version"], ["-v"]):
        print(f"{scenario.get('version', '2.1.329')} (Claude Code)")
        return 0
    if arguments == ["--help"]:
        print("  --restricted   only what is named")
        return 0
    return _Player(folder, arguments, scenario).play()


class _Player:
    def __init__(self, folder: Path, arguments: list[str], scenario: Mapping[str, Any]) -> None:
        self.arguments = arguments
        self.scenario = scenario
        self.requests = 0
        self.interrupted = False
        record = folder / f"run-{os.getpid()}.json"
        facts = {"argv": arguments, "environ": dict(os.environ), "cwd": str(Path.cwd())}
        record.write_text(json.dumps(facts), "utf-8")
        self.kept = record.with_suffix(".lines").open("w", encoding="utf-8")

    def play(self) -> int:
        with self.kept:
            try:
                return self._play()
            except _EndedError as end:
                return end.code

    def _play(self) -> int:
        start = self.scenario.get("start")
        if start:
            self._say(start.get("stderr", ""))
            return int(start.get("exit", 1))
        while True:
            line = self._line()
            if line["type"] == "control_request":
                self._answer(line)
            elif line["type"] == "user":
                break
        if "--mcp-config" in self.arguments:
            self._mcp("initialize", {"protocolVersion": "2025-06-18", "capabilities": {}, "clientInfo": _CLIENT})
            self._mcp("notifications/initialized", None)
            self._mcp("tools/list", {})
        for step in self.scenario.get("steps", OK):
            self._step(step)
        if "exit" in self.scenario:
            return int(self.scenario["exit"])
        while True:
            self._answer(self._line())

    def _step(self, step: Step) -> None:
        [kind] = [key for key in step if key != "input"]
        value = step[kind]
        match kind:
            case "frame":
                self._send(value)
            case "init":
                self._send({**self._init(), **value})
            case "text":
                self._send(assistant({"type": "text", "text": value}))
            case "result":
                self._send(result(**value))
            case "hook":
                self._ask_guard(value, step.get("input", {}))
            case "call":
                self._mcp("tools/call", {"name": value, "arguments": step.get("input", {})})
            case "long":
                self._send(assistant({"type": "text", "text": "x" * int(value)}))
            case "raw":
                print(value, flush=True)
            case "sleep":
                time.sleep(value)
            case "stderr":
                self._say(value)
            case "exit":
                raise _EndedError(value)
            case "hang":
                while not self.interrupted:
                    self._answer(self._line())
                self._send(result(subtype="error_during_execution", is_error=True, terminal_reason="aborted_streaming"))
            case _:
                raise ValueError(f"no such step: {kind}")

    def _init(self) -> dict[str, Any]:
        place = self.arguments.index("--allowedTools") if "--allowedTools" in self.arguments else -1
        tools = self.arguments[place + 1].split(",") if place >= 0 else []
        servers = ["ktx"] if "--mcp-config" in self.arguments else []
        return {
            "type": "system",
            "subtype": "init",
            "session_id": SESSION,
            "uuid": "u-init",
            "model": "claude-sonnet-5-5",
            "tools": [*tools, *(["StructuredOutput"] if "--json-schema" in self.arguments else [])],
            "mcp_servers": [{"name": name, "status": "connected", "source": "sdk"} for name in servers],
            "plugins": [],
            "slash_commands": [],
            "skills": [],
            "agents": [],
            "apiKeySource": "none",
            "served_by_anthropic": True,
        }

    def _answer(self, line: Mapping[str, Any]) -> None:
        if line["type"] != "control_request":
            return
        request = line["request"]
        answer: dict[str, Any] = {}
        if request["subtype"] == "initialize":
            account = {"subscriptionType": "max", "apiProvider": "firstParty"}
            answer = {"account": account, "hook_on_failure_supported": True, **self.scenario.get("initialize", {})}
            self.hooks = request.get("hooks") or {}
        if request["subtype"] == "get_settings":
            answer = {"sources": [{"source": "flagSettings", "settings": {"autoMemoryEnabled": False}}]}
            answer |= self.scenario.get("settings", {})
        if request["subtype"] == "interrupt":
            self.interrupted = True
        response = {"subtype": "success", "request_id": line["request_id"], "response": answer}
        self._send({"type": "control_response", "response": response})

    def _ask_guard(self, tool: str, given: Any) -> None:
        """Ask the program that started us whether a tool may run, through its hook and its permission callback."""
        for matcher in self.hooks.get("PreToolUse", []):
            for callback in matcher["hookCallbackIds"]:
                said = {"hook_event_name": "PreToolUse", "tool_name": tool, "tool_input": given}
                self._request({"subtype": "hook_callback", "callback_id": callback, "input": said})
        self._request({"subtype": "can_use_tool", "tool_name": tool, "input": given})

    def _mcp(self, method: str, params: Any) -> None:
        message: dict[str, Any] = {"jsonrpc": "2.0", "method": method}
        if params is not None:
            self.requests += 1
            message |= {"id": self.requests, "params": params}
        self._request({"subtype": "mcp_message", "server_name": "ktx", "message": message})

    def _request(self, request: Mapping[str, Any]) -> None:
        """Send a control request and wait for its answer, which is kept with everything else on stdin."""
        self.requests += 1
        name = f"fake-{self.requests}"
        self._send({"type": "control_request", "request_id": name, "request": dict(request)})
        while True:
            line = self._line()
            if line["type"] == "control_response" and line["response"]["request_id"] == name:
                return
            self._answer(line)

    def _line(self) -> dict[str, Any]:
        line = sys.stdin.readline()
        if not line:
            raise _EndedError(0)
        self.kept.write(line)
        self.kept.flush()
        return dict(json.loads(line))

    def _send(self, frame: Mapping[str, Any]) -> None:
        print(json.dumps(frame), flush=True)

    def _say(self, text: str) -> None:
        print(text, file=sys.stderr, flush=True)


_CLIENT: Final = {"name": "fake-claude", "version": "1"}


class _EndedError(Exception):
    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


def assistant(*content: Mapping[str, Any], message_id: str = "msg_1", **facts: Any) -> dict[str, Any]:
    """Return an assistant frame; `error`, `parent_tool_use_id` and the like go beside the message, `model` into it."""
    model = facts.pop("model", "claude-sonnet-5-5")
    message = {"id": message_id, "role": "assistant", "model": model, "content": list(content)}
    return {"type": "assistant", "message": message, "session_id": SESSION, "uuid": f"u-{message_id}", **facts}


def tool_result(call_id: str, text: str, *, is_error: bool = False) -> dict[str, Any]:
    """Return the frame of a finished tool call."""
    block = {"type": "tool_result", "tool_use_id": call_id, "content": text, "is_error": is_error}
    return {"type": "user", "message": {"role": "user", "content": [block]}, "session_id": SESSION, "uuid": call_id}


def result(**facts: Any) -> dict[str, Any]:
    """Return a result frame that ends naturally, with these keys changed."""
    usage = {"input_tokens": 10, "output_tokens": 2, "cache_read_input_tokens": 0, "cache_creation_input_tokens": 0}
    return {
        "type": "result",
        "subtype": "success",
        "is_error": False,
        "duration_ms": 1,
        "duration_api_ms": 1,
        "num_turns": 1,
        "session_id": SESSION,
        "uuid": "u-result",
        "stop_reason": "end_turn",
        "terminal_reason": "completed",
        "total_cost_usd": 0.001,
        "usage": usage,
        "result": "ok",
        **facts,
    }
