"""A control plane's machine, and what the other control planes and the cluster answer."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Mapping
from pathlib import Path

import pytest

from components.api_server_files import encryption_configuration
from tests.scripts.conftest import BACKUP_FOLDER, BUCKET_ENV, CA, COMMON, STORE, Machine, Result

CONFIG = "var/lib/kubelet/config.yaml"
KUBELET = "usr/bin/kubelet"
STATE = "var/lib/openstack-kubernetes"
MINE = "10.8.0.21"
DEAD = "{address} 000 0.000000\n"
READY = "{address} 200 0.001000\n"
LISTENING = "{address} 000 0.001000\n"
STATIC_PODS = ("etcd", "kube-apiserver", "kube-controller-manager", "kube-scheduler")
PODS = "etcd-demo-control-plane-1 demo-control-plane-1 True\n"
MEMBERS = (
    "11, started, demo-control-plane-1, https://10.8.0.22:2380, https://10.8.0.22:2379, false\n"
)
OWN_MEMBER = (
    "22, started, demo-control-plane-0, https://10.8.0.21:2380, https://10.8.0.21:2379, false\n"
)
# kubeadm's init and upgrade let a controller approve all that tokens of its own group ask for.
END_OF_AUTO_APPROVAL = "delete clusterrolebinding kubeadm:node-autoapprove-bootstrap"
# What the cluster has stored is what the folder says.
STORED = hashlib.sha256(b"kubeadm-init.yaml\n---\n").hexdigest()


def others(machine: Machine, **answers: str) -> None:
    """Answers of the other control planes' ports: `a22=READY` for 10.8.0.22; the rest are dead."""
    for last in range(22, 26):
        address = f"10.8.0.{last}"
        text = answers.get(f"a{last}", DEAD).format(address=address)
        machine.answer(f"^curl .*https://{address}:", text, status=0 if text != DEAD else 7)


@pytest.fixture
def make(make_machine: Callable[[Mapping[str, str]], Machine]) -> Callable[..., Machine]:
    """A control plane's machine, when no other one answers."""

    def machine(**values: str) -> Machine:
        made = make_machine(
            {
                **COMMON,
                "ROLE": "control-plane",
                "NODE_NAME": "demo-control-plane-0",
                "NODE_IP": MINE,
                "INITIALIZE": "true",
                "ETCD_DEVICE": "",
                "ETCD_IMAGE": "r.example/etcd/etcd:v1",
                "ETCD_QUOTA_BYTES": "4000",
                "CERTIFICATE_SECONDS": "31536000",
                "CLOUD_CONFIG_GROUP": str(os.getgid()),
                **values,
            }
        )
        made.environment["READY_TIMEOUT"] = "1"
        for name in (
            "kubeconfig",
            "kubeadm-init.yaml",
            "kubeadm-join.yaml",
            "etc/audit-policy.yaml",
        ):
            made.write(name, f"{name}\n")
        made.write("encryption.yaml", encryption_configuration(["c2VjcmV0"], encrypt=True))
        for name in ("ca.crt", "ca.key", "etcd/ca.crt", "etcd/ca.key"):
            made.write(f"pki/{name}", CA)
        for end in ("pub", "key"):
            made.write(f"service-account/1.{end}", f"the {end}\n")
        made.place(CONFIG, "same\n").chmod(0o644)  # as kubeadm leaves it
        made.answer("^kubelet --version", "Kubernetes v1.36.3\n")
        made.answer("config view --raw", "Q0E=")
        made.answer("get pods -l component=etcd", PODS)
        made.answer("member list", MEMBERS)
        made.answer("^mountpoint", status=1)
        made.answer("^df ", "Avail\n100000000000\n")
        made.answer("get configmap kubeadm-config .*annotations", STORED)
        others(made)
        return made

    return machine


def configure(machine: Machine) -> Result:
    return machine.run("control-plane/control-plane.sh", "configure")


