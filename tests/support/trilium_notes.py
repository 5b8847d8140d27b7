"""Give the kinds of HTML that people have in Trilium's notes, each with one line to edit.

``«file»`` and ``«image»`` stand for attachments of the note, ``«note»`` for its id, ``«line»`` for the words of the line.
"""

from __future__ import annotations

_LINE = "<p>«line»</p>"
_IMAGE = 'src="api/attachments/«image»/image/p.svg"'
TEXTS: dict[str, str] = {
    "paragraphs": f"{_LINE}<p>second</p><p>third</p>",
    "line breaks": f"{_LINE}<p>one<br>two<br>three</p>",
    "headings": f"<h2>Top</h2>{_LINE}<h3>Below</h3><p>text</p>",
    "bullets": f"{_LINE}<ul><li>a</li><li>b<ul><li>c</li></ul></li></ul>",
    "numbers": f"{_LINE}<ol><li>a</li><li>b</li></ol>",
    "items with ids": f'{_LINE}<ul><li data-list-item-id="e1f">a</li><li data-list-item-id="e2f">b</li></ul>',
    "tasks": (
        f'{_LINE}<ul class="todo-list"><li><label class="todo-list__label"><input type="checkbox" disabled="disabled">'
        '<span class="todo-list__label__description">do</span></label></li></ul>'
    ),
    "tasks without words": (
        f'{_LINE}<ul class="todo-list"><li><label class="todo-list__label todo-list__label_without-description">'
        '<input type="checkbox" disabled="disabled"></label><p>do</p></li></ul>'
    ),
    "quote": f"{_LINE}<blockquote><p>said</p></blockquote>",
    "code": f'{_LINE}<pre><code class="language-text-x-python">x = 1\n\ny = 2\n</code></pre>',
    "bare pre": f"{_LINE}<pre>x\n  y</pre>",
    "table": (
        f'{_LINE}<figure class="table"><table><thead><tr><th>a</th><th>b</th></tr></thead><tbody><tr><td>1</td>'
        "<td>2</td></tr></tbody></table></figure>"
    ),
    "table with caption": (
        f'{_LINE}<figure class="table" style="width:70%;"><table class="ck-table-resized"><colgroup><col style="width:50%;">'
        "</colgroup><tbody><tr><td>1</td></tr></tbody></table><figcaption>cap</figcaption></figure>"
    ),
    "merged cells": (
        f'{_LINE}<figure class="table"><table><tbody><tr><td colspan="2">a</td></tr><tr><td>1</td><td>2</td></tr>'
        "</tbody></table></figure>"
    ),
    "image": (
        f'{_LINE}<figure class="image image_resized" style="width:40%;"><img style="aspect-ratio:4/3;" {_IMAGE} width="4" '
        'height="3"><figcaption>cap</figcaption></figure>'
    ),
    "linked image": f'{_LINE}<p><a href="https://example.org/"><img {_IMAGE} width="4" height="3"></a></p>',
    "image twice": f"{_LINE}<p><img {_IMAGE}></p><p>and again <img {_IMAGE}></p>",
    "file": (
        f'{_LINE}<p><a class="reference-link" href="#root/«note»?viewMode=attachments&amp;attachmentId=«file»">a.txt</a>'
        "</p>"
    ),
    "note link": f'{_LINE}<p><a class="reference-link" href="#root/«note»">here</a></p>',
    "include": f'{_LINE}<section class="include-note" data-note-id="«note»" data-box-size="medium">&nbsp;</section>',
    "admonition": f'{_LINE}<aside class="admonition note"><p>mind</p></aside>',
    "details": f"{_LINE}<details><summary>more</summary><p>inside</p></details>",
    "colours": f'{_LINE}<p>a <span style="color:hsl(0,75%,60%);">red</span> <span style="background-color:yellow;">b</span></p>',
    "underline": f"{_LINE}<p><u>u</u> <s>s</s> <sub>2</sub> <sup>3</sup> <kbd>k</kbd> <code>c</code></p>",
    "formula": f'{_LINE}<p><span class="math-tex">\\(x^2\\)</span></p><p><span class="math-tex">\\[y\\]</span></p>',
    "footnote": (
        f'{_LINE}<p>f<span class="footnote-reference" data-footnote-reference="" data-footnote-index="1" data-footnote-id="a1" '
        'role="doc-noteref" id="fnrefa1"><sup><a href="#fna1">[1]</a></sup></span></p><ol class="footnote-section '
        'footnotes" data-footnote-section="" role="doc-endnotes"><li class="footnote-item" data-footnote-item="" '
        'data-footnote-index="1" data-footnote-id="a1" role="doc-endnote" id="fna1"><div class="footnote-content" '
        'data-footnote-content=""><p>note</p></div></li></ol>'
    ),
    "entities": f"{_LINE}<p>a&nbsp;b &amp; c &lt; d&nbsp &quot;e&quot;</p>",
    "comment": f"{_LINE}<!-- kept --><p>after</p>",
    "bare less-than": f"{_LINE}<p>a < b</p>",
    "unclosed item": f"{_LINE}<ul><li>open<li>next</ul>",
    "rule": f"{_LINE}<hr><p>after</p>",
    "bookmark": f'{_LINE}<p><a id="there"></a>text</p>',
    "other scripts": f"{_LINE}<p>日本語 ✓ é e\u0301 \U0001f600 \u0e44\u0e17\u0e22 עברית</p>",
    "spaces and ends": f"{_LINE}\n<p>a  b</p>\r\n<p> c </p>\n",
    "one line": _LINE,
    "long": _LINE + "".join(f"<p>line {number} of a long text</p>" for number in range(300)),
}
"""Text notes."""
OTHERS: dict[str, tuple[str, str, str]] = {
    "python": ("code", "text/x-python", "# «line»\nx = 1\n"),
    "mermaid": ("mermaid", "text/vnd.mermaid", "graph TD;\n%% «line»\nA-->B\n"),
    "canvas": ("canvas", "application/json", '{"elements": [], "note": "«line»"}'),
}
"""Notes of other types: type, MIME type and content."""
