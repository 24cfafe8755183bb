"""Records of runs: reports, events, transcripts, and files that rotate."""

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
        save_report,
        start_run,
    )
    from ktx_cli.runs.transcripts import (
        KEPT_FILES,
        LARGEST_FILE,
        LineFile,
        RotatingFile,
        Transcripts,
        chosen_transcripts,
        first_line,
        masked,
        read_lines,
        rotated_files,
        rotated_name,
        transcripts_of,
    )

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
