"""`ktx setup`: make a project, choose a backend, add a database."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Annotated, Any

import typer

from ktx_cli.cli.attempts import Attempt
from ktx_cli.cli.blocks import Fields
from ktx_cli.cli.contract import Result, Session, command
from ktx_cli.cli.model_flags import BACKENDS, ModelAttempt, given_flags, shown_words
from ktx_cli.cli.settings import current_folder
from ktx_cli.core.errors import UsageError
from ktx_cli.core.text import plural

DATABASE = "Database"
LLM = "Model"
FLAGS = {
    "driver": "--database",
    "url": "--database-url",
    "path": "--database-path",
    "schemas": "--database-schema",
    "include": "--include",
    "exclude": "--exclude",
}
"""The flag of each field of a connection, by its `ktx.yaml` key."""
PROVIDER_FLAGS = {
    "--llm-api-key": "api_key",
    "--llm-base-url": "base_url",
    "--llm-location": "location",
    "--llm-project": "project",
}
"""What each flag sets of the backend's provider."""


def register(app: typer.Typer) -> None:
    """Add the command to the app."""

    @command(app, "setup")
    def setup(
        session: Session,
        llm_backend: Annotated[
            str | None, typer.Option("--llm-backend", help=f"{BACKENDS}.", rich_help_panel=LLM)
        ] = None,
        llm_model: Annotated[
            str | None, typer.Option("--llm-model", help="The default model.", rich_help_panel=LLM)
        ] = None,
        llm_api_key: Annotated[
            str | None,
            typer.Option("--llm-api-key", help="Key of the API, as env:NAME or file:PATH.", rich_help_panel=LLM),
        ] = None,
        llm_base_url: Annotated[
            str | None,
            typer.Option("--llm-base-url", help="Address of the API; a gateway needs it.", rich_help_panel=LLM),
        ] = None,
        llm_location: Annotated[
            str | None, typer.Option("--llm-location", help="Region, for vertex.", rich_help_panel=LLM)
        ] = None,
        llm_project: Annotated[
            str | None, typer.Option("--llm-project", help="Google Cloud project, for vertex.", rich_help_panel=LLM)
        ] = None,
        database: Annotated[
            str | None,
            typer.Option(
                "--database", help="Driver: sqlite, duckdb, files, postgres, mysql.", rich_help_panel=DATABASE
            ),
        ] = None,
        database_connection_id: Annotated[
            str | None,
            typer.Option("--database-connection-id", help="Its id in ktx.yaml (warehouse).", rich_help_panel=DATABASE),
        ] = None,
        database_url: Annotated[
            str | None,
            typer.Option("--database-url", help="URL, better as env:NAME or file:PATH.", rich_help_panel=DATABASE),
        ] = None,
        database_path: Annotated[
            str | None,
            typer.Option(
                "--database-path",
                help="File (sqlite, duckdb) or folder, relative to the project.",
                rich_help_panel=DATABASE,
            ),
        ] = None,
        database_schema: Annotated[
            list[str] | None,
            typer.Option("--database-schema", help="Only this schema; repeatable.", rich_help_panel=DATABASE),
        ] = None,
        include: Annotated[
            list[str] | None,
            typer.Option("--include", help="Pattern of tables wanted: 'mart.*'.", rich_help_panel=DATABASE),
        ] = None,
        exclude: Annotated[
            list[str] | None,
            typer.Option("--exclude", help="Pattern of tables unwanted: '*_tmp'.", rich_help_panel=DATABASE),
        ] = None,
        no_test: Annotated[
            bool,
            typer.Option("--no-test", help="Save without connecting or asking the model.", rich_help_panel=DATABASE),
        ] = False,
    ) -> Result:
        """Create a project in this folder, or change the one that is here. Flags change only what they name."""
        from ktx_cli.jobs.setup.run import SetupRequest
        from ktx_cli.jobs.setup.run import setup as run_setup
        from ktx_cli.project.resolve import folder_for_setup

        fields = {
            "url": database_url,
            "path": database_path,
            "schemas": database_schema,
            "include": include,
            "exclude": exclude,
        }
        llm = given_flags(
            {
                "--llm-backend": llm_backend,
                "--llm-model": llm_model,
                "--llm-api-key": llm_api_key,
                "--llm-base-url": llm_base_url,
                "--llm-location": llm_location,
                "--llm-project": llm_project,
            }
        )
        request = SetupRequest(
            project_dir=folder_for_setup(session.settings.project_dir, os.environ, current_folder()),
            environ=os.environ,
            backend=llm_backend,
            model=llm_model,
            provider={PROVIDER_FLAGS[flag]: value for flag, value in llm.items() if flag in PROVIDER_FLAGS},
            database=database_fields(database, database_connection_id, fields),
            connection=database_connection_id,
            test=not no_test,
            emit=session.emitter(),
        )

        def attempt(changed: Mapping[str, str]) -> Attempt:
            begins = ["ktx", "setup", *session.settings.project_words, *shown_words({**llm, **changed})]
            fields = request.database or {}
            return Attempt(begins, database_connection_id, fields, FLAGS, "--database-connection-id")

        models = ModelAttempt(lambda changed: attempt(changed).typed({}))
        with models.hinting(), attempt({}).hinting():
            report = run_setup(request)
        for warning in report.warnings:
            models.retold(warning)
        session.warn(*report.warnings)
        rows = [("project", str(report.project_dir)), ("created", "yes" if report.created_project else "no")]
        if report.connection and report.test:
            tables = plural(report.test.tables, "table or view", "tables and views")
            rows.append((report.connection, f"{report.test.server_version}, {tables}"))
        for result in report.probes.results:
            if result.report is not None:
                rows.append((str(result.ref), f"answers: {result.report.account}"))
        rows.append(("ktx.yaml", "saved" if report.changed else "unchanged"))
        step = "ktx ingest" if report.has_connections else "ktx setup --database sqlite --database-path data.sqlite"
        return Result(report.to_json(), [Fields(tuple(rows))], next_steps=[step])


def database_fields(driver: str | None, connection: str | None, fields: dict[str, Any]) -> dict[str, Any] | None:
    """Return the connection's fields by `ktx.yaml` key, or None when no database flag was given."""
    given = {key: value for key, value in fields.items() if value}
    if driver is None:
        if given or connection:
            raise UsageError("a database flag needs --database DRIVER", hint="for example --database sqlite")
        return None
    return {"driver": driver, **given}
