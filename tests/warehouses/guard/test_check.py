"""What the guard refuses and why, what it writes, and that no text makes it fail in another way."""

from __future__ import annotations

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from sqlglot import Dialect
from sqlglot.parser import Parser

from ktx_cli.core.errors import KtxError, NotSupportedError, UsageError
from ktx_cli.warehouses.dialect import DIALECTS
from ktx_cli.warehouses.guard.check import MAX_CHARACTERS, MAX_DEPTH, StatementPolicy, catalog_query, check
from ktx_cli.warehouses.guard.functions import EITHER, Server, StatementRefusedError, known_classes, listed, server_of
from ktx_cli.warehouses.guard.nodes import ARGUMENTS, NODES
from ktx_cli.warehouses.guard.rendering import with_headers


def refusal(sql: str, dialect: str = "sqlite", **options: object) -> StatementRefusedError:
    with pytest.raises(StatementRefusedError) as caught:
        check(sql, dialect, max_rows=10, **options)  # type: ignore[arg-type]
    return caught.value


@pytest.mark.table(
    ("dialect", "sql", "rule", "names"),
    [
        ("sqlite", "DROP TABLE t", "root", "`DROP`"),
        ("postgres", "SELECT 1 INTO t", "construct", "INTO"),
        ("postgres", "SELECT 1 FROM t FOR UPDATE", "construct", "FOR UPDATE"),
        ("clickhouse", "SELECT 1 SETTINGS readonly = 0", "construct", "SETTINGS"),
        ("mysql", "SELECT @a := 5", "parameter", "`@a`"),
        ("mysql", "SELECT 1 /*! , 2 */", "comment", "`/*!`"),
        ("tsql", "SELECT * FROM t WITH (TABLOCKX)", "lock", "TABLOCKX"),
        ("duckdb", "FROM '/etc/passwd'", "file", "`/etc/passwd`"),
        ("postgres", "TABLE pg_authid", "catalog", "`pg_authid`"),
        ("sqlite", "SELECT * FROM pragma_database_list", "catalog", "`pragma_database_list`"),
        ("sqlite", 'SELECT * FROM main."PRAGMA_database_list" AS p', "catalog", "PRAGMA_database_list"),
        ("sqlite", "SELECT p.'ssn' FROM people AS p", "construct", "`'ssn'`"),
        ("sqlite", "SELECT 1 FROM people AS p JOIN people AS q USING ('ssn')", "construct", "`'ssn'`"),
        ("sqlite", "SELECT sum(pgsize) FROM dbstat", "catalog", "`dbstat`"),
        ("mysql", "SELECT * FROM information_schema.ALL_PLUGINS", "catalog", "ALL_PLUGINS"),
        ("mysql", "SELECT * FROM information_schema.DISKS", "catalog", "DISKS"),
        ("duckdb", "PIVOT t ON status USING sum(a)", "construct", "PIVOT without its values"),
        ("postgres", "SELECT format(name, 1) FROM t", "size", "a template that is not a string literal"),
        ("postgres", "SELECT format('%' || 90000 || 's', 1)", "size", "a width of more than 9,999"),
        ("mysql", "SELECT CAST(a AS BINARY(2000000)) FROM t", "size", "pads a value"),
        ("sqlite", "SELECT 1; SELECT 2", "statements", "2 statements"),
        ("sqlite", "", "statements", "no statement"),
        ("sqlite", "SELECT\u200b 1", "character", "ZERO WIDTH SPACE"),
        ("sqlite", "SELECT 'a\0b'", "character", "NUL"),
        ("sqlite", "SELECT FROM WHERE", "syntax", "sqlite"),
    ],
)
def test_a_refusal_names_the_rule_and_the_construct(dialect: str, sql: str, rule: str, names: str) -> None:
    error = refusal(sql, dialect)
    assert error.details["rule"] == rule
    assert names in error.message
    assert error.code == ("query" if rule == "syntax" else "read_only")
    assert error.exit_code == 1


