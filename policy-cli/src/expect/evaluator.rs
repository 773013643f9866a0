//! Runs expectations against the evaluator alone: manifests are compiled, and nothing is served.

use super::burst::{self, Decided};
use super::client_endpoint::ClientResolver;
use super::effects;
use super::error::ExpectError;
use super::expectation::{Expectation, Expectations, Version};
use super::rate_limits::RateLimits;
use super::report::Report;
use crate::local_mesh::apply_defaults;
use crate::sidecar_view::{self, ClientTls, Outgoing, carries_http, target, tls, version_fits};
use crate::verdict::DecisionSummary;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue};
use policy_core::{Connection, Decision, Denied, Evaluator, Memo, RequestView, Tls, fold_mapped};
use policy_crds::Object;
use policy_engine::source::directory::load;
use policy_engine::{Compiled, ControllerConfig, compile_objects};
use std::path::Path;
use std::sync::Arc;

/// Compiles the manifests of `directory` and evaluates the requests of the file `expectations`.
///
/// # Errors
/// Files that cannot be read or compiled, and requests that cannot be built. Requests with another
/// result than expected are in the report.
pub fn run_evaluator(directory: &Path, expectations: &Path) -> Result<Report, ExpectError> {
    let expectations = Expectations::read(expectations)?;
    let config = expectations.cluster.config()?;
    let loaded = load(directory, config.limits).map_err(|e| ExpectError::Setup(e.to_string()))?;
    let objects =
        loaded.objects.iter().map(|object| apply_defaults(Object::clone(object))).collect();
    run_evaluator_on(&compile_objects(objects, &config), &config, &expectations)
}

/// Evaluates the requests of `expectations` on policies that were compiled under `config`.
///
/// # Errors
/// Requests that cannot be built.
pub fn run_evaluator_on(
    compiled: &Compiled,
    config: &ControllerConfig,
    expectations: &Expectations,
) -> Result<Report, ExpectError> {
    let resolver = ClientResolver { config };
    let mut limits = RateLimits::new();
    let mut report = Report::default();
    for expectation in &expectations.requests {
        let (found, further) = evaluate(&resolver, compiled, &mut limits, expectation)?;
        report.add(expectation, found, further);
    }
    report.add_conditions(&expectations.conditions, &compiled.conditions);
    Ok(report)
}

fn evaluate(
    resolver: &ClientResolver<'_>,
    compiled: &Compiled,
    limits: &mut RateLimits,
    expectation: &Expectation,
) -> Result<Decided, ExpectError> {
    let invalid =
        |message: String| ExpectError::InvalidRequest { name: expectation.name.clone(), message };
    let to = &expectation.to;
    let key = to.key();
    let missing = || invalid(format!("to: there is no workload `{key}`"));
    let workload = compiled.workloads.get(&key).ok_or_else(missing)?;
    let policy = compiled.port(&key, to.port).ok_or_else(missing)?;
    let endpoint = resolver.resolve(expectation, &workload.state.facts)?;
    let evaluator =
        Evaluator::build(Arc::clone(&policy)).map_err(|error| invalid(error.to_string()))?;
    let connection = Connection {
        client: fold_mapped(endpoint.address),
        tls: tls(&policy, expectation.tls(), endpoint.identity.as_ref()),
        facts: &workload.state.facts,
    };
    let request = request(expectation).map_err(invalid)?;
    let decided = (0..burst::count(expectation)).map(|_| {
        let mut take = || limits.take(to, &policy, &connection);
        let subject = (&evaluator, &connection, request.as_ref());
        decide(expectation, subject, &mut take)
    });
    burst::representative(expectation, decided.collect())
        .ok_or_else(|| invalid("it was never decided".to_owned()))
}

/// The head of an expectation's request, as the sidecar looks at it.
fn request(expectation: &Expectation) -> Result<Option<Parts>, String> {
    let Some((method, target)) = expectation.request() else { return Ok(None) };
    let host = expectation.host.clone().unwrap_or_else(|| host(expectation));
    let outgoing = Outgoing {
        method,
        target: &target,
        host: &host,
        headers: headers(expectation)?,
        h2: expectation.grpc.is_some() || expectation.version == Version::H2,
        grpc: expectation.grpc.is_some(),
        meshed: expectation.tls() == ClientTls::Mesh,
    };
    sidecar_view::head(outgoing).map(Some)
}

/// Default host of an expectation.
pub(super) fn host(expectation: &Expectation) -> String {
    format!("{}.{}", expectation.to.name, expectation.to.namespace)
}

/// The header lines of an expectation.
pub(super) fn headers(expectation: &Expectation) -> Result<HeaderMap, String> {
    let mut headers = HeaderMap::new();
    for (name, lines) in &expectation.headers {
        let name = HeaderName::try_from(name).map_err(|error| format!("headers: {error}"))?;
        for line in lines.as_slice() {
            let value = HeaderValue::try_from(line).map_err(|error| format!("headers: {error}"))?;
            headers.append(&name, value);
        }
    }
    Ok(headers)
}

/// Decides on a request as the steps of a sidecar do. `take` takes a token of the rate limits, and
/// returns false if there is none.
fn decide(
    expectation: &Expectation,
    (evaluator, connection, request): (&Evaluator, &Connection<'_>, Option<&Parts>),
    take: &mut dyn FnMut() -> bool,
) -> Decided {
    let policy = evaluator.policy();
    let denied = |reason| (DecisionSummary::denied(reason), Vec::new());
    let Some(request) = request.filter(|_| carries_http(policy, connection)) else {
        let decision = evaluator.decide_connection(connection);
        return (DecisionSummary::of(evaluator, &decision), Vec::new());
    };
    if let Some(reason) = policy.deny {
        return denied(reason);
    }
    let meshed = matches!(connection.tls, Tls::Terminated(_));
    if !version_fits(policy.protocol, request.version, meshed) {
        return denied(Denied::ProtocolMismatch);
    }
    let target = match target(policy.paths, request) {
        Ok(target) => target,
        Err(fault) => return denied(Denied::Target(fault)),
    };
    let view = RequestView {
        method: &request.method,
        host: target.host.as_deref(),
        path: &target.path,
        query: target.query,
        headers: &request.headers,
    };
    let decision = evaluator.decide_request(connection, &mut Memo::new(), &view);
    let summary = DecisionSummary::of(evaluator, &decision);
    let refuses = policy.rate_limit.as_ref().is_some_and(|limit| limit.refuses);
    if matches!(decision, Decision::Permit(_)) && (refuses || !take()) {
        let reason = if refuses { Denied::RateLimitInvalid } else { Denied::RateLimited };
        let limited = DecisionSummary::denied(reason);
        return (DecisionSummary { route: summary.route, ..limited }, Vec::new());
    }
    let expected = (expectation.timeouts.as_ref(), expectation.received.as_ref());
    (summary, effects::contradictions(expected, policy, &decision, &view))
}
