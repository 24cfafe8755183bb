"""What is accepted stays in a capture: additions are saved, drops and changes refused, contradictions recorded."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.agent_tools.accepted import lost_in, lost_of_page
from ktx_cli.agent_tools.session import ToolSession
from ktx_cli.agent_tools.toolset import unresolved_failures
from ktx_cli.project.workspace import Workspace

PATH = "wiki/global/revenue.md"
OVERLAY = "semantic-layer/shop/orders.yaml"
LONG = "---\nsummary: What a refund is.\n---\n\n# Refunds\n\nFirst rule.\n\nSecond rule.\n\n```sql\nSELECT 1\n```\n"
PRICED = """\
name: orders  # people's
measures:
  - {name: revenue, expr: sum(amount)}
segments:
  - {name: paid, expr: status = 'paid'}
"""


@pytest.fixture
def memory(shop: Callable[..., Any]) -> Callable[..., Any]:
    """Return a maker of sessions of captures, in which everything that is there is accepted."""

    def make(**fields: Any) -> Any:
        made = shop(stage="memory", **fields)
        made.session.accepted = made.session.workspace.base()
        made.call("entity_details", targets=["orders", "customers"])
        return made

    return make


def test_a_paragraph_is_added_to_an_accepted_page(memory: Callable[..., Any]) -> None:
    made = memory()
    edit = {"old_text": "Revenue is gross.", "new_text": "Revenue is gross.\n\nRefunds come off a day later."}
    made.ok("wiki_write", key="revenue", replacements=[edit], tags=["finance", "refunds"])
    assert "Revenue is gross.\n\nRefunds come off" in made.text(PATH)


@pytest.mark.parametrize(
    ("fields", "lost"),
    [
        ({"content": "Revenue is net."}, "the line: Revenue is gross."),
        ({"replacements": [{"old_text": "gross", "new_text": "net"}]}, "the line: Revenue is gross."),
        ({"summary": "What revenue was."}, "`summary` of `revenue`: What revenue is."),
        ({"tags": []}, "`tags` of `revenue`"),
        ({"tags": ["sales"]}, "`tags` of `revenue`"),
        ({"content": "```\nRevenue is gross.\n```"}, "hidden in a code block"),
        ({"content": "<!--\n\nRevenue is gross.\n\n-->"}, "a comment, which readers do not see"),
        ({"content": "[x]: /u '\nRevenue is gross.\n'"}, "hidden by surrounding markup"),
        ({"content": "Old: ~~\nRevenue is gross.\nNo.~~"}, "hidden by surrounding markup"),
        ({"content": "`\nRevenue is gross.\n`"}, "hidden by surrounding markup"),
        ({"content": "![\nRevenue is gross.\n](a.png)"}, "hidden by surrounding markup"),
        ({"content": '![a](a.png "\nRevenue is gross.\n")'}, "hidden by surrounding markup"),
        ({"content": '<a title="\nRevenue is gross.\n">x</a>'}, "hidden by surrounding markup"),
    ],
)
def test_what_would_change_an_accepted_page_is_refused(
    memory: Callable[..., Any], fields: dict[str, Any], lost: str
) -> None:
    made = memory()
    before = made.text(PATH)
    told = made.refused("wiki_write", key="revenue", **fields)
    assert lost in told and "record_contradiction" in told and "`wiki:revenue`" in told
    assert made.text(PATH) == before
    assert [each.target for each in unresolved_failures(made.session)] == ["wiki:revenue"]


@pytest.mark.table("field", ["usage_mode: never", "stale_since: 2026-01-01", "archived_since: 2026-01-01"])
def test_an_accepted_page_is_not_put_away(field: str) -> None:
    page = "---\nsummary: What revenue is.\n---\n\nRevenue is gross.\n"
    after = page.replace("---\n\n", f"{field}\n---\n\n")
    assert lost_of_page(PATH, page.encode(), after.encode()) == [f"`{field.split(':')[0]}` would archive `revenue`"]


def test_markup_in_a_paragraph_of_its_own_swallows_nothing(memory: Callable[..., Any]) -> None:
    made = memory()
    made.ok("wiki_write", key="revenue", content="Old: ~~a\nb~~ and `x\ny`\n\nRevenue is gross.\n\n1 <b, 2 > c ~~")


@pytest.mark.parametrize(
    ("body", "lost"),
    [
        ("# Refunds\n\nSecond rule.\n\nFirst rule.\n\n```sql\nSELECT 1\n```", "the line: Second rule."),
        ("# Refunds\n\nFirst rule.\n\n```sql\nSELECT 1\n```", "the line: Second rule."),
        ("# Refunds\n\nFirst rule.\n\n~~Second rule.~~\n\n```sql\nSELECT 1\n```", "the line: Second rule."),
        ("# Refunds\n\nFirst rule.\n\nSecond rule.\n\n```sql\nSELECT 2\n```", "the line: SELECT 1"),
    ],
)
def test_lines_keep_their_order_and_their_form(memory: Callable[..., Any], body: str, lost: str) -> None:
    made = memory(files={"wiki/global/refunds.md": LONG})
    assert lost in made.refused("wiki_write", key="refunds", content=body)
    made.ok("wiki_write", key="refunds", content=LONG.partition("---\n\n")[2].replace("Second", "New.\n\nSecond"))


def test_an_accepted_page_is_not_removed_and_an_own_one_is(memory: Callable[..., Any]) -> None:
    made = memory()
    assert "would be removed" in made.refused("wiki_remove", key="revenue")
    made.ok("wiki_write", key="fees", summary="What fees are.", content="Fees are small.")
    made.ok("wiki_write", key="fees", content="Fees are large.")
    made.ok("wiki_remove", key="fees")
    assert made.text("wiki/global/fees.md") is None


def test_a_measure_a_segment_and_a_description_are_added(memory: Callable[..., Any]) -> None:
    made = memory()
    text = """\
