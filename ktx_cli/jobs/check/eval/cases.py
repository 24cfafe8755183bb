"""Eval files: cases with a question and the expected result."""

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

CASE_ID: Final = re.compile(r"[A-Za-z0-9][A-Za-z0-9_.-]{0,99}")
_FORMS: Final = "write one of: `value: 42`, `rows: 3`, or a list of rows such as `- {country: NO, orders: 41}`"


def _as_rows(value: Any) -> Any:
    """Read a list as the expected rows."""
    return {"rows": value} if isinstance(value, list) else value


_TOLERANCE_RULE: Final = checked(
    lambda number: 0 <= number < math.inf, "must be 0 or more", hint="for example: tolerance: 0.01", of_value=True
)


class Expectation(Block):
    """The expected result: one `value`, or `rows`, as a list or a count."""

    value: Any = setting(None, "The single value in the single row.")
    rows: Any = setting(None, "The rows as mappings from column to value or as lists, or their number.")
    columns: list[str] | None = setting(None, "The column names. Required if rows are lists.", min_length=1)
    tolerance: Annotated[float, _TOLERANCE_RULE] = setting(0.0, "The allowed difference between numbers.")

    @model_validator(mode="before")
    @classmethod
    def _drop_empty(cls, value: Any) -> Any:
        """Keep a `value` of null, because NULL is a valid expectation."""
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
            raise wrong("applies only to rows that are lists", hint="remove it", key="columns")
        if self.rows is not None:
            _check_rows(self.rows, self.columns)
        return self

    @property
    def has_value(self) -> bool:
        """Whether a single value is expected."""
        return "value" in self.model_fields_set

    @property
    def table(self) -> tuple[Sequence[str], list[Sequence[Any]]] | None:
        """The expected columns and rows as JSON values, or None if no rows are given."""
        if not isinstance(self.rows, list):
            return None
        if self.columns is not None:
            return self.columns, [[json_value(value) for value in row] for row in self.rows]
        names = [key_text(key) for key in self.rows[0]] if self.rows else []
        texts = [{key_text(key): json_value(value) for key, value in row.items()} for row in self.rows]
        return names, [[row[name] for name in names] for row in texts]

    def to_json(self) -> dict[str, Any]:
        """Return the expectation as plain data."""
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
            raise wrong(f"has no column names in row {number}", hint=f"{lists} `column: value` in each row", key="rows")
        if {key_text(key) for key in row} != {key_text(key) for key in first}:
            hint = "give every row the same columns"
            raise wrong(f"has different columns in rows 1 and {number}", hint=hint, key="rows")
    elif not isinstance(row, list) or len(row) != len(columns):
        raise wrong(f"needs a list with a value for each column in row {number}", hint="[NO, 41]", key="rows")


_ID_RULE: Final = checked(
    lambda text: CASE_ID.fullmatch(text) is not None,
    "must contain only letters, digits, `_`, `.` and `-`",
    hint="for example: id: revenue-2025",
    of_value=True,
)


class EvalCase(Block):
    """One case: a question with the expected result."""

    id: Annotated[str, _ID_RULE] = setting(REQUIRED, "The name of the case, unique in its file.")
    question: str | None = setting(None, "The question in words.", min_length=1)
    query: dict[str, Any] | None = setting(None, "A semantic layer query.", min_length=1)
    sql: str | None = setting(
        None, "A read-only SQL statement. Together with `query`, both must return the same result.", min_length=1
    )
    ask: bool = setting(False, "Ask the configured model the question.")
    connection: str | None = setting(None, "The connection to query.", min_length=1)
    attributes: dict[str, Any] = setting(dict, "Attributes of the caller, used by row policies and masks.")
    tolerance: Annotated[float, _TOLERANCE_RULE] = setting(
        0.0, "The allowed difference between numbers in `query` and `sql`."
    )
    expect: Annotated[Expectation | None, BeforeValidator(_as_rows)] = setting(None, "The expected result.")

    @model_validator(mode="after")
    def _check(self) -> EvalCase:
        has_statement = self.query is not None or self.sql is not None
        if not has_statement and not self.ask:
            hint = "add `ask: true` to ask the configured model the question"
            raise wrong("needs `query`, `sql`, both or `ask: true`", hint=hint)
        if has_statement and self.ask:
            raise wrong("has `ask: true` and a `query` or `sql`", hint="keep one of them")
        if self.tolerance and not self.compares:
            hint = "move it below `expect`"
            raise wrong("only applies to cases with both `query` and `sql`", hint=hint, key="tolerance")
        if self.ask and self.question is None:
            raise wrong("is missing", hint="question: How many orders were shipped late?", key="question")
        return self

    @property
    def compares(self) -> bool:
        """Whether the results of the query and the SQL are compared."""
        return self.query is not None and self.sql is not None

    @property
    def kind(self) -> Literal["query", "sql", "compare", "ask"]:
        """The kind of case: a semantic layer query, an SQL statement, both or a question to the model."""
        if self.compares:
            return "compare"
        return "ask" if self.ask else "sql" if self.sql is not None else "query"


