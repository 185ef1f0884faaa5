"""The rotation of the key of service accounts' tokens: on control planes, on nodes, their order."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import ec

from tests.scripts.conftest import COMMON, Machine, Result

PKI = "etc/kubernetes/pki"
MINE = "10.8.0.21"
ADDRESSES = ("10.8.0.21", "10.8.0.22", "10.8.0.23")
VOLUMES = "var/lib/kubelet/pods/{pod}/volumes/kubernetes.io~projected/kube-api-access/..data"


class Key:
    """One generation, as pulumi-tls writes it."""

    def __init__(self) -> None:
        key = ec.generate_private_key(ec.SECP256R1())
        self.private = key.private_bytes(
            serialization.Encoding.PEM,
            serialization.PrivateFormat.TraditionalOpenSSL,
            serialization.NoEncryption(),
        ).decode()
        public = serialization.PublicFormat.SubjectPublicKeyInfo
        self.public = key.public_key().public_bytes(serialization.Encoding.PEM, public).decode()
        der = key.public_key().public_bytes(serialization.Encoding.DER, public)
        # As the API server derives it.
        self.id = encoded(hashlib.sha256(der).digest())

    def token(self) -> str:
        """A token that it has signed; no script looks at the signature."""
        header = {"alg": "ES256", "kid": self.id}
        return f"{encoded(json.dumps(header).encode())}.e30.c2lnbmF0dXJl"


def encoded(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).decode().rstrip("=")


KEYS = [Key() for _ in range(3)]
OLD, NEW, NEWER = KEYS


def jwks(*keys: Key) -> str:
    listed = [{"use": "sig", "kty": "EC", "kid": key.id, "crv": "P-256"} for key in keys]
    return json.dumps({"keys": listed}, separators=(",", ":"))


# The API server: it accepts and signs with what was in the files when it last started.
STARTED = """
import shutil
for name in ("sa.pub", "sa.key"):
    shutil.copy(here + "/../root/{pki}/" + name, here + "/" + name)
"""
ACCEPTED = """
import json
keys = {keys!r}
text = open(here + "/sa.pub").read()
rule["prints"] = json.dumps({{"keys": [{{"kid": kid}} for kid, pem, _, _ in keys if pem in text]}})
"""
SIGNED = """
keys = {keys!r}
text = open(here + "/sa.key").read()
[rule["prints"]] = [token for _, _, pem, token in keys if pem.strip() == text.strip()]
"""


@pytest.fixture
def make(make_machine: Callable[[Mapping[str, str]], Machine]) -> Callable[..., Machine]:
    """A control plane whose API server accepts these keys and signs with one of them."""

    def machine(*accepted: Key, signing: Key | None = None, generation: int = 2) -> Machine:
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
        for number, key in enumerate(KEYS[:generation], start=1):
            made.write(f"service-account/{number}.key", key.private)
            made.write(f"service-account/{number}.pub", key.public)
        if signing:
            made.place(f"{PKI}/sa.pub", "".join(key.public for key in accepted))
            made.place(f"{PKI}/sa.key", signing.private)
            for name in ("sa.pub", "sa.key"):
                (made.fakes / name).write_text(made.read(f"{PKI}/{name}"))
        keys = [(key.id, key.public.strip(), key.private, key.token()) for key in KEYS]
        made.answer(f"^kubectl .*{MINE}:6443 get --raw /openid", does=ACCEPTED.format(keys=keys))
        made.answer("^kubectl .*create token default", does=SIGNED.format(keys=keys))
        made.answer("^crictl stop", does=STARTED.format(pki=PKI))
        made.restarts("etcd", "kube-apiserver", "kube-controller-manager")
        made.members(MINE)
        return made

    return machine


def library(machine: Machine, commands: str) -> Result:
    """Run commands with the control plane's files for this loaded."""
    files = (
        "cluster/kubectl.sh cluster/token-keys.sh node/pod-tokens.sh control-plane/static-pods.sh "
        "control-plane/kubernetes-files.sh control-plane/service-account-key.sh"
    )
    return machine.library(files, commands)


