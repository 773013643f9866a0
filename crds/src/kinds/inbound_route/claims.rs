//! The claims of an InboundRoute: hosts and Servers that it closes even if it is invalid.
//!
//! They are read on their own, so that an error of one field does not hide another field.

use super::fields::{ACTIONS, RULE, SPEC, VIRTUAL_HOST};
use crate::object::Claims;
use crate::parse::host;
use crate::parse::name::is_dns_name;
use crate::resource::{InboundAction, PathPrefix, Resource};
use policy_core::HostPattern;
use serde_json::{Map, Value};
use std::sync::Arc;

/// The claims of a valid object, or without one, of an object that cannot be read.
pub(in crate::kinds) fn claims(resource: Option<&Resource>) -> Claims {
    let Some(Resource::InboundRoute(route)) = resource else {
        return Claims::InboundRoute {
            hosts: Vec::new(),
            servers: Vec::new(),
            unread: true,
            root: true,
            paths: None,
            any_host: true,
        };
    };
    let mut found = Found::default();
    if let Some(own) = &route.virtual_host {
        found.root = true;
        own.hosts.iter().for_each(|host| found.host(host.clone()));
        own.target.iter().for_each(|name| found.server(name));
    }
    route.delegated_from.iter().for_each(|consent| found.host(consent.host.clone()));
    for rule in &route.routes {
        found.paths.push(rule.path.clone());
        if let InboundAction::Servers(names) = &rule.action {
            names.iter().for_each(|name| found.server(name));
        }
    }
    found.claims()
}

/// The claims of a spec, whatever else is wrong with it.
pub(super) fn of(spec: Option<&Value>) -> Claims {
    let mut found = Found::default();
    match spec {
        Some(Value::Object(spec)) => found.spec(spec),
        Some(_) | None => {
            (found.unread, found.root) = (true, true);
            (found.any_path, found.any_host) = (true, true);
        }
    }
    found.claims()
}

/// The claims that were found.
#[derive(Default)]
struct Found {
    hosts: Vec<HostPattern>,
    servers: Vec<Arc<str>>,
    unread: bool,
    root: bool,
    paths: Vec<PathPrefix>,
    any_path: bool,
    any_host: bool,
}

impl Found {
    fn claims(self) -> Claims {
        let Self { hosts, servers, unread, root, paths, any_path, any_host } = self;
        let paths = (!any_path).then_some(paths);
        Claims::InboundRoute { hosts, servers, unread, root, paths, any_host }
    }

    fn host(&mut self, host: HostPattern) {
        if !self.hosts.contains(&host) {
            self.hosts.push(host);
        }
    }

    fn server(&mut self, name: &str) {
        if !self.servers.iter().any(|own| **own == *name) {
            self.servers.push(name.into());
        }
    }

    /// A field whose name is not known may be a misspelt one that names Servers.
    fn known(&mut self, map: &Map<String, Value>, names: &[&str]) {
        self.unread |= map.keys().any(|key| !names.contains(&key.as_str()));
    }

    fn spec(&mut self, spec: &Map<String, Value>) {
        self.known(spec, SPEC);
        let rules = field(spec, "routes").and_then(Value::as_array);
        let serves = rules
            .into_iter()
            .flatten()
            .any(|rule| rule.get("serve").is_some_and(|serve| !serve.is_null()));
        let is_vertex = field(spec, "delegatedFrom").is_some();
        self.root = field(spec, "virtualhost").is_some() || !is_vertex;
        match field(spec, "virtualhost") {
            Some(Value::Object(own)) => self.virtual_host(own, serves),
            Some(_) => self.unread = true,
            // It may be the root's fields that are missing, a Server among them.
            None => self.unread |= !is_vertex,
        }
        let consents = field(spec, "delegatedFrom").and_then(Value::as_array);
        for consent in consents.into_iter().flatten() {
            self.any_host |= !self.host_of(consent.get("fqdn"));
        }
        self.any_host |= consents.is_none();
        match field(spec, "routes") {
            Some(Value::Array(rules)) if !rules.is_empty() => {
                rules.iter().for_each(|rule| self.rule(rule));
            }
            // It needs rules, and those may name any Server.
            Some(_) | None => (self.unread, self.any_path) = (true, true),
        }
    }

    /// `serves`: a rule of the object is answered by the Server that `targetRef` has to name then.
    fn virtual_host(&mut self, own: &Map<String, Value>, serves: bool) {
        self.known(own, VIRTUAL_HOST);
        self.host_of(own.get("fqdn"));
        let aliases = field(own, "aliases").and_then(Value::as_array);
        aliases.into_iter().flatten().for_each(|alias| _ = self.host_of(Some(alias)));
        match field(own, "targetRef") {
            Some(target) => self.server_of(target),
            None => self.unread |= serves,
        }
    }

    fn rule(&mut self, rule: &Value) {
        let Value::Object(rule) = rule else {
            (self.unread, self.any_path) = (true, true);
            return;
        };
        let path = rule.get("match").and_then(Value::as_str);
        match path.and_then(|path| PathPrefix::parse(path).ok()) {
            Some(path) => self.paths.push(path),
            None => self.any_path = true,
        }
        self.known(rule, RULE);
        // Without an action the one that was meant is unknown.
        self.unread |= ACTIONS.iter().all(|action| field(rule, action).is_none());
        match field(rule, "servers") {
            Some(Value::Array(servers)) if !servers.is_empty() => {
                servers.iter().for_each(|one| self.server_of(one))
            }
            Some(_) => self.unread = true,
            None => {}
        }
    }

    /// Returns true if the host can be read.
    fn host_of(&mut self, host: Option<&Value>) -> bool {
        let host = host.and_then(Value::as_str).and_then(|text| host::pattern(text).ok());
        let is_read = host.is_some();
        host.into_iter().for_each(|host| self.host(host));
        is_read
    }

    fn server_of(&mut self, reference: &Value) {
        match reference.get("name").and_then(Value::as_str).filter(|name| is_dns_name(name)) {
            Some(name) => self.server(name),
            None => self.unread = true,
        }
    }
}

/// A field; `null` is the same as absent.
fn field<'a>(map: &'a Map<String, Value>, name: &str) -> Option<&'a Value> {
    map.get(name).filter(|value| !value.is_null())
}
