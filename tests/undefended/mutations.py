"""Remove what stands at a line of a Python text: a few mechanical changes of its syntax tree.

Without a word the form of the line decides (:func:`_remove`). A word chooses another change:

- ``=VALUE`` puts a name or literal in the place of the condition or value (a ``raise`` returns it);
- ``OLD=NEW`` puts one name, number or word of a text in the place of another;
- ``-NAME`` drops the smallest argument, operand, element or filter that has this name in it;
- ``NAME()`` puts the first argument of this call in its place, or its object if it has no argument.
"""

from __future__ import annotations

import ast
import copy
import functools
import re
from collections.abc import Iterator
from contextlib import suppress

_BLOCKS = ("body", "orelse", "finalbody", "handlers", "cases")
_VALUE = re.compile(r"[\w.'\"()-]*")
_VALUES = ("=False", "=True", "=None")
_Statement = ast.stmt | ast.excepthandler


class Unfit(Exception):
    """The change cannot be made at this line."""


def change(text: str, line: int, word: str = "") -> str:
    """Return the text with the change made at the line (from 1). Raises :class:`Unfit`."""
    tree = ast.parse(text)
    statement = _statement(tree, line)
    _replace(tree, statement, _changed(statement, text, line, word))
    return ast.unparse(ast.fix_missing_locations(tree)) + "\n"


def require_change(text: str, line: int, word: str = "") -> None:
    """Raise :class:`Unfit` unless the change can be made and changes something."""
    _changed(_statement(_parse(text), line), text, line, word)


_parse = functools.lru_cache(4)(ast.parse)


def _changed(whole: _Statement, text: str, line: int, word: str) -> ast.AST:
    """Return the statement with the change made. Raises :class:`Unfit`."""
    statement = copy.deepcopy(whole)
    tree = ast.List(elts=[statement])  # so that it can be replaced
    inside = _inside(statement) if line == statement.lineno else _beginning(statement, line)
    old, equals, new = word.partition("=")
    if not word:
        _remove(tree, statement, line)
    elif equals and not old:
        _set(tree, statement, line, _literal(new))
    elif equals:
        _rename(tree, inside, old, new, text)
    elif word.startswith("-"):
        _drop(tree, _smallest(_parts(inside), word[1:], text))
    elif word.endswith("()"):
        _replace(tree, call := _call_of(inside, word[:-2]), _first(call))
    else:
        raise Unfit(f"no such word: {word}")
    if ast.dump(tree.elts[0]) == ast.dump(whole):
        raise Unfit("it changes nothing")
    return tree.elts[0]


def words(text: str, line: int) -> list[str]:
    """Return the words that make a change at the line, each another one."""
    whole = _statement(_parse(text), line)
    inside = _inside(whole) if line == whole.lineno else _beginning(whole, line)
    names = {name for part in inside for name in _names(part, text) if name.isidentifier()}
    called = {f"{_called(part)}()" for part in inside if isinstance(part, ast.Call)}
    fitting: dict[str, str] = {}
    for word in ("", *_VALUES, *(f"-{name}" for name in sorted(names)), *sorted(called)):
        with suppress(Unfit):
            fitting.setdefault(ast.dump(_changed(whole, text, line, word)), word)
    return list(fitting.values())


def _statement(tree: ast.AST, line: int) -> _Statement:
    """Return the innermost statement at the line."""
    at = [
        node
        for node in ast.walk(tree)
        if isinstance(node, _Statement) and node.lineno <= line <= (node.end_lineno or 0)
    ]
    if not at:
        raise Unfit("no statement stands there")
    return max(at, key=lambda node: (node.lineno, node.col_offset))


def _inside(statement: ast.AST) -> list[ast.AST]:
    """Return what the statement consists of, without the blocks below it, from the outside to the inside."""
    heads = [
        one
        for field, value in ast.iter_fields(statement)
        if field not in _BLOCKS
        for one in (value if isinstance(value, list) else [value])
        if isinstance(one, ast.AST)
    ]
    return [node for head in heads for node in ast.walk(head)]


def _beginning(statement: ast.AST, line: int) -> list[ast.AST]:
    """Return what begins at a line inside of the statement, from the outside to the inside."""
    begun = [node for node in _inside(statement) if _line(node) == line]
    if not begun:
        raise Unfit("nothing begins there")
    found: dict[ast.AST, None] = {}
    for node in begun:
        found |= dict.fromkeys(ast.walk(node))
    return list(found)


def _remove(tree: ast.AST, statement: _Statement, line: int) -> None:
    """Make the change of a line without a word.

    An ``if`` or ``while`` is never true, a ``with`` has only its block, a ``for`` no items, a function
    does nothing, a handler raises again; a line inside of a statement loses the part that begins there; any
    other statement is gone.
    """
    if line > statement.lineno:
        begun = [part for part in _parts(_inside(statement)) if _line(part) == line]
        if not begun:
            raise Unfit("nothing that can be dropped begins there")
        _drop(tree, max(begun, key=_size))
        return
    match statement:
        case ast.If() | ast.While():
            statement.test = ast.Constant(value=False)
        case ast.With() | ast.AsyncWith():
            new = ast.If(test=ast.Constant(value=True), body=statement.body, orelse=[])
            _replace(tree, statement, new)
        case ast.For() | ast.AsyncFor():
            statement.iter = ast.Tuple(elts=[], ctx=ast.Load())
        case ast.ExceptHandler():
            statement.body = [ast.Raise()]
        case ast.FunctionDef() | ast.AsyncFunctionDef():
            statement.body = [ast.Pass()]
        case ast.Try() | ast.Match() | ast.ClassDef():
            raise Unfit("a word is needed")
        case _:
            _replace(tree, statement, ast.Pass())


