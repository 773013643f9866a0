"""A client of http.client that sends two requests on a kept connection, of each method, to 127.0.0.1:PORT. It
prints what it observed as JSON."""

import http.client
import json
import sys

PORT = int(sys.argv[1])


def ask(connection, method):
    try:
        connection.request(method, "/", b"body" if method == "POST" else None)
        answer = connection.getresponse()
        return f"{answer.status} {answer.read().decode()}"
    except (OSError, http.client.HTTPException) as error:
        return type(error).__name__


def pair(method):
    connection = http.client.HTTPConnection("127.0.0.1", PORT, timeout=20)
    return f"{ask(connection, method)}; {ask(connection, method)}"


print(json.dumps({method: pair(method) for method in ["GET", "POST"]}))
