"""Computes the new text of `ktx.yaml` from answers, changing only what the answers name."""

from __future__ import annotations

import copy
import functools
import operator
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from pydantic import BaseModel, ConfigDict, Field, ValidationError

from ktx_cli.core import Command, ConfigError, Hint, ResultWarning, UsageError, did_you_mean, listing, yaml
from ktx_cli.jobs.clients.targets import Scope, Target
from ktx_cli.jobs.connections import config_with_connection
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
from ktx_cli.jobs.setup.detect.databases import free_id
from ktx_cli.llm import NO_BACKEND, backend_kinds, find_kind, parse_model_ref
from ktx_cli.project import (
    CONFIG_NAME,
    MASK,
    ROLES,
    SOURCES,
    WAREHOUSES,
    Block,
    KtxConfig,
    Setting,
    connection_of,
    edit,
    errors_of,
    find_model,
    has_password,
    is_literal_secret,
    is_reference,
    load_config,
    parse_cli_value,
    read_bytes,
    redact_url,
    settings_of,
)


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
    profile: str | None = None
    auth: str | None = None
    api: str | None = None
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

    Raises `UsageError` if the file does not exist, `ConfigError` for anything but answers.
    """
    if path.is_dir():
        raise UsageError(f"{path} is a folder, but answers are in a file", hint="use --answers FILE")
    text = read_bytes(path.absolute())
    if text is None:
        raise UsageError(f"{path} does not exist", hint=f"write the answers to it, for example: {EXAMPLE}")
    value = _read(text, path)
    if not isinstance(value, dict):
        raise ConfigError(f"{path} is not a mapping of answers", hint=f"for example: {EXAMPLE}")
    try:
        return _answers(_File.model_validate(value), path)
    except ValidationError as error:
        raise _refused(path, error) from None


def _read(text: bytes, path: Path) -> Any:
    """Return the YAML data; a text that looks like an alias or a tag may be an unquoted secret."""
    try:
        found = yaml.load(text, where=str(path))
    except ConfigError as error:
        message = error.message.removeprefix(str(path))
        raise ConfigError(f"{path}{_NAME.sub(MASK, message)}", hint=_NAME.sub(MASK, error.hint or "")) from None
    return {} if found is None else found


_NAME: Final = re.compile(r"(?<=[*!&])[^\s',]+")


def _answers(form: _File, path: Path) -> Answers:
    llm = embeddings = agents = None
    if form.llm is not None:
        models = {**({"default": form.llm.model} if form.llm.model else {}), **form.llm.models}
        provider = {key: value for key in MODEL_KEYS if (value := getattr(form.llm, key)) is not None}
        llm = ModelAnswer(form.llm.backend, models, provider, form.llm.descriptions)
    if form.embeddings is not None:
        embeddings = EmbeddingAnswer(**form.embeddings.model_dump())
    if form.agents is not None:
        agents = AgentsAnswer(tuple(form.agents.targets), form.agents.scope)
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
    return f"did you mean `{near}`?" if near else f"use one of {listing(known, len(known))}"


def _refused(path: Path, error: ValidationError) -> ConfigError:
    """Return the error for the first invalid answer."""
    first = error.errors()[0]
    keys = [str(key) for key in first["loc"]]
    where = f"`{'.'.join(keys)}`"
    if first["type"] == "extra_forbidden":
        form = _FORMS.get(keys[0], _File) if len(keys) > 1 else _File
        known = tuple(form.model_fields)
        return ConfigError(f"{path}: {where} is not a setup answer", hint=_near(keys[-1], known))
    if first["type"] == "enum" and isinstance(first["input"], str):
        choices = tuple(re.findall(r"'([^']*)'", first["ctx"]["expected"]))
        return ConfigError(f"{path}: {where} cannot be `{first['input']}`", hint=_near(first["input"], choices))
    issue = errors_of(error, {})[0]
    return ConfigError(f"{path}: {issue.message}", hint=issue.hint or f"for example: {EXAMPLE}")


def declared(driver: str, dotted: str) -> Setting | None:
    """Return the setting for a driver's dotted key, or None if there is none."""
    block: type[Block] | None = find_model(driver)
    found: Setting | None = None
    for key in dotted.split("."):
        found = None if block is None else settings_of(block).get(key)
        if found is None:
            return None
        block = found.block
    return found


