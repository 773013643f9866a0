//! Status of every policy object, and the number of proxies that enforce it.

mod condition;
pub(crate) mod delegation;
pub(crate) mod object_conditions;
pub(crate) mod resource_args;
pub(crate) mod sidecars;
mod text;
mod unguarded;
pub(crate) mod unpulled;

pub(crate) use condition::{Condition, ConditionSource};

use crate::cluster::permissions::ListFailure;
use crate::cluster::{QuerySource, Scope, undetermined};
use crate::diagnostics::pod_networks::OutsidePod;
use crate::inventory::Inventory;
use delegation::Delegation;
use policy_crds::{Kind, ObjectKey};
use policy_engine::conditions::ObjectCondition;
use policy_proto::messages;
use resource_args::{ResourceArg, ResourceArgs};
use serde::Serialize;
use serde_json::Value;
use sidecars::SkippedPort;
use std::collections::BTreeMap;
use unpulled::UnpulledPod;

/// Result of `portcullis status`.
#[derive(Clone, Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct StatusReport {
    /// Source of the objects.
    #[serde(rename = "asked")]
    pub(crate) source: QuerySource,
    /// The controller that responded; `None` if conditions are computed here, beside those in the
    /// objects' status.
    pub(crate) controller: Option<String>,
    /// Reason why no controller responded, if one was tried.
    pub(crate) no_controller: Option<String>,
    /// Inputs that the controller is missing, in its words.
    pub(crate) missing: Vec<String>,
    /// Kinds that could not be listed.
    #[serde(rename = "gaps")]
    pub(crate) list_failures: Vec<ListFailure>,
    /// The objects.
    pub(crate) objects: Vec<Object>,
    /// Pods that should have a sidecar and have none.
    pub(crate) without_sidecar: Vec<sidecars::UninjectedPod>,
    /// Pods with a sidecar whose addresses no sidecar looks up.
    pub(crate) outside_networks: Vec<OutsidePod>,
    /// Pods that wait for an image of the sidecar.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) unpulled: Vec<UnpulledPod>,
    /// Ports to which connections go around the sidecar of their pod.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) skipped_ports: Vec<SkippedPort>,
    /// Notes for the end of the answer.
    #[serde(skip)]
    pub(crate) notes: Vec<String>,
    /// Selected objects that do not exist, or may not be listed.
    #[serde(skip)]
    pub(crate) absent: Vec<String>,
}

/// One object.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Object {
    /// API group.
    pub(crate) group: String,
    /// Kind.
    pub(crate) kind: String,
    /// Namespace.
    pub(crate) namespace: String,
    /// Name.
    pub(crate) name: String,
    /// The generation that conditions refer to, if there is one.
    pub(crate) generation: Option<i64>,
    /// Its conditions.
    pub(crate) conditions: Vec<Condition>,
    /// Number of proxies that enforce it; `None` if unknown.
    pub(crate) programmed: Option<Programmed>,
    /// Of an InboundRoute: claims, places in trees, rules.
    #[serde(flatten)]
    pub(crate) delegation: Delegation,
    /// Resources that it refers to and that could not be listed.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(crate) not_known: Vec<String>,
}

/// Number of proxies that enforce an object, and the resulting condition.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Programmed {
    /// Proxies that enforce it.
    pub(crate) in_force: u64,
    /// Running pods with a sidecar that it affects.
    pub(crate) concerned: u64,
    /// Affected proxies that rejected it.
    pub(crate) refused: u64,
    /// `True`, `False` or `Unknown`; absent if the controller is of an older version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) status: Option<String>,
    /// Reason, for programs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) reason: Option<String>,
    /// Message, for people.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) message: Option<String>,
}

impl StatusReport {
    /// True if an object of a kind is shown.
    pub(crate) fn has(&self, kind: Kind) -> bool {
        let mut objects = self.objects.iter();
        objects.any(|object| object.group == kind.group() && object.kind == kind.as_str())
    }

    /// Adds what the status of InboundRoutes says of trees, which controllers do not tell.
    pub(crate) fn with_delegations(mut self, inbound_routes: &[Value]) -> Self {
        let text = |value: &Value, pointer: &str| {
            value.pointer(pointer).and_then(Value::as_str).unwrap_or_default().to_owned()
        };
        let by_name: BTreeMap<(String, String), &Value> = inbound_routes
            .iter()
            .map(|it| ((text(it, "/metadata/namespace"), text(it, "/metadata/name")), it))
            .collect();
        let is_inbound_route = |object: &&mut Object| object.kind == Kind::InboundRoute.as_str();
        for object in self.objects.iter_mut().filter(is_inbound_route) {
            let key = (object.namespace.clone(), object.name.clone());
            if let Some(value) = by_name.get(&key) {
                object.delegation = Delegation::of_status(value);
            }
        }
        self
    }

    /// Adds a note for the end of the answer.
    pub(crate) fn with_note(mut self, note: String) -> Self {
        self.notes.push(note);
        self
    }

    /// Adds the pods that lack a sidecar, or a note that they are unknown.
    pub(crate) fn with_sidecars(mut self, found: sidecars::MissingSidecars) -> Self {
        self.notes.extend(found.unknown);
        Self {
            without_sidecar: found.without,
            outside_networks: found.outside,
            unpulled: found.unpulled,
            skipped_ports: found.skipped,
            ..self
        }
    }
}

