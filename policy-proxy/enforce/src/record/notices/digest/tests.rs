//! Tests of logged, counted and suppressed decisions, by a fake clock.

#![allow(clippy::arithmetic_side_effects, reason = "tests")]

use super::*;
use policy_core::Identity;
use policy_tls::peer::Peer;
use proptest::prelude::*;
use std::collections::VecDeque;

const INTERVAL: Duration = Duration::from_secs(60);

fn identity(number: u16) -> ClientKey {
    ClientKey::Identity(Identity::Dns(format!("client-{number}.ns").into()))
}

/// Returns one of as many networks as there are numbers.
fn stranger(number: u16) -> ClientKey {
    let [a, b] = number.to_be_bytes();
    ClientKey::Network(IpAddr::from([10, a, b, 0]))
}

fn denied(port: u16) -> DecisionKind {
    let port = NonZeroU16::new(port.saturating_add(1)).unwrap_or(NonZeroU16::MIN);
    DecisionKind { port, reason: Some(Denied::Unauthorized), connection: false }
}

fn address() -> IpAddr {
    IpAddr::from([10, 0, 0, 1])
}

fn after(start: Instant, millis: u64) -> Instant {
    start + Duration::from_millis(millis)
}

#[test]
fn the_first_is_said_at_once_and_the_others_as_one_number() {
    let (mut digest, start) = (Digest::new(INTERVAL), Instant::now());
    assert!(digest.admit(identity(0), address(), denied(80), start));
    for _ in 0..41 {
        assert!(!digest.admit(identity(0), address(), denied(80), after(start, 10)));
    }
    assert!(digest.admit(identity(0), address(), denied(81), after(start, 20)), "another port");
    let audited = DecisionKind { reason: None, ..denied(80) };
    assert!(digest.admit(identity(1), address(), audited, after(start, 20)), "another client");
    assert_eq!(digest.tick(after(start, 59_999)), DueLines::default());
    let due = digest.tick(after(start, 61_000));
    let [number] = due.repeats.as_slice() else { panic!("{due:?}") };
    assert_eq!((number.more, number.within.as_secs(), due.left_out), (41, 61, 0));
    assert_eq!((&number.client, number.kind), (&identity(0), denied(80)));
    assert_eq!(digest.tick(after(start, 200_000)), DueLines::default(), "nothing to say");
    assert!(digest.clients.is_empty(), "and nothing to keep");
    assert!(digest.admit(identity(0), address(), denied(80), after(start, 200_001)), "a new first");
}

#[test]
fn clients_without_an_identity_are_counted_by_their_network() {
    let of = |text: &str| {
        let address = std::net::SocketAddr::new(text.parse().unwrap(), 1);
        ClientKey::of(&Peer::new(address, policy_tls::peer::PeerTls::Absent)).to_string()
    };
    assert_eq!(of("10.1.2.3"), "10.1.2.0/24");
    assert_eq!(of("::ffff:10.1.2.200"), "10.1.2.0/24");
    assert_eq!(of("2001:db8:1:2:3::4"), "2001:db8:1:2::/64");
}

#[test]
fn audited_permits_of_many_networks_leave_room_for_what_is_denied() {
    let (mut digest, start) = (Digest::new(INTERVAL), Instant::now());
    let audited = DecisionKind { reason: None, ..denied(80) };
    let mut now = start;
    for network in 0..300 {
        now += Duration::from_millis(300);
        digest.admit(stranger(network), address(), audited, now);
        // Each comes again in every interval, so that none is forgotten.
        digest.admit(stranger(network), address(), audited, now);
    }
    assert_eq!(digest.audited, [0, ANONYMOUS_KINDS / 2]);
    now += SECOND;
    assert!(digest.admit(stranger(1000), address(), denied(80), now), "denied");
    assert!(!digest.admit(stranger(1001), address(), audited, now), "audited");
}

#[test]
fn no_number_waits_for_ever_where_more_are_due_than_there_are_lines() {
    let (mut digest, start) = (Digest::new(INTERVAL), Instant::now());
    let mut now = start;
    for client in 0..200 {
        now += Duration::from_millis(200);
        assert!(digest.admit(identity(client), address(), denied(80), now), "{client}");
    }
    let mut told = std::collections::HashSet::new();
    for _ in 0..240 {
        now += SECOND;
        for client in 0..200 {
            digest.admit(identity(client), address(), denied(80), now);
        }
        told.extend(digest.tick(now).repeats.into_iter().map(|more| more.client));
    }
    assert_eq!(told.len(), 200);
}

