"""Who may ask the desk: the one browser that was given its address, on this machine, and no page of anybody else.

The address carries a token in its fragment, which no browser sends. The desk's own script exchanges it, once, for a
secret that it sends with every request; a cookie would be sent by any page to any port of this machine. Host and
Origin are checked, so that no other name leads here (DNS rebinding), and no other page asks.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from dataclasses import dataclass, field

HEADERS = {
    "Content-Security-Policy": "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; "
    "img-src 'self' data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'",
    "Cache-Control": "no-store",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Permissions-Policy": "camera=(), geolocation=(), microphone=()",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "X-Frame-Options": "DENY",
}


@dataclass
class Guard:
    """The token of one address, and the secret that it is exchanged for, of one browser at a time."""

    port: int
    token: str | None = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)
    secret: str = field(default_factory=lambda: secrets.token_urlsafe(32), repr=False)

    @property
    def address(self) -> str:
        """What the browser is given, once."""
        return f"{self._origins[0]}/#{self.token}"

    @property
    def _origins(self) -> tuple[str, str]:
        return f"http://127.0.0.1:{self.port}", f"http://localhost:{self.port}"

    def admits(self, method: str, headers: Mapping[str, str]) -> bool:
        """Return whether a request is to this desk by its name, and, if it asks anything, from its own page.

        Any page may lead to the frame, which is empty without the secret.
        """
        origin = f"http://{headers.get('Host', '')}"
        if origin not in self._origins or headers.get("Origin", origin) != origin:
            return False
        return method == "GET" or (
            "Origin" in headers and headers.get("Sec-Fetch-Site", "same-origin") == "same-origin"
        )

    def enter(self, token: str) -> str | None:
        """Return the secret for the token, the first time; None for any other."""
        if self.token is None or not hmac.compare_digest(token.encode(), self.token.encode()):
            return None
        self.token, self.secret = None, secrets.token_urlsafe(32)
        return self.secret

    def renew(self) -> None:
        """Make another address, for the publisher who asks at the terminal; a browser that came before is out then."""
        self.token = secrets.token_urlsafe(32)

    def knows(self, headers: Mapping[str, str]) -> bool:
        """Return whether a request carries the secret."""
        return hmac.compare_digest(headers.get("Authorization", "").encode(), f"Bearer {self.secret}".encode())
