//! From a JSON value to an [`Object`]: every rule of every kind, each error naming its field.

mod authorization_policy;
mod duration;
mod egress_network;
mod external_workload;
mod header;
mod identity;
mod label;
mod mesh_tls_authentication;
mod metadata;
mod name;
mod network;
mod network_authentication;
mod node;
mod path;
mod probe;
mod rate_limit;
mod reference_grant;
mod route;
mod server;
mod server_authorization;
mod target;
mod workload;

use crate::kind::Kind;
use crate::object::{Body, Claims, Invalid, Object, ObjectMeta};
use crate::reader::{Errors, Fields, Known, Node, describe, one_of, quote};
use crate::resource::Resource;
use policy_core::near::nearest;
use serde_json::Value;
use std::borrow::Cow;

/// Lists inside lists that are followed.
const MAX_LIST_DEPTH: usize = 4;

/// Why a value is not an object of a kind that is read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotAnObject {
    /// Not a mapping at all.
    #[error("expected an object with `apiVersion`, `kind` and `metadata`")]
    NotAMapping,
    /// A field without which it cannot be told what this is.
    #[error("{field}: {message}")]
    Field {
        /// Path of the field.
        field: String,
        /// What is wrong with it.
        message: String,
    },
    /// A kind that does not exist in a group that is read, or that was probably meant to be one.
    #[error("{field}: {message}")]
    Mistaken {
        /// `kind` or `apiVersion`.
        field: String,
        /// What is wrong and what was probably meant.
        message: String,
    },
    /// A kind of somebody else, to be ignored.
    #[error("kind: {api_version} {kind} is not read")]
    Foreign {
        /// `apiVersion`.
        api_version: String,
        /// `kind`.
        kind: String,
    },
}

impl NotAnObject {
    /// The field the error is about; empty where it is about the whole value.
    pub fn field(&self) -> &str {
        match self {
            Self::NotAMapping => "",
            Self::Field { field, .. } | Self::Mistaken { field, .. } => field,
            Self::Foreign { .. } => "kind",
        }
    }

    /// What is wrong, without the field.
    pub fn message(&self) -> String {
        match self {
            Self::NotAMapping => self.to_string(),
            Self::Field { message, .. } | Self::Mistaken { message, .. } => message.clone(),
            Self::Foreign { api_version, kind } => {
                format!("{} is not read", quote(&format!("{api_version} {kind}")))
            }
        }
    }

    /// Whether the value is an object of a kind that is no concern of ours, not a mistake.
    pub fn is_foreign(&self) -> bool {
        matches!(self, Self::Foreign { .. })
    }
}

/// One object inside a document, which may be a list.
#[derive(Clone, Debug)]
pub struct Part<'a> {
    /// Path of the object in the document, for example `items[2]`; empty for the document itself.
    pub path: String,
    /// The object.
    pub value: Cow<'a, Value>,
}

impl Part<'_> {
    /// The path in the document of `field` of this object.
    pub fn field(&self, field: &str) -> String {
        match (self.path.is_empty(), field.is_empty() || field.starts_with('[')) {
            (true, _) => field.to_owned(),
            (false, true) => format!("{}{field}", self.path),
            (false, false) => format!("{}.{field}", self.path),
        }
    }
}

/// Parses one object. A kind that is read but breaks a rule is an [`Object`] whose body is
/// [`Body::Invalid`]; an object without namespace is in `default`, as for `kubectl`.
pub fn parse(value: &Value) -> Result<Object, NotAnObject> {
    let errors = Errors::default();
    let root = Node::new(value, "", &errors);
    let Value::Object(_) = value else { return Err(NotAnObject::NotAMapping) };
    let fields = root.fields(Known::Any).ok_or(NotAnObject::NotAMapping)?;
    let (kind, version) = kind_of(&fields)?;
    let meta = metadata::read(&fields, kind)?;
    if !kind.versions().contains(&version) {
        errors.add(
            "apiVersion",
            format!("version {} of {} is not known, expected {}", quote(version), kind.as_str(), {
                one_of(kind.versions())
            }),
        );
    }
    let input = Input { root: fields, meta: &meta, version };
    let draft = read(kind, &input);
    drop(input);
    Ok(finish(meta, draft, errors))
}

