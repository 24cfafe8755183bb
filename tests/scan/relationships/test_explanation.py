"""Explanations: what the evidence says, the score after each kind of it, the rivals, and what would change."""

from __future__ import annotations

import random
from collections.abc import Iterable, Sequence
from dataclasses import replace
from math import log2
from typing import Any

import pytest

from ktx_cli.scan.relationships.columns import NameMatch, Similar
from ktx_cli.scan.relationships.evidence import ORPHAN_SHARES, CandidateEvidence, ChildEvidence, Scorer
from ktx_cli.scan.relationships.explanation import Bearing, Explained, Subject, explain, name_text
from ktx_cli.scan.relationships.hints import HINT_TEXTS
from ktx_cli.scan.relationships.ranker import FEATURES, HINT_WEIGHTS, load_ranker, shifted
from ktx_cli.scan.relationships.record import (
    DOUBT_TEXTS,
    RULE_TEXTS,
    Check,
    Doubt,
    Relationship,
    RelationshipRecord,
    Rule,
    Status,
)
from ktx_cli.scan.relationships.verdict import loss_clause, scan_decision, share
from ktx_cli.warehouses import TableRef
from tests.scan.relationships.conftest import Answer, Shop

COUNTRIES = ("DE", "FR", "US", "GB", "IT", "ES", "NL", "BE", "AT", "CH")


def insert(table: str, rows: Iterable[Sequence[Any]]) -> str:
    listed = ("(" + ", ".join("NULL" if v is None else repr(v) for v in row) + ")" for row in rows)
    return f"INSERT INTO {table} VALUES " + ", ".join(listed)


def statements() -> list[str]:
    chance = random.Random(5)
    people = [(n, chance.choice(COUNTRIES) if n % 7 else "XX") for n in range(1, 301)]
    owned = [("customer", 300) if n % 2 else ("supplier", 40) for n in range(1, 401)]
    lines = [(order, line) for order in range(1000, 1300) for line in (1, 2, 3)]
    return [
        "CREATE TABLE customers (id INTEGER, country_code TEXT)",
        "CREATE TABLE suppliers (id INTEGER, name TEXT)",
        "CREATE TABLE countries (code TEXT, name TEXT)",
        "CREATE TABLE comments (id INTEGER, owner_type TEXT, owner_id INTEGER)",
        "CREATE TABLE orders (id INTEGER, customer_id INTEGER, coupon_id INTEGER)",
        "CREATE TABLE coupons (id INTEGER, label TEXT)",
        "CREATE TABLE order_lines (order_id INTEGER, line_no INTEGER)",
        "CREATE TABLE shipments (id INTEGER, order_id INTEGER, line_no INTEGER)",
        "CREATE TABLE returns (id INTEGER, customer_id INTEGER)",
        "CREATE VIEW order_view AS SELECT customer_id, id AS number FROM orders",
        insert("customers", people),
        insert("suppliers", ((n, f"supplier {n}") for n in range(1, 41))),
        insert("countries", ((code, f"land {code}") for code in COUNTRIES)),
        insert("comments", ((n, kind, chance.randint(1, most)) for n, (kind, most) in enumerate(owned, 1))),
        insert("orders", ((999 + n, chance.randint(1, 300) if n % 25 else 999, None) for n in range(1, 301))),
        insert("coupons", ((n, f"coupon {n}") for n in range(1, 11))),
        insert("order_lines", lines),
        insert("shipments", ((n, *line) for n, line in enumerate(chance.sample(lines, 250), 1))),
        insert("returns", ((n, chance.randint(1, 300)) for n in range(1, 101))),
    ]


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> Answer:
    return Shop(tmp_path_factory.mktemp("shop")).search(statements())


def subject(found: Answer, name: str) -> Subject:
    relationship = found.inferred(name)
    child, evidence = evidence_of(found, relationship)
    return Subject(relationship, child, evidence, found.found.accepted())


def evidence_of(found: Answer, relationship: Relationship) -> tuple[ChildEvidence, CandidateEvidence]:
    ends = (relationship.child, relationship.child_columns)
    child = next(each for each in found.found.evidence or () if (each.child, each.columns) == ends)
    evidence = child.candidate(relationship.parent, relationship.parent_columns, relationship.condition)
    assert evidence is not None
    return child, evidence


def texts(explained: Explained, bearing: Bearing) -> str:
    return " ".join(each.text for each in explained.statements if each.bearing is bearing)


def test_every_recorded_relationship_has_evidence_that_survives_storage(found: Answer) -> None:
    recorded = RelationshipRecord(relationships=found.found.relationships).recorded()
    assert len(recorded) >= 8
    for relationship in recorded:
        child, evidence = evidence_of(found, relationship)
        assert round(evidence.probability, 3) == relationship.probability
        assert ChildEvidence.from_json(child.child, child.columns, child.to_json()) == child


