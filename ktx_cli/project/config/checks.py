"""Checks of `ktx.yaml` beyond its model: unknown keys, settings without effect, plaintext secrets, contradictions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pydantic import ValidationError

from ktx_cli.core import Command, Hint, Severity, Suggestion, did_you_mean, one_line, yaml
from ktx_cli.project.config.base import Block, Issue, Keys, Setting, is_literal_secret, key_text, named, settings_of
from ktx_cli.project.config.blocks import REQUIRED_SETTINGS, ROLES, missing_settings
from ktx_cli.project.config.connections import find_model, is_foreign
from ktx_cli.project.config.model import SHARED_STORAGE, KtxConfig, Storage
from ktx_cli.project.secrets import has_password, redact_url, variable_named


def key_warnings(raw: Mapping[str, Any]) -> Iterator[Issue]:
    """Warn about keys that ktx does not know and settings that have no effect. `raw` may have any shape."""
    yield from _block_warnings(KtxConfig, raw, ())
    connections = raw.get("connections")
    for connection, entry in connections.items() if isinstance(connections, dict) else ():
        driver = entry.get("driver") if isinstance(entry, dict) else None
        model = find_model(driver)
        if model is not None and not is_foreign(entry):  # otherwise parsing the entry reports the error
            yield from _block_warnings(model, entry, ("connections", connection))
    yield from _role_warnings(raw)


def _block_warnings(model: type[Block], raw: Mapping[str, Any], at: Keys, *, later: bool = False) -> Iterator[Issue]:
    """Whether nothing in the block is used yet, regardless of the status of its settings."""
    known = settings_of(model)
    for key, value in raw.items():
        declared = known.get(key)
        unread = later or (declared is not None and declared.status == "later")
        if declared is None:
            yield _unknown((*at, key), known)
        elif declared.status == "dead":
            yield _without_effect((*at, key))
        elif declared.block is not None and isinstance(value, dict):
            yield from _block_warnings(declared.block, value, (*at, key), later=unread)
        elif unread and _changes_something(declared, value):
            yield _not_yet((*at, key))


def _changes_something(declared: Setting, value: Any) -> bool:
    """Other versions write out all defaults, so a default does not show that the user expects an effect."""
    default = declared.default
    return value is not None and not (value == default and isinstance(value, bool) == isinstance(default, bool))


def _role_warnings(raw: Mapping[str, Any]) -> Iterator[Issue]:
    llm = raw.get("llm")
    models = llm.get("models") if isinstance(llm, dict) else None
    for role in models if isinstance(models, dict) else ():
        if role not in ROLES:
            yield _unknown(("llm", "models", role), ROLES)


def rule_warnings(config: KtxConfig) -> Iterator[Issue]:
    """Warn about settings that contradict each other but may still be intended."""
    yield from _backend_warnings(config)
    yield from _storage_warnings(config)
    for position, connection in enumerate(config.setup.database_connection_ids):
        keys = ("setup", "database_connection_ids", str(position))
        if connection not in config.connections:
            near = did_you_mean(connection, config.connections)
            hint = f"did you mean `{near}`?" if near else Command("connection", "list")
            yield _warning(
                "unknown_connection",
                keys,
                f"{named(keys[:2])} refers to `{connection}`, which is not a connection",
                hint,
            )
        elif connection in config.sources():
            says = f"{named(keys[:2])} refers to `{connection}`, which is a context source, not a database"
            yield _warning("unknown_connection", keys, says, "remove it from the list")
    for connection, entry in config.sources().items():
        lack = entry.lack()
        if lack is not None:
            yield _warning("incomplete", ("connections", connection), f"connection `{connection}` {lack[0]}", lack[1])


def _backend_warnings(config: KtxConfig) -> Iterator[Issue]:
    """Warn if a setting that the chosen backend requires is missing."""
    provider = config.llm.provider
    for path, example in missing_settings(provider, provider.backend):
        yield _incomplete(provider.backend, ("llm", "provider", *path.split(".")), Hint("for example {}", example))
    if provider.backend in REQUIRED_SETTINGS and not config.llm.models.get("default"):
        yield _incomplete(
            "configured", ("llm", "models", "default"), Command("config", "set", "llm.models.default", "MODEL")
        )


def _storage_warnings(config: KtxConfig) -> Iterator[Issue]:
    """Warn if the state, the index or the queue should be in Postgres, but no database is named for it."""
    storage = config.storage
    unnamed = without_database(storage)
    if unnamed is not None:
        yield _warning("incomplete", ("storage", unnamed[0]), *unnamed[1:])
    without = without_queue(config)
    if without is not None:
        message = f"{without[0]}, so a run with a model that reads context sources fails"
        yield _warning("incomplete", ("ingest", "executor"), message, without[1])


def without_queue(config: KtxConfig) -> tuple[str, Hint] | None:
    """Return why `ingest.executor` cannot be `postgres`, with both ways out; None if it can, or is not."""
    storage = config.storage
    is_shared = storage.state in SHARED_STORAGE and storage.postgres is not None
    if config.ingest.executor not in SHARED_STORAGE or is_shared:
        return None
    lacks = f"storage.state is `{storage.state}`" if storage.postgres is not None else "storage.postgres is not set"
    alone = Command("config", "unset", "ingest.executor")
    share = Command("config", "set", "storage.state", "postgres")
    if storage.postgres is None:
        share = Command("config", "set", "storage", f"{{state: postgres, postgres: {_EXAMPLE_DATABASE}}}")
    message = f"ingest.executor is `{config.ingest.executor}` and needs the shared state, but {lacks}"
    return message, Hint("to process work units on this host alone: {}; to share the state: {}", alone, share)


_EXAMPLE_DATABASE: Final = "{url: env:KTX_STATE_URL, schema: ktx_NAME}"


def without_database(storage: Storage) -> tuple[str, str, Hint] | None:
    """Return the first setting that needs `storage.postgres`, a message about all of them, and a hint.

    None if `storage.postgres` is set, or no setting needs it. A project of the TypeScript ktx may have such settings
    without a database; ktx then uses files.
    """
    files = {"state": "sqlite", "search": "sqlite-fts5"}
    contents = {"state": "the state", "search": "the search index"}
    values = {name: getattr(storage, name) for name in files}
    shared = {name: value for name, value in values.items() if value in SHARED_STORAGE}
    if storage.postgres is not None or not shared:
        return None
    settings = " and ".join(f"storage.{name} is `{value}`" for name, value in shared.items())
    what = " and ".join(contents[name] for name in shared)
    message = f"{settings}, but storage.postgres is not set, so ktx keeps {what} in files"
    share = Command("config", "set", "storage.postgres", _EXAMPLE_DATABASE)
    alone = Command("config", "set", "storage", yaml.flow({name: files[name] for name in shared}))
    hint = Hint("to share {} with other hosts: {}; to keep using files: {}", what, share, alone)
    return next(iter(shared)), message, hint


def literal_secrets(config: KtxConfig) -> Iterator[Issue]:
    """Warn about secrets in the file, and about `$NAME`, which ktx does not expand."""
    for keys, declared, value in values_of(config):
        if not isinstance(value, str):
            continue
        name, path = variable_named(value), named(keys)
        if name is not None:
            says = f"{path} contains a shell variable, which ktx does not expand"
            yield _warning("variable", keys, says, f"did you mean env:{name}?")
        elif has_password(value):
            says = f"{path} contains a plaintext password"
            hint = "move the whole URL to a variable or a file: env:NAME, file:PATH"
            yield _warning("literal_secret", keys, says, hint)
        elif is_literal_secret(declared, keys[-1], value):
            says = f"{path} contains a plaintext secret"
            hint = "move it to a variable, a file or the keyring: env:NAME, file:PATH"
            yield _warning("literal_secret", keys, says, hint)


def values_of(block: Block, at: Keys = ()) -> Iterator[tuple[Keys, Setting | None, Any]]:
    """Yield the path, setting (None for an unknown key) and value of every scalar that a configuration sets."""
    for declared in settings_of(type(block)).values():
        if declared.attribute in block.model_fields_set:
            yield from _values(getattr(block, declared.attribute), declared, (*at, declared.key))
    for key, value in (block.model_extra or {}).items():
        yield from _values(value, None, (*at, key))


def _values(value: Any, declared: Setting | None, at: Keys) -> Iterator[tuple[Keys, Setting | None, Any]]:
    if isinstance(value, Block):
        yield from values_of(value, at)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _values(item, declared, (*at, key))
    elif isinstance(value, list):
        for position, item in enumerate(value):
            yield from _values(item, declared, (*at, str(position)))
    else:
        yield at, declared, value


def _unknown(keys: Keys, known: Mapping[str, Any]) -> Issue:
    near = did_you_mean(keys[-1], known)
    hint = Hint("did you mean `{}`?", Suggestion(near)) if near else f"known settings: {', '.join(known)}"
    return _warning("unknown_key", keys, f"{named(keys)} is not a ktx setting, so it has no effect", hint)


def _without_effect(keys: Keys) -> Issue:
    return _warning("no_effect", keys, f"{named(keys)} has no effect", "it is a setting of other versions of ktx")


def _not_yet(keys: Keys) -> Issue:
    return _warning("not_yet", keys, f"{named(keys)} has no effect in this version yet", None)


def _incomplete(backend: str, keys: Keys, hint: str) -> Issue:
    return _warning("incomplete", keys, f"{named(keys)} is not set, but the {backend} backend requires it", hint)


def _warning(code: str, keys: Keys, message: str, hint: str | None) -> Issue:
    return Issue(keys, message, hint, Severity.WARNING, code)


KEY_OF_MAPPING: Final = "[key]"
"""Pydantic's marker in a path for an error about a key itself."""


