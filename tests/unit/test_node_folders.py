"""Each machine is sent every script that it runs, and what those source, run and read."""

from __future__ import annotations

import base64
import io
import posixpath
import re
import tarfile
import tomllib
from collections.abc import Iterator, Mapping

import pytest
import yaml

from components.packing import script_archive, scripts
from tests.unit.engine import MINIMAL, Recorded, Run, run

EVERYTHING = {
    "addons": {**MINIMAL["addons"], "kured": {"enabled": True}},
    "backup": {"bucket": {"endpoint": "https://s3.example.org", "name": "b", "accessKey": "A"}},
    "backupSecretKey": "very-secret",
    "controlPlane": {"etcdVolume": {"size": 10}},
}

SENT = f"openstack-kubernetes-scripts-{script_archive().checksum[:16]}.tar.gz"

# From the folder of the run, from the folder of the script, and from those that are installed.
FROM_HERE = re.compile(r'"\$HERE/([\w./-]+)"')
FROM_ITSELF = re.compile(r'source "\$\(dirname -- "\$\{BASH_SOURCE\[0\]\}"\)/([\w./-]+)"')
FILES = re.compile(r'"\$FILES/([\w./-]+)"')
INSTALLED = re.compile(r"[$@]SCRIPTS_DIR@?/([\w-]+/[\w-]+\.sh)")


@pytest.fixture(scope="module")
def made() -> Run:
    return run(EVERYTHING, secret=["backupSecretKey"])


def folder(of: Recorded) -> dict[str, str]:
    """The folder that a command's script works in."""
    lines = [of.inputs[verb] for verb in ("create", "delete") if verb in of.inputs]
    before = scripts() if any(SENT in line for line in lines) else {}
    return before | unpacked(base64.b64decode(of.inputs["stdin"]))


def unpacked(packed: bytes) -> dict[str, str]:
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        opened = {name: tar.extractfile(name) for name in tar.getnames()}
        return {name: file.read().decode() for name, file in opened.items() if file}


def named(name: str, text: str) -> Iterator[str]:
    """The files that a file names."""
    own = posixpath.dirname(name)
    for path in FROM_HERE.findall(text) + INSTALLED.findall(text):
        # The folder of files of each folder of scripts.
        if not path.endswith("/files"):
            yield path
    yield from (posixpath.normpath(f"{own}/{path}") for path in FROM_ITSELF.findall(text))
    yield from (f"{own}/files/{path}" for path in FILES.findall(text))


def needed(script: str, files: Mapping[str, str]) -> set[str]:
    """The script, and all that it names, directly or through others."""
    seen: set[str] = set()
    ends = [script]
    while ends:
        name = ends.pop()
        if name not in seen:
            seen.add(name)
            ends += named(name, files.get(name, ""))
    return seen


def test_what_a_mirror_lacks_comes_from_the_registry_itself() -> None:
    mirrors = {host: ["https://mirror"] for host in ("docker.io", "quay.io:443", "_default")}
    files = folder(
        run({"registryMirrors": mirrors}).one("remote:Command", "demo-worker-0-configure")
    )
    registries = {
        host: tomllib.loads(files[f"containerd/certs.d/{host}/hosts.toml"]).get("server")
        for host in mirrors
    }
    assert registries == {
        "docker.io": "https://registry-1.docker.io",
        "quay.io:443": "https://quay.io:443",
        # Each its own.
        "_default": None,
    }


def test_each_machine_is_sent_all_that_its_scripts_need(made: Run) -> None:
    checked: dict[str, set[str]] = {}
    for name, command in made.all("remote:Command").items():
        files = folder(command)
        for line in filter(None, (command.inputs.get("create"), command.inputs.get("delete"))):
            (script,) = re.findall(r"bash \./(\S+) ", line)
            checked[script] = needed(script, files)
            assert checked[script] <= files.keys(), f"{name} runs {script}"
    # The patterns see what they are for.
    seen = checked["gateway/gateway.sh"]
    assert {"lib/lib.sh", "lib/messages.sh", "install/install.sh", "reboot/reboot.sh"} <= seen
    assert {"lib/files/haproxy.cfg", "install/files/openstack-kubernetes-updates.timer"} <= seen


def test_a_gateway_boots_with_all_that_it_needs() -> None:
    sent = scripts("lib", "gateway")
    # It does without these until the first connection.
    later = {"install/install.sh", "reboot/timer.sh"}
    assert needed("gateway/gateway.sh", sent) - sent.keys() == later


def test_the_user_data_of_a_gateway_has_room_left(made: Run) -> None:
    text = made.one("instance:Instance", "demo-gateway-0").inputs["userData"]
    written = {file["path"] for file in yaml.safe_load(text)["write_files"]}
    sent = scripts("lib", "gateway")
    assert {f"/etc/openstack-kubernetes/boot/{name}" for name in sent} <= written
    # The unit runs what is sent, and ends when it has succeeded.
    ((*_, unit), (*_, name)) = yaml.safe_load(text)["runcmd"]
    assert unit.endswith(f"/{name}")
    service = sent[unit.removeprefix("/etc/openstack-kubernetes/boot/")]
    assert f"bash {unit.partition('/files/')[0]}/gateway.sh configure " in service
    assert {"Restart=on-failure", "StartLimitIntervalSec=0"} <= {*service.splitlines()}
    assert f"ExecStartPost=systemctl disable {name}\n" in service
    assert sum(len(each.encode()) for each in sent.values()) < 37 * 1024
    # Nova takes 65535 bytes; the keys and certificates here are shorter than real ones.
    assert len(base64.b64encode(text.encode())) < 60_000


def test_every_machine_has_the_scripts_before_one_of_them_runs_there(made: Run) -> None:
    copies = made.all("remote:CopyToRemote")
    commands = made.all("remote:Command")
    configures = {name for name in commands if name.endswith("-configure")}
    assert {name.replace("-scripts", "-configure") for name in copies} == configures
    for name, copy in copies.items():
        assert copy.inputs["remotePath"] == SENT
        assert unpacked(copy.inputs["source"]) == scripts()
        configure = commands[name.replace("-scripts", "-configure")]
        assert copy.inputs["connection"] == configure.inputs["connection"]
        assert made.waits_for(configure, copy)
    # The others run on whichever gateway is active.
    for name, each in commands.items():
        if not name.endswith(("-prepare", "-configure", "-host-key")):
            gateways = [copy for name, copy in copies.items() if "-gateway-" in name]
            assert all(made.waits_for(each, copy) for copy in gateways), name


def test_the_state_has_no_script_but_those_of_the_first_connection(made: Run) -> None:
    for name, each in made.all("remote:Command").items():
        own = unpacked(base64.b64decode(each.inputs["stdin"]))
        assert any(path.endswith(".sh") for path in own) == name.endswith("-host-key"), name
