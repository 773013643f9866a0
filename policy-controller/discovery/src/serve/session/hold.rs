//! A stream that is held, and counted as such, and the lists that end it.

use crate::serve::core::Core;
use crate::serve::metrics::OpenGauge;
use policy_core::Revision;
use policy_engine::hold;
use policy_engine::publish::SourceProgress;
use policy_server::Peer;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::time::Sleep;
use tonic::Status;

/// A wait for this replica to catch up.
pub(crate) struct Hold {
    wait: hold::Hold,
    _gauge: Option<OpenGauge>,
}

impl Hold {
    /// A wait of a client that has `applied` in force, from what has been seen now. A list has been
    /// asked for.
    pub(crate) fn new(applied: &Revision, seen: &SourceProgress, gauge: Option<OpenGauge>) -> Self {
        Self { wait: hold::Hold::new(applied, seen), _gauge: gauge }
    }

    /// True once this replica has caught up.
    pub(crate) fn has_ended(&self, seen: &SourceProgress) -> bool {
        self.wait.has_ended(seen)
    }

    /// True if one more list is needed; true once for each that ended.
    pub(crate) fn asks_again(&mut self, seen: &SourceProgress) -> bool {
        self.wait.asks_again(seen)
    }
}

/// How long a stream may be silent because its workload is held.
pub(crate) struct Patience(Pin<Box<Sleep>>);

impl Patience {
    /// From now on.
    pub(crate) fn new(time: Duration) -> Self {
        Self(Box::pin(tokio::time::sleep(time)))
    }

    /// The status that ends the stream once patience is over; waits for ever where there is no end.
    pub(crate) fn poll_end(patience: &mut Option<Self>, cx: &mut Context<'_>) -> Poll<Status> {
        let Some(Self(sleep)) = patience else { return Poll::Pending };
        sleep.as_mut().poll(cx).map(|()| {
            let why = "this replica lags behind the workload that the client has: another replica may \
                       be current";
            Status::unavailable(why)
        })
    }
}

/// The lists that the holds of one stream ask for.
#[derive(Debug)]
pub(crate) struct Lists {
    peer: Peer,
    /// How many lists had ended when one was last asked for.
    asked: Option<u64>,
    /// Whether one is to be asked for as soon as the peer may.
    owed: bool,
}

impl Lists {
    /// None asked for yet, on behalf of `peer`.
    pub(crate) fn new(peer: Peer) -> Self {
        Self { peer, asked: None, owed: false }
    }

    /// Whether one could not be asked for yet.
    pub(crate) fn is_owed(&self) -> bool {
        self.owed
    }

    /// Asks for one, unless none has ended since one was last asked for: the end of that one is the
    /// time to ask again.
    pub(crate) fn ask(&mut self, core: &Core, seen: &SourceProgress) {
        if self.asked == Some(seen.lists) {
            return;
        }
        self.owed = !core.list_for(&self.peer);
        if !self.owed {
            self.asked = Some(seen.lists);
        }
    }
}
