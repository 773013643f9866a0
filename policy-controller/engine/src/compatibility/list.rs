//! The list of deliberate differences. `docs/compatible.md` has it as a table, the flags and
//! `--linkerd-compatible` follow from it, and a test compares messages row by row.

use super::difference::{Difference, Restoration, SeenIn, Whose};
use crate::behaviour::Behaviour;
use crate::config::{ControllerConfig, ProbeRoutes, ReferenceGrants};
use ipnet::{IpNet, Ipv4Net, Ipv6Net};
use policy_core::NetworkMatch;

/// Every deliberate difference: those that reach messages, then those of the controller, then those
/// of our sidecar.
pub const DIFFERENCES: [Difference; 48] = [
    // Probes.
    flagged(
        ["probe-networks", "Sources of probes", "Every address", "The pod's own node"],
        ("probe-networks", "0.0.0.0/0,::/0", probe_networks),
    ),
    flagged(
        [
            "probe-routes",
            "Ports on which probes are exempt",
            "Ports without routes",
            "All ports, routes attached or not",
        ],
        ("probe-routes", "unrouted", probe_routes),
    ),
    switched(
        "probe-kinds",
        "Requests of the kubelet that are exempt",
        "HTTP probes, of every scheme and host",
        "HTTP and gRPC probes and HTTP hooks that reach the pod in the clear",
        Behaviour::ProbeKinds,
    ),
    // Servers and routes.
    switched(
        "invalid-servers",
        "A Server or a rate limit that breaks a rule of its kind",
        "It is as if it were not there: another Server or limit, or the default policy holds",
        "A Server owns its ports and denies them; of a limit holds what can be read",
        Behaviour::InvalidServers,
    ),
    switched(
        "invalid-routes",
        "A route that breaks a rule of its kind, names a port or section of its Server, or has a \
         filter that is not supported",
        "It is as if it were not there: without another route the Server has its default route",
        "It binds its Server and permits nothing; what it matches, or may have been meant to match, is \
         refused",
        Behaviour::InvalidRoutes,
    ),
    switched(
        "mismatched-routes",
        "A route on a Server whose protocol cannot carry it",
        "It has no effect: the Server keeps its default route",
        "It binds its Server: what no other route permits is refused",
        Behaviour::MismatchedRoutes,
    ),
    switched(
        "grpc-routes",
        "A GRPCRoute on a Server of protocol HTTP/2 or unknown",
        "It has no effect",
        "It takes effect",
        Behaviour::GrpcRoutes,
    ),
    switched(
        "route-conflicts",
        "A GRPCRoute and HTTPRoutes on one Server",
        "The HTTPRoutes have no effect",
        "They do not conflict",
        Behaviour::RouteConflicts,
    ),
    switched(
        "cross-namespace-routes",
        "A route with a Server of another namespace among its parents",
        "It has no effect on any Server",
        "It has effect on Servers of its own namespace, and elsewhere by ReferenceGrant",
        Behaviour::CrossNamespaceRoutes,
    ),
    switched(
        "route-matches",
        "Paths, regular expressions and empty lists of matches in messages",
        "They are sent as they are written",
        "They are sent in the form that decides: expressions anchored, hex digits in upper case, \
         prefixes without a slash at the end, a match for every request in place of an empty list",
        Behaviour::RouteMatches,
    ),
    switched(
        "connection-secure-header",
        "The header `l5d-connection-secure` of a client, which Linkerd's proxies do not know",
        "It is forwarded",
        "A filter on every rule removes it",
        Behaviour::ConnectionSecureHeader,
    ),
    // Authorizations.
    flagged(
        [
            "reference-grants",
            "Authentications of another namespace",
            "They may always be referred to",
            "They need a ReferenceGrant, or are in `--shared-namespaces`",
        ],
        ("reference-grants", "warn", reference_grants),
    ),
    // Ports without a Server.
    switched(
        "admin-port",
        "The admin port of Linkerd's proxies",
        "It follows the default policy",
        "Any mesh identity and the pod's own node may read it, or whom the flags of metrics name",
        Behaviour::AdminPort,
    ),
    switched(
        "unknown-default-policies",
        "A default policy of an unknown name in an annotation",
        "It is as if it were not there: the cluster's default holds",
        "It denies",
        Behaviour::UnknownDefaultPolicies,
    ),
    switched(
        "default-policy-annotations",
        "The annotations `polixy.linkerd.io/default-allow` and `inbound.linkerd.io/default-allow`",
        "They mean nothing",
        "They set the default policy; different values of several annotations mean their intersection",
        Behaviour::DefaultPolicyAnnotations,
    ),
    switched(
        "namespace-annotations",
        "Annotations of a Namespace, for workloads with Linkerd's proxy",
        "They count as the injector copied them when it created the pod; a Namespace that cannot be read closes nothing",
        "They count as they are now",
        Behaviour::NamespaceAnnotations,
    ),
    switched(
        "port-lists",
        "Lists of ports in annotations",
        "Numbers and ranges; another item voids the whole list",
        "Names of ports, too; another item is left out, or requires identities everywhere",
        Behaviour::PortLists,
    ),
    switched(
        "pod-addresses",
        "The addresses of the pod in its messages (`server_ips`)",
        "They are not sent",
        "They are sent",
        Behaviour::PodAddresses,
    ),
    // Messages, without a flag.
    unflagged(
        "refused-values",
        "Values that do not mean what they say: paths that no canonical request has (`//`, `..`, \
         `;`), a header twice in one match, changes of framing headers, networks with bits beyond \
         their prefix, more than 128 regular expressions or 8 MiB of them when compiled, one that \
         matches no path or no host",
        "They are sent as they are written",
        "The object is invalid",
        "Each can be written so that both read it alike. `portcullis check` names it and says how",
    ),
    unflagged(
        "refused-objects",
        "Objects that Linkerd's own webhook refuses and its controller reads, such as a policy for \
         another Namespace",
        "They take effect, if the webhook was not asked",
        "They are invalid",
        "Such an object grants what its author was told that it cannot grant",
    ),
    unflagged(
        "calls-without-a-method",
        "A match of a GRPCRoute without a method",
        "It is sent without a call, and proxies refuse the whole port",
        "It is sent as a match of every call",
        "Linkerd's behaviour takes the port down",
    ),
    unflagged(
        "redirects-without-a-status",
        "A redirect whose manifest has no status code, in a directory",
        "Status 200",
        "Status 302, as the API server fills in",
        "In a cluster there is no such redirect, and 200 does not redirect",
    ),
    unflagged(
        "relative-probe-paths",
        "An HTTP probe whose path has no slash at its beginning",
        "It is sent as the empty path, which no request has",
        "It is sent with the slash with which the kubelet requests it",
        "Linkerd's message exempts nothing, and the probe fails",
    ),
    unflagged(
        "strangers-routes",
        "A GRPCRoute of another namespace that names a Server",
        "The HTTPRoutes of the Server have no effect",
        "It has no effect on others",
        "Anybody could detach the routes of others",
    ),
    unflagged(
        "invalid-updates",
        "An update that makes an object invalid",
        "The former version stays in force until the controller starts again",
        "The object is invalid at once",
        "The decision depends on what the controller has seen before. After a restart of Linkerd's \
         controller the flags above give the same decision",
    ),
    unflagged(
        "pod-updates",
        "Ports and probes of a pod of the same name, recreated",
        "Those of the former pod, if its deletion was missed",
        "Those of the pod",
        "The decision depends on which events the controller has missed",
    ),
    unflagged(
        "emptied-namespaces",
        "Rate limits and GRPCRoutes of a namespace in which for a moment there was nothing else",
        "They are forgotten until they change or the controller starts again",
        "They take effect",
        "The decision depends on the order of events that the controller has seen",
    ),
    unflagged(
        "route-acceptance",
        "The time at which a route or a rate limit takes effect",
        "After its status was written and read back",
        "As soon as it is valid; status only reports",
        "The decision depends on the writer of status, and ends with it",
    ),
    unflagged(
        "large-messages",
        "A policy above `--max-policy-bytes` (4 MiB)",
        "It is sent, and clients with the usual bound cannot read it",
        "What other namespaces contribute is denied, else the port; a condition says so",
        "A client that cannot read the message keeps what it had",
    ),
    // The controller, beside messages.
    of_controller(
        "readiness",
        "Readiness of a replica",
        "The first event of each watch",
        "Its webhook port listens, and every required kind was listed once",
    ),
    of_controller(
        "callers",
        "Clients that may watch a workload",
        "Every client",
        "The workload's own identity, and viewers (docs/callers.md)",
    ),
    of_controller(
        "workloads",
        "Pods without the label of Linkerd's injector",
        "They are unknown",
        "They have a policy. No proxy of Linkerd requests it",
    ),
    // Our sidecar.
    Difference {
        name: "localhost",
        matter: "Connections from loopback addresses",
        linkerd: "The proxy permits them on every port",
        portcullis: "They need an authorization",
        seen_in: SeenIn::Sidecar,
        restoration: Restoration::Flag {
            name: "localhost-authorization",
            value: "true",
            set: localhost,
        },
    },
    Difference {
        name: "pending-policy",
        matter: "A port whose policy has not arrived",
        linkerd: "The default policy of the pod's environment",
        portcullis: "The connection waits, then `policy_pending` (503, UNAVAILABLE)",
        seen_in: SeenIn::Sidecar,
        restoration: Restoration::Elsewhere("`--pending-policy=default` of the sidecar"),
    },
    Difference {
        name: "paths",
        matter: "The path that policy sees",
        linkerd: "The path as it was sent",
        portcullis: "One canonical form, which is logged and forwarded; ambiguous targets are \
                     answered 400",
        seen_in: SeenIn::Sidecar,
        restoration: Restoration::Elsewhere(
            "the annotation `portcullis.dev/path-normalization: raw` of the Server",
        ),
    },
    of_sidecar(
        "precedence",
        "Precedence of routes",
        "By length of the path",
        "The Gateway API's order. The reason `PrecedenceDiffers` names where they disagree",
    ),
    of_sidecar(
        "tls-required",
        "No ClientHello on a Server of protocol TLS",
        "It is forwarded",
        "It is refused with reason `tls_required`",
    ),
    of_sidecar(
        "foreign-addresses",
        "An address that is not the pod's",
        "It is forwarded",
        "It is refused",
    ),
    of_sidecar(
        "direct-connections",
        "A direct connection without a session protocol",
        "Bytes, by the connection's authorization",
        "HTTP is looked for unless the Server declares bytes",
    ),
    of_sidecar(
        "orig-proto",
        "The header `l5d-orig-proto`",
        "Believed of every client",
        "Believed of clients with an identity",
    ),
    of_sidecar(
        "first-certificate",
        "The time before the first certificate",
        "No connection is accepted",
        "Plaintext is accepted and decided; TLS for the workload's name is passed on unread, as \
         foreign TLS",
    ),
    of_sidecar(
        "any-identity",
        "Any identity (`*`, `all-authenticated`)",
        "DNS identities",
        "Every verified identity, SPIFFE included",
    ),
    of_sidecar(
        "several-identities",
        "A certificate with several identities",
        "The first",
        "Exactly one `spiffe://` URI, else exactly one DNS name, else unauthenticated",
    ),
    of_sidecar(
        "detection",
        "Protocol detection",
        "One read decides",
        "Reads until it can be decided, within bounds of bytes and time",
    ),
    of_sidecar(
        "lost-controller",
        "A lost controller",
        "The last policy for ever",
        "The last policy; its age is a metric, and a maximum age may close the port",
    ),
    of_sidecar(
        "revocation",
        "A permission that ends",
        "New requests, and open TCP connections",
        "Open HTTP streams, upgraded tunnels and gRPC streams, too",
    ),
    of_sidecar(
        "invalid-messages",
        "An invalid message of the controller",
        "The whole port is denied",
        "The last good policy stays; the message is refused (NACK) with the path of its field",
    ),
    of_sidecar(
        "repeated-headers",
        "A header that a match names, on several lines of a request",
        "One matching line suffices",
        "All lines match, or none, or the request is refused",
    ),
];

