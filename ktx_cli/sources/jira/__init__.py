"""Jira, read through its API: finished issues with their descriptions and comments."""

from __future__ import annotations

from typing import Literal

from ktx_cli.project import REQUIRED, Question, SourceConnection, setting
from ktx_cli.sources.registry import SourceKind, WebAddress, page_creates, page_updates


class JiraConnection(SourceConnection):
    """A Jira site: Jira Cloud with an email address and an API token, Jira Data Center with a personal access token."""

    needs_one_of = ("projects", "jql")

    driver: Literal["jira"] = setting(REQUIRED, "Jira.")
    base_url: WebAddress = setting(
        REQUIRED,
        "Address of the site, for example https://acme.atlassian.net.",
        example="https://example.atlassian.net",
    )
    email: str | None = setting(
        None,
        "Account that owns the API token of Jira Cloud. Leave it out for Jira Data Center.",
        example="ktx@example.com",
    )
    api_token: str | None = setting(
        None, "API token, or the personal access token of Jira Data Center.", secret=True, example="env:JIRA_TOKEN"
    )
    api_token_ref: str | None = setting(
        None, "Alias of `api_token` from the TypeScript ktx.", secret=True, example="env:JIRA_TOKEN"
    )
    projects: list[str] = setting([], "Keys of the projects to read.", example=["DATA"])
    jql: str | None = setting(
        None,
        "Issues to read, as JQL. Defaults to finished issues without sub-tasks: "
        "`statusCategory = Done AND issuetype in standardIssueTypes()`.",
        example="labels = data-definition",
    )
    labels: list[str] = setting(
        [],
        "Only read issues with one of these labels. Without `jql`, these are read whatever their status is.",
        example=["decision"],
    )
    since: str | None = setting(
        None,
        "Only read issues that changed on or after this date.",
        example="2024-01-01",
        pattern=r"^\d{4}-\d{2}-\d{2}$",
    )
    skip_resolutions: list[str] = setting(
        ["Cannot Reproduce", "Declined", "Duplicate", "Incomplete", "Won't Do", "Won't Fix"],
        "Resolutions of issues to skip, because nothing came of them.",
    )
    max_comments: int = setting(30, "Maximum number of comments per issue. The latest ones are read.", ge=0, le=200)
    max_pages: int = setting(1000, "Maximum number of issues per run.", ge=1, le=10000)
    max_knowledge_creates: int = page_creates()
    max_knowledge_updates: int = page_updates()


SOURCE = SourceKind(
    driver="jira",
    settings="ktx_cli.sources.jira:JiraConnection",
    source="ktx_cli.sources.jira.source:JiraSource",
    documents=True,
    questions=(
        Question("url", required=True),
        Question("user", text="Email address of the account on Jira Cloud"),
        Question("token", required=True),
        Question("space", required=True, text="Key of a project to read"),
    ),
)
"""Read finished Jira issues of the configured projects, or those that a JQL query selects."""
