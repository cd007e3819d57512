//! What an engine's metrics say about its load, by data-parallel rank.

use std::collections::BTreeMap;

use super::names::{self, Capacity, MetricNames};
use super::prometheus::{Sample, samples};
use crate::config::EngineKind;

/// Load of one engine process.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct EngineLoad {
    /// By the rank its samples are labelled with; `None` for samples without such a label.
    pub ranks: BTreeMap<Option<u32>, RankLoad>,
    /// Start of the process, Unix seconds; a change means a restart.
    pub process_start: Option<f64>,
}

/// Load of one rank.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct RankLoad {
    /// Requests running.
    pub running: u32,
    /// Requests waiting.
    pub waiting: u32,
    /// Share of the cache in use, 0 to 1.
    pub kv_usage: f32,
    /// Tokens its cache can hold; 0 when unknown.
    pub capacity_tokens: u64,
    /// It sleeps: its cache is gone.
    pub asleep: bool,
}

impl EngineLoad {
    /// Reads the Prometheus text of an engine.
    pub fn parse(text: &str, engine: EngineKind) -> Self {
        let names = names::of(engine);
        let mut load = Self::default();
        let mut sizes: BTreeMap<Option<u32>, Sizes> = BTreeMap::new();
        for sample in samples(text, |name| wanted(names, name)) {
            if sample.name == names::PROCESS_START {
                load.process_start = Some(sample.value);
                continue;
            }
            let rank = sample.label(names.rank_label).and_then(|rank| rank.parse().ok());
            if sample.name == names::SLEEP {
                let is_awake = sample.label(names::SLEEP_LABEL) == Some("awake");
                load.ranks.entry(rank).or_default().asleep |= is_awake && sample.value == 0.0;
                continue;
            }
            if let Some(size) = Sizes::of(names, &sample) {
                sizes.entry(rank).or_default().merge(size);
                continue;
            }
            load.ranks.entry(rank).or_default().add(names, &sample);
        }
        let ranks = load.ranks.len().max(1) as u64;
        for (rank, size) in sizes {
            load.ranks.entry(rank).or_default().capacity_tokens = size.tokens(ranks);
        }
        load
    }

    /// Load of `rank`; of the whole process for `None`.
    pub fn of(&self, rank: Option<u32>) -> RankLoad {
        if rank.is_some() {
            return self.ranks.get(&rank).copied().unwrap_or_default();
        }
        self.ranks.values().fold(RankLoad::default(), |sum, rank| RankLoad {
            running: sum.running.saturating_add(rank.running),
            waiting: sum.waiting.saturating_add(rank.waiting),
            kv_usage: sum.kv_usage.max(rank.kv_usage),
            capacity_tokens: sum.capacity_tokens.saturating_add(rank.capacity_tokens),
            asleep: sum.asleep || rank.asleep,
        })
    }
}

impl RankLoad {
    fn add(&mut self, names: &MetricNames, sample: &Sample<'_>) {
        // Float to integer casts saturate, so hostile values end as 0 or the maximum.
        if names.running.contains(&sample.name) {
            self.running = self.running.saturating_add(sample.value as u32);
        } else if names.waiting.contains(&sample.name) {
            self.waiting = self.waiting.saturating_add(sample.value as u32);
        } else {
            self.kv_usage = self.kv_usage.max((sample.value as f32).clamp(0.0, 1.0));
        }
    }
}

fn wanted(names: &MetricNames, name: &str) -> bool {
    [names::PROCESS_START, names::SLEEP].contains(&name)
        || [names.running, names.waiting, names.usage].iter().any(|list| list.contains(&name))
        || match names.capacity {
            Capacity::Labels { name: info, .. } => name == info,
            Capacity::Tokens(tokens) => name == tokens,
            Capacity::Blocks { blocks, block_tokens } => name == blocks || name == block_tokens,
        }
}

/// What was said about the cache's size.
#[derive(Clone, Copy, Debug, Default)]
struct Sizes {
    tokens: Option<u64>,
    blocks: Option<u64>,
    block_tokens: Option<u64>,
    /// `blocks` counts those of every rank.
    blocks_of_all_ranks: bool,
}

impl Sizes {
    fn of(names: &MetricNames, sample: &Sample<'_>) -> Option<Self> {
        let value = Some(sample.value as u64);
        match names.capacity {
            Capacity::Labels { name, tokens, blocks, block_tokens } if sample.name == name => {
                let number = |label| sample.label(label).and_then(|text| text.parse().ok());
                Some(Self {
                    tokens: number(tokens),
                    blocks: number(blocks),
                    block_tokens: number(block_tokens),
                    blocks_of_all_ranks: true,
                })
            }
            Capacity::Tokens(name) if sample.name == name => Some(Self { tokens: value, ..Self::default() }),
            Capacity::Blocks { blocks, .. } if sample.name == blocks => Some(Self { blocks: value, ..Self::default() }),
            Capacity::Blocks { block_tokens, .. } if sample.name == block_tokens => {
                Some(Self { block_tokens: value, ..Self::default() })
            }
            _ => None,
        }
    }

