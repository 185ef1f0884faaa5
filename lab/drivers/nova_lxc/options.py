"""The driver's own settings, group [lxc] in nova.conf."""

from __future__ import annotations

import nova.conf
from oslo_config import cfg

CONF = nova.conf.CONF
CONF.register_opts(
    [
        cfg.StrOpt(
            "image_cache",
            default="$instances_path/_base",
            help="Folder of raw images, best on the file system of instances_path (reflinks).",
        ),
        cfg.StrOpt(
            "image_store",
            help="Glance's folder of images where it is on this machine: nothing is downloaded.",
        ),
        cfg.StrOpt(
            "cgroup",
            default="openstack-kubernetes-lab",
            help="Every server's control groups are below this name in each hierarchy.",
        ),
        cfg.IntOpt(
            "stop_timeout",
            default=30,
            help="Seconds that a soft reboot waits for the server's own shutdown.",
        ),
    ],
    group="lxc",
)
