"""Merge keys, aliases, and connection ids that one folder could not hold apart."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError
from ktx_cli.project.config.file import load_config
from ktx_cli.project.config.model import KtxConfig


def failure(text: str) -> ConfigError:
    with pytest.raises(ConfigError) as caught:
        load_config(Path("ktx.yaml"), data=text.encode()).require_valid()
    return caught.value


def loaded(text: str) -> KtxConfig:
    return load_config(Path("ktx.yaml"), data=text.encode()).config


@pytest.mark.table(
    ("text", "path", "line", "hint"),
    [
        (
            "connections:\n  a: &base {driver: sqlite, path: x}\n  b:\n    <<: *base\n    path: y\n",
            "connections.b.<<",
            4,
            "write `driver: ..., path: ...` instead",
        ),
        ("base: &base {backend: none}\nllm:\n  provider: {<<: *base}\n", "llm.provider.<<", 3, "`backend: ...`"),
        ("connections:\n  a:\n    <<: [{driver: sqlite}]\n", "connections.a.<<", 3, "the settings themselves"),
        ("llm:\n  models: {'<<': x}\n", "llm.models.<<", 2, "the settings themselves"),
        ("unknown:\n- {<<: {a: 1}}\n", "unknown.0.<<", 2, "`a: ...`"),
        ("<<: {llm: {}}\n", "<<", 1, "`llm: ...`"),
    ],
)
def test_merge_keys_are_refused_with_what_to_write(text: str, path: str, line: int, hint: str) -> None:
    error = failure(text)
    assert error.message.startswith(f"ktx.yaml:{line}:")
    assert f"`{path}` is a merge key, which ktx.yaml does not support" in error.message
    assert hint in (error.hint or "")
    assert [issue["code"] for issue in error.details["issues"]] == ["merge_key"], "not also: no `driver`"


def test_what_a_merge_key_holds_is_not_shown() -> None:
    error = failure("connections:\n  a: {<<: {driver: mysql, host: h, password: hunter2}}\n")
    assert "hunter2" not in f"{error.message} {error.hint} {error.details}"


ALIASES: list[tuple[str, Any]] = [
    ("connections: {a: &x {driver: sqlite, path: p}, b: *x}", lambda c: c.connections["b"].path == "p"),
    ("connections: {a: {driver: sqlite, path: &p p}, b: {driver: sqlite, path: *p}}", lambda c: c.connections),
    ("connections: {a: {driver: sqlite, path: p, include: &l [x]}, b: {driver: sqlite, path: p, exclude: *l}}",
     lambda c: c.connections["b"].exclude == ["x"]),
    ("x: &all {a: {driver: sqlite, path: p}}\nconnections: *all", lambda c: list(c.connections) == ["a"]),
    ("x: &id a\nconnections: {*id : {driver: sqlite, path: p}}", lambda c: list(c.connections) == ["a"]),
    ("x: &m some-model\nllm: {models: {default: *m, curator: *m}}", lambda c: c.llm.models["curator"] == "some-model"),
    ("x: &n 7\ningest: {workUnits: {stepBudget: *n}}", lambda c: c.ingest.work_units.step_budget == 7),
    ("setup: {database_connection_ids: [&i a, *i]}\nconnections: {a: {driver: sqlite, path: p}}",
     lambda c: c.setup.database_connection_ids == ["a", "a"]),
]  # fmt: skip


@pytest.mark.table(("text", "holds"), ALIASES)
def test_aliases_stand_for_whole_values_everywhere(text: str, holds: Any) -> None:
    assert holds(loaded(text))


def test_an_error_in_an_alias_is_placed_where_it_is_used() -> None:
    error = failure("x: &a {driver: sqlite, path: 3}\nconnections:\n  b: *a\n")
    assert error.message.startswith("ktx.yaml:3:3: `connections.b.path` must be a text")


def test_ids_that_differ_only_in_case_are_refused_with_both_lines() -> None:
    error = failure(
        "connections:\n  s: {driver: sqlite, path: x}\n  t: {driver: sqlite, path: y}\n  S: {driver: sqlite, path: z}\n"
    )
    assert error.message.startswith(
        "ktx.yaml:4:3: the connection ids `s` (line 2) and `S` (line 4) differ only in case"
    )
    assert "`S-2`" in (error.hint or "")
    assert error.details["issues"][0]["path"] == "connections.S"


def test_collisions_come_with_the_other_errors_of_the_file() -> None:
    error = failure("connections:\n  s: {driver: sqlite, path: x}\n  S: {driver: sqlite, path: 3}\n")
    assert [issue["path"] for issue in error.details["issues"]] == ["connections.S", "connections.S.path"]


def test_ids_that_differ_in_more_than_case_are_kept_apart() -> None:
    text = "connections: {s: {driver: sqlite, path: x}, s_: {driver: sqlite, path: x}, S-1: {driver: sqlite, path: x}}"
    assert list(loaded(text).connections) == ["s", "s_", "S-1"]
