"""Writers of the semantic layer: saved when everything is right, nothing changed by a refusal."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from ktx_cli.agent_tools.toolset import unresolved_failures
from ktx_cli.core.diagnostics import Diagnostic, Location, Severity
from ktx_cli.semantic.model import Model

ORDERS = "semantic-layer/shop/orders.yaml"
MEASURE = "name: orders\nmeasures:\n  - {name: revenue, expr: sum(amount)}\n  - {name: paid, expr: count(status)}\n"
SPLIT = "name: by_day\nsql: SELECT ordered_at, sum(amount) AS amount FROM orders GROUP BY ordered_at\n"
SPLIT += "grain: [ordered_at]\ncolumns:\n  - {name: ordered_at, type: time}\n  - {name: amount, type: number}\n"
MASK = """\
name: customers
column_overrides:
  - {name: email, mask: {unless: {role: [support]}, value: "***"}}
measures:
  - {name: customers, expr: count(*)}
"""
SECRET = """\
name: customers
policies:
  - {name: own, filter: "region = {{ user.region }}"}
column_overrides:
  - {name: email, visibility: hidden}
measures:
  - {name: customers, expr: count(*), visibility: internal}
"""


def test_a_source_is_written_once_all_it_names_was_looked_up(shop: Callable[..., Any]) -> None:
    made = shop()
    told = made.refused("sl_write_source", source="orders", yaml=MEASURE)
    assert "were not looked up in this session" in told
    assert "`orders.status`" in told
    assert "entity_details" in told
    assert made.session.workspace.changes() == {}
    made.ok("entity_details", targets=["orders"])
    assert "updated" in made.ok("sl_write_source", source="orders", yaml=MEASURE)
    assert "paid" in (made.text(ORDERS) or "")
    (action,) = made.session.actions
    assert (action.identity, action.kind, action.raw_paths) == ("sl:shop/orders", "updated", ("docs/a.md",))
    assert unresolved_failures(made.session, made.calls) == ()


def test_one_refusal_lists_everything(shop: Callable[..., Any]) -> None:
    text = "name: orders\nmeasures:\n  - {name: a, expr: sum(ghost)}\n"
    text += "  - {name: b, expr: sum(amount), filter: \"status = 'x'\"}\n"
    told = shop().refused("sl_write_source", source="orders", yaml=text)
    assert "errors" in told
    assert "ghost" in told
    assert "`orders.status`" in told


def test_what_a_file_named_before_needs_no_second_look(shop: Callable[..., Any]) -> None:
    made = shop()
    text = "name: orders\nmeasures:\n  - {name: revenue, expr: sum(amount), descriptions: {user: Gross.}}\n"
    made.ok("sl_write_source", source="orders", yaml=text)


def test_what_a_write_takes_out_is_told(shop: Callable[..., Any]) -> None:
    made = shop()
    made.ok("entity_details", targets=["orders"])
    other = "name: orders\nmeasures:\n  - {name: paid, expr: count(status)}\n"
    assert "no longer contains: measure `revenue`" in made.ok("sl_write_source", source="orders", yaml=other)
    (action,) = made.session.actions
    assert action.detail == "1 measures; without measure `revenue`"
    assert "no more" not in made.ok("sl_write_source", source="orders", yaml=other.replace("status", "id"))


@pytest.mark.table(
    ("description", "told"),
    [
        ("the password: hunter2hunter", "what looks like the value of `password`"),
        ("Bearer AKIAIOSFODNN7EXAMPLE", "text that looks like a key or a token"),
        ("postgres://u:secret1@h/d", "a URL that contains a secret"),
        ("token = ghp_0123456789abcdefghijABCDEFGHIJ012345", "looks like a key or a token"),
        ("ask jana.vogt@acme.com", "a person's e-mail address"),
        ("ask +49 171 2345678", "a phone number"),
        ("ask finance@acme.com", None),
        ("a password of eight characters", None),
        ("joined where api_token = t2.token", None),
    ],
)
def test_a_secret_and_personal_data_are_in_no_definition(
    description: str, told: str | None, shop: Callable[..., Any]
) -> None:
    made = shop()
    made.ok("entity_details", targets=["orders"])
    text = "name: orders\nmeasures:\n  - name: revenue\n    expr: sum(amount)\n"
    text += f"    descriptions: {{user: '{description}'}}\n"
    if told is None:
        made.ok("sl_write_source", source="orders", yaml=text)
        return
    assert told in made.refused("sl_write_source", source="orders", yaml=text)
    edit = {"old_text": "sum(amount)}", "new_text": f"sum(amount), descriptions: {{user: '{description}'}}}}"}
    assert told in made.refused("sl_edit_source", source="orders", edits=[edit])
    assert made.session.workspace.changes() == {}
    theirs = shop(files={ORDERS: f"name: orders  # mine\n# {description}\n"})
    theirs.ok("sl_edit_source", source="orders", edits=[{"old_text": "mine", "new_text": "ours"}])


def test_comments_of_people_stay(shop: Callable[..., Any]) -> None:
    made = shop()
    made.ok("entity_details", targets=["orders"])
    made.ok("sl_write_source", source="orders", yaml=MEASURE)
    assert "# people's" in (made.text(ORDERS) or "")


@pytest.mark.table(
    ("yaml", "told"),
    [
        ("name: other\n", "must be the same"),
        ("- a\n", "not a mapping"),
        ("name: [unclosed\n", "cannot be read"),
        ("name: orders\nname: orders\n", "twice"),
        ("name: orders\ntable: orders\n", "a new source must not replace"),
        ("name: orders\nmeasures: 3\n", "must be a list"),
        ("name: orders\njoins: [{to: nobody, on: customer_id = nobody.id, relationship: many_to_one}]\n", "nobody"),
        ("name: orders\nmeasures: [{name: a, expr: 'sum('}]\n", "is not a valid sqlite expression"),
        ("name: orders\nmeasures: [{name: a, expr: sum(amout)}]\n", "amount"),
    ],
)
def test_a_broken_definition_is_not_saved(yaml: str, told: str, shop: Callable[..., Any]) -> None:
    made = shop()
    made.ok("entity_details", targets=["orders", "customers"])
    assert told in made.refused("sl_write_source", source="orders", yaml=yaml)
    assert made.session.workspace.changes() == {}
    assert made.session.actions == []
    assert [each.target for each in unresolved_failures(made.session)] == ["sl:shop/orders"]


def test_an_overlay_of_nothing_is_told_what_was_meant(shop: Callable[..., Any]) -> None:
    told = shop().refused("sl_write_source", source="order", yaml="name: order\nmeasures: []\n")
    assert "did you mean `orders`?" in told


def test_a_source_of_its_own_needs_its_tables_looked_up(shop: Callable[..., Any]) -> None:
    made = shop()
    assert "`orders.ordered_at`" in made.refused("sl_write_source", source="by_day", yaml=SPLIT)
    made.ok("sql_execution", sql="SELECT ordered_at, sum(amount) FROM orders GROUP BY ordered_at")
    assert "created" in made.ok("sl_write_source", source="by_day", yaml=SPLIT)
    assert "by_day" in made.ok("sl_discover", query="by_day")
    made.ok("wiki_write", key="days", summary="Days.", content="See `by_day.amount`.")


def test_an_invented_column_is_refused_until_the_database_has_it(shop: Callable[..., Any]) -> None:
    made = shop()
    text = "name: staged\ntable: staging\ngrain: [order_id]\ncolumns:\n  - {name: order_id, type: number}\n"
    text += "  - {name: invented, type: string}\n"
    made.ok("sql_execution", sql="SELECT count(order_id) FROM staging")
    told = made.refused("sl_write_source", source="staged", yaml=text)
    assert "`staging.invented`" in told
    assert "order_id" not in told
    assert "The statement failed" in made.ok("sql_execution", sql="SELECT count(invented) FROM staging")
    made.refused("sl_write_source", source="staged", yaml=text)
    made.ok("sql_execution", sql="SELECT count(note) FROM staging")
    made.ok("sl_write_source", source="staged", yaml=text.replace("invented", "note"))
    assert unresolved_failures(made.session, made.calls) == ()


def test_edits_are_made_all_or_none(shop: Callable[..., Any]) -> None:
    made = shop()
    before = made.text(ORDERS)
    edits = [
        {"old_text": "name: revenue", "new_text": "name: gross"},
        {"old_text": "not there", "new_text": "x"},
        {"old_text": "name", "new_text": "x"},
    ]
    told = made.refused("sl_edit_source", source="orders", edits=edits)
    assert "edit 2" in told
    assert "edit 3: `name` occurs 2 times" in told
    assert made.text(ORDERS) == before
    made.ok("sl_edit_source", source="orders", edits=edits[:1])
    assert made.text(ORDERS) == (before or "").replace("name: revenue", "name: gross")


@pytest.mark.table(
    ("source", "edit", "told"),
    [
        ("customers", ("a", "b"), "only generated"),
        ("nothing", ("a", "b"), "search for it with sl_discover"),
        ("orders", ("name: orders", "name: others"), "must be the same"),
        ("orders", ("sum(amount)", "sum(amount"), "is not a valid sqlite expression"),
        ("orders", ("sum(amount)", "amount"), "outside an aggregate"),
    ],
)
def test_an_edit_that_makes_it_wrong_is_not_saved(
    source: str, edit: tuple[str, str], told: str, shop: Callable[..., Any]
) -> None:
    made = shop()
    edits = [{"old_text": edit[0], "new_text": edit[1]}]
    assert told in made.refused("sl_edit_source", source=source, edits=edits)
    assert made.session.workspace.changes() == {}


def test_only_new_problems_count(shop: Callable[..., Any]) -> None:
    broken = "name: customers\nmeasures: [{name: a, expr: sum(ghost)}]\n"
    made = shop(files={"semantic-layer/shop/customers.yaml": broken})
    made.ok("entity_details", targets=["orders"])
    made.ok("sl_write_source", source="orders", yaml=MEASURE)


def test_a_write_that_breaks_another_source_is_refused(shop: Callable[..., Any]) -> None:
    made = shop(files={"semantic-layer/shop/by_day.yaml": SPLIT})
    made.ok("entity_details", targets=["orders", "by_day"])
    join = "name: orders\nmeasures: [{name: revenue, expr: sum(amount)}]\n"
    join += "joins: [{to: by_day, on: ordered_at = by_day.ordered_at, relationship: many_to_one}]\n"
    made.ok("sl_write_source", source="orders", yaml=join)
    assert "by_day" in made.refused("sl_write_source", source="by_day", delete=True)


def test_rollback_drops_what_was_written(shop: Callable[..., Any]) -> None:
    made = shop()
    before = made.text(ORDERS)
    made.ok("entity_details", targets=["orders"])
    made.ok("sl_write_source", source="orders", yaml=MEASURE)
    made.ok("sl_rollback", source="orders")
    assert made.text(ORDERS) == before
    assert made.session.workspace.changes() == {}
    assert made.session.actions == []
    assert "nothing about `orders`" in made.refused("sl_rollback", source="orders")


def test_rollback_brings_a_deleted_file_back(shop: Callable[..., Any]) -> None:
    made = shop()
    made.ok("sl_write_source", source="orders", delete=True)
    assert made.text(ORDERS) is None
    assert [each.kind for each in made.session.actions] == ["removed"]
    made.ok("sl_rollback", source="orders")
    assert made.session.workspace.changes() == {}


@pytest.mark.table(
    ("source", "yaml", "told"),
    [
        ("customers", "name: customers\nmeasures: [{name: n, expr: count(*)}]\n", "policies of `customers`"),
        ("customers", SECRET.replace("region = ", "region <> "), "policies of `customers`"),
        ("customers", SECRET.replace("visibility: hidden", "visibility: public"), "`customers.email` is hidden"),
        ("customers", SECRET.replace(", visibility: internal", ""), "`customers.customers` is internal"),
        (
            "customers",
            SECRET + "  - {name: first, expr: min(email)}\n",
            "measure `first` of `customers` reads a hidden column",
        ),
        (
            "people",
            "name: people\ntable: customers\ngrain: [id]\ncolumns: [{name: id, type: number}]\n",
            "define it as an overlay of `customers`",
        ),
        (
            "people",
            "name: people\nsql: SELECT id FROM customers\ngrain: [id]\ncolumns: [{name: id, type: number}]\n",
            "define it as an overlay of `customers`",
        ),
    ],
)
def test_who_sees_what_is_not_for_agents_to_change(source: str, yaml: str, told: str, shop: Callable[..., Any]) -> None:
    made = shop(files={"semantic-layer/shop/customers.yaml": SECRET})
    made.ok("entity_details", targets=["customers"])
    assert told in made.refused("sl_write_source", source=source, yaml=yaml)


@pytest.mark.table(
    ("source", "yaml", "told"),
    [
        ("customers", MASK.replace("[support]", "[support, guest]"), "`customers.email` has a mask"),
        ("customers", MASK.replace('value: "***"', "value: x"), "`customers.email` has a mask"),
        ("customers", "name: customers\nmeasures: [{name: n, expr: count(*)}]\n", "`customers.email` has a mask"),
        (
            "people",
            "name: people\nsql: SELECT id FROM customers\ngrain: [id]\ncolumns: [{name: id, type: number}]\n",
            "define it as an overlay of `customers`",
        ),
    ],
)
def test_masks_are_not_for_agents_to_change(source: str, yaml: str, told: str, shop: Callable[..., Any]) -> None:
    made = shop(files={"semantic-layer/shop/customers.yaml": MASK})
    shown = made.ok("entity_details", targets=["customers"])
    assert "mask: email" in shown and "support" not in shown
    assert told in made.refused("sl_write_source", source=source, yaml=yaml)


def test_a_protected_source_can_be_added_to(shop: Callable[..., Any]) -> None:
    made = shop(files={"semantic-layer/shop/customers.yaml": SECRET})
    made.ok("entity_details", targets=["customers"])
    made.ok("sl_write_source", source="customers", yaml=SECRET + "  - {name: regions, expr: count(distinct region)}\n")
    made.refused("sl_write_source", source="customers", delete=True)


@pytest.mark.table(
    ("arguments", "told"),
    [
        ({"source": "orders", "yaml": "name: orders", "raw_paths": ["docs/b.md"]}, "not docs/b.md"),
        ({"source": "orders", "yaml": "name: orders", "connection": "other"}, "not available here"),
        ({"source": "orders"}, "give `yaml`, or `delete: true`"),
        ({"source": "orders", "yaml": "x", "delete": True}, "give `yaml`, or `delete: true`"),
        ({"source": "orders", "yaml": "x", "more": 1}, "more"),
        ({"source": "customers", "delete": True}, "no file about `customers`"),
    ],
)
def test_arguments_that_cannot_be(arguments: dict[str, Any], told: str, shop: Callable[..., Any]) -> None:
    assert told in shop().refused("sl_write_source", **arguments)


def test_a_dependency_is_no_file_a_write_comes_from(shop: Callable[..., Any]) -> None:
    made = shop(names=())
    assert "files: none" in made.refused(
        "sl_write_source", source="orders", yaml="name: orders", raw_paths=["docs/a.md"]
    )


@pytest.mark.table(
    ("text", "told"),
    [
        ("name: orders\nmeasures: [\n", "is broken"),
        ("name: other\n", "is about `other`"),
        ("name: orders\nvisibility: hiden\nmeasures: 3\npolicies: [{name: a}]\n", "a person must correct it"),
        ("name: orders\ncolumn_overrides: [{name: id, visibility: hidden, type: x}]\n", "a person must correct it"),
    ],
)
def test_a_file_with_errors_that_hides_something_is_left_to_people(
    text: str, told: str, shop: Callable[..., Any]
) -> None:
    made = shop(files={ORDERS: text})
    made.session.ledger.add("shop/orders", "shop/orders.amount", "shop/orders.status")
    assert told in made.refused("sl_write_source", source="orders", yaml=MEASURE)
    assert made.text(ORDERS) == text


def test_a_source_other_files_keep_out_cannot_be_written(shop: Callable[..., Any]) -> None:
    made = shop(files={ORDERS: None, "semantic-layer/shop/x.yaml": "name: orders\nmeasures: [\n"})
    assert "has errors" in made.refused("sql_execution", sql="SELECT count(amount), count(status) FROM orders")
    assert "these errors make it unusable" in made.refused("sl_write_source", source="orders", yaml=MEASURE)


def test_definitions_hide_no_characters(shop: Callable[..., Any]) -> None:
    made = shop()
    hidden = "name: orders\nmeasures: [{name: revenue, expr: sum(amount)}]\n# a\u200bb\n"
    assert "invisible characters" in made.refused("sl_write_source", source="orders", yaml=hidden)
    edits = [{"old_text": "revenue", "new_text": "rev\u202eenue"}]
    assert "change the text direction" in made.refused("sl_edit_source", source="orders", edits=edits)


@pytest.mark.parametrize(
    ("descriptions", "told"),
    [
        ("{user: Gross, without refunds.}", "measure `revenue`: `without refunds.` has no text"),
        ("{user: Gross., before tax: shipping}", "measure `revenue`: `before tax` is not a valid key"),
        ("{user: }", "measure `revenue`: `user` has no text"),
        ("{user: Tickets that are closed, by the day they were opened.: null}", "by the day they were opened."),
        ("Gross., description: Gross, without refunds.", "measure `revenue`: `without refunds.` has no text"),
        ('{user: "Gross, without refunds."}', None),
        ("{user: Gross., dbt: Net.}", None),
    ],
)
def test_descriptions_that_yaml_reads_otherwise_are_refused(
    descriptions: str, told: str | None, shop: Callable[..., Any]
) -> None:
    made = shop()
    text = f"name: orders\nmeasures:\n  - {{name: revenue, expr: sum(amount), descriptions: {descriptions}}}\n"
    edit = {"old_text": "sum(amount)}", "new_text": f"sum(amount), descriptions: {descriptions}}}"}
    if told is None:
        made.ok("sl_write_source", source="orders", yaml=text)
        return
    for answer in (
        made.refused("sl_write_source", source="orders", yaml=text),
        made.refused("sl_edit_source", source="orders", edits=[edit]),
    ):
        assert told in answer and 'descriptions: {user: "' in answer
    assert made.session.workspace.changes() == {}


def finding(severity: Severity, code: str, message: str, hint: str | None = None) -> Diagnostic:
    return Diagnostic(code, severity, message, Location(ORDERS, 4, object="orders"), hint)


def test_what_the_database_speaks_against_is_not_saved_and_the_repair_is(shop: Callable[..., Any]) -> None:
    asked: list[tuple[list[str], list[str]]] = []

    def check(before: Model, after: Model) -> list[Diagnostic]:
        old, new = (sorted(each.sources["orders"].measures) for each in (before, after))
        asked.append((old, new))
        partly = finding(
            Severity.WARNING, "dangling", "4 of 40 rows of `orders` have a key that does not exist in `customers`"
        )
        if "wrong" not in new:
            return [partly]
        return [finding(Severity.ERROR, "not_executable", "the database refuses measure `wrong`", "cast it"), partly]

    made = shop(check_data=check)
    made.ok("entity_details", targets=["orders"])
    told = made.refused("sl_write_source", source="orders", yaml=MEASURE.replace("paid", "wrong"))
    assert told.endswith(
        "Nothing was saved, because the database check found these errors:\n"
        f"- {ORDERS}:4: `orders`: the database refuses measure `wrong` (cast it)"
    )
    assert made.session.workspace.changes() == {}
    assert "Warnings:\n- semantic-layer/shop/orders.yaml:4: 4 of 40 rows" in made.ok(
        "sl_write_source", source="orders", yaml=MEASURE
    )
    edit = {"old_text": "count(status)", "new_text": "count(id)"}
    made.ok("sl_edit_source", source="orders", edits=[edit])
    assert asked[1:] == [(["revenue"], ["paid", "revenue"]), (["paid", "revenue"], ["paid", "revenue"])]
    made.ok("sl_write_source", source="orders", delete=True)
    assert len(asked) == 3, "what a file loses makes nothing wrong on the database"
    assert unresolved_failures(made.session, made.calls) == ()


def test_what_is_refused_already_is_not_asked_about(shop: Callable[..., Any]) -> None:
    made = shop(check_data=lambda before, after: pytest.fail("the database was asked"))
    assert "ghost" in made.refused("sl_write_source", source="orders", yaml=MEASURE.replace("amount", "ghost"))


def test_what_a_file_had_wrong_before_is_not_held_against_a_write(shop: Callable[..., Any]) -> None:
    text = "name: orders\ndescriptions: {user: One row, an order.}\nmeasures:\n  - {name: n, expr: count(*)}\n"
    made = shop(files={ORDERS: text})
    made.ok("sl_edit_source", source="orders", edits=[{"old_text": "name: n,", "new_text": "name: m,"}])
    edit = {"old_text": "count(*)}", "new_text": "count(*), descriptions: {user: All, of them.}}"}
    assert "measure `m`: `of them.` has no text" in made.refused("sl_edit_source", source="orders", edits=[edit])


def test_a_write_answers_with_the_yaml_as_it_was_understood(shop: Callable[..., Any]) -> None:
    made = shop()
    text = "name: orders\nmeasures: [{name: revenue, expr: sum(amount), unit: EUR, filter: amount > 1 # all}\n  }]\n"
    answer = made.ok("sl_write_source", source="orders", yaml=text)
    assert "Parsed definition:" in answer
    assert "filter: amount > 1\n" in answer and "# all" not in answer
    made.ok("entity_details", targets=["orders"])
    edit = {"old_text": "sum(amount)", "new_text": "max(amount)"}
    assert "expr: max(amount)" in made.ok("sl_edit_source", source="orders", edits=[edit])
    many = "name: orders\nmeasures:\n" + "".join(f"  - {{name: m{n}, expr: sum(amount) + {n}}}\n" for n in range(300))
    assert "(cut; sl_read_source shows the file)" in made.ok("sl_write_source", source="orders", yaml=many)


@pytest.mark.table(
    ("more", "told"),
    [
        (", status: accepted", "omit `status`"),
        (", status: certified", "omit `status`"),
        (", owner: ada@example.com", "omit `owner`"),
        (", review_by: 2999-01-01", "omit `review_by`"),
        (", descriptions: {dbt: Gross.}", "write the description as `ai`"),
    ],
)
def test_an_agent_accepts_nothing(more: str, told: str, shop: Callable[..., Any]) -> None:
    made = shop()
    made.ok("entity_details", targets=["orders"])
    text = f"name: orders\nmeasures:\n  - {{name: gross, expr: sum(amount){more}}}\n"
    assert told in made.refused("sl_write_source", source="orders", yaml=text)
    made.ok("sl_write_source", source="orders", yaml=text.replace(more, ", status: proposed"))
    edit = {"old_text": "status: proposed", "new_text": more.removeprefix(", ")}
    assert told in made.refused("sl_edit_source", source="orders", edits=[edit])


@pytest.mark.table(
    ("text", "place"),
    [
        ("status: accepted\n", "the source"),
        ("columns: [{name: net, type: number, expr: amount - 1, status: certified}]\n", "column `net`"),
        (
            "joins: [{to: customers, on: customer_id = customers.id, relationship: many_to_one, alias: buyer, "
            "status: accepted}]\n",
            "join `buyer`",
        ),
    ],
)
def test_an_agent_accepts_no_source_column_or_join(text: str, place: str, shop: Callable[..., Any]) -> None:
    made = shop()
    made.ok("entity_details", targets=["orders"])
    answer = made.refused("sl_write_source", source="orders", yaml=f"name: orders\n{text}")
    assert f"- {place}: omit `status`; only people accept definitions" in answer


def test_what_a_person_accepted_stays_so_in_an_edit_of_another_part(shop: Callable[..., Any]) -> None:
    text = "name: orders\nmeasures:\n  - {name: revenue, expr: sum(amount), status: accepted, owner: ada}\n"
    made = shop(files={ORDERS: text})
    made.ok("entity_details", targets=["orders"])
    both = f"{text}  - {{name: paid, expr: count(status)}}\n"
    made.ok("sl_write_source", source="orders", yaml=both)
    raised = both.replace("status: accepted", "status: certified")
    assert "omit `status`" in made.refused("sl_write_source", source="orders", yaml=raised)
