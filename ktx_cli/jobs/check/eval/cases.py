"""The files of evals: cases, each with what it asks and what has to come out."""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Final, Literal

from pydantic import AfterValidator, BeforeValidator, ValidationError, model_validator

from ktx_cli.core import (
    Command,
    ConfigError,
    ResultWarning,
    Severity,
    UsageError,
    did_you_mean,
    json_value,
    listing,
    yaml,
)
from ktx_cli.project import (
    EVALS_NAME,
    REQUIRED,
    Block,
    Issue,
    Keys,
    Layout,
    checked,
    errors_of,
    key_text,
    named,
    placed,
    read_bytes,
    setting,
    settings_of,
    wrong,
)

_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_FORMS: Final = "write one of: `value: 42`, `rows: 3`, or a list of rows such as `- {country: NO, orders: 41}`"


def _as_rows(value: Any) -> Any:
    """Take a list for the rows that are expected."""
    return {"rows": value} if isinstance(value, list) else value


_TOLERANCE_RULE: Final = checked(
    lambda number: 0 <= number < math.inf, "must be 0 or more", hint="for example: tolerance: 0.01", of_value=True
)


class Expectation(Block):
    """What an answer has to be: one `value`, or `rows`: these, or so many."""

    value: Any = setting(None, "The one value of the one row.")
    rows: Any = setting(None, "How many rows, or the rows: mappings of columns, or lists under `columns`.")
    columns: list[str] | None = setting(None, "The names of the columns, where rows are lists.", min_length=1)
    tolerance: Annotated[float, _TOLERANCE_RULE] = setting(0.0, "How far a number may be from the expected one.")

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, value: Any) -> Any:
        """Keep a `value` of null: NULL may be what is expected."""
        if isinstance(value, dict):
            return {key: item for key, item in value.items() if item is not None or key == "value"}
        return value

    @model_validator(mode="after")
    def _check(self) -> Expectation:
        if self.has_value == (self.rows is not None):
            raise wrong("needs either `value` or `rows`", hint=_FORMS)
        if self.has_value and isinstance(self.value, list | dict):
            raise wrong("must be one value", hint=_FORMS, key="value")
        if self.columns is not None and not isinstance(self.rows, list):
            raise wrong("is for rows that are lists", hint="leave it out", key="columns")
        if self.rows is not None:
            _check_rows(self.rows, self.columns)
        return self

    @property
    def has_value(self) -> bool:
        """Whether one value is expected."""
        return "value" in self.model_fields_set

    @property
    def table(self) -> tuple[Sequence[str], list[Sequence[Any]]] | None:
        """The columns and rows that are expected, values as JSON takes them; None where none are named."""
        if not isinstance(self.rows, list):
            return None
        if self.columns is not None:
            return self.columns, [[json_value(value) for value in row] for row in self.rows]
        names = [key_text(key) for key in self.rows[0]] if self.rows else []
        texts = [{key_text(key): json_value(value) for key, value in row.items()} for row in self.rows]
        return names, [[row[name] for name in names] for row in texts]

    def to_json(self) -> dict[str, Any]:
        """Return what is expected as plain data."""
        expected: dict[str, Any] = {"value": json_value(self.value)} if self.has_value else {}
        if self.table is not None:
            columns, rows = self.table
            expected = {"columns": list(columns), "rows": [list(row) for row in rows]}
        elif self.rows is not None:
            expected = {"rows": self.rows}
        return expected | ({"tolerance": self.tolerance} if self.tolerance else {})


def _check_rows(rows: Any, columns: Sequence[str] | None) -> None:
    if isinstance(rows, int) and not isinstance(rows, bool):
        if rows < 0:
            raise wrong("must be 0 or more", hint="rows: 0", key="rows")
        return
    if not isinstance(rows, list):
        raise wrong("must be a number or a list of rows", hint=_FORMS, key="rows")
    for number, row in enumerate(rows, start=1):
        _check_row(row, number, rows[0], columns)


def _check_row(row: Any, number: int, first: Any, columns: Sequence[str] | None) -> None:
    if columns is None:
        if not isinstance(row, dict):
            lists = "name their `columns`, or write" if isinstance(row, list) else "write"
            raise wrong(f"has a row {number} without names", hint=f"{lists} `column: value` in each row", key="rows")
        if {key_text(key) for key in row} != {key_text(key) for key in first}:
            raise wrong(f"has other columns in row {number} than in row 1", hint="name all in each row", key="rows")
    elif not isinstance(row, list) or len(row) != len(columns):
        raise wrong(f"has a row {number} that is no list of {len(columns)} values", hint="[NO, 41]", key="rows")


_ID_RULE: Final = checked(
    lambda text: _ID.fullmatch(text) is not None,
    "must be of letters, digits, `_`, `.` and `-`",
    hint="for example: id: revenue-2025",
    of_value=True,
)


