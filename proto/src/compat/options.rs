//! Settings of the encoding.

/// Settings of the operator: by default messages are ours, with each of these as Linkerd's
/// controller has them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct EncodeOptions {
    /// Requests keep the header `l5d-connection-secure` of a client.
    pub connection_secure_header: bool,
    /// Matches are sent as they are written, not in the form that decides.
    pub matches_as_written: bool,
    /// The addresses of the pod are left out.
    pub without_addresses: bool,
}
