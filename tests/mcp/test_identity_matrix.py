"""Identities x tools x requests over HTTP: no row and no value outside the policies, and no trace of rows of others.

`pytest -s` prints the figures. Each row has a marker that names the region for which it exists.
"""

from __future__ import annotations

import json
import random
import re
import shutil
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

import pytest

from ktx_cli.jobs.semantic import warnings
from ktx_cli.mcp.http import Load
from tests.mcp.conftest import CONFIG, Company, made
from tests.mcp.issuer import Issuer, issuing, settings
from tests.mcp.test_delegation import TIMES
from tests.mcp.test_http import serving
from tests.mcp.test_identity import opened
from tests.mcp.wire import Wire, ktx

REGIONS: Final = ("north", "south", "west")
REQUESTS: Final = 120
MARKER: Final = re.compile(r"zq-(\w+)-\d+")
CODE: Final = re.compile(r"xk-\w+-\d+")
"""A value of a masked column."""
AGENTS: Final = """\
desktop: {}
northern: {attributes: {region: north}}
cleared: {attributes: {region: north, level: high}}
narrow: {connections: [shop]}
"""

IDENTITIES: Final[dict[str, tuple[dict[str, Any], frozenset[str]]]] = {
    "north": ({"sub": "ada", "region": "north"}, frozenset({"north"})),
    "south": ({"sub": "bo", "region": "south"}, frozenset({"south"})),
    "nowhere": ({"sub": "cy", "region": "nowhere"}, frozenset()),
    "without a region": ({"sub": "di", "region": None}, frozenset()),
    "north by an agent of the north": ({"sub": "ada", "region": "north", "azp": "northern"}, frozenset({"north"})),
    "south by an agent of the north": ({"sub": "bo", "region": "south", "azp": "northern"}, frozenset()),
    "north by an agent with one connection": ({"sub": "ada", "region": "north", "azp": "narrow"}, frozenset({"north"})),
    "hostile": ({"sub": "ed", "region": "north' OR '1'='1"}, frozenset()),
    "north with codes": ({"sub": "flo", "region": "north", "level": "high"}, frozenset({"north"})),
    "codes by an agent without": (
        {"sub": "flo", "region": "north", "level": "high", "azp": "northern"},
        frozenset({"north"}),
    ),
    "codes of an agent alone": ({"sub": "ada", "region": "north", "azp": "cleared"}, frozenset({"north"})),
}
"""Name -> the claims that differ, and the regions whose rows the identity may see."""

SEES_CODES: Final = "north with codes"
"""The only identity without a mask: neither the person nor the agent alone lifts it."""

VISITS = """\
name: visits
table: visits
description: One row per visit.
grain: [id]
columns:
  - {name: id, type: number}
  - {name: site_id, type: number}
  - {name: region, type: string}
  - {name: note, type: string}
  - {name: day, type: time}
  - {name: cost, type: number}
  - {name: code, type: string, mask: {unless: {level: [high]}, value: "***"}}
joins:
  - {to: sites, on: visits.site_id = sites.id, relationship: many_to_one}
measures:
  - {name: visit_count, expr: count(*)}
  - {name: total_cost, expr: sum(cost)}
  - {name: highest, expr: max(cost)}
  - {name: notes, expr: count(distinct note)}
segments:
  - {name: dear, expr: cost > 50}
policies:
  - {name: own_region, filter: "region = {{ user.region }}"}
"""
SITES = """\
name: sites
table: sites
grain: [id]
columns:
  - {name: id, type: number}
  - {name: name, type: string}
  - {name: region, type: string}
measures:
  - {name: site_count, expr: count(*)}
policies:
  - {name: own_region, filter: "region = {{ user.region }}"}
"""
PUBLIC = """\
name: towns
table: towns
grain: [id]
columns:
  - {name: id, type: number}
  - {name: name, type: string}
  - {name: code, type: string, mask: {unless: {level: [high]}, value: "***"}}
measures:
  - {name: town_count, expr: count(*)}
  - {name: first_code, expr: min(code)}
"""


def rows_of(region: str, first: int, count: int) -> str:
    """Return statements that insert rows of a region."""
    numbers = range(first, first + count)
    days = {n: f"2024-{n % 12 + 1:02}-{n % 28 + 1:02}" for n in numbers}
    visits = ", ".join(
        f"({n}, {n}, '{region}', 'zq-{region}-{n}', '{days[n]}', {n % 97}, 'xk-{region}-{n}')" for n in numbers
    )
    sites = ", ".join(f"({n}, 'zq-{region}-{n}', '{region}')" for n in numbers)
    return f"INSERT INTO visits VALUES {visits}; INSERT INTO sites VALUES {sites};"


