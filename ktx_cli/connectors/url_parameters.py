"""What may stand behind the question mark of a server's URL: a misspelt `sslmode` must not pass for none."""

from __future__ import annotations

from collections.abc import Mapping

from ktx_cli.connectors.port import ConnectionSpec
from ktx_cli.core.errors import ConfigError
from ktx_cli.core.text import did_you_mean, listing, one_line

ANY: tuple[str, ...] = ()
"""Any value will do."""

FLAG = ("true", "false", "1", "0", "yes", "no", "on", "off")
"""The values of a parameter that is on or off."""

ADDRESS = {"host": ANY, "port": ANY, "user": ANY, "password": ANY}
"""Parameters that every server's URL may have."""


def folded(value: str) -> str:
    """Return a value of a fixed list as the list spells it."""
    return value.strip().lower().replace("_", "-")


def require_known(spec: ConnectionSpec, given: Mapping[str, str], known: Mapping[str, tuple[str, ...]]) -> None:
    """Raise `ConfigError` for a parameter ktx does not know, or a value it cannot have; no value is shown."""
    for name, value in given.items():
        if name not in known:
            near = did_you_mean(name, known)
            correct = f"write `{near}`" if near else "take it out"
            raise _error(spec, f"has the parameter `{one_line(name, 60)}`, which ktx does not know", correct)
        require_choice(spec, "url", name, value, known[name])


def require_choice(spec: ConnectionSpec, key: str, name: str, value: str, choices: tuple[str, ...]) -> None:
    """Raise `ConfigError` unless a value is one of the choices; `key` is the setting that gives it."""
    if choices and value and folded(value) not in choices:
        allowed = listing((f"`{each}`" for each in choices), len(choices))
        raise _error(spec, f"gives `{name}` a value it cannot have", f"write one of {allowed}", key)


def _error(spec: ConnectionSpec, what: str, correct: str, key: str = "url") -> ConfigError:
    return ConfigError(
        f"connection `{spec.id}`: its `{key}` {what}",
        hint=f"{correct} in connections.{spec.id}.{key}",
        details={"connection": spec.id},
    )
