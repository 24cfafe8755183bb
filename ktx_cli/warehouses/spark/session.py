"""A session on a Spark Connect server: its address and settings, one statement at a time, and rows as Python values."""

from __future__ import annotations

import atexit
import importlib
import itertools
import logging
import sys
from collections.abc import Generator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final
from urllib.parse import unquote, urlsplit

from ktx_cli.core import Command, ConfigError, Hint, SettingPath
from ktx_cli.warehouses.base import ANY, FLAG, require_known
from ktx_cli.warehouses.server import is_local, option_flag

if TYPE_CHECKING:
    from ktx_cli.warehouses.port import ConnectionSpec

PORT: Final = 15002
PARAMETERS: Final[Mapping[str, tuple[str, ...]]] = {"token": ANY, "user_id": ANY, "use_ssl": FLAG}
"""The allowed parameters of the URL. The client would send any other one as a header of every request."""

SETTINGS: Final = {
    # Else `${env:NAME}` in a statement becomes a variable of the server's environment before Spark parses it.
    "spark.sql.variable.substitute": "false",
    # Else `SELECT * FROM csv.`/path`` reads any file that the server can read.
    "spark.sql.runSQLOnFiles": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.ansi.enabled": "true",
    "spark.sql.ansi.doubleQuotedIdentifiers": "false",
    "spark.sql.parser.quotedRegexColumnNames": "false",
    "spark.sql.parser.escapedStringLiterals": "false",
    "spark.sql.timestampType": "TIMESTAMP_LTZ",
    # Else DESCRIBE abbreviates the type of a struct with more than 25 fields.
    "spark.sql.debug.maxToStringFields": "100000",
}
"""The settings of every session: what a statement can read, and what its words mean."""

_RETRIES: Final = 2


@dataclass(frozen=True, slots=True)
class SparkAddress:
    """The address of a Spark Connect server and who connects to it."""

    host: str
    port: int
    user: str = ""
    token: str = field(default="", repr=False)
    tls: bool = False

    def __str__(self) -> str:
        return f"{self.host}:{self.port}"


def spark_address(spec: ConnectionSpec) -> SparkAddress:
    """Return the address in a connection's `url` (`sc://host:port/;token=...`) or its `host`, `port`, `token`, `ssl`.

    Separate fields override parts of the URL. Raises `ConfigError` for an invalid URL, and for a token that would be
    sent without TLS to another machine. It never shows the URL.
    """
    options = spec.options
    try:
        place, _, rest = str(options.get("url") or "").partition(";")
        parts = urlsplit(place)
        port = int(options.get("port") or parts.port or PORT)
        pairs = [pair.split("=", 1) for pair in rest.split(";") if pair]
        given = {name: unquote(value) for name, value in pairs}
    except ValueError:
        raise _bad_url(spec) from None
    if place and (parts.scheme != "sc" or parts.path not in ("", "/") or parts.query or "@" in parts.netloc):
        raise _bad_url(spec)
    require_known(spec, given, PARAMETERS)
    host = str(options.get("host") or parts.hostname or "")
    if not host:
        raise _bad_url(spec)
    token = str(options.get("token") or given.get("token", ""))
    flag = option_flag(options, "ssl")
    tls = option_flag(given, "use_ssl") if flag is None else flag
    if token and tls is False and not is_local(host):
        raise ConfigError(
            f"connection `{spec.id}`: Spark accepts tokens only over TLS",
            hint=Command("config", "set", f"connections.{spec.id}.ssl", "true"),
            details={"connection": spec.id},
        )
    user = str(options.get("user") or given.get("user_id", ""))
    return SparkAddress(host, port, user, token, bool(token) if tls is None else tls)


def _bad_url(spec: ConnectionSpec) -> ConfigError:
    place = SettingPath(f"connections.{spec.id}.url")
    return ConfigError(
        f"connection `{spec.id}`: its `url` cannot be read, or it contains no host",
        hint=Hint("set {} to sc://HOST:PORT, with a token in {}", place, SettingPath(f"connections.{spec.id}.token")),
        details={"connection": spec.id},
    )


Batch = tuple[tuple[str, ...], list[tuple[Any, ...]]]
"""The columns of a result, and some of its rows."""


class UnreadableValueError(Exception):
    """Raised for a result with a type that the client cannot read, such as an interval of months."""


