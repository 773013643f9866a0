//! The mark of a request with whose body the use of its connection ends.

/// Marks a request after whose body, if it has one, a connection is not used again: the server may leave
/// any body unread, and take it for the next request. To be set among the extensions of its head.
#[derive(Clone, Copy, Debug)]
pub struct LastAfterBody;