def _each_once(cases: list[EvalCase]) -> list[EvalCase]:
    ids = [case.id for case in cases]
    twice = next((case_id for place, case_id in enumerate(ids) if case_id in ids[:place]), None)
    if twice is not None:
        raise wrong(f"has two cases with the id `{twice}`", hint="give each case its own id")
    return cases


class EvalFile(Block):
    """An eval file."""

    connection: str | None = setting(None, "The default connection of the cases.", min_length=1)
    cases: Annotated[list[EvalCase], AfterValidator(_each_once)] = setting(list, "The cases.")


@dataclass(frozen=True, slots=True)
class Case:
    """A case with its location: the path in the project, the index in the file, and the line from 1."""

    path: str
    index: int
    line: int
    asked: EvalCase
    connection: str | None

    @property
    def name(self) -> str:
        """`FILE/ID`, without the file suffix."""
        return f"{self.file}/{self.asked.id}"

    @property
    def file(self) -> str:
        """The name of the case's file, without folder and suffix."""
        return self.path.rpartition("/")[2].rpartition(".")[0]

    @property
    def digest(self) -> str:
        """A digest of the question and the expected result."""
        asked = self.asked
        expected: Mapping[str, Any] | None = None if asked.expect is None else asked.expect.to_json()
        facts: list[Any] = [asked.kind, asked.query, asked.sql, asked.question if asked.ask else None, self.connection]
        facts += [asked.tolerance] if asked.tolerance else []
        text = json.dumps([*facts, asked.attributes, expected], sort_keys=True, default=str)
        return hashlib.sha256(text.encode("utf-8", "backslashreplace")).hexdigest()


_ENDINGS: Final = (".yaml", ".yml")
_EXAMPLE: Final = "start the file with `cases:` and a list of cases"


@dataclass(frozen=True, slots=True)
class Loaded:
    """All cases of a project in file order, and warnings about the files."""

    cases: list[Case] = field(default_factory=list)
    warnings: list[ResultWarning] = field(default_factory=list)

    def named(self, names: Sequence[str]) -> list[Case]:
        """Return the cases with these names (`FILE`, `FILE/ID` or `ID`), or all cases if there are no names.

        Raises `UsageError` for an unknown name.
        """
        for name in names:
            if not any(_is(case, name) for case in self.cases):
                raise self._unknown(name)
        return [case for case in self.cases if not names or any(_is(case, name) for name in names)]

    def _unknown(self, name: str) -> UsageError:
        known = dict.fromkeys(name for case in self.cases for name in (case.file, case.name, case.asked.id))
        near = did_you_mean(name, known)
        hint = Command("eval", near) if near else f"available: {listing(known, 10) or 'none'}"
        return UsageError(f"there is no eval `{name}`", hint=hint, details={"candidates": list(known)})


def _is(case: Case, name: str) -> bool:
    return name in (case.file, case.name, case.asked.id)


def load_evals(layout: Layout) -> Loaded:
    """Return the cases of a project. Raises `ConfigError` with all problems of the first invalid file."""
    loaded = Loaded()
    for path in _files(layout):
        _require_inside(layout, path)
        _load(loaded, path, f"{EVALS_NAME}/{path.name}")
    names = [case.name for case in loaded.cases]
    twice = next((case for place, case in enumerate(loaded.cases) if case.name in names[:place]), None)
    if twice is not None:
        message = f"{twice.path}:{twice.line}: another file also has an eval `{twice.name}`"
        raise ConfigError(message, hint=f"rename {twice.path}, or give the case another id")
    return loaded


def _files(layout: Layout) -> list[Path]:
    if not layout.evals.is_dir():
        return []
    return sorted(path for path in layout.evals.iterdir() if path.suffix in _ENDINGS and path.is_file())


def _require_inside(layout: Layout, path: Path) -> None:
    """Raise `ConfigError` for a symbolic link that points out of the project.

    A repository could contain such a link, and error messages quote the file.
    """
    if not path.resolve().is_relative_to(layout.root.resolve()):
        where = layout.evals if layout.evals.is_symlink() else path
        message = f"{where} is a symbolic link to a file outside the project"
        raise ConfigError(message, hint=Command(where, program="rm"))


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
    """Yield the unknown keys. `raw` may have any shape."""
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
            hint = f"did you mean `{near}`?" if near else f"valid keys: {', '.join(known)}"
            message = f"unknown key {named((*at, key))} in an eval file"
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
