"""Settings by dotted path for `ktx config get/set/schema`, resolved for connectors, and as JSON Schema."""

from __future__ import annotations

import copy
from collections.abc import Collection, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import TypeAdapter, ValidationError
from pydantic.json_schema import models_json_schema

from ktx_cli.core import Command, ConfigError, Hint, ResultWarning, Suggestion, UsageError, did_you_mean, yaml
from ktx_cli.project import secrets
from ktx_cli.project.config.base import STATUS_KEY, Block, Issue, Setting, settings_of, shown
from ktx_cli.project.config.blocks import ROLES
from ktx_cli.project.config.checks import errors_of, example_at, values_of
from ktx_cli.project.config.connections import DEVICE_PATTERN, ID_PATTERN, RESERVED_IDS, Connection, find_model, models
from ktx_cli.project.config.file import LoadedConfig, half_characters
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.secrets import SecretRef


def shown_config(loaded: LoadedConfig, *, reveal: bool = False) -> dict[str, Any]:
    """Return all effective settings by `ktx.yaml` key, with defaults, and with literal secrets masked."""
    result: dict[str, Any] = shown(loaded.config, reveal=reveal)
    return result


def get_value(loaded: LoadedConfig, dotted: str, *, reveal: bool = False) -> Any:
    """Return the effective value of a setting or a block, or None if it has none; literal secrets are masked.

    Raises `UsageError` for a path that is not a setting.
    """
    value: Any = loaded.config
    declared: Setting | None = None
    keys = dotted.split(".")
    for position in range(len(keys)):
        value, declared = _step(value, declared, keys[: position + 1])
        if value is None and position + 1 < len(keys):
            _require_known_below(declared, keys, position + 1)
            return None
    return shown(value, declared, keys[-1], reveal=reveal)


def _step(value: Any, declared: Setting | None, keys: Sequence[str]) -> tuple[Any, Setting | None]:
    """Return the value one key further down, and its setting."""
    key = keys[-1]
    if isinstance(value, Block):
        known = settings_of(type(value))
        extra = value.model_extra or {}
        if key in known:
            return getattr(value, known[key].attribute), known[key]
        if key in extra:
            return extra[key], None
        raise _unknown(keys, [*known, *extra])
    if isinstance(value, dict):
        if key in value:
            return value[key], declared
        if keys[:-1] == ["llm", "models"] and key in ROLES:
            return None, declared
        raise _unknown(keys, value)
    if isinstance(value, list) and key.isdecimal() and int(key) < len(value):
        return value[int(key)], declared
    raise _unknown(keys, ())


def _require_known_below(declared: Setting | None, keys: Sequence[str], position: int) -> None:
    """Raise an error unless the rest of a path exists in a block that is not set."""
    block = declared.block if declared is not None else None
    for depth in range(position, len(keys)):
        known = settings_of(block) if block is not None else {}
        if keys[depth] not in known:
            raise _unknown(keys[: depth + 1], known)
        block = known[keys[depth]].block


def parse_cli_settings(dotted: str, text: str, *, driver: str | None = None) -> dict[str, Any]:
    """Return the values of a command-line argument by dotted path: of one setting, or of several settings of a block.

    For a block, the argument is a YAML mapping; settings that it does not name are not part of the result. Raises as
    `parse_cli_value` does.
    """
    settings, _ = _declared(dotted, driver)
    given = _mapping_in(text, dotted) if all(declared.block is not None for declared in settings) else {}
    if not given:
        return {dotted: parse_cli_value(dotted, text, driver=driver)}
    found: dict[str, Any] = {}
    for name, value in given.items():
        inner = value if isinstance(value, str) else yaml.flow(value)
        found |= parse_cli_settings(f"{dotted}.{name}", inner, driver=driver)
    return found


