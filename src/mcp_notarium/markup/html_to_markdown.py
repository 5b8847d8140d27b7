"""Write the elements of a note as Markdown. Pure.

Everything that a reader would see is visible in it. What Markdown cannot say (colours, widths, merged cells) is
left out here; ``html_codec`` finds that out before it changes a block.

A code block has its language as a class: Markdown's ``python`` is ``language-text-x-python``. A class that is no MIME
type is the name itself: ``language-python``.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from mcp_notarium.markup.html_tree import COMMENT, Element, Node, Text

BLOCKS = frozenset(
    {
        "p", "h1", "h2", "h3", "h4", "h5", "h6", "ul", "ol", "li", "blockquote", "pre", "hr", "table",
        "figure", "figcaption", "div", "section", "aside", "details", "summary", "article", "header", "footer",
        "thead", "tbody", "tfoot", "tr", "td", "th", "caption", "colgroup", "dl", "dt", "dd", "main", "nav",
        "address", "form", "fieldset",
    }
)  # fmt: skip
CANONICAL = {"b": "strong", "i": "em", "strike": "s", "del": "s"}
_MARKS = {"strong": "**", "em": "*", "s": "~~"}
_APART = BLOCKS - {"p", "div"}
"""Blocks that stand below a box to tick, not beside it."""
_TEXTS = frozenset({"p", "h1", "h2", "h3", "h4", "h5", "h6"})
_INVISIBLE = frozenset({"script", "style", "template", "head", "title"})
COLLAPSED = " \t\r\n\f\x0b\x1c\x1d\x1e\x1f\x85\xa0"
"""Spaces that count as one. Others (U+3000, U+2028) are characters like any."""
_SPACES = re.compile(f"[{COLLAPSED}]+")
_MOST_CELLS = 100_000
_SPECIAL = re.compile(r"[\\`*\[\]<$]|~~|&(?=#?\w+;)|(?<![^\W_])_|_(?![^\W_])")
_LINE_START = re.compile(r"^(#{1,6}(?=\s|$)|>|[-+](?=\s|$)|~~~|(?=[-=:|][-=:| ]*+$))", re.MULTILINE)
_NUMBERED = re.compile(r"^(\d{1,9})([.)])(?=\s|$)", re.MULTILINE)
_MARKER = re.compile(r"(?:([-*])|\d{1,9}([.)]))(?: |$)")
_GOES_ON = re.compile(r"(?:[-*]|1[.)]) \S")
"""The list that is a list right below a line, too."""
_MATH = re.compile(r"\s*\\([(\[])(.*)\\([)\]])\s*", re.DOTALL)
_PLAIN_ADDRESS = re.compile(r"[^\s()<>\\]+")
DESCRIPTION = "todo-list__label__description"
"""The class of the element that holds the words of a task."""
_BOX_AND_WORDS = 2
ADMONITIONS = ("note", "tip", "important", "caution", "warning")


PREFIX = "language-"
AUTOMATIC = "text-x-trilium-auto"
"""The editor guesses the language."""
_NAMED_ALIKE = """
abap brainfuck clojure cmake cobol crystal csharp cython d diff django dockerfile dylan ebnf eiffel elixir elm
erlang factor forth fortran fsharp gas gdscript go groovy haml haskell haxe java julia kotlin latex less
livescript lua markdown mathematica modelica nix nsis objectivec ocaml octave perl php properties pug puppet
python q rst ruby sas sass scala scheme scss sml sql sqlite squirrel stex swift systemverilog tcl textile toml
twig vb verilog vhdl vue yacas yaml z80
"""
_BY_NAME = {name: f"text-x-{name}" for name in _NAMED_ALIKE.split()} | {
    "c": "text-x-csrc",
    "cpp": "text-x-c-src",
    "coffeescript": "text-coffeescript",
    "css": "text-css",
    "dart": "application-dart",
    "delphi": "text-x-pascal",
    "dos": "application-x-bat",
    "erb": "application-x-erb",
    "gherkin": "text-x-feature",
    "html": "text-html",
    "http": "message-http",
    "ini": "text-x-toml",
    "javascript": "application-javascript-env-backend",
    "json": "application-json",
    "jsx": "text-jsx",
    "kdl": "application-vnd-kdl",
    "lisp": "text-x-common-lisp",
    "mips": "text-x-asm-mips",
    "nginx": "text-x-nginx-conf",
    "pgsql": "text-x-pgsql",
    "plaintext": "text-plain",
    "powershell": "application-x-powershell",
    "protobuf": "text-x-protobuf",
    "r": "text-x-rsrc",
    "rust": "text-x-rustsrc",
    "sh": "text-x-sh",
    "smalltalk": "text-x-stsrc",
    "sparql": "application-sparql-query",
    "stylus": "text-x-styl",
    "terraform": "text-x-hcl",
    "tsx": "text-typescript-jsx",
    "typescript": "application-typescript",
    "vbnet": "text-x-vb",
    "vbscript": "text-vbscript",
    "xml": "text-xml",
    "xquery": "application-xquery",
}
_ALIASES = {
    "bash": "sh", "bat": "dos", "c#": "csharp", "c++": "cpp", "cs": "csharp", "golang": "go", "hcl": "terraform",
    "js": "javascript", "md": "markdown", "objc": "objectivec", "py": "python", "ps1": "powershell", "rb": "ruby",
    "rs": "rust", "shell": "sh", "tex": "latex", "text": "plaintext", "ts": "typescript", "txt": "plaintext",
    "yml": "yaml", "zsh": "sh",
}  # fmt: skip
_BY_CLASS = {kind: name for name, kind in reversed(_BY_NAME.items())} | {
    "application-javascript-env-frontend": "javascript",
    "text-javascript": "javascript",
    AUTOMATIC: "",
}


class Writer:
    """Write one note. ``address_of`` gives the address that stands for an image in the Markdown."""

    def __init__(self, address_of: Callable[[Element], str]) -> None:
        self._address_of = address_of
        self._within: list[str] = []

    def block(self, nodes: list[Node], *, below: str = "") -> str:
        """Return the Markdown of one block: an element, or text and inline elements in a row.

        A list has other markers than one at the end of what it stands ``below``, so that it does not go on that.
        """
        first = nodes[0]
        if len(nodes) > 1 or not isinstance(first, Element) or first.tag not in BLOCKS:
            return self._paragraph(nodes)
        return self._element(first, below)

    def _element(self, one: Element, below: str = "") -> str:  # noqa: PLR0911 - one line a kind
        match one.tag:
            case "p":
                return self._paragraph(one.children)
            case "h1" | "h2" | "h3" | "h4" | "h5" | "h6":
                text = self.inline(one.children).replace("\\\n", " ").strip(COLLAPSED)
                text = _protect_edges(text)
                return f"{'#' * int(one.tag[1])} {escape_heading(text)}" if text else ""
            case "ul" | "ol":
                return self._list(one, below)
            case "blockquote":
                return _prefix(self.blocks(one.children), "> ", "> ")
            case "aside" if one.has_class("admonition"):
                return self._admonition(one)
            case "pre":
                return _code(one)
            case "hr":
                return "---"
            case "table":
                return self._table(one)
        inner = self.blocks(one.children, below)
        return inner or ("" if one.tag in ("div", "figcaption") else self._placeholder(one))

    def blocks(self, nodes: list[Node], below: str = "") -> str:
        """Return the Markdown of several blocks."""
        written: list[str] = []
        for group in grouped(nodes):
            if text := self.block(group, below=written[-1] if written else below):
                written.append(text)
        return "\n\n".join(written)

    def _paragraph(self, nodes: list[Node]) -> str:
        text = self.inline(nodes).strip(COLLAPSED)
        while (len(text) - len(text.rstrip("\\"))) % 2:  # a line break at the end shows nothing
            text = text[:-1].rstrip(COLLAPSED)
        lines = [_protect_edges(line.strip(COLLAPSED)) for line in text.split("\n")]
        return escape_lines("\n".join(lines))

    def _placeholder(self, one: Element) -> str:
        note_id = one.attributes.get("data-note-id")
        if note_id is not None:
            return f"[included note]({_address('#root/' + note_id)})"
        source = one.attributes.get("src")
        return f"[{one.tag}]({_address(source)})" if source else f"*({one.tag})*"

    def _admonition(self, one: Element) -> str:
        inner = self.blocks(one.children)
        first = grouped(one.children)[0][0] if inner else None
        begins = not isinstance(first, Element) or first.tag not in BLOCKS or first.tag in _TEXTS
        gap = ("\n" if begins else "\n\n") if inner else ""
        return _prefix(f"[!{admonition_of(one).upper()}]{gap}{inner}", "> ", "> ")

    def _list(self, one: Element, below: str) -> str:
        items = items_of(one)
        number = one.attributes.get("start", "1")
        count = int(number) if number.isdecimal() and len(number) < 9 else 1  # noqa: PLR2004 - CommonMark
        markers = "-*" if one.tag == "ul" else ".)"
        mark = markers[_last_marker(below) == markers[0]]
        written = []
        for item in items:
            bullet = mark if one.tag == "ul" else f"{count}{mark}"
            count += 1
            indent = " " * (len(bullet) + 1)
            written.append(_prefix(self.item(item), f"{bullet} ", indent).rstrip(" "))
        return "\n".join(written)

    def item(self, item: Element) -> str:
        """Return the Markdown of an item of a list, without its marker."""
        children, box = item.children, ""
        label = next((c for c in children if isinstance(c, Element) and c.tag == "label"), None)
        if label is not None and (checkbox := _find(label, "input")) is not None:
            box = "[x] " if "checked" in checkbox.attributes else "[ ] "
            rest = [child for child in children if child is not label]
            task = task_of(label)
            children = [*task.line, *task.below, *rest]
        text = bare = box.rstrip()
        for group in grouped(children):
            if part := self.block(group, below=text):
                first = group[0]
                if text == bare and (not box or isinstance(first, Text) or first.tag not in _APART):
                    text = box + part
                else:
                    text += ("\n" if _GOES_ON.match(part) else "\n\n") + part
        return text

    def _table(self, one: Element) -> str:
        rows = [
            [self.cell(cell).replace("|", "\\|") for cell in cells] for _, cells in rows_of(one)
        ]
        if not rows:
            return ""
        if not has_head(one):
            rows.insert(0, [""] * len(rows[0]))
        width = max(map(len, rows))
        if width * len(rows) <= _MOST_CELLS:
            rows = [row + [""] * (width - len(row)) for row in rows]
        lines = [f"| {' | '.join(row)} |" for row in rows]
        lines.insert(1, f"|{' --- |' * width}")
        return "\n".join(lines)

    def cell(self, cell: Element) -> str:
        """Return the Markdown of a cell, but for the escape of ``|``."""
        text = " ".join(part for group in grouped(cell.children) if (part := self.block(group)))
        return _SPACES.sub(" ", text.replace("\\\n", " ")).strip()

    def inline(self, nodes: Iterable[Node]) -> str:
        """Return the Markdown of text and inline elements."""
        return "".join(self.inline_parts(nodes))

    def inline_parts(self, nodes: Iterable[Node]) -> list[str]:
        """Return what each of these nodes adds to the Markdown of a line."""
        parts: list[str] = []
        for node in nodes:
            part = self.text(node.text) if isinstance(node, Text) else self._inline_element(node)
            if part.startswith(" ") and parts and parts[-1].endswith((" ", "\n")):
                part = part[1:]
            parts.append(part)
        return parts

    def text(self, text: str) -> str:
        """Return the Markdown of text, but for what is escaped at the start of a line."""
        return _SPECIAL.sub(lambda found: "\\" + found[0], _SPACES.sub(" ", text))

    @contextmanager
    def inside(self, tag: str) -> Iterator[str]:
        """Write what is in an element; yield its mark, '' if it has none: emphasis in emphasis says no more."""
        mark = "" if tag in self._within else _MARKS.get(tag, "")
        self._within.append(tag)
        yield mark
        self._within.pop()

    def _inline_element(self, one: Element) -> str:  # noqa: PLR0911 - one line a kind
        tag = CANONICAL.get(one.tag, one.tag)
        if tag == COMMENT:
            return ""
        if tag in _INVISIBLE:
            return f"*({one.tag})*"
        if tag == "br":
            return "\\\n"
        if tag == "img":
            alt = self.text(one.attributes.get("alt", ""))
            return f"![{alt}]({_address(self._address_of(one))})"
        if tag == "code":
            return _code_span(_SPACES.sub(" ", one.all_text()))
        if one.has_class("math-tex") and (math := _MATH.fullmatch(one.all_text())):
            dollars = "$$" if math[1] == "[" else "$"
            return f"{dollars}{_SPACES.sub(' ', math[2]).strip()}{dollars}"
        with self.inside(tag) as mark:
            inner = self.inline(one.children)
        if tag == "a" and "href" in one.attributes:
            return f"[{inner.strip()}]({_address(one.attributes['href'])})" if inner.strip() else ""
        if mark and inner.strip():
            begin, end = len(inner) - len(inner.lstrip()), len(inner.rstrip())
            return f"{inner[:begin]}{mark}{inner[begin:end]}{mark}{inner[end:]}"
        return inner or ("" if tag in ("span", "label", "input") else self._placeholder(one))


def grouped(nodes: list[Node]) -> list[list[Node]]:
    """Group nodes into blocks: block elements alone, inline ones together. Whitespace between blocks belongs to none."""
    groups: list[list[Node]] = []
    run: list[Node] = []
    for node in [*nodes, None]:
        if isinstance(node, Text) or (node is not None and node.tag not in BLOCKS):
            run.append(node)
            continue
        if any(isinstance(one, Element) or one.text.strip() for one in run):
            groups.append(run)
        run = []
        if node is not None:
            groups.append([node])
    return groups


def items_of(one: Element) -> list[Element]:
    """Return the items of a list, and what stands for one."""
    return [child for child in one.children if isinstance(child, Element) and child.tag != COMMENT]


@dataclass(frozen=True, slots=True)
class Task:
    """Hold the words of a task, and what its label has below them."""

    words: Element
    """The element that has both."""
    line: list[Node]
    below: list[Node]

    @property
    def start(self) -> int:
        """Return where in the source the words begin."""
        return self.words.start + len(self.words.opening)

    @property
    def end(self) -> int:
        """Return where in the source the words end."""
        return self.below[0].start if self.below else self.words.inner_end


def task_of(label: Element) -> Task:
    """Return what is in the label of a task.

    The editor writes what stands below a task next to its label, an importer of Markdown into the label behind the words.
    """
    held = [one for one in label.children if isinstance(one, Element) or one.text.strip()]
    words = held[-1] if held else label
    if isinstance(words, Element) and words.tag == "span":
        inner = words.children
        blocks = (
            n for n, one in enumerate(inner) if isinstance(one, Element) and one.tag in BLOCKS
        )
        line = next(blocks, len(inner))
        if line < len(inner) or (len(held) == _BOX_AND_WORDS and words.has_class(DESCRIPTION)):
            return Task(words, inner[:line], inner[line:])
    return Task(label, label.children, [])


def rows_of(table: Element) -> list[tuple[Element, list[Element]]]:
    """Return the rows of a table, each with its cells."""
    return [(row, _elements(row, "td", "th")) for row in _elements(table, "tr")]


def has_head(table: Element) -> bool:
    """Tell whether the first row of a table is its head."""
    return any(_elements(row, "th") for row in _elements(table, "tr")[:1])


def admonition_of(one: Element) -> str:
    """Return the type of an admonition; one of another type is shown as a note."""
    classes = one.attributes.get("class", "").split()
    return next((name for name in classes if name in ADMONITIONS), ADMONITIONS[0])


def code_parts(one: Element) -> list[tuple[Node, str]]:
    """Return what the text of a code block is made of: texts, and line breaks."""
    parts: list[tuple[Node, str]] = []
    for child in one.children:
        if isinstance(child, Text):
            parts.append((child, child.text))
        else:
            parts += [(child, "\n")] if child.tag == "br" else code_parts(child)
    return parts


def code_element(pre: Element) -> Element | None:
    """Return the element in a code block that names its language."""
    return next((child for child in pre.children if isinstance(child, Element)), None)


def _code(one: Element) -> str:
    text, inner = "".join(part for _, part in code_parts(one)), code_element(one)
    language = name_of(inner.attributes.get("class", "")) if inner else ""
    text = text.removesuffix("\n")
    ticks = max((len(run) for run in re.findall(r"`{3,}", text)), default=2) + 1
    fence = "`" * ticks
    return f"{fence}{language}\n{text}\n{fence}" if text else f"{fence}{language}\n{fence}"


def _find(one: Element, tag: str) -> Element | None:
    return next(iter(_elements(one, tag)), None)


def _elements(one: Element, *tags: str) -> list[Element]:
    """Return the elements of these tags inside of another, not those inside of one of them."""
    found: list[Element] = []
    for child in one.children:
        if isinstance(child, Element):
            found += [child] if child.tag in tags else _elements(child, *tags)
    return found


def _last_marker(markdown: str) -> str:
    """Return the marker of the list at the end of a text; '' if it ends with something else."""
    lines = markdown.split("\n")
    last = next((line for line in reversed(lines) if line and line[0] != " "), "")
    found = _MARKER.match(last)
    return (found[1] or found[2]) if found else ""


def _prefix(text: str, first: str, other: str) -> str:
    lines = text.split("\n")
    rest = [other + line if line else other.rstrip() for line in lines[1:]]
    return "\n".join([(first + lines[0]) if lines[0] else first, *rest])


def _address(address: str) -> str:
    if _PLAIN_ADDRESS.fullmatch(address):
        return address
    return "<" + re.sub(r"[<>\n\r]", lambda found: f"%{ord(found[0]):02X}", address) + ">"


def _code_span(text: str) -> str:
    if not text.strip():
        return f"`{text}`" if text else ""
    ticks = "`" * (max((len(run) for run in re.findall(r"`+", text)), default=0) + 1)
    pad = " " if text[0] in " `" or text[-1] in " `" else ""
    return f"{ticks}{pad}{text}{pad}{ticks}"


def _protect_edges(line: str) -> str:
    """Write rare spaces at the ends of a line as references: a parser of Markdown drops them there."""
    words = line.strip()
    begin = len(line) - len(line.lstrip()) if words else len(line)
    before, after = line[:begin], line[begin + len(words) :]
    return _references(before) + words + _references(after)


def _references(spaces: str) -> str:
    return "".join(f"&#{ord(one)};" if one != " " else one for one in spaces)


def escape_heading(text: str) -> str:
    """Escape what would end a heading."""
    words = text.rstrip("#")
    return text if words == text else f"{words}\\{text[len(words) :]}"


def escape_lines(text: str) -> str:
    """Escape what begins a block only at the start of a line."""
    return _NUMBERED.sub(r"\1\\\2", _LINE_START.sub(r"\\\1", text))


def class_of(name: str) -> str:
    """Return the class of a code block whose Markdown names this language; a name that is not known here stays."""
    known = name.lower()
    return PREFIX + (_BY_NAME.get(_ALIASES.get(known, known)) or name or AUTOMATIC)


def name_of(classes: str) -> str:
    """Return the name in Markdown of what the classes of a code block say, '' if the editor guesses it."""
    kind = next((one for one in classes.split() if one.startswith(PREFIX)), PREFIX)
    kind = kind.removeprefix(PREFIX)
    return _BY_CLASS.get(kind, kind)
