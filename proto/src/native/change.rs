//! An update's parts, whether its routes and grants are messages already or still encoded.

use super::names::Names;
use super::state::twice;
use super::{lean, read};
use crate::error::{At, DecodeError};
use crate::messages as m;
use bytes::Bytes;
use policy_core::policy::Route;
use prost::Message;
use std::collections::HashMap;

/// A message, as such or encoded.
pub(super) trait Piece<M> {
    /// What `read` makes of it.
    fn read<T>(&self, read: impl FnOnce(&M) -> Result<T, DecodeError>) -> Result<T, DecodeError>;
}

impl Piece<m::Route> for m::Route {
    fn read<T>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        read(self)
    }
}

impl Piece<m::Authorization> for m::Authorization {
    fn read<T>(
        &self,
        read: impl FnOnce(&Self) -> Result<T, DecodeError>,
    ) -> Result<T, DecodeError> {
        read(self)
    }
}

impl<M: Message + Default> Piece<M> for Bytes {
    fn read<T>(&self, read: impl FnOnce(&M) -> Result<T, DecodeError>) -> Result<T, DecodeError> {
        let message = M::decode(&**self).map_err(|error| DecodeError::here(error.to_string()))?;
        read(&message)
    }
}

/// What an update says besides the content of its routes and grants.
pub(super) struct Change<'a> {
    pub(super) revision: Option<&'a m::Revision>,
    pub(super) base: Option<u64>,
    pub(super) required_features: &'a [String],
    pub(super) header: Option<&'a m::PortHeader>,
    pub(super) removed_authorizations: &'a [u64],
    pub(super) server_authorizations: Option<&'a m::KeyList>,
    pub(super) removed_routes: &'a [u64],
    pub(super) route_order: Option<&'a m::KeyList>,
}

/// Reads the parts of an update that both of its forms have alike. Names every field, so that a new one
/// is not overlooked.
macro_rules! parts {
    ($update:expr, $form:path) => {{
        let $form {
            port: _,
            revision,
            base,
            required_features,
            header,
            authorizations: _,
            removed_authorizations,
            server_authorizations,
            routes: _,
            removed_routes,
            route_order,
        } = $update;
        Change {
            revision: revision.as_ref(),
            base: *base,
            required_features,
            header: header.as_ref(),
            removed_authorizations,
            server_authorizations: server_authorizations.as_ref(),
            removed_routes,
            route_order: route_order.as_ref(),
        }
    }};
}

impl<'a> Change<'a> {
    pub(super) fn of(update: &'a m::PortUpdate) -> Self {
        parts!(update, m::PortUpdate)
    }

    pub(super) fn of_encoded(update: &'a lean::Update) -> Self {
        parts!(update, lean::Update)
    }
}

/// The routes of an update, each with the keys of its grants; a route once taken leaves its key.
pub(super) struct Fresh {
    routes: HashMap<u64, Option<(Vec<u64>, Route)>, foldhash::fast::RandomState>,
    left: usize,
}

impl Fresh {
    pub(super) fn read(
        names: &Names,
        routes: &[impl Piece<m::Route>],
    ) -> Result<Self, DecodeError> {
        let mut read = HashMap::with_capacity_and_hasher(routes.len(), Default::default());
        for (number, route) in routes.iter().enumerate() {
            let route = route.read(|route| read::route(names, route));
            let (key, keys, route) = route.item("routes", number)?;
            if read.insert(key, Some((keys, route))).is_some() {
                return Err(twice(key)).at("routes");
            }
        }
        Ok(Self { left: read.len(), routes: read })
    }

    pub(super) fn take(&mut self, key: u64) -> Option<(Vec<u64>, Route)> {
        let taken = self.routes.get_mut(&key)?.take()?;
        self.left = self.left.saturating_sub(1);
        Some(taken)
    }

    /// How many were not taken.
    pub(super) fn left(&self) -> usize {
        self.left
    }

    pub(super) fn any(&self) -> bool {
        !self.routes.is_empty()
    }

    /// Whether there was a route of this key, taken or not.
    pub(super) fn had(&self, key: u64) -> bool {
        self.routes.contains_key(&key)
    }

    pub(super) fn keys(&self) -> impl Iterator<Item = u64> {
        self.routes.keys().copied()
    }
}
