"""Throw-away Postgres, MariaDB and Spark servers for tests: on a free loopback port, deleted by `stop`."""

from __future__ import annotations

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from abc import ABC, abstractmethod
from pathlib import Path
from types import TracebackType
from typing import IO

START_SECONDS = 60.0
"""How long a server may take to accept connections."""


class ServerMissingError(RuntimeError):
    """The server's binaries are not installed on this machine."""


def free_port() -> int:
    """Return an unused loopback TCP port."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
        return port


def find_binary(name: str, folders: str) -> Path | None:
    """Return the newest `name` in the folders matching the glob `folders` (below `/`), or the one on PATH."""
    found = sorted(folder / name for folder in Path("/").glob(folders) if (folder / name).exists())
    if found:
        return found[-1]
    on_path = shutil.which(name)
    return Path(on_path) if on_path else None


def _copy(source: Path, target: Path) -> None:
    """Copy a folder, preserving file ownership."""
    subprocess.run(["cp", "-a", f"{source}/.", str(target)], check=True)


class TestServer(ABC):
    """The common part of the servers: a data folder owned by its own user, one process, one port and one log.

    `account` is the system user they run as if the tests run as root (databases refuse to run as root); empty for the
    tests' own user. Use it as a
    context manager, or call `start` and `stop`. `made`: a folder that `keep` wrote, to start from.
    """

    __test__ = False
    account = ""
    title = ""
    host = "127.0.0.1"

    def __init__(self, made: Path | None = None) -> None:
        self.made = made
        self.port = 0
        self.folder = Path()
        self.process: subprocess.Popen[bytes] | None = None
        self._output: IO[bytes] | None = None

    @property
    def log(self) -> str:
        """Everything the server has logged so far."""
        return (self.folder / "server.log").read_text(encoding="utf-8", errors="replace")

    def start(self) -> None:
        """Create the data folder and start. Raises `ServerMissingError`, or `RuntimeError` with the end of the log."""
        self.folder = Path(tempfile.mkdtemp(prefix=f"ktx-{self.account or self.title}-"))
        try:
            self._create()
            self._launch()
        except BaseException:
            self.stop()
            raise

    def keep(self, folder: Path) -> None:
        """Write a server's initial data into a new folder, from which all servers start. Raises as `start`."""
        self.folder = Path(tempfile.mkdtemp(prefix=f"ktx-{self.account or self.title}-"))
        try:
            self._create()
            _copy(self.folder, folder)
        finally:
            self.stop()

    def _create(self) -> None:
        if self._user is not None:
            self._hand_over()
        if self.made is None:
            self._initialise()
        else:
            _copy(self.made, self.folder)

    def stop(self) -> None:
        """Stop at once and delete the data; calling it twice is harmless."""
        if self.process is not None:
            self.process.send_signal(self._stop_signal())
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
            self.process = None
        if self._output is not None:
            self._output.close()
            self._output = None
        shutil.rmtree(self.folder, ignore_errors=True)

    def __enter__(self) -> TestServer:
        self.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()

    @property
    def _user(self) -> str | None:
        return self.account or None if os.geteuid() == 0 else None

    def _hand_over(self) -> None:
        try:
            shutil.chown(self.folder, self.account, self.account)
        except LookupError as error:
            raise ServerMissingError(f"{error}: apt-get install the server, which creates it") from error

    @abstractmethod
    def _initialise(self) -> None:
        """Fill the data folder; raises `ServerMissingError`."""

    @abstractmethod
    def _command(self) -> list[str]:
        """Return the command that runs the server in the foreground."""

    def _stop_signal(self) -> signal.Signals:
        return signal.SIGTERM

    def end(self, signal_number: int = signal.SIGKILL) -> None:
        """End the process as a crash or an administrator would, and keep its data for `begin_again`."""
        if self.process is not None:
            self.process.send_signal(signal_number)
            self.process.wait(START_SECONDS)
        if self._output is not None:
            self._output.close()

    def begin_again(self) -> None:
        """Start with the same data on the same port; raises `RuntimeError` with the end of the log."""
        self._launch(self.port)

    def _launch(self, port: int = 0) -> None:
        # Another process may take the port between choosing it and listening on it, so retry.
        for attempt in range(3):
            self.port = port or free_port()
            self._output = (self.folder / "server.log").open("ab")
            user = self._user
            self.process = subprocess.Popen(
                self._command(),
                stdin=subprocess.DEVNULL,
                stdout=self._output,
                stderr=subprocess.STDOUT,
                cwd=self.folder,
                env=self._environ(),
                user=user,
                group=user,
                extra_groups=[] if user else None,
            )
            if self._answers():
                return
            self._output.close()
            if attempt == 2:
                raise RuntimeError(f"the {self.account or self.title} test server did not start: {self.log[-2000:]}")

    def _answers(self) -> bool:
        deadline = time.monotonic() + START_SECONDS
        while self.process is not None and self.process.poll() is None and time.monotonic() < deadline:
            if self._ready():
                return True
            time.sleep(0.02)
        return False

    def _ready(self) -> bool:
        try:
            with socket.create_connection((self.host, self.port), 1):
                return True
        except OSError:
            return False

    def _run(self, *command: str | Path, stdin: str = "") -> None:
        user = self._user
        done = subprocess.run(
            [str(part) for part in command],
            input=stdin.encode(),
            capture_output=True,
            cwd=self.folder,
            env=self._environ(),
            user=user,
            group=user,
            extra_groups=[] if user else None,
            check=False,
        )
        if done.returncode:
            raise RuntimeError(f"{command[0]} failed: {done.stderr.decode(errors='replace')[-2000:]}")

    def _environ(self) -> dict[str, str]:
        # Nothing from the caller's environment: PGHOST, MYSQL_HOME and the like would change the server.
        return {"PATH": os.environ.get("PATH", os.defpath), "LC_ALL": "C.UTF-8", "HOME": str(self.folder)}


