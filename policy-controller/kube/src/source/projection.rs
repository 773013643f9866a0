//! Projection of an object's JSON while it is parsed: fields that policy does not need are skipped
//! without being stored, because a cluster has thousands of pods.
//!
//! Kinds of policy keep everything but `metadata.managedFields` and `status`, so that an unknown
//! field is still found and named. A test compares the parsed whole object with the parsed
//! projection.

use policy_crds::Kind;
use policy_crds::annotation::SERVICE_NAME;
use policy_crds::spec::Projection;
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::{Map, Value};
use std::fmt;

/// Maximum nesting that is kept. No field that is read is deeper than a quarter of it. The JSON
/// parser rejects a whole document at 128, and one object must not hide a list.
const MAX_DEPTH: usize = 96;

/// The fields of a value that are kept.
#[derive(Debug)]
pub(super) enum FieldMask {
    /// All of it.
    All,
    /// Nothing.
    Nothing,
    /// The mask of each element of a list. A value that is no list is kept.
    Each(&'static FieldMask),
    /// The masks of these fields. A value that is no mapping is kept.
    Fields {
        /// The fields.
        named: &'static [(&'static str, FieldMask)],
        /// True if all other fields are kept whole, else they are dropped.
        others: bool,
    },
}

impl FieldMask {
    fn field(&'static self, name: &str) -> &'static FieldMask {
        match self {
            Self::Fields { named, others } => {
                let named = named.iter().find(|(known, _)| *known == name).map(|(_, mask)| mask);
                named.unwrap_or(if *others { &Self::All } else { &Self::Nothing })
            }
            Self::All | Self::Each(_) => &Self::All,
            Self::Nothing => &Self::Nothing,
        }
    }

    fn element(&'static self) -> &'static FieldMask {
        match self {
            Self::Each(mask) => mask,
            Self::All | Self::Fields { .. } => &Self::All,
            Self::Nothing => &Self::Nothing,
        }
    }
}

const fn only(named: &'static [(&'static str, FieldMask)]) -> FieldMask {
    FieldMask::Fields { named, others: false }
}

/// The copy of the whole object that `kubectl apply` writes, which policy does not need.
const LAST_APPLIED: &str = "kubectl.kubernetes.io/last-applied-configuration";

const ANNOTATIONS: FieldMask =
    FieldMask::Fields { named: &[(LAST_APPLIED, FieldMask::Nothing)], others: true };

const METADATA: FieldMask = only(&[
    ("annotations", ANNOTATIONS),
    ("creationTimestamp", FieldMask::All),
    ("deletionTimestamp", FieldMask::All),
    ("generateName", FieldMask::All),
    ("generation", FieldMask::All),
    ("labels", FieldMask::All),
    ("name", FieldMask::All),
    ("namespace", FieldMask::All),
    ("resourceVersion", FieldMask::All),
    ("uid", FieldMask::All),
]);

/// `metadata` alone, and the fields of a `Status`, which an error event has in place of an object.
const METADATA_ONLY: FieldMask = only(&[
    ("apiVersion", FieldMask::All),
    ("kind", FieldMask::All),
    ("metadata", METADATA),
    ("code", FieldMask::All),
    ("details", FieldMask::All),
    ("message", FieldMask::All),
    ("reason", FieldMask::All),
]);

const POLICY: FieldMask = FieldMask::Fields {
    named: &[("metadata", METADATA), ("status", FieldMask::Nothing)],
    others: true,
};

/// The parts of a status that are read back: recorded times, and if the object was invalid.
const RECORDED_STATUS: FieldMask = only(&[
    ("claims", FieldMask::All),
    (
        "conditions",
        only(&[("reason", FieldMask::All), ("status", FieldMask::All), ("type", FieldMask::All)]),
    ),
    ("delegationStatuses", FieldMask::All),
    (
        "parents",
        FieldMask::Each(&only(&[
            ("conditions", FieldMask::Each(&ATTACHED)),
            ("controllerName", FieldMask::All),
            ("parentRef", FieldMask::All),
        ])),
    ),
]);

/// A condition of a route, of which the times of its hostnames are read back.
const ATTACHED: FieldMask = only(&[("message", FieldMask::All), ("type", FieldMask::All)]);

const POLICY_AND_STATUS: FieldMask = FieldMask::Fields {
    named: &[("metadata", METADATA), ("status", RECORDED_STATUS)],
    others: true,
};

