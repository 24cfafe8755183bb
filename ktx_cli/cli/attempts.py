"""What to type when a connection was refused before it was saved: the command again, with the flag that was wrong."""

from __future__ import annotations

import contextlib
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from ktx_cli.core import KtxError, did_you_mean, shell_words

if TYPE_CHECKING:
    from ktx_cli.project import Block, Setting


_SETTING = re.compile(r"connections\.[A-Za-z0-9_-]+\.([A-Za-z_]+(?:\.[A-Za-z_]+)*)")
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
        issues = error.details.get("issues") or ()
        if issues and issues[0]["path"].startswith("connections."):
            return self._hint_for_issues(issues)
        command = _CONFIG_SET.search(hint)
        if command is not None:
            return self.typed({command[1]: command["value"]})
        if f"ktx connection test {self.connection}" == hint:
            return f"{self.typed({})} --no-test saves it without connecting"
        wrong = dict.fromkeys(_SETTING.findall(hint))
        if not wrong:
            return error.hint
        said = _SETTING.sub(lambda found: self._flag(found[1]), hint)
        return f"{said}, then: {self.typed({key: placeholder(key) for key in wrong})}"

    def _hint_for_issues(self, issues: Sequence[Mapping[str, Any]]) -> str:
        issue, hint = issues[0], issues[0]["hint"] or ""
        if issue["code"] == "id":
            return f"take another id: {self.typed({}, _other_id(self.connection or ''))}"
        declared = declared_of(self.fields.get("driver"))
        path = _path_in(issue)
        keys = [setting_at(path, declared)] if path else _QUOTED_NAME.findall(issue["message"].partition("` ")[2])
        near = _NEAR.search(hint)
        if near is not None:
            return self.typed(dict.fromkeys(keys[:1], near[1]))
        if path and _is_missing(issue):
            keys = [setting_at(_path_in(each), declared) for each in issues if _is_missing(each)]
            return self._completed(keys, declared)
        if not path:
            return self._completed(keys, declared, one=True)
        typed = self.typed({key: placeholder(key) for key in keys})
        return f"{hint}: {typed}" if hint else typed

    def _completed(self, keys: Sequence[str], declared: Mapping[str, Setting], *, one: bool = False) -> str:
        """Return the command with what is missing, `one` of it or all; from other names where it was given by them."""
        given = flat(self.fields)
        wanted = [each for key in keys for each in required(key, declared, given)]
        fields = renamed(given, wanted, declared)
        missing = [key for key in wanted if key not in fields]
        if one:
            missing = missing[:1] if len(missing) == len(wanted) else []
        return replace(self, fields=fields).typed({key: placeholder(key) for key in missing})

    def _flag(self, key: str) -> str:
        return self.flags.get(key) or f"{self.other_flag} {key}".strip()

    def typed(self, changed: Mapping[str, str], connection: str | None = None) -> str:
        """Return the command with some fields changed; secrets given in clear are not shown again."""
        name = connection or self.connection
        words = [*self.begins, *filter(None, [self.id_flag if name else "", name])]
        for key, value in {**flat(self.fields), **changed}.items():
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
        from ktx_cli.project import has_password, is_literal_secret

        declared, text = declared_of(self.fields.get("driver")).get(key), str(value)
        leaf = key.rpartition(".")[2]
        return "env:NAME" if has_password(text) or is_literal_secret(declared, leaf, text) else value


def _path_in(issue: Mapping[str, Any]) -> str:
    """Return the path of an issue below its connection."""
    return str(issue["path"]).partition(".")[2].partition(".")[2]


def _is_missing(issue: Mapping[str, Any]) -> bool:
    return bool(_path_in(issue)) and (issue["hint"] or "").startswith("add it")


def _other_id(connection: str) -> str:
    """Return an id that may be one, near to one that may not."""
    usable = re.sub(r"[^A-Za-z0-9_-]+", "-", connection).strip("-_")[:60].rstrip("-_")
    return f"{usable}-db" if usable == connection else usable or "warehouse"


def flat(fields: Mapping[str, Any], above: str = "") -> dict[str, Any]:
    """Return dotted key -> value; what has keys that cannot be written with dots stays one value."""
    found: dict[str, Any] = {}
    for key, value in fields.items():
        inner = isinstance(value, dict) and value and all(re.fullmatch(r"[^.=\s]+", str(name)) for name in value)
        found |= flat(value, f"{above}{key}.") if inner else {f"{above}{key}": value}
    return found


def declared_of(driver: Any) -> dict[str, Setting]:
    """Return the settings of a driver by dotted key, blocks too; none for a driver there is none of."""
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
    """Return the dotted key of the setting in which a path (`include.0`, `metricflow.repoUrl`) lies."""
    keys = path.split(".")
    found = [".".join(keys[:count]) for count in range(len(keys), 0, -1)]
    return next((key for key in found if key in declared), keys[0])


def required(key: str, declared: Mapping[str, Setting], given: Mapping[str, Any]) -> list[str]:
    """Return a key, or where a block is wanted of which nothing is given, the keys in it that must be."""
    if any(name == key or name.startswith(f"{key}.") for name in given):
        return [key]
    return [each for each, one in declared.items() if each.startswith(f"{key}.") and one.field.is_required()] or [key]


def renamed(given: Mapping[str, Any], wanted: list[str], declared: Mapping[str, Setting]) -> dict[str, Any]:
    """Return what was given, under the keys the driver has: `repo_url` as `repoUrl`, `url` as `base_url`.

    `wanted`: the keys one of which is missing. What fits no key stays under its own.
    """
    found: dict[str, Any] = {}
    for key, value in given.items():
        taken = {*given, *found}
        free = [each for each in declared if each not in taken and declared[each].block is None]
        found[_meant(key, free, wanted, declared) or key] = value
    return found


def _meant(key: str, free: list[str], wanted: list[str], declared: Mapping[str, Setting]) -> str | None:
    open_ = [each for each in wanted if each in free]
    if key == "path":  # of a repository it is a folder in it; where no repository is named it is the project's own
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
    """Return the word that stands for a value: `REPO_URL` for `metricflow.repoUrl`."""
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", _leaf(key)).upper()


def _leaf(key: str) -> str:
    return key.rpartition(".")[2]


def _folded(name: str) -> str:
    return name.replace("_", "").lower()
