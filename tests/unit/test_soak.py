"""The parts of the soak test: what it takes for a lost write, and how it draws faults."""

from __future__ import annotations

import itertools
import json
import random
import re
import ssl
import subprocess
import threading
import time
from base64 import b64encode
from datetime import date
from pathlib import Path
from typing import Any

import httpx
import pytest
import yaml

from lab.cloud.secrets import Secrets
from lab.cloud.units import plan
from tests.lab import faults, history, register, soak_table, volume_writer
from tests.lab.history import MISSING, Operation
from tests.lab.soak_table import Happened, Soak
from tests.lab.volume_writer import Line
from tests.unit.http_servers import Silent, certificate, served


def operation(began: float, outcome: history.Outcome, value: int, client: int = 0) -> Operation:
    """An operation of a second."""
    return Operation(client=client, began=began, ended=began + 1, outcome=outcome, value=value)


def test_answers_in_order_violate_nothing() -> None:
    good = [
        operation(0, "read", 0),
        operation(2, "written", 1),
        operation(4, "unknown", 2),
        operation(6, "refused", 2, client=1),
        operation(8, "read", 2),
        operation(10, "written", 3),
        # At the same time: either may have been first.
        operation(12, "written", 4),
        operation(12.5, "read", 3, client=1),
    ]
    assert history.violations(good) == []


@pytest.mark.parametrize(
    ("then", "said"),
    [
        (operation(4, "read", 4), "client 0: 4 read at 4.0 s, after 5 was seen"),
        (operation(4, "written", 5, client=1), "5 was acknowledged 2 times"),
        (operation(4, "read", MISSING), "client 0: -1 read at 4.0 s, after 5 was seen"),
    ],
)
def test_a_lost_write_is_noticed(then: Operation, said: str) -> None:
    found = history.violations([operation(0, "read", 4), operation(2, "written", 5), then])
    assert said in found


def test_a_history_is_read_from_where_it_was_left(tmp_path: Path) -> None:
    file = tmp_path / "operations"
    first, second = operation(0, "read", 0), operation(2, "written", 1)
    file.write_text(first.line())
    offset = file.stat().st_size
    file.write_text(first.line() + second.line() + second.line()[:10])
    assert history.load(file) == [first, second]
    assert history.load(file, offset) == [second]
    assert history.written(history.load(file)) == [3]


def test_silence_is_that_of_pairs_which_touch_the_fault() -> None:
    times = [0.0, 10.0, 11.0, 15.0, 16.0, 36.0]
    assert history.silence(times, 10.5, 15.5) == 4
    assert history.silence(times, 5, 11) == 10
    assert history.silence([], 0, 1) == 0


class Api(Silent):
    """One ConfigMap, as the API server keeps it; some answers are lost, before or after."""

    protocol_version = "HTTP/1.1"
    # Every so many writes one is acknowledged and forgotten.
    forgets = 0
    lock = threading.Lock()
    number: int
    version: int
    asked: int
    dice: random.Random
    over: threading.Event

    @classmethod
    def begin(cls) -> None:
        """Forget what earlier tests have written."""
        cls.number, cls.version, cls.asked = 0, 1, 0
        cls.dice = random.Random(3)
        cls.over = threading.Event()

    def do_GET(self) -> None:  # noqa: N802
        with self.lock:
            self._answer(200, self._document())

    def do_PUT(self) -> None:  # noqa: N802
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        kind = type(self)
        with self.lock:
            kind.asked += 1
            if kind.asked == 200:
                self.over.set()
            luck = self.dice.random()
            if luck < 0.1:
                self.close_connection = True
                return
            if asked["metadata"]["resourceVersion"] != str(kind.version):
                self._answer(409, {})
                return
            before = kind.number, kind.version
            kind.number, kind.version = int(asked["data"]["number"]), kind.version + 1
            if luck < 0.2:
                self._answer(504, {})
            elif luck < 0.3:
                self.close_connection = True
            else:
                self._answer(200, self._document())
                if kind.forgets and kind.number % kind.forgets == 0:
                    kind.number, kind.version = before

    def _document(self) -> dict[str, Any]:
        version = {"resourceVersion": str(self.version)}
        return {"metadata": version, "data": {"number": str(self.number)}}

    def _answer(self, status: int, document: dict[str, Any]) -> None:
        content = json.dumps(document).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)


def counted(api: type[Api], folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Operation]:
    """The notes of two clients until they have asked for two hundred writes."""
    monkeypatch.setattr(register, "PAUSE", 0.001)
    api.begin()
    with served(api) as url:
        clients = [
            register.Client(n, lambda: httpx.Client(base_url=url, trust_env=False)) for n in (0, 1)
        ]
        register.count(clients, folder / "operations", api.over)
    return history.load(folder / "operations")


def test_clients_count_through_lost_answers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = counted(Api, tmp_path, monkeypatch)
    outcomes = {each.outcome for each in found}
    assert outcomes == {"read", "written", "refused", "unknown"}
    assert history.violations(found) == []
    assert len(history.written(found)) > 20
    assert max(each.value for each in found if each.outcome == "written") <= Api.number


