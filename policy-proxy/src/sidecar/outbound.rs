//! Outbound connections: from the application to where it dialled.
//!
//! Stages: find the destination ([`accept`]), find a way there ([`establish`]), copy. One task does
//! all of them. What finding takes is freed before the copying begins.

mod dialled;
mod establish;

use super::copy::{CopyBidirectional, CopyEnd, HttpWatch};
use super::original_dst::{fold, original_dst};
use super::settings::Target;
use super::worker::{TrackedConnection, Worker};
use crate::outbound::plan::Refusal;
use crate::outbound::refusal_log::Subject;
use crate::outbound::server_io::{ServerIo, reset_on_close};
use dialled::Dialled;
use establish::{Established, Refused};
use policy_core::{DecisionId, fold_mapped};
use policy_enforce::error::ErrorKind;
use policy_enforce::record::{OutboundRecord, OutboundRefusal};
use policy_enforce::telemetry::{OutboundMeter, OutboundTarget};
use policy_http::signal::Signal;
use policy_tls::identity::{Proof, ProofError, ProofVerifier};
use std::cell::Cell;
use std::future::poll_fn;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::pin::Pin;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::task::Poll;
use std::time::SystemTime;
use tokio::net::TcpStream;
use tokio::time::Instant;

/// An open outbound connection.
struct OutboundConnection {
    worker: Rc<Worker>,
    dialled: Dialled,
    proof: Option<Arc<Proof>>,
    /// Signalled to end the connection.
    close: Signal<EndReason>,
    /// Time of the last byte, by the worker's clock.
    active: Cell<u32>,
    sending: Sending,
}

/// The state of what the application sends.
///
/// The system's bound on unacknowledged bytes (TCP_USER_TIMEOUT) ends connections to an endpoint that
/// is gone. It also ends those to one that is there and reads nothing for as long: a broker that
/// holds back its publishers, a database that waits for a lock. While bytes wait here, the bound is
/// therefore lifted.
#[derive(Debug, Default)]
struct Sending {
    /// True while bytes wait to be taken.
    is_held_back: Cell<bool>,
    /// Time of the last byte that was taken, by the worker's clock.
    progress: Cell<u32>,
    /// True while the bound is lifted.
    is_lifted: Cell<bool>,
}

/// The reasons for which the proxy ends an open connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum EndReason {
    /// No byte within the idle timeout.
    Idle,
    /// The endpoint's certificate is not valid any more.
    Certificate,
}

/// Carries a connection from the application to its destination, until it ends.
pub(super) async fn accept(
    worker: Rc<Worker>,
    target: Target,
    stream: TcpStream,
    from: SocketAddr,
) {
    let from_ip = fold_mapped(from.ip());
    let Some(address) = destination(target, &stream, from) else {
        return worker.refuse_outbound(stream, None, Refusal::Loop.into());
    };
    let dialled = Dialled { from: from_ip, address };
    let capture = worker.shared.config.capture.as_ref();
    if let Some(capture) = capture.filter(|capture| capture.is_canary(address)) {
        // Boxed: rare.
        return Box::pin(capture.receive(stream)).await;
    }
    if worker.is_loop(target, dialled) {
        return worker.refuse_outbound(stream, Some(address), Refusal::Loop.into());
    }
    let port = NonZeroU16::new(address.port()).unwrap_or(NonZeroU16::MIN);
    let Some(_permit) = worker.acquire_outbound(port) else {
        let refused = Refusal::TooManyConnections.into();
        return worker.refuse_outbound(stream, Some(address), refused);
    };
    // Boxed: larger than everything else, and done before the first byte.
    match Box::pin(establish::establish(&worker, dialled)).await {
        Ok(established) => carry(worker, dialled, stream, established).await,
        Err(refused) => worker.refuse_outbound(stream, Some(address), refused),
    }
}

async fn carry(worker: Rc<Worker>, dialled: Dialled, client: TcpStream, established: Established) {
    let Established { io, proof, meter, share } = established;
    let (close, active) = (Signal::new(), Cell::new(worker.now()));
    let sending = Sending::default();
    sending.progress.set(worker.now());
    let connection = OutboundConnection { worker, dialled, proof, close, active, sending };
    let connection = Rc::new(connection);
    let weak = Rc::downgrade(&connection);
    let tracked: Weak<dyn TrackedConnection> = weak;
    let _registration = connection.worker.register(tracked);
    let mut copy = CopyBidirectional::new(client, io, HttpWatch::Off);
    if connection.copy(&mut copy, &meter).await == CopyEnd::Broken {
        copy.deliver(|cx| connection.close.poll(cx).is_some()).await;
    }
    drop(share);
}

impl OutboundConnection {
    /// Copies until both sides have closed, either has failed, or the connection must end.
    async fn copy(
        &self,
        copy: &mut CopyBidirectional<TcpStream, ServerIo>,
        meter: &OutboundMeter,
    ) -> CopyEnd {
        let mut before = (0, 0);
        poll_fn(|cx| {
            if self.close.poll(cx).is_some() {
                return Poll::Ready(CopyEnd::Cut);
            }
            let copied = Pin::new(&mut *copy).poll_copy(cx);
            let passed = copy.passed();
            if passed != before {
                let (sent, received) = passed;
                meter.passed(sent.saturating_sub(before.0), received.saturating_sub(before.1));
                if sent > before.0 {
                    self.sending.progress.set(self.worker.now());
                }
                before = passed;
                self.active.set(self.worker.now());
            }
            self.bound_sending(copy);
            copied
        })
        .await
    }
}

