"""The table of knobs in docs/options.md: defaults and meaning from the list of knobs, effects from their tests.

`--write` puts it there, `--check` fails if it is not what is there, without either it is printed.
"""

from __future__ import annotations

import ast
import sys
from pathlib import Path

from feedline._knobs import KNOBS

ROOT = Path(__file__).resolve().parent.parent
TESTS = sorted((ROOT / "python/tests").glob("test_options*.py"))
PAGE = ROOT / "docs/options.md"
BEGIN, END = "<!-- table: made by tools/options_table.py -->", "<!-- end of table -->"


def rows() -> list[str]:
    """One line per knob, in the order of the tests."""
    found = []
    for node in (node for file in TESTS for node in ast.parse(file.read_text()).body):
        if not isinstance(node, ast.FunctionDef):
            continue
        for mark in node.decorator_list:
            if isinstance(mark, ast.Call) and isinstance(mark.func, ast.Name) and mark.func.id == "knob":
                effect = " ".join((ast.get_docstring(node) or "").split())
                names = [argument.value for argument in mark.args if isinstance(argument, ast.Constant)]
                found += [f"| `{name}` | {default(name)} | {what(name)} | {effect} |" for name in names]
    return found


def default(name: str) -> str:
    return f"`{KNOBS[name].default!r}`" if name in KNOBS else "`None`"


def what(name: str) -> str:
    return KNOBS[name].doc if name in KNOBS else "the same knobs as one `LoaderOptions`"


def main() -> int:
    table = "\n".join(["| knob | default | what it is | what its test shows |", "|---|---|---|---|", *rows()])
    if "--write" not in sys.argv and "--check" not in sys.argv:
        print(table)
        return 0
    page = PAGE.read_text()
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    wanted = f"{before}{BEGIN}\n{table}\n{END}{after}"
    if "--write" in sys.argv:
        PAGE.write_text(wanted)
        return 0
    if page != wanted:
        print(f"{PAGE} is not up to date: python tools/options_table.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
