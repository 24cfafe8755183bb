"""Which files of a folder are of a dbt project, by what its `dbt_project.yml` says."""

from __future__ import annotations

import pytest

from ktx_cli.sources.dbt.project import DOCS, SQL, YAML, project_files

FILES = [
    "README.md", "dbt_project.yml", "profiles.yml", "packages.yml", "notes.md", "other/schema.yml", "docs/terms.md",
    "models/a/schema.yml", "models/a/text.md", "models/a/orders.sql", "seeds/seeds.yml", "snapshots/s.yaml",
    "macros/m.yml", "analyses/a.yml", "tests/t.yml", "functions/f.yml", "transform/x.yml",
    "target/compiled/models/x.yml", "dbt_packages/p/dbt_project.yml", "dbt_packages/p/models/p.yml", "logs/l.yml",
    "ci.yml",
]  # fmt: skip
DEFAULT = {
    "README.md", "dbt_project.yml", "models/a/schema.yml", "models/a/text.md", "seeds/seeds.yml", "snapshots/s.yaml",
    "macros/m.yml", "analyses/a.yml", "tests/t.yml", "functions/f.yml",
}  # fmt: skip
MODELS = {"models/a/schema.yml", "models/a/text.md"}
WHOLE = DEFAULT | {"packages.yml", "notes.md", "other/schema.yml", "docs/terms.md", "transform/x.yml", "ci.yml"}


def chosen(guides: dict[str, str], files: list[str] = FILES) -> set[str]:
    guided = project_files((*YAML, DOCS))
    wanted = guided.wanted({path: text.encode() for path, text in guides.items() if guided.is_guide(path)})
    return {path for path in files if wanted(path)}


@pytest.mark.table(
    ("settings", "expected"),
    [
        ("name: acme\n", DEFAULT),
        ("model-paths: [transform]\n", DEFAULT - MODELS | {"transform/x.yml"}),
        ("source-paths: ['./transform/']\n", DEFAULT - MODELS | {"transform/x.yml"}),
        ("data-paths: [other]\n", DEFAULT - {"seeds/seeds.yml"} | {"other/schema.yml"}),
        ("docs-paths: [docs]\n", DEFAULT | {"docs/terms.md"}),
        ("snapshot-paths: []\nmacro-paths: []\n", DEFAULT - {"snapshots/s.yaml", "macros/m.yml"}),
        ("model-paths: ['.']\n", WHOLE),
        ("model-paths: [\"{{ env_var('MODELS') }}\"]\n", WHOLE),
        ("model-paths: ['.']\ntarget-path: other\n", WHOLE - {"other/schema.yml"} | {"target/compiled/models/x.yml"}),
        ("[not, a, mapping]\n", WHOLE),
        ("{broken", WHOLE),
    ],
)  # fmt: skip
def test_the_folders_that_the_settings_name(settings: str, expected: set[str]) -> None:
    guides = {"dbt_project.yml": settings, "dbt_packages/p/dbt_project.yml": "name: p\n"}
    assert chosen(guides) == expected


def test_several_projects_in_a_repository() -> None:
    files = [
        f"{root}{each}" for root in ("a/", "b/inner/", "") for each in ("dbt_project.yml", "models/x.yml", "y.yml")
    ]
    guides = {"a/dbt_project.yml": "name: a\n", "b/inner/dbt_project.yml": "model-paths: [.]\n"}
    own = {"a/dbt_project.yml", "a/models/x.yml", "b/inner/dbt_project.yml", "b/inner/models/x.yml", "b/inner/y.yml"}
    assert chosen(guides, files) == own


def test_without_a_project_the_folder_is_taken_whole() -> None:
    files = [each for each in FILES if not each.startswith(("dbt_packages/", "logs/"))]  # these no walk gives
    assert chosen({}, files) == set(files) - {"profiles.yml", "models/a/orders.sql", "target/compiled/models/x.yml"}


QUERIES = [
    "models/a.sql", "snapshots/s.sql", "macros/m.sql", "analyses/a.sql", "tests/t.sql", "models/macros/m.sql",
    "target/compiled/models/a.sql", "dbt_packages/p/models/p.sql", "other/o.sql",
]  # fmt: skip


@pytest.mark.table(
    ("guides", "expected"),
    [
        ({"dbt_project.yml": "name: acme\n"}, {"models/a.sql", "models/macros/m.sql", "snapshots/s.sql"}),
        ({"dbt_project.yml": "model-paths: [other]\n"}, {"other/o.sql", "snapshots/s.sql"}),
        ({"dbt_project.yml": "macro-paths: [models/macros]\n"}, {"models/a.sql", "snapshots/s.sql"}),
        (
            {"dbt_project.yml": "model-paths: ['.']\n"},
            {"models/a.sql", "models/macros/m.sql", "snapshots/s.sql", "other/o.sql"},
        ),
        ({}, {"models/a.sql", "snapshots/s.sql", "other/o.sql"}),
    ],
)
def test_sql_is_that_of_models_and_snapshots(guides: dict[str, str], expected: set[str]) -> None:
    guided = project_files((*YAML, SQL))
    wanted = guided.wanted({path: text.encode() for path, text in guides.items()})
    assert {path for path in QUERIES if wanted(path) and not path.startswith("dbt_packages")} == expected
