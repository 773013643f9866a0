//! HTTP/2 streams when a client's connection ends.

use crate::support::*;
use bytes::Bytes;
use http::Request;
use std::time::{Duration, Instant};

#[tokio::test]
async fn what_a_client_has_sent_in_full_arrives_though_it_left_with_its_early_answer() {
    let app = App::start().await;
    let setup = Setup::new(server(detect(), everybody()), app.address).await;
    for n in 1..=20 {
        let (mut sender, connection) = h2::client::handshake(setup.connect().await).await.unwrap();
        let driver = tokio::spawn(connection);
        let request = Request::post("http://web.example/early").body(()).unwrap();
        let (answer, mut upload) = sender.send_request(request, false).unwrap();
        upload.send_data(Bytes::from_static(b"some"), false).unwrap();
        let mut answer = answer.await.unwrap().into_body();
        while answer.data().await.transpose().unwrap().is_some() {}
        upload.send_data(Bytes::from(vec![0; 20_000]), true).unwrap();
        drop((answer, upload, sender));
        let _ = driver.await;
        let begun = Instant::now();
        while app.swallowed() < n * 20_004 {
            assert!(begun.elapsed().as_secs() < 60, "{} bytes of {n} requests", app.swallowed());
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    }
    // No connection stays open.
    setup.counted("tcp_open_connections{direction=\"inbound\",peer=\"src\"", 0).await;
    setup.counted("tcp_open_connections{direction=\"inbound\",peer=\"dst\"", 0).await;
}
