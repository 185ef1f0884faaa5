"""Neutron: networks, with the linuxbridge agent."""

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
    transport_url,
)
from lab.cloud.layout import (
    API,
    BRIDGE,
    ETC,
    HOST,
    NOVA_METADATA_PORT,
    PHYSICAL_NETWORK,
    VENV_ETC,
)
from lab.cloud.secrets import Secrets
from lab.paths import STATE


def files(secrets: Secrets) -> dict[str, str]:
    """File name below the configuration folder -> text."""
    server: Sections = {
        "DEFAULT": {
            "host": HOST,
            "state_path": str(STATE / "neutron"),
            "bind_host": API,
            "bind_port": 9696,
            "transport_url": transport_url(secrets),
            "api_paste_config": str(VENV_ETC / "neutron" / "api-paste.ini"),
            "core_plugin": "ml2",
            "service_plugins": "router",
            "api_workers": 1,
            "rpc_workers": 1,
            "rpc_state_report_workers": 0,
            "allow_overlapping_ips": True,
            "notify_nova_on_port_status_changes": True,
            "notify_nova_on_port_data_changes": True,
            "global_physnet_mtu": 1500,
            "dns_domain": "lab.internal.",
            "agent_down_time": SERVICE_DOWN_TIME,
            **PATIENT,
            "dhcp_agents_per_network": 1,
            "use_stderr": True,
        },
        # The linuxbridge agent has been experimental since 2023 and must be enabled explicitly.
        "experimental": {"linuxbridge": True},
        # Everything runs as root already, so `env` takes the place of sudo.
        "agent": {"root_helper": "env", "report_interval": 10, "use_helper_for_ns_read": False},
        "database": database("neutron", secrets),
        "keystone_authtoken": authtoken("neutron", secrets),
        "nova": credentials("nova", secrets),
        "placement": credentials("placement", secrets),
        "oslo_concurrency": locks("neutron"),
        "oslo_messaging_rabbit": RABBIT,
        "quotas": {
            "quota_network": 100,
            "quota_subnet": 100,
            "quota_port": 1000,
            "quota_router": 50,
            "quota_floatingip": 100,
            "quota_security_group": 200,
            "quota_security_group_rule": 2000,
        },
    }
    ml2: Sections = {
        "ml2": {
            "type_drivers": "flat,vxlan,local",
            "tenant_network_types": "vxlan",
            "mechanism_drivers": "linuxbridge",
            "extension_drivers": "port_security",
            "path_mtu": 1500,
        },
        "ml2_type_flat": {"flat_networks": PHYSICAL_NETWORK},
        "ml2_type_vxlan": {"vni_ranges": "1:1000"},
        "securitygroup": {"enable_ipset": True, "firewall_driver": "iptables"},
    }
    bridge: Sections = {
        "linux_bridge": {"bridge_mappings": f"{PHYSICAL_NETWORK}:{BRIDGE}"},
        "vxlan": {"enable_vxlan": True, "local_ip": API, "l2_population": False},
        "securitygroup": {
            "enable_security_group": True,
            "enable_ipset": True,
            "firewall_driver": "iptables",
        },
        "agent": {"polling_interval": 1},
    }
    layer3: Sections = {
        "DEFAULT": {"interface_driver": "linuxbridge", "agent_mode": "legacy"},
    }
    dhcp: Sections = {
        "DEFAULT": {
            "interface_driver": "linuxbridge",
            "enable_isolated_metadata": True,
            # dnsmasq knows the servers' names and refuses all others at once.
            "dnsmasq_local_resolv": False,
            "dnsmasq_config_file": str(ETC / "neutron" / "dnsmasq.conf"),
            "resync_interval": 10,
        },
    }
    metadata: Sections = {
        "DEFAULT": {
            "nova_metadata_host": API,
            "nova_metadata_port": NOVA_METADATA_PORT,
            "metadata_proxy_shared_secret": secrets.metadata,
            "metadata_workers": 0,
        },
    }
    return {
        # As its default user, `nobody`, dnsmasq could not read its files below the state folder.
        "neutron/dnsmasq.conf": "user=root\ngroup=root\n",
        "neutron/neutron.conf": ini(server),
        "neutron/ml2.ini": ini(ml2),
        "neutron/linuxbridge-agent.ini": ini(bridge),
        "neutron/l3-agent.ini": ini(layer3),
        "neutron/dhcp-agent.ini": ini(dhcp),
        "neutron/metadata-agent.ini": ini(metadata),
    }
