"""The entries in `connections`: what all of them share, what databases and servers add, and URL schemes."""

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
"""Maximum id length: ids name files and folders, whose names with ktx's additions must not exceed 255 bytes."""

DEVICE_PATTERN: Final = r"^([Cc][Oo][Nn]|[Pp][Rr][Nn]|[Aa][Uu][Xx]|[Nn][Uu][Ll]|[Cc][Oo][Mm][0-9]|[Ll][Pp][Tt][0-9])$"
"""The names that `is_device_name` rejects, for JSON Schema, which has no flags."""

RESERVED_IDS: Final = (
    "list", "test", "add", "remove", "read", "write", "validate", "query", "explain", "import", "export", "show",
    "lint", "relationships", "diagram",
)  # fmt: skip
"""Connection ids that would be read as a subcommand."""


def _check_id(connection: str) -> str:
    rename = f"rename the connection, for example `{connection}-db`"
    if connection in RESERVED_IDS:
        raise wrong("is a subcommand of ktx, so it cannot be used as an id", hint=rename)
    if is_device_name(connection):
        message = "is a device name on Windows, so files with that name cannot be checked out there"
        raise wrong(message, hint=rename)
    if (length := len(connection)) > 100:
        message = f"is {length} characters long, but ids are used in file names"
        raise wrong(message, hint="use at most 100 characters")
    if not re.fullmatch(ID_PATTERN.strip("^$"), connection):
        hint = "an id begins with a letter or a digit and contains only letters, digits, `_` and `-`"
        raise wrong("is not a valid connection id", hint=hint)
    return connection


def example_connection(connection: str = "warehouse") -> str:
    """Return a complete command that adds a connection with this id, if the id is valid."""
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
"""A port number; like other versions, also accepts it as text or as a secret reference."""


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
    """Settings at least one of which is required."""

    _id: str = PrivateAttr("")

    driver: str = setting(REQUIRED, "Connection type.")

    @property
    def id(self) -> str:
        """Return the connection's id; empty for a connection outside a configuration."""
        return self._id

    @model_validator(mode="after")
    def _has_what_it_needs(self) -> Connection:
        if self.needs_one_of and not any(getattr(self, key) for key in self.needs_one_of):
            words = " or ".join(f"`{key}`" for key in self.needs_one_of)
            places = Hint.steps(*(Hint("`{}`", SettingPath(key)) for key in self.needs_one_of), between=" or ")
            raise wrong(f"needs {words}", hint=Hint("add {} to the connection", places))
        return self


class DisabledConnection(Connection):
    """An entry in `connections` that cannot be used: its driver is unknown, or its settings are invalid.

    The entry is kept under its id, so that its files keep their owner and commands can report what is wrong.
    """

    driver: str = setting("", "The entry as written in the file.")
    _issues: tuple[Issue, ...] = PrivateAttr(())

    @classmethod
    def of(cls, entry: Any, issues: Sequence[Issue]) -> DisabledConnection:
        """Return the connection for an entry in the file, with its issues."""
        fields = dict(entry) if isinstance(entry, dict) else {}
        driver = fields.pop("driver", None)
        found = cls.model_validate({**fields, "driver": driver if isinstance(driver, str) else ""})
        found._issues = tuple(issues)
        return found

    @property
    def issues(self) -> tuple[Issue, ...]:
        """Return the issues of the entry."""
        return self._issues

    @property
    def is_foreign(self) -> bool:
        """Return whether the entry is valid in the TypeScript ktx, and only its driver is missing here."""
        return all(issue.severity == "warning" for issue in self._issues)

    def error(self) -> ConfigError:
        """Return the error for a command that needs this connection."""
        first = self._issues[0]
        message = f"connection `{self.id}` is disabled: {first.message}"
        return InvalidConfigError(message, self._issues, connection=self.id)