def _mapping_in(text: str, dotted: str) -> dict[Any, Any]:
    """Return the YAML mapping in a text, or an empty one for another text."""
    try:
        found = yaml.load(text, where=dotted)
    except ConfigError:
        return {}
    return found if isinstance(found, dict) else {}


def parse_cli_value(dotted: str, text: str, *, driver: str | None = None) -> Any:
    """Return the value of a command-line argument, converted to the setting's type.

    A text setting takes the argument unchanged; a list takes `a,b` or YAML; all others take YAML. `driver` is that of
    the connection; without it, the key may belong to any driver. Raises `UsageError` for a path that is not a setting,
    a whole block, or a value of the wrong type.
    """
    settings, rest = _declared(dotted, driver)
    at = tuple(dotted.removesuffix(f".{rest}").split(".")) if rest else tuple(dotted.split("."))
    raw = {"connections": {at[1]: {"driver": driver}}} if at[0] == "connections" else {}
    for broken in half_characters(text, tuple(dotted.split("."))):
        raise UsageError(broken.message, hint=broken.hint)
    problems: list[Issue] = []
    for declared in settings:
        if declared.block is not None:
            raise UsageError(f"`{dotted}` is a block of settings", hint=_block_hint(dotted, declared.block))
        adapter: TypeAdapter[Any] = TypeAdapter(declared.field.rebuild_annotation(), config={"strict": True})
        for candidate in _candidates(text, dotted, as_text=declared.field.annotation is not Any):
            try:
                value = adapter.validate_python({rest: candidate} if rest else candidate)
            except ValidationError as error:
                problems += errors_of(error, raw, at)
            else:
                return value[rest] if rest else value
    problem = _best(problems)
    raise UsageError(problem.message, hint=_value_hint(dotted, problem, example_at(at, raw, rest)))


def _best(problems: Sequence[Issue]) -> Issue:
    """Return the error in the text, or in its YAML if the setting is not text."""
    return next((problem for problem in problems[:2] if not problem.refuses_text), problems[0])


def hint_to_set_together(issues: Sequence[Issue], key: str, value: str) -> Hint | None:
    """Return the command that sets a setting with those that its block requires too, if only they are missing."""
    block, _, name = key.rpartition(".")
    missing = [issue.keys for issue in issues if issue.missing and ".".join(issue.keys[:-1]) == block]
    if not missing or len(missing) < len(issues):
        return None
    others = {keys[-1]: example_at(keys, {}) or keys[-1].upper() for keys in missing}
    shown_value = example_at(tuple(key.split(".")), {}) if secrets.has_password(value) else value
    return Hint("set both: {}", Command("config", "set", block, yaml.flow({name: shown_value, **others})))


def _block_hint(dotted: str, block: type[Block]) -> Hint | str:
    """Return how to set a block: all settings that it requires at once, or any one of them."""
    known = settings_of(block)
    required = {
        key: each.field.examples[0] for key, each in known.items() if each.field.is_required() and each.field.examples
    }
    if required:
        return Hint("for example: {}", Command("config", "set", dotted, yaml.flow(required)))
    return f"set one of its settings, such as {dotted}.{next(iter(known))}"


def _value_hint(dotted: str, problem: Issue, example: str | None) -> Hint:
    hint = Hint(problem.hint or "")
    if any(isinstance(part, Suggestion) for part in hint.parts) and not problem.missing:
        return hint
    if example is None:
        return Hint("run {} for the values that each setting accepts", Command("config", "schema"))
    return Hint("for example: {}", Command("config", "set", dotted, example))


def _declared(dotted: str, driver: str | None) -> tuple[list[Setting], str]:
    """Return the settings that a path may refer to, and the rest of the path if the setting is a free mapping."""
    keys = dotted.split(".")
    if keys[0] != "connections":
        return _find([KtxConfig], keys, 0)
    if len(keys) < 3:
        raise UsageError(
            f"`{dotted}` is a block of settings", hint="set one of its settings, such as connections.ID.KEY"
        )
    model = find_model(driver)
    return _find([*models().values()] if model is None else [model], keys, 2)


