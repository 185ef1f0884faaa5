"""A machine made of a folder: the scripts run as they are, the programs they call are fakes."""

from __future__ import annotations

import base64
import json
import os
import shlex
import shutil
import subprocess
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from config import ports
from tests.unit.programs import program

USERDATA = Path(__file__).resolve().parents[2] / "userdata"

# Everything that would act on the real machine, or reach another one.
FAKED = (
    "apt-get", "apt-mark", "blkid", "containerd", "crictl", "ctr", "curl", "df", "dpkg",
    "dpkg-query", "e2fsck", "findfs", "haproxy", "ip", "journalctl", "keepalived", "kubeadm",
    "kubectl", "kubelet", "mkfs.ext4", "modprobe", "mount", "mountpoint", "nft", "openssl",
    "ss", "ssh", "ssh-keyscan", "sshd", "sync", "sysctl", "systemctl", "unattended-upgrade",
)  # fmt: skip

FAKE = Path(__file__).with_name("fake.sh")

# A rule with Python: what surrounds that.
DOES = """\
import os, sys
here = os.path.dirname(os.path.abspath(__file__))
rule = {rule!r}
{does}
sys.stderr.write(rule["complains"])
sys.stdout.write(rule["prints"])
sys.exit(rule["status"])
"""

CA = "-----BEGIN CERTIFICATE-----\ndGhlIENB\n-----END CERTIFICATE-----\n"
BACKUP_FOLDER = "demo-0a1b2c3d"

# The secret key has in it what curl's configuration quotes.
BUCKET_ENV = f"""\
BUCKET_ENDPOINT=https://object.example.org
BUCKET_REGION=here
BUCKET_NAME=backups
BUCKET_FOLDER={BACKUP_FOLDER}
BUCKET_KEEP=2
BUCKET_ACCESS_KEY=AKEY
BUCKET_SECRET_KEY='se"cr\\et'
"""

# From here on, a script cannot write to any file.
FULL_DISK = "trap '' XFSZ; ulimit -f 0"

# Makes the key of a cluster's backups, and its certificate, as components/pki.py does.
MAKE_BACKUP_KEY = (
    *("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes"),
    *("-subj", "/CN=etcd-backups", "-addext", "keyUsage=critical,keyAgreement"),
    *("-keyout", "backup.key", "-out", "backup.crt"),
)

# What an object store answers: what curl writes to --output, and its --write-out.
STORE = """
import pathlib
words = sys.argv[1:]
pathlib.Path(words[words.index("--output") + 1]).write_text({answer!r})
with open(os.path.join(here, "login"), "a") as login:
    login.write(sys.stdin.read())
sys.stdout.write({status!r})
"""

# Prints the id of a static pod's container, which is another one each time it was stopped.
CONTAINER = """
import re
stopped = re.findall(r"crictl stop --timeout \\d+ {pod}-", open(here + "/calls").read())
rule["prints"] = "{pod}-%d\\n" % (len(stopped) + 1)
"""

# Puts the id of the last token, which is in the name of its Secret, into the rule's output.
BY_TOKEN = """
import re
with open(here + "/calls") as calls:
    tokens = re.findall(r"name: bootstrap-token-([a-z0-9]+)", calls.read())
rule["prints"] = rule["prints"].replace("TOKEN", tokens[-1] if tokens else "")
"""

# As kubeadm: waits for its certificate. One that it never gets is given up.
UNTIL_APPROVED = """
import time
for _ in range(200):
    with open(here + "/calls") as calls:
        text = calls.read()
    if "certificate approve" in text or text.count("get certificatesigningrequests") > 1:
        break
    time.sleep(0.05)
"""

# Called for every line of a script: a function, which is no process.
LOGGER = '() {{ printf "%s\\n" "$*" >>{journal}; }}'
# Called for every command: the shell that starts fastest.
SYSTEMD_CAT = '#!/bin/sh\ncat >>"${0%/*}/journal"\n'


def signing_request(
    common_name: str, *names: x509.GeneralName, organization: str = "system:nodes"
) -> str:
    """A CertificateSigningRequest as the API shows it."""
    subject = [
        x509.NameAttribute(NameOID.ORGANIZATION_NAME, organization),
        x509.NameAttribute(NameOID.COMMON_NAME, common_name),
    ]
    builder = x509.CertificateSigningRequestBuilder().subject_name(x509.Name(subject))
    if names:
        builder = builder.add_extension(x509.SubjectAlternativeName(names), critical=False)
    signed = builder.sign(ec.generate_private_key(ec.SECP256R1()), hashes.SHA256())
    return base64.b64encode(signed.public_bytes(serialization.Encoding.PEM)).decode()


