"""A project as the TypeScript ktx writes it answers the questions its tools send, as it is."""

from __future__ import annotations

import json
import shutil
import sqlite3
from collections.abc import Callable, Mapping
from contextlib import closing
from pathlib import Path
from typing import Any, Final

import pytest

from ktx_cli.core.text import shell_words

Run = Callable[..., Any]

PROJECT: Final = Path(__file__).parent / "fixtures" / "typescript_project"
_BOOKED: Final = (
    "bookings b LEFT JOIN voyages v ON v.id = b.voyage_id LEFT JOIN travellers t ON t.id = b.traveller_id"
    " LEFT JOIN ports o ON o.code = v.origin_port LEFT JOIN ports d ON d.code = v.destination_port"
    " LEFT JOIN ports h ON h.code = t.home_port"
)
SETTINGS_WITHOUT_EFFECT: Final = {("config_no_effect", "agent")}
"""What `config validate` says of the `ktx.yaml`; no other command about the project's contents repeats it."""


@pytest.fixture
def ferries(work: Path) -> Path:
    """The project in the current folder, its database made."""
    shutil.copytree(PROJECT, work, dirs_exist_ok=True)
    with closing(sqlite3.connect(work / "ferries.db")) as database:
        database.executescript((work / "ferries.sql").read_text())
    return work


def asked(ktx: Run, folder: Path, question: Mapping[str, Any], *words: str) -> Any:
    """Ask in the JSON form of the TypeScript ktx's `sl_query`."""
    (folder / "q.json").write_text(json.dumps(question))
    return ktx("sl", "query", "--query-file", "q.json", *words, "--json")


def by_hand(folder: Path, sql: str) -> list[list[Any]]:
    with closing(sqlite3.connect(folder / "ferries.db")) as database:
        return [list(row) for row in database.execute(sql)]


def near(value: Any) -> Any:
    return pytest.approx(value, rel=1e-9) if isinstance(value, float) else value


def warned(answer: Any) -> set[tuple[str, str]]:
    return {(each["code"], each.get("path", "")) for each in answer.envelope["warnings"]}


def field(name: str, granularity: str | None = None) -> dict[str, str]:
    return {"field": name} if granularity is None else {"field": name, "granularity": granularity}


