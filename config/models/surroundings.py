"""What is there outside of the cluster: its network, its name, the way to packages and images."""

from config.base import DnsLabel, Name, Settings, Url


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