fn probe_networks(config: &mut ControllerConfig, whose: Whose) {
    let everywhere = [IpNet::V4(Ipv4Net::default()), IpNet::V6(Ipv6Net::default())];
    config.probe_networks = match whose {
        Whose::Linkerd => everywhere.map(NetworkMatch::net).to_vec(),
        Whose::Portcullis => ControllerConfig::default().probe_networks,
    };
}

fn probe_routes(config: &mut ControllerConfig, whose: Whose) {
    config.probe_routes = match whose {
        Whose::Linkerd => ProbeRoutes::Unrouted,
        Whose::Portcullis => ProbeRoutes::Always,
    };
}

fn reference_grants(config: &mut ControllerConfig, whose: Whose) {
    config.reference_grants = match whose {
        Whose::Linkerd => ReferenceGrants::Warn,
        Whose::Portcullis => ReferenceGrants::Enforce,
    };
}

fn localhost(config: &mut ControllerConfig, whose: Whose) {
    config.localhost_authorization = whose == Whose::Linkerd;
}

type Set = fn(&mut ControllerConfig, Whose);

/// A difference of messages with a flag of its own kind. The texts are name, matter, Linkerd's
/// behaviour and ours.
const fn flagged(texts: [&'static str; 4], flag: (&'static str, &'static str, Set)) -> Difference {
    let [difference, matter, linkerd, portcullis] = texts;
    let (name, value, set) = flag;
    Difference {
        name: difference,
        matter,
        linkerd,
        portcullis,
        seen_in: SeenIn::Messages,
        restoration: Restoration::Flag { name, value, set },
    }
}

/// A difference of messages whose flag has the difference's name.
const fn switched(
    name: &'static str,
    matter: &'static str,
    linkerd: &'static str,
    portcullis: &'static str,
    behaviour: Behaviour,
) -> Difference {
    let restoration = Restoration::Behaviour(behaviour);
    Difference { name, matter, linkerd, portcullis, seen_in: SeenIn::Messages, restoration }
}

/// A difference of messages without a flag.
const fn unflagged(
    name: &'static str,
    matter: &'static str,
    linkerd: &'static str,
    portcullis: &'static str,
    reason: &'static str,
) -> Difference {
    let restoration = Restoration::None(reason);
    Difference { name, matter, linkerd, portcullis, seen_in: SeenIn::Messages, restoration }
}

/// A difference of the controller that no message shows.
const fn of_controller(
    name: &'static str,
    matter: &'static str,
    linkerd: &'static str,
    portcullis: &'static str,
) -> Difference {
    let restoration = Restoration::None("No message shows it");
    Difference { name, matter, linkerd, portcullis, seen_in: SeenIn::Controller, restoration }
}

/// A difference of our sidecar.
const fn of_sidecar(
    name: &'static str,
    matter: &'static str,
    linkerd: &'static str,
    portcullis: &'static str,
) -> Difference {
    let restoration = Restoration::None("Linkerd's proxies keep their behaviour");
    Difference { name, matter, linkerd, portcullis, seen_in: SeenIn::Sidecar, restoration }
}
