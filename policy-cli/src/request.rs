//! Client that sends one request, with or without a mesh identity, from a chosen address.
//!
//! [`send`] returns every response of the server, whatever its status; only a request without a
//! response is an error ([`RequestError`]).

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