def test_scoring_again_gives_the_probability_of_the_scan(found: Answer) -> None:
    scored = [each for child in found.found.evidence or () for each in child.candidates if each.features]
    assert len(scored) >= 6
    for each in scored:
        assert Scorer(each, (found.found.evidence or ())[0].thresholds, load_ranker()).is_current


def test_evidence_of_another_ranker_gives_no_conditions(found: Answer) -> None:
    now = subject(found, "orders(customer_id) -> customers(id)")
    old = replace(now, evidence=replace(now.evidence, probability=now.evidence.probability - 0.01))
    assert explain(now).changes and explain(now).steps
    assert explain(old).statements[0] == explain(now).statements[0]
    assert (explain(old).changes, explain(old).steps) == ((), ())


CASES = [
    pytest.param(
        "orders(customer_id) -> customers(id)",
        Status.ACCEPTED,
        [
            "The name `customer_id` matches the table `customers`.",
            "All 288 rows with a value have a match in `customers.id` (all rows were checked).",
            "2 other columns with this name refer to the same key: `order_view.customer_id`, `returns.customer_id`.",
        ],
        [],
        [
            "`999` is treated as a placeholder for a missing value (12 rows), because it is a common one, and the only "
            "one among the values without a match.",
            "The keys are consecutive numbers, so any number in that range would match.",
        ],
        id="accepted, with a sentinel",
    ),
    pytest.param(
        "customers(country_code) -> countries(code)",
        Status.REVIEW,
        ["The name `country_code` matches the table `countries`.", "So many matches are unlikely by chance."],
        ["42 of 300 rows (14%), with one value, have no match in `countries.code` (all rows were checked)."],
        [
            "Values without a match: `XX` (42 rows).",
            "The column has 11 distinct values. 10 of them match 100% of the 10 keys.",
        ],
        id="orphans",
    ),
    pytest.param(
        "orders(coupon_id) -> coupons(id)",
        Status.REVIEW,
        ["The name `coupon_id` matches the table `coupons`."],
        [],
        ["The column is empty (NULL or '') in all 300 rows, so no row can confirm or contradict the join."],
        id="no values",
    ),
    pytest.param(
        "comments(owner_id) -> customers(id) if owner_type = customer",
        Status.ACCEPTED,
        [
            "The value `customer` names the table `customers`.",
            "All 200 rows with a value and `owner_type` = `customer`",
        ],
        [],
        [
            "With `owner_type` = `supplier`, the column refers to `suppliers.id`.",
            "Joins that depend on another column get one of the scores 0.5, 0.8 and 0.95, here 0.95, because the value "
            "names the table `customers`.",
        ],
        id="polymorphic",
    ),
    pytest.param(
        "shipments(order_id, line_no) -> order_lines(order_id, line_no)",
        None,
        ["`order_id` to `order_id`, `line_no` to `line_no`.", "All 250 rows with a value in all of these columns"],
        [],
        [
            "Multi-column joins get one of the scores 0.6, 0.9 and 0.97, here 0.6, because the names are too generic "
            "to identify the key, and the rows could match by chance."
        ],
        id="composite",
    ),
    pytest.param(
        "order_view(customer_id) -> customers(id)",
        Status.ACCEPTED,
        ["The name `customer_id` matches the table `customers`."],
        [],
        [
            "`order_view` is a view. If it already joins the referenced table, a full match proves little. For views, "
            "ktx saves only accepted joins."
        ],
        id="view",
    ),
]


@pytest.mark.parametrize(("name", "status", "good", "bad", "other"), CASES)
def test_the_evidence_in_sentences(
    found: Answer, name: str, status: Status | None, good: list[str], bad: list[str], other: list[str]
) -> None:
    explained_of = subject(found, name)
    explained = explain(explained_of)
    assert status in (None, explained_of.relationship.status)
    for bearing, wanted in ((Bearing.FOR, good), (Bearing.AGAINST, bad), (Bearing.NEUTRAL, other)):
        for text in wanted:
            assert text in texts(explained, bearing)


def test_the_score_is_explained_step_by_step(found: Answer) -> None:
    full = explain(subject(found, "orders(customer_id) -> customers(id)"))
    assert [each.evidence for each in full.steps] == ["names", "values", "columns"]
    assert full.steps[-1].rounded == found.inferred("orders(customer_id) -> customers(id)").probability
    assert [each.evidence for each in explain(subject(found, "orders(coupon_id) -> coupons(id)")).steps] == ["names"]