class Session:
    """One session, which runs one statement at a time; `interrupt` may be called from another thread."""

    _numbers = itertools.count(1)

    def __init__(self, address: SparkAddress) -> None:
        import_client()
        from pyspark.sql.connect.client.retries import DefaultPolicy
        from pyspark.sql.connect.session import SparkSession

        # The client logs the text of every error of a statement on standard error.
        logging.getLogger("SQLQueryContextLogger").setLevel(logging.CRITICAL)
        self.broken = False
        self._tag = ""
        self._spark: Any = SparkSession(_channel(address), userId=address.user or None)
        self._client: Any = self._spark.client
        # It would call the server again when Python ends, which waits for ever if the server is gone.
        atexit.unregister(self._client._on_exit)
        self._client.disable_reattachable_execute()
        self._client.set_retry_policies([DefaultPolicy(max_retries=_RETRIES)])

    def prepare(self, catalog: str) -> None:
        """Make the settings of the session, and `catalog` the current one unless it is empty.

        A setting that the server has already is not sent: the client warns of those that are deprecated.
        """
        present = self._client.get_config_dict(*SETTINGS)
        for key, value in SETTINGS.items():
            if present.get(key) != value:
                self._spark.conf.set(key, value)
        if catalog:
            self._spark.catalog.setCurrentCatalog(catalog)

    def rows(self, sql: str, parameters: Sequence[Any] = ()) -> Generator[Batch]:
        """Yield the columns of a result, at first usually without rows, and its rows as the server sends them.

        A command is run as soon as the server has it, so a caller must have checked the statement.
        """
        from pyspark.sql.connect.dataframe import DataFrame
        from pyspark.sql.connect.plan import SQL

        self._tag = f"ktx-{next(self._numbers)}"
        self._client.add_tag(self._tag)
        complete = False
        try:
            frame = DataFrame(SQL(sql, [_literal(value) for value in parameters]), self._spark)
            plan = frame._plan.to_proto(self._client)
            for part in self._client.to_table_as_iterator(plan, {}):
                if hasattr(part, "fieldNames"):
                    yield tuple(part.fieldNames()), []
                else:
                    yield tuple(part.column_names), _values(part)
            complete = True
        except (KeyError, NotImplementedError) as error:
            raise UnreadableValueError("the client cannot read a value of this type") from error
        finally:
            self._client.clear_tags()
            if not complete and not self.broken:
                self.interrupt()
            self._tag = ""

    def interrupt(self) -> bool:
        """Ask the server to cancel the running statement, and no later one. Return whether it knows the statement."""
        tag = self._tag
        return bool(tag and self._client.interrupt_tag(tag))

    def cut(self) -> None:
        """Close the connection, which ends the running call at once."""
        self.broken = True
        self._client._channel.close()

    def close(self) -> None:
        """End the session on the server, and the connection."""
        if self.broken:
            self._client.close()
        else:
            self._spark.stop()


def import_client() -> None:
    """Import the client, which takes a program without a file (`python -c`, a worker) for its own tests and exits."""
    main = sys.modules["__main__"]
    if hasattr(main, "__file__") or "pyspark.sql.connect" in sys.modules:
        return
    main.__file__ = "ktx"
    try:
        importlib.import_module("pyspark.sql.connect")
    finally:
        del main.__file__


def _channel(address: SparkAddress) -> Any:
    """Return what opens the connection: as the client does, but with nothing taken from the environment."""
    from pyspark.sql.connect.client import DefaultChannelBuilder

    class Channel(DefaultChannelBuilder):
        @property
        def token(self) -> str | None:
            return address.token or None

    host = f"[{address.host}]" if ":" in address.host else address.host
    channel = Channel(f"sc://{host}:{address.port}")
    channel.set("user_agent", "ktx")
    if address.tls:
        channel.set("use_ssl", "true")
    return channel


def _literal(value: Any) -> Any:
    """Return a parameter. The client would take a time without a zone to be in the zone of this machine."""
    from pyspark.sql.connect.column import Column
    from pyspark.sql.connect.expressions import LiteralExpression
    from pyspark.sql.connect.functions import lit
    from pyspark.sql.types import TimestampNTZType

    if isinstance(value, datetime) and value.tzinfo is None:
        return Column(LiteralExpression(value, TimestampNTZType()))
    return lit(value)


def _values(table: Any) -> list[tuple[Any, ...]]:
    """Return the rows of a `pyarrow.Table` as Python values: an instant is in UTC, a struct a dict, a map a dict."""
    if not table.num_columns:
        return [()] * table.num_rows
    return list(zip(*(_column(table.column(place)) for place in range(table.num_columns)), strict=True))


def _column(column: Any) -> list[Any]:
    import pyarrow as pa  # type: ignore[import-untyped]

    try:
        values = column.to_pylist(maps_as_pydicts="lossy")
    except (ValueError, OverflowError):
        # A date or time that Python cannot represent: before the year 1, or after 9999.
        return list(column.cast(pa.string()).to_pylist())
    return [value.astimezone(UTC) if isinstance(value, datetime) and value.tzinfo else value for value in values]
