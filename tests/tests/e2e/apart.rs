//! A release of the chart of its own, for what the shared one cannot be: of some namespaces, closed by
//! default, with an authority that the issuer makes.

mod authority;
mod closed;
mod release;
mod roles;
mod turnover;
