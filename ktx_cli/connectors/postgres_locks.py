"""Reads what Postgres tells only under a lock, and says which relations another session keeps locked."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from ktx_cli.connectors.base import LOCKED
from ktx_cli.connectors.reflect import Reader

ROUNDS = 3
"""How often a read is begun again without the relations that are locked."""

# A view's text is rebuilt from the relations it names, so their locks hide it too. A lock that is only waited for
# already stops everybody behind it.
_HOLDERS = """
SELECT need.oid::bigint, pg_catalog.min(l.pid)
FROM (SELECT own.oid, own.oid AS other FROM pg_catalog.unnest(%s::pg_catalog.oid[]) AS own (oid)
      UNION
      SELECT v.oid, d.refobjid FROM pg_catalog.pg_class AS v JOIN pg_catalog.pg_rewrite AS r ON r.ev_class = v.oid
      JOIN pg_catalog.pg_depend AS d ON d.classid = 'pg_catalog.pg_rewrite'::pg_catalog.regclass AND d.objid = r.oid
                         AND d.refclassid = 'pg_catalog.pg_class'::pg_catalog.regclass
      WHERE v.oid = ANY(%s::pg_catalog.oid[]) AND v.relkind IN ('v', 'm')) AS need
JOIN pg_catalog.pg_locks AS l
  ON l.locktype = 'relation' AND l.relation = need.other AND l.mode = 'AccessExclusiveLock'
WHERE l.pid IS DISTINCT FROM pg_catalog.pg_backend_pid()
  AND l.database = (SELECT oid FROM pg_catalog.pg_database WHERE datname = pg_catalog.current_database())
GROUP BY need.oid
"""


class LockedReader:
    """Runs catalog queries over many relations that take a lock on each, without those that are locked for long.

    The first wait is for the session's `lock_timeout`; a relation that was locked then is not asked for again.
    """

    def __init__(self, read: Reader, lock_error: type[Exception]) -> None:
        self._read = read
        self._error = lock_error
        self._holders: dict[int, int | None] = {}
        self.reasons: dict[int, str] = {}
        """The relations left out of a query, and why."""

    def __call__(self, sql: str, wanted: Iterable[int], all_of_them: Iterable[int]) -> list[tuple[Any, ...]]:
        """Return the rows of a query whose one parameter is a list of oids.

        `all_of_them` are the relations that later queries may ask for. Raises the driver's error when locks keep
        coming.
        """
        oids, everything = list(wanted), list(all_of_them)
        rounds = 0
        while oids := self._free(oids):
            try:
                return self._read(sql, (oids,))
            except self._error:
                rounds += 1
                if rounds == ROUNDS:
                    raise
                self._holders.update((oid, pid) for oid, pid in self._read(_HOLDERS, (everything, everything)))
        return []

    def _free(self, oids: list[int]) -> list[int]:
        for oid in oids:
            if oid in self._holders:
                pid = self._holders[oid]
                self.reasons[oid] = LOCKED if pid is None else f"{LOCKED} (pid {pid})"
        return [oid for oid in oids if oid not in self._holders]
