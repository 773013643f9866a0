//! Admission webhooks of the controller.
//!
//! ```text
//! HTTPS ─▶ admission ─┬─▶ validation         policy objects are validated, their authors warned
//!                     ├─▶ injector           pods get their sidecar
//!                     └─▶ linkerd_redirect   Linkerd's proxies are redirected to this controller
//! ```
//!
//! `admission` has the port and the limits of its clients, `certificate` its serving certificate. Below
//! all of them are `review` (the AdmissionReview with its request and response), `installation` and
//! `metrics`.

pub mod admission;
mod certificate;
pub mod injector;
mod installation;
pub mod linkerd_redirect;
mod metrics;
mod review;
mod validation;
