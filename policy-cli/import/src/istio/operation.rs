//! Operations of rules: what is sent, and to which port.

use crate::file::SourceNode;
use crate::mesh::{PathCondition, PortChoice, RequestCondition, escaped};
use policy_crds::quote;
use std::collections::{BTreeMap, BTreeSet};

/// The fields that are translated.
const FIELDS: &[&str] = &["ports", "methods", "paths", "hosts"];

/// The other fields of an operation.
const OTHERS: &[&str] = &["notPorts", "notMethods", "notPaths", "notHosts"];

/// The ports and the requests of an operation; absent: every one.
pub(super) type IstioOperation = (Option<Vec<PortChoice>>, Option<Vec<RequestCondition>>);

/// The effect of a rule, by which what cannot be said exactly is said narrower or wider.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum RuleEffect {
    /// Its requests are allowed.
    Allow,
    /// Its requests are denied.
    Deny,
}

/// The ports and requests of an operation; or why they cannot be said. Of what is allowed, paths that cannot be said
/// are left out beside others, with the reason in `left_out`.
///
/// # Errors
/// It has another form than its definition says.
pub(super) fn operation(
    node: &SourceNode<'_>,
    effect: RuleEffect,
    left_out: &mut Vec<String>,
) -> Result<Result<IstioOperation, String>, String> {
    if let Some(message) = node.untranslated_lists(FIELDS, OTHERS)? {
        return Ok(Err(message));
    }
    let mut ports = Vec::new();
    for text in node.texts_of("ports")? {
        match text.parse::<u16>() {
            Ok(port) if port > 0 => ports.push(PortChoice::Range(port, port)),
            Ok(_) | Err(_) => return Ok(Err(format!("the port {} is no number", quote(text)))),
        }
    }
    let ports = (!ports.is_empty()).then_some(ports);
    let hosts = match hosts(&node.texts_of("hosts")?) {
        Ok(hosts) => hosts,
        Err(reason) => return Ok(Err(reason)),
    };
    let mut paths = match paths(&node.texts_of("paths")?, effect, left_out) {
        Ok(paths) => paths,
        Err(reason) => return Ok(Err(reason)),
    };
    let methods = node.texts_of("methods")?;
    if let Some(wild) = methods.iter().find(|it| it.contains('*') && **it != "*") {
        return Ok(Err(format!("the method {} is a pattern", quote(wild))));
    }
    if methods.is_empty() && paths.is_empty() && hosts.is_none() {
        return Ok(Ok((ports, None)));
    }
    let methods: Vec<Option<String>> = match methods.is_empty() || methods.contains(&"*") {
        true => vec![None],
        false => methods.into_iter().map(|method| Some(method.to_owned())).collect(),
    };
    if paths.is_empty() {
        paths.push(PathCondition::Any);
    }
    let of_path = |path: PathCondition| {
        let hosts = hosts.clone();
        methods.iter().map(move |method| RequestCondition {
            path: path.clone(),
            method: method.clone(),
            headers: BTreeMap::new(),
            hosts: hosts.clone(),
        })
    };
    Ok(Ok((ports, Some(paths.into_iter().flat_map(of_path).collect()))))
}

/// The hosts. A host is compared without its port here, so that one is said exactly where it is listed with any
/// port, too.
fn hosts(texts: &[&str]) -> Result<Option<BTreeSet<String>>, String> {
    if texts.is_empty() || texts.contains(&"*") {
        return Ok(None);
    }
    let mut hosts = BTreeSet::new();
    for text in texts {
        let host = text.strip_suffix(":*").unwrap_or(text);
        if host.contains('*') {
            return Err(format!("the host {} is a pattern", quote(text)));
        }
        if !texts.contains(&host) || !texts.contains(&&*format!("{host}:*")) {
            return Err(format!(
                "the host {} counts with any port here: list it with `:*` and without",
                quote(text)
            ));
        }
        hosts.insert(host.to_ascii_lowercase());
    }
    Ok(Some(hosts))
}

