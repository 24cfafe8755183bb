"""Which words of a database's error go to an agent: those about the statement, and none that may quote rows."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator

from ktx_cli.context.semantic.model import Model
from ktx_cli.context.tools.sql_protection import has_protected
from ktx_cli.context.tools.sql_values import refused_text
from ktx_cli.core.errors import KtxError, SourceError
from ktx_cli.core.text import one_line


def may_quote_rows(model: Model | None, *, privacy: bool) -> bool:
    """Whether errors about rows may be told as they are: not with `privacy`, nor where people hid some of the rows."""
    return not privacy and (model is None or not has_protected(model))


@contextlib.contextmanager
def told_with_care(sql: str, model: Model | None, *, privacy: bool) -> Iterator[None]:
    """Let an error of a database say no more than its kind, where it may quote rows that are not to be seen."""
    try:
        yield
    except SourceError as error:
        if may_quote_rows(model, privacy=privacy):
            raise
        told = refused_text(error, sql, _names(model), "off")
        if told.startswith(one_line(error.message, 1_000)):
            raise
        raise KtxError(told, hint="ask for counts, or for less", code=error.code) from None


def _names(model: Model | None) -> list[str]:
    sources = [] if model is None else list(model.sources.values())
    return [name for each in sources for name in (each.name, *(each.table or ()), *each.columns)]
