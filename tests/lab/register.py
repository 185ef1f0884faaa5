"""Clients that count in a ConfigMap by compare-and-swap: `register.py KUBECONFIG HISTORY`."""

from __future__ import annotations

import argparse
import base64
import signal
import ssl
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
import yaml

from lab.cloud import namespace
from lab.paths import PROJECT
from tests.lab.history import MISSING, Operation, Outcome, now

NAME = "register"
PATH = f"/api/v1/namespaces/default/configmaps/{NAME}"
CLIENTS = 2
# Seconds for each part of an answer, and between two requests of a client.
PATIENCE, PAUSE = 2.0, 0.2


class Client:
    """One client, which knows the number by its own last answer, or has to read it."""

    def __init__(self, number: int, connect: Callable[[], httpx.Client]) -> None:
        self._number = number
        self._connect = connect
        self._connection = connect()
        self._known: tuple[int, str] | None = None

    def turn(self) -> Operation:
        """Add one to a number that is known; read one that is not."""
        began = now()
        known, self._known = self._known, None
        outcome, value = self._read() if known is None else self._write(*known)
        return Operation(
            client=self._number, began=began, ended=now(), outcome=outcome, value=value
        )

    def close(self) -> None:
        """Close the connection."""
        self._connection.close()

    def _read(self) -> tuple[Outcome, int]:
        answer = self._ask("GET")
        if answer is not None and answer.status_code == 404:
            return "read", MISSING
        if answer is None or answer.status_code != 200:
            return "unknown", MISSING
        return "read", self._learn(answer)

    def _write(self, number: int, version: str) -> tuple[Outcome, int]:
        wanted = number + 1
        answer = self._ask("PUT", json={
            "apiVersion": "v1", "kind": "ConfigMap", "data": {"number": str(wanted)},
            "metadata": {"name": NAME, "resourceVersion": version},
        })  # fmt: skip
        if answer is not None and answer.status_code == 409:
            return "refused", wanted
        # An error of the server does not say that nothing was written.
        if answer is None or answer.status_code != 200:
            return "unknown", wanted
        return "written", self._learn(answer)

    def _learn(self, answer: httpx.Response) -> int:
        document = answer.json()
        number = int(document["data"]["number"])
        self._known = number, document["metadata"]["resourceVersion"]
        return number

    def _ask(self, method: str, **body: Any) -> httpx.Response | None:
        try:
            return self._connection.request(method, PATH, **body)
        except httpx.HTTPError:
            # The next connection may lead to another gateway.
            self._connection.close()
            self._connection = self._connect()
            return None


def connector(kubeconfig: Path) -> Callable[[], httpx.Client]:
    """Return what opens connections as the user of a kubeconfig."""
    document = yaml.safe_load(kubeconfig.read_text())
    [cluster], [user] = document["clusters"], document["users"]
    authority = base64.b64decode(cluster["cluster"]["certificate-authority-data"]).decode()
    context = ssl.create_default_context(cadata=authority)
    # Python reads a client's certificate from a file only, which mkstemp makes for the owner alone.
    with tempfile.NamedTemporaryFile() as pair:
        for part in ("client-certificate-data", "client-key-data"):
            pair.write(base64.b64decode(user["user"][part]) + b"\n")
        pair.flush()
        context.load_cert_chain(pair.name)
    server = cluster["cluster"]["server"]
    return lambda: httpx.Client(base_url=server, verify=context, timeout=PATIENCE, trust_env=False)


def count(clients: Sequence[Client], history: Path, over: threading.Event) -> None:
    """Let the clients take turns of their own until it is over, each one noted when it ends."""
    lock = threading.Lock()

    def keep_counting(client: Client) -> None:
        try:
            while not over.wait(PAUSE):
                line = client.turn().line()
                with lock:
                    file.write(line)
                    file.flush()
        finally:
            # A client that fails ends the others, so that somebody notices.
            over.set()

    with history.open("a") as file:
        threads = [threading.Thread(target=keep_counting, args=(each,)) for each in clients]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for client in clients:
        client.close()


@contextmanager
def counting(kubeconfig: Path, history: Path) -> Iterator[None]:
    """Count from inside the lab while the block runs."""
    history.write_text("")
    command = [sys.executable, "-m", "tests.lab.register", str(kubeconfig), str(history)]
    line = namespace.enter(command, folder=PROJECT)
    with subprocess.Popen(line, stdin=subprocess.DEVNULL) as process:
        try:
            yield
            assert process.poll() is None, "the clients of the API have ended by themselves"
        finally:
            process.terminate()


def main() -> None:
    """Count until SIGTERM."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kubeconfig", type=Path)
    parser.add_argument("history", type=Path)
    arguments = parser.parse_args()
    over = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: over.set())
    connect = connector(arguments.kubeconfig)
    clients = [Client(number, connect) for number in range(CLIENTS)]
    count(clients, arguments.history, over)


if __name__ == "__main__":
    main()
