"""The cases of the runtime contract: the behavior that every backend must share, and inherent differences with their
reasons.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Final

from ktx_cli.llm import MAX_RESULT, OBJECT_ATTEMPTS, Usage
from ktx_cli.testing import runtime_calls
from ktx_cli.testing.model_script import (
    FORBIDDEN,
    NO_CREDIT,
    NO_SUCH_MODEL,
    OVERLOADED,
    TOO_LONG,
    UNAUTHORIZED,
    Call,
    Turn,
    calls,
    gives,
    rate_limited,
    says,
)
from ktx_cli.testing.runtime_contract import ContractCase, Family, Observed, SeenResult

ULM: Final = {"name": "Ulm", "people": 7}
LOOK: Final = ("look", {"q": "a"})
LOOKED: Final = SeenResult("look", "looked up a")
DONE: Final = says("done")
REFUSES: Final = Turn("I would rather not.", stop_reason="refusal")
CUT: Final = says("part one, ", stop_reason="max_tokens")
UNFIT: Final = "Invalid arguments for `look`:\n- q: Field required"
MENDED: Final = "mended"
MANY: Final = 8
"""A number of replies larger than any client requests."""

HELLO: Final = Observed("hello")
LOOPED: Final = Observed(
    "done",
    steps=2,
    callbacks=(("look",), ()),
    seen=(LOOKED,),
    ran=("look(a)",),
    tool_calls=1,
    requests=2,
    usage=Usage(200, 40),
)
"""A loop with one call and an answer."""

CORRECTED: Final = replace(
    LOOPED, steps=3, callbacks=(("look",), ("look",), ()), tool_calls=2, failures=1, requests=3, usage=Usage(300, 60)
)
"""A loop whose first call fails and whose second call succeeds."""

REFUSED: Final = Observed("", stop="error", steps=0, usage=Usage())
"""A loop whose first request is rejected."""

STOPPED: Final = replace(LOOPED, result="", stop="error", steps=1, callbacks=(("look",),), usage=Usage(100, 20))
"""A loop whose second request is rejected."""

RAISED: Final = Observed(
    None, stop=None, steps=None, tool_calls=None, failures=None, repairs=None, attempts=None, usage=Usage(100, 20)
)
"""A call that raises: it has no facts, only reported usage."""

CUT_OFF: Final = replace(RAISED, error="execution", usage=Usage())
"""A call whose answer is cut off on a backend that does not report its usage then."""

STEPPED: Final = ("ToolStarted", "ToolFinished", "StepFinished")
ENDED: Final = ("TextDelta", "StepFinished", "Final", "Done")


def one_tool(name: str, text: str, *, failed: bool = False, ran: bool = True) -> Observed:
    """Return the outcome of a loop that calls one tool and ends."""
    return replace(
        LOOPED,
        callbacks=((name,), ()),
        seen=(SeenResult(name, text, failed),),
        ran=(f"{name}(a)",) if ran else (),
        failures=int(failed),
    )


def ten_calls(*broken: int, repaired: bool = False) -> Observed:
    """Return the outcome of a loop with ten parallel calls. `broken`: the indexes of those with invalid arguments."""
    right = [place for place in range(10) if place not in broken]
    look = SeenResult("look", f"looked up {MENDED}") if repaired else SeenResult("look", UNFIT, True)
    names = [MENDED] * len(broken) * repaired + [str(place) for place in right]
    return replace(
        LOOPED,
        callbacks=(("look",) * 10, ()),
        seen=tuple(look if place in broken else SeenResult("look", f"looked up {place}") for place in range(10)),
        ran=tuple(sorted(f"look({name})" for name in names)),
        tool_calls=10,
        failures=0 if repaired else len(broken),
        repairs=len(broken) * repaired,
        requests=2 + len(broken) * repaired,
    )


def ten_turns(*broken: int) -> tuple[Turn, ...]:
    """Return the turns of a loop with parallel calls."""
    return (calls(*(("look", {"p" if place in broken else "q": str(place)}) for place in range(10))), DONE)


def corrected(problem: str) -> Observed:
    """Return the outcome of a loop whose first call got an error as its result."""
    return replace(CORRECTED, seen=(SeenResult("look", problem, True), LOOKED))


def answered_by_codex(observed: Observed, answer: str) -> Observed:
    """Return an outcome in which Codex itself answers the first call, with a text that is not marked as an error."""
    first, *others = observed.seen
    return replace(observed, seen=(SeenResult(first.tool, answer), *others))


def on_claude(observed: Observed) -> Mapping[Family, Observed]:
    """Return the common outcome of both Claude backends."""
    return {"session": observed, "print": observed}


EQUAL: Final = (
    ContractCase("text", (says("hello"),), runtime_calls.text, HELLO, requirements=("R14", "R63")),
    ContractCase(
        "text of several blocks",
        (Turn("one, ", more=("two, ", "three")),),
        runtime_calls.text,
        Observed("one, two, three"),
        requirements=("R63",),
    ),
    ContractCase(
        "prompts full of `@path`, `/context`, quotes and spaces",
        (says("hello"),),
        runtime_calls.awkward_text,
        HELLO,
        requirements=("R32", "R63"),
    ),
    ContractCase(
        "probe", (says("ok"),), runtime_calls.probe, Observed(runtime_calls.CONFIGURED), requirements=("R39",)
    ),
    ContractCase("object", (gives(ULM),), runtime_calls.city, Observed(ULM), requirements=("R14", "R64")),
    ContractCase(
        "object that fails twice, then fits",
        (gives({"name": "Ulm"}), gives({"name": "Ulm", "people": "many"}), gives(ULM)),
        runtime_calls.city,
        Observed(ULM, steps=3, attempts=3, requests=3, usage=Usage(300, 60)),
        requirements=("R64",),
    ),
    ContractCase(
        "object that never fits",
        (gives({"name": "Ulm"}),) * MANY,
        runtime_calls.city,
        replace(RAISED, error="structured_output", requests=OBJECT_ATTEMPTS, usage=Usage(500, 100)),
        requirements=("R52", "R64"),
    ),
    ContractCase(
        "loop with parallel tools",
        (calls(LOOK, ("look", {"q": "b"}), text="Looking. "), calls(("look", {"q": "c"})), DONE),
        runtime_calls.loop,
        replace(
            LOOPED,
            steps=3,
            callbacks=(("look", "look"), ("look",), ()),
            seen=(LOOKED, SeenResult("look", "looked up b"), SeenResult("look", "looked up c")),
            ran=("look(a)", "look(b)", "look(c)"),
            tool_calls=3,
            requests=3,
            usage=Usage(300, 60),
        ),
        any_order=True,
        requirements=("R14", "R44", "R53", "G5"),
    ),
    ContractCase(
        "loop with a prompt in parts",
        (calls(LOOK), DONE),
        runtime_calls.loop_in_parts,
        LOOPED,
        requirements=("R14", "R57"),
    ),
    ContractCase(
        "loop of a role with an effort of its own",
        (calls(LOOK), DONE),
        runtime_calls.loop_of_writer,
        replace(LOOPED, effort=("high",)),
        requirements=("R14",),
    ),
    ContractCase(
        "a failing tool",
        (calls(("fail", {"q": "a"})), DONE),
        runtime_calls.loop,
        one_tool("fail", "Tool `fail` failed: the shelf is empty (fill the shelf)", failed=True),
        requirements=("R44", "R51"),
    ),
    ContractCase(
        "a tool that raises an unexpected exception",
        (calls(("crash", {"q": "a"})), DONE),
        runtime_calls.loop,
        one_tool("crash", "Tool `crash` failed: ZeroDivisionError", failed=True),
        requirements=("R44", "R51"),
    ),
    ContractCase(
        "arguments that break the schema, repair off",
        (calls(("look", {"p": "a"})), calls(LOOK), DONE),
        runtime_calls.loop_without_repair,
        corrected(UNFIT),
        requirements=("R48", "R51"),
    ),
    ContractCase(
        "ten parallel calls, all with arguments that break the schema, repair on",
        ten_turns(*range(10)),
        runtime_calls.loop,
        ten_calls(*range(10)),
        any_order=True,
        requirements=("R48", "R51"),
    ),
    ContractCase(
        "ten parallel calls, two with arguments that break the schema, repair on",
        ten_turns(3, 7),
        runtime_calls.loop,
        ten_calls(3, 7),
        any_order=True,
        requirements=("R48", "R51"),
    ),
    ContractCase(
        "empty tool result",
        (calls(("hush", {"q": "a"})), DONE),
        runtime_calls.loop,
        one_tool("hush", "(no output)"),
        requirements=("R44", "R46"),
    ),
    ContractCase(
        "huge tool result",
        (calls(("flood", {"q": "a"})), DONE),
        runtime_calls.loop,
        one_tool("flood", f"{'x' * MAX_RESULT}\n\n(truncated: {runtime_calls.FLOOD:,} characters in total)"),
        requirements=("R44",),
    ),
    ContractCase(
        "budget of two steps used up",
        (calls(LOOK, LOOK),) * MANY,
        runtime_calls.loop_of_two,
        replace(
            LOOPED,
            result="",
            stop="budget",
            callbacks=(("look", "look"),) * 2,
            seen=(LOOKED,) * 2,
            ran=("look(a)",) * 4,
            tool_calls=4,
        ),
        requirements=("R49", "R53", "R55", "R56"),
    ),
    ContractCase("403", (FORBIDDEN,) * MANY, runtime_calls.loop, replace(REFUSED, error="auth"), requirements=("R52",)),
    ContractCase(
        "no credit", (NO_CREDIT,) * MANY, runtime_calls.loop, replace(REFUSED, error="billing"), requirements=("R52",)
    ),
    ContractCase(
        "429 with retry-after, in the middle of a loop",
        (calls(LOOK), rate_limited(0.2), DONE),
        runtime_calls.followed_loop,
        replace(LOOPED, attempts=2, requests=3, events=(*STEPPED, "RateLimitWait", *ENDED)),
        requirements=("R52", "C7"),
    ),
    ContractCase(
        "repeated 429",
        (calls(LOOK), *(rate_limited(0.2),) * MANY),
        runtime_calls.loop,
        replace(STOPPED, error="rate_limit", attempts=3, requests=4),
        requirements=("R52",),
    ),
    ContractCase(
        "529, in the middle of a loop",
        (calls(LOOK), OVERLOADED, DONE),
        runtime_calls.loop,
        replace(LOOPED, attempts=2, requests=3),
        requirements=("R52",),
    ),
    ContractCase(
        "repeated 529",
        (calls(LOOK), *(OVERLOADED,) * MANY),
        runtime_calls.loop,
        replace(STOPPED, error="overloaded", attempts=3, requests=4),
        requirements=("R52",),
    ),
    ContractCase(
        "prompt too long",
        (calls(LOOK), *(TOO_LONG,) * MANY),
        runtime_calls.loop,
        replace(STOPPED, error="context"),
        requirements=("R52",),
    ),
    ContractCase(
        "abort in the middle",
        (calls(LOOK), Turn(forever=True)),
        runtime_calls.aborted_loop,
        replace(RAISED, error="cancelled", callbacks=(("look",),), seen=(LOOKED,), ran=("look(a)",), requests=2),
        requirements=("C11", "G10"),
    ),
    ContractCase(
        "`on_step_finish` that raises",
        (calls(LOOK), DONE),
        runtime_calls.loop_with_broken_callback,
        LOOPED,
        requirements=("R54",),
    ),
    ContractCase(
        "events of a loop",
        (calls(LOOK, text="Looking. "), DONE),
        runtime_calls.followed_loop,
        replace(LOOPED, events=("TextDelta", *STEPPED, *ENDED)),
        requirements=("C5", "C6", "C7"),
    ),
    ContractCase(
        "events of a loop that fails",
        (FORBIDDEN,) * MANY,
        runtime_calls.followed_loop,
        replace(REFUSED, error="auth", events=("Failed", "Done")),
        requirements=("C7", "C8"),
    ),
)

DIFFERENT: Final = (
    ContractCase(
        "arguments that break the schema, repair on",
        (calls(("look", {"p": "a"})), calls(LOOK), DONE),
        runtime_calls.loop,
        replace(
            CORRECTED,
            seen=(SeenResult("look", "looked up mended"), LOOKED),
            ran=("look(mended)", "look(a)"),
            failures=0,
            repairs=1,
            requests=4,
        ),
        repaired_by='{"q": "mended"}',
        differs={"session": corrected(UNFIT)},
        reason="Claude Code runs the loop itself, so ktx is not involved between the call and its tool: the "
        "model reads the error and corrects itself in the next turn. Repair within a step is not a "
        "goal there.",
        requirements=("R14", "R48", "R51"),
    ),
    ContractCase(
        "ten parallel calls, one with arguments that break the schema, repair on",
        ten_turns(4),
        runtime_calls.loop,
        ten_calls(4, repaired=True),
        repaired_by=f'{{"q": "{MENDED}"}}',
        differs={"session": ten_calls(4)},
        reason="Same reason. If ktx runs the loop, each invalid call is one request to the repair model.",
        any_order=True,
        requirements=("R48", "R51"),
    ),
    ContractCase(
        "arguments that are not JSON, repair off",
        (calls(Call("look", '{"q": "a')), calls(LOOK), DONE),
        runtime_calls.loop_without_repair,
        corrected(
            "Invalid arguments for `look`:\n- the arguments are not valid JSON: Unterminated string at character 6"
        ),
        differs={
            "session": corrected(
                "<tool_use_error>InputValidationError: mcp__ktx__look was called with input that could not be parsed "
                'as JSON.\nYou sent (first 8 of 8 bytes): {"q": "a\nCommon causes: unescaped backslashes in file paths '
                "(use / or \\\\), unescaped control characters, or truncated output. Retry with valid JSON."
                "</tool_use_error>"
            ),
            "print": Observed('<use_tools>\n[{"name": "look", "input": {"q": "a}]\n</use_tools>', callbacks=((),)),
            "app_server": answered_by_codex(
                corrected(""), "failed to parse function arguments: EOF while parsing a string at line 1 column 8"
            ),
            "generate": replace(LOOPED, requests=3, usage=Usage(300, 60)),
        },
        reason="Claude Code and Codex respond to such a call themselves before the tool is called. In the text "
        "protocol of `claude --print`, invalid JSON is text rather than a call, and text ends the loop. The Gemini API "
        "returns nothing of such a call, only its reason for the end of the answer, so ktx repeats the request.",
        requirements=("R48", "R51", "G6"),
    ),
    ContractCase(
        "an unknown tool",
        (calls(("nope", {"q": "a"})), DONE),
        runtime_calls.loop,
        one_tool(
            "nope", "There is no tool `nope`. Tools: `crash`, `fail`, `flood`, `hush`, `look`.", failed=True, ran=False
        ),
        differs={
            "session": one_tool(
                "nope", "<tool_use_error>Error: No such tool available: nope</tool_use_error>", failed=True, ran=False
            ),
            "app_server": answered_by_codex(one_tool("nope", "", failed=True, ran=False), "unsupported call: nope"),
        },
        reason="Claude Code and Codex respond themselves to calls of unknown tools; the call never reaches a tool "
        "of ktx.",
        requirements=("R51",),
    ),
    ContractCase(
        "401",
        (UNAUTHORIZED,) * MANY,
        runtime_calls.loop,
        replace(REFUSED, error="auth"),
        differs={
            **on_claude(replace(REFUSED, error="auth", requests=2)),
            "app_server": replace(REFUSED, error="auth", requests=3),
        },
        reason="The binary checks its session again and retries, regardless of its retry settings: Claude Code once, "
        "Codex once with the login as it is and once after it has renewed it.",
        requirements=("R52",),
    ),
    ContractCase(
        "404, no such model",
        (NO_SUCH_MODEL,) * MANY,
        runtime_calls.loop,
        replace(REFUSED, error="model"),
        differs=on_claude(replace(REFUSED, error="model", requests=2)),
        reason="The binary retries once, with a lower limit of output tokens, before it gives up on a model.",
        requirements=("R10", "R52"),
    ),
    ContractCase(
        "one refusal",
        (REFUSES, says("Well then.")),
        runtime_calls.text,
        replace(RAISED, error="refusal"),
        differs=on_claude(Observed("Well then.", requests=2, usage=Usage(200, 40))),
        reason="The binary retries after one refusal, with a note that the response was stopped. The model's "
        "output up to that point is not part of the result.",
        requirements=("R52",),
    ),
    ContractCase(
        "repeated refusals",
        (REFUSES,) * MANY,
        runtime_calls.text,
        replace(RAISED, error="refusal"),
        differs=on_claude(replace(RAISED, error="refusal", requests=2, usage=Usage(200, 40))),
        reason="Same reason: one more request, then the same error.",
        requirements=("R52",),
    ),
    ContractCase(
        "answer cut at `max_tokens`, then continued",
        (CUT, says("part two")),
        runtime_calls.text,
        replace(RAISED, error="execution"),
        differs={**on_claude(Observed("part one, part two", requests=2, usage=Usage(200, 40))), "app_server": CUT_OFF},
        reason="Claude Code lets the model continue after the cut, and joins the parts. The other backends do not "
        "accept a partial response; Codex does not report its usage.",
        requirements=("R49", "R52"),
    ),
    ContractCase(
        "answers repeatedly cut at `max_tokens`",
        (CUT,) * MANY,
        runtime_calls.text,
        replace(RAISED, error="execution"),
        differs={
            **on_claude(replace(RAISED, error="execution", requests=4, usage=Usage(400, 80))),
            "app_server": CUT_OFF,
        },
        reason="Same reason: three continuations by Claude Code, then the same error.",
        requirements=("R49", "R52"),
    ),
    ContractCase(
        "usage with cached tokens",
        (
            calls(LOOK, input_tokens=1000, cache_write_tokens=300),
            says("done", input_tokens=50, output_tokens=7, cache_read_tokens=1300),
        ),
        runtime_calls.loop,
        replace(LOOPED, usage=Usage(1050, 27, 1300, 300)),
        differs={"generate": replace(LOOPED, usage=Usage(1350, 27, 1300))},
        reason="The Gemini API caches by itself and reports only what it reads from the cache. What it stores is part "
        "of the input.",
        requirements=("G9",),
    ),
    ContractCase(
        "units of usage in a loop",
        (calls(LOOK), DONE),
        runtime_calls.loop_with_units,
        replace(LOOPED, events=("UsageReported",) * 2),
        differs={"session": replace(LOOPED, events=("UsageReported",))},
        reason="A unit is what the provider bills: a message of the API, a session of Claude Code, or a run of "
        "`claude --print`. A loop on `claude-code` is one unit, and a loop on `claude-cli` has one per "
        "step.",
        requirements=("C2", "C16"),
    ),
)

CASES: Final[tuple[ContractCase, ...]] = (*EQUAL, *DIFFERENT)
