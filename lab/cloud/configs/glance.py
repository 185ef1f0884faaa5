"""Glance: images, in files."""

from __future__ import annotations

from lab.cloud.configs.common import Sections, authtoken, database, ini, locks
from lab.cloud.layout import API, IMAGE_STORE, VENV_ETC
from lab.cloud.secrets import Secrets
from lab.paths import STATE


def files(secrets: Secrets) -> dict[str, str]:
    """File name below the configuration folder -> text."""
    sections: Sections = {
        "DEFAULT": {
            "bind_host": API,
            "bind_port": 9292,
            # Zero workers: one process that serves by itself, without a parent.
            "workers": 0,
            "enabled_backends": "files:file",
            "node_staging_uri": f"file://{STATE / 'glance' / 'staging'}",
            "use_stderr": True,
        },
        "database": database("glance", secrets),
        "keystone_authtoken": authtoken("glance", secrets),
        "paste_deploy": {
            "flavor": "keystone",
            "config_file": str(VENV_ETC / "glance" / "glance-api-paste.ini"),
        },
        "glance_store": {"default_backend": "files"},
        "files": {"filesystem_store_datadir": str(IMAGE_STORE)},
        "os_glance_staging_store": {
            "filesystem_store_datadir": str(STATE / "glance" / "staging"),
        },
        "os_glance_tasks_store": {"filesystem_store_datadir": str(STATE / "glance" / "tasks")},
        "oslo_concurrency": locks("glance"),
    }
    return {"glance/glance-api.conf": ini(sections)}
