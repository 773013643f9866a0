//! From the model of routes and effects to native messages. Every field of every type is named.

use super::write::{UNIT, duration, host, object, request, segment_condition, source, withheld};
use crate::messages as m;
use http::{HeaderName, HeaderValue};
use policy_core::condition::{EffectCondition, HeaderCondition, HeaderOperator};
use policy_core::filter::{
    Failure, Filter, FilterKind, HeaderChange, HeaderRewrite, Redirect, RedirectPath, Streams,
    Timeouts,
};
use policy_core::name::{DelegatedPath, Origin};
use policy_core::policy::{Route, RouteKind, Rule};
use std::sync::Arc;

fn headers(change: &HeaderChange) -> m::HeaderChange {
    let HeaderChange { add, set, remove } = change;
    m::HeaderChange { add: fields(add), set: fields(set), remove: header_names(remove) }
}

fn fields(fields: &[(HeaderName, HeaderValue)]) -> Vec<m::HeaderField> {
    let field = |(name, value): &(HeaderName, HeaderValue)| m::HeaderField {
        name: name.as_str().to_owned(),
        value: value.as_bytes().to_vec(),
    };
    fields.iter().map(field).collect()
}

fn header_names(names: &[HeaderName]) -> Vec<String> {
    names.iter().map(|name| name.as_str().to_owned()).collect()
}

fn redirect(redirect: &Redirect) -> m::Redirect {
    use m::redirect::Path;
    let Redirect { scheme, host, port, path, status } = redirect;
    let text = |text: &Option<std::sync::Arc<str>>| text.as_ref().map(|text| text.to_string());
    m::Redirect {
        scheme: text(scheme),
        host: text(host),
        port: port.map(u32::from),
        status: u32::from(*status),
        path: path.as_ref().map(|path| match path {
            RedirectPath::Full(path) => Path::FullPath(path.to_string()),
            RedirectPath::Prefix(prefix) => Path::Prefix(prefix.to_string()),
        }),
    }
}

fn failure(failure: &Failure) -> m::Failure {
    let Failure { status, grpc_status, message, numerator, denominator, required } = failure;
    m::Failure {
        status: u32::from(*status),
        grpc_status: u32::from(*grpc_status),
        message: message.to_string(),
        numerator: *numerator,
        denominator: *denominator,
        required: *required,
    }
}

fn timeouts(timeouts: &Timeouts) -> m::Timeouts {
    let Timeouts { when, request, response, idle, streams } = timeouts;
    m::Timeouts {
        when: when.iter().map(segment_condition).collect(),
        request: request.map(duration),
        response: response.map(duration),
        idle: idle.map(duration),
        streams: i32::from(match streams {
            Streams::Bounded => m::Streams::Bounded,
            Streams::Unbounded => m::Streams::Unbounded,
        }),
    }
}

fn rewrite(rewrite: &HeaderRewrite) -> m::HeaderRewrite {
    let HeaderRewrite { when, clear, set, add, required } = rewrite;
    m::HeaderRewrite {
        when: when.iter().map(effect_condition).collect(),
        clear: header_names(clear),
        set: fields(set),
        add: fields(add),
        required: *required,
    }
}

fn effect_condition(condition: &EffectCondition) -> m::EffectCondition {
    use m::effect_condition::Kind;
    let kind = match condition {
        EffectCondition::Segment(wanted) => Kind::Segment(segment_condition(wanted)),
        EffectCondition::Header(wanted) => Kind::Header(header_condition(wanted)),
    };
    m::EffectCondition { kind: Some(kind) }
}

fn header_condition(condition: &HeaderCondition) -> m::HeaderCondition {
    use m::header_condition::{Operator as Kind, Values};
    let HeaderCondition { name, operator } = condition;
    let texts =
        |values: &[Arc<str>]| Values { values: values.iter().map(ToString::to_string).collect() };
    let operator = match operator {
        HeaderOperator::In(values) => Kind::AnyOf(texts(values)),
        HeaderOperator::NotIn(values) => Kind::NoneOf(texts(values)),
        HeaderOperator::Exists => Kind::Exists(UNIT),
        HeaderOperator::DoesNotExist => Kind::DoesNotExist(UNIT),
    };
    m::HeaderCondition { name: name.to_string(), operator: Some(operator) }
}

pub(super) fn effect(effect: &Filter) -> m::Effect {
    use m::effect::Kind;
    let Filter { source: from, kind } = effect;
    let kind = match kind {
        FilterKind::RequestHeaders(change) => Kind::RequestHeaders(headers(change)),
        FilterKind::ResponseHeaders(change) => Kind::ResponseHeaders(headers(change)),
        FilterKind::Redirect(wanted) => Kind::Redirect(redirect(wanted)),
        FilterKind::Failure(wanted) => Kind::Failure(failure(wanted)),
        FilterKind::Timeout(bound) => Kind::Timeout(duration(*bound)),
        FilterKind::Timeouts(bounds) => Kind::Timeouts(timeouts(bounds)),
        FilterKind::Rewrite(wanted) => Kind::Rewrite(rewrite(wanted)),
    };
    m::Effect { source: Some(source(from)), kind: Some(kind) }
}

pub(super) fn origin(origin: &Origin) -> m::Origin {
    use m::origin::{Kind, Objects};
    let kind = match origin {
        Origin::Objects(chain) => {
            Kind::Objects(Objects { chain: chain.iter().map(object).collect() })
        }
        Origin::Default => Kind::Default(UNIT),
        Origin::Probe => Kind::Probe(UNIT),
        Origin::Guard => Kind::Guard(UNIT),
        Origin::Deny(reason) => Kind::Deny(reason.as_str().to_owned()),
        Origin::Delegated(path) => Kind::Delegated(delegated(path)),
        Origin::Undelegated(path) => Kind::Undelegated(delegated(path)),
        Origin::Unreadable(named) => Kind::Unreadable(object(named)),
    };
    m::Origin { kind: Some(kind) }
}

fn delegated(path: &DelegatedPath) -> m::origin::DelegatedPath {
    let DelegatedPath { chain, prefix } = path;
    m::origin::DelegatedPath {
        chain: chain.iter().map(object).collect(),
        prefix: prefix.to_string(),
    }
}

/// Encodes a route; `keys` are those of its grants.
pub(super) fn route(key: u64, keys: Vec<u64>, route: &Route) -> m::Route {
    let Route {
        origin: why,
        kind,
        created,
        label,
        hosts,
        rules,
        authorizations: _,
        inherits_server,
        withheld: held,
    } = route;
    m::Route {
        key,
        origin: Some(origin(why)),
        kind: i32::from(match kind {
            RouteKind::Http => m::RouteKind::Http,
            RouteKind::Grpc => m::RouteKind::Grpc,
        }),
        created: *created,
        hosts: hosts.iter().map(host).collect(),
        rules: rules.iter().map(rule).collect(),
        authorizations: keys,
        inherits_server: *inherits_server,
        withheld: held.iter().map(withheld).collect(),
        label: label.as_ref().map(|label| label.as_str().to_owned()),
    }
}

fn rule(rule: &Rule) -> m::Rule {
    let Rule { matches, effects } = rule;
    m::Rule {
        matches: matches.iter().map(request).collect(),
        effects: effects.iter().map(effect).collect(),
    }
}
