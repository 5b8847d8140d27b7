"""Kinds of HTML that notes of Trilium have, each with words that stand in it once (``§`` is one)."""

from __future__ import annotations

import itertools
import re

_IMAGE = '<img src="api/attachments/Ab12cd34/image/y.png" width="300" height="200">'
_IMAGE_ALT = (
    '<img style="aspect-ratio:300/200;" alt="pic" src="api/attachments/Ab12cd34/image/y.png">'
)
_EMBEDDED = '<img src="data:image/png;base64,iVBORw0KGgo=">'
_BOX = '<input type="checkbox" disabled="disabled">'
_TICKED = '<input type="checkbox" checked="checked" disabled="disabled">'


def _todo(text: str, *, box: str = _BOX, more: str = "", item: str = "") -> str:
    return (
        f'<li{item}><label class="todo-list__label">{box}'
        f'<span class="todo-list__label__description">{text}</span></label>{more}</li>'
    )


def _bare_todo(text: str, *, box: str = _BOX) -> str:
    return f'<li><label class="todo-list__label todo-list__label_without-description">{box}</label>{text}</li>'


def _table(inner: str, *, caption: str = "", style: str = "") -> str:
    caption = caption and f"<figcaption>{caption}</figcaption>"
    return f'<figure class="table"{style}><table>{inner}</table>{caption}</figure>'


