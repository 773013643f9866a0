//! The client of the controller against servers played by hand: Portcullis's own and Linkerd's.
#![allow(clippy::arithmetic_side_effects, reason = "test times are small")]

mod linkerd;
mod native;
mod support;
mod tls;
