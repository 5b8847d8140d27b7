"""Parse the text of one variable by its kind. Pure: values in, values and warnings out.

Raises ``ConfigError`` whose message names the variable and whose hint says what to write instead.
Neither ever quotes a secret. Nor do they quote a value that cannot be used, unless it is a number
or an address: it may be a secret that was pasted into the wrong line.
"""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from mcp_notarium.config.variables import Kind, Variable
from mcp_notarium.errors import ConfigError

_NUMBER = re.compile(r"[+-]?[0-9]{1,300}(\.[0-9]{1,300})?", re.ASCII)
_WHOLE = re.compile(r"[+-]?[0-9]{1,300}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_PLACEHOLDER = re.compile(r"\$\{[A-Za-z_][\w.:-]*\}|\{\{\s*[A-Za-z_][\w.:-]*\s*\}\}", re.ASCII)
_URL = re.compile(
    r"(?P<scheme>https?)://(?P<host>\[[0-9a-f:.]{2,45}\]|[a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?)"
    r"(?::(?P<port>[0-9]{1,5}))?(?P<path>(?:/[A-Za-z0-9._~%-]*)*)",
    re.ASCII | re.IGNORECASE,
)
_HIGHEST_PORT = 65_535
_ALIASES = {
    **dict.fromkeys(("true", "yes", "1"), "on"),
    **dict.fromkeys(("false", "no", "0"), "off"),
    "warning": "warn",
    "critical": "fatal",
}
"""Other accepted spellings of choices."""
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class ParsedValue:
    """Hold a value in its canonical text, and what was odd about it ("" if nothing)."""

    text: str
    warning: str = ""


def parse_value(variable: Variable, text: str) -> ParsedValue:
    """Parse ``text`` by the variable's kind: trimmed, canonical, within bounds."""
    if _PLACEHOLDER.fullmatch(text.strip()):
        raise ConfigError(
            f"{variable.name} holds a placeholder that was never filled in",
            resolution_hint=f"Write the value itself for {variable.name}, "
            "or remove it from the client's configuration.",
        )
    if variable.secret:
        return _secret(variable, text)
    return _READERS[variable.kind](variable, text.strip())


def _secret(variable: Variable, text: str) -> ParsedValue:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"{variable.name} is not valid UTF-8",
            resolution_hint=f"Type {variable.name} again on a system that uses UTF-8.",
        ) from None  # the cause would carry the value
    return ParsedValue(text)


def _text(variable: Variable, text: str) -> ParsedValue:
    if any(not char.isprintable() for char in text):
        raise ConfigError(
            f"{variable.name} holds characters that cannot be printed",
            resolution_hint=f"Type {variable.name} again without control characters.",
        )
    return ParsedValue(text)


def _name(variable: Variable, text: str) -> ParsedValue:
    if not _NAME.fullmatch(text):
        raise ConfigError(
            f"{variable.name} holds something that is not a name",
            resolution_hint="Use letters, digits, '.', '_' and '-' only "
            f"(the default is {variable.default}).",
        )
    return ParsedValue(text)


def _choice(variable: Variable, text: str) -> ParsedValue:
    word = _ALIASES.get(text.casefold(), text.casefold())
    if word not in variable.choices:
        raise ConfigError(
            f"{variable.name} holds something that is not one of its choices",
            resolution_hint=f"Set {variable.name} to one of: {', '.join(variable.choices)}.",
        )
    return ParsedValue(word)


def _number(variable: Variable, text: str) -> ParsedValue:
    whole = variable.kind is Kind.COUNT
    if not (_WHOLE if whole else _NUMBER).fullmatch(text):
        raise ConfigError(
            f"{variable.name} holds something that is not a {'whole ' if whole else ''}number",
            resolution_hint=f"Set {variable.name} to a number from {variable.minimum} to "
            f"{variable.maximum} (the default is {variable.default}).",
        )
    number = int(text) if whole else float(text)
    if variable.minimum <= number <= variable.maximum:
        near = not whole and math.isclose(number, round(number))
        return ParsedValue(str(round(number) if near else number))
    low = number < variable.minimum
    bound = variable.minimum if low else variable.maximum
    relation = "below its minimum" if low else "above its maximum"
    shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
    warning = f"{variable.name} is '{shown}', {relation}; {bound} is used instead."
    return ParsedValue(str(bound), warning)


def _url(variable: Variable, text: str) -> ParsedValue:
    found = _URL.fullmatch(text)
    if found is None or int(found["port"] or 443) not in range(1, _HIGHEST_PORT + 1):
        raise ConfigError(
            f"{variable.name} is not an address that can be used",
            resolution_hint=f"Write {variable.name} like {variable.default}: scheme, host and "
            "path, without user name, query or fragment.",
        )
    local = _is_loopback(found["host"].casefold())
    if found["scheme"].casefold() == "http" and not local:
        raise ConfigError(
            f"{variable.name} uses plain http to another machine",
            resolution_hint=f"Use https for {variable.name}; plain http is for 127.0.0.1, "
            "::1 and localhost only.",
        )
    address = text.rstrip("/")
    if address == variable.default or local:
        return ParsedValue(address)
    return ParsedValue(
        address, f"{variable.name} sends requests to {found['host']} instead of the usual host."
    )


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    import ipaddress  # noqa: PLC0415 - only where an address was changed

    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return address.is_loopback and getattr(address, "ipv4_mapped", None) is None


_READERS = {
    Kind.TEXT: _text,
    Kind.NAME: _name,
    Kind.CHOICE: _choice,
    Kind.SECONDS: _number,
    Kind.COUNT: _number,
    Kind.PATH: _text,
    Kind.URL: _url,
}
