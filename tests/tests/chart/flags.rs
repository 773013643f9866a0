//! The flags that the chart renders, as the binary itself reads them.

use crate::helm;
use clap::Parser as _;
use policy_controller::args::IssuerSettings;
use policy_controller::args::{Cli, Command, Settings};
use policy_tests::chart::examples;
use std::collections::BTreeSet;

#[test]
fn every_flag_of_every_example_is_one_that_the_binary_takes() {
    let Some(helm) = helm() else { return };
    let mut seen = BTreeSet::new();
    for (example, values) in examples().unwrap() {
        for object in helm.objects(&values).unwrap() {
            if object["kind"] != "Deployment" {
                continue;
            }
            let container = &object["spec"]["template"]["spec"]["containers"][0];
            let flags = container["args"].as_array().unwrap();
            let flags = flags.iter().map(|flag| flag.as_str().unwrap());
            let cli = Cli::try_parse_from(["policy-controller"].into_iter().chain(flags));
            let cli = cli.unwrap_or_else(|error| panic!("{example}: {error}"));
            let (process, refused) = match cli.command {
                Command::Run(args) => {
                    ("run", Settings::try_from(*args).err().map(|e| e.to_string()))
                }
                Command::Issuer(args) => {
                    ("issuer", IssuerSettings::try_from(*args).err().map(|e| e.to_string()))
                }
            };
            assert_eq!(refused, None, "{example}: {process}");
            seen.insert(process);
        }
    }
    assert_eq!(seen, BTreeSet::from(["issuer", "run"]));
}
