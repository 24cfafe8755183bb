"""What to type when a connection was refused before it was saved: the command again, with the flag that was wrong."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from ktx_cli.core.errors import KtxError
from ktx_cli.core.text import shell_words

_SETTING = re.compile(r"connections\.[A-Za-z0-9_-]+\.([A-Za-z_]+)")
_CONFIG_SET = re.compile(r"ktx config set " + _SETTING.pattern + r" (?P<value>\S+)")
_QUOTED_NAME = re.compile(r"`([A-Za-z_]+)`")
_NEAR = re.compile(r"did you mean `([^`]+)`\?")


@dataclass(frozen=True)
class Attempt:
    """A command that describes a connection by flags: how it begins, and the fields it was given by `ktx.yaml` key.

    `flags`: key -> flag. `other_flag` takes `KEY=VALUE` for every other key. `id_flag` is empty where the id is an
    argument.
    """

    begins: Sequence[str]
    connection: str | None
    fields: Mapping[str, Any]
    flags: Mapping[str, str]
    id_flag: str = ""
    other_flag: str = ""

    @contextlib.contextmanager
    def hinting(self) -> Iterator[None]:
        """Let errors about the connection hint at this command: what they name in `ktx.yaml` is not there."""
        try:
            yield
        except KtxError as error:
            if error.code != "usage":
                error.hint = self.hint_for(error)
            raise

    def hint_for(self, error: KtxError) -> str | None:
        """Return the hint of an error, as it is for a connection that is not in `ktx.yaml`."""
        hint = error.hint or ""
        issue = (error.details.get("issues") or [None])[0]
        if issue is not None and issue["path"].startswith("connections."):
            return self._hint_for_issue(issue)
        command = _CONFIG_SET.search(hint)
        if command is not None:
            return self.typed({command[1]: command["value"]})
        if f"ktx connection test {self.connection}" == hint:
            return f"{self.typed({})} --no-test saves it without connecting"
        wrong = dict.fromkeys(_SETTING.findall(hint))
        if not wrong:
            return error.hint
        said = _SETTING.sub(lambda found: self._flag(found[1]), hint)
        return f"{said}, then: {self.typed({key: key.upper() for key in wrong})}"

    def _hint_for_issue(self, issue: Mapping[str, Any]) -> str:
        hint = issue["hint"] or ""
        if issue["code"] == "id":
            return f"take another id: {self.typed({}, _other_id(self.connection or ''))}"
        keys = issue["path"].split(".")[2:3] or _QUOTED_NAME.findall(issue["message"].partition("` ")[2])[:1]
        near = _NEAR.search(hint)
        if near is not None:
            return self.typed(dict.fromkeys(keys, near[1]))
        typed = self.typed({each: each.rpartition(".")[2].upper() for key in keys for each in self._required(key)})
        says_more = issue["path"].count(".") > 1 and hint and not hint.startswith("add it")
        return f"{hint}: {typed}" if says_more else typed

    def _required(self, key: str) -> list[str]:
        """Return a key, or where a mapping of settings is wanted, the keys in it that must be given."""
        from ktx_cli.project.config.base import settings_of
        from ktx_cli.project.config.drivers import DRIVERS, model_of

        driver = self.fields.get("driver")
        declared = settings_of(model_of(driver)).get(key) if driver in DRIVERS else None
        if declared is None or declared.block is None or key in self.fields:
            return [key]
        inner = settings_of(declared.block).values()
        return [f"{key}.{each.key}" for each in inner if each.field.is_required()] or [key]

    def _flag(self, key: str) -> str:
        return self.flags.get(key) or f"{self.other_flag} {key}".strip()

    def typed(self, changed: Mapping[str, str], connection: str | None = None) -> str:
        """Return the command with some fields changed; secrets given in clear are not shown again."""
        name = connection or self.connection
        words = [*self.begins, *filter(None, [self.id_flag if name else "", name])]
        for key, value in {**self.fields, **changed}.items():
            for item in value if isinstance(value, list) and key in self.flags else [value]:
                words += self._words(key, item if key in changed else self._shown(key, item))
        return shell_words(*words)

    def _words(self, key: str, value: Any) -> list[str]:
        from ktx_cli.core import yaml

        text = value if isinstance(value, str) else yaml.flow(value)
        if key in self.flags:
            return [self.flags[key], text]
        return [self.other_flag, f"{key}={text}"] if self.other_flag else []

    def _shown(self, key: str, value: Any) -> Any:
        from ktx_cli.project.config.base import settings_of
        from ktx_cli.project.config.drivers import DRIVERS, model_of
        from ktx_cli.project.config.masking import is_literal_secret
        from ktx_cli.project.secrets import has_password

        driver = self.fields.get("driver")
        declared = settings_of(model_of(driver)).get(key) if driver in DRIVERS else None
        text = str(value)
        return "env:NAME" if has_password(text) or is_literal_secret(declared, key, text) else value


def _other_id(connection: str) -> str:
    """Return an id that may be one, near to one that may not."""
    usable = re.sub(r"[^A-Za-z0-9_-]+", "-", connection).strip("-_")[:60].rstrip("-_")
    return f"{usable}-db" if usable == connection else usable or "warehouse"
