"""Secrets of a running cluster are replaced: one gateway, one control plane, one worker."""

from __future__ import annotations

import base64
import json
import re
import subprocess
from collections.abc import Iterator
from typing import Any

import pytest
import yaml

from commands.private_file import write_private
from lab import image, settings
from lab.cluster import UP, Cluster, run
from lab.errors import LabError
from lab.poll import Poll
from lab.until import until
from tests.lab import kills
from tests.lab.login_keys import (
    assert_only_the_newest_host_keys_are_shown,
    assert_only_the_newest_ssh_key_opens,
    host_keys,
    on_disk,
    opened_by,
    scanned,
    ssh_keys,
)
from tests.lab.object_store import ObjectStore
from tests.lab.secrets_at_rest import stored_with

CONTROL_PLANE = "rotation-control-plane-0"
# More than two pages of the rewrite.
COUNT = 250


def backup(store: ObjectStore, **more: Any) -> dict[str, Any]:
    """The key `backup`."""
    return {"bucket": store.settings(), **more}


@pytest.fixture(scope="module")
def cluster(store: ObjectStore) -> Iterator[Cluster]:
    """The cluster, with a bucket; it is destroyed at the end, also after a failure."""
    keys = settings.cluster(image=image.ensure(), gateways=1, control_planes=1, workers=1)
    made = Cluster("rotation", {**keys, "backup": backup(store)})
    made.set_secret("backupSecretKey", store.secret_key)
    # What an earlier run in the same lab has left.
    made.stack.configure({"rotation": None, "encryptionAtRest": None})
    with made.running():
        yield made


def secret(number: int) -> dict[str, object]:
    """A Secret whose value says its number."""
    return {
        "apiVersion": "v1",
        "kind": "Secret",
        "metadata": {"name": f"kept-{number:03d}", "labels": {"test": "rotation"}},
        "data": {"value": base64.b64encode(f"value {number}".encode()).decode()},
    }


def make_secrets(cluster: Cluster) -> None:
    """Make `COUNT` Secrets in the namespace default."""
    items = [secret(number) for number in range(COUNT)]
    listed = {"apiVersion": "v1", "kind": "List", "items": items}
    cluster.kubectl("apply", "--server-side", "-f", "-", stdin=json.dumps(listed))


def assert_readable(cluster: Cluster) -> None:
    """The Secrets are what they were."""
    listed = json.loads(cluster.kubectl("get", "secrets", "-l", "test=rotation", "-o", "json"))
    values = [base64.b64decode(each["data"]["value"]).decode() for each in listed["items"]]
    assert sorted(values) == sorted(f"value {number}" for number in range(COUNT))


def known_providers(cluster: Cluster) -> list[str]:
    """The providers in the API server's file, which is in force."""
    file = "/etc/kubernetes/encryption/configuration.yaml"
    text = cluster.ssh(CONTROL_PLANE, f"sudo cat {file}")
    total = cluster.ssh(CONTROL_PLANE, f"sudo sha256sum {file}").split()[0]
    metrics = cluster.kubectl("get", "--raw", "/metrics")
    [info] = re.findall(
        r"^apiserver_encryption_config_controller_last_config_info.*", metrics, re.M
    )
    assert f'hash="sha256:{total}"' in info
    found = re.findall(r'"name": "(\w+)"|"(identity)"', text)
    return [name or identity for name, identity in found]


def api_server(cluster: Cluster) -> str:
    """The container of the API server."""
    return cluster.ssh(CONTROL_PLANE, "sudo crictl ps --quiet --name '^kube-apiserver$'").strip()


def take_backup(cluster: Cluster, store: ObjectStore) -> str:
    """Run the service that the timer starts; returns the name of the object."""
    cluster.ssh(CONTROL_PLANE, "sudo systemctl start openstack-kubernetes-backup.service")
    return max(store.names())


@pytest.fixture(scope="module")
def snapshot(cluster: Cluster, store: ObjectStore) -> str:
    """The name of a snapshot with the Secrets, of before the rotations."""
    make_secrets(cluster)
    return take_backup(cluster, store)


def opened(cluster: Cluster, store: ObjectStore, name: str, key: str) -> bool:
    """True if this key of the state opens an object of the bucket."""
    [pem] = [
        json.loads(resource["outputs"]["privateKeyPem"]["plaintext"])
        for resource in cluster.stack.resources(secrets=True)
        if resource["urn"].endswith(f":PrivateKey::{key}")
    ]
    folder = cluster.stack.folder
    write_private(folder / "key", pem)
    (folder / "object").write_bytes(store.read(name))
    opener = "openssl cms -decrypt -binary -inform DER -inkey key"
    command = ["tar", "-xf", "object", f"--to-command={opener}"]
    done = subprocess.run(command, cwd=folder, capture_output=True, check=False)
    for file in ("key", "object"):
        (folder / file).unlink()
    return done.returncode == 0 and done.stdout.startswith(b"\x1f\x8b")


