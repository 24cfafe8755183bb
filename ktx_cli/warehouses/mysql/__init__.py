"""MySQL and MariaDB."""

from ktx_cli.project import Question
from ktx_cli.warehouses.registry import Warehouse

WAREHOUSE = Warehouse(
    driver="mysql",
    dialect="mysql",
    settings="ktx_cli.warehouses.mysql.settings:MysqlConnection",
    connector="ktx_cli.warehouses.mysql.connector:MySqlConnector",
    package="pymysql",
    requirement="ktx-cli[mysql]",
    schemes=("mysql", "mariadb"),
    takes_url=True,
    questions=(
        Question("host", required=True, default="localhost"),
        Question("port", default="3306"),
        Question("name", required=True),
        Question("user", required=True),
        Question("password"),
    ),
)
