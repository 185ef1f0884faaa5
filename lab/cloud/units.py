"""The cloud's services, the jobs between them, and the order in which they start."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from lab.cloud.layout import (
    API,
    CINDER,
    DATABASES,
    DRIVERS,
    ETC,
    GLANCE,
    KEYSTONE,
    LOOPBACK,
    MYSQL,
    MYSQL_SOCKET,
    NEUTRON,
    NOVA,
    NOVA_METADATA_PORT,
    PLACEMENT,
    REGION,
    TMP,
    VENV_BIN,
)
from lab.cloud.secrets import Secrets
from lab.paths import CACHE, PROJECT, STATE

RABBITMQ_PROGRAM = "/usr/lib/rabbitmq/bin/rabbitmq-server"
MARIADB_CONFIG = f"--defaults-file={ETC}/mariadb.cnf"


@dataclass(frozen=True, kw_only=True)
class Unit:
    """One service, or with `job` one command that runs once, to its end.

    A unit starts when all of `after` are ready. A service is ready when `url` answers or `port`
    accepts a connection, or at once when it has neither.
    """

    name: str
    command: Sequence[str]
    after: Sequence[str] = ()
    job: bool = False
    url: str = ""
    port: tuple[str, int] | None = None
    environment: Mapping[str, str] = field(default_factory=dict)


def environment() -> dict[str, str]:
    """Environment of every unit: the virtual environment first, and no settings of the user."""
    dropped = ("PYTHON", "OS_", "VIRTUAL_ENV", "KUBECONFIG")
    kept = {name: value for name, value in os.environ.items() if not name.startswith(dropped)}
    system = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
    return {
        **kept,
        "PATH": f"{VENV_BIN}:{system}",
        "HOME": str(STATE / "home"),
        # The lab's own jobs would look for it below HOME.
        "OPENSTACK_KUBERNETES_LAB_CACHE": str(CACHE),
        "TMPDIR": str(TMP),
        "LC_ALL": "C.UTF-8",
        "PYTHONPATH": str(DRIVERS),
        "PYTHONUNBUFFERED": "1",
        # Nothing is written next to the drivers in the checkout.
        "PYTHONDONTWRITEBYTECODE": "1",
        "PYTHONWARNINGS": "ignore",
        # Otherwise glibc keeps an arena for each thread: a third of the memory of all services.
        "MALLOC_ARENA_MAX": "1",
    }


def _config(service: str, *names: str) -> list[str]:
    return [part for name in names for part in ("--config-file", str(ETC / service / name))]


def _venv(program: str, service: str, *names: str) -> list[str]:
    return [str(VENV_BIN / program), *_config(service, *names)]


def _uwsgi(service: str, script: str, url: str, processes: int) -> list[str]:
    return [
        str(VENV_BIN / "uwsgi"),
        "--http-socket",
        url.removeprefix("http://"),
        "--wsgi-file",
        str(VENV_BIN / script),
        # No threads: Keystone's middleware keeps the caller's token in a shared object, so two
        # requests in one process take each other's (a tenant's credential was refused for Nova's
        # roles).
        "--processes",
        str(processes),
        "--enable-threads",
        "--master",
        "--die-on-term",
        "--thunder-lock",
        "--need-app",
        "--disable-logging",
        "--buffer-size",
        "65535",
        # The socket serves one request per connection: clients must not keep it open.
        "--add-header",
        "Connection: close",
        "--procname-prefix",
        f"{service} ",
    ]


def _shell(script: str) -> list[str]:
    """A command that runs a shell script up to the first failure."""
    return ["sh", "-ec", script]


def _lab(module: str) -> list[str]:
    """A command that runs a module of the lab in the lab's own interpreter."""
    return [sys.executable, "-m", module]


