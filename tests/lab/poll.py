"""A client that asks the cluster's API from outside, and notes when it does not answer."""

from __future__ import annotations

import subprocess
import threading
import time

from lab.cloud import namespace


class Poll:
    """Asks the API at this URL five times a second while the block runs.

    `inside`: this process runs inside the lab already.
    """

    def __init__(self, endpoint: str, *, inside: bool = False) -> None:
        self._endpoint, self._inside = endpoint, inside
        # Number and times of failed polls, and the most seconds between two answers.
        self.failed = 0
        self._when: list[str] = []
        self.longest = 0.0

    def __enter__(self) -> Poll:
        # One line for each answer, with its status only.
        ask = f"curl -sk -m 2 -o /dev/null -w '%{{http_code}}\\n' {self._endpoint}/readyz"
        command = ["sh", "-c", f"while sleep 0.2; do {ask}; done"]
        if not self._inside:
            command = namespace.enter(command)
        self._client = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
        self._over = threading.Event()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._over.set()
        self._client.terminate()
        self._client.wait()
        self._reader.join()
        assert self._client.stdout is not None
        self._client.stdout.close()
        print(f"{self.failed} polls of the API failed, {self.longest:.1f} s of silence at most")
        print(f"at {', '.join(self._when)}")

    def _read(self) -> None:
        assert self._client.stdout is not None
        good = time.monotonic()
        for line in self._client.stdout:
            if self._over.is_set():
                return
            now = time.monotonic()
            self.longest = max(self.longest, now - good)
            if line.strip() == "200":
                good = now
            else:
                self.failed += 1
                self._when.append(time.strftime("%H:%M:%S"))