def _find(models: Sequence[type[Block]], keys: Sequence[str], position: int) -> tuple[list[Setting], str]:
    found = [known[keys[position]] for known in map(settings_of, models) if keys[position] in known]
    if not found:
        raise _unknown(keys[: position + 1], dict.fromkeys(key for model in models for key in settings_of(model)))
    below = keys[position + 1 :]
    blocks = [declared.block for declared in found if declared.block is not None]
    if below and blocks:
        return _find(blocks, keys, position + 1)
    if below and not any(isinstance(declared.default, dict) for declared in found):
        raise _unknown(keys[: position + 2], ())
    if below and list(keys[: position + 1]) == ["llm", "models"] and below[0] not in ROLES:
        raise _unknown(keys, ROLES)
    return found, ".".join(below)


def _candidates(text: str, dotted: str, *, as_text: bool) -> Iterable[Any]:
    """Yield the possible meanings of an argument: the text itself, the YAML in it, a list of its parts.

    Raises `ConfigError` for invalid YAML (such as the pattern `*_tmp`) only if no other meaning was accepted.
    """
    if as_text:
        yield text
    parts = [part.strip() for part in text.split(",") if part.strip()]
    try:
        value = yaml.load(text, where=dotted)
    except ConfigError:
        yield parts
        raise
    yield value
    if not isinstance(value, list | dict):
        yield parts


def _unknown(keys: Sequence[str], known: Iterable[str]) -> UsageError:
    choices = list(known)
    near = did_you_mean(keys[-1], choices)
    if near:
        hint = f"did you mean `{'.'.join([*keys[:-1], near])}`?"
    else:
        hint = (
            f"known settings: {', '.join(choices)}"
            if choices
            else Hint("run {} for the settings in effect", Command("config", "show"))
        )
    message = f"`{'.'.join(keys)}` is not a setting in ktx.yaml"
    if not keys[-1]:
        message = f"a name is missing after `{'.'.join(keys)}`" if len(keys) > 1 else "the key of the setting is empty"
    return UsageError(message, hint=hint)


def resolve_options(
    connection: Connection, *, project_dir: Path, environ: Mapping[str, str], kinds: Collection[str] = secrets.KINDS
) -> dict[str, Any]:
    """Return the fields that the file sets, by `ktx.yaml` key, with every secret reference resolved.

    Defaults are left to the connector. Unknown keys are omitted: the warning about them says that they have no effect,
    and another driver's key would otherwise have one. In a path or a file URL, `file:` is not a reference, and
    paths stay as written. References of kinds not in `kinds` stay unresolved. Raises `SecretError`, or `ConfigError`
    for an invalid port.
    """
    at = f"connections.{connection.id}" if connection.id else connection.driver
    return _Resolver(project_dir, environ, kinds).block(connection, at)


def secret_file_warnings(config: KtxConfig, *, project_dir: Path) -> list[ResultWarning]:
    """Return a warning for every secret file that other users can read."""
    found = (
        secrets.check(value, project_dir=project_dir, where=".".join(keys))
        for keys, declared, value in values_of(config)
        if isinstance(value, str) and declared is not None and not declared.is_path
    )
    return [warning for warning in found if warning is not None]


