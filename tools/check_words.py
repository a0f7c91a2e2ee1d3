"""The words of the glossary in CONTRIBUTING.md: what its last column names does not occur in prose.

Prose is Markdown, and the comments, messages and names of tests in Rust and Python.
"""

from __future__ import annotations

import io
import re
import subprocess
import sys
import tokenize
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
# What was released keeps its words, and the glossary names those it forbids.
LEFT_OUT = {"CHANGELOG.md", "CONTRIBUTING.md", "tools/check_words.py"}


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


# A string with fewer spaces is hardly a sentence.
SENTENCE = 3
RUST_TEST = re.compile(r"#\[test\]\s*(?:#\[[^\]]*\]\s*)*fn (\w+)")
RUST_STRING = re.compile(r'"((?:[^"\\]|\\.)*)"', re.DOTALL)


def prose(path: Path) -> Iterator[tuple[int, str]]:
    """The lines of a file that are prose: documentation, comments, messages and names of tests."""
    text = path.read_text()
    if path.suffix == ".md":
        text = re.sub(r"```.*?```", lambda code: "\n" * code.group().count("\n"), text, flags=re.DOTALL)
        yield from enumerate(text.splitlines(), 1)
    elif path.suffix == ".rs":
        yield from rust_prose(text)
    else:
        yield from python_prose(text)


def rust_prose(text: str) -> Iterator[tuple[int, str]]:
    for number, line in enumerate(text.splitlines(), 1):
        at = line.find("//")
        if at >= 0 and line[:at].count('"') % 2 == 0:
            yield number, line[at:]
        for found in RUST_STRING.finditer(line[:at] if at >= 0 else line):
            if found.group(1).count(" ") >= SENTENCE:
                yield number, found.group(1)
    for found in RUST_TEST.finditer(text):
        yield text.count("\n", 0, found.end()) + 1, found.group(1).replace("_", " ")


def python_prose(text: str) -> Iterator[tuple[int, str]]:
    for token in tokenize.generate_tokens(io.StringIO(text).readline):
        is_string = token.type == tokenize.STRING or tokenize.tok_name[token.type] == "FSTRING_MIDDLE"
        if token.type == tokenize.COMMENT or (is_string and token.string.count(" ") >= SENTENCE):
            yield from enumerate(token.string.splitlines(), token.start[0])
        elif token.type == tokenize.NAME and token.string.startswith("test_"):
            yield token.start[0], token.string.replace("_", " ")


def main() -> int:
    words = forbidden()
    pattern = re.compile(r"\b(" + "|".join(map(re.escape, words)) + r")(s?)\b", re.IGNORECASE)
    listed = subprocess.run(
        ["git", "ls-files", "*.md", "crates/*.rs", "python/*.py", "benchmarks/*.py", "tools/*.py", "examples/*.py"],
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
            without_code = re.sub(r"`[^`]*`|'[^' ]*'|^(from|import) .*", "", line)
            wrong += [
                f"{name}:{number}: '{found.group()}': say {words[found.group(1).lower()]}"
                for found in pattern.finditer(without_code)
            ]
    print("\n".join(wrong) if wrong else f"none of {', '.join(words)}")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
