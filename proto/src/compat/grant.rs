//! Grants. Linkerd's have one list of networks and one authentication; several of a kind are
//! intersected, and a grant that cannot be expressed is not sent.

use super::options::EncodeOptions;
use super::{meta, network};
use crate::linkerd::inbound::authn::permit_mesh_tls::{Clients, PermitClientIdentities};
use crate::linkerd::inbound::authn::{Permit, PermitMeshTls, PermitUnauthenticated};
use crate::linkerd::inbound::{Authn, Authz, Identity, IdentitySuffix, Network};
use crate::unsupported::{Part, Report};
use ipnet::IpNet;
use policy_core::authorization::{
    Authorization, AuthorizationSet, Condition, Predicate, Requirement,
};
use policy_core::identity::{Identity as Verified, IdentityMatch};
use policy_core::name::Source;
use policy_core::network::{Facts, NetworkMatch, NetworkTerm};

/// The most entries that an intersection may come to.
const MAX_INTERSECTION: usize = 1024;

/// Linkerd's proxies know a grant for audit by this name alone.
const AUDIT: &str = "audit";
const LOCALHOST: &str = "localhost";

/// Encoder of grants for one workload.
pub(super) struct Grants<'a> {
    facts: &'a Facts,
    options: &'a EncodeOptions,
    report: &'a mut Report,
}

/// A block and its exceptions.
type Block = (IpNet, Vec<IpNet>);

impl<'a> Grants<'a> {
    pub(super) fn new(
        facts: &'a Facts,
        options: &'a EncodeOptions,
        report: &'a mut Report,
    ) -> Self {
        Self { facts, options, report }
    }

    pub(super) fn report(&mut self) -> &mut Report {
        self.report
    }

    pub(super) fn options(&self) -> &'a EncodeOptions {
        self.options
    }

    /// Encodes the Server's grants but the one for localhost: Linkerd's proxies have it built in.
    pub(super) fn server(&mut self, set: &AuthorizationSet) -> Vec<Authz> {
        let built_in =
            |source: &Source| matches!(source, Source::Default(name) if **name == *LOCALHOST);
        let sent = set.iter().filter(|grant| !built_in(&grant.source));
        sent.filter_map(|grant| self.one(grant)).collect()
    }

    pub(super) fn all(&mut self, set: &AuthorizationSet) -> Vec<Authz> {
        set.iter().filter_map(|grant| self.one(grant)).collect()
    }

    /// Encodes a grant. `None` if it holds for no client or cannot be expressed.
    pub(super) fn one(&mut self, grant: &Authorization) -> Option<Authz> {
        let Authorization { source, requirement, audit } = grant;
        let conditions = match requirement {
            Requirement::Nothing => &[][..],
            Requirement::All(conditions) if conditions.is_empty() => return None,
            Requirement::All(conditions) => conditions,
        };
        let networks = self.networks(source, conditions)?;
        let permit = self.permit(source, conditions)?;
        let shown = self.shown(source, *audit);
        Some(authz(&shown, networks, permit))
    }

    fn shown(&mut self, source: &Source, audit: bool) -> Source {
        let named = Source::Default(AUDIT.into());
        if audit && *source != named {
            let part = Part::Authorization(source.clone());
            self.report.otherwise(part, "audited: sent under the name `audit`");
            return named;
        }
        source.clone()
    }

    fn networks(&mut self, source: &Source, conditions: &[Condition]) -> Option<Vec<Block>> {
        let mut all: Option<Vec<Block>> = None;
        for Condition { source: _, test } in conditions {
            let Predicate::Network(terms) = test else { continue };
            let blocks = self.literal(source, terms);
            all = match all {
                None => Some(blocks),
                Some(before) => Some(self.intersection(source, &before, &blocks)?),
            };
        }
        let blocks = all.unwrap_or_else(everywhere);
        (!blocks.is_empty()).then_some(blocks)
    }

    fn literal(&mut self, source: &Source, terms: &[NetworkMatch]) -> Vec<Block> {
        let mut blocks = Vec::new();
        for NetworkMatch { term, except } in terms {
            match term {
                NetworkTerm::Net(net) => blocks.push((*net, except.clone())),
                NetworkTerm::Symbol(symbol) => {
                    let nets = self.facts.resolve(*symbol);
                    if nets.is_empty() {
                        let part = Part::Authorization(source.clone());
                        let message = format!("{symbol:?} stands for nothing: not sent");
                        self.report.otherwise(part, message);
                    }
                    blocks.extend(nets.iter().map(|net| (*net, except.clone())));
                }
            }
        }
        blocks
    }

    fn intersection(&mut self, source: &Source, a: &[Block], b: &[Block]) -> Option<Vec<Block>> {
        if a.len().saturating_mul(b.len()) > MAX_INTERSECTION {
            self.omit(source, "several long lists of networks");
            return None;
        }
        let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
        Some(pairs.filter_map(|(a, b)| intersect(a, b)).collect())
    }

    fn permit(&mut self, source: &Source, conditions: &[Condition]) -> Option<Permit> {
        let mut mesh = false;
        let mut names: Option<Vec<IdentityMatch>> = None;
        for Condition { source: _, test } in conditions {
            match test {
                Predicate::Network(_) => {}
                Predicate::MeshTls => mesh = true,
                Predicate::Identity(list) => {
                    names = Some(match names {
                        None => list.clone(),
                        Some(before)
                            if before.len().saturating_mul(list.len()) > MAX_INTERSECTION =>
                        {
                            self.omit(source, "several long lists of identities");
                            return None;
                        }
                        Some(before) => intersect_identities(&before, list),
                    });
                }
                Predicate::TlsPassthrough => {
                    self.omit(source, "a condition on TLS that is passed through");
                    return None;
                }
                Predicate::Segment(_) => {
                    let part = Part::Authorization(source.clone());
                    self.report.left_out(part, "a condition on a path (`captures`): not sent");
                    return None;
                }
            }
        }
        let clients = match names {
            None if !mesh => return Some(Permit::Unauthenticated(PermitUnauthenticated {})),
            None => Clients::Unauthenticated(PermitUnauthenticated {}),
            Some(names) if names.is_empty() => return None,
            Some(names) => Clients::Identities(identities(&names)),
        };
        Some(Permit::MeshTls(PermitMeshTls { clients: Some(clients) }))
    }

    fn omit(&mut self, source: &Source, what: &str) {
        let part = Part::Authorization(source.clone());
        self.report.left_out(part, format!("{what} (`conditions`): not sent"));
    }
}

