//! What is sent for a policy over the native API, made once for all clients of the same features.
//!
//! An update is two parts: port and revision, which are one client's own, and the rest, which is
//! shared. Concatenated they are one message, for protobuf reads fields in any order.

use crate::serve::applied::Lacks;
use crate::serve::cache::Cache;
use crate::serve::codec::Payload;
use crate::serve::core::Core;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use policy_core::feature::Feature;
use policy_core::{Denied, Revision, ServerPolicy};
use policy_engine::publish::PortPolicy;
use policy_proto::messages::PortUpdate;
use policy_proto::native::{EncodedPort, diff, encode_port, encode_revision};
use policy_proto::{Fallback, Part, Unsupported};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::{Arc, Weak};

/// Field of `WatchResponse` that holds a `PortUpdate`.
const PORT_FIELD: u32 = 2;

/// Whom encodings that lack something are for, in conditions of objects that ask for more.
const CLIENTS: &str = "proxies of another version";

/// The features of a client that this version knows.
pub(crate) type Features = Arc<BTreeSet<Feature>>;

/// The encodings that clients have now, and what they are made with.
#[derive(Clone, Debug)]
pub(crate) struct Encodings {
    pub(crate) core: Arc<Core>,
    cache: Arc<Cache<Features, Encoding>>,
}

impl Encodings {
    /// None yet.
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core, cache: Arc::default() }
    }

    /// What `policy` is for a client with `features`.
    pub(crate) fn encoding(
        &self,
        policy: &Arc<ServerPolicy>,
        features: &Features,
    ) -> Arc<Encoding> {
        let (encoding, made) =
            self.cache.get(policy, features.clone(), |features| self.encode(policy, features));
        if made {
            self.core.metrics.encoded("native");
        } else {
            self.core.metrics.shared("native");
        }
        encoding
    }

    fn encode(&self, policy: &ServerPolicy, features: &Features) -> Encoding {
        let port = encode_port(policy, features);
        self.core.metrics.replaced("native", &policy.owner, port.unsupported());
        let lacks = Lacks::of(CLIENTS, policy, port.unsupported());
        let encoding = Encoding { lacks, ..Encoding::new(port) };
        let (size, limit) = (encoding.full.len(), self.core.config.max_update_bytes);
        if size <= limit {
            return encoding;
        }
        self.core.metrics.too_large("native");
        let owner = &policy.owner;
        tracing::warn!(
            ?owner,
            size,
            limit,
            "policy is too large for the client and sent as a denial"
        );
        let denial = encode_port(&Core::denial(policy, Denied::ProxyUnsupported), features);
        let message =
            format!("{size} bytes, of {limit} that an update may have: the port is denied");
        let replaced = Unsupported { part: Part::Port, fallback: Fallback::Denied, message };
        let lacks = Lacks::of(CLIENTS, policy, &[replaced]);
        Encoding { whole: false, lacks, ..Encoding::new(denial) }
    }
}

/// What a policy is for clients of one set of features.
#[derive(Debug)]
pub(crate) struct Encoding {
    port: EncodedPort,
    whole: bool,
    /// What it does not say that objects ask for.
    lacks: Option<Arc<Lacks>>,
    /// The full state, without port and revision.
    full: Bytes,
    /// The change from another encoding, for each that some client has.
    changes: Mutex<Vec<(Weak<Encoding>, Bytes)>>,
    /// What the last client was told about its port. Pods of one shape are published the same, so
    /// that most are told what the one before was.
    stamped: Mutex<Option<(Weak<PortPolicy>, NonZeroU16, Stamp)>>,
}

/// What one client is told of an update beside what all share.
#[derive(Clone, Debug)]
pub(crate) struct Stamp {
    /// The revision as sent.
    pub(crate) revision: Arc<Revision>,
    /// Port and revision, encoded.
    pub(crate) own: Bytes,
}

impl Encoding {
    fn new(port: EncodedPort) -> Self {
        let full = shared(port.full(NonZeroU16::MIN, &Revision::default()));
        let whole = port.unsupported().is_empty();
        let (changes, stamped) = (Mutex::default(), Mutex::default());
        Self { port, whole, lacks: None, full, changes, stamped }
    }

