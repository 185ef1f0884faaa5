"""The `addons` part of the configuration, as frozen models; nothing here knows of Pulumi."""

import re
from collections import Counter
from collections.abc import Mapping
from typing import Annotated, Literal, Self

from pydantic import AfterValidator, Field, model_validator

from config.base import DnsLabel, Name, Settings, Url, Values
from config.values.labels import LabelValue, QualifiedName

_REGISTRY = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9][-._a-z0-9]*)*")
_QUANTITY = re.compile(r"[1-9][0-9]*(Mi|Gi|Ti)")
_PERIOD = re.compile(r"[1-9][0-9]*[hdwy]")
_FIELD = r"[0-9A-Za-z*?/,-]+"
_TIMETABLE = re.compile(rf"@(yearly|monthly|weekly|daily|hourly)|{_FIELD}( {_FIELD}){{4}}")
_TIME_OF_DAY = re.compile(r"([01]?[0-9]|2[0-3]):[0-5][0-9]")

# Minutes.
_SHORTEST_WINDOW = 60
# Kubernetes puts 11 more characters behind a CronJob's name for its jobs, which must be labels.
_LONGEST_SCHEDULE = 52


def _repository(url: str) -> str:
    if not re.fullmatch(r"(https?|oci)://[^\s/]\S*", url):
        raise ValueError("must start with https://, http:// or oci://")
    return url.rstrip("/")


def _registry(registry: str) -> str:
    if not _REGISTRY.fullmatch(registry):
        raise ValueError("must be HOST[:PORT][/PATH] in lower case, without https://")
    return registry


def _quantity(text: str) -> str:
    if not _QUANTITY.fullmatch(text):
        raise ValueError("must be a size such as 20Gi")
    return text


def _period(text: str) -> str:
    if not _PERIOD.fullmatch(text):
        raise ValueError("must be a time such as 12h, 15d, 4w or 1y")
    return text


def _timetable(text: str) -> str:
    if not _TIMETABLE.fullmatch(text):
        raise ValueError("must be five fields of cron, such as '30 2 * * *', or @daily")
    return text


def _time_of_day(text: str) -> str:
    if not _TIME_OF_DAY.fullmatch(text):
        raise ValueError("must be a time of day such as 03:30")
    return text


Size = Annotated[str, AfterValidator(_quantity)]
Period = Annotated[str, AfterValidator(_period)]
Timetable = Annotated[str, AfterValidator(_timetable)]
TimeOfDay = Annotated[str, AfterValidator(_time_of_day)]
Day = Literal["mo", "tu", "we", "th", "fr", "sa", "su"]


class ChartAddon(Settings):
    """An add-on that comes from a Helm chart."""

    enabled: bool = True
    """Whether it is installed."""
    values: Values = Field(default={})
    """Values of the chart, merged last: they win over what this program sets."""


class OptionalChartAddon(Settings):
    """An add-on from a Helm chart that a cluster can do without."""

    enabled: bool = False
    """Whether it is installed."""
    values: Values = Field(default={})
    """Values of the chart, merged last: they win over what this program sets."""


class Cni(Settings):
    """The pod network."""

    kind: Literal["cilium", "none"] = "cilium"
    """`none` leaves it to you; nodes stay NotReady until there is one."""
    values: Values = Field(default={})
    """Values of the chart, merged last: they win over what this program sets."""


class CloudControllerManager(Settings):
    """The OpenStack cloud controller manager, on the control planes."""

    enabled: bool = True
    """Whether it is installed, and the kubelets leave node addresses and zones to it."""
    image: Name | None = None
    """The whole image reference; the default is the pinned one."""
    extra_args: tuple[Name, ...] = ()
    """More arguments of its command line, such as `--v=4`."""
    cloud_config: dict[Name, dict[Name, str]] = Field(default={})
    """Sections and keys of its cloud.conf, merged last."""


