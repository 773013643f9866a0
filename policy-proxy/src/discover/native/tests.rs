//! The client and the store against every order of events: what the workload declares, ports that are
//! used, given up and edited, and messages that are under way in both directions.

use super::*;
use bytes::Bytes;
use http_body_util::Full;
use policy_core::testing::default_policy;
use policy_core::{DefaultPolicy, Denied, Facts};
use policy_enforce::Telemetry;
use policy_enforce::store::StoreConfig;
use policy_proto::messages::watch_response::Kind as Answer;
use policy_proto::native::{EncodedPort, diff, encode_facts, encode_port};
use policy_tls::control::ControllerAddress;
use proptest::prelude::*;
use prost::Message as _;
use std::convert::Infallible;

/// The ports of a test.
const PORTS: [u16; 3] = [80, 81, 82];

/// The ports that a workload declares, and the rule for its other ports.
#[derive(Clone, Debug, PartialEq)]
struct Declaration {
    ports: BTreeSet<NonZeroU16>,
    deny: bool,
}

impl Declaration {
    /// The declaration of a number from 0 to 15: a bit per port, and one for the rule.
    fn of(number: u8) -> Self {
        let bits = PORTS.iter().zip([1, 2, 4]);
        let ports = bits.filter(|(_, bit)| number & bit != 0).map(|(number, _)| port(*number));
        Self { ports: ports.collect(), deny: number & 8 != 0 }
    }

    fn denies(&self, port: NonZeroU16) -> bool {
        self.deny && !self.ports.contains(&port)
    }
}

/// An event of the server, the client or a worker, or the delivery of the next message.
#[derive(Clone, Debug)]
enum Step {
    Declare(u8),
    Edit,
    ServerSends,
    ServerReceives,
    ClientReceives,
    ClientSubscribes,
    Use(usize),
    Idle,
    Reconnect,
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        3 => (0..16_u8).prop_map(Step::Declare),
        1 => Just(Step::Edit),
        5 => Just(Step::ServerSends),
        4 => Just(Step::ServerReceives),
        5 => Just(Step::ClientReceives),
        4 => Just(Step::ClientSubscribes),
        3 => (0..PORTS.len()).prop_map(Step::Use),
        2 => Just(Step::Idle),
        1 => Just(Step::Reconnect),
    ];
    proptest::collection::vec(step, 0..60)
}

/// A port that the server watches for the client.
#[derive(Default)]
struct Watched {
    subscribed: bool,
    due: bool,
    /// Number of the policy that the client has.
    sent: Option<usize>,
}

/// The server's side of a stream, by docs/watch-api.md alone.
struct Server {
    declared: Declaration,
    workload_due: bool,
    watched: BTreeMap<NonZeroU16, Watched>,
    /// Policies that the client has reported.
    reported: BTreeMap<NonZeroU16, usize>,
}

impl Server {
    fn new(declared: Declaration, reported: BTreeMap<NonZeroU16, usize>) -> Self {
        let watched = BTreeMap::new();
        let mut server =
            Self { declared: Declaration::of(0), workload_due: true, watched, reported };
        server.declare(declared);
        server
    }

    fn declare(&mut self, declared: Declaration) {
        if declared != self.declared {
            self.workload_due = true;
        }
        self.declared = declared;
        let ports = self.declared.ports.clone();
        self.watched.retain(|port, watched| watched.subscribed || ports.contains(port));
        for port in ports {
            self.open(port);
        }
    }

    fn open(&mut self, port: NonZeroU16) -> &mut Watched {
        let reported = &mut self.reported;
        self.watched.entry(port).or_insert_with(|| Watched {
            due: true,
            sent: reported.remove(&port),
            ..Watched::default()
        })
    }

    /// The next message: the workload, then ports.
    fn next(&mut self, policies: &Policies) -> Option<Answer> {
        if std::mem::take(&mut self.workload_due) {
            let undeclared =
                if self.declared.deny { m::Undeclared::Deny } else { m::Undeclared::Default };
            return Some(Answer::Workload(m::Workload {
                name: "ns/web-0".to_owned(),
                facts: Some(encode_facts(&Facts::default())),
                declared_ports: port_numbers(&self.declared.ports),
                undeclared: undeclared.into(),
                revision: Some(encode_revision(&Revision::default())),
                takes_refusals: false,
            }));
        }
        let (port, watched) = self.watched.iter_mut().find(|(_, watched)| watched.due)?;
        watched.due = false;
        let newest = policies.newest();
        let update = match watched.sent.replace(policies.number) {
            Some(sent) => diff(&policies.encoded[sent % 2], newest, *port, &Revision::default()),
            None => newest.full(*port, &Revision::default()),
        };
        Some(Answer::Port(update))
    }

