"""The entries of `connections`: what all have in common, what databases and servers add, and schemes of URLs."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Annotated, Any, ClassVar, Final, Literal

from pydantic import AfterValidator, PlainValidator, PrivateAttr, WithJsonSchema, model_validator

from ktx_cli.core import (
    Command,
    ConfigError,
    Hint,
    SettingPath,
    Suggestion,
    did_you_mean,
    is_device_name,
    listing,
    one_line,
)
from ktx_cli.project.config.base import REFERENCE_PATTERN, REQUIRED, Block, InvalidConfigError, Issue, setting, wrong
from ktx_cli.project.config.blocks import ConnectionContext
from ktx_cli.project.plugins import SOURCES, WAREHOUSES, PluginError
from ktx_cli.project.secrets import is_reference

ID_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9_-]{0,99}$"
"""An id names files and folders: with what ktx adds it stays below the 255 bytes a file name may have."""

DEVICE_PATTERN: Final = r"^([Cc][Oo][Nn]|[Pp][Rr][Nn]|[Aa][Uu][Xx]|[Nn][Uu][Ll]|[Cc][Oo][Mm][0-9]|[Ll][Pp][Tt][0-9])$"
"""What `is_device_name` refuses, for JSON Schema, which has no flags."""

RESERVED_IDS: Final = (
    "list", "test", "add", "remove", "read", "write", "validate", "query", "explain", "import", "export", "show",
    "lint", "relationships", "diagram",
)  # fmt: skip
"""Connection ids that would read as a subcommand."""


def _check_id(connection: str) -> str:
    rename = f"rename the connection, for example `{connection}-db`"
    if connection in RESERVED_IDS:
        raise wrong("is an id that is taken by a subcommand of ktx", hint=rename)
    if is_device_name(connection):
        message = "is an id that Windows takes for a device, so no file of that name can be checked out there"
        raise wrong(message, hint=rename)
    if (length := len(connection)) > 100:
        message = f"is an id of {length} characters, and ids name files"
        raise wrong(message, hint="an id has at most 100 characters")
    if not re.fullmatch(ID_PATTERN.strip("^$"), connection):
        hint = "an id begins with a letter or a digit and has only letters, digits, `_` and `-`"
        raise wrong("is not a safe connection id", hint=hint)
    return connection


def example_connection(connection: str = "warehouse") -> str:
    """Return a whole command that adds a connection of this id, where it may be one."""
    usable = re.fullmatch(ID_PATTERN, connection) and connection not in RESERVED_IDS and not is_device_name(connection)
    name = connection if usable else "warehouse"
    return Command("connection", "add", name, "--driver", "sqlite", "--path", "data.sqlite")


ConnectionId = Annotated[str, AfterValidator(_check_id)]


def _port(value: Any) -> Any:
    if isinstance(value, str) and is_reference(value):
        return value
    number = int(value) if isinstance(value, str) and re.fullmatch(r"[0-9]{1,6}", value) else value
    if isinstance(number, bool) or not isinstance(number, int) or not 1 <= number <= 65535:
        raise wrong("must be a port number from 1 to 65535", of_value=True)
    return number


_PORT_FORMS: Final = [
    {"type": "integer", "minimum": 1, "maximum": 65535},
    {"type": "string", "pattern": f"^(?:[0-9]{{1,6}}$|{REFERENCE_PATTERN})"},
]
Port = Annotated[int | str, PlainValidator(_port), WithJsonSchema({"anyOf": _PORT_FORMS})]
"""A port number; as a text of digits or a secret reference too, as other versions take it."""


def _ssl(value: Any) -> Any:
    if isinstance(value, bool | dict):
        return value
    raise wrong("must be true, false or a mapping of TLS options", of_value=True)


Ssl = Annotated[
    bool | dict[str, Any], PlainValidator(_ssl), WithJsonSchema({"anyOf": [{"type": "boolean"}, {"type": "object"}]})
]


class Connection(Block):
    """One entry of `connections`."""

    needs_one_of: ClassVar[tuple[str, ...]] = ()
    """Settings of which at least one must be given."""

    _id: str = PrivateAttr("")

    driver: str = setting(REQUIRED, "What kind of connection it is.")

    @property
    def id(self) -> str:
        """Return the connection's id; empty for one that is in no configuration."""
        return self._id

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Connection:
        if self.needs_one_of and not any(getattr(self, key) for key in self.needs_one_of):
            words = " or ".join(f"`{key}`" for key in self.needs_one_of)
            places = Hint.steps(*(Hint("`{}`", SettingPath(key)) for key in self.needs_one_of), between=" or ")
            raise wrong(f"needs {words}", hint=Hint("add {} to the connection", places))
        return self


