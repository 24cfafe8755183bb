"""Texts of a dbt project with its doc blocks and variables put in; other Jinja is not executed."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any, Final

from ktx_cli.context.semantic.interchange.dbt.jinja import TARGET_NAME, Call, UnresolvedError, render

_BLOCK: Final = re.compile(r"\{%-?\s*docs\s+(?P<name>\w+)\s*-?%\}(?P<text>.*?)\{%-?\s*enddocs\s*-?%\}", re.DOTALL)
_JINJA: Final = ("{{", "{%", "{#")


class Texts:
    """Renders texts; `docs`: doc block by name, `variables`: what `var()` gives, `target`: what `target.name` is."""

    def __init__(self, docs: Mapping[str, str], variables: Mapping[str, Any], target: str | None = None) -> None:
        self._docs, self._variables, self._target = docs, variables, target

    def rendered(self, text: str) -> str:
        """Return the text; raises `UnresolvedError` for Jinja whose outcome is not known here."""
        if not any(mark in text for mark in _JINJA):
            return text.strip()
        return render(text, self._resolve)

    def _resolve(self, call: Call) -> str:
        names = [each for each in call.arguments if isinstance(each, str)]
        if call.name == "doc" and names:
            if names[-1] not in self._docs:
                raise UnresolvedError(f"there is no doc block `{names[-1]}`", hint="write it into a .md file")
            return self._docs[names[-1]]
        if call.name == "var" and names:
            value = self._variables.get(names[0], call.argument(1, "default"))
            if isinstance(value, str | int | float):
                return str(value)
            raise UnresolvedError(f"the variable `{names[0]}` has no value", hint="set it in dbt_project.yml")
        if call.name == TARGET_NAME and self._target:
            return self._target
        raise UnresolvedError(f"`{call.shown}` has an outcome only dbt knows", hint="run `dbt parse`")


def doc_blocks(text: str) -> dict[str, str]:
    """Return the doc blocks of a Markdown file by name."""
    return {found["name"]: found["text"].strip() for found in _BLOCK.finditer(text)}


def variables_of(project: Mapping[str, Any]) -> dict[str, Any]:
    """Return the variables of `dbt_project.yml`: its own, and those it sets for its own package."""
    found = project.get("vars")
    if not isinstance(found, dict):
        return {}
    own = found.get(str(project.get("name")))
    return {**found, **(own if isinstance(own, dict) else {})}
