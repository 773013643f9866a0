//! TimeoutPolicy (docs/spec/requests.md): bounds on parts of an exchange.

use super::target;
use crate::kind::Kind;
use crate::object::{Body, FieldError, Object};
use crate::parse::duration;
use crate::parse::input::Input;
use crate::reader::{AllowedFields, Fields, JsonNode, one_of, quote};
use crate::render::definition::Definition;
use crate::render::profile::Profile;
use crate::render::schema::{self, local_reference, matching, object, or, set};
use crate::resource::{Resource, TimeoutPolicy};
use crate::spec::ObjectReference;
use policy_core::filter::Streams;
use serde_json::json;
use std::time::Duration;

/// The bounds there are.
const TIMEOUTS: &[&str] = &["request", "response", "idle"];
/// The shortest and the longest bound.
const MIN: Duration = Duration::from_millis(1);
const MAX: Duration = Duration::from_secs(3600);

pub(super) fn read(input: &Input<'_>) -> Option<Resource> {
    let spec = input.spec(AllowedFields::Only(&["targetRef", "timeouts", "streams"]))?;
    let target = spec.require("targetRef").and_then(|node| target::policy_target(&node));
    let timeouts = spec.require("timeouts").and_then(|node| timeouts(&node));
    let streams = match spec.get("streams") {
        Some(node) => {
            node.choice(&[("Bounded", Streams::Bounded), ("Unbounded", Streams::Unbounded)])
        }
        None => Some(Streams::default()),
    };
    let [request, response, idle] = timeouts?;
    let policy = TimeoutPolicy { target: target?, request, response, idle, streams: streams? };
    Some(Resource::TimeoutPolicy(policy))
}

/// The bounds in the order of their names.
fn timeouts(node: &JsonNode<'_>) -> Option<[Option<Duration>; 3]> {
    let fields = node.fields(AllowedFields::Only(TIMEOUTS))?;
    let [request, response, idle] =
        ["request", "response", "idle"].map(|name| timeout(&fields, name));
    let bounds = [request?, response?, idle?];
    if bounds.iter().all(Option::is_none) {
        node.error(format!("bounds nothing: {} is required", one_of(TIMEOUTS)));
        return None;
    }
    Some(bounds)
}

fn timeout(fields: &Fields<'_>, name: &str) -> Option<Option<Duration>> {
    const FORM: &str = "is not a duration such as `10s`, `500ms` or `1m30s`";
    const BOUNDS: &str = "from `1ms` to `1h` is allowed";
    let Some(node) = fields.get(name) else { return Some(None) };
    let text = node.text()?;
    match duration::gateway(text) {
        Some(duration) if (MIN..=MAX).contains(&duration) => Some(Some(duration)),
        Some(_) => {
            node.error(format!("{} is out of bounds: {BOUNDS}", quote(text)));
            None
        }
        None => {
            node.error(format!("{} {FORM}: {BOUNDS}", quote(text)));
            None
        }
    }
}

/// Its target. An invalid policy bounds nothing, so that it names none.
pub(super) fn references(object: &Object) -> Vec<ObjectReference> {
    let Body::Valid(Resource::TimeoutPolicy(policy)) = &object.body else { return Vec::new() };
    vec![target::reference(policy.target.key(&object.meta.key))]
}

pub(super) fn remarks(resource: &Resource) -> Vec<FieldError> {
    let Resource::TimeoutPolicy(policy) = resource else { return Vec::new() };
    let idle = policy.streams == Streams::Unbounded && policy.request.is_none();
    let message = "`Unbounded` changes nothing: it is about `timeouts.request`, which is absent";
    idle.then(|| FieldError::new("spec.streams", message)).into_iter().collect()
}

pub(super) fn idle(resource: &Resource, namespace: &str) -> Option<FieldError> {
    let Resource::TimeoutPolicy(policy) = resource else { return None };
    Some(target::idle("bounds nothing", &policy.target, namespace))
}

pub(super) fn definition(_: Profile) -> Definition {
    let bound = |about: &str| matching(about, "^([0-9]{1,5}(h|m|s|ms)){1,4}$");
    let mut timeouts = object(
        "Bounds, from `1ms` to `1h`; at least one.",
        &[
            ("request", bound("From the head of the request to the end of the response.")),
            ("response", bound("From the end of the request to the head of the response.")),
            ("idle", bound("Longest time without a byte of either body.")),
        ],
        &[],
    );
    set(&mut timeouts, "minProperties", json!(1));
    let about = "`Unbounded`: the bound on the request ends with the head of the response.";
    let streams = or(schema::one_of(about, &["Bounded", "Unbounded"]), json!("Bounded"));
    let target = "A Server, routes bound to one, a class of them, or a route.";
    let spec = object(
        "Bounds on parts of an exchange. Of several policies the shortest bound counts.",
        &[("targetRef", local_reference(target)), ("timeouts", timeouts), ("streams", streams)],
        &["targetRef", "timeouts"],
    );
    let columns = &[
        ("Target_kind", "string", ".spec.targetRef.kind"),
        ("Target_name", "string", ".spec.targetRef.name"),
        ("Request", "string", ".spec.timeouts.request"),
    ];
    Definition::own(Kind::TimeoutPolicy, columns, spec, None)
}
