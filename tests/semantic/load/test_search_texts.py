"""Questions and synonyms of measures, segments and sources: read, bounded, and never in the way of what they are of."""

from __future__ import annotations

import pytest

from tests.semantic.load.conftest import Load

TABLE = "name: orders\ntable: orders\ngrain: [id]\ncolumns: [{name: id, type: number}]\n"
LONG = "x" * 201


def test_measures_and_segments_have_lists_of_texts(load: Load) -> None:
    model = load({
        "orders.yaml": TABLE
        + "measures:\n  - {name: n, expr: count(*), questions: [How many?, 'How  many? ', Who?], synonyms: volume}\n"
        + "segments:\n  - {name: odd, expr: id = 1, questions: [Which are odd?], synonyms: [uneven]}\n"
    })  # fmt: skip
    measure, segment = model.sources["orders"].measures["n"], model.sources["orders"].segments["odd"]
    assert (measure.questions, measure.synonyms) == (("How many?", "How  many?", "Who?"), ("volume",))
    assert (segment.questions, segment.synonyms) == (("Which are odd?",), ("uneven",))
    assert not model.problems


def test_a_source_has_them_as_texts_of_its_descriptions(load: Load) -> None:
    text = "descriptions:\n  questions: 'Who ordered? What was late?'\n  synonyms: sales, purchases\n"
    model = load({"orders.yaml": TABLE + text})
    source = model.sources["orders"]
    assert (source.questions, source.synonyms) == (("Who ordered?", "What was late?"), ("sales", "purchases"))
    assert source.description is None
    assert not model.problems


def test_an_overlay_adds_them_to_what_the_scan_wrote(load: Load) -> None:
    shard = "tables:\n  orders: {table: orders, descriptions: {db: Orders.}, columns: [{name: id, type: number}]}\n"
    overlay = "name: orders\ndescriptions:\n  questions: |\n    Who ordered\n    What was late\n"
    source = load({"_schema/main.yaml": shard, "orders.yaml": overlay}).sources["orders"]
    assert (source.description, source.questions) == ("Orders.", ("Who ordered", "What was late"))


@pytest.mark.table(
    ("written", "kept", "code"),
    [
        ("{a: b}", (), "shape"),
        ("[1, 2]", (), "shape"),
        (f"[{', '.join(f'q{number}' for number in range(9))}]", tuple(f"q{number}" for number in range(8)), "value"),
        (f"[{LONG}, fine]", ("fine",), "value"),
    ],
)
def test_what_cannot_be_used_is_a_warning_and_the_measure_stays(
    load: Load, written: str, kept: tuple[str, ...], code: str
) -> None:
    model = load({"orders.yaml": f"{TABLE}measures:\n  - {{name: n, expr: count(*), questions: {written}}}\n"})
    assert model.sources["orders"].measures["n"].questions == kept
    (problem,) = model.problems
    assert (problem.severity, problem.code, problem.location.line) == ("warning", code, 6)


COLUMNS = """\
name: orders
label: "  Customer\\n orders "
synonyms: [purchases]
questions: [What was sold?]
table: orders
grain: [id]
columns:
  - {name: id, type: number, label: Order number, synonyms: [ordinal, po]}
  - {name: amount, type: number, synonyms: value}
measures:
  - {name: n, expr: count(*), label: Orders}
segments:
  - {name: big, expr: amount > 10, label: Large orders}
"""


def test_labels_and_synonyms_of_everything(load: Load) -> None:
    model = load({"orders.yaml": COLUMNS})
    assert not model.problems
    source = model.sources["orders"]
    assert (source.label, source.synonyms, source.questions) == (
        "Customer orders", ("purchases",), ("What was sold?",)
    )  # fmt: skip
    assert (source.columns["id"].label, source.columns["id"].synonyms) == ("Order number", ("ordinal", "po"))
    assert (source.columns["amount"].label, source.columns["amount"].synonyms) == (None, ("value",))
    assert (source.measures["n"].label, source.segments["big"].label) == ("Orders", "Large orders")


SCANNED = """\
tables:
  orders:
    table: orders
    descriptions: {label: Orders of the shop, db: Orders.}
    columns:
      - {name: id, type: number, label: Order number, synonyms: [ordinal]}
      - {name: amount, type: number, label: Value}
"""


def test_an_overlay_overrides_labels_and_keeps_what_it_does_not_name(load: Load) -> None:
    overlay = "name: orders\ncolumn_overrides:\n  - {name: ID, label: Number, descriptions: {user: The key.}}\n"
    source = load({"_schema/main.yaml": SCANNED, "orders.yaml": overlay}).sources["orders"]
    assert (source.label, source.description) == ("Orders of the shop", "Orders.")
    number = source.columns["id"]
    assert (number.label, number.synonyms, number.description) == ("Number", ("ordinal",), "The key.")
    assert source.columns["amount"].label == "Value"


def test_columns_that_are_inherited_keep_their_labels(load: Load) -> None:
    own = "name: mine\nsql: select id from orders\ngrain: [id]\ninherits_columns_from: orders\ncolumns: [{name: id}]\n"
    source = load({"_schema/main.yaml": SCANNED, "mine.yaml": own}).sources["mine"]
    assert (source.columns["id"].label, source.columns["id"].synonyms) == ("Order number", ("ordinal",))


@pytest.mark.table(
    ("written", "code"), [("[a, b]", "shape"), ("{a: b}", "shape"), (LONG, "value"), ("3", None), ('" "', None)]
)
def test_a_label_that_cannot_be_used(load: Load, written: str, code: str | None) -> None:
    model = load({"orders.yaml": f"{TABLE}segments:\n  - {{name: odd, expr: id = 1, label: {written}}}\n"})
    assert [(each.code, each.severity) for each in model.problems] == ([] if code is None else [(code, "warning")])
    assert "odd" in model.sources["orders"].segments


def test_a_label_only_source_has_no_description(load: Load) -> None:
    source = load({"orders.yaml": TABLE + "descriptions: {label: Orders}\n"}).sources["orders"]
    assert (source.label, source.description) == ("Orders", None)
