"""How long to stay away after what brought nothing."""

from mcp_notarium.sync.cycle import LONGEST_DELAY
from mcp_notarium.sync.cycle_backoff import FREE, QUIET, Pace


def delay(pace):
    return pace.delay(jitter=0.999999, retry_after=None)


def vain(pace, times):
    for _ in range(times):
        pace.vain()


def test_a_feed_may_repeat_itself_now_and_then():
    pace = Pace()
    vain(pace, FREE)
    assert pace.pause == 0.0


def test_pauses_double_up_to_a_limit():
    pace, pauses = Pace(), []
    vain(pace, FREE)
    for _ in range(10):
        pace.vain()
        pauses.append(pace.pause)
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, LONGEST_DELAY, LONGEST_DELAY]


def test_news_make_up_for_everything():
    pace = Pace()
    vain(pace, 9)
    pace.failed()
    pace.failed()
    pace.news()
    pace.failed()
    assert pace.pause == 0.0
    assert delay(pace) <= 1.0


def test_so_does_a_minute_in_which_nothing_came_but_no_shorter_time():
    pace = Pace()
    vain(pace, 9)
    pace.waited(QUIET - 1)
    pace.vain()
    pace.waited(QUIET - 1)
    assert pace.pause > 0.0
    pace.waited(1.0)
    assert pace.pause == 0.0


def test_failures_and_vain_answers_in_turn_slow_each_other_down_no_less():
    pace = Pace()
    for _ in range(6):
        pace.failed()
        pace.vain()
    assert delay(pace) > 30.0
    assert pace.pause == 16.0
