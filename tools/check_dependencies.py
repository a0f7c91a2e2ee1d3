"""Licences and bans of `deny.toml`, checked with cargo's own metadata: no network, nothing to install.

Whoever has cargo-deny may run `cargo deny check`, which also asks for advisories.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from pathlib import Path

try:
    import tomllib
except ModuleNotFoundError:  # Python 3.10
    import tomli as tomllib

ROOT = Path(__file__).resolve().parent.parent


def allowed(expression: str, licences: set[str]) -> bool:
    """Whether an SPDX expression can be met with these licences."""
    words = re.findall(r"\(|\)|[^\s()]+", expression.replace("/", " OR "))
    place = 0

    def one() -> bool:
        nonlocal place
        word = words[place]
        place += 1
        if word == "(":
            met = either()
            place += 1
            return met
        if place < len(words) and words[place] == "WITH":
            word = f"{word} WITH {words[place + 1]}"
            place += 2
        return word in licences or word.partition(" WITH ")[0] in licences

    def both() -> bool:
        nonlocal place
        met = one()
        while place < len(words) and words[place] == "AND":
            place += 1
            met = one() and met
        return met

    def either() -> bool:
        nonlocal place
        met = both()
        while place < len(words) and words[place] == "OR":
            place += 1
            met = both() or met
        return met

    return either()


def main() -> int:
    rules = tomllib.loads((ROOT / "deny.toml").read_text())
    licences = set(rules["licenses"]["allow"])
    exceptions = {rule["crate"]: set(rule["allow"]) for rule in rules["licenses"].get("exceptions", [])}
    command = ["cargo", "metadata", "--format-version", "1", "--locked", "--all-features"]
    metadata = json.loads(subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout)
    packages = {package["id"]: package for package in metadata["packages"]}
    wrong = []
    for package in packages.values():
        licence = package["license"] or ""
        if not licence or not allowed(licence, licences | exceptions.get(package["name"], set())):
            wrong.append(f"{package['name']} {package['version']}: licence {licence or 'none'}")
        source = package["source"] or ""
        if source and not source.startswith("registry+"):
            wrong.append(f"{package['name']}: comes from {source}")
    parents: dict[str, set[str]] = {}
    for node in metadata["resolve"]["nodes"]:
        for dependency in node["deps"]:
            if any(kind["kind"] is None for kind in dependency["dep_kinds"]):
                parents.setdefault(packages[dependency["pkg"]]["name"], set()).add(packages[node["id"]]["name"])
    for ban in rules["bans"].get("deny", []):
        name, wrappers = ban["crate"], set(ban.get("wrappers", []))
        found = parents.get(name, set()) - wrappers
        wrong += [f"{name} has no place in {parent}" for parent in sorted(found)]
    print("\n".join(wrong) if wrong else f"{len(packages)} packages: licences and bans are right")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
