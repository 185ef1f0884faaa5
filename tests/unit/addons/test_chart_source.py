"""The sources of charts and images."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pulumi
import pytest
from pulumi.runtime.sync_await import _sync_await

import versions
from addons import chart
from addons.image_mirror import mirror_images, mirrored
from addons.installer import concealed
from components.addons import charts
from config.models.addons import AddonsSettings
from tests.unit.addons.install import CHART, EVERYTHING, AddonsRun, install
from tests.unit.http_servers import Silent, served


class TestImageRegistry:
    @pytest.mark.parametrize(
        ("image", "expected"),
        [
            ("quay.io/cilium/cilium:v1@sha256:0", "r.example:5000/m/cilium/cilium:v1@sha256:0"),
            ("registry.k8s.io/pause:3", "r.example:5000/m/pause:3"),
            ("traefik/traefik:v3", "r.example:5000/m/traefik/traefik:v3"),
            ("busybox", "r.example:5000/m/library/busybox"),
            ("docker.io/traefik:v3", "r.example:5000/m/library/traefik:v3"),
            ("localhost/a:1", "r.example:5000/m/a:1"),
            ("r.example:5000/m/a:1", "r.example:5000/m/a:1"),
        ],
    )
    def test_the_mirror_takes_the_place_of_the_registry_host(
        self, image: str, expected: str
    ) -> None:
        assert mirrored(image, "r.example:5000/m") == expected

    def test_every_image_of_every_pod_comes_from_the_mirror(self) -> None:
        pod = {"initContainers": [{"image": "a.io/x"}], "containers": [{"image": "b.io/y"}]}
        job = {"spec": {"jobTemplate": {"spec": {"template": {"spec": pod}}}}, "kind": "CronJob"}
        args = pulumi.ResourceTransformArgs(
            custom=True, type_="t", name="n", props=job, opts=pulumi.ResourceOptions()
        )
        result = mirror_images("m")(args)
        assert isinstance(result, pulumi.ResourceTransformResult)
        changed: Any = result.props
        found = changed["spec"]["jobTemplate"]["spec"]["template"]["spec"]
        assert found["initContainers"] == [{"image": "m/x"}]
        assert found["containers"] == [{"image": "m/y"}]
        assert (
            mirror_images("m")(
                pulumi.ResourceTransformArgs(
                    custom=True, type_="t", name="n", props={"data": {}}, opts=args.opts
                )
            )
            is None
        )

    def test_images_of_concealed_objects_come_from_the_mirror_too(self) -> None:
        # The engine runs a chart's own transforms first, then those of its parents.
        pod = {"containers": [{"image": "b.io/y"}]}
        args = pulumi.ResourceTransformArgs(
            custom=True, type_="t", name="n", opts=pulumi.ResourceOptions(),
            props={"kind": "Pod", "metadata": {"name": "n"}, "spec": pod},
        )  # fmt: skip
        hidden = concealed(args)
        assert isinstance(hidden, pulumi.ResourceTransformResult)
        args.props = hidden.props
        result = mirror_images("m")(args)
        assert isinstance(result, pulumi.ResourceTransformResult)
        changed: Any = result.props
        assert _sync_await(changed["spec"].future()) == {"containers": [{"image": "m/y"}]}
        assert _sync_await(changed["spec"].is_secret())

    def test_images_that_the_operator_starts_come_from_the_mirror_too(self) -> None:
        run = install({"imageRegistry": "r.example/m", "monitoring": {"enabled": True}})
        values = run.chart_values("kube-prometheus-stack")
        assert values["global"] == {"imageRegistry": "r.example/m"}
        run = install({"imageRegistry": "r.example/m", "operator": {"enabled": True}})
        values = run.chart_values("pulumi-kubernetes-operator")
        assert values["image"] == {"registry": "r.example/m"}


LISTED = b"""
entries:
  cilium: [{version: 0.0.1}, {version: v%s}]
  openstack-cinder-csi: [{version: %s+rebuilt}]
  metrics-server: [{version: 0.0.1}]
