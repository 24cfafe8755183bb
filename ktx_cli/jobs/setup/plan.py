"""From answers to the text `ktx.yaml` will have: only what the answers name changes."""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, Final

from ktx_cli.core import Command, ConfigError, Hint, ResultWarning, UsageError
from ktx_cli.jobs.connections import config_with_connection
from ktx_cli.jobs.setup.answers import Answers, ConnectionAnswer, EmbeddingAnswer, ModelAnswer
from ktx_cli.jobs.setup.answers_file import ordered
from ktx_cli.jobs.setup.detect.files import free_id
from ktx_cli.jobs.setup.secrets import literal_places
from ktx_cli.llm import NO_BACKEND, PROVIDER_KEYS, parse_model_ref
from ktx_cli.project import (
    CONFIG_NAME,
    ROLES,
    WAREHOUSES,
    KtxConfig,
    connection_of,
    edit,
    find_model,
    has_password,
    is_reference,
    load_config,
    parse_cli_value,
    redact_url,
)

NEW_CONFIG: Final = b"""\
# The settings of this ktx project. `ktx config schema` describes every setting.
llm:
  provider:
    backend: none
"""

Same = Callable[[Any, Any], bool]
Keep = Callable[[str, str], str]
"""Keeps a secret under a name and returns the reference to it."""


@dataclass(slots=True)
class Planned:
    """What `ktx.yaml` will say. `connections`: the ids of those the answers are about."""

    text: bytes
    connections: list[str] = field(default_factory=list)


def planned(answers: Answers, before: bytes | None, same: Same = operator.eq) -> Planned:
    """Return the text of `ktx.yaml` after the answers; `before` None: there is none yet.

    `same` says whether what a setting says and what was answered are one, a reference to a secret and the secret too.

    Raises `ConfigError` for an answer that no setting can have, `UsageError` for one that does not fit what is there.
    """
    plan = Planned(NEW_CONFIG if before is None else before)
    config = load_config(Path(CONFIG_NAME), data=plan.text).config
    settings: dict[str, Any] = {}
    if answers.llm is not None:
        settings |= _model_settings(config, answers.llm)
    if answers.embeddings is not None:
        settings |= _embedding_settings(config, answers.embeddings)
    for dotted, given in settings.items():
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
    """Raise for an address with a password, of a setting that takes no reference: it would stand in clear."""
    if address is not None and has_password(address):
        says = f"the address {redact_url(address)} holds a password, which would stand in ktx.yaml"
        raise UsageError(says, hint="give the address without it")


def _embedding_settings(config: KtxConfig, answer: EmbeddingAnswer) -> dict[str, Any]:
    now = config.ingest.embeddings
    backend = answer.backend or now.backend
    wanted: dict[str, Any] = {"backend": answer.backend, "model": answer.model, "dimensions": answer.dimensions}
    having: dict[str, Any] = {"backend": now.backend, "model": now.model, "dimensions": now.dimensions}
    if backend == "sentence-transformers":
        _require_no_password(answer.base_url)
    places = {"openai": ("openai.api_key", "openai.base_url"), "sentence-transformers": ("", _SERVER)}
    key, address = places.get(backend, ("", ""))
    for value, place, flag in ((answer.api_key, key, "api-key"), (answer.base_url, address, "base-url")):
        if value is not None and not place:
            raise UsageError(f"the embeddings `{backend}` take no --embedding-{flag}", hint="leave it out")
        if value is not None:
            wanted[place] = value
    having |= {"openai.api_key": now.openai.api_key, "openai.base_url": now.openai.base_url}
    having[_SERVER] = now.sentence_transformers.base_url
    return {
        f"ingest.embeddings.{place}": value
        for place, value in wanted.items()
        if value is not None and value != having[place]
    }


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
        raise UsageError(
            f"connection `{connection}` has the driver `{existing.driver}`, not `{answer.driver}`",
            hint=f"--{kind}-connection-id names another",
        )
    for keys, value in _leaves(fields):
        plan.text = edit.set_value(plan.text, ("connections", connection, *keys), value, where=CONFIG_NAME)
    connection_of(load_config(Path(CONFIG_NAME), data=plan.text).config, connection)


def _leaves(fields: Mapping[str, Any], above: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], Any]]:
    found: list[tuple[tuple[str, ...], Any]] = []
    for key, value in fields.items():
        if isinstance(value, dict) and value:
            found += _leaves(value, (*above, key))
        else:
            found.append(((*above, key), value))
    return found


