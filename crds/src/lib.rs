//! The Kubernetes kinds: what they are called, how they refer to each other, and how a manifest is
//! parsed once into typed values.
//!
//! [`parse`] turns a JSON value into an [`Object`] whose body is either a valid [`Resource`] or an
//! [`Invalid`] that keeps its [`Claims`]: an invalid object grants nothing, but still owns what it
//! would have owned, so that a mistake never opens a port.

pub mod kind;
pub mod object;
pub mod resource;
pub mod selector;

pub use kind::Kind;
pub use object::{Body, Claims, FieldError, Invalid, Object, ObjectKey, ObjectMeta};
pub use resource::Resource;
pub use selector::{Expression, LabelSelector, Operator};
