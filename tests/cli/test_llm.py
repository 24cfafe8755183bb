"""Commands that need a model: against the scripted server, with and without a local Claude Code session."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.llm.backends.claude_code import AUTH_HINT, AUTH_MESSAGE
from ktx_cli.llm.governor import Governor
from ktx_cli.testing.claude_session import OfflineSession, offline_session
from ktx_cli.testing.model_script import UNAUTHORIZED, Failure, calls, gives, rate_limited, says
from ktx_cli.testing.model_server import ModelServer
from tests.llm.backends.claude_cli.conftest import Stub, stub

__all__ = ["stub"]

Run = Callable[..., Any]

LLM = """
llm:
  provider:
    backend: {backend}
    gateway: {{base_url: '{url}', api_key: 'env:SCRIPTED_KEY'}}
  models:
    default: {model}
"""

DESCRIBED = "scan: {enrichment: {mode: llm}}\n"
"""Has a run use the model."""


@pytest.fixture
def configure(project: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Return a function that chooses backend and model in the project's ktx.yaml."""
    monkeypatch.setenv("SCRIPTED_KEY", "made-up")
    base = (project / "ktx.yaml").read_text().partition("llm:\n")
    connections = base[2].partition("connections:\n")

    def write(backend: str, model: str = "sonnet", more: str = "") -> None:
        text = LLM.format(backend=backend, model=model, url=model_server.url) + more
        (project / "ktx.yaml").write_text(f"{text}\nconnections:\n{connections[2]}")

    return write


