"""The add-ons that can run on the lab: installed, used and removed again.

Runs only with `LAB_ADDONS=1`: the image takes long to make, so CI does without. The skipped tests
say which add-ons cannot run here, and why.
"""

from __future__ import annotations

import base64
import json
import os
import sys
import time
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from datetime import time as clock
from functools import partial
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import pytest

from addons.monitoring import alerts
from bench.quiet import QuietStack
from lab import image, settings
from lab.cloud import layout
from lab.cluster import Cluster, is_ready, left_in_project, openstack, run
from lab.image import programs
from lab.poll import Poll
from lab.ssh_host import BOOT_ID
from lab.until import until
from tests.lab import needs
from tests.lab.gateways import Gateway
from tests.lab.needs import Needs

pytestmark = pytest.mark.skipif("LAB_ADDONS" not in os.environ, reason="LAB_ADDONS is not set")


ADDONS: Mapping[str, Needs] = {
    "snapshots": Needs(("snapshot-controller",)),
    "monitoring": Needs(("kube-prometheus-stack",)),
    "ingress": Needs(("traefik",)),
    "headlamp": Needs(("headlamp",), ("headlamp",)),
    "logging": Needs(("victoria-logs-single", "fluent-bit"), ("victoria-logs", "fluent-bit")),
    "kured": Needs(("kured",), ("kured",)),
}
GRAFANA = Needs(("kube-prometheus-stack",), ("grafana",))
NGINX = Needs(("nginx-ingress",), ("nginx-ingress",))
FIRING_ON_A_LAB = (
    "NodeClockNotSynchronising",
    "NodeSystemSaturation",
    "AlertmanagerFailedToSendAlerts",
    "AlertmanagerClusterFailedToSendAlerts",
)
# Alertmanager sends alerts there: to the pod `receiver` below.
WEBHOOK = {"url": "http://receiver.default/cgi-bin/alert"}
EVERY_HOUR = {"name": "hourly", "schedule": "0 * * * *", "keep": 2, "selector": {"app": "shop"}}
SETTINGS: Mapping[str, Mapping[str, Any]] = {
    "snapshots": {"schedules": [EVERY_HOUR]},
    "monitoring": {
        "storageSize": "2Gi",
        "fleet": True,
        "alertmanager": {
            "route": {"receiver": "lab", "group_wait": "1s", "group_interval": "10s"},
            "receivers": [{"name": "lab", "webhook_configs": [WEBHOOK]}],
        },
        "values": {
            "grafana": {"enabled": not GRAFANA.missing()},
            # Right on a lab: its clock is not synchronised, it is busy, the receiver comes later.
            "defaultRules": {"disabled": dict.fromkeys(FIRING_ON_A_LAB, True)},
        },
    },
    "ingress": {"gatewayApi": True},
    "headlamp": {"host": "headlamp.example.org"},
    # Its plugin is on the internet.
    "logging": {"storageSize": "2Gi", "grafana": False},
    "kured": {
        "startTime": "0:00",
        "endTime": "23:59",
        "values": {
            "configuration": {"period": "10s"},
            # Without its image, test only its objects and the part on the gateways.
            **({"nodeSelector": {"lab": "none"}} if ADDONS["kured"].missing() else {}),
        },
    },
}
SHOP = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data, labels: {app: shop}}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: shop}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: shop
    image: docker.io/lab/busybox:1
    imagePullPolicy: Never
    command: [sh, -c, "[ -e /data/file ] || echo first >/data/file; sync; sleep 36000"]
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""
RECEIVER = """
apiVersion: v1
kind: Pod
metadata: {name: receiver, labels: {app: receiver}}
spec:
  terminationGracePeriodSeconds: 0
  containers:
  - name: receiver
    image: docker.io/lab/busybox:1
    imagePullPolicy: Never
    command:
    - sh
    - -ec
    - |
      mkdir -p /tmp/www/cgi-bin
      cat >/tmp/www/cgi-bin/alert <<'END'
      #!/bin/sh
      head -c "$CONTENT_LENGTH" >>/tmp/alerts
      printf 'Content-Type: text/plain\\r\\n\\r\\n'
      END
      chmod +x /tmp/www/cgi-bin/alert
      exec httpd -f -p 8080 -h /tmp/www
---
apiVersion: v1
kind: Service
metadata: {name: receiver}
spec: {selector: {app: receiver}, ports: [{port: 80, targetPort: 8080}]}
"""
PROMETHEUS = "kube-prometheus-stack-prometheus:9090"
ROUND = clock(minute=25)
SNAPSHOT = "data-by-hand-1"
# Seconds of the smoke tests: some wait for minutes.
LONGEST_SMOKE = 3600


