"""``python -m mqregistry``, and the console script ``mqregistry``: imports and runs the command line."""

import sys

signal = __import__("_signal")  # signal.py would import enum first, and Ctrl-C may come meanwhile


def main() -> None:
    """Run the command line; Ctrl-C ends the process at any moment without a traceback, with exit status 130.

    While modules are imported and while the interpreter ends, the system's default action ends the process: Python's
    handler would raise KeyboardInterrupt anywhere, and some modules turn this exception into another error.
    """
    raises = signal.getsignal(signal.SIGINT) is signal.default_int_handler  # False: SIGINT is ignored, as under nohup
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