    /// What a client is told of `published`, of which this is the encoding, on `port`.
    pub(crate) fn stamp(&self, published: &Arc<PortPolicy>, port: NonZeroU16) -> Stamp {
        let mut stamped = self.stamped.lock();
        if let Some((policy, number, stamp)) = &*stamped
            && policy.as_ptr() == Arc::as_ptr(published)
            && *number == port
        {
            return stamp.clone();
        }
        let mut revision = published.revision.clone();
        revision.content = self.content();
        let own = own_part(port, &revision);
        let stamp = Stamp { revision: Arc::new(revision), own };
        *stamped = Some((Arc::downgrade(published), port, stamp.clone()));
        stamp
    }

    /// Hash of the policy as sent.
    pub(crate) fn content(&self) -> u64 {
        self.port.content()
    }

    /// Whether it says all that the policy says: nothing was left out or denied because the client
    /// could not enforce it.
    pub(crate) fn is_whole(&self) -> bool {
        self.whole
    }

    /// What it does not say that objects ask for.
    pub(crate) fn lacks(&self) -> Option<&Arc<Lacks>> {
        self.lacks.as_ref()
    }

    /// Whether both are the same message.
    pub(crate) fn says(&self, other: &Encoding) -> bool {
        self.full == other.full
    }

    /// The full state.
    pub(crate) fn full(&self) -> Bytes {
        self.full.clone()
    }

    /// What a client that has `base` lacks, or all of it where that is less.
    pub(crate) fn change_from(&self, base: &Arc<Encoding>) -> Bytes {
        let mut changes = self.changes.lock();
        changes.retain(|(known, _)| known.strong_count() > 0);
        let known = changes.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(base));
        if let Some((_, bytes)) = known {
            return bytes.clone();
        }
        // A change of nearly everything is no smaller than everything, and has a bound of its own.
        let mut bytes = self.after(&base.port);
        // Nor can one be told from the other where their hashes collide.
        if bytes.len() >= self.full.len() || (self.content() == base.content() && !self.says(base))
        {
            bytes = self.full();
        }
        changes.push((Arc::downgrade(base), bytes.clone()));
        bytes
    }

    /// What a client lacks that has the same content by its own account.
    pub(crate) fn unchanged(&self) -> Bytes {
        self.after(&self.port)
    }

    fn after(&self, base: &EncodedPort) -> Bytes {
        shared(diff(base, &self.port, NonZeroU16::MIN, &Revision::default()))
    }
}

/// The part of an update that all clients share.
fn shared(update: PortUpdate) -> Bytes {
    PortUpdate { port: 0, revision: None, ..update }.encode_to_vec().into()
}

/// The part of an update that says what is updated to what.
pub(crate) fn own_part(port: NonZeroU16, revision: &Revision) -> Bytes {
    let own = PortUpdate {
        port: port.get().into(),
        revision: Some(encode_revision(revision)),
        ..PortUpdate::default()
    };
    own.encode_to_vec().into()
}

/// The message of an update's `own` part and the part that all clients share.
pub(crate) fn update(own: &Bytes, shared: Bytes) -> Payload {
    let length = own.len().saturating_add(shared.len());
    let mut bytes = BytesMut::with_capacity(own.len().saturating_add(16));
    encode_key(PORT_FIELD, WireType::LengthDelimited, &mut bytes);
    encode_varint(u64::try_from(length).unwrap_or(u64::MAX), &mut bytes);
    bytes.extend_from_slice(own);
    Payload { own: bytes.freeze(), shared }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::testing::policy;
    use policy_proto::messages::{WatchResponse, watch_response::Kind};

    #[test]
    fn own_and_shared_part_are_one_message() {
        let port = NonZeroU16::new(8080).unwrap();
        let revision = Revision {
            epoch: "e".into(),
            content: 7,
            versions: [("policy.linkerd.io/Server".into(), 9)].into(),
        };
        let features: BTreeSet<_> = Feature::ALL.into_iter().collect();
        let encoding = Encoding::new(encode_port(&policy("web"), &features));
        let payload = update(&own_part(port, &revision), encoding.full());
        let bytes = [payload.own, payload.shared].concat();
        let Some(Kind::Port(update)) = WatchResponse::decode(&*bytes).unwrap().kind else {
            panic!("not a port update");
        };
        assert_eq!(update.port, 8080);
        assert_eq!(update.revision, Some(encode_revision(&revision)));
        let mut expected = encoding.port.full(port, &revision);
        expected.revision = update.revision.clone();
        assert_eq!(update, expected);
        assert!(update.header.is_some() && update.base.is_none());
    }
}
