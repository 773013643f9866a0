//! Manifests of the services in a FileDescriptorSet.

use super::choice::{Chosen, GrpcChoice};
use super::descriptor::{Declared, declared, descriptor_set};
use super::schema::{MethodDescriptorProto, MethodOptions};
use crate::manifest::{Imported, Manifest};
use crate::object_name::object_name;
use crate::report::{Fidelity, ReportRow};
use policy_crds::route_selector::IDEMPOTENT;
use policy_crds::{Kind, quote};
use serde_json::{Value, json};
use std::collections::BTreeMap;

/// A GrpcService for each service of a FileDescriptorSet that is asked for.
///
/// # Errors
/// Everything that is wrong, each to be read behind the name of the file.
pub fn grpc_services(bytes: &[u8], choice: &GrpcChoice<'_>) -> Result<Imported, Vec<String>> {
    let set = descriptor_set(bytes).map_err(|error| vec![error])?;
    let all = declared(&set).map_err(|error| vec![error])?;
    let Chosen { services, empty } = choice.of(&all)?;
    let mut imported = Imported::default();
    imported.rows.extend(empty.into_iter().map(|service| {
        let note = "it has no methods, and a GrpcService without methods is for all";
        ReportRow::without_line(service.place(), Fidelity::Omitted, note)
    }));
    let mut errors = Vec::new();
    let mut names: BTreeMap<String, &Declared<'_>> = BTreeMap::new();
    for service in services {
        let name = choice.name.map_or_else(|| object_name(&service.name), str::to_owned);
        match Manifest::new(Kind::GrpcService, choice.namespace, &name, spec(service)) {
            Ok(manifest) => {
                imported.manifests.push(manifest);
                let note = format!("GrpcService {}", quote(&name));
                let row = ReportRow::without_line(service.place(), Fidelity::Exact, note);
                imported.rows.push(row);
                errors.extend(namesake(name, service, &mut names));
            }
            Err(found) => errors.extend(found.iter().map(|error| {
                let mend = if error.field == "metadata.name" { NAMED } else { "" };
                format!("{}: {error}{mend}", service.place())
            })),
        }
    }
    if errors.is_empty() { Ok(imported) } else { Err(errors) }
}

/// The way out of names that cannot be derived.
const NAMED: &str = "; import it alone, with --service and --name";

/// The error of a second object of one name, which would replace the first when both are applied.
fn namesake<'a, 'b>(
    name: String,
    service: &'a Declared<'b>,
    names: &mut BTreeMap<String, &'a Declared<'b>>,
) -> Option<String> {
    let called = quote(&name);
    let other = names.insert(name, service)?;
    let (place, other) = (service.place(), quote(&other.name));
    Some(format!("{place}: {other} would be called {called} as well{NAMED}"))
}

fn spec(service: &Declared<'_>) -> Value {
    let methods: Vec<Value> = service.methods.iter().map(method).collect();
    json!({"service": service.name, "methods": methods})
}

fn method(method: &MethodDescriptorProto) -> Value {
    if method.options.is_some_and(MethodOptions::is_idempotent) {
        json!({"name": method.name(), "labels": {IDEMPOTENT: "true"}})
    } else {
        json!({"name": method.name()})
    }
}
