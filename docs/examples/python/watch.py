#!/usr/bin/env python3
"""Watches the policy of a workload over portcullis.policy.v1 and prints what happens.

    python3 -m pip install -r requirements.txt
    python3 watch.py --controller 127.0.0.1:8090 emojivoto:web-0

A controller in a cluster speaks TLS. It proves the identity `--tls-name`; the client proves its own
by a certificate (`portcullis identity` writes one with its key and the roots) or by a token:

    python3 watch.py --controller portcullis-policy.portcullis.svc:8090 --tls-roots id/ca.crt \\
        --tls-name policy-controller.portcullis.serviceaccount.identity.portcullis.cluster.local \\
        --tls-cert id/tls.crt --tls-key id/tls.key shop:web-7d9c

One JSON object per line goes to standard output:

    {"event": "workload", "name": ..., "declared_ports": [...], ...}
    {"event": "port", "port": 8080, "full": true, "routes": 2, "in_force": ..., ...}
    {"event": "ended", "code": "OK", "details": ""}

This is an example of the client's side of docs/watch-api.md: it keeps the state of each port by
key, applies updates whole or not at all, refuses what it cannot read, acknowledges what it
"enforces", asks for a resync when an update does not build on what it has, and reconnects with
back-off, saying what it has in force.
Give it --ack only if something really enforces the policy: the controller counts acknowledgements.
"""

import argparse
import importlib
import ipaddress
import json
import pathlib
import queue
import random
import re
import sys
import tempfile
import time

import grpc
from grpc_tools import protoc

PROTO = pathlib.Path(__file__).resolve().parents[3] / "proto"
FILES = ["portcullis/policy/v1/policy.proto", "portcullis/policy/v1/discovery.proto"]

# Codes that say that asking again the same way cannot help. All others are worth another attempt;
# PERMISSION_DENIED is, because the workload or the caller's rights may change.
FINAL = {
    grpc.StatusCode.INVALID_ARGUMENT,
    grpc.StatusCode.DEADLINE_EXCEEDED,
    grpc.StatusCode.OUT_OF_RANGE,
    grpc.StatusCode.UNAUTHENTICATED,
    grpc.StatusCode.UNIMPLEMENTED,
}

# Every reason to deny. One that is not known here refuses the update that has it.
REASONS = {
    "no_route",
    "unauthorized",
    "cannot_tell",
    "tls_required",
    "protocol_mismatch",
    "server_invalid",
    "routes_invalid",
    "route_invalid",
    "proxy_unsupported",
    "not_delegated",
    "port_undeclared",
    "policy_pending",
    "policy_expired",
    "rate_limited",
    "rate_limit_invalid",
    "revoked",
    "target_malformed",
    "target_dot_segment",
    "target_empty_segment",
    "target_encoded_slash",
    "target_backslash",
    "target_control",
    "target_bad_encoding",
    "target_path_parameter",
    "target_non_ascii",
    "target_not_canonical",
    "target_less_than",
    "target_greater_than",
    "target_grave_accent",
    "host_duplicate",
    "host_mismatch",
    "host_invalid",
    "host_missing",
    "header_obs_text",
    "header_outer_blanks",
}

# Messages and oneofs that need not be there. Of a port's update, the state before stands in for what
# is missing; PortUpdate is therefore not among the messages that are read as a whole.
ABSENT = {
    "portcullis.policy.v1.Facts.logs",
    "portcullis.policy.v1.Exemption.request",
    "portcullis.policy.v1.PortHeader.rate_limit",
    "portcullis.policy.v1.Redirect.path",
    "portcullis.policy.v1.Timeouts.request",
    "portcullis.policy.v1.Timeouts.response",
    "portcullis.policy.v1.Timeouts.idle",
}

# No decision depends on these: what cannot be read in them is left out.
UNREAD = {"portcullis.policy.v1.Logs"}


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
    """A message that must not be applied, and where in it."""

    def __init__(self, field_path, reason):
        super().__init__(reason)
        self.field_path = field_path


