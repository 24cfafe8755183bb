"""Amazon Redshift."""

from ktx_cli.project import Question
from ktx_cli.warehouses.registry import Warehouse

WAREHOUSE = Warehouse(
    driver="redshift",
    dialect="redshift",
    settings="ktx_cli.warehouses.redshift.settings:RedshiftConnection",
    connector="ktx_cli.warehouses.redshift.connector:RedshiftConnector",
    package="psycopg",
    requirement="ktx-cli[redshift]",
    schemes=("redshift", "postgresql", "postgres"),
    takes_url=True,
    hosts=(".redshift.amazonaws.com", ".redshift-serverless.amazonaws.com"),
    questions=(
        Question("host", required=True),
        Question("port", default="5439"),
        Question("name", required=True),
        Question("user", required=True),
        Question("password"),
    ),
)
