"""The flags of `ktx setup`: one for each question of the wizard, grouped by step, and the resulting answers."""

from __future__ import annotations

import inspect
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Final

from typer import Option

from ktx_cli.cli.blocks import Block, Fields, Lines
from ktx_cli.core import UsageError, plural
from ktx_cli.jobs.clients.targets import Scope, Target
from ktx_cli.jobs.setup.answers import (
    DATABASE_WORDS,
    SOURCE_WORDS,
    AgentsAnswer,
    Answers,
    Build,
    ConnectionAnswer,
    EmbeddingAnswer,
    Keeping,
    ModelAnswer,
    SetupStep,
    Word,
)

if TYPE_CHECKING:
    from ktx_cli.jobs.connections import SourceCheck
    from ktx_cli.jobs.setup.request import SetupReport
    from ktx_cli.jobs.setup.setup import Preview
    from ktx_cli.warehouses import ConnectionTest


BACKENDS: Final = (
    "none, anthropic, vertex, bedrock, gateway, openai, openai-compatible, gemini, claude-code, claude-cli or codex"
)
LLM, EMBEDDINGS, DATABASE, SOURCE = "Model", "Embeddings", "Database", "Context source"
BUILD, HOW = "Build and agents", "Run"

PROVIDER_FLAGS: Final = {
    "--llm-api-key": "api_key",
    "--llm-base-url": "base_url",
    "--llm-location": "location",
    "--llm-project": "project",
    "--llm-profile": "profile",
    "--llm-auth": "auth",
    "--llm-api": "api",
}
"""Flag -> the key of the backend's provider that it sets."""

Values = Mapping[str, Any]


def _text(flag: str, help: str, panel: str, *, several: bool = False, metavar: str | None = None) -> Any:
    option = Option(flag, help=help, rich_help_panel=panel, metavar=metavar)
    return Annotated[list[str] | None, option] if several else Annotated[str | None, option]


def _choice(kind: Any, flag: str, help: str, panel: str) -> Any:
    return Annotated[kind | None, Option(flag, help=help, rich_help_panel=panel)]


