"""The rotation of the key of Secrets: steps on a control plane, their order in the cluster."""

from __future__ import annotations

import base64
import hashlib
import os
from collections.abc import Callable, Mapping

import pytest
import yaml

from components.api_server_files import encryption_configuration
from tests.scripts.conftest import COMMON, Machine, Result

FILE = "etc/kubernetes/encryption/configuration.yaml"
MINE = "10.8.0.21"

# One page of etcd's Secrets, as etcdctl prints it. What the stand-in of the API server has written
# is in the file "written".
ETCD = """
import base64, json
words = sys.argv[1:]
first = words[words.index("get") + 1]
limit = 2
written = {{}}
if os.path.exists(here + "/written"):
    written = dict(line.split() for line in open(here + "/written"))
stored = {{**{stored!r}, **written}}
keys = sorted(key for key in stored if key >= first)

def encoded(text):
    return base64.b64encode(text.encode()).decode()

def value(name):
    begin = "k8s\\0" if name == "identity" else "k8s:enc:secretbox:v1:%s:" % name
    return encoded(begin + "\\n" * 50)

page = {{"header": {{"cluster_id": 1, "revision": 7}}, "count": len(keys)}}
if keys:
    page["kvs"] = [
        {{"key": encoded(key), "create_revision": 2, "version": 1, "value": value(stored[key])}}
        for key in keys[:limit]
    ]
if len(keys) > limit:
    page["more"] = True
rule["prints"] = json.dumps(page, separators=(",", ":"))
"""

# An empty patch: the API server writes the Secret with its first provider.
PATCH = """
words = sys.argv[1:]
namespace = words[words.index("--namespace") + 1]
names = words[words.index("secret") + 1 : words.index("--type=merge")]
with open(here + "/written", "a") as written:
    for name in names:
        if name != {refused!r}:
            print(f"/registry/secrets/{{namespace}}/{{name}}", {first!r}, file=written)
"""

# The API server has read the file that is there.
METRICS = """
import hashlib
file = here + "/../root/{file}"
sum = hashlib.sha256(open(file, "rb").read()).hexdigest()
rule["prints"] = (
    'apiserver_encryption_config_controller_last_config_info'
    '{{apiserver_id_hash="sha256:1",hash="sha256:%s"}} 1\\n' % sum
)
"""


def keys(count: int) -> list[str]:
    return [base64.b64encode(bytes([number] * 32)).decode() for number in range(1, count + 1)]


def configuration(generation: int, *, encrypt: bool = True) -> str:
    """The file that the program sends."""
    return encryption_configuration(keys(generation), encrypt=encrypt)


def names(text: str) -> list[str]:
    """The providers in a file of the API server: the first one writes."""
    [resource] = yaml.safe_load(text)["resources"]
    return [
        each["secretbox"]["keys"][0]["name"] if "secretbox" in each else "identity"
        for each in resource["providers"]
    ]


@pytest.fixture
def make(make_machine: Callable[[Mapping[str, str]], Machine]) -> Callable[..., Machine]:
    """A control plane that has these providers, in a cluster with these Secrets."""

    def machine(*providers: str, generation: int = 2, **stored: str) -> Machine:
        made = make_machine(
            {
                **COMMON,
                "ROLE": "control-plane",
                "NODE_NAME": "demo-control-plane-0",
                "NODE_IP": MINE,
                "CERTIFICATE_SECONDS": "31536000",
                "CLOUD_CONFIG_GROUP": str(os.getgid()),
            }
        )
        made.environment["RELOAD_TIMEOUT"] = "0"
        made.write("encryption.yaml", configuration(generation))
        if providers:
            made.place(FILE, file_with(*providers))
        made.answer("^crictl ps", "etcd-id\n")
        secrets = {
            f"/registry/secrets/{name.replace('__', '/').replace('_', '-')}": key
            for name, key in stored.items()
        }
        made.answer("^crictl exec etcd-id etcdctl .*get", does=ETCD.format(stored=secrets))
        made.answer("^kubectl .*patch secret", does=PATCH.format(first="key02", refused=""))
        made.answer("^kubectl .*/metrics", does=METRICS.format(file=FILE))
        return made

    return machine


def file_with(*providers: str) -> str:
    every = configuration(3).splitlines(keepends=True)
    head = [line for line in every if not line.startswith("  - ")]
    lines = {names("".join([*head, line]))[0]: line for line in every if line not in head}
    return "".join([*head, *(lines[name] for name in providers)])


