//! Reviews tokens and access through the API server. Requires the rights to create
//! `tokenreviews.authentication.k8s.io` and `subjectaccessreviews.authorization.k8s.io`.

use futures_util::future::BoxFuture;
use k8s_openapi::api::authentication::v1::{
    TokenReview, TokenReviewSpec, TokenReviewStatus, UserInfo,
};
use k8s_openapi::api::authorization::v1::{
    ResourceAttributes, SubjectAccessReview, SubjectAccessReviewSpec,
};
use kube::api::{Api, PostParams};
use policy_server::ClientNetwork;
use policy_server::review::{Authenticated, ReviewError, Reviewer, Subject, jwt};
use std::sync::Arc;
use std::time::SystemTime;

/// The group of the virtual resource that viewers need a right on.
pub const GROUP: &str = "portcullis.dev";

/// The virtual resource that viewers need a right on.
pub const RESOURCE: &str = "policies";

/// The right that viewers need.
pub const VERB: &str = "get";

/// Reviews tokens and rights through the API server.
#[derive(Clone)]
pub struct ClusterReviewer {
    client: kube::Client,
    audience: String,
}

impl std::fmt::Debug for ClusterReviewer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("ClusterReviewer").field("audience", &self.audience).finish_non_exhaustive()
    }
}

impl ClusterReviewer {
    /// Reviews tokens for `audience` through `client`.
    pub fn new(client: kube::Client, audience: &str) -> Self {
        Self { client, audience: audience.to_owned() }
    }

    async fn review(&self, token: &str) -> Result<Authenticated, ReviewError> {
        // A token that no review would accept is not sent.
        let expires = jwt::parse(token)?.claims.check(&self.audience, SystemTime::now())?;
        let review = TokenReview {
            spec: TokenReviewSpec {
                audiences: Some(vec![self.audience.clone()]),
                token: Some(token.to_owned()),
            },
            ..TokenReview::default()
        };
        let api: Api<TokenReview> = Api::all(self.client.clone());
        let reviewed = api.create(&PostParams::default(), &review).await;
        let status = reviewed.map_err(|error| unavailable("TokenReview", &error))?.status;
        let subject = authenticated(status.unwrap_or_default(), &self.audience)?;
        Ok(Authenticated { subject: Arc::new(subject), expires })
    }

    async fn access(
        &self,
        subject: &Subject,
        namespace: Option<&str>,
    ) -> Result<bool, ReviewError> {
        let attributes = ResourceAttributes {
            group: Some(GROUP.to_owned()),
            resource: Some(RESOURCE.to_owned()),
            verb: Some(VERB.to_owned()),
            // `None` means all namespaces.
            namespace: namespace.map(ToOwned::to_owned),
            ..ResourceAttributes::default()
        };
        let some = |text: &String| (!text.is_empty()).then(|| text.clone());
        let review = SubjectAccessReview {
            spec: SubjectAccessReviewSpec {
                resource_attributes: Some(attributes),
                user: some(&subject.user),
                uid: some(&subject.uid),
                groups: Some(subject.groups.clone()),
                extra: Some(subject.extra.clone()),
                ..SubjectAccessReviewSpec::default()
            },
            ..SubjectAccessReview::default()
        };
        let api: Api<SubjectAccessReview> = Api::all(self.client.clone());
        let reviewed = api.create(&PostParams::default(), &review).await;
        let status = reviewed.map_err(|error| unavailable("SubjectAccessReview", &error))?.status;
        // An authorizer without an opinion has not allowed it.
        Ok(status.is_some_and(|status| status.allowed && status.denied != Some(true)))
    }
}

impl Reviewer for ClusterReviewer {
    fn authenticate<'a>(
        &'a self,
        token: &'a str,
        _: ClientNetwork,
    ) -> BoxFuture<'a, Result<Authenticated, ReviewError>> {
        Box::pin(self.review(token))
    }

    fn may_view<'a>(
        &'a self,
        subject: &'a Arc<Subject>,
        namespace: Option<&'a str>,
        _: ClientNetwork,
    ) -> BoxFuture<'a, Result<bool, ReviewError>> {
        Box::pin(self.access(subject, namespace))
    }
}

/// The user of a token review. An API server whose authenticator does not support audiences returns
/// none: such a token may have been issued for another audience.
fn authenticated(status: TokenReviewStatus, audience: &str) -> Result<Subject, ReviewError> {
    if status.authenticated != Some(true) {
        let why =
            status.error.unwrap_or_else(|| "the API server did not authenticate it".to_owned());
        return Err(ReviewError::Refused(why));
    }
    if !status.audiences.unwrap_or_default().iter().any(|one| one == audience) {
        return Err(ReviewError::Refused(format!("its audience is not `{audience}`")));
    }
    let UserInfo { username, uid, groups, extra } = status.user.unwrap_or_default();
    let user = username
        .filter(|name| !name.is_empty())
        .ok_or_else(|| ReviewError::Refused("the API server returned no username".to_owned()))?;
    Ok(Subject {
        user,
        uid: uid.unwrap_or_default(),
        groups: groups.unwrap_or_default(),
        extra: extra.unwrap_or_default(),
    })
}

/// Returns an error for the holder of the token: it names the failed review, and no detail of the API
/// server.
fn unavailable(what: &str, error: &kube::Error) -> ReviewError {
    tracing::warn!(%error, "{what} failed");
    let forbidden = matches!(error, kube::Error::Api(status) if status.code == 403);
    ReviewError::Unavailable(match forbidden {
        true => format!("the controller may not create a {what}"),
        false => format!("{what} failed"),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status() -> TokenReviewStatus {
        let user = UserInfo { username: Some("u".to_owned()), ..UserInfo::default() };
        TokenReviewStatus {
            authenticated: Some(true),
            audiences: Some(vec!["ours".to_owned()]),
            user: Some(user),
            error: None,
        }
    }

    #[test]
    fn a_review_without_our_audience_accepts_nobody() {
        let subject = Subject { user: "u".to_owned(), ..Subject::default() };
        assert_eq!(authenticated(status(), "ours"), Ok(subject));
        for audiences in [None, Some(vec![]), Some(vec!["other".to_owned()])] {
            let other = TokenReviewStatus { audiences, ..status() };
            let refused = ReviewError::Refused("its audience is not `ours`".to_owned());
            assert_eq!(authenticated(other, "ours"), Err(refused));
        }
        let nobody = TokenReviewStatus { user: None, ..status() };
        assert!(authenticated(nobody, "ours").is_err());
        for authenticated_as in [None, Some(false)] {
            let not = TokenReviewStatus { authenticated: authenticated_as, ..status() };
            assert!(authenticated(not, "ours").is_err());
        }
    }
}
