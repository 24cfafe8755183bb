"""Turns a connection into what a connector gets: its fields by `ktx.yaml` key, secrets resolved."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from pathlib import Path
from typing import Any

from ktx_cli.core.errors import ConfigError, ResultWarning
from ktx_cli.project import secrets
from ktx_cli.project.config.base import Block, Setting, settings_of
from ktx_cli.project.config.checks import values_of
from ktx_cli.project.config.connections import Connection
from ktx_cli.project.config.root import KtxConfig
from ktx_cli.project.secrets import SecretRef


def resolve_options(
    connection: Connection,
    *,
    project_dir: Path,
    environ: Mapping[str, str],
    kinds: Collection[str] = secrets.KINDS,
) -> dict[str, Any]:
    """Return the fields the file gives, by `ktx.yaml` key, with every secret reference replaced.

    Defaults are left to the connector. Unknown keys are left out: the warning about them says that they have no effect,
    and another driver's key would otherwise have one. In a path or a file URL `file:` is no
    reference, and paths stay as written. A reference of another kind than `kinds` stays one. Raises `SecretError`, or
    `ConfigError` for a port that is none.
    """
    at = f"connections.{connection.id}" if connection.id else connection.driver
    return _Resolver(project_dir, environ, kinds).block(connection, at)


def secret_file_warnings(config: KtxConfig, *, project_dir: Path) -> list[ResultWarning]:
    """Return a warning for every secret file that others may read."""
    return [warning for warning in _file_warnings(config, project_dir) if warning is not None]


def _file_warnings(config: KtxConfig, project_dir: Path) -> Iterator[ResultWarning | None]:
    for keys, declared, value in values_of(config):
        if isinstance(value, str) and declared is not None and not declared.is_path:
            yield secrets.check(value, project_dir=project_dir, where=".".join(keys))


class _Resolver:
    def __init__(self, project_dir: Path, environ: Mapping[str, str], kinds: Collection[str]) -> None:
        self._project_dir = project_dir
        self._environ = environ
        self._kinds = kinds

    def block(self, block: Block, at: str) -> dict[str, Any]:
        """Return a block's given fields, resolved."""
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
        raise ConfigError(f"the secret reference of {where} stands for no port number", hint="a port is 1 to 65535")
    return int(digits)