def test_a_condition_is_computed_and_not_boilerplate(found: Answer) -> None:
    of_orders = subject(found, "orders(customer_id) -> customers(id)")
    scorer = Scorer(of_orders.evidence, of_orders.child.thresholds, load_ranker())
    changes = {each.condition: each for each in explain(of_orders).changes}
    assert changes["no_name"].probability == scorer.without_name(0).probability < of_orders.evidence.probability
    most = scorer.tolerated_orphans()
    assert (
        most in ORPHAN_SHARES
        and f"more than {share(most, 1)} of rows had no match (currently 0%)" in changes["orphans"].text
    )
    assert scorer.probability({"violations": most}) >= scorer.thresholds.accept_threshold


def test_what_orphans_prevent_no_hint_repairs(found: Answer) -> None:
    changes = {
        each.condition: each for each in explain(subject(found, "customers(country_code) -> countries(code)")).changes
    }
    assert "at most 8% of rows may have no match (currently 14%)" in changes["orphans"].text
    assert changes["all_match"].status is Status.ACCEPTED
    assert not any(condition.startswith("with_") for condition in changes)


def test_a_join_without_rows_says_what_it_waits_for(found: Answer) -> None:
    changes = {each.condition for each in explain(subject(found, "orders(coupon_id) -> coupons(id)")).changes}
    assert {"rows", "no_validation"} <= changes and "with_dbt" not in changes


def test_a_hint_that_would_be_enough_is_named(shop: Shop) -> None:
    chance = random.Random(2)
    found = shop.search(
        [
            "CREATE TABLE staff (id INTEGER, title TEXT)",
            "CREATE TABLE rooms (id INTEGER, title TEXT)",
            "CREATE TABLE visits (id INTEGER, x INTEGER)",
            insert("staff", ((n, f"title {n}") for n in range(1, 41))),
            insert("rooms", ((n, f"room {n}") for n in range(1, 60))),
            insert("visits", ((n + 500, chance.randint(1, 36)) for n in range(300))),
        ],
        reviewThreshold=0,
    )
    weak = [each for each in found.found.relationships if each.child_columns == ("x",)]
    assert weak and all(each.status is not Status.ACCEPTED for each in weak)
    explained_of = subject(found, found.name_of(max(weak, key=lambda each: each.probability)))
    scorer = Scorer(explained_of.evidence, explained_of.child.thresholds, load_ranker())
    needed = scorer.needed_hint()
    changes = {each.condition: each for each in explain(explained_of).changes}
    assert changes["with_dbt"].probability == scorer.with_hint("dbt").probability > explained_of.evidence.probability
    if needed is not None:
        assert changes[f"with_{needed}"].status is Status.ACCEPTED
    assert "The name `x` gives no indication of" in texts(explain(explained_of), Bearing.AGAINST)


def test_the_rivals_and_why_they_lost(shop: Shop) -> None:
    chance = random.Random(3)
    found = shop.search(
        [
            "CREATE TABLE film (film_id INTEGER, title TEXT)",
            "CREATE TABLE film_details (film_id INTEGER, plot TEXT)",
            "CREATE TABLE inventory (inventory_id INTEGER, film_id INTEGER)",
            insert("film", ((n, f"title {n}") for n in range(1, 201))),
            insert("film_details", ((n, f"plot {n}") for n in range(1, 201))),
            insert("inventory", ((n + 900, chance.randint(1, 200)) for n in range(600))),
        ],
        reviewThreshold=0,
    )
    chosen, other = (f"inventory(film_id) -> {name}(film_id)" for name in ("film", "film_details"))
    (rival, *_) = explain(subject(found, chosen)).runners_up
    assert (rival.key, rival.values) == ("film_details.film_id", "all rows match")
    assert rival.why in ("the name of its table fits less", "the name fits it less")
    lost = explain(subject(found, other))
    assert lost.runners_up[0].key == "film.film_id" and lost.runners_up[0].why.startswith("chosen: ")
    relationship = found.inferred(other)
    decision = scan_decision(relationship, *evidence_of(found, relationship))
    assert decision.startswith("The scan rejected it") and "`film.film_id` is preferred" in decision
    assert all(each.status is not Status.ACCEPTED for each in lost.changes if each.condition != "with_dbt")


