//! Many short connections to one port of the application, through the real sidecar.
//! `PORTCULLIS_LONG_CONNECTIONS` has the seconds for which they go on, and `PORTCULLIS_LONG_PROXY` an optimised
//! sidecar (`.ci/long`).

use crate::sidecar::Sidecar;
use crate::support::*;
use socket2::{Domain, Socket, Type};
use std::io::{Read, Write};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpStream};
use std::time::{Duration, Instant};

/// An application that answers requests of HTTP, and other bytes with the same, and closes after its
/// client.
fn application(pod: &Namespace, port: u16) {
    let listener = pod.inside(|| listener(port));
    let serve = |mut stream: TcpStream| {
        let mut piece = [0; 512];
        while let Ok(read @ 1..) = stream.read(&mut piece) {
            let said = piece.get(..read).unwrap_or_default();
            let ok: &[u8] = b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nok";
            let _ = stream.write_all(if said.starts_with(b"GET") { ok } else { said });
        }
    };
    std::thread::spawn(move || {
        for stream in listener.incoming().map_while(Result::ok) {
            std::thread::spawn(move || serve(stream));
        }
    });
}

/// Leaves the pod's own connections this many ports.
fn ports(world: &World, number: u16) {
    let range = format!("net.ipv4.ip_local_port_range=20000 {}", 19_999 + number);
    let set = world.pod.command(&["sysctl", "-qw", &range]).status().unwrap();
    assert!(set.success(), "{set}");
}

/// Says something and hears it, then closes first.
fn talk(stream: std::io::Result<TcpStream>) -> std::io::Result<()> {
    let mut stream = stream?;
    stream.write_all(b"\x01ping")?;
    stream.read_exact(&mut [0; 5])?;
    stream.shutdown(Shutdown::Write)?;
    // An end, no reset.
    stream.read_to_end(&mut Vec::new()).map(drop)
}

/// Sends a request of HTTP on a connection of its own and reads the answer.
fn ask(stream: std::io::Result<TcpStream>) -> std::io::Result<()> {
    let mut stream = stream?;
    stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n")?;
    let mut answer = [0; 12];
    stream.read_exact(&mut answer)?;
    if &answer != b"HTTP/1.1 200" {
        return Err(std::io::Error::other(String::from_utf8_lossy(&answer).into_owned()));
    }
    stream.shutdown(Shutdown::Write)?;
    stream.read_to_end(&mut Vec::new()).map(drop)
}

/// The system picks no port of a connection that ended less than a minute ago; with the usual 28,000
/// ports that bears 470 new connections a second.
#[test]
fn an_application_is_reached_more_often_than_there_are_source_ports() {
    let Some(world) = world_or_skip() else { return };
    assert!(world.redirect("").status.success());
    ports(&world, 100);
    let _sidecar = Sidecar::start(&world);
    application(&world.pod, 8080);
    for pod in POD {
        let to = SocketAddr::new(pod, 8080);
        let failed: Vec<_> = world.client.inside(|| {
            (0..1000).filter_map(|number| talk(connect(to)).err().map(|e| (number, e))).collect()
        });
        assert!(failed.is_empty(), "{pod}: {} fail: {:?}", failed.len(), failed[0]);
    }
    // Ports are left to the pod's own connections.
    application(&world.pod, 8081);
    for pod in POD {
        let to = SocketAddr::new(pod, 8081);
        world.pod.inside(|| (0..20).try_for_each(|_| talk(connect(to)))).unwrap();
    }
}

/// All 100 ports are in use by connections that are open.
#[test]
fn a_connection_for_which_no_source_port_is_left_is_reset_and_named() {
    let Some(world) = world_or_skip() else { return };
    assert!(world.redirect("").status.success());
    ports(&world, 100);
    let sidecar = Sidecar::start(&world);
    application(&world.pod, 8080);
    let to = SocketAddr::new(POD[0], 8080);
    let open: Vec<TcpStream> = world.client.inside(|| {
        let open = |_| {
            let mut stream = connect(to).unwrap();
            stream.write_all(b"\x01ping").unwrap();
            stream.read_exact(&mut [0; 5]).unwrap();
            stream
        };
        (0..100).map(open).collect()
    });
    let refused = world.client.inside(|| talk(connect(to))).unwrap_err();
    assert_eq!(refused.kind(), std::io::ErrorKind::ConnectionReset);
    let log = sidecar.log();
    assert!(log.contains("source_ports"), "{log}");
    let metrics = world.pod.inside(|| metrics("[::1]:4191"));
    let series = "inbound_tcp_errors_total{error=\"source_ports\"";
    let counted = metrics.lines().find(|line| line.starts_with(series));
    assert!(counted.is_some_and(|line| line.ends_with(" 1")), "{metrics}");
    drop(open);
}

