//! The objects of which every reason is told, and what each is told.

use policy_crds::Kind;

/// A row: the object, and its conditions with their messages. `NS` is the namespace.
pub(super) type Row = (Kind, &'static str, &'static [&'static str]);

pub(super) const ACCEPTED: &str = "Accepted=True Accepted: ";
pub(super) const RESOLVED: &str = "ResolvedRefs=True ResolvedRefs: ";
pub(super) const INVALID: &str = "spec.networks[0].cidr: `10.0.0.0/99` has no valid length after `/`, expected 0 \
                       to 32 without leading zeros";
pub(super) const BARE: &str =
    "Programmed=False NoSidecar: 1 pod has no sidecar, so it is not enforced there";

/// Objects of the namespace. `STATUS` stands for the status of ordinary pods.
pub(super) const MANIFESTS: &str = r"
apiVersion: v1
kind: Pod
metadata: {name: web, namespace: NS, labels: {app: web, portcullis.dev/proxy: injected}}
spec: {containers: [{name: a, image: a, ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: silent, namespace: NS, labels: {app: silent, portcullis.dev/proxy: injected}}
spec: {containers: [{name: a, image: a, ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: bare, namespace: NS, labels: {app: bare}}
spec: {containers: [{name: a, image: a, ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: linkerd, namespace: NS, labels: {app: linkerd, linkerd.io/control-plane-ns: linkerd}}
spec: {containers: [{name: a, image: a, ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: mixed-0, namespace: NS, labels: {app: mixed, portcullis.dev/proxy: injected}}
spec: {containers: [{name: a, image: a, ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: mixed-1, namespace: NS, labels: {app: mixed}}
spec: {containers: [{name: a, image: a, ports: [{name: http, containerPort: 8080}]}]}
---
apiVersion: v1
kind: Pod
metadata: {name: skips, namespace: NS, labels: {app: skips, portcullis.dev/proxy: injected}}
spec:
  initContainers:
  - {name: portcullis-init, image: a, args: [redirect, '--skip-inbound-ports=8080']}
  containers: [{name: a, image: a, ports: [{name: http, containerPort: 8080}]}]
---
apiVersion: v1
kind: Pod
metadata: {name: idle, namespace: NS, labels: {app: idle, portcullis.dev/proxy: injected}}
spec: {containers: [{name: a, image: a, ports: [{name: http, containerPort: 8080}]}]}
";

/// Servers by name: what they select, and their port.
pub(super) const SERVERS: [(&str, &str, &str); 11] = [
    ("a-web", "web", "8080"),
    ("b-web", "web", "http"),
    ("c-part", "web, silent", "8080"),
    ("bare", "bare", "8080"),
    ("linkerd", "linkerd", "8080"),
    ("mixed", "mixed", "8080"),
    ("skips", "skips", "8080"),
    ("idle", "idle", "8080"),
    ("typo", "wbe", "8080"),
    ("port", "bare", "htpt"),
    ("nobody", "nobody-at-all-has-this", "8080"),
];

/// Policies by name: the kind and name that they target, and the authentication that they name.
pub(super) const POLICIES: [(&str, &str, &str, &str); 6] = [
    ("web", "Server", "a-web", "everybody"),
    ("gone", "Server", "gone", "lost"),
    ("no-clients", "Server", "a-web", "gone"),
    ("displaced", "Server", "b-web", "everybody"),
    ("route", "HTTPRoute", "gone", "everybody"),
    ("bare", "Server", "bare", "of-bare"),
];

pub(super) const OTHERS: &str = r"
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {name: unused, namespace: NS}
spec: {networks: [{cidr: 10.0.0.0/8}]}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: NetworkAuthentication
metadata: {name: invalid, namespace: NS}
spec: {networks: [{cidr: 10.0.0.0/99}]}
---
apiVersion: policy.linkerd.io/v1beta1
kind: ServerAuthorization
metadata: {name: labels, namespace: NS}
spec: {server: {selector: {matchLabels: {role: none}}}, client: {unauthenticated: true}}
---
apiVersion: policy.linkerd.io/v1beta1
kind: ServerAuthorization
metadata: {name: named, namespace: NS}
spec: {server: {name: bare}, client: {unauthenticated: true}}
---
apiVersion: policy.linkerd.io/v1beta1
kind: ServerAuthorization
metadata: {name: invalid, namespace: NS}
spec: {server: {name: a-web}, client: {networks: [{cidr: 10.0.0.0/99}], unauthenticated: true}}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: AuthorizationPolicy
metadata: {name: invalid, namespace: NS}
spec:
  targetRef: {group: policy.linkerd.io, kind: Server, name: a-web}
  requiredAuthenticationRefs:
  - {group: policy.linkerd.io, kind: NetworkAuthentication, name: invalid}
---
apiVersion: policy.linkerd.io/v1alpha1
kind: HTTPLocalRateLimitPolicy
metadata: {name: bare, namespace: NS}
spec: {targetRef: {group: policy.linkerd.io, kind: Server, name: bare}, total: {requestsPerSecond: 10}}
---
apiVersion: policy.linkerd.io/v1beta3
kind: HTTPRoute
metadata: {name: bare, namespace: NS}
spec:
  parentRefs: [{group: policy.linkerd.io, kind: Server, name: bare}]
  rules: [{matches: [{path: {type: PathPrefix, value: /}}]}]
";

/// The table.
pub(super) const ROWS: &[Row] = &[
    (Kind::Server, "a-web", &[ACCEPTED, "Programmed=True Programmed: in force on 1 of 1 proxies"]),
    (
        Kind::Server,
        "b-web",
        &[
            "Accepted=False Conflicted: takes no effect: what it selects is owned by Server NS/a-web \
             (the older Server counts, then the first by name)",
            "Programmed=False Conflicted: takes no effect: what it selects is owned by Server \
             NS/a-web (the older Server counts, then the first by name)",
        ],
    ),
    (
        Kind::Server,
        "c-part",
        &[
            ACCEPTED,
            "Programmed=False Pending: in force on 0 of 1 proxies; takes no effect on some \
             workloads: what it selects is owned by Server NS/a-web (the older Server counts, then \
             the first by name)",
        ],
    ),
    (Kind::Server, "bare", &[ACCEPTED, BARE]),
    (
        Kind::Server,
        "linkerd",
        &[
            ACCEPTED,
            "Programmed=Unknown CompatibleProxies: 1 workload has a proxy of Linkerd's API and does \
             not report what is in force there",
        ],
    ),
    (
        Kind::Server,
        "mixed",
        &[
            ACCEPTED,
            "Programmed=False Pending: in force on 0 of 1 proxies; 1 pod has no sidecar, so it is \
             not enforced there",
        ],
    ),
    (
        Kind::Server,
        "skips",
        &[
            ACCEPTED,
            "Programmed=False PortsSkipped: 1 pod takes port 8080 out of redirection \
             (skip-inbound-ports), so it is not enforced there",
        ],
    ),
    (
        Kind::Server,
        "idle",
        &[ACCEPTED, "Programmed=False NotRunning: 1 pod selected, none of which runs"],
    ),
    (
        Kind::Server,
        "typo",
        &[ACCEPTED, "Programmed=False NoTarget: selects no pod of namespace `NS`"],
    ),
    (
        Kind::Server,
        "port",
        &[
            ACCEPTED,
            "Programmed=False NoTarget: no selected pod has a port named `htpt`; they have `http` \
             (8080); is `http` meant?",
        ],
    ),
    (
        Kind::Server,
        "nobody",
        &[ACCEPTED, "Programmed=False NoTarget: selects no pod of namespace `NS`"],
    ),
    (
        Kind::AuthorizationPolicy,
        "web",
        &[ACCEPTED, "Programmed=True Programmed: in force on 1 of 1 proxies", RESOLVED],
    ),
    (
        Kind::AuthorizationPolicy,
        "gone",
        &[
            "Accepted=False NoMatchingTarget: Server NS/gone does not exist",
            "Programmed=False NoTarget: Server NS/gone does not exist",
            RESOLVED,
        ],
    ),
    (
        Kind::AuthorizationPolicy,
        "no-clients",
        &[
            ACCEPTED,
            "Programmed=False NotResolved: it grants nothing: MeshTLSAuthentication NS/gone does not \
             exist",
            "ResolvedRefs=False RefNotFound: MeshTLSAuthentication NS/gone does not exist",
        ],
    ),
    (
        Kind::AuthorizationPolicy,
        "invalid",
        &[
            ACCEPTED,
            "Programmed=False NotResolved: it grants nothing: NetworkAuthentication NS/invalid is \
             invalid",
            "ResolvedRefs=False RefInvalid: NetworkAuthentication NS/invalid is invalid",
        ],
    ),
    (
        Kind::AuthorizationPolicy,
        "displaced",
        &[
            ACCEPTED,
            "Programmed=False Conflicted: Server NS/b-web takes no effect: what it selects is owned \
             by Server NS/a-web (the older Server counts, then the first by name)",
            RESOLVED,
        ],
    ),
    (
        Kind::MeshTlsAuthentication,
        "lost",
        &[
            ACCEPTED,
            "Programmed=False NoTarget: no AuthorizationPolicy that refers to it has a target: Server \
             NS/gone does not exist",
        ],
    ),
    (Kind::MeshTlsAuthentication, "of-bare", &[ACCEPTED, BARE]),
    (
        Kind::MeshTlsAuthentication,
        "unused",
        &[ACCEPTED, "Programmed=False NotReferenced: no AuthorizationPolicy refers to it"],
    ),
    (
        Kind::NetworkAuthentication,
        "unused",
        &[ACCEPTED, "Programmed=False NotReferenced: no AuthorizationPolicy refers to it"],
    ),
    (
        Kind::ServerAuthorization,
        "labels",
        &[
            "Accepted=False NoMatchingTarget: no Server of the namespace has the labels that are \
             selected",
            "Programmed=False NoTarget: no Server of the namespace has the labels that are selected",
        ],
    ),
    (
        Kind::NetworkAuthentication,
        "invalid",
        &[
            "Accepted=False Invalid: INVALID",
            "Programmed=False NotAccepted: it is not accepted: INVALID",
        ],
    ),
    (Kind::ServerAuthorization, "named", &[ACCEPTED, BARE]),
    (
        Kind::ServerAuthorization,
        "invalid",
        &[
            "Accepted=False Invalid: spec.client.networks[0].cidr: `10.0.0.0/99` has no valid length \
             after `/`, expected 0 to 32 without leading zeros",
            "Programmed=False NotAccepted: it is not accepted: spec.client.networks[0].cidr: \
             `10.0.0.0/99` has no valid length after `/`, expected 0 to 32 without leading zeros",
        ],
    ),
    (Kind::HttpLocalRateLimitPolicy, "bare", &[ACCEPTED, BARE]),
    (Kind::PolicyHttpRoute, "bare", &[ACCEPTED, BARE, RESOLVED]),
];