def test_a_refused_function_comes_with_the_setting_that_allows_it() -> None:
    error = refusal("SELECT unaccent('a')", "postgres", connection="shop", allowed_functions=["Similarity"])
    assert "`unaccent`" in error.message
    setting = """ktx config set connections.shop.allowed_functions '["similarity", "unaccent"]'"""
    assert error.hint == f"if the function only reads, allow it: {setting}"
    assert error.details["function"] == "unaccent"


@pytest.mark.table(
    ("dialect", "sql"),
    [
        ("postgres", "SELECT pg_sleep(1)"),
        ("postgres", "SELECT pg_terminate_backend(1)"),
        ("postgres", "SELECT public.dblink('x', 'y')"),
        ("postgres", "SELECT nextval('s')"),
        ("mysql", "SELECT GET_LOCK('a', 1)"),
        ("mysql", "SELECT LOAD_FILE('/etc/passwd')"),
        ("sqlite", "SELECT load_extension('x')"),
        ("duckdb", "FROM read_csv('x.csv')"),
        ("tsql", "SELECT * FROM OPENROWSET('a', 'b', 'c')"),
        ("clickhouse", "SELECT * FROM url('http://x')"),
        ("snowflake", "SELECT SYSTEM$CANCEL_QUERY('x')"),
    ],
)
def test_how_to_allow_a_harmful_function_is_not_said(dialect: str, sql: str) -> None:
    error = refusal(sql, dialect)
    assert "allowed_functions" not in str(error.hint)
    assert error.hint


@pytest.mark.table(
    ("dialect", "sql", "hint"),
    [
        ("sqlite", "PRAGMA table_info(orders)", "SELECT name, type FROM pragma_table_info('orders')"),
        ("sqlite", "SHOW TABLES", "SELECT name, type FROM sqlite_schema"),
        ("postgres", "show TimeZone;", "SELECT current_setting('TimeZone')"),
        ("postgres", "SHOW data_directory", "SELECT table_schema, table_name FROM information_schema.tables"),
        ("mysql", "SHOW FULL COLUMNS FROM `shop`.`orders`", "WHERE table_name = 'orders'"),
        ("mysql", "EXPLAIN orders", "WHERE table_name = 'orders'"),
        ("mysql", "DESC orders", "WHERE table_name = 'orders'"),
        ("duckdb", "DESCRIBE orders", "WHERE table_name = 'orders'"),
        ("duckdb", "SUMMARIZE orders", "ktx scan shop --depth profile"),
        ("snowflake", "DESCRIBE TABLE db.s.orders", "WHERE table_name = 'orders'"),
        ("clickhouse", "SHOW TABLES FROM shop", "SELECT database, name FROM system.tables"),
        ("bigquery", "SHOW TABLES", "DATASET.INFORMATION_SCHEMA.TABLES"),
        ("duckdb", "DESCRIBE SELECT 1", "write a single SELECT"),
    ],
)
def test_a_statement_that_describes_gets_the_query_that_answers_it(dialect: str, sql: str, hint: str) -> None:
    error = refusal(sql, dialect, connection="shop")
    assert hint in str(error.hint)
    assert error.details["rule"] == "root"


@pytest.mark.parametrize("dialect", [dialect for dialect in DIALECTS if dialect != "spark"])
@pytest.mark.parametrize("table", [None, "it's"])
def test_the_queries_of_hints_are_let_through(dialect: str, table: str | None) -> None:
    assert check(catalog_query(dialect, table), dialect, max_rows=10).sql


@pytest.mark.table("sql", ["SELECT 'it''s'", 'SELECT "a""b"'])
def test_a_doubled_quote_that_versions_read_differently_is_refused(sql: str) -> None:
    assert refusal(sql, "spark").details["construct"] == "a doubled quote in a string"
    assert check("SELECT 'a' 'b', 'it\\'s'", "spark", max_rows=1).sql


def test_a_catalog_that_no_query_reads_is_shown_by_commands() -> None:
    assert [catalog_query("spark", table) for table in (None, "orders")] == ["ktx sl list", "ktx sl read orders"]
    assert refusal("SHOW TABLES", "spark").hint == "ktx sl list"
    assert refusal("DESCRIBE shop.orders", "spark").hint == "ktx sl read orders"


