"""Parse the text of one variable by its kind. Pure: values in, values and warnings out.

Raises ``ConfigError`` whose message names the variable and whose hint says what to write instead.
Neither ever quotes a secret. Nor do they quote a value that cannot be used, unless it is a number
or an address: it may be a secret that was pasted into the wrong line.
"""

from __future__ import annotations

import re

from mcp_notarium.config_variable import Kind, Variable
from mcp_notarium.errors import ConfigError
from mcp_notarium.system import SYSTEM

_WHOLE = re.compile(r"[+-]?[0-9]{1,300}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?[0-9]{1,300}\.[0-9]{1,300}", re.ASCII)
_NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,63}", re.ASCII)
_PREFIX = re.compile(r"(?:[A-Za-z][A-Za-z0-9_]{0,23})?", re.ASCII)
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
    "fatal": "critical",
}
"""Other accepted spellings of choices."""
_SHOWN = 40
_QUOTES = ('"', "'")
_DRIVE = re.compile(r"(?P<drive>[A-Za-z]):[\\/]|\\\\", re.ASCII)


def parse_value(variable: Variable, text: str, warnings: list[str]) -> str:
    """Return the canonical form of ``text``: trimmed, within bounds. Add what is unusual to ``warnings``."""
    if _PLACEHOLDER.fullmatch(text.strip()):
        raise ConfigError(
            f"{variable.name} holds a placeholder that was never filled in",
            resolution_hint=f"Write the value itself for {variable.name}, "
            "or remove it from the client's configuration.",
        )
    if variable.kind is Kind.TOKEN:  # a program made it, without blanks or quotation marks
        text = _unquote(variable, text.strip(), warnings)
    if variable.secret:
        return _parse_secret(variable, text)
    return _PARSERS[variable.kind](variable, _unquote(variable, text.strip(), warnings), warnings)


def _unquote(variable: Variable, text: str, warnings: list[str]) -> str:
    """Return the text without the quotation marks around it, which a shell would have removed."""
    quoted = len(text) > 1 and text[0] == text[-1] and text[0] in _QUOTES
    if not quoted:
        return text
    warnings.append(f"{variable.name} is in quotation marks; they are ignored.")
    return text[1:-1].strip()


def _parse_secret(variable: Variable, text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise ConfigError(
            f"{variable.name} is not valid UTF-8",
            resolution_hint=f"Type {variable.name} again on a system that uses UTF-8.",
        ) from None  # the cause would carry the value
    return text


def _parse_text(variable: Variable, text: str, _warnings: list[str]) -> str:
    if any(not char.isprintable() for char in text):
        raise ConfigError(
            f"{variable.name} holds characters that cannot be printed",
            resolution_hint=f"Type {variable.name} again without control characters.",
        )
    return text


def _parse_path(variable: Variable, text: str, warnings: list[str]) -> str:
    found = None if SYSTEM.has_drives else _DRIVE.match(text)
    if found is not None:
        in_wsl = (
            f" In WSL the drive is below /mnt/{found['drive'].lower()}." if found["drive"] else ""
        )
        raise ConfigError(
            f"{variable.name} is a Windows path, and this system is not Windows",
            resolution_hint=f"Write {variable.name} as this system names the place, like "
            f"/home/me/notes.{in_wsl}",
        )
    if text.lower().startswith("file:"):
        raise ConfigError(
            f"{variable.name} is an address (file:...), not a path",
            resolution_hint=f"Write {variable.name} without `file:`, as in /home/me/notes.",
        )
    return _parse_text(variable, text, warnings)


def _parse_name(variable: Variable, text: str, _warnings: list[str]) -> str:
    if not _NAME.fullmatch(text):
        usual = f" (the default is {variable.default})" if variable.default else ""
        raise ConfigError(
            f"{variable.name} holds something that is not a name",
            resolution_hint=f"Use letters, digits, '.', '_' and '-' only{usual}.",
        )
    return text


def _parse_prefix(variable: Variable, text: str, _warnings: list[str]) -> str:
    if not _PREFIX.fullmatch(text):
        raise ConfigError(
            f"{variable.name} holds something that cannot begin a tool's name",
            resolution_hint="Use at most 24 letters, digits and '_', a letter first, as in 'notes_'.",
        )
    return text


def _parse_choice(variable: Variable, text: str, _warnings: list[str]) -> str:
    word = _ALIASES.get(text.casefold(), text.casefold())
    if word not in variable.words:
        raise ConfigError(
            f"{variable.name} holds something that is not one of its choices",
            resolution_hint=f"Set {variable.name} to one of: {', '.join(variable.words)}.",
        )
    return word


def _parse_number(variable: Variable, text: str, warnings: list[str]) -> str:
    number: float
    if _WHOLE.fullmatch(text):
        number = int(text)
    elif variable.kind is Kind.NUMBER and _DECIMAL.fullmatch(text):
        number = float(text)
    else:
        raise ConfigError(
            f"{variable.name} holds something that is not a {variable.kind.value}",
            resolution_hint=f"Set {variable.name} to a number from {variable.minimum} to "
            f"{variable.maximum} (the default is {variable.default}). Nothing starts until then.",
        )
    bound = min(max(number, variable.minimum), variable.maximum)
    if bound != number:
        relation = "below" if bound == variable.minimum else "above"
        shown = text if len(text) <= _SHOWN else text[:_SHOWN] + "…"
        warnings.append(
            f"{variable.name} is '{shown}', {relation} what it may be ({variable.minimum} to "
            f"{variable.maximum}); {bound} is used instead."
        )
    return str(bound)


def _parse_url(variable: Variable, text: str, warnings: list[str]) -> str:
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
    if address != variable.default and not local:
        warnings.append(
            f"{variable.name} sends requests to {found['host']} instead of the usual host."
        )
    return address


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    import ipaddress  # noqa: PLC0415 - only where an address was changed

    try:
        address = ipaddress.ip_address(host.strip("[]"))
    except ValueError:
        return False
    return address.is_loopback and getattr(address, "ipv4_mapped", None) is None


_PARSERS = {
    Kind.TEXT: _parse_text,
    Kind.EMAIL: _parse_text,
    Kind.NAME: _parse_name,
    Kind.PREFIX: _parse_prefix,
    Kind.CHOICE: _parse_choice,
    Kind.COUNT: _parse_number,
    Kind.NUMBER: _parse_number,
    Kind.PATH: _parse_path,
    Kind.URL: _parse_url,
}
