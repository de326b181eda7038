# SPDX-License-Identifier: GPL-3.0-or-later
"""Set one text in Markdown as HTML (one file, works offline) and as Typst, which makes the PDF."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any
from urllib.parse import quote

import typst
from jinja2 import Environment, FileSystemLoader, StrictUndefined
from markdown_it import MarkdownIt
from markdown_it.token import Token
from markdown_it.tree import SyntaxTreeNode
from markupsafe import Markup
from matplotlib import get_data_path

from openbach_run.drawing import chart_script, chart_style
from openbach_run.paths import REPOSITORY
from openbach_run.report.charts import NARROW
from openbach_run.report.pdf_objects import packed
from openbach_run.results.tables import Markdown, plain

LISTED_WHOLE = "Appendix: claims in full"
"""The section whose parts are in the contents, too."""
LETTERS = 125
"""A table with this many letters in a line is as wide as a page."""
UNBROKEN = 15
"""A table with at most this many rows stays on one page, with its note."""
SHORT, LONG = 13, 60
"""Numbers of letters. A table that is wider than a page breaks the lines of columns with more
letters than the first, and widens no column beyond the second."""

AS_IT_IS = '"/:;,=(){}*+'
"""Signs that an address has as they are."""
FONTS: Any = {"font_paths": [f"{get_data_path()}/fonts/ttf"], "ignore_system_fonts": True}
"""Options of Typst: its own fonts, and matplotlib's for the words of figures."""


