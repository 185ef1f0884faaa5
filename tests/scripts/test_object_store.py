"""The object store's buckets: the script that creates them, and what versitygw makes of its pod."""

from __future__ import annotations

import base64
import hashlib
import json
import os
import re
import shutil
import socket
import subprocess
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from lab.paths import BIN
from lab.until import until
from tests.scripts.conftest import USERDATA
from tests.unit.addons.install import AddonsRun, install
from tests.unit.programs import program

PROGRAMS = USERDATA.parent / "addons/programs"
SCRIPT = PROGRAMS / "create_buckets.sh"
STORE = "demo-addons-object-store"
CONTENT = "what is stored"
CONTENT_SUM = hashlib.sha256(CONTENT.encode()).hexdigest()
NO_BODY = hashlib.sha256().hexdigest()
BUILT = sorted(BIN.glob("object-store-*/versitygw"))

# A server that runs until it is ended, and an answer for each request, in order.
FAKE = """\
#!/bin/sh
here=${0%/*}
echo "$* $ADMIN_ENDPOINT_URL" >>"$here/calls"
if [ "$1" = posix ]; then
  echo $$ >"$here/pid"
  [ ! -e "$here/dies" ] || exit 1
  exec sleep 60
fi
while [ ! -s "$here/pid" ]; do :; done
read -r answer <"$here/answers"
sed -i 1d "$here/answers"
[ "$answer" != ok ] || exit 0
echo "$answer" >&2
exit 1
"""


