"""`python -m feedline`: the same command line as the Rust binary."""

from __future__ import annotations

import signal
import sys

from . import _feedline

__all__ = ["main"]


def _located(uris: list[str], options: dict[str, str], split: str | None) -> tuple[list[str], dict[str, str]]:
    """Resolves `hf://` uris for the command line."""
    from ._hub import located  # noqa: PLC0415 - only for these
    from ._opening import settings  # noqa: PLC0415

    found, reached = located(uris, options, split)
    return found, settings(reached)


def main() -> int:
    """Runs the command line with this process's arguments."""
    # The engine waits without the interpreter, so Ctrl-C must reach it as a plain signal.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    if sys.argv[1:2] == ["simulate"]:
        from .simulate import main as simulate  # noqa: PLC0415 - only for this command

        return simulate(sys.argv[2:])
    if sys.argv[1:2] == ["bench"] and any(one.partition("=")[0] == "--against" for one in sys.argv):
        from ._against import main as against  # noqa: PLC0415 - only for this command

        return against(sys.argv[2:])
    return _feedline.run_cli(["feedline", *sys.argv[1:]], _located)


if __name__ == "__main__":
    sys.exit(main())
