"""The rotation of the certificate authorities: on control planes, on nodes, and their order."""

from __future__ import annotations

import base64
from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from tests.scripts.conftest import COMMON, Machine, Result

PKI = "etc/kubernetes/pki"
KUBELET_PKI = "var/lib/kubelet/pki"
CONF = "etc/kubernetes/kubelet.conf"
NODES = {
    "demo-control-plane-0": ("control-plane", "10.8.0.21"),
    "demo-control-plane-1": ("control-plane", "10.8.0.22"),
    "demo-worker-0": ("worker", "10.8.0.31"),
    "metal-1": ("worker", "10.8.0.200"),
}
MINE = "10.8.0.21"


class Authority:
    """A certificate authority, as pulumi-tls makes one."""

    def __init__(self, name: str) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        self.key = private(self._key)
        self.certificate = self.sign(self._name, self._key, authority=True)

    def sign(self, name: x509.Name, key: ec.EllipticCurvePrivateKey, *, authority: bool) -> str:
        now = datetime.now(UTC)
        builder = (
            x509.CertificateBuilder()
            .subject_name(name)
            .issuer_name(self._name)
            .public_key(key.public_key())
            .serial_number(x509.random_serial_number())
            .not_valid_before(now)
            .not_valid_after(now + timedelta(days=1))
            .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
        )
        signed = builder.sign(self._key, hashes.SHA256())
        return signed.public_bytes(serialization.Encoding.PEM).decode()

    def issue(self, name: str) -> str:
        """A certificate and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
        return self.sign(subject, key, authority=False) + private(key)

    def cross_sign(self, other: Authority) -> str:
        return self.sign(other._name, other._key, authority=True)


def private(key: ec.EllipticCurvePrivateKey) -> str:
    return key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.TraditionalOpenSSL,
        serialization.NoEncryption(),
    ).decode()


NAMES = ("ca", "front-proxy-ca", "etcd/ca")
OLD = {name: Authority(name) for name in NAMES}
NEW = {name: Authority(f"{name}-2") for name in NAMES}
CROSS = OLD["ca"].cross_sign(NEW["ca"])
ISSUED = {
    "apiserver.crt": "ca",
    "apiserver-etcd-client.crt": "etcd/ca",
    "front-proxy-client.crt": "front-proxy-ca",
    "etcd/server.crt": "etcd/ca",
}


def kubeconfig(trusted: str, certificate: str = "") -> str:
    """As kubeadm writes it; the kubelet's names files."""
    lines = f"clusters:\n- cluster:\n    certificate-authority-data: {encoded(trusted)}\n"
    user = f"users:\n- user:\n    client-certificate-data: {encoded(certificate)}\n"
    return lines + (user if certificate else "")


def encoded(text: str) -> str:
    return base64.b64encode(text.encode()).decode()


def trusted_in(machine: Machine, conf: str) -> str:
    [line] = [each for each in machine.read(conf).splitlines() if "authority-data" in each]
    return base64.b64decode(line.split()[-1]).decode()


# kubeadm signs with the first certificate of each file, and knows no chain.
RENEWED = """
import base64, pathlib
root = pathlib.Path(here, "../root")
for name, texts in {issued!r}.items():
    old, new, first = texts[0], texts[1], (root / texts[2]).read_text().startswith(texts[3])
    (root / name).write_text(new if first else old)
"""


