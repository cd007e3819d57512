//! `event-bridge completions`.

use clap::{Args, CommandFactory};
use clap_complete::Shell;

use super::{Cli, CliError, out};

pub(super) const EXAMPLES: &str = "Examples:
  event-bridge completions bash > /etc/bash_completion.d/event-bridge
  event-bridge completions zsh > \"${fpath[1]}/_event-bridge\"
  event-bridge completions fish > ~/.config/fish/completions/event-bridge.fish";

#[derive(Debug, Args)]
pub(super) struct CompletionsArgs {
    /// The shell.
    shell: Shell,
}

pub(super) fn completions(args: &CompletionsArgs) -> Result<(), CliError> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "event-bridge", &mut script);
    out::print(&String::from_utf8_lossy(&script))
}
