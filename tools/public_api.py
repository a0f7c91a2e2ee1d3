"""Everything public in the Rust crates `feedline` and `feedline-format`, read from the pages that `cargo doc` made.

`--write` stores the list, `--check` fails if it is not what is stored. A change of the list is a change of the API, and
is seen in review.
"""

from __future__ import annotations

import difflib
import re
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
LIST = ROOT / "crates/feedline/tests/public_api.txt"
CRATES = ("feedline", "feedline_format")
ITEM = re.compile(r'<li><a href="((?:\w+/)*(\w+)\.\w+\.html)">([^<]+)</a></li>')
MEMBER = re.compile(
    r'id="(?:structfield|variant|method|tymethod|associatedconstant|associatedtype)\.(\w+)(?:\.field\.\w+)?"'
)
# What follows on a page belongs to traits of other crates.
END = re.compile(
    r'id="(?:trait-implementations|synthetic-implementations|blanket-implementations|foreign-impls|implementors)"'
)


def names(docs: Path) -> Iterator[str]:
    """One line for every item, and for every field, variant and method of it."""
    for crate in CRATES:
        folder = docs / crate
        for page, kind, name in ITEM.findall((folder / "all.html").read_text()):
            yield f"{kind} {crate}::{name}"
            text = END.split((folder / page).read_text())[0]
            yield from (f"{kind} {crate}::{name}.{member}" for member in MEMBER.findall(text))


def main() -> int:
    docs = ROOT / "target/doc"
    if not all((docs / crate / "all.html").exists() for crate in CRATES):
        print(f"{docs}: no documentation; run cargo doc first")
        return 1
    found = sorted(set(names(docs)))
    if "--write" in sys.argv:
        LIST.write_text("\n".join(found) + "\n")
        return 0
    stored = LIST.read_text().splitlines()
    changes = [line for line in difflib.ndiff(stored, found) if line[0] in "+-"]
    print("\n".join(changes) if changes else f"{len(found)} public names, as stored")
    if changes:
        print(f"the public API has changed; if that is meant: {Path(__file__).name} --write, and the changelog")
    return 1 if changes else 0


if __name__ == "__main__":
    sys.exit(main())
