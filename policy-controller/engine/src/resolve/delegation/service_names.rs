//! Names of Services, by which clients in the cluster call them.
//!
//! A root must not take the names by which another namespace's Services are called. What ends in
//! `NAMESPACE.svc`, with the domain of the cluster or without, belongs to the namespace, whether there is
//! such a Service or not. `NAME.NAMESPACE` could be a name of the outside, such as `example.dev`: it
//! belongs to the namespace if a Service of that name is there that is no younger than the claim.

use crate::incremental::Context;
use policy_core::HostPattern;
use policy_crds::{Kind, ObjectKey};
use std::sync::Arc;

/// True if a host is a name of a Service of another namespace, or a wildcard that has such names. `claimed`:
/// the time of the claim, if it has one.
pub(super) fn is_of_others(
    cx: &mut Context<'_>,
    host: &HostPattern,
    namespace: &str,
    claimed: Option<i64>,
) -> bool {
    let name = host.name();
    let domain = &cx.config.cluster_domain;
    let of_cluster = format!("svc.{domain}");
    let below = |suffix: &str| name.strip_suffix(suffix).and_then(|rest| rest.strip_suffix('.'));
    let own = |rest: &str| rest.rsplit('.').next().is_some_and(|of| of == namespace);
    let is_wildcard = matches!(host, HostPattern::Suffix(_));
    // `web.svc` may be a Service of a Namespace `svc`.
    let long = below(&of_cluster).or_else(|| below("svc"));
    if let Some(rest) = long.filter(|rest| is_wildcard || rest.contains('.')) {
        return !own(rest);
    }
    if is_wildcard {
        // It has the names of all namespaces, or the short ones of one.
        let wide = name == "svc" || of_cluster == name || of_cluster.ends_with(&format!(".{name}"));
        return wide || (name != namespace && is_namespace(cx, name));
    }
    match name.split_once('.') {
        Some((service, of)) if !of.contains('.') && of != namespace => {
            is_older(cx, service, of, claimed)
        }
        Some(_) | None => false,
    }
}

fn is_namespace(cx: &mut Context<'_>, name: &str) -> bool {
    let (kind, namespace) = (Kind::Namespace, Arc::from(""));
    cx.object(&ObjectKey { kind, namespace, name: name.into() }).is_some()
}

/// True if a Service exists that is no younger than a claim.
fn is_older(cx: &mut Context<'_>, name: &str, namespace: &str, claimed: Option<i64>) -> bool {
    let kind = Kind::Service;
    let key = ObjectKey { kind, namespace: namespace.into(), name: name.into() };
    cx.object(&key).is_some_and(|service| match (service.meta.created, claimed) {
        (Some(created), Some(claimed)) => created <= claimed,
        (None, _) | (_, None) => true,
    })
}
