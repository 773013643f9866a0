//! `allowFilters`: the filters that objects of other namespaces may have below a delegation of a root.

use super::fields::MAX_ALLOWED;
use crate::parse::header::header_name;
use crate::parse::host::host;
use crate::reader::{AllowedFields, JsonNode, quote};
use crate::resource::{AllowedFilter, FilterType};

/// Reads it; each type may appear once.
pub(super) fn read(node: &JsonNode<'_>) -> Option<Vec<AllowedFilter>> {
    node.clean(|node| {
        let mut all: Vec<AllowedFilter> = Vec::new();
        for item in node.list_up_to(FilterType::ALL.len())? {
            let Some(filter) = allowed(&item) else { continue };
            if all.iter().any(|other| other.kind == filter.kind) {
                item.error(format!("{} appears twice", quote(filter.kind.as_str())));
            }
            all.push(filter);
        }
        Some(all)
    })
}

fn allowed(node: &JsonNode<'_>) -> Option<AllowedFilter> {
    let fields = node.fields(AllowedFields::Only(&["kind", "headers", "hosts"]))?;
    let kinds = FilterType::ALL.map(|kind| (kind.as_str(), kind));
    let kind = fields.require("kind")?.choice(&kinds)?;
    let redirects = kind == FilterType::Redirect;
    let refused = if redirects { "headers" } else { "hosts" };
    if let Some(node) = fields.get(refused) {
        node.error(format!("must be absent where `kind` is `{}`", kind.as_str()));
        return None;
    }
    let headers = match fields.get("headers") {
        None => Some(Vec::new()),
        Some(node) => node.clean(|node| {
            let list = node.list_up_to(MAX_ALLOWED)?;
            Some(list.iter().filter_map(header_name).collect())
        }),
    };
    let hosts = match fields.get("hosts") {
        None => Some(Vec::new()),
        Some(node) => node.clean(|node| {
            let list = node.list_up_to(MAX_ALLOWED)?;
            Some(list.iter().filter_map(host).collect())
        }),
    };
    Some(AllowedFilter { kind, headers: headers?, hosts: hosts? })
}
