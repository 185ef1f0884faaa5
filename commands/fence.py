"""Stops the server of a dead node before its pods run anywhere else.

`pulumi up` runs it after a node's drain and before its server is deleted; `pulumi destroy` does
not. A drain deletes the Node, unless the machine does not answer: it may be isolated from the
network, and its pods may still write to their volumes. This command lets Nova stop the server, and
only then tells the cluster, by the taint `out-of-service`, which moves pods and volumes at once.
If Nova cannot stop it, a person has to set this taint; the server is deleted then. In the
environment:

NODE, PROVIDER_ID  the name of the node, and its server as `openstack:///ID`
KUBECONFIG_TEXT    the program's kubeconfig; without an answer of the API, the server is stopped
OS_*               the login, as for the OpenStack provider
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any

import httpx
from openstack.connection import Connection
from openstack.exceptions import ConflictException, NotFoundException

from cloud.errors import CLOUD_ERRORS
from cloud.login import connect_from_environment
from commands.errors import CommandError
from commands.kubernetes_api import Administrator, patiently
from commands.waiting import until, until_empty
from config.errors import ConfigError

OUT_OF_SERVICE = "node.kubernetes.io/out-of-service"
# Seconds for Nova, which gives the machine one minute to shut down before it switches it off.
STOP_SECONDS = 300
# Seconds for pods and volumes to leave the Node; the cluster looks every 20 s.
LEAVE_SECONDS = 180

# States of a server that does not run, and that nothing but a request starts again.
_OFF = ("SHUTOFF", "SHELVED", "SHELVED_OFFLOADED", "SOFT_DELETED", "DELETED")
# A drain leaves their pods alone.
_STAYS = ("DaemonSet", "Node")


class StillRunningError(CommandError):
    """The server may still run; the text says why, and what to do."""


class NotRemovedError(CommandError):
    """Nova does not delete a server that a person says is off; the text says why."""


class DeadNode:
    """A node whose drain ended because its machine does not answer."""

    def __init__(self, api: httpx.Client, name: str, provider_id: str) -> None:
        self._api = api
        self._name = name
        self._provider_id = provider_id
        self._path = f"/api/v1/nodes/{name}"
        self._uid: str | None = None

    @patiently
    def taints(self) -> list[Mapping[str, str]] | None:
        """The taints of its Node; None if the Node is gone or belongs to another server by now."""
        node = self._read()
        return None if node is None else list(node["spec"].get("taints", ()))

    @patiently
    def take_out_of_service(self) -> None:
        """Let the cluster delete its pods by force and detach its volumes."""
        node = self._read()
        if node is None:
            return
        taints = [
            *(each for each in node["spec"].get("taints", ()) if each["key"] != OUT_OF_SERVICE),
            {"key": OUT_OF_SERVICE, "value": "nodeshutdown", "effect": "NoExecute"},
        ]
        # Whoever changes the taints meanwhile wins, and this is tried again.
        version = {"resourceVersion": node["metadata"]["resourceVersion"]}
        self._api.patch(
            self._path,
            json={"metadata": version, "spec": {"taints": taints}},
            headers={"Content-Type": "application/merge-patch+json"},
        ).raise_for_status()

    @patiently
    def left(self) -> list[str]:
        """The pods and volumes that are still on it, without those that a drain leaves alone."""
        if self._read() is None:
            return []
        on_node = {"fieldSelector": f"spec.nodeName={self._name}"}
        pods = self._items("/api/v1/pods", on_node)
        attachments = self._items("/apis/storage.k8s.io/v1/volumeattachments", {})
        return [
            *(
                each["metadata"]["name"]
                for each in pods
                if not {o["kind"] for o in each["metadata"].get("ownerReferences", ())} & {*_STAYS}
            ),
            *(
                each["spec"]["source"].get("persistentVolumeName", each["metadata"]["name"])
                for each in attachments
                if each["spec"]["nodeName"] == self._name
            ),
        ]

    @patiently
    def delete(self) -> None:
        """Delete the Node, not that of another machine which took its name meanwhile."""
        if self._read() is None:
            return
        own = {"preconditions": {"uid": self._uid}}
        answer = self._api.request("DELETE", self._path, json=own)
        if answer.status_code not in (httpx.codes.NOT_FOUND, httpx.codes.CONFLICT):
            answer.raise_for_status()

    def _read(self) -> dict[str, Any] | None:
        answer = self._api.get(self._path)
        if answer.status_code == httpx.codes.NOT_FOUND:
            return None
        node: dict[str, Any] = answer.raise_for_status().json()
        # A Node that has not registered completely has no provider ID.
        if node["spec"].get("providerID", "") not in ("", self._provider_id):
            return None
        self._uid = self._uid or node["metadata"]["uid"]
        return node if node["metadata"]["uid"] == self._uid else None

    def _items(self, path: str, query: Mapping[str, str]) -> list[dict[str, Any]]:
        answer = self._api.get(path, params=dict(query)).raise_for_status()
        return list(answer.json()["items"])


def stop(cloud: Connection, server: str) -> None:
    """Stop the server, unless it is stopped or gone already.

    Raises:
        StillRunningError: Nova does not say that it is off.
    """
    if _status(cloud, server) in _OFF:
        return
    try:
        cloud.compute.stop_server(server)
    except NotFoundException:
        return
    except ConflictException as refusal:
        # It may be stopping already.
        problem = f": {refusal}"
    else:
        problem = ""
    if not until(lambda: _status(cloud, server) in _OFF, STOP_SECONDS, pause=2):
        status = _status(cloud, server)
        raise StillRunningError(
            f"Nova does not stop its server {server}, which is {status}{problem}"
        )


def remove(cloud: Connection, server: str) -> None:
    """Delete the server: without its hypervisor, Nova detaches volumes in no other way.

    Raises:
        NotRemovedError: Nova refuses to. If it takes longer, the update deletes it next.
    """
    try:
        cloud.compute.delete_server(server)
        until(lambda: _status(cloud, server) == "DELETED", STOP_SECONDS, pause=2)
    except NotFoundException:
        return
    except CLOUD_ERRORS as error:
        raise NotRemovedError(f"{server}: {error}") from error


def _status(cloud: Connection, server: str) -> str:
    try:
        return str(cloud.compute.get_server(server).status)
    except NotFoundException:
        return "DELETED"


def fence(
    node: DeadNode, name: str, stop_server: Callable[[], None], remove_server: Callable[[], None]
) -> None:
    """Stop the server of a Node that a drain has left, then move its pods and volumes.

    One that a person says is off is removed, which the update would do next.

    Raises:
        StillRunningError: the server may still run, and no person has said otherwise.
        NotRemovedError: a person has said that it is off, and Nova does not delete it.
    """
    try:
        taints = node.taints()
    except httpx.HTTPError as error:
        # Nothing moves its pods meanwhile, and the server is deleted next.
        stop_server()
        print(f"the API does not answer ({error}): the Node of {name} stays, its server is stopped")
        return
    if taints is None:
        return
    said_by_a_person = any(each["key"] == OUT_OF_SERVICE for each in taints)
    if not said_by_a_person:
        stop_server()
        print(f"{name} does not answer: its server is stopped")
    try:
        node.take_out_of_service()
        left = until_empty(node.left, LEAVE_SECONDS, pause=2)
        if said_by_a_person:
            # Not before the cluster has asked for its volumes: the cloud controller deletes the
            # Node of a server that is gone, and then they are asked for minutes later.
            remove_server()
            left = until_empty(node.left, LEAVE_SECONDS, pause=2)
        if left:
            print(f"still recorded on {name}, whose server does not run: {', '.join(left)}")
        node.delete()
    except httpx.HTTPError as error:
        print(f"the Node {name} stays, because the API does not answer any longer: {error}")


def main() -> int:
    """Fence the node that the environment names; returns the exit status."""
    name, provider_id = os.environ["NODE"], os.environ["PROVIDER_ID"]

    def server(action: Callable[[Connection, str], None]) -> None:
        action(connect_from_environment(), provider_id.rpartition("/")[2])

    try:
        with Administrator.of(os.environ["KUBECONFIG_TEXT"]).client() as api:
            node = DeadNode(api, name, provider_id)
            fence(node, name, partial(server, stop), partial(server, remove))
    except NotRemovedError as error:
        print(
            f"{name} is out of service, but Nova does not delete its server {error}. Delete it "
            "(openstack server delete, after openstack server unlock if it is locked), and run "
            "again with the same --replace if there was one",
            file=sys.stderr,
        )
        return 1
    except (ConfigError, CommandError, *CLOUD_ERRORS) as error:
        print(
            f"{name} does not answer and may still run, so its pods stay: {error}. Run again, with "
            "the same --replace if there was one, when the cause is gone. Or make sure that the "
            "machine is off, for example with its hypervisor, say so, and run again: kubectl taint "
            f"node {name} "
            f"{OUT_OF_SERVICE}=nodeshutdown:NoExecute",
            file=sys.stderr,
        )
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
