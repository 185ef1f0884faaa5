"""Uses each installed add-on once."""

from __future__ import annotations

import base64
import ipaddress
import json
import os
import ssl
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest

from addons import headlamp, kured, logging, monitoring
from addons.ingress_exposure import NAMESPACE as INGRESS
from addons.monitoring import alerts
from config.federation import DASHBOARD
from lab.until import until
from tests.smoke.live import PATIENCE, Live, claim, direct, mounting, pod, service

PROMETHEUS = f"{monitoring.CHART.name}-prometheus"
ALERTMANAGER = f"{monitoring.CHART.name}-alertmanager"
LOGS = f"{logging.CHART.name}-server"
GRAFANA = f"{monitoring.CHART.name}-grafana"
# Prints the client that the web server sees.
WHO = "printf 'Content-Type: text/plain\\r\\n\\r\\n%s' \"$HTTP_X_FORWARDED_FOR\""
SERVE = f"""mkdir -p /tmp/www/cgi-bin
cat >/tmp/www/cgi-bin/who <<'END'
#!/bin/sh
{WHO}
END
chmod +x /tmp/www/cgi-bin/who
exec httpd -f -p 8080 -h /tmp/www"""


@dataclass(frozen=True)
class Grafana:
    """Grafana's API with this login."""

    url: str
    login: Mapping[str, str]

    def ask(self, path: str, body: object = None) -> Any:  # noqa: ANN401 - JSON
        """Return the answer; raise an HTTPError for a refusal."""
        headers = {"Content-Type": "application/json"}
        if self.login:
            pair = f"{self.login['admin-user']}:{self.login['admin-password']}"
            headers["Authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(f"{self.url}/{path}", data, headers)
        with direct().open(request, timeout=30) as answer:
            return json.load(answer)

    def has_data(self, panel: Mapping[str, Any]) -> bool:
        """True if one of the panel's queries finds a series in the panel's data source."""
        asked = {"queries": panel["targets"], "from": "now-15m", "to": "now"}
        results = self.ask("api/ds/query", asked)["results"].values()
        return any(
            column and column[0] is not None
            for result in results
            for frame in result.get("frames", [])
            for column in frame["data"]["values"][1:]
        )


class TestMonitoring:
    @pytest.fixture(autouse=True)
    def installed(self, live: Live) -> None:
        if not live.has("service", PROMETHEUS, monitoring.NAMESPACE):
            pytest.skip("monitoring is not installed")

    @staticmethod
    def ask(live: Live, path: str, **query: str) -> Any:  # noqa: ANN401
        text = live.service(monitoring.NAMESPACE, f"{PROMETHEUS}:9090", f"api/v1/{path}", **query)
        return json.loads(text)["data"]

    def test_prometheus_answers_a_query(self, live: Live) -> None:
        expected = len(live.get("nodes"))

        def nodes() -> bool:
            [answer] = self.ask(live, "query", query='count(up{job="kubelet"} == 1)')["result"]
            return int(answer["value"][1]) >= expected

        until(nodes, "a series for every kubelet", PATIENCE)

    def test_every_scrape_target_is_up(self, live: Live) -> None:
        def down() -> dict[str, str]:
            targets = self.ask(live, "targets", state="active")["activeTargets"]
            assert targets
            return {
                f"{each['scrapePool']} {each['scrapeUrl']}": each["lastError"]
                for each in targets
                if each["health"] != "up"
            }

        def all_up() -> bool:
            assert down() == {}
            return True

        until(all_up, "every target up", PATIENCE)

    def test_gateways_and_control_planes_are_scraped(self, live: Live) -> None:
        targets = self.ask(live, "targets", state="active")["activeTargets"]
        jobs = {each["labels"]["job"] for each in targets}
        assert jobs >= {"haproxy", "kube-etcd", "kube-scheduler", "kube-controller-manager"}

    def test_one_gateway_is_active(self, live: Live) -> None:
        alerts_ = 'ALERTS{alertname=~"GatewayNoneActive|GatewaySeveralActive"}'
        until(
            lambda: not self.ask(live, "query", query=alerts_)["result"],
            "no alert that no gateway or several are active",
            PATIENCE,
        )

    def test_our_alerts_are_evaluated(self, live: Live) -> None:
        def evaluated() -> bool:
            groups = self.ask(live, "rules")["groups"]
            ours = [each for each in groups if each["name"].startswith("openstack-kubernetes-")]
            rules = {rule["name"]: rule["health"] for each in ours for rule in each["rules"]}
            assert {"GatewayNoneActive", "EtcdNoLeader", "NodeNotReady"} <= set(rules)
            assert set(rules.values()) == {"ok"}, rules
            everywhere = {rule["name"] for each in groups for rule in each["rules"]}
            assert not everywhere & set(alerts.REPLACED_ALERTS)
            return True

        until(evaluated, "our alerts", PATIENCE)

    def test_etcd_has_a_backup_and_every_node_reports_its_metrics(self, live: Live) -> None:
        rules = self.ask(live, "rules")["groups"]
        if not any(rule["name"] == "EtcdBackupLate" for group in rules for rule in group["rules"]):
            pytest.skip("no backups of etcd are configured")
        # The first snapshot is taken three minutes after a control plane's first boot.
        until(
            lambda: self.ask(live, "query", query=alerts.BACKUP_METRIC)["result"],
            "a snapshot of etcd",
            420,
        )
        # The first day, the alert about the daily proof is pending.
        late = 'ALERTS{alertname=~"EtcdBackup.*",alertstate="firing"}'
        wrong = f"{late} or node_textfile_scrape_error == 1"
        until(
            lambda: not self.ask(live, "query", query=wrong)["result"],
            "no alert about backups, and no unreadable metrics",
            PATIENCE,
        )

    def test_no_certificate_of_a_control_plane_expires_unrenewed(self, live: Live) -> None:
        until(
            lambda: self.ask(live, "query", query=alerts.EXPIRY_METRIC)["result"],
            "the expiry of the control planes' certificates",
            300,
        )
        late = 'ALERTS{alertname="CertificateExpires"}'
        assert self.ask(live, "query", query=late)["result"] == []

    def test_none_of_its_programs_reads_secrets_of_other_namespaces(self, live: Live) -> None:
        for account in live.get("serviceaccounts", "-n", monitoring.NAMESPACE):
            name = account["metadata"]["name"]
            user = f"--as=system:serviceaccount:{monitoring.NAMESPACE}:{name}"
            for asked in (("list", "secrets"), ("create", "statefulsets")):
                said = live.kubectl("auth", "can-i", *asked, "-n", "kube-system", user, check=False)
                assert said.strip() == "no", f"{name} may {' '.join(asked)}"

    def test_pods_of_other_namespaces_do_not_reach_it(self, live: Live) -> None:
        if not live.get("networkpolicies", "-n", monitoring.NAMESPACE):
            pytest.skip("the namespace has no policy")
        url = f"http://{PROMETHEUS}.{monitoring.NAMESPACE}:9090/-/ready"
        live.apply(pod("stranger", "sh", "-c", "exec httpd -f -p 8080 -h /etc"))
        live.wait("pod/stranger")
        fetch = ("exec", "stranger", "--", "wget", "-q", "-T", "5", "-O", "-")
        assert live.kubectl(*fetch, "http://127.0.0.1:8080/hostname").strip() == "stranger"
        assert live.kubectl(*fetch, url, check=False) == ""
        live.kubectl("delete", "pod/stranger")

    def test_alertmanager_receives_the_alert_that_always_fires(self, live: Live) -> None:
        if not live.has("service", ALERTMANAGER, monitoring.NAMESPACE):
            pytest.skip("Alertmanager is not installed")

        def there() -> bool:
            asked = {"filter": 'alertname="Watchdog"'}
            text = live.service(
                monitoring.NAMESPACE, f"{ALERTMANAGER}:9093", "api/v2/alerts", **asked
            )
            return bool(json.loads(text))

        until(there, "Watchdog at Alertmanager", PATIENCE)


class TestGrafana:
    # Empty with one control plane, without volumes, without an ingress.
    MAY_BE_EMPTY: ClassVar[set[str]] = {
        "Round trip between members, p99",
        "Volume usage",
        "Ingress backends ready",
    }

    @pytest.fixture
    def grafana(self, live: Live) -> Iterator[Grafana]:
        if not live.has("service", GRAFANA, monitoring.NAMESPACE):
            pytest.skip("Grafana is not installed")
        with live.forwarded(monitoring.NAMESPACE, GRAFANA, 80) as url:
            yield Grafana(url, live.secret(monitoring.NAMESPACE, monitoring.GRAFANA_SECRET))

    def test_grafana_shows_nothing_without_a_login(self, grafana: Grafana) -> None:
        with pytest.raises(urllib.error.HTTPError, match="401"):
            Grafana(grafana.url, {}).ask("api/search")

    def test_each_panel_of_our_dashboards_has_data(self, live: Live, grafana: Grafana) -> None:
        wanted = {"Cluster", "Cluster: etcd", "Cluster: gateways"}
        # Its panels are empty until `commands.fleet monitoring` has added a cluster.
        fleet = {"Fleet"} if live.has("configmap", DASHBOARD, monitoring.NAMESPACE) else set()

        def there() -> bool:
            found = grafana.ask("api/search?tag=openstack-kubernetes")
            assert {each["title"] for each in found} == wanted | fleet
            return True

        # A sidecar loads them after Grafana has started.
        until(there, "the dashboards", PATIENCE)

        def all_have_data() -> bool:
            empty = [
                panel["title"]
                for each in grafana.ask("api/search?tag=openstack-kubernetes")
                if each["title"] in wanted
                for panel in grafana.ask(f"api/dashboards/uid/{each['uid']}")["dashboard"]["panels"]
                if not grafana.has_data(panel)
            ]
            assert set(empty) <= self.MAY_BE_EMPTY
            return True

        titles = [each["title"] for each in grafana.ask("api/search?type=dash-db")]
        # Grafana removes dashboards that share a title.
        assert len(titles) == len(set(titles)) > 3
        # Rates need five minutes of metrics at most.
        until(all_have_data, "data in each panel", 330)


class TestIngress:
    @pytest.fixture(autouse=True)
    def ingress_class(self, live: Live) -> str:
        """The class of the controller that this program has installed.

        Requests from here may not arrive at other controllers.
        """
        classes = [each["metadata"]["name"] for each in live.get("ingressclasses")]
        ours = [name for name in classes if name in ("traefik", "nginx")]
        if not ours or not live.get("services", "-n", INGRESS):
            there = f" (ingress classes: {', '.join(classes)})" if classes else ""
            pytest.skip(f"the ingress controller of this program is not installed{there}")
        return str(ours[0])

    @staticmethod
    def address(live: Live) -> str:
        for each in live.get("services", "-n", INGRESS):
            for point in each["status"].get("loadBalancer", {}).get("ingress", []):
                return str(point["ip"])
        return live.api_host()

    def test_an_ingress_passes_the_clients_address_on(self, live: Live, ingress_class: str) -> None:
        name = f"ingress.{live.namespace}.example.org"
        route = {
            "apiVersion": "networking.k8s.io/v1",
            "kind": "Ingress",
            "metadata": {"name": "who"},
            "spec": {
                "ingressClassName": ingress_class,
                "rules": [{"host": name, "http": {"paths": [self.path()]}}],
            },
        }
        self.check_the_clients_address(live, name, route)

    def test_gateway_api_passes_the_clients_address_on(self, live: Live) -> None:
        gateways = live.get("gateways.gateway.networking.k8s.io", "-n", INGRESS)
        if not gateways:
            pytest.skip("Gateway API is not served")
        name = f"gateway.{live.namespace}.example.org"
        parent = {"namespace": INGRESS, "name": gateways[0]["metadata"]["name"]}
        route = {
            "apiVersion": "gateway.networking.k8s.io/v1",
            "kind": "HTTPRoute",
            "metadata": {"name": "who"},
            "spec": {
                "parentRefs": [parent],
                "hostnames": [name],
                "rules": [{"backendRefs": [{"name": "who", "port": 80}]}],
            },
        }
        self.check_the_clients_address(live, name, route)

    def check_the_clients_address(self, live: Live, name: str, route: dict[str, Any]) -> None:
        """Ask for the host `name` until there is an answer, and check the address in it."""
        live.apply(pod("who", "sh", "-c", SERVE), service("who", 8080), route)
        live.wait("pod/who")
        seen: list[str] = []

        def asked() -> bool:
            request = urllib.request.Request(
                f"http://{self.address(live)}/cgi-bin/who", headers={"Host": name}
            )
            try:
                with direct().open(request, timeout=5) as answer:
                    seen[:] = [answer.read().decode().strip()]
            except urllib.error.HTTPError as error:
                error.close()
                return False
            return True

        until(asked, "an answer through the ingress", 90)
        [client] = seen
        if expected := os.environ.get("SMOKE_CLIENT_ADDRESS"):
            assert client == expected
        inside = {
            address["address"]
            for node in live.get("nodes")
            for address in node["status"]["addresses"]
        }
        pods = [node["spec"].get("podCIDR", "255.255.255.255/32") for node in live.get("nodes")]
        assert client not in inside
        assert not any(
            ipaddress.ip_address(client) in ipaddress.ip_network(network) for network in pods
        )

    @staticmethod
    def path() -> dict[str, Any]:
        backend = {"service": {"name": "who", "port": {"number": 80}}}
        return {"path": "/", "pathType": "Prefix", "backend": backend}


def test_a_snapshot_is_restored(live: Live) -> None:
    if not live.get("volumesnapshotclasses"):
        pytest.skip("snapshots are not installed")
    if live.default_storage_class() is None:
        pytest.skip("no StorageClass is the default one")
    write = "echo before >/data/file; sync; sleep 3600"
    live.apply(claim("origin"), mounting("origin", "origin", "sh", "-c", write))
    live.wait("pod/origin")
    live.apply(
        {
            "apiVersion": "snapshot.storage.k8s.io/v1",
            "kind": "VolumeSnapshot",
            "metadata": {"name": "taken"},
            "spec": {"source": {"persistentVolumeClaimName": "origin"}},
        }
    )
    live.wait("volumesnapshot/taken", "jsonpath={.status.readyToUse}=true")
    live.kubectl("exec", "origin", "--", "sh", "-c", "echo after >/data/file")
    source = {"apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "taken"}
    live.apply(
        claim("restored", dataSource=source), mounting("restored", "restored", "sleep", "3600")
    )
    live.wait("pod/restored")
    assert live.kubectl("exec", "restored", "--", "cat", "/data/file").strip() == "before"
    live.kubectl("delete", "pod/origin", "pod/restored", "pvc/origin", "pvc/restored")
    live.kubectl("delete", "volumesnapshot/taken")


class TestHeadlamp:
    @pytest.fixture(autouse=True)
    def installed(self, live: Live) -> None:
        if not live.has("service", headlamp.CHART.name, headlamp.NAMESPACE):
            pytest.skip("Headlamp is not installed")

    def test_without_a_login_it_shows_nothing_of_the_cluster(self, live: Live) -> None:
        with live.forwarded(headlamp.NAMESPACE, headlamp.CHART.name, 80) as url:
            with direct().open(url, timeout=10) as answer:
                assert "Headlamp" in answer.read().decode()
            with direct().open(f"{url}/config", timeout=10) as answer:
                [known] = json.load(answer)["clusters"]
            # Without a token it has no rights.
            path = f"clusters/{known['name']}/api/v1/namespaces/kube-system/secrets"
            with pytest.raises(urllib.error.HTTPError, match=r"401|403"):
                direct().open(f"{url}/{path}", timeout=10)

    def test_it_can_be_reached_by_its_host_name(self, live: Live) -> None:
        ingresses = live.get("ingresses", "-n", headlamp.NAMESPACE)
        if not ingresses:
            pytest.skip("Headlamp has no host name")
        [rule] = ingresses[0]["spec"]["rules"]
        # Any certificate will do: the host name may not resolve here.
        trusting = ssl._create_unverified_context()
        opener = direct(urllib.request.HTTPSHandler(context=trusting))
        request = urllib.request.Request(
            f"https://{TestIngress.address(live)}/", headers={"Host": rule["host"]}
        )

        def answered() -> bool:
            with opener.open(request, timeout=5) as answer:
                return "Headlamp" in answer.read().decode()

        until(answered, "its page by its host name", PATIENCE)


class TestLogging:
    @pytest.fixture(autouse=True)
    def installed(self, live: Live) -> None:
        if not live.has("service", LOGS, logging.NAMESPACE):
            pytest.skip("logging is not installed")

    @staticmethod
    def ask(live: Live, query: str) -> list[dict[str, Any]]:
        text = live.service(
            logging.NAMESPACE, f"{LOGS}:9428", "select/logsql/query", query=query, limit="100"
        )
        return [json.loads(line) for line in text.splitlines()]

    def test_a_pods_log_is_found(self, live: Live) -> None:
        words = f"a line of {live.namespace}"
        live.apply(pod("talker", "sh", "-c", f"echo {words}; sleep 3600"))
        live.wait("pod/talker")
        found: list[dict[str, Any]] = []

        def there() -> bool:
            found[:] = self.ask(live, f'"{words}" kubernetes.pod_name:talker')
            return bool(found)

        until(there, "the log of a pod", PATIENCE)
        [line] = found
        assert line["_msg"] == words
        assert line["kubernetes.namespace_name"] == live.namespace

    def test_every_nodes_journal_is_found(self, live: Live) -> None:
        nodes = {each["metadata"]["name"] for each in live.get("nodes")}

        def all_there() -> bool:
            counted = self.ask(live, "systemd_unit:kubelet.service | stats by (hostname) count()")
            # A machine's own name may be longer than its node's.
            hosts = {each["hostname"].partition(".")[0] for each in counted}
            assert nodes <= hosts, nodes - hosts
            return True

        until(all_there, "the journal of every node", PATIENCE)


def test_kured_runs_on_every_node_it_is_meant_for(live: Live) -> None:
    if not live.has("daemonset", kured.CHART.name, kured.NAMESPACE):
        pytest.skip("kured is not installed")
    status = json.loads(
        live.kubectl("get", "ds", kured.CHART.name, "-n", kured.NAMESPACE, "-o", "json")
    )["status"]
    if status["desiredNumberScheduled"] == 0:
        pytest.skip("kured is meant for no node here")
    assert status["numberReady"] == status["desiredNumberScheduled"]