""" % (versions.CILIUM_CHART.encode(), versions.CINDER_CSI_CHART.encode())


class Repository(Silent):
    """A repository at /charts with a hidden index, one at /listed and one at /broken."""

    def do_HEAD(self) -> None:  # noqa: N802
        # A client that has read the index of /listed has nothing more to ask.
        there = self.path in (f"/{name}/index.yaml" for name in ("charts", "broken"))
        self.send_response(200 if there else 404)
        self.end_headers()

    def do_GET(self) -> None:  # noqa: N802
        self.send_response(401 if self.path.startswith("/charts/") else 200)
        self.end_headers()
        self.wfile.write(LISTED if self.path.startswith("/listed/") else b"entries: [")


@pytest.fixture
def repository() -> Iterator[str]:
    with served(Repository) as url:
        yield url


class TestChartSource:
    @staticmethod
    def settings(**source: object) -> AddonsSettings:
        return AddonsSettings.model_validate(source)

    def test_by_default_each_chart_comes_pinned_from_its_official_repository(
        self, everything: AddonsRun
    ) -> None:
        for each in everything.all(CHART).values():
            assert each.inputs["version"]
            official = each.inputs.get("repositoryOpts", {}).get("repo", each.inputs["chart"])
            assert official.startswith(("https://", "oci://"))

    def test_every_chart_that_is_installed_is_looked_up_before(
        self, default: AddonsRun, everything: AddonsRun
    ) -> None:
        for run, raw in ((default, {}), (everything, EVERYTHING)):
            found = {f"demo-addons-{each.name}" for each in charts(self.settings(**raw))}
            assert found == {*run.all(CHART)}

    def test_all_charts_can_come_from_a_mirror(self) -> None:
        run = install({"chartRepository": "https://charts.example.org/all/"})
        for each in run.all(CHART).values():
            assert each.inputs["repositoryOpts"] == {"repo": "https://charts.example.org/all"}

    def test_all_charts_can_come_from_a_registry(self) -> None:
        inputs = (
            install({"chartRepository": "oci://r.example/charts"})
            .one(CHART, "demo-addons-cilium")
            .inputs
        )
        assert inputs["chart"] == "oci://r.example/charts/cilium"
        assert inputs["version"]
        assert "repositoryOpts" not in inputs

    def test_all_charts_can_come_from_a_directory(self, tmp_path: Path) -> None:
        for each in charts(AddonsSettings()):
            (tmp_path / each.name).mkdir()
            (tmp_path / each.name / "Chart.yaml").touch()
        inputs = install({"chartDirectory": str(tmp_path)}).one(CHART, "demo-addons-cilium").inputs
        assert inputs["chart"] == str(tmp_path / "cilium")
        assert "version" not in inputs

    def test_charts_of_other_versions_in_the_directory_are_warned_about(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        for each in charts(AddonsSettings()):
            version = "1.0.0" if each.name == "cilium" else f"v{each.version}+mirrored"
            (tmp_path / each.name).mkdir()
            (tmp_path / each.name / "Chart.yaml").write_text(f"version: {version}\n")
        warnings: list[str] = []
        monkeypatch.setattr(pulumi.log, "warn", warnings.append)
        install({"chartDirectory": str(tmp_path)})
        [warning] = warnings
        assert "cilium is 1.0.0, and the program's values are for" in warning

    def test_charts_missing_from_the_directory_are_named_before_anything_is_created(
        self, tmp_path: Path
    ) -> None:
        (tmp_path / "cilium").mkdir()
        (tmp_path / "cilium" / "Chart.yaml").touch()
        with pytest.raises(chart.ChartError) as caught:
            install({"chartDirectory": str(tmp_path)})
        message = str(caught.value)
        assert "openstack-cinder-csi/Chart.yaml" in message
        assert "metrics-server/Chart.yaml" in message
        assert "/cilium/" not in message
        assert "addons.chartDirectory" in message

    def test_a_repository_that_answers_is_accepted(self, repository: str) -> None:
        good = self.settings(chartRepository=f"{repository}/charts")
        chart.check(charts(good), good, online=True)

    def test_charts_missing_from_a_mirror_are_named_with_their_version(
        self, repository: str
    ) -> None:
        some = self.settings(chartRepository=f"{repository}/listed")
        with pytest.raises(chart.ChartError) as caught:
            chart.check(charts(some), some, online=True)
        message = str(caught.value)
        assert f"/listed/index.yaml lists no metrics-server {versions.METRICS_SERVER_CHART}" in (
            message
        )
        assert message.count("lists no") == 1
        assert "disable these add-ons" in message

    def test_an_index_that_cannot_be_read_is_left_to_helm(self, repository: str) -> None:
        broken = self.settings(chartRepository=f"{repository}/broken")
        chart.check(charts(broken), broken, online=True)

    def test_a_repository_without_an_index_is_refused(self, repository: str) -> None:
        wrong = self.settings(chartRepository=f"{repository}/typo")
        with pytest.raises(chart.ChartError, match=r"typo/index.yaml does not exist"):
            chart.check(charts(wrong), wrong, online=True)

    def test_the_password_of_a_repository_is_in_no_message(self, repository: str) -> None:
        for path in ("listed", "typo"):
            url = f"{repository.replace('://', '://user:hidden@')}/{path}"
            mirror = self.settings(chartRepository=url)
            with pytest.raises(chart.ChartError) as caught:
                chart.check(charts(mirror), mirror, online=True)
            assert "user:***@" in str(caught.value)
            assert "hidden" not in str(caught.value)

    @pytest.mark.parametrize("scheme", ["http", "oci"])
    def test_a_repository_that_cannot_be_reached_is_one_clear_error(self, scheme: str) -> None:
        gone = self.settings(chartRepository=f"{scheme}://127.0.0.1:1/charts")
        with pytest.raises(chart.ChartError) as caught:
            chart.check(charts(gone), gone, online=True)
        message = str(caught.value)
        assert message.count("127.0.0.1:1/charts") == 1
        assert "cilium, openstack-cinder-csi, metrics-server" in message
        assert "correct addons.chartRepository, or set addons.chartDirectory" in message

    def test_repositories_are_asked_only_at_preview(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[bool] = []
        monkeypatch.setattr(chart, "check", lambda *_, online: asked.append(online))
        monkeypatch.setattr("components.addons.when_it_answers", lambda kubeconfig: kubeconfig)
        for preview in (True, False):
            for checks in (True, False):
                install(preview=preview, checks=checks)
        assert asked == [True, False, False, False]
