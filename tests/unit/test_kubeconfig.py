"""The command for a kubeconfig of hours: the API that it asks signs for real."""

from __future__ import annotations

import ipaddress
import json
import os
import ssl
from base64 import b64decode, b64encode
from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any, ClassVar
from unittest.mock import MagicMock

import pytest
import yaml
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from commands import kubeconfig
from commands.kubeconfig import main
from commands.kubernetes_api import Administrator, KubeconfigError
from tests.unit import http_servers
from tests.unit.http_servers import Silent, served

PATH = "/apis/certificates.k8s.io/v1/certificatesigningrequests"
ADMINISTRATORS = "openstack-kubernetes:administrators-2"
PEM = serialization.Encoding.PEM


def pem_of(key: ec.EllipticCurvePrivateKey) -> str:
    form = serialization.PrivateFormat.PKCS8
    return key.private_bytes(PEM, form, serialization.NoEncryption()).decode()


def subject(user: str, groups: Sequence[str]) -> x509.Name:
    return x509.Name(
        [
            *(x509.NameAttribute(NameOID.ORGANIZATION_NAME, each) for each in groups),
            x509.NameAttribute(NameOID.COMMON_NAME, user),
        ]
    )


class Authority:
    """A CA that signs what it is given."""

    def __init__(self) -> None:
        self._key = ec.generate_private_key(ec.SECP256R1())
        self._name = subject("kubernetes", ())
        self.certificate = self.sign(self._name, self._key.public_key(), timedelta(days=1))

    def sign(
        self, name: x509.Name, key: ec.EllipticCurvePublicKey, life: timedelta, *, ca: bool = True
    ) -> str:
        now = datetime.now(UTC)
        address = x509.IPAddress(ipaddress.ip_address("127.0.0.1"))
        certificate = (
            x509.CertificateBuilder(issuer_name=self._name, subject_name=name)
            .public_key(key)
            .serial_number(x509.random_serial_number())
            .not_valid_before(now - timedelta(minutes=5))
            .not_valid_after(now + life)
            .add_extension(x509.SubjectAlternativeName([address]), critical=False)
            .add_extension(x509.BasicConstraints(ca=ca, path_length=None), critical=True)
            # Python insists on these from 3.13 on.
            .add_extension(x509.SubjectKeyIdentifier.from_public_key(key), critical=False)
            .add_extension(
                x509.AuthorityKeyIdentifier.from_issuer_public_key(self._key.public_key()),
                critical=False,
            )
            .add_extension(
                x509.KeyUsage(
                    digital_signature=True,
                    content_commitment=False,
                    key_encipherment=False,
                    data_encipherment=False,
                    key_agreement=False,
                    key_cert_sign=ca,
                    crl_sign=False,
                    encipher_only=False,
                    decipher_only=False,
                ),
                critical=True,
            )
            .sign(self._key, hashes.SHA256())
        )
        return certificate.public_bytes(PEM).decode()

    def issue(self, user: str, *groups: str) -> tuple[str, str]:
        """A certificate of an hour, and its key."""
        key = ec.generate_private_key(ec.SECP256R1())
        name = subject(user, groups)
        return self.sign(name, key.public_key(), timedelta(hours=1), ca=False), pem_of(key)


