"""Hints for rejected commands: the same command, with the wrong flag corrected.

A rejected connection or model is not in `ktx.yaml`, so a hint with a setting there, or the command that changes it,
would not work.
"""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final

from ktx_cli.core import Command, Hint, KtxError, ResultWarning, SettingPath, did_you_mean

if TYPE_CHECKING:
    from ktx_cli.jobs.setup.answers import Answers, ConnectionAnswer
    from ktx_cli.project import Block, Issue, Setting


_CONNECTIONS: Final = "connections"


@dataclass(frozen=True)
class Attempt:
    """A command that describes a connection with flags: the start of the command, and the given fields by `ktx.yaml`
    key.

    `flags`: key -> flag. `other_flag` takes `KEY=VALUE` for every other key. `id_flag` is empty if the id is an
    argument.
    """

    begins: Command
    connection: str | None
    fields: Mapping[str, Any]
    flags: Mapping[str, str]
    id_flag: str = ""
    other_flag: str = ""

    @contextlib.contextmanager
    def hinting(self) -> Iterator[None]:
        """Make errors about the connection hint at this command, because the connection is not in `ktx.yaml`."""
        try:
            yield
        except KtxError as error:
            if error.code != "usage":
                error.hint = self.hint_for(error)
            raise

    def hint_for(self, error: KtxError) -> Hint | None:
        """Return an error's hint, adapted to a connection that is not in `ktx.yaml`."""
        from ktx_cli.project import InvalidConfigError

        if isinstance(error, InvalidConfigError) and error.issues[0].keys[0] == _CONNECTIONS:
            return self._hint_for_issues(error.issues)
        hint = error.hint
        if hint is None:
            return None
        for key, value in filter(None, (_set_by(command) for command in hint.commands)):
            return self.typed({key: value})
        tested = Command("connection", "test", self.connection)
        if hint.command == tested:
            return Hint("{} --no-test saves it without connecting", self.typed({}))
        if tested in hint.commands:
            return hint.rewrite(lambda part: self.typed({}) if part == tested else part)
        wrong = dict.fromkeys(filter(None, map(_key_of, hint.settings)))
        if not wrong:
            return hint
        adapted = hint.rewrite(lambda part: self._flag(key) if (key := _key_of(part)) else part)
        return Hint("{}, then: {}", adapted, self.typed({key: placeholder(key) for key in wrong}))

    def _hint_for_issues(self, issues: Sequence[Issue]) -> Hint:
        issue, hint = issues[0], Hint(issues[0].hint or "")
        if issue.code == "id":
            return Hint("use another id: {}", self.typed({}, _other_id(self.connection or "")))
        declared = declared_of(self.fields.get("driver"))
        path = _path_in(issue)
        keys = [setting_at(path, declared)] if path else list(hint.settings)
        if issue.missing and path:
            keys = [setting_at(_path_in(each), declared) for each in issues if each.missing and _path_in(each)]
            return self._completed(keys, declared)
        if hint.suggestion is not None:
            return self.typed(dict.fromkeys(keys[:1], hint.suggestion))
        if not path:
            return self._completed(keys, declared, one=True)
        typed = self.typed({key: placeholder(key) for key in keys})
        return Hint("{}: {}", hint, typed) if hint else typed

    def _completed(self, keys: Sequence[str], declared: Mapping[str, Setting], *, one: bool = False) -> Command:
        """Return the command with the missing fields, one or all of them, under other names if they were given under
        those.
        """
        given = flat(self.fields)
        wanted = [each for key in keys for each in required(key, declared, given)]
        fields = renamed(given, wanted, declared)
        missing = [key for key in wanted if key not in fields]
        if one:
            missing = missing[:1] if len(missing) == len(wanted) else []
        return replace(self, fields=fields).typed({key: placeholder(key) for key in missing})

    def _flag(self, key: str) -> str:
        return self.flags.get(key) or f"{self.other_flag} {key}".strip()

    def typed(self, changed: Mapping[str, str], connection: str | None = None) -> Command:
        """Return the command with some fields changed; plaintext secrets are not shown again."""
        return self.begins.with_words(*self.words(changed, connection))

    def words(self, changed: Mapping[str, str], connection: str | None = None) -> Iterator[str]:
        """Yield the arguments that describe the connection, after changing some fields."""
        name = connection or self.connection
        yield from filter(None, [self.id_flag if name else "", name])
        for key, value in {**flat(self.fields), **changed}.items():
            for item in value if isinstance(value, list) and key in self.flags else [value]:
                yield from self._words(key, item if key in changed else self._shown(key, item))

    def _words(self, key: str, value: Any) -> list[str]:
        from ktx_cli.core import yaml

        text = value if isinstance(value, str) else yaml.flow(value)
        if key in self.flags:
            return [self.flags[key], text]
        return [self.other_flag, f"{key}={text}"] if self.other_flag else []

    def _shown(self, key: str, value: Any) -> Any:
        from ktx_cli.project import has_password, is_literal_secret

        declared, text = declared_of(self.fields.get("driver")).get(key), str(value)
        leaf = key.rpartition(".")[2]
        return "env:NAME" if has_password(text) or is_literal_secret(declared, leaf, text) else value