class Fake:
    """A folder with a versitygw that answers as it is told."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        program(folder / "versitygw", FAKE)
        sleep = f'#!/bin/sh\n[ "$1" = 60 ] || exit 0\nexec {shutil.which("sleep")} 60\n'
        program(folder / "sleep", sleep)

    def run(self, *answers: str, buckets: Sequence[str]) -> subprocess.CompletedProcess[str]:
        (self.folder / "answers").write_text("".join(f"{each}\n" for each in answers))
        return subprocess.run(
            ["sh", SCRIPT, self.folder / "data", *buckets],
            env={
                "PATH": f"{self.folder}:{os.environ['PATH']}",
                "ROOT_ACCESS_KEY": "root",
                "ROOT_SECRET_KEY": "very-secret",
                "VGW_REGION": "us-east-1",
                "VGW_ADMIN_PORT": "127.0.0.1:7071",
            },
            capture_output=True, text=True, check=False, timeout=60,
        )  # fmt: skip

    def calls(self) -> list[str]:
        return (self.folder / "calls").read_text().splitlines()

    def server_runs(self) -> bool:
        return Path(f"/proc/{(self.folder / 'pid').read_text().strip()}").exists()


@pytest.fixture
def fake(tmp_path: Path) -> Fake:
    return Fake(tmp_path)


REFUSED = "Patch: dial tcp 127.0.0.1:7071: connect: connection refused"
OURS = "api error BucketAlreadyOwnedByYou: Your previous request succeeded"
THEIRS = "api error BucketAlreadyExists: The requested bucket name is not available"


def test_buckets_that_are_missing_are_created(fake: Fake) -> None:
    done = fake.run(REFUSED, REFUSED, "ok", OURS, buckets=["state", "etcd-a"])
    assert done.returncode == 0, done.stderr
    assert done.stdout == "created the bucket state\n"
    assert f"posix {fake.folder}/data " in fake.calls()
    request = "admin create-bucket --bucket etcd-a --owner etcd-a http://127.0.0.1:7071"
    assert fake.calls()[-1] == request
    assert not fake.server_runs()
    assert "very-secret" not in "".join(fake.calls())


@pytest.mark.parametrize("answer", [THEIRS, "api error InternalError: no attributes"])
def test_what_else_the_store_says_ends_the_script_with_the_reason(fake: Fake, answer: str) -> None:
    done = fake.run("ok", answer, buckets=["state", "etcd-a"])
    assert done.returncode != 0
    assert f"the bucket etcd-a cannot be created: {answer}" in done.stderr
    assert not fake.server_runs()


def test_a_store_that_never_answers_is_given_up(fake: Fake) -> None:
    done = fake.run(*[REFUSED] * 60, buckets=["state"])
    assert done.returncode != 0
    assert "cannot be created" in done.stderr


def test_a_store_that_ends_is_not_waited_for(fake: Fake) -> None:
    (fake.folder / "dies").touch()
    done = fake.run(*[REFUSED] * 60, buckets=["state"])
    assert done.returncode != 0
    assert len(fake.calls()) < 10


def prune(folder: Path) -> None:
    """Let the script that prunes the history of stacks do so once, and end it as a pod ends."""
    process = subprocess.Popen(["sh", PROGRAMS / "prune_history.sh", folder])
    children = Path(f"/proc/{process.pid}/task/{process.pid}/children")
    # It has done its work when it sleeps.
    until(lambda: _is_sleep(children.read_text().split()), "the end of the work", 30)
    process.terminate()
    assert process.wait(timeout=5) == 0


def _is_sleep(pids: Sequence[str]) -> bool:
    return any(Path(f"/proc/{pid}/comm").read_text() == "sleep\n" for pid in pids)


def history(stack: str, updates: int) -> list[str]:
    """Names of the files in the history of a stack, oldest first."""
    first = 1764200000000000000
    return [
        f".pulumi/history/openstack-kubernetes/{stack}/{stack}-{first + number}.{kind}.json"
        for number in range(updates)
        for kind in ("checkpoint", "history")
    ]


def test_of_the_history_of_each_stack_the_newest_updates_are_kept(tmp_path: Path) -> None:
    backups = [
        f".pulumi/backups/openstack-kubernetes/shop/shop.{1764200000000000000 + number}.json"
        for number in range(103)
    ]
    shop, test = history("shop", 52), history("test", 50)
    others = [".pulumi/stacks/openstack-kubernetes/shop.json", ".pulumi/meta.yaml"]
    for name in (*backups, *shop, *test, *others):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).touch()
    prune(tmp_path)
    left = {str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*") if path.is_file()}
    assert left == {*backups[3:], *shop[4:], *test, *others}


def test_a_bucket_without_stacks_is_left_alone(tmp_path: Path) -> None:
    prune(tmp_path)
    assert list(tmp_path.iterdir()) == []


def free_port() -> int:
    with socket.socket() as bound:
        bound.bind(("127.0.0.1", 0))
        port: int = bound.getsockname()[1]
        return port


class Pod:
    """The pod that an update creates, its containers as processes on this machine."""

    def __init__(self, made: AddonsRun, folder: Path, program: Path) -> None:
        spec = made.one("v1:Deployment", STORE).inputs["spec"]
        self._spec: Mapping[str, Any] = spec["template"]["spec"]
        self._made = made
        self._folder = folder
        self._path = f"{program.parent}:{os.environ['PATH']}"
        self._server: subprocess.Popen[bytes] | None = None
        # Others may test the same at the same time.
        self._ports = {":7070": f":{free_port()}", ":7071": f":{free_port()}"}
        self._endpoint = f"https://127.0.0.1{self._ports[':7070']}"
        self.certificate = folder / "certificate/tls.crt"
        for volume in self._spec["volumes"]:
            (folder / volume["name"]).mkdir(exist_ok=True)
        (folder / "content").write_text(CONTENT)
        self._write("users", "Secret", f"{STORE}-users")
        self._write("scripts", "ConfigMap", STORE)
        subprocess.run(
            ["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
             "-nodes", "-subj", "/CN=store", "-addext", "subjectAltName=IP:127.0.0.1",
             "-keyout", self.certificate.with_name("tls.key"), "-out", self.certificate],
            capture_output=True, check=True,
        )  # fmt: skip

    def _write(self, volume: str, kind: str, name: str) -> None:
        for path, text in self._made.one(f"v1:{kind}", name).inputs["data"].items():
            content = base64.b64decode(text) if kind == "Secret" else text.encode()
            (self._folder / volume / path).write_bytes(content)

    def _command(self, container: Mapping[str, Any]) -> tuple[list[str], dict[str, str]]:
        places = {
            mount["mountPath"]: str(self._folder / mount["name"])
            for mount in container["volumeMounts"]
        }

        def here(text: str) -> str:
            for place, folder in places.items():
                if text.startswith(place):
                    return folder + text.removeprefix(place)
            address, colon, port = text.partition(":")
            return address + self._ports.get(f"{colon}{port}", f"{colon}{port}")

        environment = {"PATH": self._path}
        for each in container["env"]:
            name = each["name"]
            if "value" in each:
                environment[name] = here(each["value"])
            else:
                reference = each["valueFrom"]["secretKeyRef"]
                secret = f"demo-addons-{reference['name']}"
                environment[name] = self._made.file(secret, reference["key"])
        return [here(each) for each in container["command"]], environment

    def start(self) -> None:
        (first,) = self._spec["initContainers"]
        command, environment = self._command(first)
        done = subprocess.run(
            command, env=environment, capture_output=True, text=True, check=False, timeout=60
        )
        assert done.returncode == 0, done.stderr
        server, _ = self._spec["containers"]
        command, environment = self._command(server)
        with (self._folder / "log").open("a") as log:
            self._server = subprocess.Popen(command, env=environment, stdout=log, stderr=log)
        health = f"{self._endpoint}{server['readinessProbe']['httpGet']['path']}"
        ask = ["curl", "-sf", "--noproxy", "*", "--cacert", str(self.certificate), health]
        until(lambda: not subprocess.run(ask, check=False).returncode, "the store", 30)

    def bucket(self, name: str) -> Path:
        """The folder of a bucket."""
        return self._folder / "data/buckets" / name

    def kill(self) -> None:
        if self._server is not None:
            self._server.kill()
            self._server.wait()

    def ask(self, user: str, path: str, *options: str, secret: str | None = None) -> str:
        """Send a signed request, as the scripts of backups do; returns status and answer."""
        accounts = json.loads(self._made.file(f"{STORE}-users", "users.json"))["accessAccounts"]
        secret = secret or accounts[user]["secret"]
        return self._curl(user, secret, path, *options)

    def ask_as_root(self, path: str, *options: str) -> str:
        return self._curl("root", self._made.file(f"{STORE}-root", "secret"), path, *options)

    def _curl(self, user: str, secret: str, path: str, *options: str) -> str:
        return subprocess.run(
            ["curl", "-s", "--noproxy", "*", "--cacert", str(self.certificate),
             "--aws-sigv4", "aws:amz:us-east-1:s3", "--user", f"{user}:{secret}",
             "--header", f"x-amz-content-sha256: {CONTENT_SUM if options == PUT else NO_BODY}",
             "--write-out", "%{http_code}", f"{self._endpoint}{path}", *options],
            cwd=self._folder, capture_output=True, text=True, check=True,
        ).stdout  # fmt: skip


# A file: what curl reads from a pipe has no length, which S3 asks for.
PUT = ("--upload-file", "content")


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Callable[..., Pod]]:
    """Starts the store, again after another time: what it stores is kept."""
    program = shutil.which("versitygw") or next(map(str, BUILT), None)
    if program is None:
        pytest.skip("there is no versitygw here: tests/lab/test_backup.py builds it")
    folder = tmp_path_factory.mktemp("store")
    running: list[Pod] = []

    def start(*clusters: str) -> Pod:
        for each in running:
            each.kill()
        made = install({"objectStore": {"enabled": True, "clusters": [*clusters]}})
        pod = Pod(made, folder, Path(program))
        running.append(pod)
        pod.start()
        return pod

    yield start
    for each in running:
        each.kill()


class TestVersitygw:
    def test_each_user_has_its_own_bucket_and_sees_no_other(
        self, store: Callable[..., Pod]
    ) -> None:
        pod = store("a", "b")
        for user in ("pulumi-state", "etcd-a", "etcd-b"):
            assert pod.ask(user, f"/{user}/folder/object", *PUT).endswith("200")
            assert pod.ask(user, f"/{user}/folder/object") == f"{CONTENT}200"
            listed = pod.ask(user, "/")
            assert f"<Name>{user}</Name>" in listed
            assert listed.count("<Name>") == 1
        for path in ("/etcd-b/folder/object", "/etcd-b?list-type=2", "/pulumi-state?list-type=2"):
            assert "<Code>AccessDenied</Code>" in pod.ask("etcd-a", path)
        assert "AccessDenied" in pod.ask("etcd-a", "/etcd-b/folder/another", *PUT)
        assert "AccessDenied" in pod.ask("etcd-a", "/etcd-b/folder/object", "-X", "DELETE")
        assert pod.ask("etcd-b", "/etcd-b/folder/object") == f"{CONTENT}200"

    def test_no_one_makes_buckets_or_guesses_keys(self, store: Callable[..., Pod]) -> None:
        pod = store("a", "b")
        assert "AccessDenied" in pod.ask("etcd-a", "/etcd-c", "-X", "PUT")
        assert "SignatureDoesNotMatch" in pod.ask("etcd-a", "/etcd-a?list-type=2", secret="wrong")
        assert "InvalidAccessKeyId" in pod.ask("etcd-c", "/etcd-c?list-type=2", secret="none")

    def test_users_are_not_administered_where_others_are_served(
        self, store: Callable[..., Pod]
    ) -> None:
        pod = store("a", "b")
        assert "<Name>etcd-a</Name>" in pod.ask_as_root("/")
        answer = pod.ask_as_root("/list-users", "-X", "PATCH")
        assert "etcd-a" not in answer
        assert not answer.endswith("200")

    def test_what_is_pruned_is_gone_for_its_user(self, store: Callable[..., Pod]) -> None:
        pod = store("a")
        for name in history("shop", 52):
            assert pod.ask("pulumi-state", f"/pulumi-state/{name}", *PUT).endswith("200")
        prune(pod.bucket("pulumi-state"))
        listed = pod.ask("pulumi-state", "/pulumi-state?list-type=2")
        assert re.findall("<Key>([^<]*/history/[^<]*)</Key>", listed) == history("shop", 52)[4:]
        assert pod.ask("pulumi-state", f"/pulumi-state/{history('shop', 52)[0]}").endswith("404")

    def test_a_killed_store_comes_back_with_its_objects_and_a_new_bucket(
        self, store: Callable[..., Pod]
    ) -> None:
        assert store("a").ask("etcd-a", "/etcd-a/kept", *PUT).endswith("200")
        pod = store("a", "c")
        assert pod.ask("etcd-a", "/etcd-a/kept") == f"{CONTENT}200"
        assert pod.ask("etcd-c", "/etcd-c/object", *PUT).endswith("200")
