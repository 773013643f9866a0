//! Shares of the admin port's connections.

use super::*;

#[tokio::test]
async fn strangers_who_hold_connections_do_not_keep_the_nodes_probes_waiting() {
    let admin = admin(MetricsAccess::Policy, false);
    apply(&admin, usual());
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let held: Vec<_> = (0..64).map(|n| admin.room_for([10, 1, n, 1].into()).unwrap()).collect();
    let _in_use: Vec<_> = held.iter().map(|share| share.at_work()).collect();
    let (stranger, _other) = tokio::io::duplex(64);
    let refused = admin.serve_connection(stranger, plain("10.1.2.3")).await.unwrap_err();
    assert_eq!(refused.to_string(), "too many connections to the admin port");
    assert!(admin.is_pod_or_node("10.9.0.1".parse().unwrap()), "the node");
    let serving = tokio::spawn(admin.clone().serve(listener));
    let mut near = TcpStream::connect(address).await.unwrap();
    near.write_all(b"GET /live HTTP/1.1\r\nhost: x\r\nconnection: close\r\n\r\n").await.unwrap();
    let mut answer = String::new();
    timeout(Duration::from_secs(60), near.read_to_string(&mut answer)).await.unwrap().unwrap();
    assert!(answer.starts_with("HTTP/1.1 200 OK") && answer.ends_with("live\n"), "{answer}");
    serving.abort();
}

/// A stranger's connections, with and without a request, in the place of a scraper's.
#[tokio::test]
async fn a_stranger_who_holds_every_connection_of_the_admin_port_makes_room_for_a_scraper() {
    let admin = admin(MetricsAccess::All, false);
    apply(&admin, usual());
    let open = |client: String| {
        let (mut stream, server) = tokio::io::duplex(1024);
        let admin = admin.clone();
        let served = async move { admin.serve_connection(server, plain(&client)).await };
        let served = tokio::spawn(served);
        async move {
            stream.write_all(b"GET /metrics HTTP/1.1\r\nhost: x\r\n\r\n").await.unwrap();
            let mut answer = [0; 12];
            let read = timeout(Duration::from_secs(60), stream.read_exact(&mut answer)).await;
            (read.unwrap().map(|_| answer), stream, served)
        }
    };
    let mut held = Vec::new();
    for number in 0..200 {
        // Four addresses of one network, of which each may have sixteen.
        held.push(open(format!("10.1.2.{}", number % 4)).await);
    }
    assert!(held.iter().all(|(answer, ..)| answer.as_ref().is_ok_and(|a| a == b"HTTP/1.1 200")));
    let ended = || held.iter().filter(|(_, _, served)| served.is_finished()).count();
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ended(), 200 - 64, "each has its share and no more");
    let (answer, ..) = open("10.7.0.1".to_owned()).await;
    assert_eq!(&answer.unwrap(), b"HTTP/1.1 200");
    for _ in 0..100 {
        tokio::task::yield_now().await;
    }
    assert_eq!(ended(), 200 - 63, "one made room");
}
