"""Writes answers into the files of evals as what is expected from now on: of each file only those places change."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Any, Final

from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError, ResultWarning
from ktx_cli.core.numbers import without_noise
from ktx_cli.core.text import plural, shell_words
from ktx_cli.jobs.evals.comparing import Answer
from ktx_cli.jobs.evals.results import CaseResult
from ktx_cli.project.edit import Edit, apply
from ktx_cli.project.files import read_bytes, write_atomic
from ktx_cli.project.layout import Layout

MOST_ACCEPTED: Final = 1_000
"""How many rows are written into a file: nobody reviews more."""


def accept(layout: Layout, results: Sequence[CaseResult], warn: Callable[[ResultWarning], object]) -> None:
    """Write the answers of new cases into their files; raises `ConfigError`, `StorageError`.

    An answer with more than `MOST_ACCEPTED` rows is left out, which `warn` is told.
    """
    by_file: dict[str, list[CaseResult]] = defaultdict(list)
    for result in results:
        if result.status == "new" and result.answer is not None and _is_small(result, result.answer, warn):
            by_file[result.case.path].append(result)
    for path, accepted in by_file.items():
        _write(layout, path, accepted)


def _is_small(result: CaseResult, answer: Answer, warn: Callable[[ResultWarning], object]) -> bool:
    if len(answer.rows) <= MOST_ACCEPTED:
        return True
    message = f"the answer of `{result.case.name}` has {plural(len(answer.rows), 'row')}: too many to accept"
    hint = f"narrow it, or write into {result.case.path}:{result.case.line}: expect: {{rows: {len(answer.rows)}}}"
    warn(ResultWarning("not_accepted", message, hint=hint))
    return False


def _write(layout: Layout, path: str, accepted: Sequence[CaseResult]) -> None:
    file = layout.root / path
    if layout.evals.is_symlink():
        raise ConfigError(
            f"{layout.evals} is a link, which ktx does not write through",
            hint=f"{shell_words('rm', layout.evals)} && {shell_words('mkdir', layout.evals)}",
        )
    if file.is_symlink():
        raise ConfigError(
            f"{path} is a link, which ktx does not write through",
            hint=f"remove the link: {shell_words('rm', path)}",
        )
    text = read_bytes(file) or b""
    _require_unchanged(text, path, accepted)
    edits = [
        Edit("set", ("cases", each.case.index, "expect"), expectation_of(each.answer))
        for each in accepted
        if each.answer is not None
    ]
    write_atomic(file, apply(text, edits, where=path))
    for each in accepted:
        each.accepted = True


def _require_unchanged(text: bytes, path: str, accepted: Sequence[CaseResult]) -> None:
    """Raise `ConfigError` where the cases are not at their places any more: somebody edited the file meanwhile."""
    raw = yaml.load(text, where=path)
    cases = raw.get("cases") if isinstance(raw, dict) else None
    ids = [each.get("id") if isinstance(each, dict) else None for each in cases or ()]
    if any(each.case.asked.id not in ids[each.case.index : each.case.index + 1] for each in accepted):
        hint = shell_words("ktx", "eval", *(each.case.name for each in accepted[:5]), "--accept")
        raise ConfigError(f"{path} was changed while the evals ran; nothing was written into it", hint=hint)


def expectation_of(answer: Answer) -> Any:
    """Return an answer as it is expected: one value, rows by the names of their columns, or lists under them.

    Floats are without noise, as they are compared.
    """
    rows = [[without_noise(value) if isinstance(value, float) else value for value in row] for row in answer.rows]
    if len(rows) == len(answer.columns) == 1:
        return {"value": rows[0][0]}
    if not rows:
        return {"rows": 0}
    if len(set(answer.columns)) < len(answer.columns):
        return {"columns": list(answer.columns), "rows": rows}
    return [dict(zip(answer.columns, row, strict=True)) for row in rows]
