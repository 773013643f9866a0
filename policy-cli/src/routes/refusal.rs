//! Lost claims in words.

use crate::inventory::Inventory;
use policy_crds::Kind;
use policy_engine::conditions::Reason;
use policy_engine::trees::ClaimRefusal;

/// The loss of a claim in words. The user may list the holder, so it is named.
pub(super) fn refusal_words(inventory: &Inventory, refusal: &ClaimRefusal) -> (Reason, String) {
    let admission =
        |words: &str| match inventory.permissions.can_list_everywhere(Kind::RouteAdmissionPolicy) {
            true => format!("the RouteAdmissionPolicy `default` allows no {words}"),
            false => format!("no RouteAdmissionPolicy that can be read allows {words}"),
        };
    match refusal {
        ClaimRefusal::AlreadyClaimed(holder) => {
            (Reason::HostAlreadyClaimed, format!("{holder} claimed it earlier"))
        }
        ClaimRefusal::NamespaceNotAllowed => {
            (Reason::RootNotAllowedInNamespace, admission("roots in the namespace"))
        }
        ClaimRefusal::WildcardNotAllowed => (Reason::WildcardNotAllowed, admission("wildcards")),
        ClaimRefusal::NotAssumed => {
            let words = "claims of other namespaces are not known, and --assume-claims does not name \
                         the host";
            (Reason::HostNotAssumed, words.to_owned())
        }
    }
}