def test_a_personal_column_keeps_no_examples(shop: Shop) -> None:
    mails = [f"person{n}@example.com" for n in range(60)]
    found = shop.search(
        [
            "CREATE TABLE members (email TEXT, joined INTEGER)",
            "CREATE TABLE letters (id INTEGER, member_email TEXT)",
            insert("members", ((mail, n) for n, mail in enumerate(mails))),
            insert("letters", ((n, mails[n % 60] if n % 20 else "gone@example.com") for n in range(200))),
        ]
    )
    for child in found.found.evidence or ():
        assert "@" not in child.to_json()
    _, evidence = evidence_of(found, found.inferred("letters(member_email) -> members(email)"))
    assert evidence.check is not None and evidence.check.missing == 10 and evidence.orphans == ()
    explained = explain(subject(found, "letters(member_email) -> members(email)"))
    assert "The values without a match are not shown, for privacy." in texts(explained, Bearing.NEUTRAL)


def test_without_values_there_are_no_examples(found: Answer) -> None:
    child, evidence = evidence_of(found, found.inferred("customers(country_code) -> countries(code)"))
    assert evidence.orphans == (("XX", 42),)
    assert "XX" not in child.without_values().to_json()


@pytest.mark.parametrize(
    ("part", "whole", "shown"),
    [
        (0, 10, "0%"), (10, 10, "100%"), (1, 8, "12.5%"), (9999, 10_000, "99.9%"), (1, 5000, "less than 0.1%"),
        (1, 0, "0%"),
    ],
)  # fmt: skip
def test_shares_are_never_rounded_to_all_or_nothing(part: int, whole: int, shown: str) -> None:
    assert share(part, whole) == shown


def test_a_feature_is_found_by_its_name(found: Answer) -> None:
    explained_of = subject(found, "orders(customer_id) -> customers(id)")
    assert explained_of.feature("name_table") == explained_of.evidence.features[FEATURES.index("name_table")] > 0.7


def test_everything_that_counts_has_words() -> None:
    assert set(HINT_TEXTS) == set(HINT_WEIGHTS)
    assert set(DOUBT_TEXTS) == set(Doubt)
    assert set(RULE_TEXTS) == set(Rule)


@pytest.mark.parametrize("doubt", Doubt)
def test_a_doubt_is_the_reason_for_a_review(found: Answer, doubt: Doubt) -> None:
    now = subject(found, "orders(customer_id) -> customers(id)")
    evidence = replace(now.evidence, doubts=(doubt,), probability=0.7)
    relationship = replace(now.relationship, status=Status.REVIEW, probability=0.7)
    decision = scan_decision(relationship, now.child, evidence)
    assert decision == f"The scan left it for review although the score is 0.700: {DOUBT_TEXTS[doubt]}."


def test_a_high_score_outweighs_vague_doubts_and_hints_remove_them(found: Answer) -> None:
    now = subject(found, "orders(customer_id) -> customers(id)")
    for doubt, status in ((Doubt.OWN_NUMBER, Status.ACCEPTED), (Doubt.DATE_KEY, Status.REVIEW)):
        scorer = Scorer(replace(now.evidence, doubts=(doubt,)), now.child.thresholds, load_ranker())
        assert scorer.outcome().status is status
        assert scorer.with_hint("dbt").status is status
    weak = Scorer(replace(now.evidence, doubts=(Doubt.FEW_VALUES,)), now.child.thresholds, load_ranker())
    assert weak.without_rivals().status is Status.ACCEPTED


def test_decisions_of_people_about_similar_joins_count(found: Answer) -> None:
    now = subject(found, "orders(customer_id) -> customers(id)")
    for similar, bearing in ((Similar(2, 0, 1.0), Bearing.FOR), (Similar(0, 1, -1.0), Bearing.AGAINST)):
        shift = shifted(now.evidence.probability, similar.shift)
        sources = (*now.evidence.sources, "decisions")
        evidence = replace(now.evidence, similar=similar, probability=shift, sources=sources)
        explained = explain(replace(now, evidence=evidence))
        assert "decisions" not in texts(explained, Bearing.FOR)
        (without,) = (each for each in explained.changes if each.condition == "no_decisions")
        assert without.probability == pytest.approx(now.evidence.probability, abs=1e-6)
        assert "by people." in texts(explained, bearing)
        assert explained.steps[-1].evidence == "hints"
        assert explained.steps[-1].probability == pytest.approx(shift)


def test_values_in_a_small_part_of_the_range_are_no_proof(shop: Shop) -> None:
    found = shop.search(
        [
            "CREATE TABLE assets (asset_id INTEGER, label TEXT)",
            "CREATE TABLE checks (check_id INTEGER, asset_id INTEGER)",
            insert("assets", ((3 * n + 1, f"label {n}") for n in range(4000))),
            insert("checks", ((n + 50_000, 3 * (n % 20) + 1) for n in range(400))),
        ],
        reviewThreshold=0,
    )
    explained = explain(subject(found, "checks(asset_id) -> assets(asset_id)"))
    assert "The values lie in a small part of the key range" in texts(explained, Bearing.AGAINST)
    assert "by chance" not in texts(explained, Bearing.FOR)