class Api(Silent):
    """The part of the Kubernetes API that signs; each caller is known by its certificate."""

    authority: ClassVar[Authority]
    requests: ClassVar[dict[str, dict[str, Any]]]
    # Who asked for what.
    asked: ClassVar[list[tuple[str, str]]]
    # What the signer does with an approved request.
    verdict: ClassVar[str]

    def do_POST(self) -> None:  # noqa: N802
        if self._refused():
            return
        request = self._body()
        assert request["metadata"].pop("generateName") == "kubeconfig-"
        request["metadata"]["name"] = "kubeconfig-x7k2p"
        request["status"] = {}
        self.requests["kubeconfig-x7k2p"] = request
        self._answer(201, request)

    def do_PUT(self) -> None:  # noqa: N802
        name = self.path.removeprefix(f"{PATH}/").removesuffix("/approval")
        request = self._body()
        assert [each["type"] for each in request["status"]["conditions"]] == ["Approved"]
        self.requests[name] = request
        self._answer(200, request)

    def do_GET(self) -> None:  # noqa: N802
        if self.path == "/whoami":
            user, groups = self._caller()
            self._answer(200, {"user": user, "groups": groups})
            return
        request = self.requests[self.path.removeprefix(f"{PATH}/")]
        self._answer(200, request)
        # For the next time: the signer works alongside.
        self._sign(request)

    def do_DELETE(self) -> None:  # noqa: N802
        del self.requests[self.path.removeprefix(f"{PATH}/")]
        self._answer(200, {})

    def _sign(self, request: dict[str, Any]) -> None:
        spec, status = request["spec"], request["status"]
        assert spec["signerName"] == "kubernetes.io/kube-apiserver-client"
        assert "client auth" in spec["usages"]
        if self.verdict != "sign":
            status["conditions"].append({"type": "Failed", "message": self.verdict})
            return
        asked = x509.load_pem_x509_csr(b64decode(spec["request"]))
        assert asked.is_signature_valid
        key = asked.public_key()
        assert isinstance(key, ec.EllipticCurvePublicKey)
        life = timedelta(seconds=spec["expirationSeconds"])
        certificate = self.authority.sign(asked.subject, key, life, ca=False)
        status["certificate"] = b64encode(certificate.encode()).decode()

    def _refused(self) -> bool:
        user, groups = self._caller()
        self.asked.append((user, self.path))
        if ADMINISTRATORS in groups:
            return False
        self._answer(403, {"message": f'User "{user}" cannot create this'})
        return True

    def _caller(self) -> tuple[str, list[str]]:
        assert isinstance(self.connection, ssl.SSLSocket)
        found: Any = self.connection.getpeercert()
        parts = [part for part_of in found["subject"] for part in part_of]
        groups = [value for key, value in parts if key == "organizationName"]
        return dict(parts)["commonName"], groups

    def _body(self) -> dict[str, Any]:
        body: dict[str, Any] = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        return body

    def _answer(self, status: int, body: dict[str, Any]) -> None:
        text = json.dumps(body).encode()
        self.send_response(status)
        self.send_header("Content-Length", str(len(text)))
        self.end_headers()
        self.wfile.write(text)


@pytest.fixture
def api(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[str]:
    for name, value in (("requests", {}), ("asked", []), ("verdict", "sign")):
        monkeypatch.setattr(Api, name, value, raising=False)
    authority = Authority()
    monkeypatch.setattr(Api, "authority", authority, raising=False)
    server = tmp_path / "server.pem"
    server.write_text("".join(authority.issue("kube-apiserver")))
    tls = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cadata=authority.certificate)
    tls.verify_mode = ssl.CERT_REQUIRED
    tls.load_cert_chain(server)
    with served(Api, tls) as url:
        yield url


def encoded(text: str) -> str:
    return b64encode(text.encode()).decode()


def kubeconfig_of(server: str, group: str = ADMINISTRATORS) -> dict[str, Any]:
    certificate, key = Api.authority.issue("administrator", group)
    other = {"name": "other", "context": {"cluster": "other", "user": "other"}}
    user = {"client-certificate-data": encoded(certificate), "client-key-data": encoded(key)}
    authority = encoded(Api.authority.certificate)
    return {
        "current-context": "demo",
        "contexts": [other, {"name": "demo", "context": {"cluster": "demo", "user": "admin"}}],
        "clusters": [
            {
                "name": "demo",
                "cluster": {"server": server, "certificate-authority-data": authority},
            }
        ],
        "users": [{"name": "admin", "user": user}],
    }


@pytest.fixture
def administrator(api: str, tmp_path: Path) -> Path:
    """The administrator's kubeconfig."""
    file = tmp_path / "kubeconfig"
    file.write_text(json.dumps(kubeconfig_of(api)))
    return file


def run(monkeypatch: pytest.MonkeyPatch, *arguments: str | Path) -> int:
    monkeypatch.setattr("sys.argv", ["kubeconfig", *map(str, arguments)])
    return main()


def whoami(text: str) -> dict[str, Any]:
    with Administrator.of(text).client() as client:
        found: dict[str, Any] = client.get("/whoami").json()
    return found


