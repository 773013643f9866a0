//! HttpRouteGroups and TimeoutPolicies from Linkerd's ServiceProfiles.

mod condition;
mod expression;

use crate::duration;
use crate::file::{ImportFile, SourceNode};
use crate::groups::{GroupChoice, SourceRoute, write_groups};
use crate::manifest::Imported;
use crate::object_name::object_name;
use crate::report::{Fidelity, ReportRow};
use condition::{ConditionPart, alternatives};
use expression::recognise;
use policy_crds::quote;
use policy_crds::route_selector::IDEMPOTENT;
use std::collections::BTreeMap;

/// Fields of the spec beside its routes, all about calls of clients.
const OF_CLIENTS: &[&str] = &["retryBudget", "dstOverrides", "opaquePorts"];
/// Longest value of a label.
const MAX_VALUE: usize = 256;

/// The groups of the ServiceProfiles in a file.
///
/// # Errors
/// There is none, or a part of one has another form than its definition says.
pub fn service_profiles(
    file: &ImportFile,
    choice: &GroupChoice<'_>,
) -> Result<Imported, Vec<String>> {
    let mut imported = Imported::default();
    let mut profiles = Vec::new();
    for object in file.objects() {
        match object.get("kind").and_then(|kind| kind.scalar()).as_deref() {
            Some("ServiceProfile") => profiles.push(object),
            kind => {
                let subject = kind.unwrap_or("an object without a kind").to_owned();
                let row =
                    ReportRow::at(object.place(), subject, Fidelity::Omitted, "no ServiceProfile");
                imported.rows.push(row);
            }
        }
    }
    if profiles.is_empty() {
        return Err(vec![file.error("has no ServiceProfile: `kind: ServiceProfile` is imported")]);
    }
    let mut errors = Vec::new();
    let mut named: BTreeMap<(Option<String>, String), SourceNode<'_>> = BTreeMap::new();
    for profile in &profiles {
        match of_profile(profile, choice) {
            Ok((key, found)) => {
                if let Some(other) = named.insert(key, profile.clone()) {
                    let line = other.place().line;
                    let message =
                        format!("would be called as that of line {line}: import one alone");
                    errors.push(profile.error(message));
                }
                imported.manifests.extend(found.manifests);
                imported.rows.extend(found.rows);
            }
            Err(found) => errors.extend(found),
        }
    }
    imported.rows.sort_by(|one, other| one.place.cmp(&other.place));
    if errors.is_empty() { Ok(imported) } else { Err(errors) }
}

/// The namespace and the name of the group, and what is written.
type ProfileGroup = ((Option<String>, String), Imported);

fn of_profile(
    profile: &SourceNode<'_>,
    choice: &GroupChoice<'_>,
) -> Result<ProfileGroup, Vec<String>> {
    let one = |error: String| vec![error];
    let metadata = profile.require("metadata").map_err(one)?;
    let service = metadata.text_of("name").map_err(one)?;
    let (name, namespace) = match service.split('.').collect::<Vec<_>>()[..] {
        [name, namespace, "svc", ..] => (name.to_owned(), Some(namespace.to_owned())),
        _ => {
            let namespace = metadata.get("namespace").map(|it| it.text().map(str::to_owned));
            (object_name(service), namespace.transpose().map_err(one)?)
        }
    };
    let name = choice.name.map_or(name, str::to_owned);
    let namespace = choice.namespace.map(str::to_owned).or(namespace);
    let mut rows = Vec::new();
    let spec = profile.require("spec").map_err(one)?;
    for field in OF_CLIENTS {
        if let Some(node) = spec.get(field) {
            let note = "it is about calls of clients, which nothing here changes";
            rows.push(ReportRow::at(node.place(), *field, Fidelity::Omitted, note));
        }
    }
    let (mut routes, mut errors) = (Vec::new(), Vec::new());
    for route in spec.list_of("routes").map_err(one)? {
        match of_route(&route, &mut rows) {
            Ok(found) => routes.extend(found),
            Err(error) => errors.push(error),
        }
    }
    if !errors.is_empty() {
        return Err(errors);
    }
    let choice = GroupChoice { namespace: namespace.as_deref(), ..*choice };
    let written = write_groups(&name, &routes, &choice);
    let mut imported =
        written.map_err(|errors| errors.iter().map(|it| profile.error(it)).collect::<Vec<_>>())?;
    imported.rows.extend(rows);
    Ok(((namespace, name), imported))
}

fn of_route(route: &SourceNode<'_>, rows: &mut Vec<ReportRow>) -> Result<Vec<SourceRoute>, String> {
    let name = route.get("name").map(|it| it.text()).transpose()?;
    let subject = name.unwrap_or("a route without a name").to_owned();
    let mut labels = BTreeMap::new();
    if let Some(name) = name.filter(|name| !name.is_empty() && name.len() <= MAX_VALUE) {
        labels.insert("route".to_owned(), name.to_owned());
    }
    if route.truth_of("isRetryable")? == Some(true) {
        labels.insert(IDEMPOTENT.to_owned(), "true".to_owned());
    }
    if let Some(node) = route.get("responseClasses") {
        let note = "responseClasses are about calls of clients";
        rows.push(ReportRow::at(node.place(), &subject, Fidelity::Omitted, note));
    }
    let timeout = timeout(route, &subject, rows)?;
    let condition = route.require("condition")?;
    let found = match alternatives(&condition)? {
        Ok(found) => found,
        Err(reason) => {
            rows.push(ReportRow::at(condition.place(), &subject, Fidelity::Omitted, reason));
            return Ok(Vec::new());
        }
    };
    let described = |part: ConditionPart| {
        let (paths, expression, fidelity) = match &part.path {
            None => {
                let paths = vec!["/".to_owned(), "/*rest".to_owned()];
                (paths, None, (Fidelity::Exact, String::new()))
            }
            Some(text) => match recognise(text) {
                Some(path) => {
                    let fidelity = match path.narrower {
                        Some(note) => (Fidelity::Narrower, note.to_owned()),
                        None => (Fidelity::Exact, String::new()),
                    };
                    (vec![path.text], None, fidelity)
                }
                None => (Vec::new(), Some(text.clone()), (Fidelity::Exact, String::new())),
            },
        };
        SourceRoute {
            place: condition.place(),
            subject: subject.clone(),
            paths,
            expression,
            method: part.method,
            labels: labels.clone(),
            timeout: timeout.clone(),
            fidelity,
        }
    };
    Ok(found.into_iter().map(described).collect())
}

fn timeout(
    route: &SourceNode<'_>,
    subject: &str,
    rows: &mut Vec<ReportRow>,
) -> Result<Option<String>, String> {
    let Some(node) = route.get("timeout") else { return Ok(None) };
    let text = node.text()?;
    let timeout = duration::of_go(text);
    if timeout.is_none() {
        let note = format!("its timeout {} is not from `1ms` to `1h`", quote(text));
        rows.push(ReportRow::at(node.place(), subject, Fidelity::Omitted, note));
    }
    Ok(timeout)
}
