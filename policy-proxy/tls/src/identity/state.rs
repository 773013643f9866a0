//! How an identity source is doing: what it has put in force, whether others would accept that, and
//! what went wrong last.

use crate::datetime::rfc3339_seconds;
use policy_core::Identity;
use std::sync::Arc;
use std::time::SystemTime;

/// How an identity source is doing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityState {
    /// The certificate in force; absent: none was received yet, or it was taken back.
    pub certificate: Option<CertificateState>,
    /// What went wrong at the last attempt; absent: nothing.
    pub failure: Option<Failure>,
}

/// The certificate in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateState {
    /// The identity that it proves, if it proves one.
    pub name: Option<Identity>,
    /// When it becomes valid.
    pub not_before: SystemTime,
    /// When it expires.
    pub not_after: SystemTime,
    /// When it was put in force.
    pub since: SystemTime,
    /// How many roots are trusted with it.
    pub roots: usize,
    /// Why others would not accept it now, as far as we can tell; checked every few seconds.
    pub doubt: Option<Arc<str>>,
}

/// What went wrong at the last attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// Where.
    pub kind: FailureKind,
    /// What, in words for an operator.
    pub message: Arc<str>,
    /// When.
    pub at: SystemTime,
}

/// Where an attempt went wrong.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// The roots cannot be read or are none.
    Roots,
    /// Certificate or key on disk cannot be read or used.
    Files,
    /// The token cannot be read or is empty.
    Token,
    /// The issuer or agent cannot be connected to, or is not who it should be.
    Unreachable,
    /// The issuer or agent answered with an error, or not in time.
    Refused,
    /// The issuer or agent answered with something that cannot be accepted.
    Answer,
    /// What is in force is not accepted by others any more.
    Certificate,
}

impl FailureKind {
    /// As it is shown in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Roots => "roots",
            Self::Files => "files",
            Self::Token => "token",
            Self::Unreachable => "unreachable",
            Self::Refused => "refused",
            Self::Answer => "answer",
            Self::Certificate => "certificate",
        }
    }
}

impl IdentityState {
    /// Why there is no identity that others would accept now; `None`: there is one.
    pub fn missing(&self, now: SystemTime) -> Option<String> {
        let because = |reason: String| match &self.failure {
            Some(failure) => Some(format!("{reason}: {}", failure.message)),
            None => Some(reason),
        };
        let Some(held) = &self.certificate else {
            return because("no certificate yet".to_owned());
        };
        if now >= held.not_after {
            return because(format!(
                "the certificate expired at {}",
                rfc3339_seconds(held.not_after)
            ));
        }
        if now < held.not_before {
            let (begins, now) = (rfc3339_seconds(held.not_before), rfc3339_seconds(now));
            return because(format!("the certificate is not valid before {begins}; it is {now}"));
        }
        held.doubt.as_ref().map(|doubt| doubt.to_string())
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::arithmetic_side_effects, reason = "test times are small")]
    use super::*;
    use std::time::{Duration, UNIX_EPOCH};

    fn at(seconds: u64) -> SystemTime {
        UNIX_EPOCH + Duration::from_secs(seconds)
    }

    fn held() -> CertificateState {
        CertificateState {
            name: Some(Identity::Dns("web.example".into())),
            not_before: at(100),
            not_after: at(200),
            since: at(100),
            roots: 1,
            doubt: None,
        }
    }

    #[test]
    fn an_identity_is_missing_before_its_certificate_while_it_is_not_valid_and_after() {
        let none = IdentityState::default();
        assert_eq!(none.missing(at(0)).unwrap(), "no certificate yet");
        let state = IdentityState { certificate: Some(held()), failure: None };
        assert_eq!(
            state.missing(at(99)).unwrap(),
            "the certificate is not valid before 1970-01-01T00:01:40Z; it is 1970-01-01T00:01:39Z"
        );
        assert_eq!(state.missing(at(100)), None);
        assert_eq!(state.missing(at(199)), None);
        assert_eq!(
            state.missing(at(200)).unwrap(),
            "the certificate expired at 1970-01-01T00:03:20Z"
        );
    }

    #[test]
    fn what_went_wrong_is_told_where_it_matters() {
        let failure = Failure { kind: FailureKind::Refused, message: "away".into(), at: at(150) };
        let mut state = IdentityState { certificate: Some(held()), failure: Some(failure) };
        assert_eq!(state.missing(at(150)), None, "what is in force stays");
        let said = "the certificate expired at 1970-01-01T00:03:20Z: away";
        assert_eq!(state.missing(at(300)).as_deref(), Some(said));
        state.certificate = None;
        assert_eq!(state.missing(at(150)).as_deref(), Some("no certificate yet: away"));
        state.certificate =
            Some(CertificateState { doubt: Some("unknown issuer".into()), ..held() });
        assert_eq!(state.missing(at(150)).as_deref(), Some("unknown issuer"));
    }
}
