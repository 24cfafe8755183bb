"""Who accepted a definition, as the commits of its file show it."""

from __future__ import annotations

import os
import sqlite3
import subprocess
from pathlib import Path

import pytest

from ktx_cli.core.errors import ConfigError
from ktx_cli.project import Layout, Repository, open_for_writing
from ktx_cli.semantic.acceptance import Statuses, owners_in, record_acceptances, record_tests
from ktx_cli.semantic.status import Definition, DefinitionKind, Used

PATH = "semantic-layer/shop/orders.yaml"
REVENUE = Used(Definition(DefinitionKind.MEASURE, "orders", "revenue"), PATH)
ADA, BOB = "Ada <ada@example.com>", "Bob <bob@example.com>"


def text(*, expr: str = "sum(amount)", more: str = "") -> str:
    return f"name: orders\nmeasures: [{{name: revenue, expr: {expr}{more}}}, {{name: other, expr: count(*)}}]\n"


class Shop:
    """A project with a repository, in which people and runs commit."""

    def __init__(self, root: Path) -> None:
        self.layout = Layout(root)
        self.git("init", "-q", "-b", "main")

    def git(self, *words: str) -> str:
        return subprocess.run(
            ["git", *words], cwd=self.layout.root, check=True, capture_output=True, text=True, env=os.environ
        ).stdout

    def commit(self, author: str, content: str, *, run: bool = False, decided: bool = False, path: str = PATH) -> None:
        self.write(content, path)
        name, _, mail = author.removesuffix(">").partition(" <")
        trailers = "Ktx-Run: 20270101-1\n" * run + "Ktx-Decided-By: Ada\n" * decided
        who = ("-c", f"user.name={name}", "-c", f"user.email={mail}")
        self.git("add", "-A")
        self.git(*who, "commit", "-q", "--allow-empty", "-m", f"a change\n\n{trailers}")

    def write(self, content: str, path: str = PATH) -> None:
        target = self.layout.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(content, encoding="utf-8")

    def look(self) -> None:
        """Look up in git, as every run does at its end."""
        repository = Repository.discover(self.layout.root)
        assert repository is not None
        with open_for_writing(self.layout) as database:
            record_acceptances(self.layout, database, repository, {"shop": "duckdb"})

    def status(self, used: Used = REVENUE, *, look: bool = True) -> tuple[str, str]:
        if look:
            self.look()
        found = Statuses(self.layout, "shop", "duckdb").of(used)
        return found.status.value, found.why


@pytest.fixture
def shop(tmp_path: Path) -> Shop:
    return Shop(tmp_path)


def test_what_a_person_commits_is_accepted_and_what_a_run_commits_is_proposed(shop: Shop) -> None:
    shop.commit(ADA, text(), run=True)
    status, why = shop.status()
    assert (status, why.split(" (")[0]) == ("proposed", "ktx run 20270101-1 wrote it")
    shop.commit(ADA, text(expr="sum(amount) - 1"))
    assert shop.status()[0] == "accepted"
    assert shop.status()[1].startswith("Ada committed it on ")
    other = Used(Definition(DefinitionKind.MEASURE, "orders", "other"), PATH)
    assert shop.status(other)[0] == "proposed"  # the same file, and nobody touched it


@pytest.mark.table(
    ("before", "after", "status"),
    [
        ({}, {"more": ", description: All"}, "accepted"),
        ({}, {"expr": "SUM(amount)"}, "accepted"),
        ({}, {"expr": "sum(net)"}, "proposed"),
        ({}, {"more": ", status: certified"}, "accepted"),
        ({"more": ", status: proposed"}, {"more": ", status: accepted"}, "proposed"),
        ({"more": ", status: proposed"}, {"more": ", status: certified, owner: ada"}, "proposed"),
        ({"more": ", status: proposed"}, {}, "proposed"),
    ],
)
def test_a_run_never_raises_a_status(
    before: dict[str, str], after: dict[str, str], status: str, tmp_path_factory: pytest.TempPathFactory
) -> None:
    shop = Shop(tmp_path_factory.mktemp("shop"))
    shop.commit(ADA, text(**before))
    shop.commit(ADA, text(**after), run=True)
    assert shop.status()[0] == status


def test_what_a_run_changed_and_changed_back_is_proposed(shop: Shop) -> None:
    shop.commit(ADA, text())
    shop.commit(ADA, text(expr="sum(net)"), run=True)
    shop.commit(ADA, text(), run=True)
    assert shop.status()[0] == "proposed"


def test_an_edit_that_is_not_committed_is_proposed(shop: Shop) -> None:
    shop.commit(ADA, text())
    shop.look()
    shop.write(text(expr="sum(net)"))
    assert shop.status(look=False) == ("proposed", "it has changed since `ktx index` last read its history")
    shop.write(text(more=", status: proposed"))
    assert shop.status(look=False)[0] == "proposed"
    shop.write(text(more=", status: certified"))
    assert shop.status(look=False)[0] == "accepted"


def test_what_git_was_not_asked_about_is_proposed(shop: Shop) -> None:
    shop.commit(ADA, text())
    assert shop.status(look=False) == ("proposed", "`ktx index` has not read its history yet")
    assert not shop.layout.state.exists()  # and asking writes nothing


