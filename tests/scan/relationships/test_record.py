"""Joins a model proposed or rejected: the record says so."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ktx_cli.scan.relationships.hints import with_origin
from ktx_cli.scan.relationships.record import Relationship, RelationshipRecord, Status, read_record, record_text
from ktx_cli.warehouses.port import TableRef


def inferred(reason: str, *sources: str) -> Relationship:
    ends = (TableRef(None, "a"), ("b_id",), TableRef(None, "b"), ("id",))
    return Relationship(*ends, Status.REVIEW, 0.5, reason, sources=sources)


@pytest.mark.table(
    ("found", "reason"),
    [
        (inferred("All values exist.", "names", "model"), "All values exist; proposed by the model."),
        (inferred("", "model"), "Proposed by the model."),
        (
            inferred("every value is found; proposed by the model", "model"),
            "every value is found; proposed by the model",
        ),
        (inferred("every value is found", "names", "values"), "every value is found"),
        (inferred("All values exist.", "model_rejected", "values"), "All values exist; rejected by the model."),
    ],
)
def test_the_reason_says_that_the_model_proposed_it(found: Relationship, reason: str) -> None:
    known = with_origin(RelationshipRecord(relationships=(found,)))
    assert read_record(record_text(known), "there").relationships[0].reason == reason


@pytest.mark.table(
    ("status", "probability", "source", "recorded"),
    [
        (Status.REJECTED, 0.1, "values", False),
        (Status.REJECTED, 0.2, "values", True),
        (Status.REVIEW, 0.1, "values", True),
        (Status.REJECTED, 0.1, "model", True),
        (Status.REJECTED, 0.1, "model_rejected", True),
    ],
)
def test_unlikely_ones_are_not_recorded_unless_a_model_answered(
    status: Status, probability: float, source: str, recorded: bool
) -> None:
    found = replace(inferred("All values exist.", source), status=status, probability=probability)
    assert RelationshipRecord(relationships=(found,)).recorded() == ((found,) if recorded else ())
