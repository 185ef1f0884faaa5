"""An HTTP proxy and mirrors, through which machines get packages and images."""

from config.base import Settings
from config.values.network import MirrorUrl, Url
from config.values.text import Name


class HttpProxy(Settings):
    """The HTTP proxy through which machines get packages and images."""

    http: Url | None = None
    """Proxy for http URLs, such as `http://proxy.example.org:3128`."""
    https: Url | None = None
    """Proxy for https URLs; the default is that of `http`."""
    no_proxy: tuple[Name, ...] = ()
    """Hosts, domains and networks to reach directly; those of the cluster are added."""


class DistributionMirror(Settings):
    """Mirrors of Debian or Ubuntu, which each server uses from its first boot on."""

    archive: MirrorUrl
    """Mirror of the archive."""
    security: MirrorUrl
    """Mirror of the security updates; on Ubuntu usually the same as `archive`."""


class PackageMirrors(Settings):
    """Mirrors of the packages that machines install."""

    kubernetes: MirrorUrl | None = None
    """Mirror of `https://pkgs.k8s.io/core:/stable:`; it must have v1.36 at `/v1.36/deb`."""
    containerd: MirrorUrl | None = None
    """Mirror of `https://download.docker.com/linux/debian` (on Ubuntu, of `.../ubuntu`)."""
    distribution: DistributionMirror | None = None
