//! What is kept of an object's JSON while it is read: the rest is skipped without being stored, so
//! that pods, of which a cluster has thousands, cost what policy needs of them.
//!
//! Kinds of policy keep everything but `metadata.managedFields` and `status`, so that a field that
//! means nothing is still found and named. A test compares what the parser makes of a whole object
//! and of a pruned one.

use policy_crds::Kind;
use policy_crds::spec::Projection;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Levels of nesting that are kept. No field that is read lies deeper than a quarter of it, and the
/// JSON parser refuses a whole document at 128: one object must not hide a list.
const MAX_DEPTH: usize = 96;

/// What is kept of a value.
#[derive(Debug)]
pub(super) enum Keep {
    /// All of it.
    All,
    /// Nothing.
    Nothing,
    /// Of each element of a list, this. What is no list is kept.
    Each(&'static Keep),
    /// Of each of these fields, that; what is no mapping is kept.
    Fields {
        /// The fields.
        named: &'static [(&'static str, Keep)],
        /// Whether all others are kept whole, or dropped.
        others: bool,
    },
}

impl Keep {
    fn field(&'static self, name: &str) -> &'static Keep {
        match self {
            Self::Fields { named, others } => {
                let named = named.iter().find(|(known, _)| *known == name).map(|(_, keep)| keep);
                named.unwrap_or(if *others { &Self::All } else { &Self::Nothing })
            }
            Self::All | Self::Each(_) => &Self::All,
            Self::Nothing => &Self::Nothing,
        }
    }

    fn element(&'static self) -> &'static Keep {
        match self {
            Self::Each(keep) => keep,
            Self::All | Self::Fields { .. } => &Self::All,
            Self::Nothing => &Self::Nothing,
        }
    }
}

const fn only(named: &'static [(&'static str, Keep)]) -> Keep {
    Keep::Fields { named, others: false }
}

/// What `kubectl apply` remembers there is the whole object once more, and says nothing of policy.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

const METADATA: Keep = only(&[
    ("annotations", Keep::Fields { named: &[(LAST_APPLIED, Keep::Nothing)], others: true }),
    ("creationTimestamp", Keep::All),
    ("deletionTimestamp", Keep::All),
    ("generateName", Keep::All),
    ("generation", Keep::All),
    ("labels", Keep::All),
    ("name", Keep::All),
    ("namespace", Keep::All),
    ("resourceVersion", Keep::All),
    ("uid", Keep::All),
]);

/// `metadata` alone, with what a `Status` says where an error takes the place of an object.
const NAMED: Keep = only(&[
    ("apiVersion", Keep::All),
    ("kind", Keep::All),
    ("metadata", METADATA),
    ("code", Keep::All),
    ("details", Keep::All),
    ("message", Keep::All),
    ("reason", Keep::All),
]);

const POLICY: Keep =
    Keep::Fields { named: &[("metadata", METADATA), ("status", Keep::Nothing)], others: true };

const HTTP_GET: Keep =
    only(&[("host", Keep::All), ("path", Keep::All), ("port", Keep::All), ("scheme", Keep::All)]);

const HANDLER: Keep = only(&[("grpc", Keep::All), ("httpGet", HTTP_GET), ("tcpSocket", Keep::All)]);

const CONTAINER: Keep = only(&[
    ("lifecycle", only(&[("postStart", HANDLER), ("preStop", HANDLER)])),
    ("livenessProbe", HANDLER),
    ("ports", Keep::All),
    ("readinessProbe", HANDLER),
    ("startupProbe", HANDLER),
]);

/// Besides, what redirection was started with.
const INIT_CONTAINER: Keep = only(&[
    ("args", Keep::All),
    ("lifecycle", only(&[("postStart", HANDLER), ("preStop", HANDLER)])),
    ("livenessProbe", HANDLER),
    ("name", Keep::All),
    ("ports", Keep::All),
    ("readinessProbe", HANDLER),
    ("startupProbe", HANDLER),
]);

const POD: Keep = only(&[
    ("apiVersion", Keep::All),
    ("kind", Keep::All),
    ("metadata", METADATA),
    (
        "spec",
        only(&[
            ("containers", Keep::Each(&CONTAINER)),
            ("initContainers", Keep::Each(&INIT_CONTAINER)),
            ("nodeName", Keep::All),
            ("serviceAccount", Keep::All),
            ("serviceAccountName", Keep::All),
        ]),
    ),
    (
        "status",
        only(&[
            ("hostIP", Keep::All),
            ("hostIPs", Keep::All),
            ("phase", Keep::All),
            ("podIP", Keep::All),
            ("podIPs", Keep::All),
        ]),
    ),
    ("code", Keep::All),
    ("details", Keep::All),
    ("message", Keep::All),
    ("reason", Keep::All),
]);

const NODE: Keep = only(&[
    ("apiVersion", Keep::All),
    ("kind", Keep::All),
    ("metadata", METADATA),
    ("spec", only(&[("podCIDR", Keep::All), ("podCIDRs", Keep::All)])),
    ("status", only(&[("addresses", Keep::All)])),
    ("code", Keep::All),
    ("details", Keep::All),
    ("message", Keep::All),
    ("reason", Keep::All),
]);

/// What is kept of objects of a kind.
pub(super) fn of(kind: Kind) -> &'static Keep {
    match kind.spec().projection {
        Projection::Whole => &Keep::All,
        Projection::Policy => &POLICY,
        Projection::Metadata => &NAMED,
        Projection::Pod => &POD,
        Projection::Node => &NODE,
    }
}

/// Reads a value, keeping what is to be kept.
#[derive(Clone, Copy, Debug)]
pub(super) struct Pruned {
    keep: &'static Keep,
    depth: usize,
}

impl Pruned {
    /// Keeps `keep`.
    pub(super) fn new(keep: &'static Keep) -> Self {
        Self { keep, depth: MAX_DEPTH }
    }

    fn inner(self, keep: &'static Keep) -> Self {
        Self { keep, depth: self.depth.saturating_sub(1) }
    }
}

impl<'de> DeserializeSeed<'de> for Pruned {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if matches!(self.keep, Keep::Nothing) || self.depth == 0 {
            // Skipping is a loop, not a recursion: it has no bound on nesting.
            deserializer.deserialize_ignored_any(IgnoredAny)?;
            return Ok(Value::Null);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Pruned {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("any JSON value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Value, E> {
        Ok(Value::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Value, E> {
        Ok(Value::from(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<Value, E> {
        Ok(Value::String(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Value, E> {
        Ok(Value::String(value))
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_none<E>(self) -> Result<Value, E> {
        Ok(Value::Null)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Value, A::Error> {
        let mut values = Vec::new();
        let element = self.inner(self.keep.element());
        while let Some(value) = list.next_element_seed(element)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(kept) = map.next_key_seed(Name(self.keep))? {
            match kept {
                Some((name, keep)) => {
                    fields.insert(name, map.next_value_seed(self.inner(keep))?);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Value::Object(fields))
    }
}

/// The name of a field, and what is kept of it; nothing where the field is dropped.
struct Name(&'static Keep);

impl<'de> DeserializeSeed<'de> for Name {
    type Value = Option<(String, &'static Keep)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for Name {
    type Value = Option<(String, &'static Keep)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let keep = self.0.field(name);
        let kept = !matches!(keep, Keep::Nothing);
        Ok(kept.then(|| (name.to_owned(), keep)))
    }
}
