"""A question's state is worth one call about the same thing, for a while."""

from mcp_notarium.protocol.elicitation import MOST_OPEN, OPEN_SECONDS, Questions


class Clock:
    now = 100.0

    def __call__(self) -> float:
        return self.now


def test_state_is_spent_once():
    questions = Questions()
    state = questions.ask(b"delete it")
    assert questions.redeem(state, b"delete it")
    assert not questions.redeem(state, b"delete it")


def test_state_is_for_its_own_question():
    questions = Questions()
    first, second = questions.ask(b"delete it"), questions.ask(b"share it")
    assert first != second
    assert not questions.redeem(first, b"share it")
    assert questions.redeem(first, b"delete it")
    assert not questions.redeem(second, b"")
    assert not questions.redeem("", b"")
    assert not questions.redeem("0" * 32, b"delete it")


def test_state_ends():
    clock = Clock()
    questions = Questions(clock)
    early, late = questions.ask(b"x"), questions.ask(b"x")
    clock.now += OPEN_SECONDS - 1
    assert questions.redeem(early, b"x")
    clock.now += 2
    assert not questions.redeem(late, b"x")


def test_only_the_newest_questions_stay_open():
    questions = Questions()
    states = [questions.ask(b"x") for _ in range(MOST_OPEN + 1)]
    assert not questions.redeem(states[0], b"x")
    assert questions.redeem(states[1], b"x")