/// Parses every object in a value: itself, or the items of a `List` or of `<Kind>List`.
pub fn parse_all(value: &Value) -> Vec<Result<Object, NotAnObject>> {
    parts(value).iter().map(|part| parse(&part.value)).collect()
}

/// The objects in a value, with their places: itself, or the items of a list.
pub fn parts(value: &Value) -> Vec<Part<'_>> {
    let mut found = Vec::new();
    collect(Part { path: String::new(), value: Cow::Borrowed(value) }, 0, &mut found);
    found
}

fn collect<'a>(part: Part<'a>, depth: usize, found: &mut Vec<Part<'a>>) {
    let item_type = list_of(&part.value);
    let items = match (&part.value, item_type, depth < MAX_LIST_DEPTH) {
        (Cow::Borrowed(Value::Object(map)), Some(_), true) => map.get("items"),
        _ => None,
    };
    let Some(Value::Array(items)) = items else {
        found.push(part);
        return;
    };
    let item_type = list_of(&part.value).flatten();
    for (i, item) in items.iter().enumerate() {
        let path = part.field(&format!("items[{i}]"));
        collect(
            Part { path, value: with_type(item, item_type.as_ref()) },
            depth.saturating_add(1),
            found,
        );
    }
}

/// Whether a value is a list, and for `<Kind>List` the `apiVersion` and kind of items that do not
/// say their own.
fn list_of(value: &Value) -> Option<Option<(String, String)>> {
    let kind = value.get("kind")?.as_str()?;
    let version = value.get("apiVersion")?.as_str()?;
    value.get("items")?.as_array()?;
    let item = kind.strip_suffix("List")?;
    Some((!item.is_empty()).then(|| (version.to_owned(), item.to_owned())))
}

fn with_type<'a>(item: &'a Value, item_type: Option<&(String, String)>) -> Cow<'a, Value> {
    match (item, item_type) {
        (Value::Object(map), Some((version, kind)))
            if !map.contains_key("kind") && !map.contains_key("apiVersion") =>
        {
            let mut map = map.clone();
            map.insert("apiVersion".into(), version.as_str().into());
            map.insert("kind".into(), kind.as_str().into());
            Cow::Owned(Value::Object(map))
        }
        _ => Cow::Borrowed(item),
    }
}

/// What a kind's reader is given.
pub(crate) struct Input<'a> {
    /// The object itself.
    pub(crate) root: Fields<'a>,
    /// Its metadata.
    pub(crate) meta: &'a ObjectMeta,
    /// Its version, without the group.
    pub(crate) version: &'a str,
}

impl<'a> Input<'a> {
    /// `spec`, whose absence is an error.
    pub(crate) fn spec(&self, known: Known) -> Option<Fields<'a>> {
        self.root.require("spec")?.fields(known)
    }
}

/// What a kind's reader gives: the resource if all of it could be read, and what it claims if not.
pub(crate) type Draft = (Option<Resource>, Claims);

fn read(kind: Kind, input: &Input<'_>) -> Draft {
    const STRICT: &[&str] = &["apiVersion", "kind", "metadata", "spec", "status"];
    if kind.group().ends_with(".linkerd.io") {
        input.root.refuse_unknown(STRICT);
    }
    let nothing = |resource: Option<Resource>| (resource, Claims::Nothing);
    match kind {
        Kind::Server => server::read(input),
        Kind::ServerAuthorization => server_authorization::read(input),
        Kind::AuthorizationPolicy => authorization_policy::read(input),
        Kind::MeshTlsAuthentication => nothing(mesh_tls_authentication::read(input)),
        Kind::NetworkAuthentication => nothing(network_authentication::read(input)),
        Kind::EgressNetwork => nothing(egress_network::read(input)),
        Kind::ExternalWorkload => nothing(external_workload::read(input)),
        Kind::Namespace => nothing(Some(Resource::Namespace)),
        Kind::ServiceAccount => nothing(Some(Resource::ServiceAccount)),
        Kind::HttpLocalRateLimitPolicy => rate_limit::read(input),
        Kind::PolicyHttpRoute | Kind::GatewayHttpRoute | Kind::GrpcRoute => route::read(input),
        Kind::ReferenceGrant => nothing(reference_grant::read(input)),
        Kind::Pod => nothing(workload::read_pod(input)),
        Kind::Node => nothing(node::read(input)),
        Kind::Deployment
        | Kind::StatefulSet
        | Kind::DaemonSet
        | Kind::ReplicaSet
        | Kind::Job
        | Kind::CronJob => nothing(workload::read_template(input)),
    }
}