@pytest.mark.parametrize(
    ("question", "columns", "sql"),
    [
        (
            {"measures": ["bookings.revenue"], "dimensions": [], "filters": [], "segments": [], "order_by": []},
            ["revenue"],
            "SELECT sum(fare_cents / 100.0) FROM bookings WHERE state = 'held'",
        ),
        (
            {
                "measures": ["bookings.revenue", "bookings.booking_count"],
                "dimensions": [field("destination.city")],
                "order_by": [{"field": "revenue", "direction": "desc"}],
                "include_empty": False,
                "limit": 1000,
            },
            ["city", "revenue", "booking_count"],
            f"""SELECT d.city, sum(CASE WHEN state = 'held' THEN fare_cents / 100.0 END), count(*) FROM {_BOOKED}
                GROUP BY 1 ORDER BY 2 DESC NULLS LAST""",
        ),
        (
            {
                "measures": ["bookings.fare_per_held"],
                "dimensions": [field("origin.city"), field("destination.city"), field("home.country")],
                "include_empty": False,
            },
            ["origin_city", "destination_city", "country", "fare_per_held"],
            f"""SELECT o.city, d.city, h.country, sum(CASE WHEN state = 'held' THEN fare_cents / 100.0 END)
                  / nullif(count(CASE WHEN state = 'held' THEN 1 END), 0) FROM {_BOOKED}
                GROUP BY 1, 2, 3 ORDER BY 1, 2, 3 NULLS LAST""",
        ),
        (
            {
                "measures": ["bookings.held_count"],
                "dimensions": [field("bookings.booked_at", "month")],
                "filters": ["bookings.booked_at >= '2024-01-01'"],
            },
            ["booked_at_month", "held_count"],
            """SELECT date(booked_at, 'start of month'), count(CASE WHEN state = 'held' THEN 1 END) FROM bookings
               WHERE booked_at >= '2024-01-01' GROUP BY 1 ORDER BY 1""",
        ),
        (
            {"measures": ["bookings.revenue", "bookings.golden_fares"], "segments": ["bookings.cheap"]},
            ["revenue", "golden_fares"],
            f"""SELECT sum(CASE WHEN state = 'held' THEN fare_cents / 100.0 END),
                  sum(CASE WHEN t.tier = 'gold' THEN fare_cents / 100.0 ELSE 0 END)
                FROM {_BOOKED} WHERE fare_cents < 8000""",
        ),
        (
            {
                "measures": ["sum(bookings.fare_cents)", {"expr": "max(bookings.fare)", "name": "dearest"}],
                "dimensions": [field("travellers.tier")],
                "filters": ["bookings.state <> 'void'", "dearest > 50"],
                "include_empty": False,
            },
            ["tier", "sum_bookings_fare_cents", "dearest"],
            f"""SELECT t.tier, sum(fare_cents), max(fare_cents) / 100.0 FROM {_BOOKED} WHERE state <> 'void'
                GROUP BY 1 HAVING max(fare_cents) > 5000 ORDER BY 1 NULLS LAST""",
        ),
        (
            {
                "measures": ["travellers.traveller_count", "frequent_travellers.frequent_count"],
                "dimensions": [field("travellers.tier")],
            },
            ["tier", "traveller_count", "frequent_count"],
            """SELECT tier, count(*), sum((SELECT count(*) FROM bookings WHERE traveller_id = t.id) >= 2)
               FROM travellers t GROUP BY 1 ORDER BY 1 NULLS LAST""",
        ),
        (
            {"measures": ["frequent_travellers.frequent_count"], "dimensions": [field("frequent_travellers.tier")]},
            ["tier", "frequent_count"],
            "SELECT 'gold', 1",
        ),
        (
            {"measures": ["voyages.voyage_count", "bookings.booking_count"], "dimensions": [field("origin.country")]},
            ["country", "voyage_count", "booking_count"],
            """SELECT country, (SELECT count(*) FROM voyages WHERE origin_port IN
                   (SELECT code FROM ports WHERE country = p.country)),
                 (SELECT count(*) FROM bookings JOIN voyages v ON v.id = voyage_id WHERE origin_port IN
                   (SELECT code FROM ports WHERE country = p.country))
               FROM (SELECT DISTINCT country FROM ports) p ORDER BY 1""",
        ),
        (
            {"measures": ["bookings.booking_count"], "dimensions": [field("voyages.ship")], "filters": [
                "home.country = 'NO'"]},
            ["ship", "booking_count"],
            f"""SELECT ship, count(CASE WHEN country = 'NO' THEN 1 END) FROM
                  (SELECT v.ship, h.country FROM {_BOOKED}) GROUP BY 1 ORDER BY 1""",
        ),
    ],
)  # fmt: skip
def test_its_questions_are_answered(
    question: dict[str, Any], columns: list[str], sql: str, ktx: Run, ferries: Path
) -> None:
    answer = asked(ktx, ferries, question)
    assert answer.code == 0, answer
    assert answer.data["columns"] == columns
    assert answer.data["rows"] == [[near(value) for value in row] for row in by_hand(ferries, sql)]
    assert warned(answer) == set()
    assert answer.data["receipt"]["sql"] == answer.data["sql"]
    assert [fact["unmatched"] for fact in answer.data["receipt"]["facts"]]


@pytest.mark.parametrize(
    ("dimension", "code"),
    [("bookings.internal_memo", "unknown_name"), ("bookings.fare_cents", "hidden"), ("ports.city", "ambiguous_path")],
)
def test_what_its_overlays_take_away_is_refused(dimension: str, code: str, ktx: Run, ferries: Path) -> None:
    answer = asked(ktx, ferries, {"measures": ["bookings.booking_count"], "dimensions": [field(dimension)]})
    assert answer.code != 0
    assert (answer.envelope["error"]["code"], answer.data) == (code, None)


