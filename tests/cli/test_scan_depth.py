"""`ktx scan --depth enriched`: descriptions and proposals, against a scripted model, through three backends."""

from __future__ import annotations

import hashlib
import json
import os
import re
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core import yaml
from ktx_cli.llm.backends.claude_code import AUTH_MESSAGE
from ktx_cli.testing.claude_session import OfflineSession, offline_session
from ktx_cli.testing.model_script import OVERLOADED, UNAUTHORIZED, Failure, ModelRequest, Reply, Turn, gives, says
from ktx_cli.testing.model_server import ModelServer
from tests.cli.agents import backends, entered
from tests.cli.company_agents import definition_questions
from tests.worlds.forks import shared

Run = Callable[..., Any]
Git = Callable[..., str]
RAW = "raw-sources/library/live-database"
SHARD = "semantic-layer/library/_schema/main.yaml"
CALL_FAILS = Failure(400, "invalid_request_error", "this one call is not to our liking")

LIBRARY = """
CREATE TABLE authors (id INTEGER PRIMARY KEY, full_name TEXT NOT NULL, born INTEGER);
CREATE TABLE publishers (id INTEGER PRIMARY KEY, name TEXT, city TEXT);
CREATE TABLE books (id INTEGER PRIMARY KEY, title TEXT, author_id INTEGER REFERENCES authors, publisher_id INTEGER);
CREATE TABLE copies (id INTEGER PRIMARY KEY, book_id INTEGER REFERENCES books, shelf TEXT, bought_on DATE);
CREATE TABLE branches (id INTEGER PRIMARY KEY, name TEXT, opened_on DATE);
CREATE TABLE readers (id INTEGER PRIMARY KEY, card TEXT UNIQUE, home INTEGER, secret_word TEXT);
CREATE TABLE loans (id INTEGER PRIMARY KEY, copy_id INTEGER REFERENCES copies, reader_id INTEGER, due_on DATE);
CREATE TABLE fines (id INTEGER PRIMARY KEY, loan_id INTEGER REFERENCES loans, cents INTEGER);
CREATE TABLE subjects (code TEXT PRIMARY KEY, name TEXT);
CREATE TABLE book_subjects (book_id INTEGER REFERENCES books, code TEXT REFERENCES subjects,
                            PRIMARY KEY (book_id, code));
CREATE TABLE staff (id INTEGER PRIMARY KEY, name TEXT, boss INTEGER, branch_id INTEGER REFERENCES branches);
INSERT INTO branches VALUES (11, 'North', '2001-01-01'), (12, 'South', '2004-05-06'), (13, 'Quay', '2010-02-03');
INSERT INTO authors VALUES (1, 'Ada Reed', 1950), (2, 'Bo Lind', 1961), (3, 'Cy Moor', NULL);
INSERT INTO readers VALUES (1, 'C-1', 11, 'quince'), (2, 'C-2', 12, 'medlar'), (3, 'C-3', 11, 'sorb'),
                           (4, 'C-4', 13, 'damson');
"""

SECOND_HOME = """
ALTER TABLE readers ADD COLUMN other_home INTEGER;
UPDATE readers SET other_home = CASE id WHEN 1 THEN 13 WHEN 2 THEN 11 WHEN 3 THEN 12 ELSE 13 END;
"""
"""Adds one more column whose parent is undecided."""

CONFIG = """\
llm:
  provider:
    backend: {backend}
    anthropic: {{base_url: '{url}', api_key: 'env:SCRIPTED_KEY'}}
  models:
    default: sonnet
ingest:
  workUnits: {{maxConcurrency: {concurrency}}}
  rateLimit: {{retry: {{maxAttempts: 1}}}}
scan:
  enrichment: {{mode: {mode}}}
  privacy: {privacy}
connections:
  library:
    driver: sqlite
    path: library.sqlite
"""


