"""MariaDB, RabbitMQ and the other programs that are not part of OpenStack; all on loopback."""

from __future__ import annotations

from lab.cloud.layout import LOOPBACK, MYSQL, MYSQL_SOCKET, RUN, TMP
from lab.cloud.secrets import Secrets

MARIADB = f"""\
[mariadbd]
user = root
bind-address = {LOOPBACK}
port = 3306
socket = {MYSQL_SOCKET}
pid-file = {RUN}/mariadb.pid
datadir = {MYSQL}
tmpdir = {TMP}
skip-name-resolve
skip-log-bin
max_connections = 600
character-set-server = utf8mb4
performance_schema = off
# A service that is killed loses nothing; a power cut may, and then the lab is gone anyway.
innodb_flush_log_at_trx_commit = 2
innodb_buffer_pool_size = 128M
innodb_log_file_size = 32M
"""

RABBITMQ = """\
listeners.tcp.1 = {loopback}:5672
default_user = lab
default_pass = {password}
default_vhost = /
loopback_users = none
log.console = true
log.console.level = warning
log.file = false
vm_memory_high_watermark.absolute = 1GB
disk_free_limit.absolute = 200MB
"""


def files(secrets: Secrets) -> dict[str, str]:
    """File name below the configuration folder -> text."""
    return {
        "mariadb.cnf": MARIADB,
        "rabbitmq/rabbitmq.conf": RABBITMQ.format(loopback=LOOPBACK, password=secrets.messages),
        "rabbitmq/enabled_plugins": "[].\n",
        # Nothing listens there, so every lookup is refused at once instead of timing out.
        "resolv.conf": f"nameserver {LOOPBACK}\noptions timeout:1 attempts:1\n",
    }
