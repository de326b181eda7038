# SPDX-License-Identifier: GPL-3.0-or-later
"""One text in Markdown, set as HTML (one file, works offline) and as Typst, from which the PDF is made."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import typst
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.tree import SyntaxTreeNode
from markupsafe import Markup

from openbach_run.drawing import chart_script, chart_style
from openbach_run.paths import REPOSITORY
from openbach_run.results.tables import Markdown, plain

LETTERS = 125
"""As wide as a page is a table with so many letters in a line."""
UNBROKEN = 15
"""A table of no more rows is on one page, with its note."""
SHORT, LONG = 13, 60
"""Of a wider one columns with more letters than the first break their lines; one with more than the second gets no wider."""


def templates(folder: Path, finalize: Callable[[Any], Any] | None = None, *, html: bool = False) -> Environment:
    """`finalize` makes every value what the document is written in."""
    made = Environment(
        loader=FileSystemLoader(folder),
        autoescape=html,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    made.filters["markdown"] = Markdown
    return made


def as_markdown(value: Any) -> Markdown:
    return value if isinstance(value, Markdown) else plain(str(value))


def as_html(markdown: str, folder: Path, template: Path, charts: Mapping[str, Any] | None = None) -> str:
    """`folder` is where the images' paths begin. Images become a part of the page, tables scroll by themselves. `charts` has
    what a browser draws itself of some images, by their paths."""
    tokens = _parser().parse(markdown)
    headings = [
        (token, "".join(part.content for part in tokens[number + 1].children or ()))
        for number, token in enumerate(tokens)
        if token.type == "heading_open" and token.tag in ("h2", "h3")
    ]
    anchors: dict[str, str] = {}
    for token, title in sorted(headings, key=lambda heading: heading[0].tag):  # h2 first: the template links to them
        anchor = _anchor(title)
        while anchor in anchors:
            anchor += "-"
        anchors[anchor] = title
        token.attrSet("id", anchor)
    titles = [(token.attrGet("id"), title) for token, title in headings if token.tag == "h2"]
    body = _parser().renderer.render(tokens, _parser().options, {})
    body = body.replace("<pre>", '<pre tabindex="0">')  # what scrolls is reached with the keyboard
    body = body.replace("<table>", '<div class="wide" tabindex="0"><table>').replace("</table>", "</table></div>")
    body = re.sub(
        r'<p><img src="([^"]+)" alt="([^"]*)" ?/?></p>',
        lambda found: _figure(found[1], found[2], folder, charts or {}),
        body,
    )
    page = templates(template.parent, html=True).get_template(template.name)
    drawn = {"script": Markup(script()), "style": Markup(chart_style())} if charts else {"script": ""}
    return page.render(title=_title(markdown), titles=titles, body=Markup(body), **drawn)


def script() -> str:
    """What draws the charts: the same in every report."""
    return chart_script() + (REPOSITORY / "reports/templates/figures.js").read_text()


def as_pdf(markdown: str, folder: Path, template: Path) -> bytes:
    """`folder` is where the images' paths begin. The fonts are Typst's own: the PDF is the same everywhere."""
    tree = SyntaxTreeNode(_parser().parse(markdown))
    following = [*tree.children[1:], None]
    body = "".join(
        _kept_with_next(node) if node.type == "paragraph" and after and after.type == "table" else _typst(node)
        for node, after in zip(tree.children, following, strict=True)
    )
    source = templates(template.parent).get_template(template.name).render(title=_string(_title(markdown)), body=body)
    text: Any = source.encode()  # its type hints want input and root to be of one type
    pdf: bytes = typst.compile(text, root=folder, ignore_system_fonts=True, format="pdf", timestamp=0)
    return pdf


def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _title(markdown: str) -> str:
    return markdown.removeprefix("# ").splitlines()[0]


def _anchor(title: str) -> str:
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def _figure(source: str, caption: str, folder: Path, charts: Mapping[str, Any]) -> str:
    image = (folder / source).resolve()
    if not image.is_relative_to(folder.resolve()):
        raise ValueError(f"{source}: a report has images of its own only")
    data = base64.b64encode(image.read_bytes()).decode()
    chart = ""
    if source in charts:
        text = json.dumps(charts[source], separators=(",", ":")).replace(
            "<", "\\u003c"
        )  # a value's </script> ends nothing
        chart = f'<script type="application/json">{text}</script>'
    return (
        f"<figure{' class=has-chart' if chart else ''}>"
        f'<div class="wide" tabindex="0"><img src="data:image/svg+xml;base64,{data}" alt="{caption}"></div>'
        f"<figcaption>{caption}</figcaption>{chart}</figure>"
    )


def _typst(node: SyntaxTreeNode) -> str:
    """A node of the Markdown's tree as Typst markup."""
    inner = "".join(_typst(child) for child in node.children)
    match node.type:
        case "heading":
            return f"#heading(level: {node.tag[1:]})[{inner}]\n\n"
        case "paragraph":
            return f"{inner}\n\n"
        case "inline" | "thead" | "tbody":
            return inner
        case "text":
            return _string_markup(node.content)
        case "softbreak":
            return "\n"
        case "hardbreak":
            return "#linebreak();"
        case "strong" | "em":
            return f"#{'strong' if node.type == 'strong' else 'emph'}[{inner}];"
        case "code_inline":
            return f"#raw({_string(node.content)});"
        case "fence" | "code_block":
            return f"#raw(block: true, {_string(node.content.rstrip())})\n\n"
        case "link":
            address = str(node.attrs["href"])
            return f"#link({_string(address)})[{inner}];" if address.startswith("http") else inner
        case "bullet_list" | "ordered_list":
            return f"#{'list' if node.type == 'bullet_list' else 'enum'}({inner})\n\n"
        case "list_item":
            return f"[{inner.strip()}], "
        case "image":
            return f"#figure(image({_string(str(node.attrs['src']))}, width: 100%), caption: [{inner}])\n\n"
        case "tr":
            return inner
        case "th" | "td":
            return f"[{inner}], "
        case "table":
            return _typst_table(node)
        case _:
            raise ValueError(f"the report's template has a {node.type}, which cannot be set as PDF")


