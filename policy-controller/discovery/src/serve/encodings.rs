//! Encodings of policies for the native API, made once for all clients with the same features.
//!
//! An update has two parts: port and revision, which belong to one client, and the rest, which is
//! shared. Concatenated they are one message, because protobuf reads fields in any order.

use crate::serve::applied::{Omissions, TooLarge, cut};
use crate::serve::cache::Cache;
use crate::serve::codec::Payload;
use crate::serve::core::Core;
use bytes::{Bytes, BytesMut};
use parking_lot::Mutex;
use policy_core::feature::Feature;
use policy_core::{Denied, Revision, ServerPolicy};
use policy_engine::contributions::{Excess, expressions, fitted, owners_part};
use policy_engine::publish::PortPolicy;
use policy_proto::messages::PortUpdate;
use policy_proto::native::{EncodedPort, diff, encode_port, encode_revision};
use prost::Message;
use prost::encoding::{WireType, encode_key, encode_varint};
use std::collections::BTreeSet;
use std::num::NonZeroU16;
use std::sync::{Arc, Weak};

/// Field of `WatchResponse` that holds a `PortUpdate`.
const PORT_FIELD: u32 = 2;

/// Description of the clients that are not sent everything, for conditions of objects.
const CLIENTS: &str = "proxies of another version";

/// Description of the clients of the native API, whatever their version.
const EVERY_CLIENT: &str = "sidecars";

/// The features of a client that this version knows.
pub(crate) type Features = Arc<BTreeSet<Feature>>;

/// The encodings that clients have now, and the state to make them.
#[derive(Clone, Debug)]
pub(crate) struct Encodings {
    pub(crate) core: Arc<Core>,
    cache: Arc<Cache<ServerPolicy, Features, Encoding>>,
}

impl Encodings {
    /// Creates an empty cache.
    pub(crate) fn new(core: Arc<Core>) -> Self {
        Self { core, cache: Arc::default() }
    }

    /// Returns the encoding of `policy` for clients with `features`.
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
        let (limit, most) =
            (self.core.config.max_update_bytes, self.core.config.max_expression_bytes);
        let encoding = self.encoded(policy, features);
        let (size, compiled) = (encoding.full.len(), expressions(policy));
        let (too_large, excess) = if size > limit {
            let of = "an update may have";
            (TooLarge { size, limit, of }, Excess::Bytes(size.saturating_sub(limit)))
        } else if compiled > most {
            let of = "the expressions of a port may take when compiled";
            let excess = Excess::Expressions(compiled.saturating_sub(most));
            (TooLarge { size: compiled, limit: most, of }, excess)
        } else {
            return encoding;
        };
        self.core.metrics.too_large("native");
        // What the owner's own expressions take is the owner's affair: others must not add to it.
        let most = most.max(expressions(&owners_part(policy)));
        let less = fitted(policy, excess, |less| {
            let encoding = self.encoded(less, features);
            let fits = encoding.full.len() <= limit && expressions(less) <= most;
            fits.then_some(encoding)
        });
        if let Some((encoding, lacking)) = less {
            too_large.log(policy, &lacking);
            let omissions = Omissions::lacking(EVERY_CLIENT, policy, &too_large, &lacking);
            let omissions = Omissions::both(omissions, encoding.omissions.clone());
            let extent = match encoding.extent {
                Extent::Whole | Extent::Cut => Extent::Cut,
                Extent::Partial => Extent::Partial,
            };
            return Encoding { extent, omissions, ..encoding };
        }
        if size <= limit && compiled <= most {
            return encoding;
        }
        too_large.log(policy, &[]);
        let denial = encode_port(&Core::denial(policy, Denied::ProxyUnsupported), features);
        let omissions = Omissions::of(EVERY_CLIENT, policy, &[too_large.denial()]);
        Encoding { extent: Extent::Partial, omissions, ..Encoding::new(denial) }
    }

    fn encoded(&self, policy: &ServerPolicy, features: &Features) -> Encoding {
        let port = encode_port(policy, features);
        self.core.metrics.replaced("native", &policy.owner, port.unsupported());
        let omissions = Omissions::of(CLIENTS, policy, port.unsupported());
        Encoding { omissions, ..Encoding::new(port) }
    }
}

