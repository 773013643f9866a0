//! The clients: raw HTTP/2 over a connection each, from a hundred addresses, with a sidecar's patience
//! and back-off.

use crate::server::{GET, Settings, WATCH};
use anyhow::{Context, ensure};
use bytes::{Bytes, BytesMut};
use futures_util::future::try_join_all;
use h2::client::SendRequest;
use h2::{RecvStream, SendStream};
use policy_bench::grpc::{framed, next};
use policy_proto::messages as m;
use policy_proto::messages::destination_request::Kind;
use prost::Message;
use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use tokio::net::TcpSocket;
use tokio::sync::watch;
use tokio::time::{sleep, timeout};
use tokio_util::sync::{CancellationToken, DropGuard};

/// Addresses that the clients have.
const ADDRESSES: usize = 100;

/// Most time for connecting, and the shortest and the longest pause after a failure.
const CONNECT: Duration = Duration::from_secs(5);
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(60));

/// Most time until all clients are where they are to be.
const PATIENCE: Duration = Duration::from_secs(300);

/// One client in so many looks at what its answers say; the others count them.
const LOOKS: usize = 100;

/// Use of gRPC streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
pub(crate) enum Way {
    /// One server stream for each name.
    StreamPerName,
    /// One stream for all names of a client.
    StreamPerClient,
}

impl Way {
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::StreamPerName => "a stream per name",
            Self::StreamPerClient => "a stream per client",
        }
    }
}

/// One thing that is measured.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Case {
    pub(crate) way: Way,
    pub(crate) clients: usize,
    pub(crate) lookups: usize,
    pub(crate) settings: Settings,
}

/// Shared state of the clients.
struct Shared {
    case: Case,
    server: SocketAddr,
    /// True once clients are to ask; until then they connect and are idle.
    ask: watch::Receiver<bool>,
    /// Of each client: it is connected; each of its lookups has its first answer.
    connected: Vec<AtomicBool>,
    answered: Vec<AtomicBool>,
    attempts: AtomicUsize,
}

/// Running clients. Dropping it ends them.
pub(crate) struct Clients {
    shared: Arc<Shared>,
    ask: watch::Sender<bool>,
    _stop: DropGuard,
}

impl Clients {
    /// Lets them connect to a server, each as soon as it is there.
    pub(crate) fn start(case: Case, server: SocketAddr) -> Self {
        let (ask, asked) = watch::channel(false);
        let none = || (0..case.clients).map(|_| AtomicBool::new(false)).collect();
        let (connected, answered) = (none(), none());
        let attempts = AtomicUsize::new(0);
        let shared = Shared { case, server, ask: asked, connected, answered, attempts };
        let shared = Arc::new(shared);
        let stop = CancellationToken::new();
        for number in 0..case.clients {
            let client = stay(Arc::clone(&shared), number);
            tokio::spawn(stop.clone().run_until_cancelled_owned(client));
        }
        Self { shared, ask, _stop: stop.drop_guard() }
    }

    /// Waits until each has a connection, and says when that was.
    pub(crate) async fn connected(&self) -> anyhow::Result<Instant> {
        all(&self.shared.connected).await.context("not every client connected")
    }

    /// Lets them ask.
    pub(crate) fn ask(&self) {
        self.ask.send_replace(true);
    }

    /// Waits until each lookup of each client has its first answer, and says when that was.
    pub(crate) async fn answered(&self) -> anyhow::Result<Instant> {
        all(&self.shared.answered).await.context("not every lookup was answered")
    }

    /// Forgets what was answered, of a server that is no more.
    pub(crate) fn forget(&self) {
        self.shared.answered.iter().for_each(|answered| answered.store(false, Ordering::SeqCst));
    }

    /// Returns the number of connections that were tried so far.
    pub(crate) fn attempts(&self) -> usize {
        self.shared.attempts.load(Ordering::SeqCst)
    }
}

async fn all(flags: &[AtomicBool]) -> anyhow::Result<Instant> {
    let wait = async {
        while !flags.iter().all(|flag| flag.load(Ordering::SeqCst)) {
            sleep(Duration::from_millis(5)).await;
        }
        Instant::now()
    };
    Ok(timeout(PATIENCE, wait).await?)
}

/// One client, which comes back whenever its connection ends.
async fn stay(shared: Arc<Shared>, number: usize) {
    let mut pause = BACKOFF.0;
    loop {
        shared.attempts.fetch_add(1, Ordering::SeqCst);
        // What ends a connection is told by the time until all are back.
        if shared.follow(number).await.is_ok() {
            pause = BACKOFF.0;
        }
        shared.set(&shared.connected, number, false);
        shared.set(&shared.answered, number, false);
        // Between half and all of the pause, so that not all come again together.
        let share = u32::try_from(number * 7919 % 500).unwrap_or(0) + 500;
        sleep(pause * share / 1000).await;
        pause = (pause * 2).min(BACKOFF.1);
    }
}

impl Shared {
    fn set(&self, flags: &[AtomicBool], number: usize, value: bool) {
        if let Some(flag) = flags.get(number) {
            flag.store(value, Ordering::SeqCst);
        }
    }

