"""Pydantic's errors in our words: what the value is, what is expected, and an example where the setting has one."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from ktx_cli.core import yaml
from ktx_cli.core.text import did_you_mean, one_line
from ktx_cli.project.config.base import Block, Setting, settings_of
from ktx_cli.project.config.drivers import DRIVERS, model_of
from ktx_cli.project.config.issues import Issue, Keys, key_text, named
from ktx_cli.project.config.masking import is_literal_secret
from ktx_cli.project.config.root import KtxConfig
from ktx_cli.project.secrets import redact_url

KEY_OF_MAPPING: Final = "[key]"
"""How pydantic marks in a path that the error is about a key itself."""


def errors_of(error: ValidationError, raw: Mapping[str, Any], at: Keys = ()) -> list[Issue]:
    """Return pydantic's errors in our words. `raw`: the whole file; `at`: where in it what was validated stands."""
    return [_issue(item, raw, at) for item in error.errors(include_url=False)]


def _issue(item: Mapping[str, Any], raw: Mapping[str, Any], at: Keys) -> Issue:
    context = item.get("ctx") or {}
    keys = (*at, *(key_text(part) for part in item["loc"] if part != KEY_OF_MAPPING))
    if context.get("key"):
        keys = (*keys, context["key"])
    setting, below = setting_at(keys, raw)
    fault = _Fault(keys, item["input"], context, setting, _example(setting, below))
    says, hint = WORDS.get(item["type"], _other)(fault)
    return Issue(keys, f"{named(keys)} {says}", hint, code="id" if KEY_OF_MAPPING in item["loc"] else "invalid")


def setting_at(keys: Keys, raw: Mapping[str, Any]) -> tuple[Setting | None, Keys]:
    """Return the setting a path is of or leads into, and the rest of the path; None where there is none."""
    block: type[Block] | None = KtxConfig
    position = 0
    if keys[:1] == ("connections",) and len(keys) > 2:
        block, position = _connection_model(keys[1], raw), 2
    while block is not None and position < len(keys):
        declared = settings_of(block).get(keys[position])
        position += 1
        if declared is None or declared.block is None or position == len(keys):
            return declared, keys[position:]
        block = declared.block
    return None, ()


def _connection_model(connection: str, raw: Mapping[str, Any]) -> type[Block] | None:
    connections = raw.get("connections")
    entry = connections.get(connection) if isinstance(connections, dict) else None
    driver = entry.get("driver") if isinstance(entry, dict) else None
    return model_of(driver) if isinstance(driver, str) and driver in DRIVERS else None


def example_at(keys: Keys, raw: Mapping[str, Any], *below: str) -> str | None:
    """Return an example of the setting at a path, as it stands in YAML; None where there is none."""
    setting, rest = setting_at((*keys, *filter(None, below)), raw)
    return _example(setting, rest)


def _example(setting: Setting | None, below: Keys) -> str | None:
    """Return an example of the value as it stands in YAML; the default where there is no other."""
    if setting is None or setting.block is not None:
        return None
    value = (setting.field.examples or [setting.default])[0]
    for _ in below:
        parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        value = parts[0] if parts else None
    return None if value is None or value in ("", [], {}) else yaml.flow(value)


@dataclass(frozen=True, slots=True)
class _Fault:
    """One error of pydantic: where, the value that was refused, what pydantic knows of it, the setting it is of."""

    keys: Keys
    value: Any
    context: Mapping[str, Any]
    setting: Setting | None
    example: str | None

    @property
    def told(self) -> str:
        """Name the value; of what may be secret only its kind."""
        value, key = self.value, self.keys[-1] if self.keys else ""
        hidden = self.setting.secret if self.setting else is_literal_secret(None, key, "x")
        if isinstance(value, bool):
            return "true" if value else "false"
        if isinstance(value, int | float):
            return "a number" if hidden else f"the number {value}"
        if isinstance(value, str):
            text = one_line(redact_url(value), 60)
            return "a text" if hidden else f"the text `{text}`" if text else "an empty text"
        return "a list" if isinstance(value, list) else "a mapping" if isinstance(value, dict) else "nothing"

    def hint(self, words: str | None = None) -> str | None:
        """Return a hint: the words, and the example where there is one."""
        example = None if self.example is None else f"for example {self.example}"
        return ", ".join(filter(None, [words, example])) or None