def _kept_with_next(node: SyntaxTreeNode) -> str:
    """A table's title."""
    return f"#block(sticky: true, above: 1.2em)[{_typst(node).strip()}]\n\n"


def _typst_table(node: SyntaxTreeNode) -> str:
    """Columns of long texts share what is left of the width, and break their lines."""
    header, *body = node.children
    cells = header.children[0].children
    rows_of = [header.children[0], *(row for part in body for row in part.children)]
    longest = [max(len(_text(row.children[column])) for row in rows_of) for column in range(len(cells))]
    fits = sum(longest) + 2 * len(longest) <= LETTERS
    widths = ", ".join("auto" if fits or length <= SHORT else f"{min(length, LONG)}fr" for length in longest)
    rules = "" if fits else ", stroke: (x, y) => if y > 1 { (top: 0.3pt + luma(200)) }"
    whole = len(body[0].children if body else ()) <= UNBROKEN
    align = ", ".join("right" if "right" in str(cell.attrs.get("style", "")) else "left" for cell in cells)
    rows = "".join(map(_typst, body))
    table = f"#table(columns: ({widths},), align: ({align},){rules}, table.header({_typst(header)}), {rows})"
    return f"#block(breakable: false, sticky: true)[{table}]\n\n" if whole else f"{table}\n\n"


def _text(node: SyntaxTreeNode) -> str:
    return node.content if node.type in ("text", "code_inline") else "".join(map(_text, node.children))


def _string(text: str) -> str:
    """A string literal of Typst."""
    return (
        '"' + "".join(one if one.isprintable() and one not in '"\\' else f"\\u{{{ord(one):x}}}" for one in text) + '"'
    )


def _string_markup(text: str) -> str:
    return f"#{_string(text)};" if text else ""
