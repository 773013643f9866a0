//! Who an authentication names.

use crate::incremental::{Context, question};
use crate::question::authentication::{Answer, Members};
use policy_core::IdentityMatch;
use policy_crds::resource::{IdentityRef, MeshTlsAuthentication, NamespacedName};
use policy_crds::{Body, Resource};
use std::sync::Arc;

question!(Members, Answer, members);

fn members(question: &Members, cx: &mut Context<'_>) -> Answer {
    let Some(object) = cx.object(&question.0) else { return Answer::Nobody };
    match &object.body {
        Body::Valid(Resource::MeshTlsAuthentication(authentication)) => {
            Answer::Identities(identities(cx, authentication, &question.0.namespace))
        }
        Body::Valid(Resource::NetworkAuthentication(authentication)) => {
            Answer::Networks(authentication.networks.as_slice().into())
        }
        Body::Valid(_) | Body::Invalid(_) => Answer::Nobody,
    }
}

fn identities(
    cx: &Context<'_>,
    authentication: &MeshTlsAuthentication,
    namespace: &Arc<str>,
) -> Arc<[IdentityMatch]> {
    let by_object = authentication.identity_refs.iter().map(|reference| match reference {
        IdentityRef::ServiceAccount(account) => service_account(cx, account, namespace),
        IdentityRef::Namespace(name) => IdentityMatch::Suffix(cx.config.namespace_suffix(name)),
    });
    authentication.identities.iter().cloned().chain(by_object).collect()
}

/// The identity of a ServiceAccount, which need not exist.
pub(crate) fn service_account(
    cx: &Context<'_>,
    account: &NamespacedName,
    namespace: &Arc<str>,
) -> IdentityMatch {
    IdentityMatch::Exact(service_account_name(cx, account, namespace))
}

/// The name that a ServiceAccount's certificates carry.
pub(crate) fn service_account_name(
    cx: &Context<'_>,
    account: &NamespacedName,
    namespace: &Arc<str>,
) -> Arc<str> {
    let namespace = account.namespace.as_ref().unwrap_or(namespace);
    cx.config.service_account_identity(namespace, &account.name)
}
