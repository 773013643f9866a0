//! Many short connections to one port of the application, through the real sidecar.
//! `PORTCULLIS_LONG_CONNECTIONS` has the seconds for which they go on (`.ci/long`).

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
    drop(open);
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

/// Makes new connections for a while, from many addresses in turn; returns how many, and those that
/// failed.
fn load(world: &World, to: SocketAddr, talk: Talk, time: Duration) -> (usize, Vec<std::io::Error>) {
    let until = Instant::now() + time;
    let work = |worker: u8| {
        let (mut done, mut failed) = (0, Vec::new());
        while Instant::now() < until {
            let client = (done + usize::from(worker)) % usize::from(CLIENTS);
            let from = v4(100 + u8::try_from(client).unwrap());
            match talk(connect_from(from, to)) {
                Ok(()) => done += 1,
                Err(error) => failed.push(error),
            }
        }
        (done, failed)
    };
    let all: Vec<_> = world.client.inside(|| {
        // Threads stay in the namespace of the one that begins them.
        std::thread::scope(|scope| {
            let workers: Vec<_> =
                (0..4).map(|worker| scope.spawn(move || work(worker * 15))).collect();
            workers.into_iter().map(|worker| worker.join().unwrap()).collect()
        })
    });
    all.into_iter().fold((0, Vec::new()), |(done, mut failed), (more, others)| {
        failed.extend(others);
        (done + more, failed)
    })
}

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

/// The rates are printed beside those without a sidecar.
#[test]
fn new_connections_go_on_as_fast_as_the_machine_makes_them() {
    let Some(world) = world_or_skip() else { return };
    assert!(world.redirect("--skip-inbound-ports 8081").status.success());
    let seconds = std::env::var("PORTCULLIS_LONG_CONNECTIONS").ok();
    let time =
        Duration::from_secs(seconds.as_deref().map_or(5, |seconds| seconds.parse().unwrap()));
    if seconds.is_none() {
        // Few enough to be used up in this time.
        ports(&world, 500);
    }
    for client in 0..CLIENTS {
        world.client.run(&format!("ip address add {}/24 dev eth0", v4(100 + client)));
    }
    let _sidecar = Sidecar::start(&world);
    application(&world.pod, 8080);
    application(&world.pod, 8081);
    for (name, talk) in [("bytes", talk as Talk), ("HTTP/1", ask)] {
        let mut rates = [0, 0];
        for (rate, port) in rates.iter_mut().zip([8081, 8080]) {
            let (done, failed) = load(&world, SocketAddr::new(POD[0], port), talk, time);
            assert!(
                failed.is_empty(),
                "{name}, {port}: {} of {done}: {:?}",
                failed.len(),
                failed[0]
            );
            *rate = done as u64 / time.as_secs();
            assert!(port == 8081 || done > 600, "{name}: {done}");
        }
        println!(
            "{name}: {} new connections a second directly, {} through the sidecar",
            rates[0], rates[1]
        );
    }
    assert_eq!(counter(&world, "TCPTimeWaitOverflow"), 0);
}