@pytest.mark.usefixtures("snapshot")
def test_another_encryption_key_encrypts_every_secret_and_restarts_no_api_server(
    cluster: Cluster,
) -> None:
    assert set(stored_with(cluster, CONTROL_PLANE)) == {"key1"}
    before = api_server(cluster)

    cluster.up(rotation={"encryptionKey": 2})

    assert set(stored_with(cluster, CONTROL_PLANE)) == {"key02"}
    assert known_providers(cluster) == ["key02", "identity"]
    assert_readable(cluster)
    assert api_server(cluster) == before
    assert all(cluster.nodes().values())
    assert cluster.up() == {}


@kills.SEEDED
def test_a_killed_rotation_of_the_encryption_key_continues(cluster: Cluster, seed: int) -> None:
    make_secrets(cluster)
    # Each phase waits for an API server that looks at its file once a minute.
    for seconds in kills.draw(seed, 5, 10, 180):
        if cluster.killed_up(seconds, rotation={"encryptionKey": 3}):
            cluster.recover()
        assert_readable(cluster)
    cluster.up()
    assert set(stored_with(cluster, CONTROL_PLANE)) == {"key03"}
    assert known_providers(cluster) == ["key03", "identity"]
    assert_readable(cluster)
    assert cluster.up() == {}


def test_encryption_is_taken_from_every_secret_and_comes_back(cluster: Cluster) -> None:
    make_secrets(cluster)
    rotation = {"encryptionKey": 3}
    cluster.up(rotation=rotation, encryptionAtRest=False)
    assert set(stored_with(cluster, CONTROL_PLANE)) == {"identity"}
    assert_readable(cluster)
    cluster.up(encryptionAtRest=True)
    assert set(stored_with(cluster, CONTROL_PLANE)) == {"key03"}
    assert known_providers(cluster) == ["key03", "identity"]
    assert_readable(cluster)


def test_another_backup_key_opens_new_snapshots_and_the_old_one_does_not(
    cluster: Cluster, store: ObjectStore, snapshot: str
) -> None:
    assert opened(cluster, store, snapshot, "rotation-backup")
    cluster.up(rotation={"encryptionKey": 3, "backupKey": 2})
    new = take_backup(cluster, store)
    assert new != snapshot
    assert opened(cluster, store, new, "rotation-backup-2")
    assert not opened(cluster, store, new, "rotation-backup")
    assert opened(cluster, store, snapshot, "rotation-backup")
    cluster.ssh(CONTROL_PLANE, "sudo systemctl start openstack-kubernetes-backup-proof.service")
    assert cluster.up() == {}


def test_a_snapshot_of_before_the_rotations_is_restored_with_todays_keys(
    cluster: Cluster, store: ObjectStore, snapshot: str
) -> None:
    cluster.up(rotation={"encryptionKey": 3, "backupKey": 2})
    run("openstack", "server", "delete", "--wait", CONTROL_PLANE)
    # It learns that the machine is gone, and refuses to begin without data.
    result = cluster.stack.pulumi(*UP, "--refresh", capture=True, check=False)
    assert result.returncode != 0
    cluster.up(backup=backup(store, restore=snapshot))
    assert set(stored_with(cluster, CONTROL_PLANE)) == {"key03"}
    assert known_providers(cluster) == ["key03", "identity"]
    assert_readable(cluster)
    cluster.up(backup=backup(store))


def test_a_number_that_goes_back_is_refused_before_a_key_is_deleted(cluster: Cluster) -> None:
    make_secrets(cluster)
    rotation = {"encryptionKey": 3, "backupKey": 2}
    cluster.up(rotation=rotation)
    cluster.stack.configure({"rotation": {**rotation, "encryptionKey": 2}})
    with pytest.raises(LabError, match=r"must never go back; set it to 3 or more"):
        cluster.stack.pulumi(*UP, capture=True)
    assert_readable(cluster)
    cluster.up(rotation=rotation)
    cluster.kubectl("delete", "secrets", "-l", "test=rotation")


