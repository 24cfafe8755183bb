"""Reads `evals/*.yaml`: every case with its place, every problem at once with its line."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from pydantic import ValidationError

from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError, ResultWarning, UsageError
from ktx_cli.core.text import did_you_mean, listing, shell_words
from ktx_cli.jobs.evals.model import Case, EvalCase, EvalFile, Expectation
from ktx_cli.project.config.base import Block, settings_of
from ktx_cli.project.config.issues import Issue, Keys, key_text, named, placed
from ktx_cli.project.config.wording import errors_of
from ktx_cli.project.files import read_bytes
from ktx_cli.project.layout import EVALS_NAME, Layout

_ENDINGS: Final = (".yaml", ".yml")
_EXAMPLE: Final = "begin with `cases:` and a list of cases"


@dataclass(frozen=True, slots=True)
class Loaded:
    """All cases of a project in the order of their files, and what is odd about those files."""

    cases: list[Case] = field(default_factory=list)
    warnings: list[ResultWarning] = field(default_factory=list)

    def named(self, names: Sequence[str]) -> list[Case]:
        """Return the cases of these names: `FILE`, `FILE/ID` or an `ID`; all where there is none.

        Raises `UsageError` for a name that nothing has.
        """
        for name in names:
            if not any(_is(case, name) for case in self.cases):
                raise self._unknown(name)
        return [case for case in self.cases if not names or any(_is(case, name) for name in names)]

    def _unknown(self, name: str) -> UsageError:
        known = dict.fromkeys(each for case in self.cases for each in (case.file, case.name, case.asked.id))
        near = did_you_mean(name, known)
        hint = shell_words("ktx", "eval", near) if near else f"there are: {listing(known, 10) or 'none'}"
        return UsageError(f"there is no eval `{name}`", hint=hint, details={"candidates": list(known)})


def _is(case: Case, name: str) -> bool:
    return name in (case.file, case.name, case.asked.id)


def load_evals(layout: Layout) -> Loaded:
    """Return the cases of a project; `ConfigError` for the first file that cannot be used, with all its problems."""
    loaded = Loaded()
    for path in _files(layout):
        _require_inside(layout, path)
        _load(loaded, path, f"{EVALS_NAME}/{path.name}")
    names = [case.name for case in loaded.cases]
    twice = next((case for place, case in enumerate(loaded.cases) if case.name in names[:place]), None)
    if twice is not None:
        raise ConfigError(
            f"{twice.path}:{twice.line}: another file has an eval `{twice.name}` too",
            hint=f"rename {twice.path}, or give the case another id",
        )
    return loaded


def _files(layout: Layout) -> list[Path]:
    if not layout.evals.is_dir():
        return []
    return sorted(path for path in layout.evals.iterdir() if path.suffix in _ENDINGS and path.is_file())


def _require_inside(layout: Layout, path: Path) -> None:
    """Raise `ConfigError` for a link out of the project: it could come with a repository, and problems quote files."""
    if not path.resolve().is_relative_to(layout.root.resolve()):
        where = layout.evals if layout.evals.is_symlink() else path
        raise ConfigError(f"{where} is a link that leads out of the project", hint=shell_words("rm", where))


def _load(loaded: Loaded, path: Path, where: str) -> None:
    text = read_bytes(path) or b""
    raw = yaml.load(text, where=where)
    if raw is None:
        return
    if not isinstance(raw, dict):
        raise ConfigError(f"{where}:1: the file must be a mapping", hint=_EXAMPLE)
    raw = {key_text(key): value for key, value in raw.items()}
    issues = list(_unknown_keys(raw))
    try:
        found = EvalFile.model_validate(raw)
    except ValidationError as error:
        raise _config_error(where, placed([*issues, *errors_of(error, {})], text)) from None
    loaded.warnings.extend(_warning(where, issue) for issue in placed(issues, text))
    lines = _lines(text)
    for index, case in enumerate(found.cases):
        loaded.cases.append(Case(where, index, lines[index], case, case.connection or found.connection))


def _lines(text: bytes) -> list[int]:
    """Return the line of each case."""
    root = yaml.compose(text, where="")
    cases = next((node for key, node in (root.pairs if root else ()) if key.value == "cases"), None)
    return [] if cases is None else [item.line + 1 for item in cases.items]


def _unknown_keys(raw: Mapping[str, Any]) -> Iterator[Issue]:
    """Yield the keys that mean nothing; `raw` may be of any shape."""
    yield from _unknown_in(EvalFile, raw, ())
    cases = raw.get("cases")
    for index, case in enumerate(cases if isinstance(cases, list) else ()):
        yield from _unknown_in(EvalCase, case, ("cases", str(index)))
        if isinstance(case, dict):
            yield from _unknown_in(Expectation, case.get("expect"), ("cases", str(index), "expect"))


def _unknown_in(model: type[Block], raw: Any, at: Keys) -> Iterator[Issue]:
    known = settings_of(model)
    for key in map(key_text, raw if isinstance(raw, dict) else ()):
        if key not in known:
            near = did_you_mean(key, known)
            hint = f"did you mean `{near}`?" if near else f"known here: {', '.join(known)}"
            message = f"{named((*at, key))} means nothing in a file of evals"
            yield Issue((*at, key), message, hint, "warning", "unknown_key")


def _warning(where: str, issue: Issue) -> ResultWarning:
    place = f"{where}:{issue.line}"
    return ResultWarning(
        f"eval_{issue.code}", f"{place}: {issue.message}", hint=issue.hint, path=where, line=issue.line
    )


def _config_error(where: str, issues: Sequence[Issue]) -> ConfigError:
    errors = [issue for issue in issues if issue.severity == "error"]
    first = errors[0]
    place = f"{where}:{first.line}:{first.column}" if first.line else where
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    details = {"path": where, "line": first.line, "issues": [issue.to_json() for issue in issues]}
    return ConfigError(f"{place}: {first.message}{more}", hint=first.hint, details=details)
