"""Build Simplenote's URLs. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, urlencode, urlsplit

APP_ID = "chalk-bump-f49"
"""Simplenote's public name at Simperium; every client sends it."""

LONGEST_ID = 256
_HTTP, _HTTPS = 80, 443
NOTES = "note"
"""The bucket of notes."""


@dataclass(frozen=True, slots=True)
class Urls:
    """Hold the three hosts: for notes, for passwords, for codes by e-mail."""

    api: str = "https://api.simperium.com/1"
    auth: str = "https://auth.simperium.com/1"
    app: str = "https://app.simplenote.com"
    app_id: str = APP_ID

    @classmethod
    def from_settings(cls, *, api: str, auth: str, app: str) -> Self:
        """Make URLs from settings: a Simperium host named without a path means its version 1."""
        return cls(api=_add_version(api), auth=_add_version(auth), app=app)

    def all(self) -> tuple[str, str, str]:
        """Return every base URL, for the list of hosts that may be contacted."""
        return self.api, self.auth, self.app

    def endpoint(self) -> str:
        """Return the address of the notes in one form: host in lower case, the port always named."""
        parts = urlsplit(self.api)
        return f"{parts.scheme}://{parts.hostname}:{_port(self.api)}{parts.path.rstrip('/')}"

    def ports(self) -> tuple[int, ...]:
        """Return the ports of all addresses."""
        return tuple(map(_port, self.all()))

    def authorize(self) -> str:
        """Return the URL that turns a password into a token. The slash at the end belongs to it."""
        return f"{self.auth.rstrip('/')}/{self.app_id}/authorize/"

    def account(self, verb: str) -> str:
        """Return the URL for requesting or sending a code."""
        return f"{self.app.rstrip('/')}/account/{verb}"

    def bucket(self, bucket: str, verb: str, query: Mapping[str, str]) -> str:
        """Return the URL of ``index`` or ``changes`` of a bucket."""
        return f"{self._base(bucket)}/{verb}{_query(query)}"

    def item(
        self, bucket: str, item_id: str, *, version: int | None, query: Mapping[str, str]
    ) -> str:
        """Return the URL of one object, or of one version of it."""
        path = f"{self._base(bucket)}/i/{quote(item_id, safe='')}"
        return f"{path}{'' if version is None else f'/v/{version}'}{_query(query)}"

    def _base(self, bucket: str) -> str:
        return f"{self.api.rstrip('/')}/{self.app_id}/{bucket}"


def is_possible_id(item_id: str) -> bool:
    """Tell whether the service can have an object of this id at all.

    Ids of dots alone are left out: in a path they would mean another resource.
    """
    try:
        length = len(item_id.encode())
    except UnicodeEncodeError:
        return False
    return 0 < length <= LONGEST_ID and item_id.strip(".") != ""


def _port(url: str) -> int:
    parts = urlsplit(url)
    return parts.port or (_HTTP if parts.scheme == "http" else _HTTPS)


def _add_version(base: str) -> str:
    return base if urlsplit(base).path.strip("/") else f"{base.rstrip('/')}/1"


def _query(query: Mapping[str, str]) -> str:
    return f"?{urlencode(query)}" if query else ""
