//! Rows of the kinds of the Service Mesh Interface, which a cluster may have from another mesh. They have no
//! status, and their definitions belong to that mesh.

use super::row::{Read, client, names, policy, unclaimed};
use super::{identity_binding, smi_http_route_group, smi_tcp_route, traffic_target};
use crate::kind::Kind;
use crate::spec::{Admission, KindSpec, Names, Watched};

const ACCESS: &str = "access.smi-spec.io";
const SPECS: &str = "specs.smi-spec.io";
/// The versions of all of them, of which none converts another.
const VERSIONS: &[&str] = &["v1alpha4", "v1alpha3", "v1alpha2", "v1alpha1"];

pub(super) const TRAFFIC_TARGET: KindSpec = KindSpec {
    references: &[client("spec.sources", &[Kind::ServiceAccount])],
    claims: traffic_target::claims,
    clients: traffic_target::clients,
    ..smi(names(ACCESS, "TrafficTarget", "traffictargets", &["tt"]), traffic_target::read)
};

pub(super) const SMI_HTTP_ROUTE_GROUP: KindSpec =
    smi(names(SPECS, "HTTPRouteGroup", "httproutegroups", &["htr"]), |it| {
        unclaimed(smi_http_route_group::read(it))
    });

pub(super) const SMI_TCP_ROUTE: KindSpec =
    smi(names(SPECS, "TCPRoute", "tcproutes", &["tr"]), |it| unclaimed(smi_tcp_route::read(it)));

pub(super) const IDENTITY_BINDING: KindSpec =
    smi(names(ACCESS, "IdentityBinding", "identitybindings", &[]), |it| {
        unclaimed(identity_binding::read(it))
    });

const fn smi(names: Names, read: Read) -> KindSpec {
    KindSpec {
        watched: Watched::IfPresent,
        contributes: false,
        status: None,
        admission: Admission::Foreign,
        ..policy(names, VERSIONS, read)
    }
}
