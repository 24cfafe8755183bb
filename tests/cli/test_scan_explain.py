"""`ktx scan relationships --explain`."""

from __future__ import annotations

import json
import random
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.warehouses import base
from tests.cli.conftest import done
from tests.cli.test_reading import tree
from tests.cli.test_scan_relationships import CUSTOMER, PARCEL, build_scanned

Run = Callable[..., Any]
EXPLAIN = ("scan", "relationships", "--explain")
CURRENCY = "orders.currency->currencies.code"


def build_with_codes(folder: Path) -> None:
    """Build a scanned project with orphans of a code, a declared key, and a column that refers to two tables."""
    chance = random.Random(4)
    codes = ["EUR", "USD", "GBP", "CHF", "SEK", "NOK", "DKK", "PLN"]
    rows = [(n, chance.choice(codes) if n % 6 else "ZZZ", chance.randint(1, 80)) for n in range(1000, 1300)]
    database = sqlite3.connect(folder / "shop.sqlite")
    database.executescript(
        """
        CREATE TABLE currencies (code TEXT, label TEXT);
        CREATE TABLE customers (id INTEGER PRIMARY KEY, label TEXT);
        CREATE TABLE orders (id INTEGER, currency TEXT, customer_id INTEGER REFERENCES customers (id));
        CREATE TABLE comments (id INTEGER, owner_type TEXT, owner_id INTEGER);
        """
    )
    database.executemany("INSERT INTO currencies VALUES (?, ?)", [(code, f"label {code}") for code in codes])
    database.executemany("INSERT INTO customers VALUES (?, ?)", [(n, f"label {n}") for n in range(1, 81)])
    database.executemany("INSERT INTO orders VALUES (?, ?, ?)", rows)
    owners = [
        ("customer", chance.randint(1, 80)) if n % 2 else ("order", chance.randint(1000, 1299)) for n in range(300)
    ]
    database.executemany("INSERT INTO comments VALUES (?, ?, ?)", [(n, *owner) for n, owner in enumerate(owners, 5000)])
    database.commit()
    database.close()
    done("setup", "--database", "sqlite", "--database-path", "shop.sqlite")
    done("scan", "--depth", "profile")


@pytest.fixture
def scanned(work: Path, copies: Callable[..., Path]) -> Path:
    return copies(build_scanned, work)


@pytest.fixture
def coded(work: Path, copies: Callable[..., Path]) -> Path:
    return copies(build_with_codes, work)


def explanation(ktx: Run, *words: str) -> dict[str, Any]:
    answer = ktx(*EXPLAIN, *words, "--json")
    assert answer.code == 0, answer
    (found,) = answer.data["explanations"]
    return dict(found)


def test_an_explanation_shows_the_decision_the_evidence_and_what_would_change(ktx: Run, scanned: Path) -> None:
    answer = ktx(*EXPLAIN, "orders.customer_id")
    assert answer.code == 0
    lines = answer.out.splitlines()
    assert lines[0] == CUSTOMER
    assert lines[1].startswith("  The scan accepted it: the score is ")
    assert "  + The name `customer_id` matches the table `customers`." in lines
    for title in ("Evidence (+ for the join, - against it)", "Score by step"):
        assert title in lines
    assert "What would change the decision" in lines and "Other candidate keys for this column" in lines


def test_the_envelope(ktx: Run, scanned: Path) -> None:
    answer = ktx(*EXPLAIN, CUSTOMER, "--json")
    assert (answer.envelope["schema"], answer.data["decided"]) == ("ktx/scan-relationships/v1", None)
    assert [each["edge"] for each in answer.data["relationships"]] == [CUSTOMER]
    (found,) = answer.data["explanations"]
    assert (found["edge"], found["connection"], found["status"]) == (CUSTOMER, "warehouse", "accepted")
    assert (found["basis"], found["note"]) == ("scan", None) and found["scanned"]
    assert {"topic", "bearing", "text"} == set(found["evidence"][0])
    assert found["steps"][-1] == {"evidence": "columns", "score": found["score"], "because": None}
    assert {"condition", "text", "score", "status"} == set(found["changes"][0])


def test_reading_an_explanation_changes_nothing(ktx: Run, scanned: Path) -> None:
    (scanned / "shop.sqlite").rename(scanned / "elsewhere.sqlite")  # and needs no database
    before = tree(scanned)
    assert ktx(*EXPLAIN, CUSTOMER).code == 0
    assert ktx(*EXPLAIN, CUSTOMER, "--json").code == 0
    assert tree(scanned) == before


