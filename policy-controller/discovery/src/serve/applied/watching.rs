//! Streams whose clients are not sent all that the objects ask for.

use super::lacks::Lacks;
use super::record::Applied;
use std::sync::Arc;

/// Stands for one stream that lacks something, for as long as it lives.
#[derive(Debug)]
pub(crate) struct Watching {
    applied: Applied,
    lacks: Arc<Lacks>,
}

impl Applied {
    /// One more stream that lacks this.
    pub(crate) fn watching(&self, lacks: &Arc<Lacks>) -> Watching {
        self.begin_lacking(lacks);
        Watching { applied: self.clone(), lacks: lacks.clone() }
    }
}

impl Watching {
    /// What a stream lacks now that lacked `before`. What is the same is not told again.
    pub(crate) fn replace(
        before: &mut Option<Self>,
        applied: &Applied,
        lacks: Option<&Arc<Lacks>>,
    ) {
        if before.as_ref().map(|watching| &watching.lacks) != lacks {
            // The new one first: what both lack is lacked all the time.
            let now = lacks.map(|lacks| applied.watching(lacks));
            *before = now;
        }
    }
}

impl Drop for Watching {
    fn drop(&mut self) {
        self.applied.end_lacking(&self.lacks);
    }
}
