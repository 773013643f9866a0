//! The sidecar's answers about itself, to loopback that asks for them.

use crate::decisions::{UID, id};
use crate::support::*;
use crate::tls::Mesh;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, Full};
use policy_core::{Revision, ServerPolicy, UndeclaredPorts};
use policy_enforce::record::{DecisionMode, Decisions, Notices};
use policy_enforce::store::StoreConfig;
use policy_enforce::{PolicyStore, Telemetry};
use policy_proxy::admin::{Admin, AdminConfig, explainer};
use policy_proxy::sidecar::{Listener, Target};
use policy_proxy::tap::Tap;
use policy_proxy::{Sidecar, SidecarConfig};
use policy_testkit::{Authority, dns as san, wait_for};
use policy_tls::identity::IdentityHandle;
use serde_json::{Value, json};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::{Duration, SystemTime};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::sync::CancellationToken;

/// A sidecar with its admin port.
struct Inspected {
    address: SocketAddr,
    admin: SocketAddr,
    store: PolicyStore,
    decisions: Arc<Decisions>,
    authority: Authority,
    _sidecar: Sidecar,
}

impl Inspected {
    async fn new(policy: ServerPolicy) -> Self {
        let (authority, app) = (Authority::new(), App::start().await);
        let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1))).unwrap();
        store.declare(&BTreeSet::from([PORT]), UndeclaredPorts::Default);
        let decisions = Arc::new(Decisions::new(DecisionMode::Full, UID, SystemTime::now()));
        let notices = Notices::new("ns/web-0", Notices::INTERVAL);
        let notices = Arc::new(notices.with_decisions(Arc::clone(&decisions)));
        let tap = Arc::new(Tap::default());
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let admin = AdminConfig {
            workload: "ns/web-0".into(),
            notices: Some(Arc::clone(&notices)),
            tap: Some(Arc::clone(&tap)),
            ..AdminConfig::new(listener.local_addr().unwrap())
        };
        let identity = IdentityHandle::new(authority.workload());
        let drain = CancellationToken::new();
        let served = Admin::new(admin, store.clone(), identity.clone(), None, drain);
        let admin = listener.local_addr().unwrap();
        tokio::spawn(served.serve(listener));
        let mut config = SidecarConfig::new("ns/web-0");
        config.notices = notices;
        config.listeners = vec![Listener {
            address: "127.0.0.1:0".parse().unwrap(),
            target: Target::Fixed { port: PORT, upstream: app.address },
        }];
        let sidecar = Sidecar::start(config, store.clone(), identity, Some(tap)).unwrap();
        let address = sidecar.addresses()[0];
        let own = Self { address, admin, store, decisions, authority, _sidecar: sidecar };
        own.apply(policy, 1).await;
        own
    }

    async fn apply(&self, policy: ServerPolicy, content: u64) {
        let revision = Revision { content, ..Revision::default() };
        let generation = self.store.apply(PORT, Arc::new(policy), revision).unwrap();
        self.store.workers().wait_reached(generation).await;
    }

    /// A client of the workload with an identity.
    async fn meshed(&self) -> Client {
        let connector = self.authority.client(self.authority.leaf(&[san(&name("bot"))]));
        let server = rustls::pki_types::ServerName::try_from(name("web")).unwrap();
        let stream = TcpStream::connect(self.address).await.unwrap();
        Client::new(connector.connect(server, stream).await.unwrap()).await
    }

    /// The answer of the admin port to loopback that means it.
    async fn ask(&self, target: &str) -> (StatusCode, Value) {
        let mut client = Client::new(TcpStream::connect(self.admin).await.unwrap()).await;
        let got = client.ask(target, &[MEANT, ("host", "localhost:4191")]).await;
        (got.status, serde_json::from_str(&got.body).unwrap())
    }

    async fn status(&self, method: Method, headers: &[(&str, &str)]) -> StatusCode {
        let mut client = Client::new(TcpStream::connect(self.admin).await.unwrap()).await;
        let mut request = request("/decisions", headers);
        *request.method_mut() = method;
        client.send(request).await.status()
    }
}

