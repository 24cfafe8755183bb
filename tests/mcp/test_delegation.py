"""An agent that acts for a person: the intersection of their rights, on every tool, for mounts too, and its limits."""

from __future__ import annotations

import contextlib
import hashlib
import json
import re
import sqlite3
import threading
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import KtxError
from ktx_cli.jobs.capture.queue import enqueue
from ktx_cli.jobs.capture.records import CaptureRequest, Status, save
from ktx_cli.jobs.serve.caller import Account, CallerIdentity, Meter
from ktx_cli.mcp.http import Load, Served
from ktx_cli.mcp.tools import TOOLS
from ktx_cli.project import AgentClient
from ktx_cli.project.layout import Layout
from ktx_cli.semantic.manifest import ColumnValues
from ktx_cli.warehouses.port import TableRef
from tests.mcp.conftest import CONFIG, ORDERS, STAFF, Company, made
from tests.mcp.issuer import Issuer, issuing, settings
from tests.mcp.test_http import serving
from tests.mcp.test_identity import NOTES, as_, opened, rows
from tests.mcp.wire import Wire, ktx

SECRET = "quokka"
"""Stands in everything that belongs to the connection outside the rights."""

TIMES = re.compile(r"\d{4}-\d\d-\d\dT[\d:.]+Z|" r'\\*"timing_ms\\*":\s*\{[^}]*\}')

AGENTS = """\
desktop: {}
robot: {connections: [shop]}
writer: {connections: [shop], tools: [memory_ingest, memory_ingest_status, ingest_start, ingest_status, context_status]}
european: {connections: [shop], attributes: {region: EU}}
asker: {tools: [sl_query, context_pack]}
limited: {limits: {queries_per_hour: 2}}
outside: {connections: [people/shop, nowhere]}
"""


@pytest.fixture(scope="module")
def issuer() -> Iterator[Issuer]:
    with issuing() as issuer:
        yield issuer


def secret_connection(company: Company, name: str = "vault") -> None:
    """Add a connection about which the agent must learn nothing: a database, its layer, values, pages, a scan."""
    config = (company.folder / "ktx.yaml").read_text()
    added = f"  {name}:\n    driver: sqlite\n    path: {name}.sqlite\n"
    company.write("ktx.yaml", config.replace("connections:\n", f"connections:\n{added}", 1))
    with sqlite3.connect(company.folder / f"{name}.sqlite") as database:
        database.executescript(f"CREATE TABLE {SECRET}s (id INTEGER, name TEXT); INSERT INTO {SECRET}s VALUES (1, 'x')")
    database.close()
    source = (
        f"name: {SECRET}s\ntable: {SECRET}s\ndescription: Revenue of each {SECRET}, refunds and orders.\ngrain: [id]\n"
        "columns:\n  - {name: id, type: number}\n  - {name: name, type: string}\n"
        "measures:\n  - {name: revenue, expr: count(*)}\n"
    )
    company.write(f"semantic-layer/{name}/{SECRET}s.yaml", source)
    company.write(f"semantic-layer/{name}/orders.yaml", ORDERS.replace("One row per order.", f"A {SECRET} order."))
    company.page(
        f"global/{SECRET}-refunds",
        f"summary: Refunds of a {SECRET}\nsl_refs: [{name}/{SECRET}s]",
        f"A refund of a {SECRET}, see [[refunds]] and `source:{name}/{SECRET}s`.",
    )


