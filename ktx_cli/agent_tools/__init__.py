"""The tools that ktx gives to models, to read and write the context within the permissions of their session."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.agent_tools.accepted import lost_in
    from ktx_cli.agent_tools.contradictions import contradiction_tool
    from ktx_cli.agent_tools.discovery import missing_name, raw_text, resolved
    from ktx_cli.agent_tools.fence import LONGEST, RESERVE, Parts, joined, unfit_lines, visible, wrapped
    from ktx_cli.agent_tools.layer_writers import weakened
    from ktx_cli.agent_tools.layers import Find, Layers, in_memory
    from ktx_cli.agent_tools.library import DocumentId, Library, passage_of, passages_of
    from ktx_cli.agent_tools.prompts import (
        EVOLVE_PROMPTS,
        MEMORY_PROMPTS,
        PROMPTS,
        TaskPrompt,
        evolve_prompt,
        load_prompts,
        memory_prompt,
        reconcile_prompt,
        unit_prompt,
    )
    from ktx_cli.agent_tools.searcher import (
        contents_of,
        finder,
        hit_of_mount,
        open_searcher,
        search,
        search_mounts,
        value_scans,
    )
    from ktx_cli.agent_tools.session import (
        Action,
        Input,
        PageBudget,
        StagedUnit,
        StagedWork,
        Tool,
        ToolSession,
        foreign_files,
        page_artifact,
    )
    from ktx_cli.agent_tools.sql import count_columns, refused_text, rows_of_values
    from ktx_cli.agent_tools.toolset import READING_TOOLS, tools_for, unresolved_failures
    from ktx_cli.agent_tools.wiki import figures_nobody_states, invented_names

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