/// The conditions of paths, one of which is enough. Those that cannot be said are left out of what is allowed, beside
/// others.
fn paths(
    texts: &[&str],
    effect: RuleEffect,
    left_out: &mut Vec<String>,
) -> Result<Vec<PathCondition>, String> {
    let mut paths = Vec::new();
    let mut unsayable = Vec::new();
    for text in texts {
        match path(text, effect) {
            Some(path) => paths.push(path),
            None => unsayable.push(format!("the path {} has a form of its own", quote(text))),
        }
    }
    match unsayable.first() {
        Some(first) if paths.is_empty() || effect == RuleEffect::Deny => Err(first.clone()),
        Some(_) | None => {
            left_out.extend(unsayable);
            Ok(paths)
        }
    }
}

/// The condition of a path: a text, one with `*` at its beginning or end, or a template.
fn path(text: &str, effect: RuleEffect) -> Option<PathCondition> {
    if text.contains(['{', '}']) {
        return template(text, effect);
    }
    Some(match (text.strip_prefix('*'), text.strip_suffix('*')) {
        _ if text == "*" => PathCondition::Any,
        (Some(suffix), _) if !suffix.contains('*') => PathCondition::Ends(suffix.to_owned()),
        (_, Some(prefix)) if !prefix.contains('*') => PathCondition::Begins(prefix.to_owned()),
        (None, None) if !text.contains('*') => PathCondition::Exact(text.to_owned()),
        _ => return None,
    })
}

/// A template: `{*}` is one segment, `{**}` at the end is any text behind the slash. Envoy's templates match no
/// `*`, which a denial may cover and a grant may not.
fn template(text: &str, effect: RuleEffect) -> Option<PathCondition> {
    let (one, rest) = match effect {
        RuleEffect::Allow => ("[^/*]+", "[^*]*"),
        RuleEffect::Deny => ("[^/]+", ".*"),
    };
    let mut expression = String::new();
    let mut segments = text.strip_prefix('/')?.split('/').peekable();
    while let Some(segment) = segments.next() {
        expression.push('/');
        match segment {
            "{*}" => expression.push_str(one),
            "{**}" if segments.peek().is_none() => expression.push_str(rest),
            plain if !plain.contains(['{', '}', '*']) => expression.push_str(&escaped(plain)),
            _ => return None,
        }
    }
    Some(PathCondition::Expression(expression))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_of_istio_are_texts_patterns_or_templates() {
        let path = |text: &str| super::path(text, RuleEffect::Deny);
        assert_eq!(path("/a"), Some(PathCondition::Exact("/a".into())));
        assert_eq!(path("/a*"), Some(PathCondition::Begins("/a".into())));
        assert_eq!(path("*/a"), Some(PathCondition::Ends("/a".into())));
        assert_eq!(path("*"), Some(PathCondition::Any));
        let template = |text: &str| Some(PathCondition::Expression(text.into()));
        assert_eq!(path("/v1.0/{*}/x"), template(r"/v1\.0/[^/]+/x"));
        assert_eq!(path("/a/{**}"), template("/a/.*"));
        let allowed = super::path("/a/{*}/{**}", RuleEffect::Allow);
        assert_eq!(allowed, template("/a/[^/*]+/[^*]*"), "Envoy's templates match no `*`");
        for other in ["/a*b", "*a*", "/{**}/a", "/a{*}", "/{name}"] {
            assert_eq!(path(other), None, "{other}");
        }
    }

    #[test]
    fn a_host_is_exact_only_with_any_port() {
        let hosts = |texts: &[&str]| super::hosts(texts);
        let expected = BTreeSet::from(["a.example".to_owned()]);
        assert_eq!(hosts(&["a.example", "a.example:*"]), Ok(Some(expected)));
        assert!(hosts(&["a.example"]).is_err() && hosts(&["a.example:*"]).is_err());
        assert_eq!(hosts(&["*"]), Ok(None));
        assert!(hosts(&["*.a.example", "*.a.example:*"]).is_err(), "a pattern");
    }
}
