"""A root that mounts three projects: each asked by its own settings and policies, named by the root, and left alone."""

from __future__ import annotations

import hashlib
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import KTX, Answer, done

Run = Callable[..., Answer]

ROOT = "mounts: {sales: domains/sales, finance: domains/finance, people: ../people}\n"
CONFIG = "connections:\n  warehouse: {driver: sqlite, path: data.sqlite}\n"
ORDERS = """\
name: orders
table: orders
description: One row per order.
grain: [id]
columns:
  - {name: id, type: number}
  - {name: amount, type: number}
measures:
  - {name: revenue, expr: sum(amount), description: What orders brought in.}
"""
LEDGER = """\
name: ledger
table: orders
description: Bookings, revenue among them.
grain: [id]
columns:
  - {name: id, type: number}
  - {name: amount, type: number}
measures:
  - {name: booked, expr: sum(amount), description: Booked revenue.}
"""
STAFF = """\
name: staff
table: staff
description: Everybody who works here.
grain: [id]
columns:
  - {name: id, type: number}
  - {name: region, type: string}
  - {name: salary, type: number, visibility: hidden}
measures:
  - {name: people, expr: count(*)}
policies: [{name: own, filter: "region = {{ user.region }}"}]
"""


def domain(folder: Path, amount: int, *layers: str) -> None:
    """Make a project with one database, its layer, and a page."""
    (folder / "semantic-layer/warehouse").mkdir(parents=True)
    (folder / "wiki/global").mkdir(parents=True)
    (folder / "ktx.yaml").write_text(CONFIG)
    for layer in layers:
        (folder / f"semantic-layer/warehouse/{layer.split()[1]}.yaml").write_text(layer)
    (folder / "wiki/global/close.md").write_text(f"---\nsummary: How {folder.name} closes a month\n---\n\nBy hand.\n")
    database = sqlite3.connect(folder / "data.sqlite")
    database.executescript(
        f"""
        CREATE TABLE orders (id INTEGER PRIMARY KEY, amount INTEGER);
        CREATE TABLE staff (id INTEGER PRIMARY KEY, region TEXT, salary INTEGER);
        INSERT INTO orders VALUES (1, {amount}), (2, {amount});
        INSERT INTO staff VALUES (1, 'EU', 10), (2, 'US', 20), (3, 'US', 30);
        """
    )
    database.close()


