"""How much work a read is for the database, in instructions of its own machine: the same on every computer."""


def steps_of(cache, act):
    """How many instructions the database carries out meanwhile."""
    connection, done = cache.database._connection, []
    connection.set_progress_handler(lambda: done.append(1), 1)
    act()
    connection.set_progress_handler(None, 1)
    assert done
    return len(done)
