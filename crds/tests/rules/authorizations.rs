//! ServerAuthorizations and AuthorizationPolicies.

use crate::support::{check, object, resource};
use policy_core::NetworkSymbol;
use policy_crds::Resource;
use policy_crds::kind::Kind;
use policy_crds::resource::{
    ClientRequirement, IdentityRequirement, NamespacedName, NetworkRequirement, PolicyTarget,
};

const SAZ: &str = "policy.linkerd.io/v1beta1";
const AP: &str = "policy.linkerd.io/v1alpha1";

#[test]
#[rustfmt::skip]
fn every_rule_of_a_server_authorization_is_checked() {
    let saz = |client: &str| format!("server: {{name: web}}\nclient: {client}");
    let table: [(&str, &[&str]); 22] = [
        ("{unauthenticated: true}", &[]),
        ("{meshTLS: {unauthenticatedTLS: true}}", &[]),
        ("{meshTLS: {identities: ['*', '*.a.b', x.y]}, networks: []}", &[]),
        ("{meshTLS: {serviceAccounts: [{name: web}, {name: vote, namespace: b}]}}", &[]),
        ("{networks: [{cidr: 10.0.0.0/8}]}", &["spec.client: grants nobody: one of `meshTLS` and `unauthenticated: true` is required"]),
        ("{unauthenticated: false}", &["spec.client: grants nobody: one of `meshTLS` and `unauthenticated: true` is required"]),
        ("{unauthenticated: yes please}", &["spec.client.unauthenticated: expected `true` or `false`, found the text `yes please`"]),
        ("{unauthenticated: true, meshTLS: {identities: [a]}}", &["spec.client.meshTLS: must be absent where `unauthenticated` is `true`"]),
        ("{meshTLS: {unauthenticatedTLS: true, identities: [a]}}", &["spec.client.meshTLS.identities: must be absent where `unauthenticatedTLS` is `true`"]),
        ("{meshTLS: {unauthenticatedTLS: true, serviceAccounts: [{name: a}]}}", &["spec.client.meshTLS.serviceAccounts: must be absent where `unauthenticatedTLS` is `true`"]),
        ("{meshTLS: {}}", &["spec.client.meshTLS: grants nobody: one of `identities`, `serviceAccounts` and `unauthenticatedTLS: true` is required"]),
        ("{meshTLS: {identities: []}}", &["spec.client.meshTLS.identities: an empty list grants nobody, name somebody or remove the field"]),
        ("{meshTLS: {serviceAccounts: []}}", &["spec.client.meshTLS.serviceAccounts: an empty list grants nobody, name somebody or remove the field"]),
        ("{meshTLS: {identities: ['spiffe://a/b']}}", &["spec.client.meshTLS.identities[0]: `spiffe://a/b` is a SPIFFE id, which only a MeshTLSAuthentication may list"]),
        ("{meshTLS: {identities: ['a.*']}}", &["spec.client.meshTLS.identities[0]: `a.*` is not an identity: expected `*`, `*.<suffix>` or a lower-case DNS name"]),
        ("{meshTLS: {identities: [Web.ns]}}", &["spec.client.meshTLS.identities[0]: `Web.ns` is not an identity: expected `*`, `*.<suffix>` or a lower-case DNS name"]),
        ("{meshTLS: {identities: ['a.*', Web.ns]}}", &[
            "spec.client.meshTLS.identities[0]: `a.*` is not an identity: expected `*`, `*.<suffix>` or a lower-case DNS name",
            "spec.client.meshTLS.identities[1]: `Web.ns` is not an identity: expected `*`, `*.<suffix>` or a lower-case DNS name",
        ]),
        ("{meshTLS: {serviceAccounts: [{namespace: b}, {}]}}", &[
            "spec.client.meshTLS.serviceAccounts[0].name: is required",
            "spec.client.meshTLS.serviceAccounts[1].name: is required",
        ]),
        ("{meshTLS: {serviceAccounts: [{namespace: b}]}}", &["spec.client.meshTLS.serviceAccounts[0].name: is required"]),
        ("{meshTLS: {serviceAccounts: [{name: a, namespace: B}]}}", &["spec.client.meshTLS.serviceAccounts[0].namespace: `B` is not a namespace: up to 63 lower-case letters, digits and `-` are allowed"]),
        ("{meshTls: {identities: [a]}}", &["spec.client.meshTls: unknown field, did you mean `meshTLS`?", "spec.client: grants nobody: one of `meshTLS` and `unauthenticated: true` is required"]),
        ("{unauthenticated: true, networks: [{except: [10.0.0.0/9]}]}", &["spec.client.networks[0].cidr: is required"]),
    ];
    for (client, expected) in table {
        check(SAZ, "ServerAuthorization", &[(&saz(client), expected)]);
    }
    let server = |server: &str| format!("server: {server}\nclient: {{unauthenticated: true}}");
    let neither: &[&str] = &["spec.server: exactly one of `name` and `selector` is required"];
    check(
        SAZ,
        "ServerAuthorization",
        &[
            (&server("{selector: {}}"), &[]),
            (&server("{}"), neither),
            (&server("{name: a, selector: {}}"), neither),
            (&server("{name: A}"), &["spec.server.name: `A` is not a name: lower-case letters, digits, `-` and `.` are allowed"]),
            (&server("{name: ''}"), &["spec.server.name: must not be empty"]),
            ("client: {unauthenticated: true}", &["spec.server: is required"]),
            ("server: {name: a}", &["spec.client: is required"]),
        ],
    );
    check("policy.linkerd.io/v1alpha1", "ServerAuthorization", &[(&server("{name: a}"), &[])]);
}