def initialization(secrets: Secrets) -> list[Unit]:
    """List the jobs that create the databases; a saved copy of the databases replaces them."""

    def sync(name: str, command: str) -> Unit:
        return Unit(name=name, command=_shell(command), after=["databases"], job=True)

    database_statements = "".join(
        f"CREATE DATABASE IF NOT EXISTS {name} CHARACTER SET utf8mb4; "
        f"GRANT ALL PRIVILEGES ON {name}.* TO 'lab'@'{LOOPBACK}'; "
        for name in DATABASES
    )
    users = f"CREATE USER IF NOT EXISTS 'lab'@'{LOOPBACK}' IDENTIFIED BY '{secrets.database}'; "
    manage = {name: str(VENV_BIN / f"{name}-manage") for name in ("keystone", "glance", "nova")}
    keystone = f"{manage['keystone']} --config-dir {ETC}/keystone"
    nova = f"{manage['nova']} --config-file {ETC}/nova/nova.conf"
    return [
        # Standard input, not an argument: the statements hold a password.
        Unit(
            name="databases",
            command=_shell(
                f'printf %s "$STATEMENTS" | mariadb --socket={MYSQL_SOCKET} --user=root'
            ),
            environment={"STATEMENTS": users + database_statements},
            after=["mariadb"],
            job=True,
        ),
        Unit(
            name="keystone-database",
            command=_shell(
                f"mkdir -p {ETC}/keystone/fernet-keys {ETC}/keystone/credential-keys\n"
                f"{keystone} db_sync\n"
                f"{keystone} fernet_setup --keystone-user root --keystone-group root\n"
                f"{keystone} credential_setup --keystone-user root --keystone-group root\n"
                f"{keystone} bootstrap --bootstrap-region-id {REGION}"
                f" --bootstrap-public-url {KEYSTONE}/v3 --bootstrap-internal-url {KEYSTONE}/v3"
                f" --bootstrap-admin-url {KEYSTONE}/v3"
            ),
            environment={"OS_BOOTSTRAP_PASSWORD": secrets.admin},
            after=["databases"],
            job=True,
        ),
        Unit(
            name="identity",
            command=_lab("lab.cloud.bootstrap.identity"),
            after=["keystone"],
            job=True,
            environment={"PYTHONPATH": str(PROJECT)},
        ),
        sync(
            "glance-database",
            f"{manage['glance']} --config-file {ETC}/glance/glance-api.conf db_sync",
        ),
        Unit(
            name="placement-database",
            after=["databases"],
            job=True,
            command=[*_venv("placement-manage", "placement", "placement.conf"), "db", "sync"],
        ),
        sync(
            "nova-database",
            f"{nova} api_db sync\n{nova} cell_v2 map_cell0\n"
            f"{nova} cell_v2 create_cell --name lab || {nova} cell_v2 list_cells | grep -w lab\n"
            f"{nova} db sync",
        ),
        sync(
            "neutron-database",
            f"{VENV_BIN}/neutron-db-manage --config-file {ETC}/neutron/neutron.conf"
            f" --config-file {ETC}/neutron/ml2.ini upgrade heads",
        ),
        sync(
            "cinder-database",
            f"{VENV_BIN}/cinder-manage --config-file {ETC}/cinder/cinder.conf db sync",
        ),
        # Without this, the scheduler looks for new hosts only every half minute.
        Unit(
            name="compute-host",
            after=["agents"],
            job=True,
            command=[*_venv("nova-manage", "nova", "nova.conf"), "cell_v2", "discover_hosts"],
        ),
        Unit(
            name="resources",
            command=_lab("lab.cloud.bootstrap.resources"),
            job=True,
            after=["identity", "agents"],
            environment={"PYTHONPATH": str(PROJECT)},
        ),
        Unit(
            name="seed",
            command=_lab("lab.cloud.seed"),
            job=True,
            after=["resources", "compute-host"],
            environment={"PYTHONPATH": str(PROJECT)},
        ),
    ]