def errors_of(error: ValidationError, raw: Mapping[str, Any], at: Keys = ()) -> list[Issue]:
    """Return pydantic's errors in ktx's words. `raw`: the whole file; `at`: the path of the validated part."""
    return [_issue(item, raw, at) for item in error.errors(include_url=False)]


def _issue(item: Mapping[str, Any], raw: Mapping[str, Any], at: Keys) -> Issue:
    context = item.get("ctx") or {}
    keys = (*at, *(key_text(part) for part in item["loc"] if part != KEY_OF_MAPPING))
    if context.get("key"):
        keys = (*keys, context["key"])
    setting, below = setting_at(keys, raw)
    fault = _Fault(keys, item["input"], context, setting, _example(setting, below))
    kind = item["type"]
    says, hint = WORDS.get(kind, _other)(fault)
    of_value = kind in _KINDS or context.get("of_value", False)
    return Issue(
        keys,
        f"{named(keys)} {says}",
        hint,
        code="id" if KEY_OF_MAPPING in item["loc"] else "invalid",
        missing=kind == "missing",
        is_rule=kind == "rule",
        refuses_text=of_value and isinstance(item["input"], str) and item["input"] != "",
    )


def setting_at(keys: Keys, raw: Mapping[str, Any]) -> tuple[Setting | None, Keys]:
    """Return the setting that a path names or starts with, and the rest of the path; None if there is none."""
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
    return find_model(driver)


