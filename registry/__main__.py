"""``python -m mqregistry``, and the console script ``mqregistry``: imports and runs the command line."""

import sys

signal = __import__("_signal")  # not signal.py: it imports enum first, and Ctrl-C may come in that time


def main() -> None:
    """Run the command line; Ctrl-C at any moment ends the process without a traceback, with 130 for a shell.

    While modules are imported and while the interpreter ends, the system's default action ends the process: Python's
    handler would raise KeyboardInterrupt anywhere, and some modules turn that into another error.
    """
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else SIGINT is ignored, as under nohup
    if raises:
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from .cli import INTERRUPTED
    from .cli import main as run

    try:
        if raises:
            signal.signal(signal.SIGINT, signal.default_int_handler)
        run()
    except KeyboardInterrupt:
        sys.exit(INTERRUPTED)
    finally:
        if raises:
            signal.signal(signal.SIGINT, signal.SIG_DFL)


if __name__ == "__main__":
    main()
