"""When a second look may take what the first one found: the proof, and the way there and back of what was found."""

from __future__ import annotations

import datetime
from typing import Any

import pytest

from ktx_cli.project.config.blocks import Scan
from ktx_cli.scan.profile import reuse
from ktx_cli.scan.profile.reuse import (
    data_fingerprint,
    hints_digest,
    read_evidence,
    relationships_from_json,
    relationships_to_json,
)
from ktx_cli.scan.relationships.hints import FixedHints, JoinHint
from ktx_cli.scan.relationships.record import Cardinality, Check, KeyChoice, Relationship, RelationshipRecord, Status
from ktx_cli.warehouses.port import Column, SemanticType, Table, TableKind, TableRef

A, B = TableRef("main", "a"), TableRef(None, "b")


class Source:
    """A connector that proves what a test says."""

    def __init__(self, evidence: str | None = "as it was", dialect: str = "duckdb") -> None:
        self.dialect = dialect
        self.said = evidence

    def evidence(self) -> str | None:
        return self.said


def table(kind: TableKind = TableKind.TABLE, view_sql: str | None = None, **column: Any) -> Table:
    return Table(A, kind, (Column("x", "int", SemanticType.NUMBER, **column),), view_sql=view_sql)


def proof(source: Any, *tables: Table, scan: Scan | None = None) -> str | None:
    return data_fingerprint(read_evidence(source, tables), getattr(source, "dialect", ""), tables, scan or Scan())


def test_the_same_gives_the_same_proof_and_anything_else_another() -> None:
    first = proof(Source(), table())
    assert first is not None
    assert proof(Source(), table()) == first
    others = [
        proof(Source("changed"), table()),
        proof(Source(), table(), table()),
        proof(Source(), table(nullable=False)),
        proof(Source(), table(), scan=Scan.model_validate({"privacy": "strict"})),
        proof(Source(), table(), scan=Scan.model_validate({"relationships": {"profileSampleRows": 9}})),
    ]
    assert len({first, *others}) == 6
    assert None not in others


def test_another_ktx_gives_another_proof(monkeypatch: pytest.MonkeyPatch) -> None:
    first = proof(Source(), table())
    with monkeypatch.context() as patch:
        patch.setattr(reuse, "__version__", "0.0.0")
        assert proof(Source(), table()) != first
    monkeypatch.setattr(reuse, "_code", lambda: "edited")
    assert proof(Source(), table()) != first


def test_what_cannot_prove_itself_has_no_proof() -> None:
    assert proof(Source(None), table()) is None
    assert proof(object(), table()) is None
    assert proof(Source(), table(generated=True)) is None
    assert proof(Source(dialect="sqlite"), table(generated=True)) is not None


STEADY = [
    "CREATE VIEW v AS SELECT a, count(*) FROM t WHERE x IN (1, 2) GROUP BY a",
    "CREATE VIEW v(a, b) AS SELECT lower(trim(x)), CAST(y AS DECIMAL(10, 2)) FROM t",
    "create view v as with w as (select 1) select * from w union all (select 2)",
    "CREATE VIEW v AS (SELECT row_number() OVER (PARTITION BY a) FROM t);",
    " SELECT t.a,\n    count(*) AS n\n   FROM s.t\n  GROUP BY t.a;",
    "select `t`.`a` AS `a`,lower(`t`.`b`) AS `b` from (`s`.`t` join `s`.`u` on((`t`.`a` = `u`.`a`)))",
    "WITH w AS ( SELECT t.a FROM s.t) SELECT w.a FROM w",
    "(SELECT a FROM s.t) UNION ALL (SELECT a FROM s.u)",
    "CREATE VIEW v AS SELECT a -- the key\nFROM t /* all */",
]
OF_THE_MOMENT = [
    "CREATE VIEW v AS SELECT * FROM t WHERE d > now() - INTERVAL 7 DAY",
    "CREATE VIEW v AS SELECT * FROM t WHERE d > current_date",
    "CREATE VIEW v AS SELECT date('now'), x FROM t",
    "CREATE VIEW v AS SELECT CAST('today' AS DATE)",
    "CREATE VIEW v AS SELECT random() FROM t",
    "CREATE VIEW v AS SELECT * FROM t USING SAMPLE 10",
    "CREATE VIEW v AS SELECT * FROM t TABLESAMPLE reservoir(5)",
    "CREATE VIEW v AS SELECT strftime('%Y', d) FROM t",
    "CREATE VIEW v AS SELECT nextval('s')",
    'CREATE VIEW v AS SELECT "now"() FROM t',
    "CREATE VIEW v AS SELECT my_macro(x) FROM t",
    "CREATE VIEW v AS SELECT main.get_current_time () FROM t",
    *(
        f"SELECT {each} AS x FROM s.t"
        for each in (
            *("SESSION_USER", "system_user", "CURRENT_USER", "utc_date", "UTC_TIME()", "utc_timestamp(6)", "sysdate"),
            *("@@spid", "@@session.time_zone", "$region", "ids.nextval", "NEXT VALUE FOR ids", "`s`.`secret`(a)"),
            *("`f` (a)", "[s].[f](a)", '"s"."f"(a)', "f/* of the moment */(a)", "f -- pure count\n(a)"),
        )
    ),
    "-- SELECT 1\nCREATE VIEW v AS SELECT 1",
    "CREATE VIEW v AS /* body */ SELECT f(x), (SELECT y AS (SELECT 1)) FROM t",
    "",
    "no view at all",
]


def test_a_view_that_may_change_by_itself_proves_nothing() -> None:
    wrong = [sql for sql in STEADY if proof(Source(), table(TableKind.VIEW, sql)) is None]
    wrong += [sql for sql in OF_THE_MOMENT if proof(Source(), table(TableKind.VIEW, sql)) is not None]
    assert wrong == []


def inferred(**fields: Any) -> Relationship:
    return Relationship(A, ("b_id",), B, ("id",), Status.ACCEPTED, 0.912345678901, "said so", **fields)


FOUND = RelationshipRecord(
    {A: KeyChoice(("id",), False, 0.25, (("x", "y"), ("z",)), False), B: KeyChoice(("id",), True)},
    (
        inferred(),
        inferred(cardinality=Cardinality.ONE_TO_ONE, sources=("names", "view"), check=Check(10, 1, True)),
        inferred(condition=("kind", "Ålesund")),
        inferred(condition=("kind", 7)),
    ),
)


def test_what_was_found_comes_back_equal_with_rejected_relationships_of_any_score() -> None:
    text = relationships_to_json(FOUND)
    assert text is not None
    assert relationships_from_json(text) == FOUND
    assert relationships_from_json(relationships_to_json(RelationshipRecord()) or "") == RelationshipRecord()


def test_what_does_not_come_back_equal_is_not_kept() -> None:
    assert (
        relationships_to_json(
            RelationshipRecord(relationships=(inferred(condition=("day", datetime.date(2024, 1, 2))),))
        )
        is None
    )
    assert relationships_to_json(RelationshipRecord(relationships=(inferred(condition=("kind", (1, 2))),))) is None


def test_other_hints_are_told_apart() -> None:
    one, two = JoinHint(A, ("b_id",), B, ("id",), "model"), JoinHint(A, ("c_id",), B, ("id",), "model")
    assert hints_digest(FixedHints((one,)), None) == hints_digest(FixedHints((one,)), None)
    assert len({hints_digest(FixedHints(given), None) for given in ((), (one,), (two,), (one, two))}) == 4
    assert len({hints_digest(FixedHints((one,)), version) for version in (None, "1", "2")}) == 3
