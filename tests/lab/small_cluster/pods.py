"""Pods that several files start, and commands in them."""

from __future__ import annotations

from lab.cluster import Cluster

CLAIM = """
apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: data}
spec: {accessModes: [ReadWriteOnce], resources: {requests: {storage: 1Gi}}}
---
apiVersion: v1
kind: Pod
metadata: {name: writer, labels: {app: writer}}
spec:
  containers:
  - name: writer
    image: docker.io/lab/busybox:1
    imagePullPolicy: Never
    command: [sh, -c, "echo kept > /data/file; sleep 3600"]
    volumeMounts: [{name: data, mountPath: /data}]
  volumes: [{name: data, persistentVolumeClaim: {claimName: data}}]
"""


# A pod in its node's network, or in that of the pods.
SLEEPER = """
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {app}}}}}
spec:
  nodeName: {node}
  hostNetwork: {host_network}
  containers:
  - name: sleeper
    image: docker.io/lab/busybox:1
    imagePullPolicy: Never
    command: [sleep, "3600"]
"""


def execute(cluster: Cluster, pod: str, *command: str) -> str:
    """Run a command in a pod; returns its output, empty when it fails."""
    return cluster.kubectl("exec", pod, "--", *command, check=False).strip()


def metadata(cluster: Cluster, pod: str) -> str:
    """Answer of the cloud's metadata service to a pod; empty without one."""
    url = "http://169.254.169.254/openstack/latest/meta_data.json"
    return execute(cluster, pod, "wget", "-q", "-T", "5", "-O", "-", url)


def start_sleeper(cluster: Cluster, name: str, app: str, node: str, host_network: str) -> None:
    """Start a pod that does nothing by itself, on that node."""
    pod = SLEEPER.format(name=name, app=app, node=node, host_network=host_network)
    cluster.kubectl("apply", "-f", "-", stdin=pod)
