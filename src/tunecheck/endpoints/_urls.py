"""Which addresses may be called, and through which proxy."""

import base64
import ipaddress
import urllib.request
from dataclasses import dataclass
from urllib.parse import SplitResult, parse_qsl, unquote, urlsplit, urlunsplit

from tunecheck._errors import ConfigurationError
from tunecheck.endpoints._base import Place
from tunecheck.endpoints._masking import LEAST_ECHO, Redactor, Secret, environment, hides, is_secret_query

_PORTS = {"http": 80, "https": 443}


@dataclass(frozen=True, slots=True)
class Proxy:
    """A proxy's address without credentials, and these as the Proxy-Authorization header that carries them."""

    url: str
    authorization: Secret | None = None


def checked_url(
    text: str, place: Place, redactor: Redactor, *, allow_http: bool = False, sends_secrets: bool = True
) -> str:
    """The address of a service, checked: https, or http to this very machine; nothing secret inside.

    `allow_http` allows http to private networks, too, and to public hosts if `sends_secrets` is false.

    An error shows its text only without credentials.
    """
    secretive, text = hides(text), environment(text, place, redactor).strip()
    try:
        parts = urlsplit(text)
        host, _ = parts.hostname or "", parts.port
    except ValueError:
        raise place.error("is not an address that can be called") from None
    if parts.scheme not in _PORTS or not host or not text.isprintable() or " " in text:
        raise place.error("must be an address such as https://host/path")
    if parts.username is not None or parts.password is not None:
        raise place.error("holds credentials; write them as `auth: {type: key, value: ${env:NAME}}`")
    for name, _ in parse_qsl(parts.query, keep_blank_values=True):
        if is_secret_query(name):
            raise place.error(f"holds a secret, {name}=…; send it as a header: headers: {{…: ${{env:NAME}}}}")
    if parts.scheme == "http" and not is_loopback(host):
        private, said = (
            is_private(host),
            f"plain http goes to this machine only, not to {redactor.text(host)}: use https",
        )
        if not allow_http:
            raise place.error(f"{said}{', or add allow_http: true for a private network' if private else ''}")
        if sends_secrets and not private:
            raise place.error(f"allow_http sends no key to a public host, {redactor.text(host)}: use https")
    if secretive:  # a server sees, and may repeat, only these parts
        for part in (parts.path.strip("/"), parts.query):
            if len(part) >= LEAST_ECHO:
                redactor.add(Secret(part), in_answers=False)
    return urlunsplit(parts._replace(fragment=""))


_PRIVATE_ENDINGS = (".local", ".internal", ".lan", ".home.arpa", ".svc", ".cluster.local")


def is_private(host: str) -> bool:
    """Return True for addresses of private networks, and for names that only such networks know."""
    try:
        address = ipaddress.ip_address(host)
    except ValueError:
        return "." not in host or host.endswith(_PRIVATE_ENDINGS)
    return address.is_private and not address.is_unspecified


def is_loopback(host: str) -> bool:
    """Whether a host name or address is this very machine."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def proxy_for(url: str) -> Proxy | None:
    """The proxy that the environment names for this address (https_proxy, all_proxy, no_proxy); never for loopback."""
    target = urlsplit(url)
    host = target.hostname or ""
    if is_loopback(host) or urllib.request.proxy_bypass(f"{host}:{target.port or _PORTS[target.scheme]}"):
        return None
    known = urllib.request.getproxies()
    text = known.get(target.scheme) or known.get("all")
    if not text:
        return None
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        bare = _without_credentials(parts)
    except ValueError:
        parts, bare = SplitResult("", "", "", "", ""), ""
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ConfigurationError(
            f"the environment's proxy for {target.scheme} is not an http(s) address: set {target.scheme}_proxy to "
            "http://host:port, or no_proxy to leave it out"
        )
    if parts.username is None:
        return Proxy(bare)
    pair = f"{unquote(parts.username)}:{unquote(parts.password or '')}"
    return Proxy(bare, Secret("Basic " + base64.b64encode(pair.encode()).decode()))


def _without_credentials(parts: SplitResult) -> str:
    host = parts.hostname or ""
    netloc = f"[{host}]" if ":" in host else host
    return urlunsplit((parts.scheme, f"{netloc}:{parts.port}" if parts.port else netloc, "", "", ""))