def test_every_choice_of_an_ambiguous_path_is_a_way_to_ask(ktx: Run, ferries: Path) -> None:
    question = {"measures": ["bookings.booking_count"], "dimensions": [field("ports.country")], "include_empty": False}
    error = asked(ktx, ferries, question).envelope["error"]
    choices = error["details"]["choices"]
    flags = " or ".join(f"`{shell_words('--via', 'ports=' + each['via'])}`" for each in choices)
    assert error["hint"] == f"choose a path: {flags}"
    found = [asked(ktx, ferries, question, "--via", f"ports={each['via']}").data["rows"] for each in choices]
    by_port = [
        by_hand(ferries, f"SELECT {port}.country, count(*) FROM {_BOOKED} GROUP BY 1 ORDER BY 1 NULLS LAST")
        for port in "odh"
    ]
    assert found == by_port


def test_a_disabled_join_is_gone_from_both_sides(ktx: Run, ferries: Path) -> None:
    question = {"measures": ["travellers.traveller_count"], "dimensions": [field("ports.city")], "include_empty": False}
    answer = asked(ktx, ferries, question)
    by_home = (
        "SELECT city, count(*) FROM travellers LEFT JOIN ports ON code = home_port GROUP BY 1 ORDER BY 1 NULLS LAST"
    )
    assert answer.data["rows"] == by_hand(ferries, by_home)


def test_the_receipt_says_which_rows_by_which_joins(ktx: Run, ferries: Path) -> None:
    question = {"measures": ["bookings.revenue"], "dimensions": [field("home.city")], "include_empty": False}
    answer = asked(ktx, ferries, question, "--verify")
    receipt = answer.data["receipt"]
    (fact,) = receipt["facts"]
    assert (fact["fact"], fact["rows"]) == ("bookings", 5)  # two of seven are void
    assert receipt["sources"] == ["bookings", "travellers", "ports"]
    assert [(each["null_keys"], each["dangling"]) for each in fact["unmatched"]] == [(1, 0), (2, 0)]
    assert (receipt["verified"]["mismatches"], receipt["verified"]["skipped"]) == ([], {})


def test_its_files_are_valid_and_mean_what_they_say(ktx: Run, ferries: Path) -> None:
    answer = ktx("sl", "validate", "--json")
    assert answer.code == 0, answer
    assert {each["severity"] for each in answer.data["problems"]} <= {"warning", "info"}
    (country,) = (each for each in ktx("sl", "read", "ports", "--json").data["columns"] if each["name"] == "country")
    assert country["values"] == ["NO", "SE", "DK"]
    inherited = {each["name"]: each for each in ktx("sl", "read", "frequent_travellers", "--json").data["columns"]}
    assert (inherited["id"]["type"], inherited["tier"]["description"]) == ("number", "gold or silver")


def test_settings_without_effect_are_named_where_the_settings_are_the_matter(ktx: Run, ferries: Path) -> None:
    for command in ("config", "validate"), ("status",):
        assert warned(ktx(*command, "--json")) == SETTINGS_WITHOUT_EFFECT, command
    found = ktx("doctor", "--only", "config", "--json").data["findings"]
    assert len([each for each in found if "has no effect" in each["message"]]) == len(SETTINGS_WITHOUT_EFFECT)


def test_asking_changes_no_file(ktx: Run, ferries: Path) -> None:
    (ferries / "q.json").write_text("{}")
    before = {path: path.read_bytes() for path in ferries.rglob("*") if path.is_file()}
    assert ktx("sl", "query", "-m", "bookings.revenue").code == 0
    assert {path: path.read_bytes() for path in ferries.rglob("*") if path.is_file()} == before