const MEANT: (&str, &str) = ("portcullis-admin", "1");

fn closed() -> ServerPolicy {
    let open = route(prefix("/open"), everybody());
    let own = route(prefix("/closed"), identities(&[&name("other")]));
    with_routes(server(detect(), nobody()), vec![open, own])
}

#[tokio::test]
async fn the_paths_answer_loopback_that_means_it_and_nobody_else() {
    let sidecar = Inspected::new(closed()).await;
    let host = ("host", "127.0.0.1:4191");
    assert_eq!(sidecar.status(Method::GET, &[host, MEANT]).await, StatusCode::OK);
    for refused in [
        vec![host],
        vec![host, ("portcullis-admin", "0")],
        vec![host, MEANT, MEANT],
        vec![MEANT, ("host", "page.example")],
        vec![MEANT, ("host", "10.1.2.3:4191")],
        vec![host, MEANT, ("origin", "http://localhost:4191")],
    ] {
        assert_eq!(
            sidecar.status(Method::GET, &refused).await,
            StatusCode::FORBIDDEN,
            "{refused:?}"
        );
    }
    let status = sidecar.status(Method::POST, &[host, MEANT]).await;
    assert_eq!(status, StatusCode::METHOD_NOT_ALLOWED);
}

#[tokio::test]
async fn a_refusal_is_found_by_its_id_and_explained_by_the_policy_that_is_named() {
    let sidecar = Inspected::new(closed()).await;
    let refused = sidecar.meshed().await.get("/closed/a?token=secret").await;
    let id = id(&refused.headers).unwrap();
    let (status, answer) = sidecar.ask(&format!("/decisions?id={id}")).await;
    assert_eq!((status, &answer["workload"]), (StatusCode::OK, &json!("ns/web-0")));
    let group = &answer["groups"][0];
    assert_eq!(group["subject"], json!({ "identity": name("bot") }));
    let told = ["side", "port", "decision", "reason", "on", "revision", "current", "count"];
    let told: Vec<_> = told.iter().map(|field| group[field].clone()).collect();
    let revision = "0000000000000001";
    let expected = json!(["inbound", 8080, "deny", "unauthorized", "request", revision, true, 1]);
    assert_eq!(json!(told), expected);
    assert_eq!(group["samples"][0]["path"], "/closed/a");
    let explained = &group["explanation"];
    assert_eq!((&explained["revision"], &explained["asDecided"]), (&json!(revision), &json!(true)));
    assert_eq!(explained["explanation"]["reason"], "unauthorized");
    assert_eq!(explained["explanation"]["considered"][0]["holds"], false);
    assert!(!answer.to_string().contains("secret"), "{answer}");
    sidecar.apply(server(detect(), everybody()), 2).await;
    let (_, later) = sidecar.ask(&format!("/decisions?id={id}")).await;
    let group = &later["groups"][0];
    assert_eq!(group["current"], false);
    let explained = &group["explanation"];
    assert_eq!(explained["asDecided"], false);
    assert_eq!(explained["revision"], "0000000000000002");
    assert_eq!(explained["explanation"]["decision"], "allow");
    let (status, gone) = sidecar.ask("/decisions?id=0000000000").await;
    assert_eq!(status, StatusCode::NOT_FOUND);
    assert!(gone["error"].as_str().unwrap().contains("id of another pod"), "{gone}");
    for query in ["id=x", "name=x", "id=0000000000&id=0000000000"] {
        let (status, _) = sidecar.ask(&format!("/decisions?{query}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}");
    }
}

#[tokio::test]
async fn new_groups_are_explained_without_being_asked_about() {
    let sidecar = Inspected::new(closed()).await;
    tokio::spawn(explainer::run(sidecar.store.clone(), Arc::clone(&sidecar.decisions)));
    sidecar.meshed().await.get("/closed/a").await;
    let explained = wait_for("an explanation", async || {
        let (_, answer) = sidecar.ask("/decisions").await;
        let own = answer["groups"][0]["explanation"].clone();
        own.is_object().then_some(own)
    })
    .await;
    assert_eq!(explained["asDecided"], true);
}

#[tokio::test]
async fn what_would_be_decided_is_explained_by_the_policy_in_force() {
    let sidecar = Inspected::new(closed()).await;
    let decided = async |query: &str| {
        let (status, answer) = sidecar.ask(&format!("/explain?port=8080&{query}")).await;
        assert_eq!(status, StatusCode::OK, "{query}: {answer}");
        assert_eq!(answer["revision"]["content"], "0000000000000001");
        let route = answer["explanation"]["route"]["origin"].is_string();
        json!([answer["decision"], answer["reason"], route])
    };
    let bot = format!("identity={}", name("bot"));
    let other = format!("identity={}", name("other"));
    let request = "method=GET&path=%2Fclosed%2Fa&host=web.example&header=x-a:%201";
    let cases = [
        (format!("{bot}&{request}"), json!(["deny", "unauthorized", true])),
        (format!("{other}&{request}"), json!(["allow", null, true])),
        ("client=10.1.2.3&path=/open".to_owned(), json!(["allow", null, true])),
        ("client=10.1.2.3&path=/elsewhere".to_owned(), json!(["deny", "no_route", false])),
        ("path=/open/../closed".to_owned(), json!(["deny", "target_dot_segment", false])),
        // The port has routes, and bytes are no request.
        ("client=10.1.2.3&tls=none".to_owned(), json!(["deny", "protocol_mismatch", false])),
    ];
    for (query, expected) in cases {
        assert_eq!(decided(&query).await, expected, "{query}");
    }
    let invalid = [
        "port=0",
        "port=8080&tls=some",
        "port=8080&tls=none&identity=a",
        "port=8080&client=web",
        "port=8080&path=%00",
        "port=8080&path=/&header=x",
        "",
        "port=8080&prot=1",
    ];
    for query in invalid {
        let (status, answer) = sidecar.ask(&format!("/explain?{query}")).await;
        assert_eq!(status, StatusCode::BAD_REQUEST, "{query}: {answer}");
    }
}

#[tokio::test]
async fn the_policy_in_force_is_told_with_its_revision_and_age() {
    let sidecar = Inspected::new(closed()).await;
    let (status, answer) = sidecar.ask("/policy?port=8080").await;
    assert_eq!((status, &answer["state"]), (StatusCode::OK, &json!("current")));
    assert_eq!(answer["staleSeconds"], 0);
    let route = &answer["policy"]["routes"][1];
    assert_eq!(route["rules"][0]["matches"], json!(["* /closed/…"]));
    let required = format!("identity {}", name("other"));
    assert_eq!(route["authorizations"][0]["requires"], json!([required]));
    let (status, answer) = sidecar.ask("/policy?port=9999").await;
    assert_eq!(status, StatusCode::NOT_FOUND, "{answer}");
    // Asking is no use of a port.
    assert!(!sidecar.store.ports().contains_key(&9999.try_into().unwrap()));
}

/// The lines of a stream, until one is `last`.
async fn lines(
    response: http::Response<hyper::body::Incoming>,
    last: impl Fn(&Value) -> bool,
) -> Vec<Value> {
    assert_eq!(response.status(), StatusCode::OK);
    let (mut body, mut text, mut lines) = (response.into_body(), String::new(), Vec::new());
    loop {
        let frame = body.frame().await.unwrap().unwrap().into_data().unwrap();
        text.push_str(std::str::from_utf8(&frame).unwrap());
        while let Some((line, rest)) = text.split_once('\n') {
            lines.push(serde_json::from_str(line).unwrap());
            text = rest.to_owned();
            if last(&lines[lines.len() - 1]) {
                return lines;
            }
        }
    }
}

#[tokio::test]
async fn a_stream_has_what_passes_its_filter_and_counts_what_it_left_out() {
    let sidecar = Inspected::new(closed()).await;
    let open = async |query: &str| {
        let mut client = Client::new(TcpStream::connect(sidecar.admin).await.unwrap()).await;
        let target = format!("/tap?{query}");
        let asked: Request<Full<bytes::Bytes>> = request(&target, &[MEANT, ("host", "localhost")]);
        let response = client.send(asked).await;
        (client, response)
    };
    let (_one, denied) = open("decision=deny&rate=10&reason=unauthorized").await;
    let (_two, allowed) = open("decision=allow&route=%2Fnone&route=HTTPRoute").await;
    let mut client = sidecar.meshed().await;
    for _ in 0..50 {
        client.get("/closed/a?token=secret").await;
        client.get("/open").await;
    }
    let lines = lines(denied, |line| line["leftOut"].is_object()).await;
    assert_eq!(lines[0]["begun"]["rate"], 10);
    let told: Vec<_> = lines.iter().filter(|line| line["decision"] == "deny").collect();
    let left_out = lines[lines.len() - 1]["leftOut"]["decisions"].as_u64().unwrap();
    assert!(told.len() >= 10 && told.len() as u64 + left_out <= 50, "{} {left_out}", told.len());
    let expected = json!({
        "address": told[0]["client"]["address"], "identity": name("bot"), "tls": "mesh",
    });
    assert_eq!(told[0]["client"], expected);
    assert_eq!(told[0]["request"]["path"], "/closed/a");
    assert!(told[0]["id"].is_string());
    drop(allowed);
    let many: Vec<_> = futures_util::future::join_all((0..5).map(|_| open("port=8080"))).await;
    let refused = many.iter().filter(|(_, response)| response.status() != StatusCode::OK);
    assert!(refused.clone().count() >= 1);
    for (_, response) in refused {
        assert_eq!(response.status(), StatusCode::TOO_MANY_REQUESTS);
    }
}

/// Bound: four streams, and what waits for them; nobody else waits for a stream that is not read.
#[tokio::test]
async fn streams_that_nobody_reads_keep_neither_requests_nor_the_admin_port_waiting() {
    let sidecar = Inspected::new(closed()).await;
    let mut unread = Vec::new();
    let mut refused = 0;
    for _ in 0..8 {
        let mut client = Client::new(TcpStream::connect(sidecar.admin).await.unwrap()).await;
        let headers = [MEANT, ("host", "localhost")];
        let asked: Request<Full<bytes::Bytes>> = request("/tap?rate=1000", &headers);
        let response = client.send(asked).await;
        refused += u32::from(response.status() == StatusCode::TOO_MANY_REQUESTS);
        unread.push((client, response));
    }
    assert_eq!(refused, 4);
    let served = async {
        let mut client = sidecar.meshed().await;
        for _ in 0..1000 {
            assert_eq!(client.get("/open").await.status, StatusCode::OK);
        }
        assert_eq!(sidecar.ask("/policy?port=8080").await.0, StatusCode::OK);
    };
    tokio::time::timeout(Duration::from_secs(60), served).await.unwrap();
    let (_client, first) = unread.swap_remove(0);
    assert_eq!(lines(first, |line| line["decision"].is_string()).await[0]["begun"]["rate"], 1000);
    // Its place is another's once it is gone.
    drop((_client, unread));
    wait_for("a stream is free", async || {
        let mut client = Client::new(TcpStream::connect(sidecar.admin).await.unwrap()).await;
        let headers = [MEANT, ("host", "localhost")];
        let asked: Request<Full<bytes::Bytes>> = request("/tap?rate=10", &headers);
        (client.send(asked).await.status() == StatusCode::OK).then_some(())
    })
    .await;
}