_OPTIONS: Final[dict[str, Any]] = {
    "llm_backend": _text("--llm-backend", f"Model backend: {BACKENDS}.", LLM),
    "llm_model": _text("--llm-model", "Default model.", LLM),
    "llm_role": _text("--llm-role", "Model of a role. Can be repeated.", LLM, several=True, metavar="ROLE=MODEL"),
    "llm_api_key": _text("--llm-api-key", "API key. Prefer env:NAME or file:PATH to plaintext.", LLM),
    "llm_base_url": _text("--llm-base-url", "Base URL of the API. Required for openai-compatible.", LLM),
    "llm_auth": _text("--llm-auth", "How to send the key to a gateway or a server: key or bearer.", LLM),
    "llm_api": _text("--llm-api", "API of an openai-compatible server: chat or responses. Defaults to chat.", LLM),
    "llm_location": _text("--llm-location", "Region of the vertex or bedrock backend.", LLM),
    "llm_project": _text("--llm-project", "Google Cloud project of the vertex backend.", LLM),
    "llm_profile": _text("--llm-profile", "AWS profile of the bedrock backend.", LLM),
    "descriptions": _text("--descriptions", "How to describe tables: none, deterministic or llm.", LLM),
    "embeddings": _text(
        "--embeddings", "Embedding backend: none, model2vec, sentence-transformers or openai.", EMBEDDINGS
    ),
    "embedding_model": _text("--embedding-model", "Name or folder of the embedding model.", EMBEDDINGS),
    "embedding_dimensions": Annotated[
        int | None,
        Option("--embedding-dimensions", min=1, help="Number of dimensions of a vector.", rich_help_panel=EMBEDDINGS),
    ],
    "embedding_api_key": _text("--embedding-api-key", "API key. Prefer env:NAME to plaintext.", EMBEDDINGS),
    "embedding_base_url": _text("--embedding-base-url", "Base URL of the API or of a local server.", EMBEDDINGS),
    "database": _text("--database", "Database driver, for example sqlite, duckdb, files, postgres or mysql.", DATABASE),
    "database_connection_id": _text(
        "--database-connection-id", "Connection ID in ktx.yaml. Defaults to warehouse.", DATABASE
    ),
    "include": _text(
        "--include",
        "Include only tables that match, for example 'mart.*'. Can be repeated.",
        DATABASE,
        several=True,
        metavar="PATTERN",
    ),
    "exclude": _text(
        "--exclude",
        "Exclude tables that match, for example '*_tmp'. Can be repeated.",
        DATABASE,
        several=True,
        metavar="PATTERN",
    ),
    "query_history": Annotated[
        bool | None,
        Option(
            "--query-history/--no-query-history",
            help="Also read the query history of the database.",
            rich_help_panel=DATABASE,
        ),
    ],
    "database_set": _text(
        "--database-set", "Set any other field. Can be repeated.", DATABASE, several=True, metavar="KEY=VALUE"
    ),
    "source": _text("--source", "Source driver, for example dbt, documents, lookml, metabase or notion.", SOURCE),
    "source_connection_id": _text(
        "--source-connection-id", "Connection ID in ktx.yaml. Defaults to the driver.", SOURCE
    ),
    "source_set": _text(
        "--source-set", "Set any other field. Can be repeated.", SOURCE, several=True, metavar="KEY=VALUE"
    ),
    "build": _choice(
        Build, "--build", "Build context right away: none, the structure of databases, or all. Defaults to none.", BUILD
    ),
    "agents": Annotated[
        list[Target] | None,
        Option(
            "--agents",
            metavar="CLIENT",
            help=f"Install the project in an agent client: {', '.join(Target)}. Can be repeated.",
            rich_help_panel=BUILD,
        ),
    ],
    "agents_scope": _choice(Scope, "--agents-scope", "Write to files in the project, or to your own settings.", BUILD),
    "answers": Annotated[
        Path | None, Option("--answers", metavar="FILE", help="Read the answers from a YAML file.", rich_help_panel=HOW)
    ],
    "only": Annotated[
        list[SetupStep] | None,
        Option(
            "--only",
            metavar="STEP",
            help=f"Only run this step: {', '.join(SetupStep)}. Can be repeated.",
            rich_help_panel=HOW,
        ),
    ],
    "print_plan": Annotated[
        bool, Option("--print-plan", help="Show what would change without writing anything.", rich_help_panel=HOW)
    ],
    "no_commit": Annotated[
        bool, Option("--no-commit", help="Write the files without committing them.", rich_help_panel=HOW)
    ],
    "branch": Annotated[
        str | None,
        Option(
            "--branch", metavar="NAME", help="Commit to this branch instead of the current one.", rich_help_panel=HOW
        ),
    ],
    "keep_secrets": _choice(
        Keeping, "--keep-secrets", "Where to store secrets that are given in plaintext. Defaults to file.", HOW
    ),
    "no_test": Annotated[
        bool, Option("--no-test", help="Save without testing connections and models.", rich_help_panel=HOW)
    ],
}


_SWITCHES: Final = ("print_plan", "no_test", "no_commit")


def with_flags(function: Any) -> Any:
    """Give a command function `(session, **values)` a parameter for each flag."""
    options = dict(_OPTIONS)
    for prefix, panel, words in (("database", DATABASE, DATABASE_WORDS), ("source", SOURCE, SOURCE_WORDS)):
        for word in words:
            options[f"{prefix}_{_name(word)}"] = _text(
                f"--{prefix}-{word.name}",
                word.question
                + (". Can be repeated." if word.several else ". Prefer env:NAME to plaintext." if word.secret else "."),
                panel,
                several=word.several,
                metavar=word.name.upper() if word.several else None,
            )
    keyword = inspect.Parameter.KEYWORD_ONLY
    own = list(inspect.signature(function, eval_str=True).parameters.values())[:1]
    made = [
        inspect.Parameter(name, keyword, annotation=annotation, default=False if name in _SWITCHES else None)
        for name, annotation in options.items()
    ]
    function.__signature__ = inspect.Signature([*own, *made], return_annotation=function.__annotations__["return"])
    return function


def _name(word: Word) -> str:
    return word.name.replace("-", "_")


def answers_of(values: Values) -> Answers:
    """Return the answers in the flags; raises `UsageError` for flags that cannot be combined."""
    return Answers(
        llm=_llm(values),
        embeddings=_embeddings(values),
        databases=_connection(values, "database", DATABASE_WORDS),
        sources=_connection(values, "source", SOURCE_WORDS),
        build=values["build"],
        agents=_agents(values),
        keeping=values["keep_secrets"] or Keeping.FILE,
    )


