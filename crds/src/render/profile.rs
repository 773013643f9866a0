//! For whom CRDs are rendered.

use crate::kind::{Kind, OWN_GROUP};

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

    /// True if the profile has a kind. Those of this project's own group are not Linkerd's.
    pub fn has(self, kind: Kind) -> bool {
        match self {
            Self::Portcullis => true,
            Self::Linkerd => kind.group() != OWN_GROUP,
        }
    }

    /// The folder its files are checked in to, below the workspace's root.
    pub fn folder(self) -> &'static str {
        match self {
            Self::Portcullis => "crds/yaml",
            Self::Linkerd => "crds/yaml/linkerd",
        }
    }
}
