"""Describe a variable: what can be configured, with which default, bounds and trust.

``config/common_variables`` declares those that hold for every store, and each store its own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum, StrEnum


class Trust(IntEnum):
    """Name the sources that may set a variable; each level includes the ones above it."""

    ENVIRONMENT = 1
    """Only the real environment: it decides to which host credentials are sent."""
    ENV_FILE = 2
    """Also the file named by ``--env-file``."""
    WORKING_FOLDER = 3
    """Also a ``.env`` in the working directory, which may be somebody else's repository."""


class Kind(StrEnum):
    """Name how the text of a variable is parsed."""

    TEXT = "text"
    EMAIL = "e-mail address"
    NAME = "name"
    PREFIX = "prefix"
    SECRET = "secret"  # noqa: S105 - the kind of a variable, not a value
    TOKEN = "token"  # noqa: S105 - the same
    COUNT = "whole number"
    NUMBER = "number"
    CHOICE = "choice"
    PATH = "path"
    URL = "address"


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """Describe one variable."""

    name: str
    purpose: str
    kind: Kind
    default: str = ""
    minimum: int = 0
    """Raise a smaller number to this."""
    maximum: int = 0
    """Lower a larger number to this."""
    choices: tuple[str, ...] | Callable[[], tuple[str, ...]] = ()
    """List the words that can be set. A function does so if another module has them, which not every start needs."""
    required: bool = False
    has_file: bool = False
    """It can be set by ``NAME_FILE``, too."""
    value_beats_file: bool = False
    """The value counts where both are set. False: that is an error."""
    trust: Trust = Trust.ENV_FILE
    """Sources that may set it."""
    bound_to: str = ""
    """Name another variable: if a better source sets that, this one is ignored in the working folder's ``.env``."""

    @property
    def words(self) -> tuple[str, ...]:
        """Return the choices."""
        return self.choices() if callable(self.choices) else self.choices

    @property
    def secret(self) -> bool:
        """Return whether the value is never shown."""
        return self.kind in (Kind.SECRET, Kind.TOKEN)

    @property
    def file_name(self) -> str:
        """Return the name of the variable that names a file holding the value."""
        return f"{self.name}_FILE"
