"""A server stretches the passphrase once, in the thread that begins beside the imports."""

import sys
import textwrap

from support.talker import Talker, call

_COUNTED = textwrap.dedent(
    """
    import sys, threading
    from mcp_notarium.crypto import kdf
    derive, told = kdf.derive, open(sys.argv[1], "a", buffering=1)

    def counted(*args, **kwargs):
        told.write(threading.current_thread().name + "\\n")
        return derive(*args, **kwargs)

    kdf.derive = counted
    from mcp_notarium.protocol.server import serve
    sys.exit(serve())
    """
)


def test_one_start_stretches_once_and_beforehand(account, tmp_path):
    env = account.environment(DB_ENCRYPTION_KEY="five words that nobody guesses")
    found = []
    for number in range(2):
        told = tmp_path / f"told{number}"
        with Talker([sys.executable, "-c", _COUNTED, str(told)], env=env) as talker:
            talker.greet()
            answer = talker.ask(call(1, "list"))
            assert "structuredContent" in answer["result"], answer
            talker.hang_up()
            assert talker.leave()[0] == 0
        found.append(told.read_text().split("\n")[:-1])
    assert found[1] == ["head start"]
    assert "head start" not in found[0], "there was no key file yet"