def _key_of(part: str) -> str:
    """Return a hint setting's key within its connection, or an empty string for anything else."""
    root, _, rest = part.partition(".") if isinstance(part, SettingPath) else ("", "", "")
    return rest.partition(".")[2] if root == _CONNECTIONS else ""


def _set_by(command: Command) -> tuple[str, str] | None:
    """Return the connection key that a command changes, and its new value."""
    key = _key_of(command.sets[0]) if command.sets else ""
    return (key, command.sets[1]) if command.sets and key else None


def _path_in(issue: Issue) -> str:
    """Return an issue's path relative to its connection."""
    return ".".join(issue.keys[2:])


def _other_id(connection: str) -> str:
    """Return a valid id similar to an invalid one."""
    usable = re.sub(r"[^A-Za-z0-9_-]+", "-", connection).strip("-_")[:60].rstrip("-_")
    return f"{usable}-db" if usable == connection else usable or "warehouse"


MODEL_FLAGS: Final = {
    "llm.provider.backend": "--llm-backend",
    "llm.models.default": "--llm-model",
    "llm.provider.anthropic.api_key": "--llm-api-key",
    "llm.provider.gateway.api_key": "--llm-api-key",
    "llm.provider.vertex.access_token": "--llm-api-key",
    "llm.provider.openai.api_key": "--llm-api-key",
    "llm.provider.openai_compatible.api_key": "--llm-api-key",
    "llm.provider.anthropic.base_url": "--llm-base-url",
    "llm.provider.gateway.base_url": "--llm-base-url",
    "llm.provider.vertex.base_url": "--llm-base-url",
    "llm.provider.openai.base_url": "--llm-base-url",
    "llm.provider.openai_compatible.base_url": "--llm-base-url",
    "llm.provider.openai_compatible.api": "--llm-api",
    "llm.provider.gemini.api_key": "--llm-api-key",
    "llm.provider.gemini.base_url": "--llm-base-url",
    "llm.provider.bedrock.api_key": "--llm-api-key",
    "llm.provider.bedrock.base_url": "--llm-base-url",
    "llm.provider.bedrock.region": "--llm-location",
    "llm.provider.bedrock.profile": "--llm-profile",
    "llm.provider.vertex.location": "--llm-location",
    "llm.provider.vertex.project": "--llm-project",
}
"""The `ktx setup` flag for each model setting that has one."""


@dataclass(frozen=True)
class SetupAttempt:
    """A `ktx setup` as typed. `begins`: its first words; `values`: the flags; `answers`: the resulting answers."""

    begins: Command
    values: Mapping[str, Any]
    answers: Answers

    @contextlib.contextmanager
    def hinting(self) -> Iterator[None]:
        """Make errors hint at this command, because the settings they name are not in `ktx.yaml` yet."""
        try:
            yield
        except KtxError as error:
            error.hint = self._hint_for(error)
            raise

    def retell(self, warning: ResultWarning) -> None:
        """Make a warning's hint suggest this command, too."""
        if warning.hint is not None and self.values["answers"] is None:
            warning.suggest(self._with_model_flags(warning.hint))

    def _hint_for(self, error: KtxError) -> Hint | None:
        from ktx_cli.project import EditRefusedError

        hint, is_typed = error.hint, error.code != "usage" and not isinstance(error, EditRefusedError)
        if self.values["answers"] is not None:
            return self._at_file(hint) if hint and is_typed else hint
        suggestion = hint.suggestion if hint is not None else None
        if suggestion is not None and suggestion.setting in MODEL_FLAGS:
            return self._typed({MODEL_FLAGS[suggestion.setting]: suggestion})
        about = self._about(error)
        if about is not None and is_typed:
            hint = replace(self._attempt(about), begins=self._without(about)).hint_for(error)
        return None if hint is None else self._with_model_flags(hint)

    def _with_model_flags(self, hint: Hint) -> Hint:
        """Return a hint in which this command, with a flag, replaces each `ktx config set` of a setting that has a
        flag.
        """

        def by_flag(part: str) -> str:
            setting, value = (isinstance(part, Command) and part.sets) or ("", "")
            return self._typed({MODEL_FLAGS[setting]: value}) if setting in MODEL_FLAGS else part

        return hint.rewrite(by_flag)

    def _typed(self, models: Mapping[str, str]) -> Command:
        """Return the command with some model flags changed."""
        from ktx_cli.cli.setup_flags import llm_flags, other_words, shown_words

        flags = shown_words({**llm_flags(self.values), **models})
        return self.begins.with_words(*flags, *other_words(self.values), *self._connection_words(None))

    def _without(self, connection: ConnectionAnswer) -> Command:
        """Return the command without a connection."""
        from ktx_cli.cli.setup_flags import llm_flags, other_words, shown_words

        flags = shown_words(llm_flags(self.values))
        return self.begins.with_words(*flags, *other_words(self.values), *self._connection_words(connection))

    def _about(self, error: KtxError) -> ConnectionAnswer | None:
        """Return the connection that an error is about, or the first one if the error names none."""
        given = self.answers.connections
        named = error.details.get("connection")
        sources = self.answers.sources
        by_id = next((each for each in given if named is not None and each.id == named), None)
        if by_id is None and named is not None and sources and error.details.get("kind") == "source":
            return sources[0]
        return by_id or next(iter(given), None)

    def _connection_words(self, without: ConnectionAnswer | None) -> Iterator[str]:
        for answer in self.answers.connections:
            if answer is not without:
                yield from self._attempt(answer).words({})

    def _attempt(self, answer: ConnectionAnswer) -> Attempt:
        from ktx_cli.cli.setup_flags import connection_flags

        prefix = "database" if answer in self.answers.databases else "source"
        flags = connection_flags(prefix, answer.driver)
        return Attempt(self.begins, answer.id, answer.fields, flags, f"--{prefix}-connection-id", f"--{prefix}-set")

    def _at_file(self, hint: Hint) -> Hint:
        """Return a hint about editing the answers file and running this command again."""
        from ktx_cli.cli.setup_flags import other_words

        words = ("--answers", self.values["answers"], *other_words(self.values))
        return Hint.steps(hint.rewrite_quoted(self._in_file), self.begins.with_words(*words))

    def _in_file(self, part: str, is_quoted: bool = False) -> str:
        if isinstance(part, Command) and part.sets and part.sets[0].startswith(f"{_CONNECTIONS}."):
            return Hint("set {} to {}", self._in_file(part.sets[0]), part.sets[1])
        if not isinstance(part, SettingPath) or not part.startswith(f"{_CONNECTIONS}."):
            return part
        name = part.split(".")[1]
        block = "databases" if name in {each.id for each in self.answers.databases} else "sources"
        between = "` in `" if is_quoted else " in "
        return f"{block}.{part.partition('.')[2]}{between}{self.values['answers']}"


