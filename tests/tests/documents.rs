//! The documents say what the code does: every reason is explained, with the answer it gets.

use http::{Method, Request};
use policy_core::Denied;
use policy_enforce::respond::{Answer, Asker, respond};
use policy_tests::sources::root;
use std::collections::BTreeMap;
use std::fs;

/// The rows of the tables: the reason, and the other cells.
fn rows() -> BTreeMap<String, Vec<String>> {
    let text = fs::read_to_string(root().join("docs/reasons.md")).unwrap();
    let rows = text.lines().filter(|line| line.starts_with("| `"));
    rows.map(|line| {
        let cells: Vec<String> =
            line.trim_matches('|').split(" | ").map(|cell| cell.trim().to_owned()).collect();
        (cells[0].trim_matches('`').to_owned(), cells[1..].to_vec())
    })
    .collect()
}

fn asker(grpc: bool) -> Asker {
    let mut request = Request::builder().method(Method::POST);
    if grpc {
        request = request.version(http::Version::HTTP_2).header("content-type", "application/grpc");
    }
    Asker::of(&request.body(()).unwrap().into_parts().0, false)
}

/// What a caller is answered: the HTTP status and the gRPC code.
fn answered(reason: Denied) -> (String, String) {
    let answer = Answer::Denied(reason);
    let plain = respond(&answer, &asker(false)).status().as_u16().to_string();
    let grpc = respond(&answer, &asker(true)).headers()["grpc-status"].to_str().unwrap().to_owned();
    (plain, grpc)
}

#[test]
fn every_reason_is_explained_with_the_answer_it_gets() {
    let mut rows = rows();
    for reason in Denied::all() {
        let row = rows.remove(reason.as_str()).unwrap_or_else(|| panic!("no row for {reason:?}"));
        let stated = match reason {
            Denied::Target(_) => ("400".to_owned(), "3".to_owned()),
            _ => (row[0].clone(), row[1].split(' ').next().unwrap().to_owned()),
        };
        assert_eq!(stated, answered(reason), "{reason:?}");
    }
    assert!(rows.is_empty(), "reasons that do not exist: {rows:?}");
}