CALLS: tuple[tuple[str, dict[str, Any]], ...] = (
    ("connection_list", {}),
    ("context_status", {}),
    ("context_pack", {"question": "What is the revenue of orders and refunds?"}),
    ("context_pack", {"question": f"How many {SECRET}s are there?"}),
    ("discover_data", {"query": "revenue"}),
    ("discover_data", {"query": "refund"}),
    ("discover_data", {"query": SECRET}),
    ("discover_data", {"query": SECRET[:-1] + "x"}),
    ("discover_data", {"query": "orders", "connection": "vault"}),
    ("wiki_search", {"query": "refund"}),
    ("wiki_search", {"query": SECRET}),
    ("wiki_read", {"key": "refunds"}),
    ("wiki_read", {"key": f"{SECRET}-refunds"}),
    ("context_read", {"id": "orders"}),
    ("context_read", {"id": "refunds"}),
    ("context_read", {"id": f"{SECRET}s"}),
    ("context_read", {"id": f"{SECRET}-refunds"}),
    ("dictionary_search", {"values": ["x", "paid", SECRET]}),
    ("dictionary_search", {"values": ["x"], "connection": "vault"}),
    ("entity_details", {"targets": ["orders", f"{SECRET}s", "orders.revenue"]}),
    ("entity_details", {"targets": ["orders"], "connection": "vault"}),
    ("sl_list", {}),
    ("sl_list", {"connection": "vault"}),
    ("sl_read_source", {"source": "orders"}),
    ("sl_read_source", {"source": f"{SECRET}s"}),
    ("sl_read_source", {"source": "orders", "form": "files"}),
    ("sl_validate", {}),
    ("sl_validate", {"connection": "vault", "data": True}),
    ("sl_query", {"measures": ["orders.revenue"]}),
    ("sl_query", {"measures": [f"{SECRET}s.revenue"]}),
    ("sl_query", {"measures": ["orders.revenue"], "connection": "vault"}),
    ("sl_explain", {"measures": ["orders.revenue"]}),
    ("sl_explain", {"measures": [f"{SECRET}s.revenue"], "connection": "vault"}),
    ("sql_execution", {"sql": "SELECT count(*) FROM orders"}),
    ("sql_execution", {"sql": f"SELECT * FROM {SECRET}s"}),
    ("sql_execution", {"sql": f"SELECT * FROM {SECRET}s", "connection": "vault"}),
    ("sql_execution", {"sql": f"SELECT * FROM vault.{SECRET}s", "connection": "_ktx_federated"}),
    ("ingest_start", {"connections": ["vault"]}),
    ("memory_ingest", {"content": "Remember this.", "connection": "vault"}),
)


def everything(client: Wire) -> list[str]:
    """Return the answers to all calls, and all resources."""
    found = [json.dumps([name, arguments]) + client.call(name, arguments)[2] for name, arguments in CALLS]
    listed = client.ask("resources/list", {}).body.decode()
    uris = [each["uri"] for each in client.ask("resources/list", {}).message["result"]["resources"]]
    uris += [f"ktx://semantic-layer/vault/{SECRET}s", f"ktx://wiki/{SECRET}-refunds"]
    read = [client.ask("resources/read", {"uri": uri}).body.decode() for uri in uris]
    return [each.replace("\r", "") for each in (*found, listed, *read, json.dumps(client.tools()))]


@pytest.mark.parametrize("indexed", [False, True])
def test_a_connection_outside_is_as_if_it_did_not_exist(tmp_path: Path, issuer: Issuer, indexed: bool) -> None:
    """Byte for byte the same answers as in a project that never had the connection."""
    answers = []
    for name in ("without", "with"):
        folder = tmp_path / name / "company"
        company = made(folder)
        company.write("ktx.yaml", CONFIG + settings(issuer, agents=AGENTS))
        if name == "with":
            secret_connection(company)
        company.lists(ColumnValues(TableRef(None, "orders"), "status", (("paid", 2), ("open", 1)), False))
        if name == "with":
            many = tuple((f"paid {SECRET} {number} x", 1) for number in range(600))
            company.lists(ColumnValues(TableRef(None, f"{SECRET}s"), "name", many, True), connection="vault")
        if indexed:
            assert ktx("index", folder=folder).returncode == 0
        config = (folder / "ktx.yaml").read_text()
        with serving(folder, Load(), config=config) as wire:
            found = everything(opened(wire, issuer.token(azp="robot")))
            answers.append([TIMES.sub("", each.replace(str(folder), "")) for each in found])
    for before, after in zip(*answers, strict=True):
        assert before == after


def test_the_person_alone_sees_both(tmp_path: Path, issuer: Issuer) -> None:
    company = made(tmp_path)
    company.write("ktx.yaml", CONFIG + settings(issuer, agents=AGENTS))
    secret_connection(company)
    with serving(tmp_path, Load(), config=(tmp_path / "ktx.yaml").read_text()) as wire:
        person = opened(wire, issuer.token(azp="desktop"))
        ids = [each["id"] for each in json.loads(person.call("connection_list", {})[2])["connections"]]
        assert ids == ["shop", "vault"]
        assert SECRET in person.call("discover_data", {"query": SECRET})[2]
        other = opened(wire, issuer.token(azp="outside"))
        assert json.loads(other.call("connection_list", {})[2])["connections"] == []
        assert other.call("sql_execution", {"sql": "SELECT 1", "connection": "shop"})[1] is not None


