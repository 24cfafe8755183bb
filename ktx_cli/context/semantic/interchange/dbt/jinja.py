"""The Jinja of dbt's YAML: the calls that are known are resolved, all others refused. Nothing is executed."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import one_line

_EXPRESSION: Final = re.compile(r"\{\{(.*?)\}\}", re.DOTALL)
_COMMENT: Final = re.compile(r"\{#.*?#\}", re.DOTALL)
_LONGEST: Final = 1000
_FAULTS: Final = (SyntaxError, ValueError, RecursionError, MemoryError)


class UnresolvedError(KtxError):
    """A piece of Jinja, or what it names, that has no meaning here."""

    code = "config"


TARGET_NAME: Final = "target.name"
"""What dbt calls the name of the profile's target: the one name that is known without a call."""


@dataclass(frozen=True, slots=True)
class Call:
    """A call: `name`, its arguments, and the calls chained to it, such as `.grain('month')`; or `TARGET_NAME`."""

    name: str
    arguments: tuple[Any, ...]
    named: Mapping[str, Any]
    chained: tuple[tuple[str, tuple[Any, ...]], ...] = ()

    @property
    def shown(self) -> str:
        """What it is called in messages."""
        return self.name if self.name == TARGET_NAME else f"{self.name}()"

    def argument(self, index: int, name: str) -> Any:
        """Return an argument by its place or name, None where it is not given."""
        return self.arguments[index] if index < len(self.arguments) else self.named.get(name)


def render(text: str, resolve: Callable[[Call], str]) -> str:
    """Return the text with every `{{ call }}` replaced by what `resolve` gives; raises `UnresolvedError`."""
    plain = _COMMENT.sub("", text)
    if "{%" in plain:
        raise UnresolvedError(f"it holds a Jinja statement: {one_line(text, 80)}", hint="write its outcome")
    rendered = _EXPRESSION.sub(lambda found: resolve(parse_call(found[1])), plain)
    if "{{" in rendered or "}}" in rendered:
        raise UnresolvedError(f"its Jinja cannot be read: {one_line(text, 80)}", hint="close every {{ with }}")
    return rendered.strip()


def parse_call(text: str) -> Call:
    """Return the call a piece of Jinja is; raises `UnresolvedError` for anything else."""
    shown = one_line(text.strip(), 60)
    if shown == TARGET_NAME:
        return Call(TARGET_NAME, (), {})
    try:
        tree = ast.parse(text.strip()[:_LONGEST], mode="eval").body
        return _call(tree)
    except _FAULTS:
        raise UnresolvedError(f"the Jinja `{shown}` is no call that is known", hint="write its outcome") from None


def _call(tree: ast.expr) -> Call:
    if not isinstance(tree, ast.Call):
        raise ValueError
    arguments = tuple(map(ast.literal_eval, tree.args))
    if isinstance(tree.func, ast.Attribute):
        inner = _call(tree.func.value)
        return Call(inner.name, inner.arguments, inner.named, (*inner.chained, (tree.func.attr, arguments)))
    if not isinstance(tree.func, ast.Name):
        raise ValueError
    named = {each.arg: ast.literal_eval(each.value) for each in tree.keywords if each.arg}
    return Call(tree.func.id, arguments, named)
