"""Say in a sentence what a scan decided about a relationship, and what the decision depends on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

from ktx_cli.scan.relationships.record import DOUBT_TEXTS, MAX_VIOLATIONS, Doubt, Status, column_name, effective_doubts
from ktx_cli.semantic import quoted

if TYPE_CHECKING:
    from ktx_cli.scan.relationships.evidence import CandidateEvidence, ChildEvidence
    from ktx_cli.scan.relationships.record import Relationship


def share(part: float, whole: float) -> str:
    """Return a percentage that is only `0%` or `100%` if it is exactly that."""
    if not whole or not part:
        return "0%"
    percent = 100 * part / whole
    if percent < 0.1:
        return "less than 0.1%"
    return f"{percent:.1f}".removesuffix(".0") + "%" if part >= whole or percent < 99.95 else "99.9%"


def emptiness(child: ChildEvidence, evidence: CandidateEvidence) -> str:
    """Return which end of a relationship has no values."""
    if child.distinct:
        name = column_name(evidence.parent, evidence.parent_columns)
        table = f"The referenced table `{quoted(evidence.parent.name)}` is empty"
        return f"The referenced column `{name}` is empty" if evidence.key_rows else table
    return "The column is empty" if child.rows else f"The table `{quoted(child.child.name)}` is empty"


def winner_over(child: ChildEvidence, evidence: CandidateEvidence) -> CandidateEvidence | None:
    """Return the candidate that was chosen instead of another, or None if that one was chosen."""
    if evidence.lost is None:
        return None
    return next((each for each in child.candidates if each.lost is None and each.condition is None), None)


def scan_decision(
    found: Relationship, child: ChildEvidence | None, evidence: CandidateEvidence | None, *, alone: bool = False
) -> str:
    """Return the decision of the scan about a relationship, and what it depends on, in a sentence.

    `alone`: a person decided otherwise, or a source did, so that it is what the scan would decide.
    """
    did = f"On its own, the scan would {_WOULD[found.status]}" if alone else f"The scan {_DID[found.status]}"
    score = f"{found.probability:.3f}"
    if child is None or evidence is None:
        return f"{did} (score {score}). {found.reason}"
    limits = child.thresholds
    least, most = f"{limits.review_threshold:g}", f"{limits.accept_threshold:g}"
    if found.status is Status.ACCEPTED:
        return f"{did}: the score is {score}, and the threshold is {most}."
    if found.status is Status.REJECTED:
        if evidence.probability < limits.review_threshold:
            return f"{did}: the score is {score}, and the minimum for review is {least}."
        return f"{did} although the score is {score}: {_lost_text(child, evidence) or loss_clause(found.reason)}"
    if evidence.probability < limits.accept_threshold:
        why = f"the score is {score}, and the threshold is {most}"
        if evidence.probability < limits.review_threshold:
            why = f"the score is only {score}"
        empty = emptiness(child, evidence)
        unproven = f", but {empty[:1].lower()}{empty[1:]}, so no row can decide" if evidence.empty else ""
        return f"{did}: {why}{unproven}."
    return f"{did} although the score is {score}: {_review_reason(child, evidence)}."


def doubts_of(evidence: CandidateEvidence) -> tuple[Doubt, ...]:
    """Return the doubts about a candidate that count at its probability."""
    return effective_doubts(evidence.doubts, evidence.probability)


def _review_reason(child: ChildEvidence, evidence: CandidateEvidence) -> str:
    if doubts := doubts_of(evidence):
        return "; ".join(DOUBT_TEXTS[each] for each in doubts)
    if evidence.check is None:
        empty = emptiness(child, evidence)
        return f"{empty[:1].lower()}{empty[1:]}" if evidence.empty else "the values could not be compared"
    missing = share(evidence.check.missing, evidence.check.rows)
    what = "values" if evidence.check.compared == evidence.check.rows else "rows"
    return f"{missing} of the {what} have no match, and at most {share(MAX_VIOLATIONS, 1)} are tolerated"


_DID: Final[Mapping[Status, str]] = {
    Status.ACCEPTED: "accepted it",
    Status.REVIEW: "left it for review",
    Status.REJECTED: "rejected it",
}
_WOULD: Final[Mapping[Status, str]] = {
    Status.ACCEPTED: "accept it",
    Status.REVIEW: "leave it for review",
    Status.REJECTED: "reject it",
}


def loss_clause(reason: str, join: str = "it") -> str:
    """Return the reason why a candidate lost as a clause within a sentence. `join`: what to call the candidate."""
    verb, _, rest = reason.partition(" ")
    if verb == "Would":
        fact, separator, proof = rest.removesuffix(".").partition(": ")
        return f"{join} would {fact} ({proof})." if separator else f"{join} would {rest}"
    return f"{join} is implied {rest}" if verb == "Implied" else f"{reason[:1].lower()}{reason[1:]}"


def _lost_text(child: ChildEvidence, evidence: CandidateEvidence) -> str | None:
    """Return why another candidate of the column was chosen, or None if none was."""
    if evidence.lost is None:
        return None
    chosen = None if evidence.barred else winner_over(child, evidence)
    if chosen is None:
        return loss_clause(evidence.lost)
    name = column_name(chosen.parent, chosen.parent_columns)
    return f"a column can refer to only one key, and `{name}` is preferred ({chosen.probability:.3f})."