class Result:
    """The end of a script: status and output."""

    def __init__(self, done: subprocess.CompletedProcess[str]) -> None:
        self.status = done.returncode
        self.stdout = done.stdout
        self.log = done.stderr

    def __repr__(self) -> str:
        return f"status {self.status}\n{self.log}{self.stdout}"


class Machine:
    """The folder of a run, the root below which the scripts write, and the fakes."""

    def __init__(self, base: Path) -> None:
        self.root = base / "root"
        self.folder = base / "folder"
        self.fakes = base / "fakes"
        for folder in (self.root, self.fakes):
            folder.mkdir()
        # A quarter of the work of shutil.copytree.
        subprocess.run(["cp", "-r", "--preserve=mode", USERDATA, self.folder], check=True)
        self.write("install/install.sh", '#!/bin/bash\nkubeadm fake-install "$@"\n')
        shutil.copy(FAKE, self.fakes / "fake")
        (self.fakes / "fake").chmod(0o755)
        for name in FAKED:
            (self.fakes / name).symlink_to("fake")
        program(self.fakes / "systemd-cat", SYSTEMD_CAT)
        self.rules: list[dict[str, Any]] = []
        self.environment: dict[str, str] = {}
        for path, text in {
            "etc/hosts": "127.0.0.1 localhost\n",
            "proc/sys/net/ipv4/ip_nonlocal_bind": "1\n",
        }.items():
            self.place(path, text)
        # systemd is running.
        (self.root / "run/systemd/system").mkdir(parents=True)

    def write(self, name: str, text: str) -> None:
        """Put a file into the folder of the run."""
        path = self.folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)

    def place(self, path: str, text: str = "") -> Path:
        """Put a file below the root."""
        target = self.root / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
        return target

    def read(self, path: str) -> str:
        return (self.root / path).read_text()

    def has(self, path: str) -> bool:
        return (self.root / path).exists()

    def does_not_wait(self, script: str, seconds: int) -> None:
        """Let a script ask once where it would wait for so many seconds."""
        text, wait = (self.folder / script).read_text(), f"wait_for {seconds} "
        assert wait in text
        self.write(script, text.replace(wait, "wait_for 0 "))

    def node_env(self, values: Mapping[str, str]) -> None:
        self.write("node.env", "".join(f"{key}='{value}'\n" for key, value in values.items()))

    def answer(
        self,
        pattern: str,
        prints: str = "",
        *,
        status: int = 0,
        complains: str = "",
        times: int = 0,
        does: str = "",
    ) -> None:
        """Let a fake do this when its command line matches; the latest rule counts most.

        The pattern is an extended regular expression; `times` 0 means always; `does` is Python that
        the fake runs.
        """
        self.rules.insert(
            0,
            {"pattern": pattern, "prints": prints, "status": status, "complains": complains,
             "times": times, "does": does},
        )  # fmt: skip

    def restarts(self, *pods: str) -> None:
        """Let the kubelet start these static pods again whenever they are stopped."""
        for pod in pods:
            self.answer(f"^crictl ps .*name .{pod}", does=CONTAINER.format(pod=pod))

    def members(self, *addresses: str) -> None:
        """Let etcd have these members."""
        lines = [
            f"{each}, started, cp-{each}, https://{each}:2380, https://{each}:2379, false\n"
            for each in addresses
        ]
        self.answer("member list", "".join(lines))

    def encrypts(self) -> None:
        """Give it the real openssl, and the key of its backups."""
        (self.fakes / "openssl").unlink()
        subprocess.run(MAKE_BACKUP_KEY, cwd=self.folder, capture_output=True, check=True)

    def requests(self, join: str, *lines: str) -> None:
        """Let the API have these requests while the command `join` runs.

        TOKEN in them stands for the id of the token that it joins with.
        """
        (self.fakes / "openssl").unlink()
        self.answer(join, does=UNTIL_APPROVED)
        self.answer("get certificatesigningrequests", "".join(lines), does=BY_TOKEN)

    def run(self, script: str, *arguments: str, stdin: str = "") -> Result:
        return self.bash(["bash", f"./{script}", *arguments], stdin)

    def lib(self, commands: str) -> Result:
        """Run commands with lib.sh loaded."""
        return self.bash(
            ["bash", "-c", f"source ./lib/lib.sh\n{commands}", "trial.sh", "check"], ""
        )

    def library(self, files: str, commands: str) -> Result:
        """Run commands with these files and the settings loaded."""
        return self.lib(f"for file in {files}; do source ./$file; done\nload_env\n{commands}")

    def bash(self, command: Sequence[str], stdin: str) -> Result:
        self.write_rules()
        for used in self.fakes.glob("used-*"):
            used.unlink()
        (self.fakes / "calls").write_text("")
        done = subprocess.run(
            command, cwd=self.folder, input=stdin, capture_output=True, text=True, timeout=60,
            check=False,
            env={
                "PATH": f"{self.fakes}:{os.environ['PATH']}",
                "BASH_FUNC_logger%%": LOGGER.format(journal=shlex.quote(f"{self.fakes}/journal")),
                "OPENSTACK_KUBERNETES_ROOT": str(self.root),
                "WAIT_PAUSE": "0.05",
                "MEMBERS_TIMEOUT": "1",
                "API_TIMEOUT": "1",
                "RESTART_TIMEOUT": "1",
                "OWN_API_TIMEOUT": "0",
                "NODE_TIMEOUT": "2",
                "BUCKET_PAUSE": "0",
                "ETCD_TIMEOUT": "0",
                **self.environment,
            },
        )  # fmt: skip
        assert not (self.fakes / "invalid").exists(), (self.fakes / "invalid").read_text()
        return Result(done)

    def write_rules(self) -> None:
        """Write the rules as the fakes read them, and the Python of each that has some."""
        commands = []
        for number, rule in enumerate(self.rules):
            answer = [rule[key] for key in ("pattern", "times", "status", "prints", "complains")]
            if rule["does"]:
                (self.fakes / f"does-{number}").write_text(DOES.format(rule=rule, **rule))
                answer.append(sys.executable)
            commands.append(shlex.join(map(str, ["rule", number, *answer])) + "\n")
        (self.fakes / "rules").write_text("".join(commands))

    @property
    def recorded(self) -> list[dict[str, str]]:
        with (self.fakes / "calls").open(newline="\n") as calls:
            return [json.loads(line, strict=False) for line in calls]

    @property
    def calls(self) -> list[str]:
        """Command lines of the last run."""
        return [entry["line"] for entry in self.recorded]

    @property
    def journal(self) -> str:
        """The journal of all runs."""
        return (self.fakes / "journal").read_text()

    def called(self, text: str) -> list[str]:
        return [line for line in self.calls if text in line]

    def order(self, *texts: str) -> None:
        """Assert that the calls with these texts came in this order."""
        calls = self.calls
        positions = [
            next((i for i, line in enumerate(calls) if text in line), None) for text in texts
        ]
        assert None not in positions, (dict(zip(texts, positions, strict=True)), calls)
        assert positions == sorted(p for p in positions if p is not None), calls


