//! What decides for a workload, if anything does.

use policy_crds::{Body, Kind, Object, Resource, annotation};

/// The label by which Linkerd's injector marks the pods that have its proxy, with the namespace of
/// their control plane.
const LINKERD: &str = "linkerd.io/control-plane-ns";

/// How a workload stands to the policies that are about it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Enforcement {
    /// A sidecar of ours runs beside it, connected or not, so that it is expected to say what it has
    /// in force.
    Sidecar,
    /// It runs with a proxy that asks for policies and does not say what it has in force: Linkerd's,
    /// or one outside the cluster.
    Compatible,
    /// It runs without a sidecar: nothing of a policy holds there.
    Bare,
    /// It does not run.
    Idle,
}

impl Enforcement {
    /// How a Pod or an ExternalWorkload stands. One that cannot be read may run.
    pub fn of(object: &Object) -> Self {
        let runs = match &object.body {
            Body::Valid(Resource::Pod(pod)) => pod.running,
            Body::Valid(_) | Body::Invalid(_) => true,
        };
        match runs {
            false => Self::Idle,
            true => Self::running(object),
        }
    }

    /// How it stands when it runs. The proxy of an ExternalWorkload is not seen: it has an identity of
    /// the mesh, so there is one.
    pub fn running(object: &Object) -> Self {
        let external = object.meta.key.kind == Kind::ExternalWorkload;
        if has_our_sidecar(object) {
            Self::Sidecar
        } else if external || object.meta.labels.contains_key(LINKERD) {
            Self::Compatible
        } else {
            Self::Bare
        }
    }
}

/// Tells by the mark of the injector whether a workload has a sidecar of ours.
pub(crate) fn has_our_sidecar(object: &Object) -> bool {
    let label = object.meta.labels.get(annotation::PROXY_LABEL);
    label.is_some_and(|value| &**value == annotation::PROXY_INJECTED)
}