def shown(request: ModelRequest) -> list[dict[str, Any]]:
    """Return the tables a request shows, whatever client wraps them."""
    text = json.dumps(request.body["messages"])
    found = re.findall(r"<tables>\\n(.*?)\\n</tables>", text)
    rest = json.loads(f'"{found[-1]}"') if found else ""
    decoder, tables = json.JSONDecoder(), []
    while rest:
        table, end = decoder.raw_decode(rest)
        tables.append(table)
        rest = rest[end:].lstrip("\n")
    return tables


def undecided(request: ModelRequest) -> list[dict[str, Any]]:
    """Return the columns a request asks about, with the parents that it offers."""
    found = re.findall(r"<columns>\\n(.*?)\\n</columns>", json.dumps(request.body["messages"]))
    return [json.loads(line) for line in json.loads(f'"{found[-1]}"').split("\n")] if found else []


class Librarian:
    """A model that describes every table and column it is shown, and knows the parent of one undecided column."""

    def __init__(self, failing: dict[str, Reply] | None = None, say: str = "Of the library") -> None:
        self.failing = failing or {}
        self.say = say
        self.branch = "branches"
        self.described: list[str] = []
        self.proposed: list[list[str]] = []
        self.seen: list[str] = []
        self.definitions: list[str] = []

    def __call__(self, request: ModelRequest) -> Reply:
        tables = shown(request)
        if "The sources:" in request.words:
            self.definitions.append(request.words)
            return gives(definition_questions(request.words))
        if not tables:
            return says("ok")
        self.seen.append(request.words)
        names = [table["table"] for table in tables]
        if "describe_table" not in tables[0]:
            columns = undecided(request)
            self.proposed.append([f"{each['table']}.{each['name']}" for each in columns])
            return self.failing.get("joins") or gives({"columns": self.parents(columns)})
        for name in names:
            if name in self.failing:
                return self.failing[name]
        self.described += names
        return gives({"tables": [self.text(table) for table in tables]})

    def parents(self, columns: list[dict[str, Any]]) -> list[dict[str, Any]]:
        return [
            {
                "column": each["column"],
                "parent": next((p["parent"] for p in each["parents"] if p["table"] == self.branch), None),
                "confidence": 0.9,
                "rationale": "The branch a reader calls home.",
            }
            for each in columns
        ]

    def text(self, table: dict[str, Any]) -> dict[str, Any]:
        name = table["table"]
        return {
            "table": name,
            "description": f"{self.say}: {name}." if table["describe_table"] else None,
            "columns": [
                {"column": column["column"], "description": f"What {column['column']} of {name} says."}
                for column in table["columns"]
            ],
        }


