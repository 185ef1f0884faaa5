"""Names, addresses and folders that every part of the cloud agrees on."""

from __future__ import annotations

from lab.paths import CACHE, LOGS, SOURCE, STATE

# Installed once, good for every later start.
INSTALL = CACHE / "openstack"
VENV = INSTALL / "venv"
VENV_BIN = VENV / "bin"
VENV_ETC = VENV / "etc"
SEEDS = CACHE / "seeds"
VERSIONS = SOURCE / "cloud" / "versions.txt"
DRIVERS = SOURCE / "drivers"

# Of the running lab only.
ETC = STATE / "etc"
RUN = STATE / "run"
TMP = STATE / "tmp"
# The file system of images, server disks and volumes: copies share their blocks.
POOL = STATE / "pool"
# Where Glance keeps images; the drivers read them there instead of by HTTP.
IMAGE_STORE = STATE / "glance" / "images"
MYSQL = STATE / "mysql"
MYSQL_SOCKET = RUN / "mysql.sock"
SECRETS = STATE / "secrets.json"
CLOUDS_YAML = STATE / "clouds.yaml"
KUBECONFIG = STATE / "kubeconfig"
STATUS = RUN / "status.json"
INIT_PID = RUN / "init.pid"
SYSCTL_BEFORE = RUN / "sysctl.json"
CLOUD_LOGS = LOGS / "cloud"

# One name for the machine in every service: Nova's and Neutron's must be the same to bind ports.
HOST = "lab"
# Container cgroups of servers live below this name, so that `cloud down` finds them.
CGROUP = "openstack-kubernetes-lab"

LOOPBACK = "127.0.0.1"
BRIDGE = "br-ex"
PHYSICAL_NETWORK = "external"
# The external network: floating IPs, and the address of every API.
EXTERNAL_CIDR = "172.24.4.0/24"
API = "172.24.4.1"
FLOATING_RANGE = ("172.24.4.20", "172.24.4.250")
EXTERNAL_NETWORK = "external"

# The entries in clouds.yaml.
CLOUD = "lab"
ADMIN_CLOUD = "lab-admin"
REGION = "lab"
PROJECT_NAME = "lab"
USER_NAME = "lab"

KEYSTONE = f"http://{API}:5000"
GLANCE = f"http://{API}:9292"
PLACEMENT = f"http://{API}:8778"
NOVA = f"http://{API}:8774"
NOVA_METADATA_PORT = 8775
NEUTRON = f"http://{API}:9696"
CINDER = f"http://{API}:8776"

DATABASES = (
    "keystone",
    "glance",
    "placement",
    "nova_api",
    "nova",
    "nova_cell0",
    "neutron",
    "cinder",
)
SERVICE_USERS = ("glance", "placement", "nova", "neutron", "cinder")
