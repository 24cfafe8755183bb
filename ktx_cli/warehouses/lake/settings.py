"""What the settings of lakes share: the free properties of a library, and the secrets among them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from ktx_cli.core import Command, ConfigError, one_line
from ktx_cli.project import is_literal_secret, wrong
from ktx_cli.warehouses.port import ConnectionSpec

_SECRET: Final = re.compile(
    r"(?:account|storage|master|encryption)[._-]?key$|sas|connection[._-]?string", re.IGNORECASE
)
"""Names of properties that hold a secret, in addition to the usual ones."""

_CODE: Final = re.compile(r"(?:^|[._-])(?:impl|impl-.*|py-io-impl|py-catalog-impl)$")
"""Names of properties that name a class to import."""


def flat(properties: Mapping[str, Any]) -> dict[str, str]:
    """Return properties as texts, with nested blocks as dotted keys: `s3: {region: x}` becomes `s3.region: x`."""
    found: dict[str, str] = {}
    for key, value in properties.items():
        if isinstance(value, dict):
            found |= {f"{key}.{below}": text for below, text in flat(value).items()}
        else:
            found[str(key)] = str(value).lower() if isinstance(value, bool) else str(value)
    return found


def without_code(properties: Mapping[str, Any]) -> dict[str, Any]:
    """Return properties of a library without those that name a class to import, which a table or a server may set."""
    return {key: value for key, value in properties.items() if not _CODE.search(key)}


def require_references(properties: Mapping[str, Any], key: str, secrets: str) -> None:
    """Raise a validation error if a property holds a plaintext secret, or names a class to import.

    `key`: the setting with the properties. `secrets`: the setting in which secrets belong.
    """
    for name, value in flat(properties).items():
        shown = one_line(name, 60)
        if _CODE.search(name):
            raise wrong(f"contains `{shown}`, which would run other code", hint="remove it", key=key)
        if is_literal_secret(None, name, value) or (_SECRET.search(name) and is_literal_secret(None, "token", value)):
            hint = f"move `{shown}` to `{secrets}`, with a reference such as env:NAME"
            raise wrong(f"contains the plaintext secret `{shown}`", hint=hint, key=key)


def secret_values(spec: ConnectionSpec, *keys: str) -> Iterator[str]:
    """Yield every text in these settings, and the password of a URL in any other, so that errors can hide them."""
    for key, value in spec.options.items():
        for text in flat(value).values() if isinstance(value, dict) else [value]:
            if not isinstance(text, str):
                continue
            if key in keys:
                yield text
                yield from text.split(":")[1:]  # `client_id:client_secret`
            elif "://" in text and "@" in text:
                yield text.split("://", 1)[1].rpartition("@")[0].partition(":")[2]


def texts(spec: ConnectionSpec, key: str) -> dict[str, str]:
    """Return a setting with free properties, as texts."""
    found: Any = spec.options.get(key) or {}
    if not isinstance(found, dict):
        hint = Command("config", "set", f"connections.{spec.id}.{key}.NAME", "VALUE")
        raise ConfigError(f"connection `{spec.id}`: `{key}` is not a block of properties", hint=hint)
    return flat(found)
