"""What the model does not look at: unknown keys, settings without effect, literal secrets, what does not fit."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ktx_cli.core.text import did_you_mean
from ktx_cli.project.config.base import Block, Setting, settings_of
from ktx_cli.project.config.drivers import DRIVERS, model_of
from ktx_cli.project.config.issues import Issue, Keys, named
from ktx_cli.project.config.llm import ROLES
from ktx_cli.project.config.masking import is_literal_secret
from ktx_cli.project.config.root import KtxConfig
from ktx_cli.project.secrets import has_password, variable_named


def key_warnings(raw: Mapping[str, Any]) -> Iterator[Issue]:
    """Warn about keys ktx does not know and settings that have no effect. `raw` may be of any shape."""
    yield from _block_warnings(KtxConfig, raw, ())
    connections = raw.get("connections")
    for connection, entry in connections.items() if isinstance(connections, dict) else ():
        driver = entry.get("driver") if isinstance(entry, dict) else None
        if driver not in DRIVERS:
            continue  # the model says what is wrong
        yield from _block_warnings(model_of(driver), entry, ("connections", connection))
    yield from _role_warnings(raw)


def _block_warnings(model: type[Block], raw: Mapping[str, Any], at: Keys, *, later: bool = False) -> Iterator[Issue]:
    """`later`: nothing of the block is read yet, whatever its settings say."""
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
    """Other versions write all defaults out; a default says nothing about what a person expects."""
    default = declared.default
    return value is not None and not (value == default and isinstance(value, bool) == isinstance(default, bool))


def _role_warnings(raw: Mapping[str, Any]) -> Iterator[Issue]:
    llm = raw.get("llm")
    models = llm.get("models") if isinstance(llm, dict) else None
    for role in models if isinstance(models, dict) else ():
        if role not in ROLES:
            yield _unknown(("llm", "models", role), ROLES)


def rule_warnings(config: KtxConfig) -> Iterator[Issue]:
    """Warn about what does not fit together but may still be wanted."""
    yield from _backend_warnings(config)
    for position, connection in enumerate(config.setup.database_connection_ids):
        keys = ("setup", "database_connection_ids", str(position))
        if connection not in config.connections:
            near = did_you_mean(connection, config.connections)
            hint = f"did you mean `{near}`?" if near else "ktx connection list"
            yield _warning(
                "unknown_connection", keys, f"{named(keys[:2])} names `{connection}`, which is not a connection", hint
            )
        elif connection in config.sources():
            says = f"{named(keys[:2])} names `{connection}`, which is a context source, not a database"
            yield _warning("unknown_connection", keys, says, "take it out of the list")
    for connection, entry in config.sources().items():
        if entry.driver == "notion" and _has_no_roots(entry):
            says = f"connection `{connection}` reads selected roots and names none"
            hint = "add root_page_ids, root_database_ids or root_data_source_ids, or set crawl_mode: all_accessible"
            yield _warning("incomplete", ("connections", connection), says, hint)


def _has_no_roots(notion: Any) -> bool:
    """Say it of a `NotionSource`, whose module a file without one does not import."""
    roots = notion.root_page_ids or notion.root_database_ids or notion.root_data_source_ids
    return notion.crawl_mode == "selected_roots" and not roots


def _backend_warnings(config: KtxConfig) -> Iterator[Issue]:
    """Warn where the chosen backend lacks what it cannot do without."""
    provider = config.llm.provider
    at = ("llm", "provider", provider.backend)
    if provider.backend == "gateway":
        for key, hint in (
            ("base_url", "set it to the gateway's address"),
            ("api_key", "for example env:GATEWAY_API_KEY"),
        ):
            if not getattr(provider.gateway, key):
                yield _incomplete((*at, key), hint)
    elif provider.backend == "anthropic" and not provider.anthropic.api_key:
        yield _incomplete((*at, "api_key"), "for example env:ANTHROPIC_API_KEY")
    elif provider.backend == "vertex" and provider.vertex is None:
        yield _incomplete((*at, "location"), "for example europe-west1")
    if provider.backend in ("anthropic", "vertex", "gateway") and not config.llm.models.get("default"):
        yield _incomplete(("llm", "models", "default"), "ktx config set llm.models.default MODEL")


def literal_secrets(config: KtxConfig) -> Iterator[Issue]:
    """Warn about secrets that stand in the file, and about `$NAME`, which nothing replaces."""
    for keys, declared, value in values_of(config):
        if not isinstance(value, str):
            continue
        name, path = variable_named(value), named(keys)
        if name is not None:
            yield _warning(
                "variable",
                keys,
                f"{path} holds a variable in the shell's way, which ktx takes as it stands",
                f"did you mean env:{name}?",
            )
        elif has_password(value):
            says = f"{path} contains a plaintext password"
            yield _warning(
                "literal_secret", keys, says, "put the whole URL into a variable or a file: env:NAME, file:PATH"
            )
        elif is_literal_secret(declared, keys[-1], value):
            says = f"{path} contains a plaintext secret"
            yield _warning(
                "literal_secret", keys, says, "put it into a variable, a file or the keyring: env:NAME, file:PATH"
            )


def values_of(block: Block, at: Keys = ()) -> Iterator[tuple[Keys, Setting | None, Any]]:
    """Yield path, setting (None for an unknown key) and value of every scalar of a configuration that is set."""
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
    hint = f"did you mean `{near}`?" if near else f"known here: {', '.join(known)}"
    return _warning("unknown_key", keys, f"{named(keys)} is not a setting that ktx knows; it has no effect", hint)


def _without_effect(keys: Keys) -> Issue:
    return _warning("no_effect", keys, f"{named(keys)} has no effect", "it is a setting of other versions of ktx")


def _not_yet(keys: Keys) -> Issue:
    return _warning("not_yet", keys, f"{named(keys)} has no effect in this version yet", None)


def _incomplete(keys: Keys, hint: str) -> Issue:
    backend = keys[2] if keys[1] == "provider" else "configured"
    return _warning("incomplete", keys, f"{named(keys)} is not set; the {backend} backend needs it", hint)


def _warning(code: str, keys: Keys, message: str, hint: str | None) -> Issue:
    return Issue(keys, message, hint, "warning", code)