def llm_flags(values: Values) -> dict[str, str]:
    """Return the given model flags with their values."""
    names = ("llm_backend", "llm_model", *(flag.removeprefix("--").replace("-", "_") for flag in PROVIDER_FLAGS))
    given = {f"--{name.replace('_', '-')}": values[name] for name in names if values[name] is not None}
    for flag, value in given.items():
        if not value.strip():
            raise UsageError(f"`{flag}` is empty", hint=f"{flag} VALUE, or omit {flag} to keep the setting unchanged")
    return given


def shown_words(flags: Mapping[str, str]) -> list[str]:
    """Return model flags as command arguments; a plaintext key is replaced by a placeholder."""
    from ktx_cli.project import is_reference, redact_url

    words: list[str] = []
    for flag, value in flags.items():
        words += [flag, "env:NAME" if flag == "--llm-api-key" and not is_reference(value) else redact_url(value)]
    return words


def connection_flags(prefix: str, driver: str) -> dict[str, str]:
    """Return the flag for each key of a driver; `prefix`: `database` or `source`."""
    from ktx_cli.jobs.setup.plan import key_of

    flags = {"driver": f"--{prefix}"}
    for word in DATABASE_WORDS if prefix == "database" else SOURCE_WORDS:
        key = key_of(word, driver)
        if key is not None:
            flags.setdefault(key, f"--{prefix}-{word.name}")
    return flags | ({"include": "--include", "exclude": "--exclude"} if prefix == "database" else {})


def other_words(values: Values) -> list[str]:
    """Return the flags that are neither about the model nor about a connection, as command arguments."""
    words: list[str] = []
    for name in _OTHERS:
        value = values[name]
        flag = f"--{name.replace('_', '-')}"
        if value is True:
            words.append(flag)
        elif value not in (None, False, []):
            shown = ["env:NAME"] if name == "embedding_api_key" and not _is_reference(value) else value
            for item in shown if isinstance(shown, list) else [shown]:
                words += [flag, str(item)]
    return words


_OTHERS: Final = (
    *("llm_role", "descriptions", "embeddings", "embedding_model", "embedding_dimensions", "embedding_api_key"),
    *(
        "embedding_base_url",
        "build",
        "agents",
        "agents_scope",
        "only",
        "keep_secrets",
        "no_test",
        "no_commit",
        "branch",
    ),
)


def _is_reference(value: str) -> bool:
    from ktx_cli.project import is_reference

    return is_reference(value)


def _llm(values: Values) -> ModelAnswer | None:
    flags = llm_flags(values)
    models = dict(_pairs(values["llm_role"], "--llm-role", "triage=haiku"))
    if not flags and not models and values["descriptions"] is None:
        return None
    if "--llm-model" in flags:
        models["default"] = flags["--llm-model"]
    provider = {key: flags[flag] for flag, key in PROVIDER_FLAGS.items() if flag in flags}
    return ModelAnswer(flags.get("--llm-backend"), models, provider, values["descriptions"])


def _embeddings(values: Values) -> EmbeddingAnswer | None:
    given = [values[name] for name in ("embeddings", *(f"embedding_{key}" for key in _EMBEDDING_KEYS))]
    return EmbeddingAnswer(*given) if any(value is not None for value in given) else None


_EMBEDDING_KEYS: Final = ("model", "dimensions", "api_key", "base_url")


def _connection(values: Values, prefix: str, words: Sequence[Word]) -> tuple[ConnectionAnswer, ...]:
    from ktx_cli.jobs.setup.plan import fields_of

    driver, connection = values[prefix], values[f"{prefix}_connection_id"]
    given = {word.name: value for word in words if (value := values[f"{prefix}_{_name(word)}"])}
    other = dict(_pairs(values[f"{prefix}_set"], f"--{prefix}-set", "sslmode=require"))
    scope = _scope(values) if prefix == "database" else {}
    if driver is None:
        if given or other or scope or connection:
            raise UsageError(f"--{prefix}-... flags require --{prefix} DRIVER", hint=f"for example {_EXAMPLES[prefix]}")
        return ()
    _require_driver(driver, prefix)
    fields = fields_of(driver, given, tuple(words), flag=f"--{prefix}-") | scope
    _merge(fields, other, prefix)
    return (ConnectionAnswer(fields, connection),)


