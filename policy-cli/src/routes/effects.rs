//! The effects of a rule on the requests and responses that it permits, in words.

use policy_core::filter::{HeaderChange, Redirect};
use policy_core::{Filter, FilterKind, Route};

/// The effects of a route on requests and responses, each once; bounds on time change neither.
pub(super) fn effects(route: &Route) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for effect in route.rules.iter().flat_map(|rule| &rule.effects) {
        if let Some(words) = words(effect).filter(|words| !all.contains(words)) {
            all.push(words);
        }
    }
    all
}

fn words(Filter { source, kind }: &Filter) -> Option<String> {
    let words = match kind {
        FilterKind::RequestHeaders(change) => format!("request headers {}", names(change)),
        FilterKind::ResponseHeaders(change) => format!("response headers {}", names(change)),
        FilterKind::Rewrite(rewrite) => {
            let names: Vec<&str> = rewrite.names().map(|name| name.as_str()).collect();
            format!("request headers {}", names.join(", "))
        }
        FilterKind::Redirect(Redirect { host: Some(host), .. }) => format!("redirect to {host}"),
        FilterKind::Redirect(_) => "redirect on the same host".to_owned(),
        FilterKind::Failure(failure) => format!("failure with status {}", failure.status),
        FilterKind::Timeout(_) | FilterKind::Timeouts(_) => return None,
    };
    Some(format!("{words} ({source})"))
}

fn names(HeaderChange { add, set, remove }: &HeaderChange) -> String {
    let named = add.iter().chain(set).map(|(name, _)| name).chain(remove);
    named.map(|name| name.as_str()).collect::<Vec<_>>().join(", ")
}
