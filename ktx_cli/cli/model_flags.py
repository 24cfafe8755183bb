"""The model flags of `ktx setup`: what they set, and errors about models that hint at the command with the flag."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass

from ktx_cli.core import KtxError, ResultWarning, UsageError

BACKENDS = "none, anthropic, vertex, gateway, claude-code or claude-cli"
FLAGS = {
    "llm.provider.backend": "--llm-backend",
    "llm.models.default": "--llm-model",
    "llm.provider.anthropic.api_key": "--llm-api-key",
    "llm.provider.gateway.api_key": "--llm-api-key",
    "llm.provider.vertex.access_token": "--llm-api-key",
    "llm.provider.anthropic.base_url": "--llm-base-url",
    "llm.provider.gateway.base_url": "--llm-base-url",
    "llm.provider.vertex.base_url": "--llm-base-url",
    "llm.provider.vertex.location": "--llm-location",
    "llm.provider.vertex.project": "--llm-project",
}
"""The flag of each setting that has one."""

_CONFIG_SET = re.compile(r"ktx config set (?P<setting>llm\.[a-z_.]+) (?P<value>[^\s,;]+)")
_SETTING = re.compile(r"`(llm\.[a-z_.]+)`")
_NEAR = re.compile(r"did you mean `([^`]+)`\?")
_EXAMPLE = re.compile(r"for example `[^:`]+: ([^`]+)`")


def given_flags(values: Mapping[str, str | None]) -> dict[str, str]:
    """Return the flags that were typed; `UsageError` for an empty one."""
    given = {flag: value for flag, value in values.items() if value is not None}
    for flag, value in given.items():
        if not value.strip():
            raise UsageError(f"`{flag}` is empty", hint=f"{flag} VALUE, or without it to leave the setting as it is")
    return given


def shown_words(given: Mapping[str, str]) -> list[str]:
    """Return the flags as words of a command; a key given in clear is not shown again."""
    from ktx_cli.project import is_reference, redact_url

    words: list[str] = []
    for flag, value in given.items():
        shown = "env:NAME" if flag == "--llm-api-key" and not is_reference(value) else redact_url(value)
        words += [flag, shown]
    return words


@dataclass(frozen=True)
class ModelAttempt:
    """The command as it was typed; `typed` writes it again with flags that replace what they name."""

    typed: Callable[[Mapping[str, str]], str]

    @contextlib.contextmanager
    def hinting(self) -> Iterator[None]:
        """Let errors about models hint at this command: what they name in `ktx.yaml` is not there yet."""
        try:
            yield
        except KtxError as error:
            error.hint = self._for_issue(error) or self.rewritten(error.hint)
            raise

    def retold(self, warning: ResultWarning) -> None:
        """Let a warning hint at this command, too."""
        warning.suggest(self.rewritten(warning.hint))

    def rewritten(self, hint: str | None) -> str | None:
        """Return a hint with every `ktx config set` of a setting that has a flag as this command with the flag."""
        return hint if hint is None else _CONFIG_SET.sub(self._command, hint)

    def _command(self, found: re.Match[str]) -> str:
        flag = FLAGS.get(found["setting"])
        return found[0] if flag is None else self.typed({flag: found["value"]})

    def _for_issue(self, error: KtxError) -> str | None:
        """Return the hint for a value that `ktx.yaml` cannot have; None where it is that of no flag."""
        issue = (error.details.get("issues") or [{}])[0]
        named = _SETTING.match(error.message)
        hint = issue.get("hint") or error.hint or ""
        flag = FLAGS.get(issue.get("path") or (named[1] if named else ""))
        value = _NEAR.search(hint) or _EXAMPLE.search(hint)
        return None if flag is None or value is None else self.typed({flag: value[1]})
