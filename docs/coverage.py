"""Runs the tests and prints the line and branch coverage of each package.

    make coverage                                   the whole suite, in parallel
    python -m docs.coverage -n 0 tests/semantic     these tests, with arguments of pytest

The figures include programs and forks that the tests start. They exclude the processes that run statements on DuckDB
and SQLite, which start without site packages because restricting their imports is part of the protection.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Final

import coverage

ROOT: Final = Path(__file__).parent.parent
PACKAGE: Final = ROOT / "ktx_cli"
SETTINGS: Final = """\
[run]
branch = true
parallel = true
patch = subprocess, fork, _exit
source_pkgs = ktx_cli
omit = */ktx_cli/testing/*
disable_warnings = no-data-collected, module-not-imported, module-not-measured, couldnt-parse
data_file = {folder}/data
"""
SUITE: Final = ("-n", "auto", "--dist", "worksteal", "-m", "not slow and not house", "-q")


def measured(arguments: Sequence[str], folder: Path) -> tuple[int, coverage.Coverage]:
    """Run pytest; return its exit code and what was covered."""
    settings = folder / "settings"
    settings.write_text(SETTINGS.format(folder=folder), "utf-8")
    command = [sys.executable, "-m", "coverage", "run", "--rcfile", str(settings), "-m", "pytest", *arguments]
    code = subprocess.run(
        command, cwd=ROOT, check=False, env={**os.environ, "COVERAGE_RCFILE": str(settings)}
    ).returncode
    found = coverage.Coverage(config_file=str(settings))
    found.combine(strict=True)
    found.load()
    return code, found


def counted(found: coverage.Coverage) -> Mapping[str, Counter[str]]:
    """Return the numbers of lines and branches, in total and run, by package; root modules count as one package."""
    packages: dict[str, Counter[str]] = {}
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if place.parts[0] == "testing":
            continue
        _, lines, _, missed, _ = found.analysis2(str(path))
        branches = found.branch_stats(str(path)).values()
        package = packages.setdefault(place.parts[0] if len(place.parts) > 1 else "(top)", Counter())
        package["lines"] += len(lines)
        package["lines run"] += len(lines) - len(missed)
        package["branches"] += sum(total for total, _ in branches)
        package["branches run"] += sum(taken for _, taken in branches)
    return packages


def table(packages: Mapping[str, Counter[str]]) -> Iterator[str]:
    """Yield the lines of the table."""
    yield f"{'package':<14}{'lines':>8}{'run':>8}{'branches':>10}{'run':>8}"
    for name, package in [*packages.items(), ("all", sum(packages.values(), Counter()))]:
        shares = (_share(package["lines run"], package["lines"]), _share(package["branches run"], package["branches"]))
        yield f"{name:<14}{package['lines']:>8}{shares[0]:>8}{package['branches']:>10}{shares[1]:>8}"


def _share(part: int, whole: int) -> str:
    return f"{100 * part / whole:.1f} %" if whole else "-"


def main() -> int:
    """Run the tests that the command line names, all by default, and print the table."""
    with tempfile.TemporaryDirectory(prefix="coverage-") as folder:
        code, found = measured(sys.argv[1:] or SUITE, Path(folder))
        print("\n".join(table(counted(found))))
    return code


if __name__ == "__main__":
    sys.exit(main())
