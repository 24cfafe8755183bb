"""The claims of files, and the status of an answer: never above the weakest definition that it is made of."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise

import pytest

from ktx_cli.core.errors import KtxError
from ktx_cli.semantic.answer import compile_query
from ktx_cli.semantic.model import Column, Join, Measure, Model, Relationship, Segment, SemanticError, Source, Status
from ktx_cli.semantic.status import (
    Definition,
    DefinitionKind,
    DefinitionStatus,
    Used,
    claims_in,
    lowest,
    require_status,
    status_of,
    used_definitions,
)
from ktx_cli.warehouses import SemanticType

FULL = bool(os.environ.get("KTX_TEST_FULL"))

FILE = """\
name: orders
measures:
  - name: revenue
    expr: sum(amount)
    filter: status <> 'void'
    descriptions: {user: All of it.}
segments: [{name: paid, expr: status = 'paid'}]
columns: [{name: net, expr: amount - tax}, {name: id, type: number}]
joins: [{to: customers, on: customer_id = customers.id, relationship: many_to_one, alias: buyer}]
"""
REVENUE = Definition(DefinitionKind.MEASURE, "orders", "revenue")


def claims(text: str) -> dict[Definition, str]:
    return {each: claim.fingerprint for each, claim in claims_in(text.encode(), "orders.yaml", "duckdb").items()}


def test_what_a_file_defines() -> None:
    assert sorted(map(str, claims(FILE))) == ["orders -> buyer", "orders.net", "orders.paid", "orders.revenue"]
    assert claims("- a\n") == claims("name: [\n") == claims("name: 3\n") == {}
    of_rows = "name: x\nsql: SELECT 1 AS a\npolicies: [{name: own, filter: a = 1}]\n"
    assert [(each.kind.value, str(each)) for each in claims(of_rows)] == [("source", "x")]
    shard = "tables:\n  orders:\n    proposed_measures: [{name: revenue, expr: sum(amount), status: accepted}]\n"
    assert list(claims(shard)) == [REVENUE]


@pytest.mark.table(
    ("old", "new"),
    [
        ("sum(amount)", "SUM( amount ) -- gross"),
        ("All of it.", "Everything."),
        ("    descriptions: {user: All of it.}\n", "    questions: [How much?]\n    status: accepted\n"),
        (
            "    expr: sum(amount)\n    filter: status <> 'void'\n",
            "    filter: status != 'void'\n    expr: sum(amount)\n",
        ),
        ("name: orders\n", "# The orders.\nname: orders\n"),
    ],
)
def test_layout_texts_and_status_change_no_fingerprint(old: str, new: str) -> None:
    assert old in FILE
    assert claims(FILE.replace(old, new))[REVENUE] == claims(FILE)[REVENUE]


@pytest.mark.table(
    ("old", "new"),
    [
        ("sum(amount)", "sum(amount) + 0"),
        ("sum(amount)", "avg(amount)"),
        ("<> 'void'", "<> 'Void'"),
        ("    filter: status <> 'void'\n", ""),
        ("    filter:", "    segments: [paid]\n    filter:"),
        ("    filter:", "    time: ordered_at\n    filter:"),
        ("    filter:", "    something_new: 1\n    filter:"),
    ],
)
def test_what_can_change_a_number_changes_the_fingerprint(old: str, new: str) -> None:
    assert claims(FILE.replace(old, new, 1))[REVENUE] != claims(FILE)[REVENUE]


def test_a_claim_says_who_answers_for_it_and_until_when() -> None:
    text = FILE.replace("    filter:", "    status: certified\n    owner: ada\n    review_by: 2027-01-31\n    filter:")
    claim = claims_in(text.encode(), "orders.yaml", "duckdb")[REVENUE]
    assert (claim.status, claim.owner, str(claim.review_by)) == (Status.CERTIFIED, "ada", "2027-01-31")
    assert claims_in(FILE.encode(), "orders.yaml", "duckdb")[REVENUE].level is Status.ACCEPTED


def test_a_status_that_is_too_low_is_refused_and_named() -> None:
    used = [Used(REVENUE, None), Used(Definition(DefinitionKind.SEGMENT, "orders", "paid"), None)]
    given = {"orders.revenue": Status.ACCEPTED, "orders.paid": Status.PROPOSED}

    def status_of_definition(each: Used) -> DefinitionStatus:
        return DefinitionStatus(each.definition, given[str(each.definition)], "because")

    found = status_of(used, status_of_definition)
    assert found["weakest"] == "proposed"
    assert found["because"] == [
        {"definition": "orders.paid", "kind": "segment", "status": "proposed", "why": "because"}
    ]
    require_status(found, Status.PROPOSED, used, status_of_definition)
    with pytest.raises(KtxError, match=r"would be `proposed`, not `accepted`: orders\.paid") as caught:
        require_status(found, Status.ACCEPTED, used, status_of_definition)
    assert caught.value.code == "status"
    assert lowest([]) is None


@dataclass
class _World:
    """A random layer, with what each definition is made of as its maker knows it."""

    model: Model
    made_of: dict[str, set[str]] = field(default_factory=dict)

    def all_of(self, ref: str) -> set[str]:
        return {ref}.union(*(self.all_of(each) for each in self.made_of.get(ref, ())))


def _world(seed: int) -> _World:
    """Make up to five sources in a row, each joined to the next, with columns, segments and measures of measures."""
    draw = random.Random(seed)
    names = [f"s{number}" for number in range(draw.randint(1, 5))]
    made_of: dict[str, set[str]] = {}
    sources: dict[str, Source] = {}
    for number, name in enumerate(names):
        columns = {each: Column(each, SemanticType.NUMBER) for each in ("id", "v", "next")}
        joins: tuple[Join, ...] = ()
        reach = names[number + 1 :]
        if reach:
            provenance = draw.choice(["formal", "inferred", None])
            pairs = (("next", "id"),)
            joins = (Join(reach[0], f"next = {reach[0]}.id", pairs, Relationship.MANY_TO_ONE, None, (), provenance),)
            made_of[f"{name} -> {reach[0]}"] = set()
        for index in range(draw.randint(0, 3)):
            other = draw.choice(["v", *(f"c{each}" for each in range(index))])
            columns[f"c{index}"] = Column(f"c{index}", SemanticType.NUMBER, f"{other} + {index}")
            made_of[f"{name}.c{index}"] = {f"{name}.{other}"} if other != "v" else set()
        texts = {"v": set[str](), **{each: {f"{name}.{each}"} for each in columns if each.startswith("c")}}
        for far, place in ((each, index) for index, each in enumerate(reach)):
            links = {f"{one} -> {two}" for one, two in zip([name, *reach[:place]], reach[: place + 1], strict=True)}
            texts[f"{far}.v"] = links
        segments = {}
        for index in range(draw.randint(0, 2)):
            text = draw.choice(sorted(texts))
            segments[f"g{index}"] = Segment(f"g{index}", f"{text} > {index}")
            made_of[f"{name}.g{index}"] = set(texts[text])
        measures = {}
        for index in range(draw.randint(1, 4)):
            ref, parts = f"{name}.m{index}", set[str]()
            earlier = draw.choice([None, *measures])
            text = draw.choice(sorted(texts))
            expr = f"sum({text})" if earlier is None else f"{earlier} + sum({text})"
            parts |= texts[text] | (set() if earlier is None else {f"{name}.{earlier}"})
            limit = draw.choice([None, *sorted(texts)])
            own = tuple(draw.sample(sorted(segments), draw.randint(0, len(segments))))
            parts |= (set() if limit is None else texts[limit]) | {f"{name}.{each}" for each in own}
            condition = None if limit is None else f"{limit} > 0"
            measures[f"m{index}"] = Measure(f"m{index}", expr, condition, own)
            made_of[ref] = parts
        sources[name] = Source(
            name, columns, ("id",), (name,), joins=joins, measures=measures, segments=segments, generated=True
        )
    return _World(Model("w", "duckdb", sources), made_of)


def _asked(world: _World, draw: random.Random) -> tuple[dict[str, list[str]], set[str]]:
    sources = list(world.model.sources)
    name = draw.choice(sources)
    measures = draw.sample(sorted(world.model.sources[name].measures), 1)
    parts = set().union(*(world.all_of(f"{name}.{each}") for each in measures))
    query = {"measures": [f"{name}.{each}" for each in measures]}
    after = sources[sources.index(name) :]
    if draw.random() < 0.5:
        far = draw.choice(after)
        query["dimensions"] = [f"{far}.v"]
        way = after[: after.index(far) + 1]
        parts |= {f"{one} -> {two}" for one, two in pairwise(way)}
    return query, parts


def _told(used: Sequence[Used], given: Mapping[str, Status]) -> Status:
    found = status_of(used, lambda each: DefinitionStatus(each.definition, given[str(each.definition)], ""))
    return Status(found["weakest"])


def _graphs(first: int, count: int) -> Iterator[tuple[Status, Status]]:
    """Yield the status of receipts and that of their weakest part, as the maker of the layer knows it."""
    for seed in range(first, first + count):
        world, draw = _world(seed), random.Random(-seed - 1)
        given = {each: draw.choice(list(Status)) for each in sorted(world.made_of)}
        query, parts = _asked(world, draw)
        used = used_definitions(compile_query(world.model, query))
        expected = lowest(given[each] for each in parts)
        assert expected is not None
        yield _told(used, given), expected


def test_no_receipt_is_above_its_weakest_part() -> None:
    found = list(_graphs(0, 50))
    assert all(told is expected for told, expected in found)
    assert {told for told, _ in found} == set(Status)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10 if FULL else 1))
def test_no_receipt_of_ten_thousand_is_above_its_weakest_part(part: int) -> None:
    assert all(told is expected for told, expected in _graphs(1_000 * (part + 1), 1_000 if FULL else 300))


def _used(kind: DefinitionKind, name: str, path: str | None, claimed: Status | None = None) -> Used:
    return Used(Definition(kind, "" if kind is DefinitionKind.AGGREGATE else "orders", name), path, claimed, "why")


OWN = _used(DefinitionKind.MEASURE, "revenue", "orders.yaml")
PROPOSAL = _used(DefinitionKind.MEASURE, "revenue", "_schema/all.yaml", Status.PROPOSED)
OF_DBT = _used(DefinitionKind.MEASURE, "revenue", "_schema/all.yaml", Status.ACCEPTED)
DECLARED = _used(DefinitionKind.JOIN, "customers", None, Status.ACCEPTED)
INFERRED = _used(DefinitionKind.JOIN, "customers", None, Status.PROPOSED)
IN_QUERY = _used(DefinitionKind.AGGREGATE, "sum(orders.amount)", None, Status.PROPOSED)


@pytest.mark.table(
    ("used", "status", "least", "hint"),
    [
        (OWN, "proposed", "accepted", "to accept it: ktx sl accept orders.revenue"),
        (PROPOSAL, "proposed", "accepted", "to accept it: ktx sl accept orders.revenue"),
        (
            OWN,
            "accepted",
            "certified",
            "an owner listed in owners.yaml can certify it: ktx sl accept orders.revenue --certify",
        ),
        (
            OWN,
            "proposed",
            "certified",
            "an owner listed in owners.yaml can certify it: ktx sl accept orders.revenue --certify",
        ),
        (OF_DBT, "accepted", "certified", "only a definition in one of your own files can be certified"),
        (DECLARED, "accepted", "certified", "only a definition in one of your own files can be certified"),
        (INFERRED, "proposed", "accepted", "to accept the join: ktx scan relationships --table orders"),
        (INFERRED, "proposed", "certified", "to accept the join: ktx scan relationships --table orders"),
        (IN_QUERY, "proposed", "certified", "use a measure of the semantic layer instead"),
    ],
)
@pytest.mark.parametrize("is_asked", [True, False])
def test_a_status_that_is_too_low_leads_to_what_raises_it(
    used: Used, status: str, least: str, hint: str, is_asked: bool
) -> None:
    def status_of_definition(each: Used) -> DefinitionStatus:
        return DefinitionStatus(each.definition, Status(status if each is used else "certified"), each.why)

    others = [_used(DefinitionKind.MEASURE, "best", "orders.yaml"), used]
    found = status_of(others, status_of_definition)
    with pytest.raises(SemanticError) as caught:
        require_status(found, Status(least), others, status_of_definition, is_asked=is_asked)
    lower = f'"min_status": "{status}"' if is_asked else f"ktx config set semantic.min_status {status}"
    assert caught.value.hint == f"{hint}; or lower the requirement with `{lower}`"
