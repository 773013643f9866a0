//! `portcullis up`: manifests become a running mesh on loopback addresses, with a live log of what it
//! decides.

mod clients;
mod decisions;
mod files;
mod screen;
mod session;
mod suggest;

pub(crate) use session::{Options, run};
