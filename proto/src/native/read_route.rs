//! From native messages of routes and effects to the model.

use super::interner::Interner;
use super::read::{
    bounded, denied, duration, header_name, header_value, host, key, object, request,
    segment_condition, set, source, unknown, withheld,
};
use crate::error::{At, DecodeError, Result, each, required};
use crate::messages as m;
use http::{HeaderName, HeaderValue};
use policy_core::authorization::AuthorizationSet;
use policy_core::condition::{EffectCondition, HeaderCondition, HeaderOperator};
use policy_core::filter::{
    Failure, Filter, FilterKind, HeaderChange, HeaderRewrite, Redirect, RedirectPath, Streams,
    Timeouts,
};
use policy_core::name::{DelegatedPath, Origin};
use policy_core::policy::{Route, RouteKind, RouteLabel, Rule};
use std::sync::Arc;
use std::time::Duration;

fn header_field(field: &m::HeaderField) -> Result<(HeaderName, HeaderValue)> {
    Ok((header_name(&field.name).at("name")?, header_value(&field.value).at("value")?))
}

fn headers(change: &m::HeaderChange) -> Result<HeaderChange> {
    Ok(HeaderChange {
        add: each("add", &change.add, header_field)?,
        set: each("set", &change.set, header_field)?,
        remove: each("remove", &change.remove, |name| header_name(name))?,
    })
}

fn redirect(redirect: &m::Redirect) -> Result<Redirect> {
    use m::redirect::Path;
    let text = |text: &Option<String>| text.as_deref().map(Arc::from);
    let path = redirect.path.as_ref().map(|path| match path {
        Path::FullPath(path) => RedirectPath::Full(path.as_str().into()),
        Path::Prefix(prefix) => RedirectPath::Prefix(prefix.as_str().into()),
    });
    Ok(Redirect {
        scheme: text(&redirect.scheme),
        host: text(&redirect.host),
        port: redirect.port.map(|port| bounded(port, 0, u16::MAX)).transpose().at("port")?,
        path,
        status: bounded(redirect.status, 300, 399).at("status")?,
    })
}

fn failure(failure: &m::Failure) -> Result<Failure> {
    if failure.denominator == 0 {
        return Err(DecodeError::here("must not be 0")).at("denominator");
    }
    Ok(Failure {
        status: bounded(failure.status, 100, 599).at("status")?,
        grpc_status: bounded(failure.grpc_status, 0, 16).at("grpc_status")?,
        message: failure.message.as_str().into(),
        numerator: failure.numerator,
        denominator: failure.denominator,
        required: failure.required,
    })
}

fn timeouts(timeouts: &m::Timeouts) -> Result<Timeouts> {
    let m::Timeouts { when, request, response, idle, streams } = timeouts;
    Ok(Timeouts {
        when: each("when", when, segment_condition)?,
        request: request.as_ref().map(bound).transpose().at("request")?,
        response: response.as_ref().map(bound).transpose().at("response")?,
        idle: idle.as_ref().map(bound).transpose().at("idle")?,
        streams: match m::Streams::try_from(*streams) {
            Ok(m::Streams::Bounded) => Streams::Bounded,
            Ok(m::Streams::Unbounded) => Streams::Unbounded,
            Ok(m::Streams::Unspecified) | Err(_) => return unknown(*streams).at("streams"),
        },
    })
}

/// A bound that some exchange can keep.
fn bound(bound: &prost_types::Duration) -> Result<Duration> {
    let bound = duration(bound)?;
    if bound.is_zero() { Err(DecodeError::here("must not be zero")) } else { Ok(bound) }
}

fn rewrite(names: &Interner, rewrite: &m::HeaderRewrite) -> Result<HeaderRewrite> {
    let m::HeaderRewrite { when, clear, set, add, required } = rewrite;
    Ok(HeaderRewrite {
        when: each("when", when, |one| effect_condition(names, one))?,
        clear: each("clear", clear, |name| header_name(name))?,
        set: each("set", set, header_field)?,
        add: each("add", add, header_field)?,
        required: *required,
    })
}

fn effect_condition(names: &Interner, condition: &m::EffectCondition) -> Result<EffectCondition> {
    use m::effect_condition::Kind;
    Ok(match set(condition.kind.as_ref())? {
        Kind::Segment(wanted) => EffectCondition::Segment(segment_condition(wanted).at("segment")?),
        Kind::Header(wanted) => {
            EffectCondition::Header(header_condition(names, wanted).at("header")?)
        }
    })
}

