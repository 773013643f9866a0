//! The causes of a decision, the first cause first. What is decided, and why, is the evaluator's and the
//! engine's; here it is brought into an order.

use super::cause::{Cause, CauseFinder, FAR, Ranked, key_of};
use super::target::{container_ports, object_key, service_port};
use super::{delegation, misplaced, overlooked};
use policy_core::explain::{Explanation, MatchPart, RuleOutcome};
use policy_core::{Decision, Denied, ObjectRef, Owner, Source};
use policy_crds::{Kind, ObjectKey};
use policy_engine::view::protocol_name;

impl CauseFinder<'_> {
    /// The causes, the first cause first. Never empty.
    pub(super) fn causes(&self) -> Vec<Cause> {
        let mut ranked = match self.judged.refused {
            None => self.permitted(),
            Some(Denied::Unauthorized) => self.unauthorized(),
            Some(Denied::NoRoute) => self.no_route(),
            Some(Denied::NotDelegated) => delegation::causes(self),
            Some(reason) => vec![(3, self.otherwise(reason))],
        };
        ranked.extend(self.undeclared().map(|cause| (0, cause)));
        ranked.sort_by_key(|(rank, _)| *rank);
        let first = ranked.first().map_or(FAR, |(rank, _)| *rank);
        let near = ranked.into_iter().filter(|(rank, _)| *rank < FAR || first >= FAR);
        near.map(|(_, cause)| cause).collect()
    }

    fn explanation(&self) -> Option<&Explanation> {
        self.judged.explanation.as_ref()
    }

    fn permitted(&self) -> Vec<Ranked> {
        let Some(explanation) = self.explanation() else { return Vec::new() };
        let mut causes = Vec::new();
        if let Some(answer) = &explanation.effects.answer {
            let summary = format!(
                "{} answers in the application's place, although the request is permitted",
                answer.source
            );
            causes.push((1, self.by_source(&answer.source, summary)));
        }
        let held = explanation.considered.iter().find(|grant| grant.failed.is_none());
        causes.extend(held.map(|grant| {
            (2, self.by_source(&grant.source, format!("{} grants it", grant.source)))
        }));
        // Without the audit these conditions would decide.
        let is_audited =
            matches!(explanation.decision, Decision::Permit(permit) if permit.is_audited());
        if is_audited {
            causes.extend(explanation.considered.iter().filter_map(|grant| self.near_miss(grant)));
        }
        if let Some(limit) = explanation.rate_limit.as_ref().filter(|limit| limit.limits()) {
            let summary = format!("{} limits how often: beyond it, 429", limit.source);
            causes.push((3, self.by_source(&limit.source, summary)));
        }
        if causes.is_empty() {
            causes.push((3, Cause::of_nothing("permitted".to_owned())));
        }
        causes
    }

    fn unauthorized(&self) -> Vec<Ranked> {
        let mut ranked = misplaced::causes(self);
        ranked.extend(overlooked::causes(self));
        let Some(explanation) = self.explanation() else { return ranked };
        for withheld in &explanation.withheld {
            ranked.push((3, self.withheld(&withheld.source, &withheld.reason)));
        }
        for grant in &explanation.considered {
            ranked.extend(self.near_miss(grant));
        }
        if explanation.considered.is_empty() {
            let what = match &explanation.route {
                Some(origin) => format!("{origin} takes the request, and nothing grants it"),
                None => format!("nothing is granted by {}", self.owner()),
            };
            let (rank, object) = (5, explanation.route.as_ref().and_then(|origin| origin.object()));
            ranked.push(match object.and_then(key_of) {
                Some(key) => (rank, self.by(&key, "", what)),
                None => (rank, self.by_owner(what)),
            });
        }
        ranked
    }

    fn withheld(&self, source: &ObjectRef, reason: &str) -> Cause {
        let Some(key) = key_of(source) else {
            return Cause::of_nothing(format!("{source} grants nothing: {reason}"));
        };
        if let Some((field, error)) = self.error_of(&key) {
            return self.by(&key, &field, format!("{key} is invalid: {error}"));
        }
        if let Some((invalid, field, error)) = self.named_invalid(reason) {
            let summary = format!("{key} grants nothing: {invalid} is invalid: {error}");
            return self.by(&invalid, &field, summary);
        }
        let near = self.nearest_to_missing(reason);
        self.by(&key, "spec", format!("{key} grants nothing: {reason}{near}"))
    }

    /// The invalid object that a reason names, with the rule that it breaks and its field.
    fn named_invalid(&self, reason: &str) -> Option<(ObjectKey, String, String)> {
        let named = reason.strip_suffix(" is invalid")?;
        let mut keys = self.inventory.compiled.objects.iter().map(|object| &object.meta.key);
        let key = keys.find(|key| key.to_string() == named)?;
        let (field, error) = self.error_of(key)?;
        Some((key.clone(), field, error))
    }

    /// A proposal for the name of an authentication that does not exist.
    fn nearest_to_missing(&self, reason: &str) -> String {
        let Some(named) = reason.strip_suffix(" does not exist") else { return String::new() };
        let keys = self.inventory.compiled.objects.iter().map(|object| &object.meta.key);
        let Some((kind, name)) = named.split_once(' ') else { return String::new() };
        let known: Vec<String> = keys
            .filter(|key| key.kind.as_str() == kind)
            .map(|key| format!("{}/{}", key.namespace, key.name))
            .collect();
        let known: Vec<&str> = known.iter().map(String::as_str).collect();
        let near = policy_crds::nearest(name, &known);
        near.map(|near| format!("; is {near} meant?")).unwrap_or_default()
    }

    fn no_route(&self) -> Vec<Ranked> {
        let mut ranked: Vec<Ranked> = misplaced::unattached_routes(self);
        let Some(explanation) = self.explanation() else { return ranked };
        let method = self.question.request.as_ref().map(|request| request.method.as_str());
        let path = self.judged.target.as_ref().map(|(_, path)| path.as_str());
        let request = format!("{} {}", method.unwrap_or_default(), path.unwrap_or_default());
        let nearest = explanation.others.first();
        let cause = nearest.map(|other| {
            let (origin, wanted) = (&other.origin, &other.wanted);
            let summary = match &other.outcome {
                RuleOutcome::Missed(parts) => {
                    let parts: Vec<String> = parts.iter().map(|part| self.missed(part)).collect();
                    format!(
                        "no route matches {request}; the nearest is `{wanted}` of {origin}, which it misses \
                         by {}",
                        parts.join(" and ")
                    )
                }
                RuleOutcome::Lost(_) => format!(
                    "no route matches {request} on the request's host; `{wanted}` of {origin} would, and \
                     counts for other hosts"
                ),
            };
            match origin.object().and_then(key_of) {
                Some(key) => self.by(&key, "spec", summary),
                None => Cause::of_nothing(summary),
            }
        });
        let without = || {
            let protocol = protocol_name(self.judged.policy.protocol);
            let owner = self.owner();
            self.by_owner(format!("no route of {owner} ({protocol}) matches {request}"))
        };
        ranked.push((3, cause.unwrap_or_else(without)));
        ranked
    }

    /// A part of a match that the request misses, with what the request has.
    fn missed(&self, part: &MatchPart) -> String {
        let has = match part {
            MatchPart::Host => {
                let target = self.judged.target.as_ref();
                target.and_then(|(host, _)| host.clone()).unwrap_or_default()
            }
            MatchPart::Header(name) => {
                let headers = self.question.request.as_ref().map(|request| &request.headers);
                let lines = headers.into_iter().flat_map(|headers| headers.get_all(&**name));
                let lines: Vec<String> = lines
                    .map(|line| String::from_utf8_lossy(line.as_bytes()).into_owned())
                    .collect();
                lines.join(", ")
            }
            MatchPart::Path | MatchPart::Method | MatchPart::Query(_) => return part.to_string(),
        };
        match has.as_str() {
            "" => format!("{part} (the request has none)"),
            has => format!("{part} (the request has `{has}`)"),
        }
    }

    /// The cause of a refusal that no grant is about.
    fn otherwise(&self, reason: Denied) -> Cause {
        let protocol = protocol_name(self.judged.policy.protocol);
        let owner = self.owner();
        match reason {
            Denied::ServerInvalid | Denied::RoutesInvalid | Denied::RouteInvalid => self.invalid(),
            Denied::RateLimitInvalid => {
                let limit = self.judged.policy.rate_limit.as_ref().map(|limit| &limit.source);
                match limit {
                    Some(source @ Source::Object(object)) => match key_of(object) {
                        Some(key) => self.invalid_object(&key),
                        None => self.by_source(source, format!("{source} is invalid")),
                    },
                    Some(_) | None => Cause::of_nothing("the rate limit is invalid".to_owned()),
                }
            }
            Denied::ProtocolMismatch => {
                let sent = match &self.question.request {
                    Some(request) if request.h2 => "HTTP/2",
                    Some(_) => "HTTP/1.1",
                    None => "a connection that is not HTTP",
                };
                self.by_owner(format!("{owner} takes {protocol} alone, and the client sends {sent}"))
            }
            Denied::TlsRequired => self.by_owner(format!(
                "{owner} takes TLS that the workload terminates, and the client sends none"
            )),
            Denied::Target(fault) => Cause::of_nothing(format!(
                "the request itself is refused as {}: two programs could read it differently",
                fault.as_str()
            )),
            Denied::CannotTell => Cause::of_nothing(
                "a header or query parameter appears several times, and a match holds for some of its \
                 lines alone"
                    .to_owned(),
            ),
            Denied::NoRoute
            | Denied::Unauthorized
            | Denied::ProxyUnsupported
            | Denied::NotDelegated
            | Denied::PortUndeclared
            | Denied::PolicyPending
            | Denied::PolicyExpired
            | Denied::RateLimited
            | Denied::Revoked => {
                self.by_owner(format!("{owner} refuses it as {}", reason.as_str()))
            }
        }
    }

    /// The invalid object behind `server_invalid`, `routes_invalid` and `route_invalid`.
    fn invalid(&self) -> Cause {
        let route = self.explanation().and_then(|explanation| explanation.route.as_ref());
        let route = route.and_then(|origin| origin.object()).and_then(key_of);
        let owner = match &self.judged.policy.owner {
            Owner::Server(server) => key_of(server),
            Owner::Default(_) => None,
        };
        let broken = |key: &ObjectKey| self.error_of(key).is_some();
        if let Some(key) = route.clone().filter(broken).or_else(|| owner.clone().filter(broken)) {
            return self.invalid_object(&key);
        }
        let mut attached = self.inventory.compiled.objects.iter().map(|object| &object.meta.key);
        let of_namespace = attached.find(|key| {
            let is_attached = Kind::attached().any(|kind| kind == key.kind)
                || matches!(key.kind, Kind::HttpRouteGroup | Kind::GrpcService);
            is_attached && key.namespace == self.workload.namespace && broken(key)
        });
        if let Some(key) = of_namespace {
            return self.invalid_object(key);
        }
        if let Some(finding) = overlooked::route_beside(self) {
            let key = &finding.object;
            return self.by(key, &finding.field, format!("{key}: {}", finding.message));
        }
        if let Some((key, field, reason)) = overlooked::unsupported_rule(self) {
            return self.by(&key, &field, format!("{key}: {reason}"));
        }
        let about = route.or(owner);
        let finding = about
            .as_ref()
            .and_then(|key| self.findings.iter().find(|finding| finding.object == *key));
        match (about, finding) {
            (Some(key), Some(finding)) => {
                self.by(&key, &finding.field, format!("{key}: {}", finding.message))
            }
            (Some(key), None) => {
                self.by(&key, "", format!("{key} denies what it may be meant for"))
            }
            (None, _) => Cause::of_nothing("an object is invalid".to_owned()),
        }
    }

    fn invalid_object(&self, key: &ObjectKey) -> Cause {
        match self.error_of(key) {
            Some((field, error)) => self.by(key, &field, format!("{key} is invalid: {error}")),
            None => self.by(key, "", format!("{key} is invalid")),
        }
    }

    /// The cause of a port that no container and no Server names.
    fn undeclared(&self) -> Option<Cause> {
        let state = &self.inventory.compiled.workloads.get(self.workload)?.state;
        if state.declared.contains(&self.port) {
            return None;
        }
        let ports = container_ports(self.inventory, self.workload);
        if ports.is_empty() && self.judged.refused != Some(Denied::PortUndeclared) {
            return None;
        }
        let declared: Vec<String> = ports.iter().map(|port| port.number.to_string()).collect();
        let port = self.port;
        let mut summary = format!("no container of {} declares port {port}", self.workload);
        if let Some((service, to)) = service_port(self.inventory, self.workload, port) {
            summary = format!("{summary}; it is a port of {service}, which leads to port {to}");
        } else if !declared.is_empty() {
            summary = format!("{summary}; it declares {}", declared.join(", "));
        }
        let key = object_key(self.workload);
        Some(self.by(&key, "", format!("{summary}, so that {} decides", self.owner())))
    }
}