def test_policies_hold_for_the_person_and_the_agent(tmp_path: Path, issuer: Issuer) -> None:
    with serving(tmp_path, Load(), config=CONFIG + settings(issuer, agents=AGENTS)) as wire:
        for region, agent, expected in (
            ("EU", "robot", [["quiet", 1]]),
            ("US", "robot", [["loud", 1]]),
            ("EU", "european", [["quiet", 1]]),
            ("US", "european", []),
        ):
            assert rows(opened(wire, issuer.token(region=region, azp=agent))) == expected, (region, agent)
            delegated = issuer.token(region=region, azp="desktop", act={"sub": agent})
            assert rows(opened(wire, delegated)) == expected, "the acting party counts, not the client"
        assert rows(opened(wire, issuer.token(region=None, azp="european")))["code"] == "policy"


def test_tools_outside_do_not_exist(tmp_path: Path, issuer: Issuer) -> None:
    with serving(tmp_path, Load(), config=CONFIG + settings(issuer, agents=AGENTS), profile="admin") as wire:
        client = opened(wire, issuer.token(azp="asker"))
        assert {each["name"] for each in client.tools()} == {"sl_query", "context_pack"}
        for tool in TOOLS:
            error = client.call(tool.name, {})[1]
            allowed = tool.name in ("sl_query", "context_pack")
            assert (error is not None and f"there is no tool `{tool.name}`" in error["message"]) != allowed, tool.name
        assert client.ask("resources/list", {}).message["error"]["message"] == "there are no resources"
        got = client.ask("resources/read", {"uri": "ktx://wiki/refunds"})
        assert "error" in got.message
        assert rows(client) == [["quiet", 1]]


def test_tools_that_write_need_an_explicit_right(tmp_path: Path, issuer: Issuer) -> None:
    company = made(tmp_path)
    company.write("ktx.yaml", CONFIG + settings(issuer, agents=AGENTS))
    secret_connection(company)
    with serving(tmp_path, Load(), exists=True, profile="admin") as wire:
        robot = opened(wire, issuer.token(azp="robot"))
        assert not {each["name"] for each in robot.tools()} & {"memory_ingest", "ingest_start", "ingest_cancel"}
        error = robot.call("memory_ingest", {"content": "x"})[1]
        assert error is not None and "there is no tool" in error["message"]
        writer = opened(wire, issuer.token(azp="writer"))
        for name, arguments in (
            ("memory_ingest", {"content": "x", "connection": "vault"}),
            ("ingest_start", {"connections": ["vault"], "no_llm": True}),
            ("ingest_start", {"connections": ["shop", "vault"], "no_llm": True}),
        ):
            error = writer.call(name, arguments)[1]
            assert error is not None and "there is no connection `vault`" in error["message"], name
        assert writer.call("memory_ingest", {"content": "x"})[1]["code"] == "no_backend"  # type: ignore[index]
        assert SECRET not in writer.call("context_status", {})[2]


def proposed(issuer: str | None, subject: str | None, agent: str) -> str:
    """Return the name under which a server stores who captured a text."""
    who = json.dumps([issuer, subject, agent])
    return f"mcp:{hashlib.sha256(who.encode()).hexdigest()[:12]}"


