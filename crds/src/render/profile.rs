//! For whom CRDs are rendered.

/// A set of schemas.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Profile {
    /// Every kind reports its conditions in `status`.
    Portcullis,
    /// As Linkerd has them: most kinds have no status.
    Linkerd,
}

impl Profile {
    /// Both.
    pub const ALL: [Profile; 2] = [Self::Portcullis, Self::Linkerd];

    /// The folder its files are checked in to, below the workspace's root.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Portcullis => "crds/yaml",
            Self::Linkerd => "crds/yaml/linkerd",
        }
    }
}
