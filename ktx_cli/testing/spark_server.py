"""A throw-away Spark Connect server for tests: one Java process with little memory and its tables in its own folder."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import Any, Final

from ktx_cli.testing.servers import ServerMissingError, TestServer
from ktx_cli.warehouses.spark.session import import_client

_OPENED: Final = (
    *("java.lang", "java.lang.invoke", "java.lang.reflect", "java.io", "java.net", "java.nio", "java.util"),
    *("java.util.concurrent", "java.util.concurrent.atomic", "sun.nio.ch", "sun.nio.cs", "sun.security.action"),
    "sun.util.calendar",
)
"""The packages of Java that Spark looks into, which Java does not allow by default."""

_SETTINGS: Final = {
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    # Every stage of a query has one task: the tables are small, and each task takes longer than their rows.
    "spark.default.parallelism": "1",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.leafNodeDefaultParallelism": "1",
    # Without it, each statement is compiled to Java again, which takes longer than to run it.
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    # A second catalog, in a database within the server's memory.
    "spark.sql.catalog.other": "org.apache.spark.sql.execution.datasources.v2.jdbc.JDBCTableCatalog",
    "spark.sql.catalog.other.url": "jdbc:derby:memory:other;create=true",
    "spark.sql.catalog.other.driver": "org.apache.derby.iapi.jdbc.AutoloadedDriver",
}


class SparkServer(TestServer):
    """A Spark Connect server with a second catalog `other`; sessions of ktx are not used to fill it."""

    title = "spark"

    @classmethod
    def find(cls) -> Path | None:
        """Return the folder with the libraries of the server that `make spark` installs, or None without them."""
        found = sorted(Path(sys.prefix).glob("spark/lib/python*/site-packages/pyspark/jars"))
        return found[-1] if found else None

    @property
    def url(self) -> str:
        """The address: `sc://127.0.0.1:port`."""
        return f"sc://{self.host}:{self.port}"

    def execute(self, *statements: str) -> None:
        """Run statements one by one in a session of the client itself."""
        session = self._session()
        try:
            for statement in statements:
                session.sql(statement)
        finally:
            session.stop()

    def create_database(self, name: str, *statements: str) -> None:
        """Create a schema, which replaces one of this name, and run the statements in it."""
        self.execute(
            f"DROP DATABASE IF EXISTS `{name}` CASCADE", f"CREATE DATABASE `{name}`", f"USE `{name}`", *statements
        )

    def _session(self) -> Any:
        import_client()
        from pyspark.sql.connect.session import SparkSession

        session = SparkSession(self.url)
        session.conf.set("spark.sql.session.timeZone", "UTC")
        # Else a text is not stored in a column of dates.
        session.conf.set("spark.sql.storeAssignmentPolicy", "LEGACY")
        return session

    def _initialise(self) -> None:
        if self.find() is None:
            raise ServerMissingError("no Spark server: make spark")
        if shutil.which("java") is None:
            raise ServerMissingError("no Java for the Spark server: apt-get install openjdk-17-jre-headless")

    def _command(self) -> list[str]:
        settings = {
            **_SETTINGS,
            "spark.connect.grpc.binding.port": str(self.port),
            "spark.sql.warehouse.dir": str(self.folder / "warehouse"),
            "spark.local.dir": str(self.folder),
        }
        return [
            str(shutil.which("java")), "-Xmx768m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Xshare:auto",
            f"-Djava.io.tmpdir={self.folder}", f"-Dderby.system.home={self.folder}",
            "-Duser.timezone=Asia/Tokyo",  # What the server has must not matter.
            "-Djdk.reflect.useDirectMethodHandle=false", "-Dio.netty.tryReflectionSetAccessible=true",
            *(f"--add-opens=java.base/{name}=ALL-UNNAMED" for name in _OPENED),
            "-cp", f"{self.find()}/*", "org.apache.spark.deploy.SparkSubmit", "--master", "local[2]",
            "--class", "org.apache.spark.sql.connect.service.SparkConnectServer",
            *(part for name, value in settings.items() for part in ("--conf", f"{name}={value}")),
            "spark-internal",
        ]  # fmt: skip

    def _environ(self) -> dict[str, str]:
        # SPARK_USER: else Hadoop asks the system for the groups of a user it may not have.
        return {**super()._environ(), "SPARK_USER": "ktx", "SPARK_LOCAL_IP": self.host, **_java_home()}


def _java_home() -> dict[str, str]:
    return {"JAVA_HOME": os.environ["JAVA_HOME"]} if "JAVA_HOME" in os.environ else {}
