//! A client that asks one thing, with or without a mesh identity, from a chosen address.
//!
//! [`send`] reports what the server answered, whatever it was; only a question that got no answer
//! is an error ([`Failed`]).

pub(crate) mod answer;
mod error;
mod exchange;
pub mod identity;
mod question;
mod send;
pub mod target;

pub use answer::{Answer, Outcome};
pub use error::Failed;
pub use identity::{Credentials, CredentialsError};
pub use question::{Question, Tls};
pub use send::{connect, send};
pub use target::{Protocol, Target, TargetError};
