"""Spans and metrics for the collector that the user names with OpenTelemetry's variables; otherwise, nothing."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.telemetry.events import StepSpans
    from ktx_cli.telemetry.export import collector_warnings, start
    from ktx_cli.telemetry.operations import (
        Measured,
        Operation,
        begin_command,
        end_command,
        in_this_operation,
        is_exporting,
        is_requested,
        know,
        observe,
        operation,
        record,
        set_run,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
