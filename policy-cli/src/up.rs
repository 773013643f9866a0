//! `portcullis up`: runs manifests as a mesh on loopback addresses, with a live log of its
//! decisions.

mod calls;
mod client_certs;
mod clients;
mod decisions;
mod rows;
mod screen;
mod session;
mod suggest;

pub(crate) use session::{UpOptions, run};