    fn receive(&mut self, message: Message) {
        match message {
            Message::Subscribe(m::Subscribe { ports }) => {
                ports_of(&ports).for_each(|port| self.open(port).subscribed = true);
            }
            Message::Unsubscribe(m::Unsubscribe { ports }) => {
                for port in ports_of(&ports) {
                    if !self.declared.ports.contains(&port) {
                        self.watched.remove(&port);
                    } else if let Some(watched) = self.watched.get_mut(&port) {
                        *watched = Watched { due: true, ..Watched::default() };
                    }
                }
            }
            Message::Resync(m::Resync { port }) => {
                let port = port_number(port).unwrap();
                if let Some(watched) = self.watched.get_mut(&port) {
                    (watched.sent, watched.due) = (None, true);
                }
            }
            Message::Ack(_) | Message::Refusals(_) => {}
            Message::Hello(_) | Message::Nack(_) => panic!("{message:?}"),
        }
    }
}

/// The policy of every port, which is edited back and forth.
struct Policies {
    encoded: [EncodedPort; 2],
    number: usize,
}

impl Policies {
    fn new() -> Self {
        let all = Feature::ALL.into_iter().collect();
        let encoded = [DefaultPolicy::AllUnauthenticated, DefaultPolicy::Deny]
            .map(|default| encode_port(&default_policy(default), &all));
        Self { encoded, number: 0 }
    }

    fn newest(&self) -> &EncodedPort {
        &self.encoded[self.number % 2]
    }
}

/// A message as the client reads it.
async fn read(kind: Answer) -> Response {
    let message = m::WatchResponse { kind: Some(kind) }.encode_to_vec();
    let length = u32::try_from(message.len()).unwrap().to_be_bytes();
    let frame = Bytes::from([&[0], &length[..], &message].concat());
    let service = tower::service_fn(move |_: http::Request<tonic::body::Body>| {
        let body = Full::new(frame.clone());
        async move { Ok::<_, Infallible>(http::Response::new(body)) }
    });
    let opened = stream_decoder::watch(service, 1 << 20, tokio_stream::empty()).await;
    opened.unwrap().message().await.unwrap().unwrap()
}

fn ports_of(numbers: &[u32]) -> impl Iterator<Item = NonZeroU16> {
    numbers.iter().copied().filter_map(port_number)
}

fn port(number: u16) -> NonZeroU16 {
    NonZeroU16::new(number).unwrap()
}

/// The world around a stream.
struct World {
    declared: Declaration,
    /// The last message to the client; `None` before.
    told: Option<Declaration>,
    /// True once the stream has had its first message.
    begun: bool,
    policies: Policies,
    server: Server,
    to_client: VecDeque<Answer>,
    to_server: VecDeque<Message>,
}

impl World {
    fn new() -> Self {
        let declared = Declaration::of(1);
        Self {
            server: Server::new(declared.clone(), BTreeMap::new()),
            declared,
            told: None,
            begun: false,
            policies: Policies::new(),
            to_client: VecDeque::new(),
            to_server: VecDeque::new(),
        }
    }

    /// Another stream of the client.
    fn reconnect(&mut self, client: &mut Client) {
        client.store.lose_all();
        let applied = client.hello().applied;
        let number = |applied: &m::PortRevision| {
            let content = applied.revision.as_ref().unwrap().content;
            self.policies.encoded.iter().position(|encoded| encoded.content() == content).unwrap()
        };
        let reported =
            applied.iter().map(|it| (port_number(it.port).unwrap(), number(it))).collect();
        self.server = Server::new(self.declared.clone(), reported);
        self.to_client.clear();
        self.to_server.clear();
        self.begun = false;
    }

