//! Messages to the client.

use super::Session;
use crate::serve::applied::OmissionGuard;
use crate::serve::codec::Payload;
use crate::serve::core::Core;
use crate::serve::encodings::{own_part, update};
use policy_core::{DefaultPolicy, Denied, Owner, Revision, UndeclaredPorts};
use policy_engine::publish::LookupError;
use policy_proto::messages::{Undeclared, WatchResponse, Workload, watch_response};
use policy_proto::native::{encode_facts, encode_revision};
use prost::Message;
use std::collections::BTreeMap;
use std::num::NonZeroU16;
use std::sync::Arc;

impl Session {
    /// True if a message is to be sent.
    pub(super) fn is_due(&self) -> bool {
        let ports = || self.ports.values().any(|port| port.is_due());
        let any = self.workload_due || !self.refused.is_empty() || ports();
        any && self.workload_hold.is_none()
    }

    /// The next message: the workload first, then ports in order. `None`: the client
    /// has the pending state already.
    pub(super) fn next_message(&mut self) -> Option<Payload> {
        if std::mem::take(&mut self.workload_due) {
            return Some(self.workload());
        }
        if let Some((port, error)) = self.refused.pop_first() {
            return Some(self.refusal(port, error));
        }
        let due = self.ports.iter_mut().find(|(_, port)| port.is_due());
        let (number, port) = due?;
        let number = *number;
        port.due = false;
        let published = port.policy.current();
        let encoding = self.service.encoding(&published.policy, &self.features);
        let header = encoding.header(&published, number);
        // A viewer enforces nothing.
        let omissions = encoding.omissions().filter(|_| self.grant.is_own());
        OmissionGuard::replace(&mut port.omission_guard, &self.service.core.applied, omissions);
        let shared = match &port.sent {
            // Equal hashes are no proof of equal content.
            Some(sent)
                if sent.revision == header.revision && sent.encoding.is_same_message(&encoding) =>
            {
                return None;
            }
            Some(sent) => encoding.change_from(&sent.encoding),
            // A hash alone proves nothing, nor does another epoch's numbering.
            None if port.reported.as_ref() == Some(&*header.revision) => encoding.unchanged(),
            None => encoding.full(),
        };
        let payload = update(&header.own, shared);
        port.note_sent(&published, encoding, header.revision);
        Some(payload)
    }

    fn workload(&self) -> Payload {
        let state = &self.workload;
        let workload = Workload {
            name: self.key.to_string(),
            facts: Some(encode_facts(&state.facts)),
            declared_ports: state.declared.iter().map(|port| port.get().into()).collect(),
            undeclared: match state.undeclared {
                UndeclaredPorts::Default => Undeclared::Default.into(),
                UndeclaredPorts::Deny => Undeclared::Deny.into(),
            },
            revision: Some(encode_revision(&state.revision)),
            takes_refusals: self.grant.is_own(),
        };
        let kind = Some(watch_response::Kind::Workload(workload));
        Payload::shared(WatchResponse { kind }.encode_to_vec().into())
    }

    /// A port that cannot be watched is denied, so that the client need not guess; its other ports
    /// are not affected.
    fn refusal(&self, port: NonZeroU16, error: LookupError) -> Payload {
        if let Some(left_out) = self.line("subscription refused") {
            tracing::warn!(workload = %self.key, port, %error, left_out, "subscription refused");
        }
        let owner = Owner::Default(DefaultPolicy::Deny);
        let denial = Arc::new(Core::denied(owner, Denied::PolicyPending));
        let encoding = self.service.encoding(&denial, &self.features);
        let epoch = self.service.core.policies.seen().borrow().revision.epoch.clone();
        let revision = Revision { epoch, content: encoding.content(), versions: BTreeMap::new() };
        update(&own_part(port, &revision), encoding.full())
    }
}
