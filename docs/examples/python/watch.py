#!/usr/bin/env python3
"""Watches the policy of a workload over portcullis.policy.v1 and prints what happens.

    python3 -m pip install -r requirements.txt
    python3 watch.py --controller 127.0.0.1:8090 emojivoto:web-0

One JSON object per line goes to standard output:

    {"event": "workload", "name": ..., "declared_ports": [...], ...}
    {"event": "port", "port": 8080, "full": true, "routes": 2, "in_force": ..., ...}
    {"event": "ended", "code": "OK", "details": ""}

This is an example of the client's side of docs/watch-api.md: it keeps the state of each port by
key, applies updates whole or not at all, acknowledges what it "enforces", asks for a resync when an
update does not build on what it has, and reconnects with back-off, saying what it has in force.
Give it --ack only if something really enforces the policy: the controller counts acknowledgements.
"""

import argparse
import importlib
import json
import pathlib
import queue
import random
import sys
import tempfile
import time

import grpc
from grpc_tools import protoc

PROTO = pathlib.Path(__file__).resolve().parents[3] / "proto"
FILES = ["portcullis/policy/v1/policy.proto", "portcullis/policy/v1/discovery.proto"]

# Codes that say that asking again the same way cannot help.
FINAL = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.PERMISSION_DENIED,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
}


def generate(proto, into):
    """Generates Python code from the .proto files and imports it."""
    include = pathlib.Path(importlib.import_module("grpc_tools").__file__).parent / "_proto"
    arguments = ["protoc", f"-I{proto}", f"-I{include}", f"--python_out={into}"]
    if protoc.main(arguments + [f"--grpc_python_out={into}"] + FILES) != 0:
        sys.exit(f"error: cannot generate code from {proto}")
    sys.path.insert(0, str(into))
    messages = importlib.import_module("portcullis.policy.v1.discovery_pb2")
    services = importlib.import_module("portcullis.policy.v1.discovery_pb2_grpc")
    return messages, services


class Refused(Exception):
    """An update that must not be applied, and where in it."""

    def __init__(self, field_path, reason):
        super().__init__(reason)
        self.field_path = field_path


class Port:
    """What is known of one port: the state that updates change."""

    def __init__(self):
        self.revision = None
        self.header = None
        self.required_features = []
        self.authorizations = {}
        self.server_authorizations = []
        self.routes = {}
        self.route_order = []

    def apply(self, update, features):
        """The state after `update`; this one is left as it is. LookupError: resync."""
        unknown = set(update.required_features) - features
        if unknown:
            raise Refused("required_features", f"unknown: {', '.join(sorted(unknown))}")
        new = Port()
        if update.HasField("base"):
            if self.revision is None or self.revision.content != update.base:
                raise LookupError("base")
            new.header = self.header
            new.authorizations = dict(self.authorizations)
            new.server_authorizations = self.server_authorizations
            new.routes = dict(self.routes)
            new.route_order = self.route_order
        new.required_features = list(update.required_features)
        if update.HasField("header"):
            new.header = update.header
        if new.header is None:
            raise Refused("header", "must be set")
        for key in update.removed_authorizations:
            new.authorizations.pop(key, None)
        for authorization in update.authorizations:
            new.authorizations[authorization.key] = authorization
        for key in update.removed_routes:
            new.routes.pop(key, None)
        for route in update.routes:
            new.routes[route.key] = route
        if update.HasField("server_authorizations"):
            new.server_authorizations = splice(
                new.server_authorizations, update.server_authorizations
            )
        if update.HasField("route_order"):
            new.route_order = splice(new.route_order, update.route_order)
        new.check()
        new.revision = update.revision
        return new

    def check(self):
        """Every key must stand for something: a grant that is not there is no grant."""
        for key in self.server_authorizations:
            if key not in self.authorizations:
                raise Refused("server_authorizations", f"no authorization {key}")
        for key in self.route_order:
            if key not in self.routes:
                raise Refused("route_order", f"no route {key}")
            for grant in self.routes[key].authorizations:
                if grant not in self.authorizations:
                    raise Refused("routes", f"no authorization {grant}")

    def describe(self):
        """The gist, for people and tests."""
        owner = self.header.owner
        return {
            "owner": owner.server.name if owner.HasField("server") else owner.default,
            "protocol": self.header.protocol.WhichOneof("kind"),
            "deny": self.header.deny if self.header.HasField("deny") else None,
            "authorizations": [
                source_name(self.authorizations[key].source) for key in self.server_authorizations
            ],
            "routes": [origin_name(self.routes[key].origin) for key in self.route_order],
        }


