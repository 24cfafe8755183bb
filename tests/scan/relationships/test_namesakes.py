"""One decision for the columns of one name."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import pytest

from ktx_cli.scan.relationships.candidates import overlap_in_memory, pool_namesakes
from ktx_cli.scan.relationships.columns import Candidate, DatabaseFacts, NameMatch

Gathered = Callable[..., DatabaseFacts]
MEMBERS = {"id": list(range(1, 31))}
CRATES = {"id": list(range(1, 8))}
VALUES: Sequence[list[int]] = ([2, 3], [28], [5, 11], [3])
"""The values of `author` in four tables."""


def supported(
    gathered: Gathered,
    probabilities: Mapping[str, Sequence[float | None]],
    values: Sequence[list[int]] = VALUES,
    match: float = 0.0,
    called: str = "author",
) -> set[str]:
    """Return the candidates that namesakes support. `probabilities`: key -> those of the tables, or none."""
    tables = {f"t{number}": {"id": [*range(40, 40 + len(each))], called: each} for number, each in enumerate(values)}
    facts = gathered({"member": MEMBERS, "crate": CRATES, **tables})
    columns = {str(column): column for column in facts.columns}
    candidates = []
    for key, each in probabilities.items():
        for number, probability in enumerate(each):
            if probability is not None:
                child = columns[f"t{number}.{called}"]
                overlap = overlap_in_memory(child, columns[key])
                name = NameMatch(match, 0.0)
                candidates.append(Candidate(child, columns[key], name, {"values"}, overlap, probability=probability))
    before = [candidate.probability for candidate in candidates]
    pool_namesakes(facts.columns, candidates)
    raised = [each for each, probability in zip(candidates, before, strict=True) if each.probability > probability]
    assert raised == [each for each in candidates if "namesakes" in each.sources]
    return {f"{each.child} -> {each.key}" for each in raised}


ALL = {f"t{number}.author -> member.id" for number in range(4)}


@pytest.mark.table(
    ("probabilities", "expected"),
    [
        ({"member.id": (0.5, 0.9, 0.4, 0.3)}, ALL),
        ({"member.id": (0.5, 0.9, 0.6, None)}, ALL - {"t3.author -> member.id"}),
        ({"member.id": (0.4, 0.4, 0.4, 0.4)}, ALL),
        ({"member.id": (0.2, 0.2, 0.2, 0.2)}, set()),
        ({"member.id": (0.9, None, None, None)}, set()),
        ({"crate.id": (0.9, 0.9, 0.9, 0.9)}, set()),
        ({"member.id": (0.5,) * 4, "crate.id": (0.5, None, None, 0.5)}, ALL),
    ],
)
def test_a_key_needs_the_values_and_the_support_of_all(
    gathered: Gathered, probabilities: Mapping[str, Sequence[float | None]], expected: set[str]
) -> None:
    assert supported(gathered, probabilities) == expected


def test_two_keys_that_are_as_likely_decide_nothing(gathered: Gathered) -> None:
    close = {"member.id": (0.5,) * 4, "crate.id": (0.4,) * 4}
    assert not supported(gathered, close, values=([2, 3], [5], [6, 7], [3]))


@pytest.mark.table(("values", "match"), [(VALUES[:2], 0.0), (VALUES, 0.8)])
def test_clear_names_and_two_columns_are_left_alone(
    gathered: Gathered, values: Sequence[list[int]], match: float
) -> None:
    assert not supported(gathered, {"member.id": (0.5,) * len(values)}, values, match)


def test_subtypes_that_share_a_key_decide_nothing(gathered: Gathered) -> None:
    tables = {f"t{number}": {"id": [*range(40, 40 + len(each))], "author": each} for number, each in enumerate(VALUES)}
    for key in ("party_no", "no"):
        facts = gathered({"party": {key: MEMBERS["id"]}, "rep": {key: MEMBERS["id"], "label": ["x"] * 30}, **tables})
        parent, part = (
            next(each for each in facts.columns if str(each) == f"{name}.{key}") for name in ("party", "rep")
        )
        authors = [column for column in facts.columns if column.name == "author"]
        candidates = [
            Candidate(
                child, own, NameMatch(0.0, 0.0), {"values"}, overlap_in_memory(child, own), probability=probability
            )
            for child in authors
            for own, probability in ((parent, 0.8), (part, 0.1))
        ]
        pool_namesakes(facts.columns, candidates)
        assert any("namesakes" in each.sources for each in candidates) is (key == "no")


@pytest.mark.table(
    ("called", "values", "is_supported"),
    [
        ("author", ([2], [2], [2, 3]), True),
        ("priority", ([2], [2], [2, 3]), False),
        ("priority", ([2, 3], [5, 11], [28]), True),
    ],
)
def test_a_few_values_of_all_namesakes_say_nothing_unless_they_name_who_wrote_a_row(
    gathered: Gathered, called: str, values: Sequence[list[int]], is_supported: bool
) -> None:
    found = supported(gathered, {"member.id": (0.5,) * len(values)}, values, called=called)
    assert found == ({f"t{number}.{called} -> member.id" for number in range(len(values))} if is_supported else set())