class EvalCase(Block):
    """One case: what is asked, and what has to come out."""

    id: Annotated[str, _ID_RULE] = setting(REQUIRED, "Names the case in its file.")
    question: str | None = setting(None, "The question in words.", min_length=1)
    query: dict[str, Any] | None = setting(None, "The question to the semantic layer.", min_length=1)
    sql: str | None = setting(
        None, "One statement that reads; with `query`, it must have the same result.", min_length=1
    )
    ask: bool = setting(False, "Whether the configured model is asked the question in words.")
    connection: str | None = setting(None, "The connection that is asked.", min_length=1)
    attributes: dict[str, Any] = setting(dict, "Who asks, for policies.")
    tolerance: Annotated[float, _TOLERANCE_RULE] = setting(0.0, "How far numbers of `query` and `sql` may be apart.")
    expect: Annotated[Expectation | None, BeforeValidator(_as_rows)] = setting(None, "What has to come out.")

    @model_validator(mode="after")
    def _check(self) -> EvalCase:
        has_statement = self.query is not None or self.sql is not None
        if not has_statement and not self.ask:
            hint = "add `ask: true` to put its question to the configured model"
            raise wrong("needs `query`, `sql`, both or `ask: true`", hint=hint)
        if has_statement and self.ask:
            raise wrong("has `ask: true` and a `query` or `sql`", hint="keep one of them")
        if self.tolerance and not self.compares:
            hint = "write it below `expect`"
            raise wrong("is for cases with both `query` and `sql`", hint=hint, key="tolerance")
        if self.ask and self.question is None:
            raise wrong("is missing", hint="question: How many orders were shipped late?", key="question")
        return self

    @property
    def compares(self) -> bool:
        """Whether the answer of its query is compared with that of its SQL."""
        return self.query is not None and self.sql is not None

    @property
    def kind(self) -> Literal["query", "sql", "compare", "ask"]:
        """The kind of the question: to the semantic layer, a database, both or the model."""
        if self.compares:
            return "compare"
        return "ask" if self.ask else "sql" if self.sql is not None else "query"


def _each_once(cases: list[EvalCase]) -> list[EvalCase]:
    ids = [case.id for case in cases]
    twice = next((case_id for place, case_id in enumerate(ids) if case_id in ids[:place]), None)
    if twice is not None:
        raise wrong(f"has the id `{twice}` twice", hint="give each case its own id")
    return cases


class EvalFile(Block):
    """A file of evals."""

    connection: str | None = setting(None, "The connection of cases that name none.", min_length=1)
    cases: Annotated[list[EvalCase], AfterValidator(_each_once)] = setting(list, "The cases.")


@dataclass(frozen=True, slots=True)
class Case:
    """A case where it stands. `path`: from the project, with `/`; `index`: in its file; `line` counts from 1."""

    path: str
    index: int
    line: int
    asked: EvalCase
    connection: str | None

    @property
    def name(self) -> str:
        """`FILE/ID`, the file without its ending."""
        return f"{self.file}/{self.asked.id}"

    @property
    def file(self) -> str:
        """The name of its file, without folder and ending."""
        return self.path.rpartition("/")[2].rpartition(".")[0]

    @property
    def digest(self) -> str:
        """A digest of what the case asks and expects."""
        asked = self.asked
        expected: Mapping[str, Any] | None = None if asked.expect is None else asked.expect.to_json()
        facts: list[Any] = [asked.kind, asked.query, asked.sql, asked.question if asked.ask else None, self.connection]
        facts += [asked.tolerance] if asked.tolerance else []
        text = json.dumps([*facts, asked.attributes, expected], sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


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
        known = dict.fromkeys(name for case in self.cases for name in (case.file, case.name, case.asked.id))
        near = did_you_mean(name, known)
        hint = Command("eval", near) if near else f"there are: {listing(known, 10) or 'none'}"
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
        message = f"{twice.path}:{twice.line}: another file has an eval `{twice.name}` too"
        raise ConfigError(message, hint=f"rename {twice.path}, or give the case another id")
    return loaded


def _files(layout: Layout) -> list[Path]:
    if not layout.evals.is_dir():
        return []
    return sorted(path for path in layout.evals.iterdir() if path.suffix in _ENDINGS and path.is_file())


def _require_inside(layout: Layout, path: Path) -> None:
    """Raise `ConfigError` for a link out of the project: it could come with a repository, and problems quote files."""
    if not path.resolve().is_relative_to(layout.root.resolve()):
        where = layout.evals if layout.evals.is_symlink() else path
        raise ConfigError(f"{where} is a link that leads out of the project", hint=Command(where, program="rm"))


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
        file = EvalFile.model_validate(raw)
    except ValidationError as error:
        raise _config_error(where, placed([*issues, *errors_of(error, {})], text)) from None
    loaded.warnings.extend(_warning(where, issue) for issue in placed(issues, text))
    lines = _lines(text)
    for index, case in enumerate(file.cases):
        loaded.cases.append(Case(where, index, lines[index], case, case.connection or file.connection))


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
            yield Issue((*at, key), message, hint, Severity.WARNING, "unknown_key")


def _warning(where: str, issue: Issue) -> ResultWarning:
    place = f"{where}:{issue.line}"
    return ResultWarning.of(issue, f"eval_{issue.code}", f"{place}: {issue.message}", path=where, line=issue.line)


def _config_error(where: str, issues: Sequence[Issue]) -> ConfigError:
    errors = [issue for issue in issues if issue.severity == "error"]
    first = errors[0]
    place = f"{where}:{first.line}:{first.column}" if first.line else where
    more = f" (and {len(errors) - 1} more)" if len(errors) > 1 else ""
    details = {"path": where, "line": first.line, "issues": [issue.to_json() for issue in issues]}
    return ConfigError(f"{place}: {first.message}{more}", hint=first.hint, details=details)
