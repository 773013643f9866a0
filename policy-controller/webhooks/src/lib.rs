//! What the API server asks the controller while objects are written.
//!
//! ```text
//! HTTPS ─▶ admission ─┬─▶ validation   policy objects are judged, their authors told
//!                     ├─▶ injector     pods get their sidecar
//!                     └─▶ beside       Linkerd's proxies are pointed here
//! ```
//!
//! `admission` has the port and whatever bounds its clients, `certificate` what the port proves its
//! name with. Below all of them are `review` (the question and its answer), `installation` and
//! `metrics`.

pub mod admission;
pub mod beside;
mod certificate;
pub mod injector;
mod installation;
mod metrics;
mod review;
mod validation;
