"""`ktx config`: show, change and validate the settings in ktx.yaml."""

from __future__ import annotations

import json
from typing import Annotated, Any

from typer import Argument

from ktx_cli.cli.blocks import Fields, Lines, Table
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.help import group
from ktx_cli.core import Command, ConfigError, Hint

commands = group("Show, change and validate the settings in ktx.yaml.")


THRESHOLDS = {
    "scan.relationships.acceptThreshold": "scan.relationships.reviewThreshold",
    "scan.relationships.reviewThreshold": "scan.relationships.acceptThreshold",
}
"""Settings that limit each other: the one that must be changed first if the other would exceed it."""

KEY = Annotated[str, Argument(help="Dotted key, for example `llm.provider.backend`.")]


def _load(session: Session, *, everything: bool = False) -> Any:
    from ktx_cli.project import Layout, load_config

    loaded = load_config(Layout(session.require_project()).config)
    session.warn(*(loaded.warnings() if everything else loaded.notices()))
    return loaded


@command(commands, "show", schema="config-show")
def show(session: Session) -> Result:
    """Show all settings, including defaults.

    Plaintext secrets are masked.

    Examples:
        ktx config show
        ktx config show --json
    """
    from ktx_cli.core import yaml
    from ktx_cli.project import shown_config

    settings = shown_config(_load(session))
    return Result(settings, [Lines(tuple(yaml.dump(settings).splitlines()))])


@command(commands, "get", schema="config-get")
def get(session: Session, key: KEY) -> Result:
    """Print one setting or a block of settings.

    Prints the default if the setting is not in ktx.yaml.

    Examples:
        ktx config get llm.provider.backend
        ktx config get connections.warehouse
    """
    from ktx_cli.core import yaml
    from ktx_cli.project import get_value

    value = get_value(_load(session), key)
    lines = [str(value)] if isinstance(value, str) else yaml.dump(value).splitlines()
    return Result({"key": key, "value": value}, [Lines(tuple(lines))])


@command(commands, "set", schema="config-set")
def set_(session: Session, key: KEY, value: Annotated[str, Argument(help="New value, written as in YAML.")]) -> Result:
    """Change one setting, or several settings of a block, in ktx.yaml.

    For a block, write the new value as a YAML mapping; settings that it does not name stay unchanged. Comments, order
    and layout of the file are preserved.

    Examples:
        ktx config set scan.privacy strict
        ktx config set semantic.fiscal_year_start 2
        ktx config set storage.postgres '{url: env:KTX_STATE_URL, schema: ktx_sales}'
    """
    from ktx_cli.jobs.connections import set_setting
    from ktx_cli.project import Layout

    try:
        changed, warnings = set_setting(Layout(session.require_project()), key, value)
    except ConfigError as error:
        raise _with_way_out(error, key, value) from error
    session.warn(*warnings)
    state = "saved" if changed else "unchanged"
    return Result({"key": key, "changed": changed}, [Fields((("key", key), ("ktx.yaml", state)))])


@command(commands, "unset", schema="config-unset")
def unset(session: Session, key: KEY) -> Result:
    """Remove one setting, a block of settings, or an item of a list from ktx.yaml.

    The default then applies. Name an item by its position, counted from 0. A block that becomes empty is removed too,
    unless it has a comment. Comments, order and layout of the rest of the file are preserved.

    Examples:
        ktx config unset ingest.executor
        ktx config unset storage.postgres
        ktx config unset connections.warehouse.allowed_functions.0
    """
    from ktx_cli.jobs.connections import unset_setting
    from ktx_cli.project import Layout

    try:
        changed, warnings = unset_setting(Layout(session.require_project()), key)
    except ConfigError as error:
        if key in THRESHOLDS and _exceeds(error):
            error.hint = Hint.steps(Command("config", "unset", THRESHOLDS[key]), Command("config", "unset", key))
        raise
    session.warn(*warnings)
    state = "saved" if changed else "unchanged"
    return Result({"key": key, "changed": changed}, [Fields((("key", key), ("ktx.yaml", state)))])


def _with_way_out(error: ConfigError, key: str, value: str) -> ConfigError:
    """Return the error; if settings can only be set together, or in an order, its hint is the command for that."""
    from ktx_cli.project import InvalidConfigError, hint_to_set_together

    other = THRESHOLDS.get(key)
    issues = error.issues if isinstance(error, InvalidConfigError) else ()
    if other is not None and _exceeds(error):
        error.hint = Hint.steps(Command("config", "set", other, value), Command("config", "set", key, value))
    error.hint = hint_to_set_together(issues, key, value) or error.hint
    return error


def _exceeds(error: ConfigError) -> bool:
    """Return whether one threshold would exceed another."""
    from ktx_cli.project import InvalidConfigError

    issues = error.issues if isinstance(error, InvalidConfigError) else ()
    return any(issue.is_rule and issue.setting in THRESHOLDS for issue in issues)


@command(commands, "schema", schema="config-schema")
def schema(session: Session) -> Result:
    """Print the JSON Schema of ktx.yaml.

    Editors use it to validate and complete the file. Does not need a project.

    Examples:
        ktx config schema
        ktx config schema --json
    """
    from ktx_cli.project import json_schema

    document = json_schema()
    return Result(document, [Lines(tuple(json.dumps(document, indent=2).splitlines()))])


@command(commands, "validate", schema="config-validate")
def validate(session: Session) -> Result:
    """Check ktx.yaml for errors.

    Exits 2 if a setting is invalid. Warnings list the settings that have no effect.

    Examples:
        ktx config validate
        ktx config validate --json
    """
    from ktx_cli.llm import require_runnable

    loaded = _load(session, everything=True)
    loaded.require_valid()
    require_runnable(loaded.config)
    loaded.require_complete()
    warnings = [w.to_json() for w in loaded.warnings()]
    blocks: list[Fields | Table] = [Fields((("ktx.yaml", "valid"), ("warnings", str(len(warnings)))))]
    return Result({"valid": True, "warnings": len(warnings)}, blocks)
