"""The one place that makes runtimes: what it takes, what it refuses, and calls through it to the real clients."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel, Field

from ktx_cli.core.errors import ConfigError, KtxError
from ktx_cli.llm.agent_loop import CallRecord, CallSpec, Outcome
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.registry import backend_kinds
from ktx_cli.llm.routing import RoutedRuntime, create_runtime, make_backend
from ktx_cli.llm.settings import missing_setting, secret_references
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.llm.usage import UsageFact
from ktx_cli.project.config.blocks import REQUIRED_SETTINGS, SUPPORTED_BACKENDS, Provider
from ktx_cli.project.config.file import load_config
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.plugins import imported
from ktx_cli.testing.claude_session import offline_session
from ktx_cli.testing.model_script import ModelRequest, Reply, calls, says
from ktx_cli.testing.model_server import ModelServer


def config(backend: str, url: str = "http://127.0.0.1:1", **llm: Any) -> KtxConfig:
    provider = {
        "backend": backend,
        "anthropic": {"api_key": "env:KEY", "base_url": url},
        "gateway": {"api_key": "env:KEY", "base_url": url},
    }
    return KtxConfig.model_validate({"llm": {"provider": provider, "models": {"default": "claude-sonnet-5-5"}, **llm}})


def test_every_supported_backend_has_a_kind_and_no_other() -> None:
    kinds = {kind.name: kind for kind in backend_kinds()}
    assert sorted(kinds) == sorted(SUPPORTED_BACKENDS)
    assert all(callable(imported(kind.maker)) for kind in kinds.values())
    assert all(kind.block in Provider.model_fields for kind in kinds.values())
    required = {path.partition(".")[0] for name in kinds for path, _ in REQUIRED_SETTINGS.get(name, ())}
    assert required <= {kind.block for kind in kinds.values()}


@pytest.mark.requirement("R8", "G19")
@pytest.mark.parametrize("name", ["none", "", "open-ai", "Claude-Code"])
def test_another_name_raises_and_nothing_is_tried_instead(tmp_path: Path, name: str) -> None:
    runtime = create_runtime(config("anthropic"), tmp_path, {"KEY": "k"})
    with pytest.raises(ConfigError) as caught:
        make_backend(name, runtime.shared)
    assert (caught.value.code, caught.value.exit_code) == ("not_supported", 2)
    assert all(backend in (caught.value.hint or "") for backend in SUPPORTED_BACKENDS)


def test_no_backend_is_exit_3_with_the_setup_hint(tmp_path: Path) -> None:
    async def main() -> KtxError:
        with pytest.raises(LlmError) as caught:
            await create_runtime(KtxConfig.model_validate({}), tmp_path, {}).generate_text("hi")
        return caught.value

    problem = asyncio.run(main())
    assert (problem.code, problem.exit_code) == ("no_backend", 3)
    assert problem.hint == "ktx setup --llm-backend claude-code"


@pytest.mark.parametrize(
    ("environ", "data", "code", "words"),
    [
        ({}, b"llm: {provider: {backend: anthropic}, models: {default: m}}", "config", "anthropic.api_key"),
        (
            {},
            b"llm: {provider: {backend: gateway, gateway: {base_url: 'http://h'}}, models: {default: m}}",
            "config",
            "gateway.api_key",
        ),
        (
            {},
            b"llm: {provider: {backend: anthropic, anthropic: {api_key: env:K}}, models: {default: m}}",
            "secret",
            "K",
        ),
        (
            {"K": ""},
            b"llm: {provider: {backend: anthropic, anthropic: {api_key: env:K}}, models: {default: m}}",
            "secret",
            "K",
        ),
    ],
)
def test_a_used_setting_without_a_value_is_exit_2(
    tmp_path: Path, environ: dict[str, str], data: bytes, code: str, words: str
) -> None:
    loaded = load_config(tmp_path / "ktx.yaml", data=data).config

    async def main() -> KtxError:
        with pytest.raises(KtxError) as caught:
            await create_runtime(loaded, tmp_path, environ).generate_text("hi")
        return caught.value

    problem = asyncio.run(main())
    assert (problem.code, problem.exit_code) == (code, 2)
    assert words in problem.message + (problem.hint or "")


@pytest.mark.requirement("R13")
def test_the_project_folder_is_absolute() -> None:
    with pytest.raises(ValueError, match="must be absolute"):
        create_runtime(config("anthropic"), Path("project"), {})


def test_slots_come_from_the_settings_or_the_caller(tmp_path: Path) -> None:
    settings = KtxConfig.model_validate({"ingest": {"workUnits": {"maxConcurrency": 3}}})
    assert create_runtime(settings, tmp_path, {}).governor.max_concurrency == 3
    assert create_runtime(settings, tmp_path, {}, max_concurrency=7).governor.max_concurrency == 7


def test_a_runtime_nobody_asks_anything_starts_nothing(tmp_path: Path) -> None:
    runtime = create_runtime(config("claude-code"), tmp_path, {"KTX_CLAUDE_CLI_BIN": "/nonexistent"})
    assert runtime._backends == {}
    asyncio.run(runtime.aclose())


class Query(BaseModel):
    q: str


@pytest.mark.requirement("G1", "R2")
def test_one_process_serves_several_backends_at_once(tmp_path: Path, model_server: ModelServer) -> None:
    """Two API backends and the local session: each request goes where its role says, and is billed as such."""
    facts: list[UsageFact] = []

    def script(request: ModelRequest) -> Reply:
        return says(str(request.body["model"]))

    model_server.play(script)
    with offline_session(model_server) as session:
        models = {"default": "sonnet", "triage": "anthropic:claude-haiku-5-5", "curator": "gateway:qwen3:8b"}
        settings = config("claude-code", model_server.url, models=models)
        environ = {**session.environ, "KEY": "made-up"}

        async def main() -> list[str]:
            async with create_runtime(settings, tmp_path, environ, usage_sink=facts.append) as runtime:
                roles = ("default", "triage", "curator")
                results = await asyncio.gather(*(runtime.generate_text("hi", role=role) for role in roles))
                return [result.text for result in results]

        assert asyncio.run(main()) == ["claude-sonnet-5-5", "claude-haiku-5-5", "qwen3:8b"]
    assert len(model_server.model_calls) == 3
    by_backend = {fact.backend: fact for fact in facts}
    assert {name: fact.source for name, fact in by_backend.items()} == {
        "claude-code": "anthropic_sdk",
        "anthropic": "anthropic_api",
        "gateway": "anthropic_api",
    }
    assert {name: fact.cost.basis for name, fact in by_backend.items()} == {
        "claude-code": "list_price",
        "anthropic": "list_price",
        "gateway": "unknown",
    }
    assert len({fact.idempotency_key for fact in facts}) == 3


@pytest.mark.parametrize("backend", ["claude-code", "anthropic"])
def test_a_tool_may_ask_a_model_with_a_single_slot(tmp_path: Path, model_server: ModelServer, backend: str) -> None:
    """`claude-code` holds the slot while its tools run: the question inside must not wait for it."""
    runtimes: list[RoutedRuntime] = []

    async def ask(query: Query) -> str:
        return (await runtimes[0].generate_text(f"inner {query.q}")).text

    def script(request: ModelRequest) -> Reply:
        if "inner" in str((request.body["messages"] or [{}])[0].get("content")):
            return says("from inside")
        return says("done") if request.tool_results() else calls(("ask", {"q": "x"}))

    tools: Sequence[RuntimeTool] = [RuntimeTool("ask", "Ask a model.", Query, ask, read_only=True)]
    model_server.play(script)
    with offline_session(model_server) as session:
        environ = {**session.environ, "KEY": "made-up"}

        async def main() -> Any:
            settings = config(backend, model_server.url)
            async with create_runtime(settings, tmp_path, environ, max_concurrency=1) as runtime:
                runtimes.append(runtime)
                work = runtime.run_agent_loop("outer", system="", tools=tools, step_budget=3)
                return await asyncio.wait_for(work, 30)

        result = asyncio.run(main())
    assert result.error is None, result.error.detail
    assert (result.text, result.stop_reason, result.invocations[0].text) == ("done", "natural", "from inside")


@pytest.mark.requirement("R5")
def test_embeddings_have_nothing_to_do_with_the_backend_of_the_models(tmp_path: Path) -> None:
    embeddings = {"backend": "openai", "model": "text-embedding-3-small", "openai": {"api_key": "env:OPENAI_KEY"}}

    async def model_of(environ: dict[str, str], **ingest: Any) -> str:
        with ModelServer([says("ok")]) as server:
            found = config("gateway", server.url).model_copy(
                update={"ingest": KtxConfig.model_validate({"ingest": ingest}).ingest}
            )
            async with create_runtime(found, tmp_path, environ) as runtime:
                answer = await runtime.generate_text("hi")
            assert "text-embedding" not in server.requests[0].words
            return f"{answer.facts.backend}:{answer.facts.model}"

    plain = asyncio.run(model_of({"KEY": "k"}))
    assert asyncio.run(model_of({"KEY": "k"}, embeddings=embeddings)) == plain == "gateway:claude-sonnet-5-5"


@pytest.mark.requirement("R12")
def test_a_backend_of_the_callers_can_stand_in_for_every_one(tmp_path: Path) -> None:
    class Canned:
        name = "canned"

        async def run(self, spec: CallSpec, record: CallRecord) -> Outcome:
            return Outcome(f"{spec.backend} would have answered {spec.prompt!r}")

        async def account(self) -> str:
            return "nobody"

        def versions(self) -> dict[str, str]:
            return {}

        async def aclose(self) -> None:
            pass

    async def main(backend: str) -> str:
        shared = create_runtime(config(backend), tmp_path, {}).shared
        async with RoutedRuntime(shared, lambda name, _: Canned()) as runtime:
            return (await runtime.generate_text("hi")).text

    for backend in ("anthropic", "gateway", "claude-code", "claude-cli"):
        assert asyncio.run(main(backend)) == f"{backend} would have answered 'hi'"


@pytest.mark.requirement("G2")
def test_the_local_session_is_a_chat_backend_without_credentials_of_its_own(tmp_path: Path) -> None:
    found = KtxConfig.model_validate({"llm": {"provider": {"backend": "claude-cli"}}})
    assert missing_setting(found, "claude-cli") is None
    assert secret_references(found, "claude-cli") == {}
    backend = make_backend("claude-cli", create_runtime(found, tmp_path, {"PATH": "/usr/bin:/bin"}).shared)
    offered = {name for name in dir(backend) if not name.startswith("_") and callable(getattr(backend, name))}
    assert offered == {"run", "turn", "account", "versions", "aclose"}, "no embeddings, no expansion"
    assert backend.versions()["claude"] == "2.1.329"


@pytest.mark.requirement("C16")
def test_an_api_backend_counts_messages_and_the_local_session_sessions(tmp_path: Path) -> None:
    class Question(BaseModel):
        q: str

    tool = RuntimeTool("look", "Look up.", Question, lambda asked: asked.q)
    script = [calls(("look", {"q": "a"})), says("done")]

    async def units(backend: str, server: ModelServer, environ: dict[str, str]) -> list[UsageFact]:
        facts: list[UsageFact] = []
        async with create_runtime(config(backend, server.url), tmp_path, environ, usage_sink=facts.append) as runtime:
            await runtime.run_agent_loop("go", system="s", tools=[tool], step_budget=4)
        return facts

    with ModelServer(script) as server:
        messages = asyncio.run(units("anthropic", server, {"KEY": "k"}))
    with ModelServer(script) as server, offline_session(server) as session:
        sessions = asyncio.run(units("claude-code", server, session.environ))
    assert [fact.unit_id[:4] for fact in messages] == ["msg_", "msg_"]
    assert len(sessions) == 1
    assert sum(fact.usage.total for fact in messages) == sessions[0].usage.total


def test_a_schema_too_long_for_a_command_line_is_refused_before_a_process_starts(tmp_path: Path) -> None:
    class Long(BaseModel):
        """An answer with a very long description."""

        q: str = Field(description="x" * 100_000)

    async def main() -> LlmError:
        with pytest.raises(LlmError) as caught:
            async with create_runtime(config("claude-code"), tmp_path, {}) as runtime:
                await runtime.generate_object("hi", Long)
        return caught.value

    error = asyncio.run(main())
    assert error.code == "structured_output"
    assert "KiB" in error.message and "anthropic:MODEL" in (error.hint or "")
