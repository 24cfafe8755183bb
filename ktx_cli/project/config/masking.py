"""What of a configuration may be shown: literal secrets masked."""

from __future__ import annotations

import re
from typing import Any, Final

from ktx_cli.project.config.base import Block, Setting, settings_of
from ktx_cli.project.secrets import MASK, is_reference, redact_url

_SECRET_NAME: Final = re.compile(
    r"(?:password|passwd|pwd|passphrase|secret|token|(?:api|private|access)[_-]?key|credentials?(?:_json)?)(?:_?ref)?$",
    re.IGNORECASE,
)


def is_literal_secret(declared: Setting | None, key: str, value: str) -> bool:
    """Say whether a value is a secret in clear; an unknown key is judged by its name."""
    if is_reference(value) or not value.strip() or "://" in value:
        return False  # in a URL only the password is secret
    return declared.secret if declared is not None else _SECRET_NAME.search(key) is not None


def shown(value: Any, declared: Setting | None = None, key: str = "", *, reveal: bool = False) -> Any:
    """Return a value of a configuration as plain data by `ktx.yaml` key, defaults included, secrets masked.

    Settings without a value are left out. `reveal` leaves secrets as they are.
    """
    if isinstance(value, Block):
        return _shown_block(value, reveal=reveal)
    if isinstance(value, dict):
        return {name: shown(item, declared, name, reveal=reveal) for name, item in value.items()}
    if isinstance(value, list):
        return [shown(item, declared, key, reveal=reveal) for item in value]
    if isinstance(value, str) and not reveal:
        return MASK if is_literal_secret(declared, key, value) else redact_url(value)
    return value


def _shown_block(block: Block, *, reveal: bool) -> dict[str, Any]:
    result = {}
    for key, declared in settings_of(type(block)).items():
        value = getattr(block, declared.attribute)
        if value is not None:
            result[key] = shown(value, declared, key, reveal=reveal)
    for key, value in (block.model_extra or {}).items():
        result[key] = shown(value, None, key, reveal=reveal)
    return result
