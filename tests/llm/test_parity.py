"""Every case of the runtime contract on every backend, through the real clients, and the page that shows it."""

from __future__ import annotations

import asyncio
import contextlib
import importlib.util
import os
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from ktx_cli.llm.backends import claude_cli
from ktx_cli.llm.backends.claude.binary import Host
from ktx_cli.llm.backends.claude.session import settings_in_force
from ktx_cli.testing.runtime_cases import CASES
from ktx_cli.testing.runtime_contract import ContractCase, Observed, RuntimeContract, Subject
from ktx_cli.testing.runtime_subjects import FAMILIES, executables, missing, open_subject

DOCS = Path(__file__).resolve().parents[2] / "docs"
CONTRACT = RuntimeContract()


def load_parity() -> ModuleType:
    spec = importlib.util.spec_from_file_location("docs_parity", DOCS / "parity.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


parity: Any = load_parity()


FULL = bool(os.environ.get("KTX_TEST_FULL"))

BY_BOTH = {"loop with parallel tools", "arguments that are not JSON, repair off"}
BY_PRINT = {
    "text of several blocks",
    "404, no such model",
    "prompt too long",
    "repeated refusals",
    "answer cut at `max_tokens`, then continued",
}
BY_NEITHER = {
    "a tool that raises an unexpected exception",
    "empty tool result",
    "no credit",
    "repeated 429",
    "repeated 529",
    "`on_step_finish` that raises",
    "events of a loop",
    "events of a loop that fails",
    "arguments that break the schema, repair off",
    "text",
    "object",
    "probe",
    "abort in the middle",
    "prompts full of `@path`, `/context`, quotes and spaces",
    "a failing tool",
    "object that fails twice, then fits",
    "403",
    "529, in the middle of a loop",
}
"""Which client that starts Claude Code a case is asked of; the others are asked of `claude-code`.

A process takes most of a second, and a loop of `claude-cli` one for each turn: with KTX_TEST_FULL both are asked
everything, as `make parity` does. What neither is asked happens in ktx itself, as another case does, or is asked of
both in `test_real_isolation.py`.
"""


@pytest.fixture(scope="module")
def subjects() -> Iterator[dict[str, Subject]]:
    """Every backend on its client; the settings in force in a session of `claude-cli` are asked once."""
    answers: dict[Path, dict[str, Any]] = {}

    async def asked_once(host: Host, backend: str) -> dict[str, Any]:
        if host.project_dir not in answers:
            answers[host.project_dir] = await settings_in_force(host, backend)
        return answers[host.project_dir]

    with contextlib.ExitStack() as stack:
        patch = stack.enter_context(pytest.MonkeyPatch.context())
        if not FULL:
            patch.setattr(claude_cli, "settings_in_force", asked_once)
        yield {name: stack.enter_context(open_subject(name)) for name in FAMILIES if missing(name) is None}


def families_asked(case: ContractCase) -> list[str]:
    """Return the families of a case: all with KTX_TEST_FULL, else without those that are spared."""
    if FULL or case.title in BY_BOTH:
        return list(FAMILIES)
    spared = {"claude-code"} if case.title in BY_PRINT else {"claude-cli"}
    spared |= {"claude-code"} if case.title in BY_NEITHER else set()
    return [name for name in FAMILIES if name not in spared]


STARTED = ("claude-code", "claude-cli", "codex")
"""The families whose client starts a program: by default for those of `BY_BOTH` alone, with the sweeps for all."""


def rows() -> Iterator[Any]:
    """Yield each case with the families it is asked of; two of three cases are left to the sweeps."""
    for number, case in enumerate(CASES):
        families = families_asked(case)
        without = [name for name in families if name not in STARTED]
        is_slow = number % 3 and case.title not in BY_BOTH
        if is_slow or FULL or case.title in BY_BOTH or families == without:
            yield marked(case, families, case.title, *([pytest.mark.slow] if is_slow else []))
        else:
            yield marked(case, without, case.title)
            yield marked(case, families, f"{case.title}, in a process too", pytest.mark.slow)


def marked(case: ContractCase, families: list[str], name: str, *marks: pytest.MarkDecorator) -> Any:
    return pytest.param(case, families, id=name, marks=[pytest.mark.requirement("R14", *case.requirements), *marks])


@pytest.mark.one_in(2)
@pytest.mark.parametrize(("case", "families"), list(rows()))
def test_every_backend_keeps_the_contract(
    case: ContractCase, families: list[str], subjects: dict[str, Subject]
) -> None:
    asked = {name: subjects[name] for name in families if name in subjects}

    async def check() -> list[Observed]:
        return await asyncio.gather(*(CONTRACT.check(case, subject) for subject in asked.values()))

    found = asyncio.run(check())
    if not case.differs:
        assert len(found) == len(asked) and all(one == found[0] for one in found)
    assert_on_page(case, dict(zip(asked, found, strict=True)))


@pytest.mark.requirement("R14")
def test_a_compatible_server_with_the_responses_api_keeps_the_contract_too() -> None:
    async def check(subject: Subject) -> None:
        for case in CASES:
            await CONTRACT.check(case, subject)

    with open_subject("openai-compatible", api="responses") as subject:
        asyncio.run(check(subject))


def test_cases_are_chosen_by_their_titles() -> None:
    assert {case.title for case in CASES} >= BY_BOTH | BY_PRINT | BY_NEITHER
    assert not BY_BOTH & BY_PRINT and not BY_NEITHER & (BY_BOTH | BY_PRINT)
    assert not any(case.differs for case in CASES if case.title in BY_NEITHER)


def assert_on_page(case: ContractCase, found: dict[str, Observed]) -> None:
    """The committed page has, for what the run gave and is expected of the spared, exactly the rows of this case."""
    text = parity.PAGE.read_text("utf-8")
    if not case.differs:
        assert parity.equal_row(case.title, found["anthropic"]) in text.splitlines()
        return
    section = text.split(f"### {case.title}\n")[1].split("\n### ")[0].splitlines()
    found = {name: found.get(name, case.expectation(family)) for name, family in FAMILIES.items()}
    alike: dict[str, list[str]] = {}
    for name, observed in found.items():
        alike.setdefault(repr(observed), []).append(name)
    rows = [parity.different_row(names, found[names[0]]) for names in alike.values()]
    assert [line for line in section if line.startswith("| `")] == rows
    assert case.reason in section


@pytest.mark.requirement("R14", "R60")
def test_the_page_is_what_the_cases_say() -> None:
    assert parity.PAGE.read_text("utf-8") == parity.page(CASES, executables()), "make parity"


def test_the_page_names_no_path_and_no_duration() -> None:
    text = parity.PAGE.read_text("utf-8")
    assert str(Path(importlib.util.__file__).parents[1]) not in text
    assert "/site-packages" not in text and "/home/" not in text and "/tmp" not in text


@pytest.mark.requirement("R14")
def test_nothing_differs_without_a_reason() -> None:
    """What may differ is a closed list: a new row of it is a decision, made here too."""
    assert [case.title for case in CASES if case.differs] == [
        "arguments that break the schema, repair on",
        "ten parallel calls, one with arguments that break the schema, repair on",
        "arguments that are not JSON, repair off",
        "an unknown tool",
        "401",
        "404, no such model",
        "one refusal",
        "repeated refusals",
        "answer cut at `max_tokens`, then continued",
        "answers repeatedly cut at `max_tokens`",
        "usage with cached tokens",
        "units of usage in a loop",
    ]
    assert all(len(case.reason) > 40 for case in CASES if case.differs)
