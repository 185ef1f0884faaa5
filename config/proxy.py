"""The HTTP proxy that the environment names for a URL."""

import urllib.request
from urllib.parse import urlsplit


def proxy_for(url: str) -> str | None:
    """Return the URL of the proxy, or None if the server is to be asked directly.

    httpx itself refuses some common entries of NO_PROXY, such as `[::1]` and `fd00::/8`.
    """
    parts = urlsplit(url)
    if urllib.request.proxy_bypass(parts.netloc):
        return None
    proxy = urllib.request.getproxies().get(parts.scheme)
    return proxy if proxy is None or "://" in proxy else f"http://{proxy}"
