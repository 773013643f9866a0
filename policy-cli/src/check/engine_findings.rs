//! Findings of the engine: dangling references, Servers that select nothing, matches that are never
//! reached.

use super::context::CheckContext;
use super::finding::{Finding, Undetermined};
use super::locations::Locations;
use crate::cluster::{Scope, undetermined};
use policy_crds::resource::WorkloadSelector;
use policy_crds::{Body, Field, Kind, Object, ObjectKey, Resource};
use policy_engine::findings::{self, FindingKind};
use policy_engine::source::Severity;
use serde_json::Value;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

pub(super) fn findings(
    context: &CheckContext<'_>,
    locations: &mut Locations,
    undetermined: &mut Vec<Undetermined>,
) -> Vec<Finding> {
    let objects: BTreeMap<_, _> =
        context.compiled.objects.iter().map(|object| (&object.meta.key, &**object)).collect();
    let mut engine_findings = Vec::new();
    for found in context.compiled.findings() {
        let Some(object) = objects.get(&found.object) else { continue };
        match not_known(object, &found, context) {
            Some(message) => {
                let decides = explains(found.kind);
                undetermined.push(Undetermined { object: found.object, message, decides });
            }
            None if is_reported(object, &found, context) => {
                engine_findings.push(finding(found, context, locations));
            }
            None => {}
        }
    }
    undetermined.extend(objects.values().filter_map(|object| {
        let missing = workloads_not_listed(object, context)?;
        let message = format!("what it selects is not known, because {missing} may not be listed");
        Some(Undetermined { object: object.meta.key.clone(), message, decides: true })
    }));
    undetermined.dedup();
    engine_findings
}

/// Message for an unknown suffix of the mesh's identities.
const MESH_NOT_KNOWN: &str = "whether its identities are of this mesh is not known, because no controller \
                              says what they end in; --control-plane-namespace does";

/// Reason why a finding may be wrong: the missing object may be among those that could not be
/// listed.
fn not_known(
    object: &Object,
    found: &findings::Finding,
    context: &CheckContext<'_>,
) -> Option<String> {
    let condition = match (found.kind, &found.other) {
        (FindingKind::Dangling(condition) | FindingKind::Ineffective(condition), _) => condition,
        (FindingKind::ClientMissing | FindingKind::ForeignClientMissing, Some(account)) => {
            let missing =
                undetermined::of_kinds(&[account.kind], &account.namespace, context.permissions)
                    .pop()?;
            return Some(format!(
                "whether {account} exists is not known, because {missing} may not be listed"
            ));
        }
        (FindingKind::Unused | FindingKind::UnusedOffered, _) => {
            let missing = users_not_listed(&found.object, found.kind, context)?;
            return Some(format!(
                "whether anything refers to it is not known, because {missing} may not be listed"
            ));
        }
        (FindingKind::UnusedGrant, _) => {
            let missing = referrers_not_listed(object, context)?;
            return Some(format!(
                "whether a reference uses it is not known, because {missing} may not be listed"
            ));
        }
        (FindingKind::NotServed, _) => {
            let kinds = [Kind::InboundRoute, Kind::ReferenceGrant, Kind::RouteAdmissionPolicy];
            let missing = undetermined::in_scope(&kinds, &Scope::All, context.permissions).pop()?;
            return Some(format!(
                "whether a Server answers for its target is not known, because {missing} may not be \
                 listed"
            ));
        }
        (FindingKind::ForeignIdentity, _) if !context.mesh_known => {
            return Some(MESH_NOT_KNOWN.to_owned());
        }
        (FindingKind::GrantsNobody { .. }, _) => {
            let missing = grants_not_listed(&object.meta.key, context)?;
            return Some(format!(
                "whether anything is granted on it is not known, because {missing} may not be listed"
            ));
        }
        _ => return None,
    };
    let missing = undetermined::of_object(object, context.permissions);
    let words = missing.iter().cloned().collect::<Vec<_>>().join(" and ");
    let stated = condition.as_str();
    (!missing.is_empty())
        .then(|| format!("{stated} is not known, because {words} may not be listed"))
}

