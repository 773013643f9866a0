"""A client of http.client, urllib and sockets. It runs every case against 127.0.0.1:PORT and prints what it observed
as JSON."""

import http.client
import json
import socket
import struct
import sys
import time
import urllib.error
import urllib.request

PORT = int(sys.argv[1])
LEFT = {"date", "connection", "keep-alive", "server"}


def short(body):
    return f"{len(body)} bytes" if len(body) > 2000 else body.decode("latin1")


def fields(pairs):
    # Names are compared without case, and so is their order.
    lines = sorted(f"{name.lower()}: {value!r}" for name, value in pairs if name.lower() not in LEFT)
    return lines if len(lines) < 20 else f"{len(lines)} fields"


def shown(answer):
    try:
        body, end = answer.read(), "whole"
    except http.client.IncompleteRead as error:
        body, end = error.partial, "incomplete"
    except OSError as error:
        body, end = b"", type(error).__name__
    return f"{answer.status} {answer.reason!r} {fields(answer.getheaders())} {short(body)} {end}"


def connect(version=11):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
    if version == 10:
        connection._http_vsn, connection._http_vsn_str = 10, "HTTP/1.0"
    return connection


def ask(method, path, body=None, headers=None, version=11, **more):
    connection = connect(version)
    try:
        connection.request(method, path, body, headers or {}, **more)
        return shown(connection.getresponse())
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__
    finally:
        connection.close()


def body_of(path, version=11):
    """The body and its end alone, where they are framed anew."""
    return ask("GET", path, version=version).partition("] ")[2]


def fetched(path, data=None):
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{PORT}{path}", data, timeout=20) as answer:
            return shown(answer)
    except urllib.error.HTTPError as error:
        return f"{error.code} {error.reason} {short(error.read())}"
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__


def wire(*pieces, end="read"):
    """Sends bytes and reads to the end. The end is a half close, a reset or none of this client's."""
    seen = b""
    with socket.create_connection(("127.0.0.1", PORT), 20) as stream:
        try:
            for piece in pieces:
                stream.sendall(piece)
            if end == "half":
                # Until the application has what there is of the request.
                time.sleep(0.3)
                stream.shutdown(socket.SHUT_WR)
            if end == "reset":
                stream.settimeout(0.3)
                try:
                    stream.recv(1)
                except TimeoutError:
                    pass
                stream.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
                return "reset"
            while piece := stream.recv(65536):
                seen += piece
            how = "closed"
        except OSError as error:
            how = type(error).__name__
    head, _, body = seen.partition(b"\r\n\r\n")
    lines = head.decode("latin1").split("\r\n")
    pairs = [line.partition(":")[::2] for line in lines[1:]]
    # The version is that of the request, or the application's.
    return f"{lines[0].partition(' ')[2]} {fields((name, value.strip()) for name, value in pairs)} {body.decode('latin1')} {how}"


def noted():
    return ask("GET", "/noted")


def kept():
    connection, seen = connect(), []
    for path in ["/echo", "/none/204", "/none/304", "/trailers", "/none/205", "/echo"]:
        connection.request("GET", path)
        seen.append(shown(connection.getresponse()))
    return seen


def events():
    connection = connect()
    connection.request("GET", "/events")
    answer = connection.getresponse()
    first = answer.readline()
    released = ask("POST", "/release")
    return f"{first} {released} {answer.read()}"


HEAD = b" HTTP/1.1\r\nHost: a\r\n"
CHUNKS = b"POST /upload" + HEAD + b"Transfer-Encoding: chunked\r\n\r\n4\r\nhalf\r\n"
LENGTH = b"POST /upload" + HEAD + b"Content-Length: 10\r\n\r\nhalf"
CLOSE = b"Connection: close\r\n\r\n"
CASES = {
    "get": lambda: ask("GET", "/echo?a=%20b", headers={"X-MiXed": "1", "X-Empty": ""}),
    "old": lambda: ask("GET", "/echo", version=10),
    "old post": lambda: ask("POST", "/echo", b"body", version=10),
    "old expect": lambda: ask("POST", "/echo", b"body", {"Expect": "100-continue"}, version=10),
    "old trailers": lambda: body_of("/trailers", version=10),
    "old until close": lambda: ask("GET", "/until-close", version=10),
    "until close": lambda: body_of("/until-close"),
    "post": lambda: ask("POST", "/echo", b"body"),
    "chunks": lambda: ask("POST", "/echo", iter([b"bo", b"dy"]), encode_chunked=True),
    "empty chunks": lambda: ask("POST", "/echo", iter([]), encode_chunked=True),
    "empty": lambda: ask("POST", "/echo", b""),
    "delete": lambda: ask("DELETE", "/echo", b"body"),
    "verb": lambda: ask("PROPFIND", "/echo", b"<a/>"),
    "head": lambda: ask("HEAD", "/head"),
    "head of an echo": lambda: ask("HEAD", "/echo"),
    "fields": lambda: ask("GET", "/fields"),
    "phrase": lambda: ask("GET", "/phrase"),
    "bare": lambda: ask("GET", "/bare"),
    "204": lambda: ask("GET", "/none/204"),
    "304": lambda: ask("GET", "/none/304"),
    "large": lambda: ask("GET", "/large"),
    "reset": lambda: ask("GET", "/reset"),
    "cut": lambda: ask("GET", "/cut"),
    "not found": lambda: fetched("/nothing"),
    "fetched": lambda: fetched("/echo", b"body"),
    "events": events,
    "kept": lambda: "\n".join(kept()),
    "half closed": lambda: wire(b"GET /echo" + HEAD + b"\r\n", end="half"),
    "half closed old": lambda: wire(b"GET /echo HTTP/1.0\r\n\r\n", end="half"),
    "star": lambda: wire(b"OPTIONS *" + HEAD + CLOSE),
    "odd names": lambda: wire(b"GET /echo" + HEAD + b"x_a: 1\r\nX.B: 2\r\n!#$: 3\r\nX-Tab:\ta\tb\r\n" + CLOSE),
    "cookies": lambda: wire(b"GET /echo" + HEAD + b"Cookie: a=1; b=2\r\n" + CLOSE),
    "query": lambda: wire(b"GET /echo?\"a\"=<b>&{c}|^" + HEAD + CLOSE),
    "chunks cut": lambda: [wire(CHUNKS, end="half"), noted()][1],
    "length cut": lambda: [wire(LENGTH, end="half"), noted()][1],
    "chunks reset": lambda: [wire(CHUNKS, end="reset"), noted()][1],
    "length reset": lambda: [wire(LENGTH, end="reset"), noted()][1],
}
print(json.dumps({name: str(run()) for name, run in CASES.items()}))
