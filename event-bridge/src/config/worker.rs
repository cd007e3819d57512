//! One worker: address, role, data-parallel ranks and where each rank publishes its KV events.

use std::collections::BTreeMap;

use kv_routing::wire::Role;

use super::endpoint::WorkerAddress;
use super::error::Problem;
use super::events::{EventDefaults, EventFeed, WorkerFeed};
use super::handoff::BootstrapSpec;
use super::raw::{RawRole, RawWorker};

/// Most data-parallel ranks of one worker.
pub const MAX_RANKS: u32 = 1024;

/// One worker process, with one target per rank.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerSpec {
    /// HTTP address.
    pub address: WorkerAddress,
    /// Which phase it serves; `None`: what the engine says, else both.
    pub role: Option<Role>,
    /// Its data-parallel ranks with the events of each. A worker without ranks has one entry, rank `None`.
    pub ranks: Vec<RankSpec>,
    /// The engine is asked where its ranks publish, and which ranks there are when none are configured.
    pub ask_sources: bool,
    /// Labels for policies.
    pub labels: BTreeMap<String, String>,
    /// Leaving: takes no new requests, its endpoint stays in Envoy as draining.
    pub drain: bool,
    /// Most prompt tokens it takes in one engine step; `None` when not told.
    pub max_batched_tokens: Option<u64>,
    /// Where it hands over, when it is a prefill worker.
    pub bootstrap: BootstrapSpec,
}

/// One rank of a worker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RankSpec {
    /// Value of the rank header; `None` when the worker has a single rank and takes no such header.
    pub rank: Option<u32>,
    /// How its events come; `None`: there are none, or the engine has not said yet where.
    pub events: Option<EventFeed>,
}

/// What a pool says about workers that do not say it themselves.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct WorkerDefaults {
    /// Event sockets.
    pub events: EventDefaults,
    /// Most prompt tokens of an engine step.
    pub max_batched_tokens: Option<u64>,
    /// Port of bootstrap servers.
    pub bootstrap_port: Option<u16>,
    /// Label that tells the role.
    pub role_label: String,
}

pub(super) fn resolve_all(
    raw: Vec<RawWorker>,
    field: &str,
    defaults: &WorkerDefaults,
    max: u32,
) -> Result<Vec<WorkerSpec>, Problem> {
    if raw.len() > max as usize {
        return Err(Problem::new(
            field,
            format!("{} workers, limits.max_workers is {max}", raw.len()),
            "raise limits.max_workers or split the pool",
        ));
    }
    let mut seen = BTreeMap::new();
    let mut workers = Vec::with_capacity(raw.len());
    for (at, worker) in raw.into_iter().enumerate() {
        let field = format!("{field}[{at}]");
        let worker = resolve(worker, &field, defaults)?;
        if let Some(first) = seen.insert(worker.address, at) {
            return Err(Problem::new(
                format!("{field}.address"),
                format!("{} is already worker {first}", worker.address),
                "list each address once; data-parallel ranks behind one address are `ranks`",
            ));
        }
        workers.push(worker);
    }
    Ok(workers)
}

fn resolve(raw: RawWorker, field: &str, defaults: &WorkerDefaults) -> Result<WorkerSpec, Problem> {
    let RawWorker { address, role, ranks, first_rank, events, labels, drain, max_batched_tokens, bootstrap } = raw;
    let address = WorkerAddress::parse(&address).map_err(|what| {
        Problem::new(format!("{field}.address"), what, "write the address as Envoy sees it, for example 10.0.0.7:8000")
    })?;
    let role = match role {
        Some(RawRole::Both) => Some(Role::Both),
        Some(RawRole::Prefill) => Some(Role::Prefill),
        Some(RawRole::Decode) => Some(Role::Decode),
        None => labelled_role(&labels, &defaults.role_label, field)?,
    };
    let feed = defaults.events.for_worker(events.unwrap_or_default(), address, &format!("{field}.events"))?;
    let ranks = resolve_ranks(ranks, first_rank, field)?
        .into_iter()
        .map(|rank| {
            let events = match &feed {
                WorkerFeed::None | WorkerFeed::Asked => Ok(None),
                WorkerFeed::Polled(url) => Ok(Some(EventFeed::Polled { url: url.clone() })),
                WorkerFeed::Socket(stream) => {
                    stream.for_rank(rank.unwrap_or(0)).map(|own| Some(EventFeed::Socket(own)))
                }
            };
            events.map(|events| RankSpec { rank, events }).map_err(|what| {
                Problem::new(format!("{field}.ranks"), what, "give a tcp:// endpoint with room for one port per rank")
            })
        })
        .collect::<Result<_, _>>()?;
    Ok(WorkerSpec {
        address,
        role,
        ranks,
        ask_sources: feed == WorkerFeed::Asked,
        labels,
        drain,
        max_batched_tokens: max_batched_tokens.or(defaults.max_batched_tokens),
        bootstrap: BootstrapSpec::resolve(bootstrap, address, defaults.bootstrap_port),
    })
}

/// The role that a label tells, in the words of llm-d where they differ.
fn labelled_role(labels: &BTreeMap<String, String>, label: &str, field: &str) -> Result<Option<Role>, Problem> {
    let Some(value) = labels.get(label) else { return Ok(None) };
    match value.as_str() {
        "prefill" => Ok(Some(Role::Prefill)),
        "decode" => Ok(Some(Role::Decode)),
        "both" | "prefill-decode" => Ok(Some(Role::Both)),
        _ => Err(Problem::new(
            format!("{field}.labels"),
            format!("`{label}` is `{value}`, which is no role"),
            "use prefill, decode, both or prefill-decode, give the worker a `role`, or leave it out",
        )),
    }
}

fn resolve_ranks(ranks: Option<u32>, first: Option<u32>, field: &str) -> Result<Vec<Option<u32>>, Problem> {
    let Some(count) = ranks else {
        return match first {
            None => Ok(vec![None]),
            Some(_) => Err(Problem::new(
                format!("{field}.first_rank"),
                "has no meaning without `ranks`",
                "set `ranks` to the number of data-parallel ranks behind this address",
            )),
        };
    };
    let first = first.unwrap_or(0);
    match first.checked_add(count) {
        Some(end) if (1..=MAX_RANKS).contains(&count) => Ok((first..end).map(Some).collect()),
        _ => Err(Problem::new(
            format!("{field}.ranks"),
            format!("{count} ranks from {first}"),
            format!("use 1 to {MAX_RANKS}, or leave `ranks` out"),
        )),
    }
}

/// A worker without events, for tests.
#[cfg(test)]
pub(crate) fn test_worker(address: &str) -> WorkerSpec {
    WorkerSpec {
        address: WorkerAddress::parse(address).unwrap(),
        role: None,
        ranks: vec![RankSpec { rank: None, events: None }],
        ask_sources: false,
        labels: BTreeMap::new(),
        drain: false,
        max_batched_tokens: None,
        bootstrap: BootstrapSpec::at(WorkerAddress::parse(address).unwrap()),
    }
}
