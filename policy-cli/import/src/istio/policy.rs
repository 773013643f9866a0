//! A policy of Istio, with its workloads.

use crate::file::SourceNode;
use crate::mesh::{DeniedClients, MeshDenial, MeshPolicies, SelectedWorkloads};
use crate::report::Fidelity;

/// A policy that is read.
pub(super) struct IstioPolicy<'a> {
    /// The object.
    pub(super) object: SourceNode<'a>,
    /// Its name.
    pub(super) name: String,
    /// The text of its rows.
    pub(super) subject: String,
    /// Its workloads.
    pub(super) selection: SelectedWorkloads,
    /// The namespace of which it is about every pod.
    pub(super) whole_namespace: Option<String>,
    /// Its own namespace.
    pub(super) namespace: String,
    /// The trust domain of its mesh.
    pub(super) trust_domain: String,
}

impl IstioPolicy<'_> {
    /// Denies everything on its workloads, because what it denies cannot be said.
    pub(super) fn withhold(&self, policies: &mut MeshPolicies, reason: &str) {
        let row = policies.row(self.object.place(), &self.subject);
        let note = format!("{reason}: nothing is granted on its workloads");
        policies.worsen(row, Fidelity::Omitted, &note);
        policies.denials.push(MeshDenial {
            row,
            selection: self.selection.clone(),
            ports: None,
            clients: DeniedClients::All,
            requests: None,
        });
    }
}
