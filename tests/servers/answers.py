"""What a server makes of bytes: they are sent over a new connection, and the reaction is classified."""

import re
import socket
import time

# The servers' own words, in a header (HEAD has no body) and in the body (HTTP/0.9 has no headers).
ROUTED = re.compile(rb"routed: ((?:[a-z_]+=[0-9a-f]*,)+);", re.IGNORECASE)
NGINX = re.compile(rb"Nginx-Routed: ([^\t]*)\t([^\t]*)\t(.*)\tthe end", re.DOTALL)
NGINX_HEAD = re.compile(rb"Nginx-Routed: ([^\t]*)\t([^\t]*)\t([^\r\n]*)\t\r\n")
STATUS = re.compile(rb"HTTP/1\.[01] ([0-9]{3})")

# A connection on which the server said something is read until it says no more for this part of the patience.
QUIET = 0.4


def ask(port, data, patience):
    """What a server answers, as the data has it. `patience`: seconds until silence is taken for an answer."""
    for _ in range(3):
        with socket.create_connection(("127.0.0.1", port), 5) as connection:
            output, ended, at_end = exchange(connection, data, patience)
        # A reset may have overtaken the answer.
        if output or ended != "reset":
            break
    if not output:
        return {"silent": True} if ended == "silent" else {"closed": True}
    answer = classify(output)
    if at_end:
        answer["at_end"] = True
    return answer


def exchange(connection, data, patience):
    try:
        connection.sendall(data)
    except OSError:
        pass  # The server ended before it had read all: its answer may be there.
    output, ended = read(connection, patience)
    if output or ended != "silent":
        return output, ended, False
    try:
        connection.shutdown(socket.SHUT_WR)
    except OSError:
        pass
    output, ended = read(connection, patience)
    return output, ended, True


def read(connection, patience):
    output, until = b"", time.monotonic() + patience
    while True:
        connection.settimeout(max(0.001, until - time.monotonic()))
        try:
            part = connection.recv(65536)
        except TimeoutError:
            return output, "silent"
        except OSError:
            return output, "reset"
        if not part:
            return output, "closed"
        output += part
        if routed(output):
            return output, "answered"
        until = time.monotonic() + QUIET * patience


def routed(output):
    """What the handler says that it read, and where it begins to say so."""
    if match := ROUTED.search(output):
        pairs = (pair.partition(b"=") for pair in match[1].split(b",") if pair)
        return {name.decode(): bytes.fromhex(value.decode()) for name, _, value in pairs}, match.start()
    if match := NGINX.search(output) or NGINX_HEAD.search(output):
        return dict(zip(("method", "target", "path"), match.groups())), match.start()
    return None


def classify(output):
    found = routed(output)
    fields, begins = found or ({}, len(output))
    codes = [int(code) for code in STATUS.findall(output[:begins])]
    answer = dict(fields)
    if codes:
        answer["status"] = codes.pop() if found else codes.pop(0)
    else:
        answer["bare"] = True
    if codes and found:
        answer["before"] = codes
    return answer
