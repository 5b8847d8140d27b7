"""Write names and values as YAML that every version reads alike. Pure.

Words stay plain where YAML 1.1 and 1.2 both take them for text; else they are in double quotes.
"""

from __future__ import annotations

import re
from datetime import date

import yaml

from mcp_notarium.markup.property_values import PropertyValue, read_plain, write_scalar

_UNPRINTABLE = re.compile('[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff"\\\\]')
_NOT_PLAIN = re.compile(
    r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]|:(?:\s|\Z)|\s#|\A(?:---|\.\.\.)"
)
_NOT_SINGLE = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\ufeff\ufffe\uffff]")
_QUOTES = ("'", '"')
_INDICATORS = frozenset("-?:,[]{}#&*!|>'\"%@`=<")
_IN_FLOW = re.compile(r"[,\[\]{}:?]")
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", '"': '\\"', "\\": "\\\\"}
_RESOLVER = yaml.SafeLoader("")
_TEXT = "tag:yaml.org,2002:str"


def write_text(text: str, *, flow: bool = False) -> str:
    """Return a text in YAML; ``flow``: within brackets."""
    return text if _is_plain(text, flow=flow) else write_quoted(text)


def write_styled(text: str, style: str | None, *, flow: bool = False) -> str:
    """Return a text in YAML, in the quotes of ``style`` if that is any."""
    if style == "'" and not _NOT_SINGLE.search(text):
        return "'" + text.replace("'", "''") + "'"
    return write_quoted(text) if style in _QUOTES else write_text(text, flow=flow)


def write_quoted(text: str) -> str:
    """Return a text in double quotes, in one line; also JSON reads it if no character is above U+FFFF or below a blank."""
    return f'"{_UNPRINTABLE.sub(lambda one: _escape(one[0]), text)}"'


def write_value(value: PropertyValue, *, flow: bool = False) -> str:
    """Return a value in one line; ``flow``: within brackets, where a text is always in quotes, as in JSON."""
    match value:
        case str():
            return write_quoted(value) if flow else write_text(value)
        case bool() | int() | float() | date():
            return write_scalar(value)
        case tuple():
            items = (write_quoted(one) if flow else write_text(one, flow=True) for one in value)
            return f"[{', '.join(items)}]"
        case _:
            return "null" if flow else ""


def _is_plain(text: str, *, flow: bool) -> bool:
    if not text or text != text.strip() or _NOT_PLAIN.search(text):
        return False
    if text[0] in _INDICATORS or (flow and _IN_FLOW.search(text)):
        return False
    if read_plain(text) != text:
        return False
    return bool(_RESOLVER.resolve(yaml.ScalarNode, text, (True, False)) == _TEXT)


def _escape(one: str) -> str:
    return _SHORT.get(one) or f"\\u{ord(one):04x}"
