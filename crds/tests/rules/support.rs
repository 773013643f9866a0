//! Helpers that the tables share.

use policy_crds::{Body, Claims, Object, Resource, document, parse};
use serde_json::Value;

/// The single document of `text`.
pub(crate) fn value(text: &str) -> Value {
    let mut documents = document::read(text);
    assert_eq!(documents.len(), 1, "{text}");
    documents.remove(0).value.unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// The object of this type and specification; a name and namespace are given to it.
pub(crate) fn object(api_version: &str, kind: &str, spec: &str) -> Object {
    let spec: String = spec.lines().map(|line| format!("  {line}\n")).collect();
    let text = format!(
        "apiVersion: {api_version}\nkind: {kind}\nmetadata: {{name: it, namespace: here}}\n\
         spec:\n{spec}"
    );
    parse(&value(&text)).unwrap_or_else(|error| panic!("{error}: {text}"))
}

/// Its errors as `field: message`; empty if it is valid.
pub(crate) fn errors(object: &Object) -> Vec<String> {
    match &object.body {
        Body::Valid(_) => Vec::new(),
        Body::Invalid(invalid) => {
            assert!(!invalid.errors.is_empty());
            invalid.errors.iter().map(ToString::to_string).collect()
        }
    }
}

/// Its resource.
pub(crate) fn resource(object: Object) -> Resource {
    match object.body {
        Body::Valid(resource) => resource,
        Body::Invalid(invalid) => panic!("{:?}", invalid.errors),
    }
}

/// Its claims.
pub(crate) fn claims(object: Object) -> Claims {
    match object.body {
        Body::Valid(resource) => panic!("valid: {resource:?}"),
        Body::Invalid(invalid) => invalid.claims,
    }
}

/// Checks a table: each specification gets exactly these errors, none if the list is empty.
pub(crate) fn check(api_version: &str, kind: &str, table: &[(&str, &[&str])]) {
    let mut wrong = Vec::new();
    for (spec, expected) in table {
        let found = errors(&object(api_version, kind, spec));
        if found != *expected {
            wrong.push(format!("{spec}\n  expected {expected:#?}\n  found    {found:#?}"));
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n\n"));
}