@pytest.mark.table(
    ("dialect", "sql", "headers"),
    [
        ("sqlite", "SELECT count(*), Sum( a ) FROM t", ("count(*)", "Sum( a )")),
        ("sqlite", "SELECT 1+1, a, b AS c, max(a) m FROM t", ("1+1", None, None, None)),
        (
            "sqlite",
            "SELECT 1+1, *, (SELECT max(b, 2) FROM u), t.* FROM t",
            ("1+1", "*", "(SELECT max(b, 2) FROM u)", "*"),
        ),
        ("sqlite", "WITH x AS (SELECT 1, 2) SELECT DISTINCT count(*) FROM x", ("count(*)",)),
        ("sqlite", "SELECT a||'x' UNION SELECT 2", ("a||'x'",)),
        ("sqlite", "(SELECT 1+1)", ("1+1",)),
        ("mysql", "select if(a>1,'x','y') from t", ("if(a>1,'x','y')",)),
        ("mysql", "select case when a then 1 end, b from t", ("case when a then 1 end", None)),
        ("sqlite", "VALUES (1)", ()),
        ("sqlite", "EXPLAIN QUERY PLAN SELECT count(*) FROM t", ()),
        ("postgres", "SELECT count(*) FROM t", ()),
    ],
)
def test_headers_are_of_the_text_as_it_was_written(dialect: str, sql: str, headers: tuple[str | None, ...]) -> None:
    assert check(sql, dialect, max_rows=10).headers == headers


def test_headers_beside_a_star_are_put_where_they_belong() -> None:
    found = ("1 + 1", "a", "b", "MAX(a)")
    assert with_headers(found, ("1+1", "*", "max(a)")) == ("1+1", "a", "b", "max(a)")
    assert with_headers(found, ("x", "y")) == found
    assert with_headers(("a",), ("1", "*", "2")) == ("a",)
    assert with_headers(found, ()) == found


@pytest.mark.table(
    ("version", "lists", "number"),
    [
        ("10.11.6-MariaDB-0+deb12u1", ("mariadb",), (10, 11, 6)),
        ("5.5.5-10.6.4-MariaDB", ("mariadb",), (10, 6, 4)),
        ("8.0.36", ("mysql",), (8, 0, 36)),
        ("5.7.44-log", ("mysql",), (5, 7, 44)),
        ("8.4", ("mysql",), (8, 4, 0)),
        ("odd", ("mysql",), ()),
    ],
)
def test_the_server_is_known_by_its_version(version: str, lists: tuple[str, ...], number: tuple[int, ...]) -> None:
    assert server_of(version) == Server(lists, number)


@pytest.mark.table(
    ("sql", "mysql", "older", "mariadb"),
    [
        ("SELECT ANY_VALUE(a) FROM t", True, True, False),
        ("SELECT BIN_TO_UUID(a) FROM t", True, False, False),
        ("SELECT NATURAL_SORT_KEY(a) FROM t", False, False, True),
        ("SELECT ROW_NUMBER() OVER (ORDER BY a) FROM t", True, False, True),
        ("SELECT POINT(1, 2)", True, True, False),
        ("SELECT a REGEXP 'x' FROM t", True, True, True),
        ("SELECT LEVENSHTEIN(a, b) FROM t", False, False, False),
        ("SELECT ANY_VALUE(a) FROM t LIMIT 11", True, True, False),  # sent as it is
        ("SELECT COUNT_IF(a) FROM t LIMIT 11", False, False, False),
        ("SELECT COALESCE(a, b), CAST(a AS CHAR(3)), a IN (1, 2) FROM t AS u (a, b)", True, True, True),
    ],
)
def test_what_is_built_in_depends_on_the_server(sql: str, mysql: bool, older: bool, mariadb: bool) -> None:
    for version, wanted in (("8.0.36", mysql), ("5.7.44", older), ("10.11.6-MariaDB", mariadb)):
        if wanted:
            assert check(sql, "mysql", max_rows=10, server=server_of(version)).sql
        else:
            assert refusal(sql, "mysql", server=server_of(version))


