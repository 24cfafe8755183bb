"""Changing one setting of `ktx.yaml` from the command line."""

from __future__ import annotations

from ktx_cli.core.errors import ResultWarning, UsageError
from ktx_cli.project import edit
from ktx_cli.project.config import example_connection, load_config
from ktx_cli.project.config.loader import WITHOUT_EFFECT
from ktx_cli.project.config.saving import change_config
from ktx_cli.project.config.values import parse_cli_value
from ktx_cli.project.layout import CONFIG_NAME, Layout


def set_setting(layout: Layout, key: str, value: str) -> tuple[bool, list[ResultWarning]]:
    """Set a dotted key to the value a person typed; say whether the file changed, and what to know.

    Raises `UsageError` for an unknown key, `ConfigError` when the file would no longer be valid; it stays as it was
    then.
    """

    def changed(text: bytes) -> bytes:
        config = load_config(layout.config, data=text).config
        keys = tuple(key.split("."))
        connection = config.connections.get(keys[1]) if keys[0] == "connections" and len(keys) > 1 else None
        if keys[0] == "connections" and connection is None:
            raise UsageError(f"there is no connection for `{key}` in ktx.yaml", hint=example_connection(*keys[1:2]))
        parsed = parse_cli_value(key, value, driver=connection.driver if connection else None)
        return edit.set_value(text, keys, parsed, where=CONFIG_NAME)

    saved, loaded = change_config(layout, changed)
    without_effect = [issue for issue in loaded.issues if issue.code in WITHOUT_EFFECT and issue.path == key]
    return saved, [*loaded.notices(), *(issue.to_warning() for issue in without_effect)]
