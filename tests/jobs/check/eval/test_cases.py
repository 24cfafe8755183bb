"""Files of evals: what they may hold, where each case stands, what is wrong with them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from ktx_cli.core.errors import ConfigError, UsageError
from ktx_cli.jobs.check.eval.cases import Loaded, load_evals
from ktx_cli.project.layout import Layout


def load(folder: Path, **files: str) -> Loaded:
    (folder / "evals").mkdir(exist_ok=True)
    for name, text in files.items():
        (folder / "evals" / f"{name}.yaml").write_text(text)
    return load_evals(Layout(folder))


SALES = """\
# the numbers of the board
connection: warehouse
cases:
  - id: revenue
    question: What did we earn?
    query: {measures: [orders.revenue]}
    expect: {value: null}
  - id: by-country
    connection: other
    sql: SELECT 1
    expect:
      - {country: NO, 1: 2.50}
      - {1: 3, country: null}
"""


def test_every_case_has_its_place_and_its_connection(tmp_path: Path) -> None:
    cases = load(tmp_path, sales=SALES, empty="", other="cases: []\n").cases
    assert [(case.name, case.path, case.line, case.connection, case.asked.kind) for case in cases] == [
        ("sales/revenue", "evals/sales.yaml", 4, "warehouse", "query"),
        ("sales/by-country", "evals/sales.yaml", 8, "other", "sql"),
    ]
    expected = [case.asked.expect.to_json() for case in cases if case.asked.expect is not None]
    assert expected == [{"value": None}, {"columns": ["country", "1"], "rows": [["NO", 2.5], [None, 3]]}]


def test_no_folder_is_no_case(tmp_path: Path) -> None:
    assert load_evals(Layout(tmp_path)) == Loaded()


def test_names_choose_files_and_cases(tmp_path: Path) -> None:
    loaded = load(tmp_path, sales=SALES, people="cases:\n  - {id: revenue, sql: SELECT 1}\n")
    chosen = {
        (): ["people/revenue", "sales/revenue", "sales/by-country"],
        ("sales",): ["sales/revenue", "sales/by-country"],
        ("revenue",): ["people/revenue", "sales/revenue"],
        ("sales/revenue", "people"): ["people/revenue", "sales/revenue"],
    }
    assert {names: [case.name for case in loaded.named(names)] for names in chosen} == chosen
    with pytest.raises(UsageError) as caught:
        loaded.named(["sales/revenu"])
    assert caught.value.hint == "ktx eval sales/revenue"


def test_unknown_keys_are_told_with_what_was_meant(tmp_path: Path) -> None:
    text = "conection: w\ncases:\n  - id: a\n    sqll: x\n    sql: y\n    expect: {valu: 3, value: 2}\n"
    warnings = load(tmp_path, a=text).warnings
    assert [(each.message, each.hint) for each in warnings] == [
        ("evals/a.yaml:1: unknown key `conection` in an eval file", "did you mean `connection`?"),
        ("evals/a.yaml:4: unknown key `cases.0.sqll` in an eval file", "did you mean `sql`?"),
        ("evals/a.yaml:6: unknown key `cases.0.expect.valu` in an eval file", "did you mean `value`?"),
    ]


WRONG = [
    ("cases: 3", "1:1: `cases` must be a list, not the number 3"),
    ("- a", "1: the file must be a mapping"),
    ("cases: [x]", "`cases.0` must be a mapping, not the text `x`"),
    ("cases: [{sql: x}]", "`cases.0.id` is missing"),
    ("cases: [{id: a b, sql: x}]", "`cases.0.id` must contain only letters, digits, `_`, `.` and `-`"),
    ("cases: [{id: 5, sql: x}]", "`cases.0.id` must be a text, not the number 5"),
    ("cases: [{id: a}]", "`cases.0` needs `query`, `sql`, both or `ask: true`"),
    ("cases: [{id: a, sql: x, ask: true, question: q}]", "`cases.0` has `ask: true` and a `query` or `sql`"),
    ("cases: [{id: a, sql: x, tolerance: 1}]", "`cases.0.tolerance` only applies to cases with both `query`"),
    ("cases: [{id: a, sql: x, query: {measures: [y]}, tolerance: -1}]", "must be 0 or more"),
    ("cases: [{id: a, ask: true}]", "`cases.0.question` is missing"),
    ("cases: [{id: a, sql: x}, {id: a, sql: y}]", "`cases` has two cases with the id `a`"),
    ("cases: [{id: a, sql: x, expect: 4}]", "`cases.0.expect` must be a mapping, not the number 4"),
    ("cases: [{id: a, sql: x, expect: {}}]", "`cases.0.expect` needs either `value` or `rows`"),
    ("cases: [{id: a, sql: x, expect: {value: 1, rows: 2}}]", "`cases.0.expect` needs either `value` or `rows`"),
    ("cases: [{id: a, sql: x, expect: {value: [1]}}]", "`cases.0.expect.value` must be one value"),
    ("cases: [{id: a, sql: x, expect: {rows: -1}}]", "`cases.0.expect.rows` must be 0 or more"),
    ("cases: [{id: a, sql: x, expect: {rows: true}}]", "`cases.0.expect.rows` must be a number or a list of rows"),
    ("cases: [{id: a, sql: x, expect: {rows: 1, columns: [a]}}]", "`cases.0.expect.columns` applies only to rows"),
    ("cases: [{id: a, sql: x, expect: [[1]]}]", "`cases.0.expect.rows` has no column names in row 1"),
    ("cases: [{id: a, sql: x, expect: [{a: 1}, {b: 1}]}]", "has different columns in rows 1 and 2"),
    ("cases: [{id: a, sql: x, expect: {columns: [a], rows: [[1, 2]]}}]", "a value for each column in row 1"),
    (
        "cases: [{id: a, sql: x, expect: {rows: 1, tolerance: -1}}]",
        "`cases.0.expect.tolerance` must be 0 or more, not the number -1",
    ),
]


@pytest.mark.table(("text", "message"), WRONG)
def test_a_file_that_cannot_be_used_says_where_and_why(tmp_path: Path, text: str, message: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, a=text)
    assert caught.value.message.startswith("evals/a.yaml:") and message in caught.value.message
    assert caught.value.hint


@pytest.mark.parametrize(("text", "hint"), [("{id: a}", "add `ask: true`"), ("{id: a, sql: x, ask: true}", "keep one")])
def test_a_case_has_one_way_to_its_answer(tmp_path: Path, text: str, hint: str) -> None:
    with pytest.raises(ConfigError) as caught:
        load(tmp_path, a=f"cases: [{text}]")
    assert caught.value.hint.startswith(hint)


def test_all_problems_of_a_file_are_in_the_details(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"^evals/a.yaml:2:3: .* \(and 1 more\)$") as caught:
        load(tmp_path, a="cases:\n- id: a\n- sql: x\n  idd: b\n")
    issues: list[dict[str, Any]] = caught.value.details["issues"]
    assert [(each["path"], each["severity"]) for each in issues] == [
        ("cases.0", "error"),
        ("cases.1.id", "error"),
        ("cases.1.idd", "warning"),
    ]


def test_two_files_of_one_name_must_not_hold_one_id(tmp_path: Path) -> None:
    (tmp_path / "evals").mkdir()
    (tmp_path / "evals" / "a.yml").write_text("cases: [{id: x, sql: y}]")
    with pytest.raises(ConfigError, match="another file also has an eval `a/x`"):
        load(tmp_path, a="cases: [{id: x, sql: z}]")


def test_a_case_that_asks_or_expects_something_else_has_another_digest(tmp_path: Path) -> None:
    texts = ["SELECT 1}", "SELECT 2}", "SELECT 1, expect: {value: 1}}", "SELECT 1, expect: {value: 2}}"]
    digests = [load(tmp_path, a=f"cases: [{{id: x, sql: {text}]").cases[0].digest for text in texts]
    assert len(set(digests)) == 4
    same = load(tmp_path, a="# told\ncases:\n- {sql: SELECT 1, id: x, question: How many?}\n").cases[0].digest
    assert same == digests[0]


@pytest.mark.parametrize("link", ["evals", "evals/sales.yaml"])
def test_a_link_out_of_the_project_is_not_read(tmp_path: Path, link: str) -> None:
    """It could have come with a repository, and what is wrong with a file is told with what stands in it."""
    project, outside = tmp_path / "project", tmp_path / "outside"
    outside.mkdir(parents=True)
    (outside / "sales.yaml").write_text("canary: 1\n")
    (project / link).parent.mkdir(parents=True)
    (project / link).symlink_to(outside / "sales.yaml" if link.endswith("yaml") else outside)
    with pytest.raises(ConfigError, match="to a file outside the project") as caught:
        load_evals(Layout(project))
    assert caught.value.hint == f"rm {project / link}"
    assert "canary" not in str(caught.value.to_json())
    (project / "mine.yaml").write_text("cases: []\n")
    (project / link).unlink()
    (project / "evals").mkdir(exist_ok=True)
    (project / "evals" / "mine.yaml").symlink_to(project / "mine.yaml")
    assert load_evals(Layout(project)).cases == []