MISSING = [name for needs in ADDONS.values() for name in needs.missing_charts()]
FORBIDS = """
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata: {name: forbids, namespace: monitoring}
spec:
  groups:
  - name: forbids
    rules: [{alert: LabForbids, expr: vector(1), labels: {severity: warning}}]
"""


def why_not(needs: Needs) -> str | None:
    """Return the reason why an add-on cannot run on this lab, None when it can."""
    missing = needs.missing()
    return f"there is no {' and no '.join(missing)}" if missing else None


def wanted(base: Mapping[str, Any], *, enabled: bool) -> dict[str, Any]:
    """The `addons` key with every add-on that can run enabled, or disabled."""
    chosen = {
        name: {"enabled": enabled, **SETTINGS[name]}
        for name, needs in ADDONS.items()
        if not needs.missing() or (name == "kured" and not needs.missing_charts())
    }
    return {**base, **chosen}


@pytest.fixture(scope="module")
def charts(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One folder with the lab's own charts and those that a user has added."""
    return needs.every_chart(tmp_path_factory.mktemp("charts"))


@pytest.fixture(scope="module")
def volumes_before() -> set[str]:
    """Volumes that the project had before this test."""
    return volumes()


@pytest.fixture(scope="module")
def cluster(charts: Path, volumes_before: set[str]) -> Iterator[Cluster]:
    """Two gateways, a control plane, two workers, and the default add-ons."""
    config = settings.cluster(
        image=image.ensure(addons=True), gateways=2, control_planes=1, workers=2
    )
    config["addons"]["chartDirectory"] = str(charts)
    made = Cluster("addons", config)
    with made.running():
        yield made


@pytest.fixture(scope="module")
def base(charts: Path) -> dict[str, Any]:
    """The `addons` key of a cluster without any optional one."""
    addons: dict[str, Any] = settings.cluster(image="")["addons"]
    return {**addons, "chartDirectory": str(charts)}


@pytest.fixture(scope="module")
def gateway_api(cluster: Cluster) -> None:
    """The CRDs of Gateway API, which users install themselves."""
    kinds = programs.source("traefik", "sigs.k8s.io/gateway-api") / "config/crd/standard"
    cluster.kubectl("apply", "--server-side", "-f", str(kinds))


@pytest.mark.usefixtures("gateway_api")
def test_every_add_on_is_healthy_within_five_minutes(
    cluster: Cluster, base: dict[str, Any]
) -> None:
    memory(cluster, "the default set")
    start = time.monotonic()
    cluster.up(addons=wanted(base, enabled=True))
    cluster.kubectl(
        *("-n", "monitoring", "wait", "prometheus,alertmanager", "--all"),
        *("--for=condition=Available", "--timeout=300s"),
    )
    cluster.wait_for_pods(300)
    seconds = time.monotonic() - start
    print(f"\nevery add-on healthy after {seconds:.0f} s", file=sys.stderr)
    assert seconds < 300


@pytest.mark.skipif(bool(MISSING), reason=f"no charts of {', '.join(MISSING)}")
def test_a_preview_of_every_add_on_takes_less_than_20_seconds(
    cluster: Cluster, base: dict[str, Any]
) -> None:
    chosen = wanted(base, enabled=True)
    # Including those whose pods cannot run here.
    every = {name: {"enabled": True} for name in ADDONS}
    cluster.stack.configure({"addons": {**every, **chosen}})
    seconds = {}
    # The CLI's own log takes most of the time; docs/ tell users how to switch it off.
    for how, stack in {"with": cluster.stack, "without": QuietStack(cluster.name, {})}.items():
        start = time.monotonic()
        said = stack.pulumi("preview", "--show-sames", capture=True).stdout
        seconds[how] = time.monotonic() - start
        # Including those that were installed before.
        names = [name for needs in ADDONS.values() for name in needs.charts]
        assert all(f"addons-addons-{name} " in said for name in names)
        print(f"\npreview {how} the CLI's log: {seconds[how]:.1f} s", file=sys.stderr)
    cluster.stack.configure({"addons": chosen})
    assert seconds["without"] < 20


@pytest.mark.parametrize("what", [*ADDONS, "grafana"])
def test_it_runs_here(cluster: Cluster, what: str) -> None:
    parts = {**ADDONS, "grafana": GRAFANA}[what]
    if reason := why_not(parts):
        pytest.skip(f"{what}: {reason}")
    ready = [pod["metadata"]["name"] for pod in cluster.pods() if is_ready(pod)]
    # Pods are named after their chart, and after the image where a chart has several.
    for part in (*parts.charts, *parts.archives):
        assert any(part in name for name in ready), f"no {part}: {ready}"


def test_the_smoke_test_finds_nothing(cluster: Cluster) -> None:
    smoke(cluster, "tests/smoke")


def test_an_alert_reaches_its_receiver(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=RECEIVER)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/receiver", "--timeout=120s")

    def told() -> bool:
        # This alert always fires.
        return "Watchdog" in cluster.kubectl("exec", "receiver", "--", "cat", "/tmp/alerts")

    until(told, "an alert at its receiver", 120)
    cluster.kubectl("delete", "pod/receiver", "service/receiver")


def test_a_late_backup_of_etcd_is_noticed_until_there_is_a_new_one(cluster: Cluster) -> None:
    numbers = "/var/lib/openstack-kubernetes/metrics/backup.prom"
    [control_plane] = (name for name in cluster.nodes() if "-control-plane-" in name)
    cluster.ssh(control_plane, f"sudo sed -i 's/ [0-9]*$/ 1700000000/' {numbers}")
    until(lambda: "EtcdBackupLate" in firing(cluster), "the alert", 180)
    cluster.ssh(control_plane, "sudo systemctl start openstack-kubernetes-backup.service")
    until(lambda: "EtcdBackupLate" not in firing(cluster), "the end of the alert", 180)


@pytest.mark.skipif(bool(ADDONS["monitoring"].missing()), reason="no chart of monitoring")
class TestFleet:
    @pytest.fixture(scope="class")
    @classmethod
    def watched(cls, charts: Path) -> Iterator[Cluster]:
        """Another cluster with monitoring, one machine of each role."""
        config = settings.cluster(
            image=image.ensure(addons=True), gateways=1, control_planes=1, workers=1
        )
        off = {"enabled": False}
        monitoring = {
            "enabled": True,
            "storageSize": "1Gi",
            "values": {"grafana": off, "alertmanager": off},
        }
        more = {"chartDirectory": str(charts), "monitoring": monitoring}
        addons = {**config["addons"], **more}
        made = Cluster("watched", {**config, "hostCidr": "10.8.4.0/22", "addons": addons})
        with made.running():
            yield made

    def test_each_cluster_is_watched_with_a_token_for_that_alone(
        self, cluster: Cluster, watched: Cluster
    ) -> None:
        said = cluster.fleet("monitoring", "addons", "watched", "--admin", "addons")
        assert "addons: a new token expires " in said
        assert "watched: a new token expires " in said
        for name, count in (("addons", "3"), ("watched", "2")):
            nodes = f'sum(fleet_kube_node_status_condition{{cluster="{name}"}})'
            until(partial(self.has, cluster, nodes, count), "the metrics of its nodes", 300)
        for kind in ("etcd_backup", "certificate_expiry"):
            metric = f"fleet_openstack_kubernetes_{kind}_timestamp_seconds"
            assert int(answer(cluster, f'count({metric}{{cluster="addons"}})')) > 0, kind

        words = ("-n", "monitoring", "get", "secret", "fleet-watched")
        encoded = cluster.kubectl(*words, "-o", "jsonpath={.data.token}")
        token = base64.b64decode(encoded).decode()
        services = "/api/v1/namespaces/monitoring/services"
        federated = f"{services}/{PROMETHEUS}/proxy/federate?match[]=up"
        assert "up{" in watched.kubectl_as(token, "get", "--raw", federated)
        for path in (
            f"{services}/kube-prometheus-stack-operator:443/proxy/",
            f"{services}/kube-prometheus-stack-prometheus",
            "/api/v1/namespaces/monitoring/secrets",
            "/api/v1/nodes",
        ):
            assert watched.kubectl_as(token, "get", "--raw", path) == "", path

    def test_a_cluster_that_is_silent_is_told_until_it_answers(
        self, cluster: Cluster, watched: Cluster
    ) -> None:
        watched.kubectl("delete", "namespace", "openstack-kubernetes-fleet")
        fires = 'alertname="FleetClusterSilent",alertstate="firing"'
        silent = f"count by (cluster) (ALERTS{{{fires}}})"
        # Five minutes, and what Prometheus needs to notice it.
        until(partial(self.has, cluster, silent, "1"), "the alert", 480)
        about = json.loads(query(cluster, silent))["data"]["result"]
        assert [each["metric"]["cluster"] for each in about] == ["watched"]
        said = cluster.fleet("monitoring", "watched", "--admin", "addons")
        assert said.startswith("watched: a new token expires ")
        until(partial(self.has, cluster, silent, ""), "the end of the alert", 300)

    @staticmethod
    def has(cluster: Cluster, text: str, value: str) -> bool:
        """True if Prometheus answers so."""
        return answer(cluster, text) == value


def test_a_schedule_takes_snapshots_and_keeps_the_newest(cluster: Cluster) -> None:
    cluster.kubectl("apply", "-f", "-", stdin=SHOP)
    cluster.kubectl("wait", "--for=condition=Ready", "pod/shop", "--timeout=180s")
    for number in range(1, 4):
        job = f"by-hand-{number}"
        cluster.kubectl("-n", "snapshots", "create", "job", "--from=cronjob/hourly", job)
        cluster.kubectl(
            "-n", "snapshots", "wait", "--for=condition=Complete", f"job/{job}", "--timeout=120s"
        )
        if number == 1:
            # The third one replaces it.
            assert SNAPSHOT in snapshots(cluster)
    assert snapshots(cluster) == ["data-by-hand-2", "data-by-hand-3"]


def test_a_claim_is_restored_under_its_own_name(cluster: Cluster) -> None:
    # As in the runbook, for a claim whose name must stay.
    cluster.kubectl("exec", "shop", "--", "sh", "-c", "echo spoilt >/data/file; sync")
    cluster.kubectl("delete", "pod/shop", "pvc/data")
    source = (
        "dataSource: {apiGroup: snapshot.storage.k8s.io, kind: VolumeSnapshot, "
        "name: data-by-hand-3}, "
    )
    cluster.kubectl("apply", "-f", "-", stdin=SHOP.replace("spec: {acc", f"spec: {{{source}acc"))
    cluster.kubectl("wait", "--for=condition=Ready", "pod/shop", "--timeout=180s")
    assert cluster.kubectl("exec", "shop", "--", "cat", "/data/file").strip() == "first"
    assert snapshots(cluster) == ["data-by-hand-2", "data-by-hand-3"]
    cluster.kubectl("delete", "pod/shop", "pvc/data")
    cluster.kubectl("delete", "volumesnapshots", "--all")


@pytest.mark.skipif(bool(ADDONS["kured"].missing_charts()), reason="no chart of kured")
def test_gateways_reboot_one_at_a_time_and_the_api_stays_available(cluster: Cluster) -> None:
    gateways = [Gateway(cluster, index) for index in range(2)]
    active, backup = sorted(gateways, key=lambda each: not each.is_active())
    assert active.is_active()
    assert not backup.is_active()
    timer = backup.ssh("systemctl is-active openstack-kubernetes-reboot.timer")
    assert timer == "active"
    if datetime.now(UTC).time() < ROUND:
        pytest.skip("the window opens at midnight, and the active gateway waits for a round")
    boots = {each.index: each.boot_id() for each in gateways}
    with Poll(cluster.endpoint) as poll:
        for each in gateways:
            each.ssh("sudo touch /run/reboot-required")
        backup.ask()
        until(lambda: backup.boot_id() not in ("", boots[backup.index]), "the backup back", 90)
        # The backup cannot take over without its HAProxy.
        backup.ssh("sudo systemctl stop haproxy")
        active.ask()
        assert active.boot_id() == boots[active.index]
        backup.ssh("sudo systemctl start haproxy")

        def gone() -> bool:
            active.ask()
            return active.boot_id() != boots[active.index]

        # HAProxy answers later than sshd does.
        until(gone, "the active one's turn", 60)
        until(lambda: active.boot_id() not in ("", boots[active.index]), "it is back", 90)
        assert backup.is_active()
    assert poll.longest < 5, poll.longest
    if not ADDONS["monitoring"].missing():
        waiting = f'count({alerts.REBOOT_METRIC}{{gateway!=""}})'
        until(lambda: answer(cluster, waiting) == "2", "the metric of both", 120)


@pytest.mark.skipif(bool(ADDONS["monitoring"].missing()), reason="no chart of monitoring")
def test_each_machine_tells_when_it_was_updated(cluster: Cluster) -> None:
    assert answer(cluster, f"count({alerts.UPDATES_METRIC})") == "5"


@pytest.mark.skipif(bool(ADDONS["kured"].missing()), reason="no image of kured")
def test_a_node_reboots_when_no_alert_forbids_it(cluster: Cluster) -> None:
    nodes = sorted(cluster.nodes())
    *others, worker = nodes
    boots = {node: cluster.ssh(node, BOOT_ID) for node in nodes}
    cluster.kubectl("apply", "-f", "-", stdin=FORBIDS)
    until(lambda: "LabForbids" in firing(cluster), "the alert", 120)
    cluster.ssh(worker, "sudo touch /run/reboot-required")
    # Long enough for a few of kured's periods.
    until(lambda: "LabForbids" in kured_on(cluster, worker), "kured's refusal", 60)
    time.sleep(20)
    assert cluster.ssh(worker, BOOT_ID) == boots[worker]
    cluster.kubectl("delete", "-f", "-", stdin=FORBIDS)

    def rebooted() -> bool:
        return cluster.ssh(worker, BOOT_ID) not in ("", boots[worker])

    until(rebooted, "its turn", 300)

    def back() -> bool:
        spec = json.loads(cluster.kubectl("get", "node", worker, "-o", "json"))["spec"]
        return cluster.nodes()[worker] and not spec.get("unschedulable")

    # After its start, kured's pod checks only once a minute.
    until(back, "it takes pods again", 240)
    cluster.wait_for_pods(300)
    assert {node: cluster.ssh(node, BOOT_ID) for node in others} == {
        node: boots[node] for node in others
    }


@pytest.mark.skipif(bool(NGINX.missing()), reason=f"nginx: {why_not(NGINX)}")
def test_nginx_can_take_traefiks_place(cluster: Cluster, base: dict[str, Any]) -> None:
    chosen = wanted(base, enabled=True)
    # Both want the same node ports.
    cluster.up(addons={**chosen, "ingress": {"enabled": False}})
    cluster.up(addons={**chosen, "ingress": {"enabled": True, "controller": "nginx"}})
    smoke(cluster, "tests/smoke", "-k", "TestIngress or TestHeadlamp")


def test_disabled_add_ons_leave_nothing_but_their_kinds_metrics_and_logs_behind(
    cluster: Cluster, base: dict[str, Any], volumes_before: set[str]
) -> None:
    memory(cluster, "with the add-ons that ran here")
    cluster.up(addons=wanted(base, enabled=False))
    names = cluster.kubectl("get", "namespaces", "-o", "name")
    ours = ("snapshots", "ingress", "headlamp", "kured")
    assert not [each for each in ours if f"namespace/{each}\n" in names]
    # Those with metrics and logs stay, with their volumes.
    kept = [name for name in ("monitoring", "logging") if not ADDONS[name].missing()]
    assert all(f"namespace/{each}\n" in names for each in kept)
    if kept:
        assert not volumes() <= volumes_before
        cluster.kubectl("delete", "namespace", *kept)
    kinds = cluster.kubectl("get", "crds", "-o", "name")
    # With a kind, all that users made of it would go.
    groups = {
        "monitoring": "monitoring.coreos.com",
        "ingress": "traefik.io",
        "snapshots": "snapshot.storage.k8s.io",
    }
    assert all(group in kinds or ADDONS[name].missing() for name, group in groups.items())
    until(lambda: volumes() <= volumes_before, "volumes gone", 120)
    # Cinder CSI stays, and has roles of its own for snapshots.
    words = (
        *("prometheus", "snapshot-controller", "take-snapshots", "traefik", "nginx"),
        *("grafana", "headlamp", "victoria", "fluent", "kured"),
    )
    left = cluster.kubectl(
        "get", "clusterroles,clusterrolebindings,ingressclasses,gatewayclasses", "-o", "name"
    )
    assert not [line for line in left.splitlines() if any(word in line for word in words)]
    assert cluster.up() == {}


def test_destroy_leaves_the_project_empty(cluster: Cluster) -> None:
    cluster.destroy()
    assert left_in_project() == {}


def smoke(cluster: Cluster, *arguments: str) -> None:
    """Run the checks that users run against any live cluster."""
    checks = run(
        *(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *arguments),
        seconds=LONGEST_SMOKE,
        KUBECONFIG=str(cluster.kubeconfig),
        SMOKE_IMAGE="docker.io/lab/busybox:1",
        SMOKE_CLIENT_ADDRESS=layout.API,
    )
    print(checks, file=sys.stderr)


def firing(cluster: Cluster) -> str:
    """Ask Prometheus which alerts fire."""
    return query(cluster, "ALERTS")


def query(cluster: Cluster, text: str) -> str:
    """Ask Prometheus; returns its JSON."""
    proxy = f"/api/v1/namespaces/monitoring/services/{PROMETHEUS}/proxy"
    return cluster.kubectl("get", "--raw", f"{proxy}/api/v1/query?{urlencode({'query': text})}")


def answer(cluster: Cluster, text: str) -> str:
    """The value of a query with one answer at most; empty if there is none."""
    found = json.loads(query(cluster, text))["data"]["result"]
    return str(found[0]["value"][1]) if found else ""


def kured_on(cluster: Cluster, node: str) -> str:
    """Last lines of kured's log on that node."""
    pod = cluster.kubectl(
        *("-n", "kured", "get", "pods", f"--field-selector=spec.nodeName={node}", "-o", "name")
    )
    return cluster.kubectl("-n", "kured", "logs", "--tail=5", pod.strip())


def volumes() -> set[str]:
    """Every volume of the project."""
    return {each["ID"] for each in openstack("volume", "list")}


def snapshots(cluster: Cluster) -> list[str]:
    """Names of the snapshots in the default namespace."""
    listed = json.loads(cluster.kubectl("get", "volumesnapshots", "-o", "json"))["items"]
    return sorted(each["metadata"]["name"] for each in listed)


def top(cluster: Cluster) -> str:
    """Usage of the pods by `kubectl top`; empty before the first measurement."""
    return cluster.kubectl("top", "pods", "-A", "--no-headers", check=False)


def memory(cluster: Cluster, what: str) -> None:
    """Print the memory of the pods, by node and in total: the figures of docs/tested.md."""
    until(lambda: "kube-system" in top(cluster), "metrics", 120)
    used = {
        (line.split()[0], line.split()[1]): int(line.split()[3].removesuffix("Mi"))
        for line in top(cluster).splitlines()
    }
    nodes: dict[str, int] = {}
    for each in json.loads(cluster.kubectl("get", "pods", "-A", "-o", "json"))["items"]:
        key = (each["metadata"]["namespace"], each["metadata"]["name"])
        node = each["spec"].get("nodeName", "")
        nodes[node] = nodes.get(node, 0) + used.get(key, 0)
    print(f"\nmemory of {what}: {nodes} MiB, {sum(nodes.values())} in total", file=sys.stderr)
    for (space, name), size in sorted(used.items()):
        print(f"  {size:5} MiB {space}/{name}", file=sys.stderr)
