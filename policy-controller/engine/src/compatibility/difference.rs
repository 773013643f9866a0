//! One deliberate difference from Linkerd's policy controller.

use crate::behaviour::Behaviour;
use crate::config::ControllerConfig;

/// A deliberate difference from Linkerd.
#[derive(Clone, Copy, Debug)]
pub struct Difference {
    /// Stable name.
    pub name: &'static str,
    /// The difference, in words.
    pub matter: &'static str,
    /// Behaviour of Linkerd.
    pub linkerd: &'static str,
    /// Behaviour of Portcullis, without settings.
    pub portcullis: &'static str,
    /// The place in which it is seen.
    pub seen_in: SeenIn,
    /// The setting that undoes it.
    pub restoration: Restoration,
}

/// The place where a difference is seen.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SeenIn {
    /// The messages of Linkerd's API.
    Messages,
    /// The controller, beside its messages.
    Controller,
    /// Our sidecar alone.
    Sidecar,
}

/// The setting that undoes a difference.
#[derive(Clone, Copy, Debug)]
pub enum Restoration {
    /// A flag of the controller with this value.
    Flag {
        /// Name of the flag, without dashes.
        name: &'static str,
        /// The value that stands for Linkerd's behaviour.
        value: &'static str,
        /// Sets the same in a configuration.
        set: fn(&mut ControllerConfig, Whose),
    },
    /// The flag of the same name as the difference, with the value `linkerd`.
    Behaviour(Behaviour),
    /// A setting of something else than the controller.
    Elsewhere(&'static str),
    /// There is none, for this reason.
    None(&'static str),
}

/// One of the two behaviours of a difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Whose {
    /// Linkerd's.
    Linkerd,
    /// Ours.
    Portcullis,
}

/// The value of a flag of [`Restoration::Behaviour`] for Linkerd's behaviour.
pub const LINKERDS: &str = "linkerd";

impl Difference {
    /// Returns the flag of the controller that undoes it, and the flag's value for that.
    pub fn flag(&self) -> Option<(&'static str, &'static str)> {
        match self.restoration {
            Restoration::Flag { name, value, set: _ } => Some((name, value)),
            Restoration::Behaviour(_) => Some((self.name, LINKERDS)),
            Restoration::Elsewhere(_) | Restoration::None(_) => None,
        }
    }

    /// Sets its flag in `config`, if it has one.
    pub fn set(&self, config: &mut ControllerConfig, whose: Whose) {
        match (self.restoration, whose) {
            (Restoration::Flag { set, .. }, whose) => set(config, whose),
            (Restoration::Behaviour(behaviour), Whose::Linkerd) => {
                config.as_linkerd.insert(behaviour);
            }
            (Restoration::Behaviour(behaviour), Whose::Portcullis) => {
                config.as_linkerd.remove(behaviour);
            }
            (Restoration::Elsewhere(_) | Restoration::None(_), _) => {}
        }
    }

    /// Returns true if its flag is set to Linkerd's behaviour.
    pub fn is_undone(&self, config: &ControllerConfig) -> bool {
        let mut undone = config.clone();
        self.set(&mut undone, Whose::Linkerd);
        self.flag().is_some() && undone == *config
    }
}
