"""Prints the changelog's section for a tag: `python tools/release_notes.py v1.2.3`.

Fails unless the tag is the version of Cargo.toml.
"""

from __future__ import annotations

import re
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent


def version() -> str:
    """The version that all crates and the Python package have."""
    manifest = (ROOT / "Cargo.toml").read_text().partition("[workspace.package]")[2]
    return re.search(r'^version = "([^"]+)"', manifest, re.MULTILINE).group(1)


def section(changelog: str, wanted: str) -> str:
    """The text below the heading `## wanted`, up to the next heading of that level."""
    found = re.search(rf"^## \[?{re.escape(wanted)}\b[^\n]*\n(.*?)(?=^## |\Z)", changelog, re.MULTILINE | re.DOTALL)
    if found is None:
        sys.exit(f"CHANGELOG.md has no section for {wanted}")
    return found.group(1).strip()


def main() -> None:
    tag = sys.argv[1]
    if tag != f"v{version()}":
        sys.exit(f"the tag is {tag}, but Cargo.toml says {version()}")
    print(section((ROOT / "CHANGELOG.md").read_text(), version()))


if __name__ == "__main__":
    main()
