"""The `addons` part of the configuration, as frozen models; nothing here knows of Pulumi."""

from __future__ import annotations

import re
from collections import Counter
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator, model_validator
from pydantic.alias_generators import to_camel

Values = dict[str, Any]

_DNS_LABEL = re.compile(r"[a-z0-9]([-a-z0-9]{0,61}[a-z0-9])?")
_REGISTRY = re.compile(r"[a-z0-9]([-.a-z0-9]*[a-z0-9])?(:[0-9]{1,5})?(/[a-z0-9][-._a-z0-9]*)*")


class Model(BaseModel):
    """Frozen, camelCase in the stack's configuration, no unknown keys."""

    model_config = ConfigDict(
        frozen=True,
        extra="forbid",
        alias_generator=to_camel,
        populate_by_name=True,
        use_attribute_docstrings=True,
    )


class ChartAddon(Model):
    """An add-on that comes from a Helm chart."""

    enabled: bool = True
    """Whether it is installed."""

    values: Values = Field(default_factory=dict)
    """Values of the chart; merged last, so they win over everything the program sets."""


class OptionalChartAddon(ChartAddon):
    """An add-on that a cluster can do without."""

    enabled: bool = False
    """Whether it is installed."""


class Cni(Model):
    """The pod network."""

    kind: Literal["cilium", "none"] = "cilium"
    """`none` leaves the pod network to you; nodes stay NotReady until there is one."""

    values: Values = Field(default_factory=dict)
    """Values of the chart; merged last, so they win over everything the program sets."""


class CloudControllerManager(Model):
    """The OpenStack cloud controller manager, on the control planes."""

    enabled: bool = True
    """Whether it is installed. Without one, nodes keep their `uninitialized` taint."""

    image: str | None = None
    """The whole image reference, instead of the pinned one."""

    extra_args: tuple[str, ...] = ()
    """More arguments of the command line, such as `--v=2`."""

    cloud_config: dict[str, dict[str, str]] = Field(default_factory=dict)
    """Sections and keys of cloud.conf; merged last."""


class StorageClass(Model):
    """One StorageClass for volumes of Cinder."""

    name: str
    """Its name in Kubernetes."""

    volume_type: str | None = None
    """The volume type in Cinder; the cloud's default type when there is none."""

    availability_zone: str | None = None
    """The zone in Cinder, for clouds whose volume zones differ from their compute zones."""

    filesystem: Literal["ext4", "xfs"] = "ext4"
    """What a new volume is formatted with."""

    reclaim_policy: Literal["Delete", "Retain"] = "Delete"
    """What happens to the volume when its claim is deleted."""

    default: bool = False
    """Whether claims that name no class get this one."""

    @field_validator("name")
    @classmethod
    def _name(cls, name: str) -> str:
        if not _DNS_LABEL.fullmatch(name):
            raise ValueError("a storage class is named with a-z, 0-9 and '-', at most 63 characters")
        return name


class CinderCsi(ChartAddon):
    """Persistent volumes from Cinder."""

    storage_classes: tuple[StorageClass, ...] = (StorageClass(name="cinder", default=True),)
    """The storage classes to make."""

    @model_validator(mode="after")
    def _one_default(self) -> CinderCsi:
        count = Counter(each.name for each in self.storage_classes)
        if twice := [name for name, times in count.items() if times > 1]:
            raise ValueError(f"storageClasses has the name {twice[0]!r} twice")
        defaults = [each.name for each in self.storage_classes if each.default]
        if len(defaults) > 1:
            raise ValueError(f"only one storage class can be the default, not {defaults}")
        return self


class MetricsServer(ChartAddon):
    """CPU and memory for `kubectl top` and autoscaling."""


class AddonsSettings(Model):
    """What is installed in the cluster, and where it comes from."""

    chart_repository: str | None = None
    """A mirror of every chart: `https://...` (a Helm repository) or `oci://...`."""

    chart_directory: str | None = None
    """A directory that holds each chart unpacked in a folder of the chart's name."""

    image_registry: str | None = None
    """A mirror of every image; it takes the place of the image's own registry host."""

    load_balancer: Literal["gateway", "octavia"] = "gateway"
    """Who serves Services of type LoadBalancer: Octavia, or only the gateways' 80 and 443."""

    cni: Cni = Cni()
    """The pod network."""

    cloud_controller_manager: CloudControllerManager = CloudControllerManager()
    """The OpenStack cloud controller manager."""

    cinder_csi: CinderCsi = CinderCsi()
    """Persistent volumes from Cinder."""

    metrics_server: MetricsServer = MetricsServer()
    """CPU and memory for `kubectl top` and autoscaling."""

    @field_validator("chart_repository")
    @classmethod
    def _chart_repository(cls, url: str | None) -> str | None:
        if url is not None and not re.fullmatch(r"(https?|oci)://[^\s/]\S*", url):
            raise ValueError(f"{url!r} is no https://, http:// or oci:// address")
        return url.rstrip("/") if url else url

    @field_validator("image_registry")
    @classmethod
    def _image_registry(cls, registry: str | None) -> str | None:
        if registry is not None and not _REGISTRY.fullmatch(registry):
            raise ValueError(f"{registry!r} is not a registry: write HOST[:PORT][/PATH], no scheme")
        return registry

    @model_validator(mode="after")
    def _one_chart_source(self) -> AddonsSettings:
        if self.chart_repository and self.chart_directory:
            raise ValueError("set chartRepository or chartDirectory, not both")
        return self
