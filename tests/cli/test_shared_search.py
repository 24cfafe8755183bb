"""Two working trees of one project share a search index in Postgres: one writes it, the other finds with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.project import Layout, load_config
from ktx_cli.search import close_search_readers
from ktx_cli.search.location import SharedIndex, index_of
from ktx_cli.search.shared_session import SearchSession, drop_statement
from ktx_cli.testing.servers import PostgresServer
from tests.cli.conftest import Share

Run = Callable[..., Any]

pytestmark = pytest.mark.skipif("KTX_TEST_STATE" in os.environ, reason="sets the state of its projects itself")


@pytest.fixture(params=["postgres", "postgres-hybrid"])
def trees(share: Share, ingested: Path, request: pytest.FixtureRequest) -> tuple[Path, Path]:
    """Two clones of a project, at the same commit."""
    page = ingested / "wiki" / "global" / "churn.md"
    page.parent.mkdir(parents=True, exist_ok=True)
    page.write_text("---\nsummary: Who left\nsl_refs: [orders]\n---\n\n# Churn\n\nA customer without orders.\n")
    return share(search=request.param)


def test_one_tree_is_indexed_and_the_other_searched(ktx: Run, trees: tuple[Path, Path]) -> None:
    one, two = trees
    missing = ktx("search", "churned customers", "--project-dir", str(two), "--json")
    assert [each["code"] for each in missing.envelope["warnings"]] == ["no_index"]
    assert missing.envelope["warnings"][0]["hint"].startswith("ktx index")
    done = ktx("index", "--project-dir", str(one), "--json")
    assert done.code == 0 and done.data["rebuilt"] is True, done.out
    assert not (one / ".ktx" / "search.sqlite").exists()
    found = ktx("search", "churned customers", "--project-dir", str(two), "--json")
    assert found.envelope["warnings"] == [] and found.data["hits"][0]["id"] == "churn", found.out
    assert found.data["hits"] == missing.data["hits"], "as the files say"
    assert not (two / ".ktx").exists(), "a search writes nothing"
    again = ktx("index", "--project-dir", str(two), "--json")
    assert (again.data["added"], again.data["documents"]) == (0, done.data["documents"])
    (two / "wiki/global/churn.md").write_text("# Churn\n\nA zebra.\n")
    behind = ktx("search", "zebra", "--project-dir", str(two), "--json")
    assert [each["code"] for each in behind.envelope["warnings"]] == ["index_behind"]
    assert ktx("index", "--project-dir", str(two), "--json").data["added"] == 1
    assert ktx("search", "zebra", "--project-dir", str(one), "--json").data["hits"] == []
    assert ktx("search", "zebra", "--project-dir", str(two), "--json").data["hits"][0]["id"] == "churn"


def test_status_and_doctor_name_the_database(
    ktx: Run, trees: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = trees
    ktx("index", "--project-dir", str(one))
    status = ktx("status", "--project-dir", str(two), "--json")
    assert status.data["index"]["state"] == "current", status.out
    where = status.data["index"]["where"]
    assert "Postgres at 127.0.0.1" in where and "vectors" not in where, "this project has no embeddings"
    checked = ktx("doctor", "--only", "index", "--project-dir", str(two), "--json")
    assert "Postgres at 127.0.0.1" in checked.out
    monkeypatch.setenv("KTX_STATE_URL", "postgresql://postgres:postgres@127.0.0.1:1/postgres")
    config = two / "ktx.yaml"
    config.write_text(config.read_text().replace("  state: postgres\n", "  state: sqlite\n"))
    failed = ktx("search", "churn", "--project-dir", str(two), "--json")
    assert failed.code == 4 and failed.envelope["error"]["code"] == "connection", failed.out
    assert "127.0.0.1:1/postgres" in failed.envelope["error"]["message"]
    checked = ktx("doctor", "--only", "index", "--project-dir", str(two), "--json")
    assert "127.0.0.1:1/postgres" in checked.out and checked.code != 0
    assert "127.0.0.1:1/postgres" in ktx("status", "--project-dir", str(two)).out


def test_a_user_without_rights_is_told_so(
    ktx: Run, trees: tuple[Path, Path], postgres_server: PostgresServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two = trees
    assert ktx("index", "--project-dir", str(one)).code == 0
    config = two / "ktx.yaml"
    config.write_text(config.read_text().replace("  state: postgres\n", "  state: sqlite\n"))
    role = f"ktx_stranger_{os.getpid()}"
    postgres_server.execute(f"DROP ROLE IF EXISTS {role}", f"CREATE ROLE {role} LOGIN PASSWORD 'x'")
    try:
        monkeypatch.setenv("KTX_STATE_URL", postgres_server.url(user=role, password="x"))
        error = ktx("search", "churn", "--project-dir", str(two), "--json").envelope["error"]
        assert f"the user `{role}` lacks the right USAGE" in error["message"] and "relation" not in error["message"]
        assert error["hint"].startswith("the user lacks a right; to see which one: ktx doctor")
    finally:
        close_search_readers()
        postgres_server.execute(f"DROP ROLE {role}")


STOCK = "# Stock\n\nShelves are counted at noon.\n"


@pytest.fixture
def documented(share: Share, ingested: Path) -> tuple[Path, Path]:
    """Two clones of a project with a folder of documents."""
    config = ingested / "ktx.yaml"
    config.write_text(
        config.read_text().replace("connections:\n", "connections:\n  docs: {driver: documents, path: docs}\n")
    )
    (ingested / "docs").mkdir()
    (ingested / "docs/stock.md").write_text(STOCK)
    return share(search="postgres")


def test_a_clone_without_the_documents_hides_them_from_no_other(
    ktx: Run, documented: tuple[Path, Path], git: Callable[..., str]
) -> None:
    one, two = documented
    assert ktx("ingest", "docs", "--project-dir", str(one), "--json").code == 0
    git(two, "pull", "-q")
    (two / "docs/stock.md").rename(two / "elsewhere.md")
    index = index_of(Layout(two), load_config(two / "ktx.yaml").config, os.environ)
    assert isinstance(index, SharedIndex)
    session = SearchSession(index.database, read_only=False)
    session.execute(drop_statement(index.database))
    session.close()

    def found(tree: Path) -> list[str]:
        answer = ktx("search", "shelves", "--kind", "passage", "--project-dir", str(tree), "--json")
        assert answer.envelope["warnings"] == []
        return [each["id"].split(":")[2] for each in answer.data["hits"]]

    assert ktx("index", "--project-dir", str(two), "--json").code == 0
    assert found(two) == []
    assert ktx("index", "--project-dir", str(one), "--json").code == 0
    assert found(one) == ["stock"]
    assert ktx("index", "--project-dir", str(two), "--json").code == 0
    assert found(two) == ["stock"], "the text that the other clone stored"


def test_passages_are_those_of_the_own_commit(ktx: Run, documented: tuple[Path, Path], git: Callable[..., str]) -> None:
    """Whatever documents another clone has read since, on a branch of its own or from older files."""
    one, two = documented

    def found(tree: Path, word: str) -> list[str]:
        hits = ktx("search", word, "--kind", "passage", "--project-dir", str(tree), "--json").data["hits"]
        return [each["id"].split(":")[2] for each in hits]

    def read(tree: Path, more: str) -> None:
        (tree / "docs/stock.md").write_text(STOCK + more)
        git(tree, "commit", "-qam", "stock") if more else None
        done = ktx("ingest", "docs", "--project-dir", str(tree), "--json")
        assert done.code == 0, done.out

    read(one, "")
    git(two, "pull", "-q")
    assert found(one, "shelves") == found(two, "shelves") == ["stock"]
    read(two, "\n## Draft\n\nUnicorns.\n")
    assert (found(one, "unicorns"), found(two, "unicorns")) == ([], ["draft"])
    read(one, "\n## Parking\n\nZebras.\n")
    assert (found(one, "zebras"), found(two, "zebras")) == (["parking"], [])
    assert (found(one, "unicorns"), found(two, "unicorns")) == ([], ["draft"])
    ktx("index", "--project-dir", str(one))
    git(one, "checkout", "-q", "HEAD~2")
    assert found(one, "zebras") == [] and found(one, "shelves") == ["stock"]
