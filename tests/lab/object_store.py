"""An S3 object store at the address of the cloud's APIs, which servers can reach."""

from __future__ import annotations

import os
import secrets
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from lab import object_store
from lab.cloud import layout, namespace
from lab.cluster import run
from lab.until import until


class ObjectStore:
    """One bucket, empty at first, that requires signed requests; it exists inside the block."""

    region = "lab"
    bucket = "backups"

    def __init__(self, folder: Path, port: int) -> None:
        self.endpoint = f"http://{layout.API}:{port}"
        self.access_key = secrets.token_hex(10)
        # Real keys have such characters too, which scripts may fail on.
        self.secret_key = secrets.token_hex(18) + "/+="
        self._log = folder / "store.log"
        # The store's own notes on objects: not every file system has extended attributes.
        self._notes = folder / "notes"
        self._buckets = folder / "buckets"
        self._objects = self._buckets / self.bucket
        self._environment = {
            "VGW_PORT": f"{layout.API}:{port}",
            "VGW_REGION": self.region,
            "ROOT_ACCESS_KEY": self.access_key,
            "ROOT_SECRET_KEY": self.secret_key,
        }

    def __enter__(self) -> ObjectStore:
        self._notes.mkdir()
        self._objects.mkdir(parents=True)
        self._start()
        return self

    def __exit__(self, *failure: object) -> None:
        self._stop()

    @contextmanager
    def away(self) -> Iterator[None]:
        """No one answers at its address meanwhile."""
        self._stop()
        try:
            yield
        finally:
            self._start()

    def _start(self) -> None:
        program = str(object_store.program())
        command = [program, "posix", "--sidecar", str(self._notes), str(self._buckets)]
        with self._log.open("a") as log:
            self._server = subprocess.Popen(
                namespace.enter(command),
                # No keys in the command line, which everyone on the machine sees.
                env={"PATH": os.environ["PATH"], **self._environment},
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )
        try:
            until(self._refuses, f"the object store, see {self._log}", 60)
        except BaseException:
            self._stop()
            raise

    def settings(self) -> dict[str, Any]:
        """The key `backup.bucket`, without its secret."""
        return {
            "endpoint": self.endpoint,
            "region": self.region,
            "name": self.bucket,
            "accessKey": self.access_key,
        }

    def names(self) -> list[str]:
        """Sorted names of the objects in the bucket."""
        files = (path for path in self._objects.rglob("*") if path.is_file())
        names = (path.relative_to(self._objects).as_posix() for path in files)
        return sorted(name for name in names if not name.startswith("."))

    def read(self, name: str) -> bytes:
        """Content of an object."""
        return (self._objects / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        """Change an object behind the cluster's back, as the owner of the bucket can."""
        (self._objects / name).write_bytes(content)

    def _refuses(self) -> bool:
        """True if it answers a request without a key, which it refuses."""
        return "<Error>" in run("curl", "-s", self.endpoint, check=False)

    def _stop(self) -> None:
        self._server.terminate()
        self._server.wait()
