from __future__ import annotations

import ast
import inspect
from pathlib import Path

import pytest

from ktx_cli.core import errors
from ktx_cli.core.errors import ERROR_CODES, KtxError, ResultWarning

PACKAGE = Path(errors.__file__).resolve().parent.parent


def codes_in_the_source() -> set[str]:
    """Every literal that is given as an error's code: `code="x"` in a call, `code = "x"` in a class."""
    found = set()
    for path in PACKAGE.rglob("*.py"):
        source = path.read_text("utf-8")
        for node in ast.walk(ast.parse(source if "code=" in source else "")):
            values = [each.value for each in getattr(node, "keywords", ()) if each.arg == "code"]
            if values and isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("Error", "error")):
                found |= {value.value for value in values if isinstance(value, ast.Constant)}
    classes = [c for c in vars(errors).values() if inspect.isclass(c) and issubclass(c, KtxError)]
    return {code for code in found if isinstance(code, str)} | {c.code for c in classes}


@pytest.mark.house
def test_every_code_that_is_used_is_documented() -> None:
    used = codes_in_the_source()
    assert {"internal", "checks_failed", "usage"} <= used
    assert used <= set(ERROR_CODES)


@pytest.mark.table(
    ("code", "exit_code"),
    [
        ("auth", 3),
        ("no_backend", 3),
        ("billing", 3),
        ("isolation", 3),
        ("rate_limit", 5),
        ("overloaded", 5),
        ("connection", 4),
        ("cancelled", 130),
        ("no_project", 3),
        ("config", 2),
        ("usage", 2),
        ("busy", 6),
        ("partial", 7),
        ("git_missing", 1),
        ("something_new", 1),
    ],
)
def test_exit_codes_of_the_contract(code: str, exit_code: int) -> None:
    assert KtxError("x", code=code).exit_code == exit_code


def test_an_error_as_json() -> None:
    error = KtxError("what, where", hint="do this", details={"path": "x"}, code="git")
    assert error.to_json() == {"code": "git", "message": "what, where", "hint": "do this", "details": {"path": "x"}}
    assert str(error) == "what, where"


def test_a_warning_as_json() -> None:
    warning = ResultWarning("ignored_paths", "two files", hint="look", paths=["a"])
    assert warning.to_json() == {"code": "ignored_paths", "message": "two files", "hint": "look", "paths": ["a"]}
    assert warning == ResultWarning("ignored_paths", "two files", hint="look", paths=["a"])
    assert warning != ResultWarning("ignored_paths", "two files")
