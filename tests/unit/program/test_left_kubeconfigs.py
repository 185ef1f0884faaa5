"""The copies of the program's kubeconfig that the Kubernetes provider leaves behind."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import pytest
import yaml

from components import left_kubeconfigs

SERVER = "https://203.0.113.7:6443"


def kubeconfig(user: str = "demo-openstack-kubernetes", server: str = SERVER) -> dict[str, object]:
    return {
        "apiVersion": "v1",
        "clusters": [{"cluster": {"server": server}, "name": "demo"}],
        "users": [{"name": user, "user": {"client-key-data": "c2VjcmV0"}}],
    }


def test_those_of_another_update_that_may_be_at_work_stay(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    now = time.time()
    for name, written in (("kubeconfig1", now - 600), ("kubeconfig2", now - 7 * 86400)):
        (tmp_path / name).write_text(yaml.safe_dump(kubeconfig()))
        os.utime(tmp_path / name, (written, written))
    monkeypatch.setattr(left_kubeconfigs, "_BEGUN", now - 60)
    left_kubeconfigs.remove(json.dumps(kubeconfig()))
    assert [path.name for path in tmp_path.iterdir()] == ["kubeconfig1"]


def test_only_the_copies_of_this_clusters_kubeconfig_are_removed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    copies = {
        "kubeconfig1": kubeconfig(),
        "kubeconfig2": kubeconfig(),
        "kubeconfig-of-mine": kubeconfig(user="demo-admin"),
        "kubeconfig3": kubeconfig(server="https://203.0.113.8:6443"),
        "other": kubeconfig(),
    }
    for name, content in copies.items():
        # As the provider writes it.
        (tmp_path / name).write_text(yaml.safe_dump(content))
    (tmp_path / "kubeconfig4").mkdir()
    (tmp_path / "kubeconfig5").write_bytes(b"\xff\x00")
    left_kubeconfigs.remove(json.dumps(kubeconfig()))
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "kubeconfig-of-mine", "kubeconfig3", "kubeconfig4", "kubeconfig5", "other",
    ]  # fmt: skip
