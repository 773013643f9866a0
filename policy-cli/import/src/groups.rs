//! HttpRouteGroups of described routes, and what puts them on a Server.

use crate::manifest::{Imported, Manifest};
use crate::object_name::object_name;
use crate::report::{Fidelity, ReportRow, SourceLine};
use policy_crds::resource::GroupPath;
use policy_crds::{FieldError, Kind, quote};
use serde_json::{Value, json};
use std::collections::{BTreeMap, BTreeSet, HashMap};

/// The most routes of a group.
const GROUP_ROUTES: usize = 256;
/// The most routes of one import: as many as a Server takes.
const MAX_ROUTES: usize = 4096;
/// The most matches of a rule of an HTTPRoute, and rules of one.
const RULE_MATCHES: usize = 8;
const ROUTE_RULES: usize = 16;
/// The label of routes with a bound on their time.
const TIMEOUT: &str = "timeout";

/// The objects that are written of described routes.
#[derive(Clone, Copy, Debug, Default)]
pub struct GroupChoice<'a> {
    /// Name of the group, if it is not derived from the source.
    pub name: Option<&'a str>,
    /// Namespace of the objects.
    pub namespace: Option<&'a str>,
    /// The Server that the routes are put on: with it a binding, regular expressions as HTTPRoutes, and
    /// bounds on time are written.
    pub server: Option<&'a str>,
}

/// A route as a source describes it.
#[derive(Clone, Debug)]
pub(crate) struct SourceRoute {
    /// Its line.
    pub(crate) place: SourceLine,
    /// Its name in messages.
    pub(crate) subject: String,
    /// Its paths in the grammar of groups.
    pub(crate) paths: Vec<String>,
    /// A regular expression of its path that no path of a group says.
    pub(crate) expression: Option<String>,
    /// Its method; absent: any.
    pub(crate) method: Option<String>,
    /// Its labels.
    pub(crate) labels: BTreeMap<String, String>,
    /// Its longest time, as the Gateway API writes it.
    pub(crate) timeout: Option<String>,
    /// The faithfulness of its paths, and the difference.
    pub(crate) fidelity: (Fidelity, String),
}

/// Writes the groups of these routes.
///
/// # Errors
/// Nothing can be written, or more than is imported at once.
pub(crate) fn write_groups(
    name: &str,
    routes: &[SourceRoute],
    choice: &GroupChoice<'_>,
) -> Result<Imported, Vec<String>> {
    let mut writer = GroupWriter {
        choice,
        name,
        imported: Imported::default(),
        seen: HashMap::new(),
        expressions: BTreeMap::new(),
    };
    let mut entries = Vec::new();
    for route in routes {
        entries.extend(writer.entries(route));
        if entries.len() > MAX_ROUTES {
            return Err(vec![format!(
                "describes more than {MAX_ROUTES} routes, which is the most that a Server takes"
            )]);
        }
    }
    writer.put_groups(&entries).map_err(|errors| texts(&errors))?;
    if choice.server.is_some() {
        writer.put_expressions().map_err(|errors| texts(&errors))?;
        writer.put_timeouts(routes).map_err(|errors| texts(&errors))?;
    }
    Ok(writer.imported)
}

fn texts(errors: &[FieldError]) -> Vec<String> {
    errors.iter().map(ToString::to_string).collect()
}

/// The match of a route's regular expression.
fn expression_match(route: &SourceRoute, expression: &str) -> Value {
    let mut one = json!({"path": {"type": "RegularExpression", "value": expression}});
    if let (Some(method), Value::Object(fields)) = (&route.method, &mut one) {
        fields.insert("method".to_owned(), json!(method));
    }
    one
}

/// The reason why no HTTPRoute takes the match of a regular expression.
fn expression_fault(wanted: &Value, server: &str) -> Option<String> {
    let rules = json!([{"matches": [wanted]}]);
    let spec = json!({"parentRefs": [server_reference(server)], "rules": rules});
    let errors = Manifest::new(Kind::PolicyHttpRoute, None, "route", spec).err()?;
    let messages: Vec<&str> = errors.iter().map(|error| &*error.message).collect();
    Some(messages.join(", "))
}

struct GroupWriter<'a> {
    choice: &'a GroupChoice<'a>,
    name: &'a str,
    imported: Imported,
    /// The first route of each method and shape of a path.
    seen: HashMap<(Option<String>, String), String>,
    /// The matches of regular expressions that an HTTPRoute takes, by the longest time of their routes.
    expressions: BTreeMap<Option<String>, Vec<Value>>,
}