class PostgresServer(TestServer):
    """A Postgres server that logs every statement after its session's application name and a bar.

    Its superuser is `postgres` with the password `postgres`.
    """

    account = "postgres"
    user = "postgres"
    password = "postgres"
    installed_by = "apt-get install postgresql"

    @classmethod
    def find(cls) -> Path | None:
        """Return the folder of the binaries, or None without Postgres."""
        binary = find_binary("postgres", "usr/lib/postgresql/*/bin") or find_binary("postgres", "usr/pgsql-*/bin")
        return binary.parent if binary else None

    def url(self, database: str = "postgres", user: str | None = None, password: str | None = None) -> str:
        """Return `postgresql://user:password@127.0.0.1:port/database` (the superuser by default)."""
        who = f"{user or self.user}:{password if password is not None else self.password}"
        return f"postgresql://{who}@{self.host}:{self.port}/{database}"

    def execute(self, *statements: str, database: str = "postgres") -> None:
        """Run statements one by one as superuser, committing each."""
        import psycopg

        with psycopg.connect(self.url(database), autocommit=True) as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def create_database(self, name: str, *statements: str) -> str:
        """Create a database, run the statements in it, and return its superuser URL. One of its name is dropped."""
        import psycopg

        with psycopg.connect(self.url(), autocommit=True) as connection:
            # A module's fixtures are made once more where its tests come back to a worker of a parallel run.
            forced = " WITH (FORCE)" if connection.info.server_version >= 130_000 else ""
            connection.execute(f'DROP DATABASE IF EXISTS "{name}"{forced}'.encode())
            # Writing it to the log page by page, the default since version 15, takes twice as long.
            strategy = " STRATEGY file_copy" if connection.info.server_version >= 150_000 else ""
            connection.execute(f'CREATE DATABASE "{name}"{strategy}'.encode())
        self.execute(*statements, database=name)
        return self.url(name)

    def _initialise(self) -> None:
        folder = self.find()
        if folder is None:
            raise ServerMissingError(f"no Postgres server binary: {self.installed_by}")
        secret = self.folder / "password"
        secret.write_text(self.password)
        secret.chmod(0o644)
        self._run(
            folder / "initdb", "--pgdata", self.folder / "data", "--username", self.user, "--pwfile", secret,
            "--auth=scram-sha-256", "--encoding=UTF8", "--locale=C", "--no-sync", "--no-instructions",
        )  # fmt: skip

    def _command(self) -> list[str]:
        folder = self.find()
        settings = {
            "listen_addresses": self.host,
            "port": str(self.port),
            "unix_socket_directories": "",
            "fsync": "off",
            "log_statement": "all",
            "log_line_prefix": "%a|",
            "max_connections": "50",
            "shared_buffers": "16MB",
            "autovacuum": "off",
            "dynamic_shared_memory_type": "mmap",  # In its folder, which is deleted on stop; other kinds remain.
        }
        options = [part for name, value in settings.items() for part in ("-c", f"{name}={value}")]
        return [str(folder and folder / "postgres"), "-D", str(self.folder / "data"), *options]

    def _stop_signal(self) -> signal.Signals:
        return signal.SIGQUIT

    def _ready(self) -> bool:
        # The last line of the pid file is the status of the postmaster.
        try:
            lines = (self.folder / "data" / "postmaster.pid").read_text().splitlines()
        except OSError:
            return False
        return len(lines) >= 8 and lines[7].strip() == "ready"


