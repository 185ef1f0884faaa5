"""Cinder: volumes, as files."""

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
from lab.cloud.layout import API, ETC, GLANCE, HOST, IMAGE_STORE, POOL, VENV_ETC
from lab.cloud.secrets import Secrets
from lab.paths import STATE

BACKEND = "files"
# Found through PYTHONPATH=lab/drivers.
VOLUME_DRIVER = "cinder_file.FileDriver"


def files(secrets: Secrets) -> dict[str, str]:
    """File name below the configuration folder -> text."""
    path = str(ETC / "cinder" / "cinder.conf")
    sections: Sections = {
        "DEFAULT": {
            "host": HOST,
            "my_ip": API,
            "state_path": str(STATE / "cinder"),
            "transport_url": transport_url(secrets),
            "auth_strategy": "keystone",
            "api_paste_config": str(VENV_ETC / "cinder" / "api-paste.ini"),
            "resource_query_filters_file": str(VENV_ETC / "cinder" / "resource_filters.json"),
            "osapi_volume_listen": API,
            "osapi_volume_listen_port": 8776,
            "osapi_volume_workers": 1,
            "enabled_backends": BACKEND,
            "default_volume_type": BACKEND,
            "glance_api_servers": GLANCE,
            "image_conversion_dir": str(STATE / "cinder" / "conversion"),
            "quota_volumes": 200,
            "quota_snapshots": 200,
            "quota_gigabytes": 10_000,
            "report_interval": 5,
            "service_down_time": SERVICE_DOWN_TIME,
            **PATIENT,
            "use_stderr": True,
        },
        BACKEND: {
            "volume_driver": VOLUME_DRIVER,
            "volume_backend_name": BACKEND,
            "volumes_path": str(POOL / "volumes"),
            "image_cache": str(POOL / "images"),
            "image_store": str(IMAGE_STORE),
            "max_over_subscription_ratio": 20.0,
            "reserved_percentage": 0,
        },
        "database": database("cinder", secrets),
        "keystone_authtoken": authtoken("cinder", secrets),
        "service_user": service_user("cinder", secrets),
        "nova": {**credentials("nova", secrets), "interface": "public"},
        "oslo_concurrency": locks("cinder"),
        "oslo_messaging_rabbit": RABBIT,
        "cinder_sys_admin": privsep(path),
        "privsep_osbrick": privsep(path),
    }
    return {"cinder/cinder.conf": ini(sections)}
