"""The benchmark's script, with discovery replaced by answers that are known."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Mapping
from contextlib import closing
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from benchmarks import relationships
from benchmarks.relationship_fixtures import discovering
from benchmarks.relationship_fixtures.generate import generate
from benchmarks.relationship_fixtures.oracle import Oracle as ScriptedModel
from benchmarks.relationship_fixtures.scoring import Answer
from benchmarks.relationship_fixtures.truth import Reference, Truth, read_truth
from ktx_cli.project.config.blocks import Scan
from ktx_cli.scan.relationships.record import Check
from ktx_cli.scan.relationships.undecided import Offer, UndecidedColumn
from ktx_cli.warehouses.port import ConnectionSpec, Scope, TableRef
from ktx_cli.warehouses.registry import connect


@pytest.fixture(scope="module")
def fixture(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Truth]:
    folder = tmp_path_factory.mktemp("relationships") / "made"
    return folder, generate(folder, "general", 9).truth


class Oracle:
    """Answers with the truth but for the first link, and notes how it was asked."""

    def __init__(self) -> None:
        self.asked: list[dict[str, Any]] = []

    def __call__(
        self,
        folder: Path,
        *,
        hide: bool,
        primary_keys: Mapping[str, tuple[str, ...]] | None = None,
        ask: Any = None,
        share: float = 1.0,
    ) -> Answer:
        self.asked.append({"folder": folder, "hide": hide, "primary_keys": primary_keys, "share": share})
        truth = read_truth(folder)
        links = frozenset(truth.links[1:])
        return Answer(frozenset(truth.primary_keys), links, reasons=((truth.links[0], "review 0.70: why"),), queries=5)


@pytest.fixture
def oracle(monkeypatch: pytest.MonkeyPatch) -> Oracle:
    made = Oracle()
    monkeypatch.setattr(relationships, "discover", made)
    return made


def test_the_table_has_a_row_a_database_and_the_means(
    fixture: tuple[Path, Truth], oracle: Oracle, capsys: pytest.CaptureFixture[str]
) -> None:
    assert relationships.main([str(fixture[0])]) == 0
    head, row, mean, total = capsys.readouterr().out.splitlines()
    recall = f"{(len(fixture[1].links) - 1) / len(fixture[1].links):.3f}"
    assert head.split()[:4] == ["FK", "P", "R", "F1"]
    assert row.split()[:3] == ["made", "1.000", recall]
    assert mean.split()[:3] == ["mean", "1.000", recall] and total.split()[2:4] == ["1.000", recall]


def test_mistakes_are_named_with_their_reason(
    fixture: tuple[Path, Truth], oracle: Oracle, capsys: pytest.CaptureFixture[str]
) -> None:
    relationships.main([str(fixture[0]), "--verbose"])
    missed = sorted(fixture[1].links)[0]
    assert f"  missed link: {missed}  [review 0.70: why]" in capsys.readouterr().out


def test_json(fixture: tuple[Path, Truth], oracle: Oracle, capsys: pytest.CaptureFixture[str]) -> None:
    relationships.main([str(fixture[0]), "--json"])
    (found,) = json.loads(capsys.readouterr().out)["databases"]
    assert found["foreign_keys"]["precision"] == 1 and found["primary_keys"]["f1"] == 1
    assert len(found["missed_links"]) == 1 and found["queries"] == 5


@pytest.mark.parametrize(
    ("declared", "hide", "given"), [("hidden", True, False), ("given-pks", True, True), ("as-is", False, None)]
)
def test_which_keys_discovery_sees(
    fixture: tuple[Path, Truth], oracle: Oracle, declared: str, hide: bool, given: bool | None
) -> None:
    relationships.main([str(fixture[0]), "--declared", declared])
    (asked,) = oracle.asked
    keys = {key.table: key.columns for key in fixture[1].primary_keys}
    assert (asked["folder"], asked["hide"]) == (fixture[0], hide)
    assert asked["primary_keys"] == {True: keys, False: {}, None: None}[given]


def test_wrong_keys_are_declared_in_a_copy(fixture: tuple[Path, Truth], oracle: Oracle) -> None:
    relationships.main([str(fixture[0]), "--declared", "wrong"])
    (asked,) = oracle.asked
    assert asked["folder"] != fixture[0] and asked["hide"]


def test_generated_databases_are_measured(oracle: Oracle, capsys: pytest.CaptureFixture[str]) -> None:
    assert relationships.main(["--generated", "3", "--exclude-unconfirmable"]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 6


def test_the_report_keeps_guessed_keys_and_evidence_apart(
    fixture: tuple[Path, Truth], oracle: Oracle, capsys: pytest.CaptureFixture[str]
) -> None:
    relationships.main([str(fixture[0]), "--report"])
    lines = capsys.readouterr().out.splitlines()
    titles = [line.split("  ")[1] for line in lines if line.startswith("  ")]
    micro = ["strict, micro", "strict, macro", "confirmable, micro", "confirmable, macro"]
    assert [title for title in titles if title in micro] == micro
    assert {"of tables with rows", "guessed, at most one row"} <= set(titles)


def test_robustness_compares_other_conditions(
    fixture: tuple[Path, Truth], oracle: Oracle, capsys: pytest.CaptureFixture[str]
) -> None:
    relationships.main([str(fixture[0]), "--robustness"])
    table = capsys.readouterr().out.split("\n\n")[1].splitlines()
    names = [line[:28].strip() for line in table[1:]]
    assert names == ["hidden", *relationships.VARIANTS]
    hidden, given, wrong, trusted, scrambled, sampled = oracle.asked
    assert [each["hide"] for each in oracle.asked] == [True, True, True, False, True, True]
    assert not hidden["primary_keys"] and given["primary_keys"]
    assert wrong["folder"] == trusted["folder"] != hidden["folder"] == sampled["folder"] != scrambled["folder"]
    assert [each["share"] for each in oracle.asked] == [1.0] * 5 + [0.1]


def test_a_share_of_the_rows_is_sampled(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "data.sqlite")) as database, database:
        database.execute("CREATE TABLE numbers (number_id INTEGER, twin INTEGER)")
        database.executemany("INSERT INTO numbers VALUES (?, ?)", [(n, n) for n in range(1, 2001)])
    with connect(ConnectionSpec("w", "sqlite", {"path": str(tmp_path / "data.sqlite")})) as connector:
        schema = connector.introspect(Scope())
        found = [discovering.discover_database(connector, schema, Scan(), share=share) for share in (1.0, 0.1)]
    whole, sampled = ([each.keys[TableRef(None, "numbers")].confirmed, each.queries] for each in found)
    assert whole[0] and sampled[0] and sampled[1] > whole[1], "the sample does not show the key; a statement does"


def test_a_kind_can_be_generated_alone(oracle: Oracle, capsys: pytest.CaptureFixture[str]) -> None:
    assert relationships.main(["--generated", "3", "--kind", "tiny", "--kind", "few_rows"]) == 0
    names = [line.split()[0] for line in capsys.readouterr().out.splitlines()[1:4]]
    assert names == ["0000-tiny", "0001-few_rows", "0002-tiny"]


@pytest.mark.parametrize(("arguments", "said"), [([], "nothing to measure"), (["."], "is no fixture")])
def test_errors_say_what_to_do(arguments: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert relationships.main(arguments) == 2
    err = capsys.readouterr().err
    assert said in err and "hint: " in err


def test_declared_keys_are_hidden_and_given(tmp_path: Path) -> None:
    generate(tmp_path, "general", 0)
    with connect(ConnectionSpec("f", "sqlite", {"path": str(tmp_path / "data.sqlite")})) as connector:
        schema = connector.introspect(Scope())
    name = schema.tables[0].ref.name
    hidden = discovering.hidden(schema, {name: ("some",)})
    assert hidden.tables[0].primary_key == ("some",)
    assert not any(table.primary_key for table in hidden.tables[1:])
    assert not any(t.foreign_keys or t.unique_keys or t.indexes for t in hidden.tables)
    assert [t.columns for t in hidden.tables] == [t.columns for t in schema.tables]


def test_the_answer_is_taken_from_discovery(fixture: tuple[Path, Truth], monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = TableRef(None, "one"), TableRef(None, "other")

    def edge(status: str, column: str) -> SimpleNamespace:
        return SimpleNamespace(
            child=one,
            child_columns=[column],
            parent=other,
            parent_columns=["id"],
            status=status,
            probability=0.9,
            reason="r",
            check=Check(12, 0, exact=True),
        )

    edges = (edge("accepted", "a"), edge("review", "b"), edge("rejected", "c"))
    found = SimpleNamespace(relationships=edges, primary_keys={one: ("id",), other: ()}, queries=3)
    monkeypatch.setattr("benchmarks.relationship_fixtures.discovering.discover_database", lambda *_, ask, share: found)
    answer = discovering.discover(fixture[0], hide=True)
    assert {str(link) for link in answer.accepted} == {"one(a) -> other(id)"}
    assert {str(link) for link in answer.review} == {"one(b) -> other(id)"}
    assert {str(key) for key in answer.primary_keys} == {"one(id)"} and answer.queries == 3
    assert [(str(edge.link), edge.probability, edge.rows) for edge in answer.edges] == [
        ("one(a) -> other(id)", 0.9, 12),
        ("one(b) -> other(id)", 0.9, 12),
    ]


def test_an_oracle_is_right_in_the_share_that_it_is_given() -> None:
    parents = [TableRef(None, name) for name in ("right", "wrong")]
    offers = tuple(Offer(parent, "id", "the values are there") for parent in parents)
    columns = [UndecidedColumn(TableRef(None, f"t{number}"), "c", offers) for number in range(500)]
    links = tuple(Reference(column.table.name, ("c",), "right", ("id",)) for column in columns[:250])
    right = {(each.child, "right", "model") for each in links}
    right |= {(c.table.name, name, "model_rejected") for c in columns[250:] for name in ("right", "wrong")}
    shares = {}
    for accuracy in (1.0, 0.8, 0.0):
        model = ScriptedModel(Truth((), links), accuracy)
        given: dict[str, set[tuple[str, str, str]]] = {}
        for hint in model(columns):
            given.setdefault(hint.child.name, set()).add((hint.child.name, hint.parent.name, hint.source))
        assert model.asked == columns
        shares[accuracy] = sum(answer <= right for answer in given.values()) / len(columns)
        assert {hint: model(columns).count(hint) for hint in model(columns)} == dict.fromkeys(model(columns), 1)
    assert (shares[1.0], shares[0.0]) == (1.0, 0.0)
    assert 0.75 < shares[0.8] < 0.85


def test_oracles_are_compared_with_no_model(fixture: tuple[Path, Truth], capsys: pytest.CaptureFixture[str]) -> None:
    assert relationships.main([str(fixture[0]), "--oracle", "1.0", "--oracle", "0.8"]) == 0
    head, alone, *oracles = capsys.readouterr().out.split("\n\n")[1].splitlines()
    assert head.split()[-2:] == ["asked", "calls"]
    assert (alone.startswith("without a model"), alone.split()[-3:]) == (True, ["0", "0", "0"])
    assert [line.split()[4] for line in oracles] == ["100%", "80%"]
    assert oracles[0].split()[-3] == "0", "the truth makes nothing worse"
    asked, calls = map(int, oracles[0].split()[-2:])
    assert bool(asked) is bool(calls) and calls <= asked
