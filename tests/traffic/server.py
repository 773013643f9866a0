"""An application of http.server, which speaks HTTP/1.0 on /old and HTTP/1.1 elsewhere. It prints its port, and
serves until its standard input ends."""

import http.server
import json
import queue
import socket
import struct
import sys
import threading
import time

LEFT = {"connection", "forwarded", "host", "http2-settings", "l5d-client-id", "l5d-connection-secure", "upgrade"}
noted = queue.Queue()
released = threading.Event()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *_):
        pass

    def fields(self):
        return sorted(f"{name.lower()}: {value!r}" for name, value in self.headers.items() if name.lower() not in LEFT)

    def chunk(self):
        size = int(self.rfile.readline().split(b";")[0], 16)
        piece = self.rfile.read(size)
        end = self.rfile.readline()
        if len(piece) < size or (size > 0 and end != b"\r\n"):
            raise EOFError
        return piece

    def body(self):
        """The body and its outcome."""
        try:
            if self.headers.get("Transfer-Encoding"):
                whole = b""
                while piece := self.chunk():
                    whole += piece
                return whole, "whole"
            length = int(self.headers.get("Content-Length", 0))
            whole = self.rfile.read(length)
            return whole, "whole" if len(whole) == length else "cut"
        except (OSError, ValueError, EOFError) as error:
            return b"", type(error).__name__

    def answer(self, body, status=200, fields=()):
        self.send_response(status)
        for name, value in fields:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)

    def echo(self):
        body, read = self.body()
        told = {"method": self.command, "target": self.path, "version": self.request_version, "fields": self.fields()}
        self.answer(json.dumps({**told, "body": body.decode("latin1"), "read": read}).encode())

    def raw(self, *pieces):
        for piece in pieces:
            self.wfile.write(piece)
            time.sleep(0.1)
        self.close_connection = True

    def run(self):
        path = self.path.split("?")[0]
        if path == "/echo":
            self.echo()
        elif path == "/fields":
            many = [("Set-Cookie", "a=1"), ("Set-Cookie", "b=2"), ("x-MiXed", "as it is"), ("X-Empty", "")]
            self.answer(b"fields", fields=many)
        elif path == "/phrase":
            self.raw(b"HTTP/1.1 299 Odd: thing\r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
        elif path == "/bare":
            self.raw(b"HTTP/1.1 299 \r\nConnection: close\r\nContent-Length: 2\r\n\r\nok")
        elif path == "/denied":
            self.close_connection = True
            self.answer(b"denied", 401)
        elif path == "/head":
            self.answer(b"x" * 12345)
        elif path.startswith("/none/"):
            self.send_response(int(path[6:]))
            self.send_header("ETag", '"a"')
            if path == "/none/205":
                self.send_header("Content-Length", "0")
            self.end_headers()
        elif path == "/trailers":
            head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
            self.wfile.write(head + b"4\r\nbody\r\n0\r\nX-Sum: 4\r\n\r\n")
        elif path == "/large":
            self.answer(b"y" * 1000000, fields=[(f"X-Large-{n}", "x" * 1000) for n in range(40)])
        elif path == "/reset":
            self.raw(b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nhalf")
            self.connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif path == "/cut":
            self.raw(b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n")
        elif path in ("/until-close", "/old"):
            self.raw(b"HTTP/1.0 200 OK\r\nContent-Type: text/plain\r\n\r\n", b"to the", b" end")
        elif path == "/events":
            self.wfile.write(b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\ndata: 1\n\n")
            released.wait(20)
            released.clear()
            self.raw(b"data: 2\n\n")
        elif path == "/release":
            released.set()
            self.answer(b"")
        elif path == "/upload":
            noted.put(self.body()[1])
            self.close_connection = True
        elif path == "/noted":
            try:
                self.answer(noted.get(timeout=5).encode())
            except queue.Empty:
                self.answer(b"nothing")
        else:
            self.answer(b"", 404)

    do_GET = do_HEAD = do_POST = do_PUT = do_DELETE = do_OPTIONS = do_PROPFIND = run


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True

    def handle_error(self, *_):
        pass

    def shutdown_request(self, request):
        # A socket with SO_LINGER is reset by its close alone.
        if request.getsockopt(socket.SOL_SOCKET, socket.SO_LINGER):
            self.close_request(request)
        else:
            super().shutdown_request(request)


server = Server(("127.0.0.1", 0), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
print(server.server_address[1], flush=True)
sys.stdin.read()
