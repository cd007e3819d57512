//! The text of `/metrics`.

use std::fmt::Write as _;

use super::families::{DISTRIBUTIONS, SCALARS};
use super::{Histogram, RankMetrics};

/// What `/metrics` shows besides the ranks' numbers.
#[derive(Clone, Debug)]
pub struct ServerFacts {
    /// First served model name.
    pub model_name: String,
    /// Seconds since 1970 at start.
    pub started: f64,
    /// Tokens in a block.
    pub block_size: u32,
    /// Blocks over all ranks.
    pub num_blocks: u32,
    /// Longest prompt plus answer.
    pub max_model_len: u32,
    /// Answered HTTP requests by handler, method and status class.
    pub http_requests: Vec<(String, String, String, u64)>,
    /// Hand-overs between engines: name, help, count.
    pub transfers: Vec<(&'static str, &'static str, u64)>,
}

/// Prometheus text for all ranks.
pub fn render(facts: &ServerFacts, ranks: &[RankMetrics]) -> String {
    let mut out = String::new();
    head(&mut out, "process_start_time_seconds", "Start time, seconds since 1970.", "gauge");
    let _ = writeln!(out, "process_start_time_seconds {}", number(facts.started));
    for family in SCALARS {
        let kind = if family.counter { "counter" } else { "gauge" };
        head(&mut out, family.name, family.help, kind);
        for (rank, metrics) in ranks.iter().enumerate() {
            for (label, value) in (family.samples)(metrics) {
                sample(&mut out, family.name, &labels(facts, rank, label), value);
            }
        }
        if family.counter {
            let name = family.name.replace("_total", "_created");
            head(&mut out, &name, family.help, "gauge");
            for (rank, metrics) in ranks.iter().enumerate() {
                for (label, _) in (family.samples)(metrics) {
                    sample(&mut out, &name, &labels(facts, rank, label), facts.started);
                }
            }
        }
    }
    admission_rejections(&mut out, facts);
    for family in DISTRIBUTIONS {
        head(&mut out, family.name, family.help, "histogram");
        for (rank, metrics) in ranks.iter().enumerate() {
            distribution(&mut out, family.name, facts, rank, (family.histogram)(metrics));
        }
        let created = format!("{}_created", family.name);
        head(&mut out, &created, family.help, "gauge");
        for rank in 0..ranks.len() {
            sample(&mut out, &created, &labels(facts, rank, None), facts.started);
        }
    }
    cache_config(&mut out, facts, ranks.len());
    holds(&mut out, facts, ranks);
    http_requests(&mut out, facts);
    out
}

fn admission_rejections(out: &mut String, facts: &ServerFacts) {
    for (name, kind, value) in [
        ("vllm:admission_rejections_total", "counter", 0.0),
        ("vllm:admission_rejections_created", "gauge", facts.started),
    ] {
        head(out, name, "Requests refused for a full queue.", kind);
        for reason in ["max_num_queued_reqs", "max_num_queued_tokens"] {
            let labels = format!("model_name=\"{}\",reason=\"{reason}\"", escape(&facts.model_name));
            sample(out, name, &labels, value);
        }
    }
}

fn distribution(out: &mut String, name: &str, facts: &ServerFacts, rank: usize, histogram: &Histogram) {
    let model = escape(&facts.model_name);
    let mut bucket = |bound: &str, count: u64| {
        let labels = format!("engine=\"{rank}\",le=\"{bound}\",model_name=\"{model}\"");
        sample(out, &format!("{name}_bucket"), &labels, count as f64);
    };
    for (bound, count) in histogram.buckets() {
        bucket(&number(bound), count);
    }
    bucket("+Inf", histogram.count());
    let labels = labels(facts, rank, None);
    sample(out, &format!("{name}_count"), &labels, histogram.count() as f64);
    sample(out, &format!("{name}_sum"), &labels, histogram.sum());
}

