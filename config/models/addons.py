"""The add-ons, and the sources of their charts and images."""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from config.base import Settings
from config.values.kubernetes import ChartValues, VolumeSize
from config.values.labels import LabelValue, QualifiedName
from config.values.network import COMMAS, LONGEST_LABEL, Cidr, DnsLabel, DnsName, Url
from config.values.repositories import ChartRepository, ImageRegistry
from config.values.schedule import CronSchedule, Day, Period, TimeOfDay, TimeZone
from config.values.text import Line, Name, matches

# Minutes: the active gateway reboots only after the others.
_SHORTEST_WINDOW = 60
# The jobs of a CronJob have its name and 11 more characters, and must be DNS labels.
_LONGEST_SCHEDULE = 52
_A_DAY = matches(
    r".*[dwy]|(2[4-9]|[3-9][0-9]|[0-9]{3,})h",
    "must be a day (24h) at least, or VictoriaLogs does not start",
)
# Before the name of a cluster: the bucket's, which must be a DNS label too.
ETCD_BUCKET = "etcd-"
_LONGEST_OWNER = LONGEST_LABEL - len(ETCD_BUCKET)
_BucketOwner = Annotated[
    DnsLabel,
    matches(rf".{{1,{_LONGEST_OWNER}}}", f"must have at most {_LONGEST_OWNER} characters"),
]


def _require_distinct(key: str, names: Sequence[str]) -> None:
    for name, count in Counter(names).items():
        if count > 1:
            raise ValueError(f"{key} names {name!r} twice; rename one of them")


class ChartAddon(Settings):
    """An add-on from a Helm chart."""

    enabled: bool = True
    """Install this add-on."""
    values: ChartValues = Field(default={})
    """Values of the chart, merged over those that this program sets."""


class OptionalChartAddon(ChartAddon):
    """An add-on from a Helm chart that is not installed by default."""

    enabled: bool = False
    """Install this add-on."""


class Cni(Settings):
    """The pod network."""

    kind: Literal["cilium", "none"] = "cilium"
    """Plugin to install. With `none` you install one; until then, nodes stay NotReady and other
    add-ons do not start: enable them after that, `metricsServer` and `cinderCsi` too."""
    values: ChartValues = Field(default={})
    """Values of the chart, merged over those that this program sets."""


class NodeDns(Settings):
    """CoreDNS on every node: pods ask the one on their own node, so that the loss of another node
    does not affect their lookups. Only with Cilium."""

    enabled: bool = True
    """Run it in addition to the CoreDNS that kubeadm installs."""


class CloudControllerManager(Settings):
    """The OpenStack cloud controller manager, on the control planes."""

    enabled: bool = True
    """Install it, and let it set the addresses and zones of nodes."""
    image: Name | None = None
    """Complete reference of the image; the default is the pinned one."""
    extra_args: tuple[Name, ...] = ()
    """Additional arguments of its command line, such as `--v=4`."""
    cloud_config: dict[Name, dict[Name, Line]] = Field(default={})
    """Sections and keys of its cloud.conf, merged over those that this program sets."""


class StorageClass(Settings):
    """A StorageClass for Cinder volumes."""

    name: DnsLabel
    """Name of the StorageClass."""
    volume_type: Name | None = None
    """Cinder volume type; the default is that of the cloud."""
    availability_zone: Name | None = None
    """Cinder availability zone; the default is that of the pod's node."""
    filesystem: Literal["ext4", "xfs"] = "ext4"
    """File system of new volumes."""
    reclaim_policy: Literal["Delete", "Retain"] = "Delete"
    """Delete or retain a volume when its claim is deleted."""
    default: bool = False
    """Use this class for claims that name none."""


