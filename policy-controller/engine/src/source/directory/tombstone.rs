//! Tombstones of objects whose declaration can no longer be read: they keep their claims and lose
//! their grants (docs/spec/decisions.md, *Invalid objects*).

use policy_core::DefaultPolicy;
use policy_crds::annotation::{self, Annotations, DEFAULT_INBOUND_POLICY};
use policy_crds::resource::{ContainerPort, Node, Pod};
use policy_crds::{Body, Claims, FieldError, Invalid, Object, Resource};

/// The object without its grants.
pub(super) fn tombstone(object: &Object) -> Object {
    let mut meta = object.meta.clone();
    let body = match &object.body {
        Body::Invalid(invalid) => Body::Invalid(invalid.clone()),
        Body::Valid(Resource::Pod(pod)) => {
            deny_default(&mut meta.annotations);
            Body::Valid(Resource::Pod(without_probes(pod)))
        }
        Body::Valid(
            resource
            @ (Resource::ExternalWorkload(_) | Resource::Namespace | Resource::Workload(_)),
        ) => {
            deny_default(&mut meta.annotations);
            Body::Valid(resource.clone())
        }
        Body::Valid(Resource::Node(_)) => {
            Body::Valid(Resource::Node(Node { addresses: Vec::new(), pod_gateways: Vec::new() }))
        }
        Body::Valid(resource @ (Resource::ServiceAccount | Resource::Unused)) => {
            Body::Valid(resource.clone())
        }
        Body::Valid(resource) => invalid(meta.key.kind.spec().claims(Some(resource))),
    };
    Object { meta, body }
}

fn invalid(claims: Claims) -> Body {
    let message = "the declaration can no longer be read; what the object granted is withdrawn, \
                   what it claimed is kept";
    let error = FieldError { field: "apiVersion".to_owned(), message: message.to_owned() };
    Body::Invalid(Invalid { errors: vec![error], claims })
}

/// A default policy that the object set grants nothing any more.
fn deny_default(annotations: &mut Annotations) {
    let before = annotations.len();
    annotations.retain(|name, _| !annotation::DEFAULT_POLICY.contains(&&**name));
    if annotations.len() != before {
        annotations.insert(DEFAULT_INBOUND_POLICY.into(), DefaultPolicy::Deny.as_str().into());
    }
}

/// Probes exempt, but their ports are declared.
fn without_probes(pod: &Pod) -> Pod {
    let mut pod = pod.clone();
    for probe in std::mem::take(&mut pod.probes) {
        if probe.reaches_the_pod() && pod.ports.iter().all(|port| port.number != probe.port) {
            pod.ports.push(ContainerPort { name: None, number: probe.port });
        }
    }
    pod
}
