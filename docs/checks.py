"""Writes the reference of the checks of `ktx doctor` from their registry."""

from __future__ import annotations

from typing import Final

TOP: Final = """\
# The checks of `ktx doctor`

`ktx doctor` runs them side by side, each within its time, and prints what each found with the exact fix. `--only ID`
and `--skip ID` choose; `--fix` mends what needs no decision; `--junit FILE` and `--github` write for CI.

| level | means |
|---|---|
| `ok` | nothing is wrong |
| `skip` | there is nothing to look at, or it could not be looked at; the finding says which |
| `warn` | it works, and a person should look; fails with `--strict` |
| `fail` | something does not work |

Exit 0 when nothing failed, 3 when only setup or authentication is missing, 2 when `ktx.yaml` cannot be read, else 1.

*asks*: it opens databases, asks models, or starts programs. *status*: `ktx status` runs it too, and it decides whether
a project is ready.
"""


def doctor_page() -> str:
    """Return the page: every check with what it looks at, its time, and who runs it."""
    from ktx_cli.jobs.health.doctor import CHECKS
    from ktx_cli.jobs.health.status import READINESS

    ready = {getattr(each, "id", each) for each in READINESS}
    lines = [TOP, "| check | looks at | seconds | |", "|---|---|---|---|"]
    for check in CHECKS:
        words = [*(["asks"] if check.live else []), *(["status"] if check.id in ready else [])]
        lines.append(f"| `{check.id}` | {check.title} | {check.seconds:g} | {', '.join(words)} |")
    return "\n".join([*lines, ""])
