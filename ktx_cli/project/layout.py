"""Where everything of a project lies; nothing else builds a path under the project."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

CONFIG_NAME = "ktx.yaml"
PRIVATE_NAME = ".ktx"
PROMPTS_NAME = "prompts"
SEMANTIC_NAME = "semantic-layer"
RAW_NAME = "raw-sources"
WIKI_NAME = "wiki"
EVALS_NAME = "evals"
SCHEMA_NAME = "_schema"
OWN_NAMES = frozenset({CONFIG_NAME, PRIVATE_NAME, SEMANTIC_NAME, RAW_NAME, WIKI_NAME, EVALS_NAME, PROMPTS_NAME})
"""What ktx keeps at the top of a folder that has a `ktx.yaml`: no source ever reads it."""

DATABASE_SOURCE = "live-database"
"""The name of a database scan among the raw sources, as the TypeScript ktx has it."""


@dataclass(frozen=True, slots=True)
class Layout:
    """The paths of one project. `*_path` are relative POSIX strings as git sees them, the rest absolute."""

    root: Path

    @property
    def config(self) -> Path:
        """`ktx.yaml`."""
        return self.root / CONFIG_NAME

    @property
    def prompts(self) -> Path:
        """The project's own prompts, in place of the packaged ones."""
        return self.root / PROMPTS_NAME

    @property
    def evals(self) -> Path:
        """Golden questions, committed."""
        return self.root / EVALS_NAME

    @property
    def private(self) -> Path:
        """`.ktx/`: ours alone, never committed."""
        return self.root / PRIVATE_NAME

    @property
    def private_gitignore(self) -> Path:
        """`.ktx/.gitignore`, which says `*`."""
        return self.private / ".gitignore"

    @property
    def state(self) -> Path:
        """The SQLite state database."""
        return self.private / "state.sqlite"

    @property
    def cache(self) -> Path:
        """Parsed copies; may be deleted at any time."""
        return self.private / "cache"

    @property
    def raw_store(self) -> Path:
        """Raw files of sources that are not on this disk, by content; may be deleted at any time."""
        return self.private / "raw"

    @property
    def search_index(self) -> Path:
        """The SQLite search index; may be deleted at any time."""
        return self.private / "search.sqlite"

    @property
    def secrets(self) -> Path:
        """Secrets that setup was given in clear, a file each; not disposable."""
        return self.private / "secrets"

    @property
    def setup_draft(self) -> Path:
        """What a person has answered of setup so far; may be deleted at any time."""
        return self.private / "setup.json"

    @property
    def replaced(self) -> Path:
        """Old contents of files that git ignores, kept where ktx took something of people's out of them."""
        return self.private / "replaced"

    @property
    def scratch(self) -> Path:
        """Files that live as long as one model call: prompts too long for a command line."""
        return self.private / "runtime" / "tmp"

    @property
    def agents_manifest(self) -> Path:
        """What was put into the files of agent clients."""
        return self.private / "agents" / "manifest.json"

    @property
    def logs(self) -> Path:
        """What a server for agents wrote while it ran; may be deleted at any time."""
        return self.private / "logs"

    @property
    def mcp_state(self) -> Path:
        """Which server for agents runs on this project; no token."""
        return self.private / "mcp.json"

    @property
    def mcp_lock(self) -> Path:
        """Locked by the server for agents as long as it runs."""
        return self.private / "mcp.lock"

    @property
    def mcp_log(self) -> Path:
        """What the server for agents has to say about itself."""
        return self.logs / "mcp.log"

    @property
    def mcp_audit(self) -> Path:
        """What agents asked the servers of this project, a line each."""
        return self.logs / "mcp-audit.jsonl"

    @property
    def memory(self) -> Path:
        """Of each capture its record, with the text that was given."""
        return self.private / "memory"

    @property
    def memory_lock(self) -> Path:
        """Locked by the process that works through the queue of captures."""
        return self.memory / "worker.lock"

    @property
    def memory_log(self) -> Path:
        """What the process that a server started for the queue of captures said last."""
        return self.logs / "memory.log"

    def memory_record(self, run_id: str) -> Path:
        """What is known of a capture, as JSON."""
        return self.memory / f"{run_id}.json"

    @property
    def runs(self) -> Path:
        """Of each run a JSON report, and a folder with its events and the transcripts of its agents."""
        return self.private / "runs"

    def run_report(self, run_id: str) -> Path:
        """What a run did, as JSON."""
        return self.runs / f"{run_id}.json"

    def run_folder(self, run_id: str) -> Path:
        """The events of a run and the transcripts of its agents; may be deleted at any time."""
        return self.runs / run_id

    def run_events(self, run_id: str) -> Path:
        """The events of a run, one a line, with their times."""
        return self.run_folder(run_id) / "events.jsonl"

    def run_transcripts(self, run_id: str) -> Path:
        """A file for each agent loop of a run."""
        return self.run_folder(run_id) / "transcripts"

    def launched(self, run_id: str = "") -> Path:
        """What a server keeps of a run it started: its process, and what that printed; may be deleted at any time."""
        return self.private / "launched" / run_id

    def schema_dir(self, connection: str) -> Path:
        """The folder of a connection's manifest shards."""
        return self.root / self.schema_path(connection)

    @staticmethod
    def context_paths(connection: str) -> tuple[str, ...]:
        """The folders that hold a connection's context."""
        return (f"{SEMANTIC_NAME}/{connection}", f"{RAW_NAME}/{connection}")

    @staticmethod
    def schema_path(connection: str, shard: str = "") -> str:
        """`semantic-layer/<connection>/_schema/<shard>`."""
        return f"{SEMANTIC_NAME}/{connection}/{SCHEMA_NAME}/{shard}".rstrip("/")

    @staticmethod
    def raw_path(connection: str, source: str, name: str = "") -> str:
        """`raw-sources/<connection>/<source>/<name>`."""
        return f"{RAW_NAME}/{connection}/{source}/{name}".rstrip("/")
