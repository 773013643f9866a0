"""A client of grpcio. It runs every case against 127.0.0.1:PORT and prints what it observed as JSON. The last case,
whose method is named by the second argument, ends the application."""

import json
import sys
import time

import grpc

OWN = {"x-head", "x-bin-bin", "x-sum"}
channel = grpc.insecure_channel(f"127.0.0.1:{sys.argv[1]}", options=[("grpc.max_receive_message_length", 10000000)])


def own(fields):
    return sorted((name, str(value)) for name, value in fields or () if name in OWN)


def call(method, *messages, patience=20):
    begun = time.monotonic()
    seen, stream = [], channel.stream_stream(f"/t/{method}")(iter(messages), timeout=patience)
    try:
        for heard in stream:
            seen.append(heard.decode() if len(heard) < 100 else f"{len(heard)} bytes")
    except grpc.RpcError:
        pass
    # These texts are the library's own: one names addresses, one depends on the side whose clock is faster.
    code = stream.code()
    # A server whose clock is faster resets the stream at the deadline, which this library calls CANCELLED.
    if code == grpc.StatusCode.CANCELLED and time.monotonic() - begun > 0.9 * patience:
        code = grpc.StatusCode.DEADLINE_EXCEEDED
    library = code in (grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.DEADLINE_EXCEEDED)
    details = "" if library else stream.details()
    return f"{seen} {own(stream.initial_metadata())} {own(stream.trailing_metadata())} {code.name} {details!r}"


seen = {method: call(method, b"body") for method in ["Echo", "Fail", "FailLate", "Many", "Large", "Nothing"]}
seen["Collect"] = call("Collect", b"x" * 1000000, b"", b"abc")
seen["Talk"] = call("Talk", b"a", b"b", b"c")
seen["deadline"] = call("Wait", b"body", patience=0.3)
seen[sys.argv[2]] = call(sys.argv[2], b"body")
seen["afterwards"] = call("Echo", b"body")
print(json.dumps(seen))