# What every node.env has (components/machine_folder.py).
COMMON = {
    "CLUSTER_NAME": "demo",
    "KUBERNETES_VERSION": "v1.36.3",
    "API_NAME": "api.demo.internal",
    "CONTROL_PLANE_ADDRESSES": "10.8.0.21 10.8.0.22 10.8.0.23 10.8.0.24 10.8.0.25",
    "NODE_HOSTS": "10.8.0.21=demo-control-plane-0 10.8.0.22=demo-control-plane-1",
    "IGNORE_PREFLIGHT_ERRORS": "Swap",
    **ports.node_env(),
}


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A bare machine with a folder that has only the settings every machine has."""
    made = Machine(tmp_path)
    made.node_env({**COMMON, "NODE_NAME": "demo-node", "NODE_IP": "10.8.0.99"})
    made.write("ca.crt", CA)
    return made


@pytest.fixture
def make_machine(tmp_path: Path) -> Callable[[Mapping[str, str]], Machine]:
    """Machines with further settings."""

    def make(values: Mapping[str, str]) -> Machine:
        base = tmp_path / f"machine-{len(list(tmp_path.iterdir()))}"
        base.mkdir()
        made = Machine(base)
        made.node_env({**COMMON, **values})
        made.write("ca.crt", CA)
        return made

    return make
