//! The client of `DestinationDiscovery`: what the table wants is looked up, and answered to it.
//!
//! One stream has all lookups. A lookup whose answer cannot be read, or that the server refuses, is
//! made again after a while; the others go on. An answer that cannot be read changes nothing but that
//! the one before it is not confirmed any more.

mod lookups;

use super::settings::DiscoverConfig;
use super::stream_end::{StreamEnd, TARGET};
use crate::outbound::table::Demand;
use lookups::Lookups;
use policy_proto::messages::destination_discovery_client::DestinationDiscoveryClient;
use policy_proto::messages::destination_request::Kind;
use policy_proto::messages::{self as m};
use policy_tls::control::random;
use std::convert::Infallible;
use std::time::Duration;
use tokio::sync::mpsc;
use tokio::time::{Instant, sleep_until, timeout};
use tokio_stream::wrappers::ReceiverStream;
use tonic::Streaming;
use tonic::transport::Channel;

/// Time for an answer to a lookup. A server that takes longer does not work.
const ANSWER_TIMEOUT: Duration = Duration::from_secs(30);

/// Follows what the table wants. Streams that end are opened again. It is the policy stream that
/// notices the loss of the connection, or ends it.
pub(super) async fn follow(config: &DiscoverConfig, channel: Channel) -> Infallible {
    let Some(table) = &config.destinations else { return std::future::pending().await };
    let mut backoff = config.new_backoff();
    loop {
        let begun = Instant::now();
        let outcome = stream(config, &**table, channel.clone()).await;
        let ended = outcome.err().unwrap_or(StreamEnd::Closed);
        table.lose_all();
        backoff.settle(begun.elapsed());
        // A server of another version stays what it is.
        let is_slow = ended.is_permanent() || ended.is_unimplemented();
        let delay = if is_slow { backoff.slow(random()) } else { backoff.delay(random()) };
        tracing::warn!(
            target: TARGET, controller = %config.controller, reason = %ended, ?delay,
            "stream of destinations ended, retrying"
        );
        tokio::time::sleep(delay).await;
    }
}

async fn stream(
    config: &DiscoverConfig,
    table: &dyn Demand,
    channel: Channel,
) -> Result<(), StreamEnd> {
    let mut service =
        DestinationDiscoveryClient::new(channel).max_decoding_message_size(config.max_message);
    let (outbound, requests) = mpsc::channel(16);
    let begin = m::Begin {
        workload: config.workload.to_string(),
        client: concat!("policy-proxy/", env!("CARGO_PKG_VERSION")).to_owned(),
    };
    let begin = m::DestinationRequest { kind: Some(Kind::Begin(begin)) };
    outbound.try_send(begin).map_err(|_| StreamEnd::Closed)?;
    let opened = timeout(ANSWER_TIMEOUT, service.watch(ReceiverStream::new(requests))).await;
    let inbound = opened.map_err(|_| StreamEnd::InitialTimeout(ANSWER_TIMEOUT))??.into_inner();
    exchange(table, inbound, outbound).await
}

async fn exchange(
    table: &dyn Demand,
    mut inbound: Streaming<m::DestinationResponse>,
    outbound: mpsc::Sender<m::DestinationRequest>,
) -> Result<(), StreamEnd> {
    let mut lookups = Lookups::new(table);
    let mut demand = table.demand();
    lookups.sync()?;
    loop {
        // What is wanted is looked at once what was asked has been sent, and not too often.
        let (is_sent, pause, retry) =
            (!lookups.has_request(), lookups.next_sync(), lookups.retry());
        let overdue = lookups.oldest().and_then(|since| since.checked_add(ANSWER_TIMEOUT));
        tokio::select! {
            message = inbound.message() => {
                lookups.handle(message?.ok_or(StreamEnd::Closed)?)?;
            }
            room = outbound.reserve(), if !is_sent => {
                let room = room.map_err(|_| StreamEnd::Closed)?;
                room.send(m::DestinationRequest { kind: lookups.next_request() });
            }
            changed = async { sleep_until(pause).await; demand.changed().await }, if is_sent => {
                changed.map_err(|_| StreamEnd::Closed)?;
                lookups.sync()?;
            }
            () = until(retry), if is_sent => lookups.sync()?,
            () = until(overdue) => return Err(StreamEnd::InitialTimeout(ANSWER_TIMEOUT)),
        }
    }
}

async fn until(at: Option<Instant>) {
    match at {
        Some(at) => sleep_until(at).await,
        None => std::future::pending().await,
    }
}
