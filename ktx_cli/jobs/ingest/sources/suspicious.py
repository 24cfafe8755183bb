"""What a source says and should not: passwords, keys, characters nobody sees. It lands as it is, with a warning."""

from __future__ import annotations

from collections.abc import Iterator

from ktx_cli.context.wiki.hidden import hidden_characters
from ktx_cli.context.wiki.secret_texts import secrets
from ktx_cli.core.errors import ResultWarning
from ktx_cli.core.text import listing
from ktx_cli.project.tree import Tree
from ktx_cli.project.workspace import Workspace


def suspicious_texts(name: str, connection: str, before: Tree, after: Workspace) -> tuple[ResultWarning, ...]:
    """Return a warning where lines that a projection brought hold such texts; `name`: what people call the source."""
    places = [place for path in sorted(after.changes()) for place in _places(path, before.read(path), after.read(path))]
    if not places:
        return ()
    return (
        ResultWarning(
            "source_texts",
            f"{name}: texts hold what looks like a secret, or characters nobody sees: {listing(places)}",
            hint="correct them in the source, and change a secret: it has been read",
            connection=connection,
            places=places,
        ),
    )


def _places(path: str, old: bytes | None, new: bytes | None) -> Iterator[str]:
    known = set((old or b"").decode(errors="replace").splitlines())
    for number, line in enumerate((new or b"").decode(errors="replace").splitlines(), start=1):
        if line not in known and (any(secrets(line)) or any(hidden_characters(line))):
            yield f"{path}:{number}"
