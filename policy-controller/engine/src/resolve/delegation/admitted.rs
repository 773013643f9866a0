//! The children of a rule, told apart by whether they take part.

use super::child::{Child, ChildContent, Vertex};
use crate::query::delegation::EdgeFault;
use policy_core::HostPattern;
use policy_crds::ObjectKey;
use std::collections::BTreeSet;

/// The most paths of a child that does not take part that are closed one by one.
const MAX_CLOSED: usize = 64;

/// The children of a rule that delegates.
pub(super) struct Admitted<'a> {
    /// Those that have paths, invalid ones among them, which keep theirs closed.
    pub(super) accepted: Vec<Child<'a>>,
    /// Those that take part.
    pub(super) children: Vec<ObjectKey>,
    /// The faults of the others.
    pub(super) refused: Vec<EdgeFault>,
    /// The hosts that none of them lists.
    pub(super) closed: BTreeSet<HostPattern>,
    /// The fault of one that does not take part and has more paths than can be closed one by one.
    pub(super) whole: Option<EdgeFault>,
}

impl<'a> Admitted<'a> {
    /// Nobody yet.
    pub(super) fn of(hosts: &[HostPattern]) -> Self {
        Self {
            accepted: Vec::new(),
            children: Vec::new(),
            refused: Vec::new(),
            closed: hosts.iter().cloned().collect(),
            whole: None,
        }
    }

    /// Adds the fault of a child that does not take part. Those that are selected with it must not answer
    /// the paths of an InboundRoute.
    pub(super) fn refuse(&mut self, fault: EdgeFault, vertex: Option<Vertex<'a>>) {
        match vertex {
            Some((.., route)) if route.routes.len() > MAX_CLOSED => self.whole = Some(fault),
            Some((key, hosts, route)) => {
                let content = ChildContent::Refused(route, fault.clone());
                self.accepted.push(Child { key, content, hosts });
                self.refused.push(fault);
            }
            None => self.refused.push(fault),
        }
    }
}
