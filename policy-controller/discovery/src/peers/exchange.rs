//! Streams reports of what the clients of one replica have in force.

use super::connect::Connector;
use super::definition::Replica;
use crate::serve::{InForce, WorkloadPort};
use policy_core::{ObjectRef, WorkloadKey, WorkloadKind};
use policy_engine::unsent::Unsent;
use policy_proto::messages::policy_report_client::PolicyReportClient;
use policy_proto::messages::{InForceRequest, InForceUpdate, ObjectUnsent, PortInForce, PortKey};
use policy_tls::control::Backoff;
use std::hash::{BuildHasher, RandomState};
use std::num::NonZeroU16;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tokio::sync::mpsc;

/// The delays between attempts.
const BACKOFF: (Duration, Duration) = (Duration::from_millis(100), Duration::from_secs(3));

/// Largest message accepted.
const MAX_MESSAGE: usize = 8 << 20;

/// An event of the stream from a replica.
#[derive(Debug)]
pub(crate) enum PeerEvent {
    /// A message.
    Report(PeerReport),
    /// The stream ended. The next message is the first of a new one.
    Disconnected,
}

/// One message.
#[derive(Debug, Default)]
pub(crate) struct PeerReport {
    /// Name of the replica.
    pub(crate) replica: String,
    /// Ports with a policy in force.
    pub(crate) set: Vec<(WorkloadPort, InForce)>,
    /// Ports without a client from now on.
    pub(crate) gone: Vec<WorkloadPort>,
    /// Parts of objects that its clients are not sent, for the objects where that changed; empty:
    /// everything is sent.
    pub(crate) unsent: Vec<(ObjectRef, Unsent)>,
    /// True if the next message follows at once.
    pub(crate) more: bool,
}

/// Follows the reports of `replica` until the receiver is dropped. Reconnects when a stream fails or
/// is silent for `silence`.
pub(crate) async fn watch_peer(
    replica: Replica,
    own_name: Arc<str>,
    connector: Connector,
    silence: Duration,
    events: mpsc::Sender<PeerEvent>,
) {
    let mut backoff = Backoff::new(BACKOFF.0, BACKOFF.1);
    loop {
        let began = Instant::now();
        let lost = match listen(&replica, &own_name, &connector, silence, &events).await {
            Ok(()) => return,
            Err(lost) => lost,
        };
        backoff.settle(began.elapsed());
        tracing::debug!(%replica, %lost, "stream of reports from a replica failed, reconnecting");
        if events.send(PeerEvent::Disconnected).await.is_err() {
            return;
        }
        let delay = backoff.delay(RandomState::new().hash_one(began));
        tokio::select! {
            () = tokio::time::sleep(delay) => {}
            () = events.closed() => return,
        }
    }
}

/// Reads one stream. Returns `Ok` when the receiver has been dropped.
async fn listen(
    replica: &Replica,
    own_name: &Arc<str>,
    connector: &Connector,
    silence: Duration,
    events: &mpsc::Sender<PeerEvent>,
) -> Result<(), String> {
    let opening = async {
        let channel = connector.connect(replica.address).await.map_err(|error| chain(&error))?;
        let mut client = PolicyReportClient::new(channel).max_decoding_message_size(MAX_MESSAGE);
        let request = InForceRequest { replica: own_name.to_string() };
        let opened = client.in_force(request).await;
        opened.map(tonic::Response::into_inner).map_err(|status| chain(&status))
    };
    let silent = |_| format!("no message for {silence:?}");
    let mut stream = tokio::time::timeout(silence, opening).await.map_err(silent)??;
    loop {
        let message = tokio::select! {
            message = tokio::time::timeout(silence, stream.message()) => message,
            () = events.closed() => return Ok(()),
        };
        let update = message.map_err(silent)?.map_err(|status| chain(&status))?;
        let update = update.ok_or("the replica ended the stream")?;
        if events.send(PeerEvent::Report(decode(update)?)).await.is_err() {
            return Ok(());
        }
    }
}

fn decode(update: InForceUpdate) -> Result<PeerReport, String> {
    let now = Instant::now();
    let InForceUpdate { set, gone, replica, more, unsent } = update;
    let set = set.into_iter().map(|port| decode_port(port, now)).collect::<Result<_, _>>()?;
    let gone = gone.into_iter().map(decode_key).collect::<Result<_, _>>()?;
    let unsent = unsent.into_iter().map(decode_unsent).collect();
    Ok(PeerReport { replica, set, gone, unsent, more })
}

fn decode_unsent(unsent: ObjectUnsent) -> (ObjectRef, Unsent) {
    let ObjectUnsent { group, kind, namespace, name, denied, left_out } = unsent;
    let words = |words: Vec<String>| words.into_iter().map(Arc::from).collect();
    let unsent = Unsent { denied: words(denied), left_out: words(left_out) };
    (ObjectRef::new(&group, &kind, &namespace, &name), unsent)
}

fn decode_port(port: PortInForce, now: Instant) -> Result<(WorkloadPort, InForce), String> {
    let PortInForce { key, content, refused, age_ms } = port;
    let at = decode_key(key.ok_or("set: a port without a key")?)?;
    let since = now.checked_sub(Duration::from_millis(age_ms.into())).unwrap_or(now);
    let refused = Some(refused).filter(|reason| !reason.is_empty()).map(Arc::from);
    Ok((at, InForce { content, refused, since }))
}

fn decode_key(key: PortKey) -> Result<WorkloadPort, String> {
    let PortKey { namespace, workload, external, port } = key;
    let number = u16::try_from(port).ok().and_then(NonZeroU16::new);
    let number = number.ok_or_else(|| format!("key.port: `{port}` is not from 1 to 65535"))?;
    let key = WorkloadKey {
        namespace: namespace.into(),
        kind: if external { WorkloadKind::ExternalWorkload } else { WorkloadKind::Pod },
        name: workload.into(),
    };
    Ok((key, number))
}

/// An error and its causes, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        text.push_str(": ");
        text.push_str(&error.to_string());
        cause = error.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_port_is_refused_by_name() {
        let update = |port| InForceUpdate {
            gone: vec![PortKey { port, ..PortKey::default() }],
            ..InForceUpdate::default()
        };
        assert!(decode(update(80)).is_ok());
        for port in [0, 65536] {
            let refused = decode(update(port)).unwrap_err();
            assert_eq!(refused, format!("key.port: `{port}` is not from 1 to 65535"));
        }
        let update = InForceUpdate { set: vec![PortInForce::default()], ..Default::default() };
        assert_eq!(decode(update).unwrap_err(), "set: a port without a key");
    }

    #[test]
    fn the_time_since_is_counted_from_its_age() {
        let key = PortKey { workload: "web".into(), port: 80, ..PortKey::default() };
        let port = PortInForce { key: Some(key), content: 7, refused: String::new(), age_ms: 250 };
        let now = Instant::now();
        let (at, in_force) = decode_port(port, now).unwrap();
        assert_eq!(at, (WorkloadKey::pod("", "web"), NonZeroU16::new(80).unwrap()));
        let since = now.checked_sub(Duration::from_millis(250)).unwrap();
        assert_eq!(in_force, InForce { content: 7, refused: None, since });
    }
}
