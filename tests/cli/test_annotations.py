"""Annotations are workflow commands GitHub reads back to the same text."""

from __future__ import annotations

import pytest

from ktx_cli.cli.unattended import annotation


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        (("error", "KTX201", "gone"), "::error title=KTX201::gone"),
        (("warn", "KTX201", "gone", "wiki/a.md", 3), "::warning file=wiki/a.md,line=3,title=KTX201::gone"),
        (("info", "", "gone", "wiki/a.md"), "::notice file=wiki/a.md::gone"),
        (("fail", "", "gone", None, 7), "::error::gone"),
        (("warning", "a: b, c", "100%\r\nof: it, all"), "::warning title=a%3A b%2C c::100%25%0D%0Aof: it, all"),
        (
            ("error", "\x1b[1mt", "a\x1b[31m\x07\u202eb", "wiki/\x9ba.md"),
            "::error file=wiki/ a.md,title= [1mt::a [31m  b",
        ),
        (("error", "t", "x::error::y\n::set-env::z"), "::error title=t::x::error::y%0A::set-env::z"),
    ],
)
def test_a_finding_is_one_command(given: tuple[object, ...], expected: str) -> None:
    assert annotation(*given) == expected  # type: ignore[arg-type]


def test_a_level_github_does_not_have_is_a_bug() -> None:
    with pytest.raises(ValueError, match="no level"):
        annotation("debug", "t", "m")
