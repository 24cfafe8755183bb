"""From answers to the text of `ktx.yaml`: what they name changes, once, and nothing else."""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core import yaml
from ktx_cli.core.errors import ConfigError, UsageError
from ktx_cli.jobs.setup.answers import Answers, ConnectionAnswer, EmbeddingAnswer, ModelAnswer
from ktx_cli.jobs.setup.plan import NEW_CONFIG, kept, planned

EMPTY = b"llm: {provider: {backend: none}}\n"


def database(driver: str = "sqlite", id: str | None = None, **fields: Any) -> Answers:
    return Answers(databases=(ConnectionAnswer({"driver": driver, **fields}, id),))


def source(driver: str, id: str | None = None, **fields: Any) -> Answers:
    return Answers(sources=(ConnectionAnswer({"driver": driver, **fields}, id),))


def _with(answers: Answers, before: bytes = EMPTY) -> bytes:
    return planned(answers, before).text


PG = {"host": "h", "database": "d", "username": "u"}
FLOW = {"repoUrl": "git@host:a/b.git"}
IDS: list[tuple[Answers, Answers, str]] = [
    (database(path="a"), database(path="a"), "warehouse"),
    (database(path="a"), database(path="a", include=["x"]), "warehouse"),
    (database(path="a"), database(path="b"), "warehouse-2"),
    (database(path="a", id="shop"), database(path="a"), "shop"),
    (database(path="a", id="shop"), database("duckdb", path="a"), "warehouse"),
    (database("postgres", **PG), database("postgres", **PG, port=5433), "warehouse-2"),
    (database("postgres", **PG), database("postgres", **PG, password="env:P", schemas=["a"]), "warehouse"),
    (database("postgres", **PG), database("postgres", **{**PG, "database": "e"}), "warehouse-2"),
    (database("postgres", **PG), database("postgres", url="env:URL"), "warehouse-2"),
    (database("postgres", url="env:URL"), database("postgres", url="env:URL"), "warehouse"),
    (database("bigquery", project_id="p", dataset_ids=["a"]),
     database("bigquery", project_id="p", dataset_ids=["b"]), "warehouse"),
    (source("documents", path="."), source("documents", path="."), "documents"),
    (source("documents", path="."), source("documents", path="docs"), "documents-2"),
    (source("metricflow", metricflow=FLOW), source("metricflow", metricflow=FLOW), "metricflow"),
    (source("metricflow", metricflow=FLOW), source("metricflow", metricflow={"repoUrl": "other"}), "metricflow-2"),
    (source("notion", auth_token="env:A"), source("notion", auth_token="env:A"), "notion"),
    (source("notion", auth_token="env:A"), source("notion", auth_token="env:B"), "notion-2"),
    (source("dbt", source_dir="x", id="Warehouse"), database(path="a"), "warehouse-2"),
]  # fmt: skip
"""What is there, what comes, and the id that it gets."""


@pytest.mark.table(("there", "comes", "expected"), IDS)
def test_the_id(there: Answers, comes: Answers, expected: str) -> None:
    before = _with(there)
    plan = planned(comes, before)
    assert plan.connections == [expected]
    again = planned(comes, plan.text)
    assert (again.connections, again.text) == ([expected], plan.text)


def test_a_secret_is_the_same_as_the_reference_to_it() -> None:
    url = "postgresql://u:canary@h/d"
    before = _with(database("postgres", url="file:.ktx/secrets/warehouse-url"))

    def same(configured: Any, given: Any) -> bool:
        return bool(configured == given or (configured, given) == ("file:.ktx/secrets/warehouse-url", url))

    assert planned(database("postgres", url=url), before, same).connections == ["warehouse"]
    assert planned(database("postgres", url=url), before).connections == ["warehouse-2"]
    assert planned(database("mysql", url="env:URL"), before, _never).connections == ["warehouse-2"]


def _never(configured: Any, given: Any) -> bool:
    raise AssertionError("a secret of another driver is looked up")


