"""A file of answers: YAML that says what `ktx setup` would ask, the connections as in `ktx.yaml`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ktx_cli.core import ConfigError, UsageError, did_you_mean, listing, yaml
from ktx_cli.jobs.clients.targets import Scope, Target
from ktx_cli.jobs.setup.answers import (
    DATABASE_WORDS,
    MODEL_KEYS,
    SOURCE_WORDS,
    AgentsAnswer,
    Answers,
    Build,
    ConnectionAnswer,
    EmbeddingAnswer,
    Keeping,
    ModelAnswer,
    Word,
    words_of,
)
from ktx_cli.project import MASK, SOURCES, WAREHOUSES, Block, Setting, errors_of, find_model, read_bytes, settings_of


class _Form(BaseModel):
    model_config = ConfigDict(extra="forbid", hide_input_in_errors=True)


class _Llm(_Form):
    backend: str | None = None
    model: str | None = None
    models: dict[str, str] = Field(default_factory=dict)
    api_key: str | None = None
    base_url: str | None = None
    location: str | None = None
    project: str | None = None
    auth: str | None = None
    descriptions: str | None = None


class _Embeddings(_Form):
    backend: str | None = None
    model: str | None = None
    dimensions: int | None = Field(None, gt=0, strict=True)
    api_key: str | None = None
    base_url: str | None = None


class _Agents(_Form):
    targets: list[Target] = Field(min_length=1)
    scope: Scope | None = None


class _File(_Form):
    llm: _Llm | None = None
    embeddings: _Embeddings | None = None
    databases: dict[str, dict[str, Any]] = Field(default_factory=dict)
    sources: dict[str, dict[str, Any]] = Field(default_factory=dict)
    build: Build | None = None
    agents: _Agents | None = None
    secrets: Keeping = Keeping.FILE


_FORMS: Final[dict[str, type[_Form]]] = {"llm": _Llm, "embeddings": _Embeddings, "agents": _Agents}
EXAMPLE: Final = "databases: {warehouse: {driver: sqlite, path: shop.sqlite}}"


def load_answers(path: Path) -> Answers:
    """Return the answers in a file.

    Raises `UsageError` where there is no file, `ConfigError` where it says something that is no answer.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder, and answers are in a file", hint="--answers FILE")
    text = read_bytes(path.absolute())
    if text is None:
        raise UsageError(f"there is no file {path}", hint=f"write the answers into it, for example: {EXAMPLE}")
    value = _read(text, path)
    if not isinstance(value, dict):
        raise ConfigError(f"{path} is no mapping of answers", hint=f"for example: {EXAMPLE}")
    try:
        return _answers(_File.model_validate(value), path)
    except ValidationError as error:
        raise _refused(path, error) from None


def _read(text: bytes, path: Path) -> Any:
    """Return what the YAML says; what looks like an alias or a tag may be a secret that nobody quoted."""
    try:
        found = yaml.load(text, where=str(path))
    except ConfigError as error:
        message = error.message.removeprefix(str(path))
        raise ConfigError(f"{path}{_NAME.sub(MASK, message)}", hint=_NAME.sub(MASK, error.hint or "")) from None
    return {} if found is None else found


_NAME: Final = re.compile(r"(?<=[*!&])[^\s',]+")


def _answers(form: _File, path: Path) -> Answers:
    llm = None
    if form.llm is not None:
        models = {**({"default": form.llm.model} if form.llm.model else {}), **form.llm.models}
        provider = {key: value for key in MODEL_KEYS if (value := getattr(form.llm, key)) is not None}
        llm = ModelAnswer(form.llm.backend, models, provider, form.llm.descriptions)
    agents = None if form.agents is None else AgentsAnswer(tuple(form.agents.targets), form.agents.scope)
    embeddings = None if form.embeddings is None else EmbeddingAnswer(**form.embeddings.model_dump())
    databases = tuple(_connections(form.databases, WAREHOUSES.names(), "databases", path))
    sources = tuple(_connections(form.sources, SOURCES.names(), "sources", path))
    return Answers(llm, embeddings, databases, sources, form.build, agents, form.secrets)


def _connections(
    entries: dict[str, dict[str, Any]], drivers: tuple[str, ...], block: str, path: Path
) -> Iterable[ConnectionAnswer]:
    for name, fields in entries.items():
        driver = fields.get("driver")
        if driver not in drivers:
            where = f"`{block}.{name}.driver`"
            message = f"is `{driver}`" if driver else "is missing"
            raise ConfigError(f"{path}: {where} {message}", hint=_near(str(driver), drivers))
        yield ConnectionAnswer(fields, name)


def _near(word: str, known: tuple[str, ...]) -> str:
    near = did_you_mean(word, known)
    return f"did you mean `{near}`?" if near else f"one of {listing(known, len(known))}"


