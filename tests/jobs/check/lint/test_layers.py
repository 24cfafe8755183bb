"""The semantic layer: what `ktx sl validate --no-data` says, under stable codes and with its own levels."""

from __future__ import annotations

from ktx_cli.jobs.semantic.validate import validate_layers
from ktx_cli.project.config.file import load_config
from ktx_cli.scan.relationships.record import Relationship, RelationshipRecord, Status, record_text
from ktx_cli.warehouses.port import TableRef
from tests.jobs.check.lint.conftest import Project


def test_everything_validate_says_is_said(project: Project) -> None:
    overlay = "semantic-layer/warehouse/orders.yaml"
    project.change(overlay, "expr: sum(amount), desc", "expr: sum(amont), desc")
    project.change(overlay, "segments:", "colour: red\nsegments:")
    config = load_config(project.layout.config).config
    wanted = validate_layers(project.layout, config, environ={}, data=False).problems
    found = project.found("KTX3")
    assert len(wanted) > 1
    assert {(each.message, each.location.path, each.location.line, each.severity) for each in found} == {
        (each.message, each.path, each.line, each.severity) for _, each in wanted
    }
    assert {"KTX308", "KTX312"} <= {each.code for each in found}


def test_a_layer_without_a_connection_is_a_warning(project: Project) -> None:
    project.write("semantic-layer/old/_schema/a.yaml", "tables: {}\n")
    (found,) = project.found("KTX341")
    assert (found.location.connection, found.severity) == ("old", "warning")
    assert found.hint.endswith("git rm -r semantic-layer/old")


def test_the_error_counts_what_is_more_than_information(project: Project) -> None:
    assert project.lint().error() is None
    project.change("semantic-layer/warehouse/orders.yaml", "expr: sum(amount), desc", "expr: sum(amont), desc")
    error = project.lint().error()
    assert error is not None
    assert (error.code, error.exit_code, error.message) == ("lint_problems", 1, "the context has 1 error")
    assert error.hint == "ktx lint --select KTX312 --limit 0"


def test_found_joins_that_wait_are_counted(project: Project) -> None:
    shop = [TableRef("shop", name) for name in ("orders", "customers")]
    edges = (
        Relationship(shop[0], ("status",), shop[1], ("country",), Status.REVIEW, 0.6, "perhaps"),
        Relationship(shop[0], ("amount",), shop[1], ("id",), Status.REJECTED, 0.1, "no"),
    )
    record = "raw-sources/warehouse/live-database/relationships.json"
    project.write(record, record_text(RelationshipRecord(relationships=edges)).decode())
    (found,) = project.found("KTX340")
    assert (found.severity, found.location.path) == ("info", record)
    assert found.message == "1 inferred join of `warehouse` waits for a decision"
    assert found.hint == "ktx scan relationships warehouse --review"
    project.write(record, "{")
    assert project.found("KTX340") == []
    assert [each.code for each in project.warnings] == ["relationships_unreadable"]
