"""What tables and pages say of reproductions, of the static site and of the service.

As functions and not as macros: the service makes its tables without templates, which takes a seventh of the time.
"""

from __future__ import annotations

from markupsafe import Markup, escape

from harness.board.reproductions import Tally

REPEATS_CHIP = Markup('<span class="chip here" title="Its runs repeat those of another result">a reproduction</span>')
_NONE = Markup('<span class="soft">–</span>')
# Where a page that is stored has what changes with the reproductions of its result. Submitted texts are escaped, so no
# other place of a page can look like these.
TALLY_LATER, LINKS_LATER = Markup("<!-- tally of reproductions -->"), Markup("<!-- reproductions -->")


def reproduced_cell(tally: Tally, href: str) -> Markup:
    """`by 2, not by 1` as a link to the reproductions on the result's page, `href`; a dash where there are none."""
    found = tally.words
    if not found:
        return _NONE
    lines = Markup(",</span><br>").join(Markup('<span class="whole">') + escape(item) for item in found)
    return Markup('<a href="{}#reproductions">{}</span></a>').format(href, lines)


def completed(page: str, tally: str, links: str) -> str:
    """Return a stored page with what it leaves open."""
    return page.replace(TALLY_LATER, tally, 1).replace(LINKS_LATER, links, 1)
