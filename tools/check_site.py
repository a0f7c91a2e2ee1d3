"""The built site is whole: links lead to pages and headings, nothing is loaded from other hosts, it can be searched.

`python tools/check_site.py site`
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit

LOADED = {("script", "src"), ("img", "src"), ("iframe", "src"), ("source", "src"), ("link", "href")}
# A link element of these kinds is only an address.
TOLD = {"canonical", "prev", "next", "alternate"}


class Page(HTMLParser):
    """What a page links to, what it loads, and the places in it that can be linked to."""

    def __init__(self, path: Path) -> None:
        super().__init__()
        self.links: list[str] = []
        self.loads: list[str] = []
        self.places: set[str] = set()
        text = path.read_text()
        # With a repo_url, the theme's script asks the repository's host.
        self.asks = 'data-md-component="source"' in text
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        found = dict(attrs)
        self.places |= {found[name] for name in ("id", "name") if found.get(name)}
        if tag == "a" and found.get("href"):
            self.links.append(found["href"])
        for kind, attribute in LOADED:
            if tag == kind and found.get(attribute) and found.get("rel") not in TOLD:
                self.loads.append(found[attribute])


def target(root: Path, page: Path, link: str) -> Path | None:
    """The file that a link leads to, or nothing if it leads to another host."""
    parts = urlsplit(link)
    if parts.scheme or parts.netloc:
        return None
    path = unquote(parts.path)
    there = (page.parent / path if not path.startswith("/") else root / path.lstrip("/")).resolve() if path else page
    return there / "index.html" if there.is_dir() else there


def problems(root: Path) -> list[str]:
    pages = {path.resolve(): Page(path) for path in root.rglob("*.html") if path.name != "404.html"}
    found = [] if any(root.rglob("search*.js*")) else ["there is no search index"]
    found += [f"{path.relative_to(root)}: asks the host of repo_url" for path, page in pages.items() if page.asks]
    for path, page in pages.items():
        for link in {*page.links, *page.loads}:
            there, anchor = target(root, path, link), unquote(urlsplit(link).fragment)
            if there is None and link in page.loads:
                found.append(f"{path.relative_to(root)}: loads {link} from another host")
            elif there is not None and not there.exists():
                found.append(f"{path.relative_to(root)}: {link}: no such page")
            elif there in pages and anchor and anchor not in pages[there].places:
                found.append(f"{path.relative_to(root)}: {link}: no such heading")
    print(f"{len(pages)} pages, {sum(len(page.links) for page in pages.values())} links")
    return sorted(found)


def main() -> int:
    found = problems(Path(sys.argv[1] if len(sys.argv) > 1 else "site").resolve())
    print("\n".join(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
