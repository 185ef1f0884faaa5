"""HTTP requests that honor the proxies of the environment and the CAs of the system."""

import ssl

import httpx

from config.proxy import proxy_for


class NoAnswerError(Exception):
    """A server that cannot be reached; the message says why."""


def request(
    method: str, url: str, *, timeout: float, authority: str | None = None
) -> httpx.Response:
    """Send a request and return the answer, whatever its status.

    Args:
        method: such as `GET`.
        url: of the server.
        timeout: seconds to wait for a connection, and for each part of the answer.
        authority: PEM of the only CA to trust; None means the system's CAs.

    Raises:
        NoAnswerError: if there is no answer.
    """
    try:
        return httpx.request(
            method,
            url,
            proxy=proxy_for(url),
            verify=ssl.create_default_context(cadata=authority),
            timeout=timeout,
            follow_redirects=True,
            trust_env=False,
        )
    except (httpx.HTTPError, httpx.InvalidURL, ValueError) as error:
        raise NoAnswerError(str(error) or type(error).__name__) from error