def key_of(word: Word, driver: str) -> str | None:
    """Return the dotted key for a driver's word, or None if the driver has no such setting."""
    return next((key for key in word.keys if declared(driver, key) is not None), None)


def fields_of(driver: str, given: Mapping[str, Any], words: tuple[Word, ...], *, flag: str) -> dict[str, Any]:
    """Return a connection's fields for `ktx.yaml`, from the values by word.

    `flag`: the prefix of flags. Raises `UsageError` for a word that the driver does not have.
    """
    fields: dict[str, Any] = {"driver": driver}
    for word in words:
        value = given.get(word.name)
        if value is None or value == []:
            continue
        key = key_of(word, driver)
        if key is None:
            usable = [f"{flag}{each.name}" for each in words if key_of(each, driver) is not None]
            message = f"the driver `{driver}` does not accept {flag}{word.name}"
            raise UsageError(message, hint=f"it accepts {listing(usable, len(usable))}")
        put(fields, key, typed(driver, key, value))
    return fields


def ordered(fields: Mapping[str, Any]) -> dict[str, Any]:
    """Return a connection's fields in the order of the questions, regardless of how they were answered.

    Fields without a question follow in the order of the driver's settings, then unknown keys as given.
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
    """Set a dotted key in nested mappings; raises `UsageError` if a parent key has another value."""
    *above, name = dotted.split(".")
    for each in above:
        inner = fields.setdefault(each, {})
        if not isinstance(inner, dict):
            raise UsageError(f"cannot set `{dotted}`, because `{each}` is not a mapping", hint="remove one of the two")
        fields = inner
    fields[name] = value


def read_value(driver: str, dotted: str, text: str, *, where: str) -> Any:
    """Return the value in KEY=VALUE: the literal text of a secret, YAML otherwise; raises `ConfigError`."""
    setting = declared(driver, dotted)
    return text if setting is not None and setting.secret else yaml.load(text, where=where)


def typed(driver: str, dotted: str, value: Any) -> Any:
    """Return typed text in the setting's type: a port as a number, TLS as true or false."""
    if dotted == "port" and isinstance(value, str) and value.isascii() and value.isdigit():
        return int(value)
    if dotted in ("ssl", "encrypt") and value in ("true", "false"):
        return value == "true"
    return value


NEW_CONFIG: Final = b"""\
# The settings of this ktx project. `ktx config schema` describes every setting.
semantic:
  layout: per-table  # a file for each table; the TypeScript ktx needs `per-schema`
llm:
  provider:
    backend: none
"""

Same = Callable[[Any, Any], bool]
Keep = Callable[[str, str], str]
"""Stores a secret under a name and returns the reference to it."""


@dataclass(slots=True)
class Planned:
    """The planned `ktx.yaml`. `connections`: the ids of those that the answers are about."""

    text: bytes
    connections: list[str] = field(default_factory=list)


def planned(answers: Answers, before: bytes | None, same: Same = operator.eq) -> Planned:
    """Return the text of `ktx.yaml` after the answers; `before` None: there is none yet.

    `same` compares a setting with an answer; a reference to a secret equals the secret.

    Raises `ConfigError` for an answer that no setting accepts, `UsageError` for one that contradicts what exists.
    """
    plan = Planned(NEW_CONFIG if before is None else before)
    config = load_config(Path(CONFIG_NAME), data=plan.text).config
    settings: dict[str, Any] = {}
    if answers.llm is not None:
        settings |= _model_settings(config, answers.llm)
    if answers.embeddings is not None:
        settings |= _embedding_settings(config, answers.embeddings)
    for dotted, given in settings.items():
        if given is None:
            plan.text = edit.delete_value(plan.text, tuple(dotted.split(".")), where=CONFIG_NAME)
            continue
        value = parse_cli_value(dotted, given) if isinstance(given, str) else given
        plan.text = edit.set_value(plan.text, tuple(dotted.split(".")), value, where=CONFIG_NAME)
    for answer in answers.connections:
        _add_connection(plan, answer, same)
    return plan


def _model_settings(config: KtxConfig, answer: ModelAnswer) -> dict[str, str]:
    _require_no_password(answer.provider.get("base_url"))
    found = model_settings(config, answer.backend, answer.models.get("default"), answer.provider)
    for role in answer.models:
        if role not in ROLES:
            raise UsageError(f"there is no role `{role}`", hint=f"roles: {', '.join(ROLES)}")
    for role in ROLES:
        model = answer.models.get(role)
        if role != "default" and model is not None and config.llm.models.get(role) != model:
            found[f"llm.models.{role}"] = model
    if answer.descriptions is not None and answer.descriptions != config.scan.enrichment.mode:
        found["scan.enrichment.mode"] = answer.descriptions
    return found