_Words = tuple[str, str | None]


def _rule(fault: _Fault) -> _Words:
    says = fault.context["message"]
    if says.startswith("must be ") and fault.value is not None and not fault.context["key"]:
        says = f"{says}, not {fault.told}"
    return says, fault.context["hint"] or fault.hint()


def _missing(fault: _Fault) -> _Words:
    return (
        "is missing",
        "add it" if fault.example is None else f"add it, for example `{fault.keys[-1]}: {fault.example}`",
    )


def _too_short(fault: _Fault) -> _Words:
    return "is empty", fault.hint("give it a value")


def _pattern(fault: _Fault) -> _Words:
    expected = fault.setting.description.partition(". ")[0].rstrip(".") if fault.setting else "of another form"
    return f"cannot be {fault.told}; it is: {expected}", fault.hint()


def _choice(fault: _Fault) -> _Words:
    choices = re.findall(r"'([^']*)'", fault.context["expected"])
    known = f"one of {', '.join(choices)}" if len(choices) > 1 else f"`{choices[0]}`"
    if not isinstance(fault.value, str):
        return f"must be {known}, not {fault.told}", f"write {known}"
    near = did_you_mean(fault.value, choices)
    return (
        f"cannot be `{one_line(fault.value, 60)}`; it is {known}",
        f"did you mean `{near}`?" if near else f"write {known}",
    )


def _bound(limit: str, words: str) -> Callable[[_Fault], _Words]:
    return lambda fault: (f"must be {words} {fault.context[limit]:g}, not {fault.value}", fault.hint())


def _kind(kind: str, hint: str, hint_for_text: str | None = None) -> Callable[[_Fault], _Words]:
    def words(fault: _Fault) -> _Words:
        advice = hint_for_text if hint_for_text and isinstance(fault.value, str) else hint
        return f"must be {kind}, not {fault.told}", fault.hint(advice)

    return words


def _text(fault: _Fault) -> _Words:
    quotes = isinstance(fault.value, int | float)
    return f"must be a text, not {fault.told}", "put the value in double quotes" if quotes else fault.hint(
        "write a text"
    )


def _half_character(fault: _Fault) -> _Words:
    return "has half of a character in it (a lone surrogate)", fault.hint("write the whole character")


def _other(fault: _Fault) -> _Words:
    return f"cannot be {fault.told}", fault.hint() or "ktx config schema says what every setting takes"


_LINES: Final = "write `key: value` lines below it, indented"
WORDS: Final[Mapping[str, Callable[[_Fault], _Words]]] = {
    "rule": _rule,
    "missing": _missing,
    "string_type": _text,
    "string_unicode": _half_character,
    "string_too_short": _too_short,
    "string_pattern_mismatch": _pattern,
    "int_type": _kind("a whole number", "write a whole number", "write a whole number, without quotes"),
    "float_type": _kind("a number", "write a number", "write a number, without quotes"),
    "bool_type": _kind("true or false", "write true or false, without quotes"),
    "list_type": _kind("a list", "write a list: [one, two]"),
    "dict_type": _kind("a mapping", _LINES),
    "model_type": _kind("a mapping", _LINES),
    "literal_error": _choice,
    "greater_than": _bound("gt", "more than"),
    "greater_than_equal": _bound("ge", "at least"),
    "less_than_equal": _bound("le", "at most"),
}
"""Pydantic's error type -> what follows the setting's name, and the hint. A test walks the models for missing types."""
