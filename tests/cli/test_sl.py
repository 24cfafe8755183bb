"""`ktx sl`: finding, listing and reading sources; what the shell completes; that nothing is written."""

from __future__ import annotations

import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml

Run = Callable[..., Any]

ORDERS = """\
name: orders
table: orders
description: Every order of a customer
grain: [id]
default_time_dimension: {dbt: placed_on}
columns:
  - {name: id, type: number}
  - {name: customer_id, type: number}
  - {name: placed_on, type: time, natural_granularity: day}
  - {name: margin, type: number, visibility: internal}
  - {name: card_number, type: string, visibility: hidden}
joins:
  - {to: customers, on: orders.customer_id = customers.id, relationship: many_to_one}
measures:
  - {name: order_count, expr: count(*), description: How many purchases there were}
  - {name: seen, expr: sum(id), percent_of: total}
segments:
  - {name: recent, expr: placed_on > '2024-01-01'}
tests:
  - {name: all, query: {measures: [orders.order_count]}, expect_value: 3}
"""
CUSTOMERS = """\
name: customers
table: customers
grain: [id]
columns:
  - {name: id, type: number}
  - {name: country, type: string, description: Where the customer lives}
"""
VAULT = "name: vault\ntable: vault\nvisibility: hidden\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"
STAGING = "name: staging\ntable: staging\nvisibility: internal\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"


@pytest.fixture
def layer(shop: Path) -> Path:
    """A project over the shop with a semantic layer of people's own."""
    folder = shop.parent
    (folder / "ktx.yaml").write_text("connections:\n  warehouse:\n    driver: sqlite\n    path: shop.sqlite\n")
    below = folder / "semantic-layer" / "warehouse"
    below.mkdir(parents=True)
    texts = {"orders": ORDERS, "customers": CUSTOMERS, "vault": VAULT, "staging": STAGING}
    for name, text in texts.items():
        (below / f"{name}.yaml").write_text(text)
    return folder


def state(folder: Path) -> dict[str, bytes | None]:
    return {str(path): path.read_bytes() if path.is_file() else None for path in sorted(folder.rglob("*"))}


@pytest.mark.parametrize(
    "words",
    [
        [],
        ["order"],
        ["list"],
        ["read", "orders"],
        ["read", "orders", "--yaml"],
        ["validate"],
        ["query", "-m", "orders.order_count"],
        ["explain", "-m", "orders.order_count"],
        ["test"],
    ],
)
@pytest.mark.parametrize("mode", ["--json", "--plain"])
def test_nothing_is_written(ktx: Run, layer: Path, words: list[str], mode: str) -> None:
    before = state(layer)
    assert ktx("sl", *words, mode).code in (0, 1)
    assert state(layer) == before


def test_a_search(ktx: Run, layer: Path) -> None:
    answer = ktx("sl", "purchases", "--json")
    assert answer.envelope["schema"] == "ktx/sl/v1"
    (hit,) = answer.data["hits"]
    assert hit.pop("score") > 0
    assert hit == {
        "kind": "measure",
        "id": "orders.order_count",
        "connection": "warehouse",
        "summary": "How many purchases there were",
        "snippet": "How many purchases there were",
        "matched_on": ["description"],
        "pages": [],
        "status": None,
    }
    assert ktx("sl", "purchases").out.splitlines() == [
        "kind\tname\tsummary\tmatched on",
        "measure\torders.order_count\tHow many purchases there were\tdescription",
    ]


def test_a_search_of_several_words_and_one_with_a_typing_error(ktx: Run, layer: Path) -> None:
    assert ktx("sl", "customer", "country", "--json").data["hits"][0]["id"] == "customers.country"
    answer = ktx("sl", "contry", "--json")
    assert answer.data["corrected"] == {"contry": "country"}
    assert [each["code"] for each in answer.envelope["warnings"]] == ["no_index", "corrected"]
    assert len(ktx("sl", "order", "--limit", "1", "--json").data["hits"]) == 1


