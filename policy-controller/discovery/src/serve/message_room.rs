//! Room for messages that have not come whole, and for heads of requests that wait. The windows of HTTP/2
//! bound what nobody has read; what is read of a message that lacks its end lies in memory beside them.
//! tonic keeps the memory of a stream's largest message until the stream ends, so that it counts until then.

use super::metrics::ServeMetrics;
use crate::serve::status_reason::{StatusReason, WithReason as _};
use bytes::Bytes;
use http_body::{Body as HttpBody, Frame};
use http_body_util::BodyExt as _;
use policy_server::{CapacityBounds, Peer, RevocationOrder, Share, SharedCapacity};
use std::error::Error;
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use tokio_util::sync::WaitForCancellationFutureOwned;
use tonic::Status;
use tonic::body::Body;

type BoxError = Box<dyn Error + Send + Sync>;

/// Bytes of messages, as their streams hold memory for them, and of heads, of one client and in all. With what its connections hold
/// unread (8 MiB) and their own state, a client has 24 MiB at most (`tests/held.rs`).
const ROOM: CapacityBounds = CapacityBounds {
    total: 64 * 1024 * 1024,
    per_client: 4 * 1024 * 1024,
    first: RevocationOrder::Newest,
};

/// The room of all clients.
#[derive(Clone, Debug)]
pub(crate) struct MessageRoom {
    room: SharedCapacity,
    metrics: ServeMetrics,
}

impl MessageRoom {
    pub(crate) fn new(metrics: ServeMetrics) -> Self {
        Self { room: SharedCapacity::new(ROOM), metrics }
    }

    /// Returns a body whose messages count for a client: what has come of one, and the largest one until the
    /// body is dropped, unless it is small. It ends with `RESOURCE_EXHAUSTED`
    /// where there is no room.
    pub(crate) fn body<B>(&self, body: B, peer: &Peer) -> Body
    where
        B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Send + Unpin + 'static,
    {
        let (room, peer) = (self.clone(), peer.clone());
        let (message, held, rest) = (MessageMeter::default(), None, None);
        Body::new(RoomedBody { body, room, peer, message, held, rest }.map_err(|status| status))
    }

    /// Answers a request while its head, of so many bytes, counts for its client.
    ///
    /// # Errors
    /// `RESOURCE_EXHAUSTED` where there is no room, and what `answering` returns.
    pub(crate) async fn with_head<T>(
        &self,
        peer: &Peer,
        bytes: u64,
        answering: impl Future<Output = Result<T, Status>>,
    ) -> Result<T, Status> {
        let share = self.room.take(peer, bytes).map_err(|_| self.refusal())?;
        tokio::select! {
            answered = answering => answered,
            () = share.revoked() => Err(self.refusal()),
        }
    }

    fn refusal(&self) -> Status {
        self.metrics.refused_message();
        Status::resource_exhausted(
            "too many bytes of headers of requests that wait, of messages that have not come whole, or of \
             large messages of open streams, most of them of this client",
        )
        .because(StatusReason::UnfinishedMessages)
    }

    #[cfg(test)]
    pub(crate) fn held(&self) -> u64 {
        self.room.held()
    }
}

struct RoomedBody<B> {
    body: B,
    room: MessageRoom,
    peer: Peer,
    message: MessageMeter,
    held: Option<HeldMessage>,
    /// The bytes of an unfinished message that came with its prefix.
    rest: Option<Bytes>,
}

/// The room of the message that has not come whole, or of the largest one.
struct HeldMessage {
    share: Share,
    bytes: u64,
    revoked: Pin<Box<WaitForCancellationFutureOwned>>,
}

impl<B> RoomedBody<B> {
    /// Counts what has come.
    fn count(&mut self, data: &[u8]) -> Result<(), Status> {
        self.message.push(data);
        let bytes = self.message.kept();
        if bytes == 0 {
            self.held = None;
            return Ok(());
        }
        // Fewer: of the next message.
        let same = self.held.take_if(|held| held.bytes <= bytes);
        let counted = match same {
            Some(held) => {
                let more = bytes.saturating_sub(held.bytes);
                held.share.grow(more).map(|()| HeldMessage { bytes, ..held })
            }
            None => self.room.room.take(&self.peer, bytes).map(|share| {
                let revoked = Box::pin(share.token().cancelled_owned());
                HeldMessage { share, bytes, revoked }
            }),
        };
        self.held = Some(counted.map_err(|_| self.room.refusal())?);
        Ok(())
    }