impl OutboundConnection {
    /// Lifts the bound on unacknowledged bytes while the endpoint takes none, and restores it.
    fn bound_sending(&self, copy: &CopyBidirectional<TcpStream, ServerIo>) {
        let is_held_back = copy.is_held_back();
        self.sending.is_held_back.set(is_held_back);
        let lift = is_held_back && self.is_stuck();
        if lift != self.sending.is_lifted.replace(lift) {
            let bound = self.worker.shared.config.outbound.user_timeout;
            copy.server().set_user_timeout((!lift).then_some(bound));
        }
    }

    /// True if the endpoint has taken nothing for a part of the bound.
    fn is_stuck(&self) -> bool {
        let bound = self.worker.shared.config.outbound.user_timeout.as_secs();
        let quiet = self.worker.now().saturating_sub(self.sending.progress.get());
        u64::from(quiet) > bound.checked_div(4).unwrap_or(0)
    }
}

impl TrackedConnection for OutboundConnection {
    /// Policies concern what comes in.
    fn review(&self) {}

    fn tick(&self) {
        let sending = &self.sending;
        if sending.is_held_back.get() && !sending.is_lifted.get() && self.is_stuck() {
            self.close.wake();
        }
        let Some(bound) = self.worker.shared.config.timeouts.opaque_idle else { return };
        let quiet = self.worker.now().saturating_sub(self.active.get());
        if u64::from(quiet) > bound.as_secs() && self.close.get().is_none() {
            self.close.raise(EndReason::Idle);
        }
    }

    fn reverify(&self, judge: &mut ProofVerifier) {
        let stale = self.proof.as_ref().and_then(|proof| judge.stale(proof));
        let (Some(stale), None) = (stale, self.close.get()) else { return };
        let kind = match stale {
            ProofError::Untrusted => ErrorKind::TlsCertificateUntrusted,
            ProofError::Expired(since) => {
                let grace = self.worker.shared.config.timeouts.grace;
                if judge.now().duration_since(since).is_ok_and(|late| late < grace) {
                    return;
                }
                ErrorKind::TlsCertificateExpired
            }
        };
        let (destination, error) = (self.dialled.address, kind.as_str());
        let now = Instant::now();
        let log = &self.worker.shared.refusals;
        if let Some(suppressed) = log.admit(Subject::Endpoint, Refusal::Identity, now) {
            tracing::warn!(%destination, error, suppressed, "outbound connection ended");
        }
        self.close.raise(EndReason::Certificate);
    }

    /// Applications call others while they drain.
    fn drain(&self) {}
}

/// The address that the application dialled; none if the system does not tell.
fn destination(target: Target, stream: &TcpStream, from: SocketAddr) -> Option<SocketAddr> {
    match target {
        Target::OutboundTo(address) => Some(fold(address)),
        Target::Outbound => {
            // Without an entry in connection tracking it was not redirected, and dialled the
            // listener.
            let local = || stream.local_addr().ok().map(fold);
            original_dst(stream, from).ok().or_else(local)
        }
        Target::Original | Target::Direct | Target::Fixed { .. } => None,
    }
}

impl Worker {
    /// Resets a connection before its first byte; counts and logs it.
    fn refuse_outbound(&self, stream: TcpStream, to: Option<SocketAddr>, refused: Refused) {
        let Refused { reason, target } = refused;
        let named = reason.as_str();
        let decision = self.record_refusal(to, &target, named);
        let destination = DialledName { address: to, target: &target };
        if let Some(suppressed) =
            self.shared.refusals.admit(Subject::Connection, reason, Instant::now())
        {
            let workload = &*self.shared.config.workload;
            let decision = decision.map(tracing::field::display);
            tracing::warn!(
                workload, %destination, reason = named, decision, suppressed,
                "outbound connection refused"
            );
        }
        self.shared.store.telemetry().outbound_refused(target, named);
        reset_on_close(&stream);
    }

    /// Records that a connection of the workload was refused. Returns the id of its group.
    fn record_refusal(
        &self,
        address: Option<SocketAddr>,
        target: &OutboundTarget,
        reason: &'static str,
    ) -> Option<DecisionId> {
        let named = !target.service.is_empty();
        let service = named.then_some((&target.namespace, &target.service));
        let refused = OutboundRefusal { service, address, reason };
        let decisions = self.shared.config.notices.decisions();
        let id =
            decisions.and_then(|decisions| decisions.outbound(&refused, std::time::Instant::now()));
        if let Some(recorder) = self.shared.recorder.as_ref().filter(|own| own.is_recording()) {
            let workload = &*self.shared.config.workload;
            recorder.record_outbound(&OutboundRecord {
                at: SystemTime::now(),
                workload,
                refused,
                id,
            });
        }
        id
    }
}

/// A destination in a log line.
struct DialledName<'a> {
    address: Option<SocketAddr>,
    target: &'a OutboundTarget,
}

impl std::fmt::Display for DialledName<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.address {
            Some(address) => write!(f, "{address}")?,
            None => f.write_str("unknown address")?,
        }
        let OutboundTarget { namespace, service, .. } = self.target;
        if service.is_empty() { Ok(()) } else { write!(f, " ({service}.{namespace})") }
    }
}

/// Size of the future of [`accept`], for the test that bounds it.
#[cfg(test)]
pub(super) fn size_of_accept() -> usize {
    fn size<F>(_: fn(Rc<Worker>, Target, TcpStream, SocketAddr) -> F) -> usize {
        size_of::<F>()
    }
    size(accept)
}
