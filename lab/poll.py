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
        # Numbers of polls, times of the failed ones, and the most seconds without an answer.
        self.answered = 0
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
        self._good = time.monotonic()
        self._reader = threading.Thread(target=self._read)
        self._reader.start()
        return self

    def __exit__(self, failure: object, *_: object) -> None:
        self._over.set()
        # A silence may last until now.
        self.longest = max(self.longest, time.monotonic() - self._good)
        ended = self._client.poll()
        self._client.terminate()
        self._client.wait()
        self._reader.join()
        assert self._client.stdout is not None
        self._client.stdout.close()
        print(f"{self.failed} polls of the API failed, {self.longest:.1f} s of silence at most")
        print(f"at {', '.join(self._when)}")
        if not failure:
            assert ended is None, f"the client that polls the API has ended with {ended}"
            assert self.answered > 0, "the API has answered no poll: is curl installed?"

    def _read(self) -> None:
        assert self._client.stdout is not None
        for line in self._client.stdout:
            if self._over.is_set():
                return
            now = time.monotonic()
            self.longest = max(self.longest, now - self._good)
            if line.strip() == "200":
                self.answered += 1
                self._good = now
            else:
                self.failed += 1
                self._when.append(time.strftime("%H:%M:%S"))