fn header_condition(names: &Interner, condition: &m::HeaderCondition) -> Result<HeaderCondition> {
    use m::header_condition::{Operator as Kind, Values};
    let texts = |list: &Values| list.values.iter().map(|value| names.text(value)).collect();
    let name = header_name(&condition.name).at("name")?;
    let operator = match set(condition.operator.as_ref())? {
        Kind::AnyOf(list) => HeaderOperator::In(texts(list)),
        Kind::NoneOf(list) => HeaderOperator::NotIn(texts(list)),
        Kind::Exists(m::Unit {}) => HeaderOperator::Exists,
        Kind::DoesNotExist(m::Unit {}) => HeaderOperator::DoesNotExist,
    };
    Ok(HeaderCondition { name: names.text(name.as_str()), operator })
}

pub(super) fn effect(names: &Interner, effect: &m::Effect) -> Result<Filter> {
    use m::effect::Kind;
    let kind = match set(effect.kind.as_ref())? {
        Kind::RequestHeaders(change) => {
            FilterKind::RequestHeaders(headers(change).at("request_headers")?)
        }
        Kind::ResponseHeaders(change) => {
            FilterKind::ResponseHeaders(headers(change).at("response_headers")?)
        }
        Kind::Redirect(wanted) => FilterKind::Redirect(redirect(wanted).at("redirect")?),
        Kind::Failure(wanted) => FilterKind::Failure(failure(wanted).at("failure")?),
        Kind::Timeout(bound) => FilterKind::Timeout(duration(bound).at("timeout")?),
        Kind::Timeouts(bounds) => FilterKind::Timeouts(timeouts(bounds).at("timeouts")?),
        Kind::Rewrite(wanted) => FilterKind::Rewrite(rewrite(names, wanted).at("rewrite")?),
    };
    let from = required("source", effect.source.as_ref(), |of| source(names, of))?;
    Ok(Filter { source: from, kind })
}

fn origin(names: &Interner, origin: &m::Origin) -> Result<Origin> {
    use m::origin::Kind;
    Ok(match set(origin.kind.as_ref())? {
        Kind::Objects(list) if list.chain.is_empty() => {
            return Err(DecodeError::here("must not be empty")).at("chain").at("objects");
        }
        Kind::Objects(list) => {
            Origin::Objects(list.chain.iter().map(|named| object(names, named)).collect())
        }
        Kind::Default(m::Unit {}) => Origin::Default,
        Kind::Probe(m::Unit {}) => Origin::Probe,
        Kind::Guard(m::Unit {}) => Origin::Guard,
        Kind::Deny(reason) => Origin::Deny(denied(reason).at("deny")?),
        Kind::Delegated(path) => Origin::Delegated(delegated(names, path).at("delegated")?),
        Kind::Undelegated(path) => Origin::Undelegated(delegated(names, path).at("undelegated")?),
        Kind::Unreadable(named) => Origin::Unreadable(object(names, named)),
    })
}

fn delegated(names: &Interner, path: &m::origin::DelegatedPath) -> Result<Arc<DelegatedPath>> {
    let m::origin::DelegatedPath { chain, prefix } = path;
    if chain.is_empty() {
        return Err(DecodeError::here("must not be empty")).at("chain");
    }
    if !prefix.starts_with('/') {
        return Err(DecodeError::here("must begin with `/`")).at("prefix");
    }
    let chain = chain.iter().map(|named| object(names, named)).collect();
    Ok(Arc::new(DelegatedPath { chain, prefix: names.text(prefix) }))
}

/// A route, its key and those of its grants; the grants themselves are left empty.
pub(super) fn route(names: &Interner, route: &m::Route) -> Result<(u64, Vec<u64>, Route)> {
    let m::Route {
        key: own,
        origin: why,
        kind,
        created,
        hosts,
        rules,
        authorizations,
        inherits_server,
        withheld: held,
        label,
    } = route;
    let kind = match m::RouteKind::try_from(*kind) {
        Ok(m::RouteKind::Http) => RouteKind::Http,
        Ok(m::RouteKind::Grpc) => RouteKind::Grpc,
        Ok(m::RouteKind::Unspecified) | Err(_) => return unknown(*kind).at("kind"),
    };
    let decoded = Route {
        origin: required("origin", why.as_ref(), |why| origin(names, why))?,
        kind,
        created: *created,
        label: label.as_deref().map(RouteLabel::new),
        hosts: each("hosts", hosts, |pattern| host(names, pattern))?.into(),
        rules: each("rules", rules, |one| rule(names, one))?.into(),
        authorizations: AuthorizationSet::default(),
        inherits_server: *inherits_server,
        withheld: each("withheld", held, |one| withheld(names, one))?.into(),
    };
    Ok((key(*own).at("key")?, authorizations.clone(), decoded))
}

fn rule(names: &Interner, rule: &m::Rule) -> Result<Rule> {
    Ok(Rule {
        matches: each("matches", &rule.matches, |wanted| request(names, wanted))?.into(),
        effects: each("effects", &rule.effects, |one| effect(names, one))?.into(),
    })
}
