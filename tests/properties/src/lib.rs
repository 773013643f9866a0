//! proptest for the whole workspace, which depends on this crate under that name.
//!
//! It differs in one thing: the seed of a failing input is kept in a file of the package that the property
//! is in, wherever its source is ([`Regressions`]), and the failure says how it is repeated. So no property
//! configures that itself.

mod regressions;

pub use ::proptest::*;
pub use regressions::{Regressions, kept};

#[doc(hidden)]
pub use ::proptest as unchanged;

/// Declares properties, as proptest's macro of this name does. The seeds of failing inputs are kept.
#[macro_export]
macro_rules! proptest {
    (#![proptest_config($config:expr)] $($properties:tt)*) => {
        $crate::unchanged::proptest! {
            #![proptest_config($crate::kept($config))]
            $($properties)*
        }
    };
    ($($properties:tt)*) => {
        $crate::unchanged::proptest! {
            #![proptest_config($crate::kept($crate::test_runner::Config::default()))]
            $($properties)*
        }
    };
}

/// All that a file of properties needs.
pub mod prelude {
    pub use crate::proptest;
    pub use ::proptest::prelude::*;
}
