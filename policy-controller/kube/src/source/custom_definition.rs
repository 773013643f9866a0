//! CustomResourceDefinitions: evidence that a kind's definition is gone, and its objects with it.

use super::api::{Api, ApiError};
use policy_engine::source::WatchKey;
use serde::Deserialize;
use std::sync::Arc;
use std::time::Duration;

/// Longest wait for the evidence. A deletion without evidence is a deletion.
const MAX_WAIT: Duration = Duration::from_secs(1);

/// A definition as the API server has it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum CustomDefinition {
    /// It exists.
    Present {
        /// Its uid.
        uid: Arc<str>,
        /// True if it is being deleted: the API server then deletes all objects of the kind.
        terminating: bool,
    },
    /// It does not exist.
    Absent,
    /// The API server did not say.
    Unknown,
}

#[derive(Deserialize)]
struct Definition {
    metadata: Metadata,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Metadata {
    uid: String,
    deletion_timestamp: Option<String>,
}

impl CustomDefinition {
    /// Reads the definition of a watched kind. [`Self::Unknown`] for a kind that needs none, and in a
    /// namespace, because Roles reach no definition.
    pub(super) async fn read(api: &Api, watch: &WatchKey) -> Self {
        let kind = watch.kind;
        if !kind.is_custom() || watch.namespace.is_some() {
            return Self::Unknown;
        }
        let path = format!("{COLLECTION}/{}.{}", kind.plural(), kind.group());
        match tokio::time::timeout(MAX_WAIT, api.get(&path)).await {
            Ok(answer) => Self::of(answer.as_deref()),
            Err(_) => Self::Unknown,
        }
    }

    fn of(answer: Result<&[u8], &ApiError>) -> Self {
        match answer {
            Ok(body) => match serde_json::from_slice::<Definition>(body) {
                Ok(Definition { metadata }) => Self::Present {
                    uid: metadata.uid.into(),
                    terminating: metadata.deletion_timestamp.is_some(),
                },
                Err(_) => Self::Unknown,
            },
            Err(failure) if failure.is_not_found() => Self::Absent,
            Err(_) => Self::Unknown,
        }
    }

    /// True if it is being deleted.
    pub(super) fn is_terminating(&self) -> bool {
        matches!(self, Self::Present { terminating: true, .. })
    }

    /// Its uid, if known.
    pub(super) fn uid(&self) -> Option<&Arc<str>> {
        match self {
            Self::Present { uid, .. } => Some(uid),
            Self::Absent | Self::Unknown => None,
        }
    }

    /// True if objects that were read under the definition `earlier` are gone because that one is:
    /// it is absent, being deleted, or another has its name.
    pub(super) fn shows_loss(&self, earlier: Option<&Arc<str>>) -> bool {
        match self {
            Self::Present { uid, terminating } => {
                *terminating || earlier.is_some_and(|earlier| earlier != uid)
            }
            Self::Absent => true,
            Self::Unknown => false,
        }
    }
}

const COLLECTION: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_definition_that_is_gone_or_another_keeps_objects() {
        let read = |body: &str| CustomDefinition::of(Ok(body.as_bytes()));
        let refused = |code| ApiError::Refused {
            code,
            message: String::new(),
            retry_after: None,
            too_new: false,
        };
        let (one, two): (Arc<str>, Arc<str>) = ("1".into(), "2".into());
        let there = read(r#"{"metadata": {"uid": "1"}}"#);
        let ending =
            read(r#"{"metadata": {"uid": "1", "deletionTimestamp": "2026-01-01T00:00:00Z"}}"#);
        let seen = [&there, &ending, &CustomDefinition::Absent, &CustomDefinition::Unknown]
            .map(|now| [Some(&one), Some(&two), None].map(|earlier| now.shows_loss(earlier)));
        assert_eq!(
            seen,
            [[false, true, false], [true, true, true], [true, true, true], [false, false, false]]
        );
        assert_eq!(CustomDefinition::of(Err(&refused(404))), CustomDefinition::Absent);
        for unclear in [
            CustomDefinition::of(Err(&refused(403))),
            CustomDefinition::of(Err(&ApiError::Unreachable(String::new()))),
            read("{}"),
            read("no JSON"),
        ] {
            assert_eq!(unclear, CustomDefinition::Unknown);
        }
    }
}
