//! The requests that TrafficTargets refer to.

use super::binding::{BoundIdentity, read_binding};
use super::naming::named;
use crate::file::SourceNode;
use crate::mesh::{PathCondition, PortChoice, RequestCondition};
use std::collections::BTreeMap;

/// Named matches of an HTTPRouteGroup, each with its conditions or the reason why it cannot be said.
pub(super) type NamedMatches = Vec<(String, Result<Vec<RequestCondition>, String>)>;

/// The objects that TrafficTargets refer to, by namespace and name.
#[derive(Default)]
pub(super) struct SmiSpecs<'a> {
    /// The namespace of objects without one.
    pub(super) namespace: Option<&'a str>,
    /// HTTPRouteGroups.
    pub(super) groups: BTreeMap<(Option<String>, String), NamedMatches>,
    /// Ports of TCPRoutes; absent: every one.
    pub(super) tcp: BTreeMap<(Option<String>, String), Option<Vec<PortChoice>>>,
    /// IdentityBindings.
    pub(super) bindings: BTreeMap<(Option<String>, String), Result<BoundIdentity, String>>,
}

impl SmiSpecs<'_> {
    /// Reads an object.
    ///
    /// # Errors
    /// It has another form than its version says.
    pub(super) fn read(&mut self, kind: &str, object: &SourceNode<'_>) -> Result<(), String> {
        let key = named(object, self.namespace)?;
        match kind {
            "HTTPRouteGroup" => {
                let matches = matches(object)?;
                self.groups.insert(key, matches);
            }
            "TCPRoute" => {
                let ports = tcp_ports(object)?;
                self.tcp.insert(key, ports);
            }
            _ => {
                let binding = read_binding(object)?;
                self.bindings.insert(key, binding);
            }
        }
        Ok(())
    }
}

/// The matches of a group: below `spec` since v1alpha3, at the top before.
fn matches(object: &SourceNode<'_>) -> Result<NamedMatches, String> {
    let holder = object.get("spec").unwrap_or_else(|| object.clone());
    let mut found = Vec::new();
    for node in holder.list_of("matches")? {
        let name = node.get("name").map(|it| it.text()).transpose()?.unwrap_or_default();
        found.push((name.to_owned(), conditions(&node)?));
    }
    Ok(found)
}

/// The conditions of a match, one for each method; or why it cannot be said.
fn conditions(node: &SourceNode<'_>) -> Result<Result<Vec<RequestCondition>, String>, String> {
    if let Some((_, message)) = node.unknown(&["name", "methods", "pathRegex", "headers"]) {
        return Ok(Err(message));
    }
    let path = match node.get("pathRegex").map(|it| it.text()).transpose()? {
        None => PathCondition::Any,
        Some(".*" | "/.*") => PathCondition::Any,
        Some(text) => PathCondition::Expression(text.to_owned()),
    };
    let mut headers = BTreeMap::new();
    if let Some(node) = node.get("headers") {
        // A mapping, and a list of mappings in v1alpha3.
        let maps = if node.value().is_array() { node.list()? } else { vec![node] };
        for map in maps {
            for (name, value) in map.entries()? {
                let value = value.text()?.to_owned();
                if headers.insert(name.to_ascii_lowercase(), value).is_some() {
                    return Ok(Err(format!("the header `{name}` has two conditions")));
                }
            }
        }
    }
    let methods = node.texts_of("methods")?;
    let methods: Vec<Option<String>> = if methods.is_empty() || methods.contains(&"*") {
        vec![None]
    } else {
        methods.into_iter().map(|method| Some(method.to_owned())).collect()
    };
    let condition = |method| RequestCondition {
        path: path.clone(),
        method,
        headers: headers.clone(),
        hosts: None,
    };
    Ok(Ok(methods.into_iter().map(condition).collect()))
}

/// The ports of a TCPRoute; `None`: every one, as before v1alpha3.
fn tcp_ports(object: &SourceNode<'_>) -> Result<Option<Vec<PortChoice>>, String> {
    let matches = object.get("spec").and_then(|spec| spec.get("matches"));
    let Some(matches) = matches else { return Ok(None) };
    let holders = if matches.value().is_array() { matches.list()? } else { vec![matches] };
    let mut ports = Vec::new();
    for holder in holders {
        if holder.get("ports").is_none() {
            return Ok(None);
        }
        for port in holder.list_of("ports")? {
            ports.push(port_number(&port)?);
        }
    }
    Ok(Some(ports))
}

/// A port by its number.
///
/// # Errors
/// It is none.
pub(super) fn port_number(node: &SourceNode<'_>) -> Result<PortChoice, String> {
    let number = node.value().as_u64().and_then(|it| u16::try_from(it).ok()).filter(|it| *it > 0);
    let number = number.ok_or_else(|| node.error("a port from 1 to 65535 is expected"))?;
    Ok(PortChoice::Range(number, number))
}