    fn merge(&mut self, other: Self) {
        let Self { tokens, blocks, block_tokens, blocks_of_all_ranks } = other;
        self.tokens = tokens.or(self.tokens);
        self.blocks = blocks.or(self.blocks);
        self.block_tokens = block_tokens.or(self.block_tokens);
        self.blocks_of_all_ranks |= blocks_of_all_ranks;
    }

    fn tokens(self, ranks: u64) -> u64 {
        let of_blocks = || {
            let tokens = self.blocks?.checked_mul(self.block_tokens?)?;
            Some(if self.blocks_of_all_ranks { tokens / ranks } else { tokens })
        };
        self.tokens.or_else(of_blocks).unwrap_or(0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_real_vllm_page() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../tests/data/vllm-metrics.txt");
        let load = EngineLoad::parse(&std::fs::read_to_string(path).unwrap(), EngineKind::Vllm);
        assert_eq!(load.process_start, Some(1_796_050_817.44));
        assert_eq!(load.ranks.keys().copied().collect::<Vec<_>>(), [Some(0)]);
        assert_eq!(load.of(None).capacity_tokens, 65_536);
        assert_eq!(load.of(None), load.of(Some(0)));
        assert_eq!(load.of(Some(1)), RankLoad::default());
    }

    #[test]
    fn vllm_ranks_and_old_names() {
        let text = "vllm:num_requests_running{engine=\"0\"} 3\nvllm:num_requests_running{engine=\"1\"} 4\n\
            vllm:num_requests_waiting{engine=\"1\"} 2\nvllm:gpu_cache_usage_perc{engine=\"1\"} 0.5\n\
            vllm:num_requests_waiting_by_reason{engine=\"1\"} 9\n\
            vllm:cache_config_info{engine=\"0\",num_gpu_blocks=\"1000\",block_size=\"16\",kv_cache_size_tokens=\"None\"} 1\n";
        let load = EngineLoad::parse(text, EngineKind::Vllm);
        let unknown = RankLoad::default();
        assert_eq!(load.of(Some(0)), RankLoad { running: 3, capacity_tokens: 8000, ..unknown });
        assert_eq!(load.of(Some(1)), RankLoad { running: 4, waiting: 2, kv_usage: 0.5, ..unknown });
        assert_eq!((load.of(None).running, load.of(None).waiting), (7, 2));
    }

    #[test]
    fn an_engine_that_sleeps() {
        let state = |rank: u32, awake: u32| {
            format!(
                "vllm:engine_sleep_state{{engine=\"{rank}\",sleep_state=\"awake\"}} {awake}\n\
                 vllm:engine_sleep_state{{engine=\"{rank}\",sleep_state=\"discard_all\"}} 0\n\
                 vllm:engine_sleep_state{{engine=\"{rank}\",sleep_state=\"weights_offloaded\"}} {}\n",
                1 - awake
            )
        };
        let load = EngineLoad::parse(&(state(0, 1) + &state(1, 0)), EngineKind::Vllm);
        assert_eq!([Some(0), Some(1), None].map(|rank| load.of(rank).asleep), [false, true, true]);
    }

    #[test]
    fn other_engines() {
        let sglang = "sglang:num_running_reqs{dp_rank=\"1\"} 2\nsglang:num_queue_reqs{dp_rank=\"1\"} 5\n\
            sglang:token_usage{dp_rank=\"1\"} 0.25\nsglang:max_total_num_tokens{dp_rank=\"1\"} 4096\n";
        let expected = RankLoad { running: 2, waiting: 5, kv_usage: 0.25, capacity_tokens: 4096, asleep: false };
        assert_eq!(EngineLoad::parse(sglang, EngineKind::Sglang).of(Some(1)), expected);
        let trtllm = "trtllm_num_requests_running 2\ntrtllm_num_requests_waiting 5\ntrtllm_kv_cache_utilization 0.25\n\
            trtllm_kv_cache_max_blocks 128\ntrtllm_kv_cache_tokens_per_block 32\n";
        assert_eq!(EngineLoad::parse(trtllm, EngineKind::Trtllm).of(None), expected);
    }

    #[test]
    fn hostile_values_saturate() {
        let text = "vllm:num_requests_running -5\nvllm:num_requests_waiting 1e300\nvllm:kv_cache_usage_perc 7\n";
        let load = EngineLoad::parse(text, EngineKind::Vllm).of(None);
        assert_eq!((load.running, load.waiting, load.kv_usage), (0, u32::MAX, 1.0));
    }
}
