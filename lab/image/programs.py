"""Build the programs of a node from Go modules."""

from __future__ import annotations

from pathlib import Path

from lab import gobuild
from lab.image import versions

MODULES = Path(__file__).resolve().parent / "go"
# Lightest modules first would be tidier; this order has what a first cluster needs first.
KUBERNETES_PROGRAMS = (
    "kube-apiserver",
    "kube-controller-manager",
    "kube-proxy",
    "kube-scheduler",
    "kubeadm",
    "kubectl",
    "kubelet",
)


def kubernetes(version: str) -> Path:
    """kube-apiserver to kubelet of one release; they answer --version as the released ones do."""
    major, minor, _ = version.removeprefix("v").split(".")
    values = {
        "gitVersion": version,
        "gitMajor": major,
        "gitMinor": minor,
        "gitTreeState": "clean",
    }
    return gobuild.build(
        f"kubernetes-{version}",
        MODULES / f"kubernetes-{major}.{minor}",
        {program: f"k8s.io/kubernetes/cmd/{program}" for program in KUBERNETES_PROGRAMS},
        ldflags=[
            f"-X {package}.{name}={value}"
            for package in ("k8s.io/component-base/version", "k8s.io/client-go/pkg/version")
            for name, value in values.items()
        ],
    )


def all_programs() -> None:
    """Build everything that is missing, what a first cluster needs first."""
    kubernetes(versions.KUBERNETES)