/// True if a finding is reported by `check`.
fn is_reported(object: &Object, found: &findings::Finding, context: &CheckContext<'_>) -> bool {
    match found.kind {
        // Manifests that declare some clients of a namespace are assumed to declare all of them. One
        // of a namespace that they do not declare is reported with the one that was meant.
        FindingKind::ClientMissing | FindingKind::ForeignClientMissing => {
            // The same of Namespaces, which have no namespace.
            let declares = |client: &ObjectKey| context.declares(client.kind, &client.namespace);
            context.whole
                || found.other.as_ref().is_some_and(declares)
                || found.message.ends_with(" meant?")
        }
        FindingKind::OnlyRoute | FindingKind::TakesAway => {
            found.other.as_ref().is_some_and(|server| {
                Kind::attached().all(|kind| context.permissions.can_list(kind, &server.namespace))
            })
        }
        // Policies of other namespaces may be in other folders.
        FindingKind::UnusedOffered => context.whole,
        // Manifests that declare some objects of a kind and a namespace are assumed to declare all
        // of them.
        FindingKind::UnusedGrant => {
            let mut from = granted_from(object).into_iter();
            context.whole || from.all(|(kind, namespace)| context.declares(kind, &namespace))
        }
        // A Server may be intended for the remaining ports.
        FindingKind::DisplacedInPart => false,
        // In a manifest, an explicit value is intended.
        FindingKind::GrantsNobody { stated } => {
            (context.whole || !stated) && workloads_not_listed(object, context).is_none()
        }
        // Resources beside the manifests may declare the port number, and a container may listen on
        // an undeclared port.
        FindingKind::PortNumber if !context.whole => false,
        FindingKind::SelectsNothing if context.policy_only => false,
        FindingKind::SelectsNothing
        | FindingKind::PortName
        | FindingKind::PortNumber
        | FindingKind::ServicePort
        | FindingKind::Displaced => workloads_not_listed(object, context).is_none(),
        FindingKind::Dangling(_)
        | FindingKind::Ineffective(_)
        | FindingKind::Remark
        | FindingKind::PrecedenceDiffers
        | FindingKind::Overlaps
        | FindingKind::NeverReached
        | FindingKind::NeverReachedElsewhere
        | FindingKind::NotServed
        | FindingKind::ForeignIdentity
        | FindingKind::GrantsEvery
        | FindingKind::TrustsRoutes
        | FindingKind::LargePort
        | FindingKind::Unused => true,
    }
}

/// The kinds that may grant on a Server and could not be listed.
fn grants_not_listed(server: &ObjectKey, context: &CheckContext<'_>) -> Option<String> {
    let mut kinds = vec![Kind::AuthorizationPolicy, Kind::ServerAuthorization];
    kinds.extend(Kind::routes());
    let missing = undetermined::of_kinds(&kinds, &server.namespace, context.permissions);
    (!missing.is_empty()).then(|| missing.join(" and "))
}

/// The kinds and namespaces of the objects that a ReferenceGrant lets refer.
fn granted_from(object: &Object) -> Vec<(Kind, Arc<str>)> {
    let Body::Valid(Resource::ReferenceGrant(grant)) = &object.body else { return Vec::new() };
    let known = grant.from.iter().filter_map(|from| Some((from.known_kind()?, &from.namespace)));
    known.map(|(kind, namespace)| (kind, namespace.clone())).collect()
}

/// The objects that may use a ReferenceGrant, if they could not be listed.
fn referrers_not_listed(grant: &Object, context: &CheckContext<'_>) -> Option<String> {
    let from = granted_from(grant).into_iter();
    let missing: BTreeSet<String> = from
        .flat_map(|(kind, namespace)| {
            undetermined::of_kinds(&[kind], &namespace, context.permissions)
        })
        .collect();
    (!missing.is_empty()).then(|| missing.into_iter().collect::<Vec<_>>().join(" and "))
}