class StorageClass(Settings):
    """A StorageClass for volumes of Cinder."""

    name: DnsLabel
    """Name of the StorageClass."""
    volume_type: Name | None = None
    """Cinder volume type; the default is the cloud's."""
    availability_zone: Name | None = None
    """Cinder availability zone; the default is that of the pod's node."""
    filesystem: Literal["ext4", "xfs"] = "ext4"
    """What a new volume is formatted with."""
    reclaim_policy: Literal["Delete", "Retain"] = "Delete"
    """What happens to the volume when its claim is deleted."""
    default: bool = False
    """Whether claims that name no class get this one."""


class CinderCsi(ChartAddon):
    """Persistent volumes from Cinder."""

    storage_classes: tuple[StorageClass, ...] = (StorageClass(name="cinder", default=True),)
    """The storage classes."""
    cloud_config: dict[Name, dict[Name, str]] = Field(default={})
    """Sections and keys of its cloud.conf, merged last."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = Counter(each.name for each in self.storage_classes)
        if twice := [name for name, count in names.items() if count > 1]:
            raise ValueError(f"storageClasses names {twice[0]!r} twice")
        if sum(each.default for each in self.storage_classes) > 1:
            raise ValueError("only one of storageClasses can be the default")
        return self


class MetricsServer(ChartAddon):
    """CPU and memory for `kubectl top` and autoscaling."""


class SnapshotSchedule(Settings):
    """Snapshots of volumes by a timetable."""

    name: Annotated[DnsLabel, Field(max_length=_LONGEST_SCHEDULE)]
    """Name of the schedule, and of its CronJob in the namespace `snapshots`."""
    schedule: Timetable
    """When, in UTC and as cron says it: `30 2 * * *` is every night at half past two."""
    keep: Annotated[int, Field(ge=1)] = 7
    """How many snapshots of each claim are kept; older ones of this schedule are deleted."""
    selector: Mapping[QualifiedName, LabelValue] = Field(default_factory=dict)
    """Labels of the claims; empty: every claim."""
    namespaces: tuple[DnsLabel, ...] = ()
    """Namespaces of the claims; empty: all."""


class Snapshots(OptionalChartAddon):
    """Snapshots of persistent volumes: the snapshot controller and a VolumeSnapshotClass."""

    deletion_policy: Literal["Delete", "Retain"] = "Delete"
    """What happens to a snapshot in Cinder when its VolumeSnapshot is deleted."""
    schedules: tuple[SnapshotSchedule, ...] = ()
    """Snapshots that are taken by a timetable."""
    schedule_image: Name | None = None
    """The image that takes them, one with Python 3.11 or later; the default is the pinned one."""

    @model_validator(mode="after")
    def _distinct(self) -> Self:
        names = Counter(each.name for each in self.schedules)
        if twice := [name for name, count in names.items() if count > 1]:
            raise ValueError(f"schedules names {twice[0]!r} twice")
        return self


class Monitoring(OptionalChartAddon):
    """Prometheus, Alertmanager and Grafana (kube-prometheus-stack)."""

    retention: Period = "15d"
    """How long metrics are kept."""
    storage_class: DnsLabel | None = None
    """StorageClass of the volumes; the default is the cluster's default class."""
    storage_size: Size = "20Gi"
    """Size of Prometheus' volume."""
    alertmanager: Values | None = None
    """Alertmanager's configuration (`route`, `receivers`); the default sends nothing anywhere."""


class Ingress(OptionalChartAddon):
    """The ingress controller, behind ports 80 and 443 of the gateways."""

    controller: Literal["traefik", "nginx"] = "traefik"
    """Traefik, or the NGINX project's own, which answers only what comes through the gateways or
    Octavia, no pod that calls its Service. Before you change it, disable the ingress in a run of
    its own: both want the same node ports."""
    replicas: Annotated[int, Field(ge=1)] = 2
    """Number of pods."""
    default_class: bool = True
    """Whether Ingresses that name no class are served."""
    gateway_api: bool = False
    """Whether Gateway API is served too (Traefik only); its CRDs must be in the cluster. Routes of
    every namespace may name the Gateway `traefik-gateway` in the namespace `ingress`: HTTP alone,
    until you give it a certificate by the chart's value `gateway.listeners.websecure`."""

    @model_validator(mode="after")
    def _can(self) -> Self:
        if self.gateway_api and self.controller == "nginx":
            raise ValueError("gatewayApi needs controller traefik: nginx serves Ingress only")
        return self


