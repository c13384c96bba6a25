"""A program is asked by lines, and what it does instead of answering is told."""

import sys

import pytest

from attnspec.errors import TargetError
from attnspec.execution.programs import AnswerError, EndedError, Program

ECHO = f"{sys.executable} -c 'import sys; [print(line, end=\"\", flush=True) for line in sys.stdin]'"


@pytest.fixture
def begun():
    made = []

    def begin(command):
        made.append(Program(command))
        return made[-1]

    yield begin
    for program in made:
        program.end()
        program.process.stdin.close()
        program.process.stdout.close()


def test_what_answers_with_its_own_question_is_heard(begun):
    assert {"id": 1, "ask": "which", "more": 2} == begun(ECHO).ask("which", 30, more=2)


def test_what_was_written_unasked_is_told_though_the_program_has_ended(begun):
    program = begun("echo hello")
    program.process.wait()
    with pytest.raises(AnswerError, match=r"wrote an unexpected line: .*hello"):
        program.ask("which")


def test_what_was_written_unasked_is_told_where_the_question_finds_nobody(begun):
    program = begun("echo hello")
    program.process.wait()
    with pytest.raises(AnswerError, match=r"wrote an unexpected line: .*hello"):
        program.write("{}")


def test_a_program_that_ends_is_told_with_its_status(begun):
    program = begun("false")
    program.process.wait()
    with pytest.raises(EndedError) as caught:
        program.write("{}")
    assert 1 == caught.value.status


def test_what_cannot_be_run_is_refused():
    with pytest.raises(TargetError, match="no_such_program cannot be run"):
        Program("no_such_program")
