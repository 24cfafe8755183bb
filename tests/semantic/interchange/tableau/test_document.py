"""Tableau files from anywhere: XML and archives that try to expand, refer or escape are refused with a clear error."""

from __future__ import annotations

import io
import struct
import zipfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ktx_cli.core.errors import ConfigError
from ktx_cli.semantic.interchange.importer import import_path
from ktx_cli.semantic.interchange.report import Kind
from ktx_cli.semantic.interchange.tableau import document, package
from ktx_cli.semantic.interchange.tableau.document import parse_document
from ktx_cli.semantic.interchange.tableau.importer import import_tableau
from ktx_cli.semantic.interchange.tableau.package import document_in
from tests.semantic.interchange.tableau.shop_workbook import workbook

LAUGHS = (
    "<?xml version='1.0'?>\n<!DOCTYPE lolz [<!ENTITY a 'ha'>"
    + "".join(f"<!ENTITY {name} '{f'&{before};' * 10}'>" for before, name in zip("abcdefgh", "bcdefghi", strict=True))
    + "]>\n<workbook>&i;</workbook>"
)
EXTERNAL = "<!DOCTYPE w [<!ENTITY secret SYSTEM 'file:///etc/passwd'>]><workbook>&secret;</workbook>"
PARAMETER = "<!DOCTYPE w [<!ENTITY % p SYSTEM 'http://127.0.0.1:9/x.dtd'> %p;]><workbook/>"
TYPED = "<!DOCTYPE workbook SYSTEM 'file:///etc/passwd'><workbook/>"
DECLARES = "it declares a document type or an entity, which ktx does not expand"


@pytest.mark.table(
    ("text", "why"),
    [
        (LAUGHS, DECLARES),
        (EXTERNAL, DECLARES),
        (PARAMETER, DECLARES),
        (TYPED, DECLARES),
        ("<workbook>&nope;</workbook>", "it is not valid XML: undefined entity"),
        ("<workbook>", "it is not valid XML: no element found"),
        ("", "it is not valid XML: no element found"),
        ("<a>" * 300 + "</a>" * 300, "it has more than 1,000,000 elements, or 200 levels of them"),
        ("<other/>", "a.twb: the document is a `other`, not a workbook or a data source"),
    ],
)
def test_hostile_xml_is_refused(text: str, why: str) -> None:
    (found,) = import_tableau({"a.twb": text}, None).report
    assert (found.kind, found.what) == (Kind.DROPPED, "file a.twb")
    assert why in found.why and "root:" not in found.why


def test_the_content_of_views_is_not_kept() -> None:
    views = "<worksheets><worksheet><a>x<b/></a></worksheet><worksheet/></worksheets>"
    root = parse_document(f"<workbook>{views}<c/></workbook>", "a.twb")
    assert [each.tag for each in root.walk()] == ["workbook", "worksheets", "worksheet", "worksheet", "c"]
    deep = "<workbook><worksheet>" + "<a>" * 300 + "</a>" * 300 + "</worksheet></workbook>"
    with pytest.raises(ConfigError, match="more than 200 levels"):
        parse_document(deep, "a.twb")


def test_a_document_has_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(document, "MAX_CHARACTERS", 100)
    with pytest.raises(ConfigError, match=r"has more than 100 characters"):
        parse_document(f"<a>{'x' * 200}</a>", "a.twb")


@given(st.one_of(st.text(max_size=80), st.lists(st.sampled_from(
    ["<workbook>", "</workbook>", "<datasources>", "</datasources>", "<datasource name='a'>", "</datasource>",
     "<!--", "-->",
     "<connection class='federated'>", "<relation type='join'>", "</relation>", "<relation name='t' table='[t]'/>",
     "<column name='[a]'><calculation formula='SUM([a])'/></column>", "<![CDATA[", "]]>", "&amp;", "&#0;", "<?x ?>",
     "<group name='[g]'/>", "<filter/>", "<object-graph><relationships><relationship/></relationships></object-graph>"]
), max_size=14).map("".join)))  # fmt: skip
def test_any_text_raises_nothing(text: str) -> None:
    import_tableau({"a.twb": text, "b.tds": text}, None)


def archive(entries: dict[str, bytes], method: int = zipfile.ZIP_DEFLATED) -> bytes:
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", method) as opened:
        for name, content in entries.items():
            opened.writestr(name, content)
    return made.getvalue()


