"""A person's first ten minutes with `ktx setup` in a real terminal: its questions, wrong answers, and being stopped."""

from __future__ import annotations

import os
import re
import shlex
import signal
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass

import pytest

from ktx_cli.llm.backends.claude.binary import bundled_binary
from ktx_cli.llm.registry import backend_kinds
from ktx_cli.testing.model_script import Failure, ModelRequest, Turn
from ktx_cli.testing.model_server import ModelServer
from ktx_cli.testing.servers import PostgresServer, free_port
from tests.cli.setup_terminal import ENTER, Answers, Person, World
from tests.worlds.forks import Forks, shared
from tests.worlds.terminal import Terminal

FIRST_RUN: Answers = {
    "Create a ktx project in": ENTER,
    "Which model backend?": ENTER,
    "Enable semantic search, too?": ENTER,
    "Which database?": ENTER,
    "What is the id of the database in ktx?": ENTER,
    "Another database?": ENTER,
    "Which context source": ENTER,
    "Build the context?": ENTER,
    "Which agent clients": ENTER,
}
"""What is proposed is what is wanted: a project over the SQLite file beside it, without a model."""

FLAGS = (
    "--llm-backend", "none", "--embeddings", "none", "--database", "sqlite", "--database-path", "shop.sqlite",
    "--database-connection-id", "shop", "--build", "full",
)  # fmt: skip
FILE = """\
llm: {backend: none}
embeddings: {backend: none}
databases:
  shop: {driver: sqlite, path: shop.sqlite}
build: full
"""
QUERY = ("sl", "query", "--measure", "sum(orders.amount)", "--dimension", "customers.country")
MENU = "Which model backend?"
MODEL = "claude-made-up"
REFUSED_KEY, GOOD_KEY, REFUSED_PASSWORD = "sk-refused-key-1", "sk-good-key-12345", "refused-password"


@dataclass(frozen=True)
class Made:
    """What is in the project after setup."""

    config: str
    tree: str
    status: str


def made_in(world: World) -> Made:
    left = [path for name in ("*.lock", "*.ktx-tmp", "journal.json") for path in world.folder.rglob(name)]
    assert left == []
    return Made(world.text("ktx.yaml"), world.git("rev-parse", "HEAD^{tree}"), world.git("status", "--porcelain"))


@pytest.fixture
def world() -> Iterator[World]:
    with World() as made:
        yield made


@pytest.fixture(scope="module")
def by_flags() -> Made:
    """What flags alone make, without a terminal and without a question."""
    with World() as world:
        done = world.ktx(shared(), "setup", *FLAGS)
        assert done.returncode == 0, done.stderr
        return made_in(world)


@pytest.mark.parametrize(
    ("name", "columns", "term"),
    [
        ("first-run-80", 80, "xterm-256color"),
        pytest.param("first-run-120", 120, "xterm-256color", marks=pytest.mark.slow),
        pytest.param("first-run-dumb", 80, "dumb", marks=pytest.mark.slow),
    ],
)
def test_a_first_run_from_nothing_to_an_answer(
    world: World, forks: Forks, by_flags: Made, name: str, columns: int, term: str
) -> None:
    how = {"columns": columns, "term": term, "forks": None if name == "first-run-80" else forks}  # one is installed
    world.is_recorded = True
    with world.start("setup", **how) as terminal:
        person = Person(terminal, FIRST_RUN)
        assert person.ended() == 0, terminal.transcript()
        assert person.asked == list(FIRST_RUN)  # each once
        assert ("\x1b" in terminal.output) == (term != "dumb")
    assert made_in(world) == by_flags
    with world.start(*QUERY, **how) as terminal:
        assert terminal.wait() == 0
        answer = terminal.transcript()
    assert {"NO 10.5", "SE 7.5"} <= {" ".join(line.split()) for line in answer.splitlines()}
    world.compare(name, f"$ ktx setup\n{person.story()}\n$ {shlex.join(('ktx', *QUERY))}\n{answer}\n")


def test_the_same_by_a_file_of_answers(world: World, forks: Forks, by_flags: Made) -> None:
    answers = world.base / "answers.yaml"
    answers.write_text(FILE)
    done = world.ktx(forks, "setup", "--answers", str(answers))
    assert (done.returncode, made_in(world)) == (0, by_flags), done.stderr