#[test]
fn absent_and_empty_networks_of_a_server_authorization_are_the_clusters() {
    for networks in ["", ", networks: []", ", networks:"] {
        let spec = format!("server: {{name: web}}\nclient: {{unauthenticated: true{networks}}}");
        match resource(object(SAZ, "ServerAuthorization", &spec)) {
            Resource::ServerAuthorization(saz) => {
                assert_eq!(saz.networks, None, "{networks}");
                assert_eq!(saz.client, ClientRequirement::Unauthenticated);
            }
            other => panic!("{other:?}"),
        }
    }
}

#[test]
#[rustfmt::skip]
fn every_target_of_an_authorization_policy_is_checked() {
    let policy = |target: &str| format!("targetRef: {target}\nrequiredAuthenticationRefs: []");
    let all = "one of `Server (policy.linkerd.io)`, `Namespace`, `HTTPRoute (policy.linkerd.io)`, \
               `HTTPRoute (gateway.networking.k8s.io)`, `GRPCRoute (gateway.networking.k8s.io)`, \
               `InboundRoute (portcullis.dev)`, `HttpRouteBinding (portcullis.dev)`, \
               `HttpRouteClass (portcullis.dev)`, `GrpcServiceBinding (portcullis.dev)`, \
               `GrpcServiceClass (portcullis.dev)`";
    let table: Vec<(&str, Vec<String>)> = vec![
        ("{group: policy.linkerd.io, kind: Server, name: web}", vec![]),
        ("{group: Policy.Linkerd.IO, kind: server, name: web}", vec![]),
        ("{group: core, kind: Namespace, name: here}", vec![]),
        ("{kind: Namespace, name: here}", vec![]),
        ("{group: gateway.networking.k8s.io, kind: HttpRoute, name: r}", vec![]),
        ("{group: portcullis.dev, kind: InboundRoute, name: r}", vec![]),
        ("{group: portcullis.dev, kind: HttpRouteBinding, name: r}", vec![]),
        ("{group: portcullis.dev, kind: HttpRouteClass, name: r}", vec![]),
        ("{group: portcullis.dev, kind: GrpcServiceBinding, name: r}", vec![]),
        ("{group: portcullis.dev, kind: GrpcServiceClass, name: r}", vec![]),
        ("{kind: HttpRouteBinding, name: r}", vec!["spec.targetRef.group: is required for HttpRouteBinding, write `group: portcullis.dev`".into()]),
        ("{kind: InboundRoute, name: r}", vec!["spec.targetRef.group: is required for InboundRoute, write `group: portcullis.dev`".into()]),
        ("{kind: Server, name: web}", vec!["spec.targetRef.group: is required for Server, write `group: policy.linkerd.io`".into()]),
        ("{group: linkerd.io, kind: Server, name: web}", vec!["spec.targetRef.group: `linkerd.io` has no Server, write `group: policy.linkerd.io`".into()]),
        ("{group: apps, kind: Namespace, name: here}", vec!["spec.targetRef.group: `apps` has no Namespace, leave the field out".into()]),
        ("{kind: Namespace, name: there}", vec!["spec.targetRef.name: `there` is another namespace, only the policy's own, `here`, can be targeted".into()]),
        ("{group: apps, kind: Deployment, name: web}", vec![format!("spec.targetRef.kind: `Deployment` is not allowed here, expected {all}")]),
        ("{group: policy.linkerd.io, kind: Server}", vec!["spec.targetRef.name: is required".into()]),
        ("{group: policy.linkerd.io, kind: Server, name: web, namespace: there}", vec!["spec.targetRef.namespace: unknown field, expected one of `group`, `kind`, `name`".into()]),
        ("{name: web}", vec!["spec.targetRef.kind: is required".into()]),
    ];
    for (target, expected) in table {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(AP, "AuthorizationPolicy", &[(&policy(target), &expected)]);
    }
}

