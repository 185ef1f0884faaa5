"""A hollow kubelet: the Node, its Lease and its certificates, and pods that only seem to run."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import ssl
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from bench.hollow.api import Api
from bench.hollow.certificates import CLIENT, SERVING, Request, client_context, server_context
from config import ports

# Those of a real kubelet: seconds between two renewals of its Lease, and between two reports.
LEASE_SECONDS = 10
REPORT_SECONDS = 300
LEASES = "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases"
CSRS = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
HEALTHY = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\nok"
UNKNOWN = b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class RefusedError(Exception):
    """The API server has refused something."""


@dataclass(frozen=True, kw_only=True)
class Identity:
    """The node and its cluster, as the files that its machine was sent describe them."""

    name: str
    address: str
    version: str
    servers: Sequence[str]
    authority: str
    provider_id: str | None
    taints: Sequence[Mapping[str, str]]


class Kubelet:
    """One hollow kubelet. `join` begins, `stop` ends what it does."""

    def __init__(self, identity: Identity, folder: Path) -> None:
        self.identity = identity
        self._folder = folder
        self._tasks: list[asyncio.Task[None]] = []
        self._api: Api | None = None
        self._server: asyncio.Server | None = None

    async def join(self, token: str) -> None:
        """Get a client certificate with a bootstrap token, and become a Node.

        Raises:
            RefusedError: the cluster does not want it.
            TimeoutError: no API server answers.
        """
        who = self.identity
        stranger = Api(who.servers, client_context(who.authority), source=who.address, token=token)
        try:
            shown = await self._certificate(stranger, Request(who.name, CLIENT))
        finally:
            await stranger.close()
        self._api = Api(who.servers, client_context(who.authority, shown), source=who.address)
        await self.register()
        self._tasks = [
            asyncio.create_task(each)
            for each in (self._serve(), self._renew(), self._report(), self._pods())
        ]
        for task in self._tasks:
            task.add_done_callback(self._tell)

    def _tell(self, task: asyncio.Task[None]) -> None:
        """Say why something has ended that should not."""
        if not task.cancelled() and (error := task.exception()) is not None:
            print(f"{self.identity.name}: {error!r}", file=sys.stderr, flush=True)

    async def stop(self) -> None:
        """End everything; the Node stays, as that of a machine that is switched off."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._server is not None:
            self._server.close()
        if self._api is not None:
            await self._api.close()

    @property
    def api(self) -> Api:
        """The API, as this node."""
        if self._api is None:
            raise RuntimeError("the node has not joined")
        return self._api

    async def _certificate(self, api: Api, request: Request) -> Path:
        """Ask for a certificate, and wait until someone has approved it."""
        for _ in range(60):
            code, answer = await api.call("POST", CSRS, request.document())
            # A token, or a right, that this API server does not know yet.
            if code not in (401, 403):
                break
            await asyncio.sleep(0.5)
        made = _created(code, answer)
        while True:
            code, seen = await api.call("GET", f"{CSRS}/{made['metadata']['name']}")
            status = seen.get("status", {}) if code == 200 else {}
            if "certificate" in status:
                kind = request.signer.rpartition("/")[2]
                certificate = base64.b64decode(status["certificate"])
                return request.write(certificate, self._folder / f"{kind}.pem")
            if any(each["type"] in ("Denied", "Failed") for each in status.get("conditions", [])):
                raise RefusedError(f"{request.signer}: {status['conditions']}")
            await asyncio.sleep(0.5)

    async def register(self) -> None:
        """Create the Node if it is not there, as a kubelet does when it starts."""
        status, answer = await self.api.call("POST", "/api/v1/nodes", self._node())
        if status != 409:
            _created(status, answer)

    def _node(self) -> dict[str, Any]:
        who = self.identity
        spec: dict[str, Any] = {"taints": list(who.taints)}
        if who.provider_id is not None:
            spec["providerID"] = who.provider_id
        system = {"kubernetes.io/hostname": who.name, "kubernetes.io/os": "linux",
                  "kubernetes.io/arch": "amd64"}  # fmt: skip
        return {
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": who.name, "labels": system},
            "spec": spec,
            "status": self._status(),
        }

    def _status(self) -> dict[str, Any]:
        who = self.identity
        resources = {"cpu": "2", "memory": "4Gi", "pods": "110", "ephemeral-storage": "20Gi"}
        hollow = "hollow: it runs no containers"
        return {
            "capacity": resources,
            "allocatable": resources,
            "addresses": [
                {"type": "InternalIP", "address": who.address},
                {"type": "Hostname", "address": who.name},
            ],
            "daemonEndpoints": {"kubeletEndpoint": {"Port": ports.KUBELET}},
            "conditions": [
                {
                    "type": kind,
                    "status": "True" if kind == "Ready" else "False",
                    "reason": "Hollow",
                    "message": hollow,
                    "lastHeartbeatTime": _now(),
                }
                for kind in ("Ready", "MemoryPressure", "DiskPressure", "PIDPressure")
            ],
            "nodeInfo": {
                "machineID": who.name, "systemUUID": who.name, "bootID": who.name,
                "kernelVersion": "hollow", "osImage": "hollow", "operatingSystem": "linux",
                "architecture": "amd64", "containerRuntimeVersion": "hollow://0",
                "kubeletVersion": who.version, "kubeProxyVersion": "",
            },
        }  # fmt: skip

    async def _serve(self) -> None:
        """Answer the API server's question about its health, when its certificate is there."""
        request = Request(self.identity.name, SERVING, self.identity.address)
        certificate = await self._certificate(self.api, request)

        async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            with contextlib.suppress(OSError, asyncio.IncompleteReadError, ssl.SSLError):
                asked = await reader.readuntil(b"\r\n\r\n")
                # kubectl's --request-timeout arrives as a query.
                healthy = asked.startswith((b"GET /healthz ", b"GET /healthz?"))
                writer.write(HEALTHY if healthy else UNKNOWN)
                await writer.drain()
            writer.close()

        self._server = await asyncio.start_server(
            answer, self.identity.address, ports.KUBELET, ssl=server_context(certificate)
        )

    async def _renew(self) -> None:
        name = self.identity.name
        lease = {
            "apiVersion": "coordination.k8s.io/v1",
            "kind": "Lease",
            "metadata": {"name": name},
            "spec": {
                "holderIdentity": name,
                "leaseDurationSeconds": 40,
                "renewTime": _now("microseconds"),
            },
        }
        await self.api.call("POST", LEASES, lease)
        while True:
            await asyncio.sleep(LEASE_SECONDS)
            renewed = {"spec": {"renewTime": _now("microseconds")}}
            await self.api.call("PATCH", f"{LEASES}/{name}", renewed, merge=True)

    async def _report(self) -> None:
        while True:
            await asyncio.sleep(REPORT_SECONDS)
            await self.report()

    async def report(self) -> None:
        """Say what the node is like; also its version, after an upgrade."""
        path = f"/api/v1/nodes/{self.identity.name}/status"
        await self.api.call("PATCH", path, {"status": self._status()}, merge=True)

    async def _pods(self) -> None:
        path = f"/api/v1/pods?watch=1&fieldSelector=spec.nodeName={self.identity.name}"
        while True:
            async for event in self.api.watch(path):
                if event["type"] in ("ADDED", "MODIFIED"):
                    await self._settle(event["object"])
            await asyncio.sleep(1)

    async def _settle(self, pod: dict[str, Any]) -> None:
        """End a pod that is deleted, and say of a new one that it runs."""
        meta = pod["metadata"]
        path = f"/api/v1/namespaces/{meta['namespace']}/pods/{meta['name']}"
        if "deletionTimestamp" in meta:
            now = {"gracePeriodSeconds": 0, "preconditions": {"uid": meta["uid"]}}
            await self.api.call("DELETE", path, now)
        elif pod["status"].get("phase") == "Pending":
            status = {"status": self._running(pod)}
            await self.api.call("PATCH", f"{path}/status", status, merge=True)

    def _running(self, pod: Mapping[str, Any]) -> dict[str, Any]:
        since = _now()
        address = self.identity.address
        kinds = ("PodScheduled", "Initialized", "ContainersReady", "Ready")
        return {
            "phase": "Running",
            "startTime": since,
            "hostIP": address,
            "podIP": address,
            "podIPs": [{"ip": address}],
            "conditions": [
                {"type": kind, "status": "True", "lastTransitionTime": since} for kind in kinds
            ],
            "containerStatuses": [
                {
                    "name": each["name"],
                    "image": each["image"],
                    "imageID": "",
                    "ready": True,
                    "started": True,
                    "restartCount": 0,
                    "state": {"running": {"startedAt": since}},
                }
                for each in pod["spec"]["containers"]
            ],
        }


def _created(status: int, answer: dict[str, Any]) -> dict[str, Any]:
    if status != 201:
        raise RefusedError(f"{status}: {answer.get('message', answer)}")
    return answer


def _now(precision: str = "seconds") -> str:
    """The time as Kubernetes writes it; in a Lease with microseconds."""
    return datetime.now(UTC).isoformat(timespec=precision).replace("+00:00", "Z")
