//! The parts of a port's policy that objects of other namespaces contribute, and the policy without some
//! of them.
//!
//! A message has a bound, and everybody to whom an owner hands a path may fill it. So the owner's own part
//! comes first: of a policy that is too large the largest contribution of another namespace is denied, on
//! its own paths, then the next (docs/spec/delegation.md, 7).

mod contributor;
mod share;
mod size;
mod without;

#[cfg(any(test, feature = "testing"))]
pub(crate) use contributor::contributor;
pub use share::{Excess, NamespaceContribution, contributions, fitted, owners_part};
pub(crate) use size::expressions_of;
pub use size::{expressions, size};
pub(crate) use without::beginning;
pub use without::without;