/// The last lines within a second.
#[derive(Default)]
struct Lines(VecDeque<(Instant, bool)>);

impl Lines {
    fn add(&mut self, now: Instant, stranger: bool) {
        self.0.push_back((now, stranger));
        self.0.retain(|(at, _)| now.saturating_duration_since(*at) < SECOND);
        assert!(self.0.len() <= 10, "{} lines within a second", self.0.len());
        let strangers = self.0.iter().filter(|(_, stranger)| *stranger).count();
        assert!(strangers <= 5, "{strangers} of them of clients without an identity");
    }
}

#[derive(Clone, Copy, Debug)]
enum Event {
    /// A decision about one of many clients without an identity.
    Stranger(u16, u16),
    /// A decision about one of a few clients with one.
    Known(u16, u16),
    Wait(u64),
}

fn events() -> impl Strategy<Value = Vec<Event>> {
    let event = prop_oneof![
        4 => (0..600_u16, 0..3_u16).prop_map(|(client, port)| Event::Stranger(client, port)),
        4 => (0..40_u16, 0..400_u16).prop_map(|(client, port)| Event::Known(client, port)),
        2 => prop_oneof![0..50_u64, 500..1500_u64, Just(61_000)].prop_map(Event::Wait),
    ];
    proptest::collection::vec(event, 0..2000)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn lines_and_memory_are_bounded_and_every_decision_is_accounted_for(events in events()) {
        let mut digest = Digest::new(INTERVAL);
        let (mut now, mut lines) = (Instant::now(), Lines::default());
        let (mut decisions, mut told) = (0_u64, 0_u64);
        let hear = |due: DueLines, now: Instant, lines: &mut Lines| {
            due.repeats.iter().for_each(|more| lines.add(now, more.client.is_anonymous()));
            due.repeats.iter().map(|more| more.more).sum::<u64>() + due.left_out
        };
        for event in events {
            let (client, port) = match event {
                Event::Stranger(client, port) => (stranger(client), port),
                Event::Known(client, port) => (identity(client), port),
                Event::Wait(millis) => {
                    now += Duration::from_millis(millis);
                    told += hear(digest.tick(now), now, &mut lines);
                    continue;
                }
            };
            decisions += 1;
            let unknown = client.is_anonymous();
            if digest.admit(client, address(), denied(port), now) {
                lines.add(now, unknown);
                told += 1;
            }
            let kept = digest.clients.values().map(|own| own.counted.len());
            prop_assert!(kept.clone().sum::<usize>() <= KINDS);
            prop_assert_eq!(kept.clone().sum::<usize>(), digest.kinds.iter().sum::<usize>());
            prop_assert!(kept.clone().all(|kinds| (1..=KINDS_PER_CLIENT).contains(&kinds)));
            prop_assert!(digest.clients.len() <= KINDS);
        }
        told += hear(digest.end(now), now, &mut lines);
        prop_assert_eq!(told, decisions);
        prop_assert!(digest.clients.is_empty());
    }

    /// One client with an identity floods the sidecar over all its ports, and so do networks without one.
    #[test]
    fn a_flood_hides_no_other_client_with_an_identity(
        bursts in proptest::collection::vec((0..1500_u64, 0..2000_u16, 0..600_u16), 1..120),
        quiet in proptest::collection::vec(any::<bool>(), 120),
    ) {
        let (mut digest, mut now) = (Digest::new(INTERVAL), Instant::now());
        let mut lately: Option<Instant> = None;
        for (number, ((wait, first, network), asks)) in (0_u16..).zip(bursts.into_iter().zip(quiet)) {
            now += Duration::from_millis(wait);
            digest.tick(now);
            for port in first..first.saturating_add(50) {
                digest.admit(identity(0), address(), denied(port), now);
                digest.admit(stranger(network.saturating_add(port)), address(), denied(1), now);
            }
            // One quiet client a second: that many have room beside the flood.
            let due = lately.is_none_or(|last| now.saturating_duration_since(last) >= SECOND);
            if asks && due {
                lately = Some(now);
                let seen = digest.admit(identity(number + 1), address(), denied(7), now);
                prop_assert!(seen, "client {number} does not show");
            }
        }
    }
}