class WrongBase(Exception):
    """An update does not build on what this client has."""


def read(message, path):
    """Refuses a message in which anything cannot be read: an enum at 0 or with an unknown value, a
    oneof or a message that is not set, and values that mean nothing."""
    for oneof in message.DESCRIPTOR.oneofs:
        optional = len(oneof.fields) == 1 and oneof.name.startswith("_")
        if not optional and oneof.full_name not in ABSENT and not message.WhichOneof(oneof.name):
            alternatives = ", ".join(field.name for field in oneof.fields)
            raise Refused(path, f"none of {alternatives} is set, or one not known here")
    for field in message.DESCRIPTOR.fields:
        value = getattr(message, field.name)
        place = f"{path}.{field.name}" if path else field.name
        if field.is_repeated:
            if field.message_type is None or field.message_type.GetOptions().map_entry:
                continue
            for number, element in enumerate(value):
                read(element, f"{place}[{number}]")
        elif field.type == field.TYPE_MESSAGE:
            if message.HasField(field.name):
                if field.message_type.full_name not in UNREAD:
                    read(value, place)
            elif field.containing_oneof is None and field.full_name not in ABSENT:
                raise Refused(place, "must be set")
        elif field.has_presence and not message.HasField(field.name):
            # Another member of its oneof is set, or it need not be there. Its value reads as 0.
            continue
        elif field.type == field.TYPE_ENUM:
            if value == 0 or value not in field.enum_type.values_by_number:
                raise Refused(place, f"value {value} is not known here")
        else:
            read_value(field, value, place)
    check = CHECKS.get(message.DESCRIPTOR.full_name)
    if check:
        check(message, path)


def read_value(field, value, place):
    """Refuses values of single fields that mean nothing here."""
    if field.name == "deny" and value not in REASONS:
        raise Refused(place, f"reason `{value}` is not known here")
    if field.name == "key" and value == 0:
        raise Refused(place, "must not be 0")
    if field.name == "regex":
        try:
            re.compile(value)
        except re.error as error:
            raise Refused(place, f"`{value}` is not an expression: {error}") from error


def address(value, place):
    try:
        return ipaddress.ip_address(value)
    except ValueError as error:
        raise Refused(place, f"must have 4 or 16 bytes, has {len(value)}") from error


def check_network(network, path):
    most = address(network.address, f"{path}.address").max_prefixlen
    if network.prefix_length > most:
        raise Refused(f"{path}.prefix_length", f"must be at most {most}")


def check_facts(facts, path):
    for name in ("pod_addresses", "pod_gateways"):
        for number, value in enumerate(getattr(facts, name)):
            address(value, f"{path}.{name}[{number}]")


def check_origin(origin, path):
    if origin.WhichOneof("kind") == "objects" and not origin.objects.chain:
        raise Refused(f"{path}.objects.chain", "must not be empty")


def check_redirect(redirect, path):
    if not 300 <= redirect.status <= 399:
        raise Refused(f"{path}.status", f"must be between 300 and 399, is {redirect.status}")