def keys_and(found_in: str, values: Iterable[int | None]) -> list[str]:
    """Return 100 members with even numbers, and a table whose column refers to them."""
    return [
        "CREATE TABLE members (member_id INTEGER, label TEXT)",
        f"CREATE TABLE {found_in} (code TEXT, member_id INTEGER)",
        insert("members", ((2 * n, f"label {n}") for n in range(1, 101))),
        insert(found_in, ((f"code {n}", value) for n, value in enumerate(values))),
    ]


@pytest.mark.parametrize(
    ("values", "shown"),
    [
        pytest.param(
            [*range(2, 82, 2), *[None] * 60],
            "The column has 40 distinct values. They match 40% of the 100 keys and span 39.4% of the key range.",
            id="NULLs, and no value twice",
        ),
        pytest.param(
            [*range(2, 82, 2), *range(2, 82, 2), *[9999] * 7],
            "The column has 40 distinct values. They match 40% of the 100 keys.",
            id="a placeholder",
        ),
        pytest.param(
            [*range(2, 82, 2), *range(2, 82, 2), 301, 303],
            "The column has 42 distinct values. 40 of them match 40% of the 100 keys.",
            id="values without a match",
        ),
        pytest.param(
            [*range(2, 82, 2), *range(2, 82, 2), 301, 303, *[9999] * 3, *[None] * 60],
            "The column has 42 distinct values. 40 of them match 40% of the 100 keys.",
            id="all of these",
        ),
        pytest.param([8] * 30, "The column has only 1 distinct value. It matches 1% of the 100 keys.", id="one value"),
    ],
)
def test_the_covered_keys_are_those_that_match(shop: Shop, values: list[int | None], shown: str) -> None:
    found = shop.search(keys_and("visits", values), reviewThreshold=0)
    explained = explain(subject(found, "visits(member_id) -> members(member_id)"))
    assert shown in [each.text for each in explained.statements]


def test_what_was_sampled_or_looked_up_is_not_stated_as_exact(found: Answer) -> None:
    now = subject(found, "orders(customer_id) -> customers(id)")
    values = now.evidence.values
    assert values is not None and (values.hits, now.child.distinct) == (183, 184)
    sampled = replace(now.child, complete=False)
    shown = texts(explain(replace(now, child=sampled)), Bearing.NEUTRAL)
    assert (
        "In 300 sampled rows, the column has 183 distinct values. They match 61% of the 300 keys; all "
        "rows may match more."
    ) in shown
    looked_up = replace(now.evidence, values=replace(values, distinct=60, hits=30, exact=False))
    shown = texts(explain(replace(now, child=sampled, evidence=looked_up)), Bearing.NEUTRAL)
    assert "183 distinct values. They match about 30.5% of the 300 keys; all rows may match more." in shown
    everything = replace(now.evidence, key_rows=183, key_distinct=183)
    shown = texts(explain(replace(now, child=sampled, evidence=everything)), Bearing.NEUTRAL)
    assert "They match 100% of the 183 keys. " in shown
    estimated = replace(now.evidence, key_complete=False, key_rows=1000)
    shown = texts(explain(replace(now, evidence=estimated)), Bearing.NEUTRAL)
    assert "The column has 183 distinct values. They match about 18.3% of the 1,000 keys." in shown


def test_a_share_of_a_sample_is_one_of_the_sampled_rows(found: Answer) -> None:
    now = subject(found, "orders(customer_id) -> customers(id)")
    for complete, among in ((True, "rows"), (False, "300 sampled rows")):
        child = replace(now.child, nulls=75, complete=complete)
        assert f"25% of the {among} have no value." in texts(explain(replace(now, child=child)), Bearing.NEUTRAL)


COMPARED = "The tables are too large to join, so ktx compared the hashes of 812 random values: "


@pytest.mark.parametrize(
    ("check", "bearing", "shown"),
    [
        (
            Check(9000, 0, exact=False, compared=812, at_most=0.0065),
            Bearing.FOR,
            "all of them exist in `customers.id`. With 99% confidence, at most 0.7% of all rows have no match.",
        ),
        (
            Check(9000, 1800, exact=False, compared=812, at_most=0.24),
            Bearing.AGAINST,
            "20% of their rows have no match in `customers.id`. With 99% confidence, at most 24% of all rows have no "
            "match.",
        ),
        (
            Check(812, 203, exact=False, compared=812, at_most=0.3),
            Bearing.AGAINST,
            "203 of them do not exist in `customers.id`. With 99% confidence, at most 30% of all distinct values have "
            "no match.",
        ),
    ],
)
def test_what_sketches_say_comes_with_how_far_off_it_may_be(
    found: Answer, check: Check, bearing: Bearing, shown: str
) -> None:
    now = subject(found, "orders(customer_id) -> customers(id)")
    values = now.evidence.values
    assert values is not None
    evidence = replace(now.evidence, check=check, values=replace(values, distinct=60, hits=60, exact=False))
    assert COMPARED + shown in texts(explain(replace(now, evidence=evidence)), bearing)
    child = replace(now.child, candidates=(evidence,))
    assert ChildEvidence.from_json(child.child, child.columns, child.to_json()) == child


