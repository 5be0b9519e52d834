"""Proxies and certificates from the environment."""

import asyncio
import base64
import shutil
import ssl
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
from tests.endpoint_parts import HELLO, ask_once, azure_ml, serving
from tests.fault_server import FaultServer, answer
from tests.tables import cases

from tunecheck import ConfigurationError, EndpointError
from tunecheck.endpoints import Redactor
from tunecheck.endpoints._transport import HttpTransport, proxy_for

_VARIABLES = ("http_proxy", "https_proxy", "all_proxy", "no_proxy", "SSL_CERT_FILE", "SSL_CERT_DIR",
              "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE", "NETRC")  # fmt: skip


@pytest.fixture(autouse=True)
def no_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in _VARIABLES:
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.fixture(scope="session")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A self-signed certificate for localhost and its key."""
    return self_signed(tmp_path_factory.mktemp("tls"), "DNS:localhost,IP:127.0.0.1,DNS:service.example")


def self_signed(folder: Path, hosts: str) -> tuple[Path, Path]:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("there is no openssl to make a certificate with")
    certificate, key = folder / "cert.pem", folder / "key.pem"
    names = f"subjectAltName={hosts}"
    command = [openssl, "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj", "/CN=localhost",
               "-addext", names, "-keyout", str(key), "-out", str(certificate)]  # fmt: skip
    subprocess.run(command, check=True, capture_output=True)
    return certificate, key


def server_context(certificate: tuple[Path, Path]) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(*certificate)
    return context


class TestCertificates:
    async def test_an_unknown_authority_is_refused_at_once_with_what_to_do(
        self, certificate: tuple[Path, Path]
    ) -> None:
        with (
            FaultServer(lambda *_: answer("ok"), tls=server_context(certificate)) as server,
            pytest.raises(EndpointError, match=r"self-signed certificate .*SSL_CERT_FILE") as caught,
        ):
            await ask_once(azure_ml(server.url))
        assert "attempts" not in str(caught.value)
        assert server.requests == []

    async def test_a_certificate_of_another_host_is_no_reason_to_trust_more_certificates(
        self, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        others = self_signed(tmp_path, "DNS:other.example")
        monkeypatch.setenv("SSL_CERT_FILE", str(others[0]))
        with FaultServer(lambda *_: answer("ok"), tls=server_context(others)) as server:
            with pytest.raises(EndpointError, match=r"certificate is not valid for '127\.0\.0\.1'") as caught:
                await ask_once(azure_ml(server.url))
            assert "SSL_CERT_FILE" not in str(caught.value)
            assert server.requests == []

    @pytest.mark.parametrize("variable", ["SSL_CERT_FILE", "REQUESTS_CA_BUNDLE", "CURL_CA_BUNDLE"])
    async def test_the_environment_names_the_certificates_to_trust(
        self, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch, variable: str
    ) -> None:
        monkeypatch.setenv(variable, str(certificate[0]))
        with FaultServer(lambda *_: answer("ok"), tls=server_context(certificate)) as server:
            assert (await ask_once(azure_ml(server.url))).text == "ok"

    async def test_a_variable_that_names_nothing_is_a_configuration_error(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
        with pytest.raises(ConfigurationError, match=r"SSL_CERT_FILE=.* has no readable certificates"):
            await ask_once(azure_ml("https://127.0.0.1:1/score"))


class _TunnelProxy:
    """An http proxy that connects every CONNECT to one port of this machine, and notes what it was asked."""

    def __init__(self, port: int, refuse: bool = False) -> None:
        self._port = port
        self._refuse = refuse
        self.heads: list[str] = []
        self.url = ""

    async def start(self) -> asyncio.Server:
        server = await asyncio.start_server(self._serve, "127.0.0.1", 0)
        self.url = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.heads.append((await reader.readuntil(b"\r\n\r\n")).decode())
        if self._refuse:
            writer.write(b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n")
            writer.close()
            return
        to_reader, to_writer = await asyncio.open_connection("127.0.0.1", self._port)
        writer.write(b"HTTP/1.1 200 OK\r\n\r\n")
        await asyncio.gather(_pump(reader, to_writer), _pump(to_reader, writer))


async def _pump(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    try:
        while data := await reader.read(1 << 16):
            writer.write(data)
            await writer.drain()
    except OSError:
        pass
    finally:
        writer.close()


class TestProxies:
    @pytest.fixture
    async def tls_server(self, certificate: tuple[Path, Path]) -> AsyncIterator[FaultServer]:
        with FaultServer(lambda *_: answer("ok"), tls=server_context(certificate)) as server:
            yield server

    async def test_https_goes_through_the_environments_proxy_with_its_credentials(
        self, tls_server: FaultServer, certificate: tuple[Path, Path], monkeypatch: pytest.MonkeyPatch
    ) -> None:
        proxy = _TunnelProxy(tls_server.port)
        server = await proxy.start()
        monkeypatch.setenv("https_proxy", f"http://me:p%40ss@{proxy.url}")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificate[0]))
        assert (await ask_once(azure_ml("https://service.example/score"))).text == "ok"
        server.close()
        assert proxy.heads[0].startswith("CONNECT service.example:443 ")
        assert "Proxy-Authorization: Basic bWU6cEBzcw==" in proxy.heads[0]  # me:p@ss
        assert "proxy-authorization" not in tls_server.requests[0].headers

    async def test_a_proxy_that_refuses_is_named_as_the_cause(self, monkeypatch: pytest.MonkeyPatch) -> None:
        proxy = _TunnelProxy(0, refuse=True)
        server = await proxy.start()
        monkeypatch.setenv("https_proxy", f"http://{proxy.url}")
        with pytest.raises(EndpointError, match="the proxy answered 407"):
            await ask_once(azure_ml("https://service.example/score", retries=0))
        server.close()

    async def test_loopback_never_goes_through_a_proxy(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("http_proxy", "http://127.0.0.1:1")
        monkeypatch.setenv("all_proxy", "http://127.0.0.1:1")
        async with serving(lambda *_: answer("ok")) as (endpoint, _):
            assert (await endpoint.complete(HELLO)).text == "ok"

    @cases("endpoints")
    def test_the_usual_variables_are_understood(
        self, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str], expected: str | None
    ) -> None:
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        proxy = proxy_for("https://service.example/score")
        assert (str(proxy.origin()) if proxy else None) == expected

    @pytest.mark.parametrize("address", ["socks5://p:1", "http://", "http://p:port"])
    def test_a_proxy_that_cannot_be_used_is_an_error_without_its_password(
        self, monkeypatch: pytest.MonkeyPatch, address: str
    ) -> None:
        monkeypatch.setenv("https_proxy", address.replace("//", "//me:hunter2@"))
        with pytest.raises(ConfigurationError, match="set https_proxy to") as caught:
            proxy_for("https://service.example/score")
        assert "hunter2" not in str(caught.value)

    async def test_a_proxys_credentials_are_masked(self, monkeypatch: pytest.MonkeyPatch) -> None:
        for credentials in ("me:hunter2secret", "hunter2secret"):
            monkeypatch.setenv("https_proxy", f"http://{credentials}@127.0.0.1:1")
            redactor = Redactor()
            await HttpTransport("https://service.example/", "who", redactor, 1, 1.0, 1_000).close()
            header = base64.b64encode(f"{credentials}{'' if ':' in credentials else ':'}".encode()).decode()
            masked = redactor.text(f"{credentials} {header}")
            assert "hunter2" not in masked
            assert header[:8] not in masked

    async def test_a_proxys_password_is_in_no_error(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setenv("https_proxy", "http://me:hunter2@127.0.0.1:1")
        with pytest.raises(EndpointError, match="cannot connect") as caught:
            await ask_once(azure_ml("https://service.example/score", retries=0))
        assert "hunter2" not in f"{caught.value!r}{caught.value.__context__!r}"


async def test_a_netrc_file_does_not_replace_the_key(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    netrc = tmp_path / "netrc"
    netrc.write_text("machine 127.0.0.1 login somebody password else\n")
    monkeypatch.setenv("NETRC", str(netrc))
    monkeypatch.setenv("TC_KEY", "sk-abcdefgh")
    async with serving(lambda *_: answer("ok"), auth={"type": "key", "value": "${env:TC_KEY}"}) as (endpoint, server):
        await endpoint.complete(HELLO)
    assert server.requests[0].headers["authorization"] == "Bearer sk-abcdefgh"