#[test]
#[rustfmt::skip]
fn every_authentication_of_an_authorization_policy_is_checked() {
    const G: &str = "group: policy.linkerd.io";
    let policy = |refs: &str| {
        let refs = refs.replace("$G", G);
        format!("targetRef: {{{G}, kind: Server, name: web}}\nrequiredAuthenticationRefs: {refs}")
    };
    let one_identity = "at most one MeshTLSAuthentication or ServiceAccount is allowed, list several clients in one MeshTLSAuthentication";
    let one_network = "at most one NetworkAuthentication or NetworkSet is allowed, list several networks in one NetworkAuthentication";
    let second = |message: &str| vec![format!("spec.requiredAuthenticationRefs[1]: {message}")];
    let first = |text: &str| vec![format!("spec.requiredAuthenticationRefs[0].{text}")];
    let table: Vec<(&str, Vec<String>)> = vec![
        ("[]", vec![]),
        ("[{$G, kind: MeshTLSAuthentication, name: a}, {$G, kind: NetworkAuthentication, name: b, namespace: c}]", vec![]),
        ("[{kind: ServiceAccount, name: a}, {group: portcullis.dev, kind: NetworkSet, name: node-local}]", vec![]),
        ("", vec!["spec.requiredAuthenticationRefs: is required".into()]),
        ("[{$G, kind: MeshTLSAuthentication, name: a}, {kind: ServiceAccount, name: b}]", second(one_identity)),
        ("[{$G, kind: MeshTLSAuthentication, name: a}, {$G, kind: MeshTLSAuthentication, name: b}]", second(one_identity)),
        ("[{kind: ServiceAccount, name: a}, {kind: ServiceAccount, name: b}]", second(one_identity)),
        ("[{$G, kind: NetworkAuthentication, name: a}, {$G, kind: NetworkAuthentication, name: b}]", second(one_network)),
        ("[{$G, kind: NetworkAuthentication, name: a}, {group: portcullis.dev, kind: NetworkSet, name: cluster}]", second(one_network)),
        ("[{kind: MeshTLSAuthentication, name: a}]", first("group: is required for MeshTLSAuthentication, write `group: policy.linkerd.io`")),
        ("[{kind: NetworkSet, name: cluster}]", first("group: is required for NetworkSet, write `group: portcullis.dev`")),
        ("[{group: portcullis.dev, kind: NetworkSet, name: world}]", first("name: unknown value `world`, expected one of `node-local`, `cluster`")),
        ("[{group: portcullis.dev, kind: NetworkSet, name: cluster, namespace: a}]", first("namespace: must be absent: a NetworkSet is built in and has no namespace")),
        ("[{$G, kind: Server, name: a}]", first("kind: `Server` is not allowed here, expected one of `MeshTLSAuthentication (policy.linkerd.io)`, `NetworkAuthentication (policy.linkerd.io)`, `ServiceAccount`, `NetworkSet (portcullis.dev)`")),
        ("[{$G, kind: MeshTLSAuthentication}]", first("name: is required")),
    ];
    for (refs, expected) in table {
        let expected: Vec<&str> = expected.iter().map(String::as_str).collect();
        check(AP, "AuthorizationPolicy", &[(&policy(refs), &expected)]);
    }
}

#[test]
fn both_halves_of_an_authorization_policy_are_kept() {
    let spec = "targetRef: {group: gateway.networking.k8s.io, kind: grpcroute, name: r}\n\
                requiredAuthenticationRefs:\n\
                - {kind: ServiceAccount, name: a, namespace: ''}\n\
                - {group: portcullis.dev, kind: NetworkSet, name: cluster}\n";
    let Resource::AuthorizationPolicy(policy) = resource(object(AP, "AuthorizationPolicy", spec))
    else {
        panic!()
    };
    assert_eq!(policy.target, PolicyTarget::Route { kind: Kind::GrpcRoute, name: "r".into() });
    let name = NamespacedName { namespace: None, name: "a".into() };
    assert_eq!(policy.identity, Some(IdentityRequirement::ServiceAccount(name)));
    assert_eq!(policy.network, Some(NetworkRequirement::Set(NetworkSymbol::Cluster)));
}
