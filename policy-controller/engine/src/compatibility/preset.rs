//! `--linkerd-compatible`: every flag of the list at once.

use super::difference::Whose;
use super::list::DIFFERENCES;
use crate::config::ControllerConfig;

/// Returns `config` with every difference undone that has a flag.
#[must_use]
pub fn with_preset(mut config: ControllerConfig) -> ControllerConfig {
    config.linkerd_compatible = true;
    for difference in &DIFFERENCES {
        difference.set(&mut config, Whose::Linkerd);
    }
    config
}

/// Returns `config` with our behaviour in the difference of this name; `None` if there is no such
/// difference or it has no flag.
pub fn with_ours(mut config: ControllerConfig, name: &str) -> Option<ControllerConfig> {
    let difference = DIFFERENCES.iter().find(|difference| difference.name == name)?;
    difference.flag()?;
    difference.set(&mut config, Whose::Portcullis);
    Some(config)
}

/// The flags that `--linkerd-compatible` has set, and those that were given beside it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PresetReport {
    /// Flags that are as Linkerd behaves, with their values.
    pub set: Vec<String>,
    /// Flags that have another value.
    pub kept: Vec<String>,
}

impl PresetReport {
    /// Returns the report on `config`; `None` if the flag was not given.
    pub fn of(config: &ControllerConfig) -> Option<Self> {
        if !config.linkerd_compatible {
            return None;
        }
        let mut report = Self { set: Vec::new(), kept: Vec::new() };
        for difference in &DIFFERENCES {
            let Some((flag, value)) = difference.flag() else { continue };
            if difference.is_undone(config) {
                report.set.push(format!("--{flag}={value}"));
            } else {
                report.kept.push(format!("--{flag}"));
            }
        }
        Some(report)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::compatibility::{Restoration, SeenIn};
    use std::collections::BTreeSet;

    #[test]
    fn each_difference_has_a_name_of_its_own_and_undoes_one_setting() {
        let mut names = BTreeSet::new();
        let plain = ControllerConfig::default();
        let mut all = plain.clone();
        all.linkerd_compatible = true;
        for difference in &DIFFERENCES {
            let name = difference.name;
            assert!(names.insert(name), "{name} appears twice");
            for text in [difference.matter, difference.linkerd, difference.portcullis] {
                assert!(!text.is_empty() && !text.contains('|'), "{name}: {text}");
            }
            let mut undone = plain.clone();
            difference.set(&mut undone, Whose::Linkerd);
            assert_eq!(undone != plain, difference.flag().is_some(), "{name}");
            assert!(!difference.is_undone(&plain), "{name}");
            assert_eq!(difference.is_undone(&undone), difference.flag().is_some(), "{name}");
            difference.set(&mut undone, Whose::Portcullis);
            assert_eq!(undone, plain, "{name}");
            difference.set(&mut all, Whose::Linkerd);
            assert_eq!(difference.is_undone(&all), difference.flag().is_some(), "{name}");
        }
        assert_eq!(all, with_preset(plain));
    }

    #[test]
    fn what_reaches_messages_has_a_flag_or_a_reason_to_have_none() {
        for difference in DIFFERENCES.iter().filter(|d| d.seen_in == SeenIn::Messages) {
            let has_one = match difference.restoration {
                Restoration::Flag { .. } | Restoration::Behaviour(_) => true,
                Restoration::None(reason) => reason.split(' ').count() > 4,
                Restoration::Elsewhere(_) => false,
            };
            assert!(has_one, "{}", difference.name);
        }
    }

    #[test]
    fn the_report_says_what_the_flag_set_and_what_was_kept() {
        assert_eq!(PresetReport::of(&ControllerConfig::default()), None);
        let mut config = with_preset(ControllerConfig::default());
        let report = PresetReport::of(&config).unwrap();
        assert!(report.set.contains(&"--reference-grants=warn".to_owned()), "{report:?}");
        assert!(report.set.contains(&"--admin-port=linkerd".to_owned()), "{report:?}");
        assert_eq!(report.kept, [""; 0]);
        config.reference_grants = crate::config::ReferenceGrants::Enforce;
        let report = PresetReport::of(&config).unwrap();
        assert_eq!(report.kept, ["--reference-grants"]);
    }
}
