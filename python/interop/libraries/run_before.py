"""Runs a migration page's "before" code on a data set: the other library's own way. Prints how many steps it made."""

import json
import re
import sys
from pathlib import Path

FENCE = re.compile(r"^```python before\n(.*?)^```$", re.MULTILINE | re.DOTALL)

if __name__ == "__main__":
    page, name, data, into = sys.argv[1:]
    steps = []
    names = {"__name__": "__main__", name: json.loads(data), "train_step": lambda first, _: steps.append(len(first))}
    code = "\n".join(FENCE.findall(Path(page).read_text()))
    exec(compile(code, page, "exec"), names)
    Path(into).write_text(json.dumps(steps))