def member(machine: Machine, version: str = "v1.36.3") -> Machine:
    """The same machine as a member of a healthy cluster."""
    machine.place(f"{STATE}/member", "demo\n")
    machine.place(KUBELET, f"{version}\n")
    machine.place("etc/kubernetes/kubelet.conf")
    machine.place("etc/kubernetes/audit-policy.yaml", "etc/audit-policy.yaml\n")
    for name in ("ca.crt", "apiserver.crt", "apiserver.key"):
        machine.place(f"etc/kubernetes/pki/{name}", CA)
    for pod in STATIC_PODS:
        image = f"    image: registry.k8s.io/{pod}:{version}\n"
        machine.place(
            f"etc/kubernetes/manifests/{pod}.yaml",
            "    - --initial-cluster=one,two\n    - --initial-cluster-state=existing\n" + image
            if pod == "etcd"
            else f"{image}    path: /etc/kubernetes/audit-policy.yaml\n",
        )
    machine.answer(
        "get node demo-control-plane-0", f"demo-control-plane-0||||{MINE}|v1.36.3|||True|ready"
    )
    machine.answer("^kubelet --version", f"Kubernetes {version}\n")
    others(machine, a22=READY)
    config = (machine.folder / "kubeadm-init.yaml").read_bytes()
    machine.place(f"{STATE}/kubeadm-init.sha256", hashlib.sha256(config).hexdigest() + "\n")
    return machine


ETCD_MANIFEST = """
with open(os.environ["KUBEADM_INIT_DRYRUN_DIR"] + "/etcd.yaml", "w") as manifest:
    manifest.write("    - --initial-cluster=b\\n    image: k8s/etcd:v1.36.3\\n")
"""
CERTIFICATE = (
    "for end in ('crt', 'key'):\n"
    "    open(f'{here}/../root/etc/kubernetes/pki/apiserver.{end}', 'w')\n"
)
MANIFESTS = "kind: ServiceAccount\n---\nkind: ConfigMap\ndata: new\n---\nkind: DaemonSet\n"


def with_kube_proxy(machine: Machine) -> Machine:
    """A member whose configuration has changed, kube-proxy's too."""
    member(machine)
    machine.write("kubeadm-init.yaml", "changed\n")
    machine.answer(
        "kubeadm init phase etcd", does=ETCD_MANIFEST.replace("k8s/", "registry.k8s.io/")
    )
    machine.answer("kubeadm init phase certs", does=CERTIFICATE)
    machine.answer("kubeadm init phase addon kube-proxy", MANIFESTS)
    machine.answer("get daemonset kube-proxy --ignore-not-found", "k8s/kube-proxy:v1.36.3")
    machine.answer("get daemonset kube-proxy -o jsonpath", "5|5|2|1")
    machine.answer("get configmap kube-proxy", "new")
    machine.answer("replace --dry-run=server", "new")
    return machine


NEW_MANIFESTS = """
for pod in ("apiserver", "controller-manager", "scheduler"):
    with open(f"{here}/../root/etc/kubernetes/manifests/kube-{pod}.yaml", "w") as manifest:
        manifest.write(
            f"    image: k8s/kube-{pod}:v1.36.3\\n    path: /etc/kubernetes/audit-policy.yaml\\n"
        )
"""


NEW_KUBELET = """
os.makedirs(here + "/../root/usr/bin", exist_ok=True)
with open(here + "/../root/usr/bin/kubelet", "w") as program:
    program.write("v1.36.3\\n")
"""


def before_upgrade(machine: Machine, cluster: str = "v1.36.2") -> Machine:
    """A member of the release v1.36.2; the cluster has stored this one."""
    return upgrades(member(machine, "v1.36.2"), cluster)


def upgrades(machine: Machine, cluster: str = "v1.36.2") -> Machine:
    """Its static pods change to v1.36.3 when kubeadm writes their manifests."""
    machine.restarts("etcd", "kube-apiserver")
    machine.answer("fake-install programs", does=NEW_KUBELET)
    machine.answer("kubeadm init phase control-plane", does=NEW_MANIFESTS)
    machine.answer("kubeadm init phase etcd", does=ETCD_MANIFEST)
    machine.answer("get pod kube-apiserver-demo-control-plane-0", "k8s/kube-apiserver:v1.36.3")
    machine.answer(
        "get configmap kubeadm-config .*ClusterConfiguration", f"kubernetesVersion: {cluster}\n"
    )
    return machine