@pytest.fixture
def root(work: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The current folder: a root whose mounts have connections of the same id, and one a source of the same name."""
    made = work / "root"
    domain(made / "domains/sales", 10, ORDERS)
    domain(made / "domains/finance", 7, ORDERS, LEDGER)
    domain(work / "people", 1, STAFF)
    (made / "ktx.yaml").write_text(ROOT)
    monkeypatch.chdir(made)
    return made


def tree(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }


def committed(files: dict[str, str]) -> dict[str, str]:
    return {path: content for path, content in files.items() if not path.startswith(".ktx/")}


def ask(ktx: Run, *words: str) -> Answer:
    return ktx("sl", "query", *words, "--json")


# --- asking ---------------------------------------------------------------------------------------------------------


@pytest.mark.table(("mount", "total"), [("sales", 20), ("finance", 14)])
def test_a_question_is_answered_by_the_project_that_is_named(ktx: Run, root: Path, mount: str, total: int) -> None:
    answer = ask(ktx, "-m", "orders.revenue", "-c", f"{mount}/warehouse")
    assert answer.data["rows"] == [[total]] and answer.data["connection"] == f"{mount}/warehouse"
    assert answer.envelope["warnings"] == []
    assert ask(ktx, "-m", "orders.revenue", "-c", mount).data["rows"] == [[total]]
    compiled = ktx("sl", "query", "-m", "orders.revenue", "-c", mount, "--no-execute", "--json")
    assert compiled.data["connection"] == f"{mount}/warehouse"
    explained = ktx("sl", "explain", "-m", "orders.revenue", "-c", mount, "--json")
    assert explained.data["connection"] == f"{mount}/warehouse"
    sql = ktx("sql", "SELECT sum(amount) FROM orders", "-c", mount, "--json")
    assert sql.data["rows"] == [[total]] and sql.data["connection"] == f"{mount}/warehouse"


def test_a_draft_of_a_query_may_name_the_connection(ktx: Run, root: Path) -> None:
    answer = ask(ktx, '{"measures": ["orders.revenue"], "connection": "finance/warehouse"}')
    assert answer.data["rows"] == [[14]]


def test_what_could_be_of_several_is_to_be_chosen(ktx: Run, root: Path) -> None:
    for words in (("sl", "query", "-m", "orders.revenue"), ("sql", "SELECT 1")):
        refused = ktx(*words, "--json")
        names = ["sales/warehouse", "finance/warehouse", "people/warehouse"]
        assert refused.code == 2 and refused.envelope["error"]["details"]["candidates"] == names
    refused = ktx("sl", "read", "orders", "--json")
    assert refused.envelope["error"]["details"]["candidates"] == ["sales/warehouse", "finance/warehouse"]
    assert refused.envelope["error"]["hint"] == "ktx sl read orders -c sales/warehouse"


def test_the_only_layer_there_is_need_not_be_named(ktx: Run, root: Path) -> None:
    (root / "ktx.yaml").write_text("mounts: {finance: domains/finance}\n")
    assert ask(ktx, "-m", "orders.revenue").data["connection"] == "finance/warehouse"


@pytest.mark.table(
    ("connection", "message", "code"),
    [
        ("sales/wearhouse", "mount `sales`: there is no connection `wearhouse` in ktx.yaml", 2),
        ("sale/warehouse", "there is no connection `sale/warehouse` in ktx.yaml", 2),
        ("sales/warehouse/x", "mount `sales`: there is no connection `warehouse/x` in ktx.yaml", 2),
        ("../people/warehouse", "there is no connection `../people/warehouse` in ktx.yaml", 2),
    ],
)
def test_a_connection_that_is_nowhere(ktx: Run, root: Path, connection: str, message: str, code: int) -> None:
    refused = ask(ktx, "-m", "orders.revenue", "-c", connection)
    assert (refused.code, refused.envelope["error"]["message"]) == (code, message)


def test_hints_of_a_mount_are_typed_in_the_folder_of_the_root(ktx: Run, root: Path) -> None:
    (root / "domains/sales/semantic-layer/warehouse/broken.yaml").write_text("name: [\n")
    answer = ask(ktx, "-m", "orders.revenue", "-c", "sales/warehouse")
    assert answer.data["rows"] == [[20]]
    listed = ktx("sl", "list", "-c", "sales", "--json")
    (warning,) = listed.envelope["warnings"]
    assert warning["hint"] == "ktx sl validate --project-dir domains/sales -c warehouse --no-data"
    assert warning["mount"] == "sales" and warning["message"].startswith("mount `sales`: ")


@pytest.mark.table(
    ("words", "steps"),
    [
        (("ledger", "--kind", "source"), ["ktx sl read ledger -c finance/warehouse"]),
        (("ledger", "--kind", "source", "-c", "finance"), ["ktx sl read --project-dir domains/finance ledger"]),
        (("finance", "--kind", "page", "-c", "finance"), ["ktx wiki read --project-dir domains/finance close"]),
        (("finance", "--kind", "page", "--limit", "1"), ["ktx wiki read finance/close"]),
    ],
)
def test_what_is_found_names_its_project_and_how_to_go_on(
    ktx: Run, root: Path, words: tuple[str, ...], steps: list[str]
) -> None:
    """Also where all that was found is of one project: those without a hit were searched too."""
    found = ktx("search", *words)
    assert [line.removeprefix("next: ") for line in found.err.splitlines() if line.startswith("next: ")] == steps
    assert ("-c" in words) or found.out.startswith("connection\t")
    for step in steps:
        assert ktx(*step.split()[1:]).code == 0


def test_a_page_that_only_a_mount_has_is_suggested(ktx: Run, root: Path) -> None:
    missing = ktx("wiki", "read", "close", "--json").envelope["error"]
    assert missing["hint"] == "ktx wiki read sales/close"


def test_pages_of_a_mount_are_checked_there_and_not_written(ktx: Run, root: Path) -> None:
    page = root / "domains/finance/wiki/global/close.md"
    page.write_text("---\nsummary: Close\n---\n\nAs [[opened]] says.\n")
    found = ktx("wiki", "lint", "finance/close")
    assert found.code == 1 and "domains/finance/wiki/global/close.md:" in found.out
    assert ktx("wiki", "lint", "people/close").code == 0
    assert ktx("wiki", "lint", "people/close", "finance/close").code == 2
    before = tree(root.parent)
    refused = ktx("wiki", "write", "finance/close", "--content", "x", "--json").envelope
    assert "is a page of the mount `finance`" in refused["error"]["message"] and refused["warnings"] == []
    assert refused["error"]["hint"] == "ktx wiki write close --project-dir domains/finance"
    assert tree(root.parent) == before


def test_findings_name_their_files_from_the_root(ktx: Run, root: Path, git: Callable[..., str]) -> None:
    for folder in (root / "domains/finance", root.parent / "people"):
        (folder / "semantic-layer/warehouse/broken.yaml").write_text("name: [\n")
    for words in (("lint", "--select", "KTX3"), ("sl", "validate", "--no-data")):
        lines = ktx(*words).out.splitlines()
        assert any(each.startswith("domains/finance/semantic-layer/warehouse/broken.yaml:2: ") for each in lines), words
        assert any(each.startswith("../people/semantic-layer/warehouse/broken.yaml:2: ") for each in lines), words
    git(root, "init", "-q")
    git(root / "domains/finance", "init", "-q")
    github = [each for each in ktx("lint", "--select", "KTX3", "--github").err.splitlines() if "broken.yaml" in each]
    assert "file=domains/finance/semantic-layer/warehouse/broken.yaml,line=2," in github[0]
    assert "file=" not in github[1] and "../people/semantic-layer/warehouse/broken.yaml:2: " in github[1]


# --- policies -------------------------------------------------------------------------------------------------------


def test_row_policies_of_a_mount_hold(ktx: Run, root: Path) -> None:
    refused = ask(ktx, "-m", "staff.people", "-c", "people")
    assert refused.code == 1 and refused.data is None
    for region, people in (("EU", 1), ("US", 2)):
        answer = ask(ktx, "-m", "staff.people", "-c", "people", "--user-attribute", f"region={region}")
        assert answer.data["rows"] == [[people]]
    hidden = ask(ktx, "-m", "sum(staff.salary)", "-c", "people", "--user-attribute", "region=EU")
    assert hidden.code == 1 and hidden.envelope["error"]["code"] == "hidden"


def test_no_setting_of_the_root_loosens_a_policy_of_a_mount(ktx: Run, root: Path) -> None:
    (root / "ktx.yaml").write_text(f"{ROOT}mcp: {{user_attributes: {{region: US}}}}\n")
    (root / "semantic-layer/people").mkdir(parents=True)
    (root / "semantic-layer/people/staff.yaml").write_text(STAFF.partition("policies")[0])
    assert ask(ktx, "-m", "staff.people", "-c", "people/warehouse").code == 1


def test_a_page_of_one_mount_shows_no_secret_of_another(ktx: Run, root: Path, git: Callable[..., str]) -> None:
    """Whoever may commit to one domain of a repository may link to what this machine keeps of another."""
    git(root, "init", "-q")
    secret = root / "domains/finance/.ktx/secrets/warehouse"
    secret.parent.mkdir(parents=True)
    secret.write_text("canary")
    (root / "domains/sales/wiki/global/notes.md").symlink_to("../../../finance/.ktx/secrets/warehouse")
    read = ktx("wiki", "read", "sales/notes", "--json")
    assert read.code == 1 and "points to a hidden file" in read.envelope["error"]["message"]
    for words in (("search", "canary"), ("wiki",), ("wiki", "canary"), ("pack", "canary"), ("lint",), ("index",)):
        shown = ktx(*words, "--json")
        assert "canary" not in (shown.out + shown.err).replace('"query": "canary"', ""), words


def test_what_a_mount_hides_is_not_found_at_the_root(ktx: Run, root: Path) -> None:
    found = ktx("search", "salary", "--json")
    assert [each["id"] for each in found.data["hits"]] == []
    assert "salary" not in ktx("sl", "read", "staff").out


# --- reading together -----------------------------------------------------------------------------------------------


def test_sources_of_all_are_listed(ktx: Run, root: Path) -> None:
    listed = ktx("sl", "list", "--json").data["sources"]
    named = [(each["connection"], each["name"]) for each in listed]
    assert named == [
        ("sales/warehouse", "orders"),
        ("finance/warehouse", "ledger"),
        ("finance/warehouse", "orders"),
        ("people/warehouse", "staff"),
    ]
    table = ktx("sl", "list").out.splitlines()
    assert table[0].split("\t")[0] == "connection" and table[2].startswith("finance/warehouse\tledger\t")
    assert [each["name"] for each in ktx("sl", "list", "-c", "people", "--json").data["sources"]] == ["staff"]


def test_a_source_that_one_has_is_read_without_its_connection(ktx: Run, root: Path) -> None:
    answer = ktx("sl", "read", "ledger", "--json")
    assert answer.data["connection"] == "finance/warehouse"
    assert "connection: finance/warehouse" in ktx("sl", "read", "ledger").out.splitlines()
    files = ktx("sl", "read", "ledger", "--yaml", "--json").data
    assert files["connection"] == "finance/warehouse" and files["files"][0]["text"] == LEDGER
    missing = ktx("sl", "read", "legder", "--json").envelope["error"]
    assert missing["code"] == "unknown_name" and "ledger" in missing["hint"]


def test_a_search_finds_what_all_have_in_one_order(ktx: Run, root: Path) -> None:
    found = ktx("search", "revenue", "--json").data
    measures = [(each["connection"], each["id"]) for each in found["hits"] if each["kind"] == "measure"]
    assert measures == [
        ("sales/warehouse", "orders.revenue"),
        ("finance/warehouse", "orders.revenue"),
        ("finance/warehouse", "ledger.booked"),
    ]
    assert found["hits"][0]["score"] == found["hits"][1]["score"]  # alike in both: neither project outweighs the other
    layer = ktx("sl", "revenue", "--json").data
    assert [each["connection"] for each in layer["hits"]][:2] == ["sales/warehouse", "finance/warehouse"]
    assert "next: ktx sl query -m orders.revenue -c sales/warehouse" in ktx("search", "revenue").err
    alone = ktx("search", "revenue", "-c", "finance", "--json").data
    assert {each["connection"] for each in alone["hits"]} == {"finance/warehouse"}


def test_a_word_is_as_rare_as_it_is_in_all_projects_together(ktx: Run, root: Path) -> None:
    for name in ("alpha", "beta", "gamma"):
        page = root / f"domains/sales/wiki/global/{name}.md"
        page.write_text(f"---\nsummary: Budget of {name}\n---\n\nBudget.\n")
    (root / "domains/finance/wiki/global/budget.md").write_text("---\nsummary: Accruals\n---\n\nAccruals, budget.\n")
    hits = ktx("search", "accruals budget", "--json").data["hits"]
    assert hits[0]["id"] == "finance/budget"


def test_pages_are_named_by_their_mount(ktx: Run, root: Path) -> None:
    pages = [each["key"] for each in ktx("wiki", "--json").data["pages"]]
    assert pages == ["sales/close", "finance/close", "people/close"]
    page = ktx("wiki", "read", "finance/close", "--json").data
    assert (page["key"], page["summary"]) == ("finance/close", "How finance closes a month")
    assert page["path"] == "domains/finance/wiki/global/close.md"
    people = ktx("wiki", "read", "people/close", "--json").data
    assert people["path"] == "../people/wiki/global/close.md"
    hits = ktx("wiki", "finance", "month", "--json").data["hits"]
    assert (hits[0]["id"], hits[0]["path"]) == ("finance/close", "domains/finance/wiki/global/close.md")
    assert ktx("search", "close", "--kind", "page", "--json").data["hits"][0]["id"].endswith("/close")
    (root / "wiki/global").mkdir(parents=True)
    (root / "wiki/global/finance.md").write_text("---\nsummary: Where finance is\n---\n\nAbout finance.\n")
    assert ktx("wiki", "read", "finance", "--json").data["path"] == "wiki/global/finance.md"
    own = ktx("wiki", "where", "--json").data["hits"][0]
    assert (own["id"], own["path"]) == ("finance", "wiki/global/finance.md")
    missing = ktx("wiki", "read", "finance/closs", "--json").envelope["error"]
    assert missing["hint"] == "ktx wiki read --project-dir domains/finance close"


def test_connections_of_all_are_listed(ktx: Run, root: Path) -> None:
    ids = [each["id"] for each in ktx("connection", "list", "--json").data["connections"]]
    assert ids == ["sales/warehouse", "finance/warehouse", "people/warehouse"]


def test_reports_have_a_part_for_each_project(ktx: Run, root: Path) -> None:
    (root / "domains/finance/semantic-layer/warehouse/broken.yaml").write_text("name: [\n")
    for words in (("lint", "--select", "KTX3"), ("sl", "validate", "--no-data"), ("wiki", "lint"), ("sl", "test")):
        answer = ktx(*words, "--json")
        assert list(answer.data["mounts"]) == ["sales", "finance", "people"], words
        failed = [name for name, each in answer.data["mounts"].items() if each["error"]]
        expected = ["finance"] if words[0] == "lint" or "validate" in words else []
        assert failed == expected, (words, answer)
        assert answer.code == (1 if expected else 0)
    told = ktx("lint", "--select", "KTX3")
    assert told.err.splitlines()[0].startswith("error: mount `finance`: ") and "finance: domains/finance" in told.out
    alone = ktx("lint", "--select", "KTX3", "-c", "sales/warehouse", "--json")
    assert alone.code == 0 and "mounts" not in alone.data


@pytest.mark.table(
    ("words", "found"),
    [
        ("ktx sl query -c f", ["finance/warehouse"]),
        ("ktx search x -c people/", ["people/warehouse"]),
        ("ktx scan f", []),
        ("ktx sl query -c finance -m l", ["ledger.booked"]),
        ("ktx sl read st", ["staff"]),
    ],
)
def test_ids_of_mounts_are_completed_where_they_can_be_used(
    root: Path, monkeypatch: pytest.MonkeyPatch, words: str, found: list[str]
) -> None:
    monkeypatch.setenv("_KTX_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split(" ")) - 1))
    completed = subprocess.run([KTX], cwd=root, capture_output=True, text=True, check=True).stdout.split()
    assert completed == found


# --- nothing is written where nobody asked for it -------------------------------------------------------------------


def test_reading_changes_no_file_of_any_project(ktx: Run, root: Path) -> None:
    before = tree(root.parent)
    for words in (
        ("sl", "list"),
        ("sl", "query", "-m", "orders.revenue", "-c", "sales"),
        ("search", "revenue"),
        ("wiki",),
        ("lint",),
        ("status",),
        ("doctor", "--only", "mounts"),
    ):
        ktx(*words)
    assert tree(root.parent) == before


def test_an_index_is_written_in_the_folder_of_each_project_and_an_edit_makes_one_behind(ktx: Run, root: Path) -> None:
    assert ktx("index", "--json").code == 0
    for folder in (root, root / "domains/sales", root / "domains/finance", root.parent / "people"):
        assert (folder / ".ktx/search.sqlite").is_file()
    assert ktx("search", "revenue", "--json").envelope["warnings"] == []
    before = tree(root / "domains/sales"), tree(root.parent / "people")
    page = root / "domains/finance/wiki/global/accruals.md"
    page.write_text("---\nsummary: Accruals of a month\n---\n\nBooked at its end.\n")
    found = ktx("search", "accruals", "--json")
    assert found.data["hits"][0]["id"] == "finance/accruals"
    (warning,) = found.envelope["warnings"]
    assert (warning["code"], warning["mount"]) == ("index_behind", "finance")
    assert warning["hint"] == "ktx index --project-dir domains/finance"
    again = ktx("index", "--json").data["mounts"]
    changed = {name: each["data"]["added"] for name, each in again.items()}
    assert changed == {"sales": 0, "finance": 1, "people": 0}
    after = tree(root / "domains/sales"), tree(root.parent / "people")
    assert [committed(each) for each in after] == [committed(each) for each in before]
    assert ktx("search", "accruals", "--json").envelope["warnings"] == []


@pytest.mark.table(
    "words",
    [
        ("ingest", "finance/warehouse"),
        ("scan", "finance"),
        ("connection", "test", "finance/warehouse"),
        ("connection", "remove", "finance/warehouse", "--yes"),
        ("decide", "-c", "finance/warehouse"),
    ],
)
def test_what_writes_refuses_a_connection_of_a_mount(ktx: Run, root: Path, words: tuple[str, ...]) -> None:
    before = tree(root.parent)
    refused = ktx(*words, "--json")
    error = refused.envelope["error"]
    assert refused.code == 2 and "belongs to the mount `finance`" in error["message"], error
    assert [each["code"] for each in refused.envelope["warnings"]] == []  # the one about any mount would name another
    assert "--project-dir domains/finance" in error["hint"]
    assert tree(root.parent) == before


@pytest.mark.table(
    "words",
    [("decide",), ("diff",), ("memory", "list"), ("wiki", "contradictions"), ("ingest",), ("usage",), ("runs", "list")],
)
def test_what_works_on_one_project_alone_says_so(ktx: Run, root: Path, words: tuple[str, ...]) -> None:
    told = [each for each in ktx(*words, "--json").envelope["warnings"] if each["code"] == "mounts_left_out"]
    assert [each["message"].rpartition(": ")[2] for each in told] == ["sales, finance, people"]
    assert told[0]["hint"] == "add --project-dir domains/sales to run it on one of them"


def test_no_database_of_a_mount_is_offered_to_the_root(ktx: Run, root: Path) -> None:
    hint = ktx("ingest", "--json").envelope["error"]["hint"]
    assert "setup" in hint and "data.sqlite" not in hint
    (root / "own.sqlite").write_bytes((root.parent / "people/data.sqlite").read_bytes())
    assert "--database-path own.sqlite" in ktx("ingest", "--json").envelope["error"]["hint"]


# --- what is broken -------------------------------------------------------------------------------------------------


@pytest.fixture
def broken(root: Path) -> Path:
    (root / "domains/finance/ktx.yaml").write_text("connections: [\n")
    return root


def test_the_others_of_a_broken_mount_are_asked_and_a_warning_names_it(ktx: Run, broken: Path) -> None:
    answer = ask(ktx, "-m", "orders.revenue", "-c", "sales/warehouse")
    assert answer.data["rows"] == [[20]]
    (warning,) = answer.envelope["warnings"]
    assert (warning["code"], warning["mount"]) == ("mount_broken", "finance")
    assert warning["hint"] == f"ktx config validate --project-dir {broken / 'domains/finance'}"
    listed = ktx("sl", "list", "--json")
    assert {each["connection"] for each in listed.data["sources"]} == {"sales/warehouse", "people/warehouse"}
    assert [each["code"] for each in listed.envelope["warnings"]] == ["mount_broken"]


def test_what_is_asked_of_a_broken_mount_fails_with_its_reason(ktx: Run, broken: Path) -> None:
    for words in (
        ("sl", "query", "-m", "orders.revenue", "-c", "finance"),
        ("sql", "SELECT 1", "-c", "finance/warehouse"),
        ("sl", "list", "-c", "finance"),
        ("search", "revenue", "-c", "finance"),
        ("wiki", "read", "finance/close"),
    ):
        refused = ktx(*words, "--json")
        assert refused.code == 2 and refused.envelope["error"]["message"].startswith("mount `finance`: "), words


def test_status_doctor_and_reports_count_a_broken_mount_as_a_failure(ktx: Run, broken: Path) -> None:
    status = ktx("status", "--json")
    checks = [(each["level"], each["message"]) for each in status.data["checks"] if each["check"] == "mounts"]
    assert status.code == 3 and [level for level, _ in checks] == ["fail", "warn", "warn"]
    assert checks[0][1].startswith("mount `finance`: ")
    doctor = ktx("doctor", "--only", "mounts", "--json")
    assert doctor.code == 3 and "config validate" in doctor.envelope["error"]["hint"]
    index = ktx("index", "--json")
    assert index.code == 2 and index.data["mounts"]["finance"]["error"]["code"] == "config"
    assert index.data["mounts"]["sales"]["error"] is None


def test_status_names_every_mount_that_is_well(ktx: Run, root: Path) -> None:
    assert ktx("index").code == 0
    checks = [each for each in ktx("status", "--json").data["checks"] if each["check"] == "mounts"]
    assert [(each["level"], each["message"]) for each in checks] == [
        ("ok", "sales: domains/sales, 1 semantic layer, 1 page"),
        ("ok", "finance: domains/finance, 1 semantic layer, 1 page"),
        ("ok", "people: ../people, 1 semantic layer, 1 page"),
    ]
    assert ktx("status", "--project-dir", "domains/sales").out.count("mounts:") == 0


def test_mounts_of_a_mount_are_not_followed(ktx: Run, root: Path) -> None:
    (root / "domains/sales/ktx.yaml").write_text(f"{CONFIG}mounts: {{people: ../../../people, up: ../..}}\n")
    assert ask(ktx, "-m", "orders.revenue", "-c", "sales").data["rows"] == [[20]]
    assert ask(ktx, "-m", "staff.people", "-c", "sales/people/warehouse").code == 2
    found: dict[str, Any] = ktx("doctor", "--only", "mounts", "--json").data
    assert any(
        "has mounts itself, which ktx does not follow: people, up" in each["message"] for each in found["findings"]
    )


def test_a_project_that_mounts_none_loads_nothing_for_it(root: Path) -> None:
    code = (
        "import sys; from ktx_cli.cli.main import command_line; words = sys.argv[1:]\n"
        "try: command_line(words)(words, prog_name='ktx')\n"
        "finally: print('ktx_cli.project.mounts' in sys.modules, file=sys.stderr)"
    )
    for folder, loaded in ((root, "True"), (root / "domains/sales", "False")):
        run = subprocess.run([sys.executable, "-c", code, "sl", "list"], cwd=folder, capture_output=True, text=True)
        assert run.returncode == 0 and run.stderr.splitlines()[-1] == loaded


def test_a_mount_is_added_by_the_command_line(ktx: Run, root: Path) -> None:
    done("config", "set", "mounts.extra", "domains/sales")
    assert "is already mounted as `sales`" in ktx("sl", "list").err
