//! The addresses of the API server, which it states itself: the EndpointSlice of its Service that has
//! the Service's name is its own, and it writes that again when somebody else does.

use crate::incremental::{Context, query};
use crate::query::destination::ApiServer;
use policy_crds::resource::Resource;
use policy_crds::{Body, Kind, ObjectKey};
use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::num::NonZeroU16;
use std::sync::Arc;

query!(ApiServer, Arc<BTreeSet<SocketAddr>>, api_server);

fn api_server(_: &ApiServer, cx: &mut Context<'_>) -> Arc<BTreeSet<SocketAddr>> {
    let (namespace, name) = ("default".into(), "kubernetes".into());
    let key = ObjectKey { kind: Kind::EndpointSlice, namespace, name };
    let Some(Body::Valid(Resource::EndpointSlice(slice))) = cx.object(&key).map(|own| &own.body)
    else {
        return Arc::default();
    };
    let ports = slice.ports.iter().filter_map(|port| port.port);
    let addresses = |port: NonZeroU16| {
        slice.endpoints.iter().map(move |own| SocketAddr::new(own.address, port.get()))
    };
    Arc::new(ports.flat_map(addresses).collect())
}