    /// Keeps back what has come of an unfinished message behind its prefix. tonic reserves the length of a
    /// message beyond what it has when it reads the prefix: for one that has nearly come whole, twice.
    fn without_rest(&mut self, mut data: Bytes) -> Bytes {
        let come = usize::try_from(self.message.come).unwrap_or(usize::MAX);
        // 0 at an end, and in the middle of a message, of which more has come than this.
        if let Some(at @ 1..) = data.len().checked_sub(come)
            && come > 0
        {
            self.rest = Some(data.split_off(at));
        }
        data
    }
}

impl<B> HttpBody for RoomedBody<B>
where
    B: HttpBody<Data = Bytes, Error: Into<BoxError>> + Unpin,
{
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        let this = self.get_mut();
        if let Some(held) = &mut this.held
            && held.revoked.as_mut().poll(cx).is_ready()
        {
            this.held = None;
            return Poll::Ready(Some(Err(this.room.refusal())));
        }
        if let Some(rest) = this.rest.take() {
            return Poll::Ready(Some(Ok(Frame::data(rest))));
        }
        let frame = match ready!(Pin::new(&mut this.body).poll_frame(cx)) {
            Some(Ok(frame)) => frame,
            Some(Err(error)) => return Poll::Ready(Some(Err(Status::from_error(error.into())))),
            None => return Poll::Ready(None),
        };
        let counted = match frame.into_data() {
            Ok(data) => this.count(&data).map(|()| Frame::data(this.without_rest(data))),
            Err(other) => Ok(other),
        };
        Poll::Ready(Some(counted))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_none() && self.body.is_end_stream()
    }
}

/// Length of what gRPC puts before a message: a flag and the length of the message.
const PREFIX: usize = 5;

/// Length up to which a message does not count once it has come whole. The first message of a sidecar's
/// stream has fewer bytes.
const SMALL: u64 = 1024;

/// The place within a stream of messages.
#[derive(Debug, Default)]
struct MessageMeter {
    prefix: [u8; PREFIX],
    /// Bytes of the prefix that have come.
    begun: usize,
    /// Bytes of the message that have come, and that are missing.
    come: u64,
    left: u64,
    /// Most bytes that have come of one message.
    largest: u64,
}

impl MessageMeter {
    fn push(&mut self, mut data: &[u8]) {
        while let Some((first, rest)) = data.split_first() {
            if self.left > 0 {
                let most = usize::try_from(self.left).unwrap_or(usize::MAX).min(data.len());
                data = data.get(most..).unwrap_or_default();
                let most = u64::try_from(most).unwrap_or(u64::MAX);
                self.left = self.left.saturating_sub(most);
                self.come = self.come.saturating_add(most);
                self.largest = self.largest.max(self.come);
            } else {
                if let Some(place) = self.prefix.get_mut(self.begun) {
                    *place = *first;
                }
                (self.begun, data) = (self.begun.saturating_add(1), rest);
                if self.begun == PREFIX {
                    let [_, a, b, c, d] = self.prefix;
                    self.left = u32::from_be_bytes([a, b, c, d]).into();
                }
            }
            if self.begun == PREFIX && self.left == 0 {
                (self.begun, self.come) = (0, 0);
            }
        }
    }

    /// The bytes of the message that has not come whole.
    fn held(&self) -> u64 {
        self.come.saturating_add(u64::try_from(self.begun).unwrap_or(u64::MAX))
    }

    /// The bytes that the stream has memory for.
    fn kept(&self) -> u64 {
        match self.largest {
            0..=SMALL => self.held(),
            largest => self.held().max(largest),
        }
    }
}

#[cfg(test)]
#[allow(clippy::arithmetic_side_effects, reason = "test numbers are small")]
mod tests {
    use super::*;
    use http_body_util::{Full, StreamBody};

    fn message(length: u32) -> Vec<u8> {
        let mut bytes = vec![0];
        bytes.extend(length.to_be_bytes());
        bytes.resize(PREFIX + length as usize, 7);
        bytes
    }

