"""The API of the cluster, as a node reaches it: any control plane that answers."""

from __future__ import annotations

import asyncio
import json
import ssl
import time
import zlib
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx

# An API server may restart, or be replaced, for so many seconds.
PATIENCE = 300
# Seconds for which no node asks one that has refused a connection. The address of a control plane
# that does not exist is in the list as well.
AVOIDED = 60
_REFUSED: dict[str, float] = {}


class Api:
    """A client with one identity."""

    def __init__(
        self,
        servers: Sequence[str],
        context: ssl.SSLContext,
        *,
        source: str,
        token: str | None = None,
    ) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        # Each node begins at another one.
        self._servers, self._place = list(servers), zlib.crc32(source.encode())
        self._turn()
        # A kubelet keeps one connection; a watch has its own here.
        limits = httpx.Limits(max_connections=3, max_keepalive_connections=1, keepalive_expiry=None)
        # All the nodes are on one machine: only their own addresses may reach the API.
        transport = httpx.AsyncHTTPTransport(
            verify=context, limits=limits, local_address=source, trust_env=False
        )
        self._client = httpx.AsyncClient(
            headers=headers, timeout=30, transport=transport, trust_env=False
        )

    def _turn(self) -> None:
        """Take the next control plane that has not just refused a connection."""
        for _ in self._servers:
            self._place += 1
            self._server = self._servers[self._place % len(self._servers)]
            if time.monotonic() - _REFUSED.get(self._server, -AVOIDED) >= AVOIDED:
                return

    async def close(self) -> None:
        """Close the connections."""
        await self._client.aclose()

    async def call(
        self, method: str, path: str, document: object = None, *, merge: bool = False
    ) -> tuple[int, dict[str, Any]]:
        """Status and answer; asks another control plane while one does not answer.

        Raises:
            TimeoutError: none has answered for PATIENCE seconds.
        """
        kind = "application/merge-patch+json" if merge else "application/json"
        async with asyncio.timeout(PATIENCE):
            while True:
                try:
                    answer = await self._client.request(
                        method,
                        self._server + path,
                        content=None if document is None else json.dumps(document),
                        headers={"Content-Type": kind},
                    )
                    if answer.status_code < 500 and answer.status_code != 429:
                        return answer.status_code, answer.json()
                except httpx.TransportError as error:
                    self._note(error)
                self._turn()
                await asyncio.sleep(1)

    def _note(self, error: httpx.TransportError) -> None:
        if isinstance(error, httpx.ConnectError | httpx.ConnectTimeout):
            _REFUSED[self._server] = time.monotonic()

    async def watch(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """The events of a list, which begin with all that is there; ends when the watch ends."""
        try:
            async with self._client.stream("GET", self._server + path, timeout=None) as answer:
                if answer.status_code != httpx.codes.OK:
                    return
                async for line in answer.aiter_lines():
                    yield json.loads(line)
        except httpx.TransportError as error:
            self._note(error)
            self._turn()