@pytest.mark.slow
def test_the_command_it_ends_with_answers_and_a_second_time_nothing_is_missing(
    world: World, forks: Forks, by_flags: Made
) -> None:
    with world.start("setup", forks=forks, columns=300) as terminal:
        assert Person(terminal, FIRST_RUN).ended() == 0
        command = shlex.split(terminal.transcript().rpartition("next: ")[2])
    assert command[0] == "ktx"
    with world.start(*command[1:], forks=forks) as terminal:
        assert terminal.wait() == 0, terminal.transcript()
        assert "2" in terminal.transcript().split()  # rows in the shop
    with world.start("setup", forks=forks) as terminal:
        person = Person(terminal, {"What do you want to change?": ENTER})
        assert (person.ended(), len(person.asked)) == (0, 1)
    assert made_in(world) == by_flags


def test_without_a_terminal_nothing_is_asked(world: World, forks: Forks) -> None:
    done = world.ktx(forks, "setup", stdin="y\n" * 20)
    assert (done.returncode, world.text("ktx.yaml").count("backend: none")) == (0, 1)
    world.compare("no-terminal", f"$ yes | ktx setup\n{done.stdout}--- stderr\n{done.stderr}")


def test_questions_stay_in_the_terminal_where_the_answer_goes_to_a_file(world: World, forks: Forks) -> None:
    with world.start("setup", stdout=world.base / "out", forks=forks) as terminal:
        person = Person(terminal, {"Create a ktx project in": "n"})
        assert (person.ended(), len(person.asked)) == (130, 1)
        assert "hint: ktx setup --project-dir" in terminal.transcript()
    assert (world.base / "out").read_bytes() == b""
    assert [path.name for path in world.folder.iterdir()] == ["shop.sqlite"]


@pytest.mark.slow
def test_escape_goes_back_and_what_was_answered_is_proposed(world: World, forks: Forks, by_flags: Made) -> None:
    back: Answers = {
        "Enable semantic search, too?": ("<escape>", ENTER),
        "What is the id of the database in ktx?": ("<escape>", ENTER),
        "Which context source": ("<escape>", ENTER),
    }
    with world.start("setup", forks=forks) as terminal:
        person = Person(terminal, {**FIRST_RUN, **back})
        assert person.ended() == 0, terminal.transcript()
    expected = []
    for number, question in enumerate(questions := list(FIRST_RUN)):
        expected += [question, questions[number - 1], question] if question in back else [question]
    assert person.asked == expected
    assert made_in(world) == by_flags


def interrupted(terminal: Terminal) -> int:
    terminal.key("ctrl-c")
    return terminal.wait()


FULL = bool(os.environ.get("KTX_TEST_FULL"))
STOPS: dict[str, tuple[Callable[[Terminal], int], int, int]] = {
    "killed": (Terminal.kill, -signal.SIGKILL, 1),
    "interrupted": (interrupted, 130, 1 if FULL else 3),
}
"""How it is stopped, its exit status then, and at every which question."""


@pytest.mark.slow
@pytest.mark.parametrize("how", STOPS)
def test_stopped_at_any_question_it_goes_on_there(world: World, forks: Forks, by_flags: Made, how: str) -> None:
    stop, status, every = STOPS[how]
    stopped_at: list[str] = []
    while True:
        with world.start("setup", forks=forks) as terminal:
            person = Person(terminal, FIRST_RUN)
            question = person.next_question()
            if stopped_at:
                assert question == stopped_at[-1]
                for _ in range(every):
                    person.answer()
                    question = person.next_question()
            if question is None:
                assert terminal.wait() == 0, terminal.transcript()
                break
            assert stop(terminal) == status
            assert "Traceback" not in terminal.output
            stopped_at.append(question)
    assert stopped_at == list(FIRST_RUN)[::every]
    assert made_in(world) == by_flags


def test_its_window_closed_it_goes_on_there(world: World, forks: Forks) -> None:
    with world.start("setup", forks=forks) as terminal:
        assert Person(terminal, FIRST_RUN).go_on("Another database?")
        assert terminal.hang_up() != 0
    with world.start("setup", forks=forks) as terminal:
        assert Person(terminal, FIRST_RUN).next_question() == "Another database?"


