//! Settings of the encoding.

/// Settings of the operator.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EncodeOptions {
    /// Adds Linkerd's built-in grant for 127.0.0.1 and ::1 to the Server's.
    pub localhost_authorization: bool,
}
