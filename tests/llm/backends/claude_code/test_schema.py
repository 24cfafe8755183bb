"""Schemas as the binary takes them: rewritten, and on the real binary, whose list of keywords it is."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Annotated, Any, Literal

import pytest
from pydantic import BaseModel, Field

from ktx_cli.core.errors import ResultWarning
from ktx_cli.llm.backends.claude_code.isolation import KNOWN, binary_schema
from ktx_cli.llm.errors import LlmError
from ktx_cli.llm.routing import RoutedRuntime, create_runtime
from ktx_cli.llm.schemas import schema_model
from ktx_cli.llm.tools import RuntimeTool
from ktx_cli.llm.usage import UsageFact
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.testing.claude_session import OfflineSession
from ktx_cli.testing.model_script import Call, calls, gives, says
from ktx_cli.testing.model_server import ModelServer

BACKENDS = ["claude-code", "claude-cli"]


def first(backend: str) -> pytest.MarkDecorator:
    """Return the mark of a test of both backends: this one runs by default, the other with the sweeps."""
    marks = {name: () if name == backend else pytest.mark.slow for name in BACKENDS}
    return pytest.mark.parametrize("backend", [pytest.param(name, marks=mark) for name, mark in marks.items()])


class Cat(BaseModel):
    kind: Literal["cat"]
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"]
    good: bool


class Pets(BaseModel):
    pets: list[Annotated[Cat | Dog, Field(discriminator="kind")]]
    place: tuple[int, str]
    code: str = Field(pattern=r"(?i)^[a-z]+$")


class Anything(BaseModel):
    q: Any = None


ANSWER = {"pets": [{"kind": "dog", "good": True}], "place": [1, "a"], "code": "x"}


def runtime(
    backend: str, project: Path, session: OfflineSession, facts: list[UsageFact] | None = None
) -> RoutedRuntime:
    config = {"llm": {"provider": {"backend": backend}, "models": {"default": "sonnet"}}}
    warnings: list[ResultWarning] = []
    sink = (facts if facts is not None else []).append
    made = KtxConfig.model_validate(config)
    return create_runtime(made, project, session.environ, warn=warnings.append, usage_sink=sink)


@pytest.mark.parametrize(
    ("schema", "sent"),
    [
        ({"oneOf": [{}], "discriminator": {"propertyName": "k"}}, {"oneOf": [{}]}),
        ({"$schema": "x", "id": "y", "x-own": 1, "type": "string"}, {"type": "string"}),
        (
            {"properties": {"x-own": {"x-own": 1}}, "enum": [{"x-own": 1}]},
            {"properties": {"x-own": {}}, "enum": [{"x-own": 1}]},
        ),
        ({"pattern": "^a"}, {"pattern": "^a"}),
        ({"pattern": "(?i)a", "description": "A code."}, {"description": 'A code.\nJSON Schema: {"pattern": "(?i)a"}'}),
        (
            {"prefixItems": [{"x": 1, "type": "null"}], "minItems": 1, "maxItems": 1},
            {
                "items": {"anyOf": [{"type": "null"}]},
                "minItems": 1,
                "maxItems": 1,
                "description": 'JSON Schema: {"prefixItems": [{"type": "null", "x": 1}]}',
            },
        ),
        ({"prefixItems": [{}, {}], "items": False}, {"items": {"anyOf": [{}, {}]}, "maxItems": 2}),
        ({"prefixItems": [True], "items": {"type": "null"}}, {"items": {"anyOf": [True, {"type": "null"}]}}),
        ({"prefixItems": [{}]}, {}),
        ({"minContains": 2}, {"description": 'JSON Schema: {"minContains": 2}'}),
    ],
)
def test_what_is_sent(schema: dict[str, Any], sent: dict[str, Any]) -> None:
    found = binary_schema(schema)
    if "description" not in sent:
        found.pop("description", None)
    assert found == sent


def test_what_the_binary_knows_stays() -> None:
    schema = {word: {"type": "string"} for word in KNOWN}
    assert binary_schema(schema) == schema


@pytest.mark.slow
@pytest.mark.requirement("R64")
@first("claude-cli")
def test_models_with_keywords_the_binary_does_not_know(
    backend: str, session: OfflineSession, model_server: ModelServer, project: Path
) -> None:
    async def go() -> Pets:
        async with runtime(backend, project, session) as made:
            return (await made.generate_object("go", Pets)).value

    model_server.play(
        [gives({**ANSWER, "place": ["a", 1]}), gives(ANSWER)] if backend == "claude-cli" else [gives(ANSWER)]
    )
    assert asyncio.run(go()) == Pets.model_validate(ANSWER)


@pytest.mark.requirement("R64", "R52")
@first("claude-code")
def test_a_schema_the_binary_refuses(
    backend: str, session: OfflineSession, model_server: ModelServer, project: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    output = schema_model({"type": "object", "$defs": {"N": {"$anchor": "n"}}, "properties": {"a": {"$ref": "#n"}}})

    async def go() -> None:
        async with runtime(backend, project, session) as made:
            await made.generate_object("go", output)

    with pytest.raises(LlmError) as caught:
        asyncio.run(go())
    assert (caught.value.code, caught.value.details["role"]) == ("structured_output", "default")
    assert "can't resolve reference" in caught.value.detail
    assert model_server.model_calls == []
    assert "Fatal error" not in "".join(capfd.readouterr())


@pytest.mark.slow
@pytest.mark.requirement("R52")
def test_tool_arguments_nested_too_deeply_end_the_call(
    session: OfflineSession, model_server: ModelServer, project: Path, caplog: pytest.LogCaptureFixture
) -> None:
    ran: list[str] = []
    facts: list[UsageFact] = []

    async def go() -> Any:
        tools = [RuntimeTool("look", "Look.", Anything, lambda query: ran.append("look") or "x")]
        async with runtime("claude-code", project, session, facts) as made:
            return await made.run_agent_loop("go", system="", tools=tools, step_budget=3)

    model_server.play([calls(Call("look", '{"q":' + "[" * 3_000 + "]" * 3_000 + "}")), says("done")])
    with caplog.at_level(logging.DEBUG, "ktx_cli.llm.backends.claude_code.pool"):
        result = asyncio.run(go())
    assert result.error is not None
    assert (result.error.code, ran, len(model_server.model_calls)) == ("execution", [], 1)
    assert "nested too deeply" in result.error.message
    assert [fact.complete for fact in facts] == [False]
    assert any("Fatal error in message reader" in record.getMessage() for record in caplog.records)


@first("claude-code")
def test_a_system_prompt_no_argument_can_hold(
    backend: str, session: OfflineSession, model_server: ModelServer, project: Path
) -> None:
    async def go() -> str:
        async with runtime(backend, project, session) as made:
            return (await made.generate_text("go", system="a\0brief, b\ud800brief, c\udc80brief")).text

    model_server.play([says("ok")])
    assert asyncio.run(go()) == "ok"
    assert r"a\u0000brief, b?brief, c?brief" in model_server.model_calls[0].words