/// The extent to which an encoding has a policy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Extent {
    /// All of it.
    Whole,
    /// All but contributions of other namespaces, for which there was no room: their paths are denied.
    Cut,
    /// Less, because the client could not enforce all of it, or not even the owner's part fits.
    Partial,
}

/// The encoding of a policy for clients with one set of features.
#[derive(Debug)]
pub(crate) struct Encoding {
    port: EncodedPort,
    extent: Extent,
    /// Parts of the policy that it leaves out.
    omissions: Option<Arc<Omissions>>,
    /// The full state, without port and revision.
    full: Bytes,
    /// The change from another encoding, for each that some client has.
    changes: Mutex<Vec<(Weak<Encoding>, Bytes)>>,
    /// The own part of the last update. Pods of one shape are published the same, so that most
    /// updates can reuse it.
    last_header: Mutex<Option<(Weak<PortPolicy>, NonZeroU16, UpdateHeader)>>,
}

/// The part of an update that belongs to one client.
#[derive(Clone, Debug)]
pub(crate) struct UpdateHeader {
    /// The revision as sent.
    pub(crate) revision: Arc<Revision>,
    /// Port and revision, encoded.
    pub(crate) own: Bytes,
}

impl Encoding {
    fn new(port: EncodedPort) -> Self {
        let full = shared(port.full(NonZeroU16::MIN, &Revision::default()));
        let whole = port.unsupported().is_empty();
        let extent = if whole { Extent::Whole } else { Extent::Partial };
        let (changes, last_header) = (Mutex::default(), Mutex::default());
        Self { port, extent, omissions: None, full, changes, last_header }
    }

    /// Returns the own part of an update about `published`, which this encodes, on `port`.
    pub(crate) fn header(&self, published: &Arc<PortPolicy>, port: NonZeroU16) -> UpdateHeader {
        let mut last_header = self.last_header.lock();
        if let Some((policy, number, header)) = &*last_header
            && policy.as_ptr() == Arc::as_ptr(published)
            && *number == port
        {
            return header.clone();
        }
        let mut revision = published.revision.clone();
        revision.content = self.content();
        let own = own_part(port, &revision);
        let header = UpdateHeader { revision: Arc::new(revision), own };
        *last_header = Some((Arc::downgrade(published), port, header.clone()));
        header
    }

    /// Hash of the policy as sent.
    pub(crate) fn content(&self) -> u64 {
        self.port.content()
    }

    /// The hash by which a client's acknowledgement of it is counted, for a policy whose content has this
    /// hash: 0 where the client could not enforce all of it.
    pub(crate) fn acknowledged(&self, content: u64) -> u64 {
        match self.extent {
            Extent::Whole => content,
            Extent::Cut => cut(content),
            Extent::Partial => 0,
        }
    }

    /// Returns the parts of the policy that it leaves out.
    pub(crate) fn omissions(&self) -> Option<&Arc<Omissions>> {
        self.omissions.as_ref()
    }

    /// True if both are the same message.
    pub(crate) fn is_same_message(&self, other: &Encoding) -> bool {
        self.full == other.full
    }

    /// The full state.
    pub(crate) fn full(&self) -> Bytes {
        self.full.clone()
    }

    /// Returns the change for a client that has `base`, or the full state if that is smaller.
    pub(crate) fn change_from(&self, base: &Arc<Encoding>) -> Bytes {
        let mut changes = self.changes.lock();
        changes.retain(|(known, _)| known.strong_count() > 0);
        let known = changes.iter().find(|(known, _)| known.as_ptr() == Arc::as_ptr(base));
        if let Some((_, bytes)) = known {
            return bytes.clone();
        }
        // A change of nearly everything is no smaller than everything, and has a bound of its own.
        let mut bytes = self.after(&base.port);
        // Where the hashes collide, a client could not distinguish the two.
        if bytes.len() >= self.full.len()
            || (self.content() == base.content() && !self.is_same_message(base))
        {
            bytes = self.full();
        }
        changes.push((Arc::downgrade(base), bytes.clone()));
        bytes
    }

    /// Returns the update for a client that reports to have the same content.
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

/// The own part of an update: port and revision.
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
