//! The assertions of the fuzz targets, so that a corpus can be replayed as an ordinary test. Each
//! function reads arbitrary bytes and returns the violation in words.

use super::{OwnedConnection, OwnedRequest, any_client, any_policy, any_request};
use crate::decision::Decision;
use crate::evaluator::{Evaluator, Memo};
use crate::explain::explain;
use crate::host::canonical_host;
use crate::naive;
use crate::policy::{PathHandling, ServerPolicy};
use crate::target::{Target, canonical_path, canonical_target};
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Uri, Version};
use proptest::strategy::{Strategy, ValueTree};
use proptest::test_runner::{Config, RngAlgorithm, TestRng, TestRunner};
use std::borrow::Cow;
use std::sync::Arc;

/// Reads `data` as a request target and, after a line end, a `Host`. A canonical target is its own
/// canonical form, has nothing ambiguous left, and is what would be forwarded.
pub fn target(data: &[u8]) -> Result<(), String> {
    let text = String::from_utf8_lossy(data);
    let (path, host) = text.split_once('\n').unwrap_or((&text, "web"));
    if let Ok(canonical) = canonical_path(path) {
        path_is_canonical(&canonical)?;
    }
    if let Ok(found) = canonical_host(host) {
        match canonical_host(&found.name) {
            Ok(again) if matches!(again.name, Cow::Borrowed(_)) && again.name == found.name => {}
            Ok(_) | Err(_) => return Err(format!("`{}` is not canonical", found.name)),
        }
    }
    let Ok(uri) = path.parse::<Uri>() else { return Ok(()) };
    let mut headers = HeaderMap::new();
    if let Ok(line) = HeaderValue::from_bytes(host.as_bytes()) {
        headers.insert(HOST, line);
    }
    for method in [Method::GET, Method::OPTIONS, Method::CONNECT] {
        for version in [Version::HTTP_10, Version::HTTP_11, Version::HTTP_2] {
            let handling = PathHandling::Canonical;
            if let Ok(found) = canonical_target(&method, &uri, version, &headers, handling) {
                path_is_canonical(&found.path)?;
                forwarded_as_judged(&uri, &found)?;
            }
        }
    }
    Ok(())
}

fn path_is_canonical(path: &str) -> Result<(), String> {
    match canonical_path(path) {
        Ok(Cow::Borrowed(same)) if same == path => {}
        Ok(other) => return Err(format!("`{path}` has the canonical form `{other}`")),
        Err(fault) => return Err(format!("`{path}` is refused: {}", fault.as_str())),
    }
    let ambiguous = ["//", "\\", ";", "%2F", "%2f", "%5C", "%00", "%2E", "%61"];
    if let Some(part) = ambiguous.iter().find(|part| path.contains(**part)) {
        return Err(format!("`{path}` contains `{part}`"));
    }
    if path.split('/').any(|segment| segment == "." || segment == "..") {
        return Err(format!("`{path}` has a dot segment"));
    }
    Ok(())
}

fn forwarded_as_judged(uri: &Uri, found: &Target<'_>) -> Result<(), String> {
    let forwarded = match found.rewritten() {
        Some(rewritten) => rewritten.path().to_owned(),
        None => uri.path().to_owned(),
    };
    if *forwarded == *found.path {
        Ok(())
    } else {
        Err(format!("`{}` was judged and `{forwarded}` forwarded", found.path))
    }
}

/// Reads `data` as seeds of a policy, of clients and of requests. Both evaluators decide
/// alike about each of them, and the explanation is of that decision.
pub fn agreement(data: &[u8]) -> Result<(), String> {
    let Some(DrawnCase { policy, clients, requests }) = case(data) else { return Ok(()) };
    let evaluator = match Evaluator::build(Arc::new(policy.clone())) {
        Ok(evaluator) => evaluator,
        Err(error) => return Err(error.to_string()),
    };
    for client in &clients {
        let connection = client.view();
        let first = evaluator.decide_connection(&connection);
        let wrong = |wrong: String| format!("{client:?}: {wrong}");
        let explained = explain(&policy, &connection, None).decision;
        same(naive::decide_connection(&policy, &connection), &[first, explained]).map_err(wrong)?;
        let mut memo = Memo::new();
        for request in &requests {
            let view = request.view();
            let first = evaluator.decide_request(&connection, &mut memo, &view);
            let again = evaluator.decide_request(&connection, &mut memo, &view);
            let explained = explain(&policy, &connection, Some(&view)).decision;
            let expected = naive::decide_request(&policy, &connection, &view);
            let wrong = |wrong: String| format!("{client:?}, {request:?}: {wrong}");
            same(expected, &[first, again, explained]).map_err(wrong)?;
        }
    }
    Ok(())
}

fn same(expected: Decision, found: &[Decision]) -> Result<(), String> {
    match found.iter().find(|decision| **decision != expected) {
        Some(other) => Err(format!("{other:?} is not {expected:?}")),
        None => Ok(()),
    }
}

/// A policy, and all that it decides about: each request of each client.
struct DrawnCase {
    policy: ServerPolicy,
    clients: Vec<OwnedConnection>,
    requests: Vec<OwnedRequest>,
}

/// Numbers of clients and of requests that a policy decides about, because a policy and its index take
/// longer to make than a decision does.
const CLIENTS: usize = 4;
const REQUESTS: usize = 16;

/// The policy comes from the first 32 bytes, the clients from the next and the requests from the
/// rest, so that each can be varied while the others stay.
fn case(data: &[u8]) -> Option<DrawnCase> {
    let mut seeds = data.chunks(SEED);
    let policy = draw(&any_policy(), seeds.next(), 1).pop()?;
    let clients = draw(&any_client(), seeds.next(), CLIENTS);
    Some(DrawnCase { policy, clients, requests: draw(&any_request(), seeds.next(), REQUESTS) })
}

/// The bytes that seed the random choices of one chunk.
const SEED: usize = 32;

/// Values that the choices make, one after the other.
fn draw<S: Strategy>(strategy: &S, bytes: Option<&[u8]>, number: usize) -> Vec<S::Value> {
    let mut seed = [0; SEED];
    for (to, from) in seed.iter_mut().zip(bytes.unwrap_or_default()) {
        *to = *from;
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    let drawn = (0..number).map_while(|_| strategy.new_tree(&mut runner).ok());
    drawn.map(|tree| tree.current()).collect()
}