fn finish(meta: ObjectMeta, (resource, claims): Draft, errors: Errors) -> Object {
    let mut errors = errors.into_vec();
    let body = match resource {
        Some(resource) if errors.is_empty() => Body::Valid(resource),
        Some(_) | None => {
            if errors.is_empty() {
                // A reader that gives up must say why; should one forget, the object is still invalid.
                errors.push(crate::object::FieldError {
                    field: "spec".into(),
                    message: "cannot be read".into(),
                });
            }
            Body::Invalid(Invalid { errors, claims })
        }
    };
    Object { meta, body }
}

/// The kind and version that a value says it is.
fn kind_of<'a>(fields: &Fields<'a>) -> Result<(Kind, &'a str), NotAnObject> {
    let text = |name: &str| {
        let missing = |message: &str| NotAnObject::Field {
            field: name.to_owned(),
            message: message.to_owned(),
        };
        let node = fields.get(name).ok_or_else(|| missing("is required"))?;
        match node.value().as_str() {
            Some("") => Err(missing("must not be empty")),
            Some(text) => Ok(text),
            None => Err(missing(&format!("expected text, found {}", describe(node.value())))),
        }
    };
    let (api_version, kind) = (text("apiVersion")?, text("kind")?);
    if (api_version, kind) == ("v1", "List") {
        // One that can be read has been taken apart before.
        return Err(NotAnObject::Field {
            field: "items".to_owned(),
            message: format!(
                "expected a list, in at most {MAX_LIST_DEPTH} lists around it: nothing of it is read"
            ),
        });
    }
    let (group, version) = api_version.rsplit_once('/').unwrap_or(("", api_version));
    // Group and kind of a manifest are exact for the API server; references are compared without
    // case.
    let exact = Kind::ALL.into_iter().find(|k| k.group() == group && k.as_str() == kind);
    exact.map(|kind| (kind, version)).ok_or_else(|| unknown_kind(api_version, group, kind))
}

const OUR_GROUPS: [&str; 3] = ["policy.linkerd.io", "workload.linkerd.io", "portcullis.dev"];

fn unknown_kind(api_version: &str, group: &str, kind: &str) -> NotAnObject {
    let mistaken =
        |field: &str, message: String| NotAnObject::Mistaken { field: field.to_owned(), message };
    // The right kind in a wrong group: core and `apps` kinds are too common a name for a guess.
    let elsewhere: Vec<Kind> = Kind::ALL
        .into_iter()
        .filter(|k| k.as_str().eq_ignore_ascii_case(kind) && k.group().contains('.'))
        .collect();
    let known_group = OUR_GROUPS.contains(&group);
    if !elsewhere.is_empty() && (known_group || group.is_empty() || near_group(group)) {
        let options: Vec<String> = elsewhere
            .iter()
            .map(|k| format!("{}/{}", k.group(), k.versions().first().unwrap_or(&"v1")))
            .collect();
        let options: Vec<&str> = options.iter().map(String::as_str).collect();
        let name = elsewhere.first().map_or(kind, |k| k.as_str());
        let message = if name == kind {
            format!("{name} is not in {}, expected {}", quote(api_version), one_of(&options))
        } else {
            format!(
                "{} is not a kind of {}, did you mean `{name}`?",
                quote(kind),
                quote(api_version)
            )
        };
        return mistaken("apiVersion", message);
    }
    if !known_group {
        let (api_version, kind) = (api_version.to_owned(), kind.to_owned());
        return NotAnObject::Foreign { api_version, kind };
    }
    let names: Vec<&str> =
        Kind::ALL.into_iter().filter(|k| k.group() == group).map(Kind::as_str).collect();
    let message = match nearest(kind, &names) {
        Some(name) => format!("unknown kind {}, did you mean `{name}`?", quote(kind)),
        None if names.is_empty() => format!("unknown kind {}, {group} has none yet", quote(kind)),
        None => format!("unknown kind {}, expected {}", quote(kind), one_of(&names)),
    };
    mistaken("kind", message)
}

/// Whether a group is a slip of one of those that are read.
fn near_group(group: &str) -> bool {
    nearest(group, &["policy.linkerd.io", "workload.linkerd.io", "gateway.networking.k8s.io"])
        .is_some()
}
