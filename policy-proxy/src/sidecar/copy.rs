//! Copies bytes in both directions with half-close. Buffers are small, grow under load, and go when
//! there is nothing to copy.

use super::first_line::{FirstLine, Verdict, WireProtocol};
use super::io::{ClientIo, Metered};
use super::reset::{self, Resettable};
use policy_http::backlog::{self, Backlog};
use std::future::poll_fn;
use std::io;
use std::mem::MaybeUninit;
use std::pin::{Pin, pin};
use std::task::{Context, Poll, ready};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::TcpStream;
use tokio::time::timeout;

/// Detection of HTTP in the client's first line while bytes are copied.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum HttpWatch {
    /// No detection.
    Off,
    /// Bytes are held back until they are ruled out as HTTP.
    Hold,
    /// Bytes are forwarded until they may become a request, except for the piece that makes the line HTTP.
    Observe,
}

/// Result of a finished copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum CopyEnd {
    /// Both sides have closed.
    Done,
    /// The client's first line is HTTP, which must not be forwarded as bytes.
    SpokeHttp,
    /// One side failed: it was reset, or its TLS ended without a closing message. What it sent before
    /// may still have to be delivered ([`CopyBidirectional::deliver`]).
    Broken,
    /// The connection had to end.
    Cut,
}

/// A copy between two streams, in both directions. Dropped before both sides have closed, it resets
/// both.
#[derive(Debug)]
pub(super) struct CopyBidirectional<C = Metered<ClientIo>, S = Metered<TcpStream>>
where
    C: Resettable,
    S: Resettable,
{
    client: C,
    server: S,
    up: Pipe,
    down: Pipe,
    /// The side that failed.
    broken: Option<Side>,
    /// True once both sides have closed.
    has_ended: bool,
}

/// The sides of a copy.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

/// The failure of one direction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Failure {
    Reader,
    Writer,
}