def id_for(config: KtxConfig, fields: Mapping[str, Any], same: Same = operator.eq) -> str:
    """Return the id of the connection that is to this very database or source, else a free one."""
    telling = sorted({*_ADDRESSES, *fields} - _CHANGEABLE)
    for name, entry in config.connections.items():
        shown = entry.model_dump(by_alias=True)
        if entry.driver == fields["driver"] and all(_is_same(shown.get(key), fields.get(key), same) for key in telling):
            return name
    first = "warehouse" if fields["driver"] in WAREHOUSES else str(fields["driver"])
    return free_id(first, config.connections)


def _is_same(configured: Any, given: Any, same: Same) -> bool:
    """Say whether a setting is as answered; of a block what was answered of it."""
    if isinstance(given, dict) and isinstance(configured, dict):
        return all(_is_same(configured.get(key), value, same) for key, value in given.items())
    return same(configured, given)


_ADDRESSES: Final = {"url", "path", "host", "database"}
_CHANGEABLE: Final = {
    "include", "exclude", "enabled_tables", "context", "password",
    "schemas", "schema_names", "dataset_ids", "databases",
}  # fmt: skip


def kept(answers: Answers, keep: Keep, ids: Sequence[str]) -> Answers:
    """Return the answers with every secret that stands in clear kept elsewhere, `ids` naming the connections."""
    llm, embeddings = answers.llm, answers.embeddings
    if llm is not None and (key := llm.provider.get("api_key")) and not is_reference(key):
        name = f"llm-{llm.backend or 'provider'}-api-key"
        llm = replace(llm, provider={**llm.provider, "api_key": keep(name, key)})
    if embeddings is not None and (key := embeddings.api_key) and not is_reference(key):
        embeddings = replace(embeddings, api_key=keep("embeddings-api-key", key))
    if embeddings is not None and (address := embeddings.base_url) and has_password(address):
        embeddings = replace(embeddings, base_url=keep("embeddings-base-url", address))
    connections = [_without_literals(answer, keep, name) for answer, name in zip(answers.connections, ids, strict=True)]
    databases = tuple(connections[: len(answers.databases)])
    sources = tuple(connections[len(answers.databases) :])
    return replace(answers, llm=llm, embeddings=embeddings, databases=databases, sources=sources)


def _without_literals(answer: ConnectionAnswer, keep: Keep, connection: str) -> ConnectionAnswer:
    model = find_model(answer.driver)
    if model is None:
        return answer
    fields = _copied(answer.fields)
    for keys in literal_places(model, fields):
        holder: Any = functools.reduce(operator.getitem, keys[:-1], fields)
        holder[keys[-1]] = keep(f"{connection}-{keys[-1].replace('_', '-')}", holder[keys[-1]])
    return ConnectionAnswer(fields, connection)


def _copied(fields: Mapping[str, Any]) -> dict[str, Any]:
    return {key: _copied(value) if isinstance(value, dict) else value for key, value in fields.items()}


def model_settings(
    config: KtxConfig, backend: str | None, model: str | None, provider: Mapping[str, str]
) -> dict[str, str]:
    """Return the settings that change, by dotted name.

    Raises `UsageError` for a provider's field that the backend has not.
    """
    chosen = backend or config.llm.provider.backend
    wanted = {"llm.provider.backend": backend, "llm.models.default": model}
    known = PROVIDER_KEYS.get(chosen, {})
    for name, value in provider.items():
        if name not in known:
            raise _no_field(chosen, name)
        wanted[f"llm.provider.{chosen}.{known[name]}"] = value
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


def _no_field(backend: str, name: str) -> UsageError:
    having = [other for other, keys in PROVIDER_KEYS.items() if name in keys]
    flag = f"--llm-{name.replace('_', '-')}"
    return UsageError(
        f"the backend `{backend}` takes no {flag}", hint=f"{flag} goes with --llm-backend {' or '.join(having)}"
    )


def require_routes(config: KtxConfig, backend: str) -> list[ResultWarning]:
    """Return a warning for every role whose model names another backend than the one set up.

    Raises `ConfigError` where that of the default role does.
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
        warnings.append(
            ResultWarning(
                "role_on_other_backend",
                f"`{where}` is `{text}`, which goes to `{route}`, not to `{backend}`",
                hint=Command("config", "set", where, "MODEL"),
            )
        )
    return warnings
