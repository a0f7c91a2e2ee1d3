"""Every link in the Markdown files that leads to a file or a heading of this project leads somewhere.

Links to the project's own files by their address on the web count, too. README is also shown elsewhere, so all of its
links are of that kind.
"""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
OWN = re.compile(
    r"https://(?:github\.com/feedline/feedline/(?:blob|tree)|raw\.githubusercontent\.com/feedline/feedline)/main/"
)
SHOWN_ELSEWHERE = ROOT / "README.md"
LINK = re.compile(
    r"(?<!!)\[[^\]]*\]\(([^)\s]+)(?:\s+\"[^\"]*\")?\)|!\[[^\]]*\]\(([^)\s]+)\)|<img [^>]*src=\"([^\"]+)\""
)


def pages() -> list[Path]:
    """The Markdown files that are part of the project."""
    listed = subprocess.run(["git", "ls-files", "*.md"], cwd=ROOT, capture_output=True, text=True, check=True)
    return [ROOT / name for name in listed.stdout.split()]


def without_code(text: str) -> str:
    """The text without code, in which brackets are not links."""
    text = re.sub(r"^( *)(```|~~~).*?^\1\2", "", text, flags=re.DOTALL | re.MULTILINE)
    return re.sub(r"`[^`\n]*`", "", text)


def anchors(page: Path) -> set[str]:
    """The names under which a page's headings can be linked to."""
    text = re.sub(r"^(```|~~~).*?^\1", "", page.read_text(), flags=re.DOTALL | re.MULTILINE)
    found: set[str] = set(re.findall(r'<a (?:id|name)="([^"]+)"', text))
    for heading in re.findall(r"^#+ (.+?)\s*#*$", text, flags=re.MULTILINE):
        plain = re.sub(r"\[([^\]]*)\]\([^)]*\)", r"\1", heading).replace("`", "").strip().lower()
        name = re.sub(r"[^\w\- ]", "", plain).replace(" ", "-")
        found.add(next(n for n in (name, *(f"{name}-{i}" for i in range(1, 99))) if n not in found))
    return found


def problem(page: Path, target: str) -> str | None:
    """What is wrong with a link, if anything. Addresses of other sites are not asked."""
    own = OWN.match(target)
    if not own and re.match(r"[a-z][a-z0-9+.-]*:", target):
        return None
    path, _, anchor = target[own.end() if own else 0 :].partition("#")
    if path and not own and page == SHOWN_ELSEWHERE:
        return "leads nowhere where this page is shown elsewhere; write the whole address"
    there = ((ROOT if own else page.parent) / path).resolve() if path else page
    if not there.exists():
        return "no such file"
    if anchor and there.suffix == ".md" and anchor.lower() not in anchors(there):
        return "no such heading"
    return None


def main() -> int:
    wrong, checked = [], 0
    for page in pages():
        for match in LINK.finditer(without_code(page.read_text())):
            target = match.group(1) or match.group(2) or match.group(3)
            checked += 1
            if reason := problem(page, target):
                wrong.append(f"{page.relative_to(ROOT)}: {target}: {reason}")
    print("\n".join(wrong) if wrong else f"{checked} links are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