name: orders
measures:
  - {name: revenue, expr: sum(amount), description: Gross amounts.}
  - {name: customers, expr: count(distinct customer_id)}
segments:
  - {name: paid, expr: status = 'paid'}
column_overrides:
  - {name: status, description: How far the order is.}
"""
    made.ok("sl_write_source", source="orders", yaml=text)
    written = made.text(OVERLAY)
    assert "people's" in written and "customers" in written and "Gross amounts." in written


@pytest.mark.parametrize(
    ("text", "lost"),
    [
        ("name: orders\nmeasures:\n  - {name: revenue, expr: sum(amount * 2)}\n", "`measures.revenue.expr`"),
        ("name: orders\nmeasures:\n  - {name: earned, expr: sum(amount)}\n", "`measures.revenue`"),
        ("name: orders\nmeasures:\n  - {name: revenue, expr: sum(amount), filter: status = 'paid'}\n", "`revenue`"),
        (
            "name: orders\nmeasures: [{name: revenue, expr: sum(amount)}]\n"
            "column_overrides: [{name: amount, description: Net amount.}]\n",
            "column `amount` of `orders`",
        ),
        (
            "name: orders\nmeasures: [{name: revenue, expr: sum(amount)}]\ngrain: [customer_id]\n",
            "`grain` of `orders`",
        ),
        (
            "name: orders\nmeasures: [{name: revenue, expr: sum(amount)}]\n"
            "column_overrides: [{name: id, visibility: hidden}]\n",
            "column `id` of `orders`",
        ),
    ],
)  # fmt: skip
def test_what_would_change_an_accepted_definition_is_refused(memory: Callable[..., Any], text: str, lost: str) -> None:
    made = memory()
    before = made.text(OVERLAY)
    told = made.refused("sl_write_source", source="orders", yaml=text)
    assert lost in told and "`sl:shop/orders`" in told
    assert made.text(OVERLAY) == before


def test_an_edit_and_a_deletion_of_an_accepted_definition_are_refused(memory: Callable[..., Any]) -> None:
    made = memory(files={OVERLAY: PRICED})
    assert "would be removed" in made.refused("sl_write_source", source="orders", delete=True)
    edit = {"old_text": "status = 'paid'", "new_text": "status <> 'open'"}
    assert "`segments.paid.expr`" in made.refused("sl_edit_source", source="orders", edits=[edit])


def test_what_the_session_defined_itself_it_may_change(memory: Callable[..., Any]) -> None:
    made = memory(files={OVERLAY: None})
    text = "name: orders\nmeasures: [{name: total, expr: sum(amount)}]\n"
    made.ok("sl_write_source", source="orders", yaml=text)
    made.ok("sl_write_source", source="orders", yaml=text.replace("sum(amount)", "max(amount)"))
    made.ok("sl_rollback", source="orders")
    assert made.text(OVERLAY) is None


def test_where_changes_are_allowed_nothing_is_kept_from_being_changed(shop: Callable[..., Any]) -> None:
    made = shop(stage="memory")
    made.ok("wiki_write", key="revenue", content="Revenue is net.")
    assert made.call("record_contradiction").is_error


def test_pages_of_a_user_are_their_own(memory: Callable[..., Any]) -> None:
    made = memory()
    made.session.scope = "user/ada"
    assert "What revenue is." in made.ok("wiki_search", query="revenue")
    made.ok("wiki_write", key="revenue", summary="How I read revenue.", content="Revenue is net of fees.")
    assert made.text("wiki/user/ada/revenue.md").endswith("Revenue is net of fees.\n")
    assert made.text(PATH).endswith("Revenue is gross.\n")
    assert [each.identity for each in made.session.actions] == ["wiki:user/ada/revenue"]
    assert "net of fees" in made.ok("wiki_read", key="revenue")
    made.ok("wiki_remove", key="revenue")
    assert "there is no page" in made.refused("wiki_remove", key="revenue")


def test_a_whole_tree_is_compared_file_by_file(memory: Callable[..., Any]) -> None:
    session: ToolSession = memory(files={OVERLAY: PRICED}).session
    assert session.accepted is not None
    after = Workspace(session.accepted)
    after.write("wiki/global/new.md", "New.\n")
    after.write("raw-sources/_memory/memory/manifest.yaml", "version: 1\nfiles: {}\n")
    assert lost_in(session.accepted, after, after.changes(), session.layers) == {}
    after.write(PATH, "Other.\n")
    after.write(OVERLAY, "name: orders\nmeasures: []\n")
    after.write("semantic-layer/shop/_schema/main.yaml", "tables: {}\n")
    after.write("ktx.yaml", "connections: {}\n")
    found = lost_in(session.accepted, after, after.changes(), session.layers)
    assert set(found) == {PATH, OVERLAY, "semantic-layer/shop/_schema/main.yaml", "ktx.yaml"}
    assert "`measures.revenue`" in found[OVERLAY]