    /// Connects, asks once it is to, and stays until the connection ends.
    ///
    /// # Errors
    /// Something went wrong before every lookup was answered.
    async fn follow(&self, number: usize) -> anyhow::Result<()> {
        let (requests, connection) = timeout(CONNECT, self.connect(number)).await??;
        let ended = tokio::spawn(async move { _ = connection.await });
        match self.ask(number, requests).await {
            Ok(_open) => {
                self.set(&self.answered, number, true);
                _ = ended.await;
                Ok(())
            }
            Err(error) => {
                ended.abort();
                Err(error)
            }
        }
    }

    async fn connect(
        &self,
        number: usize,
    ) -> anyhow::Result<(SendRequest<Bytes>, h2::client::Connection<tokio::net::TcpStream, Bytes>)>
    {
        let address = Ipv4Addr::new(127, 0, 1, u8::try_from(number % ADDRESSES)? + 1);
        let socket = TcpSocket::new_v4()?;
        socket.bind(SocketAddr::from((address, 0)))?;
        let stream = socket.connect(self.server).await?;
        stream.set_nodelay(true)?;
        Ok(h2::client::handshake(stream).await?)
    }

    /// Returns the open streams once each has its answers.
    async fn ask(&self, number: usize, requests: SendRequest<Bytes>) -> anyhow::Result<Vec<Open>> {
        // What a connection keeps after its first call is the connection's, not the streams'.
        let (response, _) = call(&requests, "/bench.Destination/None", &[], true).await?;
        ensure!(response.await?.status().is_success(), "not gRPC");
        self.set(&self.connected, number, true);
        self.ask.clone().wait_for(|ask| *ask).await?;
        let ids = 1..=self.case.lookups;
        match self.case.way {
            Way::StreamPerName => {
                let all = ids.map(|id| self.one(number, id, requests.clone()));
                try_join_all(all).await
            }
            Way::StreamPerClient => {
                let begin = m::Begin { workload: "bench".to_owned(), client: "bench".to_owned() };
                let mut messages = vec![framed(&request_of(Kind::Begin(begin)))];
                for id in ids {
                    messages.push(framed(&request_of(Kind::Lookup(self.lookup(number, id)?))));
                }
                let (response, sending) = call(&requests, WATCH, &messages, false).await?;
                let mut open = Open { body: opened(response).await?, _sending: sending };
                self.answers(&mut open, number, self.case.lookups).await?;
                Ok(vec![open])
            }
        }
    }

    /// A lookup by a stream of its own.
    async fn one(
        &self,
        number: usize,
        id: usize,
        requests: SendRequest<Bytes>,
    ) -> anyhow::Result<Open> {
        let lookup = framed(&self.lookup(number, id)?);
        let (response, sending) = call(&requests, GET, &[lookup], true).await?;
        let mut open = Open { body: opened(response).await?, _sending: sending };
        self.answers(&mut open, number, 1).await?;
        Ok(open)
    }

    /// Receives so many first answers, of lookups that differ.
    async fn answers(&self, open: &mut Open, number: usize, count: usize) -> anyhow::Result<()> {
        let (mut buffer, mut seen) = (BytesMut::new(), BTreeSet::new());
        for received in 0..count {
            let message = next(&mut open.body, &mut buffer).await?.context("it ended")?;
            if !number.is_multiple_of(LOOKS) {
                continue;
            }
            let answer = m::DestinationResponse::decode(message)?;
            let Some(m::destination_response::Kind::Found(found)) = answer.kind else {
                anyhow::bail!("not an answer: {answer:?}");
            };
            let endpoints = found.endpoints.map_or(0, |endpoints| endpoints.endpoints.len());
            ensure!(
                endpoints == usize::from(self.case.settings.endpoints),
                "{endpoints} endpoints"
            );
            ensure!(seen.insert(answer.id) && seen.len() == received + 1, "answered twice");
        }
        Ok(())
    }

    /// A lookup of a client: clients next to each other ask for other names.
    fn lookup(&self, number: usize, id: usize) -> anyhow::Result<m::Lookup> {
        let answer = (number * self.case.lookups + id) % usize::from(self.case.settings.answers);
        let [high, low] = u16::try_from(answer)?.to_be_bytes();
        Ok(m::Lookup { id: u32::try_from(id)?, address: vec![10, 96, high, low], port: 80 })
    }
}

/// An open stream.
struct Open {
    body: RecvStream,
    _sending: SendStream<Bytes>,
}

/// Sends messages in as few frames as they fit in.
async fn call(
    requests: &SendRequest<Bytes>,
    path: &str,
    messages: &[Bytes],
    last: bool,
) -> anyhow::Result<(h2::client::ResponseFuture, SendStream<Bytes>)> {
    let request = http::Request::post(format!("http://controller{path}"))
        .header("content-type", "application/grpc")
        .header("te", "trailers")
        .body(())?;
    let mut requests = requests.clone().ready().await?;
    let (response, mut sending) = requests.send_request(request, messages.is_empty())?;
    if !messages.is_empty() {
        sending.send_data(messages.concat().into(), last)?;
    }
    Ok((response, sending))
}

async fn opened(response: h2::client::ResponseFuture) -> anyhow::Result<RecvStream> {
    let response = response.await?;
    let code = response.headers().get("grpc-status");
    ensure!(code.is_none(), "refused with {code:?}: {:?}", response.headers());
    Ok(response.into_body())
}

fn request_of(kind: Kind) -> m::DestinationRequest {
    m::DestinationRequest { kind: Some(kind) }
}
