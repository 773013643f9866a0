//! One lookup of a stream.

use crate::serve::answers::Answer;
use crate::serve::metrics::GaugeGuard;
use policy_engine::{
    ClientPlace, DestinationKey, DestinationScope, Destinations, Latest, LookupError,
    PublishedDestination,
};
use policy_server::AllowancePermit;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};

/// Changes of the kind of scope that are followed at once. The answer in between is right for the
/// clients of its scope, and the next change is followed again.
const MAX_MOVES: u32 = 3;

/// A lookup: the answer for one client is followed.
#[derive(Debug)]
pub(super) struct Lookup {
    address: SocketAddr,
    scope: DestinationScope,
    watched: Latest<Arc<PublishedDestination>>,
    waker: Waker,
    /// True if it waits for its turn to be sent.
    pub(super) is_due: bool,
    /// The answer that the client has.
    pub(super) sent: Option<Arc<Answer>>,
    _counted: (GaugeGuard, AllowancePermit),
}

impl Lookup {
    /// Begins to follow what `address` leads to, for a client at `place`.
    pub(super) async fn open(
        destinations: &Destinations,
        place: &ClientPlace,
        address: SocketAddr,
        (waker, counted): (Waker, (GaugeGuard, AllowancePermit)),
    ) -> Result<Self, LookupError> {
        let scope = DestinationScope::All;
        let watched = destinations.watch(key(address, scope.clone())?).await?;
        let (is_due, sent, _counted) = (false, None, counted);
        let mut lookup = Self { address, scope, watched, waker, is_due, sent, _counted };
        lookup.settle(destinations, place).await?;
        Ok(lookup)
    }

    /// Follows the answer for the client's scope of the kind that the answer depends on, and notes that
    /// the next change has to wake.
    pub(super) async fn settle(
        &mut self,
        destinations: &Destinations,
        place: &ClientPlace,
    ) -> Result<(), LookupError> {
        let mut moves = 0;
        loop {
            let scope = place.scope(self.watched.current().needs);
            if scope != self.scope && moves < MAX_MOVES {
                moves = moves.saturating_add(1);
                match destinations.watch(key(self.address, scope.clone())?).await {
                    Ok(watched) => (self.watched, self.scope) = (watched, scope),
                    // A lookup that is open goes on with what it has.
                    Err(LookupError::TooManyDestinations) => moves = MAX_MOVES,
                    Err(error) => return Err(error),
                }
                continue;
            }
            // Before the match, because a context must not be held while something is waited for.
            let polled = self.watched.poll_changed(&Context::from_waker(&self.waker));
            match polled {
                Poll::Pending => return Ok(()),
                Poll::Ready(true) => {}
                // It was closed to make room for others, or the controller ends, which the answer tells.
                Poll::Ready(false) => {
                    let key = key(self.address, self.scope.clone())?;
                    self.watched = destinations.watch(key).await?;
                }
            }
        }
    }

    /// The answer now.
    pub(super) fn current(&self) -> Arc<PublishedDestination> {
        self.watched.current()
    }
}

fn key(address: SocketAddr, scope: DestinationScope) -> Result<DestinationKey, LookupError> {
    let port = NonZeroU16::new(address.port()).ok_or(LookupError::NotFound)?;
    Ok(DestinationKey { address: address.ip(), port, scope })
}
