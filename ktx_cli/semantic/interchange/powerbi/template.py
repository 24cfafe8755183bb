"""Read the model in a Power BI template (`.pbit`), which is a ZIP file."""

from __future__ import annotations

import io
import json
import zipfile
import zlib
from typing import Final

from ktx_cli.core import ConfigError, Hint

TEMPLATE_SUFFIX: Final = ".pbit"
REPORT_SUFFIX: Final = ".pbix"
INNER: Final = "DataModelSchema"
"""The entry with the model, which is JSON in UTF-16."""

MAX_SCHEMA: Final = 50_000_000
"""The maximum size of a model in a template, in bytes."""

MAX_ENTRIES: Final = 10_000
"""The maximum number of entries in a template."""

NO_MODEL: Final = (
    "a .pbix file contains its model in a compressed form that ktx cannot read; in Power BI Desktop, save it as a "
    "project (.pbip), or export it as a template (.pbit)"
)
"""Why the model of a `.pbix` file is not read."""

_FAULTS: Final = (zipfile.BadZipFile, zlib.error, EOFError, OSError, NotImplementedError, RuntimeError, ValueError)
"""The exceptions for damaged, encrypted or unusual ZIP files."""


def template_path(path: str) -> str:
    """Return the path of the model in a template."""
    return f"{path}/{INNER}"


def schema_path(path: str) -> str:
    """Return the file that contains a model: the template of an inner path, or the file itself."""
    return path.removesuffix(f"/{INNER}")


def model_in(path: str, content: bytes) -> bytes:
    """Return the model in a file: the content itself unless it is a template. Raises `ConfigError`."""
    is_template = path.lower().endswith(TEMPLATE_SUFFIX)
    return template_schema(content, path).encode("utf-8", "replace") if is_template else content


def template_schema(content: bytes, path: str) -> str:
    """Return the model in a template as JSON with a line for each value, the same for the same model.

    Nothing is unpacked: only the entry with the model is read, up to a limit. Raises `ConfigError` for anything else
    than a template with a model.
    """
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            schema = _schema(archive, path)
    except _FAULTS as error:
        raise _refused(path, f"is not a ZIP file that ktx can read ({type(error).__name__})") from error
    text = _decoded(schema, path)
    try:
        return json.dumps(json.loads(text), ensure_ascii=False, indent=1) + "\n"
    except (ValueError, RecursionError) as error:
        raise _refused(path, f"has a {INNER} that is not valid JSON") from error


def _schema(archive: zipfile.ZipFile, path: str) -> bytes:
    entries = archive.infolist()
    if len(entries) > MAX_ENTRIES:
        raise _refused(path, f"has more than {MAX_ENTRIES:,} entries")
    found = [entry for entry in entries if entry.filename == INNER]
    if len(found) != 1:
        raise _refused(path, f"contains no {INNER}" if not found else f"contains several entries {INNER}")
    if found[0].compress_type not in (zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED):
        raise _refused(path, "is compressed in a way that Power BI does not use")
    with archive.open(found[0]) as opened:
        schema = opened.read(MAX_SCHEMA + 1)
    if len(schema) > MAX_SCHEMA:
        raise _refused(path, f"has a model of more than {MAX_SCHEMA:,} bytes")
    return schema


def _decoded(schema: bytes, path: str) -> str:
    """Return the text of the model; UTF-16 without a byte order mark is little-endian, and older files are UTF-8."""
    encoding = "utf-16" if schema[:2] in (b"\xff\xfe", b"\xfe\xff") else "utf-16-le"
    if schema[1:2] not in (b"\x00", b"\xfe", b"\xff"):
        encoding = "utf-8-sig"
    try:
        return schema.decode(encoding)
    except UnicodeDecodeError as error:
        raise _refused(path, f"has a {INNER} that is neither UTF-16 nor UTF-8") from error


def _refused(path: str, why: str) -> ConfigError:
    return ConfigError(
        f"{path} {why}", hint=Hint("export the template again in Power BI Desktop"), details={"path": path}
    )
