"""Nova: servers."""

from __future__ import annotations

from lab.cloud.configs.common import (
    PATIENT,
    RABBIT,
    SERVICE_DOWN_TIME,
    Sections,
    authtoken,
    credentials,
    database,
    ini,
    locks,
    privsep,
    service_user,
    transport_url,
)
from lab.cloud.layout import (
    API,
    CGROUP,
    ETC,
    GLANCE,
    HOST,
    IMAGE_STORE,
    LOOPBACK,
    NOVA_METADATA_PORT,
    POOL,
    REGION,
    VENV_ETC,
)
from lab.cloud.secrets import Secrets
from lab.paths import STATE

# The driver's package appears below nova.virt through a link, see install.link_drivers.
COMPUTE_DRIVER = "nova_lxc.driver.LxcDriver"
# Nova's own, except the last one, which the lab replaces: found through PYTHONPATH=lab/drivers.
FILTERS = [
    "nova.scheduler.filters.compute_filter.ComputeFilter",
    "nova.scheduler.filters.compute_capabilities_filter.ComputeCapabilitiesFilter",
    "nova.scheduler.filters.image_props_filter.ImagePropertiesFilter",
    "nova.scheduler.filters.affinity_filter.ServerGroupAffinityFilter",
    "one_host.ServerGroupAntiAffinityFilter",
]


def files(secrets: Secrets) -> dict[str, str]:
    """File name below the configuration folder -> text."""
    path = ETC / "nova" / "nova.conf"
    state = STATE / "nova"
    sections: Sections = {
        "DEFAULT": {
            "host": HOST,
            "my_ip": API,
            "state_path": str(state),
            "instances_path": str(POOL / "instances"),
            "transport_url": transport_url(secrets),
            "compute_driver": COMPUTE_DRIVER,
            "osapi_compute_listen": API,
            "osapi_compute_workers": 1,
            "metadata_listen": API,
            "metadata_listen_port": NOVA_METADATA_PORT,
            "metadata_workers": 1,
            "metadata_cache_expiration": 5,
            "vif_plugging_is_fatal": True,
            "vif_plugging_timeout": 300,
            "service_down_time": SERVICE_DOWN_TIME,
            **PATIENT,
            # Eight Kubernetes nodes share two cores and most of their memory is never touched.
            "cpu_allocation_ratio": 32.0,
            "ram_allocation_ratio": 3.0,
            "disk_allocation_ratio": 10.0,
            "reserved_host_memory_mb": 512,
            "reserved_host_disk_mb": 0,
            "graceful_shutdown_timeout": 5,
            "resume_guests_state_on_host_boot": True,
            "running_deleted_instance_action": "reap",
            "running_deleted_instance_poll_interval": 60,
            "sync_power_state_interval": 30,
            "heal_instance_info_cache_interval": 30,
            # Resizes are confirmed after a minute if the user does not do it.
            "resize_confirm_window": 60,
            "allow_resize_to_same_host": True,
            "max_concurrent_builds": 4,
            "force_config_drive": False,
            "use_stderr": True,
        },
        "database": database("nova", secrets),
        "api_database": database("nova_api", secrets),
        "keystone_authtoken": authtoken("nova", secrets),
        "service_user": service_user("nova", secrets),
        "oslo_messaging_rabbit": RABBIT,
        "oslo_concurrency": locks("nova"),
        "wsgi": {"api_paste_config": str(VENV_ETC / "nova" / "api-paste.ini")},
        "api": {"dhcp_domain": "novalocal"},
        "cache": {
            "enabled": True,
            "backend": "dogpile.cache.pymemcache",
            "memcache_servers": f"{LOOPBACK}:11211",
            # After a restart of memcached the pool still holds closed connections.
            "enable_retry_client": True,
            "retry_attempts": 3,
        },
        # Removes cached images that Glance no longer has: each takes a gigabyte.
        "image_cache": {"manager_interval": 300},
        "conductor": {"workers": 1},
        "scheduler": {"workers": 1, "discover_hosts_in_cells_interval": 30},
        "filter_scheduler": {
            "available_filters": FILTERS,
            "enabled_filters": ",".join(path.rpartition(".")[2] for path in FILTERS),
        },
        "workarounds": {"disable_group_policy_check_upcall": True},
        "upgrade_levels": {"compute": "auto"},
        "vnc": {"enabled": False},
        "spice": {"enabled": False},
        "serial_console": {"enabled": False},
        "quota": {
            "instances": 50,
            "cores": 200,
            "ram": 400_000,
            "server_groups": 50,
            "server_group_members": 50,
            "key_pairs": 100,
        },
        "glance": {
            "api_servers": GLANCE,
            "num_retries": 3,
            "service_type": "image",
            "region_name": REGION,
        },
        "placement": credentials("placement", secrets),
        "neutron": {
            **credentials("neutron", secrets),
            "service_metadata_proxy": True,
            "metadata_proxy_shared_secret": secrets.metadata,
        },
        "cinder": {
            **credentials("cinder", secrets),
            "catalog_info": "block-storage::publicURL",
            "os_region_name": REGION,
        },
        "lxc": {
            "image_cache": str(POOL / "images"),
            "image_store": str(IMAGE_STORE),
            "cgroup": CGROUP,
        },
        "nova_sys_admin": privsep(str(path)),
        "vif_plug_linux_bridge_privileged": privsep(str(path)),
        "privsep_osbrick": privsep(str(path)),
        "os_vif_linux_bridge": {"use_ipv6": False},
    }
    # The compute service may reach the databases only through the conductor, and checks that.
    compute = {n: v for n, v in sections.items() if n not in ("database", "api_database")}
    return {"nova/nova.conf": ini(sections), "nova/nova-compute.conf": ini(compute)}