def library(machine: Machine, commands: str) -> Result:
    """Run commands with the control plane's files for this loaded."""
    files = (
        "cluster/kubectl.sh cluster/tokens.sh cluster/etcdctl.sh cluster/etcd-members.sh "
        "node/node.sh control-plane/static-pods.sh control-plane/secret-encryption.sh"
    )
    return machine.library(files, commands)


def encrypt(machine: Machine, *words: str) -> Result:
    return machine.run("control-plane/control-plane.sh", "encrypt", *words)


# --- what configure does with the file -----------------------------------------------------------


@pytest.mark.parametrize(
    ("have", "generation", "then"),
    [
        # As ever: nothing has rotated.
        ([], 1, ["key1", "identity"]),
        (["identity", "key1"], 1, ["key1", "identity"]),
        # The new key only reads.
        (["key1", "identity"], 2, ["key1", "identity", "key02"]),
        (["identity", "key1"], 2, ["identity", "key1", "key02"]),
        # Someone has deleted it.
        ([], 2, ["key02", "identity", "key1"]),
        # An interrupted rotation, one that is done, and the next.
        (["key1", "identity", "key02"], 2, ["key1", "identity", "key02"]),
        (["key02", "key1", "identity"], 2, ["key02", "key1", "identity"]),
        (["key02", "identity"], 2, ["key02", "identity"]),
        (["key02", "identity"], 3, ["key02", "identity", "key03"]),
    ],
)
def test_a_member_reads_with_a_new_key_and_writes_with_what_it_has(
    make: Callable[..., Machine], have: list[str], generation: int, then: list[str]
) -> None:
    machine = make(*have, generation=generation)
    assert library(machine, "update_encryption").status == 0
    assert names(machine.read(FILE)) == then
    assert (machine.root / FILE).stat().st_mode & 0o777 == 0o600
    assert "wrote" not in library(machine, "update_encryption").log


def test_a_member_does_not_forget_a_key_when_the_number_goes_back(
    make: Callable[..., Machine],
) -> None:
    machine = make("key1", "identity", "key02", generation=1)
    before = machine.read(FILE)
    result = library(machine, "update_encryption")
    assert result.status == 1
    assert "encrypted with key02" in result.log
    assert "rotation.encryptionKey must never go back; set it to 2 or more" in result.log
    assert machine.read(FILE) == before


def test_a_machine_that_begins_a_cluster_reads_every_snapshot(
    make: Callable[..., Machine],
) -> None:
    machine = make(generation=3)
    assert library(machine, "first_encryption").status == 0
    assert names(machine.read(FILE)) == ["key03", "identity", "key02", "key1"]


@pytest.mark.parametrize(
    ("stored", "writer"),
    [
        ("k8s:enc:secretbox:v1:key02:\x01\n\x7f", "key02"),
        ("k8s:enc:secretbox:v1:key1:\x01\n\x7f", "key1"),
        ("k8s\x00\n\x0c\n\x02v1\x12\x06Secret", "identity"),
    ],
)
def test_a_machine_that_joins_encrypts_as_those_that_are_there(
    make: Callable[..., Machine], stored: str, writer: str
) -> None:
    machine = make()
    machine.answer("get pods -l component=etcd", "etcd-1 demo-control-plane-1 True\n")
    machine.answer("exec etcd-1 .*secrets/kube-system/bootstrap-token-abcdef", stored)
    join = "first_encryption; token_id=abcdef; encrypt_as_the_others"
    assert library(machine, join).status == 0
    assert names(machine.read(FILE))[0] == writer
    assert sorted(names(machine.read(FILE))) == ["identity", "key02", "key1"]


def test_no_one_joins_without_knowing_what_the_others_read(make: Callable[..., Machine]) -> None:
    machine = make()
    machine.answer("get pods -l component=etcd", "etcd-1 demo-control-plane-1 True\n")
    result = library(machine, "token_id=abcdef; encrypt_as_the_others || exit 7")
    assert result.status == 7
    assert "etcd does not show how the join token is encrypted" in result.log


# --- the steps on a control plane ----------------------------------------------------------------


def test_a_step_ends_when_the_api_server_has_read_the_file(make: Callable[..., Machine]) -> None:
    machine = make("key1", "identity", "key02")
    assert encrypt(machine, "read", "key02").status == 0
    other = hashlib.sha256(b"the file before").hexdigest()
    machine.answer(
        "^kubectl .*/metrics",
        "apiserver_encryption_config_controller_last_config_info"
        f'{{apiserver_id_hash="sha256:1",hash="sha256:{other}"}} 1\n',
    )
    result = encrypt(machine, "read", "key02")
    assert result.status == 1
    assert "does not read" in result.log
    [asked] = {line for line in machine.calls if "/metrics" in line}
    assert f"--server=https://{MINE}:6443" in asked


