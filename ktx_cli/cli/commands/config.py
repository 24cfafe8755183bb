"""`ktx config`: look at, change and check the settings of ktx.yaml."""

from __future__ import annotations

import json
from typing import Annotated, Any

import typer

from ktx_cli.cli.blocks import Fields, Lines, Table
from ktx_cli.cli.contract import Result, Session, command

KEY = Annotated[str, typer.Argument(help="A dotted key, as `llm.provider.backend` or `connections.warehouse.path`.")]


def register(app: typer.Typer) -> None:
    """Add the group to the app."""
    group = typer.Typer(help="Look at, change and check the settings of ktx.yaml.", no_args_is_help=True)
    app.add_typer(group, name="config")
    _register_show(group)
    _register_get(group)
    _register_set(group)
    _register_schema(group)
    _register_validate(group)


def _load(session: Session) -> Any:
    from ktx_cli.project.config import load_config
    from ktx_cli.project.layout import Layout

    loaded = load_config(Layout(session.require_project()).config)
    session.warn(*loaded.warnings())
    return loaded


def _register_show(group: typer.Typer) -> None:
    @command(group, "show", schema="config-show")
    def show(session: Session) -> Result:
        """Show ktx.yaml as ktx reads it, with the defaults filled in. Secrets given literally are masked."""
        from ktx_cli.core import yaml
        from ktx_cli.project.config.values import shown_config

        settings = shown_config(_load(session))
        return Result(settings, [Lines(tuple(yaml.dump(settings).splitlines()))])


def _register_get(group: typer.Typer) -> None:
    @command(group, "get", schema="config-get")
    def get(session: Session, key: KEY) -> Result:
        """Print one setting, or a block of them, with its default when it is not set."""
        from ktx_cli.core import yaml
        from ktx_cli.project.config.values import get_value

        value = get_value(_load(session), key)
        lines = [str(value)] if isinstance(value, str) else yaml.dump(value).splitlines()
        return Result({"key": key, "value": value}, [Lines(tuple(lines))])


def _register_set(group: typer.Typer) -> None:
    @command(group, "set", schema="config-set")
    def set_(
        session: Session,
        key: KEY,
        value: Annotated[str, typer.Argument(help="The new value, as it would stand in YAML.")],
    ) -> Result:
        """Change one setting in ktx.yaml. Comments, order and layout of the file stay as they are."""
        from ktx_cli.jobs.settings import set_setting
        from ktx_cli.project.layout import Layout

        changed, warnings = set_setting(Layout(session.require_project()), key, value)
        session.warn(*warnings)
        state = "saved" if changed else "unchanged"
        return Result({"key": key, "changed": changed}, [Fields((("key", key), ("ktx.yaml", state)))])


def _register_schema(group: typer.Typer) -> None:
    @command(group, "schema", schema="config-schema")
    def schema(session: Session) -> Result:
        """Print the JSON Schema of ktx.yaml, for editors. Needs no project."""
        from ktx_cli.project.config.schema import json_schema

        document = json_schema()
        return Result(document, [Lines(tuple(json.dumps(document, indent=2).splitlines()))])


def _register_validate(group: typer.Typer) -> None:
    @command(group, "validate", schema="config-validate")
    def validate(session: Session) -> Result:
        """Check ktx.yaml: exit 2 when it cannot be used; warnings name unknown and unused settings."""
        loaded = _load(session)
        warnings = [w.to_json() for w in loaded.warnings()]
        blocks: list[Fields | Table] = [Fields((("ktx.yaml", "valid"), ("warnings", str(len(warnings)))))]
        return Result({"valid": True, "warnings": len(warnings)}, blocks)
