"""A small boundary made of mitmproxy: hosts that are allowed, and one secret.

It stands for whatever a platform has built on mitmproxy. ALLOW is a list of host
names, "*.domain" for all names below one. Where a request to SECRET_HOST carries
the placeholder, the secret takes its place, and it is masked in the answer.
"""

import os

from mitmproxy import http

ALLOW = os.environ.get("ALLOW", "").split()
SECRET_HOST = os.environ.get("SECRET_HOST", "")
SECRET_NAME = os.environ.get("SECRET_NAME", "")
SECRET = os.environ.get("WALLPROOF_SECRET_" + SECRET_NAME, "")
PLACEHOLDER = os.environ.get("WALLPROOF_PLACEHOLDER_" + SECRET_NAME, "")


def allowed(host: str) -> bool:
    return any(host == a or a.startswith("*.") and host.endswith(a[1:]) for a in ALLOW)


def refuse(f: http.HTTPFlow):
    f.response = http.Response.make(403, b"this host is not allowed\n", {"content-type": "text/plain"})


class Policy:
    def http_connect(self, f: http.HTTPFlow):
        if not allowed(f.request.host) or f.request.port != 443:
            refuse(f)

    def request(self, f: http.HTTPFlow):
        port = 443 if f.request.scheme == "https" else 80
        sni = f.client_conn.sni
        agreed = f.request.pretty_host == f.request.host and (not sni or sni == f.request.host)
        if not allowed(f.request.host) or not agreed or f.request.port != port:
            refuse(f)
            return
        if SECRET and f.request.host == SECRET_HOST and f.request.scheme == "https":
            for name, value in f.request.headers.items():
                f.request.headers[name] = value.replace(PLACEHOLDER, SECRET)

    def response(self, f: http.HTTPFlow):
        if SECRET and f.response.raw_content:
            f.response.decode(strict=False)
            f.response.content = f.response.content.replace(SECRET.encode(), b"*" * len(SECRET))


addons = [Policy()]
