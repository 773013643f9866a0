//! What an open request keeps, so that it can be decided on again when the policy changes.

use crate::store::Live;
use http::header::HOST;
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Uri, Version};
use policy_core::evaluator::{Evaluator, Memo};
use policy_core::host::canonical_host;
use policy_core::target::canonical_path;
use policy_core::{Decision, Denied, PathHandling, Permit, RequestView};
use policy_tls::peer::Peer;
use std::borrow::Cow;
use std::sync::Arc;

/// Method, target and the headers that the policy's matches look at, as they were judged. Cheap to
/// make: text is shared with the request, and nothing is copied for policies that look at no header.
#[derive(Clone, Debug)]
pub struct Kept {
    method: Method,
    /// The canonical target.
    uri: Uri,
    /// Of the client's side.
    version: Version,
    /// HTTP/1: the canonical `Host`.
    host: Option<HeaderValue>,
    headers: HeaderMap,
    /// Which headers are kept: [`Evaluator::looks_at`] of the policy that let the request in. Not the
    /// policy itself, which would live as long as the request.
    looked: Arc<[HeaderName]>,
}

impl Kept {
    /// The method.
    pub fn method(&self) -> &Method {
        &self.method
    }

    /// The version that the client's side speaks.
    pub fn version(&self) -> Version {
        self.version
    }

    /// HTTP/1: the canonical `Host`.
    pub fn host(&self) -> Option<&HeaderValue> {
        self.host.as_ref()
    }

    /// Keeps what matters of a head that is canonical.
    pub fn of(head: &Parts, evaluator: &Arc<Evaluator>) -> Self {
        let mut headers = HeaderMap::new();
        let looked = Arc::clone(evaluator.matched_headers_shared());
        for name in &*looked {
            for value in head.headers.get_all(name) {
                headers.append(name.clone(), value.clone());
            }
        }
        let old = head.version < Version::HTTP_2;
        Self {
            method: head.method.clone(),
            uri: head.uri.clone(),
            version: head.version,
            host: if old { head.headers.get(HOST).cloned() } else { None },
            headers,
            looked,
        }
    }

    /// The canonical authority, for records.
    pub fn authority(&self) -> Option<&str> {
        match &self.host {
            Some(host) => host.to_str().ok(),
            None => self.uri.authority().map(http::uri::Authority::as_str),
        }
    }

    /// Takes out of trailers what the policy judged, or found absent, in the head.
    pub fn take_judged(&self, trailers: &mut HeaderMap) {
        for name in &*self.looked {
            trailers.remove(name);
        }
    }

    /// The path and query that were judged.
    pub fn target(&self) -> &str {
        self.uri.path_and_query().map_or("", http::uri::PathAndQuery::as_str)
    }

    /// Decides again. `Err`: permission is lost, for this reason. A policy that looks at a header
    /// that was not kept cannot be answered, so permission is lost.
    pub fn review(&self, live: &Live, peer: &Peer) -> Result<Permit, Denied> {
        let policy = live.in_force()?;
        if !policy.evaluator.matched_headers().iter().all(|name| self.looked.contains(name)) {
            return Err(Denied::Revoked);
        }
        let path = match policy.evaluator.policy().paths {
            PathHandling::Raw => Cow::Borrowed(self.uri.path()),
            // It may have been judged while the port took paths as they came.
            PathHandling::Canonical => canonical_path(self.uri.path()).map_err(Denied::Target)?,
        };
        let host = match self.authority().map(canonical_host) {
            Some(Ok(host)) => Some(host.name),
            Some(Err(fault)) => return Err(Denied::Target(fault)),
            None => None,
        };
        let view = RequestView {
            method: &self.method,
            host: host.as_deref(),
            path: &path,
            query: self.uri.query(),
            headers: &self.headers,
        };
        let connection = peer.connection(&policy.facts);
        match policy.evaluator.decide_request(&connection, &mut Memo::new(), &view) {
            Decision::Permit(permit) => Ok(permit),
            Decision::Deny(denial) => Err(denial.reason),
        }
    }
}
