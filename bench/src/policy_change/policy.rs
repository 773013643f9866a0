//! The policy that changes: many routes that no request matches, and one that all do, which sets a
//! response header to the number of the revision.

use anyhow::Context;
use http::{HeaderName, HeaderValue};
use policy_core::filter::HeaderChange;
use policy_core::{
    Authorization, Condition, Feature, Filter, FilterKind, ObjectRef, Origin, Owner, PathPattern,
    Predicate, Protocol, RequestMatch, Requirement, Revision, Route, RouteKind, Rule, ServerPolicy,
    Source, Unmatched,
};
use policy_proto::messages as m;
use policy_proto::native::encode_port;
use std::num::NonZeroU16;
use std::sync::Arc;

/// The workload's port.
pub(crate) const PORT: NonZeroU16 = NonZeroU16::MIN.saturating_add(8079);

/// The policy as the proxy has it, and the one route that changes.
pub(crate) struct Subject {
    /// The whole state.
    pub(crate) full: m::PortUpdate,
    route: m::Route,
    content: u64,
}

impl Subject {
    /// A policy of this many rules.
    pub(crate) fn new(rules: usize) -> anyhow::Result<Self> {
        let owner = Owner::Server(object("Server", "http1"));
        let mut made = ServerPolicy::without_grants(owner, Protocol::Http1);
        made.routes.otherwise = Unmatched::NotFound;
        made.routes.routes = (1..=rules).map(|number| Arc::new(route(number, rules))).collect();
        let encoded = encode_port(&made, &Feature::ALL.into_iter().collect());
        let full = encoded.full(PORT, &Revision::default());
        let order = full.route_order.as_ref();
        let key = order.and_then(|order| order.keys.last()).context("no rules")?;
        let route = full.routes.iter().find(|route| route.key == *key).context("no route")?;
        Ok(Self { route: route.clone(), content: encoded.content(), full })
    }

    /// The next change: of one route, which names its revision.
    pub(crate) fn next(&mut self) -> m::PortUpdate {
        let base = self.content;
        self.content = base.wrapping_add(1).max(1);
        let mut route = self.route.clone();
        let effects = route.rules.iter_mut().flat_map(|rule| &mut rule.effects);
        for effect in effects {
            if let Some(m::effect::Kind::ResponseHeaders(change)) = &mut effect.kind {
                let value = self.content.to_string().into_bytes();
                change.set.iter_mut().for_each(|field| field.value.clone_from(&value));
            }
        }
        m::PortUpdate {
            port: PORT.get().into(),
            revision: Some(m::Revision { content: self.content, ..m::Revision::default() }),
            base: Some(base),
            required_features: self.full.required_features.clone(),
            routes: vec![route],
            ..m::PortUpdate::default()
        }
    }

    /// The content of the last revision.
    pub(crate) fn content(&self) -> u64 {
        self.content
    }
}

/// The last is met by every request. Each has a grant of its own, all of which ask for the same.
fn route(number: usize, of: usize) -> Route {
    let name = format!("http1-{number}");
    let (path, effects) = if number == of {
        ("/zz/".to_owned(), vec![marked()])
    } else {
        (format!("/svc{number}/"), Vec::new())
    };
    let source = Source::Object(object("NetworkAuthentication", "anybody"));
    let condition = Condition { source, test: Predicate::all_networks() };
    let grant = Authorization {
        source: Source::Object(object("AuthorizationPolicy", &format!("{name}-grant"))),
        requirement: Requirement::All(Arc::from([condition])),
        audit: false,
    };
    Route {
        origin: Origin::Objects([object("HTTPRoute", &name)].into()),
        kind: RouteKind::Http,
        created: None,
        label: None,
        hosts: Vec::new().into(),
        rules: vec![Rule {
            matches: vec![RequestMatch::path(PathPattern::prefix(&path))].into(),
            effects: effects.into(),
        }]
        .into(),
        authorizations: [Arc::new(grant)].into(),
        inherits_server: true,
        withheld: Vec::new().into(),
    }
}

fn object(kind: &str, name: &str) -> ObjectRef {
    ObjectRef::new("policy.linkerd.io", kind, "bench", name)
}

fn marked() -> Filter {
    let field = (HeaderName::from_static("x-revision"), HeaderValue::from_static("0"));
    let change = HeaderChange { add: Vec::new(), set: vec![field], remove: Vec::new() };
    Filter { source: Source::Default("bench".into()), kind: FilterKind::ResponseHeaders(change) }
}