_ROWS = "<tbody><tr><td>§</td><td>§</td></tr><tr><td>§</td><td>§</td></tr></tbody>"
_HEAD = "<thead><tr><th>§</th><th>§</th></tr></thead>"
_KINDS = {
    # text
    "paragraph": "<p>§ § §.</p>",
    "paragraphs": "<p>§ §.</p><p>§ §.</p>",
    "paragraph aligned": '<p style="text-align:right;">§ §</p>',
    "paragraph indented": '<p style="margin-left:40px;">§ §</p>',
    "empty paragraph": "<p>§</p><p>&nbsp;</p><p>§</p>",
    "line break": "<p>§<br>§</p>",
    "line breaks at the end": "<p>§ §<br><br></p>",
    "newlines between blocks": "<p>§</p>\n\n<p>§</p>\n",
    "newline within": "<p>§\n   § §</p>",
    "bare text": "§ § §",
    "bare text beside blocks": "§ <b>§</b><p>§</p>§",
    "headings": "<h2>§ §</h2><p>§</p><h3>§</h3><p>§</p>",
    "heading one": "<h1>§ §</h1>",
    "heading with mark": "<h2>§ <u>§</u> #</h2>",
    "rule": "<p>§</p><hr><p>§</p>",
    "ends in a rule": "<p>§</p><hr>",
    "ends in a heading": "<p>§</p><h2>§ §</h2>",
    # inline
    "bold and italic": "<p>§ <strong>§ §</strong> <em>§</em> <strong><em>§</em></strong></p>",
    "old tags": "<p><b>§</b> <i>§</i> <strike>§</strike> <del>§</del></p>",
    "underline": "<p>§ <u>§ §</u> §</p>",
    "sub and sup": "<p>H<sub>§</sub>O § E<sup>§</sup></p>",
    "colour": '<p>§ <span style="color:hsl(0,75%,60%);">§ §</span> §</p>',
    "background": '<p><span style="background-color:hsl(60,75%,60%);">§</span> §</p>',
    "font size": '<p><span class="text-big">§</span> § <span class="text-tiny">§</span></p>',
    "highlighter": '<p>§ <mark class="marker-yellow">§</mark></p>',
    "keyboard": "<p>§ <kbd>Ctrl</kbd>+<kbd>§</kbd></p>",
    "inline code": '<p>§ <code spellcheck="false">§ a_b</code> §</p>',
    "nested marks": '<p>§ <strong>§ <span style="color:red;">§ <u>§</u></span></strong></p>',
    "link": '<p>§ <a href="https://example.com/a_b?c=d&amp;e">§ §</a> §</p>',
    "link in a new tab": '<p><a target="_blank" rel="noopener noreferrer" href="https://example.com">§</a> §</p>',
    "reference link": '<p>§ <a class="reference-link" href="#root/Ab12cd34Ef56">§</a> §</p>',
    "link to an attachment": '<p>§ <a class="reference-link" href="#root/Ab12cd34/Ef?viewMode=attachments&amp;attachmentId=A1">§.pdf</a></p>',
    "bookmark": '<p>§<a id="here"></a> §</p>',
    "mention": '<p>§ <a class="mention" data-mention="@§" href="#root/Ab12">@x</a> §</p>',
    "footnote": '<p>§<span class="footnote-reference" data-footnote-reference="" data-footnote-index="1" role="doc-noteref" id="fnref1"><sup><a href="#fn1">[1]</a></sup></span> §</p>',
    "math": '<p>§ <span class="math-tex">\\(a_b^2*c\\)</span> §</p>',
    "display math": '<p>§</p><p><span class="math-tex">\\[\\frac{a}{b}\\]</span></p><p>§</p>',
    "emoji": "<p>§ 😀 漢字 § ﷽</p>",
    "special characters": "<p>§ *a* _b_ [c] `d` # 1. - + | ~ $ \\ §</p>",
    "looks like blocks": "<p># §</p><p>- §</p><p>1. §</p><p>&gt; §</p><p>---</p><p>§ | §</p>",
    # entities
    "entities": "<p>§ &amp; § &lt;§&gt; &quot;§&quot; &copy; §</p>",
    "hard spaces": "<p>§&nbsp;&nbsp;§&nbsp;§ &nbsp;§</p>",
    "hard space without semicolon": "<p>§&nbsp § &nbsp§x §</p>",
    "entities without semicolon": "<p>§ &amp § &copy § &lt §</p>",
    "numeric entities": "<p>§ &#8212; § &#x1F600; §</p>",
    "unknown entities": "<p>§ &bogus; § & §&§</p>",
    "soft hyphens": "<p>§&shy;§ §&zwj;§</p>",
    # lists
    "bullets": "<ul><li>§</li><li>§ §</li></ul>",
    "numbers": "<ol><li>§</li><li>§</li></ol>",
    "numbers from five": '<ol start="5"><li>§</li><li>§</li></ol>',
    "roman numbers": '<ol style="list-style-type:upper-roman;"><li>§</li><li>§</li></ol>',
    "list item ids": '<ul><li data-list-item-id="e1">§</li><li data-list-item-id="e2">§</li></ul>',
    "nested bullets": "<ul><li>§<ul><li>§<ul><li>§</li></ul></li><li>§</li></ul></li><li>§</li></ul>",
    "numbers in bullets": "<ul><li>§<ol><li>§</li><li>§</li></ol></li></ul>",
    "paragraphs in items": "<ul><li><p>§</p><p>§</p></li><li><p>§</p></li></ul>",
    "items with line breaks": "<ul><li>§<br>§</li><li>§</li></ul>",
    "items with blocks": "<ul><li>§<blockquote><p>§</p></blockquote></li><li>§<pre><code>x = 1</code></pre></li></ul>",
    "items with images": f"<ul><li>§ {_IMAGE}</li><li>§</li></ul>",
    "items with colour": '<ul><li><span style="color:red;">§</span> §</li><li>§ <u>§</u></li></ul>',
    "two lists": "<ul><li>§</li></ul><ul><li>§</li></ul>",
    "bullets below numbers": "<ol><li>§</li></ol><ul><li>§</li></ul>",
    "spaced list": "<ul>\n  <li>§</li>\n  <li>§</li>\n</ul>",
    "empty item": "<ul><li>§</li><li>&nbsp;</li><li>§</li></ul>",
    "to-do": f'<ul class="todo-list">{_todo("§")}{_todo("§ §", box=_TICKED)}</ul>',
    "to-do with ids": '<ul class="todo-list">' + _todo("§", item=' data-list-item-id="e1"') + _todo("§", item=' data-list-item-id="e2"') + "</ul>",
    "to-do with marks": f'<ul class="todo-list">{_todo("§ <u>§</u>")}{_todo("<strong>§</strong>")}</ul>',
    "to-do nested": '<ul class="todo-list">' + _todo("§", more=f'<ul class="todo-list">{_todo("§")}</ul>') + _todo("§") + "</ul>",
    "to-do nested by the importer": '<ul class="todo-list">' + _todo("§" + f'<ul class="todo-list">{_todo("§ §" + "<ul><li>§</li></ul>", box=_TICKED)}{_todo("§")}</ul>') + _todo("§") + "</ul>",
    "to-do of paragraphs by the importer": f'<ul class="todo-list">{_todo("<p>§</p><p>§</p>")}{_todo("§<p>§</p>")}</ul>',
    "to-do with bullets": '<ul class="todo-list">' + _todo("§", more="<ul><li>§</li></ul>") + "</ul>",
    "to-do without description": f'<ul class="todo-list">{_bare_todo("<p>§ §</p>")}{_bare_todo("<p>§</p>", box=_TICKED)}</ul>',
    "to-do of blocks": f'<ul class="todo-list">{_bare_todo("<p>§</p><p>§</p><ul><li>§</li></ul>")}</ul>',
    "to-do with other attributes": '<ul class="todo-list">' + _todo("§", box='<input disabled="disabled" type="checkbox">') + _todo("§", box='<input type="checkbox" disabled>') + "</ul>",
    "to-do of task states": '<ul class="todo-list">' + _todo("§", item=' data-trilium-task-state="doing"') + _todo("§") + "</ul>",
    "to-do below bullets": f'<ul><li>§</li></ul><ul class="todo-list">{_todo("§")}</ul>',
    # tables
    "table": _table(_HEAD + _ROWS),
    "table without head": _table(_ROWS),
    "table of widths": _table('<colgroup><col style="width:30%;"><col style="width:70%;"></colgroup>' + _HEAD + _ROWS, style=' style="width:80%;"'),
    "table with caption": _table(_HEAD + _ROWS, caption="§ §"),
    "table with formatted caption": _table(_ROWS, caption="§ <u>§</u>"),
    "table with colspan": _table('<tbody><tr><td colspan="2">§</td></tr><tr><td>§</td><td>§</td></tr></tbody>'),
    "table with rowspan": _table('<tbody><tr><td rowspan="2">§</td><td>§</td></tr><tr><td>§</td></tr></tbody>'),
    "table with head column": _table("<tbody><tr><th>§</th><td>§</td></tr><tr><th>§</th><td>§</td></tr></tbody>"),
    "table with colours": _table('<tbody><tr><td style="background-color:red;">§</td><td><u>§</u> §</td></tr></tbody>'),
    "table with paragraphs": _table("<tbody><tr><td><p>§</p></td><td><p>§ §</p></td></tr></tbody>"),
    "table with lists": _table("<tbody><tr><td>§</td><td><ul><li>§</li><li>§</li></ul></td></tr></tbody>"),
    "table with pipes": _table("<tbody><tr><td>§ | §</td><td>a\\b §</td></tr></tbody>"),
    "table with images": _table(f"<tbody><tr><td>{_IMAGE}</td><td>§</td></tr></tbody>"),
    "bare table": "<table><tbody><tr><td>§</td><td>§</td></tr></tbody></table>",
    "table with line breaks": _table("<tbody><tr><td>§<br>§</td><td>§</td></tr></tbody>"),
    # code
    "code": '<pre><code class="language-text-x-trilium-auto">§ = §\n  §()</code></pre>',
    "code in Python": '<pre><code class="language-text-x-python">def §():\n    return "§"</code></pre>',
    "code ending in a newline": '<pre><code class="language-text-x-sh">§ -a\n§\n</code></pre>',
    "code with entities": '<pre><code class="language-text-xml">&lt;§ a=&quot;§&quot;&gt;&amp;&nbsp;§</code></pre>',
    "code in another language": '<pre><code class="language-text-x-ttcn-asn">§</code></pre>',
    "bare pre": "<pre>§ §\n  §</pre>",
    "pre with marks": '<pre><code class="language-text-x-python"><span class="hljs-keyword">§</span> § <span>§</span></code></pre>',
    "pre with line breaks": "<pre>§<br>§ §</pre>",
    "code of backticks": "<pre><code>```\n§\n```</code></pre>",
    "mermaid": '<pre><code class="language-mermaid">graph TD\n  § --&gt; §</code></pre>',
    # blocks around blocks
    "quote": "<blockquote><p>§ §</p></blockquote>",
    "quote of blocks": "<blockquote><p>§</p><ul><li>§</li><li>§</li></ul><p>§</p></blockquote>",
    "quote in quote": "<blockquote><p>§</p><blockquote><p>§</p></blockquote></blockquote>",
    "quote of bare text": "<blockquote>§ §</blockquote>",
    "quote that names a callout": "<blockquote><p>[!NOTE] §</p></blockquote>",
    "admonition": '<aside class="admonition note"><p>§ §</p></aside>',
    "admonition of blocks": '<aside class="admonition warning"><h2>§</h2><p>§ <u>§</u></p><ul><li>§</li></ul></aside>',
    "admonition of a list": '<aside class="admonition tip"><ol start="3"><li>§</li><li>§</li></ol></aside>',
    "admonition of another type": '<aside class="admonition custom"><p>§</p></aside>',
    "details": "<details><summary>§ §</summary><p>§</p><ul><li>§</li></ul></details>",
    "details of Trilium": '<details class="trilium-collapsible"><summary class="trilium-collapsible-title">§</summary><div class="trilium-collapsible-content"><p>§</p></div></details>',
    "divs": '<div><div class="a"><p>§</p></div>§</div>',
    "section": "<section><h2>§</h2><p>§</p></section>",
    "footnotes": '<p>§</p><ol class="footnote-section footnotes" data-footnote-section="" role="doc-endnotes"><li class="footnote-item" data-footnote-item="" id="fn1"><span class="footnote-back-link"><sup><strong><a href="#fnref1">^</a></strong></sup></span><div class="footnote-content"><p>§</p></div></li></ol>',
    "definitions": "<dl><dt>§</dt><dd>§</dd></dl>",
    "page break": '<p>§</p><div class="page-break" style="page-break-after:always;"><span style="display:none;">&nbsp;</span></div><p>§</p>',
    # media
    "image": f"<p>§ {_IMAGE} §</p>",
    "image alone": f"<p>{_IMAGE}</p><p>§</p>",
    "image with alternative text": f"<p>§ {_IMAGE_ALT}</p>",
    "embedded image": f"<p>§ {_EMBEDDED} §</p>",
    "linked image": f'<p>§ <a href="https://example.com">{_IMAGE}</a></p>',
    "figure": f'<p>§</p><figure class="image image_resized" style="width:50%;">{_IMAGE}</figure>',
    "figure with caption": f'<figure class="image image-style-align-left">{_IMAGE_ALT}<figcaption>§ <u>§</u></figcaption></figure><p>§</p>',
    "ends in a figure with caption": f'<p>§</p><figure class="image">{_IMAGE}<figcaption>§</figcaption></figure>',
    "linked figure": f'<figure class="image"><a href="https://example.com">{_IMAGE}</a></figure>',
    "include": '<p>§</p><section class="include-note" data-note-id="Ab12cd34Ef56" data-box-size="medium">&nbsp;</section>',
    "include alone": '<section class="include-note box-size-full" data-note-id="Ab12cd34Ef56" data-box-size="full">&nbsp;</section>',
    "media embed": '<figure class="media"><oembed url="https://example.com/v"></oembed></figure><p>§</p>',
    "video": '<p>§</p><video src="api/attachments/A1/v.mp4" controls=""></video>',
    # not well formed
    "comment": "<p>§ <!-- a note --> §</p><p>§</p>",
    "comment between blocks": "<!-- top --><p>§</p><!-- between --><p>§</p><!-- end -->",
    "comment in a list": "<ul><!-- a --><li>§</li><!-- b --><li>§</li></ul>",
    "comment in a table": _table("<tbody><!-- a --><tr><td>§<!-- b --></td><td>§</td></tr></tbody>"),
    "slash of a paragraph": "<p>§</p><p/><p>§</p>",
    "less than": "<p>§ < §</p><p>§ <3 §</p>",
    "unclosed items": "<ul><li>§<li>§ §</ul><p>§</p>",
    "unclosed paragraphs": "<p>§ §<p>§",
    "unclosed cells": "<table><tr><td>§<td>§<tr><td>§<td>§</table>",
    "unclosed bold": "<p>§ <b>§</p><p>§</p>",
    "stray end": "<p>§</b> §</p><p>§</p>",
    "crossed": "<p>§ <b>§ <i>§</b></i> §</p><p>§</p>",
    "unfinished tag": "<p>§</p><p>§ <b §</p><p>§</p>",
    "attributes twice": '<p>§</p><p class="a" class="b">§</p>',
    "unclosed div": "<div><p>§</p><p>§</p>",
    "doctype": "<!DOCTYPE html><p>§</p>",
    "capitals": "<P>§ <B>§</B></P><UL><LI>§</LI></UL>",
    "single quotes": "<p class='a'>§ <a href='#root/x1'>§</a></p>",
    # odd nesting
    "block in paragraph": "<p>§<div>§</div></p>",
    "list in paragraph": "<p>§<ul><li>§</li></ul></p>",
    "list in list without item": "<ul><li>§</li><ul><li>§</li></ul></ul>",
    "text in list": "<ul>§<li>§</li></ul>",
    "paragraph in heading": "<h2><p>§</p></h2>",
    "spans of nothing": "<p><span>§</span><span></span> <span>§</span></p>",
    "empty marks": "<p>§ <strong></strong><em> </em>§</p>",
    "marks side by side": "<p><strong>§</strong><strong>§</strong><em>§</em>§</p>",
    "mark with space inside": "<p><strong> § </strong>§<em>§ </em></p>",
    "deep nesting": "<blockquote><ul><li><blockquote><ol><li><p>§</p></li></ol></blockquote></li></ul></blockquote>",
}  # fmt: skip
_numbers = itertools.count(1)
KINDS = {
    name: re.sub("§", lambda _: f"w{next(_numbers)}q", source) for name, source in _KINDS.items()
}
WORD = re.compile(r"w\d+q")
