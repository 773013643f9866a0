//! The paths before those of a document: of its servers, or its `basePath`.

use super::version::ApiVersion;
use crate::file::SourceNode;
use crate::report::{Fidelity, ReportRow};
use policy_crds::quote;
use std::collections::BTreeSet;

/// The most URLs that the variables of a server stand for.
const MAX_URLS: usize = 16;

/// The base paths of a document, without a slash at their ends.
///
/// # Errors
/// One has another form than the format says, or none can be read.
pub(super) fn base_paths(
    root: &SourceNode<'_>,
    version: ApiVersion,
    rows: &mut Vec<ReportRow>,
) -> Result<Vec<String>, String> {
    match version {
        ApiVersion::OpenApi3 => Ok(of_servers(root, rows)?.unwrap_or_else(|| vec![String::new()])),
        ApiVersion::Swagger2 => {
            let Some(node) = root.get("basePath") else { return Ok(vec![String::new()]) };
            let path = node.text()?;
            if !path.starts_with('/') {
                return Err(node.error(format!("{} does not begin with `/`", quote(path))));
            }
            if path.contains('{') {
                return Err(node.error(format!("{} has a variable", quote(path))));
            }
            Ok(vec![path.trim_end_matches('/').to_owned()])
        }
    }
}

/// The base paths of the `servers` of a part of a document; `None` if it has none.
///
/// # Errors
/// As [`base_paths`].
pub(super) fn of_servers(
    part: &SourceNode<'_>,
    rows: &mut Vec<ReportRow>,
) -> Result<Option<Vec<String>>, String> {
    let servers = part.list_of("servers")?;
    if servers.is_empty() {
        return Ok(None);
    }
    let mut paths = Vec::new();
    for server in &servers {
        let url = server.require("url")?;
        for address in addresses(server, &url, rows)? {
            match path_of(&address) {
                Some(path) if path.contains('{') => {
                    return Err(
                        url.error(format!("{} has a variable without a value", quote(&address)))
                    );
                }
                Some(path) if !paths.contains(&path) => paths.push(path),
                Some(_) => {}
                None => {
                    let allowed = "a path or a URL with a host is translated";
                    let subject = format!("server {address}");
                    rows.push(ReportRow::at(url.place(), subject, Fidelity::Omitted, allowed));
                }
            }
        }
    }
    if paths.is_empty() {
        let message = "none of the servers is a path or a URL with a host";
        return Err(part
            .get("servers")
            .map_or_else(|| part.error(message), |it| it.error(message)));
    }
    Ok(Some(paths))
}

/// The URLs that one with variables stands for.
fn addresses(
    server: &SourceNode<'_>,
    url: &SourceNode<'_>,
    rows: &mut Vec<ReportRow>,
) -> Result<BTreeSet<String>, String> {
    let mut all = BTreeSet::from([url.text()?.to_owned()]);
    let variables = server.get("variables").map(|it| it.entries()).transpose()?.unwrap_or_default();
    for (name, variable) in variables {
        let mark = format!("{{{name}}}");
        if !all.iter().any(|url| url.contains(&mark)) {
            continue;
        }
        let mut values: Vec<String> =
            variable.list_of("enum")?.iter().filter_map(SourceNode::scalar).collect();
        if values.is_empty() {
            let default = variable.require("default")?;
            values.extend(default.scalar());
            if all.iter().any(|url| path_of(url).is_some_and(|path| path.contains(&mark))) {
                let note = "its default alone: any value is allowed, and none is listed";
                let subject = format!("server variable {name}");
                rows.push(ReportRow::at(variable.place(), subject, Fidelity::Narrower, note));
            }
        }
        let substituted = all
            .iter()
            .flat_map(|url| values.iter().map(|value| url.replace(&mark, value)))
            .take(MAX_URLS.saturating_add(1));
        all = substituted.collect();
        if all.len() > MAX_URLS {
            let allowed = format!("its variables stand for more than {MAX_URLS} URLs");
            return Err(url.error(allowed));
        }
    }
    Ok(all)
}

/// The path of a URL, without a slash at its end. `None`: it depends on the address of the document.
fn path_of(url: &str) -> Option<String> {
    let path = match url.split_once("://") {
        Some((_, rest)) => rest.find('/').map_or("", |at| rest.get(at..).unwrap_or_default()),
        None => match url.strip_prefix("//") {
            Some(rest) => rest.find('/').map_or("", |at| rest.get(at..).unwrap_or_default()),
            None if url.starts_with('/') => url,
            None => return None,
        },
    };
    Some(path.trim_end_matches('/').to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_path_of_a_url_is_what_is_behind_its_host() {
        let cases = [
            ("https://api.example.com", Some("")),
            ("https://api.example.com/", Some("")),
            ("https://api.example.com/v1/", Some("/v1")),
            ("//api.example.com/v1", Some("/v1")),
            ("/v1", Some("/v1")),
            ("/", Some("")),
            ("v1", None),
            ("./v1", None),
        ];
        for (url, path) in cases {
            assert_eq!(path_of(url).as_deref(), path, "{url}");
        }
    }
}