/// One direction: its buffer and state.
#[derive(Debug)]
struct Pipe {
    buffer: Vec<u8>,
    from: usize,
    to: usize,
    /// Bytes written since the reader was last idle.
    carried: usize,
    /// Bytes written in total.
    passed: u64,
    /// True if the writer may hold bytes that are not flushed.
    unflushed: bool,
    /// The first line, while HTTP is detected.
    line: Option<Box<FirstLine>>,
    /// True while bytes are held back until they are ruled out as HTTP.
    hold: bool,
    /// True if the writer is reset at the end instead of shut down.
    cut: bool,
    state: PipeState,
    /// The bytes that the writer does not take.
    backlog: Backlog,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PipeState {
    Open,
    /// The reader has closed; the writer is still to be shut down.
    Ending,
    Ended,
}

/// Result of one direction.
enum Step {
    Ended,
    SpokeHttp,
}

impl<C, S> CopyBidirectional<C, S>
where
    C: AsyncRead + AsyncWrite + Resettable + Unpin,
    S: AsyncRead + AsyncWrite + Resettable + Unpin,
{
    /// Copies between `client`, whose first line is inspected according to `watch`, and `server`.
    pub(super) fn new(client: C, server: S, watch: HttpWatch) -> Self {
        let (up, down) = (Pipe::new(watch), Pipe::new(HttpWatch::Off));
        Self { client, server, up, down, broken: None, has_ended: false }
    }

    /// True if bytes of the client wait to be taken by the server.
    pub(super) fn is_held_back(&self) -> bool {
        self.up.from < self.up.to
    }

    /// The server's side.
    pub(super) fn server(&self) -> &S {
        &self.server
    }

    /// Bytes forwarded from the client and to it.
    pub(super) fn passed(&self) -> (u64, u64) {
        (self.up.passed, self.down.passed)
    }

    /// Copies until it would block. Ready when both directions have closed, or one side has failed.
    pub(super) fn poll_copy(self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<CopyEnd> {
        let this = self.get_mut();
        let up = this.up.poll(cx, &mut this.client, &mut this.server);
        let down = this.down.poll(cx, &mut this.server, &mut this.client);
        // If both sides have failed, there is nobody to deliver to, and either counts.
        this.broken = match (&up, &down) {
            (Poll::Ready(Err(Failure::Reader)), _) | (_, Poll::Ready(Err(Failure::Writer))) => {
                Some(Side::Client)
            }
            (Poll::Ready(Err(Failure::Writer)), _) | (_, Poll::Ready(Err(Failure::Reader))) => {
                Some(Side::Server)
            }
            (_, _) => None,
        };
        match (up, down) {
            (Poll::Ready(Ok(Step::SpokeHttp)), _) => Poll::Ready(CopyEnd::SpokeHttp),
            _ if this.broken.is_some() => Poll::Ready(CopyEnd::Broken),
            (Poll::Ready(Ok(Step::Ended)), Poll::Ready(Ok(_))) => {
                this.has_ended = true;
                Poll::Ready(CopyEnd::Done)
            }
            (_, _) => Poll::Pending,
        }
    }

    /// Delivers to one side what the other sent before it failed, until the system of the former has
    /// all of it or takes nothing for [`reset::STUCK`], or the connection must end. Boxed, because it is
    /// rare.
    pub(super) fn deliver<'a>(
        &'a mut self,
        must_end: impl Fn(&Context<'_>) -> bool + 'a,
    ) -> Pin<Box<dyn Future<Output = CopyEnd> + 'a>> {
        Box::pin(async move {
            let mut delivering = pin!(self.deliver_rest());
            poll_fn(|cx| match must_end(cx) {
                true => Poll::Ready(CopyEnd::Cut),
                false => delivering.as_mut().poll(cx),
            })
            .await
        })
    }

    async fn deliver_rest(&mut self) -> CopyEnd {
        let (Some(broken), mut passed) = (self.broken, self.passed()) else {
            return CopyEnd::Broken;
        };
        loop {
            let step = poll_fn(|cx| match self.poll_rest(cx, broken) {
                Poll::Ready(end) => Poll::Ready(Some(end)),
                Poll::Pending if self.passed() == passed => Poll::Pending,
                Poll::Pending => Poll::Ready(None),
            });
            match timeout(reset::STUCK, step).await {
                Ok(None) => passed = self.passed(),
                Ok(Some(CopyEnd::SpokeHttp)) => return CopyEnd::SpokeHttp,
                Ok(Some(CopyEnd::Done | CopyEnd::Broken | CopyEnd::Cut)) => break,
                Err(_) => return CopyEnd::Broken,
            }
        }
        match broken {
            Side::Client => reset::delivered(&self.server).await,
            Side::Server => reset::delivered(&self.client).await,
        }
        CopyEnd::Broken
    }

    /// Copies what the side that failed had sent.
    fn poll_rest(&mut self, cx: &mut Context<'_>, broken: Side) -> Poll<CopyEnd> {
        let (client, server) = (&mut self.client, &mut self.server);
        let step = match broken {
            // The beginning of a line that nobody will complete is not delivered.
            Side::Client if self.up.hold => return Poll::Ready(CopyEnd::Broken),
            Side::Client => self.up.poll_cut(cx, client, server),
            Side::Server => self.down.poll_cut(cx, server, client),
        };
        step.map(|step| match step {
            Ok(Step::SpokeHttp) => CopyEnd::SpokeHttp,
            Ok(Step::Ended) | Err(_) => CopyEnd::Broken,
        })
    }
}

impl<C: Resettable, S: Resettable> Drop for CopyBidirectional<C, S> {
    fn drop(&mut self) {
        if !self.has_ended {
            self.client.reset_on_close();
            self.server.reset_on_close();
        }
    }
}

impl Pipe {
    fn new(watch: HttpWatch) -> Self {
        Self {
            buffer: Vec::new(),
            from: 0,
            to: 0,
            carried: 0,
            passed: 0,
            unflushed: false,
            line: (watch != HttpWatch::Off).then(Box::default),
            hold: watch == HttpWatch::Hold,
            cut: false,
            state: PipeState::Open,
            backlog: Backlog::default(),
        }
    }

    fn poll<R, W>(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut R,
        writer: &mut W,
    ) -> Poll<Result<Step, Failure>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        // Yields to other tasks of the worker after some rounds.
        for _ in 0..MAX_ROUNDS {
            match self.state {
                PipeState::Ended => return Poll::Ready(Ok(Step::Ended)),
                PipeState::Open | PipeState::Ending => {}
            }
            if !self.hold {
                ready!(self.poll_write(cx, writer)).map_err(|_| Failure::Writer)?;
            }
            if self.state == PipeState::Ending {
                let writer = Pin::new(&mut *writer);
                let ended = if self.cut { writer.poll_flush(cx) } else { writer.poll_shutdown(cx) };
                ready!(ended).map_err(|_| Failure::Writer)?;
                self.state = PipeState::Ended;
                self.buffer = Vec::new();
                continue;
            }
            let before = self.to;
            match self.poll_read(cx, reader) {
                Poll::Ready(Ok(())) => {}
                Poll::Ready(Err(_)) => {
                    self.state = PipeState::Ending;
                    return Poll::Ready(Err(Failure::Reader));
                }
                Poll::Pending => {
                    if self.unflushed {
                        ready!(Pin::new(&mut *writer).poll_flush(cx))
                            .map_err(|_| Failure::Writer)?;
                        self.unflushed = false;
                    }
                    return Poll::Pending;
                }
            }
            if self.line.is_some() && self.inspect(before) {
                return Poll::Ready(Ok(Step::SpokeHttp));
            }
        }
        cx.waker().wake_by_ref();
        Poll::Pending
    }