def test_an_agent_sees_of_its_captures_what_is_about_its_connections(tmp_path: Path) -> None:
    company = made(tmp_path)
    company.write("ktx.yaml", CONFIG + "serving:\n  agents:\n    narrow: {connections: [shop]}\n")
    secret_connection(company)
    layout = Layout(tmp_path)
    other = enqueue(layout, CaptureRequest("Of somebody else.", proposer="mcp"))
    own = enqueue(layout, CaptureRequest("Own.", proposer=proposed(None, None, "narrow")))
    names = ("sl:vault/gold", "sl:shop/orders", "wiki:refunds", f"wiki:{SECRET}-refunds")
    words = {"accepted": SECRET, "captured": "x", "detail": SECRET}
    files = ("semantic-layer/vault/gold.yaml", "semantic-layer/shop/orders.yaml", "wiki/global/refunds.md")
    error = {"code": "conflict", "message": SECRET, "hint": SECRET}
    conflicts = tuple({"artifact": each, **words} for each in names)
    told = {"artifacts": names, "files": files, "conflicts": conflicts, "reason": SECRET, "error": error}
    save(layout, replace(own, status=Status.CONFLICT, **told))  # type: ignore[arg-type]
    options = {"agent": "narrow", "read_only": True, "profile": "admin"}
    for name, key in (("memory_ingest_status", "run_id"), ("context_status", "capture")):
        assert company.call(name, {key: other.run_id}, **options).error is not None
        reply = company.call(name, {key: "latest"}, **options)
        found = reply.data if name == "memory_ingest_status" else reply.data["capture"]
        assert found["run_id"] == own.run_id
        assert found["wrote"] == ["sl:shop/orders", "wiki:refunds"]
        assert found["files"] == ["semantic-layer/shop/orders.yaml", "wiki/global/refunds.md"]
        assert [each["artifact"] for each in found["conflicts"]] == ["sl:shop/orders", "wiki:refunds"]
        assert SECRET not in reply.text and "vault" not in reply.text
    company.close()


def test_captures_are_of_whoever_asked_for_them(tmp_path: Path, issuer: Issuer) -> None:
    company = made(tmp_path)
    company.write("ktx.yaml", CONFIG + settings(issuer, agents="desktop: {}"))

    ids = {}
    for name, subject, agent in (("ada", "ada", "desktop"), ("bo", "bo", "desktop"), ("robot", "ada", "robot")):
        request = CaptureRequest(f"What {name} said.", proposer=proposed(issuer.url, subject, agent))
        ids[name] = enqueue(Layout(tmp_path), request).run_id
    with serving(tmp_path, Load(), exists=True, read_only=True, profile="admin") as wire:
        ada = opened(wire, issuer.token())
        assert json.loads(ada.call("memory_ingest_status", {"run_id": "latest"})[2])["run_id"] == ids["ada"]
        assert json.loads(ada.call("context_status", {"capture": "latest"})[2])["capture"]["run_id"] == ids["ada"]
        for run_id in (ids["bo"], ids["bo"][:-1], "", ids["robot"]):
            for name, arguments in (
                ("memory_ingest_status", {"run_id": run_id}),
                ("context_status", {"capture": run_id}),
            ):
                assert ada.call(name, arguments)[1] is not None, (name, run_id)
        cy = opened(wire, issuer.token(sub="cy"))
        assert cy.call("memory_ingest_status", {"run_id": "latest"})[1] is not None


def test_clients_that_are_not_listed(tmp_path: Path, issuer: Issuer) -> None:
    with serving(tmp_path, Load(), config=CONFIG + settings(issuer, agents=AGENTS)) as wire:
        for changed in ({"azp": "stranger"}, {"azp": None}, {"act": {"sub": "stranger"}}, {"azp": "people/robot"}):
            got = as_(wire, issuer.token(**changed)).initialize()
            assert (got.status, got.reason) == (403, "agent"), changed
    allowed = CONFIG + settings(issuer, "unknown_agents: allow", AGENTS)
    with serving(tmp_path / "allow", Load(), config=allowed) as wire:
        assert rows(opened(wire, issuer.token(azp="stranger"))) == [["quiet", 1]]


def test_a_page_about_several_connections_names_only_those_of_the_agent(tmp_path: Path, issuer: Issuer) -> None:
    company = made(tmp_path)
    more = "  plain: {driver: sqlite, path: plain.sqlite}\n"
    company.write("ktx.yaml", CONFIG + more + settings(issuer, agents="desktop: {}\nrobot: {connections: [shop]}\n"))
    company.page("global/hidden", "summary: Not for all\nsl_refs: [plain/zebra]", "About `source:plain/zebra`.")
    head = "summary: Both things\nrefs: [hidden, refunds]\nsl_refs: [plain/zebra, shop/orders]\nowner: ann"
    company.page("global/mixed", head, "Mixed.")
    with serving(tmp_path, Load(), exists=True) as wire:
        for agent, names in (("robot", False), ("desktop", True)):
            client = opened(wire, issuer.token(azp=agent))
            page = client.ask("resources/read", {"uri": "ktx://wiki/mixed"}).body.decode()
            assert all(word in page for word in ("Both things", "owner: ann", "shop/orders", "refunds", "Mixed."))
            hits = json.loads(client.call("discover_data", {"query": "zebra orders", "kinds": ["page"]})[2])["hits"]
            assert "mixed" in [each["id"] for each in hits]
            found = page + json.dumps(hits)
            assert [word in found for word in ("plain", "zebra", "hidden")] == [names] * 3, found