REFUSED: list[tuple[Answers, str]] = [
    (database("duckdb", id="shop", path="a"), "has the driver `sqlite`, not `duckdb`"),
    (source("documents", id="shop", path="a"), "has the driver `sqlite`, not `documents`"),
    (database(id="Shop", path="a"), "differs only in case from"),
    (database(id="../x", path="a"), "is not a valid connection id"),
    (database(id="test", path="a"), "`connections.test`"),
    (database(id="x"), "needs `path` or `url`"),
    (database(id="shop", path=5), "must be a text"),
    (database(id="shop", query_policy="x"), "cannot be `x`"),
    (Answers(llm=ModelAnswer("gpt")), "cannot be `gpt`"),
    (Answers(llm=ModelAnswer("anthropic", {"x": "m"})), "there is no role `x`"),
    (Answers(llm=ModelAnswer("claude-code", provider={"api_key": "k"})), "does not accept --llm-api-key"),
    (Answers(llm=ModelAnswer(None, provider={"location": "k"})), "the backend `none` does not accept --llm-location"),
    (Answers(llm=ModelAnswer("gateway", provider={"base_url": "http://u:canary@h"})), "contains a password"),
    (Answers(llm=ModelAnswer(descriptions="x")), "cannot be `x`"),
    (Answers(embeddings=EmbeddingAnswer("x")), "cannot be `x`"),
    (Answers(embeddings=EmbeddingAnswer("model2vec", api_key="k")), "does not accept --embedding-api-key"),
    (
        Answers(embeddings=EmbeddingAnswer(base_url="k")),
        "the embeddings backend `none` does not accept --embedding-base-url",
    ),
    (Answers(embeddings=EmbeddingAnswer("sentence-transformers", base_url="http://u:canary@h")), "contains a password"),
]


@pytest.mark.table(("answers", "says"), REFUSED)
def test_what_is_refused(answers: Answers, says: str) -> None:
    before = _with(database(id="shop", path="a"))
    with pytest.raises((ConfigError, UsageError)) as caught:
        planned(answers, before)
    assert says in caught.value.message
    assert "canary" not in f"{caught.value.message} {caught.value.hint}"
    assert caught.value.hint


SLICES: list[tuple[Answers, dict[str, Any]]] = [
    (Answers(), {}),
    (Answers(llm=ModelAnswer("claude-code")), {"llm": {"provider": {"backend": "claude-code"}}}),
    (Answers(llm=ModelAnswer(None, {"curator": "x", "default": "m"})),
     {"llm": {"provider": {"backend": "none"}, "models": {"default": "m", "curator": "x"}}}),
    (Answers(llm=ModelAnswer("vertex", {}, {"api_key": "env:T", "location": "eu"})),
     {"llm": {"provider": {"backend": "vertex", "vertex": {"access_token": "env:T", "location": "eu"}}}}),
    (Answers(embeddings=EmbeddingAnswer("sentence-transformers", "m", 5, base_url="http://h")),
     {"ingest": {"embeddings": {"backend": "sentence-transformers", "model": "m", "dimensions": 5,
                                "sentenceTransformers": {"base_url": "http://h"}}}}),
    (database(path="a"), {"connections": {"warehouse": {"driver": "sqlite", "path": "a"}}}),
]  # fmt: skip


@pytest.mark.table(("answers", "changes"), SLICES)
def test_only_a_slice_changes(answers: Answers, changes: dict[str, Any]) -> None:
    mine = b"storage: {git: {author: 'A <a@example.com>'}}\nof mine:   [1]  # two\n"
    before = EMPTY + mine
    after = _with(answers, before)
    assert yaml.load(after, where="") == {**yaml.load(before, where=""), **changes}
    assert mine in after
    assert planned(answers, after).text == after


def test_a_new_file() -> None:
    assert planned(Answers(), None).text == NEW_CONFIG
    assert planned(database(path="a"), None).text.startswith(NEW_CONFIG)


def test_secrets_in_clear_are_kept_and_references_are_not() -> None:
    answers = Answers(
        llm=ModelAnswer("anthropic", provider={"api_key": "canary-1", "base_url": "http://h"}),
        embeddings=EmbeddingAnswer("openai", api_key="env:X", base_url="https://u:canary-2@h"),
        databases=(ConnectionAnswer({"driver": "postgres", "url": "file:x", "mine": {"token": "canary-3"}}),),
        sources=(ConnectionAnswer({"driver": "metabase", "api_url": "http://h", "api_key": "canary-4"}, "bi"),),
    )
    secrets: dict[str, str] = {}
    found = kept(answers, lambda name, secret: secrets.setdefault(secret, name), ["pg", "bi"])
    assert secrets == {
        "canary-1": "llm-anthropic-api-key", "https://u:canary-2@h": "embeddings-base-url", "canary-3": "pg-token",
        "canary-4": "bi-api-key",
    }  # fmt: skip
    assert "canary" not in repr(found)
    assert "canary-3" in repr(answers), "the answers themselves stay as they are"


# Whatever a file looks like: comments, blank lines and what is not named stay as they are, at their place.