/// The objects that may refer to an authentication, a group or a service, if they could not be listed.
fn users_not_listed(
    key: &ObjectKey,
    kind: FindingKind,
    context: &CheckContext<'_>,
) -> Option<String> {
    let everywhere = kind == FindingKind::UnusedOffered;
    let scope = if everywhere { Scope::All } else { Scope::Namespace(key.namespace.clone()) };
    let fields = [Field::Authentication, Field::Include, Field::Delegate];
    let uses = |kind: &Kind| fields.iter().any(|field| kind.reference(*field, key.kind).is_some());
    let users: Vec<Kind> = Kind::ALL.into_iter().filter(uses).collect();
    undetermined::in_scope(&users, &scope, context.permissions).pop()
}

/// The workloads that a Server selects from, if they could not be listed.
fn workloads_not_listed(object: &Object, context: &CheckContext<'_>) -> Option<String> {
    let Body::Valid(Resource::Server(server)) = &object.body else { return None };
    let kind = match &server.workloads {
        WorkloadSelector::Pods(_) => Kind::Pod,
        WorkloadSelector::ExternalWorkloads(_) => Kind::ExternalWorkload,
    };
    undetermined::of_kinds(&[kind], &object.meta.key.namespace, context.permissions).pop()
}

/// True if a finding explains why an object takes part in no policy.
fn explains(kind: FindingKind) -> bool {
    match kind {
        FindingKind::ClientMissing
        | FindingKind::ForeignClientMissing
        | FindingKind::ForeignIdentity
        | FindingKind::GrantsEvery
        | FindingKind::TrustsRoutes
        | FindingKind::LargePort
        | FindingKind::Overlaps
        | FindingKind::OnlyRoute
        | FindingKind::TakesAway => false,
        FindingKind::Dangling(_)
        | FindingKind::Ineffective(_)
        | FindingKind::Remark
        | FindingKind::PrecedenceDiffers
        | FindingKind::SelectsNothing
        | FindingKind::PortName
        | FindingKind::PortNumber
        | FindingKind::ServicePort
        | FindingKind::GrantsNobody { .. }
        | FindingKind::Displaced
        | FindingKind::DisplacedInPart
        | FindingKind::NeverReached
        | FindingKind::NeverReachedElsewhere
        | FindingKind::NotServed
        | FindingKind::Unused
        | FindingKind::UnusedOffered
        | FindingKind::UnusedGrant => true,
    }
}

fn finding(
    found: findings::Finding,
    context: &CheckContext<'_>,
    locations: &mut Locations,
) -> Finding {
    let explains = explains(found.kind);
    Finding { explains, ..placed(found, context, locations) }
}

/// Returns the finding with its field, as far as the message identifies it.
fn placed(
    found: findings::Finding,
    context: &CheckContext<'_>,
    locations: &mut Locations,
) -> Finding {
    let findings::Finding { object, kind, field, message, other } = found;
    let is_namespace = other.is_some_and(|other| other.kind == Kind::Namespace);
    let warning = |field, message| Finding::warning(&object, field, message);
    match kind {
        FindingKind::SelectsNothing => match matched_before(locations.value(&object)) {
            Some(before) => {
                let message = format!("{message}; it did before: {before}");
                Finding { severity: Severity::Error, ..warning(field, message) }
            }
            None => warning(field, message),
        },
        FindingKind::OnlyRoute | FindingKind::UnusedGrant => {
            Finding { severity: Severity::Note, ..warning(field, message) }
        }
        // The API server stores the default `deny`, so a stored `deny` does not show the author's
        // intent.
        FindingKind::GrantsNobody { .. } if context.whole => {
            Finding { severity: Severity::Note, ..warning(field, message) }
        }
        FindingKind::GrantsNobody { .. } => {
            let message = format!("{message}; state `accessPolicy: deny` if that is meant");
            warning(field, message)
        }
        FindingKind::PortName => Finding { severity: context.missing(), ..warning(field, message) },
        FindingKind::Dangling(_) => {
            let field = named_field(&object, &message, locations).unwrap_or(field);
            let message = match message.contains("no ReferenceGrant") {
                true => format!("{message}; `portcullis grants` prints one that does"),
                false => message,
            };
            Finding { severity: context.missing(), ..warning(field, message) }
        }
        // Namespaces are often declared by the manifests of others.
        FindingKind::ForeignClientMissing
            if is_namespace && !context.whole && !message.ends_with(" meant?") =>
        {
            let message = message.replace("does not exist", "is declared by no manifest here");
            Finding { severity: Severity::Note, ..warning(field, message) }
        }
        FindingKind::Ineffective(_)
        | FindingKind::Remark
        | FindingKind::PrecedenceDiffers
        | FindingKind::ClientMissing
        | FindingKind::ForeignClientMissing => {
            warning(named_field(&object, &message, locations).unwrap_or(field), message)
        }
        FindingKind::PortNumber
        | FindingKind::ServicePort
        | FindingKind::Displaced
        | FindingKind::DisplacedInPart
        | FindingKind::NeverReached
        | FindingKind::NeverReachedElsewhere
        | FindingKind::NotServed
        | FindingKind::Overlaps
        | FindingKind::ForeignIdentity
        | FindingKind::Unused
        | FindingKind::UnusedOffered
        | FindingKind::GrantsEvery
        | FindingKind::TakesAway
        | FindingKind::TrustsRoutes
        | FindingKind::LargePort => warning(field, message),
    }
}

