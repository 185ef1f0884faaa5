"""The whole configuration of a cluster.

`load` is pure: a mapping in, a frozen `Cluster` out, or one `ConfigError` that names every fault.
`from_pulumi` reads the stack's configuration once and hands it to `load`.
Values that are secret stay Pulumi outputs, in `Secrets`, outside of the model.
"""

import json
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from ipaddress import IPv4Network
from typing import Annotated, Literal

import pulumi
from pulumi.runtime.config import CONFIG, is_config_secret
from pydantic import Field

import versions
from addons.settings import AddonsSettings
from components.addresses import MAX_GATEWAYS, Addresses, addresses
from settings.backup import Backup
from settings.base import Address, DnsLabel, Name, Network, Settings, Url, Values
from settings.faults import MISSING, ConfigError, Fault, validate
from settings.kubernetes_version import KubernetesVersion, check_version_change
from settings.labels import LabelValue, QualifiedName
from settings.node_files import (
    CheckName,
    ComponentConfig,
    DropInName,
    HostKey,
    HttpsUrl,
    OddCount,
    Pem,
    RegistryHost,
    Toml,
    UserName,
)
from settings.rules import cross_field_faults

__all__ = [
    "Cluster",
    "ConfigError",
    "Pool",
    "Secrets",
    "Servers",
    "check_version_change",
    "from_pulumi",
    "load",
    "secrets_from_pulumi",
]

PROJECT = "openstack-kubernetes"
DEFAULT_POOL = "worker"

# Keys whose values never enter the model, and what they are.
SECRET_KEYS = {
    "sshPrivateKey": (
        "SSH key (private, OpenSSH or PEM) of the whole cluster instead of one that is made; "
        "what machines of `workerPools[].machines` already know."
    ),
    "oidcClientSecret": (
        "Secret of the client `oidc.clientId`, for Headlamp; without it a public client logs in."
    ),
    "backupSecretKey": "Secret key that belongs to `backup.bucket.accessKey`.",
}

ServerGroupPolicy = Literal["anti-affinity", "soft-anti-affinity"]
TaintEffect = Literal["NoSchedule", "PreferNoSchedule", "NoExecute"]


class Volume(Settings):
    """A Cinder volume."""

    size: Annotated[int, Field(ge=1)]
    """Size in GiB."""
    type: Name | None = None
    """Cinder volume type; the default is the cloud's."""


class Taint(Settings):
    """A taint that every node of a pool has from the start."""

    key: QualifiedName
    """Key, such as `dedicated` or `example.org/gpu`."""
    value: LabelValue = ""
    """Value; may be empty."""
    effect: TaintEffect
    """What happens to pods that do not tolerate it."""


class Machine(Settings):
    """A machine that exists already and joins the cluster as a worker."""

    name: DnsLabel
    """Name of its Kubernetes node."""
    address: Address
    """Address at which gateways and nodes reach it."""
    ssh_user: UserName | None = None
    """User with sudo for SSH; the default is `sshUser`."""
    host_key: HostKey
    """Its SSH host key, as in known_hosts but without the host: `ssh-ed25519 AAAA...`."""


class RoleSettings(Settings):
    """What can be set for the servers of one role."""

    flavor: Name | None = None
    """Name of the flavor; the default is `flavor`."""
    image: Name | None = None
    """Name of the image; the default is `image`."""
    volume: Volume | None = None
    """Boot volume; without it the server boots from the flavor's own disk."""
    availability_zones: tuple[Name, ...] = ()
    """Availability zones over which the servers are spread in turn; empty: the cloud decides."""


class GatewaySettings(RoleSettings):
    """The gateways: the only machines with a way in."""

    server_group_policy: ServerGroupPolicy = "anti-affinity"
    """Whether two gateways must not, or only should not, share a hypervisor."""


class ControlPlaneSettings(RoleSettings):
    """The control planes."""

    etcd_volume: Volume | None = None
    """A volume of its own for etcd's data; without it the data is on the boot disk. It stays while
    the cluster lives, in the zone and with the size with which it was made."""
    server_group_policy: ServerGroupPolicy = "anti-affinity"
    """Whether two control planes must not, or only should not, share a hypervisor."""