def test_several_are_explained_in_their_order_and_each_once(ktx: Run, scanned: Path) -> None:
    answer = ktx(*EXPLAIN, PARCEL, "--explain", CUSTOMER, "--explain", "orders.customer_id", "--json")
    assert [each["edge"] for each in answer.data["explanations"]] == [PARCEL, CUSTOMER]
    lines = ktx(*EXPLAIN, PARCEL, "--explain", CUSTOMER).out.splitlines()
    assert lines[0] == PARCEL and lines[lines.index(CUSTOMER) - 1] == ""


def test_a_join_to_review_says_why_and_how_to_decide(ktx: Run, scanned: Path) -> None:
    answer = ktx(*EXPLAIN, PARCEL)
    assert "The scan left it for review: the score is" in answer.out
    assert f"ktx scan relationships warehouse --accept '{PARCEL}'" in answer.err
    assert f"ktx scan relationships warehouse --reject '{PARCEL}'" in answer.err


def test_without_local_evidence_the_record_and_the_command_are_named(ktx: Run, scanned: Path) -> None:
    for path in (scanned / ".ktx").glob("state.sqlite*"):  # as in a fresh clone
        path.unlink()
    found = explanation(ktx, CUSTOMER)
    assert (found["basis"], found["scanned"], found["evidence"], found["changes"]) == ("record", None, [], [])
    assert "Column name matches the table" in found["decision"][0]
    answer = ktx(*EXPLAIN, CUSTOMER)
    assert "This machine has no evidence of a scan about this join" in answer.out
    assert "next: ktx scan warehouse --depth profile" in answer.err


def test_evidence_outlives_scans_that_read_nothing(ktx: Run, scanned: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "SETTLED_SECONDS", -60.0)  # the file is new
    done("scan", "--depth", "profile")
    first = explanation(ktx, CUSTOMER)
    assert "unchanged since the last profile" in ktx("scan", "--depth", "profile").err
    done("scan", "--depth", "structural")
    assert explanation(ktx, CUSTOMER) == first


def test_a_decision_of_a_person_is_named_with_its_file(ktx: Run, scanned: Path) -> None:
    done("scan", "relationships", "--reject", CUSTOMER, "--accept", PARCEL)
    rejected, accepted = explanation(ktx, CUSTOMER), explanation(ktx, PARCEL)
    assert rejected["decision"][0] == "A person rejected this join in semantic-layer/warehouse/orders.yaml."
    assert accepted["decision"][0].startswith("A person accepted this join in semantic-layer/warehouse/_schema/")
    for found in (rejected, accepted):
        assert found["decision"][1].startswith("Scans keep that decision") and found["evidence"]


def test_a_declared_join_has_no_score(ktx: Run, coded: Path) -> None:
    found = explanation(ktx, "orders.customer_id->customers.id")
    assert (found["status"], found["basis"], found["steps"]) == ("declared", "declared", [])
    assert found["decision"] == [
        "A foreign key of the database declares this join. ktx uses it as it is: it does not score the join or look "
        "for other references from this column."
    ]


def test_the_opposite_of_a_join_says_why_that_is_one(ktx: Run, work: Path) -> None:
    with sqlite3.connect(work / "shop.sqlite") as database:
        database.executescript(
            """
            CREATE TABLE customers (customer_id INTEGER PRIMARY KEY, label TEXT);
            CREATE TABLE customer_demo (
                customer_id INTEGER REFERENCES customers (customer_id), kind TEXT, PRIMARY KEY (customer_id, kind)
            );
            """
        )
        database.executemany("INSERT INTO customers VALUES (?, ?)", [(n, f"label {n}") for n in range(1, 81)])
    database.close()
    done("setup", "--database", "sqlite", "--database-path", "shop.sqlite")
    done("scan", "--depth", "profile")
    found = explanation(ktx, "customers.customer_id->customer_demo.customer_id")
    assert found["decision"] == [
        "The opposite join is a foreign key of the database, so this one is not used: "
        "`customer_demo.customer_id->customers.customer_id`."
    ]
    assert "`customer_id` of `customer_demo` is itself a reference, to `customers.customer_id`." in examples(found)
    assert found["changes"] == []