def test_the_kubeconfig_names_a_person_among_the_administrators_for_hours(
    administrator: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(monkeypatch, "--kubeconfig", administrator, "--hours", "3", "--user", "ada") == 0
    printed = capsys.readouterr()
    assert whoami(printed.out) == {"user": "ada", "groups": [ADMINISTRATORS]}
    made = Administrator.of(printed.out)
    ends = x509.load_pem_x509_certificate(made.certificate.encode()).not_valid_after_utc
    assert timedelta(hours=2.9) < ends - datetime.now(UTC) <= timedelta(hours=3)
    assert f"ada in {ADMINISTRATORS}, until {ends:%Y-%m-%d %H:%M} UTC" in printed.err
    assert yaml.safe_load(printed.out)["current-context"] == "demo"
    assert made.key not in administrator.read_text()
    # The request is not left behind.
    assert Api.asked == [("administrator", PATH)]
    assert not Api.requests


def test_another_kubeconfig_can_be_made_from_it(
    administrator: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    first, second = tmp_path / "first", tmp_path / "second"
    assert run(monkeypatch, "--kubeconfig", administrator, "--user", "ada", "--output", first) == 0
    assert run(monkeypatch, "--kubeconfig", first, "--user", "ben", "--output", second) == 0
    assert whoami(second.read_text()) == {"user": "ben", "groups": [ADMINISTRATORS]}
    assert Api.asked == [("administrator", PATH), ("ada", PATH)]


def test_by_default_it_is_made_for_the_login_name_from_the_output_of_the_stack(
    administrator: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    said: list[tuple[str, ...]] = []

    def pulumi(*arguments: str) -> str:
        said.append(arguments)
        return administrator.read_text()

    monkeypatch.setattr(kubeconfig, "pulumi", pulumi)
    monkeypatch.setenv("LOGNAME", "ada")
    assert run(monkeypatch, "--stack", "demo", "--group", "developers", "--group", "on-call") == 0
    assert said == [("stack", "output", "kubeconfig", "--show-secrets", "--stack", "demo")]
    made = whoami(capsys.readouterr().out)
    assert made == {"user": "ada", "groups": ["developers", "on-call"]}


def test_no_one_else_can_read_the_file(
    administrator: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    written = tmp_path / "mine"
    written.touch(mode=0o644)
    assert run(monkeypatch, "--kubeconfig", administrator, "--output", written) == 0
    assert written.stat().st_mode & 0o777 == 0o600
    assert whoami(written.read_text())


def test_a_device_is_not_replaced(
    administrator: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    linked, pipe = tmp_path / "stdout", tmp_path / "pipe"
    linked.symlink_to("/dev/null")
    os.mkfifo(pipe)
    for output in (linked, pipe, tmp_path, Path("/dev/stdout")):
        assert run(monkeypatch, "--kubeconfig", administrator, "--output", output) == 1
        printed = capsys.readouterr()
        assert f"--output = {output}: is no regular file; name one, or leave out" in printed.err
    assert linked.is_symlink()
    assert pipe.is_fifo()
    assert not Api.asked


def test_a_kubeconfig_of_another_cluster_is_not_replaced(
    administrator: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    tmp_path: Path,
) -> None:
    arguments = ("--kubeconfig", administrator, "--output", tmp_path / "config")
    assert run(monkeypatch, *arguments) == 0
    # One of this cluster is.
    assert run(monkeypatch, *arguments) == 0
    document = yaml.safe_load((tmp_path / "config").read_text())
    document["clusters"].append({"name": "shop", "cluster": {}})
    (tmp_path / "config").write_text(yaml.safe_dump(document))
    capsys.readouterr()
    before = len(Api.asked)
    assert run(monkeypatch, *arguments) == 1
    assert "config is the way into shop, too" in capsys.readouterr().err
    assert len(Api.asked) == before
    assert yaml.safe_load((tmp_path / "config").read_text()) == document


class TestErrors:
    @staticmethod
    def error(
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        *arguments: str | Path,
    ) -> str:
        """Return the message of a run that fails; no kubeconfig and no request are left behind."""
        assert run(monkeypatch, *arguments) == 1
        printed = capsys.readouterr()
        assert not printed.out
        assert not Api.requests
        return printed.err

    def test_a_file_that_is_no_text(
        self,
        api: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        file = tmp_path / "config"
        # As PowerShell redirects it.
        file.write_text(json.dumps(kubeconfig_of(api, ADMINISTRATORS)), encoding="utf-16")
        said = self.error(monkeypatch, capsys, "--kubeconfig", file)
        assert "use the output `kubeconfig` of the stack" in said

    def test_an_administrator_of_an_earlier_generation(
        self,
        api: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        leaked = tmp_path / "leaked"
        group = ADMINISTRATORS.replace("2", "1")
        leaked.write_text(json.dumps(kubeconfig_of(api, group)))
        said = self.error(monkeypatch, capsys, "--kubeconfig", leaked)
        assert 'refuses this administrator: User "administrator" cannot create this;' in said
        assert "`pulumi up` renews the output `kubeconfig`" in said

    def test_a_signer_that_refuses(
        self,
        administrator: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr(Api, "verdict", "not today")
        said = self.error(monkeypatch, capsys, "--kubeconfig", administrator)
        assert "the cluster does not sign this: not today" in said

    def test_a_signer_that_does_not_work(
        self,
        administrator: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        monkeypatch.setattr(Api, "_sign", lambda *_: None)
        monkeypatch.setattr(kubeconfig, "PATIENCE", 0)
        said = self.error(monkeypatch, capsys, "--kubeconfig", administrator)
        assert "logs -l component=kube-controller-manager" in said

    def test_an_api_that_does_not_answer(
        self,
        api: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        gone = tmp_path / "gone"
        gone.write_text(json.dumps(kubeconfig_of("https://127.0.0.1:1")))
        said = self.error(monkeypatch, capsys, "--kubeconfig", gone)
        assert "the Kubernetes API at https://127.0.0.1:1 does not answer" in said

    @pytest.mark.parametrize("text", ["", "{", "current-context: demo", "users: [1]", "hidden"])
    def test_a_file_that_is_no_administrators(
        self,
        api: str,
        tmp_path: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        text: str,
    ) -> None:
        file = tmp_path / "kubeconfig"
        file.write_text(text)
        said = self.error(monkeypatch, capsys, "--kubeconfig", file)
        assert "use the output `kubeconfig` of the stack" in said
        assert "hidden" not in said

    def test_a_name_that_no_certificate_can_hold(
        self,
        administrator: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        arguments = ("--kubeconfig", administrator, "--user", "a" * 65)
        assert "<= 64" in self.error(monkeypatch, capsys, *arguments)

    @pytest.mark.parametrize("error", [KeyError, OSError])
    def test_a_login_without_a_name(
        self,
        administrator: Path,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
        error: type[Exception],
    ) -> None:
        monkeypatch.setattr("getpass.getuser", MagicMock(side_effect=error))
        said = self.error(monkeypatch, capsys, "--kubeconfig", administrator)
        assert "set `--user`" in said

    def test_ctrl_c(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
    ) -> None:
        monkeypatch.setattr(kubeconfig, "pulumi", MagicMock(side_effect=KeyboardInterrupt))
        assert run(monkeypatch) == 130
        assert "it can be run again" in capsys.readouterr().err

    @pytest.mark.parametrize("hours", ["0", "8761", "soon"])
    def test_a_life_that_no_cluster_signs_for(
        self, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], hours: str
    ) -> None:
        with pytest.raises(SystemExit):
            run(monkeypatch, "--hours", hours)
        assert "--hours" in capsys.readouterr().err


@pytest.mark.parametrize(
    "wrong", [{"authority": "no PEM\n"}, {"certificate": "no PEM\n", "key": "no PEM\n"}]
)
def test_what_is_not_in_pem_is_an_error_that_names_the_output(
    tmp_path: Path, wrong: dict[str, Any]
) -> None:
    text = http_servers.kubeconfig("https://127.0.0.1:1", http_servers.certificate(tmp_path))
    administrator = replace(Administrator.of(text), **wrong)
    with pytest.raises(KubeconfigError, match="use the output `kubeconfig` of the stack"):
        administrator.client()