@pytest.mark.parametrize(
    ("numbers", "how"), [(range(1, 101), "consecutive"), ([*range(1, 90), *range(95, 106)], "nearly consecutive")]
)
def test_numbers_without_gaps_are_called_consecutive(shop: Shop, numbers: Iterable[int], how: str) -> None:
    found = shop.search(
        [
            "CREATE TABLE members (member_id INTEGER, label TEXT)",
            "CREATE TABLE visits (code TEXT, member_id INTEGER)",
            insert("members", ((n, f"label {n}") for n in numbers)),
            insert("visits", ((f"code {n}", n % 80 + 1) for n in range(300))),
        ]
    )
    explained = explain(subject(found, "visits(member_id) -> members(member_id)"))
    assert f"The keys are {how} numbers, so any number in that range would match." in texts(explained, Bearing.NEUTRAL)


@pytest.mark.parametrize(
    ("types", "shown"),
    [
        (("INT(10)", "UNSIGNED INT(11)"), None),
        (("VARCHAR(20)", "varchar(40)"), None),
        (("BIGINT", "INT(11)"), "The column and the key have different types: `BIGINT` and `INT(11)`."),
    ],
    ids=str,
)
def test_lengths_of_types_are_no_difference(shop: Shop, types: tuple[str, str], shown: str | None) -> None:
    own, key = types
    found = shop.search(
        [
            f"CREATE TABLE members (member_id {key}, label TEXT)",
            f"CREATE TABLE visits (code TEXT, member_id {own})",
            insert("members", ((n, f"label {n}") for n in range(1, 101))),
            insert("visits", ((f"code {n}", n % 80 + 1) for n in range(300))),
        ],
        reviewThreshold=0,
    )
    against = texts(explain(subject(found, "visits(member_id) -> members(member_id)")), Bearing.AGAINST)
    assert (shown in against) if shown is not None else ("types" not in against)


def test_what_the_scan_would_decide_alone_is_said_as_a_condition(found: Answer) -> None:
    relationship = found.inferred("orders(customer_id) -> customers(id)")
    decision = scan_decision(relationship, *evidence_of(found, relationship), alone=True)
    score = f"{relationship.probability:.3f}"
    assert decision == f"On its own, the scan would accept it: the score is {score}, and the threshold is 0.6."


def test_a_step_names_what_moved_the_score(shop: Shop) -> None:
    found = shop.search(
        [
            "CREATE TABLE staff (staff_id INTEGER, label TEXT)",
            "CREATE TABLE visits (code TEXT, staff INTEGER)",
            insert("staff", ((n, f"label {n}") for n in range(1, 101))),
            insert("visits", ((f"code {n}", n + 1 if n % 2 else n + 9000) for n in range(100))),
        ],
        reviewThreshold=0,
    )
    explained = explain(subject(found, "visits(staff) -> staff(staff_id)"))
    names, values, _ = explained.steps
    assert values.probability < names.probability and values.because == "rows without a match"


def test_a_reference_to_an_empty_table_has_no_match_yet(shop: Shop) -> None:
    found = shop.search(
        [
            "CREATE TABLE members (member_id INTEGER PRIMARY KEY, label TEXT)",
            "CREATE TABLE visits (code TEXT, member_id INTEGER)",
            insert("visits", ((f"code {n}", n % 80 + 1) for n in range(300))),
        ],
        reviewThreshold=0,
    )
    name = "visits(member_id) -> members(member_id)"
    explained = explain(subject(found, name))
    text = "The referenced table `members` is empty, so no row has a match yet."
    assert text in texts(explained, Bearing.NEUTRAL)
    decision = scan_decision(found.inferred(name), *evidence_of(found, found.inferred(name)))
    assert "the referenced table is empty, so no row has a match yet." in decision


