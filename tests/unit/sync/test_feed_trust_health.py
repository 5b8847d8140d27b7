"""How far the change feed is trusted."""

from mcp_notarium.sync.feed_trust import FIRST_PAUSE, LONGEST_PAUSE, Feed


def test_a_feed_that_does_not_exist_is_never_asked():
    feed = Feed(exists=False, long_poll=False)
    assert not feed.usable(0.0)
    assert not feed.listens(0.0)


def test_one_failure_ends_listening_and_the_second_ends_asking_for_a_while():
    feed = Feed(exists=True, long_poll=True)
    assert feed.listens(0.0)
    assert feed.failed(0.0) is False
    assert feed.usable(0.0)
    assert not feed.listens(0.0)
    assert feed.failed(10.0) is True
    assert not feed.usable(10.0 + FIRST_PAUSE - 1)
    assert feed.usable(10.0 + FIRST_PAUSE)


def test_a_feed_that_was_given_up_is_due_when_its_pause_is_over():
    feed = Feed(exists=True, long_poll=True)
    assert not feed.due(0.0)
    feed.failed(0.0)
    assert not feed.due(0.0), "it is asked anyway"
    feed.failed(0.0)
    assert not feed.due(FIRST_PAUSE - 1)
    assert feed.due(FIRST_PAUSE)
    feed.worked()
    assert not feed.due(FIRST_PAUSE)


def test_the_pauses_grow_as_long_as_it_fails_and_begin_anew_when_it_has_worked():
    feed, now, pauses = Feed(exists=True, long_poll=True), 0.0, []
    feed.failed(now)
    for _ in range(10):
        feed.failed(now)
        start = now
        while not feed.usable(now):
            now += 1.0
        pauses.append(now - start)
    assert pauses == [2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0, LONGEST_PAUSE, LONGEST_PAUSE]
    feed.worked()
    feed.failed(now)
    feed.failed(now)
    assert feed.usable(now + FIRST_PAUSE)


def test_one_good_answer_makes_up_for_the_failures_before():
    feed = Feed(exists=True, long_poll=True)
    feed.failed(0.0)
    feed.worked()
    assert feed.listens(0.0)
    assert feed.failed(0.0) is False


def test_a_feed_that_failed_with_everything_else_is_tried_first_again():
    feed = Feed(exists=True, long_poll=True)
    feed.failed(0.0)
    feed.failed(0.0)
    feed.excuse()
    assert feed.usable(0.0)
    assert feed.failed(0.0) is True


def test_a_feed_without_long_poll_is_asked_but_not_listened_to():
    feed = Feed(exists=True, long_poll=False)
    assert feed.usable(0.0)
    assert not feed.listens(0.0)
