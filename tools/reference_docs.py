"""Writes docs/reference: the Python names from their docstrings, the commands from their own help.

`python tools/reference_docs.py --write` makes the pages, `--check` says whether they are up to date.
"""

from __future__ import annotations

import ast
import inspect
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import feedline as fl

ROOT = Path(__file__).resolve().parent.parent
PAGES = ROOT / "docs" / "reference"
INTRODUCTION = """\
Made from the docstrings by `tools/reference_docs.py`. [Transforms](../transforms.md) and the
[options of the loader](../options.md) have pages of their own."""
COMMANDS = """\
Made by `tools/reference_docs.py` from the command's own help. The Python package adds `feedline simulate`
([a thousand nodes](../scale.md); `feedline simulate --help`) and `feedline bench PATH --against torch,ffcv,…`."""
FIRST = ["open", "Dataset", "Loader", "LoaderOptions", "pack", "concat", "mix", "convert", "Ragged", "Stats", "show"]
WIDTH, LONGEST = 88, 1200
MODULES = [
    "samplers",
    "recipes",
    "torch",
    "jax",
    "keras",
    "lightning",
    "huggingface",
    "timm",
    "torchdata",
    "ray",
    "spark",
    "dask",
]


def prose(docstring: str | None) -> str:
    """A docstring as Markdown: links to names become code, examples become blocks."""
    text = inspect.cleandoc(docstring or "")
    text = re.sub(r"\[`([^`]+)`\]\[[^\]]*\]", r"`\1`", text)
    lines, example = [], False
    for line in text.splitlines():
        starts = line.lstrip().startswith(">>>")
        if starts and not example:
            lines += ["", "```pycon"]
            example = True
        elif example and not line.strip():
            lines += ["```"]
            example = False
        lines.append(line.strip() if example else line)
    return "\n".join([*lines, "```"] if example else lines)


def signature(value: object) -> str:
    try:
        # Annotations are kept as text, and shown without its quotes.
        return re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(value)))
    except (TypeError, ValueError):
        return ""


def wrapped(form: str) -> str:
    """A long signature with one parameter a line."""
    if len(form) <= WIDTH:
        return form
    depth, parts = 0, [""]
    for character in form[form.index("(") + 1 : form.rindex(")")]:
        depth += (character in "([{") - (character in ")]}")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    inside = "".join(f"    {part.strip()},\n" for part in parts)
    return f"{form[: form.index('(')]}(\n{inside}{form[form.rindex(')') :]}"


def entry(name: str, value: object, level: int = 3) -> Iterator[str]:
    """Heading, signature and text of one name; of a class, also those of its public methods."""
    yield f"{'#' * level} `{name}`"
    form = signature(value)
    # What is only returned is never made by its users, and the loader's options have a page of their own.
    if form and len(form) < LONGEST and "Returned by" not in (inspect.getdoc(value) or ""):
        yield f"```python\n{wrapped(name.rpartition('.')[2] + form)}\n```"
    yield prose(inspect.getdoc(value))
    if inspect.isclass(value) and not issubclass(value, BaseException):
        for member in sorted(vars(value)):
            part = getattr(value, member)
            if not member.startswith("_") and inspect.getdoc(part):
                form = signature(part).replace("(self, ", "(").replace("(self)", "()")
                yield f"- **`{member}{form if callable(part) else ''}`** {first_sentence(part)}"


def first_sentence(value: object) -> str:
    return prose(inspect.getdoc(value)).split("\n\n")[0].replace("\n", " ")


def python_page() -> str:
    """Everything in `feedline`, then the public functions and classes of its modules."""
    names = [name for name in dir(fl) if not name.startswith("_")]
    values = {name: getattr(fl, name) for name in names}
    errors = [name for name in names if inspect.isclass(values[name]) and issubclass(values[name], BaseException)]
    plain = [name for name in names if name not in errors and not inspect.ismodule(values[name])]
    plain.sort(key=lambda name: (FIRST.index(name) if name in FIRST else len(FIRST), name))
    blocks = [
        "# Python reference",
        INTRODUCTION,
        "## `feedline`",
    ]
    for name in plain:
        blocks += entry(f"feedline.{name}", values[name])
    blocks.append("## Errors")
    for name in errors:
        blocks.append(f"- **`{name}`** {first_sentence(values[name])}")
    for module in MODULES:
        blocks += module_entries(module)
    return "\n\n".join(block for block in blocks if block) + "\n"


def module_entries(module: str) -> Iterator[str]:
    """A module's public names, read from its source: what it imports need not be installed."""
    path = ROOT / "python" / "feedline" / module
    files = sorted(path.glob("*.py")) if path.is_dir() else [path.with_suffix(".py")]
    main = next(file for file in files if file.name in {"__init__.py", f"{module}.py"})
    yield f"## `feedline.{module}`"
    yield prose(ast.get_docstring(ast.parse(main.read_text())))
    seen = set()
    for file in files:
        for node in ast.parse(file.read_text()).body:
            public = isinstance(node, ast.FunctionDef | ast.ClassDef) and not node.name.startswith("_")
            if public and ast.get_docstring(node) and node.name not in seen and exported(main, node.name):
                seen.add(node.name)
                yield f"### `feedline.{module}.{node.name}`"
                yield prose(ast.get_docstring(node))


def exported(main: Path, name: str) -> bool:
    listed = re.search(r"__all__ = \[(.*?)\]", main.read_text(), re.DOTALL)
    return listed is None or f'"{name}"' in listed.group(1)


def helps(*words: str) -> str:
    run = subprocess.run(
        [sys.executable, "-m", "feedline", *words, "--help"],
        capture_output=True, text=True, check=True, env={"COLUMNS": "100", "PYTHONPATH": str(ROOT / "python")},
    )  # fmt: skip
    return run.stdout.rstrip()


def cli_page() -> str:
    """The help of the command and of each of its commands."""
    whole = helps()
    commands = re.findall(r"^  ([a-z]+) ", whole.partition("Commands:")[2].partition("\n\n")[0], re.MULTILINE)
    blocks = [
        "# Command line",
        COMMANDS,
        f"```text\n{whole}\n```",
    ]
    for command in commands:
        if command != "help":
            blocks += [f"## `feedline {command}`", f"```text\n{helps(command)}\n```"]
    return "\n\n".join(blocks) + "\n"


def main() -> int:
    pages = {"python.md": python_page(), "cli.md": cli_page()}
    stale = [name for name, text in pages.items() if not (PAGES / name).exists() or (PAGES / name).read_text() != text]
    if "--write" in sys.argv:
        PAGES.mkdir(exist_ok=True)
        for name, text in pages.items():
            (PAGES / name).write_text(text)
    elif stale:
        print(f"docs/reference: {', '.join(stale)} is out of date; run tools/reference_docs.py --write")
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