def test_a_listed_client_does_not_lose_its_limits_by_naming_an_actor(tmp_path: Path, issuer: Issuer) -> None:
    """A token exchange lets a client name an actor, of which it may make up any number."""
    agents = "robot: {tools: [sl_query], limits: {queries_per_hour: 3}}\nhelper: {}\n"
    exchanged = [issuer.token(azp="robot", act={"sub": actor}) for actor in ("stranger", "another", "ada", "third")]
    with serving(tmp_path, Load(), config=CONFIG + settings(issuer, "unknown_agents: allow", agents)) as wire:
        assert [each["name"] for each in opened(wire, exchanged[0]).tools()] == ["sl_query"]
        answers = [rows(opened(wire, token)) for token in exchanged]
        assert answers[:3] == [[["quiet", 1]]] * 3 and answers[3]["code"] == "rate_limit"
        helped = opened(wire, issuer.token(azp="robot", act={"sub": "helper"}))
        assert rows(helped) == [["quiet", 1]] and len(helped.tools()) > 1, "a listed actor has its own rights"
        assert rows(opened(wire, issuer.token(act={"sub": "stranger"}))) == [["quiet", 1]]
    with serving(tmp_path / "refuse", Load(), config=CONFIG + settings(issuer, agents=agents)) as wire:
        assert {as_(wire, token).initialize().status for token in exchanged} == {403}


def test_an_agent_that_was_removed_is_refused_at_once(tmp_path: Path, issuer: Issuer) -> None:
    with serving(tmp_path, Load(), config=CONFIG + settings(issuer, agents=AGENTS)) as wire:
        client = opened(wire, issuer.token(azp="robot"))
        assert rows(client) == [["quiet", 1]]
        (tmp_path / "ktx.yaml").write_text(CONFIG + settings(issuer, agents="desktop: {}"))
        assert client.ask("tools/list", {}).status == 403


def test_mounts(tmp_path: Path, issuer: Issuer) -> None:
    """The root's agents have rights on connections of mounts by their names there; a mount's own agents have none."""
    root = tmp_path / "root"
    people = made(root / "domains/people")
    made(root / "domains/sales")
    people.write("ktx.yaml", f"{CONFIG}serving:\n  agents:\n    robot: {{}}\n    intruder: {{}}\n")
    text = "mounts: {hr: domains/people, sales: domains/sales}\n" + settings(
        issuer, agents="robot: {connections: [sales/shop]}\noutside: {connections: [nowhere/shop]}\n"
    )
    with serving(root, Load(), config=text) as wire:
        robot = opened(wire, issuer.token(azp="robot"))
        ids = [each["id"] for each in json.loads(robot.call("connection_list", {})[2])["connections"]]
        assert ids == ["sales/shop"]
        assert rows(robot, {**NOTES, "connection": "sales/shop"}) == [["quiet", 1]]
        assert rows(robot, NOTES) == [["quiet", 1]], "there is only one"
        for name, arguments in (*CALLS, ("sl_query", {**NOTES, "connection": "hr/shop"}), ("sl_list", {})):
            assert "hr/" not in robot.call(name, arguments)[2].replace("hr/shop", "", 1), name
        refused = rows(robot, {**NOTES, "connection": "hr/shop"})
        unknown = rows(robot, {**NOTES, "connection": "absent/shop"})
        assert refused["message"].replace("hr", "absent") == unknown["message"]
        assert json.loads(opened(wire, issuer.token(azp="outside")).call("connection_list", {})[2])["connections"] == []
        assert as_(wire, issuer.token(azp="intruder")).initialize().status == 403