def test_owners_accept_and_certify(shop: Shop) -> None:
    shop.commit(ADA, 'owners: [{email: ADA@example.com, sources: ["ord*"]}, carl@example.com]\n', path="owners.yaml")
    shop.commit(BOB, text())
    status, why = shop.status()
    assert (status, why.endswith("and is not its owner in owners.yaml")) == ("proposed", True)
    shop.commit(ADA, text(more=", status: certified"))
    assert shop.status()[0] == "certified"
    shop.commit(BOB, text(more=", status: certified, description: All of it"))
    assert shop.status()[0] == "certified"
    shop.commit(BOB, text(more=", status: certified, owner: bob"))
    assert shop.status()[0] == "proposed"
    shop.commit(ADA, "owners: []\n", path="owners.yaml")
    assert shop.status()[0] == "proposed"


def test_without_owners_nobody_certifies_but_by_a_signature(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.commit(ADA, text(more=", status: certified"))
    assert shop.status()[0] == "accepted"
    monkeypatch.setattr("ktx_cli.project.History.has_good_signature", lambda *_: True)
    shop.commit(ADA, text(more=", status: certified, owner: ada"))
    assert shop.status()[0] == "certified"


def test_a_forged_signature_is_none(shop: Shop) -> None:
    shop.commit(ADA, text(more=", status: certified"))
    commit = shop.git("cat-file", "commit", "HEAD").replace("\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n\n", 1)
    forged = subprocess.run(
        ["git", "hash-object", "-t", "commit", "-w", "--stdin"],
        cwd=shop.layout.root, input=commit, capture_output=True, text=True, check=True,
    ).stdout.strip()  # fmt: skip
    shop.git("reset", "-q", "--hard", forged)
    assert shop.status()[0] == "accepted"


@pytest.mark.parametrize(("scope", "status"), [("--global", "certified"), ("--local", "accepted")])
def test_a_signature_is_checked_by_the_program_of_the_user_and_never_of_the_repository(
    shop: Shop, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, scope: str, status: str
) -> None:
    checker = tmp_path / "checker"
    good = "[GNUPG:] NEWSIG\n[GNUPG:] GOODSIG 0123456789ABCDEF Ada\n[GNUPG:] TRUST_ULTIMATE 0 pgp\n"
    checker.write_text(f"#!/bin/sh\nprintf '{good}'\n")
    checker.chmod(0o755)
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", str(tmp_path / "gitconfig"))
    shop.commit(ADA, text(more=", status: certified"))
    commit = shop.git("cat-file", "commit", "HEAD").replace("\n\n", "\ngpgsig -----BEGIN PGP SIGNATURE-----\n x\n\n", 1)
    (tmp_path / "signed").write_text(commit)
    shop.git("reset", "-q", "--hard", shop.git("hash-object", "-t", "commit", "-w", str(tmp_path / "signed")).strip())
    shop.git("config", scope, "gpg.program", str(checker))
    assert shop.status()[0] == status


def test_the_merge_of_a_branch_accepts_what_runs_wrote_on_it(shop: Shop) -> None:
    shop.commit(ADA, text())
    shop.git("checkout", "-q", "-b", "proposal")
    shop.commit(ADA, text(expr="sum(net)"), run=True)
    shop.git("checkout", "-q", "main")
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    shop.git(*who, "merge", "-q", "--no-ff", "-m", "Merge the proposal", "proposal")
    assert shop.status()[0] == "accepted"


def test_a_commit_that_ktx_makes_for_a_person_counts_as_that_persons(shop: Shop) -> None:
    shop.commit(ADA, text(), run=True, decided=True)
    assert shop.status()[0] == "accepted"


def test_a_join_of_the_manifest_is_accepted_by_who_committed_it(shop: Shop) -> None:
    path = "semantic-layer/shop/_schema/main.yaml"
    of_scan = "tables: {orders: {table: orders, joins: [{to: tax, on: a = b, source: inferred}]}}\n"
    join = Used(Definition(DefinitionKind.JOIN, "orders", "tax"), path)
    shop.commit(ADA, of_scan, run=True, path=path)
    assert shop.status(join)[0] == "proposed"
    shop.commit(ADA, of_scan.replace("inferred", "manual"), run=True, decided=True, path=path)
    assert shop.status(join)[0] == "accepted"
    shop.commit(ADA, of_scan.replace("inferred", "manual").replace("a = b", "a = c"), run=True, path=path)
    assert shop.status(join)[0] == "proposed"


def test_a_join_that_a_run_moves_to_a_file_of_its_own_and_back_stays_accepted(shop: Shop) -> None:
    schema, table = "semantic-layer/shop/_schema/main.yaml", "semantic-layer/shop/_schema/main/orders.yaml"
    forward = "{to: tax, on: a = tax.b, relationship: many_to_one, source: manual}"
    backward = "{to: orders, on: b = orders.a, relationship: one_to_many, source: manual}"
    once = f"tables: {{orders: {{table: orders, joins: [{forward}]}}}}\n"
    both = f"{once.rstrip()[:-1]}, tax: {{table: tax, joins: [{backward}]}}}}\n"
    own, other = Definition(DefinitionKind.JOIN, "orders", "tax"), Definition(DefinitionKind.JOIN, "tax", "orders")
    shop.commit(ADA, both.replace("manual", "inferred"), run=True, path=schema)
    shop.commit(ADA, both, path=schema)
    (shop.layout.root / schema).unlink()
    shop.commit(BOB, once, run=True, path=table)
    status, why = shop.status(Used(own, table))
    assert (status, why.split()[0]) == ("accepted", "Ada")
    (shop.layout.root / table).unlink()
    shop.commit(BOB, both, run=True, path=schema)
    assert [shop.status(Used(each, schema))[0] for each in (own, other)] == ["accepted", "accepted"]
    (shop.layout.root / schema).unlink()
    shop.commit(BOB, once.replace("= tax.b", "= tax.c"), run=True, path=table)
    assert shop.status(Used(own, table))[0] == "proposed", "it is another join than the one that was accepted"


def test_certified_until_its_review_is_due(shop: Shop) -> None:
    shop.commit(ADA, "owners: [ada@example.com]\n", path="owners.yaml")
    shop.commit(ADA, text(more=", status: certified, review_by: 2999-01-01"))
    assert shop.status()[0] == "certified"
    shop.commit(ADA, text(more=", status: certified, review_by: 2020-01-01"))
    assert shop.status() == ("accepted", "its review was due on 2020-01-01")


def test_a_failing_test_makes_a_measure_proposed_until_it_passes(shop: Shop) -> None:
    shop.commit(ADA, text())
    shop.look()

    def ended(passed: bool) -> None:
        with open_for_writing(shop.layout) as database:
            record_tests(database, "shop", [("orders", "stays", ["orders.revenue"], passed)], "2027-01-01")

    ended(False)
    assert shop.status(look=False) == ("proposed", "its test `orders.stays` failed in the last run")
    ended(True)
    assert shop.status(look=False)[0] == "accepted"


def test_files_that_did_not_change_are_not_looked_at_again(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    shop.commit(ADA, text())
    shop.look()
    asked: list[str] = []
    monkeypatch.setattr("ktx_cli.project.History.of_file", lambda self, path, most: asked.append(path) or [])
    shop.look()
    assert asked == []
    shop.commit(ADA, text(expr="sum(net)"))
    shop.look()
    assert asked == [PATH]


def test_a_file_that_is_gone_is_forgotten(shop: Shop) -> None:
    shop.commit(ADA, text())
    shop.look()
    shop.git("rm", "-q", PATH)
    shop.git("-c", "user.name=A", "-c", "user.email=a@b", "commit", "-q", "-m", "gone")
    shop.look()
    with sqlite3.connect(shop.layout.state) as database:
        assert database.execute("SELECT count(*) FROM statuses").fetchone() == (0,)


@pytest.mark.table(
    ("content", "told"),
    [
        ("- ada@example.com\n", "the file must have a single key, `owners`"),
        ("owners: ada@example.com\n", "the file must have a single key, `owners`"),
        ("owners: [ada]\n", "owner 1 has no `email`"),
        ("owners: [a@b, {email: c@d, source: [x]}]\n", "owner 2 has the unknown key `source`"),
        ("owners: [{email: a@b, sources: orders}]\n", "`sources` of owner 1 must be a list of names"),
    ],
)
def test_owners_that_cannot_be_understood(content: str, told: str) -> None:
    with pytest.raises(ConfigError, match=told):
        owners_in(content.encode())


def test_the_history_of_many_files_is_that_of_each(shop: Shop, monkeypatch: pytest.MonkeyPatch) -> None:
    paths = [f"semantic-layer/shop/source {number} ö.yaml" for number in range(4)]
    for number, path in enumerate(paths):
        shop.commit(ADA, f"{text()}# {number}\n", run=number % 2 == 0, path=path)
    shop.git("checkout", "-q", "-b", "proposal")
    shop.commit(ADA, text(expr="sum(amount) - 1"), run=True, path=paths[0])
    shop.commit(ADA, text(expr="sum(amount) - 2"), decided=True, path=paths[1])
    shop.git("checkout", "-q", "main")
    shop.commit(ADA, text(expr="sum(amount) - 3"), path=paths[2])
    who = ("-c", "user.name=Ada", "-c", "user.email=ada@example.com")
    shop.git(*who, "merge", "-q", "--no-ff", "-m", "a merge", "proposal")
    (shop.layout.root / paths[3]).unlink()
    shop.git(*who, "commit", "-qam", "away")
    shop.commit(ADA, text(), path="semantic-layer/other/orders.yaml")
    repository = Repository.discover(shop.layout.root)
    assert repository is not None
    history = repository.history()
    expected = {path: history.of_file(path, 2) for path in paths}
    assert [len(commits) for commits in expected.values()] == [2, 2, 2, 2]
    monkeypatch.setattr("ktx_cli.project.repository.history._MANY", 1)
    assert dict(history.of_files("semantic-layer/shop", paths, 2)) == expected
