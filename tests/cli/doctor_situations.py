"""What `ktx doctor` is shown in CI: each situation with the check that finds it, its fix, and what the fix needs."""

from __future__ import annotations

import dataclasses
import json
import os
import shlex
import sqlite3
import subprocess
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from ktx_cli.jobs.clients.manifest import digest
from ktx_cli.jobs.serve.state import ServedFolder, ServerSettings, ServerState, write_server_state
from ktx_cli.llm.backends.claude_code import AUTH_HINT
from ktx_cli.project.layout import Layout
from ktx_cli.testing.claude_session import OfflineSession, offline_session
from ktx_cli.testing.model_script import NO_SUCH_MODEL, UNAUTHORIZED, says
from ktx_cli.testing.servers import PostgresServer, free_port
from ktx_cli.warehouses import registry

Run = Callable[..., Any]

SQLITE = "connections:\n  warehouse: {driver: sqlite, path: shop.sqlite}\n"
POSTGRES = "connections:\n  warehouse: {driver: postgres, url: 'env:PG_URL'}\n"
CLAUDE = "llm:\n  provider: {backend: claude-code}\n  models: {default: sonnet}\n"
API = """\
llm:
  provider:
    backend: anthropic
    anthropic: {{base_url: '{url}', api_key: 'env:SCRIPTED_KEY'}}
  models: {{default: claude-sonnet-5-4}}
"""


@dataclass
class World:
    """An ingested project, the current folder. `fills`: what a person writes for the `...` of a fix, in their order."""

    ktx: Run
    project: Path
    patch: pytest.MonkeyPatch
    request: pytest.FixtureRequest
    fills: list[str] = field(default_factory=list)
    as_administrator: Callable[[str], None] | None = None
    edit: Callable[[], None] | None = None

    def configure(self, *texts: str) -> None:
        (self.project / "ktx.yaml").write_text("".join(texts))

    def session(self, **given: Any) -> OfflineSession:
        """Enter a local Claude Code session behind the scripted server, until the test is over."""
        for name in ("https_proxy", "http_proxy", "ALL_PROXY", "all_proxy", "CLAUDE_CODE_OAUTH_TOKEN"):
            self.patch.delenv(name, raising=False)
        entered = offline_session(self.request.getfixturevalue("model_server"), **given)
        session = entered.__enter__()
        self.request.addfinalizer(lambda: entered.__exit__(None, None, None))
        for name, value in session.environ.items():
            self.patch.setenv(name, value)
        return session

    def carry_out(self, fix: str) -> None:
        """Do what a fix says, as it stands: a statement as the administrator, a line in a shell, or an edit."""
        for filled in self.fills:
            fix = fix.replace("...", filled, 1)
        if fix.startswith(("as an administrator: ", "run as a superuser: ")):
            statements, _, fix = fix.partition(": ")[2].partition("; then: ")
            assert self.as_administrator is not None
            for statement in statements.split("; "):
                self.as_administrator(statement)
        if self.edit is not None:
            self.edit()
        elif fix.startswith("ktx "):
            for line in fix.split(" && "):
                assert self.ktx(*shlex.split(line)[1:]).code == 0, line
        else:
            self._type(fix)

    def _type(self, line: str) -> None:
        """Run a line in a real shell; what it exports holds from then on."""
        done = subprocess.run(["sh", "-c", f"{line}\nenv -0"], cwd=self.project, capture_output=True, check=True)
        for each in done.stdout.decode().split("\0"):
            name, _, value = each.partition("=")
            if name and name not in ("_", "PWD", "OLDPWD", "SHLVL") and os.environ.get(name) != value:
                self.patch.setenv(name, value)


@dataclass(frozen=True)
class Situation:
    """`check`: the finding's name, `id`: its check's. `reason`: why its fix is not run here; empty: it is."""

    name: str
    arrange: Callable[[World], None]
    check: str
    level: str
    fix: str
    code: int
    id: str = ""
    reason: str = ""
    server: bool = False

    @property
    def check_id(self) -> str:
        return self.id or self.check.partition(":")[0]


def no_session(world: World) -> None:
    world.configure(CLAUDE, SQLITE)
    world.session(signed_in=False)


def api_key_only(world: World) -> None:
    world.configure(CLAUDE, SQLITE)
    world.session(signed_in=False, extra={"ANTHROPIC_API_KEY": "sk-ant-api03-made-up"})


def expired_session(world: World) -> None:
    world.configure(CLAUDE, SQLITE)
    world.session().server.play(lambda request: UNAUTHORIZED)


