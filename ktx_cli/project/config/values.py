"""`ktx config get/set`: settings by their dotted path."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pydantic import TypeAdapter, ValidationError

from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError, UsageError
from ktx_cli.core.text import did_you_mean, shell_words
from ktx_cli.project.config.base import Block, Setting, settings_of
from ktx_cli.project.config.drivers import DRIVERS, model_of
from ktx_cli.project.config.issues import Issue
from ktx_cli.project.config.llm import ROLES
from ktx_cli.project.config.loader import LoadedConfig
from ktx_cli.project.config.masking import shown
from ktx_cli.project.config.root import KtxConfig
from ktx_cli.project.config.shape import half_characters
from ktx_cli.project.config.wording import errors_of, example_at


def shown_config(loaded: LoadedConfig, *, reveal: bool = False) -> dict[str, Any]:
    """Return all settings in effect by `ktx.yaml` key, defaults included, literal secrets masked."""
    result: dict[str, Any] = shown(loaded.config, reveal=reveal)
    return result


def get_value(loaded: LoadedConfig, dotted: str, *, reveal: bool = False) -> Any:
    """Return the value in effect of a setting or a block, None when it has none; literal secrets masked.

    Raises `UsageError` for a path that is no setting.
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
    """Raise unless the rest of a path exists below a block that is not set."""
    block = declared.block if declared is not None else None
    for depth in range(position, len(keys)):
        known = settings_of(block) if block is not None else {}
        if keys[depth] not in known:
            raise _unknown(keys[: depth + 1], known)
        block = known[keys[depth]].block


def parse_cli_value(dotted: str, text: str, *, driver: str | None = None) -> Any:
    """Return the value a text on the command line stands for, by the setting's type.

    A text setting takes the text as it is; a list takes `a,b` or YAML; every other YAML. `driver` is that of the
    connection; without it the key may be that of any driver. Raises `UsageError` for a path that is no setting, a
    whole block, or a value of the wrong type.
    """
    settings, rest = _declared(dotted, driver)
    at = tuple(dotted.removesuffix(f".{rest}").split(".")) if rest else tuple(dotted.split("."))
    raw = {"connections": {at[1]: {"driver": driver}}} if at[0] == "connections" else {}
    for broken in half_characters(text, tuple(dotted.split("."))):
        raise UsageError(broken.message, hint=broken.hint)
    problems: list[Issue] = []
    for declared in settings:
        if declared.block is not None:
            raise UsageError(
                f"`{dotted}` is a block of settings",
                hint=f"set one of its own, as {dotted}.{next(iter(settings_of(declared.block)))}",
            )
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
    """Return what is wrong with the text, or where no text is wanted at all, with the YAML it is."""
    return next((problem for problem in problems[:2] if ", not the text `" not in problem.message), problems[0])


def _value_hint(dotted: str, problem: Issue, example: str | None) -> str:
    if problem.hint and problem.hint.startswith(("did you mean", "write one of")):
        return problem.hint
    if example is None:
        return "ktx config schema says what every setting takes"
    return f"for example: {shell_words('ktx', 'config', 'set', dotted, example)}"


def _declared(dotted: str, driver: str | None) -> tuple[list[Setting], str]:
    """Return the settings a path may mean, and its rest where the setting is a mapping of free keys."""
    keys = dotted.split(".")
    if keys[0] != "connections":
        return _find([KtxConfig], keys, 0)
    if len(keys) < 3:
        raise UsageError(f"`{dotted}` is a block of settings", hint="set one of its own, as connections.ID.KEY")
    return _find([model_of(name) for name in ([driver] if driver in DRIVERS else DRIVERS)], keys, 2)


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
    """Yield what a text may stand for: itself, the YAML it is, a list of its parts.

    Raises `ConfigError` for what is no YAML (a pattern like `*_tmp` is none) only when nothing else was taken.
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
        hint = f"known here: {', '.join(choices)}" if choices else "ktx config show lists what is set"
    return UsageError(f"`{'.'.join(keys)}` is not a setting of ktx.yaml", hint=hint)
