"""What is known of a connection while a scan runs: the records, with what it found in the rows and had described."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ktx_cli.connectors.port import DatabaseSchema
from ktx_cli.context.scan.committed import Committed
from ktx_cli.context.scan.describe.described import updated_record
from ktx_cli.context.scan.describe.facts import Described
from ktx_cli.context.scan.knowledge import restricted, steadied
from ktx_cli.context.scan.looks import Describe, Findings, Seen
from ktx_cli.context.scan.proposed import with_origin
from ktx_cli.context.scan.records import Records


@dataclass(frozen=True, slots=True)
class Learned:
    """What is known now. `texts`: what was said of tables in this scan."""

    records: Records
    texts: tuple[Described, ...] = ()

    @classmethod
    def of(cls, record: Records, findings: Findings | None, schema: DatabaseSchema) -> Learned:
        """Take what was found, and the record's words on tables that nobody could look at."""
        if findings is None:
            return cls(record)
        seen = {table.ref for table in schema.tables}
        old = record.known
        missing = {ref for edge in old.edges for ref in (edge.child, edge.parent)} | set(old.keys)
        known = steadied(with_origin(findings.knowledge), old, findings.unseen | (missing - seen))
        return cls(replace(record, knowledge=known))

    def described(
        self, describe: Describe, committed: Committed, schema: DatabaseSchema, findings: Findings | None
    ) -> Learned:
        """Have the tables described; a table of which nothing new is said keeps its old text."""
        tables, old = committed.all_tables(schema), self.records.texts
        known = restricted(self.records.known, {table.ref: table for table in tables})
        told = findings.told if findings else ()
        texts = tuple(describe(Seen(tables, known, told, old, lambda: committed.texts(tables))))
        updated = updated_record(old, texts, tables)
        return Learned(replace(self.records, described=updated or self.records.described), texts)