def example_at(keys: Keys, raw: Mapping[str, Any], *below: str) -> str | None:
    """Return a YAML example of the setting at a path, or None if there is none."""
    setting, rest = setting_at((*keys, *filter(None, below)), raw)
    return _example(setting, rest)


def _example(setting: Setting | None, below: Keys) -> str | None:
    """Return a YAML example of the value, or the default if there is no other."""
    if setting is None or setting.block is not None:
        return None
    value = (setting.field.examples or [setting.default])[0]
    for _ in below:
        parts = list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []
        value = parts[0] if parts else None
    return None if value is None or value in ("", [], {}) else yaml.flow(value)


@dataclass(frozen=True, slots=True)
class _Fault:
    """One pydantic error: its location, the rejected value, pydantic's context, and the setting."""

    keys: Keys
    value: Any
    context: Mapping[str, Any]
    setting: Setting | None
    example: str | None

    @property
    def value_text(self) -> str:
        """Describe the value; show only its type if it may be secret."""
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

    def suggested(self, value: str) -> Suggestion:
        """Return a value as text to write in the setting."""
        return Suggestion(value, ".".join(self.keys))

    def hint(self, words: str | None = None) -> str | None:
        """Return a hint: the words, and the example if there is one."""
        example = None if self.example is None else f"for example {self.example}"
        return ", ".join(filter(None, [words, example])) or None