class WorkerSettings(RoleSettings):
    """What can be set for a pool of workers."""

    labels: Mapping[QualifiedName, LabelValue] = Field(default_factory=dict)
    """Labels that every node of the pool has."""
    taints: tuple[Taint, ...] = ()
    """Taints that every node of the pool has."""
    max_unavailable: Annotated[int, Field(ge=1)] = 1
    """How many nodes of the pool may be out of service at the same time while it is changed."""
    server_group_policy: ServerGroupPolicy = "soft-anti-affinity"
    """Whether two workers of the pool must not, or only should not, share a hypervisor."""


class WorkerPoolSettings(WorkerSettings):
    """A further pool of workers: servers that are made (`count`), or machines that exist."""

    name: DnsLabel
    """Name of the pool; its nodes are `<clusterName>-<name>-<number>`."""
    count: Annotated[int, Field(ge=0)] = 0
    """Number of servers."""
    machines: tuple[Machine, ...] = ()
    """Machines that exist already, instead of `count`."""


class ExistingNetwork(Settings):
    """A network to put the machines into, instead of making one."""

    network: Name
    """Name of the network."""
    subnet: Name
    """Name of the subnet; `hostCidr` must lie in it."""
    router: Name | None = None
    """Name of the router between the subnet and `externalNetwork`, for checks only."""


class Dns(Settings):
    """A name in Designate for the floating IP."""

    zone: Name
    """Zone, such as `example.org.`."""
    name: DnsLabel | None = None
    """Host part of the name; the default is `clusterName`."""


class Kubelet(Settings):
    """The kubelets."""

    extra_config: ComponentConfig = Field(default_factory=dict)
    """Fields of KubeletConfiguration (v1beta1), merged over those of this program."""


class KubeProxy(Settings):
    """kube-proxy."""

    extra_config: ComponentConfig = Field(default_factory=dict)
    """Fields of KubeProxyConfiguration (v1alpha1), merged over those of this program."""


class Kubeadm(Settings):
    """kubeadm."""

    ignore_preflight_errors: tuple[CheckName, ...] = ()
    """Names of preflight checks whose errors become warnings, such as `NumCPU`."""


class Containerd(Settings):
    """containerd."""

    drop_ins: Mapping[DropInName, Toml] = Field(default_factory=dict)
    """Files for `/etc/containerd/conf.d`: name (`*.toml`) to TOML text."""


class Etcd(Settings):
    """etcd, tuned for disks and networks of a cloud rather than for bare metal."""

    heartbeat_interval: Annotated[int, Field(ge=10, le=10_000)] = 500
    """Milliseconds between the leader's heartbeats (etcd's own default is 100)."""
    election_timeout: Annotated[int, Field(ge=50, le=50_000)] = 5000
    """Milliseconds without a heartbeat before an election; at least five heartbeats."""
    quota_backend_bytes: Annotated[int, Field(ge=64 * 2**20, le=8 * 2**30)] = 4 * 2**30
    """Bytes the database may hold before etcd refuses writes (etcd advises 8 GiB at most)."""


class HttpProxy(Settings):
    """The HTTP proxy through which the machines reach packages and images."""

    http: Url | None = None
    """Proxy for http, such as `http://proxy.example.org:3128`."""
    https: Url | None = None
    """Proxy for https; the default is `http`."""
    no_proxy: tuple[Name, ...] = ()
    """Hosts, domains and networks reached directly; the cluster's own are added."""


class DistributionMirror(Settings):
    """Mirrors of Debian or Ubuntu; a server takes them at its first boot."""

    archive: Url
    """Mirror of the archive."""
    security: Url
    """Mirror of the security updates; on Ubuntu the same as `archive`."""


class PackageMirrors(Settings):
    """Mirrors of the packages that are not in the machines' image."""

    kubernetes: Url | None = None
    """Mirror of `https://pkgs.k8s.io/core:/stable:`; v1.36 is below it at `/v1.36/deb`."""
    containerd: Url | None = None
    """Mirror of `https://download.docker.com/linux/debian` (on Ubuntu, of `.../ubuntu`)."""
    distribution: DistributionMirror | None = None