const HTTP_GET: FieldMask = only(&[
    ("host", FieldMask::All),
    ("path", FieldMask::All),
    ("port", FieldMask::All),
    ("scheme", FieldMask::All),
]);

const HANDLER: FieldMask =
    only(&[("grpc", FieldMask::All), ("httpGet", HTTP_GET), ("tcpSocket", FieldMask::All)]);

const CONTAINER: FieldMask = only(&[
    ("lifecycle", only(&[("postStart", HANDLER), ("preStop", HANDLER)])),
    ("livenessProbe", HANDLER),
    ("name", FieldMask::All),
    ("ports", FieldMask::All),
    ("readinessProbe", HANDLER),
    ("startupProbe", HANDLER),
]);

/// As [`CONTAINER`], and the arguments that redirection was started with.
const INIT_CONTAINER: FieldMask = only(&[
    ("args", FieldMask::All),
    ("lifecycle", only(&[("postStart", HANDLER), ("preStop", HANDLER)])),
    ("livenessProbe", HANDLER),
    ("name", FieldMask::All),
    ("ports", FieldMask::All),
    ("readinessProbe", HANDLER),
    ("startupProbe", HANDLER),
]);

/// As [`METADATA`], and what the pod belongs to.
const POD_METADATA: FieldMask = only(&[
    ("annotations", ANNOTATIONS),
    ("creationTimestamp", FieldMask::All),
    ("deletionTimestamp", FieldMask::All),
    ("generateName", FieldMask::All),
    ("generation", FieldMask::All),
    ("labels", FieldMask::All),
    ("name", FieldMask::All),
    ("namespace", FieldMask::All),
    (
        "ownerReferences",
        FieldMask::Each(&only(&[
            ("controller", FieldMask::All),
            ("kind", FieldMask::All),
            ("name", FieldMask::All),
        ])),
    ),
    ("resourceVersion", FieldMask::All),
    ("uid", FieldMask::All),
]);

const POD: FieldMask = only(&[
    ("apiVersion", FieldMask::All),
    ("kind", FieldMask::All),
    ("metadata", POD_METADATA),
    (
        "spec",
        only(&[
            ("containers", FieldMask::Each(&CONTAINER)),
            ("hostNetwork", FieldMask::All),
            ("initContainers", FieldMask::Each(&INIT_CONTAINER)),
            ("nodeName", FieldMask::All),
            ("serviceAccount", FieldMask::All),
            ("serviceAccountName", FieldMask::All),
        ]),
    ),
    (
        "status",
        only(&[
            ("hostIP", FieldMask::All),
            ("hostIPs", FieldMask::All),
            ("phase", FieldMask::All),
            ("podIP", FieldMask::All),
            ("podIPs", FieldMask::All),
            ("startTime", FieldMask::All),
        ]),
    ),
    ("code", FieldMask::All),
    ("details", FieldMask::All),
    ("message", FieldMask::All),
    ("reason", FieldMask::All),
]);

const NODE: FieldMask = only(&[
    ("apiVersion", FieldMask::All),
    ("kind", FieldMask::All),
    ("metadata", METADATA),
    ("spec", only(&[("podCIDR", FieldMask::All), ("podCIDRs", FieldMask::All)])),
    ("status", only(&[("addresses", FieldMask::All)])),
    ("code", FieldMask::All),
    ("details", FieldMask::All),
    ("message", FieldMask::All),
    ("reason", FieldMask::All),
]);

/// The metadata of a Service that discovery reads.
const SERVICE_METADATA: FieldMask = only(&[
    ("creationTimestamp", FieldMask::All),
    ("name", FieldMask::All),
    ("namespace", FieldMask::All),
    ("resourceVersion", FieldMask::All),
]);

/// Selectors and the ports of pods are left out: slices say what they lead to.
const SERVICE: FieldMask = only(&[
    ("apiVersion", FieldMask::All),
    ("kind", FieldMask::All),
    ("metadata", SERVICE_METADATA),
    (
        "spec",
        only(&[
            ("clusterIP", FieldMask::All),
            ("clusterIPs", FieldMask::All),
            ("externalIPs", FieldMask::All),
            ("internalTrafficPolicy", FieldMask::All),
            (
                "ports",
                FieldMask::Each(&only(&[
                    ("name", FieldMask::All),
                    ("port", FieldMask::All),
                    ("protocol", FieldMask::All),
                ])),
            ),
            ("sessionAffinity", FieldMask::All),
            ("sessionAffinityConfig", FieldMask::All),
            ("type", FieldMask::All),
        ]),
    ),
    (
        "status",
        only(&[(
            "loadBalancer",
            only(&[(
                "ingress",
                FieldMask::Each(&only(&[("ip", FieldMask::All), ("ipMode", FieldMask::All)])),
            )]),
        )]),
    ),
    ("code", FieldMask::All),
    ("details", FieldMask::All),
    ("message", FieldMask::All),
    ("reason", FieldMask::All),
]);

