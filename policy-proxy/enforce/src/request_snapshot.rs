//! Snapshot of an open request, for deciding on it again when the policy changes.

use crate::store::Live;
use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};
use policy_core::evaluator::{Evaluator, Memo};
use policy_core::host::canonical_host;
use policy_core::target::canonical_path;
use policy_core::{Decision, Denied, PathHandling, Permit, RequestView, TargetFault};
use policy_tls::peer::Peer;
use std::borrow::Cow;
use std::sync::Arc;

/// The fault of a path that was received with a character which is to be percent-encoded: a mark in the
/// extensions of a head, in whose URI it is. A port with raw paths takes such a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnencodedPath(pub TargetFault);

/// Method, target and the headers that the policy matches on, as they were authorized. Cheap to
/// create: text is shared with the request, and nothing is copied for policies that match on no
/// header.
#[derive(Clone, Debug)]
pub struct RequestSnapshot {
    method: Method,
    /// The canonical target.
    uri: Uri,
    /// Present if a port with raw paths took a target that no other port takes.
    unencoded: Option<UnencodedPath>,
    /// The version of the client's side.
    version: Version,
    /// The canonical `Host` of HTTP/1.
    host: Option<HeaderValue>,
    headers: HeaderMap,
    /// Names of the captured headers: [`Evaluator::matched_headers_shared`] of the policy that
    /// permitted the request. The policy itself is not kept, because it would live as long as the request.
    header_names: Arc<[HeaderName]>,
}

impl RequestSnapshot {
    /// Returns the method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// Returns the version of the client's side.
    pub fn version(&self) -> Version {
        self.version
    }

    /// Returns the canonical `Host` of HTTP/1.
    pub fn host(&self) -> Option<&HeaderValue> {
        self.host.as_ref()
    }

    /// Takes the snapshot of a canonical head.
    pub fn of(head: &Parts, evaluator: &Arc<Evaluator>) -> Self {
        let mut headers = HeaderMap::new();
        let header_names = Arc::clone(evaluator.matched_headers_shared());
        for name in &*header_names {
            for value in head.headers.get_all(name) {
                headers.append(name.clone(), value.clone());
            }
        }
        let old = head.version < Version::HTTP_2;
        Self {
            method: head.method.clone(),
            uri: head.uri.clone(),
            unencoded: head.extensions.get().copied(),
            version: head.version,
            host: if old { head.headers.get(HOST).cloned() } else { None },
            headers,
            header_names,
        }
    }

    /// Returns the canonical authority, for records.
    pub fn authority(&self) -> Option<&str> {
        match &self.host {
            Some(host) => host.to_str().ok(),
            None => self.uri.authority().map(http::uri::Authority::as_str),
        }
    }

    /// Removes from trailers the fields that the policy matched on in the head, even if they were
    /// absent there.
    pub fn remove_matched(&self, trailers: &mut HeaderMap) {
        for name in &*self.header_names {
            trailers.remove(name);
        }
    }

    /// Returns the authorized path and query.
    pub fn target(&self) -> &str {
        self.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str)
    }

    /// Returns the request as it was authorized, by this canonical host.
    pub(crate) fn request<'a>(&'a self, host: Option<&'a str>) -> RequestView<'a> {
        RequestView {
            method: &self.method,
            host,
            path: self.uri.path(),
            query: self.uri.query(),
            headers: &self.headers,
        }
    }

    /// Decides again. `Err`: permission is revoked for this reason. Permission is also revoked if
    /// the policy matches on a header that was not captured.
    pub fn review(&self, live: &Live, peer: &Peer) -> Result<Permit, Denied> {
        let policy = live.in_force()?;
        if !policy.evaluator.matched_headers().iter().all(|name| self.header_names.contains(name)) {
            return Err(Denied::Revoked);
        }
        let handling = policy.evaluator.policy().paths;
        check_encoding(self.unencoded, handling).map_err(Denied::Target)?;
        let path = match handling {
            PathHandling::Raw => Cow::Borrowed(self.uri.path()),
            // It may have been authorized while the port took raw paths.
            PathHandling::Canonical => canonical_path(self.uri.path()).map_err(Denied::Target)?,
        };
        let host = match self.authority().map(canonical_host) {
            Some(Ok(host)) => Some(host.name),
            Some(Err(fault)) => return Err(Denied::Target(fault)),
            None => None,
        };
        let view = RequestView { path: &path, ..self.request(host.as_deref()) };
        let connection = peer.connection(&policy.facts);
        match policy.evaluator.decide_request(&connection, &mut Memo::new(), &view) {
            Decision::Permit(permit) => Ok(permit),
            Decision::Deny(denial) => Err(denial.reason),
        }
    }
}

/// Refuses a path that was received with a character which is to be percent-encoded, save on a port with
/// raw paths.
pub(crate) fn check_encoding(
    unencoded: Option<UnencodedPath>,
    handling: PathHandling,
) -> Result<(), TargetFault> {
    match (unencoded, handling) {
        (Some(UnencodedPath(fault)), PathHandling::Canonical) => Err(fault),
        (Some(_), PathHandling::Raw) | (None, _) => Ok(()),
    }
}