class AuditLog(Settings):
    """The API server's audit log, on the control planes' disks."""

    enabled: bool = True
    """Whether it is written."""
    max_age: Annotated[int, Field(ge=1)] = 30
    """Days after which a file is deleted."""
    max_backup: Annotated[int, Field(ge=1)] = 10
    """Number of old files kept."""
    max_size: Annotated[int, Field(ge=1)] = 100
    """Size in MiB at which a new file begins."""
    policy: Values | None = None
    """An audit.k8s.io/v1 Policy; the default logs metadata, and no secrets."""


class Oidc(Settings):
    """Logging in to the API by OpenID Connect."""

    issuer_url: HttpsUrl
    """URL of the issuer, https only."""
    client_id: Name
    """Client for which tokens must be issued."""
    username_claim: Name = "sub"
    """Claim that is the user's name."""
    username_prefix: str = "oidc:"
    """Put before user names, so that nobody becomes `system:...`."""
    groups_claim: Name = "groups"
    """Claim that lists the user's groups."""
    groups_prefix: str = "oidc:"
    """Put before group names."""
    ca_certificate: Pem | None = None
    """PEM certificate of the CA that signed the issuer's; the default is the system's list."""


class Cluster(Settings):
    """The configuration of one cluster, which is one stack."""

    cluster_name: Annotated[DnsLabel, Field(examples=["demo"])]
    """Name of the cluster, and first part of every machine's name; the default is the stack's. It
    stays as long as the cluster lives."""
    kubernetes_version: KubernetesVersion = versions.KUBERNETES_VERSION
    """Kubernetes version, with the `v`. Raise it by one minor at a time, never lower it."""
    master_count: OddCount = 3
    """Number of control planes; only an odd number survives a loss better than one fewer."""
    gateway_count: Annotated[int, Field(ge=1, le=MAX_GATEWAYS)] = 2
    """Number of gateways; with one, its loss cuts users off until it is replaced."""
    worker_count: Annotated[int, Field(ge=0)] = 2
    """Number of workers in the default pool, `worker`."""

    image: Name | None = None
    """Name of the image, for every role that names no other."""
    flavor: Name | None = None
    """Name of the flavor, for every role that names no other."""
    ssh_user: UserName = "debian"
    """User that the image's cloud-init gives the SSH key to; stays as long as the cluster lives."""
    gateway: GatewaySettings = GatewaySettings()
    control_plane: ControlPlaneSettings = ControlPlaneSettings()
    worker: WorkerSettings = WorkerSettings()
    """The default pool of workers, `worker`; its size is `workerCount`."""
    worker_pools: tuple[WorkerPoolSettings, ...] = ()
    """Further pools of workers."""

    external_network: Annotated[Name, Field(examples=["public"])]
    """Name of the external network that floating IPs come from."""
    allowed_cidrs: Annotated[
        tuple[Network, ...], Field(min_length=1, examples=[["203.0.113.0/24"]])
    ]
    """Networks that may reach the API and SSH. There is no default: name yours."""
    ingress_cidrs: tuple[Network, ...] | None = None
    """Networks that may reach ports 80 and 443; the default is `allowedCidrs`."""
    host_cidr: Network = IPv4Network("10.8.0.0/22")
    """Network of the machines, at least a /26; a /22 has room for about 990 workers. Like the next
    two, it stays as long as the cluster lives."""
    pod_cidr: Network = IPv4Network("10.244.0.0/16")
    """Network of the pods, a /24 for each node; a /16 has room for 256 nodes."""
    service_cidr: Network = IPv4Network("10.96.0.0/16")
    """Network of the Services; its tenth address is the cluster's DNS."""
    existing_network: ExistingNetwork | None = None
    dns_nameservers: tuple[Address, ...] = ()
    """Name servers of the subnet; empty: the cloud's."""
    floating_ip: Address | None = None
    """A floating IP that exists and is free; the default is a new one."""
    dns: Dns | None = None

    kubelet: Kubelet = Kubelet()
    kube_proxy: KubeProxy = KubeProxy()
    kubeadm: Kubeadm = Kubeadm()
    containerd: Containerd = Containerd()
    etcd: Etcd = Etcd()
    backup: Backup = Backup()
    registry_mirrors: Mapping[RegistryHost, Annotated[tuple[Url, ...], Field(min_length=1)]] = (
        Field(default_factory=dict)
    )
    """Registry host (or `_default`) to the URLs of its mirrors, tried in this order."""
    package_mirrors: PackageMirrors = PackageMirrors()
    http_proxy: HttpProxy | None = None
    security_updates: bool = True
    """Whether every machine installs the distribution's security updates, every night."""
    encryption_at_rest: bool = True
    """Whether Secrets are encrypted in etcd. A change covers what is written from then on."""
    audit_log: AuditLog = AuditLog()
    oidc: Oidc | None = None
    addons: AddonsSettings = AddonsSettings()
    cloud_checks: bool = True
    """Whether the cloud is asked at preview about names, quotas and what else could fail later."""

    @property
    def addresses(self) -> Addresses:
        """Which address of `hostCidr` belongs to whom."""
        return addresses(self.host_cidr)

    @property
    def settled(self) -> Mapping[str, str]:
        """Keys that a cluster cannot change while it lives, and their values."""
        return {
            "hostCidr": str(self.host_cidr),
            "podCidr": str(self.pod_cidr),
            "serviceCidr": str(self.service_cidr),
            # The machines learn it at their first boot.
            "sshUser": self.ssh_user,
        }

    @property
    def vip_name(self) -> str:
        """The name of the port that holds the gateways' virtual address."""
        return f"{self.cluster_name}-vip"

    @property
    def api_name(self) -> str:
        """The name by which every node reaches the API; on every node it means 127.0.0.1."""
        return f"api.{self.cluster_name}.internal"

    @property
    def ingress_sources(self) -> tuple[IPv4Network, ...]:
        """Networks that may reach ports 80 and 443."""
        return self.allowed_cidrs if self.ingress_cidrs is None else self.ingress_cidrs

    @property
    def machine_cidrs(self) -> tuple[IPv4Network, ...]:
        """Each machine that exists already as a network of one address."""
        machines = [machine for pool in self.worker_pools for machine in pool.machines]
        return tuple(IPv4Network(machine.address) for machine in machines)

    @property
    def dns_name(self) -> str | None:
        """The full name in Designate, with the final dot, or None without one."""
        if self.dns is None:
            return None
        return f"{self.dns.name or self.cluster_name}.{self.dns.zone.rstrip('.')}."

    def node_name(self, group: str, index: int) -> str:
        """The name of a machine: of a `gateway`, a `master`, or one of a pool."""
        return f"{self.cluster_name}-{group}-{index}"

    @property
    def gateway_servers(self) -> "Servers":
        """How gateways are made."""
        return self._servers(self.gateway)

    @property
    def control_plane_servers(self) -> "Servers":
        """How control planes are made."""
        return self._servers(self.control_plane)

    @property
    def pools(self) -> tuple["Pool", ...]:
        """Every pool of workers, the default one first, with all defaults filled in."""
        default = WorkerPoolSettings.model_construct(
            **dict(self.worker), name=DEFAULT_POOL, count=self.worker_count, machines=()
        )
        return tuple(self._pool(each) for each in (default, *self.worker_pools))

    def _servers(self, role: RoleSettings) -> "Servers":
        # `load` has refused a configuration in which a role that makes servers lacks either.
        return Servers(
            flavor=role.flavor or self.flavor or "",
            image=role.image or self.image or "",
            volume=role.volume,
            availability_zones=role.availability_zones,
        )

    def _pool(self, pool: WorkerPoolSettings) -> "Pool":
        return Pool(
            name=pool.name,
            count=pool.count,
            machines=pool.machines,
            servers=self._servers(pool),
            labels=pool.labels,
            taints=pool.taints,
            max_unavailable=pool.max_unavailable,
            server_group_policy=pool.server_group_policy,
        )


