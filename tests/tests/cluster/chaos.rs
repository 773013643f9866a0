//! A control plane that breaks under the controller: what was in force stays in force, nothing is
//! ever wider than the objects say, and afterwards every port is served to the byte as a controller
//! serves it that has just started.

mod access;
mod broken;
mod ending;
mod labels;
mod live;
mod manifests;
mod namespaces;
mod random;
mod revocation;
mod unavailable;
