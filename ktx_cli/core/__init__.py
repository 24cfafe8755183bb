"""Utilities that every package uses: errors, events, text, YAML, time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.core import yaml
    from ktx_cli.core.clock import RUN_ID, Recent, age, isoformat, monotonic, new_run_id, now
    from ktx_cli.core.diagnostics import (
        AND,
        THEN,
        AgentStep,
        Argument,
        Command,
        Diagnostic,
        Hint,
        Location,
        Placeholder,
        SettingPath,
        Severity,
        Statement,
        Suggestion,
        Variable,
        choose_one,
        severity_counts,
    )
    from ktx_cli.core.errors import (
        ERROR_CODES,
        EXIT_FAILED,
        EXIT_INTERRUPTED,
        EXIT_LIMIT,
        EXIT_NOT_READY,
        EXIT_OK,
        EXIT_READER_GONE,
        EXIT_UNREACHABLE,
        EXIT_USAGE,
        BusyError,
        CancelledError,
        ConfigError,
        GitError,
        GitMissingError,
        KtxError,
        NoProjectError,
        NotReadyError,
        NotSupportedError,
        PartialError,
        ResultWarning,
        RunStopped,
        SecretError,
        SourceError,
        StorageError,
        UsageError,
        exit_code_for,
        internal_error,
    )
    from ktx_cli.core.events import (
        CommandFinished,
        Emit,
        Event,
        Notice,
        ReconcileStep,
        RunFinished,
        RunStarted,
        StepFinished,
        StepProgress,
        StepStarted,
        UnitsPlanned,
        UsageSoFar,
        Waiting,
        WorkUnitFinished,
        WorkUnitResumed,
        WorkUnitStarted,
        WorkUnitStep,
        WorkUnitUsage,
        event_of,
        ignore_events,
    )
    from ktx_cli.core.serialization import Record, picked, plain
    from ktx_cli.core.text import (
        Spot,
        count_edits,
        counted,
        did_you_mean,
        escaped,
        file_stem,
        is_device_name,
        is_utf8,
        line_start,
        listing,
        nearest_name,
        nearest_values,
        one_line,
        one_line_typed,
        plural,
        shell_words,
        similar_names,
        suggested_names,
        suggestion,
        without_tables,
    )
    from ktx_cli.core.values import (
        NumberFormat,
        NumberStyle,
        column_format,
        json_value,
        plain_number,
        plain_value,
        row_formats,
        without_noise,
    )
    from ktx_cli.core.yaml import Layout, Node, load
    from ktx_cli.core.yaml_text import line_hint

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
