"""When sync asks again: delays, empty cycles, the health of the change feed."""

from mcp_notarium.errors import RateLimited, StoreUnavailable
from mcp_notarium.sync.backoff import (
    FEED_FIRST_PAUSE,
    FREE_EMPTY_CYCLES,
    LONGEST_ASKED_DELAY,
    LONGEST_DELAY,
    QUIET_SECONDS,
    SHORTEST_DELAY,
    CycleBackoff,
    FeedHealth,
    backoff_delay,
    retry_after_of,
)


def test_pauses_double_up_to_a_ceiling_and_are_spread_over_all_of_it():
    ceilings = [backoff_delay(n, jitter=1.0) for n in (1, 2, 3, 4, 20, 10_000)]
    assert ceilings == [1.0, 2.0, 4.0, 8.0, LONGEST_DELAY, LONGEST_DELAY]
    assert backoff_delay(4, jitter=0.5) == 4.0
    assert backoff_delay(4, jitter=0.0) == SHORTEST_DELAY


def test_the_store_may_ask_for_more_patience_but_not_for_ever():
    assert backoff_delay(1, jitter=0.5, retry_after=30.0) == 30.0
    assert backoff_delay(20, jitter=0.9, retry_after=30.0) == 270.0
    assert backoff_delay(1, jitter=0.5, retry_after=1e12) == LONGEST_ASKED_DELAY
    assert backoff_delay(1, jitter=0.5, retry_after=-5.0) == 0.5


def test_only_a_rate_limit_carries_a_request_for_patience():
    assert retry_after_of(RateLimited("x", retry_after=7.0)) == 7.0
    assert retry_after_of(StoreUnavailable("x")) is None


# CycleBackoff


def delay(backoff):
    return backoff.delay(jitter=0.999999, retry_after=None)


def empty(backoff, times):
    for _ in range(times):
        backoff.record_empty()


def test_a_feed_may_repeat_itself_now_and_then():
    backoff = CycleBackoff()
    empty(backoff, FREE_EMPTY_CYCLES)
    assert backoff.pause == 0.0


def test_pauses_double_up_to_a_limit():
    backoff, pauses = CycleBackoff(), []
    empty(backoff, FREE_EMPTY_CYCLES)
    for _ in range(10):
        backoff.record_empty()
        pauses.append(backoff.pause)
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, LONGEST_DELAY, LONGEST_DELAY]


def test_news_make_up_for_everything():
    backoff = CycleBackoff()
    empty(backoff, 9)
    backoff.record_failure()
    backoff.record_failure()
    backoff.reset()
    backoff.record_failure()
    assert backoff.pause == 0.0
    assert delay(backoff) <= 1.0


def test_so_does_a_minute_in_which_nothing_came_but_no_shorter_time():
    backoff = CycleBackoff()
    empty(backoff, 9)
    backoff.record_quiet(QUIET_SECONDS - 1)
    backoff.record_empty()
    backoff.record_quiet(QUIET_SECONDS - 1)
    assert backoff.pause > 0.0
    backoff.record_quiet(1.0)
    assert backoff.pause == 0.0


def test_failures_and_empty_answers_in_turn_slow_each_other_down_no_less():
    backoff = CycleBackoff()
    for _ in range(6):
        backoff.record_failure()
        backoff.record_empty()
    assert delay(backoff) > 30.0
    assert backoff.pause == 16.0


# FeedHealth


def test_a_feed_that_does_not_exist_is_never_asked():
    feed = FeedHealth(exists=False, long_poll=False)
    assert not feed.usable(0.0)
    assert not feed.can_long_poll(0.0)


def test_one_failure_ends_listening_and_the_second_ends_asking_for_a_while():
    feed = FeedHealth(exists=True, long_poll=True)
    assert feed.can_long_poll(0.0)
    assert feed.record_failure(0.0) is False
    assert feed.usable(0.0)
    assert not feed.can_long_poll(0.0)
    assert feed.record_failure(10.0) is True
    assert not feed.usable(10.0 + FEED_FIRST_PAUSE - 1)
    assert feed.usable(10.0 + FEED_FIRST_PAUSE)


def test_a_feed_that_was_suspended_is_due_when_its_pause_is_over():
    feed = FeedHealth(exists=True, long_poll=True)
    feed.record_failure(0.0)
    assert not feed.suspended, "it is asked anyway"
    feed.record_failure(0.0)
    assert feed.suspended
    assert not feed.usable(FEED_FIRST_PAUSE - 1)
    assert feed.usable(FEED_FIRST_PAUSE)
    feed.record_success()
    assert not feed.suspended


def test_pauses_grow_with_failures_and_start_again_after_success():
    feed, now, pauses = FeedHealth(exists=True, long_poll=True), 0.0, []
    feed.record_failure(now)
    for _ in range(10):
        feed.record_failure(now)
        start = now
        while not feed.usable(now):
            now += 1.0
        pauses.append(now - start)
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, LONGEST_DELAY, LONGEST_DELAY]
    feed.record_success()
    feed.record_failure(now)
    feed.record_failure(now)
    assert feed.usable(now + FEED_FIRST_PAUSE)


def test_one_good_answer_makes_up_for_the_failures_before():
    feed = FeedHealth(exists=True, long_poll=True)
    feed.record_failure(0.0)
    feed.record_success()
    assert feed.can_long_poll(0.0)
    assert feed.record_failure(0.0) is False


def test_a_feed_that_failed_with_everything_else_is_tried_first_again():
    feed = FeedHealth(exists=True, long_poll=True)
    feed.record_failure(0.0)
    feed.record_failure(0.0)
    feed.end_suspension()
    assert feed.usable(0.0)
    assert feed.record_failure(0.0) is True


def test_a_feed_without_long_poll_is_asked_but_not_listened_to():
    feed = FeedHealth(exists=True, long_poll=False)
    assert feed.usable(0.0)
    assert not feed.can_long_poll(0.0)
