"""Masks as people write them: in sources of their own, in overlays, and wrongly."""

from __future__ import annotations

from typing import Any

import pytest

from ktx_cli.semantic.model import Mask, Model, Visibility
from tests.semantic.load.conftest import Load

SHARD = """
tables:
  people:
    table: main.people
    columns: [{name: id, type: number, pk: true}, {name: email, type: string}, {name: age, type: number}]
"""
SUPPORT = Mask((("role", ("support", "admin")),))


def _own(mask: str) -> dict[str, str]:
    columns = f"[{{name: id, type: number}}, {{name: email, type: string{mask}}}]"
    text = f"name: people\ntable: people\ngrain: [id]\ncolumns: {columns}\n"
    return {"people.yaml": text}


def _overlay(mask: str) -> dict[str, str]:
    return {"_schema/all.yaml": SHARD, "people.yaml": f"name: people\ncolumn_overrides: [{{name: email{mask}}}]\n"}


def _errors(model: Model) -> list[str]:
    return [each.message for each in model.problems if each.severity == "error"]


@pytest.mark.parametrize("form", [_own, _overlay])
@pytest.mark.table(
    ("mask", "wanted"),
    [
        ("mask: {unless: {role: [support, admin]}}", SUPPORT),
        ('mask: {unless: {role: [support, admin]}, value: "***"}', Mask(SUPPORT.unless, "***")),
        ("mask: {value: x}", Mask((), "x")),
        ("mask: {}", Mask()),
        ("mask: {unless: {role: [a], level: [1, 2.5, true]}}", Mask((("role", ("a",)), ("level", (1, 2.5, True))))),
    ],
)
def test_a_mask_is_read(form: Any, mask: str, wanted: Mask, load: Load) -> None:
    model = load(form(f", {mask}"))
    assert not model.problems
    column = model.sources["people"].columns["email"]
    assert (column.mask, column.visibility) == (wanted, None)
    assert model.sources["people"].is_protected and model.sources["people"].has_masks


@pytest.mark.parametrize("form", [_own, _overlay])
@pytest.mark.table(
    "mask",
    [
        "mask: null", "mask: true", "mask: hidden", "mask: [role]", "mask: {unless: role}", "mask: {unless: [support]}",
        "mask: {unless: {role: support}}", "mask: {unless: {role: null}}", "mask: {unless: {role: [null]}}",
        "mask: {unless: {role: [[a]]}}", "mask: {unless: {role: [{a: b}]}}", "mask: {unless: {1: [a]}}",
        "mask: {unless: {role: [.nan]}}", "mask: {unless: null}", "mask: {unles: {role: [support]}}",
        "mask: {unless: {role: [support]}, value: [x]}", "mask: {unless: {role: [support]}, value: {a: b}}",
        "mask: {unless: {role: [support]}, visibility: public}",
    ],
)  # fmt: skip
def test_a_wrong_mask_hides_the_column_from_everybody(form: Any, mask: str, load: Load) -> None:
    model = load(form(f", {mask}"))
    assert len(_errors(model)) == 1 and "mask" in _errors(model)[0]
    if "people" in model.sources:
        column = model.sources["people"].columns.get("email")
        assert column is None or (column.mask, column.visibility) == (Mask(), Visibility.HIDDEN)
    else:
        assert "people" in model.barred


@pytest.mark.table(
    "text",
    [
        "name: people\ncolumn_overrides: [{name: email, masked: {unless: {role: [a]}}}]\n",
        "name: people\ncolumn_overrides: [{name: email, masks: {role: [a]}}]\n",
        "name: people\nmask: {unless: {role: [a]}}\n",
        "name: people\ncolumn_overrides: [{name: emial, mask: {unless: {role: [a]}}}]\n",
        "name: people\ncolumn_overrides: [{name: email, constraints: {mask: {unless: {role: [a]}}}}]\n",
        "name: people\ncolumn_overrides: [{name: email, mask: {unless: {role: [a]}}}, {name: email, mask: {}}]\n",
        "name: people\ncolumn_overrides:\n- name: email\n  mask: {unless: {role: [a]}\n",
    ],
)
def test_a_file_that_may_mask_and_has_an_error_bars_its_source(text: str, load: Load) -> None:
    model = load({"_schema/all.yaml": SHARD, "people.yaml": text})
    assert _errors(model)
    assert "people" not in model.sources and "people" in model.barred


def test_an_override_replaces_the_mask_of_the_manifest(load: Load) -> None:
    shard = SHARD.replace("{name: email, type: string}", "{name: email, type: string, mask: {value: a}}")
    assert load({"_schema/all.yaml": shard}).sources["people"].columns["email"].mask == Mask((), "a")
    overlay = "name: people\ncolumn_overrides: [{name: email, mask: {value: b}}]\n"
    model = load({"_schema/all.yaml": shard, "people.yaml": overlay})
    assert model.sources["people"].columns["email"].mask == Mask((), "b")


def test_a_list_without_values_is_a_warning(load: Load) -> None:
    model = load(_own(", mask: {unless: {role: []}}"))
    (problem,) = model.problems
    assert (problem.severity, "nobody sees the column" in problem.message) == ("warning", True)
    assert model.sources["people"].columns["email"].mask == Mask((("role", ()),))


@pytest.mark.table(
    ("descriptions", "wanted"),
    [
        ('{ktx: "2 values: ada@x, bo@x"}', None),
        ('{ai: "Addresses such as ada@x.", ktx: "2 values: ada@x, bo@x"}', None),
        ('{user: "The address.", ai: "Addresses such as ada@x."}', "The address."),
        ('{ktx: "2 values: ada@x, bo@x", dbt: "Of the customer."}', "Of the customer."),
        ('{db: "A comment."}', "A comment."),
    ],
)
def test_descriptions_that_a_scan_took_from_the_data_are_dropped(
    descriptions: str, wanted: str | None, load: Load
) -> None:
    shard = SHARD.replace("{name: email, type: string}", f"{{name: email, type: string, descriptions: {descriptions}}}")
    overlay = "name: people\ncolumn_overrides: [{name: email, mask: {}}]\n"
    shown = load({"_schema/all.yaml": shard, "people.yaml": "name: people\n"})
    assert shown.sources["people"].columns["email"].description is not None
    model = load({"_schema/all.yaml": shard, "people.yaml": overlay})
    assert model.sources["people"].columns["email"].description == wanted


def test_the_allowed_values_of_a_masked_column_are_dropped(load: Load) -> None:
    model = load(_own(", mask: {}, enum_values: {dbt: [ada@example.com]}"))
    assert model.sources["people"].columns["email"].values == ()
