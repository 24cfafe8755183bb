"""Pydantic's own sentences reach nobody: every error type the models can raise has our words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, get_args

import pytest
from pydantic import ValidationError
from pydantic_core.core_schema import ErrorType

from ktx_cli.core.errors import ConfigError, UsageError
from ktx_cli.project.config.base import Block, Setting, settings_of
from ktx_cli.project.config.checks import WORDS, errors_of
from ktx_cli.project.config.connections import drivers, model_of
from ktx_cli.project.config.file import load_config
from ktx_cli.project.config.model import KtxConfig
from ktx_cli.project.config.settings import parse_cli_value

PYDANTIC = re.compile(r"Input should|should match|Value error|unable to parse|Field required|valid (string|integer)")
"""How pydantic speaks."""

RAISES: dict[str, set[str]] = {
    "str": {"string_type", "string_unicode"},
    "int": {"int_type"},
    "float": {"float_type"},
    "bool": {"bool_type"},
    "list": {"list_type"},
    "dict": {"dict_type"},
    "model": {"model_type"},
    "model-field": {"missing"},
    "literal": {"literal_error"},
    "min_length": {"string_too_short"},
    "pattern": {"string_pattern_mismatch"},
    "gt": {"greater_than"},
    "ge": {"greater_than_equal"},
    "lt": {"less_than"},
    "le": {"less_than_equal"},
}
"""Node of a pydantic schema, or limit of one -> the errors that strict validation raises at it."""

RAISES_NOTHING = {
    "any", "default", "definition-ref", "definitions", "function-after", "function-before", "function-plain",
    "function-wrap", "model-fields", "nullable",
}  # fmt: skip
NO_LIMITS = {"items_schema", "keys_schema", "metadata", "ref", "serialization", "strict", "type", "values_schema"}

WRONG: list[Any] = [
    "", "x", "12", "\udcff", 0, -1, 3, 1.5, -2.5, float("nan"), float("inf"), 10**30, True, False, [], [1], ["x"], [[]],
    {}, {"x": 1}, {"x": []},
]  # fmt: skip


def models(model: type[Block]) -> Iterator[type[Block]]:
    yield model
    for declared in settings_of(model).values():
        if declared.block is not None:
            yield from models(declared.block)


ROOTS: list[tuple[str | None, type[Block]]] = [(None, KtxConfig), *((driver, model_of(driver)) for driver in drivers())]


def nodes(schema: Any) -> Iterator[dict[str, Any]]:
    if isinstance(schema, dict):
        if isinstance(schema.get("type"), str):
            yield schema
        for key, item in schema.items():
            if key not in ("metadata", "serialization", "default"):
                yield from nodes(item)
    elif isinstance(schema, list | tuple):
        for item in schema:
            yield from nodes(item)


def schema_errors() -> set[str]:
    found: set[str] = set()
    for _, root in ROOTS:
        root.model_rebuild(force=True)
        for node in nodes(root.__pydantic_core_schema__):
            kind = node["type"]
            if kind in RAISES:
                found |= RAISES[kind]
            elif kind not in RAISES_NOTHING and kind not in ("no-info", "with-info"):
                pytest.fail(f"say what a `{kind}` raises")
            if kind in ("str", "int", "float", "list", "dict"):
                for limit in set(node) - NO_LIMITS:
                    found |= RAISES[limit]
    return found


def test_every_error_the_models_can_raise_has_words() -> None:
    wanted = schema_errors()
    assert {"string_pattern_mismatch", "greater_than", "literal_error", "missing"} <= wanted, "the walk sees limits"
    assert wanted - set(WORDS) == set()


def test_the_table_has_no_error_that_pydantic_does_not_know() -> None:
    assert set(WORDS) - {"rule"} <= set(get_args(ErrorType))
    assert set(WORDS) - {"rule"} <= schema_errors()


def cases() -> Iterator[tuple[str | None, tuple[str, ...], Setting]]:
    for driver, root in ROOTS:
        start = ("connections", "c") if driver else ()
        yield from below(driver, start, root)


def below(
    driver: str | None, at: tuple[str, ...], block: type[Block]
) -> Iterator[tuple[str | None, tuple[str, ...], Setting]]:
    for key, declared in settings_of(block).items():
        yield driver, (*at, key), declared
        if declared.block is not None:
            yield from below(driver, (*at, key), declared.block)


CASES = list(cases())
PARTS = 4
"""Every fourth setting runs by default, the others with the sweeps."""


@pytest.mark.parametrize("part", [0, *(pytest.param(part, marks=pytest.mark.slow) for part in range(1, PARTS))])
def test_no_value_gets_a_sentence_of_pydantic(part: int) -> None:
    for driver, keys, declared in CASES[part::PARTS]:
        _require_own_sentences(driver, keys, declared)


def _require_own_sentences(driver: str | None, keys: tuple[str, ...], declared: Setting) -> None:
    for value in WRONG:
        raw: dict[str, Any] = {"connections": {"c": {"driver": driver}}} if driver else {}
        place = raw
        for key in keys[:-1]:
            place = place.setdefault(key, {})
        place[keys[-1]] = value
        try:
            KtxConfig.model_validate(raw)
        except ValidationError as error:
            for item, issue in zip(error.errors(), errors_of(error, raw), strict=True):
                assert item["type"] in WORDS, f"{issue.setting}: {item['type']} for {value!r}"
                assert not PYDANTIC.search(issue.message), issue.message
                assert issue.message.startswith("`")
                if declared.secret and isinstance(value, str) and value.strip():
                    assert f"`{value}`" not in issue.message


SENTENCES: list[tuple[str, str, str | None]] = [
    # the file, what is said, the hint
    (
        "storage: {git: {author: me}}",
        "`storage.git.author` cannot be the text `me`; expected: Author of ktx's commits, `Name <address>`",
        "for example ktx <ktx@example.com>",
    ),
    ("storage: {git: {author: ''}}", "`storage.git.author` is empty", "set a value, for example ktx <ktx@exam"),
    (
        "ingest: {workUnits: {stepBudget: '4'}}",
        "`ingest.workUnits.stepBudget` must be a whole number, not the text `4`",
        "write a whole number, without quotes, for example 40",
    ),
    ("ingest: {workUnits: {stepBudget: 0}}", "`ingest.workUnits.stepBudget` must be more than 0, not 0", "example 40"),
    (
        "ingest: {rateLimit: {throttleThreshold: .nan}}",
        "`ingest.rateLimit.throttleThreshold` must be at most 1, not nan",
        "for example 0.8",
    ),
    ("ingest: {rateLimit: {enabled: yes}}", "must be true or false, not the text `yes`", "quotes, for example true"),
    ("ingest: {profile: 3}", "`ingest.profile` must be true, false or `json`, not the number 3", "for example false"),
    ("llm: {models: {default: 4}}", "`llm.models.default` must be a text, not the number 4", "in double quotes"),
    ("llm: {models: {default: []}}", "must be a text, not a list", "write a text, for example claude-sonnet-5-5"),
    ("connections: {a: {driver: files}}", "`connections.a.path` is missing", "for example `path: data/exports`"),
    (
        "connections: {a: {driver: mysql, host: h, port: abc}}",
        "`connections.a.port` must be a port number from 1 to 65535, not the text `abc`",
        "for example 3306",
    ),
    ("connections: {a: {driver: mysql, host: h, include: {}}}", "must be a list, not a mapping", "example [mart.*]"),
    (
        "connections: {a: {driver: metabase, api_url: 'ftp://u:hunter2@h'}}",
        "must be a URL that begins with https:// or http://, not the text `ftp://u:***@h`",
        "for example https://bi.example.com",
    ),
    # of a secret only its kind is told
    ("connections: {a: {driver: mysql, host: h, password: 12}}", "must be a text, not a number", "double quotes"),
    ("connections: {a: {driver: mysql, url: [u, p]}}", "must be a text, not a list", "for example env:WAREHOUSE_URL"),
]  # fmt: skip


@pytest.mark.table(("text", "says", "hint"), SENTENCES)
def test_sentences_name_the_value_what_is_expected_and_an_example(text: str, says: str, hint: str | None) -> None:
    with pytest.raises(ConfigError) as caught:
        load_config(Path("ktx.yaml"), data=text.encode()).require_valid()
    assert says in caught.value.message
    assert (hint or "") in (caught.value.hint or "")


@pytest.mark.table(
    ("key", "text", "says", "hint"),
    [
        ("storage.git.author", "me", "cannot be the text `me`", "set storage.git.author 'ktx <ktx@example.com>'"),
        ("ingest.workUnits.stepBudget", "4.5", "must be a whole number, not the number 4.5", "stepBudget 40"),
        ("ingest.workUnits.stepBudget", "-4", "must be more than 0, not -4", "ingest.workUnits.stepBudget 40"),
        ("ingest.rateLimit.throttleThreshold", "abc", "must be a number, not the text `abc`", "throttleThreshold 0.8"),
        ("scan.relationships.acceptThreshold", "3", "must be at most 1, not 3", "acceptThreshold 0.6"),
        ("scan.privacy", "locl", "cannot be `locl`; use one of off, local, strict", "did you mean `local`?"),
        ("scan.privacy", "x", "cannot be `x`; use one of off", "write one of off, local, strict"),
        ("connections.c.port", "abc", "`connections.c.port` must be a port number", "connections.c.port 5432"),
        ("connections.c.path", "\udcff", "is not valid UTF-8", "UTF-8 terminal"),
    ],
)  # fmt: skip
def test_on_the_command_line_the_hint_is_a_command(key: str, text: str, says: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_cli_value(key, text, driver="files" if key.endswith("path") else "postgres")
    assert caught.value.message.startswith(f"`{key}` ")
    assert says in caught.value.message
    assert hint in (caught.value.hint or "")