def test_a_statement_that_is_sent_as_it_is_is_read_once(monkeypatch: pytest.MonkeyPatch) -> None:
    check("SELECT b FROM t", "duckdb", max_rows=10)  # The first one loads the dialect, which parses texts of its own.
    read: list[str] = []
    parse = Parser.parse
    monkeypatch.setattr(Parser, "parse", lambda self, tokens, sql: [read.append(sql), parse(self, tokens, sql)][1])
    for sql in ("SELECT a FROM t LIMIT 11", "SELECT a FROM t", "select a from t limit 11"):
        assert check(sql, "duckdb", max_rows=10).sql == "SELECT a FROM t LIMIT 11"
    assert read == [
        "SELECT a FROM t LIMIT 11",
        *("SELECT a FROM t", "SELECT a FROM t LIMIT 11"),
        *("select a from t limit 11", "SELECT a FROM t LIMIT 11"),
    ]


def test_what_mysql_has_is_on_no_other_list() -> None:
    assert "any_value" in listed("mysql", EITHER)
    assert listed("mysql") < listed("mysql", server_of("8.0.36")) < listed("mysql", EITHER)
    assert [dialect for dialect in DIALECTS[4:] if listed(dialect, EITHER) != listed(dialect)] == []
    assert listed("postgres", EITHER) == listed("postgres")


def test_a_type_of_the_database_may_be_allowed() -> None:
    sql = "SELECT a::public.citext FROM public.t"
    assert refusal(sql, "postgres").details["rule"] == "type"
    assert check(sql, "postgres", max_rows=10, allowed_functions=["public.citext"]).sql
    assert refusal('SELECT a::"Mood" FROM t', "postgres")
    assert check("SELECT a::pg_catalog.text, b::box, c::int[] FROM t", "postgres", max_rows=10).sql


@pytest.mark.table(
    ("dialect", "sql", "name"),
    [
        ("postgres", "SELECT similarity('a', 'b')", "similarity"),
        ("postgres", "SELECT public.fiscal_year(1)", "public.fiscal_year"),
        ("postgres", "SELECT * FROM public.report(1) AS r", "public.report"),
        ("postgres", "SELECT a OPERATOR(public.=) b FROM public.t", "public.="),
        ("duckdb", "SELECT * FROM read_csv('x.csv')", "read_csv"),
        ("duckdb", "SELECT repeat('x', n) FROM t", "repeat"),
        ("duckdb", "SELECT lpad('x', n, ' ') FROM t", "LPAD"),
        ("clickhouse", "SELECT dictGet('d', 'a', 1)", "dictGet"),
        ("bigquery", "SELECT shop.fn(1)", "shop.fn"),
    ],
)
def test_a_connection_may_allow_a_function(dialect: str, sql: str, name: str) -> None:
    refusal(sql, dialect)
    assert check(sql, dialect, max_rows=10, allowed_functions=[name]).sql


def test_allowing_a_function_allows_no_namesake_of_a_schema() -> None:
    assert refusal("SELECT other.similarity('a')", "postgres", allowed_functions=["similarity"])
    assert refusal("SELECT similarity('a')", "postgres", allowed_functions=["public.similarity"])


def test_a_quoted_name_in_capitals_is_another_function() -> None:
    assert refusal('SELECT "PG_TYPEOF"(1)', "postgres")
    assert check('SELECT "pg_typeof"(1)', "postgres", max_rows=1).sql
    assert check('SELECT "PG_TYPEOF"(1)', "duckdb", max_rows=1).sql


