//! Unknown fields of Kubernetes' own kinds, by the types of its client library.
//!
//! A type names its fields when it is deserialized. [`Walker`] is a deserializer that compares them with
//! those of the value, and gives the types what they need to go on. Where a value has another type than
//! its field, the walk ends: an API server refuses such an object.

use k8s_openapi::api::{
    apps::v1 as apps, batch::v1 as batch, core::v1 as core, discovery::v1 as discovery,
};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use policy_crds::unknown::{StatedFields, UnknownField};
use policy_crds::{Kind, template_place};
use serde::de::value::StrDeserializer;
use serde::de::{DeserializeOwned, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use serde::forward_to_deserialize_any;
use serde_json::{Error, Map, Value};
use std::cell::RefCell;

/// Fields of Kubernetes up to version 1.37 that the types of the library do not have yet.
const NEWER: &[&str] = &[
    "ClusterTrustBundleProjection.user",
    "ConfigMapVolumeSource.defaultUser",
    "Container.restartPolicyRules",
    "DownwardAPIVolumeFile.user",
    "DownwardAPIVolumeSource.defaultUser",
    "EmptyDirVolumeSource.mode",
    "EnvVarSource.fileKeyRef",
    "EphemeralContainer.restartPolicyRules",
    "GRPCAction.mode",
    "HTTPGetAction.protocol",
    "JobSpec.scheduling",
    "KeyToPath.user",
    "NodeSpec.podPreemptionPolicy",
    "NodeStatus.declaredFeatures",
    "NodeSystemInfo.runningInUserNamespace",
    "PodSpec.evictionResponders",
    "PodSpec.hostnameOverride",
    "PodSpec.schedulingGroup",
    "PodSpec.workloadRef",
    "PodStatus.allocatedResources",
    "PodStatus.extendedResourceClaimStatus",
    "PodStatus.nodeAllocatableResourceClaimStatuses",
    "PodStatus.resources",
    "PodStatus.volumeHealth",
    "ProjectedVolumeSource.defaultUser",
    "ResourceHealth.message",
    "SecretVolumeSource.defaultUser",
    "ServiceAccountTokenProjection.user",
    "VolumeMount.bindMountOptions",
    "VolumeMountStatus.volumeStatus",
    "VolumeProjection.podCertificate",
];

/// A walk through an object by the type of its kind.
type Walk = fn(Option<Kind>, &Value, &str) -> Vec<UnknownField>;

/// The types of Kubernetes' own kinds, by group and name.
const TYPES: [(&str, &str, Walk); 14] = [
    ("", "Pod", walk::<core::Pod>),
    ("", "PodTemplate", walk::<core::PodTemplate>),
    ("", "ReplicationController", walk::<core::ReplicationController>),
    ("", "Namespace", walk::<core::Namespace>),
    ("", "Node", walk::<core::Node>),
    ("", "ServiceAccount", walk::<core::ServiceAccount>),
    ("", "Service", walk::<core::Service>),
    ("discovery.k8s.io", "EndpointSlice", walk::<discovery::EndpointSlice>),
    ("apps", "Deployment", walk::<apps::Deployment>),
    ("apps", "StatefulSet", walk::<apps::StatefulSet>),
    ("apps", "DaemonSet", walk::<apps::DaemonSet>),
    ("apps", "ReplicaSet", walk::<apps::ReplicaSet>),
    ("batch", "Job", walk::<batch::Job>),
    ("batch", "CronJob", walk::<batch::CronJob>),
];

/// The unknown fields of an object of a kind of Kubernetes; of another kind those of its metadata, and of
/// the template of its pods if it has one. `kind` is absent if policy is not made from its kind.
pub(super) fn unknown_fields(kind: Option<Kind>, object: &Value) -> Vec<UnknownField> {
    let Some((group, name)) = group_and_name(object) else { return Vec::new() };
    if let Some((.., walk)) = TYPES.iter().find(|(of, own, _)| (*of, *own) == (group, name)) {
        return walk(kind, object, "");
    }
    let mut found = unknown_in_metadata(kind, object);
    let template = template_place(object).and_then(|place| Some((place, object.pointer(place)?)));
    if let Some((place, template)) = template {
        let path = place.trim_start_matches('/').replace('/', ".");
        found.extend(walk::<core::PodTemplateSpec>(None, template, &path));
    }
    found
}

/// The unknown fields in the metadata of an object.
pub(super) fn unknown_in_metadata(kind: Option<Kind>, object: &Value) -> Vec<UnknownField> {
    match object.get("metadata") {
        Some(metadata) => walk::<ObjectMeta>(kind, metadata, "metadata"),
        None => Vec::new(),
    }
}

/// The API group of an object, and the name of its kind.
fn group_and_name(object: &Value) -> Option<(&str, &str)> {
    let text = |name: &str| object.get(name).and_then(Value::as_str);
    let group = text("apiVersion")?.rsplit_once('/').map_or("", |(group, _)| group);
    Some((group, text("kind")?))
}

fn walk<T: DeserializeOwned>(kind: Option<Kind>, value: &Value, path: &str) -> Vec<UnknownField> {
    let found = RefCell::new(Vec::new());
    let walker = Walker { kind, value, path: path.to_owned(), found: &found };
    // An object of other types is refused by the API server, with a better message.
    let _ = T::deserialize(walker);
    found.into_inner()
}

/// Returns an unknown field with what was meant, where annotations or labels stand beside the `metadata` or the
/// `template` that they belong to.
fn of_metadata(unknown: UnknownField, known: &[&str]) -> UnknownField {
    let name = ["annotations", "labels"].into_iter().find(|name| {
        let before = unknown.field.strip_suffix(name);
        before.is_some_and(|before| before.is_empty() || before.ends_with('.'))
    });
    let place = ["metadata", "template"].into_iter().find(|place| known.contains(place));
    // Of a pod they stand in its spec, and belong beside it.
    let above = name.filter(|_| known.contains(&"containers")).and_then(|name| {
        let above = unknown.field.strip_suffix(name)?.strip_suffix("spec.")?;
        Some(format!("{above}metadata.{name}"))
    });
    if above.is_some() {
        return UnknownField { near: above, ..unknown };
    }
    let near = match (name, place) {
        (Some(name), Some("template")) => Some(format!("template.metadata.{name}")),
        (Some(name), Some(place)) => Some(format!("{place}.{name}")),
        (Some(_), None) | (None, _) => None,
    };
    UnknownField { near: unknown.near.or(near), ..unknown }
}

/// A value, and where it is.
struct Walker<'a> {
    kind: Option<Kind>,
    value: &'a Value,
    path: String,
    found: &'a RefCell<Vec<UnknownField>>,
}