def splice(old, change):
    """A list of keys after a KeyList: some kept at the start, new ones, some kept at the end."""
    kept = change.keep_first + change.keep_last
    if kept > len(old):
        raise Refused("keys", f"keeps {kept} of {len(old)} keys")
    tail = old[len(old) - change.keep_last :]
    return old[: change.keep_first] + list(change.keys) + tail


def source_name(source):
    return source.object.name if source.HasField("object") else source.default


def origin_name(origin):
    if origin.WhichOneof("kind") == "objects":
        return origin.objects.chain[-1].name
    return origin.WhichOneof("kind")


def say(event, **fields):
    print(json.dumps({"event": event, **fields}), flush=True)


class Watch:
    """One client: what it keeps between connections."""

    def __init__(self, options, messages, services):
        self.options = options
        self.messages = messages
        self.stub_class = services.PolicyDiscoveryStub
        self.ports = {}
        self.updates = 0

    def run(self, channel):
        """One stream. Returns its status code."""
        m = self.messages
        requests = queue.SimpleQueue()
        applied = [
            m.PortRevision(port=number, revision=port.revision)
            for number, port in self.ports.items()
        ]
        hello = m.Hello(
            workload=self.options.workload,
            features=sorted(self.options.features),
            applied=applied,
            client="watch.py",
        )
        requests.put(m.WatchRequest(hello=hello))
        if self.options.port:
            requests.put(m.WatchRequest(subscribe=m.Subscribe(ports=self.options.port)))
        call = self.stub_class(channel).Watch(iter(requests.get, None))
        try:
            for response in call:
                self.response(response, requests)
                if self.done():
                    call.cancel()
                    return None
        except grpc.RpcError:
            pass
        except RuntimeError as error:
            call.cancel()
            say("ended", code="UNKNOWN", details=str(error))
            return grpc.StatusCode.UNKNOWN
        finally:
            requests.put(None)
        say("ended", code=call.code().name, details=call.details())
        return call.code()

    def response(self, response, requests):
        kind = response.WhichOneof("kind")
        if kind == "workload":
            workload = response.workload
            say(
                "workload",
                name=workload.name,
                declared_ports=list(workload.declared_ports),
                undeclared=self.messages.Undeclared.Name(workload.undeclared),
            )
        elif kind == "port":
            self.update(response.port, requests)
        else:
            # From a newer server; what we cannot read we could not enforce.
            raise RuntimeError("a message of a kind that is not known here")

    def update(self, update, requests):
        m = self.messages
        try:
            port = self.ports.get(update.port, Port()).apply(update, self.options.features)
        except LookupError:
            # What we have stays in force until the full state arrives.
            requests.put(m.WatchRequest(resync=m.Resync(port=update.port)))
            say("resync", port=update.port)
            return
        except Refused as error:
            nack = m.Nack(
                port=update.port,
                revision=update.revision,
                reason=str(error),
                field_path=error.field_path,
            )
            requests.put(m.WatchRequest(nack=nack))
            say("refused", port=update.port, field_path=error.field_path, reason=str(error))
            return
        self.ports[update.port] = port
        self.updates += 1
        if self.options.ack:
            # Only now: everything that decides would use the new state by this line.
            requests.put(m.WatchRequest(ack=m.Ack(port=update.port, revision=update.revision)))
        changed = {"routes_changed": len(update.routes), "full": not update.HasField("base")}
        say("port", port=update.port, **changed, **port.describe())

    def done(self):
        return self.options.updates is not None and self.updates >= self.options.updates


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", help="the workload's token, for example namespace:pod")
    parser.add_argument("--controller", default="127.0.0.1:8090", metavar="HOST:PORT")
    parser.add_argument("--proto", default=PROTO, type=pathlib.Path, help="folder of .proto files")
    parser.add_argument("--port", action="append", type=int, help="also watch this port")
    parser.add_argument("--feature", action="append", default=[], help="a feature it can enforce")
    parser.add_argument("--ack", action="store_true", help="acknowledge updates")
    parser.add_argument("--updates", type=int, help="end after so many updates")
    options = parser.parse_args()
    options.features = set(options.feature)
    # Messages are bounded on both sides; the controller's default is 16 MiB.
    limits = [("grpc.max_receive_message_length", 16 * 1024 * 1024)]
    with tempfile.TemporaryDirectory() as into:
        watch = Watch(options, *generate(options.proto, into))
        backoff = 0.1
        while True:
            before = watch.updates
            with grpc.insecure_channel(options.controller, limits) as channel:
                code = watch.run(channel)
            if watch.done():
                return 0
            if code in FINAL:
                return 1
            # A stream that brought something starts the back-off anew.
            backoff = 0.1 if watch.updates > before else min(backoff * 2, 10)
            time.sleep(backoff * random.uniform(0.5, 1.5))


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
