//! Decodes the API server's JSON: pages of a list, and the events of a watch.

use super::api::ApiError;
use super::projection::{self, ProjectionSeed};
use policy_crds::{Body, FieldError, Invalid, Kind, Object, ObjectKey, ObjectMeta};
use serde::de::{DeserializeSeed, Deserializer, Error, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::Value;
use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;

/// A resource version: opaque where it is sent back, a number where it is compared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Version(String);

impl Version {
    /// The resource version in the metadata of `value`; none if there is none.
    pub(super) fn of(value: &Value) -> Option<Self> {
        let text = value.get("metadata")?.get("resourceVersion")?.as_str()?;
        (!text.is_empty() && text != "0").then(|| Self(text.to_owned()))
    }

    /// As the API server wrote it.
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }

    /// As a number, which it is wherever the storage is etcd; none where it is not.
    pub(super) fn number(&self) -> Option<u64> {
        self.0.parse().ok()
    }
}

impl From<&str> for Version {
    fn from(text: &str) -> Self {
        Self(text.to_owned())
    }
}

/// A kind in the API version that is read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KindVersion {
    /// The kind.
    pub(super) kind: Kind,
    /// The version, without the group.
    pub(super) version: &'static str,
}

impl KindVersion {
    fn api_version(&self) -> String {
        match self.kind.group() {
            "" => self.version.to_owned(),
            group => format!("{group}/{}", self.version),
        }
    }

    /// Parses an object. One that breaks every rule is still an object as long as it has a name;
    /// without a name it is `None`.
    pub(super) fn object(&self, mut value: Value) -> Option<Object> {
        if let Value::Object(fields) = &mut value {
            // The items of a list do not repeat apiVersion and kind.
            let missing = |fields: &serde_json::Map<String, Value>, name| {
                fields.get(name).is_none_or(Value::is_null)
            };
            if missing(fields, "apiVersion") {
                fields.insert("apiVersion".to_owned(), self.api_version().into());
            }
            if missing(fields, "kind") {
                fields.insert("kind".to_owned(), self.kind.as_str().into());
            }
        }
        let (field, message) = match policy_crds::parse(&value) {
            Ok(object) if object.meta.key.kind == self.kind => return Some(object),
            Ok(object) => {
                let found = object.meta.key.kind.as_str();
                ("kind".to_owned(), format!("`{found}` in a list of {}", self.kind.plural()))
            }
            Err(error) => (error.field().to_owned(), error.message()),
        };
        let field = if field.is_empty() { "metadata".to_owned() } else { field };
        Some(invalid(self.key(&value)?, FieldError { field, message }))
    }

    /// The key of the object in `value`.
    pub(super) fn key(&self, value: &Value) -> Option<ObjectKey> {
        let metadata = value.get("metadata")?;
        let text = |name: &str| metadata.get(name).and_then(Value::as_str).unwrap_or_default();
        let name = Some(text("name")).filter(|name| !name.is_empty())?;
        let namespace = match (self.kind.is_namespaced(), text("namespace")) {
            (false, _) => "",
            (true, "") => "default",
            (true, namespace) => namespace,
        };
        Some(ObjectKey { kind: self.kind, namespace: namespace.into(), name: name.into() })
    }
}

/// An object of which only the name can be read. It claims as much as it might.
fn invalid(key: ObjectKey, error: FieldError) -> Object {
    let claims = key.kind.spec().claims(None);
    let meta = ObjectMeta {
        key,
        labels: BTreeMap::new(),
        annotations: BTreeMap::new(),
        created: None,
        uid: None,
        generation: None,
        is_ending: false,
        recorded: None,
    };
    Object { meta, body: Body::Invalid(Invalid { errors: vec![error], claims }) }
}

/// One page of a list.
#[derive(Debug, Default)]
pub(super) struct ListPage {
    /// Its objects.
    pub(super) objects: Vec<Object>,
    /// Number of items without a name.
    pub(super) nameless: u64,
    /// The version of the list.
    pub(super) version: Option<Version>,
    /// The continue token; `None` on the last page.
    pub(super) next: Option<String>,
}

/// Reads a page.
pub(super) fn page(resource: &KindVersion, bytes: &[u8]) -> Result<ListPage, ApiError> {
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    ListSeed(resource)
        .deserialize(&mut deserializer)
        .map_err(|error| ApiError::Malformed(format!("a list that cannot be read: {error}")))
}

struct ListSeed<'a>(&'a KindVersion);

