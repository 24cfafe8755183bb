"""KTX345: pages and definitions remain from a source that is no longer in `ktx.yaml`."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.core import Command, Diagnostic, Hint, KtxError, Location, Severity, listing
from ktx_cli.jobs.check.lint.lint import LintedProject, Rule
from ktx_cli.project import RAW_NAME, SEMANTIC_NAME, WorkingTree
from ktx_cli.sources import leftovers


def check(project: LintedProject) -> Iterator[Diagnostic]:
    """Yield what remains of sources that are not in `ktx.yaml`; an unreadable manifest is an error."""
    tree = WorkingTree(project.layout.root)
    known = {path.split("/")[1] for path in tree.paths(f"{RAW_NAME}/") if path.count("/") > 2}
    for connection in sorted(known - project.config.connections.keys()):
        if project.connection not in (None, connection):
            continue
        folder = f"{RAW_NAME}/{connection}"
        try:
            left = leftovers(tree, connection)
        except KtxError as error:
            hint = error.hint or Hint(f"correct the file, or delete {folder}")
            yield RULE.diagnostic(error.message, Location(folder), hint, Severity.ERROR)
            continue
        for path, items in left.items():
            if path.startswith(f"{SEMANTIC_NAME}/{connection}/"):  # KTX341 reports the whole folder
                continue
            if path.endswith(".md"):
                message = f"the page is a catalog of the connection `{connection}`, which is not in ktx.yaml"
                hint = Hint("add the connection again, or delete the page: {}", Command("rm", path, program="git"))
            else:
                message = f"the connection `{connection}`, which is not in ktx.yaml, wrote {listing(items)}"
                hint = Hint(f"add the connection again, or delete these items and {folder}")
            yield RULE.diagnostic(message, Location(path, 1), hint)


RULE = Rule(
    "KTX345",
    "leftover-of-connection",
    Severity.WARNING,
    "Pages and definitions remain from a source that is no longer in `ktx.yaml`.",
    "`ktx connection remove` keeps the document catalog, the proposals and the descriptions that a source wrote. No "
    "run keeps them up to date, and agents still see them. Delete them, or, to keep them as your own, delete the "
    "connection's folder in `raw-sources/`.",
    check,
    bad={
        "wiki/global/documents-archive.md": """\
---
summary: "1 document of archive: titles, dates, sections."
source: document-catalog
connection: archive
---

# Documents of archive

- **Returns** (`returns.md`): Customers have 30 days.
""",
        "raw-sources/archive/files/manifest.yaml": """\
version: 1
files: {}
owned:
  wiki/global/documents-archive.md: {page: 9b1c}
""",
    },
    good={},
)
