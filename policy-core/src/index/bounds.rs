//! Size limits of a policy.

/// Error of compiling a policy that exceeds a limit.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum BuildError {
    /// More routes, rules or authorizations than ids can name.
    #[error("{0} has more than 4294967295 entries")]
    TooMany(&'static str),
    /// A path pattern of more than [`MAX_SEGMENTS`] segments.
    #[error("path pattern of {0} segments is longer than {MAX_SEGMENTS}")]
    TooDeep(usize),
}

/// The most segments of a path pattern. Gateway API allows 1,024 bytes of path, which is fewer.
pub const MAX_SEGMENTS: usize = 1024;
