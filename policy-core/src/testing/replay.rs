//! The assertions of the fuzz targets, so that a corpus can be replayed as an ordinary test. Each
//! function reads arbitrary bytes and returns the violation in words.

use super::{OwnedConnection, OwnedRequest, any_client, any_policy, any_request};
use crate::decision::Decision;
use crate::evaluator::{Evaluator, Memo};
use crate::explain::{Explanation, explain};
use crate::host::canonical_host;
use crate::naive;
use crate::policy::{PathHandling, ServerPolicy};
use crate::target::{Target, canonical_path, canonical_target};
use http::header::HOST;
use http::{HeaderMap, HeaderValue, Method, Uri, Version};
use proptest::strategy::{BoxedStrategy, Strategy, ValueTree};
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
/// alike about each request of each client, and explanations are of these decisions.
pub fn agreement(data: &[u8]) -> Result<(), String> {
    let Some(DrawnCase { policy, clients, requests }) = case(data) else { return Ok(()) };
    let evaluator = match Evaluator::build(Arc::clone(&policy)) {
        Ok(evaluator) => evaluator,
        Err(error) => return Err(error.to_string()),
    };
    for (turn, client) in clients.iter().enumerate() {
        let connection = client.view();
        let first = evaluator.decide_connection(&connection);
        let explanation = explain(&policy, &connection, None);
        let wrong = |wrong: String| format!("{client:?}: {wrong}");
        same(naive::decide_connection(&policy, &connection), &first).map_err(wrong)?;
        explains(&explanation, &first).map_err(wrong)?;
        let mut memo = Memo::new();
        for (request, explained_to) in requests.iter().zip((0..CLIENTS).cycle()) {
            let view = request.view();
            let wrong = |wrong: String| format!("{client:?}, {request:?}: {wrong}");
            let expected = naive::decide_request(&policy, &connection, &view);
            let first = evaluator.decide_request(&connection, &mut memo, &view);
            same(expected, &first).map_err(wrong)?;
            // An explanation takes longer than many decisions: of each request there is that of one client.
            if explained_to == turn {
                let again = evaluator.decide_request(&connection, &mut memo, &view);
                same(expected, &again).map_err(wrong)?;
                let explanation = explain(&policy, &connection, Some(&view));
                explains(&explanation, &expected).map_err(wrong)?;
            }
        }
    }
    Ok(())
}

fn same(expected: Decision, found: &Decision) -> Result<(), String> {
    if *found == expected { Ok(()) } else { Err(format!("{found:?} is not {expected:?}")) }
}

/// Holds an explanation to a decision: it is of that decision, names the grant that permits first, and
/// a failed condition of each grant where none does.
fn explains(explanation: &Explanation, decision: &Decision) -> Result<(), String> {
    same(*decision, &explanation.decision)?;
    let considered = &explanation.considered;
    let agrees = match decision {
        Decision::Permit(permit) => considered
            .first()
            .is_some_and(|one| one.failed.is_none() && one.id == permit.authorization),
        Decision::Deny(_) => considered.iter().all(|one| one.failed.is_some()),
    };
    if agrees { Ok(()) } else { Err(format!("{decision:?} is explained by {considered:?}")) }
}

/// A policy, and all that it decides about: each request of each client.
struct DrawnCase {
    policy: Arc<ServerPolicy>,
    clients: Vec<OwnedConnection>,
    requests: Vec<OwnedRequest>,
}

/// Numbers of clients and of requests that a policy decides about, because a policy and its index take
/// longer to make than many decisions do.
const CLIENTS: usize = 16;
const REQUESTS: usize = 64;

/// The policy comes from the first 32 bytes, the clients from the next and the requests from the
/// rest, so that each can be varied while the others stay.
fn case(data: &[u8]) -> Option<DrawnCase> {
    thread_local! {
        static POLICIES: BoxedStrategy<ServerPolicy> = any_policy().boxed();
        static CLIENT: BoxedStrategy<OwnedConnection> = any_client().boxed();
        static REQUEST: BoxedStrategy<OwnedRequest> = any_request().boxed();
    }
    let mut seeds = data.chunks(SEED);
    let policy = POLICIES.with(|policies| draw(policies, seeds.next(), 1)).pop()?;
    let clients = CLIENT.with(|client| draw(client, seeds.next(), CLIENTS));
    let requests = REQUEST.with(|request| draw(request, seeds.next(), REQUESTS));
    Some(DrawnCase { policy: Arc::new(policy), clients, requests })
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
