//! Questions that only loopback may ask: `/decisions`, `/explain`, `/policy` and `/tap`.
//!
//! An application can be made to send requests to its own loopback, and a page in a browser to
//! whatever a port-forward leads to. Both fail to set a header that is not of the web's, and the page
//! the `Host` of loopback.

use super::Admin;
use super::answer::{AdminBody, json, whole};
use super::inspect;
use super::page::{host, is_loopback};
use super::query::Query;
use crate::tap;
use http::header::ORIGIN;
use http::{HeaderName, Method, Request, Response, StatusCode};
use policy_enforce::record::DecisionMode;
use policy_tls::peer::Peer;
use serde_json::json;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::time::timeout;

/// The header without which the paths are refused; its value is `1`.
const HEADER: HeaderName = HeaderName::from_static("portcullis-admin");

/// Time that a question waits for its turn.
const TURN: Duration = Duration::from_secs(1);

const PATHS: [&str; 4] = ["/decisions", "/explain", "/policy", "/tap"];

impl Admin {
    /// Returns the response to a request for one of the paths; `None`: it is for another path. `open` is
    /// held while a response streams, and else by none.
    pub(super) async fn answer_local<B>(
        &self,
        peer: &Peer,
        request: &Request<B>,
        open: Arc<()>,
    ) -> Option<Response<AdminBody>> {
        let path = PATHS.into_iter().find(|path| *path == request.uri().path())?;
        if let Some(refused) = refusal(peer, request) {
            return Some(whole(json(StatusCode::FORBIDDEN, &json!({ "error": refused }))));
        }
        if *request.method() != Method::GET {
            return Some(whole(super::answer::refuse_method("GET")));
        }
        let query = request.uri().query();
        let answer = if path == "/tap" {
            self.tap(query, open)
        } else {
            drop(open);
            self.inspect(path, query).await.map(whole)
        };
        Some(
            answer
                .unwrap_or_else(|(status, error)| whole(json(status, &json!({ "error": error })))),
        )
    }

    /// Answers one question at a time, and takes as long a pause behind each: the thread has other work,
    /// such as following policy.
    async fn inspect(&self, path: &str, query: Option<&str>) -> inspect::Inspection {
        let Ok(Ok(_turn)) = timeout(TURN, self.shared.questions.acquire()).await else {
            let busy = "too many questions are being answered".to_owned();
            return Err((StatusCode::TOO_MANY_REQUESTS, busy));
        };
        let begun = Instant::now();
        let answer = match path {
            "/decisions" => self.decisions(query),
            "/explain" => self.explain(query),
            _ => self.policy(query),
        };
        tokio::time::sleep(begun.elapsed()).await;
        answer
    }

    fn decisions(&self, query: Option<&str>) -> inspect::Inspection {
        let query = Query::read(query, &["id"]).map_err(inspect::bad)?;
        let decisions = self.recorded().ok_or_else(inspect::not_recorded)?;
        let workload = &self.shared.config.workload;
        inspect::decisions(&self.shared.store, decisions, workload, &query)
    }

    fn explain(&self, query: Option<&str>) -> inspect::Inspection {
        let query = Query::read(query, &inspect::QUESTION).map_err(inspect::bad)?;
        inspect::explain(&self.shared.store, &self.shared.config.workload, &query)
    }

    fn policy(&self, query: Option<&str>) -> inspect::Inspection {
        let query = Query::read(query, &["port"]).map_err(inspect::bad)?;
        inspect::policy(&self.shared.store, &self.shared.config.workload, &query)
    }

    fn tap(
        &self,
        query: Option<&str>,
        open: Arc<()>,
    ) -> Result<Response<AdminBody>, (StatusCode, String)> {
        let off = || {
            let off = "this proxy does not stream decisions (--decisions is not `full`)";
            (StatusCode::NOT_FOUND, off.to_owned())
        };
        let is_full = self.recorded().is_some_and(|own| own.mode() == DecisionMode::Full);
        let tap = self.shared.config.tap.as_ref().filter(|_| is_full).ok_or_else(off)?;
        let query = Query::read(query, &tap::PARAMETERS).map_err(inspect::bad)?;
        let filter = super::tapped::filter(&query).map_err(inspect::bad)?;
        let many = (StatusCode::TOO_MANY_REQUESTS, tap::too_many());
        let taken = tap.subscribe(filter).ok_or(many)?;
        Ok(super::tapped::stream(taken, open))
    }
}

/// The reason why a request may not ask.
fn refusal<B>(peer: &Peer, request: &Request<B>) -> Option<&'static str> {
    let mut lines = request.headers().get_all(HEADER).iter();
    let is_meant = lines.next().is_some_and(|line| line == "1") && lines.next().is_none();
    if !peer.ip().is_loopback() {
        Some("requests are only permitted from localhost")
    } else if !is_meant {
        Some("the header `portcullis-admin: 1` is missing")
    } else if request.headers().contains_key(ORIGIN) || !host(request).is_some_and(is_loopback) {
        Some("requests are only permitted for a host of loopback, and not from pages")
    } else {
        None
    }
}
