//! The messages about a manifest that is wrong in many ways.

use policy_crds::{Body, document, parse, parts};
use std::fmt::Write;

/// `line:column field: message` of everything that is wrong.
fn report(text: &str) -> String {
    let mut report = String::new();
    for document in document::read(text) {
        let value = match &document.value {
            Ok(value) => value,
            Err(error) => {
                writeln!(report, "{error}").unwrap();
                continue;
            }
        };
        for part in parts(value) {
            let errors = match parse(&part.value) {
                Err(error) => vec![(error.field().to_owned(), error.message())],
                Ok(object) => match object.body {
                    Body::Valid(_) => Vec::new(),
                    Body::Invalid(invalid) => {
                        invalid.errors.into_iter().map(|e| (e.field, e.message)).collect()
                    }
                },
            };
            for (field, message) in errors {
                let place = document.locate(&part.field(&field)).unwrap();
                writeln!(report, "{}:{} {field}: {message}", place.line, place.column).unwrap();
            }
        }
    }
    report
}

#[test]
fn every_error_of_a_manifest_is_reported_with_its_place() {
    insta::assert_snapshot!(report(include_str!("wrong.yaml")));
}

#[test]
fn the_report_of_a_list_points_into_its_items() {
    let text = "apiVersion: v1\nkind: List\nitems:\n- apiVersion: policy.linkerd.io/v1alpha1\n  \
                kind: NetworkAuthentication\n  metadata: {name: a}\n  spec:\n    networks:\n    \
                - cidr: 10.0.0.1/8\n";
    assert_eq!(
        report(text),
        "9:13 spec.networks[0].cidr: `10.0.0.1/8` has bits set beyond the first 8, write `10.0.0.0/8`\n"
    );
}
