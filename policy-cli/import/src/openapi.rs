//! HttpRouteGroups from OpenAPI 3.0, 3.1 and Swagger 2.0.

mod base_path;
mod operation;
mod parameter;
mod reference;
mod template;
mod version;

use crate::file::{ImportFile, SourceNode};
use crate::groups::{GroupChoice, write_groups};
use crate::manifest::Imported;
use crate::object_name::object_name;
use crate::report::{Fidelity, ReportRow};
use base_path::base_paths;
use operation::routes_of;
use version::version;

/// The groups of the paths of a document.
///
/// # Errors
/// It is no such document, or a part of it has another form than the format says.
pub fn open_api(file: &ImportFile, choice: &GroupChoice<'_>) -> Result<Imported, Vec<String>> {
    let mut roots = file.roots();
    let Some(root) = roots.next() else { return Err(vec![file.error("is empty")]) };
    if let Some(second) = roots.next() {
        return Err(vec![second.error("a second document: OpenAPI is one document a file")]);
    }
    let version = version(&root).map_err(|error| vec![error])?;
    let name = name(&root, choice).map_err(|error| vec![error])?;
    let mut rows = Vec::new();
    let bases = base_paths(&root, version, &mut rows).map_err(|error| vec![error])?;
    let routes = routes_of(&root, version, &bases, &mut rows)?;
    if let Some(webhooks) = root.get("webhooks") {
        for (name, node) in webhooks.entries().map_err(|error| vec![error])? {
            let note = "a request that the application sends";
            let subject = format!("webhook {name}");
            rows.push(ReportRow::at(node.place(), subject, Fidelity::Omitted, note));
        }
    }
    let mut imported = write_groups(&name, &routes, choice)
        .map_err(|errors| errors.iter().map(|error| file.error(error)).collect::<Vec<_>>())?;
    imported.rows.extend(rows);
    imported.rows.sort_by(|one, other| one.place.cmp(&other.place));
    Ok(imported)
}

/// The name of the groups: the given one, or the title.
fn name(root: &SourceNode<'_>, choice: &GroupChoice<'_>) -> Result<String, String> {
    if let Some(name) = choice.name {
        return Ok(name.to_owned());
    }
    let title = root.get("info").and_then(|info| info.get("title"));
    let name = title.as_ref().and_then(SourceNode::scalar).map(|title| object_name(&title));
    // Room for the numbers of several groups.
    match name {
        Some(name) if !name.is_empty() && name.len() <= 200 => Ok(name),
        Some(_) | None => {
            let node = title.unwrap_or_else(|| root.clone());
            Err(node.error("no name can be made of `info.title`: give one with --name"))
        }
    }
}