def _require_no_password(address: str | None) -> None:
    """Raise for a URL with a password in a setting that accepts no reference, because it would be plaintext."""
    if address is not None and has_password(address):
        says = f"the URL {redact_url(address)} contains a password, which would be written to ktx.yaml"
        raise UsageError(says, hint="pass the URL without it")


def _embedding_settings(config: KtxConfig, answer: EmbeddingAnswer) -> dict[str, Any]:
    now = config.ingest.embeddings
    backend = answer.backend or now.backend
    if backend == "sentence-transformers":
        _require_no_password(answer.base_url)
    places = {"openai": ("openai.api_key", "openai.base_url"), "sentence-transformers": ("", _SERVER)}
    key, address = places.get(backend, ("", ""))
    wanted: dict[str, Any] = {"backend": answer.backend, "model": answer.model, "dimensions": answer.dimensions}
    for value, place, flag in ((answer.api_key, key, "api-key"), (answer.base_url, address, "base-url")):
        if value is not None and not place:
            raise UsageError(f"the embeddings backend `{backend}` does not accept --embedding-{flag}", hint="omit it")
        if value is not None:
            wanted[place] = value
    having = now.model_dump(by_alias=False)
    having |= {f"openai.{name}": value for name, value in having["openai"].items()}
    having[_SERVER] = now.sentence_transformers.base_url
    changes = {
        f"ingest.embeddings.{place}": value
        for place, value in wanted.items()
        if value is not None and value != having[place]
    }
    if answer.api_key == "":
        changes.pop(f"ingest.embeddings.{key}", None)
        changes |= {f"ingest.embeddings.{key}": None} if having[key] is not None else {}
    return changes


_SERVER: Final = "sentenceTransformers.base_url"


def _add_connection(plan: Planned, answer: ConnectionAnswer, same: Same) -> None:
    config = load_config(Path(CONFIG_NAME), data=plan.text).config
    connection = answer.id or id_for(config, answer.fields, same)
    plan.connections.append(connection)
    existing, fields = config.connections.get(connection), ordered(answer.fields)
    if existing is None:
        plan.text = config_with_connection(plan.text, connection, fields)
        return
    if existing.driver != answer.driver:
        kind = "database" if answer.driver in WAREHOUSES else "source"
        message = f"connection `{connection}` has the driver `{existing.driver}`, not `{answer.driver}`"
        raise UsageError(message, hint=f"use --{kind}-connection-id to choose another id")
    left: list[tuple[tuple[str, ...], Any]] = [(("connections", connection), fields)]
    while left:
        keys, value = left.pop(0)
        if isinstance(value, dict) and value:
            left[:0] = [((*keys, key), each) for key, each in value.items()]
        else:
            plan.text = edit.set_value(plan.text, keys, value, where=CONFIG_NAME)
    connection_of(load_config(Path(CONFIG_NAME), data=plan.text).config, connection)


def id_for(config: KtxConfig, fields: Mapping[str, Any], same: Same = operator.eq) -> str:
    """Return the id of the connection to this same database or source, else a free id."""
    telling = sorted({*_ADDRESSES, *fields} - _CHANGEABLE)
    for name, entry in config.connections.items():
        shown = entry.model_dump(by_alias=True)
        if entry.driver == fields["driver"] and all(_is_same(shown.get(key), fields.get(key), same) for key in telling):
            return name
    first = "warehouse" if fields["driver"] in WAREHOUSES else str(fields["driver"])
    return free_id(first, config.connections)


def _is_same(configured: Any, given: Any, same: Same) -> bool:
    """Return whether a setting equals the answer; for a block, only the answered parts are compared."""
    if isinstance(given, dict) and isinstance(configured, dict):
        return all(_is_same(configured.get(key), value, same) for key, value in given.items())
    return same(configured, given)


_ADDRESSES: Final = {"url", "path", "host", "database"}
_CHANGEABLE: Final = {
    "include", "exclude", "enabled_tables", "context", "password",
    "schemas", "schema_names", "dataset_ids", "databases",
}  # fmt: skip


