"""Figures over many databases: strict and confirmable, micro and macro, guessed keys apart, calibration by evidence.

Strict: every true link counts, also those that no row can show. Micro: all links together; macro: the mean over the
databases. A guessed key is that of a table with at most one row, where nothing but names can tell.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchmarks.relationship_fixtures.scoring import Answer, Rates, Score, rates
from benchmarks.relationship_fixtures.truth import Truth

EVIDENCE = (("no rows", 0, 0), ("1 to 20 rows", 1, 20), ("more rows", 21, None))
"""Names of sizes of evidence: the fewest and the most rows of the child with a value."""

PROBABLE = 0.5
BINS = 10


@dataclass(frozen=True, slots=True)
class Measured:
    """One database: its answer, and its scores with and without the links that no row can show."""

    truth: Truth
    answer: Answer
    strict: Score
    confirmable: Score


def report(cases: Sequence[Measured]) -> list[str]:
    """Return the lines of the report."""
    strict, confirmable = [case.strict.links for case in cases], [case.confirmable.links for case in cases]
    lines = [f"{'foreign keys':28} {'P':>6}{'R':>6}{'F1':>6}"]
    for name, each in (("strict", strict), ("confirmable", confirmable)):
        together = sum(each, Rates(0, 0, 0))
        lines.append(_line(f"{name}, micro", (together.precision, together.recall, together.f1)))
        means = [[getattr(one, figure) for one in each] for figure in ("precision", "recall", "f1")]
        lines.append(_line(f"{name}, macro", [sum(values) / len(values) for values in means]))
    lines.append(f"{'primary keys':28} {'P':>6}{'R':>6}{'F1':>6}")
    for name, each in (("of tables with rows", False), ("guessed, at most one row", True)):
        together = sum((_keys(case, guessed=each) for case in cases), Rates(0, 0, 0))
        lines.append(_line(name, (together.precision, together.recall, together.f1)))
    return [*lines, *_calibration(cases)]


def _line(name: str, figures: Iterable[float]) -> str:
    return f"  {name:26} " + "".join(f"{figure:6.3f}" for figure in figures)


def _keys(case: Measured, *, guessed: bool) -> Rates:
    """Return the rates of the keys of tables that rows can show, or of the others."""
    claimed = {key for key in case.answer.primary_keys if (key.table in case.answer.few) is guessed}
    wanted = {key for key in case.truth.primary_keys if (key.table in case.answer.few) is guessed}
    return rates(frozenset(claimed), frozenset(wanted))


def _calibration(cases: Sequence[Measured]) -> list[str]:
    lines = [f"{'shown edges, p >= 0.5':28} {'edges':>6}{'shown':>8}{'true':>8}{'error':>8}"]
    for name, least, most in (*EVIDENCE, ("all", 0, None)):
        shown = [
            (edge.probability, edge.link in case.truth.links)
            for case in cases
            for edge in case.answer.edges
            if edge.probability >= PROBABLE and least <= edge.rows and (most is None or edge.rows <= most)
            if edge.link not in case.truth.optional or edge.link in case.truth.links
        ]
        if shown:
            means = [sum(each[at] for each in shown) / len(shown) for at in (0, 1)]
            lines.append(f"  {name:26} {len(shown):6}{means[0]:8.3f}{means[1]:8.3f}{calibration_error(shown):8.3f}")
    return lines


def calibration_error(shown: Iterable[tuple[float, bool]]) -> float:
    """Return the expected calibration error of (probability, whether true) in ten bins of equal mass.

    Equal probabilities count with the share of them that is true, so that their order does not matter.
    """
    groups: dict[float, list[bool]] = defaultdict(list)
    for probability, true in shown:
        groups[probability].append(true)
    ordered = [(p, sum(true) / len(true)) for p, true in sorted(groups.items()) for _ in true]
    size = -(-len(ordered) // BINS)
    bins = [ordered[start : start + size] for start in range(0, len(ordered), size)] if size else []
    return sum(abs(sum(p - true for p, true in each)) for each in bins) / max(1, len(ordered))
