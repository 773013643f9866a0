//! The objects that a policy is made from.

use crate::authorization::{Authorization, Requirement, UnresolvedGrant};
use crate::filter::Filter;
use crate::name::{ObjectRef, Source};
use crate::policy::{Owner, ServerPolicy};
use std::collections::BTreeSet;

impl ServerPolicy {
    /// Every object that contributes to it, the ones that only fail to included.
    pub fn objects(&self) -> BTreeSet<ObjectRef> {
        let mut found = BTreeSet::new();
        match &self.owner {
            Owner::Server(server) => {
                found.insert(server.clone());
            }
            Owner::Default(_) => {}
        }
        let exempt = self.exemptions.iter().map(|exemption| &exemption.authorization);
        for authorization in self.authorizations.iter().chain(exempt) {
            of_authorization(authorization, &mut found);
        }
        of_effects(&self.effects, &mut found);
        of_withheld(&self.withheld, &mut found);
        if let Some(limit) = &self.rate_limit {
            of_source(&limit.source, &mut found);
        }
        for route in &self.routes.routes {
            found.extend(route.origin.chain().iter().cloned());
            for authorization in route.authorizations.iter() {
                of_authorization(authorization, &mut found);
            }
            for rule in &route.rules {
                of_effects(&rule.effects, &mut found);
            }
            of_withheld(&route.withheld, &mut found);
        }
        found
    }
}

fn of_source(source: &Source, found: &mut BTreeSet<ObjectRef>) {
    match source {
        Source::Object(object) => {
            found.insert(object.clone());
        }
        Source::Default(_) => {}
    }
}

fn of_authorization(authorization: &Authorization, found: &mut BTreeSet<ObjectRef>) {
    of_source(&authorization.source, found);
    match &authorization.requirement {
        Requirement::Nothing => {}
        Requirement::All(conditions) => {
            for condition in conditions.iter() {
                of_source(&condition.source, found);
            }
        }
    }
}

fn of_effects(effects: &[Filter], found: &mut BTreeSet<ObjectRef>) {
    for effect in effects {
        of_source(&effect.source, found);
    }
}

fn of_withheld(withheld: &[UnresolvedGrant], found: &mut BTreeSet<ObjectRef>) {
    found.extend(withheld.iter().map(|withheld| withheld.source.clone()));
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::authorization::{AuthorizationSet, Condition, Predicate};
    use crate::policy::Protocol;
    use std::sync::Arc;

    fn object(name: &str) -> ObjectRef {
        ObjectRef::new("group", "Kind", "ns", name)
    }

    #[test]
    fn whoever_grants_limits_or_fails_to_is_among_the_objects() {
        let owner = Owner::Server(object("server"));
        let mut policy = ServerPolicy::without_grants(owner, Protocol::Http1);
        assert_eq!(policy.objects(), BTreeSet::from([object("server")]));
        let condition =
            Condition { source: Source::Object(object("network")), test: Predicate::MeshTls };
        policy.authorizations = AuthorizationSet::from([Arc::new(Authorization {
            source: Source::Object(object("grant")),
            requirement: Requirement::All([condition].into()),
            audit: false,
        })]);
        let withheld = UnresolvedGrant { source: object("missing"), reason: "it is gone".into() };
        policy.withheld = vec![withheld];
        let names = ["grant", "missing", "network", "server"];
        assert_eq!(policy.objects(), names.map(object).into());
    }
}