    /// Like [`Pipe::poll`], but leaves the writer open at the end.
    fn poll_cut<R, W>(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut R,
        writer: &mut W,
    ) -> Poll<Result<Step, Failure>>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        self.cut = true;
        self.poll(cx, reader, writer)
    }

    fn poll_write<W: AsyncWrite + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        writer: &mut W,
    ) -> Poll<io::Result<()>> {
        while let Some(bytes) = self.buffer.get(self.from..self.to).filter(|b| !b.is_empty()) {
            let polled = Pin::new(&mut *writer).poll_write(cx, bytes);
            self.backlog.set(if polled.is_pending() { self.buffer.len() } else { 0 });
            let written = ready!(polled)?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.from = self.from.saturating_add(written);
            self.carried = self.carried.saturating_add(written);
            self.passed = self.passed.saturating_add(u64::try_from(written).unwrap_or(u64::MAX));
            self.unflushed = true;
        }
        (self.from, self.to) = (0, 0);
        Poll::Ready(Ok(()))
    }

    fn poll_read<R: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut R,
    ) -> Poll<io::Result<()>> {
        let buffer_size = self.buffer_size();
        if self.to == 0 && buffer_size == SMALL_BUFFER {
            return self.poll_read_few(cx, reader);
        }
        if self.to == 0 && self.buffer.len() != buffer_size {
            self.buffer = vec![0; buffer_size];
        }
        let mut free = ReadBuf::new(self.buffer.get_mut(self.to..).unwrap_or_default());
        let read = Pin::new(reader).poll_read(cx, &mut free);
        let got = free.filled().len();
        match read {
            Poll::Ready(Ok(())) if got == 0 => {
                self.state = PipeState::Ending;
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Ok(())) => {
                self.to = self.to.saturating_add(got);
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                if self.to == 0 {
                    // An idle connection has no buffer.
                    self.carried = 0;
                    self.buffer = Vec::new();
                }
                Poll::Pending
            }
        }
    }

    /// Reads by the stack, so that a direction without bytes costs neither memory nor an allocation.
    fn poll_read_few<R: AsyncRead + Unpin>(
        &mut self,
        cx: &mut Context<'_>,
        reader: &mut R,
    ) -> Poll<io::Result<()>> {
        let mut place = [MaybeUninit::uninit(); SMALL_BUFFER];
        let mut free = ReadBuf::uninit(&mut place);
        match Pin::new(reader).poll_read(cx, &mut free) {
            Poll::Ready(Ok(())) => {
                let read = free.filled();
                if read.is_empty() {
                    self.state = PipeState::Ending;
                }
                self.buffer.clear();
                self.buffer.extend_from_slice(read);
                self.to = read.len();
                Poll::Ready(Ok(()))
            }
            Poll::Ready(Err(error)) => Poll::Ready(Err(error)),
            Poll::Pending => {
                self.buffer = Vec::new();
                Poll::Pending
            }
        }
    }

    fn buffer_size(&self) -> usize {
        match self.carried {
            _ if self.hold => HOLD_BUFFER,
            carried if carried >= GROW_TO_LARGE => backlog::bounded(LARGE_BUFFER),
            carried if carried >= GROW_TO_MEDIUM => backlog::bounded(MEDIUM_BUFFER),
            _ => SMALL_BUFFER,
        }
    }

    /// Inspects the bytes after `before`. True if the line is HTTP; its last bytes are still in the
    /// buffer. Once a line that went on looks like the beginning of a request, the rest is held back.
    fn inspect(&mut self, before: usize) -> bool {
        let Some(line) = &mut self.line else { return false };
        let verdict = line.feed(self.buffer.get(before..self.to).unwrap_or_default());
        match verdict {
            Verdict::Known(WireProtocol::Http1 | WireProtocol::Http2 | WireProtocol::Proxy) => {
                return true;
            }
            Verdict::Known(WireProtocol::Other) => (self.line, self.hold) = (None, false),
            Verdict::Doubtful => self.hold = false,
            // A client that closes without a byte did not speak HTTP; half a request line is HTTP.
            Verdict::Incomplete if self.state == PipeState::Ending => {
                let unlikely = line.is_unlikely();
                (self.line, self.hold) = (None, false);
                return (self.to > 0 || self.passed > 0) && !unlikely;
            }
            Verdict::Incomplete if !line.is_unlikely() && !self.hold => {
                self.hold = true;
                // Reading goes on behind the bytes that are held back.
                self.buffer.resize(self.buffer.len().max(HOLD_BUFFER), 0);
            }
            Verdict::Incomplete => {}
        }
        false
    }
}

