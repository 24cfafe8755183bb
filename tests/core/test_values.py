"""How numbers are printed: by the scale of their column, as percentages, without float noise."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.values import NumberFormat, NumberStyle, column_format, exact_number, plain_number, without_noise

PERCENT = NumberStyle(1, computed=True, percent=100, significant=2)


@pytest.mark.table(
    ("values", "style", "printed"),
    [
        # nothing is known: as they are, without float noise
        ([523.0600000000003, 37.620000000000005, 15.0], None, ["523.06", "37.62", "15.0"]),
        ([1e300, 1e-20], None, ["1e+300", "1e-20"]),
        ([10, 9007199254740993], None, ["10", "9007199254740993"]),
        ([1, 2.5], None, ["1", "2.5"]),
        # decimals have their scale
        ([Decimal("5.00"), Decimal("12.30")], None, ["5.00", "12.30"]),
        ([Decimal("115.2720000000000000"), Decimal("1.5")], None, ["115.272", "1.500"]),
        ([Decimal("35")], None, ["35"]),
        # the scale of a column
        ([523.0600000000003, 37.620000000000005, 5], NumberStyle(2), ["523.06", "37.62", "5.00"]),
        ([8331044.120000021], NumberStyle(2), ["8331044.12"]),
        ([15.0, 3], NumberStyle(0), ["15", "3"]),
        ([1.005, 2.675], NumberStyle(2), ["1.005", "2.675"]),  # these have more digits than the column is said to have
        ([Decimal("10.500")], NumberStyle(2), ["10.50"]),
        ([-1.4210854715202004e-14, 100.5], NumberStyle(2), ["0.00", "100.50"]),
        # sums of floats whose column has no scale
        ([67416.5099999921, 19984.0000000001, 3], NumberStyle(), ["67416.51", "19984.00", "3.00"]),
        ([131261.7375, 99984.58], NumberStyle(), ["131261.7375", "99984.58"]),
        ([0.3333333333333333, 67416.5099999921], NumberStyle(), ["0.333333333333333", "67416.5099999921"]),
        ([52.520006599988, 13.404954], NumberStyle(), ["52.520006599988", "13.404954"]),
        # averages and quotients
        ([42.91574724172518, 5.0], NumberStyle(4, computed=True), ["42.9157", "5.0000"]),
        ([0.000123456, 0.00002], NumberStyle(4, computed=True), ["0.0001235", "0.0000200"]),
        ([2.5, -0.0001], NumberStyle(2, computed=True), ["2.50", "0.00"]),
        ([0.0], NumberStyle(2, computed=True), ["0.00"]),
        # a format rounds
        ([42.91574724172518, 0.004], NumberStyle(2, computed=True, significant=0), ["42.92", "0.00"]),
        ([0.4], NumberStyle(0, computed=True, significant=0), ["0"]),
        ([-1234567.891, 12.0], NumberStyle(2, computed=True, significant=0, grouped=True), ["-1,234,567.89", "12.00"]),
        # percentages
        ([0.15232329842931938, 0.5], PERCENT, ["15.2%", "50.0%"]),
        ([0.00043], PERCENT, ["0.043%"]),
        ([15.232329842931938, -7], NumberStyle(1, computed=True, percent=1), ["15.2%", "-7.0%"]),
        ([Decimal("0.125")], NumberStyle(0, computed=True, percent=100, significant=1), ["13%"]),
        ([], PERCENT, []),
    ],
)
def test_a_column_is_printed_as_its_definition_says(
    values: list[Any], style: NumberStyle | None, printed: list[str]
) -> None:
    found = column_format([*values, None], style)
    if values or style:
        assert found is not None
        assert [found.text(value) for value in values] == printed


@pytest.mark.table(
    ("value", "form", "text"),
    [
        (0.15232329842931938, NumberFormat(1, 100), "0.152"),
        (15.232329842931938, NumberFormat(1, 1), "15.2"),
        (523.0600000000003, NumberFormat(2), "523.06"),
        (523.0600000000003, NumberFormat(), "523.06"),
        ("1234567.50", NumberFormat(2), "1234567.50"),
        ("NaN", NumberFormat(2), "NaN"),
        ("-Infinity", NumberFormat(2, 100), "-Infinity"),
        (9007199254740993, NumberFormat(), "9007199254740993"),
    ],
)
def test_programs_get_the_same_digits_without_a_sign(value: Any, form: NumberFormat, text: str) -> None:
    assert form.machine_text(value) == text


@pytest.mark.table("values", [["a"], [1, "a"], [True], [None], [[1]], [1, True], []])
def test_other_values_have_no_format(values: list[Any]) -> None:
    assert column_format(values) is None


NUMBERS = st.one_of(
    st.integers(-(10**20), 10**20),
    st.floats(allow_nan=False, allow_infinity=False, min_value=-1e15, max_value=1e15),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**12), max_value=10**12, places=4),
)
STYLES = st.builds(
    NumberStyle, st.one_of(st.none(), st.integers(0, 6)), st.booleans(), st.sampled_from([0, 1, 100]), st.integers(1, 6)
)


@given(st.lists(NUMBERS, min_size=1, max_size=5), st.one_of(st.none(), STYLES))
def test_a_printed_number_is_within_half_a_unit_of_its_last_digit(values: list[Any], style: NumberStyle | None) -> None:
    found = column_format(values, style)
    assert found is not None
    for value in values:
        exact = exact_number(value)
        assert exact is not None
        for text, factor in ((found.text(value), found.percent or 1), (found.machine_text(value), 1)):
            parsed = Decimal(text.removesuffix("%"))
            unit = Decimal(1).scaleb(int(parsed.as_tuple().exponent))
            assert abs(parsed - exact * factor) <= unit / 2
            assert "e" in text or "E" in text or Decimal(plain_number(text.removesuffix("%"))) == parsed


@given(st.lists(NUMBERS, min_size=1, max_size=5), st.integers(0, 4))
def test_a_scale_hides_nothing_but_noise(values: list[Any], decimals: int) -> None:
    found = column_format(values, NumberStyle(decimals))
    assert found is not None
    for value in values:
        exact = exact_number(value)
        assert exact is not None
        assert abs(Decimal(found.text(value)) - exact) <= max(
            abs(exact) * Decimal("1e-9"), Decimal(1).scaleb(-decimals - 6)
        )


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_to_take_noise_away_twice_is_to_do_it_once(value: float) -> None:
    once = without_noise(value)
    assert without_noise(once) == once
    assert abs(once - value) <= abs(value) * 1e-14 or value == once or abs(value) < 1e-300
