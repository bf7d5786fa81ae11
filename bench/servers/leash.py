"""leash.py PARENT SIGNAL COMMAND...: executes COMMAND, which gets SIGNAL when the process PARENT dies.

This is a program of its own, because a function between fork and exec is not safe in a process with threads. The
process id stays the same through exec, so the parent can signal the command directly.
"""

import ctypes
import os
import sys

PR_SET_PDEATHSIG = 1


def main() -> None:
    parent, signal_number, *command = sys.argv[1:]
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, int(signal_number))
    if os.getppid() != int(parent):  # the parent died before prctl
        sys.exit(1)
    os.execvp(command[0], command)


if __name__ == "__main__":
    main()
