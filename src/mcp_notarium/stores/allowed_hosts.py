"""Pure rules for urls: which hosts may be configured, and which host a url belongs to."""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit

from mcp_notarium.errors import ConfigError

Origin = tuple[str, str, int]
"""Scheme, host (lower-case) and port."""

_PORTS = {"https": 443, "http": 80}


def usable_origin(base: str) -> Origin:
    """The origin of a configured base url; ``ConfigError`` unless https or http to loopback."""
    try:
        parts = urlsplit(base)
        origin = _origin(parts)
    except ValueError:
        raise ConfigError("a note service address is not a url") from None
    if parts.username is not None or parts.password is not None or parts.query or parts.fragment:
        raise ConfigError("a note service address holds more than scheme, host, port and path")
    if origin[0] == "http" and not is_loopback(origin[1]):
        raise ConfigError("a note service address must be https (plain http only to this machine)")
    return origin


def origin_of(url: str) -> Origin | None:
    """The origin of any url; None if it has none."""
    try:
        return _origin(urlsplit(url))
    except ValueError:
        return None


def is_loopback(host: str) -> bool:
    """Whether a host name or address means this very machine."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _origin(parts: SplitResult) -> Origin:
    host = parts.hostname
    if parts.scheme not in _PORTS or not host:
        raise ValueError("no origin")
    return parts.scheme, host.lower(), parts.port or _PORTS[parts.scheme]
