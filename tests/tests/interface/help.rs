//! The help of every command of the three programs, whole.

use crate::compare;
use clap::CommandFactory;
use std::fmt::Write;
use std::process::Command;

/// The help of a program and of every command below it, as the program prints it.
fn printed(program: &str, shown: &str, path: &[String], text: &mut String) {
    let output = Command::new(program).args(path).arg("--help").env_clear().output().unwrap();
    assert!(output.status.success(), "{shown} {path:?}: {}", output.status);
    // The programs under test are the programs under another name.
    let help = String::from_utf8(output.stdout).unwrap().replace("-under-test", "");
    section(shown, path, &help, text);
    let listed = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
    let names = listed.lines().take_while(|line| !line.is_empty());
    for name in names.filter_map(|line| line.strip_prefix("  ")?.split(' ').next()) {
        // Further lines of a description are indented more deeply, and `help` repeats the others.
        if !name.is_empty() && name != "help" {
            printed(program, shown, &[path, &[name.to_owned()]].concat(), text);
        }
    }
}

/// The same of a program that the tests do not build.
fn rendered(command: &mut clap::Command, path: &[String], shown: &str, text: &mut String) {
    section(shown, path, &format!("{}\n", command.render_help()), text);
    for command in command.get_subcommands_mut().filter(|command| command.get_name() != "help") {
        let path = [path, &[command.get_name().to_owned()]].concat();
        rendered(command, &path, shown, text);
    }
}

fn section(shown: &str, path: &[String], help: &str, text: &mut String) {
    let command = [&[shown.to_owned()], path].concat().join(" ");
    // Lines that wrap end with a space here and there, which editors would remove.
    let help: Vec<&str> = help.lines().map(str::trim_end).collect();
    writeln!(text, "$ {command} --help\n{}\n", help.join("\n").trim_end()).unwrap();
}

#[test]
fn the_help_of_portcullis() {
    let mut text = String::new();
    printed(env!("CARGO_BIN_EXE_portcullis-under-test"), "portcullis", &[], &mut text);
    assert!(text.contains("$ portcullis authz --help"), "{text}");
    compare("help/portcullis.txt", &text);
}

#[test]
fn the_help_of_policy_controller() {
    let program = env!("CARGO_BIN_EXE_policy-controller-under-test");
    let mut text = String::new();
    printed(program, "policy-controller", &[], &mut text);
    assert!(text.contains("$ policy-controller issuer --help"), "{text}");
    compare("help/policy-controller.txt", &text);
}

#[test]
fn the_help_of_policy_proxy() {
    let mut command = policy_proxy::args::Cli::command();
    command.build();
    let mut text = String::new();
    rendered(&mut command, &[], "policy-proxy", &mut text);
    assert!(text.contains("$ policy-proxy redirect --help"), "{text}");
    compare("help/policy-proxy.txt", &text);
}