def company_at(folder: Path, issuer: Issuer) -> Company:
    """Make a company whose visits and sites are seen by region."""
    company = made(folder)
    company.write("ktx.yaml", CONFIG + settings(issuer, agents=AGENTS).replace("id: sub,", "id: sub, level: level,"))
    company.run(
        "CREATE TABLE visits (id INTEGER, site_id INTEGER, region TEXT, note TEXT, day TEXT, cost REAL, code TEXT);"
        "CREATE TABLE sites (id INTEGER, name TEXT, region TEXT);"
        "CREATE TABLE towns (id INTEGER, name TEXT, code TEXT);"
        "INSERT INTO towns VALUES (1, 'Oslo', 'xk-town-1'), (2, 'Bergen', 'xk-town-2');"
        "CREATE VIEW all_visits AS SELECT * FROM visits;"
        + "".join(rows_of(region, 1000 * (place + 1), 40) for place, region in enumerate(REGIONS))
    )
    for name, text in {"visits": VISITS, "sites": SITES, "towns": PUBLIC}.items():
        company.source(name, text)
    company.page(
        "global/visits", "summary: What a visit is\nsl_refs: [shop/visits.visit_count]", "See `source:visits`."
    )
    shutil.rmtree(folder / "raw-sources")
    done = ktx("scan", "--depth", "profile", "--no-input", folder=folder)
    assert done.returncode == 0, done.stderr
    return company


MEASURES: Final = ("visits.visit_count", "visits.total_cost", "visits.highest", "visits.notes", "sites.site_count")
DIMENSIONS: Final = (
    "visits.note",
    "visits.region",
    "sites.name",
    "visits.day:month",
    "sites.region",
    "visits.cost",
    "visits.code",
)
FILTERS: Final = (
    "visits.region = 'south'",
    "visits.note like 'zq%'",
    "visits.cost > 10 or true",
    "sites.name <> ''",
    "visits.region <> {{ user.region }} or 1 = 1",
)
STATEMENTS: Final = (
    "SELECT * FROM visits",
    "SELECT note FROM all_visits",
    "SELECT count(*) FROM sites",
    "SELECT t.name, (SELECT max(note) FROM visits) FROM towns t",
    "SELECT count(*) FROM towns",
    "SELECT name FROM towns UNION SELECT name FROM sites",
    "SELECT CASE WHEN (SELECT count(*) FROM visits) > 80 THEN 1 ELSE 0 END",
    "SELECT 1 / (SELECT count(*) - 120 FROM visits)",
    "SELECT * FROM sqlite_master",
    "WITH v AS (SELECT * FROM visits) SELECT name FROM towns, v",
    "SELECT CAST(note AS INTEGER) FROM visits",
    "SELECT code FROM towns",
    "SELECT count(*) FROM towns WHERE code > 'xk-town-1'",
    "SELECT name FROM towns ORDER BY code",
)
WORDS: Final = (
    "zq-north-1001",
    "zq-south-2001",
    "zq-west",
    "north",
    "south",
    "visit",
    "cost",
    "site",
    "zq",
    "xk-town-1",
    "code",
)


def requests_of(seed: int, count: int) -> list[tuple[str, dict[str, Any]]]:
    """Return the requests of one identity, to every tool that reads."""
    chance = random.Random(seed)
    found: list[tuple[str, dict[str, Any]]] = []

    def query() -> dict[str, Any]:
        if chance.random() < 0.15:
            return {"measures": ["towns.first_code"], "dimensions": chance.choice(([], ["towns.code"], ["towns.name"]))}
        asked: dict[str, Any] = {"measures": chance.sample(MEASURES, chance.randint(1, 2))}
        asked["dimensions"] = chance.sample(DIMENSIONS, chance.randint(0, 2))
        asked["filters"] = chance.sample(FILTERS, chance.choice((0, 0, 1, 2)))
        extra: list[dict[str, Any]] = [
            *({"totals": True}, {"include": ["rows", "sql", "receipt"]}, {"verify": True}, {"limit": 5}),
            *(
                {"include_empty": True},
                {"time_range": {"start": "2024-01-01", "end": "2025-01-01"}},
                {"having": ["1 = 1"]},
            ),
        ]
        return {**asked, **chance.choice(extra)}

    makers = {
        "sl_query": query,
        "sl_explain": lambda: {key: each for key, each in query().items() if key not in ("include", "verify")},
        "sql_execution": lambda: {"sql": chance.choice(STATEMENTS), "max_rows": chance.choice((1, 100))},
        "discover_data": lambda: {"query": chance.choice(WORDS), "limit": chance.choice((5, 50))},
        "dictionary_search": lambda: {"values": chance.sample(WORDS, 3), "limit": 50},
        "wiki_search": lambda: {"query": chance.choice(WORDS)},
        "wiki_read": lambda: {"key": chance.choice(("visits", "refunds", "zq-north-1001"))},
        "context_read": lambda: {"id": chance.choice(("visits", "sites", "visits.note", "sites.name", "towns"))},
        "context_pack": lambda: {
            "question": f"How many {chance.choice(WORDS)} by {chance.choice(('note', 'region'))}?"
        },
        "entity_details": lambda: {"targets": chance.sample(("visits", "sites.name", "visits.note", "towns"), 2)},
        "sl_list": dict,
        "sl_read_source": lambda: {
            "source": chance.choice(("visits", "sites")),
            "form": chance.choice(("composed", "files")),
        },
        "sl_validate": lambda: {"sources": ["visits", "sites"], "data": chance.choice((True, False))},
        "connection_list": dict,
        "context_status": dict,
    }
    while len(found) < count:
        asked = (*makers, *["sl_query"] * 5, "sql_execution")
        found += [(name, makers[name]()) for name in chance.sample(asked, len(asked))]
    return found[:count]


