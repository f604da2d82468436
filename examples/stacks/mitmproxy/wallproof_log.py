"""Tells Wallproof what mitmproxy did with each request: one JSON object a line.

Load it after all other addons, so that it sees what they decided:

    mitmdump -s policy.py -s wallproof_log.py --set wallproof_log=FILE

Its lines hold addresses, methods, URLs and statuses, never headers or bodies.
"""

import json

from mitmproxy import ctx, flow, http


class WallproofLog:
    def load(self, loader):
        loader.add_option("wallproof_log", str, "", "file that gets one line a request")

    def running(self):
        if not ctx.options.wallproof_log:
            raise ValueError("set wallproof_log to the file that gets the lines")
        self.file = open(ctx.options.wallproof_log, "a", buffering=1)

    def write(self, f: http.HTTPFlow):
        server = f.server_conn
        dialled = server.peername if server and server.timestamp_start else None
        error = ""
        if f.error:
            error = "killed" if f.error.msg == flow.Error.KILLED_MESSAGE else "failed"
        self.file.write(json.dumps({
            "time": f.request.timestamp_start,
            "client": list(f.client_conn.peername[:2]),
            "method": f.request.method,
            "url": "%s:%d" % (f.request.host, f.request.port) if f.request.method == "CONNECT" else f.request.url,
            "status": f.response.status_code if f.response else 0,
            "own": bool(f.response) and bool(f.metadata.get("wallproof_own")),
            "error": error,
            "server": list(dialled[:2]) if dialled else None,
        }) + "\n")

    def request(self, f: http.HTTPFlow):
        # An answer that is there before the request has left is mitmproxy's own.
        f.metadata["wallproof_own"] = f.response is not None

    def http_connect(self, f: http.HTTPFlow):
        if f.response is not None and not 200 <= f.response.status_code < 300:
            f.metadata["wallproof_own"] = True
            self.write(f)

    def response(self, f: http.HTTPFlow):
        self.write(f)

    def error(self, f: http.HTTPFlow):
        self.write(f)


addons = [WallproofLog()]
