//! `portcullis up`: manifests become a running mesh on loopback addresses, with a live log of what it
//! decides.

mod client_certs;
mod clients;
mod decisions;
mod screen;
mod session;
mod suggest;

pub(crate) use session::{UpOptions, run};
