//! Filters of objects to which another namespace handed a path.
//!
//! A path ends where a request is changed behind the decision: many frameworks route by headers such as
//! `x-original-url`, a cookie may be for the whole host, and a redirect leads elsewhere under the owner's
//! name. So objects of other namespaces than the root's have no filters but those that its delegation
//! allows, and never such headers and hosts that it does not name.

use crate::incremental::Context;
use crate::query::effects::{EffectPoliciesOn, PolicyEffect};
use crate::resolve::effects::effects_on;
use http::HeaderName;
use http::header::{AUTHORIZATION, COOKIE, FORWARDED, HOST, SET_COOKIE};
use policy_core::filter::{HeaderChange, Redirect};
use policy_core::{FilterKind, HostPattern};
use policy_crds::ObjectKey;
use policy_crds::resource::{AllowedFilter, FilterType, PathPrefix, RouteResource};
use std::sync::Arc;

/// Headers of requests by which frameworks route, beside those that begin with [`FORWARDED_BY`].
const ROUTED_BY: [&str; 6] = [
    "x-original-url",
    "x-original-uri",
    "x-rewrite-url",
    "x-http-method-override",
    "x-http-method",
    "x-method-override",
];
const FORWARDED_BY: &str = "x-forwarded-";

/// The filters that a delegation of a root allows below it.
pub(super) struct Allowed<'r> {
    /// The namespace of the root.
    pub(super) owner: Arc<str>,
    /// The filters that its rule allows.
    pub(super) filters: &'r [AllowedFilter],
    /// The path of its rule.
    pub(super) path: &'r PathPrefix,
    /// The hosts of its rule.
    pub(super) hosts: &'r [HostPattern],
}

impl Allowed<'_> {
    /// The first filter of an object that is not allowed, in words. `route`: its content, if it is a route.
    pub(super) fn refused(
        &self,
        cx: &mut Context<'_>,
        key: &ObjectKey,
        route: Option<&RouteResource>,
    ) -> Option<String> {
        if key.namespace == self.owner {
            return None;
        }
        let own = route.into_iter().flat_map(|route| &route.rules).flat_map(|rule| &rule.filters);
        let own = own.filter_map(|filter| self.fault(filter)).next();
        own.or_else(|| {
            let policies = cx.query(&EffectPoliciesOn(key.clone()));
            let rewrites = |effect| matches!(effect, &PolicyEffect::Rewrites(_));
            if !policies.iter().any(|policy| rewrites(&policy.effect)) {
                return None;
            }
            effects_on(cx, key).iter().find_map(|effect| self.fault(&effect.kind))
        })
    }

    fn fault(&self, filter: &FilterKind) -> Option<String> {
        match filter {
            FilterKind::RequestHeaders(change) => {
                let HeaderChange { add, set, remove } = change;
                let names = add.iter().chain(set).map(|(name, _)| name).chain(remove);
                self.request(FilterType::RequestHeaders, names)
            }
            FilterKind::Rewrite(rewrite) => self.request(FilterType::Rewrites, rewrite.names()),
            FilterKind::ResponseHeaders(change) => self.response(change),
            FilterKind::Redirect(redirect) => self.redirect(redirect),
            FilterKind::Failure(_) | FilterKind::Timeout(_) | FilterKind::Timeouts(_) => None,
        }
    }

    fn of(&self, kind: FilterType) -> Result<&AllowedFilter, String> {
        let found = self.filters.iter().find(|allowed| allowed.kind == kind);
        found.ok_or_else(|| format!("`{}`", kind.as_str()))
    }

    fn request<'n>(
        &self,
        kind: FilterType,
        mut names: impl Iterator<Item = &'n HeaderName>,
    ) -> Option<String> {
        let allowed = match self.of(kind) {
            Ok(allowed) => allowed,
            Err(words) => return Some(words),
        };
        let refused = names.find(|name| is_reserved(name) && !allowed.headers.contains(name))?;
        Some(format!("`{}` of the header `{refused}`", kind.as_str()))
    }

    fn response(&self, change: &HeaderChange) -> Option<String> {
        let kind = FilterType::ResponseHeaders;
        let allowed = match self.of(kind) {
            Ok(allowed) => allowed,
            Err(words) => return Some(words),
        };
        let HeaderChange { add, set, remove: _ } = change;
        let mut cookies = add.iter().chain(set).filter(|(name, _)| *name == SET_COOKIE);
        let is_wide = |value: &http::HeaderValue| {
            value.to_str().map_or(true, |cookie| !is_cookie_inside(cookie, self.path))
        };
        let wide = !allowed.headers.contains(&SET_COOKIE) && cookies.any(|(_, v)| is_wide(v));
        wide.then(|| {
            format!("`{}` of a cookie that is not for `{}` alone", kind.as_str(), self.path)
        })
    }

    fn redirect(&self, redirect: &Redirect) -> Option<String> {
        let allowed = match self.of(FilterType::Redirect) {
            Ok(allowed) => allowed,
            Err(words) => return Some(words),
        };
        let host = HostPattern::parse(redirect.host.as_ref()?);
        let mut known = self.hosts.iter().chain(&allowed.hosts);
        let known = known.any(|one| *one == host || one.covers(&host));
        (!known).then(|| format!("`{}` to the host `{host}`", FilterType::Redirect.as_str()))
    }
}

/// True for a header of requests that decides about more than the path that was handed over.
fn is_reserved(name: &HeaderName) -> bool {
    [HOST, FORWARDED, AUTHORIZATION, COOKIE].contains(name)
        || ROUTED_BY.contains(&name.as_str())
        || name.as_str().starts_with(FORWARDED_BY)
}

/// True if browsers send a cookie back for a path alone (RFC 6265, 5.2: the last attribute of a name counts).
/// Without `Path` it may be for everything beside the path; `Domain` makes it one of further hosts.
fn is_cookie_inside(cookie: &str, path: &PathPrefix) -> bool {
    let mut inside = false;
    for attribute in cookie.split(';').skip(1) {
        let (name, value) = attribute.split_once('=').unwrap_or((attribute, ""));
        match name.trim().to_ascii_lowercase().as_str() {
            "domain" => return false,
            "path" => {
                let own = PathPrefix::parse(value.trim());
                inside = own.is_ok_and(|own| path.contains(&own));
            }
            _ => {}
        }
    }
    inside
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_cookie_is_inside_a_path_by_its_last_path_and_without_a_domain() {
        let path = PathPrefix::parse("/finance").unwrap();
        for (cookie, inside) in [
            ("a=b; Path=/finance", true),
            ("a=b; path=/finance/x; Secure", true),
            ("a=b; Path=/finance; Path=/", false),
            ("a=b; Path=/", false),
            ("a=b; Path=/financex", false),
            ("a=b", false),
            ("a=b; Path", false),
            ("Path=/finance", false),
            ("a=b; Path=/finance; Domain=example.com", false),
        ] {
            assert_eq!(is_cookie_inside(cookie, &path), inside, "{cookie}");
        }
    }
}
