//! Cost of the layer inside of a service: a permitted request with its answer, and a refused one.
//!
//! `bench/functions` runs it; `cargo bench -p policy-enforce` measures time alone.

#![allow(clippy::expect_used, reason = "a benchmark stops at the first surprise")]

use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame};
use policy_core::testing::benchmark::{self, Case};
use policy_core::{Identity, Revision, UndeclaredPorts};
use policy_enforce::middleware::PolicyService;
use policy_enforce::{PolicyLayer, PolicyStore, StoreConfig, Telemetry};
use policy_measure::Function;
use policy_tls::peer::{Peer, PeerTls};
use std::cell::RefCell;
use std::convert::Infallible;
use std::future::{Ready, ready};
use std::num::NonZeroU16;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use tower_layer::Layer as _;
use tower_service::Service;

/// A response's body that is over.
#[derive(Debug)]
struct Nothing;

impl Body for Nothing {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        Poll::Ready(None)
    }
}

/// An application that answers at once.
#[derive(Clone, Debug)]
struct Application;

impl Service<Request<()>> for Application {
    type Response = Response<Nothing>;
    type Error = Infallible;
    type Future = Ready<Result<Response<Nothing>, Infallible>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, _: Request<()>) -> Self::Future {
        ready(Ok(Response::new(Nothing)))
    }
}

/// One connection of a client, and what it asks for.
#[derive(Clone)]
struct Connection {
    service: Rc<RefCell<PolicyService<Application>>>,
    peer: Arc<Peer>,
    case: Rc<Case>,
}

impl Connection {
    /// A connection to a service behind the policy of `case`, whose client has `identity`.
    fn new(case: Case, identity: Option<Identity>) -> Self {
        let port = NonZeroU16::MIN;
        let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1)));
        let store = store.expect("the pending policy can be built");
        store.declare(&[port].into(), UndeclaredPorts::Deny);
        let policy = Arc::new(case.policy.clone());
        store.apply(port, policy, Revision::default()).expect("it can be built");
        let layer = PolicyLayer::new(&store, port, "shop/web-0").whole_service();
        let address = std::net::SocketAddr::from(([10, 0, 0, 1], 40_000));
        let peer = Arc::new(Peer::new(address, PeerTls::Terminated(identity)));
        let service = Rc::new(RefCell::new(layer.layer(Application)));
        Self { service, peer, case: Rc::new(case) }
    }

    fn request(&self) -> Option<Request<()>> {
        let asked = self.case.requests.last()?;
        let query = asked.query.as_ref().map_or_else(String::new, |query| format!("?{query}"));
        let mut request = Request::builder()
            .method(&asked.method)
            .uri(format!("{}{query}", asked.path))
            .extension(Arc::clone(&self.peer));
        if let Some(host) = &asked.host {
            request = request.header("host", host);
        }
        let mut request = request.body(()).ok()?;
        request.headers_mut().extend(asked.headers.clone());
        Some(request)
    }

    /// Returns the status, after the body.
    fn answer(&self, request: Request<()>) -> u16 {
        let mut context = Context::from_waker(Waker::noop());
        let future = self.service.borrow_mut().call(request);
        let Poll::Ready(Ok(response)) = pin!(future).poll(&mut context) else { return 0 };
        let status = response.status().as_u16();
        let mut body = pin!(response.into_body());
        while let Poll::Ready(Some(_)) = body.as_mut().poll_frame(&mut context) {}
        status
    }
}

/// A request on a connection that has had one, which is answered with `status`.
fn request(name: &str, case: fn() -> Case, identity: Option<Identity>, status: u16) -> Function {
    let mut connection = None;
    let setup = move || {
        let made = connection.get_or_insert_with(|| Connection::new(case(), identity.clone()));
        let first = made.request().expect("the case has a request");
        assert_eq!(made.answer(first), status, "it is decided as is measured");
        (made.clone(), made.request())
    };
    Function::new(name, setup, |(connection, request)| {
        request.take().map(|request| connection.answer(request))
    })
}

fn client() -> Option<Identity> {
    Some(Identity::Dns("web.shop.serviceaccount.identity.linkerd.cluster.local".into()))
}

fn main() {
    policy_measure::main(vec![
        request("layer-request-1-route", benchmark::one, client(), 200),
        request("layer-request-10000-routes", || benchmark::mixed(10_000), client(), 200),
        request("layer-refusal", benchmark::one, None, 403),
    ]);
}