def test_the_new_key_writes_and_the_others_read(make: Callable[..., Machine]) -> None:
    machine = make("key1", "identity", "key02")
    assert encrypt(machine, "first", "key02").status == 0
    assert names(machine.read(FILE)) == ["key02", "key1", "identity"]
    assert encrypt(machine, "only", "key02", "identity").status == 0
    assert names(machine.read(FILE)) == ["key02", "identity"]
    # Repeated from the beginning, as after an interruption.
    for step in (["read", "key02"], ["first", "key02"], ["only", "key02", "identity"]):
        assert encrypt(machine, *step).status == 0
        assert names(machine.read(FILE)) == ["key02", "identity"]


def test_it_tells_what_its_api_server_knows(make: Callable[..., Machine]) -> None:
    machine = make("key02", "identity")
    assert machine.run("control-plane/control-plane.sh", "providers").stdout == "key02\nidentity\n"


def test_a_key_that_this_control_plane_does_not_have_is_no_step(
    make: Callable[..., Machine],
) -> None:
    machine = make("key1", "identity")
    result = encrypt(machine, "first", "key02")
    assert result.status == 1
    assert "has no provider key02: run pulumi up first" in result.log
    assert names(machine.read(FILE)) == ["key1", "identity"]


SECRETS = {
    "default__a": "key1",
    "default__b": "key02",
    "default__c": "identity",
    "kube_system__a": "key02",
    "kube_system__token_x": "key1",
}


def patched(machine: Machine) -> list[str]:
    return [
        f"{line.split('--namespace ')[1].split()[0]}/{name}"
        for line in machine.called("patch secret")
        for name in line.split("patch secret ")[1].split(" --type")[0].split()
    ]


def test_only_what_another_key_has_encrypted_is_rewritten(make: Callable[..., Machine]) -> None:
    machine = make("key02", "key1", "identity", **SECRETS)
    assert encrypt(machine, "rewrite", "key02").status == 0
    assert patched(machine) == ["default/a", "default/c", "kube-system/token-x"]
    assert encrypt(machine, "rewrite", "key02").status == 0
    assert patched(machine) == []


def test_encryption_that_is_switched_off_is_taken_from_every_secret(
    make: Callable[..., Machine],
) -> None:
    machine = make("identity", "key02", "key1", **SECRETS)
    machine.answer("^kubectl .*patch secret", does=PATCH.format(first="identity", refused=""))
    assert encrypt(machine, "rewrite", "identity").status == 0
    assert patched(machine) == [
        *("default/a", "default/b", "kube-system/a", "kube-system/token-x"),
    ]


def test_a_killed_rewrite_continues_where_it_was(make: Callable[..., Machine]) -> None:
    machine = make("key02", "key1", "identity", **SECRETS)
    kill = "import signal\nos.kill(os.getppid(), signal.SIGKILL)"
    machine.answer("^kubectl .* --namespace kube-system patch secret", does=kill)
    assert encrypt(machine, "rewrite", "key02").status != 0
    assert "kube-system/token-x" in patched(machine)
    machine.rules.pop(0)
    assert encrypt(machine, "rewrite", "key02").status == 0
    assert patched(machine) == ["kube-system/token-x"]


def test_a_secret_that_cannot_be_rewritten_is_named(make: Callable[..., Machine]) -> None:
    machine = make("key02", "key1", "identity", **SECRETS)
    machine.environment["REWRITE_TIMEOUT"] = "1"
    machine.answer("^kubectl .*patch secret", does=PATCH.format(first="key02", refused="c"))
    result = encrypt(machine, "rewrite", "key02")
    assert result.status == 1
    assert "/registry/secrets/default/c could not be encrypted with key02" in result.log


def test_an_etcd_that_does_not_answer_is_no_etcd_without_secrets(
    make: Callable[..., Machine],
) -> None:
    machine = make("key02", "key1", "identity", **SECRETS)
    machine.environment["REWRITE_TIMEOUT"] = "0"
    for status in (1, 0):
        machine.answer("^crictl exec etcd-id etcdctl .*get", status=status)
        assert encrypt(machine, "rewrite", "key02").status == 1


# --- their order in the cluster ------------------------------------------------------------------

ADDRESSES = ("10.8.0.21", "10.8.0.22", "10.8.0.23")


