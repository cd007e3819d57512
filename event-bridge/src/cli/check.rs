//! `event-bridge check`.

use std::fmt::Write as _;
use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use kv_routing::wire::Role;

use super::model::Model;
use super::{CliError, out};
use crate::config::{
    Config, EnvoyConfig, EventFeed, IngestEndpoint, PoolConfig, WorkerSource, WorkerSpec, parse_workers, read,
};
use crate::policy::{self, Refused, Surroundings};
use crate::tokenizer::{BridgeTokenizer, ModelFiles, RenderOptions};

pub(super) const EXAMPLES: &str = "Examples:
  event-bridge check --config /etc/kv-router/bridge.yaml

Nothing is connected to and nothing is written.";

#[derive(Debug, Args)]
pub(super) struct CheckArgs {
    /// Configuration file.
    #[arg(long, short, value_name = "FILE")]
    config: PathBuf,
}

pub(super) fn check(args: &CheckArgs) -> Result<(), CliError> {
    let config = Config::load(&args.config)?;
    let mut report = Report::default();
    report.config(&config);
    out::print(&report.text)?;
    match report.problems {
        0 => Ok(()),
        problems => Err(CliError::Unusable(problems)),
    }
}

/// What the bridge would do, and what of it would not work.
#[derive(Debug, Default)]
struct Report {
    text: String,
    problems: usize,
}

impl Report {
    fn line(&mut self, indent: usize, text: &str) {
        // Writing to a string cannot fail.
        let _ = writeln!(self.text, "{:indent$}{text}", "");
    }

    fn problem(&mut self, indent: usize, text: &str) {
        self.problems += 1;
        self.line(indent, &format!("PROBLEM: {text}"));
    }

    fn config(&mut self, config: &Config) {
        let Config { envoys, admin, log, push, policy_file, warm_start, pools } = config;
        self.line(0, &format!("admin server on http://{}", admin.listen));
        self.line(0, &format!("log filter {}, {} lines", log.filter, log.format.as_str()));
        let (interval, heartbeat) = (push.interval.as_millis(), push.heartbeat.as_millis());
        self.line(0, &format!("pushes at most every {interval} ms, heartbeat every {heartbeat} ms"));
        match warm_start {
            Some(warm) if warm.dir.exists() && !warm.dir.is_dir() => {
                self.problem(0, &format!("warm_start.dir {} is not a folder", warm.dir.display()));
            }
            Some(warm) => self.line(0, &format!("state is kept in {} for the next start", warm.dir.display())),
            None => self.line(0, "no state is kept for the next start"),
        }
        if envoys.is_empty() {
            self.line(0, "no Envoy is supplied: this bridge only watches");
        }
        envoys.iter().for_each(|envoy| self.envoy(envoy));
        pools.iter().for_each(|pool| self.pool(pool));
        match policy_file {
            Some(path) => self.policy(path, &Surroundings::of(config)),
            None => self.line(0, "no policy file: requests are routed by KV cache and load with default weights"),
        }
    }

    fn policy(&mut self, path: &Path, surroundings: &Surroundings) {
        self.line(0, &format!("policy document {}, watched", path.display()));
        match fs::read(path).map(|text| policy::compile(&text, surroundings)) {
            Ok(Ok(compiled)) => {
                let names: Vec<&str> = compiled.rules.policies.iter().map(|policy| policy.name.as_str()).collect();
                self.line(2, &format!("{} rules over policies {}", compiled.rules.rules.len(), names.join(", ")));
                compiled.warnings.iter().for_each(|warning| self.line(2, &warning.to_string()));
            }
            Ok(Err(Refused(problems))) => problems.iter().for_each(|problem| self.problem(2, &problem.to_string())),
            Err(error) => self.problem(2, &format!("{}: {error}", path.display())),
        }
    }

    fn envoy(&mut self, envoy: &EnvoyConfig) {
        self.line(0, &format!("Envoy {}: pushes to {}", envoy.name, envoy.endpoint));
        if let IngestEndpoint::Unix(path) = &envoy.endpoint
            && path.parent().is_some_and(|dir| !dir.is_dir())
        {
            self.problem(2, &format!("the folder of {} does not exist", path.display()));
        }
        if let Some(path) = &envoy.secret_file {
            match fs::read_to_string(path) {
                Ok(secret) if secret.trim().is_empty() => self.problem(2, &format!("{} is empty", path.display())),
                Ok(_) => self.line(2, &format!("with the secret in {}", path.display())),
                Err(error) => self.problem(2, &format!("{}: {error}", path.display())),
            }
        }
    }

    fn pool(&mut self, pool: &PoolConfig) {
        self.line(0, &format!("pool {}: models {}", pool.name, pool.models.join(", ")));
        if !pool.adapters.is_empty() {
            self.line(2, &format!("adapters {}", pool.adapters.join(", ")));
        }
        match &pool.model_dir {
            Some(dir) => self.model_dir(dir, &pool.chat),
            None => self.line(2, "no model directory: only token-id prompts are matched exactly"),
        }
        self.endpoints(&pool.cluster, pool.eds_file.as_deref());
        if let Some(path) = &pool.handoff.eds_file {
            self.line(2, &format!("prefill workers hand over by {}", pool.handoff.protocol.as_str()));
            self.endpoints(&pool.handoff.cluster, Some(path));
        }
        match &pool.workers {
            WorkerSource::Static(workers) => self.workers(workers),
            WorkerSource::File(path) => self.workers_file(pool, path),
        }
    }

