"""An application of grpcio without protobuf. It prints its port, and serves until its standard input ends."""

import os
import sys
import time
from concurrent import futures

import grpc


def answer(messages, context, method):
    message = next(messages)
    if method == "Echo":
        context.send_initial_metadata((("x-head", "a"), ("x-bin-bin", b"\x00\xff")))
        context.set_trailing_metadata((("x-sum", "4"),))
        yield message
    elif method == "Fail":
        context.set_trailing_metadata((("grpc-status-details-bin", b"d" * 2000),))
        context.abort(grpc.StatusCode.FAILED_PRECONDITION, "told so: \u00e9%\n")
    elif method == "FailLate":
        yield b"first"
        context.abort(grpc.StatusCode.DATA_LOSS, "lost")
    elif method == "Many":
        yield from (b"0", b"1", b"2")
    elif method == "Large":
        yield b"x" * 3000000
    elif method == "Collect":
        yield str(len(message) + sum(len(more) for more in messages)).encode()
    elif method == "Talk":
        yield b"heard " + message
        for more in messages:
            yield b"heard " + more
    elif method == "Wait":
        while context.is_active():
            time.sleep(0.02)
    elif method == "Die":
        yield b"first"
        time.sleep(0.2)
        os._exit(1)
    elif method == "DieUnanswered":
        os._exit(1)
    else:
        context.abort(grpc.StatusCode.UNIMPLEMENTED, f"/t/{method}")


class Handler(grpc.GenericRpcHandler):
    def service(self, call):
        method = call.method.rsplit("/")[-1]
        return grpc.stream_stream_rpc_method_handler(lambda messages, context: answer(messages, context, method))


server = grpc.server(futures.ThreadPoolExecutor(), options=[("grpc.max_receive_message_length", 10000000)])
server.add_generic_rpc_handlers((Handler(),))
print(server.add_insecure_port("127.0.0.1:0"), flush=True)
server.start()
sys.stdin.read()
os._exit(0)