def test_nobody_gets_the_second_page_of_somebody_else(tmp_path: Path, issuer: Issuer) -> None:
    agents = "desktop: {}\nrobot: {connections: [shop]}\n"
    with serving(tmp_path, Load(), config=CONFIG + settings(issuer, agents=agents)) as wire:
        statement = {"sql": "SELECT id, words FROM facts ORDER BY id", "max_rows": 1500}
        question = {"measures": ["facts.rows_counted"], "dimensions": ["facts.words"], "limit": 1500}
        for name, asked in (("sql_execution", statement), ("sl_query", question)):
            first = json.loads(opened(wire, issuer.token()).call(name, asked)[2])
            later = {**asked, "offset": first["next_offset"]}
            own = json.loads(opened(wire, issuer.token()).call(name, later)[2])
            assert not any("no longer cached" in each for each in own["warnings"])
            for changed in ({"sub": "bo"}, {"region": "US"}, {"azp": "robot"}):
                other = json.loads(opened(wire, issuer.token(**changed)).call(name, later)[2])
                assert any("no longer cached" in each for each in other["warnings"]), (name, changed)


# -- limits --------------------------------------------------------------------------------------------------------


def limited(**limits: float) -> CallerIdentity:
    return CallerIdentity(subject="ada", issuer="i", agent="robot", rights=AgentClient(limits=limits))


class Clock:
    def __init__(self) -> None:
        self.now = datetime(2026, 1, 1, 12, tzinfo=UTC)

    def __call__(self) -> float:
        return self.now.timestamp()


def refused(meter: Meter, caller: CallerIdentity, queries: int = 0, rows: int = 0, size: int = 0) -> KtxError | None:
    account = Account(meter, caller)
    try:
        account.admit(queries=queries)
        account.settle(rows=rows, size=size)
    except KtxError as error:
        return error
    return None


def test_the_window_slides(tmp_path: Path) -> None:
    clock = Clock()
    meter, caller = Meter(Layout(tmp_path), clock), limited(queries_per_hour=2)
    start = clock.now
    assert refused(meter, caller, queries=1) is None
    clock.now += timedelta(minutes=20)
    assert refused(meter, caller, queries=1) is None
    error = refused(meter, caller, queries=1)
    assert error is not None and error.code == "rate_limit" and error.exit_code == 5
    assert error.details["resets_at"] == (start + timedelta(hours=1)).timestamp()
    clock.now = start + timedelta(hours=1)
    assert refused(meter, caller, queries=1) is None
    assert refused(meter, caller, queries=1) is not None


def test_an_answer_that_exceeds_a_limit_uses_it_up(tmp_path: Path) -> None:
    clock, caller = Clock(), limited(rows_per_hour=100, megabytes_per_hour=0.001)
    meter = Meter(Layout(tmp_path), clock)
    assert refused(meter, caller, 1, rows=60) is None
    account = Account(meter, caller)
    account.admit(queries=1)
    with pytest.raises(KtxError, match="100 rows per hour"):
        account.settle(rows=60, size=10)
    assert (account.taken.queries, account.taken.rows, account.taken.bytes) == (1, 40, 10)
    nothing = Account(meter, caller)
    with pytest.raises(KtxError, match="100 rows per hour"):
        nothing.admit(queries=1)
    assert (nothing.taken.queries, nothing.taken.rows) == (0, 0), "refused before it runs"
    assert refused(meter, caller, size=990) is None, "no query"
    error = refused(meter, caller)
    assert error is not None and error.details["limit"] == "megabytes_per_hour"
    clock.now += timedelta(hours=1)
    assert refused(meter, caller, 1, rows=100, size=1_000) is None
    alone = refused(Meter(Layout(tmp_path / "other"), clock), caller, rows=101)
    assert alone is not None and "resets_at" not in alone.details


