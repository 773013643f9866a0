//! What the engine and the evaluator make of a request, and what must hold of it.

use super::oracle::{Answer, Bounds, answer};
use super::requests::Request;
use super::world::World;
use crate::Compiled;
use http::{HeaderMap, HeaderValue, Method, Uri, Version};
use policy_core::{
    Connection, Decision, Denied, Evaluator, FilterKind, Identity, Memo, RequestView, ServerPolicy,
    Tls, WorkloadKey, canonical_target, naive,
};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::Duration;

/// The clients that are asked for: two that policies name, and another.
const CLIENTS: [&str; 3] = ["ada", "bob", "eve"];

/// The answers to every request of every client.
pub type Found = Vec<(Request, &'static str, Answer)>;

/// The answers to requests that both evaluators give by a compiled policy.
///
/// # Errors
/// An answer that is none of those that there may be.
pub fn found(compiled: &Compiled, requests: &[Request]) -> Result<Found, String> {
    let key = WorkloadKey::pod("shop", "web");
    let policy = compiled.port(&key, NonZeroU16::new(8080).unwrap()).unwrap();
    let evaluator = Evaluator::build(Arc::clone(&policy)).map_err(|error| error.to_string())?;
    let facts = &compiled.workloads[&key].state.facts;
    let mut all = Vec::new();
    for request in requests {
        for client in CLIENTS {
            let identity = Identity::Dns(client.into());
            let connection = Connection {
                client: "10.9.9.9".parse().unwrap(),
                tls: Tls::Terminated(Some(&identity)),
                facts,
            };
            let answer = decide((&policy, &evaluator), &connection, request);
            all.push((request.clone(), client, answer.map_err(|e| format!("{request:?}: {e}"))?));
        }
    }
    Ok(all)
}

fn decide(
    (policy, evaluator): (&ServerPolicy, &Evaluator),
    connection: &Connection<'_>,
    request: &Request,
) -> Result<Answer, String> {
    let uri: Uri = request.path.parse().map_err(|error| format!("{error}"))?;
    let method: Method = request.method.parse().unwrap();
    let mut headers = HeaderMap::new();
    headers.insert("host", HeaderValue::from_static("web"));
    if request.header {
        headers.insert("x-h", HeaderValue::from_static("1"));
    }
    let Ok(target) = canonical_target(&method, &uri, Version::HTTP_11, &headers, policy.paths)
    else {
        return Ok(Answer::Ambiguous);
    };
    let view = RequestView {
        method: &method,
        host: target.host.as_deref(),
        path: &target.path,
        query: None,
        headers: &headers,
    };
    let decision = evaluator.decide_request(connection, &mut Memo::new(), &view);
    let slow = naive::decide_request(policy, connection, &view);
    if decision != slow {
        return Err(format!("the evaluators differ: {decision:?} {slow:?}"));
    }
    match decision {
        Decision::Permit(permit) => {
            let effects = naive::effects(policy, &permit, &view);
            let bounds = naive::timeouts(&effects);
            let seconds = |bound: Option<Duration>| bound.map(|bound| bound.as_secs());
            let bounds = Bounds {
                complete: seconds(bounds.complete),
                head: seconds(bounds.head),
                response: seconds(bounds.response),
                idle: seconds(bounds.idle),
            };
            let rules = effects.iter().filter_map(|effect| {
                let FilterKind::Rewrite(rewrite) = &effect.kind else { return None };
                Some(rewrite.add[0].1.to_str().unwrap())
            });
            let rule = |text: &str| {
                let (policy, rule) = text.split_once(' ').unwrap();
                (policy.parse().unwrap(), rule.parse().unwrap())
            };
            Ok(Answer::Permitted(bounds, rules.map(rule).collect()))
        }
        // The second where no binding is valid and whole.
        Decision::Deny(denial)
            if matches!(denial.reason, Denied::NoRoute | Denied::RoutesInvalid) =>
        {
            Ok(Answer::NoRoute)
        }
        Decision::Deny(denial) if denial.reason == Denied::Unauthorized => Ok(Answer::Denied),
        Decision::Deny(denial) if denial.reason == Denied::RouteInvalid => Ok(Answer::Unreadable),
        Decision::Deny(denial) => Err(format!("it is denied as {}", denial.reason.as_str())),
    }
}

/// Holds a compiled world to the answers that the objects mean.
///
/// # Errors
/// The first request that is decided in another way.
pub fn agrees(world: &World, compiled: &Compiled, requests: &[Request]) -> Result<(), String> {
    for (request, client, found) in found(compiled, requests)? {
        let expected = answer(world, &request, client);
        if found != expected {
            return Err(format!("{request:?} of {client} is {found:?}, not {expected:?}"));
        }
    }
    Ok(())
}

/// Holds answers to others of which none permits more.
///
/// # Errors
/// The first request that is permitted and was not.
pub fn narrower(before: &Found, after: &Found) -> Result<(), String> {
    let permitted = |answer: &Answer| matches!(answer, Answer::Permitted(..));
    for ((request, client, before), (.., after)) in before.iter().zip(after) {
        if permitted(after) && !permitted(before) {
            return Err(format!("{request:?} of {client} is permitted now, and was {before:?}"));
        }
    }
    Ok(())
}

/// Holds answers to others that differ by longer bounds alone.
///
/// # Errors
/// The first request that has less time, or is decided in another way.
pub fn slower(before: &Found, after: &Found) -> Result<(), String> {
    let shorter =
        |one: Option<u64>, other: Option<u64>| one.unwrap_or(u64::MAX) <= other.unwrap_or(u64::MAX);
    for ((request, client, before), (.., after)) in before.iter().zip(after) {
        let fine = match (before, after) {
            (Answer::Permitted(one, rules), Answer::Permitted(other, same)) => {
                rules == same
                    && shorter(one.complete, other.complete)
                    && shorter(one.head, other.head)
                    && shorter(one.response, other.response)
                    && shorter(one.idle, other.idle)
            }
            (one, other) => one == other,
        };
        if !fine {
            return Err(format!("{request:?} of {client} was {before:?} and is {after:?}"));
        }
    }
    Ok(())
}