def _refused(path: Path, error: ValidationError) -> ConfigError:
    """Return the error for the first thing that is no answer."""
    first = error.errors()[0]
    keys = [str(key) for key in first["loc"]]
    where = f"`{'.'.join(keys)}`"
    if first["type"] == "extra_forbidden":
        form = _FORMS.get(keys[0], _File) if len(keys) > 1 else _File
        known = tuple(form.model_fields)
        return ConfigError(f"{path}: {where} is nothing setup asks for", hint=_near(keys[-1], known))
    if first["type"] == "enum" and isinstance(first["input"], str):
        choices = tuple(re.findall(r"'([^']*)'", first["ctx"]["expected"]))
        return ConfigError(f"{path}: {where} cannot be `{first['input']}`", hint=_near(first["input"], choices))
    issue = errors_of(error, {})[0]
    return ConfigError(f"{path}: {issue.message}", hint=issue.hint or f"for example: {EXAMPLE}")


def declared(driver: str, dotted: str) -> Setting | None:
    """Return the setting a dotted key of a driver names, None where it has none."""
    block: type[Block] | None = find_model(driver)
    found: Setting | None = None
    for key in dotted.split("."):
        found = None if block is None else settings_of(block).get(key)
        if found is None:
            return None
        block = found.block
    return found


def key_of(word: Word, driver: str) -> str | None:
    """Return the dotted key of a word with a driver, None where the driver has nothing of the kind."""
    return next((key for key in word.keys if declared(driver, key) is not None), None)


def fields_of(driver: str, given: Mapping[str, Any], words: tuple[Word, ...], *, flag: str) -> dict[str, Any]:
    """Return a connection's fields as `ktx.yaml` has them, from the values by word.

    `flag`: how the words begin on the command line. Raises `UsageError` for a word that the driver has nothing for.
    """
    fields: dict[str, Any] = {"driver": driver}
    for word in words:
        value = given.get(word.name)
        if value is None or value == []:
            continue
        key = key_of(word, driver)
        if key is None:
            usable = [f"{flag}{each.name}" for each in words if key_of(each, driver) is not None]
            raise UsageError(
                f"the driver `{driver}` takes no {flag}{word.name}", hint=f"it takes {listing(usable, len(usable))}"
            )
        put(fields, key, typed(driver, key, value))
    return fields


def ordered(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a connection's fields in the one order they are written in, however they were answered: as they are asked.

    What is not asked for comes behind, as the driver's settings have it, and unknown keys as they were given.
    """
    driver = fields["driver"]
    model = find_model(driver)
    if model is None:
        return dict(fields)
    words = words_of(driver, DATABASE_WORDS if driver in WAREHOUSES else SOURCE_WORDS)
    asked = ["driver", *(key for word in words if (key := key_of(word, driver)) is not None)]
    return _ordered(model, fields, asked)


def _ordered(
    block: type[Block] | None, fields: Mapping[str, Any], asked: Sequence[str], above: str = ""
) -> dict[str, Any]:
    declared = {} if block is None else settings_of(block)
    known = [*declared]

    def rank(key: str) -> tuple[int, int]:
        dotted = f"{above}{key}."
        first = next((place for place, each in enumerate(asked) if f"{each}.".startswith(dotted)), len(asked))
        return first, known.index(key) if key in declared else len(known)

    found = {}
    for key in sorted(fields, key=rank):
        value, below = fields[key], declared[key].block if key in declared else None
        nested = isinstance(value, Mapping) and below is not None
        found[key] = _ordered(below, value, asked, f"{above}{key}.") if nested else value
    return found


def put(fields: dict[str, Any], dotted: str, value: Any) -> None:
    """Set a dotted key in nested mappings; raises `UsageError` where a key above it is set to something else."""
    *above, name = dotted.split(".")
    for each in above:
        inner = fields.setdefault(each, {})
        if not isinstance(inner, dict):
            raise UsageError(f"`{dotted}` has no place: `{each}` is no mapping", hint="leave one of the two out")
        fields = inner
    fields[name] = value


def read_value(driver: str, dotted: str, text: str, *, where: str) -> Any:
    """Return the value of KEY=VALUE: a secret is the text as it stands, everything else YAML; raises `ConfigError`."""
    setting = declared(driver, dotted)
    return text if setting is not None and setting.secret else yaml.load(text, where=where)


def typed(driver: str, dotted: str, value: Any) -> Any:
    """Return what a person typed as the setting wants it: a port as a number, TLS as true or false."""
    if dotted == "port" and isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if dotted in ("ssl", "encrypt") and value in ("true", "false"):
        return value == "true"
    return value