def step(machine: Machine, *words: str) -> Result:
    return machine.run("control-plane/control-plane.sh", "service-account", *words)


def accepted(machine: Machine) -> list[Key]:
    return [key for key in KEYS if key.public in machine.read(f"{PKI}/sa.pub")]


def signing(machine: Machine) -> Key:
    [found] = [key for key in KEYS if key.private == machine.read(f"{PKI}/sa.key")]
    return found


# --- what configure does with the keys -----------------------------------------------------------


def test_the_first_generation_is_as_it_was(make: Callable[..., Machine]) -> None:
    machine = make(generation=1)
    assert library(machine, "first_service_account_key").status == 0
    assert machine.read(f"{PKI}/sa.pub") == OLD.public
    assert machine.read(f"{PKI}/sa.key") == OLD.private
    assert not machine.has(f"{PKI}/sa-next.key")
    assert "wrote" not in library(machine, "update_service_account_key").log


def test_a_member_uses_what_it_did_and_keeps_the_new_key_for_later(
    make: Callable[..., Machine],
) -> None:
    machine = make(OLD, signing=OLD)
    assert library(machine, "update_service_account_key").status == 0
    assert (accepted(machine), signing(machine)) == ([OLD], OLD)
    assert machine.read(f"{PKI}/sa-next.key") == NEW.private
    assert (machine.root / PKI / "sa-next.key").stat().st_mode & 0o777 == 0o600


def test_a_number_that_goes_back_is_refused(make: Callable[..., Machine]) -> None:
    machine = make(NEW, signing=NEW, generation=1)
    result = library(machine, "update_service_account_key")
    assert result.status == 1
    assert "rotation.serviceAccountKey must never go back" in result.log
    assert (accepted(machine), signing(machine)) == ([NEW], NEW)


def test_a_machine_that_begins_a_cluster_accepts_the_tokens_of_every_snapshot(
    make: Callable[..., Machine],
) -> None:
    machine = make(generation=3)
    assert library(machine, "first_service_account_key").status == 0
    assert (accepted(machine), signing(machine)) == (KEYS, NEWER)


@pytest.mark.parametrize(
    ("others", "accepts", "signs"),
    [
        # Nothing has begun; phase 1, 2 or 3 was interrupted; it is done.
        ([[OLD], [OLD]], [OLD, NEW], OLD),
        ([[OLD, NEW], [OLD]], [OLD, NEW], OLD),
        ([[OLD, NEW], [OLD, NEW]], [OLD, NEW], OLD),
        ([[NEW], [OLD, NEW]], [OLD, NEW], NEW),
        ([[NEW], [NEW]], [NEW], NEW),
        # One that is down.
        ([[NEW], None], [NEW], NEW),
    ],
)
def test_a_machine_that_joins_does_as_those_that_are_there(
    make: Callable[..., Machine],
    others: list[list[Key] | None],
    accepts: list[Key],
    signs: Key,
) -> None:
    machine = make()
    machine.answer("^kubectl .*get nodes -l", "\n".join(ADDRESSES) + "\n")
    for address, keys in zip(ADDRESSES[1:], others, strict=True):
        answer = f"^kubectl .*{address}:6443 get --raw /openid"
        machine.answer(answer, jwks(*keys or ()), status=int(keys is None))
    result = library(machine, "first_service_account_key; sign_as_the_others")
    assert result.status == 0, result
    assert (accepted(machine), signing(machine)) == (accepts, signs)


