//! Messages of the client.

use super::Session;
use super::fields::{port_number, refusals, revision, shortened};
use super::port::PendingUpdate;
use crate::serve::applied::{AppliedPort, Rejection};
use crate::serve::refusal::refusal;
use crate::serve::status_reason::{StatusReason, WithReason as _};
use policy_engine::publish::LookupError;
use policy_proto::messages::watch_request::Kind;
use policy_proto::messages::{Ack, Nack, Refusals, WatchRequest};
use std::num::NonZeroU16;
use tonic::Status;

/// Most refused ports that wait until the client reads what became of them.
const MAX_REFUSED: usize = 4096;

impl Session {
    pub(super) async fn request(&mut self, request: WatchRequest) -> Result<(), Status> {
        match request.kind {
            Some(Kind::Hello(_)) => Err(Status::invalid_argument("hello: sent a second time")
                .because(StatusReason::InvalidRequest)),
            Some(Kind::Subscribe(subscribe)) => self.subscribe(&subscribe.ports).await,
            Some(Kind::Unsubscribe(unsubscribe)) => self.unsubscribe(&unsubscribe.ports),
            Some(Kind::Ack(ack)) => self.ack(&ack),
            Some(Kind::Nack(nack)) => self.nack(&nack),
            Some(Kind::Resync(resync)) => {
                let number = port_number("resync.port", resync.port)?;
                match self.ports.get_mut(&number) {
                    Some(port) => {
                        self.service.core.metrics.nacked("resync");
                        port.restart();
                    }
                    None => self.service.core.metrics.unmatched("resync"),
                }
                Ok(())
            }
            Some(Kind::Refusals(refusals)) => {
                self.refusals(refusals);
                Ok(())
            }
            None => Err(Status::invalid_argument("kind: not set, or not known to this version")
                .because(StatusReason::InvalidRequest)),
        }
    }

    async fn subscribe(&mut self, ports: &[u32]) -> Result<(), Status> {
        // Declared ports do not count: no client chose their number.
        let declared = &self.workload.declared;
        let mut chosen = self.ports.keys().filter(|port| !declared.contains(*port)).count();
        for (index, port) in ports.iter().enumerate() {
            let number = port_number(&format!("subscribe.ports[{index}]"), *port)?;
            if let Some(port) = self.ports.get_mut(&number) {
                port.subscribed = true;
                continue;
            }
            let refused = if chosen >= self.service.core.config.max_ports_per_stream {
                self.service.core.metrics.refused_ports();
                Err(LookupError::TooManyPorts)
            } else {
                self.open_port(number, true).await
            };
            match refused {
                Ok(()) => chosen = chosen.saturating_add(1),
                Err(error @ LookupError::TooManyPorts) => {
                    if self.refused.len() >= MAX_REFUSED {
                        return Err(Status::resource_exhausted(
                            "subscribe.ports: too many refused ports wait for the client to read",
                        )
                        .because(StatusReason::TooManyPorts));
                    }
                    self.refused.insert(number, error);
                }
                // The workload went away meanwhile, or the controller is ending.
                Err(error) => return Err(refusal(&self.key, number, error)),
            }
        }
        Ok(())
    }

    fn unsubscribe(&mut self, ports: &[u32]) -> Result<(), Status> {
        for (index, port) in ports.iter().enumerate() {
            let number = port_number(&format!("unsubscribe.ports[{index}]"), *port)?;
            self.refused.remove(&number);
            let declared = self.workload.declared.contains(&number);
            match self.ports.get_mut(&number) {
                Some(port) if declared => {
                    // The client gave the port up before it knew that it is declared: it has
                    // dropped what it was sent.
                    port.subscribed = false;
                    port.restart();
                }
                Some(_) => self.close_port(number),
                None => {}
            }
        }
        Ok(())
    }

    /// Keeps what the client refuses. A viewer refuses nothing. No wrong report ends the stream: its policy
    /// matters more.
    fn refusals(&mut self, reported: Refusals) {
        let (groups, wrong) = refusals(reported);
        let is_own = self.grant.is_own();
        if wrong || !is_own {
            self.service.core.metrics.unmatched("refusals");
        }
        if !is_own {
            return;
        }
        // The one before gives its room back first.
        self.denied = None;
        let stream = (self.number, self.lists.peer());
        let place = (&self.key, &self.workload.owner);
        let guard = self.service.core.denied.report(stream, place, groups);
        self.denied = Some(Box::new(guard));
    }

