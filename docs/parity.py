"""Writes `docs/measured/llm-parity.md`: what every backend of the runtime did, through its real client (`make parity`).

`python -m docs.parity` runs all cases of the runtime contract on all backends, prints a line for each, and writes the
page when all passed. `python -m docs.generate --check` only compares the page with the cases: tests run them.
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

# The same on every backend

One scripted conversation after another, played by a Messages API on loopback and run on every backend through its real
client: the `anthropic` SDK, the claude-agent-sdk with its bundled `claude`, and `claude --print`. Every value below is
asserted on every backend by `tests/llm/test_parity.py`; `ktx_cli/testing/runtime_cases.py` has the cases, for any
backend.
`make parity` runs them again and prints path and version of what ran and the requests the server counted.

| backend | runs on |
|---|---|
{executables}

* **result** is the text or the object; **end** the stop reason, or the code of the error. A text or object call that
  fails raises and has no steps; a loop that fails returns, and keeps its counts.
* **steps** are also the calls of `on_step_finish`, in loops, with the tools of each.
* **the model saw** the results of its tools as they stood in the last request; `!` marks an error.
* **failed**, **attempts** are tool failures and attempts; **requests** are those the server counted; **tokens** are
  input, output, read from a cache, written to one.
* In every request the system prompt and the prompt stood letter by letter (`claude --print` gets `User: ` before it).
  What Claude Code adds by itself: a line on top of the system prompt, and a note with date, folder and model.
* Three attempts are allowed, no delay of ours between them; the binary of `claude-code` keeps its own delays. What
  the model is told of an object that does not fit is in the words of whoever checks it first.

## Equal in all columns

Columns: {columns}. Each row holds for all of them.

{equal}

## Different by nature

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
    told = "; ".join(" + ".join(names) or "answer" for names in observed.callbacks)
    count = len(observed.callbacks) if observed.steps is None and observed.callbacks else observed.steps
    return f"{_number(count)} ({told})" if told else _number(count)


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
        programs = {subject.name: subject.executable for subject in subjects}
    if broken:
        sys.exit(f"{broken} results differ from the contract; {PAGE.name} was not written")
    PAGE.write_text(page(cases, programs), "utf-8")
    print(f"\n{len(cases)} cases on {len(programs)} backends; {PAGE.name} is written")


if __name__ == "__main__":
    main()