def flat(fields: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return dotted key -> value; a mapping with keys that contain dots stays one value."""
    found: dict[str, Any] = {}
    for key, value in fields.items():
        inner = isinstance(value, dict) and value and all(re.fullmatch(r"[^.=\s]+", str(name)) for name in value)
        found |= flat(value, f"{above}{key}.") if inner else {f"{above}{key}": value}
    return found


def declared_of(driver: Any) -> dict[str, Setting]:
    """Return the settings of a driver by dotted key, including blocks; empty for an unknown driver."""
    from ktx_cli.project import find_model

    model = find_model(driver)
    return {} if model is None else _declared(model)


def _declared(model: type[Block], above: str = "") -> dict[str, Setting]:
    from ktx_cli.project import settings_of

    found: dict[str, Setting] = {}
    for key, setting in settings_of(model).items():
        found[f"{above}{key}"] = setting
        found |= {} if setting.block is None else _declared(setting.block, f"{above}{key}.")
    return found


def setting_at(path: str, declared: Mapping[str, Setting]) -> str:
    """Return the dotted key of the setting that contains a path (`include.0`, `metricflow.repoUrl`)."""
    keys = path.split(".")
    found = [".".join(keys[:count]) for count in range(len(keys), 0, -1)]
    return next((key for key in found if key in declared), keys[0])


def required(key: str, declared: Mapping[str, Setting], given: Mapping[str, Any]) -> list[str]:
    """Return a key, or the required keys of a block if none of its keys are given."""
    if any(name == key or name.startswith(f"{key}.") for name in given):
        return [key]
    return [each for each, one in declared.items() if each.startswith(f"{key}.") and one.field.is_required()] or [key]


def renamed(given: Mapping[str, Any], wanted: list[str], declared: Mapping[str, Setting]) -> dict[str, Any]:
    """Return the given values under the keys of the driver: `repo_url` as `repoUrl`, `url` as `base_url`.

    `wanted`: keys that include a missing one. Values that fit no key keep their own.
    """
    found: dict[str, Any] = {}
    for key, value in given.items():
        taken = {*given, *found}
        free = [each for each in declared if each not in taken and declared[each].block is None]
        found[_meant(key, free, wanted, declared) or key] = value
    return found


def _meant(key: str, free: list[str], wanted: list[str], declared: Mapping[str, Setting]) -> str | None:
    open_ = [each for each in wanted if each in free]
    if key == "path":  # the folder in a repository; without a repository, the project's own folder
        folder = next((each for each in open_ if _leaf(each).endswith("_dir")), None)
        if folder is not None:
            return folder
    if key in declared:
        return None
    same = [each for each in free if _folded(_leaf(each)) == _folded(_leaf(key))]
    if same or not open_:
        return same[0] if same else None
    if key == "url":
        return next((each for each in open_ if _leaf(each).lower().endswith("url")), None)
    near = did_you_mean(_leaf(key), [_leaf(each) for each in open_])
    return next((each for each in open_ if _leaf(each) == near), None)


def placeholder(key: str) -> str:
    """Return the placeholder for a value: `REPO_URL` for `metricflow.repoUrl`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", _leaf(key)).upper()


def _leaf(key: str) -> str:
    return key.rpartition(".")[2]


def _folded(name: str) -> str:
    return name.replace("_", "").lower()
