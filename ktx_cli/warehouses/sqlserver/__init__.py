"""Microsoft SQL Server and Azure SQL."""

from ktx_cli.project import Question
from ktx_cli.warehouses.registry import Warehouse

WAREHOUSE = Warehouse(
    driver="sqlserver",
    dialect="tsql",
    settings="ktx_cli.warehouses.sqlserver.settings:SqlServerConnection",
    connector="ktx_cli.warehouses.sqlserver.connector:SqlServerConnector",
    package="pymssql",
    requirement="ktx-cli[sqlserver]",
    schemes=("mssql", "sqlserver"),
    takes_url=True,
    questions=(
        Question("host", required=True, default="localhost"),
        Question("port", default="1433"),
        Question("name", required=True),
        Question("user", required=True),
        Question("password"),
    ),
)
