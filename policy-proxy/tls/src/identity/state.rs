//! State of an identity source: the certificate in force, its validity for other members of the
//! mesh, and the last failure.

use crate::datetime::rfc3339_seconds;
use policy_core::Identity;
use std::sync::Arc;
use std::time::SystemTime;

/// State of an identity source.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct IdentityState {
    /// The certificate in force; `None` if none was received yet, or it was revoked.
    pub certificate: Option<CertificateState>,
    /// Failure of the last attempt; `None` if it was successful.
    pub failure: Option<Failure>,
}

/// The certificate in force.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateState {
    /// The identity that it proves, if any.
    pub name: Option<Identity>,
    /// Start of the validity.
    pub not_before: SystemTime,
    /// Time of expiry.
    pub not_after: SystemTime,
    /// Time when it was put in force.
    pub since: SystemTime,
    /// Number of trusted roots.
    pub roots: usize,
    /// Reason why other members of the mesh would reject it, as far as known; checked every few
    /// seconds.
    pub rejection: Option<Arc<str>>,
}

/// Failure of the last attempt.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// The kind of failure.
    pub kind: FailureKind,
    /// The message for operators.
    pub message: Arc<str>,
    /// The time.
    pub at: SystemTime,
}

/// Kind of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum FailureKind {
    /// The roots cannot be read, or there are none.
    Roots,
    /// The certificate or key file cannot be read or used.
    Files,
    /// The token cannot be read or is empty.
    Token,
    /// The issuer or agent is unreachable, or did not prove its identity.
    Unreachable,
    /// The issuer or agent returned an error, or timed out.
    Refused,
    /// The issuer or agent returned an unacceptable response.
    Answer,
    /// Other members of the mesh reject the current certificate.
    Certificate,
}

impl FailureKind {
    /// Returns the label in metrics.
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
    /// Returns the reason if there is no identity that other members of the mesh would accept now.
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
        held.rejection.as_ref().map(|rejection| rejection.to_string())
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
            rejection: None,
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
            Some(CertificateState { rejection: Some("unknown issuer".into()), ..held() });
        assert_eq!(state.missing(at(150)).as_deref(), Some("unknown issuer"));
    }
}
