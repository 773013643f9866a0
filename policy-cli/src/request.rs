//! A client that asks one thing, with or without a mesh identity, from a chosen address.
//!
//! [`send`] reports what the server answered, whatever it was; only a question that got no answer
//! is an error ([`Failed`]).

mod client_request;
pub(crate) mod client_response;
mod error;
mod exchange;
pub mod identity;
mod send;
pub mod url;

pub use client_request::{ClientRequest, Tls};
pub use client_response::{ClientResponse, Outcome};
pub use error::RequestError;
pub use identity::{Credentials, CredentialsError};
pub use send::{connect, send};
pub use url::{Protocol, RequestUrl, UrlError};