def member(last: int) -> str:
    address = f"https://10.8.0.{last}"
    return (
        f"{last}, started, demo-control-plane-{last - 21}, {address}:2380, {address}:2379, false\n"
    )


@pytest.fixture
def gateway(make_machine: Callable[[Mapping[str, str]], Machine]) -> Machine:
    made = make_machine(
        {
            **COMMON,
            "NODE_NAME": "demo-control-plane",
            "SSH_USER": "debian",
            "CONTROL_PLANES": " ".join(ADDRESSES),
            "ENCRYPTION": "key02 identity",
        }
    )
    made.write("kubeconfig", "")
    made.write("ssh_key", "key\n")
    made.write("known_hosts", "".join(f"{each} ecdsa-sha2-nistp256 AAAA\n" for each in ADDRESSES))
    made.answer("get pods -l component=etcd", "etcd-0 demo-control-plane-0 True\n")
    made.answer("member list", "".join(member(last) for last in (21, 22, 23)))
    return made


def rotate(machine: Machine) -> Result:
    return machine.run("cluster/encryption-key.sh", "rotate")


def steps(machine: Machine) -> list[tuple[str, str]]:
    """Verbs that ran, each with its control plane."""
    return [
        (line.split("control-plane.sh encrypt ")[1], line.split("debian@")[1].split()[0])
        for line in machine.called("control-plane.sh encrypt")
    ]


PHASES = ("read key02", "first key02", "rewrite key02", "only key02 identity")


def test_no_phase_begins_before_every_control_plane_has_done_the_one_before(
    gateway: Machine,
) -> None:
    assert rotate(gateway).status == 0
    done = steps(gateway)
    assert list(dict.fromkeys(step for step, _ in done)) == list(PHASES)
    for step in PHASES:
        where = sorted(address for each, address in done if each == step)
        assert where == (["10.8.0.21"] if step == "rewrite key02" else list(ADDRESSES)), step


@pytest.mark.parametrize("phase", range(len(PHASES)))
def test_a_phase_that_fails_anywhere_is_the_last_one_and_the_next_run_repeats_it(
    gateway: Machine, phase: int
) -> None:
    where = "10.8.0.21" if PHASES[phase].startswith("rewrite") else "10.8.0.22"
    gateway.answer(f"^ssh .*debian@{where} .*encrypt {PHASES[phase]}$", status=1, times=1)
    result = rotate(gateway)
    assert result.status == 1
    assert "the next pulumi up continues" in result.log
    assert {step for step, _ in steps(gateway)} == set(PHASES[: phase + 1])
    gateway.rules.pop(0)
    assert rotate(gateway).status == 0
    assert {step for step, _ in steps(gateway)} == set(PHASES)


def test_a_control_plane_that_is_about_to_go_keeps_its_secrets(gateway: Machine) -> None:
    gateway.answer("member list", "".join(member(last) for last in (21, 22, 23, 24)))
    result = rotate(gateway)
    assert result.status == 1
    assert "demo-control-plane-3 at 10.8.0.24 is not in the configuration" in result.log


def test_a_control_plane_leaves_when_the_rotation_has_ended(gateway: Machine) -> None:
    gateway.answer("control-plane.sh providers$", "key02\nidentity\n")
    gateway.answer("member list", "".join(member(last) for last in (21, 22, 23, 24)))
    assert rotate(gateway).status == 0
    # Encryption that was switched off and on again leaves the same names before the rewrite.
    assert {step for step, _ in steps(gateway)} == set(PHASES)
    gateway.answer("debian@10.8.0.23 .*control-plane.sh providers$", "key02\nidentity\nkey1\n")
    assert rotate(gateway).status == 1


def test_a_control_plane_that_is_joining_has_no_name_yet(gateway: Machine) -> None:
    joining = "8e9e, unstarted, , https://10.8.0.24:2380, , true\n"
    gateway.answer("member list", "".join(member(last) for last in (21, 22, 23)) + joining)
    assert "the control plane that is joining at 10.8.0.24 is not in" in rotate(gateway).log
    assert steps(gateway) == []


def test_etcds_members_are_waited_for_as_after_a_restore(gateway: Machine) -> None:
    gateway.environment["MEMBERS_TIMEOUT"] = "10"
    gateway.answer("member list", "", times=2)
    assert rotate(gateway).status == 0


def test_without_etcds_members_nothing_is_rotated(gateway: Machine) -> None:
    gateway.answer("member list", "")
    assert rotate(gateway).status == 1
    assert steps(gateway) == []
