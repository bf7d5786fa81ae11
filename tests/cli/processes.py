"""Commands that run as processes of their own, forked."""

from __future__ import annotations

import os
import signal
import subprocess
import threading
import time

import psutil

from ..forked import Forked, command


class Process:
    """A command that runs; its output is collected."""

    def __init__(self, *arguments, env):
        read_out, write_out = os.pipe()
        read_err, write_err = os.pipe()
        with open(os.devnull, "rb") as nothing, open(write_out, "wb"), open(write_err, "wb"):
            self.popen = Forked(command, arguments, stdio=(nothing.fileno(), write_out, write_err), env=env)
        self.out, self.err = "", ""
        self._readers = [
            threading.Thread(target=self._read, args=(fd, name)) for fd, name in ((read_out, "out"), (read_err, "err"))
        ]
        for reader in self._readers:
            reader.start()

    def _read(self, fd, name):
        with open(fd) as stream:
            for line in stream:
                setattr(self, name, getattr(self, name) + line)

    def wait_for(self, text, timeout_s=60.0):
        deadline = time.monotonic() + timeout_s
        while text not in self.out + self.err:
            if not any(reader.is_alive() for reader in self._readers) or time.monotonic() > deadline:
                assert text in self.out + self.err, f"{text!r} did not come:\n{self.out}\n{self.err}"
            time.sleep(0.01)

    def family(self):
        """It and all that it started."""
        parent = psutil.Process(self.popen.pid)
        return [parent, *parent.children(recursive=True)]

    def end(self, number=signal.SIGINT, timeout_s=60.0):
        """Ctrl-C, as a terminal sends it: to the whole group. Returns the exit status."""
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, number)
        return self.wait(timeout_s)

    def wait(self, timeout_s=60.0):
        try:
            status = self.popen.wait(timeout_s)
        except subprocess.TimeoutExpired as error:
            raise AssertionError(f"it did not end within {timeout_s} s:\n{self.out}\n{self.err}") from error
        for reader in self._readers:
            reader.join(timeout_s)
        return status