@dataclass(frozen=True, kw_only=True)
class Servers:
    """How the servers of one role are made, with all defaults filled in."""

    flavor: str
    image: str
    volume: Volume | None
    availability_zones: tuple[str, ...]

    def availability_zone(self, index: int) -> str | None:
        """The zone of the server with this number, None when the cloud decides."""
        zones = self.availability_zones
        return zones[index % len(zones)] if zones else None


@dataclass(frozen=True, kw_only=True)
class Pool:
    """One pool of workers: `count` servers, or `machines` (then `count` is 0)."""

    name: str
    count: int
    machines: tuple[Machine, ...]
    servers: Servers
    """Both names are empty when the pool makes no server."""
    labels: Mapping[str, str]
    taints: tuple[Taint, ...]
    max_unavailable: int
    server_group_policy: ServerGroupPolicy


@dataclass(frozen=True, kw_only=True)
class Secrets:
    """Secret values of the configuration."""

    keys: frozenset[str]
    """Top-level keys of the model in which something was set with `--secret`."""
    ssh_private_key: pulumi.Output[str] | None
    """Key for machines that exist already; without it the cluster's own key is used."""
    oidc_client_secret: pulumi.Output[str] | None
    """What Headlamp shows the OIDC issuer."""
    backup_secret_key: pulumi.Output[str] | None
    """What the control planes sign their requests to the bucket with."""