@pytest.fixture
def make(make_machine: Callable[[Mapping[str, str]], Machine]) -> Callable[..., Machine]:
    """A member whose certificates are of the old authorities."""

    def machine(generation: int = 2) -> Machine:
        made = make_machine(
            {
                **COMMON,
                "ROLE": "control-plane",
                "NODE_NAME": "demo-control-plane-0",
                "NODE_IP": MINE,
                "CERTIFICATE_SECONDS": "31536000",
            }
        )
        (made.fakes / "openssl").unlink()
        for name in NAMES:
            both = OLD[name].certificate + (NEW[name].certificate if generation == 2 else "")
            made.write(f"pki/{name}.crt", both)
            made.write(f"pki/{name}.key", OLD[name].key)
            made.place(f"{PKI}/{name}.crt", OLD[name].certificate)
            made.place(f"{PKI}/{name}.key", OLD[name].key)
            if generation == 2:
                made.write(f"pki/next/{name}.crt", NEW[name].certificate)
                made.write(f"pki/next/{name}.key", NEW[name].key)
                made.write("pki/next/cross-signed.crt", CROSS)
        renewed = {
            f"{PKI}/{file}": (
                OLD[by].issue(file),
                NEW[by].issue(file),
                f"{PKI}/{by}.crt",
                NEW[by].certificate,
            )
            for file, by in ISSUED.items()
        }
        for path, (old, *_) in renewed.items():
            made.place(path, old)
        made.place(CONF, kubeconfig(OLD["ca"].certificate))
        made.place("etc/kubernetes/kubeadm-init.yaml")
        made.answer("^kubeadm certs renew", does=RENEWED.format(issued=renewed))
        made.answer("^kubectl .*config view", "")
        made.restarts(*ALL_PODS)
        made.members(MINE)
        return made

    return machine


def library(machine: Machine, commands: str) -> Result:
    """Run commands with the control plane's files for this loaded, and what is served known."""
    files = (
        "cluster/kubectl.sh node/authorities.sh node/kubelet-certificates.sh node/node.sh "
        "cluster/etcdctl.sh control-plane/kubernetes-files.sh "
        "control-plane/authorities.sh control-plane/static-pods.sh control-plane/turn.sh "
        "control-plane/certificates.sh control-plane/renew.sh"
    )
    served = "serves() { true; }; own_api_is_ready() { true; }; wait_for_own_api() { true; }"
    others = "others_are_well() { true; }; wait_for_turn() { true; }"
    return machine.library(files, f"remember_changes\n{served}\n{others}\n{commands}")


def kept(make: Callable[..., Machine]) -> Machine:
    """A member that has been configured with the next authorities."""
    machine = make()
    result = library(machine, "update_authorities; forget_changes")
    assert result.status == 0, result
    return machine


def restarted(machine: Machine) -> list[str]:
    return [line.split()[-1].rpartition("-")[0] for line in machine.called("crictl stop")]


# The API server before etcd, which waits for its open watches.
ALL_PODS = ["kube-apiserver", "etcd", "kube-controller-manager", "kube-scheduler"]


def certificates(machine: Machine, name: str) -> list[str]:
    """The certificates of a file, whatever their line ends."""
    end = "-----END CERTIFICATE-----\n"
    return [f"{each}{end}" for each in machine.read(f"{PKI}/{name}").split(end)[:-1]]


def test_configure_keeps_what_is_in_use_and_brings_what_comes(make: Callable[..., Machine]) -> None:
    machine = kept(make)
    for name in NAMES:
        assert machine.read(f"{PKI}/{name}.crt") == OLD[name].certificate
        assert machine.read(f"{PKI}/{name}.key") == OLD[name].key
        assert machine.read(f"{PKI}/next/{name}.key") == NEW[name].key
    assert (machine.root / PKI / "next/ca.key").stat().st_mode & 0o777 == 0o600
    assert certificates(machine, "issuing-ca.crt") == [OLD["ca"].certificate]


def test_without_another_generation_nothing_is_added(make: Callable[..., Machine]) -> None:
    machine = make(generation=1)
    result = library(machine, "update_authorities; complete_certificates")
    assert result.status == 0, result
    assert "wrote" not in result.log
    assert not machine.has(f"{PKI}/next")


