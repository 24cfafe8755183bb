"""Detects secrets and personal data in names, text and column values."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ktx_cli.faces import lazy

if TYPE_CHECKING:
    from ktx_cli.privacy.columns import Refusal, ValueKind, refusal, sign_of_name
    from ktx_cli.privacy.personal import personal_data
    from ktx_cli.privacy.signs import Sign, all_secrets, secrets, sign_of

if not TYPE_CHECKING:
    __getattr__, __dir__ = lazy(__name__)