/// Report of a controller's response.
pub(crate) fn of_controller(
    source: QuerySource,
    to: String,
    response: messages::ObjectsResponse,
    names: &ResourceArgs,
) -> StatusReport {
    let objects = response.objects.into_iter().map(Object::from);
    let wanted = |object: &Object| names.fit(&object.group, &object.kind, &object.name);
    let objects: Vec<Object> = objects.filter(wanted).collect();
    StatusReport {
        source,
        controller: Some(to),
        no_controller: None,
        missing: response.missing,
        notes: Vec::new(),
        list_failures: Vec::new(),
        absent: absent(&objects, names, |_| Vec::new()),
        objects,
        without_sidecar: Vec::new(),
        outside_networks: Vec::new(),
        unpulled: Vec::new(),
        skipped_ports: Vec::new(),
    }
}

/// Report of conditions computed from the objects.
pub(crate) fn of_inventory(
    inventory: &Inventory,
    no_controller: Option<String>,
    names: &ResourceArgs,
) -> StatusReport {
    let conditions = inventory.compiled.conditions.iter();
    let shown = conditions.filter(|(key, _)| {
        is_shown(&inventory.scope, key) && names.fit(key.kind.group(), key.kind.as_str(), &key.name)
    });
    let objects: Vec<Object> =
        shown.map(|(key, conditions)| computed_object(inventory, key, conditions)).collect();
    let Inventory { scope, permissions, .. } = inventory;
    // Those of a cluster are read apart. Pods are shown only if no objects were selected.
    let of_manifests = names.0.is_empty() && inventory.cluster.is_none();
    let (without_sidecar, skipped_ports) = match of_manifests {
        true => unguarded::of_inventory(inventory),
        false => (Vec::new(), Vec::new()),
    };
    StatusReport {
        source: inventory.source.clone(),
        controller: None,
        no_controller,
        missing: Vec::new(),
        notes: Vec::new(),
        list_failures: inventory.list_failures(),
        absent: absent(&objects, names, |name| {
            undetermined::in_scope(name.kinds(), scope, permissions)
        }),
        objects,
        without_sidecar,
        outside_networks: Vec::new(),
        unpulled: Vec::new(),
        skipped_ports,
    }
}

/// Selected objects that are missing, with the kinds that may not be listed.
fn absent(
    objects: &[Object],
    names: &ResourceArgs,
    hidden: impl Fn(&ResourceArg) -> Vec<String>,
) -> Vec<String> {
    let is_there = |name: &&ResourceArg| {
        objects.iter().any(|object| name.fits(&object.group, &object.kind, &object.name))
    };
    let describe = |name: &ResourceArg| match hidden(name).as_slice() {
        [] => name.text.clone(),
        hidden => format!(
            "{} (which is not known, because {} may not be listed)",
            name.text,
            hidden.join(" and ")
        ),
    };
    names.0.iter().filter(|name| name.is_one() && !is_there(name)).map(describe).collect()
}

fn is_shown(scope: &Scope, key: &ObjectKey) -> bool {
    scope.contains(if key.kind == Kind::Namespace { &key.name } else { &key.namespace })
}

fn computed_object(
    inventory: &Inventory,
    key: &ObjectKey,
    conditions: &[ObjectCondition],
) -> Object {
    let object = inventory.object(key);
    let not_known: Vec<String> = object
        .map(|object| undetermined::of_object(object, &inventory.permissions).into_iter().collect())
        .unwrap_or_default();
    let generation = object.and_then(|object| object.meta.generation);
    let mut all: Vec<Condition> =
        conditions.iter().map(|condition| computed(condition, &not_known)).collect();
    if let Some(value) = inventory.values.get(key) {
        all.extend(object_conditions::conditions(value, generation));
    }
    Object {
        group: key.kind.group().to_owned(),
        kind: key.kind.as_str().to_owned(),
        namespace: key.namespace.to_string(),
        name: key.name.to_string(),
        generation,
        conditions: all,
        programmed: None,
        delegation: if key.kind == Kind::InboundRoute {
            Delegation::computed(&inventory.compiled.delegation_state(key))
        } else {
            Delegation::default()
        },
        not_known,
    }
}

/// Condition computed from the objects. If something could not be listed, a failure becomes
/// `Unknown`, because the missing object may exist.
fn computed(condition: &ObjectCondition, not_known: &[String]) -> Condition {
    use policy_engine::conditions::Reason;
    let doubtful =
        !condition.status && !not_known.is_empty() && condition.reason != Reason::Invalid;
    let (status, reason, message) = if doubtful {
        let missing = not_known.join(" and ");
        ("Unknown", "NotListed", format!("not known, because {missing} may not be listed"))
    } else {
        let status = if condition.status { "True" } else { "False" };
        (status, condition.reason.as_str(), condition.message.to_string())
    };
    Condition {
        r#type: condition.kind.as_str().to_owned(),
        status: status.to_owned(),
        reason: reason.to_owned(),
        message,
        parent: condition.parent.as_ref().map(ToString::to_string),
        section: condition.section.as_ref().map(ToString::to_string),
        source: ConditionSource::Computed,
        writer: None,
        outdated: false,
    }
}

impl From<messages::ObjectStatus> for Object {
    fn from(status: messages::ObjectStatus) -> Self {
        let messages::ObjectStatus {
            group,
            kind,
            namespace,
            name,
            generation,
            conditions,
            programmed,
        } = status;
        Self {
            group,
            kind,
            namespace,
            name,
            generation: (generation != 0).then_some(generation),
            conditions: conditions.into_iter().map(Condition::from).collect(),
            programmed: programmed.map(Programmed::from),
            delegation: Delegation::default(),
            not_known: Vec::new(),
        }
    }
}

impl From<messages::Programmed> for Programmed {
    fn from(programmed: messages::Programmed) -> Self {
        let messages::Programmed { in_force, concerned, refused, status, reason, message } =
            programmed;
        let non_empty = |text: String| (!text.is_empty()).then_some(text);
        let (status, reason, message) = (non_empty(status), non_empty(reason), non_empty(message));
        Self { in_force, concerned, refused, status, reason, message }
    }
}