def templates(
    folder: Path, finalize: Callable[[Any], Any] | None = None, *, html: bool = False
) -> Environment:
    """Return the templates in a folder; `finalize` turns every value into the document's markup."""
    environment = Environment(
        loader=FileSystemLoader(folder),
        autoescape=html,
        undefined=StrictUndefined,
        finalize=finalize,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters["markdown"] = Markdown
    return environment


def as_markdown(value: Any) -> Markdown:
    """Return a value as Markdown; text that is not Markdown yet is escaped."""
    return value if isinstance(value, Markdown) else plain(str(value))


def as_html(
    markdown: str, folder: Path, template: Path, charts: Mapping[str, Any] | None = None
) -> str:
    """Return the HTML page of a text.

    `folder` is where the images' paths begin; the images become part of the page. Tables scroll by
    themselves. `charts` has the data, by path, of images that a browser draws itself.
    """
    tokens = _parser().parse(markdown)
    headings = []
    for number, token in enumerate(tokens):
        if token.type == "heading_open" and token.tag in ("h2", "h3"):
            text = tokens[number + 1]
            headings.append((token, "".join(part.content for part in text.children or ())))
    anchors: dict[str, str] = {}
    for token, title in sorted(
        headings, key=lambda heading: heading[0].tag
    ):  # h2 first: the template links to them
        name = anchor(title)
        while name in anchors:
            name += "-"
        anchors[name] = title
        token.attrSet("id", name)
    titles: list[tuple[str | int | float | None, str, list[Any]]] = []
    section = ""
    for token, title in headings:
        section = title if token.tag == "h2" else section
        if token.tag == "h2":
            titles.append((token.attrGet("id"), title, []))
        elif section == LISTED_WHOLE:
            titles[-1][2].append((token.attrGet("id"), title))
    body = _body(tokens, folder, charts or {})
    page = templates(template.parent, html=True).get_template(template.name)
    drawn = (
        {"script": Markup(script()), "style": Markup(chart_style())} if charts else {"script": ""}
    )
    return page.render(title=_title(markdown), titles=titles, body=Markup(body), **drawn)


def as_fragment(markdown: str, folder: Path) -> str:
    """Return a text without headings as HTML for another page, with its images in it."""
    return _body(_parser().parse(markdown), folder, {})


def _body(tokens: Sequence[Token], folder: Path, charts: Mapping[str, Any]) -> str:
    """Return the HTML of a parsed text: tables with captions, figures with theirs."""
    body = _parser().renderer.render(tokens, _parser().options, {})
    body = body.replace("<pre>", '<pre tabindex="0">')  # what scrolls is reached with the keyboard
    # The paragraph before a table is its title; a screen reader says a caption with its table.
    body = re.sub(
        r"<p>(<strong>Table \d+\.</strong>(?:(?!</p>).)*)</p>\n<table>",
        r"<table><caption>\1</caption>",
        body,
        flags=re.DOTALL,
    )
    body = body.replace(' style="text-align:right"', " class=r")
    # A table is a line, and so is a list.
    body = re.sub(r"\n(?=</?(?:table|thead|tbody|tr|td|th|ul|ol|li)\b)", "", body)
    body = re.sub(r"<th(?=[ >])", '<th scope="col"', body)
    body = body.replace("<table>", '<div class="wide" tabindex="0"><table>').replace(
        "</table>", "</table></div>"
    )
    # An image alone in a paragraph becomes a figure with its caption.
    body = re.sub(
        r'<p><img src="([^"]+)" alt="([^"]*)" ?/?></p>',
        lambda image: _figure(image[1], image[2], folder, charts),
        body,
    )
    return body


def script() -> str:
    """Return the script that draws the charts; it is the same in every report."""
    return chart_script() + (REPOSITORY / "reports/templates/figures.js").read_text()


def as_pdf(markdown: str, folder: Path, template: Path, pages: Collection[str] = ()) -> bytes:
    """Return the PDF of a text.

    `folder` is where the images' paths begin. Sections named in `pages` begin a page. The fonts are
    Typst's and matplotlib's own, so that the PDF looks the same on every machine.
    """
    tree = SyntaxTreeNode(_parser().parse(markdown))
    # A paragraph before a table is the table's title.
    following = [*tree.children[1:], None]
    body = "".join(
        (
            _kept_with_next(node)
            if node.type == "paragraph" and after and after.type == "table"
            else _begun(node, pages) + _typst(node)
        )
        for node, after in zip(tree.children, following, strict=True)
    )
    source = (
        templates(template.parent)
        .get_template(template.name)
        .render(title=_string(_title(markdown)), body=body)
    )
    text: Any = source.encode()  # its type hints want input and root to be of one type
    pdf: bytes = typst.compile(text, root=folder, format="pdf", timestamp=0, **FONTS)
    return packed(pdf)


def _parser() -> MarkdownIt:
    return MarkdownIt("commonmark", {"html": False}).enable("table")


def _title(markdown: str) -> str:
    return markdown.removeprefix("# ").splitlines()[0]


def anchor(title: str) -> str:
    """Return the name by which links lead to a heading."""
    return re.sub(r"\W+", "-", title.lower()).strip("-")


def _figure(source: str, caption: str, folder: Path, charts: Mapping[str, Any]) -> str:
    """Return an image as a part of the page.

    Raises ValueError for one outside the report's folder.
    """
    image = (folder / source).resolve()
    if not image.is_relative_to(folder.resolve()):
        raise ValueError(f"{source}: a report has images of its own only")
    chart = ""
    if source in charts:
        text = json.dumps(charts[source], separators=(",", ":"))
        text = text.replace("<", "\\u003c")  # so that </script> in a value does not end the script
        chart = f'<script type="application/json">{text}</script>'
    narrow = image.with_name(f"{image.stem}{NARROW}.svg")
    shown = f"<img src='{address(image)}' alt=\"{caption}\">"
    if narrow.exists():
        phone = f"<source media=\"(max-width: 43rem)\" srcset='{address(narrow, spaces=False)}'>"
        shown = f"<picture>{phone}{shown}</picture>"
    points = image.with_suffix(".csv")
    link = ""
    if points.exists() and not chart:  # figures.js makes those of a chart
        link = f" <a download=\"{points.name}\" href='{address(points)}'>Points as CSV</a>"
    kind = " class=whole" if narrow.exists() else ""
    if chart:
        kind = f' class=has-chart data-name="{image.stem}"'
    return (
        f'<figure{kind}><div class="wide" tabindex="0">{shown}</div>'
        f"<figcaption>{caption}.{link}</figcaption>{chart}</figure>"
    )


def address(file: Path, *, spaces: bool = True) -> str:
    """Return a file as an address that holds its content; it stands between single quotes.

    Without spaces it fits into `srcset`, where a space ends an address.
    """
    text, safe = file.read_text(encoding="utf-8"), AS_IT_IS + " " * spaces
    if file.suffix == ".csv":
        return "data:text/csv," + quote(text, safe=safe)
    return "data:image/svg+xml," + quote(text.strip(), safe=safe + "<>")


def _typst(node: SyntaxTreeNode) -> str:
    """Return a node of the Markdown's tree as Typst markup.

    Raises ValueError for an unknown node.
    """
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
            source = str(node.attrs["src"])
            # If it does not fit on page 1, it is above page 2, and sentences fill page 1.
            place = ", placement: auto" if source.endswith("/page-1.svg") else ""
            return f"#figure(image({_string(source)}, width: 100%), caption: [{inner}]{place})\n\n"
        case "tr":
            return inner
        case "th" | "td":
            return f"[{inner}], "
        case "table":
            return _typst_table(node)
        case _:
            raise ValueError(f"the report's template has a {node.type}, which cannot be set as PDF")


def _begun(node: SyntaxTreeNode, pages: Collection[str]) -> str:
    """Return a page break before a section that begins a page, else nothing."""
    is_section = node.type == "heading" and node.tag == "h2"
    return "#pagebreak(weak: true)\n" if is_section and _text(node) in pages else ""


def _kept_with_next(node: SyntaxTreeNode) -> str:
    """Return a table's title, which stays on the table's page."""
    return f"#block(sticky: true, above: 1.2em)[{_typst(node).strip()}]\n\n"


def _typst_table(node: SyntaxTreeNode) -> str:
    """Return a table as Typst markup.

    In a table wider than a page, columns of long texts share what is left of the width and break
    their lines.
    """
    header, *body = node.children
    cells = header.children[0].children
    rows_of = [header.children[0], *chain.from_iterable(part.children for part in body)]
    longest = []
    for column in range(len(cells)):
        longest.append(max(len(_text(row.children[column])) for row in rows_of))
    fits = sum(longest) + 2 * len(longest) <= LETTERS
    widths = ", ".join(
        "auto" if fits or length <= SHORT else f"{min(length, LONG)}fr" for length in longest
    )
    rules = "" if fits else ", stroke: (x, y) => if y > 1 { (top: 0.3pt + luma(200)) }"
    whole = len(body[0].children if body else ()) <= UNBROKEN
    align = ", ".join(
        "right" if "right" in str(cell.attrs.get("style", "")) else "left" for cell in cells
    )
    rows = "".join(map(_typst, body))
    table = (
        f"#table(columns: ({widths},), align: ({align},){rules}, table.header({_typst(header)}),"
        f" {rows})"
    )
    return f"#block(breakable: false, sticky: true)[{table}]\n\n" if whole else f"{table}\n\n"


def _text(node: SyntaxTreeNode) -> str:
    return (
        node.content if node.type in ("text", "code_inline") else "".join(map(_text, node.children))
    )


def _string(text: str) -> str:
    """Return a string literal of Typst."""
    letters = []
    for letter in text:
        is_plain = letter.isprintable() and letter not in '"\\'
        letters.append(letter if is_plain else f"\\u{{{ord(letter):x}}}")
    return '"' + "".join(letters) + '"'


def _string_markup(text: str) -> str:
    return f"#{_string(text)};" if text else ""