@pytest.fixture
def session(model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[OfflineSession]:
    """A local session behind the scripted server; the commands of the test run in it."""
    with offline_session(model_server) as found:
        _enter(found, monkeypatch)
        yield found


def _enter(session: OfflineSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "http_proxy", "ALL_PROXY", "all_proxy", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in session.environ.items():
        monkeypatch.setenv(name, value)


@pytest.fixture
def signed_out(model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[OfflineSession]:
    """No session, and an API key that must not be used."""
    with offline_session(model_server, signed_in=False, extra={"ANTHROPIC_API_KEY": "sk-ant-api03-made-up"}) as found:
        _enter(found, monkeypatch)
        yield found


def test_ask_prints_the_answer_and_counts_it(ktx: Run, configure: Run, model_server: ModelServer) -> None:
    configure("gateway", "some-model")
    model_server.play([says("forty-two\nand more")])
    answer = ktx("llm", "ask", "how many?", "--system", "be short")
    assert (answer.code, answer.out) == (0, "forty-two\nand more\n")
    (request,) = model_server.model_calls
    assert request.system == "be short"
    rows = ktx("usage", "--by", "command", "--by", "role", "--json").data["rows"]
    assert [(row["command"], row["role"], row["total_tokens"], row["cost_usd"]) for row in rows] == [
        ("ktx llm ask", "default", 120, None)
    ]


def test_ask_reads_stdin_and_takes_a_schema(ktx: Run, configure: Run, model_server: ModelServer, work: Path) -> None:
    configure("gateway", "some-model")
    (work / "schema.json").write_text(json.dumps({"type": "array", "items": {"type": "integer"}, "minItems": 2}))
    model_server.play([gives({"value": [1]}), gives({"value": [1, 2]})])
    answer = ktx("llm", "ask", "-", "--schema", "schema.json", "--json", input="count")
    assert answer.data["answer"] == [1, 2]
    assert answer.data["facts"]["attempts"] == 2


REQUEST = {
    "messages": [{"role": "system", "content": "be short"}, {"role": "user", "content": "what is revenue?"}],
    "tool_ids": ["wiki_search"],
    "run_id": "their-run",
    "request_id": "their-request",
}


def test_run_prints_events_as_lines_and_the_answer_last(
    ktx: Run, configure: Run, model_server: ModelServer, work: Path
) -> None:
    configure("gateway", "some-model")
    (work / "request.json").write_text(json.dumps(REQUEST))
    model_server.play([calls(("wiki_search", {"query": "revenue"}), text="Looking. "), says("It is net.")])
    answer = ktx("llm", "run", "request.json", "--json")
    *events, envelope = map(json.loads, answer.out.splitlines())
    assert [each["event"] for each in events] == [
        *("text_delta", "usage_reported", "tool_started", "tool_finished", "step_finished"),
        *("text_delta", "usage_reported", "step_finished", "final", "done"),
    ]
    assert envelope["schema"] == "ktx/llm-run/v1"
    found = {name: envelope["data"][name] for name in ("ok", "run_id", "request_id", "content", "error_code")}
    assert found == {
        "ok": True,
        "run_id": "their-run",
        "request_id": "their-request",
        "content": "It is net.",
        "error_code": None,
    }
    assert envelope["data"]["usage"]["total_tokens"] == 240
    first = model_server.model_calls[0]
    assert (first.system, first.tool_names) == ("be short", ["wiki_search"])
    (row,) = ktx("usage", "--by", "run", "--json").data["rows"]
    assert (row["run"], row["total_tokens"]) == ("their-run", 240)


def test_run_reads_stdin_and_prints_the_answer(ktx: Run, configure: Run, model_server: ModelServer) -> None:
    configure("gateway", "some-model")
    model_server.play([says("It is net.")])
    answer = ktx("llm", "run", input=json.dumps({**REQUEST, "tool_ids": []}))
    assert (answer.code, answer.out) == (0, "It is net.\n")
    assert model_server.model_calls[0].tool_names == []


def test_a_run_that_fails_or_uses_up_its_steps_is_an_answer_with_an_error(
    ktx: Run, configure: Run, model_server: ModelServer
) -> None:
    configure("gateway", "some-model")
    model_server.play([Failure(403, "permission_error", "sk-secret is not allowed")])
    answer = ktx("llm", "run", "--json", input=json.dumps(REQUEST))
    *events, envelope = map(json.loads, answer.out.splitlines())
    assert [each["event"] for each in events] == ["failed", "done"]
    assert (answer.code, envelope["error"]["code"], envelope["data"]["error_code"]) == (3, "auth", "internal")
    assert "sk-secret" not in answer.out
    model_server.play([calls(("wiki_search", {"query": "revenue"}))] * 2)
    answer = ktx("llm", "run", "--json", input=json.dumps({**REQUEST, "step_budget": 2}))
    envelope = json.loads(answer.out.splitlines()[-1])
    assert (envelope["data"]["ok"], envelope["data"]["error_code"]) == (False, "timeout")
    assert (answer.code, envelope["error"]["code"]) == (1, "max_turns")


@pytest.mark.parametrize(
    ("change", "says_so"),
    [
        ({"messages": []}, "messages: "),
        ({"messages": [{"role": "robot", "content": "x"}]}, "messages.0.role: "),
        ({"tool_ids": ["wiki_serch"]}, "there is no tool `wiki_serch`"),
        ({"tool_ids": ["memory_ingest"]}, "there is no tool `memory_ingest`"),
        ({"role": "curatr"}, "there is no role `curatr`"),
        ({"step_budget": 0}, "step_budget: "),
        ({"tools": []}, "tools: "),
        (None, "Invalid JSON"),
    ],
)
def test_wrong_requests(
    ktx: Run, configure: Run, model_server: ModelServer, change: dict[str, Any] | None, says_so: str
) -> None:
    configure("gateway", "some-model")
    answer = ktx("llm", "run", "--json", input="{" if change is None else json.dumps({**REQUEST, **change}))
    assert answer.code == 2
    assert says_so in answer.envelope["error"]["message"]
    assert model_server.requests == []


@pytest.mark.parametrize(
    ("schema", "says_so"),
    [
        ('{"$ref": "#"}', "endless reference to itself"),
        ('{"$dynamicRef": "#nowhere"}', "does not exist"),
        ('{"items":' * 5_000 + "{}" + "}" * 5_000, "nested too deeply"),
        ('{"items":' * 200 + "{}" + "}" * 200, "nested more than"),
        ('{"type": "string", "pattern": "(a+)+$"}', "(a+)+$"),
    ],
    ids=["endless", "nowhere", "unreadable", "deep", "pattern"],
)
def test_schemas_no_answer_can_be_checked_against(
    ktx: Run, configure: Run, work: Path, schema: str, says_so: str
) -> None:
    configure("gateway", "some-model")
    (work / "schema.json").write_text(schema)
    answer = ktx("llm", "ask", "x", "--schema", "schema.json", "--json")
    assert answer.code == 2
    assert says_so in answer.envelope["error"]["message"]


@pytest.mark.parametrize(
    ("args", "says_so"),
    [
        (("ask", " "), "question is empty"),
        (("ask", "x", "--role", "curatr"), "curatr"),
        (("ask", "x", "--schema", "none.json"), "none.json"),
        (("ask", "x", "--schema", "ktx.yaml"), "not valid JSON"),
        (("ask", "x", "--model", "gpt:4"), "gpt"),
        (("probe", "--model", "nonsense:x"), "nonsense"),
        (("ask", "x", "--model", ""), "`--model` is empty"),
        (("probe", "--model", " "), "`--model` is empty"),
    ],
)
def test_wrong_questions(ktx: Run, configure: Run, args: tuple[str, ...], says_so: str) -> None:
    configure("claude-code")
    answer = ktx("llm", *args, "--json")
    assert answer.code == 2
    assert says_so in answer.envelope["error"]["message"]


def test_no_backend(ktx: Run, project: Path) -> None:
    for args in (("llm", "ask", "x"), ("llm", "probe")):
        answer = ktx(*args, "--json")
        assert answer.code == 3
        assert answer.envelope["error"]["code"] == "no_backend"
        assert answer.envelope["error"]["hint"] == "ktx setup --llm-backend claude-code"


def test_roles_may_use_several_backends_at_once(
    ktx: Run, configure: Run, model_server: ModelServer, project: Path
) -> None:
    configure("gateway", "some-model", "    triage: anthropic:claude-haiku-4-5\n")
    other = f"anthropic: {{base_url: '{model_server.url}', api_key: 'env:SCRIPTED_KEY'}}"
    config = (project / "ktx.yaml").read_text()
    (project / "ktx.yaml").write_text(config.replace("  models:\n", f"    {other}\n  models:\n", 1))
    model_server.play(lambda request: says(f"I am {request.body['model']}"))
    assert ktx("llm", "ask", "who?").out == "I am some-model\n"
    assert "haiku" in ktx("llm", "ask", "who?", "--role", "triage").out
    probes = ktx("llm", "probe", "--json").data["probes"]
    assert [(one["backend"], one["ok"]) for one in probes] == [("gateway", True), ("anthropic", True)]
    status = {tuple(row["message"].split(": ")[:1]) for row in ktx("status", "--json").data["checks"]}
    assert any("anthropic:claude-haiku-4-5 (triage)" in row[0] for row in status)


@pytest.mark.requirement("R36", "R37", "R40", "R41", "R6")
@pytest.mark.slow
@pytest.mark.parametrize("backend", ["claude-code", "claude-cli"])
def test_an_api_key_is_no_session(
    ktx: Run, configure: Run, model_server: ModelServer, signed_out: OfflineSession, project: Path, backend: str
) -> None:
    """Promise 7: setup, status, doctor and ingest fail with the authentication copy, exit 3."""
    setup = ktx("setup", "--llm-backend", backend, "--json")
    assert (setup.code, setup.envelope["error"]["message"], setup.envelope["error"]["hint"]) == (
        3,
        AUTH_MESSAGE,
        AUTH_HINT,
    )
    assert backend not in (project / "ktx.yaml").read_text(), "nothing was saved"
    configure(backend)
    with (project / "ktx.yaml").open("a") as config:
        config.write("scan: {enrichment: {mode: llm}}\n")
    for args in (("ingest",), ("scan",), ("llm", "probe"), ("llm", "ask", "x")):
        answer = ktx(*args, "--json")
        error = answer.envelope["error"]
        assert (answer.code, error["message"], error["hint"]) == (3, AUTH_MESSAGE, AUTH_HINT), args
    assert not (project / "semantic-layer").exists()
    assert ktx("ingest", "--no-llm").code == 0
    for args in (("status",), ("doctor",)):
        answer = ktx(*args, "--json")
        assert answer.code == 3, answer
        assert AUTH_MESSAGE in answer.out
        assert AUTH_HINT in answer.out
    assert model_server.model_calls == [], "no model was asked, with whatever key"


@pytest.mark.slow
def test_setup_probes_before_it_saves(
    ktx: Run, project: Path, model_server: ModelServer, session: OfflineSession
) -> None:
    model_server.play([says("ok")])
    answer = ktx("setup", "--llm-backend", "claude-code", "--llm-model", "haiku", "--json")
    assert answer.code == 0, answer
    assert answer.data["probes"][0]["report"]["resolved_model"].startswith("claude-haiku")
    assert "claude-code" in (project / "ktx.yaml").read_text()
    model_server.play([])
    assert ktx("ingest").code == 0, "what setup asked is remembered"
    status = ktx("status", "--json")
    assert status.code == 0, status
    assert any("session present" in row["message"] for row in status.data["checks"])
    assert any("last probe 20" in row["message"] for row in status.data["checks"])
    rows = ktx("usage", "--by", "command", "--json").data["rows"]
    assert {row["command"]: row["calls"] for row in rows} == {"ktx setup": 1}


def test_ingest_asks_before_it_writes_and_stops_at_a_refusal(
    ktx: Run, configure: Run, project: Path, model_server: ModelServer
) -> None:
    configure("gateway", "some-model", DESCRIBED)
    model_server.play([UNAUTHORIZED])
    answer = ktx("ingest", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (3, "auth")
    assert not (project / "semantic-layer").exists()
    model_server.play([])
    assert ktx("ingest", "--dry-run").code == 0
    assert model_server.requests == [], "a dry run asks nobody"


@pytest.mark.requirement("R58", "R57")
def test_caching_settings_that_are_ignored_are_named_everywhere(
    ktx: Run, configure: Run, stub: Callable[[], Stub], monkeypatch: pytest.MonkeyPatch
) -> None:
    configure(
        "claude-cli", "haiku", "  promptCaching: {cacheTools: false, systemTtl: 1h, toolsTtl: 1h, historyTtl: 1h}\n"
    )
    monkeypatch.setenv("KTX_CLAUDE_CLI_BIN", str(stub().program))
    for args in (("ingest",), ("llm", "probe"), ("llm", "ask", "x")):
        answer = ktx(*args, "--json")
        assert answer.code == 0, answer
        found = [w for w in answer.envelope["warnings"] if w["code"] == "prompt_caching_ignored"]
        assert [w["fields"] for w in found] == [["cacheTools"]], args
    for command in ("status", "doctor"):
        answer = ktx(command, "--json")
        rows = answer.data.get("checks") or answer.data.get("findings")
        assert [r["message"] for r in rows if r["check"] == "prompt_caching"] == [
            "the backend `claude-cli` does not support llm.promptCaching.cacheTools"
        ]
    shown = ktx("ingest")
    assert shown.err.count("does not support llm.promptCaching.cacheTools") == 1


def test_debug_shows_the_providers_words_and_nothing_else_does(
    ktx: Run, configure: Run, model_server: ModelServer
) -> None:
    configure("gateway", "some-model")
    quiet, loud = [], []
    for found, flags in ((quiet, ()), (loud, ("--debug",))):
        model_server.play([UNAUTHORIZED])
        answer = ktx("llm", "ask", "x", "--json", *flags)
        found.append(answer.out)
        found.append(answer.err)
    assert "invalid x-api-key" not in "".join(quiet) + loud[0]
    assert "invalid x-api-key" in loud[1]


def test_usage_refuses_what_it_cannot_sum(ktx: Run, project: Path) -> None:
    assert ktx("usage", "--by", "modle", "--json").envelope["error"]["hint"] == "did you mean `model`?"
    assert ktx("usage", "--since", "yesterday", "--json").code == 2
    assert ktx("usage", "--json").data["rows"] == []


WAITING = "waiting: the model provider, which asks ktx to wait"


def test_a_wait_for_the_provider_is_told(
    ktx: Run, configure: Run, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Governor, "backoff", lambda *_: 0.0)  # after the script has ended the server is overloaded
    one_at_a_time = "ingest: {workUnits: {maxConcurrency: 1}}\n"
    configure("gateway", "some-model", f"    triage: other-model\n{one_at_a_time}{DESCRIBED}")
    for flags, told in (
        ((), [WAITING]),
        (("--progress", "jsonl"), ['"event": "waiting"']),
        (("--json",), []),
        (("--quiet",), []),
    ):
        model_server.play([rate_limited(0.2), says("ok")])
        answer = ktx("llm", "ask", "x", *flags)
        assert answer.code == 0, answer
        lines = answer.err.splitlines()
        assert len(lines) == len(told), answer.err
        assert all(part in line for part, line in zip(told, lines, strict=True))
    for args, replies in (
        (("llm", "probe"), [rate_limited(0.2), says("ok")]),  # the probe of the second model waits
        (("ingest",), [says("ok"), rate_limited(0.2), says("ok")]),
    ):
        model_server.play(replies)
        answer = ktx(*args)
        assert answer.code != 0
        assert answer.err.count(WAITING) == 1, args


def test_what_probes_took_has_a_role_of_its_own(ktx: Run, configure: Run, model_server: ModelServer) -> None:
    configure("gateway", "some-model", DESCRIBED)
    model_server.play(lambda request: says("ok"))
    for args in (("llm", "ask", "x"), ("ingest",), ("llm", "probe"), ("doctor",)):
        ktx(*args)
    rows = ktx("usage", "--by", "role", "--by", "command", "--json").data["rows"]
    rows = [row for row in rows if row["role"] != "candidateExtraction"]
    assert [(row["role"], row["command"], row["calls"]) for row in rows] == [
        ("default", "ktx llm ask", 1),
        ("probe", "ktx doctor", 1),
        ("probe", "ktx ingest", 1),
        ("probe", "ktx llm probe", 1),
    ]
    assert all(row["total_tokens"] > 0 for row in rows)


def test_usage_counts_calls(ktx: Run, configure: Run, model_server: ModelServer) -> None:
    configure("gateway", "some-model")
    model_server.play([says("ok")])
    ktx("llm", "ask", "x")
    header = ktx("usage", "--plain").out.splitlines()[0].split("\t")
    assert header == ["day", "model", "calls", "fresh", "cache writes", "cache reads", "output", "cost"]


@pytest.mark.parametrize("value", ["canary-key-1 ", "canary-key-1\n\n"])
def test_a_key_with_blanks_is_refused_before_anything_is_sent(
    ktx: Run, configure: Run, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch, value: str
) -> None:
    configure("gateway", "some-model", DESCRIBED)
    monkeypatch.setenv("SCRIPTED_KEY", value)
    for args in (("llm", "ask", "x"), ("llm", "probe"), ("ingest",), ("doctor",)):
        answer = ktx(*args, "--debug")
        assert answer.code == (3 if args == ("doctor",) else 2), answer
        assert "llm.provider.gateway.api_key" in answer.out + answer.err
        assert "canary-key-1" not in answer.out + answer.err
    assert model_server.requests == []


def test_a_key_that_comes_back_is_masked_in_debug_output(
    ktx: Run, configure: Run, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    configure("gateway", "some-model")
    monkeypatch.setenv("SCRIPTED_KEY", "canary-key-2\n")
    model_server.play([Failure(401, "authentication_error", "no such key: canary-key-2, sorry")])
    answer = ktx("llm", "ask", "x", "--debug")
    assert "no such key: ***, sorry" in answer.err
    assert "canary-key-2" not in answer.out + answer.err
    (request,) = model_server.requests
    assert request.headers["x-api-key"] == "canary-key-2"


def test_setup_of_a_gateway_by_flags_alone(
    ktx: Run, work: Path, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each hint is the command to type next, from an empty folder to a project."""
    monkeypatch.setenv("GATEWAY_API_KEY", "made-up")
    args = ["setup", "--llm-backend", "gateway"]
    for flag, value in (("--llm-model", "MODEL"), ("--llm-api-key", "env:GATEWAY_API_KEY")):
        answer = ktx(*args, "--json")
        args += [flag, value]
        assert (answer.code, answer.envelope["error"]["hint"]) == (2, " ".join(["ktx", *args]))
        assert list(work.iterdir()) == []
    model_server.play([says("ok")])
    answer = ktx(*args, "--llm-base-url", model_server.url, "--json")
    assert answer.code == 0, answer
    text = (work / "ktx.yaml").read_text()
    assert "api_key: env:GATEWAY_API_KEY" in text
    assert model_server.url in text
    assert ktx(*args, "--no-test", "--json").data["changed"] is False