def services() -> list[Unit]:
    """List the services, and the job that waits for their agents."""
    agents_after = ["neutron-server"]
    return [
        Unit(
            name="mariadb",
            port=(LOOPBACK, 3306),
            command=_shell(
                f"[ -d {MYSQL}/mysql ] || mariadb-install-db {MARIADB_CONFIG} "
                "--auth-root-authentication-method=socket --skip-test-db --user=root\n"
                f"exec mariadbd {MARIADB_CONFIG}"
            ),
        ),
        Unit(
            name="rabbitmq",
            port=(LOOPBACK, 5672),
            command=[RABBITMQ_PROGRAM],
            environment={
                "RABBITMQ_NODENAME": "rabbit@localhost",
                "RABBITMQ_CONFIG_FILE": str(ETC / "rabbitmq" / "rabbitmq.conf"),
                "RABBITMQ_ENABLED_PLUGINS_FILE": str(ETC / "rabbitmq" / "enabled_plugins"),
                "RABBITMQ_MNESIA_BASE": str(STATE / "rabbitmq"),
                "RABBITMQ_LOG_BASE": str(STATE / "rabbitmq"),
                "RABBITMQ_LOGS": "-",
                "ERL_EPMD_ADDRESS": LOOPBACK,
                "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS": (
                    "+S 1:1 +sbwt none +sbwtdcpu none +sbwtdio none"
                ),
            },
        ),
        Unit(
            name="memcached",
            port=(LOOPBACK, 11211),
            command=[
                "memcached",
                "-u",
                "root",
                "-l",
                LOOPBACK,
                "-p",
                "11211",
                "-m",
                "64",
                "-t",
                "1",
            ],
        ),
        Unit(
            name="keystone",
            url=f"{KEYSTONE}/v3",
            after=["mariadb", "keystone-database"],
            command=_uwsgi("keystone", "keystone-wsgi-public", KEYSTONE, 4),
            environment={"OS_KEYSTONE_CONFIG_DIR": str(ETC / "keystone")},
        ),
        Unit(
            name="glance-api",
            url=f"{GLANCE}/healthcheck",
            after=["mariadb", "glance-database"],
            command=_venv("glance-api", "glance", "glance-api.conf"),
        ),
        Unit(
            name="placement",
            url=f"{PLACEMENT}/",
            after=["mariadb", "placement-database"],
            command=_uwsgi("placement", "placement-api", PLACEMENT, 2),
            environment={"OS_PLACEMENT_CONFIG_DIR": str(ETC / "placement")},
        ),
        Unit(
            name="neutron-server",
            url=f"{NEUTRON}/",
            after=["mariadb", "rabbitmq", "neutron-database"],
            command=_venv("neutron-server", "neutron", "neutron.conf", "ml2.ini"),
        ),
        # Conductor, scheduler and compute log in to Placement before they serve.
        Unit(
            name="nova-conductor",
            after=["mariadb", "rabbitmq", "nova-database", "keystone", "identity"],
            command=_venv("nova-conductor", "nova", "nova.conf"),
        ),
        Unit(
            name="nova-api",
            url=f"{NOVA}/",
            after=["mariadb", "rabbitmq", "nova-database"],
            command=_venv("nova-api-os-compute", "nova", "nova.conf"),
        ),
        Unit(
            name="nova-scheduler",
            after=["mariadb", "rabbitmq", "nova-database", "keystone", "identity"],
            command=_venv("nova-scheduler", "nova", "nova.conf"),
        ),
        Unit(
            name="cinder-api",
            url=f"{CINDER}/",
            after=["mariadb", "rabbitmq", "cinder-database"],
            command=_venv("cinder-api", "cinder", "cinder.conf"),
        ),
        Unit(
            name="cinder-scheduler",
            after=["mariadb", "rabbitmq", "cinder-database"],
            command=_venv("cinder-scheduler", "cinder", "cinder.conf"),
        ),
        Unit(
            name="cinder-volume",
            after=["cinder-scheduler", "cinder-api", "identity"],
            command=_venv("cinder-volume", "cinder", "cinder.conf"),
        ),
        # Agents that start before neutron-server answers back off for minutes.
        Unit(
            name="neutron-linuxbridge-agent",
            after=agents_after,
            command=_venv(
                "neutron-linuxbridge-agent", "neutron", "neutron.conf", "linuxbridge-agent.ini"
            ),
        ),
        Unit(
            name="neutron-dhcp-agent",
            after=agents_after,
            command=_venv("neutron-dhcp-agent", "neutron", "neutron.conf", "dhcp-agent.ini"),
        ),
        Unit(
            name="neutron-l3-agent",
            after=agents_after,
            command=_venv("neutron-l3-agent", "neutron", "neutron.conf", "l3-agent.ini"),
        ),
        Unit(
            name="neutron-metadata-agent",
            after=agents_after,
            command=_venv(
                "neutron-metadata-agent", "neutron", "neutron.conf", "metadata-agent.ini"
            ),
        ),
        Unit(
            name="nova-compute",
            after=[
                "neutron-server",
                "nova-conductor",
                "placement",
                "keystone",
                "glance-api",
                "identity",
            ],
            command=_venv("nova-compute", "nova", "nova-compute.conf"),
        ),
        Unit(
            name="nova-metadata",
            port=(API, NOVA_METADATA_PORT),
            after=["nova-api"],
            command=_venv("nova-api-metadata", "nova", "nova.conf"),
        ),
        # The cloud is up when this job has ended.
        Unit(
            name="agents",
            job=True,
            environment={"PYTHONPATH": str(PROJECT)},
            after=[
                "keystone",
                "glance-api",
                "placement",
                "neutron-server",
                "nova-api",
                "cinder-api",
                "nova-metadata",
                "nova-compute",
                "cinder-volume",
                "neutron-linuxbridge-agent",
                "neutron-dhcp-agent",
                "neutron-l3-agent",
                "neutron-metadata-agent",
                "nova-scheduler",
                "identity",
            ],
            command=_lab("lab.cloud.bootstrap.agents"),
        ),
    ]


def plan(secrets: Secrets, *, initialize: bool) -> list[Unit]:
    """List the units of this start; without initialization, no unit waits for its jobs."""
    units = services() + (initialization(secrets) if initialize else [])
    names = {unit.name for unit in units}
    return [replace(unit, after=[name for name in unit.after if name in names]) for unit in units]