def test_a_search_ranks_as_the_search_of_the_project_does(ktx: Run, layer: Path) -> None:
    below = layer / "raw-sources" / "warehouse" / "live-database"
    below.mkdir(parents=True)
    measure = {"order_count": {"questions": ["How busy was the shop?"], "synonyms": ["turnout"]}}
    entry = {"hash": "1", "questions": ["What did people take home?"], "measures": measure}
    (below / "questions.yaml").write_text(yaml.dump({"format": 1, "sources": {"orders": entry}}))
    kinds = [word for kind in ("source", "measure", "segment", "column") for word in ("--kind", kind)]
    for question, first in {
        "turnout": "orders.order_count",
        "how busy was the shop": "orders.order_count",
        "what did people take home": "orders",
        "where does a customer live": "customers.country",
    }.items():
        found = ktx("sl", question, "--json").data["hits"]
        everywhere = ktx("search", question, *kinds, "--json").data["hits"]
        assert [(each["id"], each["score"]) for each in found] == [(each["id"], each["score"]) for each in everywhere]
        assert found[0]["id"] == first
    assert ktx("index").code == 0
    answer = ktx("sl", "turnout", "--json")
    assert answer.data["hits"][0]["id"] == "orders.order_count" and not answer.envelope["warnings"]


def test_a_search_that_finds_nothing(ktx: Run, layer: Path) -> None:
    answer = ktx("sl", "zzzzz")
    assert (answer.code, answer.out) == (0, "found: nothing\n")
    assert "next: ktx sl list" in answer.err


@pytest.mark.parametrize("word", ["card_number", "vault", "margin", "staging"])
def test_what_is_not_public_is_not_found(ktx: Run, layer: Path, word: str) -> None:
    found = ktx("sl", word, "--json").data["hits"]
    assert not [hit for hit in found if word in hit["id"]]
    shown = ktx("sl", word, "--internal", "--json").data["hits"]
    assert bool([hit for hit in shown if word in hit["id"]]) is (word in ("margin", "staging"))


@pytest.mark.parametrize("words", [[], ["list"]])
def test_the_list(ktx: Run, layer: Path, words: list[str]) -> None:
    answer = ktx("sl", *words, "--json")
    assert [each["name"] for each in answer.data["sources"]] == ["customers", "orders"]
    assert answer.data["sources"][1] == {
        "connection": "warehouse",
        "name": "orders",
        "kind": "table",
        "grain": ["id"],
        "columns": 3,
        "measures": 2,
        "joins": 1,
        "segments": 1,
        "visibility": "public",
        "label": None,
        "description": "Every order of a customer",
        "statuses": None,
    }
    assert ktx("sl", *words).out.splitlines() == [
        "source\tkind\tgrain\tcolumns\tmeasures\tjoins\tdescription",
        "customers\ttable\tid\t2\t0\t0\t",
        "orders\ttable\tid\t3\t2\t1\tEvery order of a customer",
    ]


def test_an_empty_layer(ktx: Run, layer: Path) -> None:
    for path in (layer / "semantic-layer" / "warehouse").iterdir():
        path.unlink()
    answer = ktx("sl")
    assert (answer.code, answer.out, answer.err) == (0, "sources: none\n", "next: ktx ingest\n")
    assert ktx("sl", "list", "-c", "warehouse", "--json").envelope["error"]["hint"] == "ktx ingest warehouse"


def test_a_broken_file_is_a_warning_with_its_place(ktx: Run, layer: Path) -> None:
    (layer / "semantic-layer" / "warehouse" / "customers.yaml").write_text("name: customers\ntable: [\n")
    (warning,) = ktx("sl", "list", "--json").envelope["warnings"]
    assert warning["code"] == "semantic_problems"
    assert warning["message"].startswith("semantic-layer/warehouse/customers.yaml:")
    assert warning["hint"] == "ktx sl validate -c warehouse --no-data"


HIDDEN_SOURCE = """\
name: appraisals
table: customers
visibility: hidden
grain: [id]
columns: [{name: id, type: number}, {name: percentile, type: number}]
measures: [{name: appraised, expr: count(*)}]
"""
OVER_HIDDEN = """\
name: badges
table: orders
grain: [id, percentile_key]
columns: [{name: id, type: number}, {name: percentile_key, type: number, visibility: hidden}]
joins: [{to: appraisals, on: id = appraisals.id, relationship: many_to_one}]
measures:
  - {name: badge_count, expr: count(*)}
  - {name: badge_rank, expr: avg(percentile)}
  - {name: badge_share, expr: badge_count / appraisals.appraised}
  - {name: secret_badges, expr: count(*), visibility: hidden}
  - {name: open_badges, expr: badge_count - secret_badges}
"""