impl<'de> DeserializeSeed<'de> for ListSeed<'_> {
    type Value = ListPage;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<ListPage, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for ListSeed<'_> {
    type Value = ListPage;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of objects")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<ListPage, A::Error> {
        let (mut page, mut is_list) = (ListPage::default(), false);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "metadata" => {
                    let metadata: Value = map.next_value()?;
                    let next = metadata.get("continue").and_then(Value::as_str);
                    page.next = next.filter(|text| !text.is_empty()).map(str::to_owned);
                    page.version = Version::of(&serde_json::json!({ "metadata": metadata }));
                }
                "items" => {
                    is_list = true;
                    map.next_value_seed(Items { resource: self.0, page: &mut page })?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        // A body without items is no empty list, which would delete every object.
        if is_list { Ok(page) } else { Err(A::Error::missing_field("items")) }
    }
}

/// Parses item by item, so that a page of raw values never exists.
struct Items<'a> {
    resource: &'a KindVersion,
    page: &'a mut ListPage,
}

impl<'de> DeserializeSeed<'de> for Items<'_> {
    type Value = ();

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<(), D::Error> {
        // An empty list may be `null`.
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Items<'_> {
    type Value = ();

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list")
    }

    fn visit_unit<E>(self) -> Result<(), E> {
        Ok(())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<(), A::Error> {
        let seed = ProjectionSeed::new(projection::mask_of(self.resource.kind));
        while let Some(value) = list.next_element_seed(seed)? {
            match self.resource.object(value) {
                Some(object) => self.page.objects.push(object),
                None => self.page.nameless = self.page.nameless.saturating_add(1),
            }
        }
        Ok(())
    }
}

/// Decodes one object, for instance the response to a GET.
pub(super) fn object(
    resource: &KindVersion,
    bytes: &[u8],
) -> Result<(Object, Option<Version>), ApiError> {
    let unreadable = |error: String| ApiError::Malformed(format!("an object: {error}"));
    let mut deserializer = serde_json::Deserializer::from_slice(bytes);
    let value = ProjectionSeed::new(projection::mask_of(resource.kind))
        .deserialize(&mut deserializer)
        .map_err(|error| unreadable(error.to_string()))?;
    let version = Version::of(&value);
    let object = resource.object(value).ok_or_else(|| unreadable("it has no name".to_owned()))?;
    Ok((object, version))
}

/// One event of a watch.
#[derive(Debug)]
pub(super) enum WatchEvent {
    /// The object was created.
    Added(Arc<Object>, Option<Version>),
    /// The object was changed.
    Modified(Arc<Object>, Option<Version>),
    /// The object was deleted.
    Deleted(ObjectKey, Option<Version>),
    /// A bookmark: no change up to this version.
    Bookmark(Option<Version>),
    /// The watch ended with this error.
    Error(ApiError),
    /// An event about an object without a name, or of a type that is not known.
    Nameless(Option<Version>),
}

impl WatchEvent {
    /// The value of the metric label `op`.
    pub(super) fn op(&self) -> &'static str {
        match self {
            Self::Added(..) => "added",
            Self::Modified(..) => "modified",
            Self::Deleted(..) => "deleted",
            Self::Bookmark(_) => "bookmark",
            Self::Error(_) => "error",
            Self::Nameless(_) => "nameless",
        }
    }
}

/// Decodes one line of a watch.
pub(super) fn event(resource: &KindVersion, line: &[u8]) -> Result<WatchEvent, ApiError> {
    let mut deserializer = serde_json::Deserializer::from_slice(line);
    let (kind, value) = EventSeed(resource)
        .deserialize(&mut deserializer)
        .map_err(|error| ApiError::Malformed(format!("an event that cannot be read: {error}")))?;
    let version = Version::of(&value);
    Ok(match kind.as_str() {
        "ADDED" | "MODIFIED" => match resource.object(value).map(Arc::new) {
            Some(object) if kind == "ADDED" => WatchEvent::Added(object, version),
            Some(object) => WatchEvent::Modified(object, version),
            None => WatchEvent::Nameless(version),
        },
        "DELETED" => match resource.key(&value) {
            Some(key) => WatchEvent::Deleted(key, version),
            None => WatchEvent::Nameless(version),
        },
        "BOOKMARK" => WatchEvent::Bookmark(version),
        "ERROR" => WatchEvent::Error(ApiError::from_status(None, &value, None)),
        _ => WatchEvent::Nameless(version),
    })
}

struct EventSeed<'a>(&'a KindVersion);

impl<'de> DeserializeSeed<'de> for EventSeed<'_> {
    type Value = (String, Value);

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Self::Value, D::Error> {
        deserializer.deserialize_map(self)
    }
}

impl<'de> Visitor<'de> for EventSeed<'_> {
    type Value = (String, Value);

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an event")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Self::Value, A::Error> {
        let (mut kind, mut object) = (String::new(), Value::Null);
        while let Some(name) = map.next_key::<String>()? {
            match name.as_str() {
                "type" => kind = map.next_value()?,
                "object" => {
                    object =
                        map.next_value_seed(ProjectionSeed::new(projection::mask_of(self.0.kind)))?;
                }
                _ => {
                    map.next_value::<IgnoredAny>()?;
                }
            }
        }
        Ok((kind, object))
    }
}