# Its own copy of a token, which no one replaces.
LEGACY = """
apiVersion: v1
kind: Secret
metadata: {name: legacy, annotations: {kubernetes.io/service-account.name: default}}
type: kubernetes.io/service-account-token
"""
POD = """
apiVersion: v1
kind: Pod
metadata: {name: client}
spec:
  terminationGracePeriodSeconds: 0
  nodeName: rotation-worker-0
  containers:
  - name: client
    image: docker.io/lab/busybox:1
    imagePullPolicy: Never
    command: [sleep, infinity]
"""


@pytest.fixture
def legacy(cluster: Cluster) -> Iterator[str]:
    """The token in a Secret."""
    cluster.kubectl("apply", "-f", "-", stdin=LEGACY)
    until(lambda: legacy_token(cluster), "the token in the Secret", 60)
    yield legacy_token(cluster)
    cluster.kubectl("delete", "secret", "legacy")


@pytest.fixture
def client(cluster: Cluster) -> Iterator[None]:
    """A pod that has a token."""
    cluster.kubectl("apply", "-f", "-", stdin=POD)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/client", "--timeout=120s")
    yield
    cluster.kubectl("delete", "pod", "client", "--now")


def legacy_token(cluster: Cluster) -> str:
    data = cluster.kubectl("get", "secret", "legacy", "-o", "jsonpath={.data.token}")
    return base64.b64decode(data).decode()


def token_of_pod(cluster: Cluster) -> str:
    file = "/var/run/secrets/kubernetes.io/serviceaccount/token"
    return cluster.kubectl("exec", "client", "--", "cat", file)


def restarts_of_pod(cluster: Cluster) -> str:
    return cluster.kubectl(
        "get", "pod", "client", "-o", "jsonpath={.status.containerStatuses[0].restartCount}"
    )


def accepts(cluster: Cluster, token: str) -> bool:
    """True if the API knows whose token it is."""
    said = cluster.kubectl_as(token, "auth", "whoami", "-o", "json")
    return "system:serviceaccount:default:default" in said


def accepted_keys(cluster: Cluster) -> int:
    return len(json.loads(cluster.kubectl("get", "--raw", "/openid/v1/jwks"))["keys"])


@pytest.mark.usefixtures("client")
def test_another_service_account_key_refuses_old_tokens_when_no_one_is_seen_to_use_one(
    cluster: Cluster, legacy: str
) -> None:
    made = cluster.kubectl("create", "token", "default", "--duration=2h").strip()
    of_pod = token_of_pod(cluster)
    assert all(accepts(cluster, token) for token in (made, of_pod, legacy))

    cluster.stack.configure({"rotation": {**rotation_of(cluster), "serviceAccountKey": 2}})
    with pytest.raises(LabError, match=r"tokens of the old key: default/legacy"):
        cluster.stack.pulumi(*UP, capture=True)
    assert accepted_keys(cluster) == 2
    assert all(accepts(cluster, token) for token in (made, of_pod, legacy))

    empty = '{"data": {"token": null}}'
    cluster.kubectl("patch", "secret", "legacy", "--type=merge", "-p", empty)
    cluster.up()
    assert accepted_keys(cluster) == 1
    assert not any(accepts(cluster, token) for token in (made, of_pod, legacy))
    assert accepts(cluster, token_of_pod(cluster))
    assert accepts(cluster, legacy_token(cluster))
    assert restarts_of_pod(cluster) == "0"
    assert all(cluster.nodes().values())
    assert cluster.up() == {}


@pytest.mark.usefixtures("client")
@kills.SEEDED
def test_a_killed_rotation_of_the_service_account_key_continues(
    cluster: Cluster, seed: int
) -> None:
    old = token_of_pod(cluster)
    rotation = {**rotation_of(cluster), "serviceAccountKey": 3}
    for seconds in kills.draw(seed, 4, 30, 180):
        if cluster.killed_up(seconds, rotation=rotation):
            cluster.recover()
        # Its only API server may just be restarting.
        until(lambda: cluster.kubectl("get", "--raw", "/readyz", check=False), "the API", 120)
        assert accepts(cluster, token_of_pod(cluster))
    cluster.up()
    assert accepted_keys(cluster) == 1
    assert not accepts(cluster, old)
    assert accepts(cluster, token_of_pod(cluster))
    assert restarts_of_pod(cluster) == "0"
    assert cluster.up() == {}


MACHINES = ("rotation-gateway-0", "rotation-control-plane-0", "rotation-worker-0")


def rotation_of(cluster: Cluster) -> dict[str, int]:
    """The numbers that the tests before have set: none may go back."""
    document = yaml.safe_load(cluster.stack.config_file.read_text())["config"]
    found: dict[str, int] = next(
        (value for key, value in document.items() if key.endswith(":rotation")), {}
    )
    return found


