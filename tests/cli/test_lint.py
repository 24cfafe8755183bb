"""`ktx lint` on a project: what it prints, how it ends, what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Run

Git = Callable[..., str]
SHARD = """\
tables:
  orders:
    table: orders
    columns:
      - {name: id, type: number, pk: true}
      - {name: amount, type: number, description: What was paid}
"""


@pytest.fixture
def layer(project: Path) -> Path:
    """The project with a semantic layer written by hand: nothing was scanned."""
    shard = project / "semantic-layer" / "warehouse" / "_schema" / "shop.yaml"
    shard.parent.mkdir(parents=True)
    shard.write_text(SHARD)
    (project / "ktx.yaml").write_text("connections:\n  warehouse:\n    driver: sqlite\n    path: shop.sqlite\n")
    return project


def page(folder: Path, body: str) -> None:
    path = folder / "wiki" / "global" / "orders.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"---\nsummary: Orders\n---\n\n{body}\n")


def test_what_has_no_description_alone_does_not_fail(ktx: Run, layer: Path) -> None:
    answer = ktx("lint", "--plain")
    assert answer.code == 0, answer
    lines = answer.out.splitlines()
    assert lines[:2] == [
        "semantic-layer/warehouse/_schema/shop.yaml:2: KTX101 info: table `orders` has no description",
        "  fix: add `description:` there",
    ]
    assert lines[-4:-2] == [
        "described\ttables\tcolumns\tmeasures\ttogether",
        "warehouse\t0.0% (0 of 1)\t50.0% (1 of 2)\tnone\t33.3% (1 of 3)",
    ]
    assert lines[-1] == "diagnostics: 3 info"


@pytest.mark.parametrize(
    ("options", "code"),
    [
        ((), 1),
        (("--ignore", "KTX204"), 0),
        (("--select", "KTX1"), 0),
        (("--select", "KTX1", "--min-coverage", "33.3"), 0),
        (("--select", "KTX1", "--min-coverage", "33.4"), 1),
        (("-c", "warehouse"), 1),
        (("--select", "KTX9"), 2),
        (("-c", "nothing"), 2),
        (("--min-coverage", "101"), 2),
    ],
)
def test_how_it_ends(ktx: Run, layer: Path, options: tuple[str, ...], code: int) -> None:
    page(layer, "Sum of `orders.amuont`.")
    assert ktx("lint", *options).code == code


def test_the_hint_of_low_coverage_lists_what_has_no_description(ktx: Run, layer: Path) -> None:
    hint = ktx("lint", "--select", "KTX1", "--min-coverage", "90", "--json").envelope["error"]["hint"].split()
    assert hint[:2] == ["ktx", "lint"]
    assert "without a description" in ktx(*hint[1:]).out


def test_the_envelope_has_every_finding_with_code_place_and_fix(ktx: Run, layer: Path) -> None:
    page(layer, "Sum of `orders.amuont`.")
    answer = ktx("lint", "--json", "--limit", "1")
    assert answer.code == 1
    assert (answer.envelope["schema"], answer.envelope["error"]["code"]) == ("ktx/lint/v1", "lint_problems")
    assert answer.data["findings"][0] == {
        "code": "KTX204",
        "level": "error",
        "message": "`orders.amuont`: `orders` has no column, measure or segment `amuont`",
        "hint": "did you mean `orders.amount`?",
        "path": "wiki/global/orders.md",
        "line": 5,
        "connection": None,
    }
    assert answer.data["counts"] == {"error": 1, "warning": 0, "info": 3}
    assert answer.data["coverage"]["total"]["all"] == {"described": 1, "total": 3, "percent": 33.3}


def test_annotations_name_files_from_the_top_of_the_repository(ktx: Run, layer: Path, git: Git) -> None:
    page(layer, "Sum of `orders.amuont`.")
    answer = ktx("lint", "--github", "--json", "--select", "KTX2,KTX101")
    assert (answer.code, len(answer.data["findings"])) == (1, 2)
    top = Path(git(layer, "rev-parse", "--show-toplevel").strip()).resolve()
    prefix = f"{layer.resolve().relative_to(top).as_posix()}/".removeprefix("./")
    first, second = answer.err.splitlines()
    assert first == (
        f"::error file={prefix}wiki/global/orders.md,line=5,title=KTX204::`orders.amuont`: `orders` has no column, "
        "measure or segment `amuont`%0Afix: did you mean `orders.amount`?"
    )
    assert second.startswith(f"::notice file={prefix}semantic-layer/warehouse/_schema/shop.yaml,line=2,title=KTX101::")


def test_only_the_first_of_a_code_are_printed(ktx: Run, layer: Path) -> None:
    page(layer, " ".join(f"`orders.no{number}`" for number in range(30)))
    assert ktx("lint", "--select", "KTX204").out.count("KTX204") == 20
    few = ktx("lint", "--select", "KTX204", "--limit", "3")
    assert few.out.count("KTX204") == 3
    assert "not shown: 27; --limit 0 shows all" in few.out
    assert ktx("lint", "--select", "KTX204", "--limit", "0").out.count("KTX204") == 30


def test_much_information_is_counted_unless_asked_for(ktx: Run, layer: Path) -> None:
    shard = layer / "semantic-layer" / "warehouse" / "_schema" / "shop.yaml"
    table = "{table: t, columns: [{name: id, type: number, pk: true}]}"
    shard.write_text("tables:\n" + "".join(f"  t{number}: {table}\n" for number in range(25)))
    page(layer, "Sum of `t1.amount`.")
    answer = ktx("lint", "--plain")
    assert answer.code == 1
    place = "semantic-layer/warehouse/_schema/shop.yaml:2"
    assert f"info\tcount\tmeaning\tfirst\nKTX101\t25\tA table has no description.\t{place}\n" in answer.out
    assert "wiki/global/orders.md:5: KTX204 error: " in answer.out
    assert " KTX101 info: " not in answer.out
    assert "not shown: 75; --verbose shows all" in answer.out
    assert ktx("lint", "--verbose").out.count(" KTX101 info: ") == 25
    assert ktx("lint", "--limit", "2").out.count(" KTX101 info: ") == 2
    assert ktx("lint", "--select", "KTX1").out.count(" KTX101 info: ") == 20


def test_it_writes_nothing_and_opens_no_database(ktx: Run, layer: Path, git: Git) -> None:
    page(layer, "Sum of `orders.amount`.")
    git(layer, "add", ".")
    git(layer, "commit", "-q", "-m", "context")
    (layer / "shop.sqlite").unlink()
    before = {path: path.stat().st_mtime_ns for path in layer.rglob("*") if path.is_file()}
    assert ktx("lint").code == 0
    assert {path: path.stat().st_mtime_ns for path in layer.rglob("*") if path.is_file()} == before


def test_a_database_nothing_is_known_of_is_named_with_the_command(ktx: Run, project: Path) -> None:
    answer = ktx("lint", "--json")
    assert answer.code == 1
    (found,) = answer.data["findings"]
    assert (found["code"], found["hint"].split()[:2]) == ("KTX105", ["ktx", "ingest"])


def test_without_a_project_it_says_so(ktx: Run, work: Path) -> None:
    assert ktx("lint").code == 3