class DisabledConnection(Connection):
    """An entry of `connections` that cannot be used: its driver is unknown, or its settings are wrong.

    It stays known by its id, so that its files keep their owner and commands can say what is wrong with it.
    """

    driver: str = setting("", "What the file says.")
    _issues: tuple[Issue, ...] = PrivateAttr(())

    @classmethod
    def of(cls, entry: Any, issues: Sequence[Issue]) -> DisabledConnection:
        """Return the connection for an entry as the file has it, and what is wrong with it."""
        fields = dict(entry) if isinstance(entry, dict) else {}
        driver = fields.pop("driver", None)
        found = cls.model_validate({**fields, "driver": driver if isinstance(driver, str) else ""})
        found._issues = tuple(issues)
        return found

    @property
    def issues(self) -> tuple[Issue, ...]:
        """Return what is wrong with it."""
        return self._issues

    @property
    def is_foreign(self) -> bool:
        """Say whether it is complete for the TypeScript ktx, and only this program has no such driver."""
        return all(issue.severity == "warning" for issue in self._issues)

    def error(self) -> ConfigError:
        """Return the error for a command that needs this connection."""
        first = self._issues[0]
        message = f"connection `{self.id}` is disabled: {first.message}"
        return InvalidConfigError(message, self._issues, connection=self.id)


class Database(Connection):
    """A connection to tables."""

    include: list[str] = setting(
        [], "Patterns of the tables wanted, over `schema.table`; empty: all.", example=["mart.*"]
    )
    exclude: list[str] = setting([], "Patterns of tables not wanted; stronger than `include`.", example=["*_tmp"])
    enabled_tables: list[str] | None = setting(
        None, "Exact names of the tables wanted, `schema.table` or `table`. Without it: all.", example=["mart.orders"]
    )
    query_policy: Literal["any", "read-only-sql", "semantic-layer-only"] = setting(
        "any",
        "What may be asked: any read-only SQL (`read-only-sql` is the same), or only measures that the semantic layer"
        " defines.",
    )
    allowed_functions: list[str] = setting(
        [],
        "Functions that `ktx sql` and agents may call besides the built-in ones that only compute: `name`, or "
        "`schema.name` for one of the database's own.",
        example=["similarity", "public.fiscal_year"],
    )
    query_timeout_ms: int | None = setting(
        None,
        "Most milliseconds one statement may run before it is stopped. Without it: 30000.",
        example=60000,
        ge=1,
        le=3_600_000,
    )
    context: ConnectionContext = setting(ConnectionContext, "What else than tables is read.")
    historic_sql: Any = setting(
        None,
        "Documented once for other versions; `context.queryHistory` is the one.",
        alias="historicSql",
        status="dead",
    )

    @model_validator(mode="after")
    def _has_a_fitting_scheme(self) -> Database:
        for key in ("url", "path"):
            value = getattr(self, key, None)
            found = wrong_scheme(self.driver, value) if value and not is_reference(value) else None
            if found is not None:
                raise wrong(found[0], hint=found[1], key=key)
        return self


class SourceConnection(Connection):
    """A connection to something that explains tables."""

    def lack(self) -> tuple[str, str] | None:
        """Return what the source needs to read anything and does not have, and a hint; None where nothing is missing.

        The sentence continues "connection `id` ...".
        """
        return None


class Server(Database):
    """A database server, reached by `url` or by its parts."""

    url: str | None = setting(
        None,
        "Address with user and password, as a secret reference. Or give its parts.",
        secret=True,
        example="env:WAREHOUSE_URL",
    )
    host: str | None = setting(None, "Host name or address.", example="db.example.com")
    database: str | None = setting(None, "Database.", example="shop")
    username: str | None = setting(None, "User.", example="ktx_reader")
    password: str | None = setting(None, "Password.", secret=True, example="env:WAREHOUSE_PASSWORD")


