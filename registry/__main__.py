"""``python -m mqregistry``, and the console script ``mqregistry``: imports and runs the command line."""

import sys

signal = __import__("_signal")  # signal.py imports enum first, which takes long enough for Ctrl-C to hit it


def main() -> None:
    """Run the command line; Ctrl-C ends the process without a traceback, with 130 for a shell, also while it imports.

    While modules are imported and while the interpreter ends, the system's own action applies: Python's handler raises
    KeyboardInterrupt wherever the process is, and some modules turn that into another error.
    """
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # else it is ignored, as under nohup
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
