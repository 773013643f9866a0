//! Filters what a peer sends before h2 reads it: as much work at a time as a read budget allows, and
//! without empty DATA frames.

use std::cell::Cell;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::rc::Rc;
use std::task::{Context, Poll, ready};
use std::time::{Duration, Instant};
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

/// A stream that is read within a budget. h2 reads as long as there are bytes and keeps an entry
/// for each DATA frame; the budget lets the consumers of the frames run in between.
#[derive(Debug)]
pub(super) struct FrameFilter<S> {
    io: S,
    state: PeerIo,
    parser: FrameParser,
}

/// The state of a peer's stream, shared with the task that reads and writes it.
#[derive(Clone, Debug, Default)]
pub(super) struct PeerIo(Rc<PeerIoState>);

#[derive(Debug, Default)]
struct PeerIoState {
    /// Work that may still be read before other tasks run: bytes, and more for what costs more.
    budget: Cell<usize>,
    /// True while the peer does not take what is to be written.
    is_blocked: Cell<bool>,
    /// Bytes of a header block that is not complete.
    block: Cell<usize>,
}

/// Position within the peer's frames.
#[derive(Debug)]
struct FrameParser {
    /// Number of bytes to come that are not a frame header.
    payload: usize,
    /// True if these are of a header block.
    is_block: bool,
    /// Number of bytes of the block so far, CONTINUATION included.
    block: usize,
    /// Work beside the bytes since it was last taken.
    work: usize,
    /// True once a budget was exhausted by other work than bytes, until there is no more to read.
    is_dense: bool,
    /// A frame header that is incomplete, or complete and not passed on yet.
    head: [u8; HEAD],
    header_len: usize,
    /// Number of bytes of the header that were passed on; `None` while it is incomplete.
    header_sent: Option<usize>,
    /// True within a header block: CONTINUATION follows.
    in_block: bool,
    /// Highest stream that the peer sent HEADERS on: those above are idle.
    opened: u32,
    /// Number of empty frames not offset by others, and the start of their second.
    empty: u32,
    since: Instant,
}

impl PeerIo {
    /// Permits another portion of work.
    pub(super) fn refill(&self) {
        self.0.budget.set(BUDGET_BYTES);
    }

    /// True if the portion was read.
    pub(super) fn is_exhausted(&self) -> bool {
        self.0.budget.get() == 0
    }

    /// True while the peer does not take what is to be written.
    pub(super) fn is_blocked(&self) -> bool {
        self.0.is_blocked.get()
    }

    /// Returns the most memory that a header block takes which is not complete.
    pub(super) fn block(&self) -> usize {
        self.0.block.get().saturating_mul(MANY_FIELDS_WORK).min(MOST_OF_BLOCK)
    }

    /// Notes whether the peer takes bytes.
    pub(super) fn wrote(&self, written: Poll<io::Result<usize>>) -> Poll<io::Result<usize>> {
        self.0.is_blocked.set(written.is_pending());
        written
    }
}

impl<S> FrameFilter<S> {
    /// Creates a filter of a client's bytes, which begin with the preface.
    pub(super) fn of_client(io: S, state: PeerIo) -> Self {
        Self { io, state, parser: FrameParser::after(PREFACE) }
    }

