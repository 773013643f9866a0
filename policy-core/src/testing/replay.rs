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

/// Reads `data` as seeds of a policy, a client and a request. Both evaluators decide
/// alike, and the explanation is of that decision.
pub fn agreement(data: &[u8]) -> Result<(), String> {
    let Some((policy, client, request)) = case(data) else { return Ok(()) };
    let evaluator = match Evaluator::build(Arc::new(policy.clone())) {
        Ok(evaluator) => evaluator,
        Err(error) => return Err(error.to_string()),
    };
    let (connection, view) = (client.view(), request.view());
    let mut memo = Memo::new();
    let first = evaluator.decide_request(&connection, &mut memo, &view);
    let again = evaluator.decide_request(&connection, &mut memo, &view);
    let explained = explain(&policy, &connection, Some(&view)).decision;
    same(naive::decide_request(&policy, &connection, &view), &[first, again, explained])?;
    let first = evaluator.decide_connection(&connection);
    same(naive::decide_connection(&policy, &connection), &[first])
}

fn same(expected: Decision, found: &[Decision]) -> Result<(), String> {
    match found.iter().find(|decision| **decision != expected) {
        Some(other) => Err(format!("{other:?} is not {expected:?}")),
        None => Ok(()),
    }
}

/// The policy comes from the first 32 bytes, the client from the next and the request from the
/// rest, so that each can be varied while the others stay.
fn case(data: &[u8]) -> Option<(ServerPolicy, OwnedConnection, OwnedRequest)> {
    let mut seeds = data.chunks(SEED);
    let policy = draw(&any_policy(), seeds.next())?;
    let client = draw(&any_client(), seeds.next())?;
    Some((policy, client, draw(&any_request(), seeds.next())?))
}

/// The bytes that seed the random choices of one value.
const SEED: usize = 32;

fn draw<S: Strategy>(strategy: &S, bytes: Option<&[u8]>) -> Option<S::Value> {
    let mut seed = [0; SEED];
    for (to, from) in seed.iter_mut().zip(bytes.unwrap_or_default()) {
        *to = *from;
    }
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &seed);
    let mut runner = TestRunner::new_with_rng(Config::default(), rng);
    Some(strategy.new_tree(&mut runner).ok()?.current())
}
