"""Every code block of the documentation runs, or says why it does not."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.docs.blocks import ROOT, RUN, Block, blocks_of, pages
from tests.docs.running import Page

BLOCKS = {
    name: blocks_of(path.read_text("utf-8"), name) for path in pages() for name in [path.relative_to(ROOT).as_posix()]
}


def complaints(page: Page, blocks: list[Block]) -> list[str]:
    """Run the blocks of a page in order; the first that fails may take the next with it."""
    return [f"{block.place}: {wrong}" for block in blocks for wrong in page.run(block)]


SWEPT = re.compile(r"docs/guides/(?!setup)")
"""Pages whose blocks run with the sweeps: what they show is tested where it is at home, too."""


@pytest.mark.parametrize(
    "name",
    [
        pytest.param(name, marks=pytest.mark.slow) if SWEPT.match(name) else name
        for name, blocks in BLOCKS.items()
        if blocks
    ],
)
def test_every_block_runs_or_has_a_reason(name: str, page: Page) -> None:
    wrong = complaints(page, BLOCKS[name])
    assert not wrong, "\n\n".join(wrong)


def test_what_is_not_run_is_listed() -> None:
    """`pytest -s` shows the list."""
    blocks = [block for found in BLOCKS.values() for block in found]
    left = [block for block in blocks if block.reason]
    print(f"\n{len(blocks) - len(left)} blocks run, {len(left)} do not:")
    for block in left:
        print(f"  {block.place} ({block.kind}): {block.reason}")
    assert all(block.reason or block.file for block in blocks if block.kind not in RUN)


WRONG = {
    "an unknown command": "```sh\nktx nonsense\n```",
    "an unknown option": "```console\n$ ktx status --nonsense\n```",
    "another output": "```console\n$ ktx config get llm.provider.backend\nanthropic\n```",
    "a line too few": "```console\n$ ktx config get llm.provider.backend && ktx config get scan.privacy\nnone\n```",
    "another exit code": "```console\n$ ktx wiki read nothing\n...\n```",
    "an exit code that is not": "```sh\nktx status  # exit 3\n```",
    "a program that fails": "```sh\ncat nothing | cat nothing\n```",
    "no kind": "```\nktx status\n```",
    "an indented block": "Text:\n\n    ktx status\n",
    "a kind nobody runs": "```toml\na = 1\n```",
    "an empty reason": "<!-- not run: -->\n```sh\nktx status\n```",
    "a command there is none of in a block that is not run": "<!-- not run: later -->\n```sh\nktx nonsense now\n```",
    "an option there is none of in a block that is not run": "<!-- not run: later -->\n```sh\nktx status --later\n```",
    "a setting there is none of": '```yaml title="ktx.yaml"\nllm: {provider: {backnd: none}}\n```',
    "a file there is none of": "<!-- file: nothing.toml -->\n```toml\na = 1\n```",
    "lines that the file does not have": "<!-- file: Makefile -->\n```toml\na = 1\n```",
    "YAML of no file": "```yaml\na: 1\n```",
    "a column there is none of": '```yaml title="semantic-layer/warehouse/orders.yaml"\nname: orders\n'
    "measures: [{name: m, expr: sum(nothing)}]\n```",
    "a table there is none of": "```sql\nSELECT * FROM nothing\n```",
}


@pytest.mark.table(("name", "text"), WRONG.items())
def test_a_wrong_block_is_found(name: str, text: str, page: Page) -> None:
    assert complaints(page, blocks_of(text, "page.md")), name


@pytest.mark.table(
    ("text", "error"),
    [
        ("```json\n{\n```", ValueError),
        ("```python\nassert 1 == 2\n```", AssertionError),
        ("```console\nproject: x\n$ ktx status\n```", AssertionError),
    ],
)
def test_a_block_that_breaks_ends_the_page(text: str, error: type[Exception], page: Page) -> None:
    with pytest.raises(error):
        complaints(page, blocks_of(text, "page.md"))


RIGHT = """\
<!-- start: empty -->
```console
$ ktx demo
...
scanned: 19 tables ...
...
$ cd ktx-demo && ktx config get llm.provider.backend
none
$ ktx wiki read nothing  # exit 2
...
$ ktx sl list | wc -l
27
```

* In a list:

  ```json title="question.json"
  {"measures": ["orders.order_count"]}
  ```

<!-- first: ktx config set llm.models.default sonnet -->
```sh
ktx config get llm.models.default
```

<!-- not run: a drawing -->
```text
a -> b
```
"""


def test_a_right_page_has_nothing_wrong(page: Page) -> None:
    blocks = blocks_of(RIGHT, "page.md")
    assert [block.kind for block in blocks] == ["console", "json", "sh", "text"]
    before = Path.cwd()
    assert complaints(page, blocks) == []
    assert Path.cwd() == before
    assert [each.name for each in page.folder.iterdir()] == ["ktx-demo"]
    assert (page.here / "question.json").is_file()
