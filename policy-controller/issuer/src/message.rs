//! Messages of clients that have proved nothing yet: who may send one, and the room and the time that
//! it has.

use bytes::{Bytes, BytesMut};
use http::Request;
use http_body::Body;
use http_body_util::{BodyExt, Full};
use policy_server::{
    CapacityBounds, Limit, Peer, Rate, RevocationOrder, Share, SharedCapacity, WorkGuard,
    head_bytes,
};
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};
use tonic::Status;

/// Maximum size of a message: a token, a CSR and a name.
pub(super) const MAX_MESSAGE: usize = 32 * 1024;

/// Size of what gRPC puts before a message.
const PREFIX: usize = 5;

/// Time in which a message has to arrive.
const MAX_TIME: Duration = Duration::from_secs(3);

/// Room for all messages that have not been answered, and the maximum of one address.
const ROOM: CapacityBounds = CapacityBounds {
    total: 4 * 1024 * 1024,
    per_client: 512 * 1024,
    first: RevocationOrder::LeastRecentlyUsed,
};

/// Room that a request takes before its first byte, at least: its headers, and the state of its stream.
const REQUEST: u64 = 4 * 1024;

/// The connection of a request.
#[derive(Clone, Debug)]
pub(super) struct ClientConnection {
    /// The client's address.
    pub(super) address: IpAddr,
    share: Arc<Share>,
}

impl ClientConnection {
    pub(super) fn new(address: IpAddr, share: Arc<Share>) -> Self {
        Self { address: policy_core::fold_mapped(address), share }
    }

    /// Keeps the connection while its request is worked on.
    pub(super) fn at_work(&self) -> WorkGuard<'_> {
        self.share.at_work()
    }
}

/// Error of a message that is not read to its end.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum MessageError {
    #[error("too many requests from {0}; try again in a second")]
    TooMany(IpAddr),
    #[error("the message has more than {MAX_MESSAGE} bytes")]
    TooLarge,
    #[error("the message did not arrive within {} s", MAX_TIME.as_secs())]
    Slow,
    #[error("the message ended early")]
    Incomplete,
    #[error("too many messages are being sent, most of them by this client; try again in a second")]
    NoRoom,
}

impl MessageError {
    /// Returns the reason as a metric label.
    pub(super) fn label(&self) -> &'static str {
        match self {
            Self::TooMany(_) => "too_many",
            Self::TooLarge => "too_large",
            Self::Slow => "slow",
            Self::Incomplete => "incomplete",
            Self::NoRoom => "no_room",
        }
    }

    /// Returns the status of the answer.
    pub(super) fn status(&self) -> Status {
        let text = self.to_string();
        match self {
            Self::TooMany(_) | Self::NoRoom => Status::resource_exhausted(text),
            Self::TooLarge => Status::out_of_range(text),
            Self::Slow => Status::deadline_exceeded(text),
            Self::Incomplete => Status::cancelled(text),
        }
    }
}

/// Reads messages within the bounds of each client and of all.
#[derive(Debug)]
pub(super) struct Messages {
    limit: Limit<IpAddr>,
    room: SharedCapacity,
    time: Duration,
}

impl Messages {
    /// Allows each address requests at this rate.
    pub(super) fn new(rate: Rate) -> Self {
        let limit = Limit::new(rate).forgetting();
        Self { limit, room: SharedCapacity::new(ROOM), time: MAX_TIME }
    }

    /// Returns the room that is taken.
    #[cfg(test)]
    pub(super) fn held(&self) -> u64 {
        self.room.held()
    }

    /// Reads the message of a request. The share is its room until the request is answered.
    ///
    /// # Errors
    /// [`MessageError`]. The rate is looked at before anything is read.
    pub(super) async fn receive<B>(
        &self,
        from: &ClientConnection,
        request: Request<B>,
    ) -> Result<(Request<Full<Bytes>>, Share), MessageError>
    where
        B: Body<Data = Bytes> + Unpin,
    {
        let _in_use = from.share.in_use();
        if !self.limit.take(&from.address, Instant::now()) {
            return Err(MessageError::TooMany(from.address));
        }
        let peer = Peer::at(from.address);
        let head = REQUEST.max(head_bytes(&request));
        let share = self.room.take(&peer, head).map_err(|_| MessageError::NoRoom)?;
        let (head, body) = request.into_parts();
        let reading = tokio::time::timeout(self.time, read(body, &share));
        let message = tokio::select! {
            message = reading => message.map_err(|_| MessageError::Slow)??,
            () = share.revoked() => return Err(MessageError::NoRoom),
        };
        Ok((Request::from_parts(head, Full::new(message)), share))
    }
}

/// Reads a body into the room of `share`.
async fn read<B>(mut body: B, share: &Share) -> Result<Bytes, MessageError>
where
    B: Body<Data = Bytes> + Unpin,
{
    let mut message = BytesMut::new();
    while let Some(frame) = body.frame().await {
        // Trailers are ignored.
        let Ok(data) = frame.map_err(|_| MessageError::Incomplete)?.into_data() else { continue };
        if message.len().saturating_add(data.len()) > MAX_MESSAGE.saturating_add(PREFIX) {
            return Err(MessageError::TooLarge);
        }
        let more = u64::try_from(data.len()).unwrap_or(u64::MAX);
        share.grow(more).map_err(|_| MessageError::NoRoom)?;
        message.extend_from_slice(&data);
    }
    Ok(message.freeze())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn connection(address: &str) -> ClientConnection {
        let first = RevocationOrder::LeastRecentlyUsed;
        let room = SharedCapacity::new(CapacityBounds { total: 1, per_client: 1, first });
        let address: IpAddr = address.parse().unwrap();
        ClientConnection::new(address, Arc::new(room.take(&Peer::at(address), 1).unwrap()))
    }

    #[tokio::test]
    async fn a_pod_over_its_rate_holds_no_neighbour_of_its_network_up() {
        let messages = Messages::new(Rate { per_second: 1, burst: 2 });
        let ask = async |address: &str| {
            let request = Request::new(Full::new(Bytes::from_static(b"a")));
            messages.receive(&connection(address), request).await.map(|_| ())
        };
        for address in ["2001:db8::5", "10.0.0.5"] {
            let answers = [ask(address).await, ask(address).await, ask(address).await];
            let too_many = MessageError::TooMany(address.parse().unwrap());
            assert_eq!(answers, [Ok(()), Ok(()), Err(too_many)]);
        }
        for neighbour in ["2001:db8::6", "10.0.0.6"] {
            assert_eq!(ask(neighbour).await, Ok(()));
        }
    }

    #[tokio::test]
    async fn a_message_is_bounded_and_its_room_is_given_back() {
        let messages = Messages::new(Rate { per_second: 100, burst: 100 });
        let from = connection("10.0.0.5");
        let of = |size: usize| Request::new(Full::new(Bytes::from(vec![0; size])));
        let longest = PREFIX + MAX_MESSAGE;
        let (request, held) = messages.receive(&from, of(longest)).await.unwrap();
        assert_eq!(request.body().size_hint().exact(), Some(longest as u64));
        assert_eq!(messages.held(), REQUEST + longest as u64);
        let too_large = messages.receive(&from, of(longest + 1)).await.map(|_| ());
        assert_eq!(too_large, Err(MessageError::TooLarge));
        drop(held);
        assert_eq!(messages.held(), 0);
    }
}