    #[test]
    fn what_is_held_is_what_has_come_of_the_last_message() {
        let mut whole = message(3);
        whole.extend(message(0));
        whole.extend(message(300));
        let ends = [8, 13, 318];
        for size in [1, 2, 3, 5, 7, 100, 400] {
            let (mut parsed, mut at) = (MessageMeter::default(), 0);
            for part in whole.chunks(size) {
                parsed.push(part);
                at += part.len();
                let begin = ends.iter().rev().find(|end| **end <= at).copied().unwrap_or(0);
                assert_eq!(parsed.held(), (at - begin) as u64, "{size} {at}");
            }
        }
    }

    fn client(last: u8) -> Peer {
        Peer::at([10, 0, 0, last].into())
    }

    /// A body that begins a message of 256 KiB and lacks its last byte.
    async fn unfinished(room: &MessageRoom, peer: &Peer) -> Result<Body, Status> {
        let mut bytes = message(256 * 1024);
        bytes.pop();
        let frames = [Ok::<_, BoxError>(Frame::data(Bytes::from(bytes)))];
        let never = futures_util::StreamExt::chain(
            futures_util::stream::iter(frames),
            futures_util::stream::pending(),
        );
        let mut body = room.body(StreamBody::new(never), peer);
        body.frame().await.unwrap().map(|_| body)
    }

    /// A body that has one message and does not end.
    async fn complete(room: &MessageRoom, peer: &Peer, length: u32) -> Result<Body, Status> {
        let frames = [Ok::<_, BoxError>(Frame::data(Bytes::from(message(length))))];
        let never = futures_util::StreamExt::chain(
            futures_util::stream::iter(frames),
            futures_util::stream::pending(),
        );
        let mut body = room.body(StreamBody::new(never), peer);
        body.frame().await.unwrap().map(|_| body)
    }

    #[tokio::test]
    async fn large_messages_that_have_come_whole_count_while_their_streams_last() {
        let room = MessageRoom::new(ServeMetrics::default());
        let mut held = Vec::new();
        for _ in 0..500 {
            held.push(complete(&room, &client(1), 1024).await.unwrap());
        }
        assert_eq!(room.held(), 0);
        for _ in 0..16 {
            held.push(complete(&room, &client(1), 256 * 1024).await.unwrap());
        }
        assert_eq!(room.held(), ROOM.per_client);
        let refused = complete(&room, &client(1), 256 * 1024).await.map(|_| ()).unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        drop(held);
        assert_eq!(room.held(), 0);
        assert!(complete(&room, &client(1), 256 * 1024).await.is_ok());
    }

    #[tokio::test]
    async fn a_head_that_is_refused_is_told_of_headers() {
        let room = MessageRoom::new(ServeMetrics::default());
        let answering = std::future::ready(Ok(()));
        let refused = room.with_head(&client(1), ROOM.total + 1, answering).await.unwrap_err();
        assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        assert!(refused.message().contains("headers of requests that wait"), "{refused:?}");
    }

    #[tokio::test]
    async fn who_leaves_messages_unfinished_exhausts_its_own_room_alone() {
        let metrics = ServeMetrics::default();
        let room = MessageRoom::new(metrics.clone());
        let mut held = Vec::new();
        // Less than 4 MiB.
        for _ in 0..15 {
            held.push(unfinished(&room, &client(1)).await.unwrap());
        }
        for _ in 0..10 {
            let refused = unfinished(&room, &client(1)).await.map(|_| ()).unwrap_err();
            assert_eq!(refused.code(), tonic::Code::ResourceExhausted);
        }
        // Many such clients have no more than all of them may, and another one is served.
        for last in 2..60 {
            for _ in 0..15 {
                held.extend(unfinished(&room, &client(last)).await.ok());
            }
        }
        assert!(room.held() <= ROOM.total);
        let body = Full::new(Bytes::from(message(1000)));
        let whole = room.body(body, &Peer::at([10, 9, 0, 1].into())).collect().await.unwrap();
        assert_eq!(whole.to_bytes().len(), 1005);
        let small = unfinished(&room, &Peer::at([10, 9, 0, 1].into())).await;
        assert!(small.is_ok());
        // Each body that had to give way ends with an error.
        let mut told = 0;
        for mut body in held {
            let next = tokio::time::timeout(std::time::Duration::ZERO, body.frame()).await;
            told += usize::from(matches!(next, Ok(Some(Err(_)))));
        }
        assert!(told > 0);
        drop(small);
        assert_eq!(room.held(), 0);
    }
}