fn everywhere() -> Vec<Block> {
    let v4 = IpNet::V4(ipnet::Ipv4Net::default());
    let v6 = IpNet::V6(ipnet::Ipv6Net::default());
    vec![(v4, Vec::new()), (v6, Vec::new())]
}

/// Returns the intersection of two blocks, which are nested or disjoint.
fn intersect((a, except_a): &Block, (b, except_b): &Block) -> Option<Block> {
    let inner = if a.contains(b) {
        b
    } else if b.contains(a) {
        a
    } else {
        return None;
    };
    let mut except: Vec<IpNet> = except_a.iter().chain(except_b).copied().collect();
    except.sort();
    except.dedup();
    Some((*inner, except))
}

/// Returns the patterns that name exactly the clients that both lists name.
fn intersect_identities(a: &[IdentityMatch], b: &[IdentityMatch]) -> Vec<IdentityMatch> {
    let pairs = a.iter().flat_map(|a| b.iter().map(move |b| (a, b)));
    let mut met: Vec<IdentityMatch> = pairs.filter_map(|(a, b)| narrower(a, b)).collect();
    met.sort();
    met.dedup();
    met
}

fn narrower(a: &IdentityMatch, b: &IdentityMatch) -> Option<IdentityMatch> {
    let found = match (a, b) {
        (IdentityMatch::Any, other) | (other, IdentityMatch::Any) => Some(other),
        (IdentityMatch::Exact(x), IdentityMatch::Exact(y)) => (x == y).then_some(a),
        // Sent alone, a name that begins so would also stand for a SPIFFE identity, which a suffix
        // never names.
        (IdentityMatch::Exact(x), IdentityMatch::Suffix(_))
        | (IdentityMatch::Suffix(_), IdentityMatch::Exact(x))
            if x.starts_with("spiffe://") =>
        {
            None
        }
        (exact @ IdentityMatch::Exact(x), suffix @ IdentityMatch::Suffix(_))
        | (suffix @ IdentityMatch::Suffix(_), exact @ IdentityMatch::Exact(x)) => {
            suffix.admits(&Verified::Dns(x.clone())).then_some(exact)
        }
        (IdentityMatch::Suffix(x), IdentityMatch::Suffix(y)) => {
            let below = |long: &str, short: &str| {
                long == short || long.strip_suffix(short).is_some_and(|head| head.ends_with('.'))
            };
            if below(x, y) { Some(a) } else { below(y, x).then_some(b) }
        }
    };
    found.cloned()
}

fn identities(names: &[IdentityMatch]) -> PermitClientIdentities {
    let mut clients = PermitClientIdentities::default();
    for name in names {
        match name {
            // Linkerd's proxies read it as every identity that is a DNS name.
            IdentityMatch::Any => clients.suffixes.push(IdentitySuffix { parts: Vec::new() }),
            IdentityMatch::Exact(name) => {
                clients.identities.push(Identity { name: name.to_string() });
            }
            IdentityMatch::Suffix(suffix) => {
                let parts = suffix.split('.').map(str::to_owned).collect();
                clients.suffixes.push(IdentitySuffix { parts });
            }
        }
    }
    clients
}

fn authz(source: &Source, networks: Vec<Block>, permit: Permit) -> Authz {
    let networks = networks
        .iter()
        .map(|(net, except)| Network {
            net: Some(network::net(net)),
            except: except.iter().map(network::net).collect(),
        })
        .collect();
    Authz {
        networks,
        authentication: Some(Authn { permit: Some(permit) }),
        labels: meta::grant_labels(source),
        metadata: Some(meta::grant(source)),
    }
}