class CinderCsi(ChartAddon):
    """Persistent volumes from Cinder."""

    storage_classes: tuple[StorageClass, ...] = (StorageClass(name="cinder", default=True),)
    """StorageClasses to create."""
    cloud_config: dict[Name, dict[Name, Line]] = Field(default={})
    """Sections and keys of its cloud.conf, merged over those that this program sets."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _require_distinct("storageClasses", [each.name for each in self.storage_classes])
        if sum(each.default for each in self.storage_classes) > 1:
            raise ValueError("only one of storageClasses can be the default")
        return self


class MetricsServer(ChartAddon):
    """CPU and memory metrics for `kubectl top` and autoscaling."""


class SnapshotSchedule(Settings):
    """A schedule for snapshots of volumes."""

    name: Annotated[DnsLabel, Field(max_length=_LONGEST_SCHEDULE)]
    """Name of the schedule, and of its CronJob in the namespace `snapshots`."""
    schedule: CronSchedule
    """Cron schedule in UTC, such as `30 2 * * *` for every night at 2:30."""
    keep: Annotated[int, Field(ge=1)] = 7
    """Number of snapshots to keep of each claim; older ones of this schedule are deleted."""
    selector: Mapping[QualifiedName, LabelValue] = Field(default_factory=dict)
    """Labels of the claims; by default every claim."""
    namespaces: tuple[DnsLabel, ...] = ()
    """Namespaces of the claims; by default all."""


class Snapshots(OptionalChartAddon):
    """Snapshots of persistent volumes: the snapshot controller and a VolumeSnapshotClass."""

    deletion_policy: Literal["Delete", "Retain"] = "Delete"
    """Delete or retain a snapshot in Cinder when its VolumeSnapshot is deleted."""
    schedules: tuple[SnapshotSchedule, ...] = ()
    """Schedules for snapshots."""
    schedule_image: Name | None = None
    """Image for the jobs of schedules, with Python 3.11 or later; the default is the pinned one."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _require_distinct("schedules", [each.name for each in self.schedules])
        return self


class Monitoring(OptionalChartAddon):
    """Prometheus, Alertmanager and Grafana (kube-prometheus-stack)."""

    retention: Period = "15d"
    """Time for which metrics are kept."""
    storage_class: DnsName | None = None
    """StorageClass of the volumes; by default the default class."""
    storage_size: VolumeSize = "20Gi"
    """Size of the volume of Prometheus. To enlarge it, see
    [Larger volumes](operations/monitoring.md#larger-volumes)."""
    alertmanager: Annotated[ChartValues, Field(min_length=1)] | None = None
    """Configuration of Alertmanager (`route`, `receivers`); by default no alert is sent."""
    fleet: bool = False
    """Watch the clusters that `commands.fleet monitoring` has added: a dashboard, and
    alerts for those that are silent."""


class Ingress(OptionalChartAddon):
    """The ingress controller, behind ports 80 and 443 of the gateways."""

    controller: Literal["traefik", "nginx"] = "traefik"
    """Traefik, or the controller of the NGINX project, which answers requests only through the
    gateways or Octavia, not from pods that call its Service. To change it, first disable the
    ingress and run `pulumi up`, because both use the same node ports."""
    replicas: Annotated[int, Field(ge=1)] = 2
    """Number of pods."""
    default_class: bool = True
    """Serve Ingresses that name no class."""
    gateway_api: bool = False
    """Serve the Gateway API too (Traefik only); install its CRDs before. Routes in any namespace
    may use the Gateway `traefik-gateway` in the namespace `ingress`. It serves HTTP only, until you
    set a certificate with the chart's value `gateway.listeners.websecure`. Listeners of your own
    Gateways must have port 80 or 443."""

    @model_validator(mode="after")
    def _gateway_api_needs_traefik(self) -> Self:
        if self.gateway_api and self.controller == "nginx":
            raise ValueError("gatewayApi needs controller traefik; nginx serves Ingresses only")
        return self


class Headlamp(OptionalChartAddon):
    """The dashboard (Headlamp). It has no permissions of its own: users log in with a token or, if
    `oidc` is set, with OpenID Connect."""

    host: DnsName | None = None
    """Host name at the ingress; without it, use `kubectl port-forward`."""
    scopes: Annotated[tuple[Name, ...], Field(min_length=1)] = ("openid", "profile", "email")
    """OIDC scopes to request; add `groups` if the issuer requires it."""


class Logging(OptionalChartAddon):
    """Searchable logs of all pods and nodes (Fluent Bit, VictoriaLogs)."""

    retention: Annotated[Period, _A_DAY] = "30d"
    """Time for which logs are kept."""
    storage_class: DnsName | None = None
    """StorageClass of the volume; by default the default class."""
    storage_size: VolumeSize = "20Gi"
    """Size of the volume. To enlarge it, see
    [Larger volumes](operations/monitoring.md#larger-volumes)."""
    grafana: bool = True
    """Show logs in Grafana, if monitoring is enabled. Grafana downloads a plugin for that."""
    grafana_plugin_url: Url | None = None
    """URL of the plugin's zip file; the default is at grafana.com, which Grafana must reach."""
    fluent_bit_values: ChartValues = Field(default={})
    """Values of Fluent Bit's chart, merged over those that this program sets; `values` are those of
    VictoriaLogs."""