_Words = tuple[str, str | None]


def _rule(fault: _Fault) -> _Words:
    says = fault.context["message"]
    if fault.context.get("of_value") and fault.value is not None and not fault.context["key"]:
        says = f"{says}, not {fault.value_text}"
    return says, fault.context["hint"] or fault.hint()


def _missing(fault: _Fault) -> _Words:
    if fault.example is None:
        return "is missing", "add it"
    return "is missing", Hint("add it, for example `{}: {}`", fault.keys[-1], fault.suggested(fault.example))


def _too_short(fault: _Fault) -> _Words:
    return "is empty", fault.hint("set a value")


def _pattern(fault: _Fault) -> _Words:
    expected = fault.setting.description.partition(". ")[0].rstrip(".") if fault.setting else "in another format"
    return f"cannot be {fault.value_text}; expected: {expected}", fault.hint()


def _choice(fault: _Fault) -> _Words:
    choices = re.findall(r"'([^']*)'", fault.context["expected"])
    known = f"one of {', '.join(choices)}" if len(choices) > 1 else f"`{choices[0]}`"
    if not isinstance(fault.value, str):
        return f"must be {known}, not {fault.value_text}", f"write {known}"
    near = did_you_mean(fault.value, choices)
    says = f"cannot be `{one_line(fault.value, 60)}`; use {known}"
    if near:
        return says, Hint("did you mean `{}`?", fault.suggested(near))
    if len(choices) == 1:
        return says, f"write {known}"
    return says, Hint("write one of {}", Hint.steps(*map(fault.suggested, choices), between=", "))


def _bound(limit: str, words: str) -> Callable[[_Fault], _Words]:
    return lambda fault: (f"must be {words} {fault.context[limit]:g}, not {fault.value}", fault.hint())


def _kind(kind: str, hint: str, hint_for_text: str | None = None) -> Callable[[_Fault], _Words]:
    def words(fault: _Fault) -> _Words:
        advice = hint_for_text if hint_for_text and isinstance(fault.value, str) else hint
        return f"must be {kind}, not {fault.value_text}", fault.hint(advice)

    return words


def _text(fault: _Fault) -> _Words:
    quotes = isinstance(fault.value, int | float)
    return f"must be a text, not {fault.value_text}", "put the value in double quotes" if quotes else fault.hint(
        "write a text"
    )


def _half_character(fault: _Fault) -> _Words:
    return "contains half of a character (a lone surrogate)", fault.hint("write the whole character")


def _other(fault: _Fault) -> _Words:
    return f"cannot be {fault.value_text}", fault.hint() or Hint(
        "run `{}` for the values that each setting accepts", Command("config", "schema")
    )


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
"""Pydantic's error type -> the words after the setting's name, and the hint. A test checks that no type is missing."""

_KINDS: Final = frozenset({"int_type", "float_type", "bool_type", "list_type", "dict_type", "model_type"})
"""Pydantic's errors about values of the wrong type, other than text."""
