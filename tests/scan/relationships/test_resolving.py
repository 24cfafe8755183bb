"""One parent a column, the nearest of several, no circles of keys."""

from __future__ import annotations

from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.scan.relationships.columns import Candidate, ColumnFacts, DatabaseFacts, NameMatch, Overlap
from ktx_cli.scan.relationships.discovery import Resolution, resolve

Gathered = Callable[..., DatabaseFacts]
TEN = list(range(1, 11))
CANDIDATES = st.lists(
    st.tuples(st.integers(0, 5), st.integers(0, 5), st.sampled_from([0.3, 0.5, 0.65, 0.8, 0.8, 0.95])),
    max_size=20,
    unique_by=lambda each: each[:2],
)


def pair(child: ColumnFacts, key: ColumnFacts, score: float, *, table: float = 0.5, missing: int = 0) -> Candidate:
    overlap = Overlap(10, missing, 10, 10 - missing, exact=True)
    return Candidate(child, key, NameMatch(table, 0.0), {"values"}, overlap, [], score)


def chosen(resolved: Resolution) -> set[str]:
    return {f"{pair.child} -> {pair.key}" for pair in resolved.winners}


def columns_of(gathered: Gathered) -> list[ColumnFacts]:
    return gathered({f"t{number}": {"id": TEN} for number in range(6)}).columns


@given(drawn=CANDIDATES)
def test_every_column_has_one_parent_at_most(gathered: Gathered, drawn: list[tuple[int, int, float]]) -> None:
    columns = columns_of(gathered)
    pairs = [pair(columns[child], columns[key], score) for child, key, score in drawn if child != key]
    resolved = resolve(pairs, 0.7)
    children = [each.child for each in resolved.winners]
    assert len(children) == len(set(children))
    assert all(each in pairs for each in resolved.winners)
    winners = set(resolved.winners)
    assert winners | resolved.losers.keys() == set(pairs)
    assert not winners & resolved.losers.keys()


@given(drawn=CANDIDATES)
def test_sure_relationships_form_no_cycle(gathered: Gathered, drawn: list[tuple[int, int, float]]) -> None:
    columns = columns_of(gathered)
    pairs = [pair(columns[child], columns[key], score) for child, key, score in drawn if child != key]
    sure = {each.child: each.key for each in resolve(pairs, 0.7).winners if each.probability >= 0.7}
    for start in sure:
        column = start
        for _ in range(len(sure)):
            column = sure.get(column, column)
            assert column is not start or start not in sure


@given(drawn=CANDIDATES, seed=st.randoms())
def test_the_order_of_pairs_does_not_matter(
    gathered: Gathered, drawn: list[tuple[int, int, float]], seed: object
) -> None:
    columns = columns_of(gathered)
    pairs = [pair(columns[child], columns[key], score) for child, key, score in drawn if child != key]
    first = resolve(pairs, 0.7)
    seed.shuffle(pairs)  # type: ignore[attr-defined]
    again = resolve(pairs, 0.7)
    assert (chosen(again), again.losers) == (chosen(first), first.losers)


def test_the_likelier_parent_wins_and_the_other_is_told_why(gathered: Gathered) -> None:
    one, two, child = columns_of(gathered)[:3]
    better, worse = pair(child, two, 0.9), pair(child, one, 0.6)
    resolved = resolve([worse, better], 0.7)
    assert resolved.winners == [better]
    assert resolved.losers == {worse: "`id` matches `t1.id` better."}


def test_two_keys_that_refer_to_one_another(gathered: Gathered) -> None:
    one, two, other = columns_of(gathered)[:3]
    there, back, instead = pair(one, two, 0.9), pair(two, one, 0.8), pair(two, other, 0.75)
    resolved = resolve([there, back, instead], 0.7)
    assert chosen(resolved) == {"t0.id -> t1.id", "t1.id -> t2.id"}
    assert resolved.losers == {back: "Would close a cycle: `t0.id` refers back to `t1.id`."}


def test_a_second_choice_does_not_close_a_longer_circle(gathered: Gathered) -> None:
    a, b, c, d = columns_of(gathered)[:4]
    pairs = [pair(a, b, 0.95), pair(b, a, 0.8), pair(b, c, 0.79), pair(c, d, 0.9), pair(d, a, 0.85)]
    resolved = resolve(pairs, 0.7)
    assert chosen(resolved) == {"t0.id -> t1.id", "t2.id -> t3.id", "t3.id -> t0.id"}


def test_the_nearest_of_a_chain_is_meant(gathered: Gathered) -> None:
    facts = gathered(
        {
            "people": {"id": list(range(1, 21))},
            "employees": {"id": list(range(1, 16))},
            "sales_employees": {"employee_id": TEN},
        }
    )
    person, employee, child = facts.columns
    far, near = pair(child, person, 0.9), pair(child, employee, 0.85, table=0.8)
    up = pair(employee, person, 0.8)
    assert chosen(resolve([far, near, up], 0.7)) >= {"sales_employees.employee_id -> employees.id"}
    assert "sales_employees.employee_id -> people.id" in chosen(resolve([far, near], 0.7))
    orphaned = pair(child, employee, 0.85, table=0.8, missing=3)
    assert "sales_employees.employee_id -> people.id" in chosen(resolve([far, orphaned, up], 0.7))


def test_names_in_reasons_are_as_relationships_have_them(gathered: Gathered) -> None:
    facts = gathered({" lead": {"id": TEN}, "lead": {"id": TEN}, "visits": {"lead ref": TEN}})
    padded, plain, child = facts.columns
    better, worse = pair(child, padded, 0.9), pair(child, plain, 0.6)
    assert resolve([worse, better], 0.7).losers == {worse: '`"lead ref"` matches `" lead".id` better.'}