_EXAMPLES: Final = {"database": "--database sqlite", "source": "--source dbt --source-dir dbt"}


def _require_driver(driver: str, prefix: str) -> None:
    from ktx_cli.core import did_you_mean
    from ktx_cli.project import SOURCES, WAREHOUSES

    kinds, others, other = WAREHOUSES, SOURCES, "source"
    if prefix == "source":
        kinds, others, other = SOURCES, WAREHOUSES, "database"
    if driver in kinds:
        return
    if driver in others:
        article = "an" if other[0] in "aeiou" else "a"
        raise UsageError(f"`{driver}` is {article} {other}, not a {prefix}", hint=f"--{other} {driver}")
    known = kinds.names()
    near = did_you_mean(driver, known)
    message = f"unknown {prefix} driver `{driver}`"
    raise UsageError(message, hint=f"--{prefix} {near}" if near else f"use one of {', '.join(known)}")


def _scope(values: Values) -> dict[str, Any]:
    found: dict[str, Any] = {key: values[key] for key in ("include", "exclude") if values[key]}
    if values["query_history"] is not None:
        found["context"] = {"queryHistory": {"enabled": values["query_history"]}}
    return found


def _merge(fields: dict[str, Any], other: Mapping[str, str], prefix: str) -> None:
    from ktx_cli.jobs.setup.plan import put, read_value

    for key, text in other.items():
        if key == "driver":
            raise UsageError(f"--{prefix}-set cannot set the driver", hint=f"--{prefix} {text}")
        put(fields, key, read_value(fields["driver"], key, text, where=f"--{prefix}-set {key}"))


def _pairs(given: Sequence[str] | None, flag: str, example: str) -> Iterator[tuple[str, str]]:
    for pair in given or ():
        key, equals, value = pair.partition("=")
        if not equals or not key or not value:
            raise UsageError(f"{flag} {pair} is not KEY=VALUE", hint=f"for example {flag} {example}")
        yield key, value


def _agents(values: Values) -> AgentsAnswer | None:
    if not values["agents"]:
        if values["agents_scope"] is not None:
            raise UsageError("--agents-scope requires --agents", hint="--agents claude-code")
        return None
    return AgentsAnswer(tuple(values["agents"]), values["agents_scope"])


def report_blocks(report: SetupReport) -> list[Block]:
    """Return the report of setup as blocks."""
    rows = [("project", str(report.project_dir)), ("created", "yes" if report.created_project else "no")]
    rows += [(connection, tested(test)) for connection, test in report.tests.items() if test is not None]
    for result in report.probes.results:
        if result.report is not None:
            rows.append((str(result.ref), f"ok: {result.report.account}"))
    if report.embeddings is not None:
        rows.append(("embeddings", f"{report.embeddings.model}, {report.embeddings.dimensions} dimensions"))
    rows.append(("ktx.yaml", "saved" if report.changed else "unchanged"))
    if report.build is not None:
        rows += [(part.connection, part.result) for part in report.build.connections]
        rows += [(work.name, work.result) for work in report.build.sources]
    if report.agents is not None:
        rows += [(str(each.target), str(each.path or "see ktx agents install")) for each in report.agents.outcomes]
    if report.branch is not None and report.commit is not None:
        rows.append(("branch", report.branch))
    if report.commit is not None:
        rows.append(("commit", report.commit[:10]))
    rows += [("not committed", path) for path in report.uncommitted]
    return [Fields(tuple(rows))]


def tested(test: ConnectionTest | SourceCheck) -> str:
    """Return the result of a connection test as one line."""
    origin = getattr(test, "origin", None)
    if origin is not None:
        return str(origin)
    return f"{test.server_version}, {plural(test.tables, 'table or view', 'tables and views')}"  # type: ignore[union-attr]


def plan_blocks(plan: Preview) -> list[Block]:
    """Return the plan of setup as blocks."""
    steps = Fields(tuple(plan.steps) or (("ktx.yaml", "unchanged"),))
    return [steps, Lines(plan.diff)] if plan.diff else [steps]