def test_a_part_of_a_table_name_is_called_one() -> None:
    evidence = CandidateEvidence(
        TableRef(None, "variation_set_structure"), ("id",), 0.5, (), name_match=NameMatch(table=0.8, key=0.0)
    )
    assert name_text("set_id", evidence)[0] == (
        "The word `set` of the name also occurs in the table name `variation_set_structure`."
    )
    whole = replace(evidence, parent=TableRef(None, "order_sets"))
    assert name_text("order_set_id", whole)[0] == "The name `order_set_id` matches the table `order_sets`."
    meant = replace(evidence, parent=TableRef(None, "employees"), name_match=NameMatch(0.0, 0.0, meaning=True))
    assert name_text("sales_rep_id", meant)[0] == "`sales_rep` may be another word for `employees`."


def test_primary_keys_are_called_so(shop: Shop) -> None:
    found = shop.search(
        [
            "CREATE TABLE members (member_id INTEGER PRIMARY KEY, label TEXT)",
            "CREATE TABLE member_notes (member_id INTEGER, topic TEXT, PRIMARY KEY (member_id, topic))",
            insert("members", ((n, f"label {n}") for n in range(1, 101))),
        ],
        reviewThreshold=0,
    )
    name = "members(member_id) -> member_notes(member_id)"
    against = texts(explain(subject(found, name)), Bearing.AGAINST)
    assert "The column is the primary key of its own table, `members`." in against
    only = "`member_id` is only one of the 2 columns of the primary key of `member_notes`, so a value may occur in "
    assert f"{only}several of its rows." in against
    child, evidence = evidence_of(found, found.inferred(name))
    assert (child.is_primary_key, evidence.key_group) == (True, ("member_id", "topic"))
    assert ChildEvidence.from_json(child.child, child.columns, child.to_json()) == child


def test_the_reason_of_the_loser_is_not_said_of_the_winner(found: Answer) -> None:
    now = subject(found, "orders(customer_id) -> customers(id)")
    why = "`raw_customers` is in another layer of the dbt project (raw)."
    raw = replace(now.evidence, parent=TableRef(None, "raw_customers"), lost=why, barred=True)
    child = replace(now.child, candidates=(now.evidence, raw))
    (winner,) = explain(replace(now, child=child, evidence=raw)).runners_up
    assert winner.why == f"chosen because {why[:-1]}"
    (loser,) = explain(replace(now, child=child)).runners_up
    assert loser.why == why[:-1]
    against = texts(explain(replace(now, evidence=replace(now.evidence, lineage=why[:-1]))), Bearing.AGAINST)
    assert against.endswith(why) and "By the lineage" not in against


def test_values_without_a_match_beyond_the_examples_are_counted(shop: Shop) -> None:
    lost = [n + 500 for n in range(1, 8) for _ in range(1, 3)]
    found = shop.search(
        [
            "CREATE TABLE parts (part_no INTEGER, label TEXT)",
            "CREATE TABLE uses (code TEXT, part_no INTEGER)",
            insert("parts", ((2 * n, f"label {n}") for n in range(1, 101))),
            insert("uses", ((f"code {n}", value) for n, value in enumerate([*range(2, 202, 2), *lost]))),
        ],
        reviewThreshold=0,
    )
    explained = explain(subject(found, "uses(part_no) -> parts(part_no)"))
    shown = "Values without a match: `501` (2 rows), `502` (2 rows), `503` (2 rows) and 4 more values."
    assert shown in [each.text for each in explained.statements]


@pytest.mark.parametrize(
    ("first", "values", "odds"),
    [
        pytest.param(1, [3 * n for n in range(1, 301, 40)], True, id="values from all of the range"),
        pytest.param(1, [3, 6, 9, 12, 15], False, id="a few at one end"),
        pytest.param(1, [900], False, id="a single one"),
    ],
)
def test_odds_are_only_given_for_values_from_all_of_the_range(
    shop: Shop, first: int, values: list[int], odds: bool
) -> None:
    found = shop.search(
        [
            "CREATE TABLE plots (plot_id INTEGER, label TEXT)",
            "CREATE TABLE visits (code TEXT, plot_id INTEGER)",
            insert("plots", ((3 * n, f"label {n}") for n in range(first, 301))),
            insert("visits", ((f"code {n}", value) for n, value in enumerate(values * 8))),
        ],
        reviewThreshold=0,
    )
    supporting = texts(explain(subject(found, "visits(plot_id) -> plots(plot_id)")), Bearing.FOR)
    assert ("A chance match is unlikely (less than 1 in " in supporting) is odds


