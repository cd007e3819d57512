//! Where engines say that they publish, and what that makes of their workers' descriptions.

use std::collections::BTreeMap;

use crate::config::{EventFeed, EventStream, RankSpec, WorkerAddress, WorkerSpec};
use crate::engine::EventSource;

/// What engines have said, by worker.
#[derive(Debug, Default)]
pub(super) struct Sources(BTreeMap<WorkerAddress, Vec<EventSource>>);

impl Sources {
    /// Takes an engine's answer. Returns whether it is news.
    pub(super) fn learn(&mut self, worker: WorkerAddress, sources: Vec<EventSource>) -> bool {
        let news = self.0.get(&worker) != Some(&sources);
        self.0.insert(worker, sources);
        news
    }

    /// Whether the engine has answered.
    pub(super) fn knows(&self, worker: WorkerAddress) -> bool {
        self.0.contains_key(&worker)
    }

    /// Forgets workers that are not among `workers`.
    pub(super) fn retain(&mut self, workers: &[WorkerSpec]) {
        self.0.retain(|address, _| workers.iter().any(|worker| worker.address == *address));
    }

    /// `worker` as its engine completes it.
    pub(super) fn complete(&self, worker: &WorkerSpec) -> WorkerSpec {
        let sources = self.0.get(&worker.address).filter(|_| worker.ask_sources);
        let ranks = sources.map_or_else(|| worker.ranks.clone(), |sources| complete(&worker.ranks, sources));
        WorkerSpec { ranks, ..worker.clone() }
    }

    /// Ranks that are configured for `worker` and that its engine does not name.
    pub(super) fn missing(&self, worker: &WorkerSpec) -> Option<String> {
        let sources = self.0.get(&worker.address).filter(|_| worker.ask_sources)?;
        let named = |rank: u32| sources.iter().any(|source| source.rank == rank);
        let missing: Vec<u32> = worker.ranks.iter().filter_map(|rank| rank.rank.filter(|rank| !named(*rank))).collect();
        let all: Vec<u32> = sources.iter().map(|source| source.rank).collect();
        (!missing.is_empty()).then(|| {
            format!(
                "ranks {missing:?} are configured, the engine publishes for {all:?}: correct `ranks` and `first_rank`"
            )
        })
    }
}

/// Ranks that are configured get their sockets; when none are, the engine's ranks are taken.
fn complete(ranks: &[RankSpec], sources: &[EventSource]) -> Vec<RankSpec> {
    let spec = |rank, source: Option<&EventSource>| RankSpec { rank, events: source.map(feed) };
    if ranks.iter().all(|rank| rank.rank.is_none()) {
        return match sources {
            [only] => vec![spec(None, Some(only))],
            several => several.iter().map(|source| spec(Some(source.rank), Some(source))).collect(),
        };
    }
    let of = |rank| sources.iter().find(|source| Some(source.rank) == rank);
    ranks.iter().map(|rank| spec(rank.rank, of(rank.rank))).collect()
}

fn feed(source: &EventSource) -> EventFeed {
    let EventSource { rank: _, endpoint, replay, topic, bind, page_tokens: _ } = source.clone();
    EventFeed::Socket(EventStream { endpoint, replay, topic, bind })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::test_worker;

    fn source(rank: u32) -> EventSource {
        EventSource {
            rank,
            endpoint: format!("tcp://10.0.0.1:{}", 5557 + rank),
            replay: None,
            topic: "kv".into(),
            bind: false,
            page_tokens: None,
        }
    }

    fn worker(ranks: Vec<Option<u32>>) -> WorkerSpec {
        let ranks = ranks.into_iter().map(|rank| RankSpec { rank, events: None }).collect();
        WorkerSpec { ranks, ask_sources: true, ..test_worker("10.0.0.1:80") }
    }

    fn ranks(worker: &WorkerSpec) -> Vec<(Option<u32>, Option<String>)> {
        let endpoint = |feed: &EventFeed| match feed {
            EventFeed::Socket(stream) => stream.endpoint.clone(),
            EventFeed::Polled { url } => url.clone(),
        };
        worker.ranks.iter().map(|rank| (rank.rank, rank.events.as_ref().map(endpoint))).collect()
    }

    #[test]
    fn an_engine_with_one_rank_needs_no_rank_header() {
        let mut sources = Sources::default();
        let worker = worker(vec![None]);
        assert_eq!(ranks(&sources.complete(&worker)), [(None, None)]);
        assert!(sources.learn(worker.address, vec![source(0)]) && !sources.learn(worker.address, vec![source(0)]));
        assert_eq!(ranks(&sources.complete(&worker)), [(None, Some("tcp://10.0.0.1:5557".into()))]);
        let fixed = WorkerSpec { ask_sources: false, ..worker };
        assert_eq!(ranks(&sources.complete(&fixed)), [(None, None)]);
    }

    #[test]
    fn ranks_come_from_the_engine_unless_they_are_configured() {
        let mut sources = Sources::default();
        let free = worker(vec![None]);
        sources.learn(free.address, vec![source(0), source(1)]);
        let named: Vec<_> = sources.complete(&free).ranks.into_iter().map(|rank| rank.rank).collect();
        assert_eq!(named, [Some(0), Some(1)]);
        assert_eq!(sources.missing(&free), None);

        let fixed = worker(vec![Some(1), Some(2)]);
        let second = Some("tcp://10.0.0.1:5558".to_owned());
        assert_eq!(ranks(&sources.complete(&fixed)), [(Some(1), second), (Some(2), None)]);
        assert!(sources.missing(&fixed).unwrap().contains("[2] are configured, the engine publishes for [0, 1]"));
        sources.retain(&[]);
        assert!(!sources.knows(fixed.address));
    }
}
