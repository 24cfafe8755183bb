"""The calls of the contract's cases: typical uses of the port by a service, and typical tools."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from pydantic import BaseModel

from ktx_cli.llm import (
    MAX_RESULT,
    PROBE_PROMPT,
    LoopResult,
    ObjectResult,
    PromptPart,
    RuntimeTool,
    Step,
    TextResult,
    ToolError,
    UsageReported,
)
from ktx_cli.testing.runtime_contract import Stage

FLOOD = MAX_RESULT + 50_000
"""The length of the `flood` tool's result, which exceeds the limit for results sent to a model."""

WAIT_SECONDS = 30.0
CONFIGURED = "(the configured model)"


class Query(BaseModel):
    """The arguments that all tools here take."""

    q: str


class City(BaseModel):
    """The object that the object calls request."""

    name: str
    people: int


def shelf_tools(stage: Stage) -> list[RuntimeTool]:
    """Return the tools for the loops. Each call that reaches a handler is recorded on the stage."""

    def noted(name: str, answer: Any) -> RuntimeTool:
        def handler(arguments: Query) -> Any:
            stage.ran.append(f"{name}({arguments.q})")
            return answer(arguments.q)

        return RuntimeTool(name, f"The tool {name}.", Query, handler, read_only=name == "look")

    def fail(q: str) -> str:
        raise ToolError("the shelf is empty", hint="fill the shelf")

    def crash(q: str) -> str:
        raise ZeroDivisionError(f"a secret of {q}")

    return [
        noted("look", lambda q: f"looked up {q}"),
        noted("fail", fail),
        noted("crash", crash),
        noted("hush", lambda q: ""),
        noted("flood", lambda q: "x" * FLOOD),
    ]


async def text(stage: Stage) -> TextResult:
    """Ask for text."""
    return await stage.text()


async def awkward_text(stage: Stage) -> TextResult:
    """Ask for text with a system prompt and a prompt full of sequences that programs like to interpret."""
    stage.system = "  Ünïcode {braces} <use_tool> $(date)\n\n@/etc/hostname  end"
    stage.prompt = '/context is a word here.\n@/etc/hostname and "quotes" \\n ✓\n  indented'
    return await stage.text()


async def probe(stage: Stage) -> TextResult:
    """Probe the backend; the text is `CONFIGURED` if the configured model answered, else the name of the other."""
    stage.system, stage.prompt = "", PROBE_PROMPT
    report = await stage.runtime.probe()
    answered = CONFIGURED if report.resolved_model == stage.model else report.resolved_model
    return TextResult(answered or "", report.facts)


async def city(stage: Stage) -> ObjectResult[Any]:
    """Ask for a city."""
    return await stage.object(City)


async def loop(stage: Stage) -> LoopResult:
    """Run a loop with at most eight steps."""
    return await stage.loop(shelf_tools(stage))


async def loop_in_parts(stage: Stage) -> LoopResult:
    """Run a loop whose prompt has parts, the first of which other calls share."""
    stage.prompt = (PromptPart("On the shelf: jars.", cached=True), PromptPart("What is in the jars?"))
    return await stage.loop(shelf_tools(stage))


async def loop_of_writer(stage: Stage) -> LoopResult:
    """Run a loop for a role with a configured effort."""
    stage.role = "writer"
    return await stage.loop(shelf_tools(stage))


async def loop_of_two(stage: Stage) -> LoopResult:
    """Run a loop with at most two steps."""
    return await stage.loop(shelf_tools(stage), budget=2)


async def loop_without_repair(stage: Stage) -> LoopResult:
    """Run a loop with the role `repair`, whose own calls are never repaired."""
    stage.role = "repair"
    return await stage.loop(shelf_tools(stage))


async def loop_with_broken_callback(stage: Stage) -> LoopResult:
    """Run a loop whose `on_step_finish` raises."""

    def broken(step: Step) -> None:
        stage.on_step(step)
        raise RuntimeError("the display broke")

    return await stage.loop(shelf_tools(stage), on_step_finish=broken)


async def aborted_loop(stage: Stage) -> LoopResult:
    """Run a loop and trigger its abort once the second request has reached the model."""
    running = asyncio.ensure_future(stage.loop(shelf_tools(stage), abort=stage.abort))
    until = time.monotonic() + WAIT_SECONDS
    while len(stage.server.model_calls) < 2 and not running.done() and time.monotonic() < until:
        await asyncio.sleep(0.01)
    stage.abort.throw()
    return await running


async def followed_loop(stage: Stage) -> LoopResult:
    """Run a loop and read its events. Usage events occur once per unit, and units differ."""
    handle = stage.runtime.start_agent_loop(
        stage.prompt, system=stage.system, tools=shelf_tools(stage), step_budget=4, on_step_finish=stage.on_step
    )
    done: LoopResult = await stage.follow(handle, UsageReported)
    return done


async def loop_with_units(stage: Stage) -> LoopResult:
    """Run a loop and read only its usage events."""
    handle = stage.runtime.start_agent_loop(
        stage.prompt, system=stage.system, tools=shelf_tools(stage), step_budget=4, on_step_finish=stage.on_step
    )
    done: LoopResult = await stage.follow(handle)
    stage.events = [kind for kind in stage.events if kind == UsageReported.__name__]
    return done