def test_servers_count_together_and_forget_after_an_hour(tmp_path: Path) -> None:
    clock, layout, caller = Clock(), Layout(tmp_path), limited(queries_per_hour=100)
    meters = [Meter(layout, clock) for _ in range(2)]

    def count(meter: Meter) -> None:
        for _ in range(20):
            assert refused(meter, caller, queries=1) is None

    threads = [threading.Thread(target=count, args=(each,)) for each in meters]
    for each in threads:
        each.start()
    for each in threads:
        each.join(60)
    assert refused(meters[0], caller, queries=61) is not None and refused(meters[1], caller, queries=60) is None
    assert layout.mcp_usage.stat().st_mode & 0o777 == 0o600
    clock.now += timedelta(hours=1, seconds=10)
    other = CallerIdentity(subject="bo", issuer="i", agent="robot", rights=caller.rights)
    assert refused(meters[0], other, queries=1) is None
    with contextlib.closing(sqlite3.connect(layout.mcp_usage)) as database:
        assert database.execute("SELECT count(*) FROM agent_usage").fetchone() == (1,)


def test_without_the_counts_an_agent_with_limits_gets_nothing(tmp_path: Path) -> None:
    layout = Layout(tmp_path)
    layout.mcp_usage.parent.mkdir(parents=True)
    layout.mcp_usage.write_bytes(b"no database" * 1_000)
    error = refused(Meter(layout), limited(queries_per_hour=1), queries=1)
    assert error is not None and error.code == "storage"
    assert refused(Meter(layout), limited(), queries=1) is None, "no limits"


def test_what_errors_and_invalid_calls_take_counts(tmp_path: Path, issuer: Issuer) -> None:
    limits = {"one": "rows_per_hour: 1", "few": "queries_per_hour: 2", "bytes": "megabytes_per_hour: 0.0005"}
    agents = "".join(f"{name}: {{limits: {{{limit}}}}}\n" for name, limit in limits.items())
    with serving(tmp_path, Load(), metered, config=CONFIG + settings(issuer, agents=agents)) as wire:
        one = opened(wire, issuer.token(azp="one"))
        failing = {"sql": "SELECT no_such_function(id) FROM facts"}
        assert one.call("sql_execution", failing)[1]["code"] != "rate_limit"
        for statement in (failing, {"sql": "SELECT id FROM facts WHERE false"}):
            assert one.call("sql_execution", statement)[1]["details"]["limit"] == "rows_per_hour"
        few = opened(wire, issuer.token(azp="few"))
        for _ in range(2):
            assert rows(few, {"nonsense": 1})["code"] == "usage"
        assert rows(few, {"nonsense": 1})["code"] == "rate_limit"
        full = opened(wire, issuer.token(azp="bytes"))
        found = [full.call("no_such_tool", {})[1]["code"] for _ in range(9)]
        assert found[0] == "usage" and found[-1] == "rate_limit"
    lines = [json.loads(each) for each in Layout(tmp_path).mcp_audit.read_text().splitlines()]
    taken = [
        (each["agent"], each["outcome"] == "rate_limit", each["queries"], each["rows"])
        for each in lines
        if each.get("tool") in ("sql_execution", "sl_query")
    ]
    assert taken == [
        ("one", False, 1, 1),
        ("one", True, 0, 0),
        ("one", True, 0, 0),
        ("few", False, 1, 0),
        ("few", False, 1, 0),
        ("few", True, 0, 0),
    ]
    assert sum(each["bytes"] for each in lines if each.get("agent") == "bytes" and each.get("tool")) == 500


def test_values_outside_rows_and_lists_of_resources_count(tmp_path: Path, issuer: Issuer) -> None:
    agents = "rows: {limits: {rows_per_hour: 3}}\nbytes: {limits: {megabytes_per_hour: 0.005}}\n"
    total = {"measures": ["facts.rows_counted"], "totals": True, "include": ["receipt"]}
    with serving(tmp_path, Load(), metered, config=CONFIG + settings(issuer, agents=agents)) as wire:
        client = opened(wire, issuer.token(azp="rows"))
        answers = [client.call("sl_query", total) for _ in range(4)]
        assert [json.loads(text)["totals"] for _, error, text in answers if error is None] == [
            {"rows_counted": 1500}
        ] * 3
        assert answers[3][1] is not None and answers[3][1]["code"] == "rate_limit"
        client = opened(wire, issuer.token(azp="bytes"))
        listed = [client.ask("resources/list", {}).message for _ in range(9)]
        assert "result" in listed[0] and listed[-1]["error"]["data"]["code"] == "rate_limit"


