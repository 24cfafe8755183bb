"""HTML as its reader sees it, however it is written."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ktx_cli.documents.html import MAX_DEPTH, read_html, tokens, visible
from ktx_cli.documents.markdown import front_matter, links_in, with_front_matter


@pytest.mark.table(
    ("html", "markdown"),
    [
        ("", ""),
        ("<h2>Title</h2><p>Text &amp; <b>bold</b> order_id 2*3", "## Title\n\nText & **bold** order_id 2*3"),
        ("<p>one<p>two", "one\n\ntwo"),
        ("<ul><li>a<li>b<ul><li>c</ul></ul>", "- a\n- b\n  - c"),
        ("<ol><li>a</li><li>b</li></ol>", "1. a\n2. b"),
        ("<table><tr><th>a<th>b<tr><td>1<td>x|y</table>", "| a | b |\n| --- | --- |\n| 1 | x\\|y |"),
        ('<pre><code class="language-sql">a < b</code></pre>', "```sql\na < b\n```"),
        ("<pre>\n```\n  x\n</pre>", "````\n```\n  x\n````"),
        ("a < b and c > d", "a < b and c > d"),
        ("<title>T</title><p>x", "x"),
        ('<a href="/x?a=1&amp;b">in</a> <a href="javascript:alert(1)">js</a> <a>none</a>', "[in](/x?a=1&b) js none"),
        ('<img src="https://e.com/a.png" alt="A"><img src="data:image/png;base64,x" alt="B">', "![A](https://e.com/a.png)B"),
        ("<script>if (a < b) { document.write('<p>x</p>') }</script>y", "y"),
        ("<style>p { }</style><noscript>n</noscript><template>t</template><svg><text>s</text></svg>y", "y"),
        ("<!-- <p>hidden</p> -->y<!doctype html><?php echo 1 ?>", "y"),
        ('<p hidden>h</p><div style="DISPLAY : none"><div>h</div>h</div>y', "y"),
        ('<span style="visibility:hidden">h</span><i aria-hidden="true">h</i><b style="font-size:0">h</b>y', "y"),
        ('<span style="position:absolute;left:-9999px">h</span><span style="opacity:0">h</span>y', "y"),
        ('<span style="opacity:0.5">seen</span>', "seen"),
        ("<iframe src=x>h</iframe><object>h</object>y<script>never closed", "y"),
        ("<p>a</div></p></span>b", "a\n\nb"),
        ("<custom-element>x</custom-element><font color=red>y</font>", "xy"),
        ("<![CDATA[a < b]]>", "a < b"),
    ],
)  # fmt: skip
def test_a_page_becomes_what_its_reader_sees(html: str, markdown: str) -> None:
    assert read_html(html).markdown.strip() == markdown


def test_titles_and_links() -> None:
    page = read_html(
        '<title>A\n &amp; B</title><h1>C</h1><a href="x">1</a><a href="x">2</a><a href="mailto:a@b.c">3</a>'
    )
    assert (page.title, page.links) == ("A & B", ("x", "mailto:a@b.c"))
    assert read_html("<h1>C <i>d</i></h1>").title == "C d"


@pytest.mark.table(
    "html",
    [
        "<div>" * 5_000 + "x",
        "<blockquote>" * 1_000 + "x",
        "<ul><li>" * 500 + "x",
        "<table><tr><td>" * 300 + "x",
        "<a " * 5_000,
        '<a "' * 5_000,
        "<!--" * 50_000,
        "<" * 50_000,
        "</p>" * 5_000,
        "<script>" * 20_000,
        "<p " + "a=b " * 50_000 + ">x",
        "&" * 20_000,
        " " * 50_000 + "x",
        "<x> </x>" * 10_000,
        "<pre>" + " " * 50_000 + "x",
        "<b> </b>" * 500,
    ],
)
def test_what_is_made_to_break_a_reader_does_not(html: str) -> None:
    read_html(html)


def test_long_numbered_lists_keep_their_numbers() -> None:
    lines = [line for line in read_html("<ol>" + "<li>x</li>" * 1_000 + "</ol>").markdown.split("\n") if line]
    assert (lines[0], lines[399], lines[400], lines[-1]) == ("1. x", "400. x", "401. x", "1000. x")


PIECES = st.sampled_from(
    ["<p>", "</p>", "<ul>", "<li>", "</ul>", "<table>", "<td>", "</table>", "<b>", "</b>", "<script>", "</script>", "x"]
)


@settings(deadline=None)  # the first page imports the converter
@given(st.lists(PIECES, max_size=60).map("".join))
def test_every_element_is_closed_and_nothing_is_deep(html: str) -> None:
    opened: list[str] = []
    for token in visible(tokens(html)):
        if token.kind == "start":
            opened.append(token.name)
        elif token.kind == "end":
            assert opened.pop() == token.name
        assert len(opened) <= MAX_DEPTH
    assert opened == []
    read_html(html)


@settings(deadline=None)  # the first page imports the converter
@given(st.text(alphabet="<>/=\"'!-ab &;[]", max_size=80))
def test_any_text_is_a_page(html: str) -> None:
    page = read_html(html)
    assert page == read_html(html)
    if not set(html) & set("<&-"):
        assert page.markdown.split() == html.split()


@settings(deadline=None)  # the first page imports the converter
@given(
    st.dictionaries(st.text(min_size=1, max_size=8), st.text(max_size=20) | st.integers() | st.booleans(), max_size=4)
)
def test_front_matter_is_read_as_it_was_written(front: dict[str, object]) -> None:
    written = with_front_matter({"title": "x", **front}, "# Body").decode()
    found, body = front_matter(written)
    assert (found, body.strip()) == ({"title": "x", **front}, "# Body")


def test_a_lone_surrogate_does_not_stop_a_file_from_being_written() -> None:
    assert front_matter(with_front_matter({"title": "a\ud800"}, "b\udfff").decode())[0] == {"title": "a?"}


@pytest.mark.table(
    ("markdown", "links"),
    [
        ("[a](x) ![b](y) [c](<z z>)", ("x", "y", "z")),
        ("`[a](x)` and ``[b](`y)``", ()),
        ("```\n[a](x)\n```\n[b](y)", ("y",)),
        ("[a](https://e.com/a_(b)) [r]\n\n[r]: https://e.com/r 'T'", ("https://e.com/a_(b)", "https://e.com/r")),
        ("[top](#here) <https://e.com> <b>", ("https://e.com",)),
    ],
)
def test_links(markdown: str, links: tuple[str, ...]) -> None:
    assert links_in(markdown) == links