/// The sidecar's metrics.
fn metrics(admin: &str) -> String {
    let mut stream = connect(admin.parse().unwrap()).unwrap();
    stream.write_all(b"GET /metrics HTTP/1.1\r\nHost: a\r\nConnection: close\r\n\r\n").unwrap();
    let mut text = String::new();
    stream.read_to_string(&mut text).unwrap();
    text
}

/// An application may close long after its client is gone. The port of its connection is not taken
/// before, which would reset it.
#[test]
fn a_port_whose_application_has_not_closed_is_left_alone() {
    let Some(world) = world_or_skip() else { return };
    assert!(world.redirect("").status.success());
    ports(&world, 80);
    let _sidecar = Sidecar::start(&world);
    let listener = world.pod.inside(|| listener(8080));
    let (tell, ends) = std::sync::mpsc::channel();
    std::thread::spawn(move || {
        for mut stream in listener.incoming().map_while(Result::ok) {
            let tell = tell.clone();
            std::thread::spawn(move || {
                let mut piece = [0; 512];
                let read = stream.read(&mut piece).unwrap();
                if piece.starts_with(b"GET") {
                    std::thread::sleep(Duration::from_secs(3));
                    let _ = tell.send(stream.read(&mut piece).map_err(|error| error.kind()));
                } else {
                    stream.write_all(&piece[..read]).unwrap();
                    let _ = stream.read(&mut piece);
                }
            });
        }
    });
    let to = SocketAddr::new(POD[0], 8080);
    let failed = world.client.inside(|| {
        // Uses up the ports, so that those of the requests are named.
        let mut failed: Vec<_> = (0..100).filter_map(|_| talk(connect(to)).err()).collect();
        for _ in 0..10 {
            let mut stream = connect(to).unwrap();
            stream.write_all(b"GET / HTTP/1.1\r\nHost: a\r\n\r\n").unwrap();
            // Until the application has it.
            std::thread::sleep(Duration::from_millis(50));
        }
        failed.extend((0..200).filter_map(|_| talk(connect(to)).err()));
        failed
    });
    assert!(failed.is_empty(), "{} fail: {:?}", failed.len(), failed[0]);
    let ends: Vec<_> = (0..10).map(|_| ends.recv_timeout(PATIENCE).unwrap()).collect();
    assert_eq!(ends, [Ok(0); 10]);
}

/// Addresses of clients.
const CLIENTS: u8 = 60;

/// Makes new connections for a while, from many addresses in turn, at most [`RATE`] a second; returns how
/// many, and those that failed.
fn load(world: &World, to: SocketAddr, talk: Talk, time: Duration) -> (usize, Vec<std::io::Error>) {
    let begun = Instant::now();
    let work = |worker: usize| {
        let (mut done, mut failed) = (0, Vec::new());
        while begun.elapsed() < time {
            let due = begun + Duration::from_secs(1) * done / (RATE / WORKERS);
            std::thread::sleep(due.saturating_duration_since(Instant::now()));
            let client = (done as usize + worker * 7) % usize::from(CLIENTS);
            let from = v4(100 + u8::try_from(client).unwrap());
            match talk(connect_from(from, to)) {
                Ok(()) => done += 1,
                Err(error) => failed.push(error),
            }
        }
        (done as usize, failed)
    };
    let all: Vec<_> = world.client.inside(|| {
        // Threads stay in the namespace of the one that begins them.
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..WORKERS as usize).map(|worker| scope.spawn(move || work(worker))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        })
    });
    all.into_iter().fold((0, Vec::new()), |(done, mut failed), (more, others)| {
        failed.extend(others);
        (done + more, failed)
    })
}

/// Connections a second that are asked for, and the threads that make them.
const RATE: u32 = 5000;
const WORKERS: u32 = 8;

type Talk = fn(std::io::Result<TcpStream>) -> std::io::Result<()>;

fn connect_from(from: IpAddr, to: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = Socket::new(Domain::IPV4, Type::STREAM, None)?;
    socket.bind(&SocketAddr::new(from, 0).into())?;
    socket.connect_timeout(&to.into(), PATIENCE)?;
    socket.set_read_timeout(Some(PATIENCE))?;
    Ok(socket.into())
}

