"""What of T-SQL is one reading statement: without a semicolon between them two statements are a batch too."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.errors import SourceError
from ktx_cli.warehouses.sqlserver.connector import require_one_reading

READS = [
    "SELECT 1",
    "SELECT 1;",
    "SELECT 1 ; -- done; DROP TABLE t\n ;",
    "WITH x AS (SELECT 1 AS a) SELECT * FROM x",
    "SELECT 'it''s; DROP TABLE t' AS a, N'EXEC x' AS b",
    'SELECT [delete], "update", [a]]; drop] FROM t',
    "SELECT /* DROP TABLE t; */ 1",
    "SELECT updated_at, created, settings, execs, into_it, [set] FROM dbo.deleted_rows",
    "SELECT a FROM t INNER MERGE JOIN u ON t.a = u.a OPTION (MERGE JOIN)",
    "SELECT a FROM t OPTION (MERGE UNION, USE HINT ('FORCE_ORDER'))",
    "SELECT a FROM t ORDER BY a OFFSET 5 ROWS FETCH NEXT 5 ROWS ONLY",
    "SELECT CASE WHEN a = 1 THEN 2 ELSE 3 END, IIF(1 = 1, 0x0BAD, 1e5) FROM t FOR JSON PATH",
    "SELECT @@VERSION, $1.5, #t.a FROM #t",
    "SELECT TOP (5) WITH TIES a FROM t WITH (NOLOCK) ORDER BY a",
    "SELECT 1 EXCEPT SELECT 2 INTERSECT SELECT 3",
]
DOES_MORE = [
    "SELECT 1 DELETE FROM t",
    "SELECT 1DELETE FROM t",
    "SELECT 1eDELETE FROM t",
    "SELECT $DELETE FROM t",
    "SELECT 0x0DELETE FROM t",
    "SELECT 'a'DELETE FROM t",
    "SELECT [a]DELETE FROM t",
    "SELECT (1)DELETE FROM t",
    "SELECT 1/**/DELETE FROM t",
    "SELECT 1\x01DELETE FROM t",
    "SELECT 1\u00a0delete FROM t",
    "SELECT 1 ＤＥＬＥＴＥ FROM t",
    "SELECT 1 -- x\nDELETE FROM t",
    "SELECT 1 -- x\rDELETE FROM t",
    "SELECT 1 COMMIT",
    "SELECT a FROM t ROLLBACK DROP TABLE t",
    "SELECT 1; SELECT 2",
    "SELECT 1 EXEC sp_who",
    "SELECT * INTO u FROM t",
    "SELECT 1 SET NOCOUNT ON",
    "SELECT 1 USE master",
    "SELECT 1 MERGE t USING u ON 1 = 1 WHEN MATCHED THEN DELETE",
    "SELECT NEXT VALUE FOR dbo.s",
    "SELECT * FROM OPENROWSET(BULK 'c:/x', SINGLE_CLOB) AS f",
    "SELECT * FROM OPENQUERY(far, 'SELECT 1')",
    "SELECT 1 WAITFOR DELAY '0:0:9'",
    "SELECT 1 IF 1 = 1 PRINT 'x'",
    "WITH x AS (SELECT 1 AS a) UPDATE t SET a = 1",
    "SELECT 1 /* /* */ DELETE FROM t -- */",
    "SELECT 1 /* open",
    "SELECT 'open",
    "SELECT [open",
    'SELECT "open',
]


@pytest.mark.table("sql", READS)
def test_reads(sql: str) -> None:
    require_one_reading(sql, "here")


@pytest.mark.table("sql", DOES_MORE)
def test_does_more(sql: str) -> None:
    with pytest.raises(SourceError, match="ktx only reads") as caught:
        require_one_reading(sql, "here")
    assert caught.value.code == "read_only"


GAPS = st.sampled_from([" ", "\n", "\t", "/* x */", "-- x\n", " /* ' */ ", ", 'x'", " + [y] "])


@given(st.lists(GAPS, min_size=1, max_size=4), st.sampled_from(["DROP", "exec", "Commit", "SET", "into", "uPdAtE"]))
def test_no_gap_hides_a_word(gaps: list[str], word: str) -> None:
    with pytest.raises(SourceError):
        require_one_reading("SELECT 1" + "".join(gaps) + word + " x", "here")


@given(st.text(alphabet="ab '\"[];-/*\n1$@", max_size=40))
def test_any_text_gets_an_answer(text: str) -> None:
    try:
        require_one_reading(text, "here")
    except SourceError as error:
        assert error.code == "read_only"
