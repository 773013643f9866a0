//! `--linkerd-compatible`, and the flags of single differences from Linkerd. Both follow from one list
//! (`policy_engine::compatibility`).

use clap::builder::{ArgPredicate, PossibleValue, PossibleValuesParser};
use clap::error::ErrorKind;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use policy_engine::behaviour::Behaviours;
use policy_engine::compatibility::{DIFFERENCES, Difference, LINKERDS, Restoration};

/// Identifier of the preset among the flags.
const PRESET: &str = "linkerd_compatible";
const HEADING: &str = "Differences from Linkerd";
/// The value of each flag for our behaviour.
const OURS: &str = "portcullis";

/// Flags of one difference each, whose values are `portcullis` and `linkerd`.
#[derive(Clone, Copy, Debug, Default)]
pub struct BehaviourArgs {
    /// The behaviour that is taken over from Linkerd.
    pub as_linkerd: Behaviours,
}

/// Gives a flag of the list the value of Linkerd's behaviour beside `--linkerd-compatible`, unless it
/// is given itself.
pub(super) fn with_linkerds_default(arg: Arg) -> Arg {
    let mut flags = DIFFERENCES.iter().filter_map(Difference::flag);
    match flags.find(|(name, _)| arg.get_long() == Some(*name)) {
        Some((_, value)) => {
            arg.default_value_if(PRESET, ArgPredicate::Equals("true".into()), value)
        }
        None => arg,
    }
}

fn flag(difference: &Difference) -> Arg {
    let values = [(OURS, difference.portcullis), (LINKERDS, difference.linkerd)];
    let values = values.map(|(name, help)| PossibleValue::new(name).help(help));
    Arg::new(difference.name)
        .long(difference.name)
        .value_name("WHOSE")
        .help(difference.matter)
        .help_heading(HEADING)
        .value_parser(PossibleValuesParser::new(values))
        .default_value(OURS)
}

impl FromArgMatches for BehaviourArgs {
    fn from_arg_matches(matches: &ArgMatches) -> Result<Self, clap::Error> {
        let mut args = Self::default();
        args.update_from_arg_matches(matches)?;
        Ok(args)
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), clap::Error> {
        let mut as_linkerd = Behaviours::default();
        for difference in &DIFFERENCES {
            let Restoration::Behaviour(behaviour) = difference.restoration else { continue };
            let value = matches.try_get_one::<String>(difference.name);
            let value = value.map_err(|error| clap::Error::raw(ErrorKind::InvalidValue, error))?;
            if value.is_some_and(|value| value == LINKERDS) {
                as_linkerd.insert(behaviour);
            }
        }
        self.as_linkerd = as_linkerd;
        Ok(())
    }
}

impl Args for BehaviourArgs {
    fn augment_args(command: Command) -> Command {
        let flags = DIFFERENCES.iter().filter(|difference| match difference.restoration {
            Restoration::Behaviour(_) => true,
            Restoration::Flag { .. } | Restoration::Elsewhere(_) | Restoration::None(_) => false,
        });
        command.args(flags.map(flag))
    }

    fn augment_args_for_update(command: Command) -> Command {
        Self::augment_args(command)
    }
}

/// The description of `--linkerd-compatible`.
pub(super) fn preset_help() -> String {
    let flags = DIFFERENCES.iter().filter_map(Difference::flag);
    let flags: Vec<String> = flags.map(|(name, value)| format!("--{name}={value}")).collect();
    format!(
        "Behave as Linkerd's controller does where clients of its API can tell: sets {}. A flag that \
         is given itself counts",
        flags.join(", ")
    )
}