@pytest.fixture
def library(work: Path, git: Git, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A project over a database of eleven tables; `configure` has to write its ktx.yaml."""
    change(work, LIBRARY)
    monkeypatch.setenv("SCRIPTED_KEY", "made-up")
    return work


@pytest.fixture
def configure(library: Path, model_server: ModelServer) -> Callable[..., None]:
    def write(
        backend: str = "anthropic", *, mode: str = "llm", privacy: str = "local", concurrency: int = 2, more: str = ""
    ) -> None:
        text = CONFIG.format(backend=backend, url=model_server.url, mode=mode, privacy=privacy, concurrency=concurrency)
        (library / "ktx.yaml").write_text(text + more)

    return write


@pytest.fixture
def session(model_server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> Iterator[OfflineSession]:
    """A local session behind the scripted server; the commands of the test run in it."""
    with offline_session(model_server) as found:
        enter(found, monkeypatch)
        yield found


def enter(session: OfflineSession, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("https_proxy", "http_proxy", "ALL_PROXY", "all_proxy", "CLAUDE_CODE_OAUTH_TOKEN"):
        monkeypatch.delenv(name, raising=False)
    for name, value in session.environ.items():
        monkeypatch.setenv(name, value)


def change(project: Path, script: str) -> None:
    database = sqlite3.connect(project / "library.sqlite")
    database.executescript(script)
    database.close()


def record(project: Path) -> dict[str, Any]:
    tables = json.loads((project / RAW / "descriptions.json").read_text())["tables"]
    return {table["table"]: table for table in tables}


def edges(project: Path) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = json.loads((project / RAW / "relationships.json").read_text())["edges"]
    return found


def tables(project: Path) -> dict[str, Any]:
    document = yaml.load((project / SHARD).read_bytes(), where=SHARD)
    found: dict[str, Any] = document["tables"]
    return found


def tree(project: Path) -> str:
    """Return a hash of every file of the project but the database."""
    files = sorted(path for path in project.rglob("*") if path.is_file() and path.suffix != ".sqlite")
    return hashlib.sha256(b"".join(str(path).encode() + path.read_bytes() for path in files)).hexdigest()


def test_the_model_describes_and_proposes(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer, git: Git
) -> None:
    configure()
    model = Librarian()
    model_server.play(model)
    answer = ktx("scan", "--json")
    assert answer.code == 0, answer
    assert sorted(model.described) == sorted(tables(library)), "each table once"
    assert tables(library)["books"]["descriptions"] == {"ai": "Of the library: books."}
    assert tables(library)["books"]["columns"][1]["descriptions"] == {"ai": "What title of books says."}
    assert {table["source"] for table in record(library).values()} == {"ai"}
    (home,) = [edge for edge in edges(library) if edge["columns"] == ["home"]]
    assert (home["to"], home["status"], home["sources"]) == (["branches"], "accepted", ["model", "values"])
    assert home["reason"].endswith("all values exist in `branches.id`; proposed by the model.")
    assert model.proposed == [["readers.home"]], "only the undecided column, once"
    report = answer.data["connections"][0]["descriptions"]
    assert (report["by"], report["described"], report["asked"], report["failed"]) == ("llm", 11, 11, {})
    assert report["proposed"] == 1
    rows = ktx("usage", "--by", "role", "--json").data["rows"]
    assert {row["role"]: row["calls"] for row in rows}["candidateExtraction"] == len(model.seen) + len(
        model.definitions
    )
    assert len(model.definitions) == 1, "questions for all sources in one call"
    assert git(library, "status", "--porcelain", "--", "raw-sources", "semantic-layer") == ""


def test_an_unchanged_database_asks_nothing_and_commits_nothing(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer, git: Git
) -> None:
    configure()
    model_server.play(Librarian())
    assert ktx("scan").code == 0
    tip = git(library, "rev-parse", "HEAD")
    change(library, "INSERT INTO authors VALUES (4, 'Di Holt', 1970)")
    for depth in ((), ("--depth", "enriched"), ("--depth", "profile"), ("--depth", "structural"), ("--no-llm",)):
        silent = Librarian()
        model_server.play(silent)
        answer = ktx("scan", *depth, "--json")
        assert (answer.code, answer.data["status"], silent.seen) == (0, "unchanged", []), depth
        assert silent.definitions == []
    assert git(library, "rev-parse", "HEAD") == tip


@pytest.mark.slow
@pytest.mark.parametrize("other", ["claude-cli", "claude-code"])
def test_backends_write_the_same_bytes(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer, session: OfflineSession, git: Git, other: str
) -> None:
    written = {}
    for backend in ("anthropic", other):
        configure(backend)
        model_server.play(Librarian())
        answer = ktx("scan", "--depth", "enriched", "--json")
        assert answer.code == 0, answer
        names = (f"{RAW}/descriptions.json", f"{RAW}/relationships.json", SHARD)
        written[backend] = [(library / name).read_bytes() for name in names]
        for folder in (".git", ".ktx", "raw-sources", "semantic-layer"):
            subprocess.run(["rm", "-rf", folder], cwd=library, check=True)
    assert written[other] == written["anthropic"]


KILLED = """
import os, signal, sys
from ktx_cli.project.state import StateEnrichmentStore
keep, kept = StateEnrichmentStore.put, []
def put(self, kind, key, value):
    keep(self, kind, key, value)
    kept.append(kind)
    if kept.count("description") == 5:
        os.kill(os.getpid(), signal.SIGKILL)
StateEnrichmentStore.put = put
from ktx_cli.cli.main import main
sys.argv = ["ktx", "scan", "--depth", "enriched"]
main()
"""


@pytest.mark.slow
def test_killed_after_five_tables_the_next_run_asks_for_the_rest(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer
) -> None:
    configure(concurrency=1)
    model = Librarian()
    model_server.play(model)
    done = subprocess.run([sys.executable, "-c", KILLED], cwd=library)
    assert done.returncode == -signal.SIGKILL
    assert not (library / "raw-sources").exists()
    rest = Librarian()
    model_server.play(rest)
    assert ktx("scan").code == 0
    assert len(rest.described) == 6, "five were kept"
    assert rest.proposed == [], "so were the proposals"
    assert len(record(library)) == 11


@pytest.mark.parametrize("backend", ["claude-code", "anthropic"])
def test_nobody_to_ask_stops_before_anything_is_written(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    configure(backend)
    before = tree(library)
    with offline_session(model_server, signed_in=False) as session:
        if backend == "claude-code":
            enter(session, monkeypatch)
        model_server.play(lambda request: UNAUTHORIZED)
        answer = ktx("scan", "--depth", "enriched", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (3, "auth")
    if backend == "claude-code":
        assert answer.envelope["error"]["message"] == AUTH_MESSAGE
        assert model_server.model_calls == []
    assert tree(library) == before


def test_a_depth_nothing_can_serve(ktx: Run, library: Path, configure: Run) -> None:
    configure("none")
    config = library / "ktx.yaml"
    config.write_text(config.read_text().replace("    default: sonnet\n", "").replace("  models:\n", ""))
    before = tree(library)
    assert ktx("scan", "--depth", "enriched", "--json").envelope["error"]["code"] == "no_backend"
    assert ktx("scan", "--depth", "enriched").code == 3
    configure(mode="none")
    refused = ktx("scan", "--depth", "enriched", "--json")
    assert refused.code == 2
    assert refused.envelope["error"]["hint"] == "ktx config set scan.enrichment.mode deterministic"
    configure()
    assert ktx("scan", "--depth", "enriched", "--no-llm").code == 2
    configure("none")
    config.write_text(config.read_text().replace("    default: sonnet\n", "").replace("  models:\n", ""))
    assert tree(library) == before


def test_a_failing_call_costs_only_its_table_and_keeps_its_old_text(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer
) -> None:
    configure()
    model_server.play(Librarian())
    assert ktx("scan").code == 0
    change(library, "ALTER TABLE fines ADD COLUMN paid_on DATE; ALTER TABLE staff ADD COLUMN hired_on DATE")
    model_server.play(Librarian({"fines": CALL_FAILS}, say="Anew"))
    answer = ktx("scan", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (7, "partial")
    assert "fines" in answer.envelope["error"]["message"]
    assert [w["tables"] for w in answer.envelope["warnings"] if w["code"] == "not_described"] == [["fines"]]
    assert tables(library)["staff"]["descriptions"] == {"ai": "Anew: staff."}
    assert tables(library)["fines"]["descriptions"] == {"ai": "Of the library: fines."}
    assert [c["name"] for c in tables(library)["fines"]["columns"]][-1] == "paid_on"
    model_server.play(Librarian(say="Anew"))
    assert ktx("scan").code == 0
    assert tables(library)["fines"]["descriptions"] == {"ai": "Anew: fines."}
    assert record(library)["fines"]["columns"]["paid_on"] == "What paid_on of fines says."


@pytest.mark.parametrize(
    ("failure", "code", "exit_code"), [(OVERLOADED, "overloaded", 5), (UNAUTHORIZED, "auth", 3)], ids=["limit", "auth"]
)
def test_an_error_that_ends_all_questions_keeps_what_was_answered(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer, failure: Failure, code: str, exit_code: int
) -> None:
    configure(concurrency=1)
    model_server.play(Librarian({"staff": failure}))
    answer = ktx("scan", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (exit_code, code)
    assert answer.data["commit"] is not None, "the structure, the joins and the finished tables are committed"
    assert len(tables(library)) == 11
    missing = set(tables(library)) - set(record(library))
    assert "staff" in missing
    assert [set(w["tables"]) for w in answer.envelope["warnings"] if w["code"] == "not_described"] == [missing]
    rest = Librarian()
    model_server.play(rest)
    assert ktx("scan").code == 0
    assert set(rest.described) == missing


def test_proposals_that_fail_leave_the_joins_as_they_were(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer
) -> None:
    configure()
    model_server.play(Librarian())
    assert ktx("scan").code == 0
    before = edges(library)
    change(library, SECOND_HOME)
    model_server.play(Librarian({"joins": CALL_FAILS}))
    answer = ktx("scan", "--json")
    assert answer.code == 7
    assert [w["code"] for w in answer.envelope["warnings"]] == ["not_proposed"]
    (second,) = [edge for edge in edges(library) if edge["columns"] == ["other_home"]]
    assert (second["status"], second["sources"]) == ("review", ["values"]), "nothing is made of no answer"
    assert [edge for edge in edges(library) if edge != second] == before
    rest = Librarian()
    model_server.play(rest)
    assert ktx("scan").code == 0
    assert rest.proposed == [["readers.other_home"]], "the next scan asks again, and only about what is open"
    (second,) = [edge for edge in edges(library) if edge["columns"] == ["other_home"]]
    assert (second["status"], second["sources"]) == ("accepted", ["model", "values"])
    assert [edge for edge in edges(library) if edge != second] == before


def test_settings_can_forbid_questions_about_joins(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer
) -> None:
    configure()
    config = library / "ktx.yaml"
    config.write_text(config.read_text().replace("scan:\n", "scan:\n  relationships: {llmProposals: false}\n"))
    model = Librarian()
    model_server.play(model)
    answer = ktx("scan", "--json")
    assert (answer.code, model.proposed, len(model.described)) == (0, [], 11)
    assert answer.data["connections"][0]["descriptions"]["proposed"] is None
    assert not [edge for edge in edges(library) if "model" in edge["sources"]]


@pytest.mark.parametrize("without", ["--no-llm", "a lost state", "a rejected parent"])
def test_answers_are_kept_in_the_commit(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer, git: Git, without: str
) -> None:
    configure()
    model = Librarian()
    if without == "a rejected parent":
        model.branch = "publishers"
    model_server.play(model)
    assert ktx("scan").code == 0
    before, tip = edges(library), git(library, "rev-parse", "HEAD")
    subprocess.run(["rm", "-rf", ".ktx"], cwd=library, check=True)
    silent = Librarian()
    model_server.play(silent)
    answer = ktx("scan", *([without] if without == "--no-llm" else []), "--json")
    assert (answer.code, answer.data["status"], silent.proposed) == (0, "unchanged", [])
    assert (edges(library), git(library, "rev-parse", "HEAD")) == (before, tip)
    (home,) = [edge for edge in before if edge["columns"] == ["home"]]
    rejected = ("rejected", ["model_rejected", "values"])
    assert (home["status"], home["sources"]) == (
        rejected if without == "a rejected parent" else ("accepted", ["model", "values"])
    )


def test_a_persons_text_stays(ktx: Run, library: Path, configure: Run, model_server: ModelServer, git: Git) -> None:
    configure()
    model_server.play(Librarian())
    assert ktx("scan").code == 0
    shard = library / SHARD
    document = yaml.load(shard.read_bytes(), where=SHARD)
    document["tables"]["books"]["descriptions"] = {"ai": "Titles we own or owned.", "user": "Ask Ida."}
    document["tables"]["books"]["columns"][1]["descriptions"]["ai"] = "As printed."
    del document["tables"]["staff"]["descriptions"]
    shard.write_text(yaml.dump(document))
    git(library, "commit", "-qam", "better words")
    change(library, "ALTER TABLE books ADD COLUMN pages INTEGER; ALTER TABLE staff ADD COLUMN hired_on DATE")
    model = Librarian(say="Anew")
    model_server.play(model)
    assert ktx("scan").code == 0
    assert {"books", "staff"} <= set(model.described)
    assert tables(library)["books"]["descriptions"] == {"ai": "Titles we own or owned.", "user": "Ask Ida."}
    assert tables(library)["books"]["columns"][1]["descriptions"] == {"ai": "As printed."}
    assert "descriptions" not in tables(library)["staff"], "who took a text out does not want it"
    assert any("Ask Ida." in words for words in model.seen), "people's words are told"


def test_texts_of_another_program_stay_until_there_are_ours(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer, git: Git
) -> None:
    configure()
    assert ktx("scan", "--no-llm").code == 0
    shard = library / SHARD
    document = yaml.load(shard.read_bytes(), where=SHARD)
    for name in ("books", "fines"):
        document["tables"][name]["descriptions"] = {"ai": f"Theirs of {name}."}
    shard.write_text(yaml.dump(document))
    git(library, "commit", "-qam", "made elsewhere")
    assert ktx("scan", "--no-llm").code == 0
    assert tables(library)["books"]["descriptions"] == {"ai": "Theirs of books."}
    model_server.play(Librarian({"fines": CALL_FAILS}))
    assert ktx("scan").code == 7
    assert tables(library)["books"]["descriptions"] == {"ai": "Of the library: books."}
    assert tables(library)["fines"]["descriptions"] == {"ai": "Theirs of fines."}
    model_server.play(Librarian())
    assert ktx("scan").code == 0
    assert tables(library)["fines"]["descriptions"] == {"ai": "Of the library: fines."}


def test_rules_are_stable_and_give_way_to_the_model(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer, git: Git
) -> None:
    configure("none", mode="deterministic")
    assert ktx("scan").code == 0
    first = (library / RAW / "descriptions.json").read_bytes()
    assert tables(library)["book_subjects"]["descriptions"]["ktx"].startswith("Links books and subjects")
    tip = git(library, "rev-parse", "HEAD")
    change(library, "INSERT INTO authors VALUES (4, 'Di Holt', 1970)")
    assert ktx("scan", "--json").data["status"] == "unchanged"
    subprocess.run(["rm", "-rf", ".ktx"], cwd=library, check=True)
    assert ktx("scan", "--depth", "enriched", "--json").data["status"] == "unchanged"
    assert git(library, "rev-parse", "HEAD") == tip
    assert (library / RAW / "descriptions.json").read_bytes() == first
    assert model_server.requests == []
    configure()
    model_server.play(Librarian({"fines": CALL_FAILS}))
    assert ktx("scan").code == 7
    assert tables(library)["books"]["descriptions"] == {"ai": "Of the library: books."}
    assert set(tables(library)["fines"]["descriptions"]) == {"ktx"}
    configure("none", mode="deterministic")
    assert ktx("scan").code == 0
    assert tables(library)["books"]["descriptions"] == {"ai": "Of the library: books."}, "rules replace no better text"


@pytest.mark.parametrize(("privacy", "leaves"), [("local", False), ("strict", False), ("off", True)])
def test_values_of_rows_leave_only_where_they_may(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer, privacy: str, leaves: bool
) -> None:
    configure(privacy=privacy)
    model = Librarian()
    model_server.play(model)
    assert ktx("scan").code == 0
    sent = "".join(model.seen)
    for value in ("North", "Quay", "2004-05-06", "Bo Lind", "quince", "C-3"):
        assert value not in sent or leaves, value
    assert ("Quay" in sent) is leaves
    assert '\\"rows\\": 3' in sent or '"rows": 3' in sent, "counts do"


def test_a_dry_run_says_what_would_be_asked(ktx: Run, library: Path, configure: Run, model_server: ModelServer) -> None:
    configure()
    before = tree(library)
    answer = ktx("ingest", "--dry-run", "--json")
    assert (answer.code, model_server.requests) == (0, [])
    assert tree(library) == before
    ask = answer.data["connections"][0]["descriptions"]["to_ask"]
    assert (answer.data["forecast"]["sources"], answer.data["forecast"]["source_calls"]) == (11, 1)
    model = Librarian()
    model_server.play(model)
    assert ktx("scan").code == 0
    assert (ask["tables"], ask["calls"]) == (11, len(model.seen))
    sent = sum(len(words) for words in model.seen) / 4
    assert sent / 3 < ask["tokens"] < sent * 3
    change(library, "ALTER TABLE fines ADD COLUMN paid_on DATE")
    answer = ktx("ingest", "--dry-run", "--json")
    assert answer.data["connections"][0]["descriptions"]["to_ask"]["tables"] == 1
    text = ktx("ingest", "--dry-run").out
    assert "estimated model use: 1 table to describe, 1 call, about " in text
    change(library, SECOND_HOME)
    text = ktx("ingest", "--dry-run").out
    assert "estimated model use: 2 tables to describe, 2 calls, about " in text


def test_a_projects_own_prompt_is_used_and_asks_anew(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer
) -> None:
    configure()
    model_server.play(Librarian())
    assert ktx("scan").code == 0
    (library / "prompts").mkdir()
    (library / "prompts" / "describe_tables.md").write_text("Describe each table as a pirate would.\n")
    model = Librarian(say="Arr")
    model_server.play(model)
    assert ktx("scan").code == 0
    assert len(model.described) == 11
    assert all("as a pirate would" in words for words in model.seen)
    assert tables(library)["books"]["descriptions"] == {"ai": "Arr: books."}
    (library / "prompts" / "describe_tables.md").write_text("")
    answer = ktx("scan", "--json")
    assert (answer.code, answer.envelope["error"]["code"]) == (2, "config")


def test_a_damaged_record_is_named_and_nothing_is_asked_anew(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer, git: Git
) -> None:
    configure()
    model_server.play(Librarian())
    assert ktx("scan").code == 0
    path = library / RAW / "descriptions.json"
    whole = path.read_bytes()
    path.write_text("{")
    git(library, "commit", "-qam", "oops")
    subprocess.run(["rm", "-rf", ".ktx"], cwd=library, check=True)
    silent = Librarian()
    model_server.play(silent)
    answer = ktx("scan", "--json")
    assert answer.code == 0
    assert "broken_record" in [w["code"] for w in answer.envelope["warnings"]]
    assert silent.described == []
    assert tables(library)["books"]["descriptions"] == {"ai": "Of the library: books."}
    path.write_bytes(whole)
    git(library, "commit", "-qam", "as it was")
    assert ktx("scan", "--json").data["status"] == "unchanged"


def test_a_shard_with_local_edits_holds_back_the_texts_of_its_tables(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer, git: Git
) -> None:
    configure()
    model_server.play(Librarian())
    assert ktx("scan").code == 0
    shard, before = library / SHARD, record(library)
    edited = shard.read_text() + "# mine\n"
    shard.write_text(edited)
    change(library, "ALTER TABLE fines ADD COLUMN paid_on DATE")
    model_server.play(Librarian(say="Anew"))
    assert ktx("scan").code == 7
    assert shard.read_text() == edited
    assert record(library) == before
    git(library, "checkout", "--", SHARD)
    silent = Librarian()
    model_server.play(silent)
    assert ktx("scan").code == 0
    assert silent.seen == [], "the answers were kept"
    assert tables(library)["fines"]["descriptions"] == {"ai": "Anew: fines."}


@pytest.mark.parametrize("backend", backends("anthropic"))
def test_an_interrupt_ends_the_questions(
    ktx: Run, library: Path, configure: Run, model_server: ModelServer, monkeypatch: pytest.MonkeyPatch, backend: str
) -> None:
    configure(backend)
    model_server.play(lambda request: Turn(forever=True) if shown(request) else says("ok"))
    with entered(backend, model_server, monkeypatch):
        process = shared().piped(("scan", "--json"), folder=library, environ=os.environ)
        while not any(shown(request) for request in model_server.model_calls):
            assert process.poll() is None
            time.sleep(0.02)
        process.send_signal(signal.SIGINT)
        out, _ = process.communicate(timeout=30)
    assert process.returncode == 130
    assert json.loads(out)["error"]["code"] == "cancelled"
    assert not (library / "raw-sources").exists()
    (report,) = (library / ".ktx" / "runs").glob("*.json")
    assert json.loads(report.read_text())["status"] == "interrupted"
    configure()
    model_server.play(Librarian())
    assert ktx("scan").code == 0
