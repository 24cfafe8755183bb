"""The project on disk: `ktx.yaml`, secrets, paths, git repository, workspace, state database and run lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.project import edit, secrets
    from ktx_cli.project.config.base import (
        REFERENCE_PATTERN,
        REQUIRED,
        Block,
        InvalidConfigError,
        Issue,
        Keys,
        Setting,
        checked,
        is_literal_secret,
        key_text,
        named,
        placed,
        setting,
        settings_of,
        wrong,
    )
    from ktx_cli.project.config.blocks import (
        ROLES,
        SUPPORTED_BACKENDS,
        CodeLists,
        EffortLevel,
        Embeddings,
        HistoryFilters,
        Privacy,
        ProfiledTables,
        PromptCaching,
        QueryHistory,
        RateLimit,
        Relationships,
        Retry,
        Scan,
        Views,
        missing_settings,
    )
    from ktx_cli.project.config.checks import errors_of, literal_secrets, values_of, without_database, without_queue
    from ktx_cli.project.config.connections import (
        RESERVED_IDS,
        Connection,
        Database,
        Port,
        Server,
        SourceConnection,
        Ssl,
        driver_of,
        example_connection,
        find_model,
        parse_connection,
        wrong_scheme,
    )
    from ktx_cli.project.config.file import (
        WITHOUT_EFFECT,
        LoadedConfig,
        change_config,
        check_connection,
        config_lock,
        load_config,
    )
    from ktx_cli.project.config.model import SHARED_STORAGE, KtxConfig, connection_of, known_connection
    from ktx_cli.project.config.serving import AgentClient, AgentLimits, Identity, is_loopback, is_trusted_url
    from ktx_cli.project.config.settings import (
        get_value,
        hint_to_set_together,
        json_schema,
        parse_cli_settings,
        parse_cli_value,
        resolve_options,
        secret_file_warnings,
        shown_config,
    )
    from ktx_cli.project.edit import EditRefusedError, append_value, apply, delete_value, same_data, set_value
    from ktx_cli.project.files import (
        Stamp,
        can_write_in,
        found_program,
        hash_of,
        is_full,
        read_bytes,
        remove_dead_leftovers_of,
        remove_file,
        replacing,
        signatures_below,
        stamp_of,
        stamps_below,
        storage_error,
        write_atomic,
    )
    from ktx_cli.project.git import Git, GitResult, condensed, find_git, find_program, is_in_project
    from ktx_cli.project.layout import (
        CONFIG_NAME,
        CONTRADICTIONS_NAME,
        DATABASE_SOURCE,
        DECISIONS_NAME,
        EVALS_NAME,
        OWN_NAMES,
        OWNERS_NAME,
        PRIVATE_NAME,
        PROMPTS_NAME,
        RAW_NAME,
        SCHEMA_NAME,
        SEMANTIC_NAME,
        WIKI_NAME,
        Layout,
        Tree,
        WorkingTree,
        file_name_warnings,
        find_project,
        folder_for_setup,
        names_in,
        origin_of,
        require_meant,
        require_project,
    )
    from ktx_cli.project.lock import RunLock, current_holder, hold_run_lock, host_identity, process_start
    from ktx_cli.project.merge import Conflict, merge_file
    from ktx_cli.project.migrations import AGENT_USAGE
    from ktx_cli.project.mounts import SEPARATOR, Mount, Mounts, load_mounts, mount_folder, qualified
    from ktx_cli.project.plugins import SOURCES, WAREHOUSES, Kind, PluginError, Question, imported
    from ktx_cli.project.repository.commit_plan import merge_lines
    from ktx_cli.project.repository.history import DECIDED_BY, FileCommit, History, LastChange, TreeView
    from ktx_cli.project.repository.index import has_leftovers, index_path
    from ktx_cli.project.repository.model import (
        EDITED_AFTER_KILL,
        EDITED_MEANWHILE,
        NO_COMMIT,
        CommitResult,
        Destination,
        Held,
        HeldReason,
        discover_layout,
        held_hint,
        require_whole,
    )
    from ktx_cli.project.repository.store import CURRENT_BRANCH, Repository, untracking
    from ktx_cli.project.secrets import (
        KINDS,
        MASK,
        SecretRef,
        has_password,
        is_reference,
        is_variable,
        mask,
        redact,
        redact_url,
        remember,
        resolve,
        resolve_plain,
        secret_path,
        variable_named,
    )
    from ktx_cli.project.shared_files import (
        KEPT_DAYS,
        ProjectCopy,
        SharedFiles,
        SharedTree,
        copy_project,
        is_sha256,
        open_copy,
        remove_old_copies,
        tree_id,
    )
    from ktx_cli.project.shared_state import (
        NO_PRIVILEGE,
        OUTAGE_SECONDS,
        REPORT_SECONDS,
        SharedDatabase,
        configured_search,
        connect,
        connection_parameters,
        copy_shared,
        database_failure,
        is_database_missing,
        is_login_refused,
        is_outage,
        limit_patience,
        loaded_text,
        missing_right_hint,
        newer_state,
        outage_message,
        recovery_message,
        report_outages,
        stored_text,
        taken_schema,
    )
    from ktx_cli.project.shared_status import SharedFacts, shared_facts
    from ktx_cli.project.state import (
        LOOK,
        AnswerStore,
        CachedAnswer,
        EnrichmentStore,
        StateDatabase,
        StateEnrichmentStore,
        Warn,
        check_private_folder,
        clock_of,
        has_state,
        ignore_warning,
        is_damage,
        is_hidden,
        open_for_writing,
        open_local,
        open_to_others,
        prepare_private_folder,
        read_local,
        read_state,
        shared_state_of,
        state_version,
        transaction,
        translated,
    )
    from ktx_cli.project.workspace import Workspace, checked_path
    from ktx_cli.project.yaml_splice import Edit, lookup

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
