"""PostgreSQL."""

from ktx_cli.project import Question
from ktx_cli.warehouses.registry import Warehouse

WAREHOUSE = Warehouse(
    driver="postgres",
    dialect="postgres",
    settings="ktx_cli.warehouses.postgres.settings:PostgresConnection",
    connector="ktx_cli.warehouses.postgres.connector:PostgresConnector",
    package="psycopg",
    requirement="ktx-cli[postgres]",
    schemes=("postgresql", "postgres"),
    takes_url=True,
    has_history=True,
    variables={
        "host": "PGHOST",
        "port": "PGPORT",
        "database": "PGDATABASE",
        "username": "PGUSER",
        "password": "PGPASSWORD",
        "sslmode": "PGSSLMODE",
    },
    variables_needed=("host",),
    questions=(
        Question("host", required=True, default="localhost"),
        Question("port", default="5432"),
        Question("name", required=True),
        Question("user", required=True),
        Question("password"),
    ),
)
