//! The operations of a document.

use super::base_path::of_servers;
use super::parameter::path_values;
use super::reference::{Resolved, resolve};
use super::template::group_paths;
use super::version::ApiVersion;
use crate::duration;
use crate::file::SourceNode;
use crate::groups::SourceRoute;
use crate::object_name::object_name;
use crate::report::{Fidelity, ReportRow};
use policy_crds::quote;
use policy_crds::route_selector::IDEMPOTENT;
use std::collections::BTreeMap;

/// The keys of operations, and the methods that they stand for.
const METHODS: &[(&str, &str)] = &[
    ("get", "GET"),
    ("put", "PUT"),
    ("post", "POST"),
    ("delete", "DELETE"),
    ("options", "OPTIONS"),
    ("head", "HEAD"),
    ("patch", "PATCH"),
    ("trace", "TRACE"),
];
/// Longest name and longest value of a label that is written.
const MAX_LABEL: usize = 63;
const MAX_VALUE: usize = 256;

/// The fields of a path that are no operations.
const OTHERS: &[&str] = &["$ref", "summary", "description", "servers", "parameters"];
/// The operation for every method that has none of its own, in documents of API gateways of AWS.
const ANY_METHOD: &str = "x-amazon-apigateway-any-method";

/// True for a field of a path that another version of OpenAPI, or an extension, may mean as an operation.
fn may_be_an_operation(key: &str) -> bool {
    let is_known = METHODS.iter().any(|(own, _)| *own == key) || OTHERS.contains(&key);
    key == ANY_METHOD || !(is_known || key.starts_with("x-"))
}

/// The parts that all operations of a document share.
struct Operations<'a> {
    version: ApiVersion,
    bases: &'a [String],
    rows: &'a mut Vec<ReportRow>,
}

/// The routes of the operations, in the order of their paths.
///
/// # Errors
/// Every part that has another form than the format says.
pub(super) fn routes_of(
    root: &SourceNode<'_>,
    version: ApiVersion,
    bases: &[String],
    rows: &mut Vec<ReportRow>,
) -> Result<Vec<SourceRoute>, Vec<String>> {
    let Some(paths) = root.get("paths") else { return Ok(Vec::new()) };
    let mut operations = Operations { version, bases, rows };
    let (mut routes, mut errors) = (Vec::new(), Vec::new());
    for (template, item) in paths.entries().map_err(|error| vec![error])? {
        if template.starts_with("x-") {
            continue;
        }
        match operations.of_path(template, item) {
            Ok(found) => routes.extend(found),
            Err(error) => errors.push(error),
        }
    }
    if errors.is_empty() { Ok(routes) } else { Err(errors) }
}

impl Operations<'_> {
    fn of_path(
        &mut self,
        template: &str,
        item: SourceNode<'_>,
    ) -> Result<Vec<SourceRoute>, String> {
        let place = item.place();
        let item = match resolve(item)? {
            Resolved::Here(item) => item,
            Resolved::Elsewhere(address) => {
                let note = format!("it is in {}, which is not read", quote(&address));
                self.rows.push(ReportRow::at(place, template, Fidelity::Omitted, note));
                return Ok(Vec::new());
            }
        };
        item.entries()?;
        let own = match self.version {
            ApiVersion::OpenApi3 => of_servers(&item, self.rows)?,
            ApiVersion::Swagger2 => None,
        };
        let bases = own.unwrap_or_else(|| self.bases.to_vec());
        let mut routes = Vec::new();
        for (key, method) in METHODS {
            let Some(operation) = item.get(key) else { continue };
            routes.extend(self.route(template, method, (&item, &operation), &bases)?);
        }
        for (key, node) in item.entries()? {
            if may_be_an_operation(key) {
                let subject = format!("{key} {template}");
                let note = "requests of other methods than those of OpenAPI 3.1";
                self.rows.push(ReportRow::at(node.place(), subject, Fidelity::Omitted, note));
            }
        }
        Ok(routes)
    }

    fn route(
        &mut self,
        template: &str,
        method: &str,
        (item, operation): (&SourceNode<'_>, &SourceNode<'_>),
        bases: &[String],
    ) -> Result<Option<SourceRoute>, String> {
        operation.entries()?;
        let subject = format!("{method} {template}");
        let own = match self.version {
            ApiVersion::OpenApi3 => of_servers(operation, self.rows)?,
            ApiVersion::Swagger2 => None,
        };
        let bases = own.unwrap_or_else(|| bases.to_vec());
        let values = path_values([item, operation], self.version, self.rows)?;
        let mut paths = Vec::new();
        for base in &bases {
            match group_paths(&format!("{base}{template}"), &values) {
                Ok(found) => paths.extend(found),
                Err(reason) => {
                    let place = operation.place();
                    self.rows.push(ReportRow::at(place, &subject, Fidelity::Omitted, reason));
                    return Ok(None);
                }
            }
        }
        Ok(Some(SourceRoute {
            place: operation.place(),
            labels: self.labels(&subject, operation)?,
            timeout: self.timeout(&subject, operation),
            subject,
            paths,
            expression: None,
            method: Some(method.to_owned()),
            fidelity: (Fidelity::Exact, String::new()),
        }))
    }

    fn labels(
        &mut self,
        subject: &str,
        operation: &SourceNode<'_>,
    ) -> Result<BTreeMap<String, String>, String> {
        let mut labels = BTreeMap::new();
        if let Some(id) = operation.get("operationId") {
            let text = id.text()?;
            if text.is_empty() || text.len() > MAX_VALUE {
                let note = format!("no label: its operationId has up to {MAX_VALUE} bytes");
                self.rows.push(ReportRow::at(id.place(), subject, Fidelity::Omitted, note));
            } else {
                labels.insert("operation".to_owned(), text.to_owned());
            }
        }
        for tag in operation.list_of("tags")? {
            let name = format!("tag.{}", object_name(tag.text()?));
            if name.len() > MAX_LABEL || name.ends_with('.') {
                let note = format!("no label can be made of the tag {}", quote(tag.text()?));
                self.rows.push(ReportRow::at(tag.place(), subject, Fidelity::Omitted, note));
            } else {
                labels.insert(name, "true".to_owned());
            }
        }
        if operation.truth_of("x-linkerd-retryable")? == Some(true) {
            labels.insert(IDEMPOTENT.to_owned(), "true".to_owned());
        }
        Ok(labels)
    }

    fn timeout(&mut self, subject: &str, operation: &SourceNode<'_>) -> Option<String> {
        let node = operation.get("x-linkerd-timeout")?;
        let timeout = node.value().as_str().and_then(duration::of_go);
        if timeout.is_none() {
            let note = "its timeout is no duration such as `10s`, from `1ms` to `1h`";
            self.rows.push(ReportRow::at(node.place(), subject, Fidelity::Omitted, note));
        }
        timeout
    }
}
