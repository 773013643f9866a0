"""A server of http.server with its default settings, which answers every request with what it read.

Any method reaches the handler, as in wsgiref, whose handler this module's class is as well. Prints its
version and its port, then serves until its standard input ends.
"""

import http.server
import platform
import sys
import threading
import urllib.parse


def field(name, value):
    return f"{name}={value.hex()},"


class Handler(http.server.BaseHTTPRequestHandler):
    def __getattr__(self, name):
        if name.startswith("do_"):
            return self.answer
        raise AttributeError(name)

    def answer(self):
        # As wsgiref makes PATH_INFO, and as ASGI servers make scope["path"].
        path = self.path.split("?", 1)[0]
        wsgi = urllib.parse.unquote(path, "iso-8859-1").encode("iso-8859-1")
        asgi = urllib.parse.unquote(path).encode()
        read = "Routed: " + "".join((
            field("method", self.command.encode("iso-8859-1")),
            field("target", self.path.encode("iso-8859-1")),
            field("path", wsgi),
            field("asgi", asgi),
        )) + ";"
        self.send_response(200)
        self.send_header("Routed", read.removeprefix("Routed: "))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(read.encode())

    def log_message(self, *_):
        pass


class Server(http.server.ThreadingHTTPServer):
    request_queue_size = 128

    def handle_error(self, *_):
        pass


server = Server(("127.0.0.1", 0), Handler)
print(platform.python_version(), server.server_address[1], flush=True)
threading.Thread(target=server.serve_forever, daemon=True).start()
sys.stdin.read()