def _set(tree: ast.AST, statement: ast.AST, line: int, new: ast.expr) -> None:
    """Put a value in the place of the condition or value at the line."""
    if isinstance(statement, ast.Raise):
        _replace(tree, statement, ast.Return(value=new))
    else:
        _replace(tree, _condition(statement, line), new)


def _condition(statement: ast.AST, line: int) -> ast.AST:
    """Return the outermost condition of the statement, or its value; or those of what begins at a line inside."""
    if line > _line(statement):
        begun = [part for part in _beginning(statement, line) if isinstance(part, ast.expr)]
        there = max(begun, key=_size)
        return there.body if isinstance(there, ast.Lambda) else there
    if isinstance(statement, ast.If | ast.While):
        return statement.test
    for part in _inside(statement):
        if isinstance(part, ast.IfExp):
            return part.test
        if isinstance(part, ast.comprehension) and part.ifs:
            return part.ifs[0]
    value = getattr(statement, "value", None)
    if not isinstance(value, ast.expr):
        raise Unfit("it has no condition and no value")
    return value


def _literal(said: str) -> ast.expr:
    if not _VALUE.fullmatch(said):
        raise Unfit(f"neither a name nor a literal: {said}")
    return ast.parse(said, mode="eval").body


def _rename(tree: ast.AST, inside: list[ast.AST], old: str, new: str, text: str) -> None:
    """Put ``new`` in the place of each name, attribute, constant or word of a text that is ``old``."""
    for part in inside:
        match part:
            case ast.Name(id=name) if name == old:
                _replace(tree, part, _literal(new))
            case ast.Attribute(attr=name) if name == old:
                part.attr = new
            case ast.Constant(value=str(said)) if said == old:
                part.value = new
            case ast.Constant(value=str(said)):
                part.value = re.sub(rf"\b{re.escape(old)}\b", new, said)
            case ast.Constant() if _segment(text, part) == old:
                part.value = ast.literal_eval(new)


def _parts(inside: list[ast.AST]) -> list[ast.AST]:
    """Return what can be dropped: arguments, operands, elements, the ``if`` of a comprehension."""
    return [part for node in inside for part in _members(node)]


def _members(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.BoolOp():
            yield from node.values
        case ast.BinOp():
            yield from (node.left, node.right)
        case ast.Tuple(ctx=ast.Load()) | ast.List(ctx=ast.Load()) | ast.Set():
            yield from node.elts
        case ast.Call():
            yield from (*node.args, *node.keywords)
        case ast.Dict():
            yield from (key or value for key, value in zip(node.keys, node.values, strict=True))
        case ast.comprehension():
            yield from node.ifs


def _drop(tree: ast.AST, part: ast.AST) -> None:
    """Drop a part from what it belongs to."""
    for node in ast.walk(tree):
        if part not in _members(node):
            continue
        match node:
            case ast.BinOp():
                _replace(tree, node, node.right if part is node.left else node.left)
            case ast.Dict():
                at = [key or value for key, value in zip(node.keys, node.values, strict=True)]
                number = at.index(part)
                del node.keys[number], node.values[number]
            case ast.BoolOp(values=[one, other]):
                _replace(tree, node, other if part is one else one)
            case _:
                _replace(tree, part, None)
        return


def _replace(tree: ast.AST, old: ast.AST, new: ast.AST | None) -> None:
    """Put one node in the place of another; take it out of its list if there is none."""
    for node in ast.walk(tree):
        for field, value in ast.iter_fields(node):
            if value is old:
                setattr(node, field, new)
                return
            if isinstance(value, list) and old in value:
                at = value.index(old)
                value[at : at + 1] = [] if new is None else [new]
                return


def _call_of(inside: list[ast.AST], name: str) -> ast.Call:
    """Return the outermost call of the name."""
    for part in inside:
        if isinstance(part, ast.Call) and _called(part) == name:
            return part
    raise Unfit(f"nothing there calls {name}")


def _first(call: ast.Call) -> ast.AST:
    """Return the first argument of a call, or the object of a method without arguments."""
    if call.args:
        return call.args[0]
    if call.keywords:
        return call.keywords[0].value
    if isinstance(call.func, ast.Attribute):
        return call.func.value
    raise Unfit("the call has no argument")


def _smallest(parts: list[ast.AST], name: str, text: str) -> ast.AST:
    """Return the smallest part that has the name."""
    named = [part for part in parts if name in _names(part, text)]
    if not named:
        raise Unfit(f"nothing there is named {name}")
    return min(named, key=_size)


def _called(call: ast.Call) -> str:
    return ast.unparse(call.func).rpartition(".")[2]


@functools.lru_cache(4)
def _lines(text: str) -> list[bytes]:
    return text.encode().split(b"\n")


def _segment(text: str, node: ast.AST) -> str:
    """Return the source of a node on one line; nothing for another one."""
    if not isinstance(node, ast.expr | ast.keyword) or node.lineno != node.end_lineno:
        return ""
    return _lines(text)[node.lineno - 1][node.col_offset : node.end_col_offset].decode()


def _size(node: ast.AST) -> int:
    return sum(1 for _ in ast.walk(node))


def _line(node: ast.AST) -> int:
    return getattr(node, "lineno", 0)


def _names(part: ast.AST, text: str) -> set[str]:
    """Return the names in a part: variables, attributes, keywords, numbers, words of texts."""
    found = {_segment(text, part)}
    for node in ast.walk(part):
        match node:
            case ast.Name():
                found.add(node.id)
            case ast.Attribute():
                found.add(node.attr)
            case ast.keyword(arg=str(name)):
                found.add(name)
            case ast.Constant(value=str(said)):
                found.update(re.findall(r"\w+", said))
            case ast.Constant():
                found.add(_segment(text, node))
    return found
