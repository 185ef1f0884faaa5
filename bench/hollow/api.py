"""The API of the cluster, as a node reaches it: any control plane that answers."""

from __future__ import annotations

import asyncio
import itertools
import json
import ssl
from collections.abc import AsyncIterator, Sequence
from typing import Any

import httpx

# An API server may restart, or be replaced, for so many seconds.
PATIENCE = 300


class Api:
    """A client with one identity."""

    def __init__(
        self, servers: Sequence[str], context: ssl.SSLContext, *, token: str | None = None
    ) -> None:
        headers = {} if token is None else {"Authorization": f"Bearer {token}"}
        self._servers = itertools.cycle(servers)
        self._server = next(self._servers)
        self._client = httpx.AsyncClient(
            verify=context,
            headers=headers,
            timeout=30,
            # A kubelet keeps one connection; a watch has its own here.
            limits=httpx.Limits(max_connections=3, max_keepalive_connections=1),
            trust_env=False,
        )

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
                except httpx.TransportError:
                    pass
                self._server = next(self._servers)
                await asyncio.sleep(1)

    async def watch(self, path: str) -> AsyncIterator[dict[str, Any]]:
        """The events of a list, which begin with all that is there; ends when the watch ends."""
        try:
            async with self._client.stream("GET", self._server + path, timeout=None) as answer:
                if answer.status_code != httpx.codes.OK:
                    return
                async for line in answer.aiter_lines():
                    yield json.loads(line)
        except httpx.TransportError:
            self._server = next(self._servers)