class Headlamp(OptionalChartAddon):
    """The dashboard (Headlamp). It has no rights of its own: users log in with their token, or,
    where `oidc` is set, by OpenID Connect."""

    host: Name | None = None
    """Host name at the ingress; without it, `kubectl port-forward` is the way to it."""
    scopes: Annotated[tuple[Name, ...], Field(min_length=1)] = ("openid", "profile", "email")
    """What it asks the OIDC issuer for; `groups` too, where the issuer wants that."""


class Logging(OptionalChartAddon):
    """Logs of all pods and nodes, kept and searchable (Fluent Bit, VictoriaLogs)."""

    retention: Period = "30d"
    """How long logs are kept."""
    storage_class: DnsLabel | None = None
    """StorageClass of the volume; the default is the cluster's default class."""
    storage_size: Size = "20Gi"
    """Size of the volume."""
    grafana: bool = True
    """Whether Grafana, where there is monitoring, shows the logs, by a plugin that it downloads."""
    grafana_plugin_url: Url | None = None
    """Where that plugin's zip file is; the default is grafana.com, which Grafana must reach."""
    fluent_bit_values: Values = Field(default={})
    """Values of Fluent Bit's chart, merged last (`values` are the server's)."""


class Kured(OptionalChartAddon):
    """Reboots of machines that need one: nodes one at a time, drained (kured), and gateways."""

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
    """Time of day until which machines may reboot; an hour after `startTime` or later."""
    time_zone: Name = "UTC"
    """Time zone of both, such as `Europe/Berlin`."""

    @model_validator(mode="after")
    def _long_enough(self) -> Self:
        start, end = (
            int(hours) * 60 + int(minutes)
            for hours, _, minutes in (
                time.partition(":") for time in (self.start_time, self.end_time)
            )
        )
        # The active gateway waits for the others first. Of a window over midnight kured takes both
        # times to be of one day: no node would ever reboot.
        if end - start < _SHORTEST_WINDOW:
            raise ValueError("endTime must be an hour after startTime, or later on the same day")
        return self


class AddonsSettings(Settings):
    """What is installed in the cluster, and where it comes from."""

    chart_repository: Annotated[str, AfterValidator(_repository)] | None = None
    """A mirror of every chart: a Helm repository (`https://...`) or a registry (`oci://...`)."""
    chart_directory: Name | None = None
    """A directory that holds every chart unpacked, each in a folder of the chart's name."""
    image_registry: Annotated[str, AfterValidator(_registry)] | None = None
    """A mirror of every image: it takes the place of the image's own registry host."""
    load_balancer: Literal["gateway", "octavia"] = "gateway"
    """Who serves people: the gateways' ports 80 and 443, or Octavia each LoadBalancer Service."""
    cni: Cni = Cni()
    cloud_controller_manager: CloudControllerManager = CloudControllerManager()
    cinder_csi: CinderCsi = CinderCsi()
    metrics_server: MetricsServer = MetricsServer()
    snapshots: Snapshots = Snapshots()
    monitoring: Monitoring = Monitoring()
    ingress: Ingress = Ingress()
    headlamp: Headlamp = Headlamp()
    logging: Logging = Logging()
    kured: Kured = Kured()

    @property
    def octavia(self) -> bool:
        """Whether Octavia serves LoadBalancer Services."""
        return self.load_balancer == "octavia"

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.chart_repository and self.chart_directory:
            raise ValueError("set chartRepository or chartDirectory, not both")
        if self.octavia and not self.cloud_controller_manager.enabled:
            raise ValueError("loadBalancer octavia needs cloudControllerManager.enabled")
        if self.snapshots.enabled and not self.cinder_csi.enabled:
            raise ValueError("snapshots need cinderCsi.enabled")
        return self
