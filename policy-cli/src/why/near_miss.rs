//! Grants that the client misses, with the condition that fails.

use super::cause::{CauseFinder, FAR, Ranked};
use super::judge::JudgedClient;
use policy_core::explain::GrantEvaluation;
use policy_core::{Condition, IdentityMatch, Predicate, Requirement, Source};
use policy_crds::principal;
use policy_engine::findings::{Finding, FindingKind};

impl CauseFinder<'_> {
    /// The condition of a grant that fails, as a cause.
    pub(super) fn near_miss(&self, grant: &GrantEvaluation) -> Option<Ranked> {
        let failed = grant.failed.as_ref()?;
        let Some(condition) = &failed.condition else {
            let summary = format!("{} holds for nobody", grant.source);
            return Some((FAR, self.by_source(&grant.source, summary)));
        };
        let (condition, client) = match self.identity_beside(grant, &condition.test) {
            Some(own) => (own, self.identity_text()),
            None => (condition, failed.client.clone()),
        };
        let through = match condition.source == grant.source {
            true => String::new(),
            false => format!(" (set by {})", condition.source),
        };
        let (hint, is_identity) = match &condition.test {
            Predicate::Identity(names) => (self.hint(names), true),
            Predicate::Network(_)
            | Predicate::MeshTls
            | Predicate::TlsPassthrough
            | Predicate::Segment(_) => ("", false),
        };
        let mut summary = format!(
            "{} asks for {}{through}; the client has {}{hint}",
            grant.source,
            condition_words(&condition.test),
            self.client_value(&condition.test, &client)
        );
        let known = self.finding_about(&[&grant.source, &condition.source]).filter(|_| is_identity);
        if let Some(finding) = known {
            summary = format!("{summary}; {}: {}", finding.object, finding.message);
        }
        let identified = self.judged.client.identity.is_some();
        let rank = if grant.failures > 1 {
            FAR
        } else if known.is_some() || !hint.is_empty() {
            2
        } else if self.conditions_of(grant) > 1 {
            // All others are met.
            3
        } else if is_identity == identified {
            4
        } else {
            5
        };
        Some((rank, self.by_source(&condition.source, summary)))
    }

    /// The client's value in words; an address that nobody stated is called so.
    fn client_value(&self, test: &Predicate, value: &str) -> String {
        match (test, self.judged.client.stated) {
            (Predicate::Network(_), false) => {
                format!("{value}, which is assumed and --address replaces")
            }
            (_, _) => value.to_owned(),
        }
    }

    /// The condition on identities that the client misses too, where the one on addresses fails by an address
    /// that is assumed. What is known of the client comes first.
    fn identity_beside(&self, grant: &GrantEvaluation, failed: &Predicate) -> Option<&Condition> {
        let JudgedClient { stated, identity, .. } = &self.judged.client;
        let assumed = matches!(failed, Predicate::Network(_)) && !stated;
        if !assumed || grant.failures < 2 {
            return None;
        }
        let fails = |condition: &&Condition| match (&condition.test, identity) {
            (Predicate::Identity(names), Some(own)) => !names.iter().any(|name| name.admits(own)),
            (Predicate::Identity(_) | Predicate::MeshTls, None) => true,
            (
                Predicate::Network(_)
                | Predicate::MeshTls
                | Predicate::TlsPassthrough
                | Predicate::Segment(_),
                _,
            ) => false,
        };
        self.conditions(grant).iter().find(fails)
    }

    /// The identity of the client, or that it has none.
    fn identity_text(&self) -> String {
        let identity = self.judged.client.identity.as_ref();
        identity.map_or_else(|| "no mesh TLS".to_owned(), |identity| identity.as_str().to_owned())
    }

    /// Number of conditions of a grant that a default policy does not make.
    fn conditions_of(&self, grant: &GrantEvaluation) -> usize {
        match grant.source {
            Source::Default(_) => 1,
            Source::Object(_) => self.conditions(grant).len(),
        }
    }

    fn conditions(&self, grant: &GrantEvaluation) -> &[Condition] {
        let policy = &self.judged.policy;
        let of_routes = policy.routes.routes.iter().flat_map(|route| route.authorizations.iter());
        let mut all = policy.authorizations.iter().chain(of_routes);
        match all.find(|own| own.source == grant.source).map(|own| &own.requirement) {
            Some(Requirement::All(conditions)) => conditions,
            Some(Requirement::Nothing) | None => &[],
        }
    }

    /// A remark where a name differs from the client's in its namespace or trust domain alone.
    fn hint(&self, names: &[IdentityMatch]) -> &'static str {
        let Some(identity) = &self.judged.client.identity else { return "" };
        if names.iter().any(|name| self.is_own_spiffe_id(name)) {
            return "; accounts of this mesh prove names of DNS and no SPIFFE ID: name the account by \
                    identityRefs";
        }
        let own: Vec<&str> = identity.as_str().split('.').collect();
        let alike = names.iter().find_map(|name| {
            let IdentityMatch::Exact(name) = name else { return None };
            let other: Vec<&str> = name.split('.').collect();
            let account = own.first() == other.first();
            let namespace = own.get(1) == other.get(1);
            match (account, namespace) {
                (true, true) => Some("; only what follows the namespace differs"),
                (true, false) => Some("; it is the account of another namespace"),
                (false, _) => None,
            }
        });
        alike.unwrap_or_default()
    }

    /// True of a SPIFFE ID, as Istio forms it (`…/ns/NAMESPACE/sa/ACCOUNT`), of the client's ServiceAccount.
    fn is_own_spiffe_id(&self, name: &IdentityMatch) -> bool {
        let IdentityMatch::Exact(name) = name else { return false };
        let config = &self.inventory.settings.config;
        let Some((namespace, account)) = self.question.from.account(config) else { return false };
        let named = name.strip_prefix("spiffe://").and_then(principal);
        named.is_some_and(|(domain, of, name)| {
            !domain.contains('/') && *of == *namespace && *name == *account
        })
    }

    /// A finding about the clients that one of these objects names.
    fn finding_about(&self, sources: &[&Source]) -> Option<&Finding> {
        self.findings.iter().find(|finding| {
            let about_clients = matches!(
                finding.kind,
                FindingKind::ClientMissing
                    | FindingKind::ForeignClientMissing
                    | FindingKind::ForeignIdentity
            );
            // Manifests that declare no accounts leave them to others.
            let is_sure = self.inventory.cluster.is_some()
                || finding.kind == FindingKind::ForeignIdentity
                || finding.message.ends_with(" meant?");
            let object = finding.object.to_ref();
            about_clients
                && is_sure
                && sources
                    .iter()
                    .any(|source| matches!(source, Source::Object(own) if *own == object))
        })
    }
}

/// A condition in words that follow "asks for".
pub(super) fn condition_words(test: &Predicate) -> String {
    let words = test.to_string();
    match words.strip_prefix("from ") {
        Some(networks) => format!("an address in {networks}"),
        None => words,
    }
}