@pytest.mark.parametrize(
    "asked",
    [
        ("sl", "read", "badges"),
        ("sl", "list"),
        ("sl", "badge rank share open badges"),
        ("search", "badge rank"),
        ("search", "open badges"),
        ("pack", "badge rank, badge share and open badges"),
    ],
)
def test_what_is_hidden_is_in_no_text_of_others(ktx: Run, layer: Path, asked: tuple[str, ...]) -> None:
    for name, text in {"appraisals": HIDDEN_SOURCE, "badges": OVER_HIDDEN}.items():
        (layer / "semantic-layer" / "warehouse" / f"{name}.yaml").write_text(text)
    for options in ((), ("--json",)):
        answer = ktx(*asked, *options)
        said = answer.out.replace("badge_share", "") + answer.err
        assert answer.code == 0 and "badge" in said
        assert not [each for each in ("percentile", "apprais", "secret_badges") if each in said], said


def test_reading_a_source(ktx: Run, layer: Path) -> None:
    data = ktx("sl", "read", "orders", "--json").data
    assert [each["name"] for each in data["columns"]] == ["id", "customer_id", "placed_on"]
    assert data["not_shown"] == {"columns": 2, "measures": 0}
    assert (data["time"], data["grain"], data["tests"]) == ("placed_on", ["id"], ["all"])
    assert data["measures"][1]["special"] == {"percent_of": "total"}
    assert data["joins"][0] == {
        "to": "customers",
        "alias": None,
        "on": "orders.customer_id = customers.id",
        "relationship": "many_to_one",
        "source": None,
        "status": None,
        "status_why": None,
    }
    internal = ktx("sl", "read", "orders", "--internal", "--json").data
    assert [each["name"] for each in internal["columns"]] == ["id", "customer_id", "placed_on", "margin"]
    out = ktx("sl", "read", "ORDERS").out
    assert "not shown: 2 columns" in out
    assert "card_number" not in out
    assert "measure\texpr\tspecial\tdescription" in out


def test_tables_in_descriptions_are_one_line(ktx: Run, layer: Path) -> None:
    orders = layer / "semantic-layer" / "warehouse" / "orders.yaml"
    table = '"State:\\n\\n| status | meaning |\\n|---|---|\\n| placed | not shipped |\\n| lost | written off |"'
    text = orders.read_text().replace("description: Every order of a customer", f"description: {table}")
    orders.write_text(text.replace("{name: customer_id,", f"{{name: customer_id, description: {table},"))
    shown = "State: placed: not shipped; lost: written off"
    out = ktx("sl", "read", "orders").out
    assert f"description: {shown}\n" in out and f"customer_id\tnumber\t{shown}\n" in out
    assert ktx("sl", "list").out.splitlines()[2].endswith(f"\t{shown}")
    assert f"orders.customer_id\t{shown}\t" in ktx("search", "status written off").out


def test_labels_and_synonyms_are_shown_and_searched(ktx: Run, layer: Path) -> None:
    orders = layer / "semantic-layer" / "warehouse" / "orders.yaml"
    text = orders.read_text()
    assert "\tlabel\t" not in ktx("sl", "list").out and "label" not in ktx("sl", "read", "orders").out
    text = text.replace("{name: customer_id,", "{name: customer_id, label: Buyer, synonyms: [patron, account holder],")
    text = text.replace("{name: order_count,", "{name: order_count, label: Baskets,")
    orders.write_text(text.replace("name: orders\n", "name: orders\nlabel: Web shop\nsynonyms: [purchases made]\n", 1))
    listed = ktx("sl", "list").out.splitlines()
    assert "\tlabel\t" in listed[0] and "\tWeb shop\t" in listed[2]
    out = ktx("sl", "read", "orders").out
    assert "label: Web shop" in out and "column\tlabel\ttype" in out and "patron, account holder" in out
    data = ktx("sl", "read", "orders", "--json").data
    column = next(each for each in data["columns"] if each["name"] == "customer_id")
    assert (column["label"], column["synonyms"]) == ("Buyer", ["patron", "account holder"])
    assert data["measures"][0]["label"] == "Baskets"
    for words, first in {"patron": "orders.customer_id", "account holder": "orders.customer_id", "web shop": "orders",
                         "baskets": "orders.order_count"}.items():  # fmt: skip
        assert ktx("sl", words, "--json").data["hits"][0]["id"] == first


def test_reading_the_files(ktx: Run, layer: Path) -> None:
    assert ktx("sl", "read", "orders", "--yaml").out == ORDERS
    shards = layer / "semantic-layer" / "warehouse" / "_schema"
    shards.mkdir()
    entry = "  orders:\n    table: orders\n    columns: [{name: id, type: number, pk: true}]\n"
    (shards / "main.yaml").write_text(f"tables:\n{entry}")
    answer = ktx("sl", "read", "orders", "--yaml", "--json")
    assert answer.data["files"] == [
        {"path": "semantic-layer/warehouse/_schema/main.yaml", "text": entry},
        {"path": "semantic-layer/warehouse/orders.yaml", "text": ORDERS},
    ]
    assert ktx("sl", "read", "orders", "--yaml").out.startswith(
        "# semantic-layer/warehouse/_schema/main.yaml\n  orders"
    )