impl GroupWriter<'_> {
    /// The elements of a group for a route, and its row.
    fn entries(&mut self, route: &SourceRoute) -> Vec<Value> {
        let mut entries = Vec::new();
        let mut faults = Vec::new();
        for path in &route.paths {
            match self.entry(route, path) {
                Ok(entry) => entries.push(entry),
                Err(fault) => faults.push(fault),
            }
        }
        let kept = match &route.expression {
            Some(expression) => {
                self.keep(route, expression).map_err(|fault| faults.push(fault)).ok()
            }
            None => None,
        };
        if route.timeout.is_some() && self.choice.server.is_none() {
            faults.push("its timeout has no Server to be on; --server writes it".to_owned());
        }
        let (fidelity, note) = &route.fidelity;
        let written = !entries.is_empty() || kept.is_some();
        let fidelity = match (written, faults.is_empty()) {
            (false, _) => Fidelity::Omitted,
            (true, false) => Fidelity::Narrower,
            (true, true) => *fidelity,
        };
        let paths = entries.iter().filter_map(|entry| entry.get("path")?.as_str());
        let mut notes: Vec<String> = paths.map(str::to_owned).collect();
        notes.extend(kept);
        notes.extend((!note.is_empty()).then(|| note.clone()));
        notes.extend(faults);
        let (place, subject) = (route.place.clone(), route.subject.as_str());
        self.imported.rows.push(ReportRow::at(place, subject, fidelity, notes.join("; ")));
        entries
    }

    /// Keeps a regular expression for an HTTPRoute: the note about it, or why it is not written.
    fn keep(&mut self, route: &SourceRoute, expression: &str) -> Result<String, String> {
        let Some(server) = self.choice.server else {
            return Err(format!(
                "the regular expression {} is no path of a group; --server writes an HTTPRoute with it",
                quote(expression)
            ));
        };
        let wanted = expression_match(route, expression);
        if let Some(fault) = expression_fault(&wanted, server) {
            return Err(fault);
        }
        self.expressions.entry(route.timeout.clone()).or_default().push(wanted);
        Ok(format!("HTTPRoute with the regular expression {}", quote(expression)))
    }

    /// The element of a path; an error if no group takes it, or another route has it.
    fn entry(&mut self, route: &SourceRoute, path: &str) -> Result<Value, String> {
        let read = GroupPath::parse(path).map_err(|fault| format!("{} {fault}", quote(path)))?;
        let key = (route.method.clone(), shape(read.as_str()));
        if let Some(other) = self.seen.get(&key) {
            return Err(format!("matches the same requests as {}", quote(other)));
        }
        let mut entry = json!({"path": read.as_str()});
        if let Value::Object(fields) = &mut entry {
            if let Some(method) = &route.method {
                fields.insert("methods".to_owned(), json!([method]));
            }
            let mut labels = route.labels.clone();
            labels.extend(route.timeout.clone().map(|timeout| (TIMEOUT.to_owned(), timeout)));
            if !labels.is_empty() {
                fields.insert("labels".to_owned(), json!(labels));
            }
        }
        let alone = json!({"routes": [entry.clone()]});
        Manifest::new(Kind::HttpRouteGroup, None, "group", alone)
            .map_err(|errors| texts(&errors).join(", "))?;
        self.seen.insert(key, route.subject.clone());
        Ok(entry)
    }

    fn push(&mut self, kind: Kind, name: &str, spec: Value) -> Result<(), Vec<FieldError>> {
        let manifest = Manifest::new(kind, self.choice.namespace, name, spec)?;
        self.imported.manifests.push(manifest);
        Ok(())
    }

    fn put_groups(&mut self, entries: &[Value]) -> Result<(), Vec<FieldError>> {
        let mut names = Vec::new();
        let one = entries.len() <= GROUP_ROUTES;
        for (number, routes) in (1_usize..).zip(entries.chunks(GROUP_ROUTES)) {
            let name = if one { self.name.to_owned() } else { format!("{}-{number}", self.name) };
            self.push(Kind::HttpRouteGroup, &name, json!({"routes": routes}))?;
            names.push(name);
        }
        let (Some(server), false) = (self.choice.server, names.is_empty()) else { return Ok(()) };
        let references: Vec<Value> = names.iter().map(|name| json!({"name": name})).collect();
        let spec = json!({"targetRef": server_reference(server), "routeRefs": references});
        self.push(Kind::HttpRouteBinding, self.name, spec)
    }

    /// HTTPRoutes of the regular expressions that no group says.
    fn put_expressions(&mut self) -> Result<(), Vec<FieldError>> {
        let rule = |(timeout, matches): (Option<&str>, &[Value])| match timeout {
            Some(timeout) => json!({"matches": matches, "timeouts": {"request": timeout}}),
            None => json!({"matches": matches}),
        };
        let rules = self.expressions.iter().flat_map(|(timeout, matches)| {
            matches.chunks(RULE_MATCHES).map(|matches| rule((timeout.as_deref(), matches)))
        });
        let rules: Vec<Value> = rules.collect();
        for (number, rules) in (1_usize..).zip(rules.chunks(ROUTE_RULES)) {
            let server = self.choice.server.unwrap_or_default();
            let spec = json!({"parentRefs": [server_reference(server)], "rules": rules});
            let name = format!("{}-expressions-{number}", self.name);
            self.push(Kind::PolicyHttpRoute, &name, spec)?;
        }
        Ok(())
    }

    /// A class and a TimeoutPolicy of each bound on time that routes of the groups have.
    fn put_timeouts(&mut self, routes: &[SourceRoute]) -> Result<(), Vec<FieldError>> {
        let in_groups = routes.iter().filter(|route| !route.paths.is_empty());
        let timeouts: BTreeSet<&str> = in_groups.filter_map(|it| it.timeout.as_deref()).collect();
        for timeout in timeouts {
            let server = self.choice.server.unwrap_or_default();
            let name = format!("{}-{}", self.name, object_name(timeout));
            let selector = json!({"matchLabels": {TIMEOUT: timeout}});
            let spec = json!({"targetRef": server_reference(server), "routeSelector": selector});
            self.push(Kind::HttpRouteClass, &name, spec)?;
            let kind = Kind::HttpRouteClass;
            let target = json!({"group": kind.group(), "kind": kind.as_str(), "name": name});
            let spec = json!({"targetRef": target, "timeouts": {"request": timeout}});
            self.push(Kind::TimeoutPolicy, &name, spec)?;
        }
        Ok(())
    }
}

fn server_reference(name: &str) -> Value {
    json!({"group": Kind::Server.group(), "kind": Kind::Server.as_str(), "name": name})
}

/// A path without the names of its parameters.
fn shape(path: &str) -> String {
    let segment = |text: &str| match text.get(..1) {
        Some(mark @ (":" | "*")) => mark.to_owned(),
        Some(_) | None => text.to_owned(),
    };
    path.split('/').map(segment).collect::<Vec<_>>().join("/")
}
