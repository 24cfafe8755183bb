"""The files of a connection's records."""

from __future__ import annotations

from dataclasses import replace

import pytest

from ktx_cli.scan import committed
from ktx_cli.scan.committed import Records
from ktx_cli.scan.descriptions.facts import Described
from ktx_cli.scan.relationships.record import Relationship, RelationshipRecord, Status
from ktx_cli.warehouses.port import TableRef

A, B = TableRef(None, "a"), TableRef(None, "b")
KNOWN = RelationshipRecord(
    relationships=(Relationship(A, ("b_id",), B, ("id",), Status.ACCEPTED, 0.9, "named as the key is"),)
)
RECORDS = Records(KNOWN, {A: Described(A, "hash", "rules", "all a", {})})


def test_what_is_the_same_is_not_written_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    texts = RECORDS.contents()
    alike = Records(replace(KNOWN), dict(RECORDS.texts))
    monkeypatch.setattr(committed, "record_text", lambda known: pytest.fail("it is there already"))
    assert alike.contents(RECORDS, texts) == texts


def test_what_differs_is_written_anew() -> None:
    texts = RECORDS.contents()
    less = Records(RelationshipRecord(), {})
    assert less.contents(RECORDS, texts) == less.contents() != texts
    assert Records().contents(RECORDS, texts) == {}