class RecordingPostgresServer(PostgresServer):
    """A server that has loaded `pg_stat_statements`."""

    def start(self) -> None:
        """Create the data folder and start, if the extension is installed. Raises as `start`."""
        libraries = ("usr/lib/postgresql/*/lib", "usr/pgsql-*/lib")
        if not any([*Path("/").glob(f"{folder}/pg_stat_statements.so")] for folder in libraries):
            raise ServerMissingError("no pg_stat_statements: apt-get install postgresql-contrib")
        super().start()

    def _command(self) -> list[str]:
        return [*super()._command(), "-c", "shared_preload_libraries=pg_stat_statements"]


class VectorPostgresServer(PostgresServer):
    """A Postgres server with the extension pgvector, from the binaries in the package `pgserver`."""

    title = "pgvector"
    installed_by = "pip install pgserver"

    @classmethod
    def find(cls) -> Path | None:
        """Return the folder of the binaries, or None without the package, which is not imported."""
        found = importlib.util.find_spec("pgserver")
        folders = found.submodule_search_locations if found is not None else None
        return Path(folders[0]) / "pginstall" / "bin" if folders else None


class MariaDBServer(TestServer):
    """A MariaDB server that logs every statement; administrator `admin` with the password `admin`."""

    account = "mysql"
    user = "admin"
    password = "admin"

    @classmethod
    def find(cls) -> Path | None:
        """Return the server binary, or None without MariaDB."""
        return find_binary("mariadbd", "usr/sbin")

    @property
    def statements(self) -> str:
        """The general log: every statement that the server received."""
        return (self.folder / "general.log").read_text(encoding="utf-8", errors="replace")

    def url(self, database: str = "", user: str | None = None, password: str | None = None) -> str:
        """Return `mysql://user:password@127.0.0.1:port/database` (the administrator by default)."""
        who = f"{user or self.user}:{password if password is not None else self.password}"
        return f"mysql://{who}@{self.host}:{self.port}/{database}"

    def execute(self, *statements: str, database: str | None = None) -> None:
        """Run statements one by one as administrator, committing each."""
        import pymysql

        connection = pymysql.connect(
            host=self.host, port=self.port, user=self.user, password=self.password, database=database,
            charset="utf8mb4", autocommit=True,
        )  # fmt: skip
        try:
            with connection.cursor() as cursor:
                for statement in statements:
                    cursor.execute(statement)
        finally:
            connection.close()

    def create_database(self, name: str, *statements: str) -> str:
        """Create a database, run the statements in it, and return its administrator URL. One of its name is dropped."""
        dropping = ("SET foreign_key_checks = 0", f"DROP DATABASE IF EXISTS `{name}`")
        self.execute(*dropping, f"CREATE DATABASE `{name}` CHARACTER SET utf8mb4")
        self.execute(*statements, database=name)
        return self.url(name)

    def _initialise(self) -> None:
        installer = find_binary("mariadb-install-db", "usr/bin")
        if self.find() is None or installer is None:
            raise ServerMissingError("no MariaDB server binary: apt-get install mariadb-server")
        self._run(
            installer, "--no-defaults", f"--datadir={self.folder / 'data'}", "--skip-test-db",
            "--auth-root-authentication-method=normal", "--skip-name-resolve",
        )  # fmt: skip
        start = self.folder / "start.sql"
        start.write_text(
            f"CREATE USER {self.user}@'%' IDENTIFIED BY '{self.password}';\n"
            f"GRANT ALL PRIVILEGES ON *.* TO {self.user}@'%' WITH GRANT OPTION;\n"
        )
        start.chmod(0o644)

    def _command(self) -> list[str]:
        return [
            str(self.find()), "--no-defaults", f"--datadir={self.folder / 'data'}", f"--port={self.port}",
            f"--bind-address={self.host}", f"--socket={self.folder / 'socket'}", "--skip-name-resolve",
            f"--init-file={self.folder / 'start.sql'}", "--general-log",
            f"--general-log-file={self.folder / 'general.log'}",
            "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=32M", "--skip-log-bin",
            "--innodb-file-per-table=0",
        ]  # fmt: skip

    def _ready(self) -> bool:
        return super()._ready() and "ready for connections" in self.log

    def _stop_signal(self) -> signal.Signals:
        return signal.SIGKILL