@st.composite
def files(draw: Callable[..., Any]) -> tuple[str, list[str]]:
    """Return the text of a `ktx.yaml`, and the parts of it that no answer names."""
    pad = " " * draw(st.integers(1, 6))
    numbers = itertools.count()
    quote = draw(st.sampled_from(["{}", '"{}"', "'{}'"])).format

    def note() -> str:
        return draw(st.sampled_from(["", " # {} backend: x", "    #{}"])).format(next(numbers))

    def between(indent: str = "") -> str:
        lines = draw(st.lists(st.sampled_from(["", "# {} include: [x]", "   # {}"]), max_size=2))
        return "".join(f"{indent if line else ''}{line.format(next(numbers))}\n" for line in lines)

    provider = draw(
        st.sampled_from(
            [
                f"{{ {quote('provider')}: {{backend:   none}}, {quote('models')} : {{'triage': {quote('m')}}} }}",
                f"\n{between(pad)}{pad}{quote('provider')}:{note()}\n{pad * 2}{quote('backend')}: {quote('none')}",
            ]
        )
    )
    shop = draw(
        st.sampled_from(
            [
                f" {{driver: sqlite, path: {quote('shop.sqlite')} }}",
                f"{note()}\n{pad * 2}driver: {quote('sqlite')}{note()}\n{between(pad * 2)}{pad * 2}path: shop.sqlite",
            ]
        )
    )
    rest = f"{quote('storage')}: {{git: {{author: 'A <a@example.com>'}}}}{note()}\n{between()}of mine:\n{pad}- [1,2 ]\n"
    other = f"{pad}other: {{driver: duckdb,   path: {quote('x.duckdb')}}}{note()}\n{between(pad)}"
    text = (
        f"{between()}{quote('llm')}: {provider}{note()}\n{between()}{rest}"
        f"{quote('connections')}:{note()}\n{other}{pad}shop:{shop}{note()}\n{between(pad)}"
    )
    return text, [rest, other.split("\n")[0]]


MODELS = st.none() | st.builds(
    ModelAnswer,
    st.sampled_from([None, "none", "claude-code"]),
    st.dictionaries(st.sampled_from(["default", "triage", "repair"]), st.sampled_from(["m", "claude-code:x", "#y"])),
)
VECTORS = st.none() | st.builds(EmbeddingAnswer, st.sampled_from(["none", "model2vec"]), st.sampled_from([None, "./m"]))
PATTERNS = st.lists(st.sampled_from(["o*", "*_tmp", "- x", "a, b", "#"]), min_size=1, max_size=2)
DATABASES = st.lists(
    st.one_of(
        st.builds(lambda include: ConnectionAnswer({"driver": "sqlite", "include": include}, "shop"), PATTERNS),
        st.sampled_from(["a", "shop.sqlite"]).map(lambda path: ConnectionAnswer({"driver": "sqlite", "path": path})),
        st.just(ConnectionAnswer({"driver": "postgres", **PG, "context": {"queryHistory": {"enabled": True}}}, "pg")),
    ),
    max_size=2,
    unique_by=lambda each: each.id,
).map(tuple)
ANSWERS = st.builds(Answers, MODELS, VECTORS, DATABASES)
FORMS = st.sampled_from(["\n", "\r\n"])


@given(files(), ANSWERS, FORMS, st.booleans(), st.booleans())
def test_what_is_not_named_stays(
    file: tuple[str, list[str]], answers: Answers, end: str, ends: bool, has_mark: bool
) -> None:
    text, untouched = file
    text = text if ends else text.rstrip("\n")
    before = ("\ufeff" if has_mark else "") + text.replace("\n", end)
    after = planned(answers, before.encode()).text.decode()
    assert [line for line in after.split(end) if _is_note(line)] == [
        line for line in before.split(end) if _is_note(line)
    ]
    assert _notes(after) == _notes(before), "a comment behind a setting is gone"
    for part in untouched:
        assert part.rstrip("\n").replace("\n", end) in after
    assert after.startswith("\ufeff") == has_mark
    assert end == "\n" or after.count("\n") == after.count("\r\n")
    assert planned(answers, after.encode()).text == after.encode(), "a second time something changes"
    was, now = yaml.load(before, where=""), yaml.load(after, where="")
    assert now["storage"] == was["storage"] and now["of mine"] == was["of mine"]
    assert now["connections"]["other"] == was["connections"]["other"]
    for answer in answers.databases:
        assert any(fields.items() >= answer.fields.items() for fields in now["connections"].values())


def _is_note(line: str) -> bool:
    return line.strip("\ufeff ").startswith("#")


def _notes(text: str) -> list[str]:
    return re.findall(r"# ?\d+[^\r\n]*", text)
