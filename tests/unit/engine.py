"""The program on mocks, with every resource and its options recorded."""

from __future__ import annotations

import base64
import hashlib
import io
import json
import logging
import runpy
import tarfile
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pulumi
import pytest
import yaml
from pulumi.runtime.mocks import MockCallArgs, MockMonitor, MockResourceArgs, Mocks
from pulumi.runtime.proto.source_pb2 import StackTrace
from pulumi.runtime.settings import SETTINGS
from pulumi.runtime.sync_await import _sync_await

from components import image
from tests.unit import ssh_keys
from tests.unit.clusters import LEAST

PROGRAM = Path(__file__).resolve().parents[2] / "__main__.py"
PROJECT = "openstack-kubernetes"
# By the CA that `Cloud` makes: the name of its resource and "certificate".
CLUSTER_ID = "demo-" + hashlib.sha256(b"demo-cluster-ca certificate\n").hexdigest()[:8]

SERVER = "instance:Instance"
COMMAND = "remote:Command"
# The machines of a default cluster.
GATEWAYS = ["demo-gateway-0", "demo-gateway-1"]
NODES = [
    "demo-control-plane-0",
    "demo-control-plane-1",
    "demo-control-plane-2",
    "demo-worker-0",
    "demo-worker-1",
]

# A failed output leaves copies that no one reads: asyncio reports each after the test's summary.
logging.getLogger("asyncio").setLevel(logging.CRITICAL)
# Where each resource is declared is of use to the engine only, and a fifth of the work of a run.
pulumi.runtime.resource._get_stack_trace = StackTrace

# Where the provider logs in; the cloud is not asked.
LOGIN = {
    "OS_AUTH_URL": "https://cloud.example.org:5000/v3",
    "OS_USERNAME": "somebody",
    "OS_PASSWORD": "something",
    "OS_PROJECT_NAME": "somewhere",
}
# Nothing asks the cloud.
MINIMAL: Mapping[str, Any] = {
    **LEAST,
    "cloudChecks": False,
    # Add-ons from charts have tests of their own; a preview would look for the charts.
    "addons": {
        "cni": {"kind": "none"},
        "cinderCsi": {"enabled": False},
        "metricsServer": {"enabled": False},
    },
}


# The smallest cluster with machines of every role, for what does not depend on their number.
SMALL: Mapping[str, Any] = {"gatewayCount": 1, "controlPlaneCount": 1, "workerCount": 1}


@dataclass(frozen=True)
class Recorded:
    """One registered resource: what the engine would have been asked for."""

    urn: str
    name: str
    type: str
    inputs: Mapping[str, Any]
    dependencies: Sequence[str]
    deleted_with: str
    protect: bool
    delete_before_replace: bool
    create_before_delete: bool
    ignore_changes: Sequence[str]
    replace_on_changes: Sequence[str]
    replacement_trigger: str

    @property
    def compared(self) -> Mapping[str, Any]:
        """The inputs without those whose change the engine ignores; of a map, the whole one."""
        ignored = {path.partition(".")[0] for path in self.ignore_changes}
        return {key: value for key, value in self.inputs.items() if key not in ignored}


@dataclass
class Run:
    """The resources that one run of the program registered, and the stack's outputs."""

    resources: dict[str, Recorded] = field(default_factory=dict)
    outputs: dict[str, Any] = field(default_factory=dict)
    # Name of a resource and of an input that is secret.
    secret_inputs: set[tuple[str, str]] = field(default_factory=set)

    def all(self, kind: str) -> dict[str, Recorded]:
        """The resources whose type ends with `kind`, by name."""
        return {r.name: r for r in self.resources.values() if r.type.endswith(kind)}

    def one(self, kind: str, name: str) -> Recorded:
        """The one resource of that kind and name."""
        return self.all(kind)[name]

    def waits_for(self, later: Recorded, earlier: Recorded) -> bool:
        """True if `later` depends on `earlier`, directly or through others."""
        seen: set[str] = set()
        ends = list(later.dependencies)
        while ends:
            urn = ends.pop()
            if urn not in seen and urn in self.resources:
                seen.add(urn)
                ends += self.resources[urn].dependencies
        return earlier.urn in seen


# The certificate authorities of a cluster that has never rotated them, as the stack says it.
SETTLED: Mapping[str, Any] = {"generation": 1, "phase": "done"}
# Kind -> what its provider adds to each.
CLOUDS_OWN: Mapping[str, Mapping[str, Any]] = {
    "Network": {"mtu": 1450},
    "FloatingIp": {"address": "198.51.100.7"},
    "ApplicationCredential": {"secret": "application-credential-secret"},
}


