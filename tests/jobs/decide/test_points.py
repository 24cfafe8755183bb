"""Decision points as a project has them: what settles one, and what does not."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from ktx_cli.core import ConfigError, UsageError
from ktx_cli.jobs.decide.points import find_point, read_all
from ktx_cli.project import KtxConfig, Layout
from tests.subscription_project import POINT

PAGE = """\
---
summary: Internal accounts do not count.
tags: [decision]
sl_refs: [wh/subscriptions.revenue]
---
Decided by the board: internal accounts do not count. `ktx decide accounts.internal.is_internal --as exclude` was run.
"""
ANSWER = "- {{connection: wh, point: {point}, alternative: {alternative}, decision: x, decided_by: a, decided_on: b}}\n"


def _states(layout: Layout, config: KtxConfig) -> dict[str, str]:
    loaded, warnings = read_all(layout, config)
    assert warnings == []
    return {point.id: point.state.value for each in loaded for point in each.decisions.points}


def test_a_page_settles_nothing(layout: Layout, config: Callable[[], KtxConfig]) -> None:
    pages = layout.root / "wiki" / "global"
    pages.mkdir(parents=True)
    (pages / "decision-accounts-internal-is_internal.md").write_text(PAGE)
    assert _states(layout, config()) == {POINT: "open"}


@pytest.mark.parametrize(
    ("point", "alternative", "state"), [(POINT, "exclude", "decided"), (POINT, "gone", "open"), ("x", "y", "open")]
)
def test_an_entry_decides_the_point_and_the_reading_that_it_names(
    layout: Layout, config: Callable[[], KtxConfig], point: str, alternative: str, state: str
) -> None:
    text = "decisions:\n" + ANSWER.format(point=point, alternative=alternative)
    (layout.root / "decisions.yaml").write_text(text)
    assert _states(layout, config()) == {POINT: state}


def test_a_point_is_found_by_its_id_with_or_without_its_connection(
    layout: Layout, config: Callable[[], KtxConfig]
) -> None:
    loaded, _ = read_all(layout, config())
    assert find_point(loaded, POINT)[1] == find_point(loaded, f"wh/{POINT}")[1]
    with pytest.raises(UsageError, match="there is no decision point") as caught:
        find_point(loaded, "accounts.internal.is_intern")
    assert POINT in str(caught.value.hint)


def test_a_damaged_record_is_a_warning_and_a_damaged_file_of_answers_an_error(
    layout: Layout, config: Callable[[], KtxConfig]
) -> None:
    (layout.root / "raw-sources/wh/live-database/decisions.json").write_text("{")
    loaded, warnings = read_all(layout, config())
    assert loaded == [] and [each.code for each in warnings] == ["decisions_unreadable"]
    (layout.root / "decisions.yaml").write_text("decisions: 3\n")
    with pytest.raises(ConfigError, match="is not a list"):
        read_all(layout, config())