def test_clients_notice_a_server_that_forgets(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Forgetful(Api):
        forgets = 10

    assert history.violations(counted(Forgetful, tmp_path, monkeypatch))


def test_the_same_seed_draws_the_same_faults() -> None:
    def first(seed: int) -> list[tuple[str, str, float]]:
        drawn = itertools.islice(faults.draw(seed), 60)
        return [(fault.kind, fault.where, fault.seconds) for fault in drawn]

    assert first(1) == first(1)
    assert first(1) != first(2)


def test_each_round_has_every_kind_of_fault_once() -> None:
    count = len(faults.KINDS)
    drawn = [fault.kind for fault in itertools.islice(faults.draw(7), 3 * count)]
    rounds = [drawn[start : start + count] for start in range(0, 3 * count, count)]
    assert len(set(rounds[0])) == count
    assert {frozenset(each) for each in rounds} == {frozenset(rounds[0])}
    assert rounds[0] != rounds[1]


def test_each_service_that_is_stopped_is_one_of_the_lab() -> None:
    assert set(faults.SERVICES) <= {unit.name for unit in plan(Secrets(), initialize=False)}


def test_a_writer_that_is_killed_continues_where_it_was(tmp_path: Path) -> None:
    pods = ["first", "second", "second"]
    acknowledged = []
    for pod in pods:
        environment = {"FOLDER": str(tmp_path), "WRITER": pod, "PATH": "/usr/bin:/bin"}
        with subprocess.Popen(["sh", "-c", volume_writer.SCRIPT], env=environment) as process:
            time.sleep(1.7)
            process.kill()
        acknowledged.append(int((tmp_path / "acknowledged").read_text()))
    lines = volume_writer.parse((tmp_path / "log").read_text())
    assert volume_writer.violations(lines, acknowledged) == []
    assert {line.writer for line in lines} == set(pods)
    assert acknowledged[0] < acknowledged[1] < acknowledged[2]


def test_the_pods_script_survives_yaml() -> None:
    [container] = yaml.safe_load(volume_writer.STATEFUL_SET)["spec"]["template"]["spec"][
        "containers"
    ]
    assert container["command"] == ["sh", "-c", volume_writer.SCRIPT]


LINES = [Line(1, 1.0, "a"), Line(2, 1.5, "a"), Line(3, 9.0, "b")]


@pytest.mark.parametrize(
    ("lines", "acknowledged", "said"),
    [
        (LINES, [2, 4], "4 was acknowledged, the file ends with 3"),
        (LINES, [3, 2], "2 was acknowledged after 3"),
        ([LINES[0], LINES[2]], [], "line 2 has the number 3"),
        ([*LINES, Line(4, 8.0, "b")], [], "line 4 is older than the one before it"),
        ([*LINES, Line(4, 9.5, "a")], [], "pods wrote by turns: a, b, a"),
    ],
)
def test_a_volume_that_loses_or_mixes_lines_is_noticed(
    lines: list[Line], acknowledged: list[int], said: str
) -> None:
    assert volume_writer.violations(LINES, [1, 3]) == []
    assert volume_writer.violations(lines, acknowledged) == [said]


def test_the_page_gets_the_run_in_the_place_of_the_last_one(tmp_path: Path) -> None:
    page = tmp_path / "soak.md"
    page.write_text(soak_table.PAGE.read_text())
    run = Soak(
        day=date(2026, 11, 23), seed=5, minutes=120, program="0.1.0", kubernetes="v1.36.3",
        faults=[
            Happened(kind="etcd paused", began=10, well=20),
            Happened(kind="etcd paused", began=30, well=50),
            Happened(kind="worker killed", began=60, well=90.5),
        ],
        api=[0, 9, 12, 29, 33.5, 55, 59, 61, 91], volume=[0, 5, 95],
    )  # fmt: skip
    for seed in (4, 5):
        soak_table.publish(Soak(**{**vars(run), "seed": seed}), page)
    text = page.read_text()
    assert "SEED=5" in text
    assert "SEED=4" not in text
    assert "None yet" not in text
    assert "| etcd paused | 2 | 21.5 s | 90.0 s | 20.0 s |" in text
    assert text.startswith("# The soak test\n")


def test_clients_log_in_with_the_certificate_of_the_kubeconfig(tmp_path: Path) -> None:
    server, client = certificate(tmp_path), certificate(tmp_path)
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=str(client))
    tls.load_cert_chain(server)
    tls.verify_mode = ssl.CERT_REQUIRED
    pem = {
        file: re.findall(r"-----BEGIN .*?-----END [^\n]*\n", file.read_text(), re.DOTALL)
        for file in (server, client)
    }

    def encoded(file: Path, part: int) -> str:
        return b64encode(pem[file][part].encode()).decode()

    Api.begin()
    with served(Api, tls) as url:
        known = {"server": url, "certificate-authority-data": encoded(server, 0)}
        user = {
            "client-certificate-data": encoded(client, 0),
            "client-key-data": encoded(client, 1),
        }
        kubeconfig = tmp_path / "kubeconfig"
        kubeconfig.write_text(
            yaml.safe_dump({"clusters": [{"cluster": known}], "users": [{"user": user}]})
        )
        connection = register.Client(0, register.connector(kubeconfig))
        assert connection.turn().outcome == "read"
        connection.close()
