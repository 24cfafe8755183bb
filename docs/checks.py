"""Generates the reference of the checks of `ktx doctor` from their registry."""

from __future__ import annotations

from typing import Final

TOP: Final = """\
# The checks of `ktx doctor`

`ktx doctor` runs these checks in parallel, each with a time limit, and prints the result of each with the exact fix.
`--only ID` and `--skip ID` select checks. `--fix` applies fixes that need no decision. `--junit FILE` and `--github`
write reports for CI.

| level | meaning |
|---|---|
| `ok` | No problems found. |
| `skip` | There is nothing to check, or the check could not run. The message says which. |
| `warn` | It works, but you should review it. Fails with `--strict`. |
| `fail` | Something does not work. |

The exit code is 0 if no check failed, 3 if only setup or authentication is missing, 2 if `ktx.yaml` is invalid, and
otherwise 1.

Checks marked *live* open databases, call models or start programs. Checks marked *status* also run in `ktx status`, and
decide whether a project is ready.
"""


def doctor_page() -> str:
    """Return the page: every check with its title, its time limit, and the commands that run it."""
    from ktx_cli.jobs.health.doctor import CHECKS
    from ktx_cli.jobs.health.status import READINESS

    ready = {getattr(each, "id", each) for each in READINESS}
    lines = [TOP, "| check | what it checks | time limit (s) | |", "|---|---|---|---|"]
    for check in CHECKS:
        words = [*(["live"] if check.live else []), *(["status"] if check.id in ready else [])]
        lines.append(f"| `{check.id}` | {check.title} | {check.seconds:g} | {', '.join(words)} |")
    return "\n".join([*lines, ""])