class _Resolver:
    def __init__(self, project_dir: Path, environ: Mapping[str, str], kinds: Collection[str]) -> None:
        self._project_dir = project_dir
        self._environ = environ
        self._kinds = kinds

    def block(self, block: Block, at: str) -> dict[str, Any]:
        """Return the fields that a block sets, resolved."""
        found: dict[str, Any] = {}
        for key, declared in settings_of(type(block)).items():
            if declared.attribute in block.model_fields_set:
                found[key] = self._value(getattr(block, declared.attribute), declared, f"{at}.{key}")
        return found

    def _value(self, value: Any, declared: Setting, where: str) -> Any:
        if isinstance(value, Block):
            return self.block(value, where)
        if isinstance(value, dict):
            return {key: self._value(item, declared, f"{where}.{key}") for key, item in value.items()}
        if not isinstance(value, str):
            return value
        reference = SecretRef.parse(value)
        if reference is None or reference.kind not in self._kinds or (declared.is_path and reference.kind == "file"):
            if reference is None and (declared.secret or secrets.has_password(value)):
                secrets.remember(value)
            return value
        text = secrets.resolve(value, project_dir=self._project_dir, environ=self._environ, where=where)
        return _port_number(text, where) if declared.key == "port" else text


def _port_number(text: str, where: str) -> int:
    digits = text.strip()
    if not (digits.isascii() and digits.isdigit()) or not 1 <= int(digits) <= 65535:
        raise ConfigError(
            f"the secret reference of {where} does not resolve to a port number", hint="use a port from 1 to 65535"
        )
    return int(digits)


DIALECT: Final = "https://json-schema.org/draft/2020-12/schema"
LATER: Final = "Later"
"""Suffix for the definition of a block that is unused in one place but used in another."""


def json_schema() -> dict[str, Any]:
    """Return the JSON Schema (draft 2020-12); like the file, it allows unknown keys."""
    found = definitions()
    root = found.pop(KtxConfig.__name__)
    root["properties"]["connections"] |= _connections_schema()
    return {"$schema": DIALECT, **root, "title": "ktx.yaml", "$defs": found}


def definitions() -> dict[str, Any]:
    """Return the schema of each block by class name; settings that are not used yet are marked."""
    blocks: list[type[Block]] = [KtxConfig, *models().values()]
    _, schema = models_json_schema([(block, "validation") for block in blocks])
    found: dict[str, Any] = schema["$defs"]
    for model in models().values():
        if model.needs_one_of:
            found[model.__name__]["anyOf"] = [_given(key) for key in model.needs_one_of]
    for definition in [*found.values()]:
        for item in definition["properties"].values():
            if item.get(STATUS_KEY) == "later":
                _mark_later(item, found)
    models_of_roles = found["Llm"]["properties"]["models"]
    models_of_roles["properties"] = {role: {"type": "string", "description": says} for role, says in ROLES.items()}
    return found


def _connections_schema() -> dict[str, Any]:
    """Return the part that selects a connection's schema by its `driver`."""
    known = models()
    chosen = {driver: {"properties": {"driver": {"const": driver}}, "required": ["driver"]} for driver in known}
    cases = [{"if": chosen[driver], "then": {"$ref": f"#/$defs/{known[driver].__name__}"}} for driver in known]
    properties = {"driver": {"enum": list(known), "description": "Type of the connection."}}
    taken = {"anyOf": [{"enum": list(RESERVED_IDS)}, {"pattern": DEVICE_PATTERN}]}
    return {
        "propertyNames": {"pattern": ID_PATTERN, "not": taken},
        "additionalProperties": {"type": "object", "required": ["driver"], "properties": properties, "allOf": cases},
    }


def _given(key: str) -> dict[str, Any]:
    return {"required": [key], "properties": {key: {"minLength": 1}}}


def _mark_later(item: dict[str, Any], definitions: dict[str, Any]) -> None:
    """Mark a setting as not used yet; a block in it becomes a separate copy, since others may use the block."""
    if item[STATUS_KEY] == "used":
        item[STATUS_KEY] = "later"
    for part in (item, *item.get("anyOf", ())):
        if "$ref" in part and not part["$ref"].endswith(LATER):
            name = part["$ref"].rpartition("/")[2]
            part["$ref"] += LATER
            if name + LATER not in definitions:
                definitions[name + LATER] = unread = copy.deepcopy(definitions[name])
                for inner in unread["properties"].values():
                    _mark_later(inner, definitions)
