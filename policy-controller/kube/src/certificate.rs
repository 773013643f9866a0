//! Helpers for certificates that are issued here and stored in Secrets.

use rcgen::{CertificateParams, DistinguishedName, DnType, date_time_ymd};
use std::time::{Duration, SystemTime};

/// Sets the validity of `params`: from shortly before `now`, for `lifetime`.
///
/// # Errors
/// If these times cannot be encoded.
pub fn valid(
    params: &mut CertificateParams,
    now: SystemTime,
    lifetime: Duration,
) -> Result<(), rcgen::Error> {
    let since = now.duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    let epoch = date_time_ymd(1970, 1, 1);
    let at = |since: Duration| {
        let whole = Duration::from_secs(since.as_secs());
        whole.try_into().ok().and_then(|span| epoch.checked_add(span)).ok_or(rcgen::Error::Time)
    };
    params.not_before = at(since.saturating_sub(BACKDATED))?;
    params.not_after = at(since.saturating_add(lifetime))?;
    Ok(())
}

/// A distinguished name with a common name only.
pub fn common_name(name: &str) -> DistinguishedName {
    let mut names = DistinguishedName::new();
    names.push(DnType::CommonName, name);
    names
}

/// Time before its creation from which a certificate is valid, for clocks that are behind.
const BACKDATED: Duration = Duration::from_secs(3600);
