//! What the API server asks the controller while objects are written.
//!
//! ```text
//! HTTPS ─▶ admission ─┬─▶ validation   policy objects are judged, their authors told
//!                     ├─▶ injector     pods get their sidecar
//!                     └─▶ linkerd_redirect  Linkerd's proxies are pointed at this controller
//! ```
//!
//! `admission` has the port and whatever bounds its clients, `certificate` what the port proves its
//! name with. Below all of them are `review` (the question and its answer), `installation` and
//! `metrics`.

pub mod admission;
mod certificate;
pub mod injector;
mod installation;
pub mod linkerd_redirect;
mod metrics;
mod review;
mod validation;
