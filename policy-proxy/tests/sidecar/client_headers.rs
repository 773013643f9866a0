//! Headers that inform the application of its clients, and forged ones from clients.

use crate::direct::Mesh;
use crate::support::*;
use crate::tls::{Mesh as _, connect};
use policy_core::{InformationalHeaders, ServerPolicy};
use policy_proto::transport::Session;

/// All headers that a client might send in the proxy's place.
const FORGED: [(&str, &str); 10] = [
    ("l5d-client-id", "forged"),
    ("L5D-CLIENT-ID", "forged"),
    ("l5d_client_id", "forged"),
    ("l5d-connection-secure", "forged"),
    ("l5d-connection-secure", "forged"),
    ("L5d-Connection_Secure", "forged"),
    ("connection", "l5d-client-id, l5d-connection-secure, forwarded, close"),
    ("l5d-orig-proto", "forged"),
    ("l5d-proxy-error", "forged"),
    ("l5d-proxy-connection", "forged"),
];

fn policy(headers: InformationalHeaders) -> ServerPolicy {
    let mut policy = server(detect(), everybody());
    policy.informational_headers = headers;
    policy
}

/// Header lines that the application received, without the request line and `host`.
fn lines(body: &str) -> Vec<&str> {
    body.lines().skip(1).filter(|line| !line.starts_with("host: ")).collect()
}

#[tokio::test]
async fn an_application_is_told_who_asks_and_how_on_every_path() {
    let mesh = Mesh::new(policy(InformationalHeaders::Enabled)).await;
    let forwarded = format!("forwarded: for=127.0.0.1;by=\"{}\"", mesh.app.address);
    let id = format!("l5d-client-id: {}", name("bot"));

    let mut plain = Client::new(mesh.setup.connect().await).await;
    let got = plain.ask("/", &FORGED).await;
    assert_eq!(lines(&got.body), [forwarded.as_str(), "l5d-connection-secure: false"]);

    let connector = mesh.authority.client(mesh.leaf("bot"));
    let redirected = connect(&mesh.setup, &connector).await.unwrap();
    let mut redirected = Client::new(redirected).await;
    let got = redirected.ask("/", &FORGED).await;
    assert_eq!(lines(&got.body), [&forwarded, &id, "l5d-connection-secure: true"]);

    let mut direct = Client::new(mesh.open("bot", PORT, Some(Session::Http1)).await).await;
    let got = direct.ask("/", &FORGED).await;
    assert_eq!(lines(&got.body), [&forwarded, &id, "l5d-connection-secure: true"]);

    let anonymous = connect(&mesh.setup, &mesh.authority.anonymous()).await.unwrap();
    let got = Client::new(anonymous).await.ask("/", &FORGED).await;
    assert_eq!(lines(&got.body), [forwarded.as_str(), "l5d-connection-secure: true"]);
}

#[tokio::test]
async fn what_other_hops_forwarded_stays_in_front() {
    let mesh = Mesh::new(policy(InformationalHeaders::Enabled)).await;
    let mut client = Client::new(mesh.setup.connect().await).await;
    let before = "for=192.0.2.60;proto=http, for=\"[2001:db8::1]\"";
    let got = client.ask("/", &[("forwarded", before), ("x-forwarded-for", "192.0.2.60")]).await;
    let own = format!("forwarded: for=127.0.0.1;by=\"{}\"", mesh.app.address);
    // The application sorts its lines.
    let theirs = format!("forwarded: {before}");
    assert_eq!(
        lines(&got.body),
        [own.as_str(), &theirs, "l5d-connection-secure: false", "x-forwarded-for: 192.0.2.60"]
    );
}

#[tokio::test]
async fn a_line_that_would_take_in_what_the_proxy_appends_is_left_out() {
    let mesh = Mesh::new(policy(InformationalHeaders::Enabled)).await;
    let own = format!("forwarded: for=127.0.0.1;by=\"{}\"", mesh.app.address);
    let mut http1 = Client::new(mesh.setup.connect().await).await;
    let mut http2 = crate::http2::client(&mesh.setup).await;
    for open in ["for=\"", "for=\"a", "for=\"a\\\"", "for=192.0.2.1, for=\"[::1", "\""] {
        let said = [("forwarded", open), ("forwarded", "for=192.0.2.60")];
        let one = http1.ask("/", &said).await.body;
        let mut request = http::Request::get("http://web.example/");
        for (name, value) in said {
            request = request.header(name, value);
        }
        let request = request.body(http_body_util::Full::<bytes::Bytes>::default()).unwrap();
        let two = got(http2.send_request(request).await.unwrap()).await.body;
        for body in [one, two] {
            let told: Vec<_> = body.lines().filter(|line| line.starts_with("forwarded")).collect();
            assert_eq!(told, [own.as_str(), "forwarded: for=192.0.2.60"], "{open}");
        }
    }
}

#[tokio::test]
async fn switched_off_nothing_is_told_and_forged_headers_are_taken_out_all_the_same() {
    let mesh = Mesh::new(policy(InformationalHeaders::Disabled)).await;
    let mut plain = Client::new(mesh.setup.connect().await).await;
    assert_eq!(lines(&plain.ask("/", &FORGED).await.body), Vec::<&str>::new());
    let mut direct = Client::new(mesh.open("bot", PORT, None).await).await;
    assert_eq!(lines(&direct.ask("/", &FORGED[..6]).await.body), Vec::<&str>::new());
    // Enabled again, the next request on the same connection has them.
    mesh.setup.apply(policy(InformationalHeaders::Enabled)).await;
    let got = direct.ask("/", &[]).await;
    assert!(got.body.contains("l5d-connection-secure: true\n"), "{}", got.body);
}

#[tokio::test]
async fn trailers_cannot_say_what_the_head_must_not() {
    let mesh = Mesh::new(policy(InformationalHeaders::Enabled)).await;
    let chunked = "POST /trailers HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: chunked\r\n\
                   Trailer: l5d-connection-secure, x-kept\r\nConnection: close\r\n\r\n\
                   0\r\nl5d-connection-secure: forged\r\nl5d_client_id: forged\r\n\
                   forwarded: forged\r\nx-kept: yes\r\n\r\n";
    let got = raw(mesh.setup.address, chunked.as_bytes(), false).await;
    assert!(got.contains("x-kept") && !got.contains("forged"), "{got}");
}
