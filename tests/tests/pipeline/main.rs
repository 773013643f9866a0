//! The whole pipeline as it runs: a directory of manifests, the controller, gRPC, a sidecar and
//! real clients over real sockets. What is promised here is promised of a mesh.

#[cfg(test)]
mod claims;
#[cfg(test)]
mod client;
#[cfg(test)]
mod delegated;
#[cfg(test)]
mod denied;
#[cfg(test)]
mod destinations;
#[cfg(test)]
mod early_ends;
#[cfg(test)]
mod edits;
#[cfg(test)]
mod grants;
#[cfg(test)]
mod identity;
#[cfg(test)]
mod kills;
#[cfg(test)]
mod load;
#[cfg(test)]
mod logs;
#[cfg(test)]
mod open;
#[cfg(test)]
mod outside;
#[cfg(test)]
mod restart;
#[cfg(test)]
mod series;
#[cfg(test)]
mod tls;
#[cfg(test)]
mod wire;
#[cfg(test)]
mod world;