def kubelets_started(cluster: Cluster) -> list[str]:
    show = "systemctl show --property=ExecMainStartTimestampMonotonic kubelet"
    return [cluster.ssh(machine, show) for machine in MACHINES[1:]]


def assert_only_the_newest_keys_count(cluster: Cluster, generation: int) -> None:
    assert_only_the_newest_ssh_key_opens(cluster, MACHINES, generation)
    assert_only_the_newest_host_keys_are_shown(cluster, MACHINES, generation)


def test_other_ssh_and_host_keys_replace_the_old_ones_and_nothing_restarts(
    cluster: Cluster,
) -> None:
    before = cluster.servers()
    [old] = ssh_keys(cluster)
    shown = host_keys(cluster)
    assert all(opened_by(cluster, machine, old, old) for machine in MACHINES)
    assert all(scanned(cluster, machine) == [shown[machine][1]] for machine in MACHINES)
    started = kubelets_started(cluster)
    with Poll(cluster.endpoint) as poll:
        cluster.up(rotation={**rotation_of(cluster), "sshKey": 2, "hostKeys": 2})
    assert_only_the_newest_keys_count(cluster, 2)
    assert cluster.servers() == before
    assert kubelets_started(cluster) == started
    assert poll.failed == 0
    assert cluster.up() == {}


def test_a_gateway_and_a_worker_are_replaced_by_the_update_that_replaces_their_keys(
    cluster: Cluster,
) -> None:
    before = cluster.servers()
    replaced = ["rotation-gateway-0", "rotation-worker-0"]
    flags = [word for name in replaced for word in ("--replace", f"**:Instance::{name}")]
    cluster.up(*flags, rotation={**rotation_of(cluster), "sshKey": 3, "hostKeys": 3})
    assert_only_the_newest_keys_count(cluster, 3)
    after = cluster.servers()
    assert sorted(name for name in before if before[name] != after[name]) == replaced
    assert all(cluster.nodes().values())
    assert cluster.up() == {}


@kills.SEEDED
def test_a_killed_rotation_of_ssh_and_host_keys_continues(cluster: Cluster, seed: int) -> None:
    rotation = {**rotation_of(cluster), "sshKey": 4, "hostKeys": 4}
    for seconds in kills.draw(seed, 6, 3, 60):
        if cluster.killed_up(seconds, rotation=rotation):
            cluster.recover()
    cluster.up()
    assert_only_the_newest_keys_count(cluster, 4)
    assert all(cluster.nodes().values())
    assert cluster.up() == {}


def local_volume(node: str) -> dict[str, object]:
    """A claim's volume on the disk of a node, which no drain deletes."""
    place = {"key": "kubernetes.io/hostname", "operator": "In", "values": [node]}
    return {
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {"name": "local"},
        "spec": {
            "capacity": {"storage": "1Gi"},
            "accessModes": ["ReadWriteOnce"],
            "claimRef": {"namespace": "default", "name": "local"},
            "local": {"path": "/tmp"},
            "nodeAffinity": {"required": {"nodeSelectorTerms": [{"matchExpressions": [place]}]}},
        },
    }


def test_a_worker_that_leaves_meanwhile_needs_the_old_keys_until_the_next_update(
    cluster: Cluster,
) -> None:
    rotation = rotation_of(cluster)
    generation = rotation.get("sshKey", 1) + 1
    rotation |= {"sshKey": generation, "hostKeys": generation}
    shown = cluster.stack.outputs()["sshPrivateKey"]
    cluster.kubectl("apply", "-f", "-", stdin=json.dumps(local_volume("rotation-worker-0")))
    cluster.stack.configure({"workerCount": 0, "rotation": rotation})
    with pytest.raises(LabError, match="rotation-worker-0 stays, because"):
        cluster.stack.pulumi(*UP, capture=True)
    # Its drain still needs them, although the outputs have no such node any more.
    cluster.kubectl("delete", "persistentvolume", "local")
    cluster.up()
    assert list(cluster.nodes()) == [CONTROL_PLANE]
    assert cluster.stack.outputs()["sshPrivateKey"] == shown
    assert cluster.stack.outputs()["hostKeys"] == generation - 1
    *_, old, new = ssh_keys(cluster)
    assert old == shown
    remaining = MACHINES[:-1]
    for machine in remaining:
        assert opened_by(cluster, machine, new, new)
        assert opened_by(cluster, machine, old, old)
        assert len(on_disk(cluster, machine)) == 2
    cluster.up()
    assert_only_the_newest_ssh_key_opens(cluster, remaining, generation)
    assert_only_the_newest_host_keys_are_shown(cluster, remaining, generation)
    assert cluster.up() == {}
