//! The client's side of one lookup: answers, whole and as changes, one after the other.

use super::bounds::MAX_ENDPOINTS_IN_ALL;
use super::read;
use crate::error::{At, DecodeError, Result};
use crate::messages as m;
use crate::native::read::set;
use policy_core::destination::{Destination, Endpoint, ServiceDestination};
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;

/// The client's state of one lookup. An answer that cannot be read changes nothing.
#[derive(Clone, Debug, Default)]
pub struct DestinationState {
    complete: Option<Arc<Destination>>,
    partial: Option<Partial>,
}

/// An answer whose last message has not come yet.
#[derive(Clone, Debug)]
struct Partial {
    service: ServiceDestination,
    endpoints: BTreeMap<SocketAddr, Endpoint>,
}

impl DestinationState {
    /// The state before the first answer.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the last complete answer.
    pub fn complete(&self) -> Option<&Arc<Destination>> {
        self.complete.as_ref()
    }

    /// Begins or replaces the answer. Returns it if it is complete.
    ///
    /// # Errors
    /// The field that cannot be read, or what does not follow from the messages before.
    pub fn found(&mut self, found: &m::Found) -> Result<Option<Arc<Destination>>, DecodeError> {
        use m::found::Kind;
        self.no_partial("found")?;
        let m::Found { kind, endpoints } = found;
        let none = m::Endpoints::default();
        let listed = endpoints.as_ref().unwrap_or(&none);
        let destination = match set(kind.as_ref()).at("kind").at("found")? {
            Kind::Service(service) => {
                let service = read::service(service).at("service").at("found")?;
                let partial = Partial { service, endpoints: BTreeMap::new() };
                return self.extend(partial, listed, "found");
            }
            Kind::Nobody(m::Nobody {}) => without_endpoints(Destination::Unknown, listed),
            Kind::Node(m::NodeAddress {}) => without_endpoints(Destination::Node, listed),
            Kind::UndeclaredPort(service) => read::service_name(service)
                .at("undeclared_port")
                .and_then(|name| without_endpoints(Destination::UndeclaredPort(name), listed)),
            Kind::Workload(m::WorkloadAddress {}) => workload(listed),
        };
        Ok(Some(self.finish(destination.at("found")?)))
    }

    /// Adds to an answer that is not complete. Returns it if it is complete now.
    ///
    /// # Errors
    /// As [`found`](Self::found).
    pub fn more(&mut self, more: &m::Endpoints) -> Result<Option<Arc<Destination>>, DecodeError> {
        let Some(partial) = self.partial.take() else {
            return Err(DecodeError::here("no answer was begun")).at("more");
        };
        self.extend(partial, more, "more")
    }

    /// Begins the answer that differs from the last one by this. Returns it if it is complete.
    ///
    /// # Errors
    /// As [`found`](Self::found).
    pub fn changed(
        &mut self,
        changed: &m::Changed,
    ) -> Result<Option<Arc<Destination>>, DecodeError> {
        self.no_partial("changed")?;
        let m::Changed { endpoints, removed } = changed;
        let Some(Destination::Service(last)) = self.complete.as_deref() else {
            return Err(DecodeError::here("no Service was found before")).at("changed");
        };
        let mut known: BTreeMap<_, _> =
            last.endpoints.iter().map(|each| (each.address, each.clone())).collect();
        for (index, removed) in removed.iter().enumerate() {
            let gone = read::endpoint_address(removed).and_then(|address| {
                known.remove(&address).ok_or_else(|| DecodeError::here("was not there"))
            });
            gone.item("removed", index).at("changed")?;
        }
        let service = ServiceDestination { endpoints: Arc::from([]), ..last.clone() };
        let listed = endpoints.as_ref().ok_or_else(DecodeError::missing);
        let listed = listed.at("endpoints").at("changed")?;
        self.extend(Partial { service, endpoints: known }, listed, "changed")
    }

    /// A message that begins an answer must not come while another is not complete.
    fn no_partial(&self, field: &str) -> Result<()> {
        match self.partial {
            None => Ok(()),
            Some(_) => Err(DecodeError::here("the answer before is not complete")).at(field),
        }
    }

    fn extend(
        &mut self,
        mut partial: Partial,
        listed: &m::Endpoints,
        field: &str,
    ) -> Result<Option<Arc<Destination>>> {
        let m::Endpoints { endpoints, more } = listed;
        for (index, endpoint) in endpoints.iter().enumerate() {
            let endpoint = read::endpoint(endpoint);
            let endpoint = endpoint.item("endpoints", index).at(field)?;
            partial.endpoints.insert(endpoint.address, endpoint);
        }
        if partial.endpoints.len() > MAX_ENDPOINTS_IN_ALL {
            let message = format!("more than {MAX_ENDPOINTS_IN_ALL}");
            return Err(DecodeError::here(message)).at("endpoints").at(field);
        }
        if *more {
            self.partial = Some(partial);
            return Ok(None);
        }
        let Partial { service, endpoints } = partial;
        let endpoints = endpoints.into_values().collect();
        let destination = Destination::Service(ServiceDestination { endpoints, ..service });
        Ok(Some(self.finish(destination)))
    }

    fn finish(&mut self, destination: Destination) -> Arc<Destination> {
        let destination = Arc::new(destination);
        self.complete = Some(Arc::clone(&destination));
        destination
    }
}

fn without_endpoints(destination: Destination, listed: &m::Endpoints) -> Result<Destination> {
    let m::Endpoints { endpoints, more } = listed;
    if endpoints.is_empty() && !more {
        Ok(destination)
    } else {
        Err(DecodeError::here("must be empty")).at("endpoints")
    }
}

fn workload(listed: &m::Endpoints) -> Result<Destination> {
    let m::Endpoints { endpoints, more } = listed;
    match (endpoints.as_slice(), more) {
        ([endpoint], false) => {
            let endpoint = read::endpoint(endpoint).item("endpoints", 0)?;
            Ok(Destination::Workload(endpoint))
        }
        (_, _) => Err(DecodeError::here("must be exactly one")).at("endpoints"),
    }
}