const MAX_ROUNDS: usize = 16;
const SMALL_BUFFER: usize = 2 * 1024;
const MEDIUM_BUFFER: usize = 16 * 1024;
const LARGE_BUFFER: usize = 64 * 1024;
/// Bytes copied without a pause after which the buffer grows.
const GROW_TO_MEDIUM: usize = 64 * 1024;
const GROW_TO_LARGE: usize = 4 * 1024 * 1024;
/// Larger than the bytes that a verdict can take.
const HOLD_BUFFER: usize = 16 * 1024;

#[cfg(test)]
mod tests {
    use super::*;
    use std::future::poll_fn;
    use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};

    fn pair(watch: HttpWatch) -> (DuplexStream, DuplexStream, tokio::task::JoinHandle<CopyEnd>) {
        let (client, near) = duplex(1024);
        let (server, far) = duplex(1024);
        let task = tokio::spawn(async move {
            let mut copy = CopyBidirectional::new(near, far, watch);
            poll_fn(|cx| Pin::new(&mut copy).poll_copy(cx)).await
        });
        (client, server, task)
    }

    #[tokio::test]
    async fn one_side_may_end_while_the_other_goes_on() {
        let (mut client, mut server, task) = pair(HttpWatch::Off);
        client.write_all(b"question").await.unwrap();
        client.shutdown().await.unwrap();
        let mut got = Vec::new();
        server.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"question");
        server.write_all(b"answer").await.unwrap();
        server.shutdown().await.unwrap();
        let mut got = Vec::new();
        client.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"answer");
        assert_eq!(task.await.unwrap(), CopyEnd::Done);
    }

    #[tokio::test]
    async fn much_arrives_as_it_was_sent() {
        let (mut client, mut server, _task) = pair(HttpWatch::Off);
        let sent: Vec<u8> = (0..300_000_u32).map(|n| n.to_le_bytes()[0]).collect();
        let copy = sent.clone();
        tokio::spawn(async move {
            client.write_all(&copy).await.unwrap();
            client.shutdown().await.unwrap();
            let _ = client.read_to_end(&mut Vec::new()).await;
        });
        let mut got = Vec::new();
        server.read_to_end(&mut got).await.unwrap();
        assert!(got == sent);
    }

    /// The bytes that the server gets of a line whose pieces come one after the other, before the client's end.
    async fn carried(pieces: &[&[u8]]) -> (String, CopyEnd) {
        let (mut client, mut server, task) = pair(HttpWatch::Observe);
        for piece in pieces {
            // The copy may have ended.
            let _ = client.write_all(piece).await;
            for _ in 0..10 {
                tokio::task::yield_now().await;
            }
        }
        let _ = client.shutdown().await;
        let _ = server.shutdown().await;
        let mut got = Vec::new();
        server.read_to_end(&mut got).await.unwrap();
        (String::from_utf8(got).unwrap(), task.await.unwrap())
    }

    #[tokio::test]
    async fn half_a_request_line_is_not_carried_wherever_it_is_split() {
        for line in
            ["FOO /admin", "FOO /admin HTTP/1.1\r\n\r\n", "FOO /admin\r\n", "foo /a HTTP/1.1"]
        {
            let bytes = line.as_bytes();
            let mut splits: Vec<Vec<&[u8]>> = vec![bytes.chunks(1).collect()];
            splits.extend((1..bytes.len()).map(|at| vec![&bytes[..at], &bytes[at..]]));
            for pieces in splits {
                let (got, end) = carried(&pieces).await;
                assert_eq!(
                    (got.contains('/'), end),
                    (false, CopyEnd::SpokeHttp),
                    "{pieces:?}: {got}"
                );
            }
        }
        for pieces in
            [[&b"ruok"[..], b""], [b"ru", b"ok"], [b"foo", b" /x\r\n"], [b"foo /", b"x\r\n"]]
        {
            let sent = String::from_utf8(pieces.concat()).unwrap();
            assert_eq!(carried(&pieces).await, (sent, CopyEnd::Done), "{pieces:?}");
        }
    }

    #[tokio::test]
    async fn late_http_is_not_passed_on_and_other_bytes_are() {
        let (mut client, mut server, task) = pair(HttpWatch::Hold);
        server.write_all(b"220 mail.example\r\n").await.unwrap();
        let mut banner = [0; 18];
        client.read_exact(&mut banner).await.unwrap();
        client.write_all(b"GET").await.unwrap();
        client.write_all(b" /admin HTTP/1.1\r\n").await.unwrap();
        assert_eq!(task.await.unwrap(), CopyEnd::SpokeHttp);
        let mut got = Vec::new();
        server.read_to_end(&mut got).await.unwrap();
        assert_eq!(got, b"", "nothing of it reached the server");

        let (mut client, mut server, _task) = pair(HttpWatch::Hold);
        client.write_all(b"EHLO a\r\n").await.unwrap();
        let mut got = [0; 8];
        server.read_exact(&mut got).await.unwrap();
        assert_eq!(&got, b"EHLO a\r\n");
    }
}