class Database(Connection):
    """A connection to tables."""

    include: list[str] = setting(
        [],
        "Only read tables whose `schema.table` matches one of these patterns. Defaults to all tables.",
        example=["mart.*"],
    )
    exclude: list[str] = setting(
        [], "Do not read tables that match one of these patterns. Takes precedence over `include`.", example=["*_tmp"]
    )
    enabled_tables: list[str] | None = setting(
        None,
        "Only read these tables, given as exact names `schema.table` or `table`. Defaults to all.",
        example=["mart.orders"],
    )
    query_policy: Literal["any", "read-only-sql", "semantic-layer-only"] = setting(
        "any",
        "Which queries are allowed: any read-only SQL (`any` or `read-only-sql`), or only measures that the "
        "semantic layer defines.",
    )
    allowed_functions: list[str] = setting(
        [],
        "Functions that `ktx sql` and agents may call in addition to the built-in functions without side "
        "effects: `name`, or `schema.name` for functions of the database.",
        example=["similarity", "public.fiscal_year"],
    )
    query_timeout_ms: int | None = setting(
        None, "Maximum run time of a statement, in milliseconds. Defaults to 30000.", example=60000, ge=1, le=3_600_000
    )
    context: ConnectionContext = setting(ConnectionContext, "What to read besides tables.")
    historic_sql: Any = setting(
        None,
        "Documented by other versions, but never used; use `context.queryHistory`.",
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
    """A connection to a source that explains tables."""

    def lack(self) -> tuple[str, str] | None:
        """Return what the source still needs before it can be read, and a hint; None if nothing is missing.

        The sentence continues "connection `id` ...".
        """
        return None


class Server(Database):
    """A database server, configured by `url` or by its parts."""

    url: str | None = setting(
        None,
        "URL with user and password, as a secret reference. Alternatively, set the parts below.",
        secret=True,
        example="env:WAREHOUSE_URL",
    )
    host: str | None = setting(None, "Host name or IP address.", example="db.example.com")
    database: str | None = setting(None, "Database.", example="shop")
    username: str | None = setting(None, "User.", example="ktx_reader")
    password: str | None = setting(None, "Password.", secret=True, example="env:WAREHOUSE_PASSWORD")


_ANYBODYS: Final = ("http", "https")
"""Schemes that do not indicate a driver."""

_SCHEME: Final = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*):(//)?")


def wrong_scheme(driver: str, url: str) -> tuple[str, str] | None:
    """Return why a URL belongs to another driver, and a hint; None if it does not.

    The sentence continues "`the.setting` ..." and only shows the scheme of the URL. A dialect's driver after a plus
    sign (`mysql+pymysql`) is ignored. Text without a scheme is not checked.
    """
    kind = WAREHOUSES.find(driver)
    taken: tuple[str, ...] = () if kind is None else kind.schemes
    found = _SCHEME.match(url.strip())
    if not taken or found is None:
        return None
    scheme = found[1].lower().partition("+")[0]
    if scheme in taken or not (found[2] or any(scheme in each.schemes for each in WAREHOUSES.all())):
        return None
    message = f"is a `{scheme}:` URL, but the driver `{driver}` requires {listing([f'`{each}:`' for each in taken])}"
    other = driver_of(scheme)
    correct = f"a URL that begins with `{taken[0]}:`"
    return message, f"write `driver: {other}`, or {correct}" if other else f"write {correct}"


def driver_of(scheme: str) -> str | None:
    """Return the driver whose URLs have this scheme, None for a scheme that does not indicate a driver."""
    if scheme in _ANYBODYS:
        return None
    return next((kind.driver for kind in WAREHOUSES.all() if scheme in kind.schemes), None)


FOREIGN_DRIVERS: Final = ("sharepoint",)
"""Drivers of the TypeScript ktx that this ktx does not support."""


def is_foreign(entry: object) -> bool:
    """Return whether only the TypeScript ktx can use a connection. It is disabled with a warning.

    This is so if ktx has no driver of this name, or the connection has none of the settings that the driver needs.
    """
    if not isinstance(entry, dict) or entry.get("driver") not in FOREIGN_DRIVERS:
        return False
    model = find_model(entry["driver"])
    return model is None or not any(key in entry for key in model.needs_one_of)


def drivers() -> tuple[str, ...]:
    """Return the names of all drivers, databases first."""
    return (*WAREHOUSES.names(), *SOURCES.names())


def is_driver(name: str) -> bool:
    """Return whether a driver with this name exists."""
    return name in WAREHOUSES or name in SOURCES


def models() -> dict[str, type[Connection]]:
    """Return the settings models of all usable drivers, in the order of `drivers`."""
    return {name: model for name in drivers() if (model := find_model(name)) is not None}


def model_of(driver: str) -> type[Connection]:
    """Return the settings model for one of `drivers`; raises `PluginError` if a plug-in cannot be used."""
    registry = WAREHOUSES if driver in WAREHOUSES else SOURCES
    model: type[Connection] = registry.refer(driver, "settings")
    return model


def find_model(driver: object) -> type[Connection] | None:
    """Return the settings model for a driver, or None if the driver is unknown or cannot be used."""
    try:
        return model_of(driver) if isinstance(driver, str) and is_driver(driver) else None
    except PluginError:
        return None


def _without_needed(driver: str) -> str:
    model = find_model(driver)
    return f" without `{'` or `'.join(model.needs_one_of)}`" if model is not None else ""


def parse_connection(value: Any) -> Connection:
    """Return the connection, validated by the model for its `driver`.

    A union of all models would build every one of them, which takes a tenth of a second, for files that use two. Raises
    pydantic's errors, which keep their location when raised inside a validator.
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
    if is_foreign(value):
        raise wrong(
            f"is `{driver}`, a driver of the TypeScript ktx that this ktx does not support{_without_needed(driver)}",
            hint="ktx ignores the connection; you can keep it in ktx.yaml for the TypeScript ktx",
            key="driver",
        )
    if is_driver(driver):
        try:
            return model_of(driver).model_validate(value)
        except PluginError as error:
            raise wrong(f"cannot be used: {error.message}", hint=error.hint, key="driver") from None
    near, known = did_you_mean(driver, drivers()), f"drivers: {', '.join(drivers())}"
    hint = Hint("did you mean `{}`? {}", Suggestion(near), known) if near else known
    raise wrong(f"is `{one_line(driver, 60)}`, which is not a driver of ktx", hint=hint, key="driver")