def test_columns_of_a_composite_key_match_by_name_or_by_a_common_target(found: Answer) -> None:
    now = subject(found, "shipments(order_id, line_no) -> order_lines(order_id, line_no)")
    evidence = replace(now.evidence, parent_columns=("order_id", "position"))
    joins = [
        replace(now.relationship, child=table, child_columns=(column,), parent=TableRef(None, "places"))
        for table, column in ((now.child.child, "line_no"), (evidence.parent, "position"))
    ]
    joins = [replace(each, parent_columns=("id",)) for each in joins]
    supporting = texts(explain(replace(now, evidence=evidence, known=joins)), Bearing.FOR)
    assert "The names match 1 of the 2 columns of the key of `order_lines`: `order_id` to `order_id`." in supporting
    assert "`line_no` and `position` of `order_lines` both refer to `places.id`." in supporting
    assert "`line_no` to `position`" in texts(explain(replace(now, evidence=evidence, known=joins[:1])), Bearing.FOR)


@pytest.mark.parametrize(
    ("reason", "clause"),
    [
        (
            "Would close a cycle: `a.id` refers back to `b.id`.",
            "it would close a cycle (`a.id` refers back to `b.id`).",
        ),
        ("Implied by the path through `orders`.", "it is implied by the path through `orders`."),
        ("The join in the opposite direction is in effect.", "the join in the opposite direction is in effect."),
        ("`raw_orders` is in another layer.", "`raw_orders` is in another layer."),
    ],
)
def test_a_reason_continues_a_sentence(reason: str, clause: str) -> None:
    assert loss_clause(reason) == clause


def test_an_implied_join_stays_rejected_whatever_its_score(found: Answer) -> None:
    now = subject(found, "orders(customer_id) -> customers(id)")
    implied = replace(now.relationship, status=Status.REJECTED, reason="Implied by the path through `visits`.")
    explained = explain(replace(now, relationship=implied))
    assert explained.steps and explained.changes == ()
    decision = scan_decision(implied, now.child, now.evidence)
    assert decision.endswith(": it is implied by the path through `visits`.")


@pytest.mark.parametrize(
    ("column", "key", "shown"),
    [
        pytest.param("customer_count", "id", True, id="a quantity of the parent"),
        pytest.param("customer_count", "count", False, id="the key is one too"),
    ],
)
def test_a_word_against_references_is_named_although_the_table_fits(
    found: Answer, column: str, key: str, shown: bool
) -> None:
    now = subject(found, "orders(customer_id) -> customers(id)")
    evidence = replace(now.evidence, parent_columns=(key,), name_match=NameMatch(table=1.0, key=0.0))
    against = texts(
        explain(replace(now, evidence=evidence, child=replace(now.child, columns=(column,)))), Bearing.AGAINST
    )
    text = "The word `count` in the name is common for amounts and counts, but rare for references."
    assert (text in against) is shown


@pytest.mark.parametrize(
    ("rivals", "bearing", "shown"),
    [
        pytest.param(
            2, Bearing.AGAINST, "The values also match at least 2 other keys, whose names do not match.", id="rivals"
        ),
        pytest.param(
            0,
            Bearing.NEUTRAL,
            "The values also match at least 2 other keys, whose names do not match. They contain the values of fewer "
            "columns with this name.",
            id="not as rivals of a name of many tables",
        ),
    ],
)
def test_all_keys_that_contain_the_values_are_counted(found: Answer, rivals: int, bearing: Bearing, shown: str) -> None:
    now = subject(found, "orders(customer_id) -> customers(id)")
    features = list(now.evidence.features)
    features[FEATURES.index("rivals")] = log2(1 + 3)  # the key itself and two others
    evidence = replace(now.evidence, features=tuple(features), rivals=rivals)
    explained = explain(replace(now, evidence=evidence, child=replace(now.child, candidates=(evidence,))))
    assert shown in [each.text for each in explained.statements if each.bearing is bearing]
    assert "match no other candidate key" not in texts(explained, Bearing.FOR)
    assert explained.has_unlikely_rivals
    features[FEATURES.index("rivals")] = 1.0  # the key itself
    alone = replace(now.evidence, features=tuple(features), rivals=0)
    explained = explain(replace(now, evidence=alone, child=replace(now.child, candidates=(alone,))))
    assert not explained.has_unlikely_rivals
    assert "match no other candidate key" in texts(explained, Bearing.FOR)


@pytest.mark.parametrize(("lineage", "status"), [(None, Status.ACCEPTED), ("`b` is built from `a`.", Status.REVIEW)])
def test_the_next_key_is_for_review_if_lineage_speaks_against_it(
    found: Answer, lineage: str | None, status: Status
) -> None:
    now = subject(found, "orders(customer_id) -> customers(id)")
    second = replace(now.evidence, parent=TableRef(None, "people"), lineage=lineage, lost="It fits less.")
    child = replace(now.child, candidates=(now.evidence, second))
    (change,) = (each for each in explain(replace(now, child=child)).changes if each.condition == "without_key")
    assert change.status is status
