"""Made-up projects and test collections for search, the same for the same seed."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import accumulate
from pathlib import Path
from typing import Final

from ktx_cli.scan import search_texts_path

SYLLABLES: Final = [a + b for a in "bdfgklmnprstvz" for b in ("a", "e", "i", "o", "u", "al", "or", "in", "ek", "um")]
ENDINGS: Final = ("", "", "", "s", "ed", "ing")


@dataclass(frozen=True)
class Text:
    """A document of a collection."""

    id: str
    title: str
    tags: str
    body: str

    @property
    def whole(self) -> str:
        return f"{self.title} {self.tags} {self.body}"


@dataclass(frozen=True)
class Collection:
    """Documents, and queries with what each document is worth for them: 2 the same question, 1 the same topic."""

    texts: list[Text]
    queries: list[tuple[str, dict[str, int]]]


class Words:
    """Made-up words, drawn as often as words of a language are: the n-th one with a chance of about 1/n."""

    def __init__(self, chance: random.Random, count: int) -> None:
        self._chance = chance
        made: dict[str, None] = {}
        while len(made) < count:
            made["".join(chance.choices(SYLLABLES, k=chance.choice((2, 3, 3, 4))))] = None
        self.all = list(made)
        self._weights = list(accumulate(1 / (place + 3) for place in range(count)))

    def draw(self, count: int) -> list[str]:
        return self._chance.choices(self.all, cum_weights=self._weights, k=count)


def collection(seed: int, topics: int = 60, per_topic: int = 10) -> Collection:
    """Return a collection in which questions are put in other words than they are answered in.

    A topic has eight ideas, an idea four words that mean it; a document speaks of six ideas in one or two words each,
    and of two aspects of its topic; a query names five ideas in words of which it does not know who uses them.
    """
    chance = random.Random(seed)
    words = Words(chance, 6000)
    rare = words.all[300:]
    chance.shuffle(rare)
    texts: list[Text] = []
    queries: list[tuple[str, dict[str, int]]] = []
    for topic in range(topics):
        ideas = [[rare.pop() for _ in range(4)] for _ in range(8)]
        aspects = [[rare.pop() for _ in range(3)] for _ in range(4)]
        here: list[tuple[Text, int]] = []
        for number in range(per_topic):
            aspect = number % len(aspects)
            here.append((_text(chance, words, f"topic{topic}-{number}", ideas, aspects[aspect]), aspect))
        texts += [text for text, _ in here]
        for aspect in range(len(aspects)):
            asked = [chance.choice(idea) for idea in chance.sample(ideas, 5)] + chance.sample(aspects[aspect], 1)
            noise = words.draw(4)
            query = [_inflected(chance, word) for word in asked] + noise
            chance.shuffle(query)
            queries.append((" ".join(query), {text.id: 2 if of == aspect else 1 for text, of in here}))
    return Collection(texts, queries)


def handbook() -> Collection:
    """Return the handbook beside this file: 72 pages in plain English in 18 topics, and 144 questions people would ask.

    Of the two questions of a page one has words of it, the other asks in others. The page is worth 2, the pages of its
    topic 1.
    """
    texts: list[Text] = []
    asked: list[tuple[str, int, str]] = []
    topics: dict[str, str] = {}
    topic = ""
    for line in (Path(__file__).with_name("search_handbook.md")).read_text().splitlines():
        mark, _, rest = line.partition(" ")
        if mark == "#":
            topic = rest
        elif mark == "##":
            key, _, title = rest.partition(": ")
            texts.append(Text(key, title, topic, ""))
            topics[key] = topic
        elif mark == "?":
            asked.append((rest, len(texts) - 1, topic))
        elif line:
            texts[-1] = replace(texts[-1], body=line)
    queries = [
        (query, {key: 2 if key == texts[place].id else 1 for key, of in topics.items() if of == topic})
        for query, place, topic in asked
    ]
    return Collection(texts, queries)


def _text(chance: random.Random, words: Words, id: str, ideas: list[list[str]], aspect: list[str]) -> Text:
    used = [chance.sample(idea, chance.choice((1, 2))) for idea in chance.sample(ideas, 6)]
    told = [chance.choice(chance.choice(used)) for _ in range(chance.randint(12, 30))]
    told += [chance.choice(aspect) for _ in range(chance.randint(2, 5))]
    body = [_inflected(chance, word) for word in told] + words.draw(chance.randint(40, 260))
    chance.shuffle(body)
    title = [chance.choice(used[0]), chance.choice(used[1]), *words.draw(3)]
    chance.shuffle(title)
    return Text(id, " ".join(title), chance.choice(used[2]), " ".join(body))


def _inflected(chance: random.Random, word: str) -> str:
    return word + chance.choice(ENDINGS)


def write_project(root: Path, pages: int, columns: int, seed: int = 7) -> Words:
    """Write a project with wiki pages (about 1,500 characters each) and a semantic layer, 50 columns a source."""
    chance = random.Random(seed)
    words = Words(chance, 20_000)
    wiki = root / "wiki" / "global"
    wiki.mkdir(parents=True, exist_ok=True)
    for number in range(pages):
        name = "-".join(words.draw(2))
        head = f"---\nsummary: {_sentence(words, 8)}\ntags: [{', '.join(words.draw(2))}]\n---\n"
        body = "\n\n".join(_sentence(words, 40) for _ in range(5))
        (wiki / f"{name}-{number}.md").write_text(f"{head}\n# {_sentence(words, 5)}\n\n{body}\n")
    layer = root / "semantic-layer" / "warehouse"
    layer.mkdir(parents=True, exist_ok=True)
    for number in range(columns // 50):
        names = [f"{'_'.join(words.draw(2))}_{place}" for place in range(50)]
        told = [f"  - {{name: {name}, type: number, description: {_sentence(words, 5)}}}" for name in names]
        measures = f"measures:\n  - {{name: total_{number}, expr: sum({names[1]})}}\n"
        text = f"name: table_{number}\ntable: table_{number}\ngrain: [{names[0]}]\ncolumns:\n" + "\n".join(told)
        (layer / f"table_{number}.yaml").write_text(f"{text}\n{measures}")
    (root / "ktx.yaml").write_text("connections:\n  warehouse: {driver: sqlite, path: warehouse.sqlite}\n")
    return words


def write_questions(root: Path, words: Words, count: int = 4) -> None:
    """Write what a model writes for the pages and sources of `write_project`: some questions and synonyms each."""
    for page in sorted((root / "wiki" / "global").iterdir()):
        head, rest = page.read_text().split("\n---\n", 1)
        page.write_text(
            f"{head}\nquestions: {_questions(words, count)}\nsynonyms: {_synonyms(words, count)}\n---\n{rest}"
        )
    sources = []
    for path in sorted((root / "semantic-layer" / "warehouse").iterdir()):
        number = path.stem.removeprefix("table_")
        own = f"{{questions: {_questions(words, count)}, synonyms: {_synonyms(words, count)}}}"
        sources.append(
            f"  {path.stem}:\n    hash: x\n    questions: {_questions(words, count)}\n"
            f"    synonyms: {_synonyms(words, count)}\n    measures:\n      total_{number}: {own}\n"
        )
    file = root / search_texts_path("warehouse")
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text("format: 1\nsources:\n" + "".join(sources))


def _questions(words: Words, count: int) -> str:
    begins = ("How many", "Which", "Why", "When", "What")
    return f"[{', '.join(f'{begins[place % 5]} {_sentence(words, 6)}?' for place in range(count))}]"


def _synonyms(words: Words, count: int) -> str:
    return f"[{', '.join(_sentence(words, 2) for _ in range(count))}]"


def some_questions(words: Words, count: int, seed: int = 13) -> list[str]:
    """Return questions of five to ten words, as people ask them."""
    chance = random.Random(seed)
    begins = ("how many", "which", "why do", "when is", "what is")
    return [f"{chance.choice(begins)} {' '.join(words.draw(chance.randint(3, 8)))}" for _ in range(count)]


def _sentence(words: Words, count: int) -> str:
    return " ".join(words.draw(count))


def some_queries(words: Words, count: int, seed: int = 11) -> list[str]:
    """Return queries of one to five words, every third as frequent as words of texts are, one in ten mistyped."""
    chance = random.Random(seed)
    found = []
    for number in range(count):
        asked = [chance.choice(words.all[:8000]) for _ in range(chance.randint(1, 5))]
        asked = [words.draw(1)[0] if chance.random() < 1 / 3 else word for word in asked]
        if number % 10 == 0 and len(asked[-1]) > 5:
            place = chance.randrange(1, len(asked[-1]) - 1)
            asked[-1] = asked[-1][:place] + "q" + asked[-1][place + 1 :]
        found.append(" ".join(asked))
    return found


def mean(values: Sequence[float]) -> float:
    return sum(values) / len(values)
