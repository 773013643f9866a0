//! A stand-in for what the engine knows of destinations.

use parking_lot::Mutex;
use policy_core::{Destination, ServiceName, WorkloadKey};
use policy_engine::request::Requests;
use policy_engine::{
    ClientPlace, DestinationKey, DestinationQuestion, DestinationScope, Destinations, Latest,
    LookupError, PublishedDestination, ScopeKind, ServicePortKey, latest,
};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

type Channel = latest::Sender<Arc<PublishedDestination>>;

/// The answers to lookups of addresses and ports. An address that was not set is nobody's.
#[derive(Clone)]
pub struct DestinationIndex {
    requests: Requests,
    channels: Arc<Mutex<BTreeMap<DestinationQuestion, Channel>>>,
    is_full: Arc<AtomicBool>,
    places: Arc<Mutex<BTreeMap<WorkloadKey, ClientPlace>>>,
}

impl DestinationIndex {
    pub(super) fn new(requests: Requests) -> Self {
        let (channels, is_full, places) = (Arc::default(), Arc::default(), Arc::default());
        Self { requests, channels, is_full, places }
    }

    /// The handle that `serve` gets.
    pub fn handle(&self) -> Destinations {
        Destinations::new(self.requests.clone())
    }

    /// Sets what an address leads to, for all clients.
    pub fn set(&self, address: &str, destination: Destination) {
        let published =
            PublishedDestination { destination, needs: ScopeKind::All, is_pending: false };
        self.publish(address, DestinationScope::All, published);
    }

    /// Sets what an address leads to, for the clients of a scope.
    pub fn publish(&self, address: &str, scope: DestinationScope, published: PublishedDestination) {
        self.channel(&question(address, scope), |channel| channel.send(Arc::new(published)));
    }

    /// Sets what a port of the Service `ns/name` leads to, for the clients of a scope.
    pub fn publish_service(
        &self,
        (name, port): (&str, u16),
        scope: DestinationScope,
        published: PublishedDestination,
    ) {
        let service = ServiceName { namespace: "ns".into(), name: name.into() };
        let key = ServicePortKey { service, port: NonZeroU16::new(port).unwrap(), scope };
        let question = DestinationQuestion::Service(key);
        self.channel(&question, |channel| channel.send(Arc::new(published)));
    }

    /// Returns the number of those who follow an address, for the clients of a scope.
    pub fn followers(&self, address: &str, scope: DestinationScope) -> usize {
        self.channel(&question(address, scope), Channel::receivers)
    }

    /// Sets whether nothing more may be followed than what was set.
    pub fn set_full(&self, is_full: bool) {
        self.is_full.store(is_full, Ordering::Relaxed);
    }

    /// Closes what is followed of an address, for the clients of a scope, as if others needed the room.
    pub fn close(&self, address: &str, scope: DestinationScope) {
        self.channels.lock().remove(&question(address, scope));
    }

    /// Sets where a workload is.
    pub fn put(&self, key: &WorkloadKey, place: ClientPlace) {
        self.places.lock().insert(key.clone(), place);
    }

    pub(super) fn place(&self, key: &WorkloadKey) -> Option<ClientPlace> {
        self.places.lock().get(key).cloned()
    }

    pub(super) fn follow(
        &self,
        question: &DestinationQuestion,
    ) -> Result<Latest<Arc<PublishedDestination>>, LookupError> {
        if self.is_full.load(Ordering::Relaxed) && !self.channels.lock().contains_key(question) {
            return Err(LookupError::TooManyDestinations);
        }
        Ok(self.channel(question, Channel::subscribe))
    }

    fn channel<T>(&self, question: &DestinationQuestion, act: impl FnOnce(&Channel) -> T) -> T {
        let mut channels = self.channels.lock();
        let nobody = || {
            let (destination, needs) = (Destination::Unknown, ScopeKind::All);
            latest::channel(Arc::new(PublishedDestination {
                destination,
                needs,
                is_pending: false,
            }))
        };
        act(channels.entry(question.clone()).or_insert_with(nobody))
    }
}

fn question(address: &str, scope: DestinationScope) -> DestinationQuestion {
    let address: SocketAddr = address.parse().unwrap();
    let port = NonZeroU16::new(address.port()).unwrap();
    DestinationQuestion::Address(DestinationKey { address: address.ip(), port, scope })
}
