//! Declarations of metrics: a name, labels and a help text, in one place each. Every crate declares its
//! own, and docs/metrics.md is held to all of them by tests.
//!
//! It lies here because no other crate is below all that have metrics. Nothing here counts: what
//! [`metrics!`](crate::metrics) writes names `prometheus_client` of the crate that declares.

/// A metric's name without what its type adds (`_total`, `_bucket`, …), its labels, and its help text.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Metric {
    /// Name.
    pub name: &'static str,
    /// Labels and groups of labels, separated by blanks, in the order they are written.
    pub labels: &'static str,
    /// Help text.
    pub help: &'static str,
}

/// Declares metrics.
///
/// `NAME = "name", "labels", "help";` declares constants of the crate, and `ALL` in the order of the
/// list: where one collector writes many metrics.
///
/// `struct Set { field: Type = "name", "help"; }` declares handles on them, which clones share, with
/// `register`, which adds them to a registry, and `all`, which lists them. `=> value` after the help
/// text makes a metric that has no default, such as a histogram. `with { part: Set; }` adds the metrics
/// of another set.
#[macro_export]
macro_rules! metrics {
    (@new) => { Default::default() };
    (@new $new:expr) => { $new };
    (
        $(#[$attribute:meta])*
        $seen:vis struct $set:ident {
            $($field_seen:vis $field:ident: $type:ty = $name:literal, $help:literal $(=> $new:expr)?;)*
        }
        $(with { $($part_seen:vis $part:ident: $part_type:ty;)* })?
    ) => {
        $(#[$attribute])*
        $seen struct $set {
            $(#[doc = $help] $field_seen $field: $type,)*
            $($(#[doc = "Others that belong to these."] $part_seen $part: $part_type,)*)?
        }

        impl Default for $set {
            fn default() -> Self {
                Self {
                    $($field: $crate::metrics!(@new $($new)?),)*
                    $($($part: Default::default(),)*)?
                }
            }
        }

        impl $set {
            /// Adds the metrics to `registry`.
            $seen fn register(&self, registry: &mut prometheus_client::registry::Registry) {
                $(registry.register($name, $help, self.$field.clone());)*
                $($(self.$part.register(registry);)*)?
            }

            /// Every metric, in the order of its declaration.
            $seen fn all() -> impl Iterator<Item = $crate::metric::Metric> {
                let own = [$($crate::metric::Metric { name: $name, labels: "", help: $help }),*];
                own.into_iter()$($(.chain(<$part_type>::all()))*)?
            }
        }
    };
    ($($id:ident = $name:literal, $labels:literal, $help:literal;)*) => {
        $(
            #[doc = $help]
            pub(crate) const $id: $crate::metric::Metric =
                $crate::metric::Metric { name: $name, labels: $labels, help: $help };
        )*

        /// All of them, in the order of this file.
        pub const ALL: &[$crate::metric::Metric] = &[$($id),*];
    };
}
