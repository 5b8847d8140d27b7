"""Build the addresses of a Trilium server's ETAPI. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Self
from urllib.parse import quote, urlencode, urlsplit

from mcp_notarium.errors import ConfigError
from mcp_notarium.stores.http_rules import usable_origin

_API = "/etapi"
EVERYTHING = {
    "search": 'note.noteId != ""',
    "includeArchivedNotes": "true",
    "orderBy": "utcDateModified",
}
"""List all notes. The query is constant, so nobody's text can change its meaning."""
_LIKE = "Write TRILIUM_URL like http://127.0.0.1:8080 or https://notes.example.org: the address that a browser shows, up to the path."


@dataclass(frozen=True, slots=True)
class Urls:
    """Build the addresses of one server."""

    base: str
    """Without ``/etapi``, and without a slash at its end."""
    plain_http: bool = False
    """``TRILIUM_ALLOW_HTTP`` is on."""

    @classmethod
    def from_settings(cls, address: str, *, plain_http: bool) -> Self:
        """Return the addresses; people write one with or without ``/etapi``. Raises ``ConfigError``."""
        base = address.strip().rstrip("/")
        base = base[: -len(_API)] if base.lower().endswith(_API) else base
        try:
            usable_origin(base, plain_http=plain_http)
        except ConfigError as error:
            raise ConfigError(
                f"TRILIUM_URL cannot be used: {error.message}",
                resolution_hint=f"{_LIKE} Plain http works to this machine; with TRILIUM_ALLOW_HTTP=on also "
                "to the local network, where others may read the token and the notes.",
            ) from None
        return cls(base.rstrip("/"), plain_http)

    def endpoint(self) -> str:
        """Return the address in one form: host in lower case, the port always named."""
        scheme, host, port = usable_origin(self.base, plain_http=self.plain_http)
        return f"{scheme}://{host}:{port}{urlsplit(self.base).path}"

    def port(self) -> int:
        """Return the TCP port."""
        return usable_origin(self.base, plain_http=self.plain_http)[2]

    def api(self, *parts: str) -> str:
        """Return the address of a resource; each part is one segment of the path."""
        return f"{self.base}{_API}/{'/'.join(quote(part, safe='') for part in parts)}"

    def everything(self) -> str:
        """Return the address of the listing of all notes, without their content."""
        return f"{self.api('notes')}?{urlencode(EVERYTHING)}"

    def changed_since(self, date: str) -> str:
        """Return the address of a search for the notes of this date or a later one."""
        return self.search(f'note.utcDateModified >= "{date}"', archived=True)

    def totals(self) -> str:
        """Return the address of the server's statistics."""
        return f"{self.api('metrics')}?format=json"

    def search(self, query: str, *, archived: bool) -> str:
        """Return the address of a search in Trilium's own syntax."""
        asked = {"search": query, "includeArchivedNotes": str(archived).lower()}
        return f"{self.api('notes')}?{urlencode(asked)}"

    def status(self) -> str:
        """Return the address whose answer carries a number that grows with every change."""
        return f"{self.base}/api/setup/status"