CHECKS = {
    "portcullis.policy.v1.Network": check_network,
    "portcullis.policy.v1.Facts": check_facts,
    "portcullis.policy.v1.Origin": check_origin,
    "portcullis.policy.v1.Redirect": check_redirect,
}


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
        """The state after `update`; this one is left as it is."""
        for number, name in enumerate(update.required_features):
            if name not in features:
                raise Refused(f"required_features[{number}]", f"`{name}` is not known here")
        if not update.HasField("revision"):
            raise Refused("revision", "must be set")
        new = Port()
        if update.HasField("base"):
            if self.revision is None or self.revision.content != update.base:
                raise WrongBase
            new.header = self.header
            new.authorizations = dict(self.authorizations)
            new.server_authorizations = self.server_authorizations
            new.routes = dict(self.routes)
            new.route_order = self.route_order
        new.required_features = list(update.required_features)
        if update.HasField("header"):
            read(update.header, "header")
            new.header = update.header
        if new.header is None:
            raise Refused("header", "must be set")
        for key in update.removed_authorizations:
            new.authorizations.pop(key, None)
        for number, authorization in enumerate(update.authorizations):
            read(authorization, f"authorizations[{number}]")
            new.authorizations[authorization.key] = authorization
        for key in update.removed_routes:
            new.routes.pop(key, None)
        for number, route in enumerate(update.routes):
            read(route, f"routes[{number}]")
            new.routes[route.key] = route
        for name in ("server_authorizations", "route_order"):
            if update.HasField(name):
                setattr(new, name, splice(getattr(new, name), getattr(update, name), name))
        new.check()
        new.revision = update.revision
        return new

    def check(self):
        """Every key must stand for something: a grant that is not there is no grant."""
        self.granted(self.server_authorizations, "server_authorizations")
        for number, exemption in enumerate(self.header.exemptions):
            self.granted([exemption.authorization], f"header.exemptions[{number}].authorization")
        for key in self.route_order:
            if key not in self.routes:
                raise Refused("route_order", f"no route {key}")
            self.granted(self.routes[key].authorizations, "routes")

    def granted(self, keys, place):
        for key in keys:
            if key not in self.authorizations:
                raise Refused(place, f"no authorization {key}")

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


def splice(old, change, place):
    """A list of keys after a KeyList: some kept at the start, new ones, some kept at the end."""
    kept = change.keep_first + change.keep_last
    if kept > len(old):
        raise Refused(place, f"keeps {kept} of {len(old)} keys")
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
        self.workload_revision = None
        self.updates = 0

    def run(self, channel, metadata):
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
            workload_revision=self.workload_revision,
            client="watch.py",
        )
        requests.put(m.WatchRequest(hello=hello))
        if self.options.port:
            requests.put(m.WatchRequest(subscribe=m.Subscribe(ports=self.options.port)))
        call = self.stub_class(channel).Watch(iter(requests.get, None), metadata=metadata)
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
            self.workload(response.workload, requests)
        elif kind == "port":
            self.update(response.port, requests)
        else:
            # From a newer server; what we cannot read we could not enforce.
            raise RuntimeError("a message of a kind that is not known here")

    def workload(self, workload, requests):
        try:
            read(workload, "")
        except Refused as error:
            # With port 0 and no revision: the Workload. The server ends the stream.
            self.refuse(requests, error, port=0)
            return
        self.workload_revision = workload.revision
        watched = {*workload.declared_ports, *(self.options.port or [])}
        self.ports = {number: port for number, port in self.ports.items() if number in watched}
        say(
            "workload",
            name=workload.name,
            declared_ports=list(workload.declared_ports),
            undeclared=self.messages.Undeclared.Name(workload.undeclared),
        )

    def update(self, update, requests):
        m = self.messages
        try:
            port = self.ports.get(update.port, Port()).apply(update, self.options.features)
        except WrongBase:
            # What we have stays in force until the full state arrives.
            requests.put(m.WatchRequest(resync=m.Resync(port=update.port)))
            say("resync", port=update.port)
            return
        except Refused as error:
            self.refuse(requests, error, port=update.port, revision=update.revision)
            return
        self.ports[update.port] = port
        self.updates += 1
        if self.options.ack:
            # Only now: everything that decides would use the new state by this line.
            requests.put(m.WatchRequest(ack=m.Ack(port=update.port, revision=update.revision)))
        changed = {"routes_changed": len(update.routes), "full": not update.HasField("base")}
        say("port", port=update.port, **changed, **port.describe())

    def refuse(self, requests, error, **which):
        nack = self.messages.Nack(reason=str(error), field_path=error.field_path, **which)
        requests.put(self.messages.WatchRequest(nack=nack))
        say("refused", port=which["port"], field_path=error.field_path, reason=str(error))

    def done(self):
        return self.options.updates is not None and self.updates >= self.options.updates


