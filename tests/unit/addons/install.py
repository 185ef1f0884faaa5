"""The component of the add-ons alone, registered with mocks."""

from __future__ import annotations

import base64
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import partial
from types import SimpleNamespace
from typing import Any

import pulumi

from addons import cloud_controller_manager
from addons.cloud_conf import Credential
from components.addons import Addons
from components.control_plane_files import cloud_config_files
from components.credential import configs_with
from config.load import Secrets, load
from tests.unit.engine import CLUSTER_ID, MINIMAL, Cloud, Recorder, Run

CHART = "helm.sh/v4:Chart"
SECRET = "core/v1:Secret"
DAEMON_SET = "apps/v1:DaemonSet"
CCM = f"demo-addons-{cloud_controller_manager.NAME}"
OPERATOR = {"operator": {"enabled": True}}
OPTIONAL = ("snapshots", "monitoring", "ingress", "headlamp", "logging", "operator", "kured")
EVERYTHING = {name: {"enabled": True} for name in OPTIONAL}
# As much of it as the program reads.
KUBECONFIG = json.dumps(
    {
        "clusters": [{"cluster": {"server": "https://203.0.113.7:6443"}}],
        "users": [{"name": "demo-openstack-kubernetes"}],
    }
)
CREDENTIAL_SECRET = 's3"cr\\et'


@dataclass
class AddonsRun(Run):
    """A run that also records providers, and the transforms of charts separately."""

    providers: dict[str, str] = field(default_factory=dict)
    transforms: dict[str, int] = field(default_factory=dict)
    # Names of what stays in the cluster when it leaves the program.
    retained: set[str] = field(default_factory=set)
    # The output of the component: one, or none while it is unknown.
    kubeconfigs: list[str] = field(default_factory=list)
    # Files below /etc/kubernetes on the control planes, which log in to the cloud.
    files: dict[str, str] = field(default_factory=dict)

    def made(self) -> set[str]:
        return {each.name for each in self.resources.values() if "kubernetes" in each.type}

    def chart_values(self, name: str) -> dict[str, Any]:
        values: dict[str, Any] = self.one(CHART, f"demo-addons-{name}").inputs["values"]
        return values

    def file(self, secret: str, name: str) -> str:
        return base64.b64decode(self.one(SECRET, secret).inputs["data"][name]).decode()

    def cloud_config(self, program: str = cloud_controller_manager.NAME) -> str:
        return self.files[f"cloud/{program}/cloud.conf"]


class AddonsRecorder(Recorder):
    def __init__(self, cloud: Cloud, run: AddonsRun) -> None:
        super().__init__(cloud, run)
        self._addons_run = run

    def RegisterResource(self, request: Any) -> Any:  # noqa: ANN401, N802
        response = super().RegisterResource(request)
        if request.type.endswith(CHART):
            self._addons_run.transforms[request.name] = len(request.transforms) - 1
        self._addons_run.providers[response.urn] = request.provider
        if request.retainOnDelete:
            self._addons_run.retained.add(request.name)
        return response


def install(
    raw: Mapping[str, Any] | None = None,
    *,
    cloud: Cloud | None = None,
    control_plane_count: int = 3,
    worker_count: int = 2,
    preview: bool = False,
    checks: bool = False,
    kubeconfig: str = KUBECONFIG,
    ca_certificate: str | None = None,
    oidc: Mapping[str, str] | None = None,
    oidc_client_secret: str | None = None,
    with_secrets: bool = False,
    volume_zones: bool = True,
) -> AddonsRun:
    """Register only the component of the add-ons."""
    recorded = AddonsRun()
    cloud = cloud or Cloud(())
    cluster = load(
        {
            **MINIMAL,
            "cloudChecks": checks,
            "controlPlaneCount": control_plane_count,
            "workerCount": worker_count,
            "oidc": oidc,
            "addons": raw,
        },
        "demo",
    )
    hidden = pulumi.Output.secret
    secrets = Secrets(
        settings_with_secrets=frozenset({"addons"} if with_secrets else ()),
        ssh_private_keys=[],
        oidc_client_secret=None if oidc_client_secret is None else hidden(oidc_client_secret),
        backup_secret_key=None,
    )
    credential = Credential(
        auth_url="https://keystone.example.org/v3",
        region="RegionOne",
        id=pulumi.Output.from_input("credential-id"),
        secret=hidden(CREDENTIAL_SECRET),
        ca_certificate=ca_certificate,
    )
    pulumi.runtime.set_mocks(cloud, preview=preview, monitor=AddonsRecorder(cloud, recorded))

    @pulumi.runtime.test  # type: ignore[untyped-decorator]
    def program() -> None:
        # Only what the add-ons use of the other components.
        context: Any = SimpleNamespace(
            cluster=cluster,
            network=SimpleNamespace(
                mtu=pulumi.Output.from_input(1450),
                subnet_id=pulumi.Output.from_input("subnet-id"),
                subnet_cidr=str(cluster.host_cidr),
                external_network_id="public-id",
                anchor=pulumi.CustomResource("test:index:Network", "demo", {}),
            ),
            pki=SimpleNamespace(
                administrator=None,
                cluster_id=pulumi.Output.from_input(CLUSTER_ID),
                kubeconfig=lambda *_: hidden("administrator's kubeconfig"),
            ),
            gateway=SimpleNamespace(floating_ip=pulumi.Output.from_input("203.0.113.7")),
            endpoint=pulumi.Output.from_input("https://203.0.113.7:6443"),
            volume_zones=(
                pulumi.Output.from_input(volume_zones)
                if cluster.addons.cinder_csi.enabled
                else None
            ),
        )
        membership = pulumi.CustomResource("test:index:Membership", "demo-membership", {})
        control_plane: Any = SimpleNamespace(
            api_ready=pulumi.CustomResource("test:index:Script", "demo-api", {}),
            kubeconfig=hidden(kubeconfig),
            turns={"demo-control-plane-0": membership},
        )
        configs = configs_with(context, credential)
        for path, text in cloud_config_files(configs).items():
            pulumi.Output.from_input(text).apply(partial(recorded.files.__setitem__, path))
        addons = Addons(
            "demo-addons",
            context,
            control_plane=control_plane,
            cloud_configs=configs,
            secrets=secrets,
        )
        addons.administrator_kubeconfig.apply(recorded.kubeconfigs.append)

    program()
    return recorded


def chart_names(run: AddonsRun) -> set[str]:
    return {each.inputs["name"] for each in run.all(CHART).values()}
