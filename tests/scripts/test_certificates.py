"""control-plane.sh renew and approve: certificates that no person looks after."""

from __future__ import annotations

import base64
import datetime
import os
import time
from collections.abc import Callable, Mapping
from ipaddress import IPv4Address

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from addons.monitoring.alerts import EXPIRY_METRIC
from tests.scripts.conftest import COMMON, USERDATA, Machine, Result, signing_request

STATE = "var/lib/openstack-kubernetes"
PKI = "etc/kubernetes/pki"
KUBELET = "var/lib/kubelet/pki/kubelet-client-current.pem"
DAY = 24 * 3600
YEAR = 365 * DAY
MEMBERS = (
    "1, started, demo-control-plane-0, https://10.8.0.21:2380, https://10.8.0.21:2379, false\n"
    "2, started, demo-control-plane-1, https://10.8.0.22:2380, https://10.8.0.22:2379, false\n"
)
LEASE = "kubectl .* get lease openstack-kubernetes-turn"
# A container's id, and another one each time it is asked after a stop.
RESTARTING = "rule['prints'] = str(len(open(here + '/calls').readlines()))"


def certificate(seconds: int) -> str:
    """One that is valid for so long."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "test")])
    now = datetime.datetime.now(datetime.UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(1)
        .not_valid_before(now - datetime.timedelta(days=400))
        .not_valid_after(now + datetime.timedelta(seconds=seconds))
        .sign(key, hashes.SHA256())
    )
    return made.public_bytes(serialization.Encoding.PEM).decode()


def kubeconfig(seconds: int) -> str:
    data = base64.b64encode(certificate(seconds).encode()).decode()
    return f"users:\n- name: x\n  user:\n    client-certificate-data: {data}\n"


@pytest.fixture
def machine(make_machine: Callable[[Mapping[str, str]], Machine]) -> Machine:
    """A member of a healthy cluster of two, with certificates that were renewed yesterday."""
    made = make_machine(
        {
            **COMMON,
            "ROLE": "control-plane",
            "NODE_NAME": "demo-control-plane-0",
            "NODE_IP": "10.8.0.21",
            "CERTIFICATE_SECONDS": str(YEAR),
        }
    )
    (made.fakes / "openssl").unlink()
    made.place(f"{STATE}/member", "demo\n")
    made.place("etc/openstack-kubernetes/kubeadm-init.yaml", "kubeadm's\n")
    made.place("etc/kubernetes/kubelet.conf", "certificate: a link\n")
    for name in ("ca", "front-proxy-ca", "etcd/ca"):
        made.place(f"{PKI}/{name}.crt", certificate(10))
    for name in ("apiserver", "front-proxy-client", "etcd/server"):
        made.place(f"{PKI}/{name}.crt", certificate(YEAR - DAY))
    made.place("etc/kubernetes/admin.conf", kubeconfig(YEAR - DAY))
    made.place(KUBELET, certificate(YEAR - DAY))
    made.answer("^crictl ps", does=RESTARTING)
    made.answer("member list", MEMBERS)
    made.answer(LEASE, "8|demo-control-plane-0|2026-01-01T00:00:00.000000Z")
    made.answer(LEASE, times=1)
    return made


def renew(machine: Machine) -> Result:
    return machine.run("control-plane/control-plane.sh", "renew")


def test_young_certificates_stay(machine: Machine) -> None:
    result = renew(machine)
    assert result.status == 0, result
    assert not machine.called("kubeadm")
    assert not machine.called("crictl stop")


@pytest.mark.parametrize("starts", [True, False])
def test_a_kubelet_that_is_stopped_starts_again(machine: Machine, *, starts: bool) -> None:
    machine.answer("^systemctl is-active --quiet kubelet", status=3)
    machine.answer("^systemctl start kubelet", status=int(not starts))
    machine.place(f"{PKI}/apiserver.crt", certificate(YEAR // 3 - DAY))
    result = renew(machine)
    assert result.status == 0, result
    machine.order("systemctl start kubelet.service", "kubeadm certs renew all")
    assert ("the kubelet does not start" in result.log) is not starts


@pytest.mark.parametrize(
    ("path", "text"),
    [
        (f"{PKI}/apiserver.crt", certificate(YEAR // 3 - DAY)),
        (f"{PKI}/etcd/server.crt", certificate(YEAR // 3 - DAY)),
        ("etc/kubernetes/admin.conf", kubeconfig(YEAR // 3 - DAY)),
    ],
)
def test_all_are_renewed_when_a_third_of_the_life_of_one_is_left(
    machine: Machine, path: str, text: str
) -> None:
    machine.place(path, text)
    result = renew(machine)
    assert result.status == 0, result
    machine.order("create -f -", "kubeadm certs renew all", "crictl stop", "patch lease")
    assert len(machine.called("crictl stop")) == 4
    assert not machine.has(f"{STATE}/renewed")


def test_the_kubelet_and_the_authorities_are_not_kubeadms_to_renew(machine: Machine) -> None:
    machine.place("etc/kubernetes/kubelet.conf", kubeconfig(DAY))
    assert renew(machine).status == 0
    assert not machine.called("kubeadm certs renew")


@pytest.mark.parametrize(
    ("rule", "answer"),
    [
        ("endpoint health", {"status": 1}),
        ("^curl .*https://10.8.0.22:6443/readyz", {"status": 22}),
        (LEASE, {"prints": "7|demo-control-plane-1|2099-01-01T00:00:00.000000Z"}),
        ("create -f -", {"status": 1}),
    ],
    ids=["a member of etcd is down", "an API server is down", "another's turn", "another is first"],
)
def test_a_renewal_waits_for_its_turn(
    machine: Machine, rule: str, answer: dict[str, object]
) -> None:
    machine.place(f"{PKI}/apiserver.crt", certificate(30 * DAY))
    machine.answer(rule, **answer)  # type: ignore[arg-type]
    result = renew(machine)
    assert result.status == 0, result
    assert not machine.called("kubeadm")
    assert not machine.called("crictl stop")


def test_a_renewal_and_kureds_reboots_wait_for_each_other(machine: Machine) -> None:
    machine.place(f"{PKI}/apiserver.crt", certificate(30 * DAY))
    machine.answer("get daemonset kured", '41|{"nodeID":"demo-control-plane-1"}')
    machine.answer("get node demo-control-plane-1", "node/demo-control-plane-1")
    result = renew(machine)
    assert result.status == 0, result
    assert "not now: kured reboots demo-control-plane-1" in result.log
    assert not machine.called("kubeadm")

    machine.answer("get daemonset kured", "41|")
    assert renew(machine).status == 0
    machine.order("annotate daemonset kured", "create -f -", "kubeadm certs renew all")


LOST = {
    "endpoint health": {"status": 1},
    "^curl .*https://10.8.0.22:6443/readyz": {"status": 22},
    "get daemonset kured": {"prints": '41|{"nodeID":"demo-control-plane-1"}'},
    "get node demo-control-plane-1": {"prints": "node/demo-control-plane-1"},
}


def lose_the_other(machine: Machine) -> None:
    """The other control plane is down, since kured has rebooted it."""
    for rule, answer in LOST.items():
        machine.answer(rule, **answer)  # type: ignore[arg-type]


def test_a_lost_control_plane_is_not_waited_for_until_certificates_expire(machine: Machine) -> None:
    lose_the_other(machine)
    machine.place(f"{PKI}/apiserver.crt", certificate(YEAR // 24 + DAY))
    assert renew(machine).status == 0
    assert not machine.called("kubeadm")

    machine.place(f"{PKI}/apiserver.crt", certificate(YEAR // 24 - DAY))
    result = renew(machine)
    assert result.status == 0, result
    machine.order("create -f -", "kubeadm certs renew all", "crictl stop", "patch lease")
    assert len(machine.called("crictl stop")) == 4
    assert not machine.has(f"{STATE}/renewed")


def test_nor_after_the_interruption_of_such_a_renewal(machine: Machine) -> None:
    lose_the_other(machine)
    machine.place(f"{PKI}/apiserver.crt", certificate(DAY))
    machine.answer("^crictl stop", status=1, times=1)
    assert renew(machine).status == 1
    machine.place(f"{PKI}/apiserver.crt", certificate(YEAR - 60))
    machine.rules = [rule for rule in machine.rules if not rule["times"]]
    assert renew(machine).status == 0
    assert len(machine.called("crictl stop")) == 4


def test_what_still_runs_with_earlier_certificates_restarts_before_they_expire(
    machine: Machine,
) -> None:
    """All were renewed; then another control plane was lost for good."""
    machine.place(f"{STATE}/renewed", "in-turn\n")
    machine.answer("endpoint health", status=1)
    assert renew(machine).status == 0
    assert not machine.called("crictl stop")
    long_ago = time.time() - 100 * 24 * 3600
    os.utime(machine.root / STATE / "renewed", (long_ago, long_ago))
    assert renew(machine).status == 0
    assert machine.called("crictl stop")
    assert not machine.has(f"{STATE}/renewed")


def test_the_turn_of_a_lost_control_plane_ends(machine: Machine) -> None:
    machine.place(f"{PKI}/apiserver.crt", certificate(30 * DAY))
    machine.answer(LEASE, "7|demo-control-plane-1|2026-01-01T00:00:00.000000Z")
    assert renew(machine).status == 0
    machine.order("replace -f -", "kubeadm certs renew all")
    taken = next(each for each in machine.recorded if "replace -f -" in each["line"])
    assert "holderIdentity: demo-control-plane-0" in taken["stdin"]
    assert 'resourceVersion: "7"' in taken["stdin"]


def test_what_an_interrupted_renewal_did_not_restart_is_restarted(machine: Machine) -> None:
    machine.place(f"{PKI}/apiserver.crt", certificate(30 * DAY))
    machine.answer("^crictl stop", status=1, times=1)
    assert renew(machine).status == 1
    # kubeadm had renewed it.
    machine.place(f"{PKI}/apiserver.crt", certificate(YEAR - 60))
    machine.rules = [rule for rule in machine.rules if not rule["times"]]
    assert renew(machine).status == 0
    assert len(machine.called("crictl stop")) == 4
    assert renew(machine).status == 0
    assert not machine.called("crictl stop")


@pytest.mark.parametrize("left", ["in-turn", "late"])
def test_one_interrupted_within_kubeadm_is_completed_though_its_etcd_does_not_start(
    machine: Machine, left: str
) -> None:
    """A key without its certificate ends etcd, and the turn needs one that is healthy."""
    machine.place(f"{STATE}/renewed", f"{left}\n")
    machine.place(f"{PKI}/etcd/server.crt", certificate(30 * DAY))
    machine.answer("^crictl ps", prints="")
    machine.answer("^kubectl", status=1)
    # Between it and the script is its time limit.
    kill = "os.kill(int(open(f'/proc/{os.getppid()}/stat').read().split()[3]), 9)"
    machine.answer("kubeadm certs renew all", does=kill)
    assert renew(machine).status == 0
    assert not machine.called("kubeadm")

    machine.place(f"{STATE}/renewing")
    assert renew(machine).status == -9
    machine.answer("kubeadm certs renew all")
    machine.place(f"{PKI}/etcd/server.crt", certificate(YEAR - 60))
    result = renew(machine)
    assert result.status == 0, result
    assert len(machine.called("kubeadm certs renew all")) == 1
    assert "not now: " in result.log
    assert not machine.has(f"{STATE}/renewing")
    assert renew(machine).status == 0
    assert not machine.called("kubeadm")


def test_expired_ones_are_renewed_while_nothing_answers(machine: Machine) -> None:
    machine.place(f"{PKI}/apiserver.crt", certificate(-DAY))
    machine.answer("^kubectl", status=1)
    machine.answer("^curl", status=7)
    machine.answer("endpoint health", status=1)
    result = renew(machine)
    assert result.status == 0, result
    machine.order("kubeadm certs renew all", "crictl stop")
    assert len(machine.called("crictl stop")) == 4


def test_an_interrupted_renewal_of_expired_ones_needs_no_turn_either(machine: Machine) -> None:
    machine.place(f"{PKI}/apiserver.crt", certificate(-DAY))
    machine.answer("^kubectl", status=1)
    machine.answer("^crictl stop", status=1, times=1)
    assert renew(machine).status == 1
    machine.place(f"{PKI}/apiserver.crt", certificate(YEAR - 60))
    machine.rules = [rule for rule in machine.rules if not rule["times"]]
    assert renew(machine).status == 0
    assert len(machine.called("crictl stop")) == 4


def test_an_expired_kubelet_gets_a_certificate_before_the_pods_need_it(machine: Machine) -> None:
    machine.place(KUBELET, certificate(-DAY))
    machine.place(f"{PKI}/apiserver.crt", certificate(-DAY))
    made = base64.b64encode(b"made by kubeadm\n").decode()
    machine.answer(
        "kubeadm init phase kubeconfig kubelet",
        does="import pathlib\n"
        "folder = sys.argv[sys.argv.index('--kubeconfig-dir') + 1]\n"
        "pathlib.Path(folder, 'kubelet.conf').write_text("
        f"'    client-certificate-data: {made}\\n    client-key-data: {made}\\n')",
    )
    result = renew(machine)
    assert result.status == 0, result
    machine.order("systemctl restart kubelet.service", "kubeadm certs renew all")
    link = machine.root / KUBELET
    assert link.is_symlink()
    assert link.read_text() == "made by kubeadm\n" * 2
    assert link.resolve().stat().st_mode & 0o777 == 0o600
    assert machine.read("etc/kubernetes/kubelet.conf") == "certificate: a link\n"


def test_the_expiry_of_each_is_reported_for_the_alert(machine: Machine) -> None:
    machine.place(f"{PKI}/apiserver.crt", certificate(YEAR - 5 * DAY))
    assert renew(machine).status == 0
    lines = machine.read(f"{STATE}/metrics/certificates.prom").splitlines()
    found = {line.rsplit(" ", 1)[0]: line.rsplit(" ", 1)[1] for line in lines if line[0] != "#"}
    left = int(found[f'{EXPIRY_METRIC}{{certificate="/{PKI}/apiserver.crt"}}']) - (
        datetime.datetime.now(datetime.UTC).timestamp()
    )
    assert abs(left - (YEAR - 5 * DAY)) < 60
    assert f'{EXPIRY_METRIC}{{certificate="/etc/kubernetes/admin.conf"}}' in found
    assert f'{EXPIRY_METRIC}{{certificate="/{KUBELET}"}}' in found
    assert f'{EXPIRY_METRIC}{{certificate="/{PKI}/ca.crt"}}' not in found


# --- serving certificates -----------------------------------------------------------------------


WORKER = "system:node:demo-worker-0"
OWN = (x509.DNSName("demo-worker-0"), x509.IPAddress(IPv4Address("10.8.0.40")))


def approve(machine: Machine, wanted: str, user: str = WORKER) -> list[str]:
    machine.answer("get nodes", "demo-control-plane-0 10.8.0.21\ndemo-worker-0 10.8.0.40\nstray \n")
    machine.answer("get certificatesigningrequests", f"csr-1 {user} {wanted}\n")
    result = machine.run("control-plane/control-plane.sh", "approve")
    assert result.status == 0, result
    return machine.called("certificate approve csr-1")


def test_a_kubelet_gets_a_certificate_for_its_own_name_and_address(machine: Machine) -> None:
    assert approve(machine, signing_request(WORKER, *OWN))


@pytest.mark.parametrize(
    ("user", "wanted"),
    [
        (WORKER, signing_request(WORKER, *OWN, x509.IPAddress(IPv4Address("10.8.0.21")))),
        (WORKER, signing_request(WORKER, *OWN, x509.DNSName("demo-control-plane-0"))),
        (WORKER, signing_request("system:node:demo-control-plane-0", *OWN)),
        (WORKER, signing_request(WORKER, *OWN, organization="system:masters")),
        (WORKER, signing_request(WORKER)),
        (WORKER, "bm8gcmVxdWVzdA=="),
        ("system:node:stray", signing_request("system:node:stray", x509.DNSName("stray"))),
        ("system:node:unknown", signing_request("system:node:unknown", x509.DNSName("unknown"))),
        ("demo-worker-0", signing_request(WORKER, *OWN)),
    ],
    ids=[
        "another's address", "another's name", "another node", "another group", "no names",
        "no request", "no label", "no Node", "no kubelet",
    ],
)  # fmt: skip
def test_no_one_gets_a_certificate_for_another_node(
    machine: Machine, user: str, wanted: str
) -> None:
    assert not approve(machine, wanted, user)


def test_one_bad_request_does_not_hold_up_the_others(machine: Machine) -> None:
    machine.answer("get nodes", "demo-worker-0 10.8.0.40\n")
    good, bad = signing_request(WORKER, *OWN), signing_request(WORKER, x509.DNSName("other"))
    machine.answer(
        "get certificatesigningrequests", f"csr-1 {WORKER} {bad}\ncsr-2 {WORKER} {good}\n"
    )
    assert machine.run("control-plane/control-plane.sh", "approve").status == 0
    assert [line.split()[-1] for line in machine.called("certificate approve")] == ["csr-2"]


def test_neither_of_the_two_keeps_the_other_from_running() -> None:
    unit = (USERDATA / "control-plane/files/openstack-kubernetes-certificates.service").read_text()
    *first, last = [line for line in unit.splitlines() if line.startswith("ExecStart=")]
    # systemd ends a unit with the first command that fails, unless there is a `-` in front of it.
    assert all(line.startswith("ExecStart=-") and line.endswith(" approve") for line in first)
    assert last.endswith(" renew")


def test_the_label_that_is_trusted_is_one_that_kubelets_cannot_set(machine: Machine) -> None:
    approve(machine, signing_request(WORKER, *OWN))
    asked = machine.called("get nodes")[0]
    assert "node-restriction\\.kubernetes\\.io/" in asked