def connect(options):
    """A channel, and the metadata of calls on it. Files are read anew for each: certificates and
    tokens are renewed."""
    # Messages are bounded on both sides; the controller's default is 16 MiB.
    settings = [("grpc.max_receive_message_length", 16 * 1024 * 1024)]
    if not options.tls_roots:
        return grpc.insecure_channel(options.controller, settings), None
    # Without a certificate of its own, the client proves who it is by a token.
    key = options.tls_key.read_bytes() if options.tls_key else None
    chain = options.tls_cert.read_bytes() if options.tls_cert else None
    credentials = grpc.ssl_channel_credentials(options.tls_roots.read_bytes(), key, chain)
    # The controller's certificate is for its identity, not for the address that it has.
    settings.append(("grpc.ssl_target_name_override", options.tls_name))
    token = options.token.read_text().strip() if options.token else None
    metadata = [("authorization", f"Bearer {token}")] if token else None
    return grpc.secure_channel(options.controller, credentials, settings), metadata


def is_loopback(controller):
    host = controller.rpartition(":")[0].strip("[]")
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("workload", help="the workload's token, for example namespace:pod")
    parser.add_argument("--controller", default="127.0.0.1:8090", metavar="HOST:PORT")
    parser.add_argument("--tls-roots", type=pathlib.Path, help="roots of the mesh, PEM; needed "
                        "unless the controller is on loopback")
    parser.add_argument("--tls-name", help="the identity that the controller must prove")
    parser.add_argument("--tls-cert", type=pathlib.Path, help="this client's certificate, PEM")
    parser.add_argument("--tls-key", type=pathlib.Path, help="its key, PEM")
    parser.add_argument("--token", type=pathlib.Path, help="file with a token, over TLS alone")
    parser.add_argument("--proto", default=PROTO, type=pathlib.Path, help="folder of .proto files")
    parser.add_argument("--port", action="append", type=int, help="also watch this port")
    parser.add_argument("--feature", action="append", default=[], help="a feature it can enforce")
    parser.add_argument("--ack", action="store_true", help="acknowledge updates")
    parser.add_argument("--updates", type=int, help="end after so many updates")
    options = parser.parse_args()
    options.features = set(options.feature)
    if bool(options.tls_roots) != bool(options.tls_name):
        parser.error("--tls-roots and --tls-name belong together")
    if bool(options.tls_cert) != bool(options.tls_key):
        parser.error("--tls-cert and --tls-key belong together")
    if (options.tls_cert or options.token) and not options.tls_roots:
        parser.error("a certificate or a token needs --tls-roots and --tls-name")
    if not options.tls_roots and not is_loopback(options.controller):
        parser.error(f"{options.controller} is not loopback: give --tls-roots and --tls-name")
    return options


def main():
    options = parse()
    with tempfile.TemporaryDirectory() as into:
        watch = Watch(options, *generate(options.proto, into))
        backoff = 0.1
        while True:
            began = time.monotonic()
            channel, metadata = connect(options)
            with channel:
                code = watch.run(channel, metadata)
            if watch.done():
                return 0
            if code in FINAL and not renewed(options, code, metadata):
                return 1
            # A stream that lasted starts the back-off anew.
            backoff = 0.1 if time.monotonic() - began >= 10 else min(backoff * 2, 10)
            time.sleep(backoff * random.uniform(0.5, 1.5))


def renewed(options, code, metadata):
    """True if a token expired and its file has another one by now."""
    if code != grpc.StatusCode.UNAUTHENTICATED or not options.token:
        return False
    return metadata != [("authorization", f"Bearer {options.token.read_text().strip()}")]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except KeyboardInterrupt:
        sys.exit(130)