def kept(answers: Answers, keep: Keep, ids: Sequence[str]) -> Answers:
    """Return the answers with every plaintext secret stored elsewhere; `ids` names the connections."""
    llm, embeddings = answers.llm, answers.embeddings
    if llm is not None and (key := llm.provider.get("api_key")) and not is_reference(key):
        name = f"llm-{llm.backend or 'provider'}-api-key"
        llm = replace(llm, provider={**llm.provider, "api_key": keep(name, key)})
    if embeddings is not None and (key := embeddings.api_key) and not is_reference(key):
        embeddings = replace(embeddings, api_key=keep("embeddings-api-key", key))
    if embeddings is not None and (address := embeddings.base_url) and has_password(address):
        embeddings = replace(embeddings, base_url=keep("embeddings-base-url", address))
    connections = [
        ConnectionAnswer(without_literals(answer.fields, keep, name), name)
        for answer, name in zip(answers.connections, ids, strict=True)
    ]
    databases = tuple(connections[: len(answers.databases)])
    sources = tuple(connections[len(answers.databases) :])
    return replace(answers, llm=llm, embeddings=embeddings, databases=databases, sources=sources)


def without_literals(fields: Mapping[str, Any], keep: Keep, connection: str) -> Mapping[str, Any]:
    """Return the fields of a connection with a reference instead of every plaintext secret."""
    model = find_model(fields["driver"])
    if model is None:
        return fields
    found = copy.deepcopy(dict(fields))
    for keys in literal_places(model, found):
        holder: Any = functools.reduce(operator.getitem, keys[:-1], found)
        holder[keys[-1]] = keep(f"{connection}-{keys[-1].replace('_', '-')}", holder[keys[-1]])
    return found


def model_settings(
    config: KtxConfig, backend: str | None, model: str | None, provider: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings that change, by dotted name.

    Raises `UsageError` for a field that the backend's provider does not have.
    """
    chosen = backend or config.llm.provider.backend
    wanted = {"llm.provider.backend": backend, "llm.models.default": model}
    kind = find_kind(chosen)
    for name, value in provider.items():
        if kind is None or name not in kind.keys:
            having = " or ".join(each.name for each in backend_kinds() if name in each.keys)
            flag = f"--llm-{name.replace('_', '-')}"
            hint = f"{flag} requires --llm-backend {having}"
            raise UsageError(f"the backend `{chosen}` does not accept {flag}", hint=hint)
        wanted[f"llm.provider.{kind.block}.{kind.keys[name]}"] = value
    return {
        dotted: value for dotted, value in wanted.items() if value is not None and value != _current(config, dotted)
    }


def _current(config: KtxConfig, dotted: str) -> str | None:
    if dotted == "llm.models.default":
        return config.llm.models.get("default")
    found: object = config
    for key in dotted.split("."):
        found = getattr(found, key, None)
    return found if isinstance(found, str) else None


def require_routes(config: KtxConfig, backend: str) -> list[ResultWarning]:
    """Return a warning for every role whose model names a backend other than the configured one.

    Raises `ConfigError` if the default role's model does.
    """
    warnings = []
    for role, text in config.llm.models.items():
        where = f"llm.models.{role}"
        if backend == NO_BACKEND and ":" not in text:
            continue
        route = parse_model_ref(text, backend, where=where).backend
        if route == backend:
            continue
        if role == "default":
            hint: Hint = Command("config", "set", where, "MODEL")
            if backend == NO_BACKEND:
                hint = Hint("remove {} from ktx.yaml, then {}", where, Command("setup", "--llm-backend", NO_BACKEND))
            raise ConfigError(f"`{where}` is `{text}`, which goes to `{route}`", hint=hint)
        message = f"`{where}` is `{text}`, which goes to `{route}`, not to `{backend}`"
        hint = Command("config", "set", where, "MODEL")
        warnings.append(ResultWarning("role_on_other_backend", message, hint=hint))
    return warnings


def literal_places(block: type[Block] | None, fields: Any, above: tuple[str, ...] = ()) -> list[tuple[str, ...]]:
    """Return the keys of plaintext secrets in a connection's fields; an unknown key is judged by its name."""
    known, found = {} if block is None else settings_of(block), []
    for key, value in fields.items():
        setting = known.get(key)
        below = None if setting is None else setting.block
        if isinstance(value, dict) and (setting is None or below is not None):
            found += literal_places(below, value, (*above, key))
        elif isinstance(value, str) and (is_literal_secret(setting, key, value) or has_password(value)):
            found.append((*above, key))
    return found