@pytest.mark.slow
def test_killed_while_a_model_is_waited_for_nothing_is_saved_and_nothing_asked_again(
    world: World, forks: Forks, model_server: ModelServer
) -> None:
    arrived = threading.Event()

    def hold(request: ModelRequest) -> Turn:
        arrived.set()
        return Turn(forever=True)

    model_server.play(hold)
    with world.start("setup", forks=forks) as terminal:
        person = Person(terminal, {**FIRST_RUN, **gateway(model_server.url)})
        assert person.go_on("Also let the model describe")
        before = world.text("ktx.yaml")
        person.answer()
        assert arrived.wait(20)
        assert terminal.kill() == -signal.SIGKILL
    assert world.text("ktx.yaml") == before
    model_server.play([Turn("ok")])
    with world.start("setup", forks=forks) as terminal:
        assert Person(terminal, FIRST_RUN).next_question() == "Enable semantic search, too?"
    assert f"base_url: {model_server.url}" in world.text("ktx.yaml")


def up_to(backend: str) -> str:
    """Return the keys from the last item of the menu, no model, up to a backend; a session is above all others."""
    others = [kind.name for kind in backend_kinds() if kind.client == "requests"]
    return "<up>" * (len(others) - others.index(backend) if backend in others else len(others) + 1) + "<enter>"


def gateway(*urls: str) -> Answers:
    """Return what sets a gateway up: its address, a key that is kept, one model."""
    return {
        MENU: (up_to("gateway"), *[ENTER] * 4),
        "URL of the gateway": tuple(f"<ctrl-u>{url}<enter>" for url in urls),
        "? Key": (
            "<enter>{an answer is required}" + f"{REFUSED_KEY}<enter>",
            ENTER,
            f"{GOOD_KEY}<enter>",
            ENTER,
            ENTER,
        ),
        "Which models?": ENTER,
        "? Model": ("claude-nope<enter>", ENTER, ENTER, f"<ctrl-u>{MODEL}<enter>", ENTER),
        "Also let the model describe": ENTER,
        "What do you want to do?": ENTER,
    }


def answered(world: World, forks: Forks, answers: Answers, until: str) -> tuple[list[str], str]:
    """Go through the questions until one stands open; return those that were asked, and all that could be read."""
    with world.start("setup", forks=forks) as terminal:
        person = Person(terminal, {**FIRST_RUN, **answers})
        assert person.go_on(until), terminal.transcript()
        assert "Traceback" not in terminal.output
        assert not [secret for secret in (REFUSED_KEY, GOOD_KEY, REFUSED_PASSWORD) if secret in terminal.output]
        return person.asked, " ".join(person.story().split())


@pytest.mark.slow
def test_a_path_with_no_database(world: World, forks: Forks) -> None:
    (world.folder / "notes").mkdir()
    (world.folder / "text.txt").write_text("no database")
    answers: Answers = {
        "Which database?": ("<down><enter>", ENTER),
        "Which kind of database?": ENTER,
        "Database file": (
            "<enter>{an answer is required}nowhere.sqlite<enter>{does not exist}<ctrl-u>notes<enter>{is not a file}"
            "<ctrl-u>text.txt<enter>",
            "<ctrl-u>shop.sqlite<enter>",
        ),
        "What do you want to do?": ENTER,
    }
    asked, read = answered(world, forks, answers, "Another database?")
    assert asked.count("Database file") == 2
    assert "!! connection `warehouse` (" in read and "the file is not a SQLite database" in read
    assert world.text("ktx.yaml").endswith("warehouse:\n    driver: sqlite\n    path: shop.sqlite\n")


