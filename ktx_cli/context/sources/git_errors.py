"""What can go wrong between ktx and a git repository it reads."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Final

from ktx_cli.core.errors import ConfigError, KtxError, NotReadyError, SourceError
from ktx_cli.core.text import did_you_mean, listing
from ktx_cli.project import secrets
from ktx_cli.project.git import condensed


class RepositoryUnreachableError(SourceError):
    """A repository that does not answer, or is not there."""


class RepositoryDeniedError(NotReadyError):
    """A repository that does not accept the credentials, or wants some."""


class BranchMissingError(ConfigError):
    """A branch the repository does not have; `details.branches` are those it has."""


_DENIED: Final = (
    "Authentication failed", "could not read Username", "could not read Password", "error: 401", "error: 403",
    "Permission denied (", "Access denied", "invalid credentials", "HTTP Basic: Access denied",
)  # fmt: skip
_UNKNOWN_HOST_KEY: Final = "Host key verification failed"
_MOVED: Final = ("error: 301", "error: 302", "error: 307", "error: 308")


def remote_error(stderr: bytes, origin: str, token_setting: str, *, shown: Collection[str]) -> KtxError:
    """Return what a failed request to a repository means; `stderr` is what git said.

    `origin`: its address. `token_setting`: the setting a token stands in. `shown`: secrets that were sent.
    """
    said = secrets.redact(secrets.mask(stderr.decode("utf-8", "replace")), shown)
    reason = condensed(said.encode()) or "no answer"
    details = {"repository": origin}
    if any(sign in said for sign in _DENIED):
        what = "did not accept the token" if shown else "wants credentials"
        hint = f"set {token_setting} to a token that may read it, for example env:GIT_TOKEN"
        if not origin.startswith("http"):
            what, hint = "did not accept the key", f"check that this works: git ls-remote {origin}"
        return RepositoryDeniedError(f"{origin} {what}: {reason}", hint=hint, details=details)
    if _UNKNOWN_HOST_KEY in said:
        hint = f"connect once by hand to accept the host's key: git ls-remote {origin}"
        return RepositoryDeniedError(f"the host of {origin} is not known to ssh", hint=hint, details=details)
    hint = "check the address and the network, then run `ktx ingest` again"
    if any(sign in said for sign in _MOVED) or "redirect" in said:
        hint = "it has moved: write its new address; a token is never sent on to another one"
    return RepositoryUnreachableError(f"{origin} cannot be read: {reason}", hint=hint, details=details)


def no_branch(branch: str, branches: Iterable[str], origin: str, where: str) -> BranchMissingError:
    """Return the error for a branch the repository does not have; `where` is the setting."""
    known = sorted(branches)
    near = did_you_mean(branch, known)
    hint = f"set {where} to {near}" if near else f"set {where} to one of: {listing(known, 20)}"
    there = f"; it has {listing(known, 20)}" if known else "; it has no branch"
    return BranchMissingError(
        f"{origin} has no branch `{branch}`{there}", hint=hint, details={"repository": origin, "branches": known}
    )