def wrong_model(world: World) -> None:
    server = world.request.getfixturevalue("model_server")
    world.configure(API.format(url=server.url), SQLITE)
    world.patch.setenv("SCRIPTED_KEY", "made-up")
    server.play(lambda request: says("ok") if request.body["model"] == "claude-sonnet-5-5" else NO_SUCH_MODEL)


def database(world: World, role: str, *grants: str, fixture: str = "postgres_server") -> tuple[PostgresServer, str]:
    """Make a database with one table and a role on the shared server, and have the administrator's words go there."""
    server: PostgresServer = world.request.getfixturevalue(fixture)
    name = f"doctor_{role}"
    server.execute(f'DROP DATABASE IF EXISTS "{name}"', f"DROP ROLE IF EXISTS {role}", "DROP ROLE IF EXISTS ktx_reader")
    server.create_database(name, "CREATE TABLE orders (id integer PRIMARY KEY)")
    server.execute(f"CREATE ROLE {role} LOGIN PASSWORD 'made-up'", *grants, database=name)
    server.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC", database=name)

    def administer(statement: str) -> None:
        server.execute(statement, database=name)

    world.as_administrator = administer
    return server, name


def unreachable(world: World) -> None:
    server, name = database(world, "doctor_reader", "GRANT SELECT ON orders TO doctor_reader")
    world.configure(POSTGRES)
    world.patch.setenv("PG_URL", f"postgresql://doctor_reader:made-up@127.0.0.1:{free_port()}/{name}")
    world.fills = [server.url(name, user="doctor_reader", password="made-up")]


def may_write(world: World) -> None:
    server, name = database(world, "doctor_writer", "GRANT ALL ON orders TO doctor_writer")
    world.configure(POSTGRES)
    world.patch.setenv("PG_URL", server.url(name, user="doctor_writer", password="made-up"))
    assert world.ktx("ingest").code == 0
    world.fills = ["made-up", server.url(name, user="ktx_reader", password="made-up")]


def history_without_grant(world: World) -> None:
    grants = ("GRANT SELECT ON orders TO doctor_history", "CREATE EXTENSION pg_stat_statements")
    server, name = database(world, "doctor_history", *grants, fixture="recording_postgres")
    world.configure(POSTGRES.replace("'}", "', context: {queryHistory: {enabled: true}}}"))
    world.patch.setenv("PG_URL", server.url(name, user="doctor_history", password="made-up"))


def missing_secret(world: World) -> None:
    world.configure(SQLITE.replace("path: shop.sqlite", "url: 'env:SHOP_URL'"))
    world.fills = ["sqlite:///shop.sqlite"]


def broken_yaml(world: World) -> None:
    world.configure("connections:\n  warehouse: {driver: sqlite\n", "  other: [\n")
    world.edit = lambda: world.configure(SQLITE)


def dead_lock(world: World) -> None:
    with sqlite3.connect(world.project / ".ktx" / "state.sqlite") as state:
        dead = ("run", "r", "ktx ingest", 4194000, "1", "elsewhere", "elsewhere", 0, 0)
        state.execute(f"INSERT INTO leases VALUES ({', '.join('?' * len(dead))})", dead)
    state.close()


def git_lock(world: World) -> None:
    """What a run leaves that is killed while it holds the index: its marker, and the lock, which is the same file."""
    marker = world.project / ".git" / "ktx-00112233aabbccdd.marker"
    marker.touch()
    os.link(marker, world.project / ".git" / "index.lock")


def dangling_reference(world: World) -> None:
    page = world.project / "wiki" / "global" / "revenue.md"
    page.parent.mkdir(parents=True)
    page.write_text("---\nsummary: What revenue is\nrefs: [refunds]\n---\n\n# Revenue\n")

    def write_it() -> None:
        assert (
            world.ktx("wiki", "write", "refunds", "--summary", "What a refund is", "--content", "# Refunds").code == 0
        )

    world.edit = write_it


def missing_extra(world: World) -> None:
    world.configure("connections:\n  warehouse: {driver: mysql, host: localhost, database: shop}\n")
    installed = registry.is_installed
    world.patch.setattr(registry, "is_installed", lambda name: name != "pymysql" and installed(name))


def ignored_caching(world: World) -> None:
    caching = "  promptCaching: {cacheTools: false, cacheHistory: false}\n"
    world.configure(CLAUDE.replace("claude-code", "claude-cli"), caching, SQLITE)
    world.session(signed_in=False)