    /// Creates a filter of an application's bytes.
    pub(super) fn of_server(io: S, state: PeerIo) -> Self {
        Self { io, state, parser: FrameParser::after(0) }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for FrameFilter<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        let Self { io, state, parser } = self.get_mut();
        if state.is_exhausted() {
            cx.waker().wake_by_ref();
            return Poll::Pending;
        }
        loop {
            if parser.flush_header(buf) {
                state.0.block.set(parser.open_block());
                return Poll::Ready(Ok(()));
            }
            if parser.header_len > 0 {
                let mut rest = [0; HEAD];
                let missing = HEAD.saturating_sub(parser.header_len);
                let mut rest = ReadBuf::new(rest.get_mut(..missing).unwrap_or_default());
                ready!(Pin::new(&mut *io).poll_read(cx, &mut rest))?;
                parser.complete_header(rest.filled());
                continue;
            }
            let (before, most) = (buf.filled().len(), parser.most());
            ready!(read_some(Pin::new(&mut *io), cx, buf, most))?;
            let fresh = buf.filled_mut().get_mut(before..).unwrap_or_default();
            if fresh.is_empty() {
                return Poll::Ready(Ok(()));
            }
            let read = fresh.len();
            let left = parser.filter(fresh);
            buf.set_filled(before.saturating_add(left));
            state.0.block.set(parser.open_block());
            let work = std::mem::take(&mut parser.work).saturating_add(read);
            state.0.budget.set(state.0.budget.get().saturating_sub(work));
            parser.is_dense = read >= DENSE_READ
                && (parser.is_dense || (state.is_exhausted() && work > read.saturating_mul(4)));
            if left > 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

/// Reads at most `most` bytes.
fn read_some(
    io: Pin<&mut impl AsyncRead>,
    cx: &mut Context<'_>,
    buf: &mut ReadBuf<'_>,
    most: usize,
) -> Poll<io::Result<()>> {
    if buf.remaining() <= most {
        return io.poll_read(cx, buf);
    }
    let mut part = ReadBuf::new(buf.initialize_unfilled_to(most));
    ready!(io.poll_read(cx, &mut part))?;
    let read = part.filled().len();
    buf.advance(read);
    Poll::Ready(Ok(()))
}

impl FrameParser {
    fn after(payload: usize) -> Self {
        Self {
            payload,
            is_block: false,
            block: 0,
            work: 0,
            is_dense: false,
            head: [0; HEAD],
            header_len: 0,
            header_sent: None,
            in_block: false,
            opened: 0,
            empty: 0,
            since: Instant::now(),
        }
    }

    /// Returns the bytes of a header block that is not complete.
    fn open_block(&self) -> usize {
        let is_open = self.in_block || (self.is_block && self.payload > 0);
        if is_open { self.block } else { 0 }
    }

    /// Counts the work of bytes of a header block.
    fn count_block(&mut self, bytes: usize) {
        let usual = bytes.min(USUAL_BLOCK.saturating_sub(self.block));
        let more = bytes.saturating_sub(usual).saturating_mul(MANY_FIELDS_WORK);
        let work = usual.saturating_mul(FIELD_WORK).saturating_add(more);
        self.block = self.block.saturating_add(bytes);
        self.work = self.work.saturating_add(work);
    }

    /// Returns the number of bytes to read at once: what was read is h2's, whatever work it is.
    #[inline]
    fn most(&self) -> usize {
        if self.is_dense {
            DENSE_READ
        } else if self.is_block {
            READ
        } else {
            READ.saturating_add(self.payload)
        }
    }

    /// Passes on the available part of a header. Returns false if there is none.
    fn flush_header(&mut self, buf: &mut ReadBuf<'_>) -> bool {
        let Some(header_sent) = self.header_sent else { return false };
        let rest = self.head.get(header_sent..self.header_len).unwrap_or_default();
        let fits = rest.get(..rest.len().min(buf.remaining())).unwrap_or_default();
        buf.put_slice(fits);
        self.header_sent = Some(header_sent.saturating_add(fits.len()));
        if self.header_sent == Some(self.header_len) {
            (self.header_sent, self.header_len) = (None, 0);
        }
        true
    }

    /// Completes a header with `rest`; empty: the stream ends within the header.
    fn complete_header(&mut self, rest: &[u8]) {
        if rest.is_empty() {
            self.header_sent = Some(0);
            return;
        }
        self.buffer_header(rest);
        if self.header_len == HEAD {
            let head = self.head;
            if self.is_empty_data(head) {
                self.header_len = 0;
            } else {
                self.header_sent = Some(0);
            }
        }
    }

    fn buffer_header(&mut self, part: &[u8]) {
        let places = self.head.iter_mut().skip(self.header_len);
        places.zip(part).for_each(|(place, byte)| *place = *byte);
        self.header_len = self.header_len.saturating_add(part.len()).min(HEAD);
    }

    /// Removes empty DATA frames, and an incomplete header at the end, from `bytes`. Returns the
    /// number of bytes that remain, at the front.
    fn filter(&mut self, bytes: &mut [u8]) -> usize {
        let (mut from, mut to) = (0_usize, 0_usize);
        while let Some(rest) = bytes.get(from..).filter(|rest| !rest.is_empty()) {
            let passed = if self.payload > 0 {
                let passed = self.payload.min(rest.len());
                self.payload = self.payload.saturating_sub(passed);
                if self.is_block {
                    self.count_block(passed);
                }
                passed
            } else if let Some(head) = rest.first_chunk::<HEAD>() {
                if self.is_empty_data(*head) {
                    from = from.saturating_add(HEAD);
                    continue;
                }
                HEAD
            } else {
                self.buffer_header(rest);
                break;
            };
            let end = from.saturating_add(passed);
            if from > to {
                bytes.copy_within(from..end, to);
            }
            (from, to) = (end, to.saturating_add(passed));
        }
        to
    }

    /// Returns true if the frame of this header is to be dropped: DATA without content that does not
    /// end its stream, up to [`MAX_EMPTY`] a second. h2 closes a connection at the 101st such frame
    /// of its life. Frames beyond the limit, and invalid ones, are left to h2: DATA on no stream, or
    /// on one that the peer has sent no HEADERS on, ends the connection (RFC 9113 sections 6.1 and 5.1).
    fn is_empty_data(&mut self, head: [u8; HEAD]) -> bool {
        let [high, middle, low, kind, flags, stream @ ..] = head;
        let length = u32::from_be_bytes([0, high, middle, low]);
        let stream = u32::from_be_bytes(stream) & STREAM;
        self.payload = usize::try_from(length).unwrap_or(usize::MAX);
        self.work = self.work.saturating_add(FRAME_WORK);
        let in_block = self.in_block;
        self.is_block = matches!(kind, HEADERS | PUSH_PROMISE | CONTINUATION);
        if self.is_block {
            self.in_block = flags & END_HEADERS == 0;
        }
        if kind == HEADERS {
            self.block = 0;
            self.opened = self.opened.max(stream);
        }
        if length > 0 {
            self.empty = self.empty.saturating_sub(EMPTY_CREDIT);
            return false;
        }
        let nothing = kind == DATA && flags & (END_STREAM | PADDED) == 0;
        // Every stream is a client's, because nothing is pushed, and has an odd number.
        let is_idle = stream & 1 == 0 || stream > self.opened;
        nothing && !in_block && !is_idle && self.is_within_limit()
    }

    /// Counts an empty frame; returns false if it exceeds the limit per second.
    fn is_within_limit(&mut self) -> bool {
        if self.empty >= MAX_EMPTY && self.since.elapsed() >= SECOND {
            (self.empty, self.since) = (0, Instant::now());
        }
        let few = self.empty < MAX_EMPTY;
        self.empty = self.empty.saturating_add(1);
        few
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FrameFilter<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<io::Result<usize>> {
        let Self { io, state, .. } = self.get_mut();
        state.wrote(Pin::new(io).poll_write(cx, buf))
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.io).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let Self { io, state, .. } = self.get_mut();
        state.wrote(Pin::new(io).poll_write_vectored(cx, bufs))
    }

    fn is_write_vectored(&self) -> bool {
        self.io.is_write_vectored()
    }
}

/// Budget of h2 for small DATA frames that were not read yet, each counted as 256 less its length.
/// Enough for the smallest frames of four read budgets, of which one is read at a time; h2 takes
/// 256 bytes for each, 1.3 MB in total.
pub(super) const FRAMES_BUDGET: usize = 4 * FRAMES * 256;
/// Number of frames of a read budget, and of the read that exceeds it.
const FRAMES: usize = BUDGET_BYTES / (FRAME_WORK + HEAD + 1) + READ / (HEAD + 1);
/// Size of a read budget; a read exceeds it by at most the work of what it read.
const BUDGET_BYTES: usize = 64 * 1024;
/// Work of a frame, and of a byte of a header block, which may be a field of its own: a name and a
/// value of the dynamic table.
const FRAME_WORK: usize = 128;
const FIELD_WORK: usize = 15;
/// The same beyond the size that blocks of a client have that repeats its heads.
const MANY_FIELDS_WORK: usize = 63;
const USUAL_BLOCK: usize = 128;
/// Memory that a header block takes at most until it is complete: four times the usual bound of a head in
/// fields of some bytes each.
const MOST_OF_BLOCK: usize = 1024 * 1024;
/// Number of bytes to read at once beyond a payload, because they may be header blocks, and while they
/// are known to be more work than bytes.
const READ: usize = 8 * 1024;
const DENSE_READ: usize = 512;
/// RFC 9113 section 4.1.
const HEAD: usize = 9;
/// RFC 9113 section 3.4.
const PREFACE: usize = 24;
/// Frame types and flags (RFC 9113 section 6).
const DATA: u8 = 0;
const HEADERS: u8 = 1;
const PUSH_PROMISE: u8 = 5;
const CONTINUATION: u8 = 9;
const END_STREAM: u8 = 1;
const END_HEADERS: u8 = 4;
const PADDED: u8 = 8;
/// The bits of a stream's number; the one above them is ignored.
const STREAM: u32 = u32::MAX >> 1;
/// Maximum number of empty frames per second that are dropped, and the number that a non-empty
/// frame offsets. Frames beyond are passed on for h2 to count.
const MAX_EMPTY: u32 = 100;
const EMPTY_CREDIT: u32 = 4;
const SECOND: Duration = Duration::from_secs(1);

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, clippy::indexing_slicing, reason = "tests")]
    use super::*;
    use std::future::poll_fn;

