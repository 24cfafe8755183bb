"""Every word a person is asked for is a setting of the driver, and every driver is asked for what it needs."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError, UsageError
from ktx_cli.jobs.setup.answers import DATABASE_WORDS, SOURCE_WORDS, Word, questions_of
from ktx_cli.jobs.setup.plan import declared, fields_of, key_of, ordered, put, read_value, typed
from ktx_cli.project.config.connections import drivers
from ktx_cli.project.config.file import check_connection
from ktx_cli.project.plugins import SOURCES, WAREHOUSES

KINDS = ((DATABASE_WORDS, WAREHOUSES.built_in), (SOURCE_WORDS, SOURCES.built_in))


def _words(driver: str) -> dict[str, Word]:
    return {word.name: word for words, drivers in KINDS if driver in drivers for word in words}


def test_every_driver_is_asked_for_something() -> None:
    assert all(questions_of(driver) for driver in drivers())


@pytest.mark.table("driver", drivers())
def test_every_word_is_a_setting(driver: str) -> None:
    words = _words(driver)
    for question in questions_of(driver):
        word = words[question.word]
        key = key_of(word, driver)
        assert key is not None, question
        setting = declared(driver, key)
        assert setting is not None and setting.block is None
        assert word.secret == setting.secret, f"{question}: typed unseen, or not"
    warehouse = WAREHOUSES.find(driver)
    assert warehouse is None or not warehouse.takes_url or key_of(words["url"], driver) == "url"


@pytest.mark.table("driver", drivers())
def test_what_is_needed_is_enough(driver: str) -> None:
    words = _words(driver)
    first = questions_of(driver)[0].word
    needed = {question.word: "data" for question in questions_of(driver) if question.required} or {first: "data"}
    needed |= {"url": "https://bi.example.com"} if "url" in needed else {}
    defaults = {question.word: question.default for question in questions_of(driver) if question.default}
    given: dict[str, Any] = {**defaults, **needed}
    given |= {name: [value] for name, value in given.items() if words[name].several}
    fields = fields_of(driver, given, tuple(words.values()), flag="--x-")
    check_connection("warehouse", fields)


@pytest.mark.table(("words", "drivers"), KINDS)
def test_every_key_is_of_some_driver_and_every_word_is_unique(words: tuple[Word, ...], drivers: Any) -> None:
    for word in words:
        for key in word.keys:
            having = [driver for driver in drivers if declared(driver, key) is not None]
            assert having, f"{word.name}: {key}"
    assert len({word.name for word in words}) == len(words)


def test_a_word_that_the_driver_has_nothing_for() -> None:
    with pytest.raises(UsageError, match="the driver `sqlite` does not accept --database-host") as caught:
        fields_of("sqlite", {"host": "h", "path": "x"}, DATABASE_WORDS, flag="--database-")
    assert caught.value.hint == "it accepts --database-url, --database-path"


ORDERED: list[tuple[dict[str, Any], list[str]]] = [
    ({"password": "p", "driver": "postgres", "host": "h"}, ["driver", "host", "password"]),
    ({"z": 1, "include": [], "a": 2, "driver": "sqlite", "path": "x"}, ["driver", "path", "include", "z", "a"]),
    ({"mappings": {}, "api_key": "k", "api_url": "u", "driver": "metabase"},
     ["driver", "api_url", "api_key", "mappings"]),
    ({"b": 1, "driver": "nothing", "a": 2}, ["b", "driver", "a"]),
]  # fmt: skip


@pytest.mark.table(("fields", "keys"), ORDERED)
def test_the_order_of_fields(fields: dict[str, Any], keys: list[str]) -> None:
    assert [*ordered(fields)] == keys
    assert ordered(fields) == fields


def test_the_order_within_a_block() -> None:
    inner = {"auth_token_ref": "t", "path": "p", "repoUrl": "r", "branch": "b"}
    found = ordered({"metricflow": inner, "driver": "metricflow"})
    assert [*found["metricflow"]] == ["repoUrl", "branch", "path", "auth_token_ref"]


@pytest.mark.table(
    ("dotted", "value", "expected"),
    [
        ("port", "5432", 5432), ("port", "env:PORT", "env:PORT"), ("port", "\u0665", "\u0665"), ("port", "-1", "-1"),
        ("ssl", "true", True), ("ssl", "false", False), ("ssl", "maybe", "maybe"), ("host", "5432", "5432"),
        ("password", "12", "12"),
    ],
)  # fmt: skip
def test_what_was_typed(dotted: str, value: str, expected: Any) -> None:
    found = typed("postgres", dotted, value)
    assert (found, type(found)) == (expected, type(expected))


@pytest.mark.table(
    ("key", "text", "expected"),
    [
        ("password", "*x", "*x"), ("password", "12", "12"), ("password", "{", "{"), ("url", "yes", "yes"),
        ("port", "12", 12), ("schemas", "[a, b]", ["a", "b"]), ("of_mine", "true", True),
    ],
)  # fmt: skip
def test_key_and_value(key: str, text: str, expected: Any) -> None:
    assert read_value("postgres", key, text, where="--set") == expected


def test_a_value_that_is_no_yaml() -> None:
    with pytest.raises(ConfigError, match=r"^--set schemas:1:1"):
        read_value("postgres", "schemas", "*x", where="--set schemas")


def test_a_key_inside_what_is_no_mapping() -> None:
    fields: dict[str, Any] = {"url": "canary-url"}
    with pytest.raises(UsageError, match="`url` is not a mapping") as caught:
        put(fields, "url.x", 1)
    assert "canary" not in caught.value.message
    put(fields, "a.b.c", 1)
    assert fields["a"] == {"b": {"c": 1}}
