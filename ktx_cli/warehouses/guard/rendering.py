"""Rewrite a checked statement from its tree, without comments and with an outer limit."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Any, Final

from ktx_cli.faces import exp
from ktx_cli.warehouses.dialect import dialect_named


def limited(tree: exp.Query, max_rows: int) -> exp.Query:
    """Return the query with at most `max_rows + 1` rows, where the extra row shows that there are more.

    A smaller limit of its own is kept. A limit that is not a plain number (ALL, a percentage, WITH TIES, an expression)
    is also kept, inside an outer query.
    """
    most = max_rows + 1
    if isinstance(tree, exp.Values) or tree.args.get("for_"):
        return tree  # The single text that FOR JSON returns would be cut in the middle.
    if isinstance(tree, exp.Subquery) and not tree.args.get("alias"):
        tree = tree if _clauses(tree) else limited(tree.this, max_rows)
    limit = tree.args.get("limit")
    if limit is None:
        return tree.limit(most, copy=False)
    count = _count(limit)
    if count is None:
        return exp.select("*").from_(tree.subquery("ktx_result")).limit(most) if _is_open(limit) else tree
    return tree if count <= most else tree.limit(most, copy=False)


def without_hints(tree: exp.Expr) -> exp.Expr:
    """Remove optimizer hints, which look like comments but are settings for a server."""
    for hint in list(tree.find_all(exp.Hint)):
        hint.pop()
    return tree


def as_query(tree: exp.Expr) -> exp.Expr:
    """Return a query around PIVOT and UNPIVOT, which may also be statements; other trees are unchanged."""
    if not isinstance(tree, exp.Pivot) or not isinstance(tree.this, exp.Table | exp.Subquery):
        return tree
    return exp.select("*").from_(exp.Subquery(this=tree))


def _clauses(subquery: exp.Subquery) -> bool:
    return any(subquery.args.get(name) for name in ("order", "limit", "offset", "with_", "pivots", "sample", "joins"))


def _is_open(limit: exp.Expr) -> bool:
    """Return whether an outer query preserves the meaning of a limit: not if ties or fetch options follow."""
    options = limit.args.get("limit_options")
    return options is None and not limit.args.get("expressions")


def _count(limit: exp.Expr) -> int | None:
    options = limit.args.get("limit_options")
    if options is not None and (options.args.get("percent") or options.args.get("with_ties")):
        return None
    if limit.args.get("expressions"):
        return None
    value = limit.args.get("count") if isinstance(limit, exp.Fetch) else limit.args.get("expression")
    if value is None:
        return 1
    if isinstance(value, exp.Paren):
        value = value.this
    return int(value.this) if isinstance(value, exp.Literal) and str(value.this).isdecimal() else None


Headers = tuple[str | None, ...]
"""A name for each item in SELECT: None if the database derives the name itself; `STAR` for several columns."""

STAR: Final = "*"
"""Represents an item that may be any number of columns."""

_CALL: Final = re.compile(r"(?:\w+\.)*(\w+)\s*\(")
_NO_NAMES: Final = frozenset({"cast", "interval"})
_OPERATOR: Final = re.compile(r"[-+*/^%|&#<>=~@!]")

_CLAUSES: Final = frozenset(
    {"FROM", "WHERE", "GROUP_BY", "HAVING", "ORDER_BY", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "WINDOW", "SEMICOLON"}
    | {"FETCH", "OFFSET", "INTO", "FOR", "HAVING"}
)
_BEHIND_SELECT: Final = frozenset({"DISTINCT", "ALL", "STRAIGHT_JOIN"})


def written_headers(sql: str, tree: exp.Query, dialect: str) -> Headers:
    """Return the names that the database takes from the text `sql`, or none if it takes none or this is unclear."""
    from sqlglot import Dialect

    source = dialect_named(dialect).headers_from
    if not source:
        return ()
    first = _first_select(tree)
    if first is None:
        return ()
    pieces = list(_pieces(sql, Dialect.get_or_raise(dialect).tokenize(sql)))
    if len(pieces) != len(first.expressions):
        return ()
    headers = tuple(map(_header, pieces, first.expressions))
    if source == "text":
        return headers
    named = zip(headers, first.expressions, strict=True)
    found = tuple(STAR if text == STAR else _called(text, item.sql(dialect)) for text, item in named)
    return found if any(name not in (None, STAR) for name in found) else ()


def _called(text: str | None, rendered: str) -> str | None:
    """Return the function name that a column name comes from, if it differs from the rewritten one."""
    written, own = _CALL.match(text or ""), _CALL.match(rendered)
    if text is None or own is None or own[1].lower() in _NO_NAMES:
        return None
    if written is None:
        return "?column?" if _OPERATOR.search(text) else None
    return None if written[1].lower() == own[1].lower() else written[1].lower()


def with_headers(found: Sequence[str], headers: Headers) -> tuple[str, ...]:
    """Return the column names combined with those from the text, up to the first star and after the last."""
    if STAR not in headers:
        return _put(found, headers) if len(found) == len(headers) else tuple(found)
    stars = [place for place, name in enumerate(headers) if name == STAR]
    before, behind = headers[: stars[0]], headers[stars[-1] + 1 :]
    if len(found) < len(before) + len(behind):
        return tuple(found)
    middle = len(found) - len(before) - len(behind)
    return _put(found, (*before, *(None,) * middle, *behind))


def _put(found: Sequence[str], headers: Headers) -> tuple[str, ...]:
    return tuple(own if name is None else name for own, name in zip(found, headers, strict=True))


def _first_select(tree: exp.Expr) -> exp.Select | None:
    """Return the SELECT that names a query's columns."""
    while isinstance(tree, exp.SetOperation | exp.Subquery):
        tree = tree.this
    return tree if isinstance(tree, exp.Select) else None


def _header(piece: str, item: exp.Expr) -> str | None:
    if isinstance(item, exp.Star) or (isinstance(item, exp.Column) and isinstance(item.this, exp.Star)):
        return STAR
    return None if isinstance(item, exp.Alias | exp.Column) else piece


def _pieces(sql: str, tokens: Sequence[Any]) -> Iterator[str]:
    """Yield the text of each item in the first SELECT outside WITH."""
    depth, start, level = 0, None, 0
    for place, token in enumerate(tokens):
        kind = token.token_type.name
        if start is None:
            if kind == "SELECT" and not _in_with(tokens, place):
                start, level = place + 1, depth
                while start < len(tokens) and tokens[start].text.upper() in _BEHIND_SELECT:
                    start += 1
        elif depth == level and (kind == "COMMA" or kind in _CLAUSES):
            yield _text(sql, tokens[start:place])
            start = place + 1
            if kind != "COMMA":
                return
        depth += (kind in ("L_PAREN", "L_BRACKET")) - (kind in ("R_PAREN", "R_BRACKET"))
        if start is not None and depth < level:
            yield _text(sql, tokens[start:place])
            return
    if start is not None:
        yield _text(sql, tokens[start:])


def _in_with(tokens: Sequence[Any], select: int) -> bool:
    """Return whether a SELECT is in parentheses after AS, like the parts of WITH."""
    depth = 0
    for place in range(select - 1, -1, -1):
        kind = tokens[place].token_type.name
        depth += (kind == "R_PAREN") - (kind == "L_PAREN")
        if depth < 0:
            return place > 0 and tokens[place - 1].text.upper() == "AS"
    return False


def _text(sql: str, tokens: Sequence[Any]) -> str:
    return sql[tokens[0].start : tokens[-1].end + 1] if tokens else ""