    async fn step(&mut self, session: &mut Session<'_>, step: Step) {
        match step {
            Step::Declare(number) => {
                self.declared = Declaration::of(number);
                self.server.declare(self.declared.clone());
            }
            Step::Edit => {
                self.policies.number = self.policies.number.wrapping_add(1);
                self.server.watched.values_mut().for_each(|watched| watched.due = true);
            }
            Step::ServerSends => self.to_client.extend(self.server.next(&self.policies)),
            Step::ServerReceives => {
                self.to_server.pop_front().into_iter().for_each(|said| self.server.receive(said));
            }
            Step::ClientReceives => {
                let Some(answer) = self.to_client.pop_front() else { return };
                if let Answer::Workload(workload) = &answer {
                    self.told = Some(Declaration {
                        ports: ports_of(&workload.declared_ports).collect(),
                        deny: workload.undeclared() == m::Undeclared::Deny,
                    });
                }
                assert!(session.handle(read(answer).await).is_ok());
                if !std::mem::replace(&mut self.begun, true) {
                    session.subscribe();
                }
            }
            Step::ClientSubscribes => {
                if self.begun && session.demand.has_changed().unwrap() {
                    session.subscribe();
                }
            }
            Step::Use(index) => self.used(session, port(PORTS[index])),
            Step::Idle => {
                session.client.store.sweep();
                tokio::time::advance(Duration::from_secs(91)).await;
                session.client.store.sweep();
            }
            Step::Reconnect => {}
        }
        self.to_server.extend(session.outbox.drain(..));
    }

    /// A worker opens a connection: it is refused as undeclared exactly where the workload says so.
    fn used(&self, session: &Session<'_>, port: NonZeroU16) {
        let handle = session.client.store.port_for(port, "10.0.0.1".parse().unwrap());
        let refused = handle.live().in_force().err() == Some(Denied::PortUndeclared);
        let denies = self.told.as_ref().is_some_and(|told| told.denies(port));
        assert_eq!(refused, denies, "port {port}, {:?}", self.told);
    }

    /// Delivers everything, until nothing more is said.
    async fn settle(&mut self, session: &mut Session<'_>) {
        loop {
            self.step(session, Step::ClientSubscribes).await;
            let before = (self.to_server.len(), self.to_client.len());
            while !self.to_server.is_empty() {
                self.step(session, Step::ServerReceives).await;
            }
            self.step(session, Step::ServerSends).await;
            let said = before != (0, 0) || !self.to_client.is_empty();
            while !self.to_client.is_empty() {
                self.step(session, Step::ClientReceives).await;
            }
            if !said {
                return;
            }
        }
    }
}

async fn run(steps: Vec<Step>) {
    let controller = ControllerAddress::loopback("127.0.0.1:1".parse().unwrap()).unwrap();
    let config = Arc::new(DiscoverConfig::new(controller, "ns:web-0"));
    let store = PolicyStore::new(StoreConfig::default(), Arc::new(Telemetry::new(1))).unwrap();
    let mut client = Client::new(config, store.clone());
    let mut world = World::new();
    let mut streams = steps.split(|step| matches!(step, Step::Reconnect)).peekable();
    while let Some(steps) = streams.next() {
        world.reconnect(&mut client);
        let mut session = Session::new(&mut client);
        for step in steps {
            world.step(&mut session, step.clone()).await;
        }
        // Not those before, because another stream would make good for what they lack.
        if streams.peek().is_none() {
            settled(&mut world, &mut session, &store).await;
        }
    }
}

/// Settles, and compares every port with what the server has.
async fn settled(world: &mut World, session: &mut Session<'_>, store: &PolicyStore) {
    world.settle(session).await;
    let newest = world.policies.newest().content();
    let states: BTreeMap<_, _> = store
        .status()
        .into_iter()
        .map(|status| (status.port, (status.state, status.revision.map(|it| it.content))))
        .collect();
    let expected: BTreeMap<_, _> = states
        .keys()
        .chain(&world.declared.ports)
        .map(|port| match world.declared.denies(*port) {
            true => (*port, ("undeclared", None)),
            false => (*port, ("current", Some(newest))),
        })
        .collect();
    assert_eq!(states, expected);
    assert_eq!(store.unready(), None);
}

proptest! {
    #[test]
    fn every_port_has_its_policy_in_the_end_whatever_comes_first(steps in steps()) {
        let mut runtime = tokio::runtime::Builder::new_current_thread();
        runtime.enable_time().start_paused(true).build().unwrap().block_on(run(steps));
    }
}