    fn ack(&mut self, ack: &Ack) -> Result<(), Status> {
        let number = port_number("ack.port", ack.port)?;
        let revision = revision("ack.revision", ack.revision.as_ref())?;
        let Some(port) = self.ports.get_mut(&number) else {
            self.port_not_watched("ack");
            return Ok(());
        };
        let Some(sent) = port.acknowledged(&revision) else {
            self.revision_not_sent("ack", number);
            return Ok(());
        };
        self.service.core.metrics.acked(sent.since.elapsed());
        port.in_force = Some((sent.policy, sent.revision));
        port.content = sent.content;
        port.refused.take_if(|(number, _)| *number < sent.number);
        self.record(number);
        Ok(())
    }

    fn nack(&mut self, nack: &Nack) -> Result<(), Status> {
        if nack.port == 0 {
            return Err(self.workload_refused(nack));
        }
        let number = port_number("nack.port", nack.port)?;
        let revision = revision("nack.revision", nack.revision.as_ref())?;
        let Some(port) = self.ports.get_mut(&number) else {
            self.port_not_watched("nack");
            return Ok(());
        };
        let Some(PendingUpdate { number: refused_number, .. }) = port.nacked(&revision) else {
            self.revision_not_sent("nack", number);
            return Ok(());
        };
        // What the client has is not what was sent: the next change goes out in full. The same is
        // not sent again, because it would be refused again.
        if let Some(sent) = port.sent.take()
            && *sent.revision != revision
        {
            port.due = true;
        }
        let refused =
            Rejection { reason: shortened(&nack.reason), field_path: shortened(&nack.field_path) };
        self.service.core.metrics.nacked("refused");
        let (reason, field) = (&refused.reason, &refused.field_path);
        // By field, because the port is still borrowed.
        let lines = &self.service.core.lines;
        if let Some(left_out) = lines.admit(self.lists.peer(), "client refused an update") {
            tracing::warn!(
                workload = %self.key, port = number, ?reason, ?field, left_out,
                "client refused an update"
            );
        }
        port.refused = Some((refused_number, refused));
        self.record(number);
        Ok(())
    }

    /// The client has given the port up meanwhile, or never asked for it.
    fn port_not_watched(&self, message: &'static str) {
        self.service.core.metrics.unmatched(message);
    }

    /// The client says nothing of what it has in force, as long as it names other revisions than those
    /// that it was sent: one that reads 64-bit numbers as doubles, say.
    fn revision_not_sent(&self, message: &'static str, number: NonZeroU16) {
        self.service.core.metrics.unmatched(message);
        if let Some(left_out) = self.line("client names a revision that it was not sent") {
            tracing::warn!(
                workload = %self.key, port = number, answer = message, left_out,
                "client names a revision that it was not sent, or that was superseded long ago"
            );
        }
    }

    /// Decides on a log line that the client causes. Returns the number of those left out before.
    pub(super) fn line(&self, message: &'static str) -> Option<u64> {
        self.service.core.lines.admit(self.lists.peer(), message)
    }

    /// The client cannot read the workload. The end of the stream acknowledges its refusal.
    fn workload_refused(&self, nack: &Nack) -> Status {
        let (reason, field) = (shortened(&nack.reason), shortened(&nack.field_path));
        self.service.core.metrics.nacked("workload");
        if let Some(left_out) = self.line("client refused the workload") {
            tracing::warn!(
                workload = %self.key, ?reason, ?field, left_out,
                "client refused the workload"
            );
        }
        Status::aborted("the client refused the workload").because(StatusReason::WorkloadRefused)
    }

    /// Reports to status the policy that the client has on a port.
    pub(super) fn record(&mut self, number: NonZeroU16) {
        if !self.grant.is_own() {
            // A viewer has nothing in force.
            return;
        }
        let Some(port) = self.ports.get_mut(&number) else { return };
        port.answered = true;
        let record = AppliedPort {
            current: port.policy.current().policy.clone(),
            in_force: port.in_force.clone(),
            content: port.content,
            refused: port.refused.as_ref().map(|(_, refused)| refused.clone()),
        };
        self.service.core.applied.record(&self.key, number, self.number, record);
    }
}
