"""What to type when `ktx setup` refused something: the command again with another flag, or the key in the file."""

from __future__ import annotations

import contextlib
import re
import shlex
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from ktx_cli.cli.attempts import Attempt
from ktx_cli.cli.model_flags import ModelAttempt, shown_words
from ktx_cli.cli.setup_flags import llm_flags, other_words
from ktx_cli.core import KtxError, ResultWarning, shell_words
from ktx_cli.jobs.setup.answers import DATABASE_WORDS, SOURCE_WORDS, Answers, ConnectionAnswer, Word

_WORDS: Final = {"database": DATABASE_WORDS, "source": SOURCE_WORDS}
_SETTING: Final = re.compile(r"connections\.([A-Za-z0-9_-]+)((?:\.[A-Za-z_]+)*)")
_CHANGE: Final = re.compile(r"ktx config set (connections\.\S+)")


@dataclass(frozen=True)
class Retyped:
    """The command as it was typed. `begins`: its first words; `values`: the flags; `answers`: what they come to."""

    begins: Sequence[str]
    values: Mapping[str, Any]
    answers: Answers

    @contextlib.contextmanager
    def hinting(self) -> Iterator[None]:
        """Let errors hint at this command: what they name in `ktx.yaml` is not there yet."""
        if self.values["answers"] is not None:
            with self._hinting_at_file():
                yield
            return
        with self._models().hinting(), self._hinting_at_connections():
            yield

    def retold(self, warning: ResultWarning) -> None:
        """Let a warning hint at this command, too."""
        if self.values["answers"] is None:
            self._models().retold(warning)

    def _models(self) -> ModelAttempt:
        llm = llm_flags(self.values)
        rest = [*other_words(self.values), *self._connection_words(None)]
        return ModelAttempt(lambda changed: shell_words(*self.begins, *shown_words({**llm, **changed}), *rest))

    @contextlib.contextmanager
    def _hinting_at_connections(self) -> Iterator[None]:
        try:
            yield
        except KtxError as error:
            about = self._about(error)
            if about is not None and error.code != "usage" and not _is_for_the_hand(error):
                begins = [*self.begins, *shown_words(llm_flags(self.values)), *other_words(self.values)]
                error.hint = self._attempt(about, [*begins, *self._connection_words(about)]).hint_for(error)
            raise

    def _about(self, error: KtxError) -> ConnectionAnswer | None:
        """Return the connection an error is about; the first where it does not say."""
        given = self.answers.connections
        named = error.details.get("connection")
        sources = self.answers.sources
        by_id = next((each for each in given if named is not None and each.id == named), None)
        if by_id is None and named is not None and sources and error.details.get("kind") == "source":
            return sources[0]
        return by_id or next(iter(given), None)

    def _connection_words(self, without: ConnectionAnswer | None) -> list[str]:
        words: list[str] = []
        for answer in self.answers.connections:
            if answer is not without:
                words += shlex.split(self._attempt(answer, []).typed({}))
        return words

    def _attempt(self, answer: ConnectionAnswer, begins: Sequence[str]) -> Attempt:
        prefix = "database" if answer in self.answers.databases else "source"
        flags = _flags(prefix, _WORDS[prefix], answer.driver)
        return Attempt(begins, answer.id, answer.fields, flags, f"--{prefix}-connection-id", f"--{prefix}-set")

    @contextlib.contextmanager
    def _hinting_at_file(self) -> Iterator[None]:
        try:
            yield
        except KtxError as error:
            if error.hint and error.code != "usage" and not _is_for_the_hand(error):
                said = _SETTING.sub(self._in_file, _CHANGE.sub(r"set \1 to", error.hint))
                error.hint = f"{said}; then: {self._again()}"
            raise

    def _in_file(self, found: re.Match[str]) -> str:
        ids = {each.id for each in self.answers.databases}
        block = "databases" if found[1] in ids else "sources"
        return f"{block}.{found[1]}{found[2]} in {self.values['answers']}"

    def _again(self) -> str:
        return shell_words(*self.begins, "--answers", self.values["answers"], *other_words(self.values))


def _is_for_the_hand(error: KtxError) -> bool:
    """Say whether only an editor helps: what was typed is right, and cannot be placed in `ktx.yaml`."""
    return (error.hint or "").startswith("edit ")


def _flags(prefix: str, words: tuple[Word, ...], driver: str) -> dict[str, str]:
    """Return the flag of each key of a driver."""
    from ktx_cli.jobs.setup.answers_file import key_of

    flags = {"driver": f"--{prefix}"}
    for word in words:
        key = key_of(word, driver)
        if key is not None:
            flags.setdefault(key, f"--{prefix}-{word.name}")
    return flags | ({"include": "--include", "exclude": "--exclude"} if prefix == "database" else {})
