"""Records of runs: reports, events, transcripts."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.runs.events import Recorder, Replay, stored_events
    from ktx_cli.runs.records import (
        RUNNING,
        EarlierUsage,
        RunDetails,
        RunRecord,
        earlier_usage,
        find_run,
        finish_run,
        last_runs,
        list_runs,
        read_report,
        records_in,
        run_details,
        start_run,
    )
    from ktx_cli.runs.transcripts import LineFile, chosen_transcripts, first_line, masked, read_lines, transcripts_of

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
