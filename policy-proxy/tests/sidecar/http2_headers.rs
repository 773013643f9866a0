//! Headers of HTTP/2 that policy changes.

use crate::support::*;
use bytes::Bytes;
use http::{HeaderName, HeaderValue, Request};
use http_body_util::Full;
use policy_core::filter::HeaderChange;
use policy_core::{Filter, FilterKind, Source};

fn change(name: &'static str, value: &'static str) -> HeaderChange {
    let (name, value) = (HeaderName::from_static(name), HeaderValue::from_static(value));
    HeaderChange { set: vec![(name, value)], ..HeaderChange::default() }
}

#[tokio::test]
async fn what_policy_says_of_a_connection_is_left_out_of_http2() {
    let app = App::start().await;
    for (name, value) in [
        ("connection", "close"),
        ("keep-alive", "timeout=5"),
        ("proxy-connection", "close"),
        ("transfer-encoding", "chunked"),
        ("upgrade", "other"),
        ("te", "gzip"),
    ] {
        let changed = [
            FilterKind::ResponseHeaders(change(name, value)),
            FilterKind::RequestHeaders(change(name, value)),
        ];
        for kind in changed {
            let mut policy = server(detect(), everybody());
            let own = FilterKind::ResponseHeaders(change("x-own", "kept"));
            policy.effects = [kind, own]
                .map(|kind| Filter { source: Source::Default("filter".into()), kind })
                .into();
            let setup = Setup::new(policy, app.address).await;
            let mut sender = crate::http2::client(&setup).await;
            let request =
                Request::get("http://web.example/").body(Full::<Bytes>::default()).unwrap();
            let answer = sender.send_request(request).await.unwrap();
            let headers = answer.headers();
            let seen = (answer.status().as_u16(), headers.contains_key(name), &headers["x-own"]);
            assert_eq!(seen, (200, false, &HeaderValue::from_static("kept")), "{name}");
        }
    }
}