class Cloud(Mocks):
    """Answers as the providers would: ids, addresses, keys; and the stack's last outputs."""

    def __init__(
        self,
        machines: Iterable[str],
        ssh_key: str | None = None,
        made_with: Mapping[str, str] | None = None,
        host_keys: int = 1,
        authorities: Mapping[str, Any] = SETTLED,
        unfinished: Iterable[str] = (),
    ) -> None:
        self._machines = list(machines)
        self._unfinished = list(unfinished)
        self._ssh_key = ssh_key
        self._made_with = made_with
        self._host_keys = host_keys
        self._authorities = authorities

    def new_resource(self, args: MockResourceArgs) -> tuple[str, dict[str, Any]]:
        """The resource's inputs, and the values that its provider would add."""
        kind = args.typ.split(":")[-1]
        state = {**args.inputs, **CLOUDS_OWN.get(kind, {})}
        match kind:
            case "PrivateKey":
                state |= {
                    f"{part}{form}": f"{args.name} {part} {form}\n"
                    for part in ("privateKey", "publicKey")
                    for form in ("Pem", "Openssh")
                }
            case "SelfSignedCert" | "LocallySignedCert":
                state["certPem"] = f"{args.name} certificate\n"
            case "RandomBytes":
                state |= {"base64": f"{args.name} bytes", "hex": f"{args.name} digits"}
            case "CertRequest":
                state["certRequestPem"] = f"{args.name} request\n"
            case "Port":
                # As in a network with an IPv6 subnet; Neutron promises no order.
                address = args.inputs["fixedIps"][0].get("ipAddress") or "10.8.0.77"
                state["allFixedIps"] = ["2001:db8::77", address]
            case "Instance" if args.name in self._machines:
                # As the engine does with what it ignores.
                state["metadata"] = {**state["metadata"], "oneTimeHostKey": f"{args.name} had it"}
            case "Stash":
                state["output"] = state["input"]
            case _:
                pass
        return f"{args.name}-id", state

    def call(self, args: MockCallArgs) -> tuple[dict[str, Any], list[tuple[str, str]]]:
        """A data source: the thing asked for exists."""
        if args.token == "pulumi:pulumi:readStackOutputs":
            listed = [
                {"name": name, "address": f"192.0.2.{place}"}
                for place, name in enumerate(self._machines)
            ]
            gateways = [each for each in listed if "-gateway-" in each["name"]]
            outputs = {
                "nodes": [each for each in listed if each not in gateways],
                "gateways": gateways,
                "sshPrivateKey": self._ssh_key,
                "immutableSettings": self._made_with,
                "hostKeys": self._host_keys,
                "certificateAuthorities": self._authorities,
            }
            return {"outputs": outputs if listed else {}}, []
        if args.token == "pulumi:pulumi:readStackResourceOutputs":
            names = [*self._machines, *self._unfinished]
            ends = {n: "handover" if "-gateway-" in n else "membership" for n in names}
            urns = [f"urn:pulumi:demo::{PROJECT}::any::{n}-{end}" for n, end in ends.items()]
            return {"outputs": {urn: {} for urn in urns}}, []
        private = args.args.get("privateKeyOpenssh")
        found = {
            "id": f"{args.args.get('name', 'any')}-id",
            "mtu": 1450,
            "cidr": "10.0.0.0/8",
            # The zones of Cinder.
            **({} if args.args.get("state") == "unavailable" else {"names": ["a", "b"]}),
            **({"publicKeyOpenssh": f"{ssh_keys.public_of(private)}\n"} if private else {}),
        }
        return {**args.args, **found}, []


