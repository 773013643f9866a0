//! The Helm chart: what is copied into it is current, its values are documented and guarded, and what
//! it renders is what is expected.

mod checked;
mod flags;
mod generated;
mod golden;
mod reach;
mod services;
mod values;

/// Helm for a release in the default namespace; absent: the test is to return.
fn helm() -> Option<policy_tests::chart::Helm> {
    policy_tests::chart::Helm::or_skip("portcullis")
}