fn cache_config(out: &mut String, facts: &ServerFacts, ranks: usize) {
    let name = "vllm:cache_config_info";
    head(out, name, "Cache configuration, as labels.", "gauge");
    let per_rank = u64::from(facts.num_blocks) / ranks.max(1) as u64;
    let tokens = per_rank * u64::from(facts.block_size);
    let concurrency = tokens as f64 / f64::from(facts.max_model_len.max(1));
    for rank in 0..ranks {
        let values = [
            ("_block_size_resolved", "True".to_owned()),
            ("block_size", facts.block_size.to_string()),
            ("cache_dtype", "auto".to_owned()),
            ("cache_hit_alignment_tokens", "None".to_owned()),
            ("effective_attention_block_size", facts.block_size.to_string()),
            ("enable_mamba_shared_prefix_checkpoint", "False".to_owned()),
            ("enable_prefix_caching", "True".to_owned()),
            ("engine", rank.to_string()),
            ("gpu_memory_utilization", "0.92".to_owned()),
            ("hash_block_size", "None".to_owned()),
            ("is_attention_free", "False".to_owned()),
            ("kv_cache_dtype_skip_layers", "[]".to_owned()),
            ("kv_cache_layout", "None".to_owned()),
            ("kv_cache_max_concurrency", number(concurrency)),
            ("kv_cache_memory_bytes", "None".to_owned()),
            ("kv_cache_size_tokens", tokens.to_string()),
            ("kv_offloading_backend", "native".to_owned()),
            ("kv_offloading_size", "None".to_owned()),
            ("kv_sharing_fast_prefill", "False".to_owned()),
            ("mamba_block_size", "None".to_owned()),
            ("mamba_cache_dtype", "auto".to_owned()),
            ("mamba_cache_mode", "none".to_owned()),
            ("mamba_page_size_padded", "None".to_owned()),
            ("mamba_ssm_cache_dtype", "auto".to_owned()),
            ("num_cpu_blocks", "None".to_owned()),
            ("num_gpu_blocks", facts.num_blocks.to_string()),
            ("num_gpu_blocks_override", per_rank.to_string()),
            ("prefix_cache_retention_interval", "0".to_owned()),
            ("prefix_caching_hash_algo", "sha256".to_owned()),
            ("prefix_match_unit", "None".to_owned()),
            ("replayssm_buffer_len", "16".to_owned()),
            ("skip_page_size_padded", "None".to_owned()),
            ("sliding_window", "None".to_owned()),
            ("swa_bounded_replay", "True".to_owned()),
            ("use_kda_recoverssm", "False".to_owned()),
            ("use_replayssm", "False".to_owned()),
            ("user_specified_block_size", "True".to_owned()),
        ];
        let labels: Vec<String> = values.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect();
        sample(out, name, &labels.join(","), 1.0);
    }
}

/// Blocks held for other engines: not in vLLM, hence names of our own.
fn holds(out: &mut String, facts: &ServerFacts, ranks: &[RankMetrics]) {
    type Value = fn(&RankMetrics) -> f64;
    let families: [(&str, &str, &str, Value); 4] = [
        ("mock:cached_blocks", "gauge", "Distinct blocks that can be hit.", |m| m.cached_blocks as f64),
        ("mock:held_requests", "gauge", "Prefills held for other engines.", |m| m.held_requests as f64),
        ("mock:held_blocks", "gauge", "Blocks held for other engines.", |m| m.held_blocks as f64),
        ("mock:held_expired_total", "counter", "Holds that nobody fetched in time.", |m| m.held_expired as f64),
    ];
    for (name, kind, help, value) in families {
        head(out, name, help, kind);
        for (rank, metrics) in ranks.iter().enumerate() {
            sample(out, name, &labels(facts, rank, None), value(metrics));
        }
    }
    for (name, help, count) in &facts.transfers {
        head(out, name, help, "counter");
        sample(out, name, &format!("model_name=\"{}\"", escape(&facts.model_name)), *count as f64);
    }
}

fn http_requests(out: &mut String, facts: &ServerFacts) {
    let name = "http_requests_total";
    head(out, name, "HTTP requests answered.", "counter");
    for (handler, method, status, count) in &facts.http_requests {
        let labels = format!("handler=\"{}\",method=\"{method}\",status=\"{status}\"", escape(handler));
        sample(out, name, &labels, *count as f64);
    }
}

fn head(out: &mut String, name: &str, help: &str, kind: &str) {
    let _ = writeln!(out, "# HELP {name} {help}\n# TYPE {name} {kind}");
}

fn sample(out: &mut String, name: &str, labels: &str, value: f64) {
    let _ = writeln!(out, "{name}{{{labels}}} {}", number(value));
}

/// `engine` and `model_name` with a further label in its alphabetical place, as the Python client sorts them.
fn labels(facts: &ServerFacts, rank: usize, further: Option<(&str, &str)>) -> String {
    let mut pairs = vec![("engine", rank.to_string()), ("model_name", escape(&facts.model_name))];
    if let Some((key, value)) = further {
        pairs.push((key, value.to_owned()));
        pairs.sort_by(|left, right| left.0.cmp(right.0));
    }
    pairs.iter().map(|(key, value)| format!("{key}=\"{value}\"")).collect::<Vec<_>>().join(",")
}

fn escape(value: &str) -> String {
    value.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// Always with a decimal point, as Python prints floats.
fn number(value: f64) -> String {
    format!("{value:?}")
}