@pytest.mark.table(
    ("dialect", "sql", "written"),
    [
        ("sqlite", "select 1 -- x", "SELECT 1 LIMIT 11"),
        ("sqlite", "SELECT 1 LIMIT 3", "SELECT 1 LIMIT 3"),
        ("sqlite", "SELECT 1 LIMIT 11", "SELECT 1 LIMIT 11"),
        ("sqlite", "SELECT 1 LIMIT 5000 OFFSET 2", "SELECT 1 LIMIT 11 OFFSET 2"),
        ("sqlite", "SELECT 1 UNION SELECT 2", "SELECT 1 UNION SELECT 2 LIMIT 11"),
        ("sqlite", "(SELECT 1)", "SELECT 1 LIMIT 11"),
        ("sqlite", "SELECT 1 LIMIT 2 * 3", "SELECT * FROM (SELECT 1 LIMIT 2 * 3) AS ktx_result LIMIT 11"),
        ("sqlite", "VALUES (1), (2)", "VALUES (1), (2)"),
        ("postgres", "SELECT 1 FETCH FIRST 90 ROWS ONLY", "SELECT 1 LIMIT 11"),
        ("postgres", "SELECT 1 FETCH FIRST 9 ROWS ONLY", "SELECT 1 FETCH FIRST 9 ROWS ONLY"),
        ("tsql", "SELECT a FROM t", "SELECT TOP 11 a FROM t"),
        ("tsql", "SELECT a FROM t FOR JSON PATH", "SELECT a FROM t FOR JSON PATH"),
        ("tsql", "SELECT TOP 99 a FROM t", "SELECT TOP 11 a FROM t"),
        ("mysql", "SELECT /*+ SET_VAR(x = 1) */ 'a\\'b'", "SELECT 'a''b' LIMIT 11"),
        ("duckdb", "EXPLAIN  FROM t", "EXPLAIN SELECT * FROM t"),
        ("postgres", "explain (analyze,\n costs off) select 1", "EXPLAIN (analyze, costs off) SELECT 1"),
    ],
)
def test_what_is_sent_is_written_anew_with_a_limit(dialect: str, sql: str, written: str) -> None:
    assert check(sql, dialect, max_rows=10).sql == written


@pytest.mark.table(
    ("sql", "written"),
    [
        ("SELECT * FROM orders", 'SELECT * FROM "sales".orders LIMIT 11'),
        ("SELECT * FROM Orders", 'SELECT * FROM "sales".Orders LIMIT 11'),
        ('SELECT * FROM "Orders"', 'SELECT * FROM "Orders" LIMIT 11'),
        ("SELECT * FROM other.orders", "SELECT * FROM other.orders LIMIT 11"),
        ("SELECT orders.id FROM orders", 'SELECT orders.id FROM "sales".orders LIMIT 11'),
        (
            "WITH orders AS (SELECT * FROM orders) SELECT * FROM orders",
            'WITH orders AS (SELECT * FROM "sales".orders) SELECT * FROM orders LIMIT 11',
        ),
        (
            "WITH a AS (SELECT 1), b AS (SELECT * FROM a, orders) SELECT * FROM b, (SELECT * FROM a) AS c",
            'WITH a AS (SELECT 1), b AS (SELECT * FROM a, "sales".orders) '
            "SELECT * FROM b, (SELECT * FROM a) AS c LIMIT 11",
        ),
        (
            "WITH RECURSIVE orders AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM orders WHERE n < 3) TABLE orders",
            "WITH RECURSIVE orders AS (SELECT 1 AS n UNION ALL SELECT n + 1 FROM orders WHERE n < 3) "
            "SELECT * FROM orders LIMIT 11",
        ),
    ],
)
def test_names_without_a_schema_get_it_and_names_of_with_do_not(sql: str, written: str) -> None:
    known = {"orders": "sales"}
    assert check(sql, "postgres", max_rows=10, schema_of=known.get).sql == written


@pytest.mark.table(
    "sql",
    [
        "SELECT " + "(" * (MAX_DEPTH + 1) + "1" + ")" * (MAX_DEPTH + 1),
        "SELECT " + "(" * 20_000,
        "SELECT 1" + " + 1" * 30_000,
        "SELECT " + "-" * 2 + "1",
        "SELECT " + "NOT " * 5000 + "1",
        "SELECT " + "CASE WHEN 1 THEN " * 100 + "1" + " END" * 100,
        "SELECT 1" + "::int" * 900,
        "SELECT 1" + " UNION SELECT 1" * 3000,
        "SELECT " + "f(" * 400 + ")" * 400,
        "SELECT '" + "x" * MAX_CHARACTERS + "'",
        "WITH " + ", ".join(f"a{n} AS (SELECT 1)" for n in range(9000)) + " SELECT 1",
    ],
)
def test_huge_statements_are_refused_not_fatal(sql: str) -> None:
    assert refusal(sql, "postgres").details["rule"] in ("size", "syntax")