_ANYBODYS: Final = ("http", "https")
"""Schemes that say nothing of the driver."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")


def wrong_scheme(driver: str, url: str) -> tuple[str, str] | None:
    """Return what is wrong with a URL of another driver, and what to do; None when nothing is.

    The sentence continues "`the.setting` ..." and shows of the URL nothing but its scheme. A dialect's driver behind
    a plus sign (`mysql+pymysql`) does not matter. A text without a scheme is no matter of this.
    """
    kind = WAREHOUSES.find(driver)
    taken: tuple[str, ...] = () if kind is None else kind.schemes
    found = _SCHEME.match(url.strip())
    if not taken or found is None:
        return None
    scheme = found[1].lower().partition("+")[0]
    if scheme in taken or not (found[2] or any(scheme in each.schemes for each in WAREHOUSES.all())):
        return None
    message = f"is a `{scheme}:` URL, and the driver `{driver}` takes {listing([f'`{each}:`' for each in taken])}"
    other = driver_of(scheme)
    correct = f"a URL that begins with `{taken[0]}:`"
    return message, f"write `driver: {other}`, or {correct}" if other else f"write {correct}"


def driver_of(scheme: str) -> str | None:
    """Return the driver whose URLs have this scheme, None for one that says nothing of a driver."""
    if scheme in _ANYBODYS:
        return None
    return next((kind.driver for kind in WAREHOUSES.all() if scheme in kind.schemes), None)


FOREIGN_DRIVERS: Final = ("athena", "gdrive", "hologres", "jira", "mongodb", "sharepoint", "sigma", "tableau")
"""Drivers of the TypeScript ktx that this program does not have; a connection of one is disabled with a warning."""


def drivers() -> tuple[str, ...]:
    """Return the names of all drivers, those of databases first."""
    return (*WAREHOUSES.names(), *SOURCES.names())


def is_driver(name: str) -> bool:
    """Say whether there is a driver of this name."""
    return name in WAREHOUSES or name in SOURCES


def models() -> dict[str, type[Connection]]:
    """Return the settings models of all drivers that can be used, in the order of `drivers`."""
    return {name: model for name in drivers() if (model := find_model(name)) is not None}


def model_of(driver: str) -> type[Connection]:
    """Return the settings model of one of `drivers`; `PluginError` where a plug-in cannot be used."""
    registry = WAREHOUSES if driver in WAREHOUSES else SOURCES
    model: type[Connection] = registry.refer(driver, "settings")
    return model


def find_model(driver: object) -> type[Connection] | None:
    """Return the settings model of a driver, None for one that is unknown or cannot be used."""
    try:
        return model_of(driver) if isinstance(driver, str) and is_driver(driver) else None
    except PluginError:
        return None


def parse_connection(value: Any) -> Connection:
    """Return the connection by the model of its `driver`.

    A union of all models would build every one of them, a tenth of a second, for files that use two. Raises
    pydantic's errors, which keep their place when raised inside a validator.
    """
    if isinstance(value, Connection):
        return value
    if not isinstance(value, dict):
        raise wrong("must be a mapping with a `driver`", of_value=True)
    driver = value.get("driver")
    if driver is None:
        known = ", ".join(drivers())
        raise wrong("has no `driver`", hint=Hint("add `{}:` with one of {}", SettingPath("driver"), known))
    if not isinstance(driver, str):
        raise wrong("must be the name of a driver", hint=f"one of {', '.join(drivers())}", key="driver")
    if is_driver(driver):
        try:
            return model_of(driver).model_validate(value)
        except PluginError as error:
            raise wrong(f"cannot be used: {error.message}", hint=error.hint, key="driver") from None
    if driver in FOREIGN_DRIVERS:
        raise wrong(
            f"is `{driver}`, a driver of the TypeScript ktx that this ktx does not support",
            hint="nothing here reads the connection; it may stay in ktx.yaml for the TypeScript ktx",
            key="driver",
        )
    near, known = did_you_mean(driver, drivers()), f"known: {', '.join(drivers())}"
    hint = Hint("did you mean `{}`? {}", Suggestion(near), known) if near else known
    raise wrong(f"is `{one_line(driver, 60)}`, which is not a driver that ktx knows", hint=hint, key="driver")
