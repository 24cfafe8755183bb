"""What the oracle refuses, with the code the semantic layer gives the same refusal."""

from __future__ import annotations


class OracleError(Exception):
    """A question that has no answer; `code` as in the semantic layer's errors.

    `over_many`: whether an ambiguous path leads over a join to many rows.
    """

    def __init__(self, code: str, message: str, *, over_many: bool = False):
        super().__init__(f"{code}: {message}")
        self.code = code
        self.over_many = over_many
