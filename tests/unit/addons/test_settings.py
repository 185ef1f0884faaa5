"""Settings of the add-ons that are refused, and secrets among their values."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pulumi
import pytest

from addons.installer import concealed
from config.errors import ConfigError
from config.load import load
from tests.unit.addons.install import install
from tests.unit.engine import MINIMAL


class TestSecretValues:
    RAW: ClassVar = {"cinderCsi": {"values": {"a": "hidden"}}, "kured": {"enabled": True}}
    CINDER = "demo-addons-openstack-cinder-csi"
    KURED = "demo-addons-kured"

    def test_a_chart_with_user_values_hides_them(self) -> None:
        run = install(self.RAW, with_secrets=True)
        assert (self.CINDER, "values") in run.secret_inputs
        assert run.chart_values("openstack-cinder-csi")["a"] == "hidden"
        assert run.transforms[self.CINDER] == 2

    def test_a_chart_without_user_values_stays_readable(self) -> None:
        run = install(self.RAW, with_secrets=True)
        assert (self.KURED, "values") not in run.secret_inputs
        assert run.transforms[self.KURED] == 0

    def test_without_secrets_every_chart_stays_readable(self) -> None:
        run = install(self.RAW)
        assert (self.CINDER, "values") not in run.secret_inputs
        assert run.transforms[self.CINDER] == 1

    def test_objects_of_such_a_chart_are_hidden_except_for_their_names(self) -> None:
        def hidden(kind: str, props: dict[str, Any]) -> set[str]:
            metadata = {"name": "n", "annotations": {"sum": "of a secret"}}
            props |= {"apiVersion": "v1", "kind": kind, "metadata": metadata}
            args = pulumi.ResourceTransformArgs(
                custom=True, type_="t", name="n", props=props, opts=pulumi.ResourceOptions()
            )
            result = concealed(args)
            if result is None:
                return set()
            assert isinstance(result, pulumi.ResourceTransformResult)
            got: Any = result.props
            assert (got["apiVersion"], got["kind"], got["metadata"]["name"]) == ("v1", kind, "n")
            assert isinstance(got["metadata"]["annotations"], pulumi.Output)
            return {key for key, value in got.items() if isinstance(value, pulumi.Output)}

        assert hidden("Deployment", {"spec": {}}) == {"spec"}
        assert hidden("ConfigMap", {"data": {}, "binaryData": {}}) == {"data", "binaryData"}
        # The provider conceals Secrets itself, and cannot read one that is concealed twice.
        assert hidden("Secret", {"data": {}}) == set()

    def test_the_chart_itself_is_not_treated_as_an_object(self) -> None:
        args = pulumi.ResourceTransformArgs(
            custom=False,
            type_="kubernetes:helm.sh/v4:Chart",
            name="n",
            props={"chart": "kured", "values": {}},
            opts=pulumi.ResourceOptions(),
        )
        assert concealed(args) is None


class TestSettings:
    @pytest.mark.parametrize(
        ("raw", "message"),
        [
            ({"chartRepository": "ftp://x"}, "must start with https://"),
            ({"chartRepository": "https://x", "chartDirectory": "y"}, "not both"),
            ({"imageRegistry": "https://r.example"}, "without https://"),
            ({"loadBalancer": "octavia", "cloudControllerManager": {"enabled": False}}, "octavia"),
            ({"snapshots": {"enabled": True}, "cinderCsi": {"enabled": False}}, "cinderCsi"),
            ({"cinderCsi": {"storageClasses": [{"name": "A"}]}}, "DNS label"),
            ({"cinderCsi": {"storageClasses": [{"name": "a"}, {"name": "a"}]}}, "twice"),
            (
                {
                    "cinderCsi": {
                        "storageClasses": [
                            {"name": "a", "default": True},
                            {"name": "b", "default": True},
                        ]
                    }
                },
                "only one",
            ),
            ({"ingress": {"controller": "nginx", "gatewayApi": True}}, "controller traefik"),
            ({"ingress": {"controller": "ingress-nginx"}}, "'traefik' or 'nginx'"),
            (
                {"snapshots": {"schedules": [{"name": "a", "schedule": "every night"}]}},
                "cron schedule of five fields",
            ),
            ({"snapshots": {"schedules": [{"name": "a" * 53, "schedule": "@daily"}]}}, "52"),
            (
                {"snapshots": {"schedules": [{"name": "a", "schedule": "@daily"}] * 2}},
                "names 'a' twice",
            ),
            ({"monitoring": {"storageSize": "20 GB"}}, "20Gi"),
            ({"logging": {"retention": "1 month"}}, "15d"),
            ({"kured": {"startTime": "24:00"}}, "time of day"),
            ({"kured": {"startTime": "3:30", "endTime": "4:29"}}, "an hour after startTime"),
            ({"kured": {"startTime": "23:00", "endTime": "3:00"}}, "on the same day"),
            ({"cni": {"kind": "calico"}}, "cilium"),
            ({"cinder": {}}, "did you mean addons.cinderCsi"),
        ],
    )
    def test_an_error_says_what_is_allowed(self, raw: Mapping[str, Any], message: str) -> None:
        with pytest.raises(ConfigError) as caught:
            load({**MINIMAL, "addons": raw}, "demo")
        assert message in str(caught.value)
        assert "addons" in str(caught.value)