    /// Gives at most `most` bytes at a time.
    struct Slow<'a>(&'a [u8], usize);

    impl AsyncRead for Slow<'_> {
        fn poll_read(
            mut self: Pin<&mut Self>,
            _: &mut Context<'_>,
            buf: &mut ReadBuf<'_>,
        ) -> Poll<io::Result<()>> {
            let (now, later) = self.0.split_at(self.0.len().min(self.1).min(buf.remaining()));
            buf.put_slice(now);
            self.0 = later;
            Poll::Ready(Ok(()))
        }
    }

    fn frame(kind: u8, flags: u8, stream: u8, payload: &[u8]) -> Vec<u8> {
        let length = u8::try_from(payload.len()).unwrap();
        [&[0, 0, length, kind, flags, 0, 0, 0, stream], payload].concat()
    }

    async fn through(bytes: &[u8], most: usize, room: usize) -> Vec<u8> {
        let budget = PeerIo::default();
        let mut inflow = FrameFilter::of_client(Slow(bytes, most), budget.clone());
        let mut all = Vec::new();
        loop {
            budget.refill();
            let mut own = vec![0; room];
            let mut buf = ReadBuf::new(&mut own);
            poll_fn(|cx| Pin::new(&mut inflow).poll_read(cx, &mut buf)).await.unwrap();
            if buf.filled().is_empty() {
                return all;
            }
            all.extend_from_slice(buf.filled());
        }
    }

    /// Bytes of `of` that a peer who never stops sending gets through in one budget.
    async fn turn(of: &[u8], turns: usize) -> usize {
        let bytes = [vec![0; PREFACE], of.repeat(1_000_000 / of.len())].concat();
        let budget = PeerIo::default();
        let mut inflow = FrameFilter::of_client(Slow(&bytes, usize::MAX), budget.clone());
        let mut read = 0;
        for _ in 0..turns {
            budget.refill();
            read = 0;
            while !budget.is_exhausted() {
                let mut own = vec![0; 16 * 1024];
                let mut buf = ReadBuf::new(&mut own);
                poll_fn(|cx| Pin::new(&mut inflow).poll_read(cx, &mut buf)).await.unwrap();
                read += buf.filled().len();
            }
        }
        read
    }

    #[tokio::test]
    async fn a_turn_is_bounded_by_the_work_of_what_is_read_not_by_its_bytes() {
        let data = frame(DATA, 0, 1, &[0; 255]).repeat(64);
        assert!((20_000..=64 * 1024).contains(&turn(&data, 2).await));
        // Each byte names a field.
        let fields = frame(HEADERS, END_HEADERS, 1, &[0xbe; 255]);
        let first = turn(&fields, 1).await;
        assert!(first <= READ + PREFACE, "{first}");
        let later = turn(&fields, 4).await;
        assert!((DENSE_READ..=5 * DENSE_READ).contains(&later), "{later}");
        let smallest = turn(&frame(DATA, 0, 1, b"x"), 4).await / (HEAD + 1);
        assert!(smallest <= FRAMES, "{smallest}");
    }

    #[tokio::test]
    async fn a_header_block_is_held_until_it_is_complete() {
        let begun = [vec![0; PREFACE], frame(HEADERS, 0, 1, &[b'a'; 200])].concat();
        let more = frame(CONTINUATION, 0, 1, &[b'a'; 100]);
        let last = frame(CONTINUATION, END_HEADERS, 1, b"a");
        for (bytes, held) in [
            (begun[..PREFACE + HEAD + 50].to_vec(), 50 * MANY_FIELDS_WORK),
            (begun.clone(), 200 * MANY_FIELDS_WORK),
            ([&begun[..], &more].concat(), 300 * MANY_FIELDS_WORK),
            ([&begun[..], &more, &last].concat(), 0),
            ([&begun[..], &more.repeat(1000)].concat(), MOST_OF_BLOCK),
        ] {
            let state = PeerIo::default();
            let mut inflow = FrameFilter::of_client(Slow(&bytes, usize::MAX), state.clone());
            let (mut read, mut own) = (0, vec![0; bytes.len()]);
            while read < bytes.len() {
                state.refill();
                let mut buf = ReadBuf::new(&mut own);
                poll_fn(|cx| Pin::new(&mut inflow).poll_read(cx, &mut buf)).await.unwrap();
                read += buf.filled().len();
            }
            assert_eq!(state.block(), held);
        }
    }

    #[tokio::test]
    async fn frames_that_say_nothing_are_left_out_however_they_arrive() {
        let preface = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
        let empty = frame(DATA, 0, 1, b"");
        let block = [frame(HEADERS, 0, 3, b"part"), empty.clone()].concat();
        let kept = [
            preface,
            frame(4, 0, 0, b""),
            frame(HEADERS, END_HEADERS, 1, b"head"),
            frame(DATA, 0, 1, b"\0\0\0\0\0\0\0\0\0\0some"),
            frame(DATA, END_STREAM, 1, b""),
            frame(DATA, 0, 0, b""),
            frame(DATA, PADDED, 1, b"\x02\0\0"),
            frame(DATA, PADDED, 1, b""),
            [block, frame(CONTINUATION, END_HEADERS, 3, b"")].concat(),
            b"\0\0\x05\x00\x00".to_vec(),
        ];
        let (opening, open) = kept.split_at(3);
        let mut all = opening.concat();
        open.iter().for_each(|one| all.extend([&empty[..], &empty, one].concat()));
        for most in (1..40).chain([all.len()]) {
            for room in (1..40).chain([1000]) {
                assert_eq!(through(&all, most, room).await, kept.concat(), "{most} {room}");
            }
        }
    }

    #[tokio::test]
    async fn an_empty_frame_on_an_idle_stream_is_not_left_out() {
        let opens = |stream| frame(HEADERS, END_HEADERS, stream, b"head");
        let mut on_none = frame(DATA, 0, 0, b"");
        on_none[5] = 0x80;
        for (before, invalid) in [
            (vec![], frame(DATA, 0, 1, b"")),
            (vec![], frame(DATA, 0, 2, b"")),
            (opens(1), frame(DATA, 0, 3, b"")),
            (opens(3), frame(DATA, 0, 2, b"")),
            (opens(1), frame(DATA, 0, 0, b"")),
            (opens(1), on_none),
        ] {
            let all = [vec![0; PREFACE], before, invalid].concat();
            for most in [1, HEAD, all.len()] {
                assert_eq!(through(&all, most, all.len()).await, all, "{all:?} {most}");
            }
        }
        // A lower stream was opened, too (RFC 9113 section 5.1.1).
        let closed = [vec![0; PREFACE], opens(3)].concat();
        let all = [&closed[..], &frame(DATA, 0, 1, b"")].concat();
        assert_eq!(through(&all, all.len(), all.len()).await, closed);
    }

    #[tokio::test]
    async fn a_flood_of_empty_frames_is_the_librarys_to_count() {
        let empty = frame(DATA, 0, 1, b"");
        let opening = [vec![0; PREFACE], frame(HEADERS, END_HEADERS, 1, b"head")].concat();
        let flood = [&opening[..], &empty.repeat(1000)].concat();
        let left = (through(&flood, 4096, 4096).await.len() - opening.len()) / HEAD;
        assert!((500..=900).contains(&left), "{left}");
        let said = [&empty[..], &frame(DATA, 0, 1, b"a")].concat();
        let long = [&opening[..], &said.repeat(1000)].concat();
        assert_eq!(through(&long, 4096, 4096).await.len(), opening.len() + 1000 * (HEAD + 1));
    }
}