class Recorder(MockMonitor):
    """A mock monitor that sees the resource options, too."""

    def __init__(self, mocks: Mocks, run: Run) -> None:
        super().__init__(mocks)
        self._run = run

    def RegisterResource(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Record what was asked for, then do what the mock monitor does."""
        inputs = pulumi.runtime.rpc.deserialize_properties(request.object)
        self._run.secret_inputs |= {
            (request.name, key) for key, value in inputs.items() if is_secret(value)
        }
        response = super().RegisterResource(request)  # type: ignore[no-untyped-call]
        self._run.resources[response.urn] = Recorded(
            urn=response.urn,
            name=request.name,
            type=request.type,
            inputs=plain(inputs),
            dependencies=list(request.dependencies),
            deleted_with=request.deletedWith,
            protect=request.protect,
            delete_before_replace=request.deleteBeforeReplace,
            # Whatever the provider would do.
            create_before_delete=request.deleteBeforeReplaceDefined
            and not request.deleteBeforeReplace,
            ignore_changes=list(request.ignoreChanges),
            replace_on_changes=list(request.replaceOnChanges),
            replacement_trigger=request.replacement_trigger.string_value,
        )
        return response

    def RegisterResourceOutputs(self, request: Any) -> Any:  # noqa: ANN401, N802
        """Record the outputs of the stack, which are those of no other resource."""
        if "::pulumi:pulumi:Stack::" in request.urn:
            self._run.outputs = plain(pulumi.runtime.rpc.deserialize_properties(request.outputs))
        return super().RegisterResourceOutputs(request)  # type: ignore[no-untyped-call]


def is_secret(value: Any) -> bool:  # noqa: ANN401
    """True if the value is marked as a secret."""
    rpc = pulumi.runtime.rpc
    return isinstance(value, dict) and (value.get(rpc._special_sig_key) == rpc._special_secret_sig)


def plain(value: Any) -> Any:  # noqa: ANN401
    """The value with its secrets in the clear, and with what is in its files."""
    if isinstance(value, dict):
        if pulumi.runtime.rpc._special_sig_key in value:
            return plain(value["value"])
        return {key: plain(each) for key, each in value.items()}
    if isinstance(value, pulumi.FileAsset):
        return Path(value.path).read_bytes()
    return [plain(each) for each in value] if isinstance(value, list) else value


def run(
    overrides: Mapping[str, Any] | None = None,
    *,
    existing: Iterable[str] = (),
    unfinished: Iterable[str] = (),
    secret: Iterable[str] = (),
    preview: bool = False,
    stack: str = "demo",
    ssh_key: str | None = None,
    made_with: Mapping[str, str] | None = None,
    host_keys: int = 1,
    authorities: Mapping[str, Any] = SETTLED,
) -> Run:
    """Run the program once, as an update or as a preview, and record what it registers.

    `existing` are the machines that the last successful update left behind, `unfinished` those
    that a failed one has made since. `ssh_key` is the key that the former know; `made_with`,
    `host_keys` and `authorities` are its outputs `immutableSettings`, `hostKeys` and
    `certificateAuthorities`. `secret` are the keys that were set with `--secret`.
    """
    recorded = Run()
    cloud = Cloud(existing, ssh_key, made_with, host_keys, authorities, unfinished)
    image.newest_image.cache_clear()
    pulumi.runtime.set_mocks(
        cloud, project=PROJECT, stack=stack, preview=preview, monitor=Recorder(cloud, recorded)
    )
    settings = {**MINIMAL, **(overrides or {})}
    pulumi.runtime.set_all_config(
        {
            key if ":" in key else f"{PROJECT}:{key}": (
                value if isinstance(value, str) else json.dumps(value)
            )
            for key, value in settings.items()
            if value is not None
        },
        [f"{PROJECT}:{key}" for key in secret],
    )

    # As the language host does it: in a stack of its own.
    pulumi.runtime.settings.set_root_resource(None)  # type: ignore[arg-type]
    # As `pulumi.runtime.test` does it: what a failed run left must not fail this one.
    SETTINGS.rpc_manager.clear()
    SETTINGS.outputs.clear()
    with pytest.MonkeyPatch.context() as environment:
        for name, value in LOGIN.items():
            environment.setenv(name, value)
        _sync_await(pulumi.runtime.run_in_stack(_program))
    return recorded


def _program() -> None:
    runpy.run_path(str(PROGRAM))


def server(of: Run, name: str) -> Recorded:
    return of.one(SERVER, name)


def command(of: Run, name: str) -> Recorded:
    return of.one(COMMAND, name)


def files(of: Recorded) -> dict[str, str]:
    """The folder that a command's script is sent."""
    packed = base64.b64decode(of.inputs["stdin"])
    with tarfile.open(fileobj=io.BytesIO(packed)) as tar:
        opened = {name: tar.extractfile(name) for name in tar.getnames()}
        return {name: file.read().decode() for name, file in opened.items() if file}


def file_of(of: Recorded, name: str) -> str:
    """One file of that folder."""
    return files(of)[name]


def node_env(of: Recorded) -> dict[str, str]:
    """The settings in that folder."""
    return dict(line.split("=", 1) for line in file_of(of, "node.env").splitlines())


def identity(kubeconfig: str) -> tuple[str, str]:
    """The certificate and the key in a kubeconfig, as the mocks name them."""
    [user] = yaml.safe_load(kubeconfig)["users"]
    certificate, key = (
        base64.b64decode(user["user"][f"client-{half}-data"]).decode().strip()
        for half in ("certificate", "key")
    )
    return certificate, key
