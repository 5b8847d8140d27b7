"""Hold a secret value that never prints, pickles, compares loosely or lands in a traceback by accident.

It guards against accidents, not against code that asks for the value. Only :meth:`Secret.reveal` and
:meth:`Secret.reveal_text` return it, so a search for "reveal" finds every use of a secret.
"""

from __future__ import annotations

import hmac
from typing import NoReturn, final


@final
class Secret:
    """Hold bytes that nobody sees unless they call :meth:`reveal` or :meth:`reveal_text`.

    Text is kept as UTF-8 (lone surrogates are refused with ``UnicodeEncodeError``).
    """

    __slots__ = ("_value",)

    def __init__(self, value: bytes | str) -> None:
        self._value = value.encode() if isinstance(value, str) else bytes(value)

    def reveal(self) -> bytes:
        """Return the bytes. Keep them out of locals that outlive the call they are for."""
        return self._value

    def reveal_text(self) -> str:
        """Return the value as text; raises ``UnicodeDecodeError`` if it is not UTF-8."""
        return self._value.decode()

    def __len__(self) -> int:
        return len(self._value)

    def __bool__(self) -> bool:
        return bool(self._value)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Secret):
            return NotImplemented
        return hmac.compare_digest(self._value, other._value)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return "Secret('***')"  # defence: secret-hides-itself =self._value

    __str__ = __repr__

    def __format__(self, spec: str) -> str:
        return format(repr(self), spec)

    def __reduce__(self) -> NoReturn:
        msg = "a Secret is not pickled"
        raise TypeError(msg)