WORKBOOK = workbook().encode()


def test_a_package_is_read_as_its_document(tmp_path: Path) -> None:
    content = archive({"Data/shop.hyper": b"\0" * 1000, "Shop.twb": WORKBOOK, "Data/old.twb": b"<workbook/>"})
    assert document_in("a/Shop.twbx", content) == WORKBOOK
    assert document_in("Shop.twb", WORKBOOK) == WORKBOOK
    (tmp_path / "Shop.twbx").write_bytes(content)
    assert "orders.yaml" in import_path("tableau", tmp_path, None).files


def _renamed(content: bytes, old: bytes, new: bytes) -> bytes:
    assert len(old) == len(new)
    return content.replace(old, new)


PLAIN = archive({"Shop.twb": WORKBOOK})
NESTED = archive({"Shop.twb": WORKBOOK, "aaa/bbb/ccc": b"x"})
CASES = {
    "parent": (_renamed(NESTED, b"aaa/bbb/ccc", b"../../../cc"), "the entry `../../../cc` is outside"),
    "absolute": (_renamed(NESTED, b"aaa/bbb/ccc", b"/etc/passwd"), "the entry `/etc/passwd` is outside"),
    "windows": (_renamed(NESTED, b"aaa/bbb/ccc", rb"..\..\win32"), "is outside the archive's folder"),
    "drive": (_renamed(NESTED, b"aaa/bbb/ccc", b"C:/win32/xx"), "is outside the archive's folder"),
    "none": (archive({"a.txt": b"x"}), "it must contain a single .twb file, but contains none"),
    "several": (archive({"a.twb": b"x", "b.twb": b"y"}), "it must contain a single .twb file, but contains 2 of them"),
    "method": (archive({"Shop.twb": WORKBOOK}, zipfile.ZIP_LZMA), "compressed with a method that ktx does not support"),
    "text": (b"<workbook/>", "it is not a ZIP archive"),
    "empty": (b"", "it is not a ZIP archive"),
    "cut": (PLAIN[:400] + PLAIN[-60:], "the archive is damaged"),
    "long list": (PLAIN[:-10] + struct.pack("<I", 2**31) + PLAIN[-6:], "its list of entries is too long"),
}


@pytest.mark.parametrize("name", CASES)
def test_hostile_archives_are_refused(name: str) -> None:
    content, why = CASES[name]
    with pytest.raises(ConfigError) as refused:
        document_in("Shop.twbx", content)
    assert refused.value.message.startswith("Shop.twbx cannot be read: ") and why in refused.value.message
    assert refused.value.hint


def test_an_archive_that_expands_too_far_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "MAX_CHARACTERS", 100_000)
    bomb = archive({"Shop.twb": b"\0" * 5_000_000})
    with pytest.raises(ConfigError, match=r"`Shop\.twb` expands to more than 100,000 bytes"):
        document_in("Shop.twbx", bomb)
    at = bomb.rfind(b"PK\x01\x02") + 24  # the size that the archive states may be a lie
    lying = bomb[:at] + struct.pack("<I", 10) + bomb[at + 4 :]
    found = None
    try:
        found = document_in("Shop.twbx", lying)
    except ConfigError as error:
        assert "the archive is damaged" in error.message
    assert found is None or len(found) <= 100_000


def test_an_archive_with_too_many_entries_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(package, "_MOST", 3)
    with pytest.raises(ConfigError, match=r"it has 5 entries, more than the limit of 3"):
        document_in("Shop.twbx", archive({f"{number}.txt": b"" for number in range(5)}))
    monkeypatch.setattr(package, "MAX_PACKAGE", 10)
    with pytest.raises(ConfigError, match="more than the limit of 10"):
        document_in("Shop.twbx", PLAIN)


@given(st.binary(max_size=200), st.integers(0, len(PLAIN)), st.integers(0, 40))
def test_any_bytes_are_a_document_or_a_clear_error(noise: bytes, at: int, cut: int) -> None:
    for content in (noise, PLAIN[:at] + noise + PLAIN[at + cut :]):
        try:
            document_in("Shop.twbx", content)
        except ConfigError as error:
            assert error.message.startswith("Shop.twbx cannot be read: ")
