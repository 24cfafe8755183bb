"""The caller of a question: the principals for whom it is answered, and their attributes.

One principal is the usual case: a person, or a server that answers for one. Several are an agent that acts for a
person: each of them must be allowed to see a row, so every row policy applies once for each principal."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from math import isfinite
from types import MappingProxyType
from typing import Any, Final

from ktx_cli.core import Command
from ktx_cli.semantic.model import SEVERAL, Mask, SemanticError

_USER: Final = "user."


class Principal(Mapping[str, Any]):
    """The attributes of one principal: an immutable mapping that can be a key of a cache.

    Principals are equal if their attributes are equal as JSON, so that `true`, `1` and `1.0` are different.
    """

    __slots__ = ("_attributes", "_key")

    def __init__(self, attributes: Mapping[str, Any] = MappingProxyType({})) -> None:
        """Copy the attributes."""
        self._attributes = dict(attributes)
        self._key = json.dumps(self._attributes, sort_keys=True, default=repr)

    def __getitem__(self, name: str) -> Any:
        """Return the value of an attribute."""
        return self._attributes[name]

    def __iter__(self) -> Iterator[str]:
        """Yield the names of the attributes."""
        return iter(self._attributes)

    def __len__(self) -> int:
        """Return the number of attributes."""
        return len(self._attributes)

    def __eq__(self, other: object) -> bool:
        """Return whether another principal has the same attributes."""
        return isinstance(other, Principal) and self._key == other._key

    def __hash__(self) -> int:
        """Return the hash of the attributes."""
        return hash(self._key)

    def __repr__(self) -> str:
        """Return the attributes as JSON."""
        return f"Principal({self._key})"


_ANONYMOUS: Final = Principal()


@dataclass(frozen=True, slots=True)
class Caller:
    """The principals for whom a question is answered. Without any, it is one without attributes.

    A server that answers an agent on behalf of a person writes `Caller.of(agent_attributes, person_attributes)`.
    """

    principals: tuple[Principal, ...] = field(default=(_ANONYMOUS,))

    def __post_init__(self) -> None:
        unique = tuple(dict.fromkeys(self.principals)) or (_ANONYMOUS,)
        object.__setattr__(self, "principals", unique)

    @classmethod
    def of(cls, *attributes: Mapping[str, Any]) -> Caller:
        """Return the caller with one principal for each mapping of attributes."""
        return cls(tuple(each if isinstance(each, Principal) else Principal(each) for each in attributes))

    def values_of(self, name: str) -> list[Any]:
        """Return the different values that the principals have for an attribute, without null."""
        found = {Principal({name: each[name]}): each[name] for each in self.principals if each.get(name) is not None}
        return list(found.values())

    def sees(self, mask: Mask) -> bool:
        """Return whether every principal has the attributes that see the values behind a mask."""
        return bool(mask.unless) and all(_sees(each, mask) for each in self.principals)

    def templates(self) -> dict[str, Any]:
        """Return the values of `user.NAME` for conditions that apply once: the attributes of all principals.

        An attribute that differs between them has the value `SEVERAL`, which templates refuse.
        """
        first, *others = self.principals
        names = [name for name in first if all(name in each for each in others)]
        return {f"{_USER}{name}": self._only(name) for name in names}

    def _only(self, name: str) -> Any:
        different = {Principal({name: each[name]}) for each in self.principals}
        return self.principals[0][name] if len(different) == 1 else SEVERAL

    def templates_of_each(self) -> tuple[dict[str, Any], ...]:
        """Return the values of `user.NAME` for each principal: a row policy applies once for each of them."""
        return tuple({f"{_USER}{name}": value for name, value in each.items()} for each in self.principals)

    def require_plain(self) -> None:
        """Raise `SemanticError` for an attribute that is not a string, a number, a boolean or null."""
        for name, value in (item for each in self.principals for item in each.items()):
            if value is None or isinstance(value, str | int) or (isinstance(value, float) and isfinite(value)):
                continue
            message = f"the user attribute `{name}` must be a string, a number or a boolean"
            hint = Command("sl", "query", "--user-attribute", f"{name}=VALUE")
            raise SemanticError(message, hint=hint, code="policy", details={"attribute": name})

    def to_json(self) -> list[dict[str, Any]]:
        """Return the attributes of each principal, for the key of a cache."""
        return [dict(each) for each in self.principals]


def _sees(principal: Principal, mask: Mask) -> bool:
    for name, values in mask.unless:
        own = principal.get(name)
        if own is None or not any(Principal({name: own}) == Principal({name: each}) for each in values):
            return False
    return True


NOBODY: Final = Caller()
"""A caller without attributes."""
