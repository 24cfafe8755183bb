"""The requirements of the model runtime and the tests that cover them.

    python -m docs.requirements            list the tests of each requirement; fail if one has none
    python -m docs.requirements --run      run those tests first and print their results

A test names the requirements that it covers with `@pytest.mark.requirement("R16", ...)`. `WITHOUT_TEST` gives the
reason for each requirement that no test can cover.
"""

from __future__ import annotations

import argparse
import ast
import re
import subprocess
import sys
from collections import defaultdict
from pathlib import Path

TESTS = Path(__file__).parent.parent / "tests"

REQUIREMENTS = [
    *(f"R{number}" for number in range(1, 65)),
    *(f"G{number}" for number in range(1, 22)),
    *(f"C{number}" for number in range(1, 19)),
]

WITHOUT_TEST = {
    "R42": "there is no such check: ktx does not read Claude Code's folder to decide whether there is a session",
    "R50": "ktx does not use the Stop hook; R49 covers what it uses instead",
    "R61": "this is a list of tests; each is covered by its own requirement",
    "C15": "the agent catalogue is optional and does not exist",
}
"""Requirements that no test can cover, and the reasons."""


def covering_tests() -> dict[str, list[str]]:
    """Return the node ids of the tests of each requirement."""
    found: dict[str, list[str]] = defaultdict(list)
    for path in sorted(TESTS.rglob("test_*.py")):
        tree = ast.parse(path.read_text("utf-8"))
        node_file = path.relative_to(TESTS.parent).as_posix()
        for scope, node in _tests(tree):
            for requirement in _marked(node):
                found[requirement].append("::".join([node_file, *scope, node.name]))
    return found


def _tests(tree: ast.AST, scope: tuple[str, ...] = ()) -> list[tuple[tuple[str, ...], ast.FunctionDef]]:
    tests = []
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
            tests.append((scope, node))
        elif isinstance(node, ast.ClassDef):
            tests += _tests(node, (*scope, node.name))
    return tests


def _marked(node: ast.FunctionDef) -> list[str]:
    return [
        argument.value
        for decorator in node.decorator_list
        if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "pytest.mark.requirement"
        for argument in decorator.args
        if isinstance(argument, ast.Constant) and isinstance(argument.value, str)
    ]


def outcomes(tests: list[str]) -> dict[str, str]:
    """Run the tests and return the worst outcome (`PASSED`, `FAILED`, ...) of each node id, without parameters."""
    command = [sys.executable, "-m", "pytest", "-n", "auto", "-rA", "-q", "--no-header", *tests]
    done = subprocess.run(command, cwd=TESTS.parent, capture_output=True, text=True, check=False)
    found: dict[str, str] = {}
    rank = {"PASSED": 0, "SKIPPED": 1, "FAILED": 2, "ERROR": 3}
    for word, node in re.findall(r"^(PASSED|SKIPPED|FAILED|ERROR) (?:\[\d+\] )?(\S+)", done.stdout, re.M):
        name = node.partition("[")[0].partition(" ")[0]
        if rank[word] >= rank.get(found.get(name, "PASSED"), 0):
            found[name] = word
    return found


def main() -> int:
    """Print the table; return 1 if a requirement has neither a test nor a reason, or if a test did not pass."""
    arguments = argparse.ArgumentParser(description=__doc__)
    arguments.add_argument("--run", action="store_true", help="run the tests")
    arguments.add_argument("--quiet", action="store_true", help="print only what is missing")
    options = arguments.parse_args()
    covered = covering_tests()
    results = outcomes(sorted({test for tests in covered.values() for test in tests})) if options.run else {}
    problems = [f"{name}: no test and no reason in WITHOUT_TEST" for name in REQUIREMENTS if not covered.get(name)]
    problems = [problem for problem in problems if problem.partition(":")[0] not in WITHOUT_TEST]
    unknown = {name: tests[0] for name, tests in covered.items() if name not in REQUIREMENTS}
    problems += [f"{name}: no such requirement ({test})" for name, test in unknown.items()]
    for name in REQUIREMENTS:
        tests = covered.get(name, [])
        if options.run:
            bad = [test for test in tests if results.get(test) not in ("PASSED", "SKIPPED")]
            problems += [f"{name}: {test} {results.get(test, 'did not run')}" for test in bad]
        if not options.quiet:
            shown = [f"{results.get(test, '')} {test}".strip() for test in tests]
            print(f"{name}\t{', '.join(shown) or 'no test: ' + WITHOUT_TEST.get(name, 'MISSING')}")
    for problem in problems:
        print(problem, file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