TIMER = "etc/systemd/system/openstack-kubernetes-backup.timer"
UNSERVED = "var/lib/etcd/member/unserved"
SNAPSHOT = f"{BACKUP_FOLDER}/20261122T010000Z-demo-control-plane-1.db.gz"


def with_bucket(machine: Machine, names: str = "", status: str = "200") -> Machine:
    """The bucket that it has, and what is in it."""
    machine.write("bucket.env", BUCKET_ENV)
    answer = f"<IsTruncated>false</IsTruncated><Key>{names}</Key>" if names else "<nothing/>"
    machine.answer("^curl ", does=STORE.format(answer="", status="200"))
    machine.answer("^curl .*list-type=2", does=STORE.format(answer=answer, status=status))
    machine.answer("prefix=restored", does=STORE.format(answer="<nothing/>", status="200"))
    others(machine)
    return machine


def with_snapshot(machine: Machine) -> Machine:
    """The bucket has SNAPSHOT, and the image of etcd has etcdutl."""
    with_bucket(machine, SNAPSHOT)
    machine.answer(
        f"^curl .*backups/{SNAPSHOT}",
        does="import gzip, pathlib\n"
        "path = sys.argv[sys.argv.index('--output') + 1]\n"
        "pathlib.Path(path).write_bytes(gzip.compress(b'the data'))\n"
        "sys.stdout.write('200')",
    )
    return with_etcdutl(machine)


def with_etcdutl(machine: Machine, revision: int = 1234) -> Machine:
    """It has etcdutl in the image of etcd, which restores whatever it is given."""
    status = f'T stdout F {{"hash":1,"revision":{revision},"totalKey":5,"version":"3.6.0"}}\n'
    machine.answer("^kubeadm config images list", "r.example/pause:3\nr.example/etcd:3.6.8-0\n")
    machine.answer(
        "^crictl run ",
        "container-id\n",
        does="import json, pathlib\n"
        "container, pod = (json.load(open(path)) for path in sys.argv[-2:])\n"
        "pathlib.Path(here, 'container').write_text(json.dumps(container))\n"
        "work = pathlib.Path(container['mounts'][0]['host_path'])\n"
        "pathlib.Path(here, 'snapshot').write_bytes((work / 'snapshot').read_bytes())\n"
        "if 'etcd:3.6.8-0' not in container['image']['image']: sys.exit(1)\n"
        "if container['command'][2] == 'status':\n"
        f"    (work / 'etcdutl.log').write_text({status!r})\n"
        "else:\n"
        "    data = work / 'data/member/snap'\n"
        "    data.mkdir(parents=True)\n"
        "    (data / 'db').write_text('restored')",
    )
    machine.answer("^crictl inspect .*status.state", "CONTAINER_EXITED")
    machine.answer("^crictl inspect .*status.exitCode", "0")
    machine.answer("^crictl pods", "pod-id\n")
    machine.answer("^crictl pods", times=1)
    return machine


def restored(machine: Machine) -> Machine:
    """With Nodes that the snapshot knows, until they are deleted."""
    machine.answer(
        "get node demo-control-plane-0", f"demo-control-plane-0||||{MINE}|v1.36.3|||True|ready"
    )
    machine.answer("get node demo-control-plane-0", "", times=1)
    return machine


DB = "var/lib/etcd/member/snap/db"
ADOPTED = "var/lib/etcd/.adopt/snap/db"


def set_aside(machine: Machine) -> list[str]:
    """The databases whose place something else has taken, the oldest first."""
    found = (machine.root / "var/lib/etcd").glob(".before-restore-*/snap/db")
    return [path.read_text() for path in sorted(found)]


def adopt(machine: Machine, *folder: Path) -> Result:
    return machine.run("control-plane/control-plane.sh", "adopt", *map(str, folder))
