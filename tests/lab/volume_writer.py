"""A pod that appends numbered lines to a file on a volume of Cinder."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from lab.cluster import Cluster, run
from lab.until import until
from tests.lab.traffic import repeated

POD = "volume-writer-0"
# A line has its number, the machine's uptime and the pod. It is acknowledged when it is on the
# disk: its number is then in another file. After an error the next container reads where it is.
SCRIPT = """\
set -eu
cd "$FOLDER"
touch log
number=$(tail -n 1 log | cut -d ' ' -f 1)
number=${number:-0}
while sleep 0.5; do
  number=$((number + 1))
  read -r uptime rest </proc/uptime
  echo "$number $uptime $WRITER" >>log
  sync -d log
  echo "$number" >next
  mv next acknowledged
done
"""
STATEFUL_SET = """
apiVersion: apps/v1
kind: StatefulSet
metadata: {{name: volume-writer}}
spec:
  serviceName: volume-writer
  selector: {{matchLabels: {{app: volume-writer}}}}
  template:
    metadata: {{labels: {{app: volume-writer}}}}
    spec:
      terminationGracePeriodSeconds: 2
      containers:
      - name: writer
        image: docker.io/lab/busybox:1
        imagePullPolicy: Never
        env:
        - {{name: FOLDER, value: /data}}
        - {{name: WRITER, valueFrom: {{fieldRef: {{fieldPath: metadata.uid}}}}}}
        command:
        - sh
        - -c
        - |
          {script}
        volumeMounts: [{{name: data, mountPath: /data}}]
  volumeClaimTemplates:
  - metadata: {{name: data}}
    spec: {{accessModes: [ReadWriteOnce], resources: {{requests: {{storage: 1Gi}}}}}}
""".format(script=SCRIPT.replace("\n", "\n          ").rstrip())


@dataclass(frozen=True)
class Line:
    """One line of the file."""

    number: int
    time: float
    writer: str


def parse(text: str) -> list[Line]:
    """The lines of the file."""
    fields = (line.split() for line in text.splitlines())
    return [Line(int(number), float(time), writer) for number, time, writer in fields]


def read(cluster: Cluster) -> list[Line]:
    """Read the file in the pod."""
    return parse(cluster.kubectl("exec", POD, "--", "cat", "/data/log"))


def move(cluster: Cluster) -> None:
    """Have the pod, and so its volume, go to another node."""
    place = ("get", "pod", POD, "--ignore-not-found", "-o", "jsonpath={.spec.nodeName}")
    node = cluster.kubectl(*place)
    cluster.kubectl("cordon", node)
    try:
        cluster.kubectl("delete", "pod", POD, "--wait=false")
        until(lambda: cluster.kubectl(*place) not in ("", node), f"a new {POD}", 120)
    finally:
        cluster.kubectl("uncordon", node)


@contextmanager
def writing(cluster: Cluster, acknowledged: list[int]) -> Iterator[None]:
    """Run the pod; adds the numbers that it has acknowledged, asked again and again."""
    cluster.kubectl("apply", "-f", "-", stdin=STATEFUL_SET)
    cluster.kubectl("rollout", "status", "statefulset/volume-writer", "--timeout=180s")
    # Without a limit of its own a request waits for a node that is gone.
    ask = ("timeout", "10", "kubectl", "exec", POD, "--", "cat", "/data/acknowledged")

    def look() -> None:
        said = run(*ask, check=False, KUBECONFIG=str(cluster.kubeconfig)).strip()
        if said.isdigit():
            acknowledged.append(int(said))

    with repeated(look, 3.0):
        yield


def violations(lines: Sequence[Line], acknowledged: Sequence[int]) -> list[str]:
    """Lines that are lost or written twice, numbers that go back, pods that wrote by turns."""
    found = []
    for place, line in enumerate(lines, start=1):
        if line.number != place:
            found.append(f"line {place} has the number {line.number}")
            break
    last = lines[-1].number if lines else 0
    highest = max(acknowledged, default=0)
    if highest > last:
        found.append(f"{highest} was acknowledged, the file ends with {last}")
    found += [
        f"{later} was acknowledged after {earlier}"
        for earlier, later in itertools.pairwise(acknowledged)
        if later < earlier
    ]
    found += [
        f"line {later.number} is older than the one before it"
        for earlier, later in itertools.pairwise(lines)
        if later.time < earlier.time
    ]
    writers = [writer for writer, _ in itertools.groupby(line.writer for line in lines)]
    if len(writers) != len(set(writers)):
        found.append(f"pods wrote by turns: {', '.join(writers)}")
    return found