def load(raw: Mapping[str, object], stack: str, secret: Collection[str] = ()) -> Cluster:
    """Make a cluster's configuration from what the user wrote.

    Args:
        raw: values by key (camelCase), nested ones as dicts and lists. A text, list or object
            that is empty counts as not set: Pulumi.yaml has no other way to say "optional".
        stack: the stack's name, the default of `clusterName`.
        secret: keys whose values no message may show.

    Raises:
        ConfigError: with every fault that was found.
    """
    is_set = {key: value for key, value in raw.items() if value not in ("", [], {}, None)}
    in_the_open = [
        Fault(key, MISSING, f"set it anew, as a secret: `pulumi config set --secret {key}`")
        for key in SECRET_KEYS
        if key in is_set and key not in secret
    ]
    plain = {key: value for key, value in is_set.items() if key not in SECRET_KEYS}
    return validate(
        Cluster,
        {"clusterName": stack, **plain},
        lambda cluster, bad: [
            *in_the_open,
            *_missing_secrets(cluster, is_set),
            *cross_field_faults(cluster, bad),
        ],
        secret,
    )


def _missing_secrets(cluster: Cluster, is_set: Collection[str]) -> list[Fault]:
    """Secrets that another key makes necessary."""
    if cluster.backup.bucket is None or "backupSecretKey" in is_set:
        return []
    problem = "backup.bucket needs it: `pulumi config set --secret backupSecretKey`"
    return [Fault("backupSecretKey", MISSING, problem)]


def from_pulumi() -> Cluster:
    """Read the configuration of the stack that is being run.

    Raises:
        ConfigError: with every fault that was found.
    """
    raw = {key: _decoded(value) for key, value in _stored().items()}
    return load(raw, pulumi.get_stack(), _secret_keys())


def secrets_from_pulumi() -> Secrets:
    """Read the secret values of the stack that is being run."""
    return Secrets(
        keys=_secret_keys().difference(SECRET_KEYS),
        ssh_private_key=pulumi.Config().get_secret("sshPrivateKey"),
        oidc_client_secret=pulumi.Config().get_secret("oidcClientSecret"),
        backup_secret_key=pulumi.Config().get_secret("backupSecretKey"),
    )


def _stored() -> dict[str, str]:
    """What the stack's configuration holds for this project, by key."""
    prefix = f"{pulumi.get_project()}:"
    return {
        key.removeprefix(prefix): value
        for key, value in CONFIG.get().items()
        if key.startswith(prefix)
    }


def _secret_keys() -> frozenset[str]:
    project = pulumi.get_project()
    return frozenset(key for key in _stored() if is_config_secret(f"{project}:{key}"))


def _decoded(value: str) -> object:
    # The engine hands every value over as text, lists and objects as JSON.
    try:
        decoded: object = json.loads(value)
    except ValueError:
        return value
    return decoded if isinstance(decoded, dict | list) else value