def test_a_join_that_scans_no_longer_detect_gives_the_reason(ktx: Run, coded: Path) -> None:
    done("scan", "relationships", "--accept", CURRENCY)
    with sqlite3.connect(coded / "shop.sqlite") as database:
        database.execute("ALTER TABLE orders DROP COLUMN currency")
    database.close()
    done("scan", "--depth", "profile")
    found = explanation(ktx, CURRENCY)
    assert found["decision"][0] == "A person accepted this join, but column orders.currency no longer exists."
    assert found["basis"] == "record" and "no longer detect" in found["note"]


def examples(found: dict[str, Any]) -> str:
    return json.dumps(found["evidence"])


def test_values_are_shown_as_the_profile_store_may_hold_them(ktx: Run, coded: Path) -> None:
    found = explanation(ktx, CURRENCY)
    assert found["status"] == "review" and "at most 8% are tolerated" in found["decision"][0]
    assert "`ZZZ` (50 rows)" in examples(found) and "`CHF`" in examples(found)


def test_a_strict_project_shows_counts_alone_before_and_after_the_next_scan(ktx: Run, coded: Path) -> None:
    done("config", "set", "scan.privacy", "strict")
    found = explanation(ktx, CURRENCY)
    assert "50 of 300 rows" in examples(found)
    assert "ZZZ" not in examples(found) and "CHF" not in examples(found)
    done("scan", "--depth", "profile")
    assert "ZZZ" not in (coded / ".ktx" / "state.sqlite").read_bytes().decode("latin-1")
    assert "50 of 300 rows" in examples(explanation(ktx, CURRENCY))


def test_nothing_is_shown_of_values_where_people_hide_something(ktx: Run, coded: Path) -> None:
    hidden = "name: currencies\ncolumns:\n  - name: label\n    visibility: hidden\n"
    (coded / "semantic-layer" / "warehouse" / "currencies.yaml").write_text(hidden)
    assert "50 of 300 rows" in examples(explanation(ktx, CURRENCY))
    assert "ZZZ" not in examples(explanation(ktx, CURRENCY))


@pytest.mark.parametrize(
    "words",
    [
        ("--review",), ("--accept", PARCEL), ("--reject", PARCEL), ("--accept-all-above", "0.5"),
        ("--status", "all"), ("--table", "orders"), ("--wait",),
    ],
    ids=" ".join,
)  # fmt: skip
def test_no_other_option_goes_with_it(ktx: Run, scanned: Path, words: tuple[str, ...]) -> None:
    answer = ktx(*EXPLAIN, CUSTOMER, *words)
    assert answer.code == 2
    assert "--explain cannot be used together with other options of this command" in answer.err


def test_a_column_stands_for_all_its_joins(ktx: Run, coded: Path) -> None:
    answer = ktx(*EXPLAIN, "comments.owner_id", "--json")
    assert [each["edge"] for each in answer.data["explanations"]] == [
        "comments.owner_id->customers.id when owner_type=customer",
        "comments.owner_id->orders.id when owner_type=order",
    ]


def test_an_unknown_name_is_corrected(ktx: Run, scanned: Path) -> None:
    answer = ktx(*EXPLAIN, "orders.custmer_id")
    assert answer.code == 2 and "there is no relationship `orders.custmer_id`" in answer.err
    assert f"ktx scan relationships warehouse --explain '{CUSTOMER}'" in answer.err


def test_identifiers_are_never_broken() -> None:
    from ktx_cli.cli.blocks import Lines, render_pretty
    from ktx_cli.cli.commands.scan import _rival_line
    from ktx_cli.scan import RunnerUp

    rival = RunnerUp(
        "a_rather_long_schema.a_rather_long_table.identifier", 0.5, "The name fits.", "all rows match", "x"
    )
    text = render_pretty([Lines((_rival_line(rival),), hanging=True)], colour=False)
    assert "a_rather_long_schema.a_rather_long_table.identifier (0.500): The name fits; all rows match; x." in text


def test_a_step_says_what_moved_the_score() -> None:
    from ktx_cli.cli.commands.scan import _step_line
    from ktx_cli.scan import Step

    moved, hinted, kept = Step("values", 0.1, "rows without a match"), Step("hints", 0.9, "dbt"), Step("names", 0.5)
    assert _step_line(moved) == "  0.100 with the values of the column (mainly rows without a match)"
    assert _step_line(hinted) == "  0.900 with hints (dbt)"
    assert _step_line(kept) == "  0.500 from the names alone"
