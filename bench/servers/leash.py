"""leash.py PARENT SIGNAL COMMAND...: become COMMAND, and get SIGNAL should PARENT die, however it dies.

A program of its own, because a function run between fork and exec is not safe beside threads. The
process id stays the same through exec, so whoever started this may signal the command directly.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, signal_number, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal_number))
    if os.getppid() != int(parent):  # it died before the leash held
        sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