/// The metadata of an EndpointSlice, of which there are many, and whose labels are copies of those of
/// the Service.
const SLICE_METADATA: FieldMask = only(&[
    ("labels", only(&[(SERVICE_NAME, FieldMask::All)])),
    ("name", FieldMask::All),
    ("namespace", FieldMask::All),
    ("resourceVersion", FieldMask::All),
]);

const ENDPOINT_SLICE: FieldMask = only(&[
    ("addressType", FieldMask::All),
    ("apiVersion", FieldMask::All),
    (
        "endpoints",
        FieldMask::Each(&only(&[
            ("addresses", FieldMask::All),
            ("conditions", FieldMask::All),
            ("hints", only(&[("forNodes", FieldMask::All), ("forZones", FieldMask::All)])),
            ("nodeName", FieldMask::All),
            (
                "targetRef",
                only(&[
                    ("kind", FieldMask::All),
                    ("name", FieldMask::All),
                    ("namespace", FieldMask::All),
                    ("uid", FieldMask::All),
                ]),
            ),
        ])),
    ),
    ("kind", FieldMask::All),
    ("metadata", SLICE_METADATA),
    (
        "ports",
        FieldMask::Each(&only(&[
            ("name", FieldMask::All),
            ("port", FieldMask::All),
            ("protocol", FieldMask::All),
        ])),
    ),
    ("code", FieldMask::All),
    ("details", FieldMask::All),
    ("message", FieldMask::All),
    ("reason", FieldMask::All),
]);

/// The mask of a kind.
pub(super) fn mask_of(kind: Kind) -> &'static FieldMask {
    match kind.spec().projection {
        Projection::Whole => &FieldMask::All,
        Projection::Policy => &POLICY,
        Projection::PolicyAndStatus => &POLICY_AND_STATUS,
        Projection::Metadata => &METADATA_ONLY,
        Projection::Pod => &POD,
        Projection::Node => &NODE,
        Projection::Service => &SERVICE,
        Projection::EndpointSlice => &ENDPOINT_SLICE,
    }
}

/// Deserializes the masked part of a value.
#[derive(Clone, Copy, Debug)]
pub(super) struct ProjectionSeed {
    mask: &'static FieldMask,
    depth: usize,
}

impl ProjectionSeed {
    /// Creates a seed for `mask`.
    pub(super) fn new(mask: &'static FieldMask) -> Self {
        Self { mask, depth: MAX_DEPTH }
    }

    fn nested(self, mask: &'static FieldMask) -> Self {
        Self { mask, depth: self.depth.saturating_sub(1) }
    }
}

impl<'de> DeserializeSeed<'de> for ProjectionSeed {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        if matches!(self.mask, FieldMask::Nothing) || self.depth == 0 {
            // Skipping is a loop, not a recursion: it has no bound on nesting.
            deserializer.deserialize_ignored_any(IgnoredAny)?;
            return Ok(Value::Null);
        }
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for ProjectionSeed {
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
        let element = self.nested(self.mask.element());
        while let Some(value) = list.next_element_seed(element)? {
            values.push(value);
        }
        Ok(Value::Array(values))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let mut fields = Map::new();
        while let Some(kept) = map.next_key_seed(FieldNameSeed(self.mask))? {
            match kept {
                Some((name, mask)) => {
                    fields.insert(name, map.next_value_seed(self.nested(mask))?);
                }
                None => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok(Value::Object(fields))
    }
}

/// Deserializes the name of a field to its mask; `None` where the field is dropped.
struct FieldNameSeed(&'static FieldMask);

impl<'de> DeserializeSeed<'de> for FieldNameSeed {
    type Value = Option<(String, &'static FieldMask)>;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_str(self)
    }
}

impl Visitor<'_> for FieldNameSeed {
    type Value = Option<(String, &'static FieldMask)>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("the name of a field")
    }

    fn visit_str<E: Error>(self, name: &str) -> Result<Self::Value, E> {
        let mask = self.0.field(name);
        let kept = !matches!(mask, FieldMask::Nothing);
        Ok(kept.then(|| (name.to_owned(), mask)))
    }
}
