"""The CronJobs that take snapshots of volumes."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any, ClassVar

from addons.programs import take_snapshots
from tests.unit.addons.install import CHART, AddonsRun, install


class TestSnapshotSchedules:
    RAW: ClassVar[Mapping[str, Any]] = {
        "snapshots": {
            "enabled": True,
            "schedules": [
                {"name": "nightly", "schedule": "30 2 * * *", "selector": {"tier": "data"}},
                {"name": "weekly", "schedule": "@weekly", "keep": 3, "namespaces": ["shop"]},
            ],
        }
    }

    @staticmethod
    def container(run: AddonsRun, name: str) -> dict[str, Any]:
        spec = run.one(":CronJob", f"demo-addons-snapshots-{name}").inputs["spec"]
        pod = spec["jobTemplate"]["spec"]["template"]["spec"]
        container: dict[str, Any] = pod["containers"][0]
        return container

    def environment(self, run: AddonsRun, name: str) -> dict[str, Any]:
        variables = self.container(run, name)["env"]
        return {each["name"]: each.get("value") for each in variables}

    def test_without_a_schedule_there_is_no_cron_job(self, everything: AddonsRun) -> None:
        assert not [name for name in everything.all(":CronJob") if "snapshots" in name]

    def test_each_schedule_has_a_cron_job_with_its_settings(self) -> None:
        run = install(self.RAW)
        jobs = run.all(":CronJob").values()
        assert {each.inputs["spec"]["schedule"] for each in jobs} == {"30 2 * * *", "@weekly"}
        nightly, weekly = (self.environment(run, name) for name in ("nightly", "weekly"))
        assert (nightly["KEEP"], nightly["SELECTOR"]) == ("7", "tier=data")
        assert (weekly["KEEP"], weekly["NAMESPACES"]) == ("3", "shop")
        assert all(
            each.inputs["spec"]["jobTemplate"]["spec"]["ttlSecondsAfterFinished"] == 259200
            for each in jobs
        )
        chart_ = run.one(CHART, "demo-addons-snapshot-controller")
        assert all(run.waits_for(each, chart_) for each in jobs)

    def test_the_program_understands_its_environment(self) -> None:
        run = install(self.RAW)
        given = {**self.environment(run, "nightly"), "JOB": "nightly-1"}
        assert take_snapshots.Plan.of(given).schedule == "nightly"

    def test_the_program_cannot_read_data(self) -> None:
        run = install(self.RAW)
        role = run.one(":ClusterRole", "demo-addons-take-snapshots")
        verbs = {rule["resources"][0]: set(rule["verbs"]) for rule in role.inputs["rules"]}
        assert verbs == {
            "persistentvolumeclaims": {"list"},
            "persistentvolumes": {"list"},
            "volumesnapshots": {"get", "list", "create", "delete"},
        }
        context = self.container(run, "nightly")["securityContext"]
        assert context["readOnlyRootFilesystem"] is True

    def test_the_image_is_pinned(self) -> None:
        image = self.container(install(self.RAW), "weekly")["image"]
        assert re.search(r"/python:\d+\.\d+\.\d+-", image)

    def test_the_alert_covers_the_cron_jobs(self) -> None:
        run = install({**self.RAW, "monitoring": {"enabled": True}})
        [rule] = [e for e in run.resources.values() if e.type.endswith(":PrometheusRule")]
        text = json.dumps(rule.inputs["spec"])
        assert "nightly|weekly" in text
