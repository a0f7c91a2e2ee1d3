"""The words of the glossary in CONTRIBUTING.md: what its last column names does not occur in prose.

Prose is Markdown, the comments of Rust, and the comments and docstrings of Python.
"""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What was released keeps its words, and the glossary names those it forbids.
LEFT_OUT = {"CHANGELOG.md", "CONTRIBUTING.md"}


def forbidden() -> dict[str, str]:
    """Each word that is not to be used, and what to say instead."""
    text = (ROOT / "CONTRIBUTING.md").read_text().partition("## Words")[2]
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("| ")
    ]
    return {
        word.strip(): row[0]
        for row in rows[1:]
        for word in row[2].split(",")
        if word.strip().isascii() and word.strip()
    }


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file that are prose."""
    text = path.read_text()
    if path.suffix == ".md":
        text = re.sub(r"```.*?```", lambda code: "\n" * code.group().count("\n"), text, flags=re.DOTALL)
    docstring = False
    for number, line in enumerate(text.splitlines(), 1):
        if path.suffix == ".rs":
            at = line.find("//")
            if at >= 0 and line[:at].count('"') % 2 == 0:
                yield number, line[at:]
        elif path.suffix == ".py":
            quotes = line.count('"""')
            if docstring or quotes or line.lstrip().startswith("#"):
                yield number, line
            docstring ^= quotes % 2 == 1
        else:
            yield number, line


def main() -> int:
    words = forbidden()
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, words)) + r")(s?)\b", re.IGNORECASE)
    listed = subprocess.run(
        ["git", "ls-files", "*.md", "crates/*.rs", "python/feedline/*.py"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    )
    wrong = []
    for name in listed.stdout.split():
        path = ROOT / name
        if name in LEFT_OUT or not path.exists():
            continue
        for number, line in prose(path):
            without_code = re.sub(r"`[^`]*`", "", line)
            wrong += [
                f"{name}:{number}: '{found.group()}': say {words[found.group(1).lower()]}"
                for found in pattern.finditer(without_code)
            ]
    print("\n".join(wrong) if wrong else f"none of {', '.join(words)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
