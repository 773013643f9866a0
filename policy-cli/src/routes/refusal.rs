//! Lost claims in words.

use crate::inventory::Inventory;
use policy_crds::{Kind, ObjectKey};
use policy_engine::claims::{ClaimRefusal, HostClaim};
use policy_engine::conditions::Reason;

/// The loss of a claim in words. The user may list the holder, so it is named.
pub(super) fn refusal_words(
    inventory: &Inventory,
    claim: HostClaim<'_>,
    refusal: &ClaimRefusal,
) -> (Reason, String) {
    let admission =
        |words: &str| match inventory.permissions.can_list_everywhere(Kind::RouteAdmissionPolicy) {
            true => format!("the RouteAdmissionPolicy `default` allows no {words}"),
            false => format!("no RouteAdmissionPolicy that can be read allows {words}"),
        };
    match refusal {
        ClaimRefusal::AlreadyClaimed(holder) => {
            let when = match is_tie(inventory, claim, holder) {
                true => "at the same time, and comes first by namespace and name",
                false => "earlier",
            };
            (Reason::HostAlreadyClaimed, format!("{holder} claimed it {when}"))
        }
        ClaimRefusal::Overlaps(holder, host) => {
            (Reason::HostAlreadyClaimed, format!("{holder} claimed {host} earlier"))
        }
        ClaimRefusal::ServiceName => {
            let words = "Services of another namespace are called by the host";
            (Reason::ServiceOfAnotherNamespace, words.to_owned())
        }
        ClaimRefusal::NamespaceNotAllowed => {
            (Reason::RootNotAllowedInNamespace, admission("roots in the namespace"))
        }
        ClaimRefusal::PolicyInvalid => {
            let words = "the RouteAdmissionPolicy `default` is invalid, and admits no new claim";
            (Reason::RootNotAllowedInNamespace, words.to_owned())
        }
        ClaimRefusal::WildcardNotAllowed => (Reason::WildcardNotAllowed, admission("wildcards")),
        ClaimRefusal::NotAssumed => {
            let words = "claims of other namespaces are not known, and --assume-claims does not name \
                         the host";
            (Reason::HostNotAssumed, words.to_owned())
        }
    }
}

/// True if the time of a claim is that of the one that it lost to. Times have whole seconds, and
/// claims without a recorded one are alike.
fn is_tie(inventory: &Inventory, claim: HostClaim<'_>, holder: &ObjectKey) -> bool {
    let claims = inventory.compiled.claims_on(claim.host);
    let claims = claims.in_order();
    let mut held = claims.iter().filter(|other| other.is_active() && other.root == holder);
    let first = held.find(|other| other.host.overlaps(claim.host));
    first.is_some_and(|first| first.time == claim.time)
}