    fn endpoints(&mut self, cluster: &str, file: Option<&Path>) {
        match file {
            Some(path) => {
                self.line(2, &format!("endpoints of cluster {cluster} are written to {}", path.display()));
                if path.parent().is_some_and(|dir| !dir.as_os_str().is_empty() && !dir.is_dir()) {
                    self.problem(2, &format!("the folder of {} does not exist", path.display()));
                }
            }
            None => self.line(2, &format!("cluster {cluster} has its endpoints from elsewhere")),
        }
    }

    fn model_dir(&mut self, dir: &Path, options: &RenderOptions) {
        self.line(2, &format!("tokenizer and chat template from {}", dir.display()));
        let proved = Model::load_with(dir, options).and_then(|mut model| Ok((model.prove()?, model)));
        match proved {
            Ok(((tested, chats), model)) => {
                let (texts, tokens) = (tested.texts, tested.tokens);
                self.line(4, &format!("equal to the Hugging Face library on {texts} texts, {tokens} tokens"));
                match &model.compiled.report.template_problem {
                    Some(problem) if BridgeTokenizer::renders_what_the_core_cannot(&model.files) => {
                        self.line(4, &format!("chats are tokenized by the bridge: {problem}"));
                    }
                    Some(problem) => self.problem(4, &format!("chats cannot be rendered: {problem}")),
                    None => match chats.problem() {
                        Some(problem) => self.problem(4, &format!("chats cannot be rendered: {problem}")),
                        None => self.line(4, &format!("equal to the chat template on {} conversations", chats.equal)),
                    },
                }
            }
            Err(error) => self.bridge_tokenizer(dir, options, &error),
        }
    }

    /// Whether the bridge can stand in for the filter's core.
    fn bridge_tokenizer(&mut self, dir: &Path, options: &RenderOptions, why: &CliError) {
        let loaded = ModelFiles::read(dir).map_err(CliError::from);
        match loaded.and_then(|files| Ok(BridgeTokenizer::load(&files, options)?)) {
            Ok(tokenizer) => {
                self.line(4, &format!("prompts are tokenized by the bridge, many times slower: {why}"));
                if let Some(problem) = tokenizer.template_problem() {
                    self.problem(4, &format!("chats cannot be rendered: {problem}"));
                }
            }
            Err(error) => self.problem(4, &format!("{why}; nor can the bridge tokenize: {error}")),
        }
    }

    fn workers_file(&mut self, pool: &PoolConfig, path: &Path) {
        self.line(2, &format!("workers from {}, watched", path.display()));
        let parsed = read(path).and_then(|text| parse_workers(&text, path, &pool.worker_defaults, pool.limits));
        match parsed {
            Ok(workers) => self.workers(&workers),
            Err(error) => self.problem(2, &error.to_string()),
        }
    }

    fn workers(&mut self, workers: &[WorkerSpec]) {
        if workers.is_empty() {
            self.line(2, "no workers at present");
        }
        for worker in workers {
            let draining = if worker.drain { ", draining" } else { "" };
            let role = role(worker.role.unwrap_or(Role::Both));
            self.line(2, &format!("worker {} ({role}{draining})", worker.address));
            for rank in &worker.ranks {
                let name = rank.rank.map(|rank| format!("rank {rank}: ")).unwrap_or_default();
                let events = match &rank.events {
                    None if worker.ask_sources => "events from where the engine says that it publishes".to_owned(),
                    None => "no events: load only".to_owned(),
                    Some(EventFeed::Polled { url }) => format!("events fetched from {url}"),
                    Some(EventFeed::Socket(events)) => {
                        let verb = if events.bind { "awaited on" } else { "from" };
                        let replay = events.replay.as_deref().unwrap_or("none");
                        format!("events {verb} {}, replay {replay}", events.endpoint)
                    }
                };
                self.line(4, &format!("{name}{events}"));
            }
        }
    }
}

fn role(role: Role) -> &'static str {
    match role {
        Role::Both => "prefill and decode",
        Role::Prefill => "prefill only",
        Role::Decode => "decode only",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::scratch::Scratch;

    #[test]
    fn says_what_would_happen_and_what_would_not_work() {
        let scratch = Scratch::new();
        let path = scratch.path("bridge.yaml");
        let pool = "name: p, models: [m], adapters: [a], eds_file: eds.json, workers_file: w.yaml, model_dir: none";
        fs::write(&path, format!("envoys: [{{endpoint: 'unix:i.sock'}}]\npools: [{{{pool}}}]")).unwrap();
        let report = |path: &Path| {
            let mut report = Report::default();
            report.config(&Config::load(path).unwrap());
            report
        };
        let before = report(&path);
        assert_eq!(before.problems, 2, "{}", before.text);
        assert!(before.text.contains("PROBLEM: ") && before.text.contains("w.yaml"), "{}", before.text);

        fs::create_dir(scratch.path("none")).unwrap();
        fs::write(scratch.path("w.yaml"), "workers: [{address: '10.0.0.1:80', ranks: 2, drain: true}]").unwrap();
        let after = report(&path);
        assert_eq!(after.problems, 1, "{}", after.text);
        assert!(after.text.contains("tokenizer.json"), "an empty model directory is of no use: {}", after.text);
        for part in [
            "worker 10.0.0.1:80 (prefill and decode, draining)",
            "rank 1: events from tcp://10.0.0.1:5558, replay none",
        ] {
            assert!(after.text.contains(part), "{part} missing in {}", after.text);
        }
    }
}