/// The path of the reference to an object that a message names, as `Kind namespace/name`.
fn named_field(object: &ObjectKey, message: &str, locations: &mut Locations) -> Option<String> {
    let spec = locations.value(object)?.get("spec")?;
    let words: Vec<&str> = message.split([' ', '`', ',', ';', ':']).collect();
    words.iter().enumerate().find_map(|(at, word)| {
        let (namespace, name) = word.split_once('/')?;
        let kind = at.checked_sub(1).and_then(|before| words.get(before)).copied();
        // A kind of two groups stands with its group.
        let kind = kind.unwrap_or_default().split('.').next().unwrap_or_default();
        let sought = Sought { kind, namespace, name };
        reference(spec, &sought, "spec", true).or_else(|| reference(spec, &sought, "spec", false))
    })
}

/// The object that a reference is sought to.
struct Sought<'a> {
    kind: &'a str,
    namespace: &'a str,
    name: &'a str,
}

impl Sought<'_> {
    /// True if these are the fields of a reference to the object; `states_kind`: with its kind.
    fn is_named_by(&self, fields: &serde_json::Map<String, Value>, states_kind: bool) -> bool {
        let text = |field: &str| fields.get(field).and_then(Value::as_str);
        let kind = text("kind");
        text("name").is_some_and(|name| name.eq_ignore_ascii_case(self.name))
            && text("namespace").is_none_or(|namespace| namespace == self.namespace)
            && kind.is_none_or(|kind| kind == self.kind)
            && kind.is_some() == states_kind
    }
}

/// The path of the reference to an object.
fn reference(value: &Value, sought: &Sought<'_>, path: &str, states_kind: bool) -> Option<String> {
    let inside = |value: &Value, path: String| reference(value, sought, &path, states_kind);
    match value {
        Value::Object(fields) if sought.is_named_by(fields, states_kind) => {
            Some(format!("{path}.name"))
        }
        Value::Object(fields) => {
            // The references of such a list state no kind.
            let of_others = |key: &str| key == "serviceAccounts" && sought.kind != "ServiceAccount";
            let mut fields = fields.iter().filter(|(key, _)| !of_others(key));
            fields.find_map(|(key, value)| inside(value, format!("{path}.{key}")))
        }
        Value::Array(items) => items
            .iter()
            .enumerate()
            .find_map(|(index, item)| inside(item, format!("{path}[{index}]"))),
        Value::Null | Value::Bool(_) | Value::Number(_) | Value::String(_) => None,
    }
}

/// Message of the object's `Programmed` condition if it was enforced on workloads before.
fn matched_before(value: Option<&Value>) -> Option<String> {
    let conditions = value?.get("status")?.get("conditions")?.as_array()?;
    let text = |condition: &Value, field: &str| {
        condition.get(field).and_then(Value::as_str).unwrap_or_default().to_owned()
    };
    let programmed = conditions.iter().find(|condition| text(condition, "type") == "Programmed")?;
    let some = ["Programmed", "Pending", "Refused", "StoppedMatching"];
    let some = some.contains(&&*text(programmed, "reason"));
    some.then(|| format!("its status says {}", text(programmed, "message")))
}
