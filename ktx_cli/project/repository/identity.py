"""Who a commit is by: the author asked for, else the user's own identity, else ktx."""

from __future__ import annotations

import re
from collections.abc import Mapping

from ktx_cli.core.errors import ConfigError
from ktx_cli.project.repository.config import GitConfig

FALLBACK = ("ktx", "ktx@example.com")
"""Name and mail of commits where nobody is configured."""

_AUTHOR = re.compile(r"\s*([^<>\n]*[^<>\s])\s*<([^<>\s]+)>\s*")


def identity_variables(author: str | None, config: GitConfig, environ: Mapping[str, str]) -> dict[str, str]:
    """Return the `GIT_AUTHOR_*` and `GIT_COMMITTER_*` variables of a commit.

    All four are always set, so that git never derives one from host and login names (as root with an empty HOME it
    fails). Raises `ConfigError` when `author` is not `Name <mail>`.
    """
    own = _own("author", config, environ)
    wanted = _parsed(author) if author else own or FALLBACK
    committer = _own("committer", config, environ) or own or wanted
    return {
        "GIT_AUTHOR_NAME": wanted[0],
        "GIT_AUTHOR_EMAIL": wanted[1],
        "GIT_COMMITTER_NAME": committer[0],
        "GIT_COMMITTER_EMAIL": committer[1],
    }


def _parsed(author: str) -> tuple[str, str]:
    match = _AUTHOR.fullmatch(author)
    if match is None:
        raise ConfigError(
            f"the commit author {author!r} is not of the form Name <mail>",
            hint="write it as: Ann Lee <ann@example.com>",
        )
    return match.group(1), match.group(2)


def _own(role: str, config: GitConfig, environ: Mapping[str, str]) -> tuple[str, str] | None:
    upper = f"GIT_{role.upper()}"
    name = environ.get(f"{upper}_NAME") or config.last(f"{role}.name") or config.last("user.name")
    mail = (
        environ.get(f"{upper}_EMAIL")
        or config.last(f"{role}.email")
        or config.last("user.email")
        or environ.get("EMAIL")
    )
    return (name, mail) if name and mail else None
