//! What the objects mean together: pure functions of a key, remembered with what they read.
//!
//! Each question is a type of its own, declared in `memo` in the order of answering: which Server
//! owns each port of a workload shape ([`owner`]), the members of an authentication
//! ([`authentication`]), who a policy grants to ([`grant`]), which routes a Server has ([`route`]),
//! where Linkerd would order them otherwise ([`precedence`]), its rate limit ([`rate_limit`]), what is particular to a workload ([`workload`]), and what each
//! object is told about itself ([`condition`]). A reference into another namespace is followed by
//! [`follow`] and nothing else.

pub(crate) mod authentication;
pub mod condition;
pub(crate) mod follow;
pub(crate) mod grant;
mod graph;
pub(crate) mod memo;
pub(crate) mod namespace;
pub(crate) mod owner;
pub(crate) mod precedence;
pub(crate) mod rate_limit;
pub(crate) mod route;
pub(crate) mod workload;

pub(crate) use memo::{Cell, Context, Memo, Query, Question, Values};

/// Implements [`Question`] by naming the function that answers.
macro_rules! question {
    ($name:ty, $answer:ty, $function:expr) => {
        impl crate::resolve::Question for $name {
            type Answer = $answer;

            fn query(&self) -> crate::resolve::Query {
                self.as_query()
            }

            fn cell(
                values: &mut crate::resolve::Values,
            ) -> &mut crate::resolve::Cell<Self, Self::Answer> {
                Self::values(values)
            }

            fn answer(&self, cx: &mut crate::resolve::Context<'_>) -> Self::Answer {
                $function(self, cx)
            }
        }
    };
}
pub(crate) use question;