def test_a_folder_without_the_clusters_ca_is_refused(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.write("pki/ca.crt", NEW["ca"].certificate)
    result = library(machine, "update_authorities")
    assert result.status == 1
    assert "not that of the cluster" in result.log


def test_everything_trusts_both_and_the_old_one_issues(make: Callable[..., Machine]) -> None:
    machine = kept(make)
    result = library(machine, "authorities trust; forget_changes")
    assert result.status == 0, result
    for name in NAMES:
        both = [OLD[name].certificate, NEW[name].certificate]
        assert certificates(machine, f"{name}.crt") == both
        assert machine.read(f"{PKI}/{name}.key") == OLD[name].key
    assert trusted_in(machine, CONF) == machine.read(f"{PKI}/ca.crt")
    assert restarted(machine) == ALL_PODS
    assert machine.called("systemctl restart kubelet")
    library(machine, "authorities trust; forget_changes")
    assert restarted(machine) == []


def test_a_step_that_was_interrupted_before_its_restarts_makes_them_up(
    make: Callable[..., Machine],
) -> None:
    machine = kept(make)
    assert library(machine, "restart_static_pods() { die stop; }; authorities trust").status == 1
    assert restarted(machine) == []
    assert library(machine, "authorities trust; forget_changes").status == 0
    assert restarted(machine) == ALL_PODS


def test_the_new_ones_issue_and_old_clients_can_follow(make: Callable[..., Machine]) -> None:
    machine = kept(make)
    result = library(machine, "authorities trust; authorities issue; forget_changes")
    assert result.status == 0, result
    for name in NAMES:
        both = [NEW[name].certificate, OLD[name].certificate]
        assert certificates(machine, f"{name}.crt") == both
        assert machine.read(f"{PKI}/{name}.key") == NEW[name].key
    assert certificates(machine, "issuing-ca.crt") == [NEW["ca"].certificate]
    leaf, cross = certificates(machine, "apiserver.crt")
    assert cross == CROSS
    check = f"printf '%s' '{leaf}' >leaf; printf '%s' '{cross}' >cross; printf '%s' "
    for root, chain in ((NEW, ""), (OLD, "-untrusted cross")):
        verify = f"'{root['ca'].certificate}' >root; openssl verify -CAfile root {chain} leaf"
        assert library(machine, check + verify).status == 0
    library(machine, "authorities issue")
    assert machine.called("certs renew") == []
    assert restarted(machine) == []


def test_one_that_joined_with_both_and_the_old_issuer_comes_to_the_same_end(
    make: Callable[..., Machine],
) -> None:
    machine = make()
    result = library(machine, "copy_authorities; complete_certificates; forget_changes")
    assert result.status == 0, result
    assert library(machine, "authorities forget").status == 1
    result = library(machine, "authorities issue; authorities forget; forget_changes")
    assert result.status == 0, result
    for name in NAMES:
        assert certificates(machine, f"{name}.crt") == [NEW[name].certificate]
    library(machine, "authorities issue; authorities forget")
    assert restarted(machine) == []


def test_no_one_issues_before_it_trusts(make: Callable[..., Machine]) -> None:
    result = library(kept(make), "authorities issue")
    assert result.status == 1
    assert "does not trust the newest CAs yet" in result.log


def test_a_renewal_in_between_keeps_chain_and_trust(make: Callable[..., Machine]) -> None:
    machine = kept(make)
    library(machine, "authorities trust; authorities issue; forget_changes")
    machine.place(CONF, kubeconfig(NEW["ca"].certificate))
    result = library(machine, "run_renewal")
    assert result.status == 0, result
    assert certificates(machine, "apiserver.crt")[1:] == [CROSS]
    assert trusted_in(machine, CONF) == machine.read(f"{PKI}/ca.crt")


def test_the_old_ones_are_forgotten_when_nothing_is_theirs(make: Callable[..., Machine]) -> None:
    machine = kept(make)
    early = library(machine, "authorities trust; authorities forget")
    assert early.status == 1
    assert f"{PKI}/apiserver.crt" in early.log
    result = library(machine, "authorities issue; authorities forget; forget_changes")
    assert result.status == 0, result
    for name in NAMES:
        assert certificates(machine, f"{name}.crt") == [NEW[name].certificate]
    assert trusted_in(machine, CONF) == NEW["ca"].certificate
    # Who has not read the new one yet can still follow.
    assert certificates(machine, "apiserver.crt")[1:] == [CROSS]


# --- a node -------------------------------------------------------------------------------------


@pytest.fixture
def worker(make_machine: Callable[[Mapping[str, str]], Machine]) -> Machine:
    """A worker whose kubelet has certificates of the old authority."""
    made = make_machine(
        {**COMMON, "ROLE": "worker", "NODE_NAME": "demo-worker-0", "NODE_IP": "10.8.0.31"}
    )
    (made.fakes / "openssl").unlink()
    made.place("etc/openstack-kubernetes/ca.crt", OLD["ca"].certificate + NEW["ca"].certificate)
    made.place(f"{PKI}/ca.crt", OLD["ca"].certificate)
    made.place(CONF, kubeconfig(OLD["ca"].certificate))
    for kind in ("client", "server"):
        file = made.place(f"{KUBELET_PKI}/kubelet-{kind}-first.pem", OLD["ca"].issue(kind))
        (file.parent / f"kubelet-{kind}-current.pem").symlink_to(file)
        made.answer(
            f"^kubectl .*get csr-{kind} ", encoded(NEW["ca"].issue(kind).split("-----BEGIN EC")[0])
        )
    made.answer(
        "^kubectl .*create -o name -f -",
        does="text = open(here + '/calls').read()\n"
        "kind = 'client' if text.count('create -o name') == 1 else 'server'\n"
        "rule['prints'] = f'csr-{kind}\\n'",
    )
    return made


def node_step(machine: Machine, step: str, authority: Authority = NEW["ca"]) -> Result:
    return machine.run("worker/worker.sh", "authorities", step, stdin=authority.certificate)


def current(machine: Machine, kind: str) -> str:
    return machine.read(f"{KUBELET_PKI}/kubelet-{kind}-current.pem")


def test_a_kubelet_trusts_what_the_last_run_brought(worker: Machine) -> None:
    result = node_step(worker, "trust")
    assert result.status == 0, result
    both = OLD["ca"].certificate + NEW["ca"].certificate
    assert worker.read(f"{PKI}/ca.crt") == both
    assert trusted_in(worker, CONF) == both
    assert worker.called("systemctl restart kubelet")
    node_step(worker, "trust")
    assert not worker.called("systemctl restart kubelet")


def test_a_kubelet_gets_both_certificates_and_restarts_once(worker: Machine) -> None:
    assert node_step(worker, "check").status == 1
    result = node_step(worker, "certificates")
    assert result.status == 0, result
    assert len(worker.called("systemctl restart kubelet")) == 1
    for kind in ("client", "server"):
        assert "PRIVATE KEY" in current(worker, kind)
        mode = (worker.root / KUBELET_PKI / f"kubelet-{kind}-current.pem").stat().st_mode
        assert mode & 0o777 == 0o600
    assert node_step(worker, "check").status == 0
    node_step(worker, "certificates")
    assert worker.called("create -o name") == []
    assert not worker.called("systemctl restart kubelet")


def test_what_the_kubelet_asks_for_is_what_the_scripts_approve(worker: Machine) -> None:
    node_step(worker, "certificates")
    asked = [entry["stdin"] for entry in worker.recorded if "create -o name -f -" in entry["line"]]
    subjects = []
    for text in asked:
        pem = base64.b64decode(text.split("request: ")[1].strip())
        request = x509.load_pem_x509_csr(pem)
        assert request.subject.rfc4514_string() == "CN=system:node:demo-worker-0,O=system:nodes"
        subjects.append(
            [str(each.value) for extension in request.extensions for each in extension.value]
        )
    assert subjects == [[], ["demo-worker-0", "10.8.0.31"]]


def test_a_certificate_of_the_old_authority_is_not_taken(worker: Machine) -> None:
    before = current(worker, "client")
    stale = OLD["ca"].issue("client").split("-----BEGIN EC")[0]
    worker.answer("^kubectl .*get csr-client ", encoded(stale))
    result = node_step(worker, "certificates")
    assert result.status == 1
    assert "issued by another CA" in result.log
    assert current(worker, "client") == before


# --- the gateway --------------------------------------------------------------------------------


# The annotation of a namespace, as the API server keeps it.
NOTE = """import pathlib, sys
pathlib.Path(__file__).with_name("noted").write_text(sys.argv[-1].partition("=")[2])
"""
NOTED = """import pathlib
noted = pathlib.Path(__file__).with_name("noted")
print(noted.read_text() if noted.exists() else "", end="")
"""


PUBLISHED = "extension-apiserver-authentication"


@pytest.fixture
def gateway(make_machine: Callable[[Mapping[str, str]], Machine]) -> Machine:
    made = make_machine(
        {
            **COMMON,
            "NODE_NAME": "demo-certificate-authorities",
            "CONTROL_PLANES": "10.8.0.21 10.8.0.22",
            "PHASE": "issue",
        }
    )
    made.write("authority.crt", NEW["ca"].certificate)
    made.write("kubeconfig", "")
    made.write("ssh_key", "key\n")
    made.write(
        "known_hosts", "".join(f"{each} ecdsa-sha2-nistp256 AAAA\n" for _, each in NODES.values())
    )
    lines = [f"{name} {role} debian {each}\n" for name, (role, each) in NODES.items()]
    made.write("nodes", "".join(lines))
    made.answer("^kubectl .*get nodes", "\n".join(NODES) + "\n")
    made.answer("^kubectl .*get nodes .*labels", "")
    made.answer("^kubectl .*get namespace kube-system", does=NOTED)
    made.answer("^kubectl .*annotate", does=NOTE)
    made.answer("get pods -l component=etcd", "etcd-0 demo-control-plane-0 True\n")
    made.answer("get configmap kube-root-ca.crt", NEW["ca"].certificate)
    made.answer(f"get configmap {PUBLISHED}", NEW["ca"].certificate)
    made.answer("^kubectl .*get deployment metrics-server", "deployment/metrics-server\n")
    made.members("10.8.0.21", "10.8.0.22")
    return made


def rotate(machine: Machine, phase: str = "issue") -> Result:
    text = (machine.folder / "node.env").read_text()
    machine.write("node.env", text.replace("PHASE='issue'", f"PHASE='{phase}'"))
    return machine.run("cluster/certificate-authorities.sh", "rotate")


def steps(machine: Machine) -> list[tuple[str, str]]:
    """Steps that ran, each with its machine; those on nodes in any order."""
    done = [
        (line.split(".sh authorities ")[1].split()[0], line.split("@")[1].split()[0])
        for line in machine.called("ssh ")
    ]
    order = list(dict.fromkeys(done))
    return sorted(done, key=lambda each: ([name for name, _ in order].index(each[0]), each[1]))


EVERY = sorted(address for _, address in NODES.values())
WORKERS = sorted(address for role, address in NODES.values() if role == "worker")
CONTROL_PLANES = ["10.8.0.21", "10.8.0.22"]


def test_all_trust_then_control_planes_issue_then_the_kubelets_follow(gateway: Machine) -> None:
    result = rotate(gateway)
    assert result.status == 0, result
    assert steps(gateway) == [
        *(("trust", each) for each in EVERY),
        *(("issue", each) for each in CONTROL_PLANES),
        *(("certificates", each) for each in EVERY),
    ]
    gateway.order(
        "authorities issue", "patch deployment metrics-server", "authorities certificates"
    )
    sent = [e["stdin"] for e in gateway.recorded if "authorities certificates" in e["line"]]
    assert set(sent) == {NEW["ca"].certificate}


@pytest.mark.parametrize("status", [0, 1])
def test_metrics_server_is_left_out_only_where_the_api_says_that_there_is_none(
    gateway: Machine, status: int
) -> None:
    gateway.answer("get deployment metrics-server", status=status)
    result = rotate(gateway)
    assert result.status == status, result
    assert not gateway.called("patch deployment")
    assert ("the next pulumi up continues" in result.log) == (status == 1)


def test_everyone_is_asked_before_anyone_forgets(gateway: Machine) -> None:
    result = rotate(gateway, "forget")
    assert result.status == 0, result
    assert steps(gateway) == [
        *(("issue", each) for each in CONTROL_PLANES),
        *(("certificates", each) for each in EVERY),
        *(("check", each) for each in EVERY),
        *(("forget", each) for each in CONTROL_PLANES),
        *(("trust", each) for each in WORKERS),
    ]


def test_servers_that_ask_the_api_whom_to_trust_forget_the_old_ones_too(gateway: Machine) -> None:
    both = OLD["ca"].certificate + NEW["ca"].certificate
    gateway.answer(f"get configmap {PUBLISHED}", "", times=1)
    gateway.answer(f"get configmap {PUBLISHED}", both, times=1)
    result = rotate(gateway, "forget")
    assert result.status == 0, result
    assert len(gateway.called(f"delete configmap {PUBLISHED}")) == 1
    gateway.order("authorities forget", f"delete configmap {PUBLISHED}")


def test_an_api_server_that_publishes_the_old_ones_again_stops_the_end(gateway: Machine) -> None:
    gateway.environment["PUBLISH_TIMEOUT"] = "1"
    gateway.answer(f"get configmap {PUBLISHED}", OLD["ca"].certificate + NEW["ca"].certificate)
    result = rotate(gateway, "forget")
    assert result.status == 1
    assert f"the ConfigMap {PUBLISHED} still has other CAs" in result.log
    assert not gateway.called("annotate")


@pytest.mark.parametrize(
    ("fails", "last"),
    [("10.8.0.22 .*issue", "issue"), ("10.8.0.31 .*certificates", "certificates")],
)
def test_who_came_late_and_does_not_get_new_certificates_stops_the_end(
    gateway: Machine, fails: str, last: str
) -> None:
    gateway.answer(f"^ssh .*{fails}", status=1)
    result = rotate(gateway, "forget")
    assert result.status == 1
    assert "the next pulumi up continues" in result.log
    assert steps(gateway)[-1][0] == last


@pytest.mark.parametrize("fails", ["debian@10.8.0.200 .*authorities check", "10.8.0.21 .*check"])
def test_who_does_not_answer_or_is_not_ready_stops_the_end(gateway: Machine, fails: str) -> None:
    gateway.answer(f"^ssh .*{fails}", status=255)
    result = rotate(gateway, "forget")
    assert result.status == 1
    assert "have certificates of the old CAs" in result.log
    assert not any(step in ("forget", "trust") for step, _ in steps(gateway))


@pytest.mark.parametrize(
    ("fails", "last"),
    [
        ("10.8.0.22 .*trust", "trust"),
        ("10.8.0.31 .*trust", "trust"),
        ("10.8.0.22 .*issue", "issue"),
    ],
)
def test_a_part_that_fails_is_the_last_one(gateway: Machine, fails: str, last: str) -> None:
    gateway.answer(f"^ssh .*{fails}", status=1)
    result = rotate(gateway)
    assert result.status == 1
    assert "the next pulumi up continues" in result.log
    assert steps(gateway)[-1][0] == last


@pytest.mark.parametrize("phase", ["issue", "forget"])
def test_a_phase_that_has_ended_asks_no_node_again(gateway: Machine, phase: str) -> None:
    assert rotate(gateway, phase).status == 0
    gateway.answer("^kubectl .*get nodes", "\n".join([*NODES, "leaves-in-this-update"]) + "\n")
    steps(gateway)
    result = rotate(gateway, phase)
    assert result.status == 0, result
    # But for a control plane that was replaced since: it begins with the old issuer.
    control_planes = ("10.8.0.21", "10.8.0.22")
    again = [("issue", address) for address in control_planes] if phase == "issue" else []
    assert steps(gateway) == again


def test_the_end_of_one_phase_is_not_that_of_the_next(gateway: Machine) -> None:
    assert rotate(gateway, "issue").status == 0
    steps(gateway)
    assert rotate(gateway, "forget").status == 0
    assert steps(gateway)


def test_a_check_that_was_killed_here_is_not_passed(gateway: Machine) -> None:
    gateway.answer("^ssh .*10.8.0.31 .*authorities check", does="os.kill(os.getppid(), 9)")
    result = rotate(gateway, "forget")
    assert result.status == 1
    assert not any(step in ("forget", "trust") for step, _ in steps(gateway))


def test_a_phase_that_failed_has_not_ended(gateway: Machine) -> None:
    gateway.answer("^ssh .*10.8.0.31 .*certificates", status=1)
    assert rotate(gateway).status == 1
    steps(gateway)
    gateway.answer("^ssh .*10.8.0.31 .*certificates")
    assert rotate(gateway).status == 0
    assert steps(gateway)


def test_a_control_plane_or_node_that_is_not_configured_stops_it_before_anything(
    gateway: Machine,
) -> None:
    gateway.answer("^kubectl .*get nodes", "\n".join([*NODES, "stranger"]) + "\n")
    result = rotate(gateway)
    assert "the node stranger is not in the configuration" in result.log
    assert steps(gateway) == []
    gateway.members("10.8.0.21", "10.8.0.22", "10.8.0.24")
    result = rotate(gateway)
    assert "at 10.8.0.24 is not in the configuration" in result.log
    assert steps(gateway) == []
