"""Name the languages of code blocks: in Markdown ``python``, as a class of a MIME type ``language-text-x-python``. Pure.

A class that is none of these is the name itself: ``language-python``.
"""

from __future__ import annotations

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


def class_of(name: str) -> str:
    """Return the class of a code block whose Markdown names this language; a name that is not known here stays."""
    known = name.lower()
    return PREFIX + (_BY_NAME.get(_ALIASES.get(known, known)) or name or AUTOMATIC)


def name_of(classes: str) -> str:
    """Return the name in Markdown of what the classes of a code block say, '' if the editor guesses it."""
    kind = next((one for one in classes.split() if one.startswith(PREFIX)), PREFIX)
    kind = kind.removeprefix(PREFIX)
    return _BY_CLASS.get(kind, kind)