@dataclass
class Tally:
    """What the requests of the matrix gave."""

    requests: int = 0
    codes: int = 0
    refused: int = 0
    outside: list[str] = field(default_factory=list)
    own: Counter[str] = field(default_factory=Counter)
    tools: set[str] = field(default_factory=set)


def asked_in(arguments: dict[str, Any]) -> set[str]:
    text = json.dumps(arguments)
    return {*MARKER.findall(text), *CODE.findall(text)}


def answers(wire: Wire, issuer: Issuer, name: str, count: int, tally: Tally) -> list[str]:
    """Return the answers of one identity, and note every marker of a region that it may not see."""
    claims, regions = IDENTITIES[name]
    client = opened(wire, issuer.token(**claims))
    found = []
    for tool, arguments in requests_of(sorted(IDENTITIES).index(name), count):
        status, error, text = client.call(tool, arguments)
        assert status == 200
        tally.requests += 1
        tally.refused += error is not None
        tally.tools.add(tool)
        seen = set(MARKER.findall(text)) | (set() if name == SEES_CODES else set(CODE.findall(text)))
        tally.codes += name == SEES_CODES and bool(set(CODE.findall(text)) - asked_in(arguments))
        tally.outside += [f"{name}: {tool} {arguments}: {each}" for each in seen - regions - asked_in(arguments)]
        tally.own.update((seen & regions) - asked_in(arguments))
        found.append(TIMES.sub("", f"{tool} {json.dumps(arguments)} {text}"))
    return found


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


def change(folder: Path, script: str) -> None:
    with sqlite3.connect(folder / "shop.sqlite") as database:
        database.executescript(script)
    database.close()


@pytest.mark.parametrize(
    ("names", "count"),
    [
        (("north", "south by an agent of the north", SEES_CODES), 24),
        pytest.param(tuple(IDENTITIES), REQUESTS, marks=[pytest.mark.slow, pytest.mark.timeout(600)]),
    ],
    ids=["two identities", "all identities"],
)
def test_no_identity_sees_what_its_policies_exclude_or_notices_that_it_changed(
    tmp_path: Path,
    issuer: Issuer,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    names: tuple[str, ...],
    count: int,
) -> None:
    monkeypatch.setattr(warnings, "SECONDS", 60.0)  # a slow machine must not be taken for a difference
    folder = tmp_path / "company"
    company_at(folder, issuer)
    tally, started = Tally(), time.monotonic()
    differing = []
    with serving(folder, Load(), exists=True, profile="admin") as wire:
        before = {name: answers(wire, issuer, name, count, tally) for name in names}
        change(
            folder,
            rows_of("west", 5000, 300) + "UPDATE visits SET cost = 9999, code = 'xk-new-1' WHERE region = 'west';"
            "INSERT INTO visits SELECT id, 99999, region, note, day, cost, code FROM visits WHERE id = 5000;"
            "INSERT INTO sites SELECT * FROM sites WHERE id = 5001;"
            "UPDATE towns SET code = 'xk-other-' || (3 - id)",
        )
        more = {name: answers(wire, issuer, name, count, tally) for name in names}
        change(folder, "DELETE FROM visits WHERE region = 'west'; DELETE FROM sites WHERE region = 'west'")
        counted = {"measures": ["visits.visit_count"]}
        north = opened(wire, issuer.token(sub="ada", region="north"))
        assert json.loads(north.call("sl_query", counted)[2])["rows"] == [[40]]
        fewer = {name: answers(wire, issuer, name, count, tally) for name in names}
    for name in names:
        for first, *others in zip(before[name], more[name], fewer[name], strict=True):
            if name != SEES_CODES or "towns" not in first:
                differing += [(name, first, each) for each in others if each != first]
    with capsys.disabled():
        print(
            f"\n{len(names)} identities x {len(tally.tools)} tools x {count} requests, 3 states of the data: "
            f"{tally.requests} requests in {time.monotonic() - started:.0f} s, {tally.refused} refused, "
            f"{sum(tally.own.values())} with own rows, {tally.codes} with own codes; "
            f"{len(tally.outside)} values outside the policies, "
            f"{len(differing)} answers changed by rows of others"
        )
    assert not tally.outside, tally.outside[:5]
    assert not differing, "\n".join(map(str, differing[:3]))
    assert tally.own["north"] > 5 and (tally.codes or count < REQUESTS), "own rows and codes are shown"
    change(folder, rows_of("north", 9000, 1))
    with serving(folder, Load(), exists=True) as wire:
        north = opened(wire, issuer.token(sub="ada", region="north"))
        assert json.loads(north.call("sl_query", counted)[2])["rows"] == [[41]], "and are read each time"