def test_long_lists_and_conditions_are_let_through() -> None:
    values = ", ".join(map(str, range(5000)))
    assert check(f"SELECT * FROM t WHERE id IN ({values})", "postgres", max_rows=1).sql
    assert check("SELECT * FROM t WHERE " + " OR ".join(f"a = {n}" for n in range(2000)), "mysql", max_rows=1).sql


@pytest.mark.table("dialect", DIALECTS)
def test_the_lists_hold_nothing_that_acts(dialect: str) -> None:
    acting = {"pg_sleep", "sleep", "nextval", "setval", "load_extension", "load_file", "get_lock", "dblink", "query"}
    acting |= {"read_csv", "read_text", "file", "url", "s3", "remote", "xp_cmdshell", "pg_read_file", "lo_export"}
    acting |= {"set_config", "pg_terminate_backend", "query_to_xml", "system$wait", "java_method", "benchmark"}
    assert listed(dialect) & acting == set()
    assert len(listed(dialect)) > 100


def test_the_lists_name_what_the_parser_has() -> None:
    from sqlglot import exp

    assert [name for name in known_classes() if not hasattr(exp, name)] == []
    assert [name for name in NODES if not hasattr(exp, name)] == []
    assert {"ReadCSV", "NextValueFor", "Anonymous", "Predict"} & known_classes() == set()
    for name, arguments in ARGUMENTS.items():
        assert arguments <= set(getattr(exp, name).arg_types), name


def test_an_unknown_dialect_is_not_supported() -> None:
    with pytest.raises(NotSupportedError):
        check("SELECT 1", "no_such_dialect", max_rows=1)


def test_a_policy_refuses_raw_sql_with_its_reason() -> None:
    policy = StatementPolicy.of("shop", {"query_policy": "semantic-layer-only"})
    with pytest.raises(UsageError) as caught:
        policy.check("SELECT 1", "sqlite", max_rows=1)
    assert "semantic-layer-only" in caught.value.message
    assert caught.value.hint is not None
    assert "connections.shop.query_policy any" in caught.value.hint
    assert StatementPolicy.of("shop", {"query_policy": "any"}).check("SELECT 1", "sqlite", max_rows=1).sql


WORDS = "SELECT FROM t a 1 1e9 0x WITH AS UNION INTO DELETE CASE END EXPLAIN VALUES LIMIT OVER PIVOT INTERVAL FOR U& é"
SIGNS = "( ) , ' \" ` -- /* */ ; :: -> [ ] { } $$ @ : ? \\ # \u200b \0 \ud800"
PIECES = st.sampled_from([*WORDS.split(), *SIGNS.split(), "\n", " "])


@given(st.lists(PIECES, max_size=14).map(" ".join), st.sampled_from(DIALECTS))
@example("SELECT 'a", "postgres")
@example("UNDROP TABLE t", "snowflake")
@example("EXPLAIN", "postgres")
@example("t UNION SELECT t", "sqlite")
def test_any_text_is_let_through_or_refused(sql: str, dialect: str) -> None:
    try:
        written = check(sql, dialect, max_rows=5).sql
    except KtxError as error:
        assert error.code in ("read_only", "query")
    else:
        kinds = [token.token_type.name for token in Dialect.get_or_raise(dialect).tokenize(written)]
        assert "SEMICOLON" not in kinds
        assert kinds[0] in ("SELECT", "WITH", "VALUES", "L_PAREN", "DESCRIBE", "COMMAND")


@pytest.mark.parametrize("sql", ["t UNION SELECT 1", "(t) UNION SELECT 1", "1 EXCEPT SELECT 1", "f(1) UNION SELECT 1"])
@pytest.mark.parametrize("dialect", ["duckdb", "sqlite", "postgres", "mysql"])
def test_both_sides_of_a_set_operation_are_queries(sql: str, dialect: str) -> None:
    with pytest.raises(StatementRefusedError, match=r"is not a query|cannot be read"):
        check(sql, dialect, max_rows=5)
