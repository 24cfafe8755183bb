"""Every name on the lists is built in at a real server, so that no function of a database's own runs by it."""

from __future__ import annotations

import uuid

import pytest

from ktx_cli.core.errors import SourceError
from ktx_cli.testing.servers import MariaDBServer, PostgresServer
from ktx_cli.warehouses.dialect import words_in
from ktx_cli.warehouses.guard.check import check
from ktx_cli.warehouses.guard.functions import listed, server_of
from ktx_cli.warehouses.port import ConnectionSpec
from ktx_cli.warehouses.registry import connect

NOT_THERE = (1305, 1630)
"""What MariaDB says of a function that it has not built in, when the database has none of that name either."""

GRAMMAR = frozenset(
    {"all", "any", "array", "cast", "coalesce", "current_catalog", "current_role", "greatest", "grouping", "least"}
    | {"localtimestamp", "nullif", "row", "some", "xmlconcat", "xmlelement", "xmlforest", "xmlparse"}
)
"""Words of Postgres' grammar that stand before a bracket; its catalog has no functions of these names."""


@pytest.mark.mysql
def test_every_name_on_the_list_is_built_in_at_mariadb_with_any_number_of_arguments(
    mariadb_server: MariaDBServer,
) -> None:
    import pymysql

    name = f"built{uuid.uuid4().hex[:8]}"
    mariadb_server.create_database(name)
    session = pymysql.connect(
        host=mariadb_server.host, port=mariadb_server.port, user="admin", password="admin", database=name
    )
    strange = []
    with session, session.cursor() as cursor:
        cursor.execute("SELECT VERSION()")
        ((version,),) = cursor.fetchall()
        for function in sorted(listed("mysql", server_of(version))):
            for count in range(5):
                try:
                    cursor.execute(f"SELECT {function}({', '.join(['1'] * count)})")
                    cursor.fetchall()
                except pymysql.Error as error:
                    strange += [(function, count)] if error.args[0] in NOT_THERE else []
    assert strange == []


@pytest.mark.mysql
def test_no_function_of_a_mariadb_database_runs_by_a_name_that_mysql_has(mariadb_server: MariaDBServer) -> None:
    name = f"own{uuid.uuid4().hex[:8]}"
    functions = [f"CREATE FUNCTION {each}() RETURNS int RETURN 4242" for each in ("any_value", "levenshtein", "point")]
    url = mariadb_server.create_database(name, *functions)
    with connect(ConnectionSpec("shop", "mysql", {"url": url})) as connector:
        server = server_of(connector.query("SELECT VERSION()").rows[0][0])
        for function in ("any_value", "levenshtein", "point"):
            assert connector.query(f"SELECT {function}()").rows == ((4242,),)
            with pytest.raises(SourceError):
                check(f"SELECT {function}()", "mysql", max_rows=1, server=server)


@pytest.mark.postgres
def test_every_name_on_the_list_is_in_the_catalog_of_postgres(postgres_server: PostgresServer) -> None:
    import psycopg

    with psycopg.connect(postgres_server.url()) as session:
        if session.info.server_version < 150000:
            pytest.skip("the list is of Postgres 15")
        query = "SELECT proname FROM pg_proc WHERE pronamespace = 'pg_catalog'::regnamespace"
        functions = {name for (name,) in session.execute(query)}
        query = (
            "SELECT typname FROM pg_type WHERE typnamespace = 'pg_catalog'::regnamespace AND typtype IN ('b', 'r', 'm')"
        )
        types = {name for (name,) in session.execute(query)}
    assert listed("postgres") - functions - GRAMMAR == set()
    assert set(words_in("ktx_cli.warehouses.postgres", "types.txt")) - types == set()


@pytest.mark.postgres
def test_a_function_of_another_schema_does_not_run_by_a_name_of_the_catalog(postgres_server: PostgresServer) -> None:
    url = postgres_server.create_database(
        f"own{uuid.uuid4().hex[:8]}",
        "CREATE FUNCTION public.lower(int) RETURNS text LANGUAGE sql AS $$SELECT 'ours'$$",
        "CREATE DOMAIN public.positive AS int CHECK (VALUE > 0)",
    )
    with connect(ConnectionSpec("shop", "postgres", {"url": url})) as connector:
        with pytest.raises(SourceError, match=r"lower\(integer\) does not exist"):
            connector.query(check("SELECT lower(1)", "postgres", max_rows=1).sql)
        with pytest.raises(SourceError, match="is not built in"):
            check("SELECT 1::public.positive", "postgres", max_rows=1)