@pytest.mark.parametrize(
    ("words", "code", "exit_code", "hint"),
    [
        (["ordres"], "unknown_name", 2, "did you mean `orders`?"),
        (["vaul"], "unknown_name", 2, "available: customers, orders"),
        (["ordres", "--yaml"], "unknown_name", 2, "did you mean `orders`?"),
        (["vault"], "hidden", 1, "ktx sl read vault --yaml"),
        (["staging"], "hidden", 1, "ktx sl read staging --internal"),
        (["orders", "-c", "nowhere"], "usage", 2, "connections: warehouse"),
        (["orders", "-c", "warehous"], "usage", 2, "did you mean `warehouse`?"),
    ],
)
def test_what_cannot_be_read(ktx: Run, layer: Path, words: list[str], code: str, exit_code: int, hint: str) -> None:
    answer = ktx("sl", "read", *words, "--json")
    error = answer.envelope["error"]
    assert (answer.code, error["code"], error["hint"]) == (exit_code, code, hint)


def test_a_source_of_two_connections_needs_one_named(ktx: Run, layer: Path) -> None:
    with (layer / "ktx.yaml").open("a") as file:
        file.write("  other:\n    driver: sqlite\n    path: shop.sqlite\n")
    other = layer / "semantic-layer" / "other"
    other.mkdir()
    (other / "orders.yaml").write_text(ORDERS)
    for more in ([], ["--yaml"]):
        error = ktx("sl", "read", "orders", *more, "--json").envelope["error"]
        assert error["details"] == {"candidates": ["other", "warehouse"]}
        assert ktx("sl", "read", "orders", *more, "-c", "warehouse").code == 0
    assert ktx("sl", "list").out.splitlines()[1].split("\t")[:2] == ["other", "orders"]


def test_without_a_project(ktx: Run) -> None:
    assert ktx("sl", "--json").code == 3


def test_a_subcommand_wins_over_a_word(ktx: Run, layer: Path) -> None:
    assert ktx("sl", "--limit", "3", "list").code == 2
    assert ktx("sl", "--json", "--", "list").data["query"] == "list"


def test_help_imports_no_heavy_library(layer: Path) -> None:
    script = (
        "import sys\nfrom ktx_cli.cli.app import app\n"
        "try:\n    app(['sl', 'query', '--help'])\nexcept SystemExit: pass\n"
        "print(sorted({'sqlglot', 'duckdb', 'pydantic'} & set(sys.modules)), file=sys.stderr)"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, cwd=layer, check=True)
    assert done.stderr.strip() == "[]"
    assert "--user-attribute" in done.stdout


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("ktx sl read or", ["orders"]),
        ("ktx sl read v", []),
        ("ktx sl query -m orders.", ["orders.order_count", "orders.seen"]),
        ("ktx sl query -d orders.p", ["orders.placed_on"]),
        ("ktx sl query --segment o", ["orders.recent"]),
        ("ktx sl explain -d customers.c", ["customers.country"]),
        ("ktx sl val", ["validate"]),
        ("ktx sl test c", ["customers"]),
    ],
)
def test_completes(ktx: Run, layer: Path, monkeypatch: pytest.MonkeyPatch, words: str, found: list[str]) -> None:
    monkeypatch.setenv("_KTX_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    before = state(layer)
    assert ktx().out.split() == found
    assert state(layer) == before


def test_read_names_how_a_column_stores_its_values(ktx: Run, work: Path) -> None:
    with closing(sqlite3.connect(work / "shop.sqlite")) as database, database:
        database.execute("CREATE TABLE payments (payment_id INTEGER, paid_on TEXT, amount REAL)")
        rows = [(n, f"2024-0{1 + n % 9}-1{n % 10}", n / 4) for n in range(1, 60)]
        database.executemany("INSERT INTO payments VALUES (?, ?, ?)", rows)
    (work / "ktx.yaml").write_text("connections: {shop: {driver: sqlite, path: shop.sqlite}}\n")
    assert ktx("ingest", "--no-input").code == 0
    columns = {each["name"]: each for each in ktx("sl", "read", "payments", "--json").data["columns"]}
    assert (columns["paid_on"]["type"], columns["paid_on"]["stored_as"]) == ("time", "iso_date")
    assert columns["amount"]["stored_as"] is None