class ObjectStore(Settings):
    """An object store with the S3 API for other clusters (versitygw): one bucket for Pulumi's state
    and one for the etcd snapshots of each cluster. It is on a single volume, behind port 7070 of
    the gateways; the stack's output `objectStore` has its keys. Keep the backups and the state of
    the cluster that it runs in elsewhere."""

    enabled: bool = False
    """Install this add-on."""
    clusters: tuple[_BucketOwner, ...] = ()
    """Names of clusters that get a bucket of their own, `etcd-NAME`, and a key for it. A name that
    is removed loses its key; its bucket stays."""
    cidrs: Annotated[tuple[Cidr, ...], COMMAS, Field(min_length=1)] | None = None
    """Networks that may reach port 7070; the default is `allowedCidrs`. Machines of other clusters
    arrive from the external address of their router."""
    storage_class: DnsName | None = None
    """StorageClass of the volume; by default the default class."""
    storage_size: VolumeSize = "20Gi"
    """Size of the volume."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        _require_distinct("clusters", self.clusters)
        return self


class Operator(OptionalChartAddon):
    """Pulumi's operator: it creates, changes, repairs and destroys another cluster for each `Stack`
    object in the namespace `clusters`."""


class Kured(OptionalChartAddon):
    """Reboots of machines that need one after updates: nodes, drained first (kured), and gateways,
    one at a time."""

    days: Annotated[tuple[Day, ...], Field(min_length=1)] = (
        "mo",
        "tu",
        "we",
        "th",
        "fr",
        "sa",
        "su",
    )
    """Days on which machines may reboot."""
    start_time: TimeOfDay = "01:00"
    """Time of day from which machines may reboot."""
    end_time: TimeOfDay = "05:00"
    """Time of day until which machines may reboot; at least an hour after `startTime`."""
    time_zone: TimeZone = "UTC"
    """Time zone of `startTime` and `endTime`, such as `Europe/Berlin`."""

    @model_validator(mode="after")
    def _window_is_long_enough(self) -> Self:
        start, end = (
            int(hours) * 60 + int(minutes)
            for hours, _, minutes in (
                time.partition(":") for time in (self.start_time, self.end_time)
            )
        )
        # kured takes both times to be on the same day: over midnight, no node would reboot.
        if end - start < _SHORTEST_WINDOW:
            raise ValueError("endTime must be at least an hour after startTime, on the same day")
        return self


class AddonsSettings(Settings):
    """The add-ons, and the sources of their charts and images."""

    chart_repository: ChartRepository | None = None
    """Mirror of all charts: a Helm repository (`https://...`) or a registry (`oci://...`)."""
    chart_directory: Name | None = None
    """Directory with all charts, unpacked, each in a folder with the name of the chart."""
    image_registry: ImageRegistry | None = None
    """Mirror of all images; it replaces the registry host in their references."""
    load_balancer: Literal["gateway", "octavia"] = "gateway"
    """Entry point of requests from outside: ports 80 and 443 of the gateways, or a load balancer of
    Octavia for each Service of type LoadBalancer."""
    cni: Cni = Cni()
    node_dns: NodeDns = NodeDns()
    cloud_controller_manager: CloudControllerManager = CloudControllerManager()
    cinder_csi: CinderCsi = CinderCsi()
    metrics_server: MetricsServer = MetricsServer()
    snapshots: Snapshots = Snapshots()
    monitoring: Monitoring = Monitoring()
    ingress: Ingress = Ingress()
    headlamp: Headlamp = Headlamp()
    logging: Logging = Logging()
    object_store: ObjectStore = ObjectStore()
    operator: Operator = Operator()
    kured: Kured = Kured()

    @property
    def octavia(self) -> bool:
        """True if Octavia serves Services of type LoadBalancer."""
        return self.load_balancer == "octavia"

    @property
    def log_in_to_cloud(self) -> bool:
        """True if a program in the cluster logs in to the cloud, with a credential of its own."""
        return self.cloud_controller_manager.enabled or self.cinder_csi.enabled

    @property
    def node_dns_installed(self) -> bool:
        """True if pods ask the CoreDNS on their own node, which Cilium leads them to."""
        return self.node_dns.enabled and self.cni.kind == "cilium"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.chart_repository and self.chart_directory:
            raise ValueError("set either chartRepository or chartDirectory, not both")
        if self.octavia and not self.cloud_controller_manager.enabled:
            raise ValueError("loadBalancer octavia needs cloudControllerManager.enabled")
        if self.snapshots.enabled and not self.cinder_csi.enabled:
            raise ValueError("snapshots need cinderCsi.enabled")
        return self