def test_no_one_joins_without_knowing_what_the_others_accept(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("^kubectl .*get nodes -l", "\n".join(ADDRESSES) + "\n")
    for address in ADDRESSES[1:]:
        machine.answer(f"^kubectl .*{address}:6443 get --raw /openid", status=1)
    assert library(machine, "sign_as_the_others || exit 7").status == 7


# --- the steps on a control plane ----------------------------------------------------------------


def restarted(machine: Machine) -> list[str]:
    return [line.split()[-1].rsplit("-", 1)[0] for line in machine.called("crictl stop")]


def test_the_steps_lead_from_the_old_key_to_the_new_one(make: Callable[..., Machine]) -> None:
    machine = make(OLD, signing=OLD)
    library(machine, "update_service_account_key")
    for words, accepts, signs, restarts in (
        (("accept", NEW.id), [OLD, NEW], OLD, ["kube-apiserver"]),
        (("sign", NEW.id), [OLD, NEW], NEW, ["kube-apiserver", "kube-controller-manager"]),
        (("only", NEW.id), [NEW], NEW, ["kube-apiserver"]),
    ):
        result = step(machine, *words)
        assert result.status == 0, result
        assert (accepted(machine), signing(machine)) == (accepts, signs)
        assert restarted(machine) == restarts
        # Repeated, it does nothing.
        assert step(machine, *words).status == 0
        assert restarted(machine) == []


def killed_in_sign(make: Callable[..., Machine], container: str) -> Machine:
    """A control plane whose `sign` was killed when it restarted this container."""
    machine = make(OLD, NEW, signing=OLD)
    library(machine, "update_service_account_key")
    kill = "import signal\nos.kill(os.getppid(), signal.SIGKILL)"
    machine.answer(f"^crictl stop .*{container}", does=kill)
    assert step(machine, "sign", NEW.id).status != 0
    machine.rules.pop(0)
    return machine


def test_a_killed_step_is_finished_by_the_next_run(make: Callable[..., Machine]) -> None:
    machine = killed_in_sign(make, "kube-apiserver")
    assert step(machine, "sign", NEW.id).status == 0
    assert restarted(machine) == ["kube-apiserver", "kube-controller-manager"]


def test_a_killed_step_is_finished_although_another_one_ran_in_between(
    make: Callable[..., Machine],
) -> None:
    machine = killed_in_sign(make, "kube-controller-manager")
    # As the next update begins.
    assert step(machine, "accept", NEW.id).status == 0
    restarted(machine)
    assert step(machine, "sign", NEW.id).status == 0
    assert "kube-controller-manager" in restarted(machine)


def test_the_old_key_stays_as_long_as_the_api_server_signs_with_it(
    make: Callable[..., Machine],
) -> None:
    machine = make(OLD, NEW, signing=OLD)
    library(machine, "update_service_account_key")
    result = step(machine, "only", NEW.id)
    assert result.status == 1
    assert "does not sign with the service-account key" in result.log
    assert accepted(machine) == [OLD, NEW]


def test_a_control_plane_without_the_new_key_says_so(make: Callable[..., Machine]) -> None:
    result = step(make(OLD, signing=OLD), "accept", NEW.id)
    assert result.status == 1
    assert "run pulumi up first" in result.log


def test_a_secret_with_a_token_of_the_old_key_is_named(make: Callable[..., Machine]) -> None:
    machine = make(OLD, NEW, signing=NEW)
    tokens = {"a old": OLD.token(), "a new": NEW.token(), "b other": "x.y.z", "b none": ""}
    lines = [
        f"{name} {base64.b64encode(token.encode()).decode()}\n" for name, token in tokens.items()
    ]
    machine.answer(
        "^kubectl .*get secrets --all-namespaces .*service-account-token", "".join(lines)
    )
    result = step(machine, "secrets", OLD.id)
    assert result.status == 1
    assert "tokens of the old key: a/old. For each" in result.log
    assert OLD.token() not in result.log
    assert step(machine, "secrets", NEWER.id).status == 0


# --- on a node -----------------------------------------------------------------------------------


@pytest.mark.parametrize("role", ["worker", "control-plane"])
def test_a_kubelet_whose_pods_have_old_tokens_restarts(
    make: Callable[..., Machine], role: str
) -> None:
    machine = make(OLD, NEW, signing=NEW)
    machine.environment["TOKENS_TIMEOUT"] = "0"
    script = f"{role}/{role}.sh"
    new = machine.place(VOLUMES.format(pod="1") + "/token", NEW.token())
    machine.place(VOLUMES.format(pod="1") + "/ca.crt", "-----BEGIN CERTIFICATE-----\n")
    machine.place(VOLUMES.format(pod="1") + "/other", KEYS[2].token())
    assert machine.run(script, "pod-tokens", "replace", OLD.id).status == 0
    assert machine.called("restart kubelet") == []
    assert machine.run(script, "pod-tokens", "wait", OLD.id).status == 0

    old = machine.place(VOLUMES.format(pod="2") + "/token", OLD.token())
    assert machine.run(script, "pod-tokens", "replace", OLD.id).status == 0
    assert len(machine.called("restart kubelet")) == 1
    result = machine.run(script, "pod-tokens", "wait", OLD.id)
    assert result.status == 1
    assert f"tokens of the old key: {old}" in result.log
    assert str(new) not in result.log
    assert OLD.token() not in result.log


# --- their order in the cluster ------------------------------------------------------------------

NODES = {
    **{f"demo-control-plane-{number}": each for number, each in enumerate(ADDRESSES)},
    "demo-worker-0": "10.8.0.32",
    "metal-1": "10.8.0.200",
}
# The API server at an address accepts what the steps there have made of it.
BY_STEPS = """
import re, json
address = re.search(r"https://([\\d.]+):6443", " ".join(sys.argv))[1]
calls = ""
if os.path.exists(here + "/steps"):
    calls = open(here + "/steps").read()
done = re.findall(re.escape(address) + r" (\\w+)", calls)
keys = [{new!r}] if "only" in done else [{old!r}, {new!r}] if "accept" in done else [{old!r}]
rule["prints"] = json.dumps({{"keys": [{{"kid": key}} for key in keys]}})
"""
NOTE = """
import re
words = " ".join(sys.argv)
with open(here + "/steps", "a") as steps:
    print(re.search(r"@([\\d.]+)", words)[1], words.split("service-account ")[1], file=steps)
"""


@pytest.fixture
def gateway(make_machine: Callable[[Mapping[str, str]], Machine]) -> Machine:
    made = make_machine(
        {
            **COMMON,
            "NODE_NAME": "demo-service-account-key",
            "CONTROL_PLANES": " ".join(ADDRESSES),
        }
    )
    (made.fakes / "openssl").unlink()
    made.environment["READ_AGAIN"] = "0"
    made.write("service-account.pub", NEW.public)
    made.write("kubeconfig", "")
    made.write("ssh_key", "key\n")
    made.write(
        "known_hosts", "".join(f"{each} ecdsa-sha2-nistp256 AAAA\n" for each in NODES.values())
    )
    lines = [
        f"{name} {'control-plane' if each in ADDRESSES else 'worker'} "
        f"{'ada' if name == 'metal-1' else 'debian'} {each}\n"
        for name, each in NODES.items()
    ]
    made.write("nodes", "".join(lines))
    made.answer("^kubectl .*get --raw /openid", does=BY_STEPS.format(old=OLD.id, new=NEW.id))
    made.answer("^kubectl .*get nodes", "\n".join(NODES) + "\n")
    made.answer("get pods -l component=etcd", "etcd-0 demo-control-plane-0 True\n")
    made.answer("^ssh .*control-plane.sh service-account", does=NOTE)
    made.members(*ADDRESSES)
    return made


def rotate(machine: Machine) -> Result:
    return machine.run("cluster/service-account-key.sh", "rotate")


def steps(machine: Machine) -> list[tuple[str, str]]:
    """Steps that ran, each with its machine."""
    return [
        (line.split(".sh ")[1].split()[1], line.split("@")[1].split()[0])
        for line in machine.called("ssh ")
    ]


CHAIN = [
    *(("accept", each) for each in ADDRESSES),
    *(("sign", each) for each in ADDRESSES),
    ("secrets", MINE),
    *(("replace", each) for each in sorted(NODES.values())),
    *(("wait", each) for each in sorted(NODES.values())),
    *(("only", each) for each in ADDRESSES),
]


def sorted_within(done: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Nodes are asked at the same time, control planes in turn."""
    order = list(dict.fromkeys(step for step, _ in done))
    return sorted(
        done,
        key=lambda each: (order.index(each[0]), each[1] if each[0] in ("replace", "wait") else ""),
    )


def test_control_planes_change_in_turn_and_nodes_before_the_old_key_goes(gateway: Machine) -> None:
    result = rotate(gateway)
    assert result.status == 0, result
    assert sorted_within(steps(gateway)) == CHAIN
    assert len(gateway.called("ada@10.8.0.200 ")) == 2
    assert all(line.endswith(OLD.id) for line in gateway.called("pod-tokens"))
    # Done, it asks no machine any more.
    assert rotate(gateway).status == 0
    assert steps(gateway) == []


@pytest.mark.parametrize(
    ("fails", "left"),
    [
        ("debian@10.8.0.22 .* service-account accept", 1),
        ("debian@10.8.0.22 .* service-account sign", 4),
        ("service-account secrets", 6),
        ("ada@10.8.0.200 .* pod-tokens replace", 7),
        ("debian@10.8.0.32 .* pod-tokens wait", 12),
    ],
)
def test_a_phase_that_fails_anywhere_is_the_last_one_and_the_next_run_repeats_it(
    gateway: Machine, fails: str, left: int
) -> None:
    gateway.answer(f"^ssh .*{fails}", status=255, times=1)
    result = rotate(gateway)
    assert result.status == 1
    assert "the next pulumi up continues" in result.log
    assert sorted_within(steps(gateway))[:left] == CHAIN[:left]
    assert not any(step == "only" for step, _ in steps(gateway))
    gateway.rules.pop(0)
    assert rotate(gateway).status == 0
    assert sorted_within(steps(gateway)) == CHAIN


def test_the_old_key_stays_when_no_one_knows_which_keys_are_old(gateway: Machine) -> None:
    asked = f"^kubectl .*{MINE}:6443 get --raw /openid"
    gateway.answer(asked, status=1, times=1)
    gateway.answer(asked, does=BY_STEPS.format(old=OLD.id, new=NEW.id), times=1)
    result = rotate(gateway)
    assert result.status == 1
    assert f"the API server at {MINE} does not say which keys it accepts" in result.log
    assert not any(step in ("replace", "only") for step, _ in steps(gateway))


def test_a_control_plane_that_is_about_to_go_stops_it_before_anything(gateway: Machine) -> None:
    gateway.members(*ADDRESSES, "10.8.0.24")
    result = rotate(gateway)
    assert result.status == 1
    assert "at 10.8.0.24 is not in the configuration" in result.log
    assert steps(gateway) == []


def test_a_node_that_is_not_in_the_configuration_keeps_the_old_key(gateway: Machine) -> None:
    gateway.answer("^kubectl .*get nodes", "\n".join([*NODES, "stranger"]) + "\n")
    result = rotate(gateway)
    assert result.status == 1
    assert "the node stranger is not in the configuration" in result.log
    assert not any(step == "only" for step, _ in steps(gateway))


def test_the_nodes_of_a_large_cluster_are_all_in_the_configuration(gateway: Machine) -> None:
    lines = [f"demo-worker-{number} worker debian 10.9.0.1\n" for number in range(99999)]
    gateway.write("nodes", "".join(lines))
    gateway.answer("^kubectl .*get nodes", "demo-worker-0\ndemo-worker-1\n")
    result = gateway.library(
        "cluster/kubectl.sh cluster/every-node.sh", "CONTINUES=''; refuse_unknown_nodes ''"
    )
    assert result.status == 0, result
