//! The metrics of this crate. Names that Linkerd's proxy has too are spelled as there
//! (docs/spec/proxy.md 4).

policy_core::metrics! {
    IDENTITY_USABLE = "identity_usable", "", "1 if peers would accept our certificate now";
    CERT_EXPIRATION = "control_identity_cert_expiration_timestamp_seconds", "",
        "When our certificate expires";
    CERT_REFRESH = "control_identity_cert_refresh_timestamp_seconds", "",
        "When our certificate was last renewed";
    CERT_REFRESHES = "control_identity_cert_refreshes", "result", "Attempts to renew our identity";
    IDENTITY_FAILURES = "identity_failures", "reason",
        "Failed attempts to renew our identity, by reason";
    IDENTITY_FAILED = "identity_last_failure_timestamp_seconds", "",
        "When an attempt to renew our identity last failed";
    IDENTITY_ROOTS = "identity_roots", "", "Roots that are trusted";
    ROOTS_EXPIRATION = "identity_roots_expiration_timestamp_seconds", "",
        "When the first of the roots expires";
    ROOTS_CHANGES = "identity_roots_changes", "", "Changes of the roots that were put in force";
}
