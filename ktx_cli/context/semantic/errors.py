"""What the semantic layer refuses, by code, with what a program can choose from instead."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ktx_cli.core.errors import EXIT_USAGE, KtxError
from ktx_cli.core.text import did_you_mean, listing


class SemanticError(KtxError):
    """A question or a definition that has no right answer as it is put.

    Codes: `unknown_name`, `ambiguous_name`, `ambiguous_path`, `unreachable`, `unreachable_filter`, `hidden`, `grain`,
    `query`, `definition`, `policy`, `parameter`, `cardinality`. `details.candidates` are names, `details.choices` are
    values for `via`.
    """

    code = "query"

    @property
    def exit_code(self) -> int:
        """The process exit code: a question put wrongly is wrong usage; a database's `query` error is not."""
        return EXIT_USAGE if self.code == "query" else super().exit_code


def unknown(what: str, name: str, known: Iterable[str], where: str = "", **details: Any) -> SemanticError:
    """Return the error for a name nothing has; the hint is the nearest known one, else some of them."""
    names = sorted(set(known))
    near = did_you_mean(name, names)
    hint = f"did you mean `{near}`?" if near else _others(name, names)
    return SemanticError(
        f"there is no {what} `{name}`{where}",
        hint=hint,
        code="unknown_name",
        details={"candidates": names[:50], **details},
    )


def _others(name: str, names: list[str]) -> str:
    """Return some of the names there are, first of all those with the name in them."""
    having = [each for each in names if name.casefold() in each.casefold()]
    if having:
        return f"names with it: {listing(having, 12)}"
    return f"there are: {listing(names, 12)}" if names else "there is none"


def ambiguous(what: str, name: str, candidates: Iterable[str]) -> SemanticError:
    """Return the error for a name several things have."""
    names = sorted(set(candidates))
    return SemanticError(
        f"{what} `{name}` could be {listing(names)}",
        hint=f"name one: {names[0]}",
        code="ambiguous_name",
        details={"candidates": names},
    )
