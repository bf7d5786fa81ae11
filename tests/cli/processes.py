"""Commands that run as processes of their own."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time

import psutil


class Process:
    """A command that runs; its output is collected."""

    def __init__(self, *arguments, env):
        self.popen = subprocess.Popen(
            [sys.executable, "-m", "mqregistry", *arguments], stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=env,
            start_new_session=True, text=True,
            # whoever runs the tests under nohup hands "ignore SIGHUP" down to every process
            preexec_fn=lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL),
        )  # fmt: skip
        self.out, self.err = "", ""
        self._readers = [threading.Thread(target=self._read, args=(name,)) for name in ("stdout", "stderr")]
        for reader in self._readers:
            reader.start()

    def _read(self, name):
        with getattr(self.popen, name) as stream:
            for line in stream:
                if name == "stdout":
                    self.out += line
                else:
                    self.err += line

    def wait_for(self, text, timeout_s=20.0):
        deadline = time.monotonic() + timeout_s
        while text not in self.out + self.err:
            if self.popen.poll() is not None or time.monotonic() > deadline:
                raise AssertionError(f"{text!r} did not come:\n{self.out}\n{self.err}")
            time.sleep(0.01)

    def family(self):
        """It and all that it started."""
        parent = psutil.Process(self.popen.pid)
        return [parent, *parent.children(recursive=True)]

    def end(self, number=signal.SIGINT, timeout_s=20.0):
        """Ctrl-C, as a terminal sends it: to the whole group. Returns the exit status."""
        if self.popen.poll() is None:
            os.killpg(self.popen.pid, number)
        return self.wait(timeout_s)

    def wait(self, timeout_s=20.0):
        status = self.popen.wait(timeout_s)
        for reader in self._readers:
            reader.join(timeout_s)
        return status