/// The counter of the pod's network stack.
fn counter(world: &World, name: &str) -> u64 {
    let table = world.pod.run("cat /proc/self/net/netstat");
    let lines: Vec<Vec<&str>> = table.lines().map(|line| line.split(' ').collect()).collect();
    let (at, line) = lines
        .iter()
        .enumerate()
        .find_map(|(line, names)| Some((names.iter().position(|own| *own == name)?, line + 1)))
        .unwrap();
    lines[line][at].parse().unwrap()
}

/// A way to the application.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Direct,
    Redirected,
    Forwarded,
}

/// Makes new connections to an application in a world of their own: connection tracking keeps each for a
/// while, and its table is bounded. Returns how many.
fn measured(world: &World, (way, talk): (Way, Talk), time: Duration) -> usize {
    for client in 0..CLIENTS {
        world.client.run(&format!("ip address add {}/24 dev eth0", v4(100 + client)));
    }
    let to = SocketAddr::new(POD[0], 8080);
    let (_sidecar, to) = match way {
        Way::Direct => (None, to),
        Way::Redirected => {
            assert!(world.redirect("").status.success());
            (Some(Sidecar::start(world)), to)
        }
        Way::Forwarded => {
            let application = SocketAddr::from(([127, 0, 0, 1], 8080));
            (Some(Sidecar::forwarding(world, application)), SocketAddr::new(POD[0], 4143))
        }
    };
    application(&world.pod, 8080);
    let (done, failed) = load(world, to, talk, time);
    assert!(failed.is_empty(), "{way:?}: {} of {done}: {:?}", failed.len(), failed[0]);
    assert_eq!(counter(world, "TCPTimeWaitOverflow"), 0);
    assert_eq!(untracked(world), Vec::<String>::new());
    done
}

/// The counters of connections that found no place in the pod's table of connection tracking.
fn untracked(world: &World) -> Vec<String> {
    let table = world.pod.run("conntrack -S");
    let words = table.split_whitespace();
    let lost = ["drop=", "early_drop=", "insert_failed="];
    words
        .filter(|word| lost.iter().any(|name| word.starts_with(name)) && !word.ends_with("=0"))
        .map(str::to_owned)
        .collect()
}

/// A redirected connection has an entry of its own, and one of the connection to the application.
#[test]
fn connection_tracking_forgets_ended_connections_within_seconds() {
    let Some(world) = world_or_skip() else { return };
    assert!(world.redirect("--mode nft").status.success());
    let _sidecar = Sidecar::start(&world);
    application(&world.pod, 8080);
    for (pod, family) in POD.into_iter().zip(["ipv4", "ipv6"]) {
        world.client.inside(|| talk(connect(SocketAddr::new(pod, 8080)))).unwrap();
        let listed = || world.pod.run(&format!("conntrack -L -f {family}"));
        let ended = || -> Vec<u64> {
            let listed = listed();
            let lines = listed.lines().filter(|line| line.contains(" TIME_WAIT "));
            lines.map(|line| line.split_whitespace().nth(2).unwrap().parse().unwrap()).collect()
        };
        policy_testkit::wait_until_blocking("both connections have ended", || ended().len() == 2);
        assert!(ended().iter().all(|seconds| *seconds <= 10), "{}", listed());
    }
}

/// The rates are printed beside those without a sidecar.
#[test]
fn new_connections_go_on_as_fast_as_the_machine_makes_them() {
    let seconds = std::env::var("PORTCULLIS_LONG_CONNECTIONS").ok();
    let time =
        Duration::from_secs(seconds.as_deref().map_or(5, |seconds| seconds.parse().unwrap()));
    for (name, talk) in [("bytes", talk as Talk), ("HTTP/1", ask)] {
        for way in [Way::Direct, Way::Redirected, Way::Forwarded] {
            let Some(world) = world_or_skip() else { return };
            if seconds.is_none() && way != Way::Direct {
                // Few enough to be used up in this time.
                ports(&world, 500);
            }
            let done = measured(&world, (way, talk), time);
            let rate = done as u64 / time.as_secs();
            // More than the ports are that were left, and than the usual 28,000 bear for a minute.
            let least = if seconds.is_none() {
                600
            } else {
                470 * usize::try_from(time.as_secs()).unwrap()
            };
            assert!(way == Way::Direct || done > least, "{name}, {way:?}: {done}");
            println!("{name}, {way:?}: {rate} new connections a second of {RATE} asked for");
        }
    }
}