@pytest.mark.slow
def test_a_gateway_that_is_not_there_then_refuses_the_key_then_has_no_such_model(
    world: World, forks: Forks, model_server: ModelServer
) -> None:
    refused, missing = Failure(401, "authentication_error", "no"), Failure(404, "not_found_error", "no")

    def script(request: ModelRequest) -> Turn | Failure:
        if request.headers["x-api-key"] != GOOD_KEY:
            return refused
        return Turn("ok") if request.body["model"] == MODEL else missing

    model_server.play(script)
    url = model_server.url
    answers = gateway(f"http://127.0.0.1:{free_port()}", url, url, url)
    asked, read = answered(world, forks, answers, "Enable semantic search, too?")
    assert asked.count("What do you want to do?") == 3
    said = ("the gateway cannot be reached", "rejected the credentials", "has no model `claude-nope`")
    places = [read.find(f"!! the gateway {part.removeprefix('the gateway ')}") for part in said]
    assert -1 not in places and places == sorted(places)
    assert f"ok gateway:{MODEL} answers" in read
    config = world.text("ktx.yaml")
    assert f"base_url: {url}" in config and GOOD_KEY not in config
    (reference,) = re.findall(r"api_key: file:(\S+)", config)
    kept = world.folder / reference
    assert (kept.read_text("utf-8").strip(), kept.stat().st_mode & 0o777) == (GOOD_KEY, 0o600)


@pytest.mark.slow
def test_no_key_no_variable_and_an_api_nobody_reaches(world: World, forks: Forks) -> None:
    answers: Answers = {
        MENU: (up_to("anthropic"), ENTER),
        "? Key": (
            "<enter>{an answer is required}$ANTHROPIC_API_KEY<enter>{enter env:ANTHROPIC_API_KEY}"
            "<ctrl-u>env:NOT_SET<enter>",
            f"{REFUSED_KEY}<enter>",
        ),
        "Which models?": ENTER,
        "Also let the model describe": ENTER,
        "What do you want to do?": (ENTER, "<up><enter>"),
    }
    _, read = answered(world, forks, answers, "Enable semantic search, too?")
    assert "!! the secret reference `env:NOT_SET`" in read
    assert "!! the Anthropic API cannot be reached" in read
    assert "backend: none" in world.text("ktx.yaml") and "anthropic" not in world.text("ktx.yaml")


@pytest.mark.slow
def test_no_session_of_claude_code(world: World, forks: Forks) -> None:
    world.environ["KTX_CLAUDE_CLI_BIN"] = str(bundled_binary())
    answers: Answers = {MENU: (up_to("claude-code"), ENTER), "What do you want to do?": (ENTER, "<down><enter>")}
    asked, read = answered(world, forks, answers, "Enable semantic search, too?")
    assert asked.count("What do you want to do?") == 2
    assert read.count("!! Claude Code on this machine has no usable session") == 2
    assert "auth login" in read


@pytest.mark.slow
@pytest.mark.postgres
def test_a_database_server_nobody_reaches_then_a_wrong_database_then_a_wrong_password(
    world: World, forks: Forks, postgres_server: PostgresServer
) -> None:
    postgres_server.create_database("asked", "CREATE TABLE orders (id int PRIMARY KEY)")
    answers: Answers = {
        "Which database?": ("<down><enter>", ENTER, ENTER, ENTER),
        "Which kind of database?": ("<down><down><down><enter>", ENTER, ENTER, ENTER),
        "How do you want to enter its address?": ENTER,
        "? Host": "<ctrl-u>127.0.0.1<enter>",
        "? Port": (
            "<ctrl-u>x12<enter>{a port is a number}" + f"<ctrl-u>{free_port()}<enter>",
            f"<ctrl-u>{postgres_server.port}<enter>",
            ENTER,
            ENTER,
        ),
        "? Name of the database": ("none<enter>", ENTER, "<ctrl-u>asked<enter>", ENTER),
        "? User": ("postgres<enter>", ENTER, ENTER, ENTER),
        "? Password": ("postgres<enter>", ENTER, f"{REFUSED_PASSWORD}<enter>", "postgres<enter>"),
        "Also read the query history": ENTER,
        "What do you want to do?": ENTER,
    }
    asked, read = answered(world, forks, answers, "Another database?")
    assert asked.count("What do you want to do?") == 3
    places = [read.find(part) for part in ("Connection refused", 'database "none" does not exist', "password")]
    assert -1 not in places[:2] and places[0] < places[1]
    assert 'password authentication failed for user "postgres"' in read
    (reference,) = re.findall(r"password: file:(\S+)", world.text("ktx.yaml"))
    assert (world.folder / reference).read_text("utf-8") == "postgres\n"