def test_a_log_that_rotated_gives_no_limits_back(tmp_path: Path, issuer: Issuer) -> None:
    config = CONFIG + settings(issuer, agents=AGENTS)
    with serving(tmp_path, Load(), metered, config=config) as wire:
        client = opened(wire, issuer.token(azp="limited"))
        assert [rows(client), rows(client)] == [[["quiet", 1]]] * 2
    for path in Layout(tmp_path).mcp_audit.parent.iterdir():
        path.unlink()
    with serving(tmp_path, Load(), metered, exists=True) as wire:
        assert rows(opened(wire, issuer.token(azp="limited")))["code"] == "rate_limit"


def test_limits_are_for_each_person_and_agent(tmp_path: Path) -> None:
    meter, caller = Meter(Layout(tmp_path), Clock()), limited(queries_per_hour=1)
    other = CallerIdentity(subject="bo", issuer="i", agent="robot", rights=caller.rights)
    assert refused(meter, caller, queries=1) is None and refused(meter, other, queries=1) is None
    assert refused(meter, caller, queries=1) is not None and refused(meter, other, queries=1) is not None
    assert refused(meter, CallerIdentity(subject="ada", issuer="i"), queries=1) is None, "no agent, no limit"


def test_over_http_and_after_a_restart(tmp_path: Path, issuer: Issuer) -> None:
    config = CONFIG + settings(issuer, agents=AGENTS)
    with serving(tmp_path, Load(), metered, config=config) as wire:
        client = opened(wire, issuer.token(azp="limited"))
        assert rows(client) == [["quiet", 1]] and rows(client) == [["quiet", 1]]
        third = rows(client)
        assert third["code"] == "rate_limit" and third["details"]["resets_at"] > 0
        assert client.call("discover_data", {"query": "refund"})[1] is None, "not a query"
        assert rows(opened(wire, issuer.token(azp="limited", sub="bo"))) == [["quiet", 1]]

    with serving(tmp_path, Load(), metered, exists=True) as wire:
        assert rows(opened(wire, issuer.token(azp="limited")))["code"] == "rate_limit"
        bo = opened(wire, issuer.token(azp="limited", sub="bo"))
        assert rows(bo) == [["quiet", 1]] and rows(bo)["code"] == "rate_limit"


def metered(served: Served) -> None:
    served.project.meter = Meter(served.layout)


def test_two_servers_count_together(tmp_path: Path, issuer: Issuer) -> None:
    made(tmp_path).write("ktx.yaml", CONFIG + settings(issuer, agents=AGENTS))
    with serving(tmp_path, Load(), metered, exists=True) as one, serving(tmp_path, Load(), metered, exists=True) as two:
        clients = [opened(wire, issuer.token(azp="limited")) for wire in (one, two)]
        assert [rows(client) for client in clients] == [[["quiet", 1]]] * 2
        assert [rows(client)["code"] for client in clients] == ["rate_limit"] * 2


def test_an_agent_of_the_launcher(company: Company) -> None:
    company.write(
        "ktx.yaml", f"{CONFIG}serving:\n  agents:\n    desk: {{attributes: {{region: EU}}, tools: [sl_query]}}\n"
    )
    options: dict[str, Any] = {"agent": "desk", "attributes": {"region": "US"}}
    assert company.call("sl_query", NOTES, **options).data["rows"] == []
    assert company.call("sl_query", NOTES, agent="desk", attributes={"region": "EU"}).data["rows"] == [["quiet", 1]]
    assert company.call("sl_list", {}, **options).error is not None
    company.write("ktx.yaml", CONFIG)
    gone = company.call("sl_query", NOTES, **options).error
    assert gone is not None and "there is no agent `desk`" in gone["message"]


def test_a_file_of_another_connection_cannot_lift_a_policy(company: Company) -> None:
    """Files outside all connections count for an agent with few connections as they count for everybody."""
    company.write("ktx.yaml", f"{CONFIG}serving:\n  agents:\n    desk: {{connections: [shop]}}\n")
    company.write(
        "semantic-layer/stray.yaml", STAFF.replace("name: staff", "name: facts").replace("table: staff", "table: facts")
    )
    everybody = company.call("sql_execution", {"sql": "SELECT count(*) FROM facts"})
    agent = company.call("sql_execution", {"sql": "SELECT count(*) FROM facts"}, agent="desk")
    assert (everybody.error, everybody.data) == (agent.error, agent.data)
