//! Policies of other systems as objects of this project.
//!
//! Each format is read into the same terms ([`policies`]): which workloads it closes, and what it grants and
//! denies there. [`servers`] writes these as Servers, routes and grants, one Server for each port of each
//! workload of the files. No route is more specific than another and permits what the other's source denies:
//! each has the grants of all rules that contain it.

mod clients;
mod closures;
mod denials;
mod names;
mod plan;
mod policies;
mod requests;
mod servers;
mod unread;
mod workloads;

pub(crate) use clients::{ClientCondition, IdentityCondition, NamedClients, NetworkCondition};
pub(crate) use policies::{
    DeniedClients, MeshDenial, MeshGrant, MeshPolicies, PortChoice, SelectedWorkloads,
};
pub(crate) use requests::{PathCondition, RequestCondition, escaped};
pub(crate) use servers::write_servers;
pub(crate) use unread::note_unread;
pub(crate) use workloads::{WorkloadUnits, is_generated};
