"""Writes `docs/measured/llm-parity.md`: the results of every backend with its real client (`make parity`).

`python -m docs.parity` runs all cases of the runtime contract on all backends, prints a line for each, and writes the
page if all cases passed. `python -m docs.generate --check` only compares the page with the cases; tests run them.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from ktx_cli.testing.runtime_contract import ContractBroken, ContractCase, Observed, RuntimeContract, Subject
from ktx_cli.testing.runtime_subjects import FAMILIES, executables, open_subject

PAGE = Path(__file__).resolve().parent / "measured" / "llm-parity.md"

TOP = """\
<!-- Written by `make parity` from a run of the real clients; edits here are lost. -->

# Backend parity

A server on loopback plays scripted conversations in the API of each backend: Messages (also in AWS event streams),
Responses, Chat Completions, Gemini. Each conversation runs on every backend through its real client: the SDKs
`anthropic`, `openai` and `google-genai`, the claude-agent-sdk with its bundled `claude`, `claude --print`, and
`codex app-server`.
`tests/llm/test_parity.py` asserts every value below on every backend. `ktx_cli/testing/runtime_cases.py` contains the
cases, which any backend can run. `make parity` runs them again, and prints the path and version of each program and the
number of requests that the server received.

| backend | runs on |
|---|---|
{executables}

* **result** is the text or the object. **end** is the stop reason or the error code. A text or object call that
  fails raises and has no steps. A loop that fails returns and keeps its counts.
* **steps** is the number of steps and, in loops, the calls of `on_step_finish` with the tools of each step.
* **the model saw** shows the results of its tools in the last request; `!` marks an error.
* **failed** and **attempts** count tool failures and attempts. **requests** counts the requests that the server
  received. **tokens** are input, output, cache reads and cache writes.
* Every request contained the system prompt and the prompt verbatim (`claude --print` puts `User: ` before the prompt).
  Claude Code adds a line before the system prompt, and a note with the date, the folder and the model.
* Three attempts are allowed, and ktx does not wait between them. The binary of `claude-code` keeps its own delays.
  If an object does not match its schema, the wording of the error comes from whichever program checks it first.

## Equal on all backends

Each row applies to {columns}.

{equal}

## Different by design

{different}
"""

HEAD = "result | end | steps | the model saw | failed | attempts | requests | tokens"


def page(cases: Iterable[ContractCase], programs: Mapping[str, str]) -> str:
    """Return the page for cases and for what runs each backend, name and version without paths."""
    cases = list(cases)
    equal = [case for case in cases if not case.differs]
    different = [case for case in cases if case.differs]
    return TOP.format(
        executables="\n".join(f"| `{name}` | {program} |" for name, program in programs.items()),
        columns=", ".join(f"`{name}`" for name in programs),
        equal="\n".join([*_head("case"), *(equal_row(case.title, case.expected) for case in equal)]),
        different="\n\n".join(_section(case) for case in different),
    )


def _head(*first: str) -> list[str]:
    names = [*first, *HEAD.split(" | ")]
    return [f"| {' | '.join(names)} |", "|" + "---|" * len(names)]


def equal_row(title: str, observed: Observed) -> str:
    """Return the row of a case that is the same everywhere."""
    return _row(title, observed)


def _section(case: ContractCase) -> str:
    rows = [different_row(backends, observed) for backends, observed in groups(case)]
    return "\n".join([f"### {case.title}", "", case.reason, "", *_head("backends"), *rows])


def groups(case: ContractCase) -> list[tuple[tuple[str, ...], Observed]]:
    """Return what a case must show, with the backends that show it."""
    found: list[tuple[tuple[str, ...], Observed]] = []
    for name, family in FAMILIES.items():
        observed = case.expectation(family)
        known = next((number for number, one in enumerate(found) if one[1] == observed), None)
        if known is None:
            found.append(((name,), observed))
        else:
            found[known] = ((*found[known][0], name), observed)
    return found


def different_row(backends: Iterable[str], observed: Observed) -> str:
    """Return the row of the backends that show the same of a case."""
    return _row(", ".join(f"`{name}`" for name in backends), observed)


def _row(first: str, observed: Observed) -> str:
    cells = [
        first,
        _value(observed.result),
        f"`{observed.error}`" if observed.error else str(observed.stop),
        _steps(observed),
        "<br>".join(f"{'! ' if one.failed else ''}{_value(one.text)}" for one in observed.seen),
        _number(observed.failures) + (f" ({observed.repairs} repaired)" if observed.repairs else ""),
        _number(observed.attempts),
        str(observed.requests),
        _tokens(observed),
    ]
    if observed.events:
        cells[1] += f"<br>events: {', '.join(observed.events)}"
    return f"| {' | '.join(cells)} |"


def _steps(observed: Observed) -> str:
    calls = "; ".join(" + ".join(names) or "answer" for names in observed.callbacks)
    count = len(observed.callbacks) if observed.steps is None and observed.callbacks else observed.steps
    return f"{_number(count)} ({calls})" if calls else _number(count)


def _tokens(observed: Observed) -> str:
    usage = observed.usage
    cached = (usage.cache_read_tokens, usage.cache_write_tokens)
    return "/".join(str(count) for count in (usage.input_tokens, usage.output_tokens, *(cached if any(cached) else ())))


def _number(count: int | None) -> str:
    return "" if count is None else str(count)


def _value(value: Any) -> str:
    """Return a value for a cell: in a code span, on one line, a long one by its length."""
    if value is None or value == "":
        return ""
    text = value if isinstance(value, str) else repr(value)
    if len(text) > 1_000:
        head, _, tail = text.partition("\n\n")
        return f"{len(head):,} characters{f', then `{tail}`' if tail else ''}"
    marks = "``" if "`" in text else "`"
    space = " " if "`" in text else ""
    line = text.replace("\n", " ⏎ ").replace("|", "\\|")
    return f"{marks}{space}{line}{space}{marks}"


def is_current() -> bool:
    """Say whether the page is the one these cases and programs make; nothing is run."""
    return PAGE.exists() and PAGE.read_text("utf-8") == page(RuntimeContract().cases, executables())


async def run(case: ContractCase, subjects: Iterable[Subject]) -> int:
    """Run a case on subjects side by side, print a line for each, and return how many broke the contract."""
    contract, subjects = RuntimeContract(), list(subjects)
    print(f"\n{case.title}")
    found = await asyncio.gather(*(contract.check(case, one) for one in subjects), return_exceptions=True)
    broken = 0
    for subject, outcome in zip(subjects, found, strict=True):
        if isinstance(outcome, BaseException) and not isinstance(outcome, ContractBroken):
            raise outcome
        broken += isinstance(outcome, ContractBroken)
        shown = f"BROKEN {outcome}" if isinstance(outcome, ContractBroken) else f"requests: {outcome.requests}"
        print(f"  {subject.name:<12} {subject.executable}, {subject.path}: {shown}")
    return broken


def main() -> None:
    """Run every case on every backend and write the page; exit 1 without writing when one broke the contract."""
    logging.disable(logging.WARNING)  # what calls that must fail would log
    cases = RuntimeContract().cases
    with contextlib.ExitStack() as stack:
        subjects = [stack.enter_context(open_subject(name)) for name in FAMILIES]
        broken = sum(asyncio.run(run(case, subjects)) for case in cases)
        programs = executables()
    if broken:
        sys.exit(f"{broken} results differ from the contract; {PAGE.name} was not written")
    PAGE.write_text(page(cases, programs), "utf-8")
    print(f"\n{len(cases)} cases on {len(programs)} backends; {PAGE.name} is written")


if __name__ == "__main__":
    main()