impl<'a> Walker<'a> {
    fn at(&self, value: &'a Value, path: String) -> Walker<'a> {
        Walker { kind: self.kind, value, path, found: self.found }
    }

    fn mapping<'b>(&'b self, stated: &'b Map<String, Value>) -> StatedFields<'b> {
        StatedFields { kind: self.kind, path: &self.path, stated }
    }
}

impl<'de> Deserializer<'de> for Walker<'de> {
    type Error = Error;

    fn deserialize_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        match self.value {
            Value::Object(stated) => {
                visitor.visit_map(Entries { walker: &self, entries: stated.iter(), value: None })
            }
            Value::Array(items) => {
                visitor.visit_seq(Elements { walker: &self, items: items.iter().enumerate() })
            }
            Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => {
                self.value.deserialize_any(visitor)
            }
        }
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Error> {
        if let Value::Object(stated) = self.value {
            let newer =
                NEWER.iter().filter_map(|newer| newer.strip_prefix(name)?.strip_prefix('.'));
            let known: Vec<&str> = fields.iter().copied().chain(newer).collect();
            let unknown = self.mapping(stated).unknown(&known).into_iter();
            self.found.borrow_mut().extend(unknown.map(|field| of_metadata(field, &known)));
        }
        self.deserialize_any(visitor)
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        if self.value.is_null() { visitor.visit_none() } else { visitor.visit_some(self) }
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        _: &'static str,
        visitor: V,
    ) -> Result<V::Value, Error> {
        visitor.visit_newtype_struct(self)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Error> {
        visitor.visit_unit()
    }

    forward_to_deserialize_any! {
        bool i8 i16 i32 i64 i128 u8 u16 u32 u64 u128 f32 f64 char str string bytes byte_buf unit
        unit_struct seq tuple tuple_struct map enum identifier
    }
}

/// The entries of a mapping.
struct Entries<'a, 'w> {
    walker: &'w Walker<'a>,
    entries: serde_json::map::Iter<'a>,
    value: Option<Walker<'a>>,
}

impl<'de> MapAccess<'de> for Entries<'de, '_> {
    type Error = Error;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Error> {
        let Some((key, value)) = self.entries.next() else { return Ok(None) };
        let path = policy_crds::unknown::join_key(&self.walker.path, key);
        self.value = Some(self.walker.at(value, path));
        seed.deserialize(StrDeserializer::new(key)).map(Some)
    }

    fn next_value_seed<V: DeserializeSeed<'de>>(&mut self, seed: V) -> Result<V::Value, Error> {
        let missing = || serde::de::Error::custom("a value without its key");
        seed.deserialize(self.value.take().ok_or_else(missing)?)
    }
}

/// The elements of a list.
struct Elements<'a, 'w> {
    walker: &'w Walker<'a>,
    items: std::iter::Enumerate<std::slice::Iter<'a, Value>>,
}

impl<'de> SeqAccess<'de> for Elements<'de, '_> {
    type Error = Error;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Error> {
        let Some((index, value)) = self.items.next() else { return Ok(None) };
        let path = policy_crds::unknown::join_index(&self.walker.path, index);
        seed.deserialize(self.walker.at(value, path)).map(Some)
    }
}