def index_behind(world: World) -> None:
    page = world.project / "wiki" / "global" / "refunds.md"
    page.parent.mkdir(parents=True)
    page.write_text("---\nsummary: What a refund is\n---\n\n# Refunds\n")


def dead_server(world: World) -> None:
    settings = ServerSettings((ServedFolder("", str(world.project)),))
    mine = ServerState("gone", settings, free_port(), token_required=False)
    write_server_state(Layout(world.project), dataclasses.replace(mine, process_start="of another process"))


def older_skills(world: World) -> None:
    assert world.ktx("agents", "install", "--target", "cursor", "--scope", "user").code == 0
    manifest = Layout(world.project).agents_manifest
    document = json.loads(manifest.read_text())
    skills = document["installs"][0]["skills"]
    for name in skills:
        Path(name).write_text("what an older ktx wrote")
        skills[name] = digest(b"what an older ktx wrote")
    manifest.write_text(json.dumps(document))


def open_to_others(world: World) -> None:
    (world.project / ".ktx").chmod(0o755)


def no_embeddings_model(world: World) -> None:
    world.configure("ingest:\n  embeddings: {backend: model2vec, model: models/none-here}\n", SQLITE)


AGAIN = "ktx doctor --fix --only"
NO_LOGIN = "a person signs in, in a browser"
NO_REGISTRY = "what it installs comes from a package index, and tests leave this machine for nothing"
READER = "CREATE ROLE ktx_reader LOGIN PASSWORD '...'; GRANT pg_read_all_data TO ktx_reader; then: export PG_URL=..."
WRITE_IT = "in wiki/global/revenue.md line 3: write wiki/global/refunds.md, or remove the reference"

SITUATIONS = (
    Situation("no session", no_session, "llm", "fail", AUTH_HINT, 3, reason=NO_LOGIN),
    Situation("API key only", api_key_only, "llm", "fail", AUTH_HINT, 3, reason=NO_LOGIN),
    Situation("expired session", expired_session, "probe:claude-code:sonnet", "fail", AUTH_HINT, 3, reason=NO_LOGIN),
    Situation(
        *("wrong model name", wrong_model, "probe:anthropic:claude-sonnet-5-4", "fail"),
        *("ktx config set llm.models.default claude-sonnet-5-5", 1),
    ),
    Situation(
        *("unreachable database", unreachable, "connection:warehouse", "fail", "export PG_URL=...", 1, "connections"),
        server=True,
    ),
    Situation(
        *("role that can write", may_write, "connection:warehouse", "warn", f"as an administrator: {READER}", 0),
        *("connections",),
        server=True,
    ),
    Situation(
        *("query history without a grant", history_without_grant, "history:warehouse", "fail"),
        *('run as a superuser: GRANT pg_read_all_stats TO "doctor_history"', 3),
        server=True,
    ),
    Situation("missing secret", missing_secret, "secrets", "fail", "export SHOP_URL=...", 3),
    Situation("broken YAML", broken_yaml, "config", "fail", "correct line 3 of {project}/ktx.yaml", 2),
    Situation("lock of a dead run", dead_lock, "lock", "warn", f"{AGAIN} lock", 0),
    Situation("index.lock of a killed run", git_lock, "repository", "warn", f"{AGAIN} repository", 0),
    Situation("dangling wiki reference", dangling_reference, "wiki", "warn", WRITE_IT, 0),
    Situation(
        *("missing extra", missing_extra, "extras", "fail", "pip install 'ktx-cli[mysql]'", 3), reason=NO_REGISTRY
    ),
    Situation(
        *("caching settings ignored", ignored_caching, "prompt_caching", "warn"),
        *(
            "ktx config set llm.promptCaching.cacheTools true && ktx config set llm.promptCaching.cacheHistory true",
            3,
            "llm",
        ),
    ),
    Situation("search index behind", index_behind, "index", "warn", "ktx index", 0),
    Situation("state file of a dead server", dead_server, "mcp", "warn", "ktx mcp stop", 0),
    Situation(
        *("skills of an older ktx", older_skills, "agents:cursor", "warn"),
        *("ktx agents install --target cursor --scope user", 0),
    ),
    Situation(".ktx open to others", open_to_others, "state", "warn", "chmod go-rwx {project}/.ktx", 0),
    Situation(
        *("embeddings model not here", no_embeddings_model, "embeddings", "fail"),
        *("hf download models/none-here", 3),
        reason="what it downloads comes from a model hub, and tests leave this machine for nothing",
    ),
)
"""Every situation, those of the models first."""
