"""Manage accounts and their logins: password, e-mailed code, token.

Decides who may log in and issues tokens; knows no HTTP. A token belongs to the account, not to
the login: every login of one account gives the same one, until the password changes.
"""

from __future__ import annotations

import hmac
import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from notarium_devtools.simperium.objects import ANYTHING, NOTE, Limits, Refused
from notarium_devtools.simperium.store import Bucket

_CODE_LETTERS = "ABCDEFGHJKLMNPQRSTUVWXYZ23456789"


@dataclass(slots=True)
class Account:
    """Hold one user with their buckets. ``compromised`` and ``unverified`` refuse the login."""

    username: str
    password: str
    token: str
    userid: str
    buckets: dict[str, Bucket] = field(default_factory=dict)
    compromised: bool = False
    unverified: bool = False


@dataclass(frozen=True, slots=True)
class SentCode:
    """Hold a login code as the e-mail would carry it."""

    username: str
    code: str
    request_source: str
    sent_at: float


@dataclass(frozen=True, slots=True)
class LoginRules:
    """Hold the rules of logging in."""

    code_seconds: float = 600.0
    max_bad_codes: int = 5
    """Wrong codes in a row after which the account host answers 429."""


class Accounts:
    """Hold all accounts."""

    def __init__(
        self,
        *,
        limits: Limits | None = None,
        login_rules: LoginRules | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.sent_codes: list[SentCode] = []
        self._limits = limits or Limits()
        self._login_rules = login_rules or LoginRules()
        self.clock = clock
        self._by_name: dict[str, Account] = {}
        self._open_codes: dict[str, SentCode] = {}
        self._bad_codes: dict[str, int] = {}

    def add(self, username: str, password: str) -> Account:
        """Add an account. Raises ``Refused`` 409 if the name is taken."""
        name = _normal(username)
        if name in self._by_name:
            raise Refused(409, "account exists")
        account = Account(name, password, secrets.token_hex(16), secrets.token_hex(16))
        self._by_name[name] = account
        return account

    def get(self, username: str) -> Account:
        """Return the account of that name. Raises ``KeyError``."""
        return self._by_name[_normal(username)]

    def by_token(self, token: str) -> Account | None:
        """Return the account of this token."""
        for account in self._by_name.values():
            if hmac.compare_digest(account.token.encode(), token.encode()):
                return account
        return None

    def bucket(self, account: Account, name: str) -> Bucket:
        """Return a bucket of the account, created when first named; case does not count."""
        key = name.lower()
        if key not in account.buckets:
            rules = NOTE if key == "note" else ANYTHING
            new = Bucket(rules=rules, limits=self._limits, clock=self.clock)
            # Another thread may have been faster: then its bucket stays.
            account.buckets.setdefault(key, new)
        return account.buckets[key]

    def log_in(self, username: str, password: str) -> Account:
        """Log in by password. Raises ``Refused`` with the service's plain-text reasons."""
        account = self._by_name.get(_normal(username))
        if account is None:
            raise Refused(401, f"unknown username: {username}")
        if not hmac.compare_digest(account.password.encode(), password.encode()):
            raise Refused(401, "invalid login")
        if account.compromised:
            raise Refused(401, "compromised password")
        if account.unverified:
            raise Refused(403, "verification required")
        return account

    def send_code(self, username: str, request_source: str) -> None:
        """Send a login code; to an unknown address silently nothing."""
        name = _normal(username)
        if name not in self._by_name:
            return
        code = "".join(secrets.choice(_CODE_LETTERS) for _ in range(6))
        sent = SentCode(name, code, request_source, self.clock())
        self.sent_codes.append(sent)
        self._open_codes[name] = sent

    def redeem_code(self, username: str, code: str) -> Account:
        """Log in by code, once. Raises ``Refused`` with the service's error word as reason."""
        name = _normal(username)
        if self._bad_codes.get(name, 0) >= self._login_rules.max_bad_codes:
            raise Refused(429, "too-many-requests")
        sent = self._open_codes.get(name)
        if sent is None or self.clock() > sent.sent_at + self._login_rules.code_seconds:
            raise Refused(400, "request-not-found")
        if not hmac.compare_digest(sent.code.encode(), code.upper().encode()):
            self._bad_codes[name] = self._bad_codes.get(name, 0) + 1
            raise Refused(400, "invalid-code")
        del self._open_codes[name]
        self._bad_codes.pop(name, None)
        return self._by_name[name]

    def change_password(self, username: str, password: str) -> str:
        """Set a new password; the old token becomes invalid. Return the new token."""
        account = self.get(username)
        account.password = password
        account.token = secrets.token_hex(16)
        return account.token


def _normal(username: str) -> str:
    return username.strip().lower()
