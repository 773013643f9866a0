//! The proxy that enforces policies for a workload, if there is one.

use policy_crds::{Body, Kind, Object, Resource, annotation};

/// The label by which Linkerd's injector marks the pods that have its proxy, with the namespace of
/// their control plane.
pub(crate) const LINKERD: &str = "linkerd.io/control-plane-ns";

/// Enforcement of policies on a workload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Enforcement {
    /// A sidecar of ours runs beside it, connected or not. It is expected to acknowledge its
    /// policies.
    Sidecar,
    /// It runs with a proxy that watches policies and does not acknowledge them: Linkerd's, or one
    /// outside the cluster.
    Compatible,
    /// It runs without a sidecar: nothing of a policy holds there.
    Bare,
    /// It does not run.
    Idle,
}

impl Enforcement {
    /// The enforcement of a Pod or an ExternalWorkload. One that cannot be read counts as running.
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

    /// The enforcement of a workload that runs. The proxy of an ExternalWorkload is not visible,
    /// but the workload has an identity of the mesh, so there is one.
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
