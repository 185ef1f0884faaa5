"""A network that exists already, and the cluster's name in DNS."""

from config.base import Settings
from config.values.network import DnsLabel, DnsZone
from config.values.text import Name


class ExistingNetwork(Settings):
    """An existing network for the machines, instead of a new one."""

    network: Name
    """Name of the network."""
    subnet: Name
    """Name of the subnet. It must contain `hostCidr`, and have a router to `externalNetwork`. The
    VIP, gateways and control planes take addresses at the start of `hostCidr`, which must be
    outside of the subnet's allocation pools; workers get theirs from the pools."""


class Dns(Settings):
    """A DNS name in Designate for the floating IP."""

    zone: DnsZone
    """Zone, such as `example.org.`."""
    name: DnsLabel | None = None
    """First part of the name, below the zone; the default is `clusterName`."""
