"""Model strings, roles, and what they mean on each backend."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.errors import ConfigError, UsageError
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.registry import kind_of
from ktx_cli.llm.settings import ModelRef, bindings, effort_of, has_effort, model_for, parse_model_ref
from ktx_cli.project.config.blocks import ROLES, SUPPORTED_BACKENDS
from ktx_cli.project.config.model import KtxConfig


def config(backend: str, **models: str) -> KtxConfig:
    return KtxConfig.model_validate({"llm": {"provider": {"backend": backend}, "models": models}})


@pytest.mark.requirement("G1", "G3", "G21", "R10")
@pytest.mark.table(
    ("text", "backend", "expected"),
    [
        ("sonnet", "claude-code", "claude-code:sonnet"),
        ("sonnet[1m]", "claude-code", "claude-code:sonnet[1m]"),
        ("claude-code:sonnet[1m]", "anthropic", "claude-code:sonnet[1m]"),
        ("claude-haiku-4-5-20251001", "claude-code", "claude-code:claude-haiku-4-5-20251001"),
        ("claude-cli:haiku", "claude-code", "claude-cli:haiku"),
        ("claude-cli:haiku", "gateway", "claude-cli:haiku"),
        ("claude-cli:claude-opus-4-1", "anthropic", "claude-cli:claude-opus-4-1"),
        ("Claude-CLI : haiku ", "anthropic", "claude-cli:haiku"),
        ("anthropic:claude-x", "claude-code", "anthropic:claude-x"),
        ("vertex:claude-sonnet-4-5@20250929", "anthropic", "vertex:claude-sonnet-4-5@20250929"),
        ("qwen3:8b", "gateway", "gateway:qwen3:8b"),
        ("gateway:qwen3:8b", "claude-code", "gateway:qwen3:8b"),
        ("gateway:gpt-5.4", "claude-code", "gateway:gpt-5.4"),
        ("anthropic/claude-x", "gateway", "gateway:anthropic/claude-x"),
        ("anthropic/claude-x", "claude-code", "claude-code:anthropic/claude-x"),
        ("gateway:anthropic/claude-x", "claude-code", "gateway:anthropic/claude-x"),
        ("codex:gpt-6-luna", "claude-code", "codex:gpt-6-luna"),
        ("codex:8b", "gateway", "codex:8b"),
        ("global.anthropic.claude-x-v1:0", "bedrock", "bedrock:global.anthropic.claude-x-v1:0"),
        ("bedrock:arn:aws:bedrock:x", "anthropic", "bedrock:arn:aws:bedrock:x"),
        ("qwen3:8b", "openai-compatible", "openai-compatible:qwen3:8b"),
        ("openai:gpt-6.2-sol", "claude-code", "openai:gpt-6.2-sol"),
        ("openai-compatible:qwen3:8b", "openai", "openai-compatible:qwen3:8b"),
        ("claude-cli:claude-code:x", "anthropic", "claude-cli:claude-code:x"),
    ],
)
def test_what_a_model_string_means(text: str, backend: str, expected: str) -> None:
    assert str(parse_model_ref(text, backend)) == expected


@pytest.mark.requirement("G19", "R8")
@pytest.mark.parametrize("backend", [name for name in SUPPORTED_BACKENDS if not kind_of(name).free_ids])
@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("claud-cli:haiku", "did you mean `claude-cli:haiku`?"),
        ("azure:gpt-5", f"backends: {', '.join(SUPPORTED_BACKENDS)}"),
        ("codx:gpt-6-luna", "did you mean `codex:gpt-6-luna`?"),
        ("qwen3:8b", "backends: "),
        ("C:\\models", "backends: "),
        (":haiku", "backends: "),
    ],
)
def test_another_prefix_is_an_error_that_names_the_backends(backend: str, text: str, words: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_model_ref(text, backend, where="llm.models.triage")
    assert words in (caught.value.hint or "")
    assert f"`llm.models.triage` is `{text}`" in caught.value.message


@pytest.mark.table("text", ["", "  ", "claude-cli:", "claude-cli: ", "gateway:"])
def test_a_string_without_a_model(text: str) -> None:
    with pytest.raises(ConfigError, match="does not name a model") as caught:
        parse_model_ref(text, "claude-code", where="--model")
    assert caught.value.exit_code == 2


@pytest.mark.requirement("G21")
@given(st.sampled_from(SUPPORTED_BACKENDS), st.sampled_from(SUPPORTED_BACKENDS), st.text(min_size=1))
def test_what_stands_behind_a_backend_reaches_it_as_it_is(route: str, backend: str, model: str) -> None:
    if model.strip():
        assert parse_model_ref(f"{route}:{model}", backend) == ModelRef(route, model.strip())


@pytest.mark.requirement("R3")
@pytest.mark.table("role", list(ROLES))
def test_a_role_without_a_model_has_that_of_the_default(role: str) -> None:
    assert model_for(config("anthropic", default="m"), role) == ModelRef("anthropic", "m")
    models = {"default": "m", role: "gateway:x:y"}
    assert model_for(config("anthropic", **models), role) == ModelRef("gateway", "x:y")
    assert model_for(config("anthropic", default="m"), role, model="claude-cli:opus") == ModelRef("claude-cli", "opus")


@pytest.mark.requirement("R3")
@pytest.mark.table("backend", SUPPORTED_BACKENDS)
def test_a_backend_without_models(backend: str) -> None:
    model = kind_of(backend).default_model
    if model:
        assert model_for(config(backend), "default") == ModelRef(backend, model)
        assert kind_of(backend).models["default"] == model
        return
    with pytest.raises(ConfigError, match=r"requires `llm\.models\.default`") as caught:
        model_for(config(backend), "triage")
    assert caught.value.hint == "ktx config set llm.models.default MODEL"


def no_backend() -> Any:
    return pytest.raises(LlmError, match="this command needs a model")


def test_no_backend_ends_in_exit_3_with_the_setup_command() -> None:
    with no_backend() as caught:
        model_for(config("none"), "default")
    assert (caught.value.code, caught.value.exit_code) == ("no_backend", 3)
    assert caught.value.hint == "ktx setup --llm-backend claude-code"


def test_a_model_needs_a_backend_and_may_bring_its_own() -> None:
    with no_backend():
        model_for(config("none", default="sonnet"), "default")
    with no_backend():
        model_for(config("none"), "default", model="sonnet")
    assert model_for(config("none"), "default", model="claude-cli:haiku") == ModelRef("claude-cli", "haiku")
    assert model_for(config("none", triage="gateway:x"), "triage") == ModelRef("gateway", "x")


def test_there_is_no_other_role() -> None:
    with pytest.raises(ValueError, match="no role 'boss'"):
        model_for(config("claude-code"), "boss")


@pytest.mark.requirement("R3", "R9")
def test_bindings_name_every_role() -> None:
    found = bindings(config("claude-code", default="opus", triage="claude-cli:haiku"))
    assert list(found) == list(ROLES)
    assert {role: str(ref) for role, ref in found.items() if role in ("triage", "curator")} == {
        "triage": "claude-cli:haiku",
        "curator": "claude-code:opus",
    }
    assert bindings(config("none")) == {}
    assert bindings(config("none", triage="gateway:x")) == {"triage": ModelRef("gateway", "x")}
    with pytest.raises(ConfigError):
        bindings(config("claude-code", curator="nowhere:x"))


@pytest.mark.table(
    ("text", "where", "hint"),
    [
        ("claude-code:", "--model", "--model claude-code:MODEL"),
        (" ", "--model", "--model MODEL"),
        ("gateway: ", "llm.models.triage", "ktx config set llm.models.triage gateway:MODEL"),
        ("", "llm.models.triage", "ktx config set llm.models.triage MODEL"),
    ],
)
def test_the_hint_of_a_string_without_a_model_is_where_it_stands(text: str, where: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_model_ref(text, "claude-code", where=where)
    assert caught.value.hint == hint


@pytest.mark.table("model", ["", "  "])
def test_an_empty_model_is_a_usage_error(model: str) -> None:
    with pytest.raises(UsageError, match="`--model` is empty"):
        model_for(config("claude-code", default="haiku"), "default", model=model)


@pytest.mark.table(
    ("ref", "expected"),
    [
        ("claude-code:sonnet", True),
        ("claude-cli:opus[1m]", True),
        ("claude-code:claude-haiku-4-5-20251001", False),
        ("anthropic:claude-sonnet-5-5", True),
        ("anthropic:claude-sonnet-4-6", True),
        ("anthropic:claude-opus-5", True),
        ("anthropic:claude-opus-4-20250514", False),
        ("anthropic:claude-sonnet-4-5", False),
        ("anthropic:claude-3-7-sonnet-20250219", False),
        ("vertex:claude-sonnet-4-5@20250929", False),
        ("gateway:anthropic/claude-sonnet-5-5", True),
        ("gateway:qwen3:8b", False),
        ("gateway:sonnet", False),
    ],
)
def test_which_models_have_an_effort(ref: str, expected: bool) -> None:
    backend, _, model = ref.partition(":")
    assert has_effort(ModelRef(backend, model)) is expected


def test_the_effort_of_a_role() -> None:
    config = KtxConfig.model_validate({"llm": {"effort": {"default": "low", "writer": "high"}}})
    new, old = ModelRef("anthropic", "claude-sonnet-5-5"), ModelRef("anthropic", "claude-sonnet-4-5")
    assert [effort_of(config, role, new) for role in ("default", "writer", "triage")] == ["low", "high", "low"]
    assert effort_of(config, "triage", old) is None
    with pytest.raises(ConfigError, match=r"`llm.effort.writer` is `high`, but the model .* does not support effort"):
        effort_of(config, "writer", old)
    assert effort_of(KtxConfig(), "writer", new) == "medium"
    for role in ROLES:
        one = KtxConfig.model_validate({"llm": {"effort": {role: "high"}}})
        assert effort_of(one, role, new) == "high"


@pytest.mark.table("backend", ["anthropic", "gateway", "claude-code"])
def test_a_model_is_no_reference(backend: str) -> None:
    with pytest.raises(ConfigError, match="a model cannot be a secret reference"):
        parse_model_ref("env:MODEL", backend)
