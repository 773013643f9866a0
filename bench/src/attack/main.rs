//! Clients that attack a proxy at a fixed pace until standard input ends. `bench/README.md` says what
//! they do.
#![allow(clippy::arithmetic_side_effects, reason = "numbers of a measurement, none from outside")]

mod bytes;

use anyhow::Context;
use clap::Parser;
use policy_bench::attack::{Attack, Made};
use policy_bench::stats;
use std::cell::Cell;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::task::LocalSet;
use tokio::time::{Instant, MissedTickBehavior, interval_at, sleep, timeout};

/// Attacks a proxy at a fixed pace until standard input ends, and says what was done, as a line of JSON.
#[derive(Debug, Parser)]
#[command(version)]
struct Cli {
    #[command(flatten)]
    attack: Attack,
}

/// Time until a connection that was refused or ended is opened again.
const AGAIN: Duration = Duration::from_millis(200);

/// Time that every connection has to be opened for the first time.
const PATIENCE: Duration = Duration::from_secs(30);

/// The life of a connection, again and again.
#[derive(Clone, Copy, Debug)]
enum Manner {
    /// Says nothing.
    Silent,
    /// A byte of a head each second, without end.
    SlowHead,
    /// Asks for a mebibyte and reads none of it.
    Unread,
    /// A request of a hundred fields that is refused, five a second.
    Refused,
    /// A new connection of HTTP/2 each second, with twenty streams that are reset at once.
    Resets,
    /// A request of HTTP/2 with 1,600 fields, two a second.
    Fields,
}

impl Manner {
    const ALL: [Self; 6] =
        [Self::Silent, Self::SlowHead, Self::Unread, Self::Refused, Self::Resets, Self::Fields];

    fn of(number: usize) -> Self {
        Self::ALL.get(number % Self::ALL.len()).copied().unwrap_or(Self::Silent)
    }

    fn speaks_http2(self) -> bool {
        match self {
            Self::Resets | Self::Fields => true,
            Self::Silent | Self::SlowHead | Self::Unread | Self::Refused => false,
        }
    }

    /// Time between two acts; the first is at once.
    fn pace(self) -> Duration {
        match self {
            Self::Silent | Self::SlowHead | Self::Unread | Self::Resets => Duration::from_secs(1),
            Self::Refused => Duration::from_millis(200),
            Self::Fields => Duration::from_millis(500),
        }
    }
}

/// Counts of all connections.
#[derive(Default)]
struct Counts {
    acts: Cell<u64>,
    opened: Cell<u64>,
    /// Connections that were open once.
    begun: Cell<usize>,
}

fn main() -> anyhow::Result<()> {
    let Cli { attack } = Cli::parse();
    policy_bench::limits::many_descriptors()?;
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    LocalSet::new().block_on(&runtime, run(attack))
}

async fn run(attack: Attack) -> anyhow::Result<()> {
    let counts = Rc::new(Counts::default());
    let all = usize::from(attack.attackers) * attack.connections;
    for attacker in 0..attack.attackers {
        // A network (/24) each.
        let from = Ipv4Addr::new(127, 1, attacker, 1);
        for number in 0..attack.connections {
            let manner = Manner::of(number);
            let to = if manner.speaks_http2() { attack.http2 } else { attack.http1 };
            // Spread over a pace: in step, all would be one burst, which a proxy that ends
            // connections breaks up and one that keeps them does not.
            let place = usize::from(attacker) * attack.connections + number;
            let phase = stats::number(place) / stats::number(all);
            tokio::task::spawn_local(keep(manner, (from, to), phase, Rc::clone(&counts)));
        }
    }
    let begun = async {
        while counts.begun.get() < all {
            sleep(Duration::from_millis(20)).await;
        }
    };
    timeout(PATIENCE, begun).await.context("a connection was never opened")?;
    println!("attacking");
    let input = tokio::task::spawn_blocking(|| std::io::read_to_string(std::io::stdin()));
    input.await??;
    let made = Made { acts: counts.acts.get(), connections: counts.opened.get() };
    println!("{}", serde_json::to_string(&made)?);
    Ok(())
}

/// Keeps one connection of this manner for ever: the next one follows when one has ended.
/// `phase`: the part of its pace that passes between the first connection and its first act.
async fn keep(manner: Manner, (from, to): (Ipv4Addr, SocketAddr), phase: f64, counts: Rc<Counts>) {
    let mut first = true;
    let mut wait = manner.pace().mul_f64(phase);
    loop {
        if let Ok(stream) = connect(manner, from, to).await {
            counts.opened.set(counts.opened.get() + 1);
            if std::mem::take(&mut first) {
                counts.begun.set(counts.begun.get() + 1);
            }
            // Whatever ends it is the proxy's choice.
            let wait = std::mem::take(&mut wait);
            _ = Box::pin(attack(manner, stream, (to, wait), &counts)).await;
        }
        sleep(AGAIN).await;
    }
}

async fn connect(manner: Manner, from: Ipv4Addr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = TcpSocket::new_v4()?;
    socket.set_reuseaddr(true)?;
    if matches!(manner, Manner::Unread) {
        socket.set_recv_buffer_size(16 * 1024)?;
    }
    socket.bind(SocketAddr::new(IpAddr::V4(from), 0))?;
    let stream = socket.connect(to).await?;
    stream.set_nodelay(true)?;
    Ok(stream)
}

/// Attacks on one connection until the proxy ends it.
async fn attack(
    manner: Manner,
    mut stream: TcpStream,
    (to, wait): (SocketAddr, Duration),
    counts: &Counts,
) -> std::io::Result<()> {
    let (mut reader, mut writer) = stream.split();
    let ended = async {
        match manner {
            Manner::Unread => std::future::pending().await,
            Manner::Silent
            | Manner::SlowHead
            | Manner::Refused
            | Manner::Resets
            | Manner::Fields => {
                let mut dropped = [0; 16 * 1024];
                while reader.read(&mut dropped).await? > 0 {}
                Ok(())
            }
        }
    };
    let acts = async {
        let mut turns = interval_at(Instant::now() + wait, manner.pace());
        turns.set_missed_tick_behavior(MissedTickBehavior::Skip);
        for number in 0_u32.. {
            turns.tick().await;
            let Some(act) = act(manner, number, to) else { return Ok(()) };
            if !act.is_empty() {
                writer.write_all(&act).await?;
                counts.acts.set(counts.acts.get() + 1);
            }
        }
        Ok(())
    };
    tokio::select! {
        ended = ended => ended,
        done = acts => done,
    }
}

/// The bytes of one act; nothing where the connection is to end.
fn act(manner: Manner, number: u32, to: SocketAddr) -> Option<Vec<u8>> {
    match (manner, number) {
        (Manner::Silent, _) => Some(Vec::new()),
        (Manner::SlowHead, 0) => Some(bytes::begun_head(to)),
        (Manner::SlowHead, _) => Some(vec![b'a']),
        (Manner::Unread, 0) => Some(bytes::large(to)),
        (Manner::Unread, _) => Some(Vec::new()),
        (Manner::Refused, _) => Some(bytes::refused(to)),
        (Manner::Resets, 0) => Some(bytes::resets()),
        (Manner::Resets, _) => None,
        (Manner::Fields, _) => Some(bytes::fields(number)),
    }
}
